"""A multiple-choice question: choose, commit, then read why."""

from utils.widgets.base import Widget, sealed


class QuizView(Widget):
    """Inputs: `choice`, the index of an option or None, and `committed`.

    head: HTML of the question; options: HTML of each; right: indices; feedback: HTML for each option, shown after the choice of it
    has been committed; earlier: HTML of a note on an earlier guess. record(choice) is called when a choice is committed and returns
    HTML of a note, or "". static_html, text: the quiz for readers without a kernel.
    """

    script = "quiz"

    def __init__(self, head, options, right, feedback, earlier, record, static_html, text):
        self._feedback, self._right, self._record = feedback, sorted(right), record
        self._static_html, self._text = static_html, text
        answers = sealed({"right": self._right, "feedback": feedback})
        data = {"head": head, "options": options, "earlier": earlier, "sealed": answers}
        super().__init__(data, {"choice": None, "committed": False})

    def respond(self, choice, committed):
        if choice is None or not committed:
            return {"right": None, "feedback": ""}
        return {"right": self._right, "feedback": self._feedback[choice] + self._record(choice)}

    def alt(self):
        return self._text

    def static_html(self):
        return self._static_html


def example():
    options, feedback = ["It doubles.", "It stays the same."], ["<p>Doubled.</p>", "<p>The same.</p>"]
    return QuizView("<p>Which?</p>", options, {1}, feedback, "", lambda choice: "", "<p>Which?</p>", "Which?")


def samples():
    return [{"choice": choice, "committed": committed} for choice in (None, 0, 1) for committed in (False, True)]
