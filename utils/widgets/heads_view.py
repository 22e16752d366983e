"""Attention weights of every layer and head as a grid of small maps: follow one token, enlarge any map."""

import anywidget
import numpy as np
import traitlets
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle

from utils.plots.display import picture_bundle
from utils.plots.figures import TITLE, title_lines, weight_text, write_title
from utils.plots.style import COLORS, GREY, SMALL, WEIGHTS_MAP, canvas, figure_png
from utils.plots.text import inches, shortened
from utils.widgets.attention_view import color_steps, four_axes, spoken
from utils.widgets.forms import ThreeForms, page_state
from utils.widgets.stage import STATIC, script

MAX_LETTERS = 16  # letters of a token in the view; the text form has all of them
EVENLY, NOWHERE = -1, -2  # instead of a position: no weight stands out, and all weights are 0
EVEN = 1.5  # a largest weight below so many times the mean of the row's weights does not stand out
NAMED = 4  # tokens named in the sentence about what the heads attend to; the rest is counted together
NAMES = ("query", "key")


def heads_view(weights, tokens, source_tokens=None, *, title="", focus=None, names=None):
    """A small map of the weights of every head, layers as rows: point at a token to see what it attends to in all heads.

    weights (layers, heads, targets, sources), also without layers, the weights that the model really used.
    tokens: the queries, one for each row of a map. source_tokens: the keys of cross-attention; None: self-attention.
    focus: the index of the token that is followed at first. names: what to call rows and columns, (target, source).
    A click, or Enter, on a map enlarges it. `focus` and `chosen` of the result follow the reader.
    """
    return HeadsView(weights, tokens, source_tokens, title, focus, names)


class HeadsView(ThreeForms, anywidget.AnyWidget):
    """What `heads_view` returns. `focus` is the followed token or -1, `chosen` is [] or [layer, head], enlarged."""

    _esm = script("heads.js")
    _css = STATIC / "heads.css"
    _weights = traitlets.Bytes(b"").tag(sync=True)  # float32, layer by layer
    _peaks = traitlets.List(traitlets.Int()).tag(sync=True)  # (layers, heads, targets), flat; see `peaks_of`
    _colors = traitlets.List(traitlets.Unicode()).tag(sync=True)  # the map of weights, dark to bright
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    labels = traitlets.List().tag(sync=True)  # two rows of tokens as they stand in the view
    said = traitlets.List().tag(sync=True)  # the same as they stand in a sentence
    sentences = traitlets.List(traitlets.Unicode()).tag(sync=True)  # what the heads attend to, one for each target
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    focus = traitlets.Int(-1).tag(sync=True)
    chosen = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, weights, tokens, source_tokens=None, title="", focus=None, names=None):
        self.tokens, self.source_tokens = list(tokens), source_tokens
        both = (self.tokens, self.tokens if source_tokens is None else source_tokens)
        self.weights = four_axes(weights, *map(len, both))
        super().__init__(
            _weights=self.weights.astype("<f4").tobytes(),
            _peaks=peaks_of(self.weights).reshape(-1).tolist(),
            _colors=color_steps(),
            shape=list(self.weights.shape),
            labels=[[shortened(visible(token), MAX_LETTERS) for token in row] for row in both],
            said=[spoken([visible(token) for token in row]) for row in both],
            sentences=[self.sentence(index) for index in range(len(self.tokens))],
            names=list(names or NAMES),
            title=title,
            focus=-1 if focus is None else focus,
        )
        self.add_class("course-widget")
        self.add_class("course-heads")

    def sentence(self, focus):
        return attended_most(self.weights, self.tokens, self.source_tokens, focus)

    def alt_text(self):
        return heads_words(self.weights, self.tokens, self.source_tokens, self.focus, self.chosen, self.title)

    def page_view(self):
        return page_state(self, "heads")

    def static(self):
        alt = self.alt_text()
        focus = None if self.focus < 0 else self.focus
        options = {"focus": focus, "chosen": self.chosen or None, "title": self.title, "names": self.names}
        figure = heads_picture(self.weights, self.tokens, self.source_tokens, **options)
        return picture_bundle(figure_png(figure, alt), alt)


# What heads attend to


def peaks_of(weights):
    """(..., targets) positions of the largest weights; EVENLY where none stands out, NOWHERE where all are 0."""
    largest, total, seen = weights.max(-1), weights.sum(-1), (weights > 0).sum(-1)
    even = (seen > 1) & (largest <= EVEN * total / np.maximum(seen, 1))
    return np.where(largest <= 0, NOWHERE, np.where(even, EVENLY, weights.argmax(-1)))


def attended_most(weights, tokens, source_tokens, focus):
    """What one token attends to most, in a sentence that counts the heads."""
    peaks = peaks_of(weights)[:, :, focus].reshape(-1)
    sources = tokens if source_tokens is None else source_tokens
    names = {position: f"to “{name}”" for position, name in enumerate(spoken([visible(token) for token in sources]))}
    names |= {EVENLY: "evenly to all", NOWHERE: "to nothing"}
    if source_tokens is None:
        names[focus] = "to itself"
    positions, counts = np.unique(peaks, return_counts=True)
    ranked = sorted(zip(counts.tolist(), positions.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))
    named = ranked if len(ranked) == NAMED + 1 else ranked[:NAMED]  # nobody is summed up alone
    parts = [f"{names[position]} in {count}" for count, position in named]
    parts[0] += f" of {len(peaks)} head{'s' if len(peaks) > 1 else ''}"
    rest = sum(count for count, _ in ranked[len(named) :])
    if rest:
        parts.append(f"elsewhere in {rest}")
    return f"“{spoken([visible(token) for token in tokens])[focus]}” attends most {', '.join(parts)}."


def heads_words(weights, tokens, source_tokens=None, focus=-1, chosen=(), title=""):
    """The text form: what is shown, which head is the sharpest and which the most even, and the followed token."""
    layers, heads = weights.shape[:2]
    words = " ".join(map(visible, tokens))
    between = f"among {len(tokens)} tokens ({words})"
    if source_tokens is not None:
        between = (
            f"from {len(tokens)} tokens ({words}) to {len(source_tokens)} ({' '.join(map(visible, source_tokens))})"
        )
    count = f"{layers} layer{'s' if layers > 1 else ''} of {heads} head{'s' if heads > 1 else ''}"
    parts = [f"{title.rstrip('.')}: attention {between}" if title else f"Attention {between}"]
    parts[0] += f", {count}."
    sharpness = weights.max(-1).mean(-1)
    if sharpness.size > 1:
        high, low = (np.unravel_index(pick(sharpness), sharpness.shape) for pick in (np.argmax, np.argmin))
        parts.append(
            f"On average the largest weight of a row is {sharpness[high]:.2f} in {which_head(weights, *high)}, the "
            f"sharpest, and {sharpness[low]:.2f} in {which_head(weights, *low)}, the most even."
        )
    if focus is not None and focus >= 0:
        parts.append(attended_most(weights, tokens, source_tokens, focus))
    if chosen:
        parts.append(f"Enlarged: {which_head(weights, *chosen)}.")
    return " ".join(parts)


def which_head(weights, layer, head):
    return f"layer {layer + 1}, head {head + 1}" if weights.shape[0] > 1 else f"head {head + 1}"


# The static picture, in inches

WIDEST, TALLEST = 12.0, 8.6
STRIP = 0.16  # below a map whose rows are too thin: the followed row alone
CAPTIONS_UP_TO = 8  # layers: more of them leave no room for words between the maps
SIZES = (
    14,
    13,
    12,
    11,
)  # points of the words beside the maps, the largest that has room; smaller ones cannot be projected
CAPTION = SIZES[-1]


def heads_picture(weights, tokens, source_tokens=None, *, focus=None, chosen=None, title="", names=NAMES):
    """A map for every head, a row of them for each layer; under each, what the token in focus attends to most.

    weights (layers, heads, targets, sources). Colors follow the square root of the weight: among many tokens 0.1 is much.
    """
    sources = tokens if source_tokens is None else source_tokens
    labels = [[shortened(visible(token), MAX_LETTERS) for token in row] for row in (tokens, sources)]
    plan = picture_plan(weights, labels, focus, title, names)
    # All maps on one sheet: an axes for each would take seconds where a slider has a quarter of one.
    figure, axes = canvas(*plan["size"], margins=(0, 0, 0, 0))
    peaks = peaks_of(weights)
    shown = captions_of(weights, peaks, labels[1], focus, plan) if plan["captions"] else None
    for layer, head in np.ndindex(weights.shape[:2]):
        left, top = plan["corner"](layer, head)
        wide, high = plan["panel"]
        image = _map(axes, weights[layer, head], left, top, wide, high)
        if chosen is not None and tuple(chosen) == (layer, head):
            _frame(axes, left, top, wide, high, [(COLORS["output"], 3.5)])
        if focus is None:
            continue
        row, tall = top + focus * high / len(tokens), high / len(tokens)
        if plan["strip"]:
            _map(axes, weights[layer, head, focus][None], left, top + high + 0.05, wide, STRIP - 0.05)
            _point_at(axes, left, left + wide, row + tall / 2)
        else:
            # In white and black: one of the two is seen on every color.
            _frame(axes, left, row, wide, tall, [("black", 3.2), ("white", 1.6)])
        if shown:
            under = top + high + 0.05 + STRIP * plan["strip"]
            _text(axes, left + wide / 2, under, shown[layer, head], plan["letters"], va="top")
    _headings(axes, plan, labels, weights, focus)
    _key(figure, plan, image)
    axes.set(xlim=(0, plan["size"][0]), ylim=(plan["size"][1], 0), aspect="auto")
    axes.axis("off")
    write_title(figure, title)
    return figure


def picture_plan(weights, labels, focus, title, names):
    """Sizes of the picture: maps as large as the slide allows, token names where every name has room."""
    layers, heads, rows, columns = weights.shape
    layer_room = inches(f"layer {layers}", SMALL + 1) + 0.2 if layers > 1 else 0.1
    right, gap = 0.95, 0.09
    captions = focus is not None and layers <= CAPTIONS_UP_TO
    shape = min(max(rows / columns, 0.55), 1.5)
    for words in (*SIZES, None):  # None: no room for names
        size = words or CAPTION
        line = 0.05 + 1.5 * size / 72
        below = (line * captions, line * captions + STRIP) if focus is not None else (0, 0)  # thick rows, thin rows
        left = layer_room + (max(inches(label, size) for label in labels[0]) + 0.12 if words else 0.3)
        width = min(2.1, max(0.45, (WIDEST - left - right) / heads - gap))
        height = width * shape
        down = 0.35 + (max(inches(label, size) for label in labels[1]) + 0.1 if words else 0.12)
        room = TALLEST - down - 0.5 - 0.3 * title_lines(title, WIDEST)
        height = max(0.3, min(height, room / layers - below[1] - gap))
        thin = focus is not None and (height / rows < 0.1 or not captions)
        under = below[thin]
        if words is None or min(height / rows, width / columns) >= 1.12 * words / 72:
            break
    needed = left + heads * (width + gap) + right
    foot = foot_words(names, None if focus is None else labels[0][focus], captions)
    total = max(needed, min(WIDEST, inches(title, TITLE, "bold") + 0.4) if title else 0, inches(foot, SMALL) + 0.3)
    top = 0.2 + 0.3 * title_lines(title, total) + 0.3
    sheet = (total, top + layers * (height + under + gap) + down)
    return {
        "size": sheet,
        "panel": (width, height),
        "left": left,
        "top": top,
        "down": down,
        "names": words is not None,
        "letters": size,
        "strip": thin,
        "captions": captions,
        "foot": foot,
        "step": (width + gap, height + under + gap),
        "key": left + heads * (width + gap) + 0.12,
        "corner": lambda layer, head: (left + head * (width + gap), top + layer * (height + under + gap)),
    }


def foot_words(names, followed, captions):
    """What rows, columns and the words below the maps are."""
    words = f"rows: {names[0]}, columns: {names[1]}"
    if followed is None:
        return words
    return f"{words}; below each map: " + (
        f"what “{followed}” attends to most" if captions else f"the row of “{followed}”"
    )


def captions_of(weights, peaks, labels, focus, plan):
    """{(layer, head): what the token in focus attends to most}; with the weight behind every one of them, or behind none."""
    room, size = plan["panel"][0], plan["letters"]
    rows = {head: (weights[head][focus], peaks[head][focus]) for head in np.ndindex(weights.shape[:2])}
    whole = {head: caption(*row, labels, np.inf, size) for head, row in rows.items()}
    if all(inches(text, size) <= room + 0.04 for text in whole.values()):
        return whole
    return {head: caption(*row, labels, room, size, weight=False) for head, row in rows.items()}


def caption(row, peak, labels, room, size=CAPTION, weight=True):
    """The token with the largest weight of a row, shortened to fit, and the weight behind it if wanted and if it fits."""
    if peak < 0:
        return "nothing" if peak == NOWHERE else "evenly"
    for text in (*([f"{labels[peak]} {weight_text(row[peak])}"] if weight else []), labels[peak]):
        if inches(text, size) <= room + 0.04:
            return text
    return next(
        (
            short
            for short in (shortened(labels[peak], most) for most in range(12, 2, -1))
            if inches(short, size) <= room
        ),
        labels[peak][:2],
    )


def _map(axes, weights, left, top, wide, high):
    extent = (left, left + wide, top + high, top)
    options = {"cmap": WEIGHTS_MAP, "norm": PowerNorm(0.5, 0, 1), "aspect": "auto", "interpolation": "nearest"}
    return axes.imshow(weights, extent=extent, **options)


def _frame(axes, left, top, wide, high, rims):
    for shade, line in rims:
        axes.add_patch(Rectangle((left, top), wide, high, fill=False, edgecolor=shade, linewidth=line, zorder=3))


def _point_at(axes, left, right, y):
    """Two arrowheads beside a row that is too thin for a frame."""
    for marker, x in ((">", left - 0.02), ("<", right + 0.02)):
        axes.plot([x], [y], marker, color=COLORS["output"], markersize=5, zorder=4)


def _text(axes, x, y, text, size=SMALL, ha="center", va="center", **look):
    return axes.text(x, y, text, fontsize=size, ha=ha, va=va, parse_math=False, **look)


def _headings(axes, plan, labels, weights, focus):
    (layers, heads), (across, down), (wide, high) = weights.shape[:2], plan["step"], plan["panel"]
    for head in range(heads):
        text = f"head {head + 1}" if wide > 0.62 else str(head + 1)
        _text(axes, plan["left"] + head * across + wide / 2, plan["top"] - 0.15, text, SMALL + 1)
    bottom = plan["top"] + layers * down
    for layer in range(layers):
        middle = plan["top"] + layer * down
        if layers > 1:
            _text(axes, 0.1, middle + high / 2, f"layer {layer + 1}", SMALL + 1, ha="left")
        if plan["names"]:
            for position, label in enumerate(labels[0]):
                y = middle + (position + 0.5) * high / len(labels[0])
                weight = "bold" if position == focus else "normal"
                _text(axes, plan["left"] - 0.07, y, label, plan["letters"], "right", fontweight=weight)
    if plan["names"]:
        for head in range(heads):
            for position, label in enumerate(labels[1]):
                x = plan["left"] + head * across + (position + 0.5) * wide / len(labels[1])
                _text(axes, x, bottom, label, plan["letters"], va="top", rotation=90)
    _text(axes, 0.1, plan["size"][1] - 0.17, plan["foot"], SMALL, "left", color=GREY)


def _key(figure, plan, image):
    width, height = plan["size"]
    tall = min(2.2, plan["step"][1] * 4, height - plan["top"] - plan["down"])
    place = (plan["key"] / width, 1 - (plan["top"] + tall) / height, 0.16 / width, tall / height)
    ticks = [0, 0.1, 0.5, 1] if tall > 0.9 else [0, 1]
    bar = figure.colorbar(image, cax=figure.add_axes(place), ticks=ticks)
    bar.ax.set_yticklabels([f"{tick:g}" for tick in ticks], fontsize=SMALL)
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    figure.text(
        plan["key"] / width, 1 - (plan["top"] - 0.15) / height, "weight", fontsize=SMALL, ha="left", va="center"
    )


def visible(token):
    """A token with its leading and trailing spaces and line breaks made visible."""
    inner = token.strip(" ")
    if not inner:
        return "␣" * len(token) or "(empty)"
    before, after = token.index(inner), len(token) - len(inner) - token.index(inner)
    return "␣" * before + inner.replace("\n", "↵") + "␣" * after
