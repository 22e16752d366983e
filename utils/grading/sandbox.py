"""A sandbox for one submission: bubblewrap around `server`, and a socket to it with deadlines.

bubblewrap unshares every namespace: no network, no process but its own, and a read-only file system that holds Python,
and nothing of the course's code or of the folder with the submissions.
"""

import importlib.machinery
import marshal
import os
import shutil
import site
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from utils.grading import Refused
from utils.grading.server import HEAD, KINDS, MOST
from utils.paths import DATA, PACKAGE

SECONDS_TO_START, SECONDS_TO_END = 120, 20
MEBIBYTES = 1024  # by which a child may grow, as in a check in a notebook
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
LIBRARY = ("utils.models.", "utils.data.", "utils.training.")
SOLUTIONS = "utils.exercises.solutions.lesson"
NOBODY = "65534"
HOW_TO_INSTALL = (
    "Grading needs bubblewrap 0.8 or newer ({why}): install it, on Debian and Ubuntu with `apt install bubblewrap`, "
    "or pass --unsafe if you trust every one of these notebooks with your files."
)


class Lost(Exception):
    """The sandbox itself has ended or does not answer."""


@dataclass
class Reply:
    """How a task ended ("value", "timeout", "memory" or "died"), and the bytes that came back, not yet decoded."""

    kind: str
    data: bytes = b""
    status: int = 0  # wait status of the child


def command_line(unsafe: bool = False) -> list[str]:
    """What goes before Python's command; raises Refused where bubblewrap does not work."""
    if not sys.platform.startswith("linux"):
        raise Refused("Grading runs on Linux only: use such a machine, or a container.")
    if unsafe:
        return []
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise Refused(HOW_TO_INSTALL.format(why="`bwrap` is not installed"))
    view = _file_view()
    command = [bubblewrap, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", NOBODY, "--gid", NOBODY]
    command += ["--hostname", "sandbox", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1", *view]
    command += ["--dev", "/dev", "--remount-ro", "/dev", "--chdir", "/", "--remount-ro", "/", "--"]
    if os.geteuid() == 0:  # limits do not bind root: become nobody first, in a view of the system that holds Python
        outer = [bubblewrap, "--die-with-parent", *view, "--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev"]
        become = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--pdeathsig", "KILL"]
        command = [*outer, "--dir", "/tmp", "--", *become, *command]
    tried = subprocess.run([*command, sys.executable, "-I", "-c", ""], capture_output=True, text=True, timeout=60)
    if tried.returncode != 0:
        why = " ".join(tried.stderr.split())[:300] or f"exit code {tried.returncode}"
        raise Refused(HOW_TO_INSTALL.format(why=why))
    return command


def _file_view() -> list[str]:
    """Options that show the system's libraries, Python and the sample data, all read-only, and no code of the course."""
    python = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), *_site_folders()}
    options = []
    for path in [*SYSTEM, *sorted(python | set(map(os.path.realpath, python))), str(DATA)]:
        for parent in reversed(Path(path).parents[:-1]):
            options += ["--dir", str(parent)] if os.path.exists(path) and not path.startswith("/usr/") else []
        options += ["--ro-bind-try", path, path]
    for folder in sorted({os.path.join(folder, "utils") for folder in _site_folders()}):
        if os.path.isdir(folder):
            inside = (
                ["--dir", str(DATA.parent), "--ro-bind", str(DATA), str(DATA)] if DATA.is_relative_to(folder) else []
            )
            options += ["--tmpfs", folder, *inside, "--remount-ro", folder]
    return options


def _site_folders() -> list[str]:
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))] + site.getsitepackages()


# --- the course, as it goes into the sandbox --------------------------------------------------------------------


@cache
def course() -> tuple[dict[str, object], bytes, dict[str, str]]:
    """Code objects of every module of this checkout by name, the same with their files as bytes, and solution texts."""
    modules, texts = {}, {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = (is_package, str(path), importlib.machinery.SourceFileLoader(name, str(path)).get_code(name))
        if name.startswith(SOLUTIONS):
            texts[name] = path.read_text(encoding="utf-8")
    return {name: code for name, (_, _, code) in modules.items()}, marshal.dumps(modules), texts


BOOT = """
import sys
sys.path[:0] = {path!r}
import marshal
module = type(sys)("utils.grading.server")
sys.modules["utils.grading.server"] = module
exec(marshal.loads({code!r}), vars(module))
module.serve(0, {course})
"""


class Sandbox:
    """One running sandbox. It starts empty; `load` fetches a lesson, `settle` its models of mistakes."""

    def __init__(self, command: list[str]):
        modules, data, _ = course()
        self._memory = psutil.Process().memory_info().vms + MEBIBYTES * 2**20  # this process has loaded the same
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the sandbox)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._socket, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            code = marshal.dumps(modules["utils.grading.server"])
            boot = BOOT.format(path=_site_folders(), code=code, course=file.fileno())
            self._process = subprocess.Popen(
                [*command, sys.executable, "-I", "-c", boot],
                pass_fds=[file.fileno()],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/", **threads},
                start_new_session=True,
            )
        theirs.close()
        self._replies = self._socket.makefile("rb")

    def load(self, lesson: str) -> None:
        modules, _, texts = course()
        library = [name for name in modules if name.startswith(LIBRARY) and not name.endswith("__main__")]
        self._order(("load", lesson, texts, [*library, "utils.grading.child"]), SECONDS_TO_START)

    def settle(self, lesson: str) -> None:
        self._order(("settle", lesson, course()[2]), SECONDS_TO_START)

    def run(self, request: dict, body: bytes, seconds: float) -> Reply:
        """Have a fresh child do a task; raises Lost if the sandbox did not survive it."""
        return self._order(("run", request, body, seconds, self._memory), seconds + SECONDS_TO_END)

    def _order(self, order: tuple, seconds: float) -> Reply:
        content = marshal.dumps(order)
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(len(content).to_bytes(8, "little") + content)
            kind, status, length = HEAD.unpack(self._replies.read(HEAD.size))
            return Reply(KINDS[kind], self._replies.read(min(length, MOST)), status)
        except (OSError, struct.error):  # it does not answer, or is gone
            self._errors.seek(0)
            text = " ".join(self._errors.read(10**6).decode("utf-8", "replace").split())[-300:]
            raise Lost(f"The sandbox ended: {text or 'without a message'}") from None

    def close(self) -> None:
        """End process 1; the kernel ends all others of its namespace with it."""
        self._process.kill()
        self._process.wait()
        for channel in (self._replies, self._socket, self._errors):
            channel.close()
