"""Build the notebooks: `python -m utils.build.notebooks [names] [--force] [--measure] [--check]`.

Both notebooks come from `notebooks/src/NN_name.py`: the lecture (executed, outputs saved) and the student notebook
(stubs instead of solutions, no outputs). A lesson runs again only when something it depends on has changed; two runs give the
same bytes. What differs between runs (seconds, memory) is in the timing file, see `utils.exercises.timing`.
"""

import argparse
import ast
import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from utils import paths
from utils.build.hosting import published
from utils.build.solutions import solutions_module
from utils.build.source import SourceError, lecture_of, read_source, student_of
from utils.build.widget_pictures import add_pictures
from utils.data.checksums import checksum
from utils.exercises.timing import in_words, read_timings, record
from utils.training import fingerprint

FORMAT = 3  # raise it when the build itself changes what a saved notebook holds
CELL_SECONDS = 600
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
KERNEL_SETTINGS = {  # the build and the tests run notebooks under the same ones
    **dict.fromkeys(THREADS, "1"),
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "COLUMNS": "80",
    "COURSE_LIVE": "no",
}
WIDGET = "application/vnd.jupyter.widget-view+json"


class BuildError(Exception):
    """A lesson that could not be built; the message names file, cell and what to do."""


@dataclass(frozen=True)
class Shop:
    """Folders of the sources and notebooks; tests build in a folder of their own."""

    root: Path

    @property
    def lectures(self) -> Path:
        return self.root / "notebooks"

    @property
    def sources(self) -> Path:
        return self.lectures / "src"

    @property
    def students(self) -> Path:
        return self.lectures / "exercises"

    def source(self, name: str) -> Path:
        return self.sources / f"{name}.py"

    def lecture(self, name: str) -> Path:
        return self.lectures / f"{name}.ipynb"

    def student(self, name: str) -> Path:
        return self.students / f"{name}.ipynb"

    def solutions(self, name: str) -> Path:
        return self.root / "utils" / "exercises" / "solutions" / f"lesson{name[:2]}.py"

    def names(self) -> list[str]:
        """All lessons that have a source, in order."""
        return sorted(path.stem for path in self.sources.glob("[0-9][0-9]_*.py"))

    def shown(self, path: Path) -> str:
        """A path as messages show it, relative to the checkout."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


HERE = Shop(paths.ROOT)


# --- reading ----------------------------------------------------------------------------------------------------


def read_lesson(name: str, shop: Shop = HERE) -> NotebookNode:
    """The checked source of a lesson; an unknown name raises an error that lists the lessons."""
    if not shop.source(name).exists():
        known = ", ".join(shop.names()) or "none yet"
        raise BuildError(f"no lesson {name}: expected {shop.shown(shop.source(name))}; lessons: {known}")
    return published(read_source(shop.source(name)), name)


# --- keys -------------------------------------------------------------------------------------------------------


def lesson_key(name: str, source: NotebookNode, shop: Shop = HERE) -> str:
    """A hash of everything that determines the saved notebook of a lesson."""
    code = "\n".join(cell.source for cell in source.cells if cell.cell_type == "code")
    roots = {dotted for dotted in fingerprint.imported(code) if dotted.split(".")[0] == "utils"}
    definitions = f"utils.exercises.lesson{name[:2]}"  # loaded lazily, so not among the imports
    modules = fingerprint.closure(sorted(roots | {definitions}), shop.root)
    # Definitions are hashed to the letter: a lesson may show a solution's text, comments included.
    to_the_letter = [file for dotted, file in modules.items() if _DEFINITIONS.match(dotted)]
    reads = [shop.root / path for path in source.metadata.get("course", {}).get("reads", [])]
    results = [shop.root / "tests/benchmarks/results" / f"{result}.json" for result in _stored_results(code)]
    # The progress board of a lecture shows the exercises of all lessons.
    others = [shop.solutions(other) for other in shop.names()] if _shows_the_board(source) else []
    return fingerprint.digest(
        f"format {FORMAT}",
        shop.source(name).read_text(encoding="utf-8"),
        *fingerprint.code_parts(modules),
        *(f"{path.name} {checksum(path)}" for path in to_the_letter),
        *(f"{path.name} {checksum(path)}" for path in fingerprint.package_data(modules)),
        *(f"{path.name} {checksum(path)}" for path in reads),
        *(f"{path.name} {checksum(path)}" for path in [*results, *others] if path.exists()),
        in_words(read_timings(shop.sources).get(name)),
    )[:32]


_DEFINITIONS = re.compile(r"utils\.exercises\.(solutions\.)?lesson\d\d$")


def _stored_results(code: str) -> list[str]:
    """The names in `stored("name")`: a lesson that shows a stored table depends on its file."""
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and len(node.args) == 1)
    named = (call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "stored")
    return sorted({name.value for name in named if isinstance(name, ast.Constant)})


def _shows_the_board(source: NotebookNode) -> bool:
    code = "\n".join(cell.source for cell in lecture_of(source).cells if cell.cell_type == "code")
    return any(isinstance(node, ast.Name) and node.id == "board" for node in ast.walk(ast.parse(code)))


# --- executing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Execution:
    """An executed notebook and what it cost, from the start of its kernel to its last output."""

    notebook: NotebookNode
    seconds: float
    mebibytes: float


class _Client(NotebookClient):
    """Notices what nbclient lets pass: an exception that an Output widget swallowed."""

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "error":
            self.swallowed.append((cell_index, msg["content"]))
        elif msg["msg_type"] == "comm_msg":
            outputs = msg["content"]["data"].get("state", {}).get("outputs", ())
            self.swallowed += [(cell_index, out) for out in outputs if out.get("output_type") == "error"]
        return super().process_message(msg, cell, cell_index)

    def reset_execution_trackers(self):
        super().reset_execution_trackers()
        self.swallowed: list[tuple[int, dict]] = []


def execute(notebook: NotebookNode, name: str, shop: Shop = HERE, seconds_per_cell: int = CELL_SECONDS) -> Execution:
    """Run a lecture in a fresh kernel with an empty cache; raises BuildError with file, cell and error."""
    client = _Client(
        notebook,
        kernel_name="python3",
        timeout=seconds_per_cell,
        extra_arguments=["--log-level=40"],  # only errors
        record_timing=False,
        store_widget_state=True,
        coalesce_streams=True,
    )
    with _quiet_environment() as environment:
        start = time.perf_counter()
        with client.setup_kernel(env=environment, cwd=str(shop.lectures), cleanup_kc=True):
            for index, cell in enumerate(notebook.cells):
                _run_cell(client, cell, index, name, shop)
            seconds = time.perf_counter() - start
            mebibytes = _peak_memory(client)
    _clean(notebook)
    return Execution(notebook, seconds, mebibytes)


def _run_cell(client: _Client, cell: NotebookNode, index: int, name: str, shop: Shop) -> None:
    location = f"{shop.shown(shop.source(name))}, cell {index + 1}"
    try:
        client.execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
    except CellTimeoutError:
        raise BuildError(f"{location} did not end within {client.timeout} s:\n{cell.source}") from None
    except DeadKernelError:
        raise BuildError(f"{location} killed its kernel (out of memory?):\n{cell.source}") from None
    except CellExecutionError as error:
        raise BuildError(f"{location} failed with {error.ename}: {error.evalue}\n{error.traceback}") from None
    expected = "raises-exception" in cell.metadata.get("tags", [])
    if client.swallowed and not expected:
        _, error = client.swallowed[0]
        trace = "\n".join(error.get("traceback", ()))
        raise BuildError(f"{location}: a widget callback failed with {error['ename']}: {error['evalue']}\n{trace}")
    client.swallowed.clear()


@contextlib.contextmanager
def _quiet_environment() -> Iterator[dict[str, str]]:
    """The kernel's environment: one thread, and neither the progress nor the cached results of the maintainer."""
    with tempfile.TemporaryDirectory(prefix="course-build-") as folder:
        yield {
            **os.environ,
            **KERNEL_SETTINGS,
            "COURSE_PROGRESS": str(Path(folder) / "progress.jsonl"),
            "COURSE_CACHE": str(Path(folder) / "kept"),
            "COURSE_BUILD": "1",  # pictures carry what the picture rules judge, widgets the state that the website needs
            "IPYTHONDIR": str(Path(folder) / "ipython"),  # no startup files of this machine
            **({} if paths.has_home() else {"HOME": folder}),
        }


# The high-water mark of this very process: ru_maxrss would start from the size of the process that forked it.
_PEAK = """(lambda: next(
    (int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")), 0.0)
    if __import__("os").path.exists("/proc/self/status")
    else __import__("resource").getrusage(0).ru_maxrss / 2**20)()"""


def _peak_memory(client: _Client) -> float:
    """Peak memory of the kernel in MiB, measured inside it by a silent execution."""
    message = client.kc.execute("", silent=True, store_history=False, user_expressions={"peak": _PEAK})
    reply = client.wait_for_reply(message)
    answer = reply["content"]["user_expressions"]["peak"]
    if answer["status"] != "ok":
        raise BuildError(f"the kernel could not report its memory: {answer['ename']}: {answer['evalue']}")
    return float(answer["data"]["text/plain"])


_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b")
_CELL_FILE = re.compile(r"[^\s\"'<>]*[/\\]ipykernel_\d+[/\\]\d+\.py")


def steady(text: str) -> str:
    """A text output without what differs between runs: addresses and temporary file names of cells."""
    return _CELL_FILE.sub("<cell>", _ADDRESS.sub("at 0x...", text))


def _clean(notebook: NotebookNode) -> None:
    """Drop widget state, which cannot be saved, and whatever differs between runs."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            _clean_output(output, cell.execution_count)
        cell.outputs = [output for output in cell.outputs if output.get("data") != {}]


def _clean_output(output: NotebookNode, execution_count: int) -> None:
    if output.output_type == "stream":
        output.text = steady(output.text)
        return
    if output.output_type == "execute_result":
        output.execution_count = execution_count
    if "data" in output:
        output.data.pop(WIDGET, None)
        output.metadata.pop(WIDGET, None)
        for kind, value in output.data.items():
            if kind.startswith("text/") and isinstance(value, str):
                output.data[kind] = steady(value)


# --- building ---------------------------------------------------------------------------------------------------


def build(name: str, force: bool = False, shop: Shop = HERE, say=print) -> bool:
    """Bring both notebooks of a lesson up to date; returns whether the lesson was executed."""
    source = read_lesson(name, shop)
    _write(student_of(source), shop.student(name))
    _write_solutions(source, name, shop)
    if name not in read_timings(shop.sources):
        say(f"{name}: never measured, running it once to measure")
        _measure(name, source, shop, say)
    key = lesson_key(name, source, shop)
    if not force and not _stale(name, source, key, shop):
        say(f"{name}: unchanged")
        return False
    _verify_mistakes(name, shop)
    result = execute(lecture_of(source), name, shop)
    add_pictures(result.notebook)
    result.notebook.metadata["course"] = {"key": key}
    _write(result.notebook, shop.lecture(name))
    say(f"{name}: executed in {result.seconds:.0f} s, peak {result.mebibytes:.0f} MiB")
    return True


def _verify_mistakes(name: str, shop: Shop) -> None:
    """Mistakes are edits of the solutions: after a change of a solution, all of them must still apply."""
    if shop.root != paths.ROOT:
        return
    from utils.exercises.registry import (
        exercises_of,
        faulty_mistakes,
    )  # here, because reading a source should not import torch

    problems = [sentence for item in exercises_of(name[:2]) for sentence in faulty_mistakes(item)]
    if problems:
        raise BuildError("\n".join(problems))


def measure(name: str, shop: Shop = HERE, say=print) -> None:
    """Run a lesson with an empty cache, store its run time and memory, and build it."""
    _measure(name, read_lesson(name, shop), shop, say)
    build(name, shop=shop, say=say)


def _measure(name: str, source: NotebookNode, shop: Shop, say) -> None:
    result = execute(lecture_of(source), name, shop)
    entry = record(name, result.seconds, result.mebibytes, shop.sources)
    say(f"{name}: measured {entry['seconds']} s and {entry['mebibytes']} MiB, shown as {in_words(entry)!r}")


def _write(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook completely or not at all, and only if its bytes differ."""
    nbformat.validate(notebook)
    data = serialized(notebook)
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        waiting.write_bytes(data)
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)


def _write_solutions(source: NotebookNode, name: str, shop: Shop) -> None:
    path = shop.solutions(name)
    if text := _changed_solutions(source, name, shop):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _changed_solutions(source: NotebookNode, name: str, shop: Shop) -> str:
    """The solutions module of a source if it differs from the file; otherwise ""."""
    text, path = solutions_module(source, name), shop.solutions(name)
    return "" if path.exists() and path.read_text(encoding="utf-8") == text else text


def serialized(notebook: NotebookNode) -> bytes:
    """The bytes of a notebook's file."""
    return (nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n").encode()


# --- in sync? ---------------------------------------------------------------------------------------------------


def _stale(name: str, source: NotebookNode, key: str, shop: Shop) -> bool:
    return bool(_lecture_differences(name, source, key, shop))


def check_in_sync(name: str, shop: Shop = HERE) -> list[str]:
    """What differs between a source and its two notebooks, in sentences; empty if they are in sync."""
    source = read_lesson(name, shop)
    key = lesson_key(name, source, shop)
    problems = _lecture_differences(name, source, key, shop)
    wrong = _form_differences(student_of(source), shop.student(name), shop)
    problems += wrong or _traces_of_a_run(shop.student(name), shop)
    if _changed_solutions(source, name, shop):
        problems.append(f"{shop.shown(shop.solutions(name))} differs from the solutions in its source")
    return [f"{sentence} (run `make notebooks`)" for sentence in problems]


def _traces_of_a_run(path: Path, shop: Shop) -> list[str]:
    cells = enumerate(nbformat.read(path, as_version=4).cells, 1)
    ran = [index for index, cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
    return [f"{shop.shown(path)}: cell {index} has outputs; a student notebook has none" for index in ran]


def _lecture_differences(name: str, source: NotebookNode, key: str, shop: Shop) -> list[str]:
    path = shop.lecture(name)
    problems = _form_differences(lecture_of(source), path, shop)
    if problems:
        return problems
    saved = nbformat.read(path, as_version=4)
    if saved.metadata.get("course", {}).get("key") != key:
        problems.append(
            f"{shop.shown(path)}: the source or something in utils that it uses changed since it was executed"
        )
    skipping = {"skip-execution", "nbval-skip"}
    for index, cell in enumerate(saved.cells, 1):
        runs = cell.cell_type == "code" and cell.source.strip() and not skipping & set(cell.metadata.get("tags", []))
        if runs and cell.execution_count is None:
            problems.append(f"{shop.shown(path)}: cell {index} was never executed")
    if not any(cell.cell_type == "code" and cell.outputs for cell in saved.cells):
        problems.append(f"{shop.shown(path)}: no cell has outputs")
    return problems


def _form_differences(wanted: NotebookNode, path: Path, shop: Shop) -> list[str]:
    if not path.exists():
        return [f"{shop.shown(path)} is missing"]
    try:
        saved = nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat has many exception classes
        return [f"{shop.shown(path)} cannot be read: {error}"]
    problems = []
    if len(saved.cells) != len(wanted.cells):
        problems.append(f"{shop.shown(path)} has {len(saved.cells)} cells, its source has {len(wanted.cells)}")
    for index, (old, new) in enumerate(zip(saved.cells, wanted.cells, strict=False), 1):
        different = [
            field for field in ("cell_type", "source", "id", "metadata") if dict(old).get(field) != dict(new).get(field)
        ]
        if different:
            words = " and ".join(field.replace("_", " ") for field in different)
            problems.append(f"{shop.shown(path)}: cell {index} differs from its source in {words}")
            break  # after an inserted cell all others differ too: one sentence is enough
    saved_metadata = {field: value for field, value in saved.metadata.items() if field != "course"}
    if saved_metadata != dict(wanted.metadata):
        problems.append(f"{shop.shown(path)}: the notebook's metadata differ from what the build writes")
    return problems


def strays(shop: Shop = HERE) -> list[str]:
    """Notebooks without a source."""
    known = {path for name in shop.names() for path in (shop.lecture(name), shop.student(name))}
    files = [*shop.lectures.glob("*.ipynb"), *shop.students.glob("*.ipynb")]
    return [f"{shop.shown(path)} has no source: delete or rename it" for path in sorted(set(files) - known)]


# --- command line -----------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m utils.build.notebooks", description=__doc__.split("\n\n")[1])
    parser.add_argument("names", nargs="*", help="lessons, by number or name; default: all")
    parser.add_argument("--force", action="store_true", help="execute unchanged lessons too")
    parser.add_argument("--measure", action="store_true", help="measure run time and memory first (quiet machine!)")
    parser.add_argument("--check", action="store_true", help="only report what is out of sync")
    options = parser.parse_args(arguments)
    try:
        return _command(options)
    except (BuildError, SourceError) as error:
        print(error, file=sys.stderr)
        return 1


def _command(options: argparse.Namespace, shop: Shop = HERE) -> int:
    names = [_full_name(name, shop) for name in options.names] or shop.names()
    if options.check:
        problems = [sentence for name in names for sentence in check_in_sync(name, shop)] + strays(shop)
        print("\n".join(problems) or "all notebooks are in sync with their sources")
        return 1 if problems else 0
    for name in shop.names():  # first: the progress board of lesson 00 shows the exercises of all
        _write_solutions(read_lesson(name, shop), name, shop)
    for name in names:
        if options.measure:
            measure(name, shop)
        else:
            build(name, options.force, shop)
    return 0


def _full_name(name: str, shop: Shop) -> str:
    """`1`, `01`, `01_softmax_attention` and `notebooks/src/01_softmax_attention.py` all name the same lesson."""
    stem = Path(name).stem
    matches = [known for known in shop.names() if known == stem or (stem.isdigit() and known[:2] == f"{int(stem):02d}")]
    return matches[0] if matches else stem


if __name__ == "__main__":
    raise SystemExit(main())
