"""Trained results are kept on disk, so that nobody waits for the same training twice.

    @kept
    def train_curve(seed, steps=300): ...

The second call with the same arguments loads what the first one trained; also in another kernel, in the student
form of a lesson, on another day. The key is made of the function's name, the meaning of every module that its own
module imports from its package, the arguments, the content of the data files it reads, and the versions of Python
and torch. So a changed line anywhere in that code trains again, and a changed comment does not.

What a kept function must be:
- A function of its arguments. It takes a seed; the global random states are set to a fixed seed while it runs and
  put back afterwards, so that neither its result nor the rest of the notebook can depend on whether it ran.
- It returns numbers, strings, None, tensors, and lists, tuples and dicts of those.
- It leaves its arguments as they were.
"""

import contextlib
import dataclasses
import functools
import getpass
import hashlib
import inspect
import io
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import filelock
import numpy as np
import psutil
import torch

from utils.training import fingerprint
from utils.training.announce import announce

MAGIC = b"kept result 1\n"
SUFFIX = ".kept"
_STARTED = psutil.Process().create_time()


class NotKeepable(TypeError):
    """An argument or result that a kept function cannot have; the message says what to use instead."""


# The decorator


def kept(function: Callable | None = None, *, reads: Iterable[str | Path] | Callable | None = None) -> Callable:
    """Keep the results of `function` on disk; see the text at the top of this module.

    `reads` names the data files that count (relative names start at the checkout), or is a function that gets
    the call's arguments and names them. `function.__wrapped__` trains without looking.
    """
    if function is None:
        return functools.partial(kept, reads=reads)
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*positional, **named):
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        return _fetch(function, bound, reads)

    return wrapper


def _fetch(function: Callable, bound: inspect.BoundArguments, reads):
    modules, root = _modules_of(function)
    arguments = _arguments_hash(function, bound)
    edited = _edited_since_start(modules)
    if edited is not None:
        announce(f"not kept: {edited} was edited after this kernel started; restart the kernel")
        return _unpacked(_train(function, bound, arguments))[0]
    key = _key(function, modules, arguments, _data_files(bound, reads, root))
    folder = _usable_folder()
    entry = folder / f"{function.__name__}-{key[:32]}{SUFFIX}"
    with _alone(entry):
        found = _load(entry)
        if found is None:
            payload = _train(function, bound, arguments)
            _store(payload, entry)
            # The fresh result goes through the same packing as a kept one, so the two cannot differ.
            result, seconds = _unpacked(payload)
            announce(f"trained in {_in_words(seconds)}")
        else:
            result, seconds = found
            announce(f"kept from an earlier run, {_in_words(seconds)} then")
    return result


def _train(function: Callable, bound: inspect.BoundArguments, arguments: str) -> bytes:
    with _fixed_randomness():
        start = time.perf_counter()
        result = function(*bound.args, **bound.kwargs)
        seconds = time.perf_counter() - start
    if _arguments_hash(function, bound) != arguments:
        raise NotKeepable(f"{function.__name__} changed its arguments; a kept run would not: work on a copy")
    return _packed(result, seconds, function.__name__)


def _in_words(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


@contextlib.contextmanager
def _fixed_randomness() -> Iterator[None]:
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    random.seed(0)
    np.random.seed(0)
    torch.random.default_generator.manual_seed(0)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.random.set_rng_state(before[2])


# The key


def _key(function: Callable, modules: dict[str, Path], arguments: str, data: list[Path]) -> str:
    return fingerprint.digest(
        MAGIC,
        f"{function.__module__}.{function.__qualname__}",
        *fingerprint.code_parts(modules),
        arguments,
        *(f"{path.name} {fingerprint.file_hash(path)}" for path in data),
        f"python {platform.python_version()} torch {torch.__version__} {torch.get_default_dtype()}",
    )


def _modules_of(function: Callable) -> tuple[dict[str, Path], Path]:
    """Every module that the function's module imports from its own package, and the folder of that package."""
    name = function.__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name == "__main__" or "<locals>" in function.__qualname__:
        raise NotKeepable(
            f"expected {function.__qualname__} at the top of a module, where its code can be followed; "
            "move it from the notebook or from inside another function into utils"
        )
    path = Path(file).resolve()
    depth = name.count(".") + (path.name == "__init__.py")
    root = path.parents[depth]
    return fingerprint.closure([name], root), root


def _edited_since_start(modules: dict[str, Path]) -> str | None:
    """The name of a loaded module whose file is newer than this process: what runs is then not what the file says."""
    for name, path in modules.items():
        if name in sys.modules and path.stat().st_mtime > _STARTED:
            return name.replace(".", "/") + ".py"
    return None


def _data_files(bound: inspect.BoundArguments, reads, root: Path) -> list[Path]:
    names = reads(*bound.args, **bound.kwargs) if callable(reads) else (reads or ())
    if isinstance(names, str | Path):
        names = [names]
    return [root / name for name in names]  # an absolute name stays what it is


def _arguments_hash(function: Callable, bound: inspect.BoundArguments) -> str:
    parts = []
    for name, value in bound.arguments.items():
        try:
            parts.append(f"{name}={_canonical(value)}")
        except NotKeepable as problem:
            raise NotKeepable(f"{function.__name__}({name}=...): {problem}") from None
    return fingerprint.digest(*parts)


def _canonical(value) -> str:
    """A text that two equal arguments share and two different ones do not; the type is part of it."""
    kind = type(value)
    if value is None or kind in (bool, int, str, range):
        return f"{kind.__name__}:{value!r}"
    if kind is float:
        return f"float:{value.hex()}"
    if kind in (list, tuple):
        return f"{kind.__name__}[{_joined(map(_canonical, value))}]"
    if kind is dict:  # in its own order: a function may well depend on it
        return f"dict[{_joined(f'{_canonical(key)}={_canonical(item)}' for key, item in value.items())}]"
    if kind is torch.Tensor and value.layout == torch.strided:
        plain = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"Tensor {value.dtype} {tuple(value.shape)} {hashlib.sha256(plain).hexdigest()}"
    if isinstance(value, Path):
        return f"path:{value.as_posix()}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (f"{field.name}={_canonical(getattr(value, field.name))}" for field in dataclasses.fields(value))
        return f"{kind.__module__}.{kind.__qualname__}[{_joined(fields)}]"
    raise NotKeepable(
        f"expected numbers, strings, tensors, or lists, tuples, dicts and dataclasses of them, got {kind.__name__}; "
        "pass what it is made from (a seed, sizes, a name) instead of the object"
    )


def _joined(parts: Iterable[str]) -> str:
    return " ".join(f"{len(part)}:{part}" for part in parts)


# What is stored


def _packed(result, seconds: float, name: str) -> bytes:
    stream = io.BytesIO()
    torch.save({"result": _compact(result, f"the result of {name}"), "seconds": seconds}, stream)
    return stream.getvalue()


def _unpacked(payload: bytes) -> tuple[object, float]:
    content = torch.load(io.BytesIO(payload), weights_only=True)
    return content["result"], content["seconds"]


def _compact(value, place: str):
    """The value, if it can be stored. A small view into a large tensor would be stored with all of it, so it is copied."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is torch.Tensor and not value.requires_grad:
        whole = value.untyped_storage().nbytes()
        return value.clone() if whole > value.numel() * value.element_size() else value
    if kind in (list, tuple):
        return kind(_compact(item, f"{place}[{index}]") for index, item in enumerate(value))
    if kind is dict:
        return {_compact(key, f"a key of {place}"): _compact(item, f"{place}[{key!r}]") for key, item in value.items()}
    raise NotKeepable(
        f"{place} is of type {kind.__module__}.{kind.__name__}; kept results are numbers, strings, None, tensors without "
        "a gradient, and lists, tuples and dicts of them"
    )


def _store(payload: bytes, entry: Path) -> None:
    """Write an entry whole or not at all. A full disk costs the keeping, not the result."""
    waiting = entry.with_name(f"{entry.name}.{os.getpid()}.part")
    try:
        waiting.write_bytes(MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload)
        waiting.replace(entry)
    except OSError as problem:
        announce(f"not kept: {entry.parent} cannot be written ({problem.strerror})")
        with contextlib.suppress(OSError):
            waiting.unlink(missing_ok=True)


def _load(entry: Path) -> tuple[object, float] | None:
    """The kept result and its seconds; None when there is no entry or it is damaged."""
    try:
        data = entry.read_bytes()
    except FileNotFoundError:
        return None
    head = len(MAGIC) + 65
    payload = data[head:]
    if data[:head] != MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n":
        announce("a kept result was damaged; training again")
        return None
    return _unpacked(payload)


@contextlib.contextmanager
def _alone(entry: Path) -> Iterator[None]:
    """Hold the lock of this entry; a second kernel that wants the same result waits here for the first."""
    lock = filelock.FileLock(entry.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        announce("another notebook is training this; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


# Where it is stored


def cache_folder() -> Path:
    """Where results are kept: `COURSE_CACHE`, or `.cache/kept` in the checkout."""
    return Path(os.environ.get("COURSE_CACHE") or fingerprint.ROOT / ".cache" / "kept")


def _usable_folder() -> Path:
    folder = cache_folder()
    problem = _unwritable(folder)
    if problem is None:
        return folder
    spare = _spare_folder()
    _say_once(f"results are kept in {spare}, because {folder} cannot be written ({problem})")
    problem = _unwritable(spare)
    if problem is not None:
        raise OSError(f"no folder for kept results: neither {folder} nor {spare} can be written ({problem})")
    return spare


def _spare_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"attention-course-{_user()}" / "kept"


def _user() -> str:
    """The name of who runs this; in a container it may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "somebody"


def _unwritable(folder: Path) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as problem:
        return problem.strerror or str(problem)


@functools.cache
def _say_once(message: str) -> None:
    announce(message)


def forget_all() -> int:
    """Delete all kept results and return how many there were. What is being trained just now is kept when done."""
    count = 0
    for folder in (cache_folder(), _spare_folder()):
        for entry in folder.glob(f"*{SUFFIX}"):
            entry.unlink(missing_ok=True)
            count += 1
        for rest in folder.glob("*.part"):
            _remove_unless_held(rest, rest.with_name(rest.name.split(SUFFIX)[0] + ".lock"))
        for lock in folder.glob("*.lock"):
            _remove_unless_held(lock, lock)
    return count


def _remove_unless_held(path: Path, lock: Path) -> None:
    with contextlib.suppress(filelock.Timeout), filelock.FileLock(lock, timeout=0):
        path.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    if (sys.argv[1:] if arguments is None else arguments) != ["--forget"]:
        print("expected: python -m utils.training.keep --forget", file=sys.stderr)
        return 2
    count = forget_all()
    print(f"forgot {count} kept result{'' if count == 1 else 's'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
