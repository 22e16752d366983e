"""Whatever an answer does, the process that checks it lives on and learns what happened."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import psutil
import pytest
import torch

from utils.checks import isolation
from utils.checks.isolation import run_isolated

FORMS = [pytest.param(False, id="child"), pytest.param(True, id="thread")]
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the forked form exists on Linux only")
if not sys.platform.startswith("linux"):
    FORMS = FORMS[1:]


def endless():
    while True:
        pass


@pytest.mark.parametrize("in_process", FORMS)
def test_a_value_and_what_was_printed_come_back(in_process):
    outcome = run_isolated(lambda: print("hello", end="") or [1, "two"], in_process=in_process)
    assert outcome.ok
    assert outcome.value == [1, "two"]
    assert outcome.printed == "hello"


def multiply():
    left = torch.ones(2, 3)
    return left @ torch.ones(2, 3)


@pytest.mark.parametrize("in_process", FORMS)
def test_an_exception_names_the_line_of_the_student(in_process):
    outcome = run_isolated(multiply, in_process=in_process)
    assert (outcome.kind, outcome.error) == ("exception", "RuntimeError")
    assert "cannot be multiplied" in outcome.message
    assert outcome.code == "return left @ torch.ones(2, 3)"
    assert outcome.line == multiply.__code__.co_firstlineno + 2
    assert "isolation" not in outcome.in_words()


@pytest.mark.parametrize("trouble", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_exception_that_cannot_be_shown_is_reported(trouble):
    class Odd(BaseException):
        def __str__(self):
            raise trouble

    def raise_it():
        raise Odd

    outcome = run_isolated(raise_it)
    assert (outcome.kind, outcome.error) == ("exception", "Odd")
    assert "cannot be shown" in outcome.message


def test_a_message_is_short_and_printable():
    def raise_it():
        raise ValueError("a\x00b\x1b[31m  c\n" + "x " * 10**7)

    message = run_isolated(raise_it).message
    assert message.startswith("a?b?[31m c") and len(message) < 320


@on_linux
def test_what_an_answer_writes_into_the_pipes_is_not_taken_for_a_result(monkeypatch):
    opened, real_pipe = [], os.pipe

    def remembered_pipe():
        opened.append(real_pipe())
        return opened[-1]

    monkeypatch.setattr(os, "pipe", remembered_pipe)
    for message in (isolation.pack(isolation.Outcome("value", value="forged")), b"", b"garbage"):
        opened.clear()

        def forge(message=message):
            os.write(opened[0][1], len(message).to_bytes(8, "little") + message)
            return "honest"

        outcome = run_isolated(forge)
        assert outcome.kind == "died"
        assert "wrote into the channel" in outcome.in_words()


class Opened:
    """Leaves a mark where its pickle is opened."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (os.mkdir, (self.mark,))


def report(**changes) -> bytes:
    """The report of a child process, with something about it changed."""
    fields = {"kind": "value", "value": ["passed", ""], "error": "", "message": "", "line": None, "code": ""}
    return json.dumps(fields | changes).encode()


@on_linux
@pytest.mark.parametrize(
    "message",
    [
        b"[" * 1_000_000,
        b"[1, 2]",
        b"1" * 10_000,
        b"\xff\xfe",
        b'{"kind": "value"}',
        report(kind="dance"),
        report(kind=["value"]),
        report(line="7"),
        report(message=3),
        report(extra=1),
        b"x" * (isolation.RESULT_BYTES + 10**6),
        "a pickle",
    ],
    ids=lambda message: str(message[:20]),
)
def test_an_answer_that_knows_the_seal_cannot_make_this_process_do_anything(message, tmp_path):
    """An answer can find the seal: it runs in the process that holds it."""
    mark = tmp_path / "opened"
    payload = pickle.dumps(Opened(mark)) if message == "a pickle" else message

    def forge():
        frame = sys._getframe()
        while frame.f_code.co_name != "_be_the_child":
            frame = frame.f_back
        whole = frame.f_locals["seal"] + payload
        isolation._write_all(frame.f_locals["result_write"], len(whole).to_bytes(8, "little") + whole)
        os._exit(0)

    outcome = run_isolated(forge)
    assert outcome.kind == "died"
    assert "wrote into the channel" in outcome.in_words()
    assert not mark.exists()


def endless_and_stubborn():
    while True:
        try:
            while True:
                pass
        except:  # noqa: E722 (this is what is tested)
            pass


def recurse(depth=0):
    return recurse(depth + 1)


def grow(make):
    kept = []
    while True:
        kept.append(make())


@pytest.mark.parametrize("in_process", FORMS)
@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda: sys.exit(0), "exception", "SystemExit"),
        (recurse, "exception", "RecursionError"),
        (endless, "timeout", "2 seconds"),
        (lambda: grow(lambda: bytearray(2**20)), "memory", "300 MiB"),
        (lambda: grow(lambda: torch.ones(2**18)), "memory", "300 MiB"),
        (lambda: [0] * 10**15, "memory", "300 MiB"),
        (lambda: torch.ones(10**14), "memory", "300 MiB"),
        (lambda: numpy.ones(10**15), "memory", "300 MiB"),
    ],
)
def test_whatever_goes_wrong_is_named_in_time(function, kind, words, in_process):
    start = time.monotonic()
    outcome = run_isolated(function, 2 if function is endless else 8, mebibytes=300, in_process=in_process)
    assert outcome.kind == kind
    assert words in outcome.in_words()
    assert time.monotonic() - start < 15


@on_linux
@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (endless_and_stubborn, "timeout", "2 seconds"),
        (lambda: os._exit(3), "died", "exit code 3"),
        (lambda: os._exit(0), "died", "exit code 0"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "died", "SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "died", "SIGSEGV"),
        (lambda: input("name? "), "exception", "EOFError"),
        (lambda: breakpoint(), "exception", ""),
        (lambda: lambda: 1, "exception", "cannot be returned"),
    ],
)
def test_a_child_survives_more_and_leaves_no_file_descriptor_open(function, kind, words):
    run_isolated(lambda: 1)
    before = len(os.listdir("/proc/self/fd"))
    outcome = run_isolated(function, seconds=2)
    assert outcome.kind == kind
    assert words in outcome.in_words()
    assert len(os.listdir("/proc/self/fd")) == before


@on_linux
def test_a_machine_without_a_free_process_still_checks(monkeypatch):
    def refuse():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    before = len(os.listdir("/proc/self/fd"))
    assert run_isolated(lambda: 5).value == 5
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_thread_that_will_not_stop_is_given_up_with_advice():
    enough, ended = threading.Event(), threading.Event()

    def stubborn():
        try:
            enough.wait()  # outside Python, where no request to stop arrives
        finally:
            ended.set()

    outcome = run_isolated(stubborn, seconds=0.3, in_process=True)
    assert not ended.is_set()
    assert "restart the kernel" in outcome.in_words()
    enough.set()  # no thread is left burning after the test
    assert ended.wait(10)


@on_linux
def test_the_thread_of_an_answer_is_gone_before_anything_is_forked():
    """Else a child would inherit the locks that the dying thread holds, and wait for them until its time is up."""

    class Farewell:
        def __del__(self):
            time.sleep(0.3)

    kept = threading.local()

    def answer():
        kept.farewell = Farewell()

    before = set(os.listdir("/proc/self/task"))
    assert run_isolated(answer, in_process=True).ok
    assert set(os.listdir("/proc/self/task")) <= before


@on_linux
def test_processes_that_the_answer_started_delay_nothing_and_die_with_it():
    def fork_and_return():
        child = os.fork()
        if child == 0:  # keeps the pipes open
            time.sleep(60)
            os._exit(0)
        return child

    start = time.monotonic()
    pid = run_isolated(fork_and_return).value
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() - start < 15
        time.sleep(0.02)


@on_linux
@pytest.mark.parametrize("end", [lambda: None, lambda: os._exit(3), endless], ids=["returns", "leaves", "never ends"])
def test_a_process_in_a_session_of_its_own_dies_with_the_answer_and_others_live_on(end, tmp_path):
    def start_and_end():
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        (tmp_path / "pid").write_text(str(process.pid), encoding="utf-8")
        end()

    with subprocess.Popen(["sleep", "60"], start_new_session=True) as before:
        run_isolated(start_and_end, seconds=2)
        assert not psutil.pid_exists(int((tmp_path / "pid").read_text(encoding="utf-8")))
        assert before.poll() is None
        before.kill()


@pytest.mark.parametrize("in_process", FORMS)
def test_a_flood_of_output_is_cut(in_process):
    outcome = run_isolated(lambda: [print("x" * 1000) for _ in range(2000)] and None, in_process=in_process)
    assert outcome.ok
    assert len(outcome.printed) < isolation.PRINTED_CHARACTERS + 50
    assert outcome.printed.endswith("(the rest was cut off)")


@on_linux
def test_output_below_python_is_caught_too(capfd):
    outcome = run_isolated(lambda: os.write(1, b"from below\n"))
    assert outcome.printed == "from below\n"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("in_process", FORMS)
def test_random_states_stay_as_they_were(in_process):
    def states():
        return repr((random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()))

    def draw():
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)

    before = states()
    assert run_isolated(draw, in_process=in_process).ok
    assert states() == before


@on_linux
def test_gradients_work_in_the_child_after_gradients_in_the_parent():
    def gradient():
        x = torch.ones(300, 300, requires_grad=True)
        (x @ x).sum().backward()
        return float(x.grad.sum())

    here = gradient()
    assert run_isolated(gradient).value == here


@pytest.mark.parametrize("in_process", FORMS)
def test_an_interrupt_stops_the_answer_and_is_passed_on(in_process, request):
    # A test run in the background may have been started with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    threads, children = set(threading.enumerate()), set(psutil.Process().children())
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_isolated(endless, seconds=30, in_process=in_process)
    assert time.monotonic() - start < 15
    timer.join()
    assert not set(psutil.Process().children()) - children  # other tests of this worker may have left one waiting
    deadline = time.monotonic() + 10
    while set(threading.enumerate()) - threads and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not set(threading.enumerate()) - threads


@on_linux
def test_a_kernel_survives_all_of_this_and_shows_what_was_printed(tmp_path):
    """The real thing: ipykernel, its streams and its threads."""
    from jupyter_client.manager import start_new_kernel

    code = textwrap.dedent(
        """
        import torch
        from IPython.display import display
        from utils.checks.isolation import run_isolated
        x = torch.ones(50, 50, requires_grad=True); (x @ x).sum().backward()

        def endless():
            print("in the loop")
            while True: pass

        def shows():
            print("printed"); display("displayed"); return 1 / 0

        first = run_isolated(endless, seconds=0.5)
        second = run_isolated(shows)
        third = run_isolated(lambda: __import__("os")._exit(1))
        print(first.kind, repr(first.printed), second.line, second.code, repr(second.printed), third.kind, sep="|")
        """
    ).lstrip()
    manager, client = start_new_kernel(cwd=str(tmp_path), kernel_name="python3")
    try:
        heard = []
        for cell in (code, "print('alive')"):
            reply = client.execute_interactive(
                cell, timeout=60, output_hook=lambda message: heard.append(message["content"].get("text", ""))
            )
            assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    text = "".join(heard)
    line = code.split("\n").index('    print("printed"); display("displayed"); return 1 / 0') + 1
    shows = 'print("printed"); display("displayed"); return 1 / 0'
    assert text.startswith(f"timeout|'in the loop\\n'|{line}|{shows}|\"printed\\n'displayed'\\n\"|died\n"), text
    assert text.endswith("alive\n")
