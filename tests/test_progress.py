"""One small file that survives crashes, company, damage and its own past."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from utils.course import places, progress

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "folder with spaces" / "progress.jsonl"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    return path


def statuses() -> dict[str, str]:
    return {name: state.status for name, state in progress.read().exercises.items()}


def test_an_absent_file_is_an_empty_state(file):
    assert progress.read() == progress.Progress()
    assert progress.read().exercise("1.1").status == "not attempted"
    assert not file.exists()


def test_events_make_the_state(file):
    assert progress.record_check("1.1", "failed") == ""
    assert progress.record_hint("1.1", 1) == ""
    assert progress.record_hint("1.1", 2) == ""
    assert progress.record_check("1.1", "passed") == ""
    assert progress.record_solution("1.2") == ""
    assert progress.record_quiz("1.a", 2, False) == ""
    state = progress.read()
    assert state.exercise("1.1") == progress.ExerciseState("passed", hints=2, solution=False)
    assert state.exercise("1.2") == progress.ExerciseState("not attempted", hints=0, solution=True)
    assert state.quizzes == {"1.a": progress.QuizState(2, False)}
    assert json.loads(file.read_text(encoding="utf-8").split("\n")[0]) == {"version": 2}


def test_what_was_passed_stays_passed(file):
    progress.record_check("1.1", "passed")
    for later in ("failed", "not attempted"):
        progress.record_check("1.1", later)
    assert statuses() == {"1.1": "passed"}


def test_events_that_change_nothing_are_not_written(file):
    progress.record_check("1.1", "not attempted")
    assert not file.exists()
    progress.record_check("1.1", "passed")
    before = file.read_bytes()
    for _ in range(5):
        progress.record_check("1.1", "passed")
    assert file.read_bytes() == before


# Damage


@pytest.mark.parametrize(
    "damage", [b'{"event": "che', b"\xff\x00\x80", b"[1, 2]", b"3", b"null", b'{"event": "dance"}']
)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_damaged_line_costs_only_itself(file, damage, place):
    for name in ("1.1", "1.2", "1.3"):
        progress.record_check(name, "passed")
    lines = file.read_bytes().split(b"\n")
    assert len(lines) == 5
    lines[place] = damage
    file.write_bytes(b"\n".join(lines))
    lost = f"1.{place}"
    assert statuses() == {name: "passed" for name in ("1.1", "1.2", "1.3") if name != lost}
    assert progress.record_check("1.4", "passed") == ""
    assert "1.4" in statuses()


def test_a_damaged_first_line_costs_nothing(file):
    progress.record_check("1.1", "passed")
    file.write_bytes(b"%%%" + file.read_bytes()[3:])
    progress.record_check("1.2", "failed")
    assert statuses() == {"1.1": "passed", "1.2": "failed"}


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 4096, b"{", b"[" * 100_000, os.urandom(1000)])
def test_any_content_can_be_read_and_written_after(file, content):
    file.parent.mkdir()
    file.write_bytes(content)
    assert progress.read().exercises == {}
    assert progress.record_check("1.1", "passed") == ""
    assert statuses() == {"1.1": "passed"}


def test_a_crash_in_the_middle_of_a_line_loses_only_that_line(file):
    progress.record_check("1.1", "passed")
    whole = file.read_bytes()
    progress.record_check("1.2", "passed")
    added = file.read_bytes()[len(whole) :]
    for length in range(len(added)):
        file.write_bytes(whole + added[:length])
        assert statuses()["1.1"] == "passed"
        progress.record_check("1.3", "passed")
        assert statuses()["1.3"] == "passed"
        assert statuses()["1.1"] == "passed"


WRITER = """
import sys
from utils.course import progress
for number in range(int(sys.argv[2])):
    assert progress.record_check(f"{sys.argv[1]}.{number}", "passed") == ""
    print(number, flush=True)
"""


def writer(name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_killed_writer_loses_nothing_that_it_had_reported(file):
    for name in ("1", "2", "3"):
        process = writer(name, 100_000)
        for _ in range(20):
            process.stdout.readline()
        time.sleep(0.003 * int(name))
        os.kill(process.pid, signal.SIGKILL)
        reported = 20 + len(process.stdout.read().split("\n")) - 2
        process.wait()
        assert set(statuses()) >= {f"{name}.{number}" for number in range(reported)}
        assert progress.record_check(f"{name}.after", "passed") == ""
        assert f"{name}.after" in statuses()


def test_writers_at_the_same_time_lose_nothing(file):
    writers = [writer(name, 60) for name in ("1", "2", "3")]
    for process in writers:
        process.communicate()
        assert process.returncode == 0
    assert len(statuses()) == 180
    assert progress.read().damaged == []


def test_a_crash_while_the_file_is_replaced_leaves_the_old_one(file, monkeypatch):
    progress.record_check("1.1", "passed")
    monkeypatch.setattr(progress, "COMPACT_ABOVE", 0)

    def crash(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(progress.os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        progress.record_check("1.2", "passed")
    assert statuses() == {"1.1": "passed"}
    monkeypatch.undo()
    monkeypatch.setenv("COURSE_PROGRESS", str(file))
    assert progress.record_check("1.2", "passed") == ""
    assert statuses() == {"1.1": "passed", "1.2": "passed"}


# Size and versions


def test_a_long_journal_is_made_short_and_damage_is_kept_aside(file):
    progress.record_check("1.1", "passed")
    progress.record_hint("1.1", 2)
    progress.record_quiz("1.a", 1, True)
    line = json.dumps({"event": "checked", "exercise": "1.2", "status": "failed"}).encode() + b"\n"
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


@pytest.mark.parametrize("indent", [None, 2])
def test_the_first_version_is_taken_over_without_loss(file, indent):
    file.parent.mkdir()
    old = json.dumps({"passed": ["0.1", "1.1", "1.10"]}, indent=indent)
    file.write_text(old, encoding="utf-8")
    assert statuses() == dict.fromkeys(("0.1", "1.1", "1.10"), "passed")
    assert progress.record_check("1.2", "failed") == ""
    assert statuses() == {**dict.fromkeys(("0.1", "1.1", "1.10"), "passed"), "1.2": "failed"}
    assert json.loads(file.read_text(encoding="utf-8").split("\n")[0]) == {"version": 2}
    assert file.with_name("progress.jsonl.version1").read_text(encoding="utf-8") == old


def test_a_newer_version_is_left_alone(file):
    file.parent.mkdir()
    content = '{"version": 3}\n{"something": "else"}\n'
    file.write_text(content, encoding="utf-8")
    assert "newer version of the course" in progress.read().trouble
    assert "not saved" in progress.record_check("1.1", "passed")
    assert file.read_text(encoding="utf-8") == content


# Trouble with the disk


def test_a_full_disk_is_one_sentence(file, monkeypatch):
    progress.record_check("1.1", "passed")

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(progress.os, "write", full)
    message = progress.record_check("1.2", "passed")
    assert message.startswith("Progress was not saved")
    assert os.strerror(errno.ENOSPC) in message
    monkeypatch.undo()
    monkeypatch.setenv("COURSE_PROGRESS", str(file))
    assert statuses() == {"1.1": "passed"}


def test_a_disk_that_fills_up_in_the_middle_of_a_line_costs_that_line(file, monkeypatch):
    progress.record_check("1.1", "passed")
    real = os.write

    def half(descriptor, data):
        if len(data) > 10:
            return real(descriptor, bytes(data)[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(progress.os, "write", half)
    assert "not saved" in progress.record_check("1.2", "passed")
    monkeypatch.setattr(progress.os, "write", real)
    assert progress.record_check("1.3", "passed") == ""
    assert statuses()["1.1"] == statuses()["1.3"] == "passed"


def test_a_file_that_is_a_folder_is_one_sentence(file):
    file.mkdir(parents=True)
    assert "not saved" in progress.record_check("1.1", "passed")
    assert "could not be read" in progress.read().trouble


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "progress.jsonl"))
    assert "not saved" in progress.record_check("1.1", "passed")
    assert "could not be read" in progress.read().trouble


def test_a_lock_that_is_never_released_is_one_sentence(file, monkeypatch):
    from filelock import FileLock

    progress.record_check("1.1", "passed")
    monkeypatch.setattr(progress, "LOCK_SECONDS", 0.1)
    with FileLock(f"{file}.lock"):
        assert "another program" in progress.record_check("1.2", "passed")


# Whose notebook it is


def test_lecture_notebooks_do_not_count(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(places, "WORK", tmp_path / "work")
    lectures = tmp_path / "notebooks"
    lectures.mkdir()
    monkeypatch.setattr(places, "LECTURES", lectures)
    monkeypatch.chdir(lectures)
    assert progress.record_check("1.1", "passed") == ""
    assert progress.read() == progress.Progress()
    assert not (tmp_path / "work").exists()
    monkeypatch.chdir(tmp_path)
    progress.record_check("1.1", "passed")
    assert statuses() == {"1.1": "passed"}
    assert (tmp_path / "work" / "progress.jsonl").exists()
    monkeypatch.chdir(lectures)
    assert progress.read() == progress.Progress()
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "other.jsonl"))
    progress.record_check("1.2", "passed")
    assert statuses() == {"1.2": "passed"}
