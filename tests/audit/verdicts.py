"""Every answer of the bank gets its verdict and kind of message, and every model of a mistake its own message.

A row for each exercise, and one for all.
"""

import json
import sys
import zlib

import torch

from tests.bank import Entry, answers_to
from tests.mutants.judging import judged
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import _verdict, exercises_of, faulty_mistakes, find

PATIENCE = 20.0  # seconds for one answer; on a quiet machine none takes a tenth of it
SAID = 3  # answers that a row names


def run() -> list[dict]:
    rows = [exercise_row(item.id) for lesson in LESSONS for item in exercises_of(lesson.number)]
    return [*rows, total(rows)]


def exercise_row(exercise_id: str) -> dict:
    answers = answers_to(exercise_id)
    verdicts = judged(answers, verdict_on, PATIENCE)
    changed = [
        f"{entry.name}: expected {' '.join(filter(None, entry.expected))}, got {said}"
        for entry, said in zip(answers, verdicts, strict=True)
        if not as_expected(entry, said)
    ]
    wrong = changed + faulty_mistakes(find(exercise_id))
    more = f" and {len(wrong) - SAID} more" if len(wrong) > SAID else ""
    return {
        "what": f"exercise {exercise_id}",
        "ok": bool(answers) and not wrong,
        "said": f"{'; '.join(wrong[:SAID])}{more}" or "every verdict is as it was",
        "right": sum(entry.verdict == "passed" for entry in answers),
        "wrong": sum(entry.verdict == "failed" for entry in answers),
        "specific": sum(entry.kind == "specific" for entry in answers),
        "mistakes": len(find(exercise_id).mistakes),
    }


def verdict_on(entry: Entry) -> str:
    """Status, message and kind as JSON, in this process, on cases that are always the same."""
    generator = torch.Generator().manual_seed(zlib.crc32(entry.code.encode()))
    return json.dumps(_verdict(find(entry.exercise), entry.build(), generator))


def as_expected(entry: Entry, said: str) -> bool:
    try:
        status, _, kind = json.loads(said)
    except ValueError:  # it hung, or ended the process
        return False
    return (status, kind or None) == entry.expected


def total(rows: list[dict]) -> dict:
    counts = {name: sum(row[name] for row in rows) for name in ("right", "wrong", "specific", "mistakes")}
    bad = sum(not row["ok"] for row in rows)
    share = counts["specific"] / counts["wrong"]
    return {
        "what": "all exercises",
        "ok": not bad,
        "said": f"{share:.0%} of the wrong answers get a message that names the misconception; exercises not ok: {bad}",
        **counts,
    }


if __name__ == "__main__":  # python -m tests.audit.verdicts 5.2 06: these exercises and lessons alone
    for item in [item for lesson in LESSONS for item in exercises_of(lesson.number)]:
        if {item.id, item.lesson} & set(sys.argv[1:]):
            print(json.dumps(exercise_row(item.id), ensure_ascii=False, indent=1), flush=True)
