"""Masked tokens in a sentence of the reader's own, and the tokens that the model predicts there."""

import re

import ipywidgets
from matplotlib.patches import Rectangle

from utils.plots.display import close
from utils.plots.figures import write_title
from utils.plots.parts import LABEL, LOOKS, PALE_BLUE, draw_box, percent, sheet, short, top_of, write
from utils.plots.style import FONT, GREY, figure_png
from utils.plots.text import inches
from utils.widgets.base import ReaderError, checked_text
from utils.widgets.forms import ThreeForms
from utils.widgets.mask_board import ended, visible
from utils.widgets.stage import Stage

MASK = "[MASK]"
LINE = re.compile(r"_{2,}")  # what people type for a masked token
MOST_MASKED = 4


def fill_in(respond, start, *, title=""):
    """Type a sentence with [MASK] or __, press Enter or the button, and see the tokens that the model predicts there.

    respond(text) is a pure function of a sentence with [MASK]. It returns a dict with "tokens", the n tokens of the
    sentence, "masked", the positions of the masked ones, from 0, and "candidates", for each of these up to eight (token,
    probability), best first; perhaps "sentence", the sentence with the best tokens filled in. The message of a ValueError
    is shown to the reader, and the picture stays.
    """
    return FillIn(respond, start, title)


class FillIn(ThreeForms, ipywidgets.VBox):
    """What `fill_in` returns. `answer` is what `respond` gave, `shown` the sentence; `ask(text)` asks again."""

    def __init__(self, respond, start, title):
        self._respond, self._title = respond, title
        self.answer = answer_of(respond, with_masks(start))
        self.shown = start
        self._stage = Stage()
        self._text = ipywidgets.Text(
            value=start,
            description="your sentence",
            continuous_update=False,
            style={"description_width": "initial"},
            layout={"width": "min(44em, 76%)"},
        )
        self._button = ipywidgets.Button(description="Fill in", tooltip="Let the model predict the masked tokens")
        self._show()
        self._text.observe(lambda _: self.ask(self._text.value), names="value")
        # A click takes the keyboard from the text field, which sends a new sentence by itself.
        self._button.on_click(lambda _: self.ask(self._text.value))
        row = ipywidgets.HBox([self._text, self._button], layout={"align_items": "center"})
        super().__init__(children=[row, self._stage])
        self.add_class("course-widget")
        self.add_class("course-fillin")

    def ask(self, text):
        """Show the predictions for another sentence."""
        if text == self.shown and not self._stage.error:
            return
        state = {"sentence": text}
        try:
            answer = answer_of(self._respond, with_masks(text))
        except ReaderError as error:
            self._stage.tell(str(error), state)
            return
        except Exception as error:
            self._stage.complain(error, state)
            raise
        self.answer, self.shown = answer, text
        self._show()

    def static(self):
        return self._stage.static()

    def _show(self):
        state = {"sentence": self.shown}
        try:
            alt = fill_in_words(self.answer, self._title)
            figure = fill_in_picture(self.answer, self._title)
            png = figure_png(figure, alt)
        except Exception as error:
            self._stage.complain(error, state)
            raise
        close(figure)
        self._stage.present(png, alt, state, text=self.answer["sentence"])


def with_masks(text):
    """The sentence with every masked token written as [MASK]; an error for the reader if there is none."""
    text = re.sub(re.escape(MASK), MASK, checked_text(text), flags=re.IGNORECASE)
    text = LINE.sub(MASK, text)
    count = text.count(MASK)
    if not count:
        raise ReaderError(
            f"There is no masked token in this sentence: write {MASK} or __ where the model should predict a token."
        )
    if count > MOST_MASKED:
        raise ReaderError(
            f"The sentence has {count} masked tokens, but this widget shows at most {MOST_MASKED}: fill some in yourself."
        )
    return text


def answer_of(respond, text):
    """What `respond` gives for a sentence."""
    try:
        answer = respond(text)
    except ValueError as error:
        raise ReaderError(" ".join(str(error).split()) or "This sentence cannot be filled in.") from error
    masked, candidates = list(answer["masked"]), answer["candidates"]
    best = [guesses[0][0] for guesses in candidates]
    filled = [
        best[masked.index(position)] if position in masked else token for position, token in enumerate(answer["tokens"])
    ]
    sentence = str(answer.get("sentence", "")) or " ".join(filled)
    return answer | {"text": text, "masked": masked, "sentence": sentence}


# The picture, and the same in words

WIDTH = 11.5
LEFT = 0.3
TEXT_ROW = 0.39
SPACING = 0.5  # between the bars of two masked tokens


def fill_in_picture(answer, title=""):
    """The tokens, the masked ones framed and numbered if there are several, and below the predictions for each as bars.

    With three or four masked tokens the bars are in two rows, with five candidates each.
    """
    tokens, masked, candidates = answer["tokens"], answer["masked"], answer["candidates"]
    names = [
        _name(masked.index(position), len(masked)) if position in masked else short(visible(token))
        for position, token in enumerate(tokens)
    ]
    rows = flow(names, masked, WIDTH - 2 * LEFT)
    across = min(len(masked), 2)
    down = -(-len(masked) // 2)
    candidates = [guesses if down == 1 else guesses[:5] for guesses in candidates]
    step, over = (0.43, 0.1) if down == 1 else (0.34, 0.05)
    named = 0.36 if len(masked) > 1 else 0.0
    tall = step * max(map(len, candidates)) + named + over
    height = TEXT_ROW * len(rows) + 0.2 + tall * down
    figure, axes = sheet(WIDTH, height + top_of(title, WIDTH))
    for number, row in enumerate(rows):
        y = height - TEXT_ROW * (number + 0.5)
        for position, x, wide in row:
            if position in masked:
                shade = LOOKS[masked.index(position)][0]
                draw_box(axes, LEFT + x, y, wide - 0.1, 0.34, names[position], PALE_BLUE, shade, fontweight="bold")
            else:
                write(axes, LEFT + x, y, names[position], FONT)
    wide = (WIDTH - 2 * LEFT - SPACING * (across - 1)) / across
    for number, guesses in enumerate(candidates):
        left, top = LEFT + number % across * (wide + SPACING), tall * (down - number // across)
        if named:
            write(axes, left, top - 0.16, f"[MASK] {number + 1}", FONT, ha="left", fontweight="bold")
        _guess_bars(axes, guesses, left, top - named, wide, step, LOOKS[number][0])
    write_title(figure, title)
    return figure


def _name(number, count):
    return "?" if count == 1 else f"? {number + 1}"


def flow(words, boxed, room):
    """Rows of (position, center, width) in inches from 0 that hold all the words in order, each row at most `room` wide.

    boxed: the positions of framed words, which need more room.
    """
    rows, left = [[]], 0.0
    for position, word in enumerate(words):
        wide = inches(word, FONT, "bold") + 0.34 if position in boxed else inches(word, FONT) + 0.13
        if rows[-1] and left + wide > room:
            rows.append([])
            left = 0.0
        rows[-1].append((position, left + wide / 2, wide))
        left += wide
    return rows


def _guess_bars(axes, guesses, left, top, wide, step, shade):
    """A horizontal bar for each candidate, the best in color; a full bar is a probability of 1."""
    names = [_fitting(visible(token), 0.5 * wide) for token, _ in guesses]
    start = left + max(0.75, *(inches(name, FONT, "bold") for name in names)) + 0.12
    full = left + wide - start - inches(">99 %", LABEL) - 0.12
    axes.plot([start] * 2, [top, top - step * len(guesses)], color=GREY, linewidth=1.2)
    for number, (name, (_, prob)) in enumerate(zip(names, guesses, strict=True)):
        y, first = top - step * (number + 0.5), number == 0
        write(axes, start - 0.1, y, name, FONT, ha="right", fontweight="bold" if first else "normal")
        axes.add_patch(
            Rectangle((start, y - step / 3), full * prob, 2 * step / 3, facecolor=shade if first else "#A5A5A5")
        )
        write(axes, start + full * prob + 0.08, y, percent(prob), LABEL, ha="left")


def _fitting(word, room):
    letters = len(word)
    while letters > 2 and inches(_cut(word, letters), FONT, "bold") > room:
        letters -= 1
    return _cut(word, letters)


def _cut(word, letters):
    return word if len(word) <= letters else word[: letters - 1] + "…"


def fill_in_words(answer, opening=""):
    """The text form: the sentence, and the candidates for each masked token."""
    parts = [ended(opening), f"“{answer['text']}” becomes “{answer['sentence']}”."]
    for number, guesses in enumerate(answer["candidates"]):
        which = "[MASK]" if len(answer["masked"]) == 1 else f"[MASK] {number + 1}"
        listed = ", ".join(f"{visible(token)} {percent(prob)}" for token, prob in guesses)
        parts.append(f"Most probable at {which}: {listed}.")
    return " ".join(part for part in parts if part)
