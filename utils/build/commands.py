"""The commands of the course, one list for `make NAME`, `python -m utils NAME` and `attention-course NAME`.

`make` and `python -m utils` run them in .venv, which they create; `attention-course`, a script of the installed package,
in the environment that it belongs to. Standard library only: the list is read before anything is installed.
"""

import os
import runpy
import subprocess
import sys
from dataclasses import dataclass

from utils.paths import INSTALLED, ROOT


@dataclass(frozen=True)
class Command:
    """Modules that Python runs one after another, each with its arguments; those that are given go to the last one."""

    about: str
    steps: tuple[str, ...]
    level: str = "test"  # "lab": runs without the packages of the tests, and without a checkout
    default: str = ""  # arguments if none are given


LINT = ("ruff check -q .", "ruff format -q --check .")
PYTEST = "pytest -n 3 --dist loadfile --no-loadscope-reorder -q"
COMMANDS = {
    "lab": Command("open the course in JupyterLab at lesson 00 (--port 8888)", ("utils.build.lab",), "lab"),
    "test": Command(
        "run every test: the library, the notebooks, the pages in a browser",
        (*LINT, "utils.build.downloads", PYTEST),
        default="tests notebooks",
    ),
    "audit": Command(
        "the slow proofs that are not in 'test': broken machines, versions, repeated runs (machines for one)",
        ("tests.audit",),
    ),
    "grade": Command("grade a folder of submitted notebooks (submissions --jobs 2)", ("utils.grading",), "lab"),
    "assignment": Command(
        "write notebooks for nbgrader to assignment/ (01 for one lesson)", ("utils.grading.assignment",)
    ),
    "notebooks": Command(
        "build the notebooks whose source or library changed (01 for one)", ("utils.build.notebooks",)
    ),
    "timing": Command(
        "measure the run time and memory of each lesson, on a quiet machine", ("utils.build.notebooks --measure",)
    ),
    "slides": Command("write one self-contained deck per lesson to slides/ (01 for one)", ("utils.build.slides",)),
    "site": Command(
        "write the website to site/: lessons with live widgets, slides, results, search", ("utils.build.site",)
    ),
    "bench": Command(
        "measure every stored result and run time again, and write docs/results.md (hours, on a quiet machine)",
        ("tests.benchmarks", "utils.build.notebooks --measure", "utils.build.documents"),
    ),
    "bench-quick": Command(
        "run every benchmark with small settings, next to the stored figures, which stay (minutes)",
        ("tests.benchmarks --quick",),
    ),
    "babi": Command(
        "train memory networks on the bAbI files in data/babi/en, or on generated stories (--tasks 16)",
        ("utils.training.babi",),
        "lab",
    ),
    "translate": Command(
        "compare translation models, on the course's pairs or real ones (--pairs data/translation/fra.txt)",
        ("utils.training.translate",),
        "lab",
    ),
    "downloads": Command(
        "download the published weights and texts that lessons use, once (190 MB)", ("utils.build.downloads",), "lab"
    ),
    "results": Command(
        "write docs/results.md, and the generated parts of other documents, from the stored results",
        ("utils.build.documents",),
    ),
    "lint": Command("check code and notebook sources with ruff", LINT),
    "format": Command("format code and notebook sources", ("ruff check -q --fix .", "ruff format -q .")),
    "lock": Command(
        "write requirements.lock from pyproject.toml; versions stay unless told otherwise (--upgrade, --torch 2.13.0)",
        ("utils.build.lock",),
    ),
    "clean-cache": Command(
        "delete cached training results; they are trained again when next needed",
        ("utils.training.cache --clear",),
        "lab",
    ),
}


def usage() -> str:
    lines = [f"  {name:12} {command.about}" for name, command in COMMANDS.items()]
    return "\n".join(["make NAME, python -m utils NAME or attention-course NAME:", *lines])


def main() -> int:
    name, *arguments = sys.argv[1:] or ["help"]
    if name not in COMMANDS:
        asked = name in ("help", "-h", "--help")
        print(usage(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    command = COMMANDS[name]
    if command.level != "lab":
        if INSTALLED:
            print(f"'{name}' needs a checkout of the course: run 'python -m utils {name}' there.", file=sys.stderr)
            return 2
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT))
    *before, last = (step.split() for step in command.steps)
    for step in before:
        if code := subprocess.call([sys.executable, "-m", *step]):
            return code
    sys.argv = [*last, *(arguments or command.default.split())]
    runpy.run_module(last[0], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
