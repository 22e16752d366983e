"""The teacher's end of the sandbox: start it, ask it, and see that nothing of it stays behind.

bubblewrap, or namespaces by hand, give the outer wall (no network, its own processes, a read-only file system that holds
Python and nothing of the course or of the folder); `fork_server` shuts each child in once more.
"""

import contextlib
import importlib.machinery
import itertools
import json
import marshal
import os
import platform
import shutil
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from utils.grading import fork_server, wire
from utils.paths import ROOT

SECONDS_TO_START, SECONDS_TO_END = 120, 60
MEBIBYTES = 1024  # by which a child may grow; as much as a check in a notebook has
SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/nix/store",
    "/gnu/store",
)
LOADED = ("utils.models", "utils.data", "utils.training")  # what lessons build on, besides the exercises themselves


class NoSandbox(Exception):
    """There is none to be had here; the text says what to do."""


class Lost(Exception):
    """The sandbox itself has ended; it can be started again."""


@dataclass
class Reply:
    """What came back: kind "value", "refused", "exception", "memory", "timeout" or "died"."""

    kind: str
    message: dict = field(default_factory=dict)

    @property
    def value(self):
        return self.message.get("value")

    def text(self, name: str, length: int = 2000) -> str:
        found = self.message.get(name)
        return found[:length] if isinstance(found, str) else ""


def course_modules() -> dict[str, tuple[bool, str, object]]:
    """(is package, file, code) of every module of the course, from the teacher's own checkout."""
    modules = {}
    for path in sorted((ROOT / "utils").rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        code = importlib.machinery.SourceFileLoader(name, str(path)).get_code(name)
        modules[name] = (is_package, str(path), code)
    return modules


def solution_texts(modules: dict) -> dict[str, str]:
    """Mistakes are edits of the solutions: the fork server makes them all, then forgets the text."""
    names = [name for name in modules if name.startswith("utils.exercises.solutions.")]
    return {name: Path(modules[name][1]).read_text(encoding="utf-8") for name in names}


def wanted_modules(modules: dict) -> list[str]:
    """What the fork server loads before its first child."""
    lessons = [name for name in modules if name.startswith("utils.exercises")]
    library = [name for name in modules if name.startswith(tuple(f"{room}." for room in LOADED))]
    library = [name for name in library if not name.endswith("__main__")]
    return [*lessons, *library, "utils.grading.child"]


@dataclass
class Walls:
    """The command that goes before Python's, and what Python then does itself where that command is not bubblewrap."""

    command: list[str]
    says_its_pid: bool = False
    root: str = ""  # an empty folder, over which the new root is laid

    def inner(self) -> tuple | None:
        return (self.root, *file_view()) if self.root else None


def how_to_shut_in(unsafe: bool = False) -> Walls:
    """bubblewrap, or namespaces by hand; raises NoSandbox where neither is to be had."""
    if not sys.platform.startswith("linux") or platform.machine() not in fork_server.MACHINES:
        raise NoSandbox("Grading runs on Linux only (x86_64 or aarch64): use such a machine, or a container.")
    if unsafe:
        return Walls([])
    bubblewrap, unshare = shutil.which("bwrap"), shutil.which("unshare")
    tried = []
    if bubblewrap:
        command = [bubblewrap, *_bubblewrap_options()]
        tried.append(f"bubblewrap: {_trouble([*command, '--', sys.executable, '-I', '-c', ''])}")
        if tried[-1].endswith(": "):
            return Walls([*command], says_its_pid=True)
    if unshare:
        command = [
            unshare,
            "--user",
            "--map-root-user",
            "--mount",
            "--net",
            "--pid",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
        ]
        tried.append(f"unshare: {_trouble([*command, sys.executable, '-I', '-c', ''])}")
        if tried[-1].endswith(": "):
            return Walls(command, root=tempfile.mkdtemp(prefix="grading"))
    why = "; ".join(tried) or "neither bubblewrap (`bwrap`) nor `unshare` is installed"
    raise NoSandbox(
        f"There is no sandbox on this machine ({why}), so nothing was graded: install bubblewrap, or pass --unsafe if you trust "
        "every one of these notebooks with your files."
    )


def _trouble(command: list[str]) -> str:
    """What a command says when it fails; "" when it does not."""
    tried = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if tried.returncode == 0:
        return ""
    return " ".join(tried.stderr.split())[:300] or f"exit code {tried.returncode}"


def file_view() -> tuple[list[str], dict[str, str], list[str]]:
    """What the sandbox sees: places, all read-only, links, and folders that are covered up.

    The places are the system's libraries, Python, and the course's sample data; a copy of the course among Python's packages
    is covered up.
    """
    places = [place for place in SYSTEM if os.path.exists(place) and not os.path.islink(place)] + _python_folders()
    links = {place: os.readlink(place) for place in SYSTEM if os.path.islink(place)}
    data = str(ROOT / "data")
    copies = [os.path.join(folder, "utils") for folder in _site_folders()]
    covered = sorted({place for place in copies if os.path.isdir(place)})
    return places + ([data] if os.path.isdir(data) else []), links, covered


def _bubblewrap_options() -> list[str]:
    options = ["--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    options += ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1"]
    places, links, covered = file_view()
    for place in places:
        options += ["--ro-bind", place, place]
    for place, target in links.items():
        options += ["--symlink", target, place]
    for place in covered:
        options += ["--tmpfs", place, "--remount-ro", place]
    return [*options, "--dev", "/dev", "--remount-ro", "/dev", "--chdir", "/", "--remount-ro", "/"]


def _environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "Agg",
        **threads,
    }


def _python_folders() -> list[str]:
    """Where Python and its packages stand, each once; folders that hold another one of them come first."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sysconfig.get_paths().values()}
    found |= {os.path.realpath(sys.executable), *_site_folders()}
    found |= {os.path.realpath(place) for place in found}
    kept: list[str] = []
    for place in sorted(place for place in found if os.path.exists(place)):
        inside = any(Path(place).is_relative_to(other) for other in (*kept, "/usr"))
        if not inside and place != "/":
            kept.append(place)
    return kept


def _site_folders() -> list[str]:
    return [place for place in sys.path if place.endswith(("site-packages", "dist-packages"))] + site.getsitepackages()


BOOT = """
import sys
sys.path[:0] = {path!r}
import importlib.util, marshal
with open({boot}, "rb") as file:
    code = marshal.load(file)
module = type(sys)("utils.grading.fork_server")
exec(code, vars(module))
module.start({control}, {course}, {walls!r})
"""


class Sandbox:
    """One running sandbox. `ask` may be called from several threads."""

    def __init__(self, unsafe: bool = False, mebibytes: int = MEBIBYTES):
        self._walls, self._mebibytes = how_to_shut_in(unsafe), mebibytes
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[threading.Event, list[int]]] = {}
        self._lock = threading.Lock()
        self._start()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _start(self) -> None:
        modules = course_modules()
        boot = marshal.dumps(modules["utils.grading.fork_server"][2])
        course = marshal.dumps((modules, solution_texts(modules), wanted_modules(modules)))
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the sandbox is)
        info_read, info_write = os.pipe()
        with _unnamed_file(boot) as boot_file, _unnamed_file(course) as course_file:
            script = BOOT.format(
                path=_site_folders(),
                boot=boot_file.fileno(),
                control=theirs.fileno(),
                course=course_file.fileno(),
                walls=self._walls.inner(),
            )
            info = ["--info-fd", str(info_write), "--"] if self._walls.says_its_pid else []
            self._process = subprocess.Popen(
                [*self._walls.command, *info, sys.executable, "-I", "-c", script],
                pass_fds=(theirs.fileno(), boot_file.fileno(), course_file.fileno(), info_write),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env=_environment(),
                start_new_session=True,
            )
        theirs.close()
        os.close(info_write)
        with open(info_read, "rb") as file:
            inside = json.loads(file.read() or b"{}").get("child-pid") if self._walls.says_its_pid else None
        self._control.settimeout(SECONDS_TO_START)
        try:
            ready = json.loads(self._control.recv(65536) or b"{}").get("ready")
            pages = int(Path(f"/proc/{inside or self._innermost()}/statm").read_text(encoding="utf-8").split()[0])
        except (OSError, IndexError, ValueError, psutil.Error):
            ready = False
        if not ready:
            self._process.kill()
            self._process.wait()
            self._said.seek(0)
            said = " ".join(self._said.read().decode("utf-8", "replace").split())[-600:]
            raise Lost(f"The sandbox did not start: {said or 'it said nothing'}")
        self._control.settimeout(None)
        self._memory = pages * os.sysconf("SC_PAGE_SIZE") + self._mebibytes * 2**20
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _innermost(self) -> int:
        return max(
            [self._process.pid, *(child.pid for child in psutil.Process(self._process.pid).children(recursive=True))]
        )

    def _listen(self) -> None:
        """Hear of ended children until the fork server is gone."""
        while True:
            try:
                text = self._control.recv(65536)
            except OSError:
                text = b""
            if not text:
                break
            message = json.loads(text)
            with self._lock:
                waiting = self._waiting.pop(message.get("ended"), None)
            if waiting:
                waiting[1].append(message["status"])
                waiting[0].set()
        with self._lock:
            left, self._waiting = self._waiting, {}
            self._gone = True
        for event, _ in left.values():
            event.set()

    _gone = _closed = False

    def ask(self, request: dict, seconds: float, body: bytes = b"") -> Reply:
        """Have a fresh child do a task; whatever it does, it is gone when this returns."""
        mine, theirs = socket.socketpair()
        number, event, status = next(self._numbers), threading.Event(), []
        order = {"spawn": number, "seconds": seconds, fork_server.GROWTH: self._memory}
        with mine:
            with theirs, self._lock:
                if self._gone:
                    raise Lost("The sandbox has ended.")
                self._waiting[number] = (event, status)
                socket.send_fds(self._control, [json.dumps(order).encode()], [theirs.fileno()])
            reply = self._listen_to(mine, request, body, time.monotonic() + seconds)
        with self._lock, contextlib.suppress(OSError):
            self._control.send(json.dumps({"kill": number}).encode())
        event.wait(SECONDS_TO_END)
        if not status:
            raise Lost("The sandbox ended while it had a task.")
        if reply.kind == "died":
            reply.message["status"] = status[0]
        return reply

    def _listen_to(self, mine: socket.socket, request: dict, body: bytes, deadline: float) -> Reply:
        try:
            mine.settimeout(max(0.001, deadline - time.monotonic()))
            mine.sendall(wire.pack(request, body))
            message, _ = wire.receive(mine, deadline)
        except TimeoutError:
            return Reply("timeout")
        except (EOFError, ConnectionError):
            return Reply("died")
        except wire.Broken as error:
            return Reply("died", {"broken": str(error)})
        kind = message.get("kind")
        return Reply(kind, message) if kind in ("value", "refused", "exception", "memory") else Reply("died")

    def close(self) -> None:
        """End the fork server; with it ends all that is in its process namespace."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._control.close()
        self._said.close()
        if self._walls.root:
            os.rmdir(self._walls.root)
        self._listener.join(5)


@contextlib.contextmanager
def _unnamed_file(data: bytes):
    """A file without a name, at its beginning."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        yield file
