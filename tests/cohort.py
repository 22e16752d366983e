"""Submissions to grade: right, wrong, broken and hostile ones, as files. Used by tests and by the audit."""

import json
import os
import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from utils.grading.notebook import CALL, USE
from utils.paths import LECTURES, STUDENTS


def lesson(number: str, folder: Path = STUDENTS) -> dict:
    (path,) = folder.glob(f"{number}_*.ipynb")
    return json.loads(path.read_text(encoding="utf-8"))


def code_of(cell: dict) -> str:
    return "".join(cell["source"])


def exercise_cells(notebook: dict) -> dict[str, dict]:
    """The cell of each exercise, by its id."""
    cells = {}
    for cell in notebook["cells"]:
        use = USE.search(code_of(cell)) if cell["cell_type"] == "code" else None
        if use:
            cells[use[1]] = cell
    return cells


def solved(number: str) -> dict:
    """The student notebook with the lecture's answers in it."""
    student, answers = lesson(number), exercise_cells(lesson(number, LECTURES))
    for name, cell in exercise_cells(student).items():
        cell["source"] = code_of(answers[name])
    return student


def spoilt(number: str, every: int = 1) -> dict:
    """Solved, but the answer to every `every`-th exercise gives numbers that are a little off."""
    notebook = solved(number)
    for index, (_, cell) in enumerate(exercise_cells(notebook).items()):
        if index % every == 0:
            name = USE.search(code_of(cell))[2]
            lines = code_of(cell).rstrip().split("\n")
            cell["source"] = "\n".join([*lines[:-1], SPOIL.format(name=name), lines[-1]])
    return notebook


SPOIL = """
def _off(value):
    import torch
    if isinstance(value, torch.Tensor):
        return ~value if value.dtype == torch.bool else value + 1
    if isinstance(value, (tuple, list)):
        return type(value)(_off(part) for part in value)
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else None


def _spoilt(right):
    if not isinstance(right, type):
        return lambda *args, **kwargs: _off(right(*args, **kwargs))
    for name in ("forward", "step", "encode", "vectors"):
        if name in vars(right):
            whole = vars(right)[name]
            setattr(right, name, lambda self, *args, _whole=whole, **kwargs: _off(_whole(self, *args, **kwargs)))
    return right


{name} = _spoilt({name})
"""


def with_answer(code: str, exercise_id: str = "1.1", base: dict | None = None) -> dict:
    """A notebook whose cell of one exercise holds this code, then hands in what it defines."""
    notebook = deepcopy(base) if base is not None else solved("01")
    cell = exercise_cells(notebook)[exercise_id]
    name = USE.search(code_of(cell))[2]
    cell["source"] = f'{code.strip()}\n\n\n{name} = exercise("{exercise_id}").use({name})\n'
    return notebook


WRONG = """
def softmax(logits, temperature=1.0):
    return logits * 0 + 0.25
"""
NAIVE = """
def softmax(logits, temperature=1.0):
    powers = (logits / temperature).exp()
    return powers / powers.sum(-1, keepdim=True)
"""
RIGHT = """
def softmax(logits, temperature=1.0):
    return torch.softmax(logits / temperature, -1)
"""

# The keyring of a user outlives a process.
KEYRING = """
import ctypes, marshal, types
libc = ctypes.CDLL(None)
def keep(data, name=b"kept"):
    libc.syscall(248, b"user", name, data, len(data), -4)
def recall(name=b"kept"):
    buffer = ctypes.create_string_buffer(20_000)
    key = libc.syscall(250, 10, -4, b"user", name, 0)
    length = libc.syscall(250, 11, key, buffer, 20_000) if key > 0 else -1
    return buffer.raw[:length] if length > 0 else None
"""

# Each stands in the cell of exercise 1.1. None may pass, and 1.2 to 1.7 of the same notebook must pass all the same.
# One that defines no answer is followed by a wrong one.
ATTACKS = {
    # forging the verdict
    "replaces the judge": """
import utils.checks.compare, utils.exercises.registry, utils.grading.child as child
utils.checks.compare.judge_with_kind = utils.exercises.registry.judge_with_kind = lambda *a: ("", "")
utils.exercises.registry._verdict = child._verdict = lambda *a: ("passed", "fine")""",
    "replaces the tasks": """
import sys
child = sys.modules["utils.grading.child"]
child._TASKS["check"] = lambda request: ["passed", "fine", ""]
child.returned = lambda *a: dict(calls=[dict(value=None, states=[])])
child.wire.encode = lambda *a: None""",
    "replaces the comparison": """
import utils.checks.compare as checks
checks.departure = checks.difference = lambda *a, **k: None
checks._close = lambda got, want, tolerance: torch.ones_like(got, dtype=torch.bool)
checks.Library.require_intact = lambda self: None""",
    "patches torch": """
torch.equal = torch.allclose = lambda *a, **k: True
torch.Tensor.__eq__ = lambda self, other: torch.ones(self.shape, dtype=torch.bool)""",
    "patches the builtins": """
import builtins
builtins.all = builtins.isinstance = lambda *a: True
builtins.any = lambda *a: False""",
    "says passed in the channel": """
import json, os
forged = dict(kind="value", value=["passed", "fine", ""], error="", message="", line=None, code="")
os.write(3, json.dumps(forged).encode())
os._exit(0)""",
    "says passed with values": """
import json, os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, json.dumps(dict(value=[dict(calls=[dict(value=None, states=[])])] * 11)).encode())
    except OSError:
        continue
os._exit(0)""",
    "returns keys that collide": """
import utils.grading.wire as wire
replies = [{"set": [i * (2**61 - 1) for i in range(100_000)]}]
wire.encode = lambda *a: replies.pop() if replies else None
def softmax(logits, temperature=1.0):
    return torch.softmax(logits / temperature, -1)""",
    "floods the channel": """
import os
while True:
    os.write(3, b"\\xff" * 65536)""",
    "writes when it leaves": """
import atexit, json, os
forged = dict(kind="value", value=["passed", "fine", ""], error="", message="", line=None, code="")
atexit.register(lambda: os.write(3, json.dumps(forged).encode()))
raise SystemExit(0)""",
    "leaves with code 0": "import os\nos._exit(0)",
    "closes every descriptor": "import os\nos.closerange(0, 100)",
    "makes itself the reference": """
import utils.exercises.registry as exercises
def softmax(logits, temperature=1.0):
    return logits * 0 + 0.25
exercises._REGISTER["1.1"].reference = softmax
exercises._REGISTER["1.1"].mistakes = []""",
    "draws no cases": """
import utils.exercises.registry as exercises, utils.checks.compare as checks
exercises.Exercise.make_cases = lambda self, generator: []
checks.compare = lambda *a: None
softmax = lambda logits, temperature=1.0: logits""",
    "is equal to everything": """
class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True
def softmax(logits, temperature=1.0):
    return logits.as_subclass(Equal)""",
    "reads the expected values off the stack": """
import sys
def softmax(logits, temperature=1.0):
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if isinstance(value, list) and value and all(isinstance(part, torch.Tensor) for part in value):
                for part in value:
                    if part.shape == logits.shape:
                        return part
        frame = frame.f_back
    return logits""",
    "returns an object that runs code when unpickled": """
class Bomb:
    def __reduce__(self):
        return (exec, ("open('/tmp/pickled', 'w')",))
def softmax(logits, temperature=1.0):
    return Bomb()""",
    # the reference as the answer
    "asks the register": 'import utils.exercises.registry as them\nsoftmax = them.find("1.1").reference',
    "asks the exercise": 'import utils.exercises.registry as them\nsoftmax = them.exercise("1.1").item.reference',
    "imports the course's own": """
def softmax(logits, temperature=1.0):
    from utils.models import softmax
    return softmax(logits, temperature)""",
    "imports it under another name": "import importlib\nsoftmax = importlib.import_module('utils.models.attention').softmax",
    "takes it out of another function": """
import sys
from utils.models import attention
softmax = next(value for value in vars(sys.modules[attention.__module__]).values()
               if getattr(value, "__name__", "") == "softmax")""",
    "inherits from it": """
import utils.exercises.registry as them
theirs = them.find("1.1").reference
import types
softmax = types.FunctionType(theirs.__code__, theirs.__globals__, "softmax", theirs.__defaults__)""",
    "finds it on the heap": """
import gc, types
gc.unfreeze()
functions = [value for value in gc.get_objects() if isinstance(value, types.FunctionType)
             and value.__name__ == "softmax" and value.__module__.startswith("utils")]
softmax = functions[0]""",
    "reads its source": """
import os
text = ""
import sys
for start in {"/" + "/".join(path.split("/")[1:3]) for path in sys.path if "/" in path}:
    for here, folders, files in os.walk(start):
        folders[:] = [] if here.endswith("-packages") else folders
        if here.endswith("utils/models") and "attention.py" in files:
            text = open(here + "/attention.py").read()
space = {}
exec(text, space)
softmax = space["softmax"]""",
    "asks inspect for its source": """
import inspect
from utils.models import softmax as theirs
space = {"torch": torch}
exec(inspect.getsource(theirs), space)
softmax = space["softmax"]""",
    "reads the solution": """
from utils.exercises.solutions import solution_of
space = {"torch": torch}
exec(solution_of("1.1").code, space)
softmax = space["softmax"]""",
    "keeps the solution for a later process": KEYRING + """
text = recall()
if text is None:
    import utils.exercises.registry as them
    try:
        keep(marshal.dumps(them.find("1.1").reference.__code__))
    except BaseException:
        pass
else:
    softmax = types.FunctionType(marshal.loads(text), {"torch": torch}, "softmax", (1.0,))""",
    # harm
    "never ends": "while True:\n    pass",
    "never ends and catches all": """
def softmax(logits, temperature=1.0):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass""",
    "ignores signals and sleeps": """
import signal, time
for number in range(1, 64):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        continue
time.sleep(10_000)""",
    "forks without end": """
import os
while True:
    try:
        os.fork()
    except OSError:
        raise""",
    "starts programs": """
import subprocess
subprocess.run(["sleep", "1000"])""",
    "starts programs in the background": """
import os
os.system("sleep 1000 &")
softmax = None""",
    "starts threads without end": """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(10_000,), daemon=True).start()""",
    "fills the memory": """
hoard = []
while True:
    hoard.append(torch.ones(10_000_000))""",
    "fills the memory past the limit of one process": """
import mmap, resource
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
hoard = [mmap.mmap(-1, 2**30) for _ in range(64)]""",
    "fills the disk": """
import os
done = []
for folder in ("/tmp", "/dev/shm", "/var/tmp", ".", "/", os.path.expanduser("~")):
    try:
        with open(folder + "/filler", "wb") as file:
            while True:
                file.write(bytes(2**20))
    except OSError as error:
        done.append(error)
raise done[0]""",
    "prints without end": """
while True:
    print("x" * 100_000)""",
    "kills its parent": """
import os, signal
for pid in (os.getppid(), 1, -1, 0, 2, 3):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        continue
os.killpg(0, signal.SIGKILL)""",
    "kills its neighbors through a file": """
import fcntl, os, signal, time
reader, writer = os.pipe()
fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
fcntl.fcntl(reader, 10, signal.SIGKILL)  # F_SETSIG
end = time.monotonic() + 3
while time.monotonic() < end:
    for pid in range(1, 32_768):
        try:
            if pid != os.getpid():
                fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
                os.write(writer, b"x")
                os.read(reader, 1)
        except OSError:
            continue""",
    "stores memory in shared segments": """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
while True:
    segment = libc.shmget(0, 2**28, 0o1600)
    address = libc.shmat(segment, None, 0)
    ctypes.memset(address, 1, 2**28)
    libc.shmdt(ctypes.c_void_p(address))""",
    "tries every wall": """
import ctypes, os, socket, sys, threading
libc = ctypes.CDLL(None)
def refused(attempt):
    try:
        return attempt() in (-1, False)
    except (OSError, RuntimeError, ValueError):
        return True
walls = {
    "fork": os.fork, "thread": lambda: threading.Thread(target=int).start(), "program": lambda: os.system("true") == 0,
    "network": lambda: socket.create_connection(("192.0.2.1", 80), timeout=1), "trace": lambda: libc.ptrace(16, 1, 0, 0),
    "user namespace": lambda: libc.unshare(0x10000000), "processes": lambda: os.listdir("/proc"),
    "memory of process 1": lambda: open("/proc/1/mem"), "course": lambda: open(sys.modules["utils.checks.compare"].__file__),
    "keys": lambda: libc.syscall(250, 10, -3, b"user", b"kept outside", 0),
    "limits": lambda: __import__("resource").setrlimit(7, (9999, 9999)),
    **{folder: (lambda folder=folder: open(folder + "/new", "w")) for folder in ("/", "/tmp", "/dev", "/dev/shm", "/usr")},
}
def softmax(logits, temperature=1.0):
    raise ValueError(f"open: {[name for name, attempt in walls.items() if not refused(attempt)]}")""",
    "stops its parent": """
import os, signal
os.kill(os.getppid(), signal.SIGSTOP)""",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "talks to the network": """
import socket
socket.create_connection(("192.0.2.1", 80), timeout=2)""",
    "listens for others": """
import socket
socket.socket(socket.AF_UNIX).bind("\\0meeting")""",
    "reads other submissions": """
import os
names = []
for here, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if not name.endswith("-packages") and here + name not in ("/usr", "/dev")]
    names += [here + "/" + name for name in files if name.endswith(".ipynb")]
text = "READ " + names[0] if names else "nothing to read"
def softmax(logits, temperature=1.0):
    raise RuntimeError(text)""",
    "edits the grader": """
import os, sys
for name in (sys.modules["utils.checks.compare"].__file__, torch.__file__, os.__file__):
    with open(name, "a") as file:
        file.write("raise SystemExit")""",
    "looks into other processes": """
import os
def softmax(logits, temperature=1.0):
    text = open("/proc/1/environ").read() + open(f"/proc/{os.getppid()}/maps").read()
    text = "READ " + text[:50]
    raise RuntimeError(text)""",
    "traces its parent": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
text = "no tracing" if libc.ptrace(16, os.getppid(), 0, 0) != 0 else "READ memory"
def softmax(logits, temperature=1.0):
    raise RuntimeError(text)""",
    "reads a null pointer": "import ctypes\nctypes.string_at(0)",
    "overflows the stack": """
import sys
sys.setrecursionlimit(10**9)
def fall():
    return fall()
fall()""",
    "recurses": "def softmax(logits, temperature=1.0):\n    return softmax(logits, temperature)",
    "waits for the keyboard": "input('name?')",
    "exits": "def softmax(logits, temperature=1.0):\n    raise SystemExit(0)",
    "interrupts": "def softmax(logits, temperature=1.0):\n    raise KeyboardInterrupt",
    "counts only in double": "torch.set_default_dtype(torch.float64)\ntorch.set_default_device('meta')",
    "is no Python": "def softmax(logits temperature:\n    return",
    "is nested beyond measure": "softmax = " + "(" * 5000 + "1" + ")" * 5000,
    "is a chain beyond measure": "softmax = 1" + "+1" * 30_000,
    "writes a formula into the table": """
def softmax(logits, temperature=1.0):
    raise ValueError("=HYPERLINK('evil') | <script>alert(1)</script> `x` \\u202e\\x1b[31m\\nnext")""",
    "has a name that lies": """
class Passed(Exception):
    pass
Passed.__name__ = "passed"
def softmax(logits, temperature=1.0):
    raise Passed("passed")""",
    "uses a side door of the kernel": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in (425, 319, 435, 57, 56, 101, 272, 165, 323):
    libc.syscall(number, 0, 0, 0, 0, 0, 0)""",
}  # fmt: skip
ATTACKS = {name: code if "softmax" in code else code + WRONG for name, code in ATTACKS.items()}


def collusion() -> dict:
    """The cell of exercise 1.1 keeps the solution of 1.2 for the process that is asked for 1.2."""
    keeper = (
        RIGHT
        + KEYRING
        + """
import utils.exercises.registry as them
keep(marshal.dumps(them.find("1.2").reference.__code__))
"""
    )
    name = USE.search(code_of(exercise_cells(solved("01"))["1.2"]))[2]
    user = f"""{KEYRING}
code = marshal.loads(recall()) if recall() else (lambda *args: args[-1]).__code__
{name} = types.FunctionType(code, dict(torch=torch), "{name}", None, (types.CellType(None),) * len(code.co_freevars))
"""
    return with_answer(user, "1.2", with_answer(keeper))


def odd_but_right() -> dict:
    """What honest students do: magics, variables, mentions, preparations. Every answer is right."""
    notebook = solved("01")
    cells = exercise_cells(notebook)
    sources = {name: code_of(cell) for name, cell in cells.items()}
    above, below = {}, {}
    sources["1.1"] = (
        "%%time"
        + RIGHT.replace("    return", "    # Is this right?\n    return")
        + sources["1.1"].rstrip().split("\n")[-1]
    )
    sources["1.2"] = "if True:\n    %timeit -n 1 -r 1 sum([1])\nfiles = !ls\n" + sources["1.2"]
    renamed = sources["1.8"].replace(USE.search(sources["1.8"])[2], "mine")
    sources["1.8"] = USE.sub("task.use(mine", 'task = exercise("1.8")\n' + renamed)
    below["1.4"] = """# exercise("1.4").use(None)\nnote = 'exercise("1.4").use(nothing)'"""
    above["1.3"] = "import asyncio\nSLEPT = await asyncio.sleep(0, True)"
    above["1.5"] = "CALLS = 0"
    above["1.6"] = "W = torch.zeros(3)\ntorch.nn.init.ones_(W)"
    above["1.7"] = "def setup():\n    global READY\n    READY = True\n\n\nsetup()"
    uses = {
        "1.3": "assert SLEPT",
        "1.5": "global CALLS\n    CALLS += 1",
        "1.6": "assert W.sum() == 3",
        "1.7": "assert READY",
    }
    for name, line in uses.items():
        answer = USE.search(sources[name])[2]
        wrapped = f"inner = {answer}\n\n\ndef {answer}(*args, inner=inner, **kwargs):\n    {line}\n    return inner(*args, **kwargs)"
        *code, last = sources[name].rstrip().split("\n")
        sources[name] = "\n".join([*code, wrapped, "", "", last])
    for name, cell in cells.items():
        cell["source"] = sources[name]
        for source, shift in ((above.get(name), 0), (below.get(name), 1)):
            if source:
                index = next(index for index, other in enumerate(notebook["cells"]) if other is cell)
                notebook["cells"].insert(index + shift, {"cell_type": "code", "metadata": {}, "source": source})
    return {**notebook, "nbformat": "4"}


def in_double() -> dict:
    """Every answer is right, in a notebook that counts in double precision."""
    notebook = solved("01")
    for cell in exercise_cells(notebook).values():
        cell["source"] = "torch.set_default_dtype(torch.float64)\n" + code_of(cell)
    return notebook


@dataclass
class Broken:
    """A file that is no gradable notebook. `says` is a part of what its row must tell the teacher."""

    says: str
    data: bytes = b""


def _with(**changes) -> bytes:
    return json.dumps({**solved("01"), **changes}).encode()


def broken_files() -> dict[str, Broken]:
    other_course = deepcopy(lesson("01"))
    for cell in other_course["cells"]:
        cell["source"] = re.sub(r"\bexercise\(|# Exercise ", "puzzle(", code_of(cell))
    later = json.dumps(lesson("01")).replace('exercise(\\"1.', 'exercise(\\"97.')
    assert CALL.search(json.loads(later)["cells"][0]["source"][0]) is None
    return {
        "empty": Broken("empty"),
        "no JSON": Broken("not valid JSON", b"this is my homework"),
        "cut off": Broken("not valid JSON", json.dumps(solved("01")).encode()[:-500]),
        "merge": Broken("unresolved merge conflict", b"<<<<<<< HEAD\n" + json.dumps(solved("01")).encode()),
        "a list": Broken("not a notebook", b"[1, 2, 3]"),
        "a dictionary": Broken("not a notebook", b'{"cells": []}'),
        "format 3": Broken("format 3", _with(nbformat=3)),
        "format 5": Broken("format 5", _with(nbformat=5)),
        "no cells": Broken("damaged", _with(cells="none")),
        "odd cells": Broken("damaged", _with(cells=[1, 2])),
        "odd source": Broken("damaged", _with(cells=[{"cell_type": "code", "source": 5}])),
        "no cell at all": Broken("no exercise of this course", _with(cells=[])),
        "another course": Broken("no exercise of this course", json.dumps(other_course).encode()),
        "no such lesson": Broken("lesson 97", later.encode()),
        "picture": Broken("not UTF-8 text", b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
        "UTF-16": Broken("not UTF-8 text", json.dumps(solved("01")).encode("utf-16")),
        "nested": Broken("not valid JSON", b"[" * 200_000 + b"]" * 200_000),
        "too much code": Broken("2 MiB", _with(cells=[{"cell_type": "code", "source": "#" * (3 * 2**20)}])),
        "a huge number": Broken("not valid JSON", b'{"nbformat": ' + b"9" * 6000 + b"}"),
    }


def write(folder: Path, name: str, notebook: dict | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode())
    return path


def odd_places(folder: Path, outside: Path) -> dict[str, str]:
    """Things that only look like notebooks. Gives the name of each and what its row must say."""
    secret = write(outside, "secret_01.ipynb", solved("01"))
    (folder / "link_01.ipynb").symlink_to(secret)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "folder_01.ipynb").mkdir()
    write(folder / "folder_01.ipynb", "inner.ipynb", solved("01"))
    os.mkfifo(folder / "pipe_01.ipynb")
    (folder / "dangling_01.ipynb").symlink_to(outside / "nothing")
    with open(folder / "huge_01.ipynb", "wb") as file:
        file.truncate(80 * 2**20)
    return {
        "link_01.ipynb": "a link",
        "loop": "a link",
        "folder_01.ipynb": "a folder",
        "pipe_01.ipynb": "not a regular file",
        "dangling_01.ipynb": "a link",
        "huge_01.ipynb": "clear the outputs",
    }


def fake_course(folder: Path) -> None:
    """A `utils` of the student's own beside the notebook, in which everything passes."""
    code = "def judge(*a):\n    return ''\nraise RuntimeError('the course of a student was loaded')\n"
    for name in ("utils/__init__", "utils/checks/__init__", "utils/checks/compare", "torch", "sitecustomize"):
        write(folder, f"{name}.py", code.encode())


def short(notebook: dict, *exercise_ids: str) -> dict:
    """The same with its import cell and the cells of these exercises only: quick to grade."""
    kept = [cell for name, cell in exercise_cells(notebook).items() if name in exercise_ids]
    imports = next(cell for cell in notebook["cells"] if "from utils.exercises import" in "".join(cell["source"]))
    return {**notebook, "cells": [imports, *kept]}
