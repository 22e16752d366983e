"""The progress journal survives crashes, concurrent writers, damage, full disks and older editions of the course."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from utils import paths
from utils.checks import progress
from utils.checks.renumbered import from_first_edition

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "folder with spaces" / "progress.jsonl"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    return path


def statuses() -> dict[str, str]:
    return {name: state.status for name, state in progress.read().exercises.items()}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_events_make_the_state(file):
    assert progress.read() == progress.Progress()
    assert not file.exists()
    assert progress.record_check("1.1", "failed") == ""
    assert progress.record_hint("1.1", 1) == ""
    assert progress.record_hint("1.1", 2) == ""
    assert progress.record_check("1.1", "passed") == ""
    assert progress.record_solution("1.2") == ""
    assert progress.record_quiz("1.a", 2, False) == ""
    state = progress.read()
    assert state.exercise("1.1") == progress.ExerciseState("passed", hints=2, solution=False)
    assert state.exercise("1.2") == progress.ExerciseState("not attempted", hints=0, solution=True)
    assert state.exercise("1.3").status == "not attempted"
    assert state.quizzes == {"1.a": progress.QuizState(2, False)}


def test_a_passed_exercise_stays_passed_and_events_that_change_nothing_are_not_written(file):
    progress.record_check("1.1", "not attempted")
    assert not file.exists()
    progress.record_check("1.1", "passed")
    before = file.read_bytes()
    for later in ("failed", "not attempted", "passed"):
        progress.record_check("1.1", later)
    assert statuses() == {"1.1": "passed"}
    assert file.read_bytes() == before


# Damage


@pytest.mark.parametrize(
    "damage", [b'{"event": "che', b"\xff\x00\x80", b"[1, 2]", b"null", b'{"event": "dance"}', b'{"event": "quiz"}',
    b'{"event": "hint", "exercise": "1.1", "number": 1e999, "edition": 2}']
)  # fmt: skip
@pytest.mark.parametrize("line", [0, 1, 3])
def test_a_damaged_or_unfinished_line_costs_only_itself(file, damage, line):
    names = ["1.1", "1.2", "8.3"]
    for name in names:
        progress.record_check(name, "passed")
    written = file.read_bytes().split(b"\n")
    assert len(written) == 5
    kept = names[: line - 1] + names[line:] if line else names
    for end in (b"\n", b"")[: 1 + (line == 3)]:  # a crash leaves the last line without its end
        file.write_bytes(b"\n".join([*written[:line], damage, *written[line + 1 : -1]]) + end)
        assert statuses() == dict.fromkeys(kept, "passed")
        assert progress.record_check("1.4", "passed") == ""
        assert statuses() == dict.fromkeys([*kept, "1.4"], "passed")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 4096, b"{", b"[" * 100_000, os.urandom(1000)])
def test_any_content_can_be_read_and_written_after(file, content):
    file.parent.mkdir()
    file.write_bytes(content)
    assert progress.read().exercises == {}
    assert progress.record_check("1.1", "passed") == ""
    assert statuses() == {"1.1": "passed"}


WRITER = """
import sys
from utils.checks import progress
for number in range(int(sys.argv[2])):
    assert progress.record_check(f"{sys.argv[1]}.{number}", "passed") == ""
    print(number, flush=True)
"""


def writer(name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_killed_writer_loses_nothing_that_it_had_reported(file):
    process = writer("1", 100_000)
    for _ in range(20):
        process.stdout.readline()
    time.sleep(0.003)
    os.kill(process.pid, signal.SIGKILL)
    reported = 20 + len(process.stdout.read().split("\n")) - 2
    process.wait()
    assert set(statuses()) >= {f"1.{number}" for number in range(reported)}
    assert progress.record_check("1.after", "passed") == ""
    assert "1.after" in statuses()


def test_concurrent_writers_lose_nothing(file):
    writers = [writer(name, 40) for name in ("1", "2")]
    for process in writers:
        process.communicate()
        assert process.returncode == 0
    assert len(statuses()) == 80
    assert progress.read().damaged == []


def test_a_crash_while_the_file_is_replaced_leaves_the_old_one(file, monkeypatch):
    progress.record_check("1.1", "passed")

    def crash(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(progress, "COMPACT_ABOVE", 0)
        broken.setattr(progress.os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            progress.record_check("1.2", "passed")
    assert statuses() == {"1.1": "passed"}
    assert progress.record_check("1.2", "passed") == ""
    assert statuses() == {"1.1": "passed", "1.2": "passed"}


def test_a_long_journal_is_compacted_and_damaged_lines_are_kept_beside_it(file):
    progress.record_check("1.1", "passed")
    progress.record_hint("1.1", 2)
    progress.record_quiz("1.a", 1, True)
    progress.record_check("8.2", "failed")
    line = file.read_bytes().splitlines(keepends=True)[-1]
    with file.open("ab") as journal:
        journal.write(b"broken\n" + line * (progress.COMPACT_ABOVE // len(line) + 1))
    before = progress.read()
    progress.record_check("1.3", "passed")
    assert file.stat().st_size < 1000
    after = progress.read()
    assert after.exercises == before.exercises | {"1.3": progress.ExerciseState("passed")}
    assert after.quizzes == before.quizzes
    assert after.damaged == []
    assert file.with_name("progress.jsonl.damaged").read_bytes() == b"broken\n"


# Editions

NEW_IDS = {
    "1.2": "1.4",
    "1.4": "1.2",
    "6.10": "6.11",
    "7.7": "7.7",
    "7.8": "8.1",
    "7.9": "8.2",
    "7.10": "8.3",
    "8.1": "9.1",
    "8.3": "9.3",
    "8.6": "9.9",
    "5.9": "5.7",
}
NEW_QUIZZES = {
    "4.e": "4.d",
    "5.e": "5.h",
    "7.d": "7.d",
    "7.e": "8.a",
    "7.f": "8.b",
    "7.g": "8.c",
    "8.a": "9.a",
    "8.e": "9.h",
    "8.f": "9.e",
    "8.g": "9.g",
}


def test_every_id_of_the_first_edition_has_one_id_of_its_own_now():
    old = [f"{lesson}.{part}" for lesson in range(9) for part in [*range(1, 11), *"abcdefgh"]]
    assert len({from_first_edition(name) for name in old}) == len(old)


@pytest.fixture
def first_edition(file) -> bytes:
    """A journal of the first edition, in which everything was passed but 7.10."""
    events = [{"event": "checked", "exercise": name, "status": "passed"} for name in NEW_IDS]
    events[list(NEW_IDS).index("7.10")]["status"] = "failed"
    events += [{"event": "hint", "exercise": "7.8", "number": 2}, {"event": "solution", "exercise": "8.1"}]
    events += [{"event": "quiz", "quiz": name, "choice": 1, "right": True} for name in NEW_QUIZZES]
    content = b"".join(json.dumps(event).encode() + b"\n" for event in [{"version": 2}, *events])
    file.parent.mkdir()
    file.write_bytes(content)
    return content


def test_a_journal_of_the_first_edition_counts_under_the_new_ids(file, first_edition):
    expected = dict.fromkeys(NEW_IDS.values(), "passed") | {"8.3": "failed"}
    for _ in range(2):  # read as it is, then as it was rewritten
        assert statuses() == expected
        state = progress.read()
        assert (state.exercise("8.1").hints, state.exercise("8.1").solution) == (2, False)
        assert (state.exercise("9.1").hints, state.exercise("9.1").solution) == (0, True)
        assert set(state.quizzes) == set(NEW_QUIZZES.values())
        assert progress.record_check("0.1", "passed") == ""
        expected["0.1"] = "passed"
    assert file.with_name("progress.jsonl.first_edition").read_bytes() == first_edition
    head, *events = lines(file)
    assert head == {"version": 3}
    assert all(event["edition"] == 2 for event in events)


def test_what_this_edition_writes_is_never_translated(file, first_edition):
    for name in ("8.1", "8.3", "9.3"):
        progress.record_check(name, "passed")
    file.write_bytes(file.read_bytes() + first_edition)  # the first edition was used once more
    progress.record_check("8.2", "passed")
    assert statuses() == dict.fromkeys(NEW_IDS.values(), "passed")


@pytest.mark.parametrize("indent", [None, 2])
def test_the_single_object_of_version_1_is_taken_over(file, indent):
    file.parent.mkdir()
    old = json.dumps({"passed": ["0.1", "1.10", "8.3"]}, indent=indent)
    file.write_text(old, encoding="utf-8")
    assert statuses() == dict.fromkeys(("0.1", "1.10", "9.3"), "passed")
    assert progress.record_check("1.2", "failed") == ""
    assert statuses() == {**dict.fromkeys(("0.1", "1.10", "9.3"), "passed"), "1.2": "failed"}
    assert lines(file)[0] == {"version": 3}
    assert file.with_name("progress.jsonl.first_edition").read_text(encoding="utf-8") == old


# Disk errors, each one sentence


@pytest.mark.parametrize("written", [0, 10])
def test_a_full_disk_costs_at_most_the_line_being_written(file, monkeypatch, written):
    progress.record_check("1.1", "passed")
    real = os.write

    def full(descriptor, data):
        if written and len(data) > written:
            return real(descriptor, bytes(data)[:written])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(progress.os, "write", full)
        message = progress.record_check("1.2", "passed")
    assert message.startswith("Progress was not saved") and "free some disk space" in message
    assert progress.record_check("1.3", "passed") == ""
    assert statuses() == {"1.1": "passed", "1.3": "passed"}


def test_a_file_that_cannot_be_used_is_reported_and_left_alone(file, tmp_path, monkeypatch):
    progress.record_check("1.1", "passed")
    monkeypatch.setattr(progress, "LOCK_SECONDS", 0.1)
    with FileLock(file.with_name(f".{file.name}.lock")):
        assert "another program" in progress.record_check("1.2", "passed")
    newer = '{"version": 4}\n{"something": "else"}\n'
    file.write_text(newer, encoding="utf-8")
    paths = {file: "newer version of the course", tmp_path: "could not be read", file / "below": "could not be read"}
    for path, words in paths.items():
        monkeypatch.setenv("COURSE_PROGRESS", str(path))
        assert words in progress.read().trouble
        assert "not saved" in progress.record_check("1.1", "passed")
    assert file.read_text(encoding="utf-8") == newer


def test_lecture_notebooks_do_not_count(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(paths, "WORK", tmp_path / "work")
    monkeypatch.setattr(paths, "LECTURES", tmp_path / "notebooks")
    paths.LECTURES.mkdir()
    monkeypatch.chdir(paths.LECTURES)
    assert progress.record_check("1.1", "passed") == ""
    assert statuses() == {} and not paths.WORK.exists()
    monkeypatch.chdir(tmp_path)
    progress.record_check("1.1", "passed")
    assert statuses() == {"1.1": "passed"}
    assert (tmp_path / "work" / "progress.jsonl").exists()
