"""Process 1 of a sandbox: it loads torch and one lesson, and forks a child with limits for each task.

It runs no student code. The course arrives through a descriptor, so there is no course file to read. It cannot be killed or
traced by its children: the kernel protects process 1 of a namespace, and it makes itself undumpable.
"""

import contextlib
import ctypes
import gc
import importlib
import importlib.abc
import importlib.util
import linecache
import marshal
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import time
import types

MOST = 16 * 2**20  # bytes of one reply
KINDS = ("value", "timeout", "memory", "died")  # how a child ended
HEAD = struct.Struct("<BiQ")  # index of the kind, wait status, length of the reply
LIBC = ctypes.CDLL(None, use_errno=True)
KEYCTL, JOIN_SESSION = {"x86_64": 250, "aarch64": 219}, 1
SET_DUMPABLE, SHM_INFO, SEM_INFO, MSG_INFO = 4, 14, 19, 12


class FromMemory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the course from code objects, each of which is forgotten once it has run; `texts` are those of solutions."""

    def __init__(self, modules: dict[str, tuple[bool, str, object]]):
        self.modules, self.texts = modules, {}

    def get_source(self, name: str) -> str:
        return self.texts.get(name, "")

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        is_package, file, _ = self.modules[name]
        spec = importlib.util.spec_from_loader(name, self, origin=file, is_package=is_package)
        spec.has_location = True
        return spec

    def exec_module(self, module) -> None:
        _, _, code = self.modules.pop(module.__name__)
        exec(code, vars(module))


def serve(connection: int, course: int) -> None:
    """Do as ordered until the grader closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 receives only signals that it handles: none
    LIBC.prctl(SET_DUMPABLE, 0, 0, 0, 0)
    LIBC.syscall(KEYCTL.get(platform.machine(), -1), JOIN_SESSION, None)  # no namespace covers the keys of the session
    with open(course, "rb") as file:
        finder = FromMemory(marshal.load(file))
    sys.meta_path.insert(0, finder)
    tempfile.tempdir = "/tmp"  # a name to import modules with; nothing can be written there
    importlib.import_module("utils.grading.notebook")
    grader = socket.socket(fileno=connection)
    orders = grader.makefile("rb")
    while length := orders.read(8):
        kind, *content = marshal.loads(orders.read(int.from_bytes(length, "little")))
        ended, status, reply = {"load": load, "settle": settle, "run": run}[kind](finder, *content)
        grader.sendall(HEAD.pack(KINDS.index(ended), status, len(reply)) + reply)
        if ended == "memory":
            return  # with this process ends the namespace that holds the memory


def load(finder: FromMemory, lesson: str, texts: dict[str, str], wanted: list[str]) -> tuple:
    """Load what the lesson needs, and forget everything from which a solution could be read."""
    import psutil
    import torch

    psutil.Process = lambda: types.SimpleNamespace(create_time=time.time)  # psutil needs /proc, which is not here
    finder.texts = texts
    for name in wanted:
        importlib.import_module(name)
    importlib.import_module("utils.exercises.registry").load_lesson(lesson)
    importlib.import_module("utils.exercises.solutions").forget()
    finder.modules.clear()
    finder.texts = {}
    torch.set_num_threads(1)
    _tidy()
    return "value", 0, b""


def settle(finder: FromMemory, lesson: str, texts: dict[str, str]) -> tuple:
    """Make the models of mistakes, which only checks need: they are edits of the solutions."""
    finder.texts = texts
    importlib.import_module("utils.exercises.registry").settle(lesson)
    finder.texts = {}
    _tidy()
    return "value", 0, b""


def _tidy() -> None:
    linecache.clearcache()
    gc.collect()
    gc.freeze()


def run(finder: FromMemory, request: dict, body: bytes, seconds: float, memory: int) -> tuple:
    """Have a child do a task; whatever it does, it is gone when this returns."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _be_the_child(writer, request, body, seconds, memory)
        finally:
            os._exit(70)
    os.close(writer)
    kind, reply = _listen(reader, time.monotonic() + seconds)
    os.close(reader)
    status = _end(pid, patience=0.2 if kind == "value" else 0)
    is_whole = 0 < len(reply) <= MOST and status == 0
    return ("died", status, b"") if kind == "value" and not is_whole else (kind, status, reply)


def _listen(reader: int, deadline: float) -> tuple[str, bytes]:
    reply = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if system_v_objects():
            return "memory", b""
        if select.select([reader], [], [], min(left, 0.02))[0]:
            part = os.read(reader, 2**20)
            reply += part
            if not part or len(reply) > MOST:
                return "value", bytes(reply)
    return "timeout", b""


def system_v_objects() -> int:
    """How many System V segments, semaphores and queues exist: no limit of a process covers their memory."""
    if os.getpid() != 1:  # without a sandbox there are those of others
        return 0
    counts = (ctypes.c_int * 64)()
    infos = ((LIBC.shmctl, (0, SHM_INFO), 0), (LIBC.semctl, (0, 0, SEM_INFO), 7), (LIBC.msgctl, (0, MSG_INFO), 0))
    return sum(counts[index] for info, arguments, index in infos if info(*arguments, ctypes.byref(counts)) >= 0)


def _end(pid: int, patience: float) -> int:
    """The wait status of a child that ends by itself soon or is killed, and with it all that it started."""
    limit = time.monotonic() + patience
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > limit:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # nobody is left
        while os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
            os.waitpid(-1, 0)
    return ended[1]


def _be_the_child(writer: int, request: dict, body: bytes, seconds: float, memory: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.dup2(writer, 3)
    os.closerange(4, 65536)
    os.setsid()
    at_most = {"CPU": int(seconds) + 2, "AS": memory, "NOFILE": 64}
    at_most |= dict.fromkeys(("NPROC", "FSIZE", "CORE", "MEMLOCK", "MSGQUEUE"), 0)  # no process, no thread, no file
    for name, value in at_most.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    module = "notebook" if request["task"] == "look" else "child"  # broken files are refused without torch
    data = importlib.import_module(f"utils.grading.{module}").reply(request, body)
    while data:
        data = data[os.write(3, data) :]
    os._exit(0)
