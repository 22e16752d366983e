"""Badges: what the reader has passed, on the blocks of the open Transformer and on the map of the course."""

from utils.checks import progress
from utils.exercises import badges
from utils.exercises.badges import BUILT_IN
from utils.exercises.solutions import solutions_of
from utils.plots.course_map import BADGES, DECODER, ENCODER, course_map


def marks(figure) -> int:
    return sum(text.get_text() == "✓" for text in figure.axes[0].texts)


def test_a_passed_exercise_gives_its_badge_and_its_mark_on_the_map(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    assert not any(badge["passed"] for badge in badges().values())
    assert marks(course_map(badges())) == 0
    progress.record_check(BUILT_IN["norm"], "passed")
    progress.record_check(BUILT_IN["self_attn"], "failed")
    assert [part for part, badge in badges().items() if badge["passed"]] == ["norm"]
    assert badges()["norm"] == {"exercise": "5.5", "passed": True}
    assert marks(course_map(badges())) == sum(label == "add & norm" for label, _, _ in (*ENCODER, *DECODER)) == 5


def test_every_mark_of_the_map_has_an_exercise_and_a_part():
    assert all(exercise_id in solutions_of(f"0{exercise_id[0]}") for exercise_id in BUILT_IN.values())
    assert set(BADGES.values()) <= BUILT_IN.keys()
    assert BADGES.keys() <= {label for label, _, _ in (*ENCODER, *DECODER)}
