"""Which files of a folder are submissions, and of which student. Nothing is parsed here.

The student is the first folder in the path: `alice/01_softmax_attention.ipynb`, `alice/week 1/01.ipynb`. A folder named
after a lesson does not count: `01/alice.ipynb` belongs to alice. A file directly in the folder is named after its student,
with the lesson before or after: `alice_01.ipynb`, `01_softmax_attention alice.ipynb`. The lesson itself is read from the
notebook, never from its name. A student with several files for one lesson gets the rows of each.
"""

import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from utils.exercises.lessons import LESSONS
from utils.grading import Refused

BYTES = 40 * 2**20
DEPTH = 12
SKIPPED = {".ipynb_checkpoints", "__pycache__", "__MACOSX", ".git"}
_NAMES = "|".join(re.escape(lesson.name[3:]).replace("_", "[ _-]") for lesson in LESSONS)
LESSON = re.compile(rf"(?:lesson|lecture)?[ _-]*0?\d(?:[ _-]+(?:{_NAMES}))?|{_NAMES}", re.IGNORECASE)
COPY = re.compile(r"[ _-]*\(\d+\)$|[ _-]+copy ?\d*$", re.IGNORECASE)


@dataclass(frozen=True)
class Submission:
    """A file to be graded. `name` and `student` are fit to be shown; `trouble` says why it cannot be read."""

    path: Path
    name: str
    student: str
    trouble: str = ""

    def read(self) -> bytes:
        """Its bytes; raises Refused with what to do."""
        if self.trouble:
            raise Refused(self.trouble)
        try:
            # Without waiting for a pipe to be filled, and without following a link.
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                facts = os.fstat(file.fileno())
                if not stat.S_ISREG(facts.st_mode):
                    raise Refused("It is not a regular file: put the notebook itself here.")
                if facts.st_size > BYTES:
                    size = f"{facts.st_size / 2**20:,.0f} MiB, more than {BYTES // 2**20}"
                    raise Refused(f"The file has {size}: ask the student to clear the outputs.")
                return file.read(BYTES + 1)
        except OSError as error:
            raise Refused(
                f"The file cannot be read ({error.strerror}): make it readable, or copy it here again."
            ) from None


def submissions(folder: Path) -> list[Submission]:
    """All notebooks below a folder, sorted, and all entries that are named like one."""
    return sorted(_below(folder, folder, 0), key=lambda submission: (submission.student.casefold(), submission.name))


def _below(current: Path, folder: Path, depth: int):
    for path in sorted(current.iterdir()):
        is_notebook = path.name.lower().endswith(".ipynb")
        is_link, is_folder = path.is_symlink(), path.is_dir()
        if path.name in SKIPPED or not (is_notebook or is_folder):
            continue
        if is_link:
            yield _submission(path, folder, "It is a link, which is not followed: put the notebook itself here.")
        elif not is_folder:
            yield _submission(path, folder)
        elif is_notebook:
            yield _submission(path, folder, "It is a folder with the name of a notebook: put the notebook itself here.")
        elif depth == DEPTH:
            yield _submission(path, folder, f"It is more than {DEPTH} folders deep: move it up.")
        else:
            try:
                yield from _below(path, folder, depth + 1)
            except OSError as error:
                yield _submission(path, folder, f"The folder cannot be read ({error.strerror}): make it readable.")


def _submission(path: Path, folder: Path, trouble: str = "") -> Submission:
    parts = path.relative_to(folder).parts
    return Submission(path, shown("/".join(parts)), student_of(parts), trouble)


def student_of(parts: tuple[str, ...]) -> str:
    """Whose file it is, from the names of the folders on the way and its own."""
    parts = tuple(unicodedata.normalize("NFC", part) for part in parts)
    while len(parts) > 1 and LESSON.fullmatch(parts[0].strip()):
        parts = parts[1:]
    if len(parts) > 1:
        return shown(parts[0].strip())
    stem = re.sub(r"\.ipynb$", "", parts[0], flags=re.IGNORECASE)
    whole = COPY.sub("", stem)
    before = re.match(rf"(?:{LESSON.pattern})(?=[ _.-])", whole, re.IGNORECASE)
    behind = re.search(rf"(?<=[ _.-])(?:{LESSON.pattern})$", whole, re.IGNORECASE)
    if behind:
        whole = whole[: behind.start()]
    elif before:
        whole = whole[before.end() :]
    name = whole.strip(" _.-")
    return shown(name if name and not LESSON.fullmatch(name) else stem)


def shown(name: str) -> str:
    """A name on one line; characters that cannot be shown are written out."""
    whole = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in whole)
