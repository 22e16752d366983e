"""The process that stands ready in the sandbox with torch and the course loaded, and forks one child for each request.

It runs no line of a student's. The course comes to it through a pipe, not through the file system, so its children can
read no course file; each child shuts itself in with limits and a filter of system calls before it reads its request.
"""

import array
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import importlib.abc
import importlib.util
import json
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

GROWTH = "growth"  # bytes of memory that a child may ask for
DESCRIPTORS = 64


class FromMemory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the course from code objects, each of which is forgotten once it has run; `texts` are those of solutions."""

    def __init__(self, modules: dict[str, tuple[bool, str, object]], texts: dict[str, str]):
        self.modules, self.texts = modules, texts

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


def serve(control: socket.socket, course: dict, texts: dict[str, str], wanted: list[str]) -> None:
    """Load the course, say so, then fork and kill as told until the teacher's side is gone."""
    finder = FromMemory(course, texts)
    sys.meta_path.insert(0, finder)
    tempfile.tempdir = "/tmp"  # a name to be imported with; nothing can be written there
    with _without_proc():
        for name in wanted:
            importlib.import_module(name)
        importlib.import_module("utils.exercises.registry").settle()
    finder.modules.clear()
    finder.texts.clear()
    import torch

    torch.set_num_threads(1)
    linecache.clearcache()
    gc.collect()
    gc.freeze()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    control.send(json.dumps({"ready": True}).encode())
    children: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
        _collect(children, control)
        if control not in ready:
            continue
        text, descriptors = _message(control)
        if not text:
            return
        order = json.loads(text)
        if "kill" in order:
            for pid in [pid for pid, number in children.items() if number == order["kill"]]:
                os.kill(pid, signal.SIGKILL)
        else:
            children[_fork(descriptors[0], order)] = order["spawn"]


@contextlib.contextmanager
def _without_proc():
    """The sandbox has no /proc, and a module of the course asks psutil when this process began."""
    import psutil

    real = psutil.Process
    psutil.Process = _Now
    try:
        yield
    finally:
        psutil.Process = real


class _Now:
    def create_time(self) -> float:
        return time.time()


def _message(control: socket.socket) -> tuple[bytes, list[int]]:
    descriptors = array.array("i")
    text, extra, _, _ = control.recvmsg(65536, socket.CMSG_LEN(4 * descriptors.itemsize))
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return text, list(descriptors)


def _collect(children: dict[int, int], control: socket.socket) -> None:
    """Tell of every child that has ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        number = children.pop(pid, None)
        if number is not None:
            control.send(json.dumps({"ended": number, "status": status}).encode())


def _fork(descriptor: int, order: dict) -> int:
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    try:
        _be_the_child(descriptor, order)
    finally:
        os._exit(70)


def _be_the_child(descriptor: int, order: dict) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(descriptor, 3)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.closerange(4, 65536)
    faulthandler.disable()
    limit(order["seconds"], order[GROWTH])
    shut_in()
    from utils.grading import child, wire

    connection = socket.socket(fileno=3)
    request, body = wire.receive(connection, time.monotonic() + 3600, most=2**31)
    connection.settimeout(None)
    message = wire.pack(child.reply(request, body))
    with contextlib.suppress(OSError):
        connection.sendall(message)
    os._exit(0)


def limit(seconds: float, memory: int) -> None:
    """Hard limits; without capabilities no process can lift them again."""
    at_most = int(seconds) + 2
    for what, value in (
        (resource.RLIMIT_CPU, at_most),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(what, (value, value))


# --- the filter of system calls ---------------------------------------------------------------------------------

# name: number on x86_64, on aarch64 (None where it does not exist)
REFUSED = {
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendmsg": (46, 211), "sendmmsg": (307, 269), "recvmsg": (47, 212),
    "recvmmsg": (299, 243), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "setpriority": (141, 140), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "ioprio_set": (251, 30), "migrate_pages": (256, 238),
    "move_pages": (279, 239), "mount": (165, 40), "umount2": (166, 39), "unshare": (272, 97), "setns": (308, 268),
    "chroot": (161, 51), "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "shmget": (29, 194), "shmat": (30, 196),
    "shmctl": (31, 195), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "inotify_add_watch": (254, 27), "fanotify_init": (300, 262), "flock": (73, 32),
    "setsid": (112, 157), "setpgid": (109, 154), "syslog": (103, 116), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}  # fmt: skip
NOT_THERE = {"clone3": (435, 435)}  # its flags stand behind a pointer; the C library then takes `clone`
THREADS_ONLY = {"clone": (56, 220)}
ITSELF_ONLY = {"kill": (62, 129), "tgkill": (234, 131)}
OWN_LIMITS_ONLY = {"prlimit64": (302, 261)}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, MACHINE, FIRST = 0, 4, 16  # offsets in what the filter sees
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
CLONE_THREAD = 0x10000
X32 = 0x40000000


def program(machine: str, pid: int) -> list[tuple[int, int, int, int]]:
    """The filter as instructions (code, jump if true, jump if false, value)."""
    column, name = MACHINES[machine]
    steps = [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, name), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        steps += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE | EPERM)]
    for calls, error in ((REFUSED, EPERM), (NOT_THERE, ENOSYS)):
        for number in (numbers[column] for numbers in calls.values()):
            if number is not None:
                steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | error)]
    for calls, test, value in (
        (THREADS_ONLY, ANY_BIT, CLONE_THREAD),
        (ITSELF_ONLY, EQUAL, pid),
        (OWN_LIMITS_ONLY, EQUAL, 0),
    ):
        for numbers in calls.values():
            refuse = [(LOAD, 0, 0, FIRST), (test, 1, 0, value), (RETURN, 0, 0, REFUSE | EPERM), (RETURN, 0, 0, ALLOW)]
            steps += [(EQUAL, 0, len(refuse), numbers[column]), *refuse]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def shut_in() -> None:
    """From here on: no new process, no program, no network, no signal to another, no way back."""
    libc = ctypes.CDLL(None, use_errno=True)
    packed = b"".join(struct.pack("HBBI", *step) for step in program(platform.machine(), os.getpid()))
    buffer = ctypes.create_string_buffer(packed, len(packed))
    filter_ = struct.pack("HxxxxxxQ", len(packed) // 8, ctypes.addressof(buffer))
    die_with_parent, no_new_privileges, set_filter = 1, 38, 22
    for number, *arguments in (
        (die_with_parent, signal.SIGKILL, 0),
        (no_new_privileges, 1, 0),
        (set_filter, 2, filter_),
    ):
        pointers = [
            ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value) for value in arguments
        ]
        if libc.prctl(number, *pointers, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls could not be set")


# --- the outer wall, where there is no bubblewrap ----------------------------------------------------------------

BIND, RECURSIVE, PRIVATE = 4096, 16384, 1 << 18
MOUNT_SETATTR = 442  # on every machine
CAPABILITIES = 0x20080522  # the edition of the structure


def wall_in(root: str, places: list[str], links: dict[str, str], covered: list[str]) -> None:
    """In fresh namespaces: a file system that holds these places only, all read-only, and no capability left."""
    libc = ctypes.CDLL(None, use_errno=True)

    def done(result: int, what: str) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

    def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
        given = [None if value is None else os.fsencode(value) for value in (source, target, kind)]
        done(libc.mount(*given, ctypes.c_ulong(flags), None), f"mount {target}")

    mount(None, "/", None, RECURSIVE | PRIVATE)
    mount("tmpfs", root, "tmpfs", 0)
    for place in [*places, *(f"/dev/{name}" for name in ("null", "zero", "random", "urandom"))]:
        target = root + place
        os.makedirs(target if os.path.isdir(place) else os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(place):
            open(target, "wb").close()
        mount(place, target, None, BIND | RECURSIVE)
    for place in covered:
        mount("tmpfs", root + place, "tmpfs", 0)
    for link, target in links.items():
        os.symlink(target, root + link)
    read_only = struct.pack("QQQQ", 1, 0, 0, 0)
    here, all_below = -100, 0x8000
    done(
        libc.syscall(MOUNT_SETATTR, here, os.fsencode(root), all_below, read_only, len(read_only)), "make it read-only"
    )
    os.chdir(root)
    done(libc.syscall({"x86_64": 155, "aarch64": 41}[platform.machine()], b".", b"."), "change the root")
    done(libc.umount2(b".", 2), "leave the old root")
    os.chdir("/")
    done(libc.prctl(38, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3), "no new privileges")
    done(libc.capset(struct.pack("II", CAPABILITIES, 0), bytes(24)), "drop all capabilities")


def start(control: int, course: int, walls: tuple | None = None) -> None:
    """Called in the new Python of the sandbox, with the numbers of its two channels."""
    with open(course, "rb") as file:
        modules, texts, wanted = marshal.load(file)
    if walls:
        wall_in(*walls)
    serve(socket.socket(fileno=control), modules, texts, wanted)
