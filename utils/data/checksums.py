"""SHA-256 checksums of the files in `data/`, in the format of `sha256sum -c`.

python -m utils.data.checksums        rewrites data/SHA256SUMS after a deliberate change
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from utils.paths import DATA

NAME = "SHA256SUMS"
FOLDERS = ("encoder", "phrases", "stories", "translator")  # the other folders hold the user's own files
BINARY = {".safetensors"}
CARD = ".md"  # prose beside the data


class ChecksumError(ValueError):
    """A file differs from the one that the course ships; the message says what to do."""


def checksum(file: Path) -> str:
    """SHA-256 in hex; in text files, the line endings of a checkout on Windows do not count."""
    content = file.read_bytes()
    return hashlib.sha256(content if file.suffix in BINARY else content.replace(b"\r\n", b"\n")).hexdigest()


def files(data: Path = DATA) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted(file for file in (data / folder).rglob("*") if file.is_file() and file.suffix != CARD)


def read_checksums(data: Path = DATA) -> dict[str, str]:
    """Checksum by file, as a path below `data`."""
    lines = (data / NAME).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def write_checksums(data: Path = DATA) -> None:
    lines = [f"{checksum(file)}  {file.relative_to(data).as_posix()}\n" for file in files(data)]
    (data / NAME).write_text("".join(lines), encoding="utf-8")


def verify(file: Path, data: Path = DATA) -> None:
    """Raise ChecksumError for a file below `data` that differs from the list; files elsewhere are not checked."""
    if not file.is_relative_to(data):
        return
    name = file.relative_to(data).as_posix()
    expected, actual = read_checksums(data).get(name, "none"), checksum(file) if file.is_file() else "no file"
    if expected != actual:
        raise ChecksumError(
            f"{file} is not the file that the course came with "
            f"(sha256 {expected[:12]}... expected, {actual[:12]}... found): "
            f"restore it with `git checkout data/{name}`, or list a deliberate change with `python -m utils.data.checksums`"
        )


if __name__ == "__main__":
    write_checksums()
