"""Attack the checks: how many mutants of each solution does its check refuse, and is any right answer refused?

A row for each exercise, and one for all: of the mutants that are not equivalent at least 97 of 100 must be caught in
each exercise and 99 of 100 in all. A row is not ok either if a right answer in another style is refused, or if a mutant
listed as equivalent turns out to differ.
"""

from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judging import PATIENCE, difference_from_a_right_answer, judged, mutants_of, said_of
from tests.mutants.styles import styles_of
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import exercises_of

SHARE, SHARE_OF_EACH = 0.99, 0.97
SAID = 3  # accepted mutants that a row names


def run() -> list[dict]:
    rows = [attack(item.id) for lesson in LESSONS for item in exercises_of(lesson.number)]
    return [*rows, total(rows)]


def attack(exercise_id: str) -> dict:
    """One exercise: its mutants, its equivalent ones and its other styles."""
    mutants, listed = mutants_of(exercise_id), EQUIVALENT.get(exercise_id, {})
    equivalent = [mutant for mutant in mutants if mutant.what in listed]
    others = [mutant for mutant in mutants if mutant.what not in listed]
    accepted = [mutant.what for mutant, said in zip(others, judged(others), strict=True) if not said]
    styles = styles_of(exercise_id)
    refused = [f"{style.what}: {said}" for style, said in zip(styles, judged(styles, said_of), strict=True) if said]
    differences = judged(equivalent, difference_from_a_right_answer, 5 * PATIENCE)
    differing = [f"{mutant.what}: {said}" for mutant, said in zip(equivalent, differences, strict=True) if said]
    caught = len(others) - len(accepted)
    return {
        "what": f"exercise {exercise_id}",
        "ok": caught >= SHARE_OF_EACH * len(others) and not refused and not differing,
        "said": _in_words(accepted, refused, differing),
        "mutants": len(mutants),
        "caught": caught,
        "equivalent": len(equivalent),
        "share": round(caught / len(others), 4),
        "right answers": len(styles),
        "refused": len(refused),
    }


def _in_words(accepted: list[str], refused: list[str], differing: list[str]) -> str:
    parts = []
    for words, names in (("accepted", accepted), ("right but refused", refused), ("not equivalent", differing)):
        if names:
            more = f" and {len(names) - SAID} more" if len(names) > SAID else ""
            parts.append(f"{words}: {'; '.join(names[:SAID])}{more}")
    return ". ".join(parts) or "every mutant is refused"


def total(rows: list[dict]) -> dict:
    mutants, caught, equivalent = (sum(row[name] for row in rows) for name in ("mutants", "caught", "equivalent"))
    share = caught / (mutants - equivalent)
    return {
        "what": "all exercises",
        "ok": share >= SHARE and not sum(row["refused"] for row in rows),
        "said": f"{caught:,} of {mutants - equivalent:,} mutants that are not equivalent are refused ({share:.2%})",
        "mutants": mutants,
        "caught": caught,
        "equivalent": equivalent,
        "share": round(share, 4),
        "right answers": sum(row["right answers"] for row in rows),
        "refused": sum(row["refused"] for row in rows),
    }
