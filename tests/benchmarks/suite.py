"""How long `make test` takes, and what its groups of tests take of it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.benchmarks.benchmark import Benchmark, Shown, at_most
from utils.build.commands import COMMANDS
from utils.paths import ROOT

BROWSER, NOTEBOOKS, LIBRARY = "pages in a browser", "notebooks", "library, checks, exercises, grading"
GOAL = 12 * 60


def suite(tests: Sequence[str] = tuple(COMMANDS["test"].default.split())) -> dict:
    """Seconds from start to end, and for each group the number of tests and their seconds, which several processes share."""
    groups = {name: {"group": name, "tests": 0, "seconds": 0.0} for name in (LIBRARY, NOTEBOOKS, BROWSER)}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", *COMMANDS["test"].steps[-1].split(), f"--junitxml={report}", *tests]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {"CI": "true"}, capture_output=True, text=True)
        taken = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"expected all tests to pass, got\n{done.stdout[-2000:]}")
        for case in ElementTree.parse(report).iter("testcase"):
            row = groups[group_of(case.get("classname"))]
            row["tests"] += 1
            row["seconds"] += float(case.get("time"))
    rows = [row | {"seconds": round(row["seconds"], 1)} for row in groups.values()]
    return {"seconds": round(taken, 1), "groups": rows}


def group_of(module: str) -> str:
    """The group of a test by its module, with dots or slashes."""
    first, second, *_ = [*module.replace("/", ".").split("."), ""]
    return NOTEBOOKS if first == "notebooks" else BROWSER if second == "browser" else LIBRARY


def show(result: dict) -> Shown:
    tests, work = (sum(row[key] for row in result["groups"]) for key in ("tests", "seconds"))
    rows = [(row["group"], row["tests"], f"{row['seconds']:.0f}") for row in result["groups"]]
    return Shown(
        "What `make test` takes",
        f"From start to end {result['seconds'] / 60:.1f} minutes, in an environment that is set up. The tests of several processes overlap, so their seconds add up to more.",
        ("group", "tests", "seconds"),
        [*rows, ("all", tests, f"{work:.0f}")],
        [at_most("`make test`", result["seconds"], GOAL, "s")],
    )


BENCHMARKS = (
    Benchmark("suite", "00", suite, show, {"tests": ("tests/test_phrases.py",)}, packages=("pytest", "nbval")),
)
