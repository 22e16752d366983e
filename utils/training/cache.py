"""On-disk cache of trained results: the second call with the same arguments loads what the first one trained.

    @cached
    def train_curve(seed, steps=300): ...

The key holds the function's name, the code of every module that its own module imports from its package, the arguments,
the content of its data files, and the versions of Python and torch: a changed line of code trains again, a changed
comment does not. A cached function depends on its arguments only (torch's global generator is seeded while it runs and
restored afterwards), does not change them, and returns numbers, strings, None, tensors, and lists, tuples and dicts.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import io
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import filelock
import psutil
import torch

from utils import paths
from utils.data.checksums import checksum
from utils.training import fingerprint
from utils.training.announce import announce

SUFFIX = ".trained"
PROCESS_START = psutil.Process().create_time()
_announce_once = functools.cache(announce)


def cached(function: Callable | None = None, *, data_files: Callable = lambda *_, **__: ()) -> Callable:
    """Decorator: cache the results of `function` on disk. `function.__wrapped__` always trains.

    data_files: takes the arguments of the call, returns the paths of the files whose content is part of the key.
    """
    if function is None:
        return functools.partial(cached, data_files=data_files)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        call = inspect.signature(function).bind(*args, **kwargs)
        call.apply_defaults()
        modules = _modules(function)
        for name, file in modules.items():
            if name in sys.modules and file.stat().st_mtime > PROCESS_START:
                announce(f"not cached: {name} was edited after this kernel started; restart the kernel")
                return _load(_train(function, call))["result"]
        key = fingerprint.digest(
            f"{function.__module__}.{function.__qualname__}",
            *fingerprint.code_parts(modules),
            _hash(call.arguments),
            *(checksum(Path(file)) for file in data_files(*call.args, **call.kwargs)),
            f"python {platform.python_version()} torch {torch.__version__} {torch.get_default_dtype()}",
        )
        path = _writable_folder() / f"{function.__name__}-{key[:32]}{SUFFIX}"
        with _locked(path):
            stored = _read(path)
            payload = stored or _write(path, _train(function, call))
        content = _load(payload)  # a new result takes the same way as a cached one, so the two cannot differ
        seconds = f"{content['seconds']:.1f} s"
        announce(f"loaded from the cache (training took {seconds})" if stored else f"trained in {seconds}")
        return content["result"]

    return wrapper


def _train(function: Callable, call: inspect.BoundArguments) -> bytes:
    """Call the function with a fixed seed of torch's generator; returns its result and its seconds as stored."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(0)
        start = time.perf_counter()
        result = function(*call.args, **call.kwargs)
        seconds = time.perf_counter() - start
    stream = io.BytesIO()
    torch.save({"result": _storable(result), "seconds": seconds}, stream)
    return stream.getvalue()


def _load(payload: bytes) -> dict:
    return torch.load(io.BytesIO(payload), weights_only=True)


def _modules(function: Callable) -> dict[str, Path]:
    """The import closure of the function's module."""
    name = function.__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name == "__main__" or "<locals>" in function.__qualname__:
        raise TypeError(
            f"expected {function.__qualname__} at the top level of a module, where its imports can be followed; "
            "move it from the notebook or from inside another function into utils"
        )
    path = Path(file).resolve()
    return fingerprint.closure([name], path.parents[name.count(".") + (path.name == "__init__.py")])


def _hash(value) -> str:
    """A hash that two equal arguments share and two different ones do not; the type is part of it."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if value is None or kind in (bool, int, float, str) or isinstance(value, Path):
        return fingerprint.digest(name, repr(value))
    if kind in (list, tuple):
        return fingerprint.digest(name, *map(_hash, value))
    if kind is dict:  # in its own order: the function may depend on it
        return fingerprint.digest(name, *(_hash(part) for item in value.items() for part in item))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fingerprint.digest(name, _hash({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}))
    raise TypeError(
        f"expected arguments of numbers, strings, or lists, tuples, dicts and dataclasses of them, got {name}; "
        "pass what the object is made from (a seed, sizes, a name)"
    )


def _storable(value):
    """The value, if it can be stored. A view is copied: it would be stored with the whole tensor behind it."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is torch.Tensor and not value.requires_grad:
        return value.clone() if value.untyped_storage().nbytes() > value.nbytes else value
    if kind in (list, tuple):
        return kind(map(_storable, value))
    if kind is dict:
        return {_storable(key): _storable(item) for key, item in value.items()}
    expected = "numbers, strings, None, tensors without a gradient, or lists, tuples and dicts of them"
    raise TypeError(f"expected a result of {expected}, got {kind.__module__}.{kind.__qualname__}")


def _write(path: Path, payload: bytes) -> bytes:
    """Atomic write: the whole file or none. A full disk loses the cached copy, not the result."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(hashlib.sha256(payload).digest() + payload)
        part.replace(path)
    except OSError as problem:
        announce(f"not cached: {path.parent} cannot be written ({problem.strerror})")
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return payload


def _read(path: Path) -> bytes | None:
    """What `_write` wrote; None if there is no file or it is damaged."""
    with contextlib.suppress(FileNotFoundError):
        data = path.read_bytes()
        if data[32:] and hashlib.sha256(data[32:]).digest() == data[:32]:
            return data[32:]
        announce("a cached result is damaged; training again")
    return None


def _locked(path: Path) -> contextlib.AbstractContextManager:
    """One process trains; a second one that needs the same result waits for it here."""
    lock = filelock.FileLock(f"{path}.lock")
    try:
        return lock.acquire(timeout=0)
    except filelock.Timeout:
        announce("another notebook is training this; waiting for it")
        return lock.acquire()


def cache_folders() -> tuple[Path, Path]:
    """`COURSE_CACHE` or the course's own cache, and the temporary folder that replaces it if read-only."""
    user = os.getuid() if hasattr(os, "getuid") else "user"  # on Windows every user has a temporary folder anyway
    first = Path(os.environ.get("COURSE_CACHE") or paths.CACHE / "trained")
    return first, Path(tempfile.gettempdir()) / f"attention-course-{user}" / "trained"


def _writable_folder() -> Path:
    problems = []
    for folder in cache_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as problem:
            problems.append(f"{folder} cannot be written ({problem.strerror})")
        else:
            if problems:
                _announce_once(f"results are cached in {folder}, because {problems[0]}")
            return folder
    raise OSError(f"no folder for cached results: {', and '.join(problems)}")


def clear() -> int:
    """Delete all cached results and return their number. A result that is being trained now is cached when done."""
    paths = [path for folder in cache_folders() for path in folder.glob(f"*{SUFFIX}*")]
    for path in paths:
        with contextlib.suppress(PermissionError):  # on Windows, of a lock that is held
            path.unlink(missing_ok=True)
    return sum(path.suffix == SUFFIX for path in paths)


if __name__ == "__main__":
    if sys.argv[1:] != ["--clear"]:
        sys.exit("usage: python -m utils.training.cache --clear")
    print(f"cached results deleted: {clear()}")
