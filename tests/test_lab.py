"""`make lab`: what it says when something is wrong, and what it never does."""

import asyncio
import builtins
import errno
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.first_start import FirstStart
from utils.build import bootstrap, environment, lab, server
from utils.paths import ROOT

# --- the environment --------------------------------------------------------------------------------------------


def test_a_missing_python_is_one_sentence_in_a_path_with_spaces_too(tmp_path):
    checkout = tmp_path / "a path with spaces"
    checkout.mkdir()
    shutil.copy(ROOT / "Makefile", checkout)
    command = ["make", "lab", "PYTHON=no-such-python"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "install Python 3.11 or newer" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_python_that_is_too_old_is_replaced_by_a_newer_one_or_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit):
        bootstrap.check_python()
    assert "needs Python 3.11 or newer" in capsys.readouterr().err
    used = []
    monkeypatch.setattr(shutil, "which", lambda name: f"/somewhere/{name}" if name == "python3.12" else None)
    monkeypatch.setattr(os, "execv", lambda path, arguments: used.append(path) or sys.exit(0))
    with pytest.raises(SystemExit):
        bootstrap.check_python()
    assert used == ["/somewhere/python3.12"]


def test_a_full_disk_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 10**12, 2**29))
    with pytest.raises(SystemExit):
        bootstrap.check_disk()
    assert "0.5 GiB are free" in capsys.readouterr().err


def test_an_environment_is_made_again_only_when_a_dependency_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(bootstrap, "STAMP", str(tmp_path / "course-ready"))
    monkeypatch.setattr(bootstrap, "PYTHON", sys.executable)
    assert not bootstrap.is_ready("lab")
    (tmp_path / "course-ready").write_text(bootstrap.wanted_stamp("lab"), encoding="utf-8")
    assert bootstrap.is_ready("lab") and not bootstrap.is_ready("test")
    (tmp_path / "course-ready").write_text(bootstrap.wanted_stamp("test"), encoding="utf-8")
    assert bootstrap.is_ready("lab") and bootstrap.is_ready("test"), "the test environment also serves the lab"
    monkeypatch.setattr(bootstrap, "wanted_stamp", lambda level: "another dependency " + level)
    assert not bootstrap.is_ready("lab")


@pytest.mark.parametrize("present", ["", "chromium", "bwrap"])
def test_the_test_command_installs_the_programs_that_are_missing_as_root_on_debian(present, monkeypatch):
    calls = []
    monkeypatch.delenv("COURSE_BROWSER", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in ("apt-get", present) else None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "call", lambda command, **settings: calls.append(command[-1]) or 0)
    bootstrap.ensure_programs()
    wanted = {"chromium": "chromium", "bwrap": "bubblewrap"}
    assert calls == ["-qq", *(package for program, package in wanted.items() if program != present)]


# --- the student's notebooks ------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path):
    students, work = tmp_path / "exercises", tmp_path / "work"
    students.mkdir()
    (students / "01_lesson.ipynb").write_text("first edition, [notation](../../docs/notation.md)", encoding="utf-8")
    lab.copy_once(students, work)
    return students, work


def test_student_notebooks_are_copied_once_with_their_links_and_never_overwritten_even_if_the_record_is_damaged(
    folders,
):
    students, work = folders
    assert (work / "01_lesson.ipynb").read_text(encoding="utf-8").endswith("[notation](../docs/notation.md)")
    (work / "01_lesson.ipynb").write_text("my own work", encoding="utf-8")
    (students / "02_lesson.ipynb").write_text("new lesson", encoding="utf-8")
    assert lab.copy_once(students, work) == []
    (students / "01_lesson.ipynb").write_text("second edition", encoding="utf-8")
    (news,) = lab.copy_once(students, work)
    assert "01_lesson.ipynb has a newer version" in news
    assert (work / "01_lesson.ipynb").read_text(encoding="utf-8") == "my own work"
    assert (work / "02_lesson.ipynb").read_text(encoding="utf-8") == "new lesson"
    (work / ".copied.json").write_text("{half a fi", encoding="utf-8")
    lab.copy_once(students, work)
    assert (work / "01_lesson.ipynb").read_text(encoding="utf-8") == "my own work"
    json.loads((work / ".copied.json").read_text(encoding="utf-8"))


def test_a_full_disk_leaves_no_part_of_a_notebook_and_a_later_start_completes_the_copies(folders, monkeypatch):
    students, work = folders
    (students / "02_lesson.ipynb").write_text("second lesson", encoding="utf-8")
    (students / "03_lesson.ipynb").write_text("third lesson", encoding="utf-8")
    full = {"03_lesson.ipynb"}
    real_open, real_write = builtins.open, Path.write_text

    def writing(path, *args, **kwargs):
        file = real_open(path, *args, **kwargs)
        if any(name in str(path) for name in full) and str(work) in str(path) and "w" in "".join(args):
            file.write("third")
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    def write_text(path, text, **kwargs):
        with writing(path, "w", **kwargs) as file:
            return file.write(text)

    monkeypatch.setattr(builtins, "open", writing)
    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OSError, match="No space"):
        lab.copy_once(students, work)
    assert sorted(path.name for path in work.glob("*")) == [".copied.json", "01_lesson.ipynb", "02_lesson.ipynb"]
    full.clear()
    real_write(work / "02_lesson.ipynb", "second le", encoding="utf-8")  # what an older version left behind
    assert lab.copy_once(students, work) == []
    assert (work / "02_lesson.ipynb").read_text(encoding="utf-8") == "second lesson"
    assert (work / "03_lesson.ipynb").read_text(encoding="utf-8") == "third lesson"
    real_write(students / "02_lesson.ipynb", "newer second lesson", encoding="utf-8")
    assert "02_lesson.ipynb has a newer version" in lab.copy_once(students, work)[0]


def test_notebooks_of_the_first_edition_stay_and_their_new_place_is_named(folders):
    old = folders[1] / "08_cost_and_scale.ipynb"
    old.write_text("my own work", encoding="utf-8")
    (news,) = lab.copy_once(*folders)
    assert "lesson 09" in news and old.read_text(encoding="utf-8") == "my own work"


# --- the server -------------------------------------------------------------------------------------------------


def test_a_taken_port_gives_the_next_one_and_without_any_it_says_what_to_do(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert lab.free_port(port) > port
    monkeypatch.setattr(lab, "is_free", lambda port: False)
    with pytest.raises(SystemExit, match="make lab PORT=9000"):
        lab.free_port(8888)


@pytest.fixture(scope="module")
def first_start(tmp_path_factory):
    with FirstStart(tmp_path_factory.mktemp("first"), lab.free_port(18_888)) as started:
        yield started


def test_a_start_prints_one_sentence_with_the_address_and_keeps_its_log_for_itself(first_start):
    assert re.fullmatch(
        rf"[^\n]+ Ctrl-C: http://127\.0\.0\.1:{first_start.port}/{lab.FIRST_PAGE}\?token=\w+\n", first_start.printed
    )
    log = first_start.course / "work" / ".lab.log"
    assert "Serving notebooks" in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o077 == 0, "the log contains the token"


def test_the_server_asks_for_its_token_keeps_widgets_and_leaves_nbgrader_out(first_start):
    page, _, token = first_start.address.partition("?")
    server = page.removesuffix(lab.FIRST_PAGE)
    assert status(f"{server}api/contents") == 403
    assert status(f"{server}api/contents?{token}") == 200
    plugin = "@jupyter-widgets/jupyterlab-manager:plugin"
    settings = urllib.request.urlopen(f"{server}lab/api/settings/{plugin}?{token}").read()
    assert json.loads(settings)["schema"]["properties"]["saveState"]["default"] is True, "widgets survive a reopening"
    assert [status(f"{server}{path}?{token}") for path in ("formgrader", "assignments", "courses", "tree")] == [404] * 4


def test_a_second_start_in_the_same_folder_gives_the_address_of_the_first(first_start):
    printed = first_start.again()
    assert printed.count("\n") == 1 and printed.endswith(f" {first_start.address}\n")


def test_ctrl_c_ends_the_server_and_leaves_nothing_behind(first_start):
    assert first_start.interrupt() == "" and first_start.process.returncode == 0
    assert lab.is_free(first_start.port)
    assert not list(first_start.home.rglob("jpserver-*"))


class Refusing(http.server.BaseHTTPRequestHandler):
    """Knows one token."""

    def do_GET(self):
        self.send_response(200 if self.headers["Authorization"] == "token right" else 403)
        self.end_headers()

    def log_message(self, *arguments):
        """Nothing."""


def test_only_a_server_of_this_folder_that_answers_counts_as_running(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    assert lab.runtime_folder() == tmp_path
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # of the network; this machine is reached without it
    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        mine = {"root_dir": str(ROOT), "port": port, "url": f"http://127.0.0.1:{port}/", "token": "right"}
        stale = [mine | {"url": "http://127.0.0.1:9/"}, mine | {"token": "of a server that crashed"}, {}, []]
        for number, content in enumerate([*stale, mine | {"root_dir": str(tmp_path)}]):
            (tmp_path / f"jpserver-{number}.json").write_text(json.dumps(content), encoding="utf-8")
        (tmp_path / "jpserver-half.json").write_text('{"port": 88', encoding="utf-8")
        assert lab.running_server(tmp_path) is None
        (tmp_path / "jpserver-7.json").write_text(json.dumps(mine), encoding="utf-8")
        assert lab.running_server(tmp_path) == lab.running_server(tmp_path, port) == tmp_path / "jpserver-7.json"
        assert lab.running_server(tmp_path, port + 1) is None
        assert lab.address(tmp_path / "jpserver-7.json") == f"{mine['url']}{lab.FIRST_PAGE}?token=right"
        server.shutdown()


def test_a_server_that_cannot_start_shows_its_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "SERVER", "no_such_server")
    assert lab.serve(lab.free_port(18_888), open_browser=False, runtime=tmp_path, log=tmp_path / "log") == 1
    assert "No module named no_such_server" in capsys.readouterr().out


def test_the_messages_of_a_kernel_are_sent_at_once():
    done = []

    class Connection:
        async def open(self, kernel_id):
            done.append(kernel_id)

        def set_nodelay(self, value):
            done.append(value)

    server.send_at_once(Connection)
    asyncio.run(Connection().open(kernel_id="kernel"))
    assert done == [True, "kernel"]


def status(address):
    try:
        return urllib.request.urlopen(address, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


# --- what lesson 00 says about the machine ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (environment.python_finding((3, 10, 4)), "install Python 3.11"),
        (environment.memory_finding(total=2, free=1.5), "4 GiB"),
        (environment.memory_finding(total=16, free=0.4), "close other programs"),
        (environment.disk_finding(free=0.2), "free some space"),
        (environment.package_findings(["torch==1.0"])[0], "pip install 'torch==1.0'"),
        (environment.package_findings(["no-such-package>=1"])[0], "make lab"),
    ],
)
def test_the_report_of_a_machine_that_is_not_ready_names_the_fix(finding, words):
    report = environment.EnvironmentReport([finding])
    assert words in finding.fix and not report.ready
    assert words in repr(report) and words.split()[0] in report._repr_html_() and "1 thing to fix" in report.verdict


def test_the_report_of_a_ready_machine_has_nothing_to_fix(tmp_path, monkeypatch):
    findings = [environment.python_finding((3, 13, 0)), *environment.package_findings(), environment.core_finding(1)]
    findings += [environment.thread_finding(2), environment.memory_finding(8, 4), environment.disk_finding(10)]
    report = environment.EnvironmentReport([*findings, environment.work_finding(tmp_path)])
    assert report.ready and "ready" in report.verdict and "✗" not in report._repr_html_()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "folder of your own" in environment.work_finding(tmp_path).fix
