"""The sums of the files that come with the course in `data/`, in the form that `sha256sum -c` reads.

python -m utils.data.sums        writes data/SHA256SUMS anew, after a file was changed on purpose
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
NAME = "SHA256SUMS"
FOLDERS = ("encoder", "phrases", "stories")  # the other folders hold what a person puts there
BINARY = {".safetensors"}


class WrongSum(ValueError):
    """A file is not the one that the course came with; the message says what to do."""


def sum_of(file: Path) -> str:
    """sha256; the line endings that a checkout on Windows gives to a text do not count."""
    content = file.read_bytes()
    return hashlib.sha256(content if file.suffix in BINARY else content.replace(b"\r\n", b"\n")).hexdigest()


def files(data: Path = DATA) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted(file for file in (data / folder).rglob("*") if file.is_file())


def read_sums(data: Path = DATA) -> dict[str, str]:
    """File, as a path below `data`, to its sum."""
    lines = (data / NAME).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def write_sums(data: Path = DATA) -> None:
    lines = [f"{sum_of(file)}  {file.relative_to(data).as_posix()}\n" for file in files(data)]
    (data / NAME).write_text("".join(lines), encoding="utf-8")


def require(file: Path, data: Path = DATA) -> None:
    """Refuse a file below `data` that is not the one of the list; a file elsewhere is its owner's own business."""
    if not file.is_relative_to(data):
        return
    name = file.relative_to(data).as_posix()
    expected, found = read_sums(data).get(name, "none"), sum_of(file)
    if expected != found:
        raise WrongSum(
            f"{file} is not the file that the course came with (sha256 {expected[:12]}... expected, {found[:12]}... found): "
            f"take it from the course again with `git checkout data/{name}`, or, if it was changed on purpose, run "
            "`python -m utils.data.sums`"
        )


if __name__ == "__main__":
    write_sums()
