"""The lock names every package of the tests with its sums, and pip refuses what has another one."""

import os
import platform
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.test_boxes import make_wheel
from utils.course import bootstrap, lock
from utils.course.places import ROOT


def locked(text: str) -> dict[str, list[str]]:
    """`name==version` to its sums, from the text of a lock."""
    entries = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    return {entry.split()[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})", entry) for entry in entries}


def test_the_lock_has_the_versions_of_the_constraints_and_what_builds_the_course():
    names = set(locked(lock.LOCK.read_text(encoding="utf-8")))
    builds = {line for line in names if line.partition("==")[0] in lock.BUILDS}
    wanted = lock.fixed_versions(lock.CONSTRAINTS.read_text(encoding="utf-8"))
    assert {normal(line) for line in names - builds} == {normal(line) for line in wanted}, "run `make lock`"
    assert len(builds) == len(lock.BUILDS)
    assert not any(line.startswith("torch==") for line in names)


def normal(line: str) -> str:
    return re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() + "==" + line.partition("==")[2]


def test_every_package_of_the_lock_has_a_sum_and_a_compiled_one_has_several():
    sums = locked(lock.LOCK.read_text(encoding="utf-8"))
    assert all(sums.values())
    served = len(bootstrap.LOCKED_PYTHONS) * len(bootstrap.LOCKED_MACHINES)
    (numpy,) = [found for line, found in sums.items() if line.startswith("numpy==")]
    assert len(numpy) == served


def test_the_lock_names_no_index():
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links", lock.LOCK.read_text(encoding="utf-8"))


def test_sums_of_several_machines_are_merged_in_a_fixed_order():
    one, other = {"b==2": "2" * 64, "A==1": "0" * 64}, {"A==1": "1" * 64, "b==2": "2" * 64}
    text = lock.lock_text([one, other])
    assert text == lock.lock_text([other, one])
    assert list(locked(text).items()) == [("A==1", ["0" * 64, "1" * 64]), ("b==2", ["2" * 64])]


@pytest.mark.parametrize("archive", [{"hashes": {"sha256": "ab"}}, {"hash": "sha256=ab"}])
def test_pips_report_is_read(archive):
    entry = {"metadata": {"name": "crate", "version": "1.0"}, "download_info": {"archive_info": archive}}
    assert lock.read_report({"install": [entry]}) == {"crate==1.0": "ab"}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index that is a folder, with a crate."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    make_wheel(tmp_path)
    return tmp_path


def test_sums_are_asked_of_pip(index):
    (digest,) = lock.sums(["crate==1.0"], "3.12", "aarch64").values()
    assert re.fullmatch("[0-9a-f]{64}", digest)
    with pytest.raises(lock.LockError, match="no file of some package for Python 3.12 on aarch64: .*crate==2.0"):
        lock.sums(["crate==2.0"], "3.12", "aarch64")


@pytest.fixture
def pip_alone(index, tmp_path, monkeypatch):
    """bootstrap's install, with this Python's pip and a course of one crate that is put into a folder."""
    root = tmp_path / "a course"
    root.mkdir()
    monkeypatch.setattr(bootstrap, "ROOT", str(root))
    monkeypatch.setattr(bootstrap, "PYTHON", sys.executable)
    monkeypatch.setattr(bootstrap, "check_disk", lambda: None)
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "installed"))
    real, calls = subprocess.call, []

    def call(command, **settings):
        calls.append(command)
        return real(command, **settings) if "--require-hashes" in command else 0

    monkeypatch.setattr(bootstrap.subprocess, "call", call)
    return root, calls


on_a_locked_machine = pytest.mark.skipif(
    bootstrap.why_not_locked() != "", reason="the lock serves another kind of machine"
)


@on_a_locked_machine
def test_a_package_with_the_right_sum_is_installed(pip_alone, index):
    root, calls = pip_alone
    (root / "requirements.lock").write_text(
        lock.lock_text([lock.sums(["crate==1.0"], "3.12", "x86_64")]), encoding="utf-8"
    )
    bootstrap.install("test")
    assert (index / "installed/crate").is_dir()
    assert [part for part in calls[1] if part.startswith(("-c", "--no-build", ".["))] == [
        "--no-build-isolation",
        "-c",
        ".[test]",
    ]


@on_a_locked_machine
def test_a_package_with_another_sum_is_refused_in_a_sentence(pip_alone, index, capfd):
    root, calls = pip_alone
    (root / "requirements.lock").write_text(lock.lock_text([{"crate==1.0": "0" * 64}]), encoding="utf-8")
    with pytest.raises(SystemExit):
        bootstrap.install("test")
    said = capfd.readouterr().err
    assert "DO NOT MATCH THE HASHES" in said and said.endswith("run it with COURSE_LOCK=no.\n")
    assert not (index / "installed").exists() and len(calls) == 1


def test_the_lab_needs_no_lock(pip_alone):
    _, calls = pip_alone
    bootstrap.install("lab")
    (call,) = calls
    assert "--require-hashes" not in call and call[-2:] == ["-e", "."]


@pytest.mark.parametrize(
    ("changed", "value", "words"),
    [
        ((sys, "platform"), "darwin", "this is darwin"),
        ((sys, "version_info"), (3, 14, 0), "this is 3.14"),
        ((platform, "machine"), lambda: "riscv64", "this is linux on riscv64"),
        ((platform, "libc_ver"), lambda: ("", ""), "it serves Linux on x86_64 and aarch64"),
    ],
)
def test_where_the_lock_does_not_serve_versions_alone_are_fixed_and_it_is_said(
    pip_alone, monkeypatch, capfd, changed, value, words
):
    _, calls = pip_alone
    monkeypatch.setattr(*changed, value)
    bootstrap.install("test")
    assert words in capfd.readouterr().out
    (call,) = calls
    assert call[-4:] == ["-c", "constraints.txt", "-e", ".[test]"] and "--no-build-isolation" not in call


def test_who_trusts_another_index_can_say_so(monkeypatch):
    monkeypatch.setenv("COURSE_LOCK", "no")
    assert bootstrap.why_not_locked() == "COURSE_LOCK=no was asked for"


def test_the_builder_of_the_course_is_locked_in_a_version_that_it_asks_for():
    (line,) = [line for line in locked(lock.LOCK.read_text(encoding="utf-8")) if line.startswith("setuptools==")]
    (asked,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert Requirement(asked).specifier.contains(line.partition("==")[2])
