"""What the course asks of nbval beyond what nbval does; a pytest plugin, loaded by the root conftest.

- A student notebook must show "not attempted yet" at every exercise, and have exactly the exercises of its source.
- Live outputs are not compared, and addresses are evened out as the build does.
- A dead kernel is noticed at once, and a cell that prints a lot is read while it prints.
- Each notebook has a progress file of its own, so that no notebook sees what another one solved.
"""

import os
import tempfile
import time
from collections import deque
from pathlib import Path
from queue import Empty

import nbval.plugin
import pytest
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

from utils.course.build import KERNEL_SETTINGS, is_live, steady
from utils.course.source import exercise_ids, exercise_of, read_source

CELL_SECONDS = 120
NBVAL_DEFAULT = 2000
OUTPUT_SECONDS = 90


class KernelDied(Exception):
    """The kernel went away while a cell was running."""


class CourseKernel(RunningKernel):
    """A kernel that is watched and listened to while a cell runs."""

    def __init__(self, *arguments, **options):
        self.heard: deque = deque()
        super().__init__(*arguments, **options)

    def get_message(self, stream, timeout=None):
        if stream == "iopub" and self.heard:
            return self.heard.popleft()
        return super().get_message(stream, timeout)

    def await_reply(self, msg_id, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        while deadline is None or time.monotonic() < deadline:
            self._listen()
            try:
                message = super().get_message("shell", timeout=0.1)
            except Empty:
                self._check_alive()
                continue
            if message["parent_header"].get("msg_id") == msg_id:
                if message["content"]["status"] == "aborted":
                    raise RuntimeError("the kernel refused to run the cell because an earlier one failed")
                return
        raise Empty

    def _listen(self) -> None:
        """Take what the kernel has said so far; unread, thousands of prints would block its channel."""
        while True:
            try:
                self.heard.append(self.kc.get_iopub_msg(timeout=0))
            except Empty:
                return

    def _check_alive(self) -> None:
        if not self.is_alive():
            raise KernelDied("the kernel died while this cell ran (out of memory, or a crash in compiled code)")


class CourseCell(IPyNbCell):
    """A cell that also knows about exercises and live outputs."""

    def runtest(self):
        if self.parent.complaint:
            self.raise_cell_error(self.parent.complaint)
        try:
            super().runtest()
        except KernelDied as died:
            self.raise_cell_error(str(died))
        exercise_id = exercise_of(self.cell)
        if exercise_id is not None and self.parent.is_student:
            sentence = not_attempted(exercise_id, self.test_outputs)
            if sentence:
                self.raise_cell_error(sentence)

    def compare_outputs(self, test, ref, skip_compare=None):
        return super().compare_outputs([out for out in test if not is_live(out)], ref, skip_compare)

    def sanitize(self, s):
        text = super().sanitize(s)
        return steady(text) if isinstance(text, str) else text


class CourseFile(IPyNbFile):
    """A notebook whose kernel runs in the notebook's folder, as the build runs it."""

    complaint: str | None = None  # said by every cell: an error while collecting would stop all other tests

    @property
    def is_student(self) -> bool:
        return self.path.parent.name == "exercises"

    def collect(self):
        cells = list(super().collect())
        for cell in cells:
            cell.__class__ = CourseCell
            cell.output_timeout = OUTPUT_SECONDS
        source = self.path.parents[1] / "src" / f"{self.path.stem}.py"
        if self.is_student and source.exists():
            wanted, found = exercise_ids(read_source(source)), exercise_ids(self.nb)
            if wanted != found:
                self.complaint = (
                    f"the source has the exercises {wanted}, this notebook has {found}; run `make notebooks`"
                )
        return cells

    def setup(self):
        self._folder = tempfile.TemporaryDirectory(prefix="course-nbval-")
        settings = {**KERNEL_SETTINGS, "COURSE_PROGRESS": str(Path(self._folder.name) / "progress.jsonl")}
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            super().setup()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def teardown(self):
        super().teardown()
        self._folder.cleanup()


def not_attempted(exercise_id: str, outputs: list) -> str | None:
    """None when the outputs of an exercise's cell say "not attempted yet", otherwise what is wrong."""
    texts = [output["text"] if "text" in output else output["data"].get("text/plain", "") for output in outputs]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(f"Exercise {exercise_id} ·")]
    if not lines:
        return f"exercise {exercise_id} showed no result in the student notebook"
    if not all(line.endswith(": not attempted yet") for line in lines):
        return f"an untouched stub must be 'not attempted yet', but the student notebook says: {lines[0]}"
    return None


def pytest_configure(config):
    option = config.option
    option.nbval_current_env = True
    if option.nbval_cell_timeout == NBVAL_DEFAULT:
        option.nbval_cell_timeout = CELL_SECONDS
    nbval.plugin.RunningKernel = CourseKernel  # looked up when a notebook's kernel is started


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Give nbval's notebooks the course's rules. It names its own classes, so they cannot be replaced before."""
    found = yield
    for node in found:
        if type(node) is IPyNbFile:
            node.__class__ = CourseFile
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config):
    """Only built notebooks are run: never what a student, a slide build or an editor left lying about."""
    if collection_path.suffix != ".ipynb":
        return None
    inside = (
        collection_path.relative_to(config.rootpath).parts[:-1]
        if collection_path.is_relative_to(config.rootpath)
        else ()
    )
    return True if {"src", "work", "slides", ".ipynb_checkpoints"} & set(inside) else None
