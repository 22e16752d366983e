"""Sampling from a language model after a prompt of the reader's own: temperature, top-k and top-p, before and after."""

import ipywidgets
import numpy as np
from matplotlib.patches import Rectangle

from utils.plots.display import close
from utils.plots.figures import write_title
from utils.plots.parts import LABEL, percent, sheet, short, top_of, write
from utils.plots.style import BLUE, FONT, GREY, PALE, as_array, figure_png
from utils.plots.text import inches
from utils.widgets.base import ReaderError, checked_text
from utils.widgets.forms import ThreeForms
from utils.widgets.mask_board import ended, visible
from utils.widgets.stage import Stage

SPACE = "▁"  # marks the space before a word in the tokens of a tokenizer
TOP_K = (1, 2, 3, 5, 10, 20, 50, 100)
ALL = 0  # on the slider of top-k, which cannot hold None
HOTTEST, LEAST_P = 2.0, 0.05
MOST_SEEDS = 99
MANY, SHOWN = 20, 8  # tokens sampled by one button, and tokens with bars
MOST_WRITTEN = 400  # tokens: a longer text no longer fits a page
KEYS = "right arrow: sample the next token, left arrow: remove the last one, End: sample many, Home: start again"


def next_word(
    respond,
    tokens,
    start,
    *,
    temperature=1.0,
    top_k=None,
    top_p=1.0,
    eos_ids=(),
    text_of=None,
    distribution=None,
    title="",
):
    """Type a prompt and sample token by token, with temperature, top-k and top-p as sliders.

    respond(prompt, new_ids) is a pure function of a string and the list of token ids sampled so far, and returns the
    logits (V,) of the next token, -inf for one that is banned. The message of a ValueError is shown to the reader, and the
    picture stays. tokens: the V tokens as strings. eos_ids: the ids that end the text. text_of(prompt, new_ids) is the text
    as one line. distribution(logits, temperature, top_k, top_p) gives the probabilities (V,) from which the next token is
    sampled, as `next_token_probs` here does; top_k and top_p are None where they cut nothing. It is not called with
    temperature 0, by which it may divide: there only the most probable token stays. The same seed and sampling parameters
    give the same text.
    """
    dials = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    return NextWord(respond, tokens, start, dials, eos_ids, text_of, distribution, title)


class NextWord(ThreeForms, ipywidgets.VBox):
    """What `next_word` returns. `beginning`, `written` (token ids) and `text` are what is shown.

    `write(count)`, `take_back()`, `start_again()`, `reset()` and `begin(text)` are its buttons.
    """

    def __init__(self, respond, tokens, start, dials, eos_ids, text_of, distribution, title):
        self._respond, self._title = respond, title
        self.tokens = [str(token) for token in tokens]
        self._eos_ids = {int(number) for number in eos_ids}
        self._text_of = text_of or self._joined
        self._distribution = distribution or next_token_probs
        self._quiet = False
        self._make_controls(start, **dials)
        self._first = (start, self.dials)
        self.beginning, self.written, self._probs = start, [], []
        self._logits = [self._ask(start, [])]  # one for each beginning of what is written
        self._show()
        self._connect()
        row = ipywidgets.HBox(self._buttons, layout={"align_items": "center", "flex_flow": "row wrap"})
        super().__init__(children=[self._text, *self._sliders.values(), row, self._stage])
        self.add_class("course-widget")
        self.add_class("course-nextword")

    def _make_controls(self, start, temperature, top_k, top_p):
        wide = {"style": {"description_width": "8em"}, "layout": {"width": "min(34em, 98%)"}}
        options = sorted({k for k in (*TOP_K, top_k) if k is not None and k < len(self.tokens)})
        self._sliders = {
            "temperature": ipywidgets.FloatSlider(
                value=temperature, min=0.0, max=HOTTEST, step=0.1,
                readout_format=".1f", description="temperature", **wide,
            ),
            "top_k": ipywidgets.SelectionSlider(
                options=[*((str(k), k) for k in options), ("all", ALL)],
                value=top_k if top_k in options else ALL, readout=False, **wide,
            ),
            "top_p": ipywidgets.FloatSlider(
                value=top_p, min=LEAST_P, max=1.0, step=0.05, readout_format=".2f",
                description="top-p", **wide,
            ),
            "seed": ipywidgets.IntSlider(value=0, min=0, max=MOST_SEEDS, description="seed", **wide),
        }  # fmt: skip
        self._name_top_k()
        self._text = ipywidgets.Text(
            value=start, description="your prompt", continuous_update=False, style={"description_width": "8em"},
            layout={"width": "min(44em, 98%)"},
        )  # fmt: skip
        names = {
            "Back": "Remove the last token",
            "Next": "Sample one token",
            f"Sample {MANY}": f"Sample {MANY} tokens",
            "Start again": "Remove all sampled tokens",
            "Reset": "Restore the first prompt and sampling parameters",
        }
        self._buttons = [ipywidgets.Button(description=name, tooltip=tip) for name, tip in names.items()]
        self._stage = Stage(arrow_keys=KEYS)

    def _name_top_k(self):
        # The number that the front end puts beside this kind of slider can be reached by Tab and does nothing there.
        self._sliders["top_k"].description = f"top-k: {self._sliders['top_k'].label}"

    def _connect(self):
        actions = (self.take_back, self.write, lambda: self.write(MANY), self.start_again, self.reset)
        for button, action in zip(self._buttons, actions, strict=True):
            button.on_click(lambda _, action=action: action())
        self._text.observe(lambda _: self._quiet or self.begin(self._text.value), names="value")
        for name, slider in self._sliders.items():
            slider.observe(self.start_again if name == "seed" else self._turned, names="value")
        moves = {"ArrowRight": self.write, "ArrowLeft": self.take_back, "Home": self.start_again}
        moves["End"] = lambda: self.write(MANY)
        self._stage.on_msg(lambda _, message, __: moves.get(message.get("key"), lambda: None)())

    # What the reader can do

    @property
    def dials(self):
        """{temperature, top_k, top_p, seed} as they stand."""
        values = {name: slider.value for name, slider in self._sliders.items()}
        # The front end counts in steps of 0.05, and 18 of them are not exactly 0.9.
        values |= {name: round(values[name], 6) for name in ("temperature", "top_p")}
        return values | {"top_k": values["top_k"] or None}

    @property
    def text(self):
        return str(self._text_of(self.beginning, list(self.written)))

    @property
    def ended(self):
        return bool(self.written) and self.written[-1] in self._eos_ids

    def write(self, count=1):
        """Sample `count` more tokens, or fewer if the text ends."""
        complaint = None
        for _ in range(count):
            if self.ended:
                break
            if len(self.written) >= MOST_WRITTEN:
                complaint = f"This widget samples at most {MOST_WRITTEN} tokens: start again."
                break
            probs = self._after()
            number = drawn(probs, self.dials["seed"], len(self.written))
            written = [*self.written, number]
            try:
                logits = self._ask(self.beginning, written)
            except ReaderError as error:
                complaint = str(error)
                break
            except Exception as error:
                self._stage.complain(error, self._state())
                raise
            self.written = written
            self._probs.append(float(probs[number]))
            self._logits.append(logits)
        self._show()
        if complaint:
            self._stage.tell(complaint, self._state())

    def take_back(self):
        """Remove the last token."""
        if self.written:
            self._keep(len(self.written) - 1)
            self._show()

    def start_again(self, _=None):
        """Remove all sampled tokens; the sampling parameters stay."""
        if not self._quiet:
            self._keep(0)
            self._show()

    def begin(self, text):
        """Start from another prompt."""
        if text == self.beginning and not self._stage.error:
            return
        try:
            logits = self._ask(checked_text(text), [])
        except ReaderError as error:
            self._stage.tell(str(error), self._state() | {"beginning": text})
            return
        except Exception as error:
            self._stage.complain(error, self._state() | {"beginning": text})
            raise
        self.beginning, self._logits = text, [logits]
        self._keep(0)
        self._show()

    def reset(self):
        """Back to the first beginning, the first sampling parameters and nothing sampled."""
        text, dials = self._first
        if self.beginning != text:
            self._logits = [self._ask(text, [])]
        self.beginning = text
        self._keep(0)
        self._quiet = True
        try:
            self._text.value = text
            for name, value in dials.items():
                self._sliders[name].value = ALL if name == "top_k" and value is None else value
        finally:
            self._quiet = False
        self._show()

    def static(self):
        return self._stage.static()

    # How it works

    def _turned(self, _):
        if not self._quiet:
            self._show()

    def _keep(self, count):
        self.written, self._probs = self.written[:count], self._probs[:count]
        self._logits = self._logits[: count + 1]

    def _ask(self, beginning, written):
        """The logits of the next token: as `respond` gave them, once they are checked."""
        try:
            logits = self._respond(beginning, list(written))
        except ValueError as error:
            raise ReaderError(" ".join(str(error).split()) or "The model cannot continue this text.") from error
        checked_logits(logits, len(self.tokens))
        return logits

    def _joined(self, beginning, written):
        return beginning + "".join(self.tokens[number] for number in written).replace(SPACE, " ")

    def _before(self):
        return softmax(checked_logits(self._logits[-1], len(self.tokens)))

    def _after(self):
        dials = self.dials
        if dials["temperature"] == 0:
            return next_token_probs(self._logits[-1], 0)
        top_p = dials["top_p"] if dials["top_p"] < 0.999 else None
        probs = self._distribution(self._logits[-1], dials["temperature"], dials["top_k"], top_p)
        return checked_probs(probs, len(self.tokens))

    def _state(self):
        return self.dials | {"beginning": self.beginning, "written": list(self.written)}

    def _now(self):
        return {
            "beginning": self.beginning,
            "written": [self.tokens[number] for number in self.written],
            "drawn_with": self._probs[-1] if self._probs else None,
            "ended": self.ended,
            "tokens": self.tokens,
            "before": self._before(),
            "after": self._after(),
        }

    def _show(self):
        back, on, many, again, _ = self._buttons
        back.disabled = again.disabled = not self.written
        on.disabled = many.disabled = self.ended
        self._name_top_k()
        try:
            now = self._now()
            alt = next_word_words(now, self.dials, self.text, self._title)
            figure = next_word_picture(now, self._title)
            png = figure_png(figure, alt)
        except Exception as error:
            self._stage.complain(error, self._state())
            raise
        close(figure)
        self._stage.present(png, alt, self._state(), text=self.text)


# Numbers


def softmax(logits):
    """Softmax; -inf becomes 0."""
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def next_token_probs(logits, temperature=1.0, top_k=None, top_p=None):
    """(V,) probabilities to draw from: temperature, then top-k, then top-p.

    A temperature of 0 leaves only the most probable token. Among equals the lower id stays.
    """
    logits = checked_logits(logits)
    order = np.argsort(-logits, kind="stable")
    if temperature == 0:
        probs = np.zeros(len(logits))
        probs[0] = 1.0
    else:
        probs = softmax((logits[order] - logits[order[0]]) / temperature)
    if top_k is not None:
        probs[top_k:] = 0
        probs /= probs.sum()
    if top_p is not None:
        probs[np.cumsum(probs) - probs >= top_p] = 0
        probs /= probs.sum()
    by_id = np.empty_like(probs)
    by_id[order] = probs
    return by_id


def drawn(probs, seed, position):
    """The id of the token that this seed samples at this position: the more probable tokens for the lower random numbers."""
    random = np.random.default_rng(seed).random(position + 1)[position]
    order = np.argsort(-probs, kind="stable")
    sums = np.cumsum(probs[order])
    index = np.searchsorted(sums, random * sums[-1], side="right")
    return int(order[min(index, (probs > 0).sum() - 1)])


# Checks


def checked_logits(logits, count=None):
    """(V,) numbers, some perhaps -inf; TypeError, since the reader can do nothing about them."""
    if hasattr(logits, "detach"):
        logits = logits.detach().cpu().double().numpy()
    logits = np.asarray(logits, dtype=float)
    if logits.ndim != 1 or not len(logits) or (count is not None and len(logits) != count):
        expected = "(tokens,)" if count is None else f"({count},), one for each token"
        raise TypeError(f"expected logits {expected}, got the shape {logits.shape}")
    if np.isnan(logits).any() or (logits == np.inf).any() or not np.isfinite(logits).any():
        raise TypeError("expected logits that are numbers or -inf, at least one of them a number")
    return logits


def checked_probs(probs, count):
    try:
        probs = as_array(probs, "the probabilities")
    except ValueError as error:
        raise TypeError(f"the distribution is invalid: {error}") from error
    if probs.shape != (count,) or probs.min() < 0 or abs(probs.sum() - 1) > 1e-3:
        raise TypeError(
            f"expected {count} probabilities that sum to 1 from the distribution, got the shape {probs.shape} "
            f"and the sum {probs.sum():g}"
        )
    return probs


# The picture, and the same in words

WIDTH, LEFT, ROW = 11.5, 0.25, 0.42
LINE, MOST_LINES = 0.34, 5
MODEL, DRAWN = "#A5A5A5", BLUE
KEY = ((MODEL, "the model"), (DRAWN, "sampled from"))


def next_word_picture(now, title=""):
    """The text, sampled tokens in bold, and two bars for each of the most probable tokens: before and after the cuts.

    now: dict of beginning, written (tokens), drawn_with (probability of the last one, or None), ended, tokens (V,),
    before (V,) and after (V,).
    """
    lines = text_lines(now["beginning"], now["written"])
    lines = lines if len(lines) <= MOST_LINES else [[("…", False, 0.0)], *lines[1 - MOST_LINES :]]
    order = np.argsort(-now["before"], kind="stable")[:SHOWN]
    others = len(now["tokens"]) - len(order)
    rows = [(_label(now["tokens"][position]), now["before"][position], now["after"][position]) for position in order]
    if others:
        rest = np.ones(len(now["tokens"]), dtype=bool)
        rest[order] = False
        rows.append((f"{others:,} others", now["before"][rest].sum(), now["after"][rest].sum()))
    top = LINE * max(2, len(lines)) + 0.2
    height = top + 0.5 + ROW * len(rows) + 0.45
    figure, axes = sheet(WIDTH, height + top_of(title, WIDTH))
    for number, line in enumerate(lines):
        for text, is_written, x in line:
            look = {"fontweight": "bold", "color": DRAWN} if is_written else {}
            write(axes, LEFT + x, height - LINE * (number + 0.5), text, FONT, ha="left", **look)
    axes.plot([LEFT, WIDTH - LEFT], [height - top + 0.06] * 2, color=PALE, linewidth=1.5)
    _key(axes, height - top - 0.2)
    _draw_rows(axes, rows, height - top - 0.45, bool(others))
    write(axes, LEFT, 0.22, note(now), LABEL, ha="left")
    write_title(figure, title)
    return figure


def text_lines(beginning, written):
    """Lines of (text, was it written by the model, position in inches from 0); a line ends where a word begins, if it can."""
    parts = [(f" {word}" if position else word, False) for position, word in enumerate(beginning.split())]
    parts += [(token.replace(SPACE, " ").replace("\n", "↵"), True) for token in written]
    lines, x, apart = [[]], 0.0, False
    for text, is_written in parts:
        weight = "bold" if is_written else "normal"
        word = text.strip(" ")
        apart = apart or text.startswith(" ")
        for chunk in _chunks(word, weight) if word else ():
            space = inches("n n", FONT, weight) - inches("nn", FONT, weight) if apart and lines[-1] else 0.0
            wide = inches(chunk, FONT, weight)
            if lines[-1] and x + space + wide > WIDTH - 2 * LEFT:
                lines.append([])
                x = space = 0.0
            if lines[-1] and lines[-1][-1][1] == is_written:  # one text of many words is drawn faster than many
                before, _, start = lines[-1].pop()
                lines[-1].append((before + " " * (space > 0) + chunk, is_written, start))
            else:
                lines[-1].append((chunk, is_written, x + space))
            x += space + wide
            apart = False
        apart = apart or text.endswith(" ")
    return lines


def _chunks(word, weight):
    """A word in parts that each fit a line; nearly always one."""
    room = WIDTH - 2 * LEFT
    if inches(word, FONT, weight) <= room:
        return [word]
    most = max(1, int(len(word) * room / inches(word, FONT, weight)) - 2)
    return [word[position : position + most] for position in range(0, len(word), most)]


def _label(token):
    return short(visible(token))


def _key(axes, y):
    x = LEFT
    for shade, text in KEY:
        axes.add_patch(Rectangle((x, y - 0.09), 0.3, 0.18, facecolor=shade))
        write(axes, x + 0.4, y, text, LABEL, ha="left")
        x += 0.8 + inches(text, LABEL)


def _draw_rows(axes, rows, top, has_others):
    start = LEFT + max(1.2, *(inches(name, FONT) for name, *_ in rows)) + 0.12
    numbers = inches(">99 % → >99 %", LABEL) + 0.15
    full = WIDTH - LEFT - start - numbers
    for number, (name, before, after) in enumerate(rows):
        y = top - ROW * (number + 0.5)
        last = has_others and number == len(rows) - 1
        gone = after == 0
        write(axes, start - 0.1, y, name, FONT, ha="right", color=GREY if gone or last else "black")
        axes.add_patch(Rectangle((start, y + 0.01), full * before, 0.15, facecolor=MODEL))
        axes.add_patch(Rectangle((start, y - 0.17), full * after, 0.17, facecolor=DRAWN))
        said = f"{percent(before)} → {'cut' if gone else percent(after)}"
        write(axes, WIDTH - LEFT, y, said, LABEL, ha="right", color=GREY if gone else "black")
    axes.plot([start] * 2, [top, top - ROW * len(rows)], color=GREY, linewidth=1.2)


def note(now):
    """How many tokens remain after the cuts, in words."""
    stay = now["after"] > 0
    count, share = int(stay.sum()), float(now["before"][stay].sum())
    if now["ended"]:
        opening = "The text has ended. "
    elif now["drawn_with"] is not None:
        opening = f"Last: {_label(now['written'][-1])}, drawn with {percent(now['drawn_with'])}. "
    else:
        opening = ""
    total = len(now["tokens"])
    if count == total:
        return f"{opening}All {total:,} tokens may come next."
    remain = "remains" if count == 1 else "remain"
    return f"{opening}{count:,} of {total:,} tokens {remain}, with {percent(share)} of the probability."


def next_word_words(now, dials, text, opening=""):
    """The text form: what is written, the next token before and after the sampling parameters."""
    order = np.argsort(-now["before"], kind="stable")[:5]
    likely = ", ".join(
        f"{visible(now['tokens'][position])} {percent(now['before'][position])} "
        f"({'cut' if now['after'][position] == 0 else 'drawn with ' + percent(now['after'][position])})"
        for position in order
    )
    top_k = "all" if dials["top_k"] is None else dials["top_k"]
    count = len(now["written"])
    parts = [
        ended(opening),
        f"“{text}”, of which the model generated {count} token{'' if count == 1 else 's'}.",
        f"Temperature {dials['temperature']:.1f}, top-k {top_k}, top-p {dials['top_p']:.2f}, seed {dials['seed']}.",
        "" if now["ended"] else f"Most probable next: {likely}.",
        note(now),
    ]
    return " ".join(part for part in parts if part)
