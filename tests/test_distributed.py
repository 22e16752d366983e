"""Facts about one training job in one process and in several, and about runs that are killed."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import filelock
import pytest
import torch
import torch.distributed as dist

from tests.distributed_driver import stopped_run
from utils.data.subwords import train_subwords
from utils.training import distributed, pretraining
from utils.training.distributed import (
    MODULE,
    NOT_ASKED,
    TEXT,
    Job,
    RunError,
    Team,
    checkpoints,
    command,
    draw_batch,
    main,
    prepare_text,
    read_tensors,
    run,
    team,
    write_tensors,
)
from utils.training.pretraining import Corpus, restore_pretrained
from utils.training.stored_encoder import stored_encoder

ROOT = Path(__file__).resolve().parents[1]
# All sizes differ, and neither 2 nor 3 workers can share the batch evenly.
JOB = Job(steps=10, dim=24, heads=3, hidden=40, layers=1, length=12, batch=7, pieces=150, rate=1e-2)
DOUBLE = replace(JOB, double=True)
OPTIONS = {"every": 4, "report": 5}
JOBS = {
    "masked": JOB,
    "masked double": DOUBLE,
    "causal double": replace(DOUBLE, objective="causal", steps=5, seed=1),
    "spans double": replace(DOUBLE, objective="spans", steps=5, batch=5),
    "few asked double": replace(DOUBLE, share=0.03, steps=6, batch=4),
}


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """A short text in place of the library's: no worker reads docstrings here."""
    said = [f"{who} {does} the {what} number {n}" for n in range(40) for who in ("it", "he") for does in ("reads", "has", "sees")
            for what in ("file", "list")]  # fmt: skip
    subwords = train_subwords(said, JOB.pieces)
    train, held_out = (pretraining._stream(subwords, some) for some in (said[:300], said[300:340]))
    text = Corpus(subwords, train, held_out[:130].unfold(0, JOB.length + 1, JOB.length))
    folder = tmp_path_factory.mktemp("text")
    prepare_with(text, folder)
    return folder / TEXT


def prepare_with(text, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "corpus", lambda **_: text)
        return prepare_text(JOB, folder)


@pytest.fixture
def place(tmp_path, text_file):
    return with_text(tmp_path / "run", text_file)


def with_text(folder, text_file):
    folder.mkdir(parents=True)
    shutil.copy(text_file, folder)
    return folder


@pytest.fixture(scope="session")
def alone(tmp_path_factory, text_file):
    """The result of each job in this process, by its name."""
    return {
        name: run(job, with_text(tmp_path_factory.mktemp("alone") / "run", text_file), **OPTIONS, say=str)
        for name, job in JOBS.items()
    }


def start(*arguments, expect=0):
    """Run a command from the checkout, on this machine only."""
    own = {
        name: value for name, value in os.environ.items() if not re.match("RANK|WORLD_SIZE|MASTER_|TORCHELASTIC", name)
    }
    own |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(one) for one in arguments], cwd=ROOT, env=own, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def torchrun(workers, *arguments, restarts=0):
    options = ["--standalone", f"--nproc_per_node={workers}", f"--max-restarts={restarts}"]
    return start(sys.executable, "-m", "torch.distributed.run", *options, *arguments)


@pytest.fixture(scope="session")
def two(tmp_path_factory, text_file):
    """The folder of a job that two workers did, and what worker 0 said."""
    folder = with_text(tmp_path_factory.mktemp("two") / "run", text_file)
    return folder, start(*command(JOB, folder, 2, **OPTIONS))


@pytest.fixture(scope="session")
def three(tmp_path_factory, text_file):
    """The folder in which three workers did all jobs, and the first one a second time with a stop behind step 5."""
    folder = tmp_path_factory.mktemp("three")
    todo = [{"name": name, "job": asdict(job)} for name, job in JOBS.items()]
    todo.append(
        {"name": "stopped", "job": asdict(JOB), "stop": 1 + 6}
    )  # the first batch of several workers does not count
    for one in todo:
        with_text(folder / one["name"], text_file)
    (folder / "jobs.json").write_text(json.dumps(todo), encoding="utf-8")
    torchrun(3, "-m", "tests.distributed_driver", "several", folder)
    return folder


def last(folder):
    """Everything in the last checkpoint."""
    return read_tensors(next(iter(checkpoints(folder).values())))[0]


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def assert_close(state, other, tolerance):
    """Key biases are compared in 64 bits only. Their gradient is exactly 0: the same number added to all scores of a query changes
    no weight. What 32 bits leave of it is rounding, which the optimiser scales up to a step like any other."""
    assert state.keys() == other.keys()
    for name, value in state.items():
        difference = (value - other[name]).abs()
        if value.dtype == torch.float32 and name.endswith("attention.project.bias"):
            difference[JOB.dim : 2 * JOB.dim] = 0
        assert difference.max() <= tolerance, name


# One process


@pytest.mark.parametrize("objective", ["masked", "causal", "spans"])
def test_alone_it_learns_what_pretrain_learns(objective, place, text_file, monkeypatch):
    tensors, about = read_tensors(text_file)
    text = Corpus(distributed.Subwords.from_text(about["subwords"]), tensors["train"], tensors["held_out"])
    monkeypatch.setattr(pretraining, "corpus", lambda *_: text)
    job = replace(JOB, objective=objective, steps=6)
    settings = {name: value for name, value in asdict(job).items() if name != "double"}
    expected = pretraining.pretrain.__wrapped__(**settings)
    found = run(job, place, **OPTIONS, say=str)
    assert_close(found["state"], expected["state"], 1e-5)
    torch.testing.assert_close(found["loss"].float(), expected["loss"], atol=1e-5, rtol=0)
    for name in ("held_out", "unigram", "perplexity"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4)
    assert {name: found[name] for name in ("settings", "parameters", "read", "length", "subwords")} == {
        name: expected[name] for name in ("settings", "parameters", "read", "length", "subwords")
    }


def test_the_folder_holds_the_model_that_was_trained(place):
    found = run(JOB, place, **OPTIONS, say=str)
    stored = restore_pretrained(stored_encoder(place))
    assert_same(dict(stored.model.state_dict()), found["state"])
    assert list(checkpoints(place)) == [10, 8]
    assert stored.objective == "masked" and stored.length == JOB.length


def test_the_text_is_read_once(place, text_file, monkeypatch):
    monkeypatch.setattr(distributed, "corpus", lambda **_: pytest.fail("the text was read again"))
    assert torch.equal(prepare_text(JOB, place).train, read_tensors(text_file)[0]["train"])
    with pytest.raises(pytest.fail.Exception):
        prepare_text(replace(JOB, texts=3), place)  # another text


# Several workers


@pytest.mark.parametrize("batch", [3, 7, 8, 12])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_workers_share_the_rows_of_a_batch_evenly_and_leave_none_out(batch, size):
    shares = [list(range(batch))[Team(rank, size).rows(batch)] for rank in range(size)]
    assert sum(shares, []) == list(range(batch))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_two_workers_under_torchrun_learn_the_same_as_one_process(two, alone):
    folder, said = two
    found = stored_encoder(folder)
    assert_close(found["state"], alone["masked"]["state"], 1e-5)
    torch.testing.assert_close(last(folder)["losses"], alone["masked"]["loss"], atol=1e-5, rtol=0)
    assert found["held_out"] == pytest.approx(alone["masked"]["held_out"], rel=1e-4)
    assert "workers: 2" in said and said.count("step 5 of 10") == 1


def test_the_loss_that_is_told_is_that_of_the_whole_batch(two, alone):
    told = [float(loss) for loss in re.findall(r"loss (\S+)   [\d,]+ pieces/s", two[1])]
    losses = alone["masked"]["loss"]
    assert told == pytest.approx([losses[:5].mean().item(), losses[5:].mean().item()], abs=1e-4)


@pytest.mark.parametrize("name", JOBS)
def test_three_workers_learn_the_same_as_one_process(name, three, alone):
    found = last(three / name)
    parameters = {key.removeprefix("model."): value for key, value in found.items() if key.startswith("model.")}
    expected = {key: value for key, value in alone[name]["state"].items() if key in parameters}
    assert_close(parameters, expected, 1e-10 if JOBS[name].double else 1e-5)
    torch.testing.assert_close(found["losses"], alone[name]["loss"], atol=1e-10 if JOBS[name].double else 1e-5, rtol=0)


def asked_by_worker(job, text_file, workers=3):
    """For each step, at how many places each worker is asked."""
    train, generator = read_tensors(text_file)[0]["train"], torch.Generator().manual_seed(10_000 + job.seed)
    for _ in range(job.steps):
        asked = draw_batch(job, train, job.pieces, generator)[1] != NOT_ASKED
        yield [asked[Team(rank, workers).rows(job.batch)].sum().item() for rank in range(workers)]


def test_the_jobs_above_have_workers_that_are_asked_more_and_less_than_others_and_some_that_are_not_asked(text_file):
    """So a mean of the workers' means would be another loss, and would have been noticed."""
    assert all(len(set(asked)) > 1 for asked in asked_by_worker(JOBS["masked double"], text_file))
    few = list(asked_by_worker(JOBS["few asked double"], text_file))
    assert any(0 in asked and sum(asked) for asked in few)


def test_workers_that_were_given_different_settings_all_say_so(three):
    told = {(three / f"disagree-{rank}.txt").read_text(encoding="utf-8") for rank in range(3)}
    assert len(told) == 1 and re.search(r"worker 0 on \S+ has seed 0, and worker 1 on \S+ has seed 1", told.pop())


def test_another_number_of_workers_can_go_on(three, alone, tmp_path):
    folder = shutil.copytree(three / "masked double", tmp_path / "run")
    checkpoints(folder)[10].unlink()
    said = []
    found = run(DOUBLE, folder, **OPTIONS, say=said.append)
    assert "resumes at step 8" in said[0]
    assert_close(found["state"], alone["masked double"]["state"], 1e-10)


# Killed and resumed


def test_a_worker_is_killed_and_torchrun_goes_on_as_if_it_had_not_been(two, tmp_path, text_file):
    folder, mark = with_text(tmp_path / "run", text_file), tmp_path / "killed"
    given = command(JOB, folder, **OPTIONS)[3:]
    said = torchrun(2, "-m", "tests.distributed_driver", "killed", mark, 1 + 7, *given, restarts=1)
    assert mark.exists()
    assert "begins" in said and "resumes at step 4" in said and "(restart 1)" in said
    assert_same(last(folder), last(two[0]))


def test_three_workers_that_were_stopped_learn_the_same_to_the_last_bit(three):
    assert_same(last(three / "stopped"), last(three / "masked"))


def test_a_process_that_was_killed_goes_on_when_it_is_started_again(place, tmp_path, alone):
    given = command(JOB, place, **OPTIONS)[3:]
    mark = tmp_path / "killed"
    start(sys.executable, "-m", "tests.distributed_driver", "killed", mark, 7, *given, expect=-signal.SIGKILL)
    assert list(checkpoints(place)) == [4]
    found = run(JOB, place, **OPTIONS, say=str)
    assert_same(found["state"], alone["masked"]["state"])
    assert torch.equal(found["loss"], alone["masked"]["loss"])


@pytest.mark.parametrize("objective", ["masked", "causal", "spans"])
def test_a_run_that_was_stopped_twice_is_the_same_to_the_last_bit(objective, place, tmp_path, text_file):
    job = replace(JOB, objective=objective)
    stopped_run(6, job, place, **OPTIONS, say=str)
    stopped_run(5, job, place, **OPTIONS, say=str)
    assert list(checkpoints(place)) == [8, 4]
    run(job, place, **OPTIONS, say=str)
    whole = with_text(tmp_path / "whole", text_file)
    run(job, whole, **OPTIONS, say=str)
    assert_same(last(place), last(whole))


def test_a_run_that_was_finished_trains_no_more(place, monkeypatch):
    before = run(JOB, place, **OPTIONS, say=str)
    monkeypatch.setattr(distributed, "draw_batch", lambda *_: pytest.fail("it trains"))
    said = []
    after = run(JOB, place, **OPTIONS, say=said.append)
    assert "trained to the end" in said[0]
    assert_same(before["state"], after["state"])
    assert (before["held_out"], before["seconds"]) == (after["held_out"], after["seconds"])


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def other(path):
    write = path.with_name("x.safetensors")
    distributed.save_file({"a": torch.ones(2)}, write)
    os.replace(write, path)


@pytest.mark.parametrize("damage", [cut, flip, empty, other])
def test_of_a_damaged_checkpoint_the_one_before_is_used_and_said_so(damage, place, alone):
    stopped_run(10, JOB, place, **OPTIONS, say=str)
    damage(checkpoints(place)[8])
    said = []
    found = run(JOB, place, **OPTIONS, say=said.append)
    assert "step-00000008.safetensors is damaged" in said[0] and "the one before it is used" in said[0]
    assert "resumes at step 4" in said[1]
    assert_same(found["state"], alone["masked"]["state"])


def test_a_damaged_checkpoint_takes_no_place_from_a_good_one(place):
    stopped_run(10, JOB, place, **OPTIONS, say=str)
    flip(checkpoints(place)[8])
    stopped_run(4, JOB, place, every=2, say=str)  # from 4 on, to behind 6
    assert list(checkpoints(place)) == [6, 4]


def test_if_all_checkpoints_are_damaged_it_does_not_silently_begin_anew(place):
    stopped_run(6, JOB, place, **OPTIONS, say=str)
    flip(checkpoints(place)[4])
    with pytest.raises(RunError, match="every checkpoint in .* is damaged; to begin anew"):
        run(JOB, place, **OPTIONS, say=str)


def test_a_process_killed_while_it_writes_leaves_the_file_that_was_there(place, monkeypatch):
    path = place / "step-00000004.safetensors"
    write_tensors(path, {"a": torch.ones(3)}, {"n": 1})
    monkeypatch.setattr(distributed.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(RunError, match="could not be written .*no space left.*still there"):
        write_tensors(path, {"a": torch.zeros(3)}, {"n": 2})
    assert read_tensors(path)[1] == {"n": 1} and torch.equal(read_tensors(path)[0]["a"], torch.ones(3))


def test_what_a_killed_process_had_half_written_is_removed(place):
    left = place / "step-00000004.safetensors.part"
    left.write_bytes(b"half")
    run(replace(JOB, steps=1), place, say=str)
    assert not left.exists()


# What goes wrong


def test_other_settings_than_those_of_the_checkpoint_are_refused(place):
    stopped_run(6, JOB, place, **OPTIONS, say=str)
    with pytest.raises(RunError, match=r"begun with steps 10 \(now 20\), batch 7 \(now 8\); give the same settings"):
        run(replace(JOB, steps=20, batch=8), place, say=str)


def test_another_text_than_that_of_the_checkpoint_is_refused(place):
    stopped_run(6, JOB, place, **OPTIONS, say=str)
    tensors, about = read_tensors(place / TEXT)
    write_tensors(place / TEXT, tensors | {"train": tensors["train"].flip(0)}, about)
    with pytest.raises(RunError, match="begun on another text"):
        run(JOB, place, say=str)


def test_a_folder_has_one_run_at_a_time(place, monkeypatch):
    monkeypatch.setattr(distributed, "LOCK_SECONDS", 0.1)
    with (
        filelock.FileLock(place / distributed.LOCK, is_singleton=False),
        pytest.raises(RunError, match="another run is writing"),
    ):
        run(JOB, place, say=str)
    run(replace(JOB, steps=1), place, say=str)


def test_more_workers_than_fragments_are_refused(place, monkeypatch):
    with pytest.raises(RunError, match="batch of at least 9, a fragment for each worker, got 7"):
        run(JOB, place, team=Team(0, 9), say=str)


def test_a_machine_that_sees_a_later_checkpoint_than_the_first_is_noticed(tmp_path):
    one = {"host": "a", "settings": {}, "torch": "2", "code": "c", "newest": 100}
    with pytest.raises(RunError, match="on a finds step 100 .* on b finds step 200; name a --folder on a disk"):
        distributed._agree([one, {**one, "host": "b", "newest": 200}], tmp_path)
    distributed._agree([one, {**one, "host": "b", "newest": 0}], tmp_path)


@pytest.mark.parametrize("name", ["torch", "code"])
def test_machines_with_different_torch_or_code_are_noticed(name, tmp_path):
    one = {"host": "a", "settings": {}, "torch": "2.1", "code": "2.1", "newest": 0}
    with pytest.raises(
        RunError, match=f"worker 0 on a has {name} 2.1, and worker 1 on b has {name} 2.2; start the same"
    ):
        distributed._agree([one, {**one, "host": "b", name: "2.2"}], tmp_path)


def as_worker(monkeypatch, port, rank=0):
    for name, value in {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))


def refused(timeout=300.0):
    with pytest.raises(RunError) as problem, team(timeout):
        pass
    assert not dist.is_initialized()
    return str(problem.value)


def test_a_port_in_use_is_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        as_worker(monkeypatch, port)
        assert f"port {port} is in use" in refused()


def test_workers_that_do_not_come_are_waited_for_only_so_long(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    as_worker(monkeypatch, port)
    assert f"worker 0 of 2 could not join the others at 127.0.0.1:{port} within 1 s" in refused(1.0)


def test_workers_that_are_started_again_do_not_meet_the_dead():
    """Three threads for three workers; the store remembers four rounds of workers, of which not all had come."""
    store = dist.HashStore()
    names = []
    for missing in (2, 0, 1, None):
        here = [rank for rank in range(3) if rank != missing]
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(distributed.meeting, store, rank, 3, 60 if missing is None else 0.3) for rank in here]
        if missing is None:
            names = {call.result() for call in calls}
        else:
            assert [type(call.exception()) for call in calls] == [TimeoutError] * 2
    assert len(names) == 1
    with ThreadPoolExecutor(3) as pool:  # one that comes late finds the numbers of the round before, and waits
        late = [0, 0.2, 0.4]
        again = set(pool.map(lambda rank: time.sleep(late[rank]) or distributed.meeting(store, rank, 3, 60), range(3)))
    assert len(again) == 1 and again != names


def test_half_an_environment_and_a_torch_without_gloo_are_explained(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    assert "WORLD_SIZE, MASTER_ADDR, MASTER_PORT not found; start the workers with torchrun" in refused()
    as_worker(monkeypatch, 1)
    monkeypatch.setattr(dist, "is_gloo_available", lambda: False)
    assert "has no gloo" in refused()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objective=maked"], "maked"),
        (["--heads=5", "--dim=24"], "expected heads that divide dim, got 5 heads and dim 24"),
        (["--batch=0"], "expected batch of at least 1, got 0"),
        (["--share=1.5"], "expected a share above 0 and up to 1, got 1.5"),
        (["--every=0"], "expected a number above 0, got 0"),
        (["--threads=two"], "invalid int value: 'two'"),
        (["--rate=-1"], "expected a rate above 0"),
    ],
)
def test_wrong_arguments_are_explained_by_one_worker(arguments, message, capsys, monkeypatch):
    for rank, said in (("0", True), ("1", False)):
        monkeypatch.setenv("LOCAL_RANK", rank)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert (message in capsys.readouterr().err) == said


def test_a_run_that_cannot_begin_ends_with_a_sentence(place, capsys):
    stopped_run(6, JOB, place, **OPTIONS, say=str)
    assert main(command(replace(JOB, seed=5), place)[3:]) == 1
    assert "error: the run in" in capsys.readouterr().err


def test_a_worker_that_lost_another_says_how_to_go_on_and_other_errors_are_not_hidden(monkeypatch, capsys):
    def fail(text):
        def failing(*_, **__):
            raise RuntimeError(text)

        return failing

    monkeypatch.setattr(
        distributed, "run", fail("[pair.cc:553] Connection closed by peer [127.0.0.1]:4. This is typical")
    )
    assert main([]) == 1
    said = capsys.readouterr().err
    assert "lost another one (Connection closed by peer [127.0.0.1]:4). What the last checkpoint" in said
    monkeypatch.setattr(distributed, "run", fail("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        main([])


def test_the_command_says_the_whole_job_and_nothing_else(tmp_path):
    given = command(DOUBLE, tmp_path, 3, restarts=2, every=4)
    assert given[:7] == [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=3",
        "--max-restarts=2",
        "-m",
    ]
    assert given[7] == MODULE
    read = vars(distributed._parser().parse_args(given[8:]))
    assert Job(**{name: read[name] for name in asdict(DOUBLE)}) == DOUBLE
    assert (read["folder"], read["every"]) == (tmp_path, 4)


def test_other_settings_have_another_folder():
    assert JOB.folder() == replace(JOB).folder() != replace(JOB, seed=1).folder()
