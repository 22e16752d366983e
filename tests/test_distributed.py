"""Facts about the distributed pretraining job: several workers learn what one process learns, also after a crash."""

import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from utils.data.bpe import train_bpe
from utils.training import distributed, pretraining
from utils.training.distributed import (
    CHECKPOINT,
    TEXT,
    Job,
    RunError,
    main,
    prepare_text,
    read,
    run,
    torchrun,
    trained,
    try_compare_workers,
)
from utils.training.pretraining import Corpus, Objective, held_out_losses, sample_windows
from utils.training.trainer import IGNORE_INDEX

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
QUIET = {"every": 4, "log": str}


@pytest.fixture(scope="module")
def text():
    """A short text in place of the docstrings."""
    texts = [f"{who} {does} the {what} number {n}" for n in range(40) for who in ("it", "he") for does in ("reads", "has")
            for what in ("file", "list", "book")]  # fmt: skip
    tokenizer = train_bpe(texts, JOB.vocab_size)
    train, held_out = (pretraining._token_stream(tokenizer, part) for part in (texts[:300], texts[300:340]))
    return Corpus(tokenizer, train, held_out[:130].unfold(0, JOB.length + 1, JOB.length))


@pytest.fixture
def folder(tmp_path, text, monkeypatch):
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
    def log(line):
        if line.startswith(f"step {step} "):
            raise Crash

    return log


def crashed(job, folder):
    """A run that crashes at step 8, before its checkpoint is written: that of step 4 remains."""
    with pytest.raises(Crash):
        run(job, folder, every=4, log=crash_at(8))
    assert read(folder / CHECKPOINT)["step"] == 4


@pytest.mark.parametrize("objective", pretraining.OBJECTIVES)
def test_one_process_learns_what_pretrain_learns(objective, folder):
    job = replace(JOB, objective=objective, num_steps=6)
    expected, result = pretraining.pretrain.__wrapped__(**asdict(job)), run(job, folder, **QUIET)
    assert result["held_out"] == pytest.approx(expected["held_out"], rel=1e-4)
    assert result["unigram"] == pytest.approx(expected["unigram"], rel=1e-4)
    if objective == "causal":  # of the others `pretrain` reports the losses at some of the predicted tokens only
        torch.testing.assert_close(result["loss"], expected["loss"], atol=1e-5, rtol=0)


def test_two_workers_of_which_one_is_killed_learn_what_one_process_learns(folder, tmp_path):
    alone = run(JOB, folder, **QUIET)["loss"]
    shared = with_text(JOB, tmp_path / "two")
    lines = torchrun(JOB, shared, every=4, kill_at=6)
    torch.testing.assert_close(read(shared / CHECKPOINT)["losses"], alone, atol=1e-5, rtol=0)
    assert [line.rpartition(", ")[2] for line in lines if "workers: 2" in line] == ["starts", "resumes at step 4"]
    assert sum(line.startswith("step 4 ") for line in lines) == 1  # what the checkpoint holds is not trained again


def test_three_workers_learn_the_same_also_if_one_has_nothing_to_predict(folder, tmp_path, text):
    job = replace(JOB, length=3, batch_size=3, num_steps=6, seed=1)
    alone = run(job, folder, **QUIET)["loss"]
    shared = with_text(job, tmp_path / "three")
    torchrun(job, shared, workers=3)
    torch.testing.assert_close(read(shared / CHECKPOINT)["losses"], alone, atol=1e-5, rtol=0)
    generator = torch.Generator().manual_seed(10_000 + job.seed)
    objective = Objective(job.objective, len(text.tokenizer))
    drawn = [objective.corrupt(sample_windows(text.train, 4, 3, generator), generator)[1] for _ in range(job.num_steps)]
    predicted = [(targets != IGNORE_INDEX).sum(1).tolist() for targets in drawn]
    assert any(0 in row and len(set(row)) == 3 for row in predicted)  # so a mean of means would have been noticed


def test_a_run_in_a_process_group_leaves_no_thread_of_it_behind(folder, tmp_path):
    """A thread that outlives the group can abort the process at its exit. Linux names the threads; elsewhere none are seen."""
    alone = run(JOB, folder, **QUIET)["loss"]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        losses = run(JOB, tmp_path / "group", **QUIET)["loss"]
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(losses, alone, atol=1e-5, rtol=0)
    names = [task.read_text(encoding="utf-8") for task in Path("/proc/self/task").glob("*/comm")]
    assert not [name for name in names if "gloo" in name]


@pytest.mark.parametrize("objective", pretraining.OBJECTIVES)
def test_a_run_that_crashed_resumes_to_the_same_model_to_the_last_bit(objective, folder, tmp_path):
    job = replace(JOB, objective=objective)
    crashed(job, folder)
    assert torch.equal(run(job, folder, **QUIET)["loss"], run(job, tmp_path / "whole", **QUIET)["loss"])
    resumed, whole = (trained(path).model.state_dict() for path in (folder, tmp_path / "whole"))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_the_checkpoint_holds_the_trained_model_and_a_finished_run_trains_no_more(folder, text, monkeypatch):
    result = run(JOB, folder, **QUIET)
    loaded = trained(folder)
    assert held_out_losses(loaded.model, text, Objective("masked", len(text.tokenizer)))[0] == result["held_out"]
    monkeypatch.setattr(distributed, "sample_windows", lambda *_: pytest.fail("it trains"))
    assert run(JOB, folder, **QUIET)["held_out"] == result["held_out"]


def flip(data):
    """Change 128 bytes in the middle, more than an archive pads with."""
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 1 for byte in data[middle : middle + 128]) + data[middle + 128 :]


@pytest.mark.parametrize("damage", [lambda data: data[:-100], flip, lambda data: b""], ids=["torn", "flipped", "empty"])
@pytest.mark.parametrize("name", [CHECKPOINT, TEXT])
def test_a_damaged_file_is_named_and_the_run_does_not_silently_start_again(name, damage, folder):
    crashed(JOB, folder)
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with pytest.raises(RunError, match=rf"{name} is damaged or missing .*Remove it to start again"):
        run(JOB, folder, **QUIET)


def test_a_process_killed_while_it_writes_leaves_the_checkpoint_that_was_there(folder, monkeypatch):
    crashed(JOB, folder)

    def half(content, path):
        path.write_bytes(b"half")
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(torch, "save", half)
        run(JOB, folder, **QUIET)
    assert read(folder / CHECKPOINT)["step"] == 4


def test_other_settings_than_those_of_the_checkpoint_are_refused(folder, capsys):
    crashed(JOB, folder)
    with pytest.raises(RunError, match="belongs to a run with num_steps 10, batch_size 7; use those settings"):
        run(replace(JOB, num_steps=20, batch_size=8), folder, **QUIET)
    assert main([f"--folder={folder}", "--seed=5"]) == 1
    assert "error: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--objective=maked"])


def test_workers_that_cannot_start_say_why_and_the_lesson_continues(folder, monkeypatch, capsys):
    with pytest.raises(RunError, match="error: expected a batch of at least 2, a sequence for each worker, got 1"):
        torchrun(replace(JOB, batch_size=1), folder, restarts=0)
    monkeypatch.setattr(distributed, "compare_workers", lambda: torchrun(JOB, folder, restarts=0, seconds=0.01))
    assert try_compare_workers() is None
    assert "the lesson continues without them: the workers did not finish within 0.01 s" in capsys.readouterr().out


def test_workers_that_hang_are_ended(folder):
    with pytest.raises(RunError, match="did not finish"):
        torchrun(replace(JOB, num_steps=10**6), with_text(replace(JOB, num_steps=10**6), folder), seconds=10)
    end, running = time.monotonic() + 20, True
    while running and time.monotonic() < end:  # a process that was ended may take a moment
        running = any(
            str(folder) in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
        )
    assert not running
