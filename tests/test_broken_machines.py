"""What is cheap to try of a machine on which something is missing; `make audit` tries the rest on real ones."""

import ast
import errno
import getpass
import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.audit import __main__ as audit
from utils import paths
from utils.build import bootstrap, lab
from utils.checks import progress
from utils.paths import ROOT
from utils.training import cache

ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

# --- no locale --------------------------------------------------------------------------------------------------


def test_progress_is_kept_in_the_locale_c(tmp_path):
    code = (
        "from utils.checks import progress\n"
        "print(progress.record_check('1.é', 'passed') or 'saved', ascii(list(progress.read().exercises)))"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    bare |= ASCII_ONLY | {"PYTHONPATH": str(ROOT), "COURSE_PROGRESS": str(tmp_path / "élève" / "progress.jsonl")}
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, script], env=bare, capture_output=True, text=True, encoding="utf-8")
    assert done.stdout == "saved ['1.\\xe9']\n", done.stderr


def test_a_path_that_the_machine_cannot_write_is_named_before_torch_fails_on_it(tmp_path):
    folder = tmp_path / "mon cours é" / "utils" / "build"
    folder.mkdir(parents=True)
    copy = shutil.copy(bootstrap.__file__, folder)
    own = os.environ | ASCII_ONLY
    done = subprocess.run([sys.executable, copy], env=own, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "PYTHONUTF8=1, or move the course to a folder whose path is plain ASCII" in done.stderr


# --- no home ----------------------------------------------------------------------------------------------------


def test_without_a_home_folder_the_lab_gets_one_in_work_and_an_unknown_user_a_number_for_a_name(tmp_path, monkeypatch):
    def unknown(*arguments):
        raise KeyError("getpwuid(): uid not found: 4242")

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.has_home() and lab.ensure_home(tmp_path) == "" and os.environ["HOME"] == str(tmp_path)
    monkeypatch.setenv("HOME", f"{os.devnull}/nowhere")
    assert not paths.has_home() and "work/.home" in lab.ensure_home(tmp_path)
    assert paths.has_home() and os.environ["HOME"] == str(tmp_path / ".home")
    monkeypatch.setattr(getpass, "getuser", unknown)
    monkeypatch.setattr(Path, "home", homeless)
    assert not paths.has_home() and str(os.getuid()) in str(cache.cache_folders()[1])


# --- no space, no permission to write ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "free some disk space"), (errno.EDQUOT, "free some disk space"), (errno.EROFS, "copy the course")],
)
def test_a_disk_that_takes_nothing_is_one_sentence_with_what_to_do(tmp_path, monkeypatch, number, advice):
    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    progress.record_check("1.1", "passed")
    with monkeypatch.context() as patch:
        patch.setattr(progress.os, "write", refuse)
        said = progress.record_check("1.2", "passed")
    assert said.startswith("Progress was not saved") and os.strerror(number) in said and advice in said
    assert said.count(". ") == 0 and "\n" not in said
    assert list(progress.read().exercises) == ["1.1"]


def test_a_file_that_may_not_grow_loses_nothing_that_was_saved(tmp_path):
    """A real limit of the kernel, in a process of its own: the file stops growing in the middle of a line."""
    code = """
        import resource, signal, sys
        from utils.checks import progress
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        saved = [name for name in map("1.{}".format, range(5)) if progress.record_check(name, "passed") == ""]
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, before[1]))
        said = {progress.record_check(f"2.{number}", "passed") for number in range(5)}
        print(sorted(said))
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert len(saved) == 5 and progress.record_check("3.1", "passed") == ""
        print(sorted(name for name, state in progress.read().exercises.items() if state.status == "passed"))
    """
    own = os.environ | {"COURSE_PROGRESS": str(tmp_path / "progress.jsonl"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, encoding="utf-8")
    said, names = done.stdout.splitlines()
    assert "free some disk space" in said and said.count("Progress was not saved") == 1, done.stderr
    assert set(ast.literal_eval(names)) >= {"1.0", "1.1", "1.2", "1.3", "1.4", "3.1"}


def test_a_checkout_that_cannot_be_written_is_one_sentence_before_anything_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "ROOT", str(tmp_path / "nowhere"))
    monkeypatch.setattr(bootstrap, "is_ready", lambda level: False)
    monkeypatch.setattr(bootstrap, "check_disk", lambda: None)
    monkeypatch.setattr(bootstrap, "install", lambda level: pytest.fail("nothing can be made here"))
    with pytest.raises(SystemExit):
        bootstrap.make_environment("lab")
    assert "copy the course to a folder of your own" in capsys.readouterr().err


# --- the audit itself -------------------------------------------------------------------------------------------


def test_every_part_of_the_audit_can_be_run():
    for name in audit.PARTS:
        assert callable(importlib.import_module(f"tests.audit.{name}").run)


@pytest.mark.parametrize(
    ("rows", "fine"),
    [
        ([{"what": "a thing", "ok": True, "said": "it works", "seconds": 3}], True),
        ([{"what": "a thing", "ok": True, "said": ""}, {"what": "another", "ok": False, "said": "it broke"}], False),
        ([{"what": "a thing", "ok": 1, "said": "no truth value"}], False),
        ([], False),
        (None, False),  # it broke off
    ],
)
def test_a_part_of_the_audit_is_fine_if_it_tried_something_and_all_of_it_is_ok(tmp_path, capsys, rows, fine):
    assert audit.audit("some", lambda: rows, tmp_path) is fine
    stored = json.loads((tmp_path / "some.json").read_text(encoding="utf-8"))
    assert all(row["ok"] for row in stored["rows"]) is fine and stored["rows"]
    assert ("NOT" in capsys.readouterr().out) is not fine


def test_rows_that_are_run_again_replace_theirs_and_the_others_stay(tmp_path):
    rows = [{"what": "one", "ok": False, "said": "it broke"}, {"what": "two", "ok": True, "said": "fine"}]
    assert not audit.audit("some", lambda: rows, tmp_path)
    again = {"what": "one", "ok": True, "said": "it works"}
    assert audit.audit("some", lambda only: [again | {"said": only[0]}], tmp_path, ["one"])
    assert json.loads((tmp_path / "some.json").read_text(encoding="utf-8"))["rows"] == [
        again | {"said": "one"},
        rows[1],
    ]
    with pytest.raises(SystemExit):
        audit.main(["mutants", "--only", "1.1"], tmp_path)
