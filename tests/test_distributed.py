"""Facts about the distributed pretraining job: several workers learn what one process learns, also after a crash."""

import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from utils.data.bpe import train_bpe
from utils.training import distributed, pretraining, workers
from utils.training.distributed import CHECKPOINT, TEXT, Job, RunError, main, prepare_text, read, run, trained
from utils.training.pretraining import Corpus, Objective, held_out_losses, sample_windows
from utils.training.trainer import IGNORE_INDEX
from utils.training.workers import torchrun, try_one_and_two

# All sizes differ, and two workers cannot share the batch evenly.
JOB = Job(
    num_steps=10,
    dim=24,
    num_heads=3,
    hidden_dim=40,
    num_layers=1,
    length=12,
    batch_size=7,
    vocab_size=150,
    learning_rate=1e-2,
)
QUIET = {"every": 4, "say": str}


@pytest.fixture(scope="module")
def text():
    """A short text in place of the docstrings."""
    said = [f"{who} {does} the {what} number {n}" for n in range(40) for who in ("it", "he") for does in ("reads", "has")
            for what in ("file", "list", "book")]  # fmt: skip
    tokenizer = train_bpe(said, JOB.vocab_size)
    train, held_out = (pretraining._token_stream(tokenizer, part) for part in (said[:300], said[300:340]))
    return Corpus(tokenizer, train, held_out[:130].unfold(0, JOB.length + 1, JOB.length))


@pytest.fixture
def place(tmp_path, text, monkeypatch):
    """A folder for a run, in a process that reads the short text."""
    monkeypatch.setattr(distributed, "corpus", lambda *_: text)
    monkeypatch.setattr(pretraining, "corpus", lambda *_: text)
    return tmp_path / "run"


def with_text(job, folder):
    """The folder with the short text in it, for workers in other processes."""
    prepare_text(job, folder)
    return folder


class Crash(Exception):
    pass


def crash_at(step):
    def say(line):
        if line.startswith(f"step {step} "):
            raise Crash

    return say


def crashed(job, folder):
    """A run that crashes at step 8, before its checkpoint is written: that of step 4 remains."""
    with pytest.raises(Crash):
        run(job, folder, every=4, say=crash_at(8))
    assert read(folder / CHECKPOINT)["step"] == 4


@pytest.mark.parametrize("objective", pretraining.OBJECTIVES)
def test_one_process_learns_what_pretrain_learns(objective, place):
    job = replace(JOB, objective=objective, num_steps=6)
    expected, found = pretraining.pretrain.__wrapped__(**asdict(job)), run(job, place, **QUIET)
    assert found["held_out"] == pytest.approx(expected["held_out"], rel=1e-4)
    assert found["unigram"] == pytest.approx(expected["unigram"], rel=1e-4)
    if objective != "spans":  # `pretrain` leaves the sentinels out of the losses that it reports
        torch.testing.assert_close(found["loss"], expected["loss"], atol=1e-5, rtol=0)


def test_two_workers_of_which_one_is_killed_learn_what_one_process_learns(place, tmp_path):
    alone = run(JOB, place, **QUIET)["loss"]
    folder = with_text(JOB, tmp_path / "two")
    said = torchrun(JOB, folder, every=4, kill_at=6)
    torch.testing.assert_close(read(folder / CHECKPOINT)["losses"], alone, atol=1e-5, rtol=0)
    assert [line.rpartition(", ")[2] for line in said if "workers: 2" in line] == ["starts", "resumes at step 4"]
    assert sum(line.startswith("step 4 ") for line in said) == 1  # what the checkpoint holds is not trained again


def test_three_workers_learn_the_same_also_if_one_has_nothing_to_predict(place, tmp_path, text):
    job = replace(JOB, length=3, batch_size=3, num_steps=6, seed=1)
    alone = run(job, place, **QUIET)["loss"]
    folder = with_text(job, tmp_path / "three")
    torchrun(job, folder, workers=3)
    torch.testing.assert_close(read(folder / CHECKPOINT)["losses"], alone, atol=1e-5, rtol=0)
    generator, objective = (
        torch.Generator().manual_seed(10_000 + job.seed),
        Objective(job.objective, len(text.tokenizer)),
    )
    drawn = [objective.corrupt(sample_windows(text.train, 4, 3, generator), generator)[1] for _ in range(job.num_steps)]
    predicted = [(targets != IGNORE_INDEX).sum(1).tolist() for targets in drawn]
    assert any(0 in row and len(set(row)) == 3 for row in predicted)  # so a mean of means would have been noticed


def test_a_run_in_a_process_group_leaves_no_thread_of_it_behind(place, tmp_path):
    """A thread that outlives the group can abort the process at its exit. Linux names the threads; elsewhere none are seen."""
    alone = run(JOB, place, **QUIET)["loss"]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        found = run(JOB, tmp_path / "group", **QUIET)["loss"]
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)
    names = [task.read_text(encoding="utf-8") for task in Path("/proc/self/task").glob("*/comm")]
    assert not [name for name in names if "gloo" in name]


@pytest.mark.parametrize("objective", pretraining.OBJECTIVES)
def test_a_run_that_crashed_resumes_to_the_same_model_to_the_last_bit(objective, place, tmp_path):
    job = replace(JOB, objective=objective)
    crashed(job, place)
    assert torch.equal(run(job, place, **QUIET)["loss"], run(job, tmp_path / "whole", **QUIET)["loss"])
    resumed, whole = (trained(folder).model.state_dict() for folder in (place, tmp_path / "whole"))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_the_checkpoint_holds_the_trained_model_and_a_finished_run_trains_no_more(place, text, monkeypatch):
    found = run(JOB, place, **QUIET)
    loaded = trained(place)
    assert held_out_losses(loaded.model, text, Objective("masked", len(text.tokenizer)))[0] == found["held_out"]
    monkeypatch.setattr(distributed, "sample_windows", lambda *_: pytest.fail("it trains"))
    assert run(JOB, place, **QUIET)["held_out"] == found["held_out"]


def flip(data):
    """Change 128 bytes in the middle, more than an archive pads with."""
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 1 for byte in data[middle : middle + 128]) + data[middle + 128 :]


@pytest.mark.parametrize("damage", [lambda data: data[:-100], flip, lambda data: b""], ids=["torn", "flipped", "empty"])
@pytest.mark.parametrize("name", [CHECKPOINT, TEXT])
def test_a_damaged_file_is_named_and_the_run_does_not_silently_start_again(name, damage, place):
    crashed(JOB, place)
    (place / name).write_bytes(damage((place / name).read_bytes()))
    with pytest.raises(RunError, match=rf"{name} is damaged or missing .*Remove it to start again"):
        run(JOB, place, **QUIET)


def test_a_process_killed_while_it_writes_leaves_the_checkpoint_that_was_there(place, monkeypatch):
    crashed(JOB, place)

    def half(content, path):
        path.write_bytes(b"half")
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(torch, "save", half)
        run(JOB, place, **QUIET)
    assert read(place / CHECKPOINT)["step"] == 4


def test_other_settings_than_those_of_the_checkpoint_are_refused(place, capsys):
    crashed(JOB, place)
    with pytest.raises(RunError, match="belongs to a run with num_steps 10, batch_size 7; use those settings"):
        run(replace(JOB, num_steps=20, batch_size=8), place, **QUIET)
    assert main([f"--folder={place}", "--seed=5"]) == 1
    assert "error: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--objective=maked"])


def test_workers_that_cannot_start_say_why_and_the_lesson_continues(place, monkeypatch, capsys):
    with pytest.raises(RunError, match="error: expected a batch of at least 2, a sequence for each worker, got 1"):
        torchrun(replace(JOB, batch_size=1), place, restarts=0)
    monkeypatch.setattr(workers, "one_and_two", lambda job: torchrun(job, place, restarts=0, seconds=0.01))
    assert try_one_and_two() is None
    assert "the lesson continues without them: the workers did not finish within 0.01 s" in capsys.readouterr().out


def test_workers_that_hang_are_ended(place):
    with pytest.raises(RunError, match="did not finish"):
        torchrun(replace(JOB, num_steps=10**6), with_text(replace(JOB, num_steps=10**6), place), seconds=10)
    end, running = time.monotonic() + 20, True
    while running and time.monotonic() < end:  # a process that was ended may take a moment
        running = any(str(place) in " ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"]))
    assert not running
