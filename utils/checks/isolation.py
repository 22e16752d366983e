"""Run a student's code so that it cannot harm the kernel.

On Linux the code runs in a forked child with a time limit and a memory limit. Elsewhere it runs in a watched
thread of this process: endless loops and growing memory are stopped there too, but an answer that ends the
process ends the kernel.
"""

import builtins
import contextlib
import ctypes
import faulthandler
import gc
import io
import json
import linecache
import os
import random
import select
import signal
import site
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

PRINTED_CHARACTERS = 3000
RESULT_BYTES = 2**22  # far more than any verdict needs
MEBIBYTE = 2**20
_COURSE = str(Path(__file__).resolve().parents[1])


@dataclass
class Outcome:
    """How a run ended: kind is "value", "exception", "timeout", "memory" or "died"."""

    kind: str
    value: Any = None
    error: str = ""  # type of the exception
    message: str = ""  # text of the exception, or how the process died
    line: int | None = None  # where in the student's code, counted from the top of the cell
    code: str = ""  # the text of that line
    seconds: float = 0.0  # the limit
    mebibytes: int = 0  # the limit
    printed: str = ""

    @property
    def ok(self) -> bool:
        return self.kind == "value"

    def in_words(self) -> str:
        """One or two sentences for the student."""
        if self.kind == "timeout":
            stopped = f"It was stopped after {self.seconds:g} seconds because it had not ended. "
            return stopped + "Is there a loop whose condition never becomes false?" + self.message
        if self.kind == "memory":
            stopped = f"It was stopped because it needed more than {self.mebibytes} MiB of memory. "
            return stopped + "Is something growing in a loop, or much larger than its inputs?" + self.message
        if self.kind == "died":
            return f"Your code ended the whole process instead of returning: {self.message}."
        if self.kind == "exception":
            return f"Your code raised {error_in_words(self.error, self.message)}{self._location()}."
        return "It ran to its end."

    def _location(self) -> str:
        return location_in_words(self.line, self.code)


def error_in_words(kind: str, message: str) -> str:
    return f"{kind}: {message}" if message else kind


def location_in_words(line: int | None, code: str) -> str:
    if line is None:
        return ""
    return f", at line {line}: `{code}`" if code else f", at line {line}"


def run_isolated(
    function: Callable[[], Any],
    seconds: float = 8.0,
    mebibytes: int = 2048,
    in_process: bool | None = None,
) -> Outcome:
    """Call `function()` and report how it ended. `in_process=True` forces the variant used outside Linux.

    The value is returned as JSON (unchanged in the in-process variant), so that nothing in it can run here. Printed output
    is returned too. Random states of this process do not change.
    """
    if in_process is None:
        in_process = not sys.platform.startswith("linux")
    if not in_process:
        with contextlib.suppress(_NoFork):  # no process available: fall back to the thread
            return _run_in_child(function, seconds, mebibytes)
    return _run_in_thread(function, seconds, mebibytes)


# What went wrong, in the student's own lines


def is_memory_error(error: BaseException) -> bool:
    """torch reports a failed allocation as a RuntimeError."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in text_of(error)


def where(error: BaseException) -> tuple[int | None, str]:
    """Line number and text of the innermost frame in the student's code, if there is one."""
    location: tuple[int | None, str] = (None, "")
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _is_student_code(frame.f_code.co_filename):
            text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
            location = (line, text)
    return location


def text_of(error: BaseException) -> str:
    """The message, short and printable; an exception whose own __str__ fails has none."""
    try:
        text = str(error)[:10_000]
    except Stopped:
        raise
    except BaseException:  # the student's class may do anything here, even leave Python
        return "(its message cannot be shown)"
    text = " ".join(text.split())
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 300 else text[:300] + " ..."


def failure(error: BaseException) -> Outcome:
    if is_memory_error(error):
        return Outcome("memory")
    line, code = where(error)
    return Outcome("exception", error=type(error).__name__, message=text_of(error), line=line, code=code)


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    return tuple(str(Path(folder).resolve()) + os.sep for folder in folders)


_FOREIGN = (_COURSE + os.sep, *_library_folders())


def _is_student_code(filename: str) -> bool:
    if filename.startswith(("<frozen", "<__array_function__")):
        return False
    if filename.startswith("<"):
        return True
    return not os.path.realpath(filename).startswith(_FOREIGN)


# In a forked child (Linux)


def _run_in_child(function, seconds: float, mebibytes: int) -> Outcome:
    deadline = time.monotonic() + seconds
    seal = os.urandom(16)  # distinguishes our message from whatever an answer may write into the pipe
    result_read, result_write = os.pipe()
    printed_read, printed_write = os.pipe()
    _flush(sys.stdout)
    _flush(sys.stderr)
    child, family = None, _Family()
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns that threads and fork do not mix: a lock that another thread holds now stays locked in
            # the child for good. No thread of the course runs at this moment (see `_stop`), and the child uses one
            # torch thread and its own output streams, and leaves by os._exit.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = _fork()
        if child == 0:
            _be_the_child(function, mebibytes, result_write, printed_write, seal)
        os.close(result_write)
        os.close(printed_write)
        result_write = printed_write = None
        result, printed, in_time = _listen(child, result_read, printed_read, deadline)
    finally:
        status = _kill(child) if child else None
        family.end()
        for descriptor in (result_read, printed_read, result_write, printed_write):
            if descriptor is not None:
                os.close(descriptor)
    outcome = _read_result(result, seal, in_time, status)
    outcome.printed = _shorten(printed.decode("utf-8", "replace"))
    outcome.seconds, outcome.mebibytes = seconds, mebibytes
    return outcome


class _NoFork(Exception):
    pass


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:
        raise _NoFork from error


def _be_the_child(function, mebibytes: int, result_write: int, printed_write: int, seal: bytes) -> None:
    """Never returns: whatever happens, the child leaves by os._exit."""
    try:
        os.setsid()
        torch.set_num_threads(1)  # first of all torch calls: its thread pool did not survive the fork
        faulthandler.disable()
        gc.freeze()  # objects of the parent must not be finalized here
        _use_own_streams(printed_write)
        lift = _limit_memory(mebibytes)
        outcome = outcome_of(function)
        lift()
        message = seal + pack(outcome)
        _flush(sys.stdout)
        _flush(sys.stderr)
        _write_all(result_write, len(message).to_bytes(8, "little") + message)
    finally:
        os._exit(0)


def outcome_of(function) -> Outcome:
    try:
        return Outcome("value", value=function())
    except BaseException as error:  # SystemExit and KeyboardInterrupt are answers too
        return failure(error)


# Fields of the child's report, with the types that the parent accepts. Nothing from an answer is ever unpickled,
# because a pickle can run code when it is loaded.
_REPORT = {"kind": str, "value": object, "error": str, "message": str, "line": int | None, "code": str}


def pack(outcome: Outcome) -> bytes:
    try:
        return json.dumps({name: getattr(outcome, name) for name in _REPORT}).encode()
    except Exception as error:  # whatever json or a student's class raises
        message = f"the result of type {type(outcome.value).__name__} cannot be returned ({text_of(error)})"
        return pack(Outcome("exception", error=type(error).__name__, message=message))


def _flush(stream) -> None:
    with contextlib.suppress(ValueError, OSError):  # the answer may have closed it
        stream.flush()


def _use_own_streams(printed_write: int) -> None:
    """Everything printed goes into the pipe; the kernel's own streams and sockets stay untouched."""
    os.dup2(printed_write, 1)
    os.dup2(printed_write, 2)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (stays open until the child ends)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "replace", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "replace", write_through=True)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    builtins.input = _no_input
    sys.breakpointhook = _no_breakpoint
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "IPython" in sys.modules:
        from IPython.core.interactiveshell import InteractiveShell

        if InteractiveShell.initialized():
            InteractiveShell.instance().display_pub.publish = _print_display


def _no_input(prompt=""):
    raise EOFError("a check cannot type input: the answer must not call input()")


def _no_breakpoint(*arguments, **settings):
    raise RuntimeError("a check cannot stop at breakpoint(): call your function in a cell of its own")


def _print_display(data=None, *arguments, **settings) -> None:
    print((data or {}).get("text/plain", ""))


def _limit_memory(mebibytes: int) -> Callable[[], None]:
    """Limit growth, not size: torch alone maps gigabytes. Returns what lifts the limit again."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + mebibytes * MEBIBYTE
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _listen(child: int, result_read: int, printed_read: int, deadline: float) -> tuple[bytes, bytes, bool]:
    """Read until the result is complete, the child is gone or the time is up.

    End-of-file alone is not trusted: a grandchild may hold the pipes open.
    """
    result, printed = bytearray(), bytearray()
    open_ends = {result_read, printed_read}
    gone = False
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return bytes(result), bytes(printed), False
        ready, _, _ = select.select(list(open_ends), [], [], 0 if gone else min(left, 0.05))
        for descriptor in ready:
            data = os.read(descriptor, 65536)
            if not data:
                open_ends.discard(descriptor)
            elif descriptor == result_read:
                result += data
            elif len(printed) < 4 * PRINTED_CHARACTERS:
                printed += data  # the rest is read and dropped, so that the child never blocks on it
        if len(result) > RESULT_BYTES or (gone and not ready):
            return bytes(result), bytes(printed), True
        if _complete(result):
            gone = True  # what was printed before is already in the pipe: one more round and done
        elif not ready or result_read not in open_ends:
            gone = _has_ended(child)


def _complete(result: bytearray) -> bool:
    return len(result) >= 8 and len(result) >= 8 + int.from_bytes(result[:8], "little")


def _has_ended(child: int) -> bool:
    # WNOWAIT leaves the process to be collected later, which keeps its group id from being reused.
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # another part of the program collects all children
        return True


def _kill(child: int) -> int:
    """End the child and all it started; return its wait status."""
    for kill, target in ((os.killpg, child), (os.kill, child)):  # the group exists only after setsid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(target, signal.SIGKILL)
    try:
        return os.waitpid(child, 0)[1]
    except ChildProcessError:
        return 0


class _Family:
    """Processes that an answer starts, also those in a session of their own: this process adopts them and ends them."""

    def __init__(self):
        self._before = set(self._processes())
        self._adopted = ctypes.c_int()
        _prctl(_GET_SUBREAPER, ctypes.byref(self._adopted))
        _prctl(_SET_SUBREAPER, ctypes.c_ulong(1))

    def _processes(self) -> list:
        import psutil

        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # there is none: no need to search all processes of the machine
            return []
        return psutil.Process().children(recursive=True)

    def end(self, patience: float = 2.0) -> None:
        """What a thread of the kernel itself starts meanwhile stays: it is in the session of the kernel."""
        limit = time.monotonic() + patience
        while time.monotonic() < limit and (left := list(filter(self._is_foreign, self._processes()))):
            for process in left:
                with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                    os.kill(process.pid, signal.SIGKILL)
                    os.waitpid(process.pid, os.WNOHANG)
        _prctl(_SET_SUBREAPER, ctypes.c_ulong(self._adopted.value))

    def _is_foreign(self, process) -> bool:
        with contextlib.suppress(ProcessLookupError):
            return process not in self._before and os.getsid(process.pid) != os.getsid(0)
        return False


_SET_SUBREAPER, _GET_SUBREAPER = 36, 37


def _prctl(number: int, value) -> None:
    unused = [ctypes.c_ulong(0)] * 3
    ctypes.CDLL(None).prctl(number, value, *unused)


def _read_result(result: bytes, seal: bytes, in_time: bool, status: int) -> Outcome:
    if _complete(bytearray(result)) or len(result) > RESULT_BYTES:
        return unpack(result[8:], seal)
    if not in_time:
        return Outcome("timeout")
    return Outcome("died", message=end_in_words(status))


def end_in_words(status: int) -> str:
    """How a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"it was killed by signal {signal.Signals(number).name if number in list(signal.Signals) else number}"
    return f"it left with exit code {os.WEXITSTATUS(status)}"


def unpack(message: bytes, seal: bytes) -> Outcome:
    foreign = Outcome("died", message="it wrote into the channel that the check uses")
    if not message.startswith(seal):
        return foreign
    try:
        report = json.loads(message[len(seal) :])
    except (ValueError, RecursionError):
        return foreign
    if (
        not isinstance(report, dict)
        or set(report) != set(_REPORT)
        or report["kind"] not in ("value", "exception", "memory")
    ):
        return foreign
    return Outcome(**report) if all(isinstance(report[name], kind) for name, kind in _REPORT.items()) else foreign


def _shorten(text: str) -> str:
    if len(text) <= PRINTED_CHARACTERS:
        return text
    return text[:PRINTED_CHARACTERS] + "\n... (the rest was cut off)"


# In a watched thread (macOS, Windows)


class Stopped(BaseException):
    """Raised inside the answer to stop it; not an Exception, so that `except Exception` lets it pass."""


def _run_in_thread(function, seconds: float, mebibytes: int) -> Outcome:
    answer = _Answer(function)
    printed = _Printed()
    states = (random.getstate(), numpy.random.get_state(), torch.get_rng_state())
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            reason = _watch(answer, seconds, mebibytes)
    finally:  # also on KeyboardInterrupt
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        torch.set_rng_state(states[2])
    outcome = answer.outcome
    if outcome is None or (reason and not outcome.ok):
        outcome = Outcome(reason)
    if not answer.ended.is_set():
        outcome.message = " It could not be stopped: please restart the kernel."
    outcome.printed, outcome.seconds, outcome.mebibytes = _shorten(printed.text), seconds, mebibytes
    return outcome


class _Answer(threading.Thread):
    """`ended` is kept here because an interrupt during `join` makes Python 3.11 believe a thread has ended."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function = function
        self.outcome: Outcome | None = None
        self.ended = threading.Event()
        self.lock = threading.Lock()  # held while asking it to stop, and while it ends

    def run(self) -> None:
        begun = False
        while not self.ended.is_set():
            try:  # a request to stop may arrive anywhere in here, even when there is nothing left to stop
                if not begun:
                    begun = True
                    self.outcome = outcome_of(self.function)
                with self.lock:
                    self.ended.set()
                return
            except Stopped:
                continue


def _watch(answer: _Answer, seconds: float, mebibytes: int) -> str:
    """Run the answer to its end or stop it; returns why it was stopped."""
    import psutil

    process = psutil.Process()
    resident, deadline = process.memory_info().rss, time.monotonic() + seconds
    answer.start()
    try:
        while not answer.ended.wait(0.02):
            if process.memory_info().rss - resident > mebibytes * MEBIBYTE:
                return "memory"
            if time.monotonic() > deadline:
                return "timeout"
        return ""
    finally:
        _stop(answer)


def _stop(answer: _Answer, patience: float = 1.5) -> None:
    """Ask again and again: a bare `except:` may swallow the first requests."""
    end = time.monotonic() + patience
    while not answer.ended.is_set() and time.monotonic() < end:
        with answer.lock:
            if not answer.ended.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(answer.ident), ctypes.py_object(Stopped))
        answer.ended.wait(0.05)
    # A thread that has ended still frees its memory, under locks of the matrix library: a child forked now might wait for
    # them forever. Only Linux forks, and only there does this folder exist.
    while answer.ended.is_set() and os.path.exists(f"/proc/self/task/{answer.native_id}") and time.monotonic() < end:
        time.sleep(0.001)


class _Printed(io.TextIOBase):
    """Keeps the beginning of the printed output and drops the rest."""

    def __init__(self):
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if len(self.text) <= PRINTED_CHARACTERS:
            self.text += text
        return len(text)
