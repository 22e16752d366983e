"""Machines on which something is missing: the course works there, or says in a sentence what to do.

A copy of the checkout, in a path with spaces and accents, gets an environment of its own by `make setup-test` (minutes, 1.5 GB).
All else is tried in it: without network, without the right to write, without room, fonts, a home folder, a second core, more
than 4 GiB, or a language. What is taken away is taken away by bubblewrap (`bwrap`) and by the kernel's own limits, on Linux.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from utils.course import boxes
from utils.course.places import ROOT
from utils.course.timing import read_timings

TOOLS = ("bwrap", "taskset", "git", "make")
FOLDER_NAME = "mon cours é à"
MEBIBYTES = 4096
PATIENCE = 1200  # seconds for one trial: far more than needed
NOBODY = "4242"  # a user that no machine knows
NO_HOME = {"HOME": None, "USER": None, "LOGNAME": None}
LOCALE_C = {"LC_ALL": "C", "LANG": None, "PYTHONIOENCODING": None}
ASCII_ALONE = LOCALE_C | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@dataclass
class Tried:
    """How a command ended, what it said, and the JSON that a probe tells in its last line."""

    code: int
    said: str
    told: dict = field(default_factory=dict)


@dataclass
class Place:
    """A copy of the checkout with an environment of its own."""

    root: Path

    @property
    def python(self) -> str:
        return str(self.root / ".venv" / "bin" / "python")

    def run(
        self, command: Sequence[str], before: Sequence[str] = (), change: Mapping[str, str | None] | None = None
    ) -> Tried:
        """Run a command in the copy; `before` stands before it (a sandbox), `change` sets or removes variables."""
        wanted = (
            os.environ | {"COURSE_BOXES": str(boxes.cache_folder()), "PYTHONPATH": str(self.root)} | dict(change or {})
        )
        own = {name: value for name, value in wanted.items() if value is not None}
        running = subprocess.Popen(
            [*before, *command],
            cwd=self.root,
            env=own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said, _ = running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            said = running.communicate()[0] + f"\nstopped after {PATIENCE} s".encode()
        return _tried(running.returncode, self.without_paths(said.decode(errors="replace")))

    def probe(
        self, *arguments: str, before: Sequence[str] = (), change: Mapping[str, str | None] | None = None
    ) -> Tried:
        return self.run([self.python, "-m", "tests.audit.probe", *arguments], before, change)

    def without_paths(self, text: str) -> str:
        """Paths of this machine are nobody's business."""
        for path, name in (
            (self.root, "<course>"),
            (self.root.parent, "<folder>"),
            (ROOT, "<checkout>"),
            (Path.home(), "~"),
        ):
            text = text.replace(str(path), name)
        return text


def _tried(code: int, said: str) -> Tried:
    lines = said.strip().splitlines()
    try:
        told = json.loads(lines[-1])
    except (IndexError, ValueError):
        return Tried(code, said.strip())
    return Tried(code, "\n".join(lines[:-1]), told) if isinstance(told, dict) else Tried(code, said.strip())


def sandbox(*options: str) -> list[str]:
    """This machine as it is, but for what the options take away."""
    return ["bwrap", "--dev-bind", "/", "/", "--die-with-parent", *options, "--"]


# --- rows -------------------------------------------------------------------------------------------------------


def lesson_row(what: str, tried: Tried, may_differ: bool = False) -> dict:
    """Ok if the lesson ran to its end, showed what is saved (unless it may differ) and warned of nothing."""
    told = tried.told
    if tried.code != 0 or "different" not in told:
        return {"what": what, "ok": False, "said": last_words(tried)}
    same, all_ = told["compared"] - len(told["different"]), told["compared"]
    said = f"ran to its end; {same} of {all_} compared cells and {told['pictures'] - told['other_pictures']} of {told['pictures']} pictures as saved"
    said += f"; different: {', '.join(told['different'])}" if told["different"] else ""
    said += f"; it warned: {told['warnings'][0]}" if told["warnings"] else ""
    ok = (same == all_ or may_differ) and not told["warnings"]
    return {"what": what, "ok": ok, "said": said, "seconds": told["seconds"], "mebibytes": told["mebibytes"]}


def lab_row(what: str, tried: Tried) -> dict:
    """Ok if the page answers and a kernel runs the first cell of lesson 00."""
    told = tried.told
    if tried.code != 0 or "answered" not in told:
        return {"what": what, "ok": False, "said": last_words(tried)}
    if told["answered"] and told["ran"] == "ok":
        notes = [line for line in told["said"].splitlines() if line and not line.startswith(("[", " ", "Fail"))]
        said = "the page answers and the first cell runs" + "".join(f"; it says: {note}" for note in notes[:1])
        return {"what": what, "ok": True, "said": said, "seconds": told["seconds"]}
    return {"what": what, "ok": False, "said": told["ran"] or told["said"][-400:]}


def refusal_row(what: str, code: int, said: str, words: str) -> dict:
    """Ok if it ended with one sentence that holds `words`, and no traceback."""
    sentences = [line for line in said.splitlines() if line.strip() and not line.startswith("make:")]
    return {"what": what, "ok": code != 0 and len(sentences) == 1 and words in said, "said": said.strip()[-600:]}


def last_words(tried: Tried) -> str:
    return f"exit code {tried.code}: {tried.said[-400:] or tried.told}"


# --- trials -----------------------------------------------------------------------------------------------------


def a_path_with_spaces_and_accents(place: Place) -> list[dict]:
    """The real commands: what is named in the README, from a copy without an environment."""
    start = time.monotonic()
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    made = place.run(["make", "setup-test", f"PYTHON={base}"], change={"PYTHONPATH": None})
    rows = [
        {
            "what": f"make setup-test in a folder named '{FOLDER_NAME}'",
            "ok": made.code == 0 and (place.root / ".venv/course-ready").exists(),
            "said": "the environment is made" if made.code == 0 else last_words(made),
            "seconds": round(time.monotonic() - start),
        }
    ]
    helped = place.run(["make", "help"], change={"PYTHONPATH": None})
    rows.append(
        {"what": "make help there", "ok": "make lab" in helped.said, "said": helped.said.split("\n")[0].strip()}
    )
    checked = place.run(["make", "lint"], change={"PYTHONPATH": None})
    rows.append({"what": "make lint there", "ok": checked.code == 0, "said": checked.said[-300:] or "nothing to say"})
    rows.append(lab_row("make lab there", place.probe("lab", change={"PYTHONPATH": None})))
    rows.append(lesson_row("lesson 01 there", place.probe("lesson", "01", change={"PYTHONPATH": None})))
    return rows


def no_network(place: Place) -> list[dict]:
    alone = sandbox("--unshare-net")
    rows = [lab_row("make lab without network", place.probe("lab", before=alone))]
    for number in ("07", "08"):
        tried = place.probe("lesson", number, before=alone)
        rows.append(lesson_row(f"lesson {number} without network, with what `make downloads` fetched", tried))
    empty = {"COURSE_BOXES": str(place.root.parent / "no boxes"), "HF_HUB_CACHE": str(place.root.parent / "no hub")}
    for number in ("07", "08"):
        tried = place.probe("lesson", number, before=alone, change=empty)
        rows.append(lesson_row(f"lesson {number} without network and without boxes", tried, may_differ=True))
    fetched = place.run([place.python, "-m", "utils.course.box_list"], alone, empty)
    lines = fetched.said.splitlines()
    told = [line for line in lines if "connect to the internet once and run `make downloads`" in line]
    ok = fetched.code == 1 and len(told) == 4 and "Traceback" not in fetched.said
    rows.append({"what": "make downloads without network", "ok": ok, "said": lines[-1] if lines else ""})
    return rows


def no_right_to_write(place: Place) -> list[dict]:
    locked = sandbox("--ro-bind", str(place.root), str(place.root))
    shutil.rmtree(place.root / "work", ignore_errors=True)
    tried = place.probe("lab", before=locked)
    rows = [
        refusal_row(
            "make lab in a checkout that cannot be written",
            tried.told.get("code") or 0,
            tried.told.get("said", ""),
            "copy the course to a folder of your own",
        )
    ]
    rows.append(
        lesson_row("lesson 01 in a checkout that cannot be written", place.probe("lesson", "01", before=locked))
    )
    code = "from utils.course import progress; print(progress.record_check('1.1', 'passed'))"
    said = place.run([place.python, "-c", code], locked).said
    ok = said.startswith("Progress was not saved") and "copy the course" in said and "\n" not in said
    rows.append({"what": "a check in a checkout that cannot be written", "ok": ok, "said": said})
    code = "from utils.training import regression, keep; print(keep._usable_folder())"
    stranger = sandbox("--ro-bind", str(place.root), str(place.root), "--unshare-user", "--uid", NOBODY)
    kept = place.run([place.python, "-c", code], stranger, NO_HOME)
    ok = kept.code == 0 and "results are kept in" in kept.said and NOBODY in kept.said
    rows.append({"what": "kept results there, for a user without a name", "ok": ok, "said": kept.said.splitlines()[0]})
    bare = place.root.parent / "bare"
    shutil.copytree(place.root / "utils" / "course", bare / "utils" / "course")
    for name in ("pyproject.toml", "constraints.txt", "requirements.lock", "Makefile"):
        shutil.copy(place.root / name, bare / name)
    made = place.run(
        ["make", "-C", str(bare), "setup", f"PYTHON={place.python}"], sandbox("--ro-bind", str(bare), str(bare))
    )
    said = "\n".join(line for line in made.said.splitlines() if not line.startswith("make"))
    rows.append(
        refusal_row(
            "make setup where nothing can be written", made.code, said, "copy the course to a folder of your own"
        )
    )
    return rows


def no_room(place: Place) -> list[dict]:
    small = place.root.parent / "small"
    small.mkdir(exist_ok=True)
    full = sandbox("--size", str(64 * 1024), "--tmpfs", str(small))
    told = place.probe("progress", before=full, change={"COURSE_PROGRESS": str(small / "progress.jsonl")}).told
    ok = (
        bool(told)
        and told["saved"] == told["kept"] > 0
        and told["refused"] > 0
        and told["all_after"]
        and told["again"] == ""
    )
    ok = ok and len(told["said"]) == 1 and "make room" in told["said"][0]
    said = (
        f"{told['kept']} of {told['saved']} saved events are there; then: {told['said'][0]}"
        if told
        else "the probe failed"
    )
    rows = [{"what": "progress on a disk that is full", "ok": ok, "said": said}]
    code = (
        "import torch; from utils.training import keep; from pathlib import Path; import sys;"
        "keep._store(b'x' * 10**6, Path(sys.argv[1]) / 'a.kept'); print(len(list(Path(sys.argv[1]).iterdir())))"
    )
    kept = place.run([place.python, "-c", code, str(small)], full)
    ok = kept.code == 0 and "not kept: " in kept.said and kept.said.endswith("\n0")
    rows.append({"what": "a trained result on a disk that is full", "ok": ok, "said": kept.said.splitlines()[0]})
    made = place.run(
        [
            place.python,
            "-c",
            "from utils.course import bootstrap as b; b.ROOT = __import__('sys').argv[1]; b.check_disk()",
            str(small),
        ],
        full,
    )
    rows.append(refusal_row("make setup on a disk that is full", made.code, made.said, "make room"))
    return rows


def no_fonts(place: Place) -> list[dict]:
    """What matplotlib brings along must be enough; an empty home, so that no list of fonts is remembered."""
    folders = [str(folder) for folder in map(Path, ("/usr/share/fonts", "/usr/local/share/fonts")) if folder.exists()]
    bare = sandbox(*(part for folder in folders for part in ("--tmpfs", folder)))
    home = place.root.parent / "empty home"
    home.mkdir(exist_ok=True)
    own = {"HOME": str(home), "XDG_DATA_HOME": None, "XDG_CACHE_HOME": None, "MPLCONFIGDIR": None}
    return [lesson_row("lesson 01 without fonts", place.probe("lesson", "01", before=bare, change=own))]


def one_core(place: Place) -> list[dict]:
    core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    return [
        lesson_row("lesson 01 on one core", place.probe("lesson", "01", before=core)),
        lesson_row("lesson 08, which starts several processes, on one core", place.probe("lesson", "08", before=core)),
    ]


def little_memory(place: Place) -> list[dict]:
    timings = read_timings()
    heaviest = max(timings, key=lambda name: timings[name]["mebibytes"])
    peak = timings[heaviest]["mebibytes"]
    said = f"the stored peak of {len(timings)} lessons is at most {peak} MiB, in {heaviest}"
    rows = [{"what": f"no lesson takes {MEBIBYTES} MiB", "ok": peak < MEBIBYTES, "said": said, "mebibytes": peak}]
    with at_most(MEBIBYTES) as (before, how):
        tried = place.probe("lesson", heaviest[:2], before=before)
    row = lesson_row(f"lesson {heaviest[:2]} with {MEBIBYTES} MiB in all ({how})", tried)
    return [*rows, row]


@contextlib.contextmanager
def at_most(mebibytes: int) -> Iterator[tuple[list[str], str]]:
    """What stands before a command so that it and all that it starts get so much memory, and how that is done."""
    name = f"course-audit-{os.getpid()}"
    groups = Path("/sys/fs/cgroup")
    for group, limit in ((groups / "memory" / name, "memory.limit_in_bytes"), (groups / name, "memory.max")):
        try:
            group.mkdir()
            (group / limit).write_text(str(mebibytes * 2**20), encoding="utf-8")
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield ["sh", "-c", f'echo $$ > {group / "cgroup.procs"} && exec "$@"', "sh"], "a control group"
        finally:
            group.rmdir()
        return
    yield ["prlimit", f"--data={mebibytes * 2**20}"], "a limit of each process"


def no_home(place: Place) -> list[dict]:
    forms = {
        "HOME not set": ((), {"HOME": None}),
        "HOME in a folder that cannot be": ((), {"HOME": f"{os.devnull}/nowhere"}),
        "a user without name and home": (sandbox("--unshare-user", "--uid", NOBODY), NO_HOME),
    }
    rows = []
    for what, (before, change) in forms.items():
        shutil.rmtree(place.root / "work", ignore_errors=True)
        rows.append(lab_row(f"make lab, {what}", place.probe("lab", before=before, change=change)))
        rows.append(lesson_row(f"lesson 01, {what}", place.probe("lesson", "01", before=before, change=change)))
    return rows


def no_language(place: Place) -> list[dict]:
    """The locale C; and, in the checkout itself, without the help that Python gives there: each file must say what it is.

    Without that help torch cannot be loaded from a path with accents, so it is not tried in the copy.
    """
    rows = [
        lab_row("make lab in the locale C", place.probe("lab", change=LOCALE_C)),
        lesson_row("lesson 01 in the locale C", place.probe("lesson", "01", change=LOCALE_C)),
    ]
    here = Place(ROOT)
    for number in ("01", "03"):
        tried = here.probe("lesson", number, change=ASCII_ALONE)
        rows.append(lesson_row(f"lesson {number} where texts are ASCII unless they say otherwise", tried))
    for module in ("utils.course.build --check", "utils.course.box_list"):
        done = here.run([here.python, "-m", *module.split()], change=ASCII_ALONE)
        ok = "Traceback" not in done.said and (done.code == 0 or "run `make notebooks`" in done.said)
        rows.append({"what": f"python -m {module} there", "ok": ok, "said": done.said[-300:] or "nothing to say"})
    return rows


TRIALS: tuple[Callable[[Place], list[dict]], ...] = (
    a_path_with_spaces_and_accents,
    no_network,
    no_right_to_write,
    no_room,
    no_fonts,
    one_core,
    little_memory,
    no_home,
    no_language,
)


def copy_checkout(target: Path) -> Place:
    """The files of the checkout as they stand, with what is not committed yet, but nothing that was made from them."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return Place(target)


def run() -> list[dict]:
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        said = f"install {', '.join(missing)} (on Debian: bubblewrap, util-linux, git, make), then run it again"
        return [{"what": "the tools of this part", "ok": False, "said": said}]
    with tempfile.TemporaryDirectory(prefix="course-audit-") as folder:
        place = copy_checkout(Path(folder) / FOLDER_NAME)
        return [row for trial in TRIALS for row in tried_and_told(trial, place)]


def tried_and_told(trial: Callable[[Place], list[dict]], place: Place) -> list[dict]:
    print(f"    {trial.__name__.replace('_', ' ')} ...", flush=True)
    return trial(place)
