"""Facts about the stored sweeps as the figures of lesson 08 get them."""

import pytest

from utils.build.results import stored
from utils.plots import lesson09 as pictures
from utils.training.scaling_view import drawn_sweeps, mean


@pytest.fixture(scope="module")
def result():
    return stored("scaling").result


@pytest.fixture(scope="module")
def sweeps(result):
    return drawn_sweeps(result)


@pytest.mark.parametrize(("name", "of"), [("parameters", "parameters"), ("text", "data"), ("computing", "computing")])
@pytest.mark.parametrize(("kind", "called"), [("plain", "without"), ("floor", "with floor")])
def test_the_laws_are_those_that_the_benchmark_fitted(sweeps, result, name, of, kind, called):
    told = result[of]["laws"][called]
    drawn = sweeps[name][kind]["law"]
    assert drawn["exponent"][0] == pytest.approx(told["exponent"], rel=0.01)
    assert drawn["floor"] is None if kind == "plain" else drawn["floor"] == pytest.approx(told["floor"], rel=0.01)
    assert (drawn["low"] <= drawn["curve"] + 1e-6).all() and (drawn["curve"] <= drawn["high"] + 1e-6).all()


def test_what_was_foretold_and_reached_is_what_was_stored(sweeps, result):
    for kind, called in (("plain", "without"), ("floor", "with floor")):
        told = sweeps["parameters"][kind]["held_out"]
        assert told["x"] == result["larger"]["x"] and told["reached"] == result["larger"]["loss"]
        assert [told["value"], told["low"], told["high"]] == pytest.approx(
            result["larger"]["foretold"][called], rel=0.005
        )
    assert "held_out" not in sweeps["text"]["floor"], "all the text there is was used"


def test_of_two_runs_with_much_computing_the_better_one_is_compared_with(sweeps, result):
    told = sweeps["computing"]["floor"]["held_out"]
    assert mean(told["reached"]) == min(mean(result["larger"]["loss"]), mean(result["longer"]["loss"]))
    assert told["x"] in result["longer"]["x"]


def test_the_figures_take_them(sweeps):
    for name in sweeps:
        for floor in (False, True):
            assert f"{len(sweeps[name]['x'])} points" in pictures.scaling_words(sweeps, name, floor)
