"""The result of a check, with buttons for its hints and its solution."""

from utils.widgets.base import Widget, sealed


class Feedback(Widget):
    """Inputs: `hints`, how many are open, and `solution`, whether it is.

    result: HTML of the verdict. hints: HTML of each hint not seen yet; solution: HTML, or "" if there is none. record(hints,
    solution) is called when one of them is opened and returns HTML of a note, or "". text: the result for readers without a kernel.
    """

    script = "feedback"

    def __init__(self, result, hints, solution, record, text):
        self._hints, self._solution, self._record, self._text = hints, solution, record, text
        self._result = result
        data = {
            "result": result,
            "count": len(hints),
            "has_solution": bool(solution),
            "sealed": sealed([hints, solution]),
        }
        super().__init__(data, {"hints": 0, "solution": False})

    def respond(self, hints, solution):
        trouble = self._record(hints, solution) if hints or solution else ""
        return {"notes": [*self._hints[:hints], *([self._solution] if solution else [])], "trouble": trouble}

    def alt(self):
        return self._text

    def static_html(self):
        return self._result


def example():
    return Feedback(
        "<p>Failed.</p>", ["<p>One.</p>", "<p>Two.</p>"], "<p>x + 1</p>", lambda hints, solution: "", "Failed."
    )


def samples():
    return [{"hints": hints, "solution": solution} for hints in (0, 1, 2) for solution in (False, True)]
