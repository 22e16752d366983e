"""Machines on which something is missing: the course works there, or says in a sentence what to do.

A copy of the checkout, in a path with spaces and accents, gets an environment of its own by `make setup-test` (minutes, 1.5 GB).
All else is tried in it: without network, without permission to write, without fonts, a home folder, a second core, more
than 4 GiB, or a locale. bubblewrap (`bwrap`) and the limits of the kernel take these things away, on Linux.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from utils.build import downloads
from utils.exercises.timing import read_timings
from utils.paths import ROOT

TOOLS = ("bwrap", "taskset", "prlimit", "git", "make")
FOLDER_NAME = "mon cours é à"
MEBIBYTES = 4096
PATIENCE = 1200  # seconds for one trial: far more than needed
NOBODY = ("--unshare-user", "--uid", "4242")  # a user that no machine knows
LOCALE_C = {"LC_ALL": "C", "LANG": None, "PYTHONIOENCODING": None}
ASCII_ONLY = LOCALE_C | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


class Tried(NamedTuple):
    """How a command ended, what it printed, and the JSON that a probe prints in its last line."""

    code: int
    said: str
    report: dict


class Checkout(NamedTuple):
    """A copy of the checkout with an environment of its own."""

    root: Path

    def run(self, command: Sequence[str], before: Sequence[str] = (), change: Mapping[str, str | None] | None = None):
        """Run a command in the copy; `before` stands before it (a sandbox), `change` sets or removes variables."""
        wanted = os.environ | {"COURSE_DOWNLOADS": str(downloads.cache_folder()), "PYTHONPATH": str(self.root)}
        own = {name: value for name, value in (wanted | dict(change or {})).items() if value is not None}
        running = subprocess.Popen(
            [*before, *command], cwd=self.root, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )  # fmt: skip
        try:
            said, _ = running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            said = running.communicate()[0] + f"\nstopped after {PATIENCE} s".encode()
        text = said.decode(errors="replace").strip()
        for path, name in ((self.root, "<course>"), (self.root.parent, "<folder>"), (ROOT, "<checkout>")):
            text = text.replace(str(path), name)  # paths of this machine do not go into the results
        *lines, last = text.splitlines() or [""]
        with contextlib.suppress(ValueError):
            if isinstance(report := json.loads(last), dict):
                return Tried(running.returncode, "\n".join(lines), report)
        return Tried(running.returncode, text, {})

    def python(self, *arguments: str, **options) -> Tried:
        return self.run([str(self.root / ".venv/bin/python"), *arguments], **options)

    def probe(self, *arguments: str, **options) -> Tried:
        return self.python("-m", "tests.audit.probe", *arguments, **options)


def sandbox(*options: str) -> list[str]:
    """This machine as it is, but for what the options take away."""
    return ["bwrap", "--dev-bind", "/", "/", "--die-with-parent", *options, "--"]


# --- rows -------------------------------------------------------------------------------------------------------


def row(what: str, ok: bool, said: str, **figures) -> dict:
    return {"what": what, "ok": bool(ok), "said": said[-400:] or "nothing", **figures}


def lesson_row(what: str, tried: Tried, may_differ: bool = False) -> dict:
    """Ok if the lesson ran to its end, showed what is saved (unless it may differ) and warned of nothing."""
    code, said, report = tried
    if code != 0 or "different" not in report:
        return row(what, False, f"exit code {code}: {said}")
    said = f"{report['compared'] - len(report['different'])} of {report['compared']} compared cells as saved"
    said += "".join(f"; {name}: {', '.join(report[name])}" for name in ("different", "warnings") if report[name])
    ok = (may_differ or not report["different"]) and not report["warnings"]
    return row(what, ok, said, seconds=report["seconds"], mebibytes=report["mebibytes"])


def lab_row(what: str, tried: Tried) -> dict:
    """Ok if the page answers and the kernel of lesson 00 starts."""
    report = tried.report
    ok = tried.code == 0 and report.get("kernel") is True
    return row(what, ok, "the page answers and a kernel starts" if ok else f"{tried.said} {report}")


# --- trials -----------------------------------------------------------------------------------------------------


def a_path_with_spaces_and_accents(checkout: Checkout) -> list[dict]:
    """The real commands, as the README names them, from a copy without an environment."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    bare = {"PYTHONPATH": None}
    made = checkout.run(["make", "setup-test", f"PYTHON={base}"], change=bare)
    linted = checkout.run(["make", "lint"], change=bare)
    return [
        row(f"make setup-test in a folder named '{FOLDER_NAME}'", made.code == 0, made.said),
        row("make lint there", linted.code == 0, linted.said),
        lab_row("make lab there", checkout.probe("lab", change=bare)),
        lesson_row("lesson 01 there", checkout.probe("lesson", "01", change=bare)),
    ]


def no_network(checkout: Checkout) -> list[dict]:
    alone = sandbox("--unshare-net")
    nothing = {name: str(checkout.root.parent / "nothing") for name in ("COURSE_DOWNLOADS", "HF_HUB_CACHE")}
    rows = [lab_row("make lab without network", checkout.probe("lab", before=alone))]
    for number in ("08", "09"):
        what = f"lesson {number} without network"
        rows.append(lesson_row(f"{what}, after `make downloads`", checkout.probe("lesson", number, before=alone)))
        tried = checkout.probe("lesson", number, before=alone, change=nothing)
        rows.append(lesson_row(f"{what} and without downloads", tried, may_differ=True))
    code, said, _ = checkout.python("-m", "utils.build.downloads", before=alone, change=nothing)
    ok = code == 1 and said.count("connect to the internet once and run `make downloads`") == len(downloads.DOWNLOADS)
    return [*rows, row("make downloads without network", ok and "Traceback" not in said, said.splitlines()[-1])]


def no_permission_to_write(checkout: Checkout) -> list[dict]:
    locked = sandbox("--ro-bind", str(checkout.root), str(checkout.root))
    shutil.rmtree(checkout.root / "work", ignore_errors=True)
    lab = checkout.probe("lab", before=locked).report.get("said", "")
    code = "from utils.checks import progress; print(progress.record_check('1.1', 'passed'))"
    said = checkout.python("-c", code, before=locked).said
    return [
        row("make lab where nothing can be written", "copy the course to a folder of your own" in lab, lab),
        lesson_row("lesson 01 there", checkout.probe("lesson", "01", before=locked)),
        row("a check there", said.startswith("Progress was not saved") and "copy the course" in said, said),
    ]


def no_fonts(checkout: Checkout) -> list[dict]:
    """What matplotlib brings along must be enough; an empty home, so that no list of fonts is remembered."""
    folders = [folder for folder in ("/usr/share/fonts", "/usr/local/share/fonts") if Path(folder).exists()]
    bare = sandbox(*(part for folder in folders for part in ("--tmpfs", folder)))
    home = checkout.root.parent / "empty home"
    home.mkdir(exist_ok=True)
    own = {"HOME": str(home), "XDG_DATA_HOME": None, "XDG_CACHE_HOME": None, "MPLCONFIGDIR": None}
    return [lesson_row("lesson 01 without fonts", checkout.probe("lesson", "01", before=bare, change=own))]


def one_core(checkout: Checkout) -> list[dict]:
    core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    what = "lesson 09, which starts several processes, on one core"
    return [lesson_row(what, checkout.probe("lesson", "09", before=core))]


def little_memory(checkout: Checkout) -> list[dict]:
    """A limit of each process."""
    heaviest = max(read_timings().items(), key=lambda item: item[1]["mebibytes"])[0]
    tried = checkout.probe("lesson", heaviest[:2], before=["prlimit", f"--data={MEBIBYTES * 2**20}"])
    return [lesson_row(f"lesson {heaviest[:2]}, the heaviest, with {MEBIBYTES} MiB", tried)]


def no_home(checkout: Checkout) -> list[dict]:
    rows = []
    for what, before, change in (
        ("HOME in a folder that cannot be", [], {"HOME": f"{os.devnull}/nowhere"}),
        ("a user without name and home", sandbox(*NOBODY), {"HOME": None, "USER": None, "LOGNAME": None}),
    ):
        shutil.rmtree(checkout.root / "work", ignore_errors=True)
        rows.append(lab_row(f"make lab, {what}", checkout.probe("lab", before=before, change=change)))
        rows.append(lesson_row(f"lesson 01, {what}", checkout.probe("lesson", "01", before=before, change=change)))
    return rows


def no_locale(checkout: Checkout) -> list[dict]:
    """The locale C; and, in the checkout itself, without the help that Python gives there.

    Without that help torch cannot be loaded from a path with accents, so it is not tried in the copy.
    """
    return [
        lab_row("make lab in the locale C", checkout.probe("lab", change=LOCALE_C)),
        lesson_row("lesson 01 in the locale C", checkout.probe("lesson", "01", change=LOCALE_C)),
        lesson_row(
            "lesson 03 where texts are ASCII by default", Checkout(ROOT).probe("lesson", "03", change=ASCII_ONLY)
        ),
    ]


TRIALS: tuple[Callable[[Checkout], list[dict]], ...] = (
    *(a_path_with_spaces_and_accents, no_network, no_permission_to_write, no_fonts),
    *(one_core, little_memory, no_home, no_locale),
)


def copy_checkout(target: Path) -> Checkout:
    """The files of the checkout as they stand, with what is not committed yet, but nothing that was made from them."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    for name in filter(None, subprocess.check_output(command, cwd=ROOT, encoding="utf-8").split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return Checkout(target)


def run() -> list[dict]:
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return [
            row("the tools of this part", False, f"install {', '.join(missing)} (on Debian: bubblewrap, util-linux)")
        ]
    rows = []
    with tempfile.TemporaryDirectory(prefix="course-audit-") as folder:
        checkout = copy_checkout(Path(folder) / FOLDER_NAME)
        for trial in TRIALS:
            print(f"    {trial.__name__.replace('_', ' ')} ...", flush=True)
            rows += trial(checkout)
    return rows
