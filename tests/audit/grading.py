"""Grade 200 submissions in one run, hostile, broken, right and wrong, and prove that none of them reaches beyond itself."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil
import torch

from tests import cohort
from tests.bank import entries
from utils.checks.isolation import run_isolated
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import PASSED, find
from utils.grading import child, judge
from utils.paths import ROOT
from utils.training.fingerprint import digest

SUBMISSIONS, MINUTES = 200, 10
STOPPED = ("It was stopped after", "Your code ended the whole process")
LESSON_NUMBERS = [lesson.number for lesson in LESSONS]
COUNT = len(LESSON_NUMBERS)
BORROWED = "import utils.exercises.registry as registry\n{name} = registry.find({id!r}).reference"


def run() -> list[dict]:
    """One row for each thing that must hold."""
    with tempfile.TemporaryDirectory() as base:
        return [*one_run(Path(base)), *interrupted_runs(Path(base)), bank_is_accepted()]


def row(what: str, ok: bool, said: str, **figures) -> dict:
    return {"what": what, "ok": bool(ok), "said": said, **figures}


# --- the cohort -------------------------------------------------------------------------------------------------


def borrowed(number: str) -> dict:
    """Every answer is the course's own version."""
    notebook = cohort.lesson(number)
    for name, cell in cohort.exercise_cells(notebook).items():
        answer = cohort.USE.search(cohort.code_of(cell))[2]
        code = BORROWED.format(name=answer, id=name)
        cell["source"] = f'{code}\n{answer} = exercise("{name}").use({answer})'
    return notebook


def special() -> dict[str, dict | bytes]:
    """Odd but honest: all that is handed in here is right."""
    solved = cohort.solved("01")
    noisy = json.loads(json.dumps(solved))
    noisy["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 12_000_000}]
    helped = cohort.with_answer(
        "%%time\ndef softmax(logits, temperature=1.0):\n    return my_helper(logits / temperature)"
    )
    helped["cells"].insert(
        2, {"cell_type": "code", "metadata": {}, "source": "!pip list\ndef my_helper(x):\n    return x.softmax(-1)"}
    )
    lost = json.loads(json.dumps(solved))
    for cell in cohort.exercise_cells(lost).values():
        cell["source"] = cohort.code_of(cell).rsplit("\n", 1)[0]
    bare = json.loads(json.dumps(solved))
    for cell in bare["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    broken_cell = json.loads(json.dumps(solved))
    broken_cell["cells"].insert(2, {"cell_type": "code", "metadata": {}, "source": "this is not Python"})
    return {
        "huge output": noisy,
        "helper in a cell of its own": helped,
        "last line lost": lost,
        "no metadata": bare,
        "a broken cell elsewhere": broken_cell,
        "a byte order mark": b"\xef\xbb\xbf" + json.dumps(solved).encode(),
        "accents é 漢字": solved,
        "two\nlines": solved,
        "magics, mentions and preparations": cohort.odd_but_right(),
        "double precision": cohort.in_double(),
    }


def make_cohort(folder: Path, outside: Path) -> dict[str, dict[str, tuple]]:
    """Write it; gives for each kind the names of its files with what is needed to judge them."""
    kinds: dict[str, list[tuple]] = {
        "attack": [(name, cohort.with_answer(code)) for name, code in cohort.ATTACKS.items()],
        "broken": [(name, file.data, file.says) for name, file in cohort.broken_files().items()],
        "borrowed": [(number, borrowed(number)) for number in LESSON_NUMBERS],
        "special": list(special().items()),
        "collusion": [("1.1 and 1.2", cohort.collusion())],
    }
    odd = cohort.odd_places(folder, outside)
    honest = SUBMISSIONS - sum(map(len, kinds.values())) - len(odd)
    makers = (cohort.solved, cohort.spoilt, cohort.lesson, lambda number: cohort.spoilt(number, 2))
    kinds["honest"] = [
        (f"{LESSON_NUMBERS[i % COUNT]} {i // COUNT}", makers[(i + i // COUNT) % len(makers)](LESSON_NUMBERS[i % COUNT]))
        for i in range(honest)
    ]
    everything = [(kind, *submission) for kind, submissions in kinds.items() for submission in submissions]
    random.Random(1).shuffle(everything)
    files: dict[str, dict[str, tuple]] = defaultdict(dict)
    for index, (kind, name, content, *rest) in enumerate(everything):
        file = f"s{index:03d} {kind}/{name.replace('/', '-')}.ipynb"
        if isinstance(content, dict):  # no two files are the same: the verdict on one would serve for the other
            content = {**content, "metadata": {**content["metadata"], "index": index}}
        cohort.write(folder, file, content)
        files[kind][file.replace("\n", "\\n")] = (name, *rest)
    files["odd"] = {name: (name, says) for name, says in odd.items()}
    cohort.fake_course(folder)
    cohort.fake_course(folder / "s000 fake")
    return files


# --- one run ----------------------------------------------------------------------------------------------------


def grade(folder: Path, out: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "utils.grading", str(folder), "--out", str(out), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def table(out: Path) -> dict[str, dict[str, dict]]:
    rows: dict[str, dict[str, dict]] = defaultdict(dict)
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            rows[line["file"]][line["exercise"]] = line
    return rows


def tree() -> str:
    paths = [path for room in ("utils", "notebooks", "tests") for path in sorted((ROOT / room).rglob("*.*"))]
    files = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return digest(*(path.read_bytes() for path in [*files, Path(torch.__file__), Path(os.__file__)]))


def running() -> set[str]:
    """Processes that a grading could leave behind."""
    left = set()
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if "utils.grading.server" in words or "utils.grading" in words or "sleep 1000" in words:
            left.add(f"{process.pid} {words[:80]}")
    return left


def verdicts(rows: dict[str, dict]) -> dict[str, tuple[str, str]]:
    """What must not depend on the company: the status, and the words about a known mistake (others show drawn numbers)."""
    known = {name: {" ".join(mistake.message.split()) for mistake in find(name).mistakes} for name in rows if name}
    return {
        name: (line["status"], line["message"] if line["message"] in known.get(name, ()) else "")
        for name, line in rows.items()
    }


def one_run(base: Path) -> list[dict]:
    folder, outside, out = base / "handed in", base / "outside", base / "tables"
    folder.mkdir()
    files = make_cohort(folder, outside)
    count = sum(map(len, files.values()))
    before, processes = tree(), running()
    begun = time.monotonic()
    done = grade(folder, out)
    seconds = time.monotonic() - begun
    rows = table(out)
    names = {name for kind in files.values() for name in kind}
    results = [
        row(
            "every submission is reported",
            done.returncode == 0 and count == SUBMISSIONS and names == set(rows),
            f"{len(rows)} of {count} files in the table; missing: {sorted(names - set(rows))[:3]} {done.stderr[-300:]}",
            submissions=count,
            kinds_of_attack_and_breakage=len(files["attack"]) + len(files["broken"]) + len(files["odd"]),
            seconds=round(seconds),
        ),
        row("nothing is left running", running() <= processes, f"new: {sorted(running() - processes)[:3]}"),
        row("the grader's tree is unchanged", tree() == before, "hash of utils, notebooks, tests, torch and os"),
        row(
            "nothing was written beside the tables",
            sorted(path.name for path in outside.iterdir()) == ["secret_01.ipynb"] and not Path("/tmp/filler").exists(),
            f"outside: {sorted(path.name for path in outside.iterdir())}",
        ),
    ]
    results += [*attacks(files["attack"], rows), *broken(files["broken"] | files["odd"], rows)]
    copied = {name: line for file in files["borrowed"] for name, line in rows[file].items()}
    bad = [name for name, line in copied.items() if line["message"] != judge.COPIED]
    results.append(
        row(
            "the course's own version is refused as an answer",
            not bad and len(copied) > 60,
            f"accepted: {bad}",
            exercises=len(copied),
        )
    )
    bad = [name for name in files["special"] if any(line["status"] != "passed" for line in rows[name].values())]
    results.append(row("odd but honest notebooks pass", not bad, f"refused: {bad}", notebooks=len(files["special"])))
    passed_on = [name for name in files["collusion"] if rows[name]["1.2"]["status"] != "failed"]
    results.append(row("no process passes a solution on to another", not passed_on, f"accepted: {passed_on}"))
    results.append(
        row(
            f"{SUBMISSIONS} submissions take at most {MINUTES} minutes",
            seconds < 60 * MINUTES,
            f"{seconds:.0f} seconds",
        )
    )
    results.append(accidents(out, rows))
    results.append(alone(base, folder, files["honest"], rows))
    return results


def accidents(out: Path, rows: dict) -> dict:
    """Every verdict that may not be the fault of the answer is marked, so that the next run grades it again."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "kept").glob("*.json")]
    stopped = [line for lines in kept for line in lines if line["message"].startswith(STOPPED)]
    bad = [line["message"] for line in stopped if not line["accident"]]
    seen = sum(line["message"].startswith(STOPPED) for lines in rows.values() for line in lines.values())
    said = f"not marked: {bad[:3]}"
    return row("accidents are graded again", not bad and seen > 5, said, accidents=seen, kept_files=len(kept))


def attacks(files: dict, rows: dict) -> list[dict]:
    passed = [kind for file, (kind,) in files.items() if rows[file].get("1.1", {}).get("status") != "failed"]
    harmed = [
        kind
        for file, (kind,) in files.items()
        if any(line["status"] != "passed" for name, line in rows[file].items() if name != "1.1")
    ]
    messages = {kind: rows[file].get("1.1", {}).get("message", "") for file, (kind,) in files.items()}
    read = [kind for kind, message in messages.items() if "READ " in message]
    return [
        row("no attack passes", not passed, f"not refused: {passed}", attacks=len(files)),
        row("an attack harms no other exercise of its own notebook", not harmed, f"harmed: {harmed}"),
        row("no attack reads what is not its own", not read, f"read: {read}"),
        row("every wall holds", "open: []" in messages["tries every wall"], messages["tries every wall"][:200]),
    ]


def broken(files: dict, rows: dict) -> list[dict]:
    bad = []
    for file, (kind, says) in files.items():
        line = rows[file].get("", {})
        if line.get("status") != "unreadable" or says not in line.get("message", ""):
            bad.append(kind)
    return [row("every broken file gets a row that says what to do", not bad, f"otherwise: {bad}", files=len(files))]


def alone(base: Path, folder: Path, files: dict, rows: dict) -> dict:
    """The honest submissions once more, without the others."""
    quiet = base / "honest"
    for name in files:
        target = quiet / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((folder / name).read_bytes())
    begun = time.monotonic()
    grade(quiet, base / "honest tables")
    seconds = time.monotonic() - begun
    again = table(base / "honest tables")
    differ = [name for name in files if verdicts(rows[name]) != verdicts(again[name])]
    wrong = [name for name, (kind,) in files.items() if not _as_made(kind, rows[name])]
    return row(
        "honest verdicts are those of a run alone, and right",
        not differ and not wrong and len(again) == len(files),
        f"differ: {differ[:3]}, wrong: {wrong[:3]}",
        submissions=len(files),
        exercises=sum(len(rows[name]) for name in files),
        seconds=round(seconds),
    )


def _as_made(kind: str, lines: dict[str, dict]) -> bool:
    number, turn = kind.split()
    maker = (LESSON_NUMBERS.index(number) + COUNT * int(turn) + int(turn)) % 4
    statuses = [line["status"] for line in lines.values()]
    every = {1: 1, 3: 2}.get(maker, 10**9)
    if maker == 2:
        return set(statuses) == {"not attempted"}
    return all((status == "failed") == (index % every == 0 and every < 10**9) for index, status in enumerate(statuses))


# --- ends from outside ------------------------------------------------------------------------------------------


def interrupted_runs(base: Path) -> list[dict]:
    """Stopped in the middle, by a request and by force: nothing lost, nothing running, and it goes on."""
    folder = base / "stopped"
    for index in range(10):
        cohort.write(folder, f"s{index}_01.ipynb", cohort.with_answer(f"# {index}\n{cohort.RIGHT}"))
    results = []
    processes = running()
    for number, out in ((signal.SIGTERM, base / "stopped 1"), (signal.SIGKILL, base / "stopped 2")):
        command = [sys.executable, "-m", "utils.grading", str(folder), "--out", str(out), "--jobs", "1"]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            for _ in range(3):
                process.stdout.readline()
            process.send_signal(number)
        time.sleep(2)
        kept = {path: path.stat().st_mtime_ns for path in (out / "kept").glob("*.json")}
        left = running() - processes
        tables = (out / "grades.csv").exists() if number == signal.SIGTERM else True
        done = grade(folder, out)
        rows = table(out)
        whole = len(rows) == 10 and all(
            line["status"] == "passed" for lines in rows.values() for line in lines.values()
        )
        same = all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
        results.append(
            row(
                f"a run that is stopped by {number.name} goes on",
                done.returncode == 0 and whole and same and not left and tables and 3 <= len(kept) < 10,
                f"{len(kept)} kept at the stop; left running: {sorted(left)[:2]}; tables at the stop: {tables}",
            )
        )
    return results


# --- no right answer is refused ---------------------------------------------------------------------------------


def bank_is_accepted() -> dict:
    """Every right answer of the bank stands when asked from outside, with the course's own version taken away."""
    right = [entry for entry in entries() if entry.verdict == PASSED]
    refused = [f"{entry.exercise} {entry.name}: {said}" for entry in right if (said := refused_from_outside(entry))]
    return row("no right answer of the bank is refused", not refused, f"refused: {refused}", answers=len(right))


def refused_from_outside(entry) -> str:
    """What the grader says of an answer of the bank that it asks itself; "" if it stands."""
    item, answer, seed = find(entry.exercise), entry.build(), judge.a_seed()
    outcome = run_isolated(lambda: asked(item, answer, seed), 30)
    said = judge.compared_with_reference(item, seed, json.dumps({"value": outcome.value}).encode())
    return said and (outcome.in_words() if not outcome.ok else said[:60])


def asked(item, answer, seed: int) -> list:
    cases, call_seed = child.draw(item, seed)
    child.hide([item])
    return json.loads(json.dumps([child.returned(item, answer, case, call_seed) for case in cases]))
