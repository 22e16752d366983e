"""How fast a widget answers: from a control's change to the new picture, in the kernel.

Some pictures are drawn in the kernel and sent whole. Others are drawn by the page, from numbers that the kernel answers with;
of these the static form, which a saved notebook shows, is timed apart.
"""

import ast
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence

import nbformat
import numpy as np

from tests.browser import gallery
from utils.course.build import execute
from utils.course.places import ROOT

Change = Callable[[], object]


def widget_response(rounds: int = 3, kinds: Sequence[str] | None = None) -> list[dict]:
    """`measured` in a kernel of its own: there a change is packed and sent, as when a reader makes it."""
    code = (
        f"import json, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.benchmarks.widgets import measured\nprint(json.dumps(measured({rounds}, {kinds!r})))"
    )
    done = execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), "widgets")
    return json.loads("".join(output.text for output in done.notebook.cells[0].outputs))


def measured(rounds: int, kinds: Sequence[str] | None = None) -> list[dict]:
    """A row for each kind of widget, or for these: milliseconds of all changes over its range, of fresh widgets in every round.

    answer: until all that the page needs has been handed over. picture: of the static form then, None where the answer is
    the picture. Each as median and worst.
    """
    rows = []
    for name in kinds or KINDS:
        cell, changed, changes_of, drawn_by = KINDS[name]
        answers, pictures = [], []
        for _ in range(rounds):
            widget = shown(cell)
            for change in changes_of(widget):
                answers.append(_seconds(change))
                if drawn_by == PAGE:
                    pictures.append(_seconds(widget.static))
        rows.append(
            {
                "widget": name,
                "changed": changed,
                "drawn_by": drawn_by,
                "changes": len(answers),
                "answer": _milliseconds(answers),
                "picture": _milliseconds(pictures) if pictures else None,
            }
        )
    return rows


def shown(cell: str):
    """The widget that a cell of the gallery ends with, after the cells that it needs."""
    names: dict = {}
    for source in (gallery.BEGINNING, *NEEDED.get(cell, ())):
        exec(source, names)
    *before, last = ast.parse(cell).body
    exec(compile(ast.Module(before, []), "gallery", "exec"), names)
    return eval(compile(ast.Expression(last.value), "gallery", "eval"), names)


NEEDED = {gallery.BEAM: (gallery.TRANSLATE,), gallery.NEXT_WORD: (gallery.FILL_IN,)}


def _seconds(change: Change) -> float:
    start = time.perf_counter()
    change()
    return time.perf_counter() - start


def _milliseconds(taken: list[float]) -> dict[str, float]:
    return {"median": round(1000 * float(np.median(taken)), 1), "worst": round(1000 * max(taken), 1)}


# What a reader does with each


def _set(widget, name: str, value) -> Change:
    return functools.partial(setattr, widget, name, value)


def _slide(widget) -> list[Change]:
    shifts = [functools.partial(widget.set, shift=value) for value in np.linspace(-2, 2, 9).round(1).tolist()]
    return shifts + [functools.partial(widget.set, temperature=value) for value in (0.1, 0.3, 1.0, 3.0, 10.0)]


def _drag(widget) -> list[Change]:
    along = np.linspace(-2, 2, 5).tolist()
    return [_set(widget, "query", [x, y]) for x in along for y in along]


def _click_cells(widget) -> list[Change]:
    n = len(widget.tokens)
    singles = [np.arange(n * n).reshape(n, n) != place for place in range(0, n * n, 5)]
    return [functools.partial(widget.choose, one) for one in (*(preset["name"] for preset in widget.presets), *singles)]


def _follow(widget) -> list[Change]:
    layers, heads = widget.weights.shape[:2]
    maps = [_set(widget, "chosen", [layer, head]) for layer in range(layers) for head in range(heads)]
    return [_set(widget, "focus", place) for place in range(len(widget.tokens))] + maps


def _switch_off(widget) -> list[Change]:
    places = np.arange(widget.layers * widget.heads).reshape(widget.layers, widget.heads)
    alone, many = [places != place for place in places.flat], [places >= count for count in places.flat]
    return [functools.partial(widget.choose, on) for on in alone + many]


def _grow(widget) -> list[Change]:
    # A tree that was seen is remembered, so each is asked for once.
    wishes = [(_set(widget, "sentence", 1), [1, 2, 3, 4]), (_set(widget, "sentence", 0), [3, 2, 1])]
    return [change for sentence, widths in wishes for change in (sentence, *(_set(widget, "width", w) for w in widths))]


def _translate(widget) -> list[Change]:
    sentences = ("the cats do not sleep", "the old cat sleeps", "the black old cats sleep", "the cat does not sleep")
    return [
        change
        for sentence in sentences
        for change in (functools.partial(widget.translate, sentence), _set(widget, "index", 1))
    ]


def _fill(widget) -> list[Change]:
    sentences = ("the __ sleeps", "the __ cat __ sleep", "__ cats do not __", "the black __ does not sleep")
    return [functools.partial(widget.ask, sentence) for sentence in sentences]


def _write_on(widget) -> list[Change]:
    dials = [{"temperature": 0.0}, {"temperature": 2.0}, {"top_k": 2}, {"top_k": None}, {"top_p": 0.5}, {"top_p": 1.0}]
    return [functools.partial(widget.dial, **one) for one in dials] + [widget.write] * 8


KERNEL, PAGE = "kernel", "page"
# name: its cell in the gallery, what is changed, how, and who draws
KINDS = {
    "explore": (gallery.EXPLORE, "a slider", _slide, KERNEL),
    "plane": (gallery.PLANE, "the query", _drag, PAGE),
    "mask board": (gallery.MASK, "the mask", _click_cells, PAGE),
    "heads view": (gallery.HEADS_VIEW, "the token, the head", _follow, PAGE),
    "removal board": (gallery.REMOVAL, "the heads that are on", _switch_off, PAGE),
    "translate watch": (gallery.TRANSLATE, "the sentence, the step", _translate, KERNEL),
    "beam tree": (gallery.BEAM, "the sentence, the width", _grow, PAGE),
    "fill in": (gallery.FILL_IN, "the sentence", _fill, KERNEL),
    "next word": (gallery.NEXT_WORD, "a dial, a piece more", _write_on, KERNEL),
}


if __name__ == "__main__":
    for row in widget_response(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        print(row)
