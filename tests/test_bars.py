"""Promises of the lessons, held against what was measured last; the README shows the same table."""

import copy
import json

import pytest

from utils.course import bars as module
from utils.course.bars import Bar, bars
from utils.course.readme import bars_part
from utils.course.results import RESULTS

SHORT = {f"writing with the cache, times as fast as `generate` of {peer}" for peer in ("T5", "BART", "Marian")}


def test_every_bar_is_held_but_those_that_are_told():
    missed = {bar.what for bar in bars() if not bar.held}
    assert missed <= SHORT


def test_every_lesson_promises_something():
    assert {bar.lesson for bar in bars()} == {"01", "02", "03", "04", "05", "06", "07", "08", "all"}
    names = [(bar.lesson, bar.what) for bar in bars()]
    assert len(set(names)) == len(names)


def test_a_bar_has_one_side():
    assert Bar("01", "speed", 2.0, least=2).held and not Bar("01", "speed", 1.99, least=2).held
    assert Bar("01", "error", 2.0, most=2).held and not Bar("01", "error", 2.01, most=2).held
    with pytest.raises(ValueError, match="one of least and most for the bar 'speed'"):
        Bar("01", "speed", 1.0)
    with pytest.raises(ValueError, match="one of least and most"):
        Bar("01", "speed", 1.0, least=1, most=2)


def test_a_bar_in_words():
    bar = Bar("03", "exact match", 98.44, least=98, unit="%")
    assert (bar.promise, bar.measured) == ("at least 98 %", "98.4 %")
    assert Bar("01", "cost", 1.08, most=1.1).measured == "1.08"


def test_a_worse_figure_falls_short_in_the_table(monkeypatch, tmp_path):
    for file in RESULTS.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    entry = json.loads((tmp_path / "two_places.json").read_text(encoding="utf-8"))
    worse = copy.deepcopy(entry)
    worse["result"][1]["pairs"][3] = 61.0
    (tmp_path / "two_places.json").write_text(json.dumps(worse), encoding="utf-8")
    before = "\n".join(bars_part())
    monkeypatch.setattr(module, "stored", lambda name, read=module.stored: read(name, tmp_path))
    after = "\n".join(bars_part())
    assert "| two places, two heads, worst seed | at least 99 % | 100 % | yes |" in before
    assert "| two places, two heads, worst seed | at least 99 % | 61 % | **falls short** |" in after
