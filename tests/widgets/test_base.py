"""What every widget relies on: answers, errors, stored states, and controls."""

import base64
import json
import re

import numpy as np
import pytest
import torch

from utils.widgets import registry
from utils.widgets.base import PAGE_VIEW, STATIC, WIDGET_VIEW, ReaderError, Widget, answer_key, packed, plain, sealed
from utils.widgets.controls import control, log_range, menu


class Root(Widget):
    """The square root of its input."""

    script = "guess"

    def respond(self, number):
        if number < 0:
            raise ReaderError("The number is\nnegative: choose a positive one.")
        if number > 100:
            raise RuntimeError("too large")
        return {"root": number**0.5}

    def alt(self):
        return f"The root of {self.inputs['number']} is {self.answer['root']}."


def test_an_answer_follows_the_inputs_and_names_its_request():
    widget = Root({}, {"number": 4.0})
    assert (widget.answer, widget.answered, repr(widget)) == ({"root": 2}, 0, "The root of 4 is 2.")
    widget.inputs = {"number": 9, "request": 7}
    assert (widget.answer, widget.answered, widget.error) == ({"root": 3}, 7, "")


def test_what_a_reader_did_wrong_is_said_and_the_answer_stays():
    widget = Root({}, {"number": 4})
    widget.set(number=-1)
    assert widget.error == "The number is negative: choose a positive one."
    assert widget.answer == {"root": 2}
    widget.set(number=16)
    assert (widget.error, widget.answer) == ("", {"root": 4})


def test_an_error_of_the_function_is_shown_and_raised():
    widget = Root({}, {"number": 4})
    with pytest.raises(RuntimeError, match="too large"):
        widget.set(number=101)
    assert widget.error == "RuntimeError: too large"
    assert widget.answer == {"root": 2} and widget.answered == 1


def test_only_while_lessons_are_built_the_state_is_saved_as_data(monkeypatch):
    widget = Root({"title": "t"}, {"number": 4})
    monkeypatch.delenv("COURSE_BUILD", raising=False)
    assert set(widget._repr_mimebundle_()[0]) == {WIDGET_VIEW, "text/plain"}
    monkeypatch.setenv("COURSE_BUILD", "1")
    widget.inputs = {"number": 9, "request": 3}
    state = json.loads(widget._repr_mimebundle_()[0][PAGE_VIEW])
    assert state == {
        "widget": "guess",
        "data": {"title": "t"},
        "inputs": {"number": 9},
        "view": {},
        "answer": {"root": 3},
    }


def test_stored_answers_are_found_by_the_key_that_the_script_writes(monkeypatch):
    monkeypatch.setattr(Root, "stored_answers", lambda self: [({"number": 4.0}, {"root": np.float64(2)})])
    assert Root({}, {"number": 4}).page_state()["data"]["answers"] == {'{"number":4}': {"root": 2}}
    assert answer_key({"b": "é", "a": [1, True]}) == '{"a":[1,true],"b":"é"}'


def test_plain_values_are_what_javascript_has():
    given = {1: (torch.tensor([1.0, 2.5]), np.int64(3), True, None, "x"), "y": 4.0}
    assert plain(given) == {"1": [[1, 2.5], 3, True, None, "x"], "y": 4}
    with pytest.raises(ValueError, match="finite"):
        plain(torch.tensor([float("nan")]))


def test_packed_numbers_keep_shape_and_values():
    array = np.arange(6).reshape(2, 3) / 7
    data = packed(array)
    assert data["shape"] == [2, 3]
    assert np.allclose(np.frombuffer(base64.b64decode(data["float32"]), "<f4").reshape(2, 3), array)
    assert json.loads(base64.b64decode(sealed({"a": [0.5]}))) == {"a": [0.5]}


@pytest.mark.parametrize(
    ("given", "kind", "start"),
    [
        ((0.0, 1.0, 0.25, 0.5), "slider", 0.5),
        (log_range(1, 100, 10), "slider", 10),
        ([3, 1, 2], "choice", 3),
        ({"one": 1, "two": 2}, "choice", 1),
        (menu([("one", 1), ("two", 2)], start=2), "choice", 2),
        (True, "check", True),
        ("a b", "text", "a b"),
        ("a\nb", "text", "a\nb"),
    ],
)
def test_a_control_has_a_kind_and_a_first_value(given, kind, start):
    spec, first = control("some_name", given)
    assert (spec["kind"], spec["name"], spec["label"], first) == (kind, "some_name", "some name", start)


@pytest.mark.parametrize("given", [(0, 1, 0.5), (1, 0, 1, 1), (0, 1, 0.1, 2), [], {}, 3.5, None])
def test_a_control_that_cannot_work_is_refused(given):
    with pytest.raises((TypeError, ValueError), match="the control 'x'"):
        control("x", given)


def test_every_widget_has_its_script_its_style_and_words():
    names = [module.example().script for module in registry.MODULES]
    assert len(set(names)) == len(names)
    scripts = {path.stem for path in STATIC.glob("*.js")} - {"core", "page", "transformer"}
    assert scripts == set(names) == {path.stem for path in STATIC.glob("*.css")} - {"core"}
    for module in registry.MODULES:
        assert len(repr(module.example()).split()) >= 1
        code = (STATIC / f"{module.example().script}.js").read_text(encoding="utf-8")
        assert len(re.findall(r"^export default course\(", code, re.MULTILINE)) == 1
        assert not re.search(r"https?://(?!www\.w3\.org)", code), "a widget asks nothing of another host"
