"""Attention between two rows of tokens, with hover and keyboard, for any number of layers and heads."""

import anywidget
import matplotlib as mpl
import numpy as np
import traitlets

from utils.plots.display import picture_bundle
from utils.plots.figures import attention_lines, checked_weights, heat_map, row_inches
from utils.plots.style import WEIGHTS_MAP, as_array, figure_png
from utils.plots.text import shortened
from utils.widgets.forms import ThreeForms, page_state
from utils.widgets.stage import STATIC, script

MEAN = -1  # the value of `head` that stands for the mean of all heads
LINES_UP_TO = 14  # tokens in a row: beyond that the static form is a heat map
WIDEST_ROW = 9.5  # inches: a wider row would be shrunk by the page until nobody can read it
LONGEST = 24  # letters of a token in the static form; the alt text has all of them


def attention_view(weights, target_tokens, source_tokens=None, *, layer=0, head=0, focus=None, title="", names=None):
    """A live picture of attention weights: point at a token, or reach it by Tab and arrow keys, to see its numbers.

    weights (targets, sources), (heads, targets, sources) or (layers, heads, targets, sources), the weights that
    the model really used. source_tokens=None means self-attention. `layer` counts from 0, `head` too, or "mean".
    focus: the index of the target token that is chosen at first. names: what to call the rows, (target, source).
    """
    return AttentionView(weights, target_tokens, source_tokens, layer, head, focus, title, names)


class AttentionView(ThreeForms, anywidget.AnyWidget):
    """Returned by `attention_view`. `layer`, `head` (-1 is the mean) and `focus` (row, index) reflect what the reader chose."""

    _esm = script("attention.js")
    _css = STATIC / "attention.css"
    _weights = traitlets.Bytes(b"").tag(sync=True)  # float32, layer by layer
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    target_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    source_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    _colors = traitlets.List(traitlets.Unicode()).tag(sync=True)  # the map of weights, dark to bright
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    focus = traitlets.List().tag(sync=True)  # [] or ["target" or "source", index]

    def __init__(self, weights, target_tokens, source_tokens=None, layer=0, head=0, focus=None, title="", names=None):
        target_tokens = [str(token) for token in target_tokens]
        source_tokens = target_tokens if source_tokens is None else [str(token) for token in source_tokens]
        self.weights = four_axes(weights, len(target_tokens), len(source_tokens))
        names = list(names or ("queries", "keys"))
        if len(names) != 2:
            raise ValueError(f"expected two names, for the target and for the source row, got {names}")
        super().__init__(
            _weights=self.weights.astype("<f4").tobytes(),
            shape=list(self.weights.shape),
            target_tokens=target_tokens,
            source_tokens=source_tokens,
            names=names,
            title=title,
            _colors=color_steps(),
            layer=layer,
            head=MEAN if head in ("mean", None) else head,
            focus=[] if focus is None else ["target", focus],
        )
        self.add_class("course-widget")
        self.add_class("course-attention")

    @traitlets.validate("layer")
    def _valid_layer(self, proposal):
        if not 0 <= proposal.value < self.weights.shape[0]:
            raise ValueError(f"there are {self.weights.shape[0]} layers, counted from 0, got layer {proposal.value}")
        return proposal.value

    @traitlets.validate("head")
    def _valid_head(self, proposal):
        if not MEAN <= proposal.value < self.weights.shape[1]:
            raise ValueError(
                f'there are {self.weights.shape[1]} heads, counted from 0, or "mean"; got head {proposal.value}'
            )
        return proposal.value

    @traitlets.validate("focus")
    def _valid_focus(self, proposal):
        focus = list(proposal.value)
        if focus:
            sizes = {"target": self.weights.shape[2], "source": self.weights.shape[3]}
            if len(focus) != 2 or focus[0] not in sizes or not 0 <= focus[1] < sizes[focus[0]]:
                raise ValueError(f'focus is [] or ["target" or "source", index] within {sizes}, got {focus}')
        return focus

    def matrix(self):
        """The (targets, sources) weights on view."""
        return chosen(self.weights, self.layer, self.head)

    def page_view(self):
        return page_state(self, "attention")

    def static(self):
        args = (self.weights, self.target_tokens, self.source_tokens, self.layer, self.head)
        alt = attention_words(*args, self.title)
        chosen_target = self.focus[1] if self.focus and self.focus[0] == "target" else None
        figure = attention_figure(*args, self.title, self.names, chosen_target)
        return picture_bundle(figure_png(figure, alt), alt)


def four_axes(weights, targets, sources):
    """Weights as (layers, heads, targets, sources), or an error that says which axis does not fit."""
    weights = as_array(weights, "the attention weights")
    if weights.ndim not in (2, 3, 4):
        raise ValueError(
            "expected attention weights with the axes (targets, sources), (heads, targets, sources) or "
            f"(layers, heads, targets, sources), got {weights.ndim} axes: {weights.shape}"
        )
    if weights.shape[-2:] != (targets, sources):
        hint = "; the two axes are swapped" if weights.shape[-2:] == (sources, targets) else ""
        raise ValueError(
            f"{targets} target tokens attend to {sources} source tokens, so the last two axes of the weights must be "
            f"({targets}, {sources}), got {weights.shape[-2:]}{hint}"
        )
    checked_weights(weights, "attention weights")
    return weights.reshape((1,) * (4 - weights.ndim) + weights.shape)


def color_steps(count=64):
    """The course's map of weights as hex colors, for the page."""
    return [mpl.colors.to_hex(color) for color in mpl.colormaps[WEIGHTS_MAP](np.linspace(0, 1, count))]


def chosen(weights, layer, head):
    """(targets, sources) of one layer and head, or the mean of its heads."""
    return weights[layer].mean(0) if head == MEAN else weights[layer, head]


def which(weights, layer, head):
    """Layer and head in words, nothing where there is only one."""
    layers, heads = weights.shape[:2]
    words = [f"layer {layer + 1} of {layers}"] if layers > 1 else []
    if heads > 1:
        words.append(f"mean of {heads} heads" if head == MEAN else f"head {head + 1} of {heads}")
    return ", ".join(words)


def attention_words(weights, target_tokens, source_tokens, layer, head, title=""):
    matrix = chosen(weights, layer, head)
    target, source = np.unravel_index(matrix.argmax(), matrix.shape)
    opening = f"{title}: attention" if title else "Attention"
    where = which(weights, layer, head)
    if target_tokens == source_tokens:
        between = f"among {len(target_tokens)} tokens ({' '.join(target_tokens)})"
    else:
        between = (
            f"from {len(target_tokens)} tokens ({' '.join(target_tokens)}) to {len(source_tokens)} tokens "
            f"({' '.join(source_tokens)})"
        )
    return (
        f"{opening} {between}{', ' + where if where else ''}. The largest weight is {matrix[target, source]:.2f}, "
        f"from {spoken(target_tokens)[target]} to {spoken(source_tokens)[source]}."
    )


def spoken(tokens):
    """Names of the tokens for a sentence; one that occurs twice gets its position, counted from 1."""
    return [f"{token} ({index + 1})" if tokens.count(token) > 1 else token for index, token in enumerate(tokens)]


def attention_figure(
    weights, target_tokens, source_tokens, layer, head, title="", names=("queries", "keys"), focus=None
):
    """The static form: lines between the rows, or a heat map where lines would be too many or the rows too long."""
    matrix = chosen(weights, layer, head)
    full_title = ", ".join(part for part in (title, which(weights, layer, head)) if part)
    targets, sources = ([shortened(token, LONGEST) for token in tokens] for tokens in (target_tokens, source_tokens))
    if max(matrix.shape) > LINES_UP_TO or max(row_inches(targets), row_inches(sources)) > WIDEST_ROW:
        return heat_map(matrix, targets, sources, full_title, names[0], names[1])
    return attention_lines(sources, targets, matrix, full_title, names[0], names[1], focus)
