"""Facts about the lesson's two workers: what is shown is what one process learns, also after a kill, and nothing is left running."""

import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
import torch

from utils.training import workers
from utils.training.distributed import RunError
from utils.training.workers import SHORT, furthest_apart, killed_once, lines_of_progress, one_and_two, try_one_and_two

SMALL = replace(SHORT, steps=60, dim=16, hidden=32, layers=1, pieces=300, texts=60)


@pytest.fixture(scope="module")
def found():
    return one_and_two.__wrapped__(SMALL, every=10)


def test_two_workers_of_which_one_was_killed_learn_what_one_process_learns(found):
    assert len(found["alone"]) == len(found["together"]) == SMALL.steps
    assert 0 < furthest_apart(found) < 1e-4


def test_the_worker_was_killed_on_the_way_and_the_run_went_on_from_a_checkpoint(found):
    lines = lines_of_progress(found["said"])
    assert 0 < found["killed"] < SMALL.steps
    assert lines[0].endswith("begins")
    assert any("resumes at step" in line and "restart" in line for line in lines)
    assert lines[-1].startswith(f"step {SMALL.steps} of {SMALL.steps}")


def test_lines_of_progress_tell_no_place_speed_or_process():
    said = [
        "causal, 9 steps, 8 fragments each: begins, in /some/where/else",
        "workers: 2 (process 12 on there, 13 on there)",
        "step 5 of 9   loss 5.1234   9,876 pieces/s",
        "causal, 9 steps, 8 fragments each: resumes at step 5, in /some/where/else (restart 1)",
        "W1116 something of the launcher's",
    ]
    assert lines_of_progress(said) == [
        "causal, 9 steps, 8 fragments each: begins",
        "step 5 of 9   loss 5.1234",
        "causal, 9 steps, 8 fragments each: resumes at step 5 (restart 1)",
    ]


def test_a_command_that_fails_is_told_in_one_sentence(tmp_path):
    with pytest.raises(RunError, match="did not come to their end here: .*no such luck"):
        killed_once([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path, 60)


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path):
    child = "import time; time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}, 'of the test of workers'])"
    with pytest.raises(RunError):
        killed_once([sys.executable, "-c", parent], tmp_path, 2)
    left = [one for one in psutil.process_iter(["cmdline"]) if "of the test of workers" in (one.info["cmdline"] or [])]
    assert all(ended(one) for one in left)


def ended(process, seconds=20):
    """A process that was killed may take a moment, and one that nobody waits for stays in the list."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_a_worker_is_found_by_its_rank_and_only_among_the_children():
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    launcher = subprocess.Popen(
        [sys.executable, "-c", f"import os, subprocess; subprocess.run({sleeper!r}, env={{**os.environ, 'RANK': '1'}})"]
    )
    try:
        end, found = time.monotonic() + 30, None
        while found is None and time.monotonic() < end:
            found = workers.worker(launcher.pid, 1)
        assert found is not None and workers.worker(launcher.pid, 0) is None
    finally:
        workers.stop_all(launcher)
    assert workers.worker(launcher.pid, 1) is None
    assert ended(found)


def test_without_workers_the_lesson_is_told_so_and_goes_on(monkeypatch, capsys):
    def fails(job):
        raise RunError("no gloo")

    monkeypatch.setattr(workers, "one_and_two", fails)
    assert try_one_and_two() is None
    assert "goes on without them. no gloo" in capsys.readouterr().out


def test_losses_that_part_are_seen():
    one = torch.tensor([2.0, 4.0])
    assert furthest_apart({"alone": one, "together": one * torch.tensor([1.0, 1.25])}) == 0.25
