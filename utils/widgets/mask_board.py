"""A mask that the reader draws by clicking, the same mask as a graph, and which outputs it changes."""

import textwrap

import anywidget
import numpy as np
import traitlets
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path as Curve

from utils.plots.display import picture_bundle
from utils.plots.figures import checked_weights, text_inches, title_lines, weight_text, write_title
from utils.plots.style import COLORS, DARK_RED, FONT, GREY, SMALL, as_array, canvas, figure_png
from utils.plots.text import shortened
from utils.widgets.attention_view import spoken
from utils.widgets.forms import ThreeForms
from utils.widgets.stage import STATIC, script, sentence_of

SAME = 1e-6  # an output that moved by no more than this is "same": rounding moves as much
LONGEST = 12  # letters of a token in the picture; the text form has all of them
COMPARED = "compared with full attention"
NUMBERS_UP_TO = 8  # tokens: beyond that the cells of the static picture have room for the tick alone


def mask_board(tokens, respond, *, start="everything", title="", compared=COMPARED):
    """A mask drawn by clicking, dragging or keys; beside it the mask as a graph and the outputs that it changes.

    tokens: 1 to 12 words. Row i of the mask holds what token i may attend to (True = may attend).
    respond(mask) is a pure function of a bool tensor (n, n) and returns a dict with "changed", one number from 0 (how
    much each token's output moved) or one bool for each token, and "weights" (n, n), the attention weights used.
    start: the name of one of the presets, which are shown as buttons (see `default_presets`).
    compared: with what `changed` compares, as it ends "the output, ...".
    """
    return MaskBoard(tokens, respond, start, title, compared)


class MaskBoard(ThreeForms, anywidget.AnyWidget):
    """What `mask_board` returns. `mask` follows the reader, `answer` is what `respond` gave for it."""

    _esm = script("mask.js")
    _css = STATIC / "mask.css"
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)  # tokens as they stand in the picture
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)  # tokens as they stand in a sentence
    title = traitlets.Unicode("").tag(sync=True)
    compared = traitlets.Unicode("").tag(sync=True)
    presets = traitlets.List().tag(sync=True)  # dicts: name, mask
    mask = traitlets.List().tag(sync=True)  # rows of bools
    answer = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(self, tokens, respond, start, title, compared):
        self.tokens = list(tokens)
        self._respond = respond
        known = {name: mask_of(len(tokens)).tolist() for name, mask_of in default_presets(len(tokens)).items()}
        mask = known[start]
        super().__init__(
            labels=[label_of(token) for token in self.tokens],
            names=spoken([visible(token) for token in self.tokens]),
            title=title,
            compared=compared,
            presets=[{"name": name, "mask": one} for name, one in known.items()],
            mask=mask,
            answer={**self._answer(mask, compared), "count": 1},
        )
        self.add_class("course-widget")
        self.add_class("course-mask")
        self.observe(self._follow, names=["mask"])

    def alt_text(self):
        now = self.answer
        name = next((preset["name"] for preset in self.presets if preset["mask"] == now["mask"]), "")
        return mask_words(self.tokens, now["mask"], now["changed"], self.compared, name, self.title)

    def static(self):
        now, alt = self.answer, self.alt_text()
        changed = now["changed"] if now["measured"] else [change > 0 for change in now["changed"]]
        figure = mask_picture(self.tokens, now["mask"], now["weights"], changed, self.title, self.compared)
        return picture_bundle(figure_png(figure, alt), alt)

    def _answer(self, mask, compared):
        answer = answer_of(self._respond, mask)
        return {**answer, "text": changes(self.tokens, mask, answer["changed"], compared)}

    def _follow(self, _):
        count = self.answer["count"] + 1
        try:
            answer = self._answer(self.mask, self.compared)
        except Exception as error:
            with self.hold_sync():
                self.error = sentence_of(error)
                self.answer = {**self.answer, "count": count}
            raise
        with self.hold_sync():
            self.error = ""
            self.answer = {**answer, "count": count}


# Masks


def everything(n):
    return np.ones((n, n), dtype=bool)


def causal(n):
    return np.tril(everything(n))


def only_itself(n):
    return np.eye(n, dtype=bool)


def window(n, width=3):
    """Itself and its neighbors on both sides, `width` tokens together."""
    positions = np.arange(n)
    return np.abs(positions[:, None] - positions) <= width // 2


def padding(n, count=2):
    """No token may attend to the last `count` tokens; as queries these still attend."""
    mask = everything(n)
    mask[:, max(0, n - count) :] = False
    return mask


def nothing(n):
    return ~everything(n)


def default_presets(n):
    """{name: function of n}; in a short sentence those that would look like an earlier one are left out."""
    known = {
        "everything": everything,
        "causal": causal,
        "only itself": only_itself,
        "window of 3": window,
        "last two are padding": padding,
        "nothing": nothing,
    }
    seen = []
    return {
        name: mask_of
        for name, mask_of in known.items()
        if not any((mask_of(n) == other).all() for other in seen) and seen.append(mask_of(n)) is None
    }


# What the function answers


def tensor_of(mask):
    """Rows of bools as a bool tensor."""
    import torch  # here and not above: the rest of the drawing code needs no torch, and it takes seconds to load

    return torch.tensor(mask, dtype=torch.bool)


def answer_of(respond, mask):
    """What `respond` gives for the mask, checked: {"mask", "changed", "weights", "measured"} as lists.

    "measured" is False where `changed` came as bools: then the numbers 0 and 1 stand for same and changed.
    """
    n = len(mask)
    answer = respond(tensor_of(mask))  # a new tensor each time: whatever respond does to it stays there
    if not isinstance(answer, dict) or set(answer) != {"changed", "weights"}:
        got = sorted(map(str, answer)) if isinstance(answer, dict) else type(answer).__name__
        raise TypeError(f'respond must return a dict with "changed" and "weights", got {got}')
    changed, measured = checked_changed(answer["changed"], n)
    weights = mask_weights(answer["weights"], mask)
    return {"mask": mask, "changed": changed.tolist(), "weights": weights.tolist(), "measured": measured}


def checked_changed(changed, n):
    """(n numbers from 0, whether they were measured or given as bools)."""
    measured = str(getattr(changed, "dtype", np.asarray(changed).dtype)) not in ("bool", "torch.bool")
    numbers = as_array(changed, '"changed"')
    if numbers.shape != (n,):
        raise ValueError(f'"changed" must have one number for each of {n} tokens, ({n},), got {numbers.shape}')
    if numbers.min() < 0:
        raise ValueError(f'"changed" must be at least 0, but the smallest is {numbers.min():.3g}: take the norm')
    return np.where(numbers <= SAME, 0.0, numbers), measured


def mask_weights(weights, mask):
    """Weights (n, n) that keep to the mask, or an error."""
    n = len(mask)
    weights = as_array(weights, '"weights"')
    if weights.shape != (n, n):
        hint = "; take one sentence of the batch, `weights[0]`" if weights.shape[-2:] == (n, n) else ""
        raise ValueError(f'"weights" must have the shape ({n}, {n}), got {weights.shape}{hint}')
    checked_weights(weights, '"weights"')
    leaks = np.argwhere((weights > SAME) & ~np.array(mask))
    if len(leaks):
        i, j = leaks[0].tolist()
        raise ValueError(
            f"token {i} may not attend to token {j} but has the weight {weights[i, j]:.3g} there: "
            "does respond pass the mask on?"
        )
    return np.where(np.array(mask), weights, 0.0)


# Words


def visible(token):
    """A token with its leading and trailing spaces and line breaks made visible."""
    inner = token.strip(" ")
    if not inner:
        return "␣" * len(token) or "(empty)"
    before, after = token.index(inner), len(token) - len(inner) - token.index(inner)
    return "␣" * before + inner.replace("\n", "↵") + "␣" * after


def label_of(token):
    return shortened(visible(token), LONGEST)


def output_text(changed, measured):
    """The words beside a row; a mark that needs no color comes first."""
    if changed <= SAME:
        return "= same"
    return f"◆ changed {'<0.01' if changed < 0.005 else f'{changed:.2f}'}" if measured else "◆ changed"


def listed(tokens, chosen):
    """The names of the chosen tokens; one without letters is quoted, or it would read as punctuation."""
    names = (
        name if any(map(str.isalnum, token)) else f"“{name}”"
        for name, token in zip(spoken(tokens), tokens, strict=True)
    )
    return ", ".join(name for name, is_in in zip(names, chosen, strict=True) if is_in)


def changes(tokens, mask, changed, compared=COMPARED):
    """How many pairs are allowed, which outputs change, and which rows are fully masked, in sentences."""
    tokens = [visible(token) for token in tokens]
    n, moved = len(tokens), [amount > SAME for amount in changed]
    allowed = sum(map(sum, mask))
    before = compared[:1].upper() + compared[1:]
    if not any(moved):
        result = "no output changes" if n > 1 else "the output does not change"
    elif all(moved):
        result = "every output changes"
    else:
        result = f"{sum(moved)} of {n} outputs change: {listed(tokens, moved)}"
    said = f"{allowed} of {n * n} query-key pairs are allowed. {before}, {result}."
    nowhere = [not any(row) for row in mask]
    if all(nowhere):
        return f"{said} Every row is fully masked: all weights are 0."
    return said + (f" Fully masked, all weights 0: {listed(tokens, nowhere)}." if any(nowhere) else "")


def mask_words(tokens, mask, changed, compared=COMPARED, name="", opening=""):
    """The text form: what the mask is, row by row unless it has a name, and what it changes."""
    shown = [visible(token) for token in tokens]
    start = f"A mask over {len(tokens)} token{'s' if len(tokens) > 1 else ''} ({' '.join(shown)})"
    if name:
        start += f": {name}."
    else:
        rows = (
            f"{query} attends to {listed(shown, row) or 'nothing'}"
            for query, row in zip(spoken(shown), mask, strict=True)
        )
        start += f": {'; '.join(rows)}."
    return f"{ended(opening)} {start} {changes(tokens, mask, changed, compared)}".strip()


def ended(title):
    """A title as a sentence."""
    title = title.strip()
    return title + "." if title and title[-1] not in ".!?" else title


# The static picture, in inches from its upper left corner


def mask_picture(tokens, mask, weights, changed, title="", compared=COMPARED):
    """The board as a figure: the mask with its weights, what became of each output, and the mask as a graph.

    mask (n, n) bool, weights (n, n), changed (n,) numbers from 0 or bools.
    """
    changed, measured = checked_changed(changed, len(tokens))
    weights = np.array(weights)
    labels = [label_of(token) for token in tokens]
    plan = picture_plan(labels, title, compared)
    figure, axes = canvas(*plan["size"], margins=(0, 0, 0, 0))
    axes.set(xlim=(0, plan["size"][0]), ylim=(plan["size"][1], 0))
    axes.axis("off")
    _draw_names(axes, labels, plan)
    _draw_cells(axes, mask, weights, plan)
    _draw_outputs(axes, mask, changed, measured, plan)
    _draw_graph(axes, labels, mask, weights, changed, plan)
    write_title(figure, title)
    return figure


def picture_plan(labels, title="", compared=COMPARED):
    """Where the parts of the picture stand."""
    n = len(labels)
    cell = 0.56 if n <= NUMBERS_UP_TO else 0.42
    widest = max(text_inches(label, SMALL + 1) for label in labels)
    turned = widest > cell - 0.04
    heading = textwrap.wrap(compared, 19)
    left = max(1.25, widest + 0.3)
    right = left + n * cell
    outputs = right + 0.18
    pill = max(0.6, widest + 0.2)
    depth = min(1.1, max(0.65, 0.35 + 0.11 * n))  # the words above need as much
    graph = outputs + 1.75 + 0.15 + depth
    width = graph + pill + depth + 0.1
    top = 0.15 + 0.32 * title_lines(title, width) + max(0.35 + (widest if turned else 0.25), 0.3 + 0.21 * len(heading))
    height = top + n * cell + 0.15
    return {
        "size": (width, height),
        "cell": cell,
        "left": left,
        "top": top,
        "right": right,
        "outputs": outputs,
        "graph": graph,
        "pill": pill,
        "depth": depth,
        "turned": turned,
        "heading": heading,
        "rows": top + (np.arange(n) + 0.5) * cell,
        "columns": left + (np.arange(n) + 0.5) * cell,
    }


def _write(axes, x, y, text, **options):
    # A dollar sign in a token is a dollar sign, not a formula.
    return axes.text(x, y, text, **{"fontsize": SMALL + 1, "va": "center", "parse_math": False, **options})


def _draw_names(axes, labels, plan):
    turn = {"rotation": 90} if plan["turned"] else {}
    for label, y in zip(labels, plan["rows"], strict=True):
        _write(axes, plan["left"] - 0.1, y, label, ha="right")
    for label, x in zip(labels, plan["columns"], strict=True):
        _write(axes, x, plan["top"] - 0.07, label, ha="center", va="bottom", **turn)
    quiet = {"color": GREY, "va": "bottom"}
    _write(axes, plan["left"] - 0.1, plan["top"] - 0.05, "query ↓", ha="right", **quiet)
    _write(axes, plan["left"] - 0.1, plan["top"] - 0.29, "key →", ha="right", **quiet)
    above = len(plan["heading"]) * 0.21
    _write(axes, plan["outputs"], plan["top"] - 0.05 - above, "output,", va="bottom", fontweight="bold")
    for place, line in enumerate(plan["heading"]):
        _write(
            axes, plan["outputs"], plan["top"] - 0.05 - above + 0.21 * (place + 1), line, va="bottom", fontsize=SMALL
        )
    middle = plan["graph"] + plan["pill"] / 2
    apart = plan["pill"] / 2 + 0.02
    _write(axes, middle - apart, plan["top"] - 0.07, "attends\nback", ha="right", **quiet)
    _write(axes, middle + apart, plan["top"] - 0.07, "attends\nahead", ha="left", **quiet)


def _draw_cells(axes, mask, weights, plan):
    numbers = len(mask) <= NUMBERS_UP_TO
    side = plan["cell"] - 0.04
    for i, y in enumerate(plan["rows"]):
        for j, x in enumerate(plan["columns"]):
            allowed = mask[i][j]
            face = COLORS["query"] if allowed else "white"
            box = Rectangle(
                (x - side / 2, y - side / 2), side, side, facecolor=face, edgecolor="#9A9A9A", linewidth=0.8
            )
            axes.add_patch(box)
            if allowed:
                _write(axes, x, y - (0.12 if numbers else 0), "✓", ha="center", color="white", fontsize=FONT)
                if numbers:
                    _write(axes, x, y + 0.13, weight_text(weights[i, j]), ha="center", color="white", fontsize=SMALL)
        if not any(mask[i]):
            corner, span = (plan["left"] + 0.02, y - side / 2), plan["right"] - plan["left"] - 0.04
            axes.add_patch(Rectangle(corner, span, side, fill=False, hatch="//", edgecolor=GREY, linewidth=1.2))


def _draw_outputs(axes, mask, changed, measured, plan):
    for row, amount, y in zip(mask, changed, plan["rows"], strict=True):
        nowhere = not any(row)
        look = {"color": DARK_RED, "fontweight": "bold"} if amount > SAME else {"color": GREY}
        _write(axes, plan["outputs"], y - (0.1 if nowhere else 0), output_text(amount, measured), **look)
        if nowhere:
            _write(axes, plan["outputs"], y + 0.11, "fully masked", fontsize=SMALL)


def _draw_graph(axes, labels, mask, weights, changed, plan):
    n, pill = len(labels), plan["pill"]
    # The arrows leave a token on the side of their goal and reach it on the side of their origin.
    gap = 0.09 if n <= NUMBERS_UP_TO else 0.07
    for i, j in np.argwhere(np.array(mask)):
        back = j <= i
        x = plan["graph"] if back else plan["graph"] + pill
        bulge = (-4 / 3 if back else 4 / 3) * bow(i, j, n, plan["depth"])
        turn = -gap if back else gap
        start, end = (x, plan["rows"][i] + turn), (x, plan["rows"][j] - turn)
        points = [start, (x + bulge, start[1]), (x + bulge, end[1]), end]
        curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
        strength = weights[i, j] / max(weights[i].max(), SAME)
        look = {"color": COLORS["query"], "linewidth": 0.8 + 3 * weights[i, j], "alpha": 0.35 + 0.6 * strength}
        axes.add_patch(FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=9, **look))
    height = min(0.3, plan["cell"] - 0.1)
    for label, row, amount, y in zip(labels, mask, changed, plan["rows"], strict=True):
        look = {"edgecolor": COLORS["output"], "linewidth": 2.6} if amount > SAME else {"edgecolor": GREY}
        style = "round,pad=0,rounding_size=0.06"
        box = FancyBboxPatch((plan["graph"], y - height / 2), pill, height, boxstyle=style, facecolor="white", **look)
        box.set_linestyle("-" if any(row) else "--")
        axes.add_patch(box)
        _write(axes, plan["graph"] + pill / 2, y, label, ha="center")


def bow(i, j, n, depth):
    """How far the arrow from token i to token j swings out: farther for a longer way."""
    return depth * (0.16 + 0.84 * abs(i - j) / max(n - 1, 1))
