"""The figures of lesson 05: arrays and strings in, a figure out."""

import operator

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from utils.draw.figures import checked_labels, checked_weights, signed, write_title
from utils.draw.lesson03 import times
from utils.draw.lesson04 import order_bars
from utils.draw.parts import (
    LABEL,
    LOOKS,
    PALE_BLUE,
    PALE_GREEN,
    PALE_ORANGE,
    PALE_RED,
    draw_arrow,
    draw_box,
    draw_strong_arrow,
    key_line,
    name_ends,
    percent,
    sheet,
    short,
    ticks_apart,
    top_of,
    write,
)
from utils.draw.removal_board import effect_colours, points
from utils.draw.style import (
    BLUE,
    COLOURS,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PINK,
    RED,
    SKY,
    SMALL,
    WEIGHTS_MAP,
    as_array,
    canvas,
)
from utils.draw.text import inches

__all__ = [
    "divergence",
    "encoder_block",
    "gradient_depth",
    "head_costs",
    "layer_norm_spread",
    "loss_surfaces",
    "norm_axis",
    "one_or_two_heads",
    "order_bars",
    "relation_paths",
    "removal_effects",
    "split_shapes",
    "spread",
    "times",
    "training_curves",
]

WIDEST = 12.0  # inches: what fits a slide
HEAD_SHADES = (BLUE, ORANGE, GREEN, PINK, SKY, RED, GREY, "#8C510A")  # a colour for each head, the same in all panels
STEPS = (1, 2, 5, 10)  # between the numbers on an axis
LEVELS = 15  # of a loss seen from above, the same in all panels


# One softmax, two places


def one_or_two_heads(tokens, values, first, second, title):
    """Left: one head looks half at each of two places and keeps their mean. Right: two heads keep both.

    tokens: 3 to 8 words; values: the number that each of them carries; first, second: the places to look at, in this order.
    """
    tokens = [short(token) for token in tokens]
    values = as_array(values, "the values")
    if not 3 <= len(tokens) <= 8:
        raise ValueError(f"expected 3 to 8 tokens, got {len(tokens)}")
    if values.shape != (len(tokens),):
        raise ValueError(f"expected one value for each of {len(tokens)} tokens, got the shape {values.shape}")
    first, second = operator.index(first), operator.index(second)
    if first == second or not all(0 <= place < len(tokens) for place in (first, second)):
        raise ValueError(f"expected two different places from 0 to {len(tokens) - 1}, got {first} and {second}")
    written = [*tokens, *(f"{value:g}" for value in values)]
    box = max(0.5, max(inches(words, FONT, "bold") for words in written) + 0.18)
    row = len(tokens) * (box + 0.08) - 0.08
    half = max(row + 1.15, 4.9)  # beside the row stands what it is
    width = 2 * half + 0.8
    if width > 12.5:
        raise ValueError(f"{len(tokens)} tokens as long as {max(tokens, key=len)!r} do not fit a slide twice")
    figure, axes = sheet(width, 4.75 + top_of(title, width))
    one, two = (f"{values[place]:g}" for place in (first, second))
    mean = f"{(values[first] + values[second]) / 2:g}"
    for side, name in enumerate(("one head", "two heads")):
        left = 0.2 + side * (half + 0.4)
        middle = left + half / 2
        centres = middle - row / 2 + box / 2 + (box + 0.08) * np.arange(len(tokens))
        write(axes, middle, 4.55, name, FONT + 1, fontweight="bold")
        for place, (x, token) in enumerate(zip(centres, tokens, strict=True)):
            seen = place in (first, second)
            draw_box(axes, x, 0.45, box, 0.42, token, "white", COLOURS["key"], fontweight="bold" if seen else "normal")
            draw_box(axes, x, 1.0, box, 0.42, f"{values[place]:g}", PALE_GREEN if seen else "white", COLOURS["value"])
        for y, word in ((0.45, "token"), (1.0, "value")):
            write(axes, centres[0] - box / 2 - 0.1, y, word, SMALL, ha="right", color=GREY)
        if side == 0:
            _one_head(axes, middle, centres[[first, second]], mean, one, two)
        else:
            _two_heads(axes, middle, centres[[first, second]], one, two)
    axes.plot([width / 2] * 2, [0.25, 4.6], color=PALE, linewidth=1.5)
    write_title(figure, title)
    return figure


def _one_head(axes, middle, places, mean, one, two):
    for x in places:
        axes.plot([x, middle], [1.22, 2.42], color=BLUE, linewidth=4, solid_capstyle="round")
        _weight(axes, (2 * x + middle) / 3, 1.62, "½")
    draw_box(axes, middle, 2.65, 1.9, 0.48, "one softmax", PALE_BLUE, BLUE)
    draw_arrow(axes, (middle, 2.9), (middle, 3.3), RED)
    draw_box(axes, middle, 3.55, 0.9, 0.48, mean, PALE_RED, RED, fontweight="bold")
    words = f"({one} + {two}) / 2, and ({two} + {one}) / 2 is the same"
    write(axes, middle, 4.05, words, LABEL)


def _two_heads(axes, middle, places, one, two):
    order = (-1, 1) if places[0] <= places[1] else (1, -1)
    for x, value, name, side, shade in zip(places, (one, two), "12", order, (BLUE, ORANGE), strict=True):
        at = middle + side * 1.15
        axes.plot([x, at], [1.22, 2.42], color=shade, linewidth=6, solid_capstyle="round")
        _weight(axes, (2 * x + at) / 3, 1.62, "1")
        draw_box(axes, at, 2.65, 1.3, 0.48, f"head {name}", PALE_BLUE if shade == BLUE else PALE_ORANGE, shade)
        slot = middle + (-0.46 if name == "1" else 0.46)
        draw_arrow(axes, (at, 2.9), (slot, 3.3), RED)
        draw_box(axes, slot, 3.55, 0.9, 0.48, value, PALE_RED, RED, fontweight="bold")
    write(axes, middle, 4.05, f"first {one}, then {two}: side by side, both are kept", LABEL)


def _weight(axes, x, y, text):
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    write(axes, x, y, text, FONT, fontweight="bold", bbox=behind)


# Shapes


def split_shapes(batch, length, dim, heads, title):
    """(batch, length, dim) to (batch, heads, length, dim / heads) as coloured blocks: a colour for each head."""
    batch, length, dim, heads = (operator.index(one) for one in (batch, length, dim, heads))
    if min(batch, length, dim, heads) < 1 or dim % heads:
        raise ValueError(
            f"expected sizes above 0 and {heads} heads that divide dim {dim}, got batch {batch}, length {length}"
        )
    if heads > len(HEAD_SHADES) or length > 6 or dim > 16 or batch > 3:
        raise ValueError(
            f"expected at most {len(HEAD_SHADES)} heads, batch 3, length 6 and dim 16, which can still be counted, got "
            f"{heads} heads, batch {batch}, length {length}, dim {dim}"
        )
    head = dim // heads
    shift = 0.12 * (batch - 1)
    gap = 0.1 + shift  # between the blocks of the heads
    width = WIDEST
    cell = min(0.3, 2.2 / length, (width - 0.8 - 2 * 1.15 - 3 * shift - (heads - 1) * gap) / (3 * dim))
    tall = length * cell
    pile = dim * cell + (heads - 1) * gap
    middle = 1.35 + (tall + shift) / 2
    figure, axes = sheet(width, 1.35 + tall + shift + 0.85 + top_of(title, width))
    names = ("the tokens", "one block for each head", "side by side again")
    whole, split = f"({batch}, {length}, {dim})", f"({batch}, {heads}, {length}, {head})"
    spans = [
        max(span + shift, inches(name, FONT, "bold"))
        for span, name in zip((dim * cell, pile, dim * cell), names, strict=True)
    ]
    free = (width - 0.8 - sum(spans)) / 2
    centres = [0.4 + sum(spans[:number]) + free * number + span / 2 for number, span in enumerate(spans)]
    shades = np.repeat(np.arange(heads), head)
    for number, (x, name, shape) in enumerate(zip(centres, names, (whole, split, whole), strict=True)):
        left = x - ((pile if number == 1 else dim * cell) + shift) / 2
        if number == 1:
            for one in range(heads):
                start = left + one * (head * cell + gap)
                _block(axes, start, 1.35, [one] * head, length, cell, batch)
                if head * cell + gap >= 0.34:
                    write(axes, start + head * cell / 2, 1.12, str(one + 1), LABEL)
        else:
            _block(axes, left, 1.35, shades, length, cell, batch)
            if number == 0:
                write(axes, left + dim * cell / 2, 1.12, "features", LABEL, color=GREY)
                write(axes, left - 0.2, 1.35 + tall / 2, "tokens", LABEL, color=GREY, rotation=90)
        write(axes, x, 1.35 + tall + shift + 0.35, name, FONT, fontweight="bold")
        write(axes, x, 0.62, shape, FONT + 1, fontweight="bold", color=BLUE)
        if number < 2:
            start = x + spans[number] / 2
            draw_arrow(axes, (start + 0.15, middle), (start + free - 0.3, middle), "black")
            write(axes, start + free / 2 - 0.08, middle + 0.25, ("split", "merge")[number], LABEL)
    words = f"batch {batch}, {length} tokens, {heads} heads of width {dim} / {heads} = {head}; no number is changed"
    write(axes, width / 2, 0.2, words, LABEL)
    write_title(figure, title)
    return figure


def _block(axes, left, bottom, shades, length, cell, batch):
    """One matrix for each sentence of the batch, one behind the other; a column for each feature."""
    for sentence in reversed(range(batch)):
        x, y = left + 0.12 * sentence, bottom + 0.12 * sentence
        for column, shade in enumerate(shades):
            look = {"facecolor": HEAD_SHADES[shade], "edgecolor": "white", "linewidth": 1.0}
            for row in range(length):
                spot = (x + column * cell, y + row * cell)
                axes.add_patch(Rectangle(spot, cell, cell, alpha=1 if sentence == 0 else 0.45, **look))


# Costs


def head_costs(heads, panels, title, *, log=True):
    """Two or three small panels over the number of heads: {panel: {name: numbers (heads,)}}.

    log: powers on both axes, the same growth as steep in every panel; otherwise heights from 0 on. The names of all panels
    share one key and a name has the same look everywhere; a panel's only line is not in the key if the panel's own name
    says what it is.
    """
    heads = as_array(heads, "the numbers of heads")
    if heads.ndim != 1 or len(heads) < 2 or heads[0] < 1 or (np.diff(heads) <= 0).any():
        raise ValueError(f"expected two or more rising numbers of heads, got {heads.tolist()}")
    if not 1 <= len(panels) <= 3:
        raise ValueError(f"expected one to three panels {{panel: {{name: numbers}}}}, got {len(panels)}")
    checked = {panel: _checked_rows(curves, len(heads), panel, log) for panel, curves in panels.items()}
    names = list(dict.fromkeys(name for curves in checked.values() for name in curves))
    if len(names) > len(LOOKS):
        raise ValueError(f"expected at most {len(LOOKS)} names, which can still be told apart, got {len(names)}")
    looks = dict(zip(names, LOOKS, strict=False))
    listed = [name for name in names if not _said_by_panels(name, checked)] if len(names) > 1 else []
    top = top_of(title, WIDEST) + (0.85 if listed else 0.45)
    margins = (0.85, 0.25, 0.75, top)
    figure, axes = canvas(WIDEST, 3.5 + top, columns=len(panels), margins=margins, gaps=(0.95, 0), squeeze=False)
    reaches = [_reach(curves) for curves in checked.values()]
    factor = max(high / low for low, high in reaches) * 2 if log else None
    for cell, reach, (panel, curves) in zip(axes[0], reaches, checked.items(), strict=True):
        cell.set_xscale("log", base=2)
        for name, values in curves.items():
            shade, marker, line = looks[name]
            cell.plot(heads, values, marker=marker, linestyle=line, color=shade, clip_on=False, zorder=3)
        spare = (heads[-1] / heads[0]) ** 0.06
        cell.set(xlim=(heads[0] / spare, heads[-1] * spare), xlabel="heads")
        cell.set_xticks(ticks_apart(heads, 3.0), minor=False)
        cell.xaxis.set_minor_locator(NullLocator())
        cell.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        if log:
            middle, half = np.sqrt(np.prod(reach)), np.sqrt(max(factor, 16))
            cell.set_yscale("log")
            cell.set_ylim(middle / half, middle * half)
            cell.set_yticks(_log_ticks(middle / half, middle * half), minor=False)
            cell.yaxis.set_minor_locator(NullLocator())
        else:
            cell.set_ylim(0, 1.15 * reach[1] or 1)
            cell.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=STEPS))
        cell.yaxis.set_major_formatter(FuncFormatter(lambda number, _: thousands(number)))
        cell.set_title(panel, fontsize=FONT, fontweight="normal", loc="left", pad=10)
    if listed:
        key_line(figure, 0.85, top - 0.72, [(name, looks[name]) for name in listed])
    write_title(figure, title)
    return figure


def _said_by_panels(name, panels):
    """Whether the name is the only line wherever it stands, below a panel's name that has it already."""
    own = [(panel, curves) for panel, curves in panels.items() if name in curves]
    return all(len(curves) == 1 and name.lower() in panel.lower() for panel, curves in own)


def _reach(curves):
    """(lowest, highest) of all curves of a panel."""
    return min(values.min() for values in curves.values()), max(values.max() for values in curves.values())


def _log_ticks(low, high):
    """At most six round numbers between two others: 1, 2, 5, 10, ... where they have room, else powers of ten."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for parts, step in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        ticks = [part * 10.0**power for power in powers[::step] for part in parts]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 6:
            break
    return ticks


def _checked_rows(curves, count, panel, log):
    if not isinstance(curves, dict) or not curves:
        raise ValueError(f"expected {{name: numbers}} for the panel {panel!r}, got {curves!r}")
    checked = {str(name): as_array(values, f"{name} of {panel}") for name, values in curves.items()}
    for name, values in checked.items():
        if values.shape != (count,):
            raise ValueError(f"expected {name} of {panel!r} at each of {count} numbers of heads, got {values.shape}")
        if values.min() < 0:
            raise ValueError(f"expected {name} of {panel!r} from 0 on, but the smallest is {values.min():g}")
        if log and values.min() == 0:
            raise ValueError(
                f"expected {name} of {panel!r} above 0, as the scale is logarithmic; log=False starts at 0"
            )
    return checked


def thousands(number):
    """4160 as "4.2k": what fits beside a small panel."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:g}"


# Lines with a spread over the seeds


def spread(x, curves, title, xlabel, ylabel, *, log_x=False, log_y=False, limits=None, chance=None, limit=None):
    """{name: (points, seeds), or (points,) for one seed} as the median over x, in a band from the lowest seed to the highest.

    limits: (low, high) of the vertical axis. chance: the height of a dashed line; limit: (height, name) of another one, which
    has room in the picture however far away it is. On a logarithmic axis a number of exactly 0 has no place: a hollow mark on
    the bottom line stands for a median of 0.
    """
    x = as_array(x, f"the {xlabel}")
    if x.ndim != 1 or len(x) < 2 or (np.diff(x) <= 0).any() or (log_x and x[0] <= 0):
        raise ValueError(
            f"expected two or more rising numbers{' above 0' if log_x else ''} on the x axis, got {x.tolist()}"
        )
    checked = _checked_spread(curves, len(x), xlabel, log_y)
    lines = [] if chance is None else [(chance, f"chance {chance:g}")]
    if limit is not None:
        lines.append((float(limit[0]), str(limit[1])))
        if not np.isfinite(lines[-1][0]) or (log_y and lines[-1][0] <= 0):
            raise ValueError(f"expected a limit (height, name){' above 0' if log_y else ''}, got {limit}")
    right = 0.6 + max(inches(line, LABEL) for name in checked for line in name.split("\n"))
    width = min(12.5, max(9.5, 1.2 + 5.0 + right))
    top = top_of(title, width) + 0.2
    figure, axes = canvas(width, 4.6 + top, margins=(1.2, right, 0.75, top))
    floor = _spread_axes(axes, x, checked, log_x, log_y, limits)
    if limit is not None and limits is None:
        floor = _make_room(axes, lines[-1][0], log_y)
    every = max(1, len(x) // 12)
    ends, some = [], False
    for (_, values), (shade, marker, line) in zip(checked.items(), LOOKS, strict=False):
        low, middle, high = values.min(1), np.median(values, 1), values.max(1)
        if log_y:
            gone = middle <= 0
            some |= gone.any()
            hollow = {"markerfacecolor": "white", "markeredgecolor": shade, "markeredgewidth": 2, "clip_on": False}
            axes.plot(x[gone], np.full(gone.sum(), floor), marker, linestyle="none", zorder=4, **hollow)
            low, high = np.maximum(low, floor), np.maximum(high, floor)
            ends.append((x[-1], middle[-1] if middle[-1] > 0 else floor))
            middle = np.where(gone, np.nan, middle)
        else:
            ends.append((x[-1], middle[-1]))
        axes.fill_between(x, low, high, color=shade, alpha=0.2, linewidth=0)
        axes.plot(x, middle, marker=marker, markevery=every, linestyle=line, color=shade, clip_on=False, zorder=3)
    for level, words in lines:
        axes.axhline(level, color="black", linewidth=1.8, linestyle=(0, (4, 2)), zorder=1)
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
        above = ScaledTranslation(0, 0.06, figure.dpi_scale_trans)  # inches: the box leaves the line free
        place = {"transform": axes.get_yaxis_transform() + above, "bbox": behind}
        write(axes, 0.01, level, words, LABEL, ha="left", va="bottom", **place)
    axes.set(xlabel=xlabel + (" (hollow mark: exactly 0)" if some else ""), ylabel=ylabel)
    name_ends(axes, np.clip(ends, *zip(axes.get_xlim(), axes.get_ylim(), strict=True)), list(checked))
    write_title(figure, title)
    return figure


def _checked_spread(curves, count, xlabel, log_y):
    if not curves or len(curves) > len(LOOKS):
        raise ValueError(f"expected one to {len(LOOKS)} curves {{name: (points, seeds)}}, got {len(curves)}")
    checked = {}
    for name, values in curves.items():
        values = as_array(values, f"the numbers of {name}")
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != count or not values.shape[1]:
            hint = "; transpose it" if values.ndim == 2 and values.shape[1] == count else ""
            raise ValueError(
                f"expected {name} with the shape ({count} points of {xlabel}, seeds), got {values.shape}{hint}"
            )
        if log_y and values.min() < 0:
            raise ValueError(f"expected {name} from 0 on, since the scale is logarithmic, got {values.min():g}")
        checked[str(name)] = values
    return checked


def _spread_axes(axes, x, checked, log_x, log_y, limits):
    """Scales and limits; gives the bottom line, where marks for 0 stand."""
    every = np.concatenate([values.reshape(-1) for values in checked.values()])
    if log_x:
        axes.set_xscale("log")
        spare = (x[-1] / x[0]) ** 0.03
        axes.set_xlim(x[0] / spare, x[-1] * spare)
        axes.set_xticks(ticks_apart(x, 5.0), minor=False)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    else:
        axes.set_xlim(x[0] - 0.02 * (x[-1] - x[0]), x[-1] + 0.01 * (x[-1] - x[0]))
        axes.xaxis.set_major_locator(MaxNLocator(9, steps=STEPS, integer=bool((x == x.round()).all()), min_n_ticks=1))
    if log_y:
        axes.set_yscale("log")
        seen = every[every > 0]
        low, high = (seen.min(), seen.max()) if len(seen) else (0.1, 1.0)
        low, high = limits or (low / (30 if (every == 0).any() else 2.5), high * 2.5)
        low, high = (low, high) if high / low >= 12 else (low / 2, high * 2)
        axes.set_ylim(low, high)
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        axes.yaxis.set_minor_locator(NullLocator())
        return low
    low, high = limits or (min(0.0, every.min()), every.max() * 1.08 if every.max() > 0 else 1.0)
    axes.set_ylim(low, high)
    return low


def _make_room(axes, level, log_y):
    """Let the vertical axis reach beyond a line at this level, with room for its name above it; gives the bottom line."""
    low, high = axes.get_ylim()
    if log_y:
        axes.set_ylim(min(low, level / 1.5), max(high, level * (high / low) ** 0.12))
    else:
        axes.set_ylim(min(low, level), max(high, level + 0.12 * (max(high, level) - min(low, level))))
    return axes.get_ylim()[0]


def divergence(steps, curves, title, ylabel="divergence between heads in nats", limit=None):
    """How different the heads are through training: {name: (steps, seeds)}; also for similarities, with another `ylabel`.

    limit: (height, name) of a dashed line, such as (0.693, "nothing in common").
    """
    return spread(steps, curves, title, "training steps", ylabel, limit=limit)


def training_curves(steps, curves, title, ylabel="held-out loss in nats", log_y=False):
    """{name: (steps, seeds)} of a loss through training, such as pre-norm against post-norm."""
    return spread(steps, curves, title, "training steps", ylabel, log_y=log_y)


def gradient_depth(depths, curves, title, ylabel="gradient norm at the first layer"):
    """{name: (depths, seeds)} of gradient norms over the number of layers, both on logarithmic scales."""
    return spread(depths, curves, title, "layers", ylabel, log_x=True, log_y=True)


# Removing heads


def removal_effects(effects, title, names=None):
    """The change of accuracy when one head alone is removed, in points, on coloured tiles; a panel for each seed.

    effects (seeds, layers, heads) or (layers, heads), shares between -1 and 1, below 0 where the head is missed.
    names: of the panels; "seed 1", "seed 2", ... if it is None. One scale of colours for all.
    """
    effects = as_array(effects, "the effects")
    effects = effects[None] if effects.ndim == 2 else effects
    if effects.ndim != 3 or not effects.size:
        raise ValueError(f"expected effects of the shape (seeds, layers, heads), got {effects.shape}")
    if abs(effects).max() > 1:
        raise ValueError("expected changes of accuracy between -1 and 1, got larger ones: divide points by 100")
    seeds, layers, heads = effects.shape
    if seeds > 8 or layers > 12 or heads > 16 or seeds * heads > 40:
        raise ValueError(f"expected at most 40 columns of tiles, 8 seeds and 12 layers, got the shape {effects.shape}")
    names = checked_labels(names or [f"seed {seed + 1}" for seed in range(seeds)], seeds, "names of seeds")
    faces, inks = effect_colours(effects.reshape(seeds * layers, heads))
    left = 0.25 + (inches(f"layer {layers}", LABEL) + 0.12 if layers > 1 else 0)
    gap = 0.4
    tile = min(0.95, (WIDEST - left - 0.25 - gap * (seeds - 1)) / (seeds * heads))
    across = seeds if tile >= 0.55 else max(1, int((WIDEST - left - 0.25 + gap) / (heads * 0.62 + gap)))
    tile = min(0.95, (WIDEST - left - 0.25 - gap * (across - 1)) / (across * heads))
    down, tall = -(-seeds // across), 0.5
    width = max(7.5, left + across * heads * tile + gap * (across - 1) + 0.25)
    span = max(heads * tile, *(inches(name, FONT, "bold") for name in names))  # a name may be wider than its tiles
    width = max(width, left + across * span + gap * (across - 1) + 0.25)
    panel = layers * tall + 0.75
    figure, axes = sheet(width, 0.5 + down * panel + top_of(title, width))
    for seed in range(seeds):
        x0 = left + (seed % across) * (span + gap)
        y0 = 0.5 + (down - 1 - seed // across) * panel + layers * tall
        write(axes, x0, y0 + 0.48, names[seed], FONT, ha="left", fontweight="bold")
        for head in range(heads):
            name = f"head {head + 1}" if tile > 0.7 else str(head + 1)
            write(axes, x0 + (head + 0.5) * tile, y0 + 0.17, name, SMALL)
        for layer, head in np.ndindex(layers, heads):
            if head == 0 and layers > 1 and seed % across == 0:
                write(axes, 0.2, y0 - (layer + 0.5) * tall, f"layer {layer + 1}", LABEL, ha="left")
            corner = (x0 + head * tile, y0 - (layer + 1) * tall)
            row = seed * layers + layer
            axes.add_patch(
                Rectangle(corner, tile, tall, facecolor=faces[row][head], edgecolor="#767676", linewidth=0.8)
            )
            middle = (corner[0] + tile / 2, corner[1] + tall / 2)
            write(axes, *middle, points(effects[seed, layer, head]), SMALL, color=inks[row][head])
    note = "change of accuracy, in points, when this head alone is removed"
    write(axes, 0.2, 0.22, note, LABEL, ha="left", color=GREY)
    write_title(figure, title)
    return figure


# Loss surfaces


def loss_surfaces(surfaces, span, title, kind="surface", log=False, valleys=False):
    """{name: losses (k, k)}, (first direction, second direction), side by side on one scale of heights and colours.

    span: how far the grid goes to each side, in units of the directions. The middle of the grid is the model itself.
    kind: "surface" in three dimensions, or "contour" seen from above. log: heights and colours by powers of ten. valleys:
    contours get a dot at every inner point of the grid that is lower than all eight around it.
    """
    if kind not in ("surface", "contour"):
        raise ValueError(f"expected kind surface or contour, got {kind!r}")
    if not span > 0:
        raise ValueError(f"expected a span above 0, got {span:g}")
    if not 1 <= len(surfaces) <= 3:
        raise ValueError(f"expected one to three surfaces {{name: losses}}, got {len(surfaces)}")
    checked = {str(name): as_array(losses, f"the losses of {name}") for name, losses in surfaces.items()}
    for name, losses in checked.items():
        if losses.ndim != 2 or losses.shape[0] != losses.shape[1] or len(losses) < 3:
            raise ValueError(f"expected losses of {name} on a square grid of 3 by 3 or more, got {losses.shape}")
        if log and losses.min() <= 0:
            raise ValueError(f"expected losses of {name} above 0 for a logarithmic scale, got {losses.min():g}")
    low = min(losses.min() for losses in checked.values())
    high = max(losses.max() for losses in checked.values())
    high = high if high > low else low + 1
    width = WIDEST if len(checked) > 1 else 7.5
    top = top_of(title, width)
    if kind == "contour":
        return _contours(checked, span, title, log, (low, high), width, top, valleys)
    return _landscapes(checked, span, title, log, (low, high), width, top)


def _landscapes(checked, span, title, log, limits, width, top):
    height = 5.4 + top
    from mpl_toolkits.mplot3d import Axes3D  # noqa: F401  registers the projection; slow to load, needed here alone

    figure, _ = sheet(width, height)
    levels = np.log10(limits) if log else np.array(limits)
    share, low = (width - 0.2) / len(checked), 0.4 if width == WIDEST else 0.65  # two lines of words below one surface
    for place, (name, losses) in enumerate(checked.items()):
        box = ((0.1 + place * share) / width, low / height, share / width, (height - top - 0.5 - low) / height)
        axes = figure.add_axes(box, projection="3d", computed_zorder=False)
        line = np.linspace(-span, span, len(losses))
        across, along = np.meshgrid(line, line, indexing="ij")
        heights = np.log10(losses) if log else losses
        norm = Normalize(*levels)
        look = {
            "cmap": WEIGHTS_MAP,
            "norm": norm,
            "rstride": 1,
            "cstride": 1,
            "linewidth": 0.25,
            "edgecolor": "#00000055",
        }
        axes.plot_surface(across, along, heights, antialiased=True, **look)
        axes.set(xlim=(-span, span), ylim=(-span, span), zlim=tuple(levels))
        # The corner that two axes share has room for one number only.
        axes.set_xticks([-span, 0], [signed(-span, 1), "0"])
        axes.set_yticks([-span, 0, span], [signed(-span, 1), "0", signed(span, 1)])
        ticks = [tick for tick in MaxNLocator(4, steps=STEPS, integer=log).tick_values(*levels)]
        ticks = [tick for tick in ticks if levels[0] <= tick <= levels[1]]
        axes.set_zticks(ticks, [thousands(10.0**tick if log else tick) for tick in ticks])
        axes.tick_params(labelsize=SMALL, pad=1)
        axes.tick_params(axis="z", pad=5)
        axes.view_init(elev=28, azim=-55)
        axes.set_box_aspect((1, 1, 0.75), zoom=0.98)
        figure.text((0.1 + (place + 0.5) * share) / width, 1 - (top + 0.2) / height, name, ha="center", fontsize=FONT)
    words = "height and colour: loss; floor: two random directions, the model is in the middle"
    figure.text(0.5, 0.08 / height, words if width == WIDEST else words.replace("; ", "\n"), ha="center", va="bottom",
                fontsize=LABEL, color=GREY)  # fmt: skip
    write_title(figure, title)
    return figure


def _contours(checked, span, title, log, limits, width, top, valleys):
    below, above, gap = 1.2, top + 0.5, 0.55
    side = min((width - 0.95 - 1.3 - gap * (len(checked) - 1)) / len(checked), 4.9)
    used = 0.95 + gap * (len(checked) - 1) + side * len(checked)
    left = 0.95 + max(0, width - used - 1.3) / 2
    right = width - used - (left - 0.95)
    height = below + side + above
    margins = (left, right, below, above)
    figure, panels = canvas(width, height, columns=len(checked), margins=margins, gaps=(gap, 0), squeeze=False)
    levels = np.geomspace(*limits, LEVELS) if log else np.linspace(*limits, LEVELS)
    # A hair more at both ends, or rounding would leave the lowest and the highest point without colour.
    levels[0], levels[-1] = levels[0] - 1e-9 * (levels[1] - levels[0]), levels[-1] + 1e-9 * (levels[-1] - levels[-2])
    norm = LogNorm(*limits) if log else Normalize(*limits)
    for place, (axes, (name, losses)) in enumerate(zip(panels[0], checked.items(), strict=True)):
        line = np.linspace(-span, span, len(losses))
        image = axes.contourf(line, line, losses.T, levels=levels, cmap=WEIGHTS_MAP, norm=norm)
        axes.contour(line, line, losses.T, levels=levels, colors="black", linewidths=0.9, alpha=0.6)
        if valleys:
            first, second = np.nonzero(_lower_than_around(losses))
            look = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 1.5, "clip_on": False}
            axes.plot(line[first], line[second], "o", markersize=9, zorder=5, **look)  # also on the cross
        # White on black: seen on every colour.
        for shade, size, thick in (("black", 20, 6.5), ("white", 17, 3.0)):
            axes.plot([0], [0], "x", color=shade, markersize=size, markeredgewidth=thick, zorder=4)
        axes.set(xlim=(-span, span), ylim=(-span, span), aspect="equal", xlabel="first direction")
        axes.set(xticks=[-span, 0, span], yticks=[-span, 0, span])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda number, _: signed(number, 1) if number else "0"))
        axes.tick_params(labelleft=place == 0)
        axes.grid(False)
        axes.set_title(name, fontsize=FONT + 2, fontweight="normal", loc="left", pad=8)
    panels[0, 0].set_ylabel("second direction", labelpad=0)
    box = ((width - right + 0.2) / width, below / height, 0.25 / width, side / height)
    bar = figure.colorbar(image, cax=figure.add_axes(box), ticks=_log_ticks(*limits) if log else None)
    bar.ax.minorticks_off()
    if not log:
        bar.locator = MaxNLocator(nbins=7, steps=STEPS)
        bar.update_ticks()
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda number, _: thousands(number)))
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    bar.set_label("loss", fontsize=FONT)
    words = "cross: the model" + ("; dots: valleys, lower than all eight points around" if valleys else "")
    figure.text(left / width, 0.12 / height, words, ha="left", va="bottom", fontsize=LABEL, color="#444444")
    write_title(figure, title)
    return figure


def _lower_than_around(losses):
    """(k, k) bool: True at inner points that are lower than their eight neighbours."""
    found, size = np.zeros(losses.shape, dtype=bool), len(losses)
    around = [
        losses[1 + down : size - 1 + down, 1 + right : size - 1 + right]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if down or right
    ]
    found[1:-1, 1:-1] = losses[1:-1, 1:-1] < np.min(around, axis=0)
    return found


# Layer normalisation


def norm_axis(tokens, dim, title):
    """A grid of tokens and features: layer normalisation takes the mean over one row, never over a column."""
    tokens = [short(token) for token in tokens]
    dim = operator.index(dim)
    if not 2 <= len(tokens) <= 8 or not 2 <= dim <= 12:
        raise ValueError(f"expected 2 to 8 tokens and 2 to 12 features, got {len(tokens)} tokens and {dim} features")
    cell, count = 0.42 if dim <= 10 else 0.38, len(tokens)
    names = 0.35 + max(inches(token, LABEL) for token in tokens)
    half = max(names + dim * cell + 0.3, 4.9)
    width = 2 * half + 0.5
    if width > 12.5:
        raise ValueError(f"{dim} features beside {max(tokens, key=len)!r} do not fit a slide twice: take fewer")
    figure, axes = sheet(width, 0.55 + count * cell + 0.95 + top_of(title, width))
    for side, (name, words, right) in enumerate(
        (("layer norm", "over the features of each token", True), ("not layer norm", "over the positions", False))
    ):
        left = side * (half + 0.25) + names
        bottom, chosen = 0.55, count // 2
        mark = "✓" if right else "✗"
        write(axes, left, bottom + count * cell + 0.68, f"{mark} {name}", FONT + 1, ha="left", fontweight="bold",
               color=GREEN if right else "#A84A00")  # fmt: skip
        write(axes, left, bottom + count * cell + 0.33, f"mean and deviation {words}", LABEL, ha="left")
        for row, token in enumerate(tokens):
            y = bottom + (count - 1 - row) * cell
            write(axes, left - 0.12, y + cell / 2, token, LABEL, ha="right")
            for column in range(dim):
                mine = row == chosen if right else column == dim // 2
                face = (PALE_BLUE if right else PALE_RED) if mine else "#F4F4F4"
                look = {"facecolor": face, "edgecolor": "#B0B0B0", "linewidth": 0.8}
                axes.add_patch(Rectangle((left + column * cell, y), cell, cell, **look))
        if right:
            corner, size = (left, bottom + (count - 1 - chosen) * cell), (dim * cell, cell)
        else:
            corner, size = (left + (dim // 2) * cell, bottom), (cell, count * cell)
        look = {"edgecolor": BLUE if right else "#A84A00", "linewidth": 3.5, "linestyle": "-" if right else "--"}
        axes.add_patch(Rectangle(corner, *size, fill=False, zorder=4, **look))
        write(axes, left + dim * cell / 2, 0.28, f"{dim} features", LABEL, color=GREY)
    write_title(figure, title)
    return figure


def layer_norm_spread(before, after, tokens, title):
    """The features of each token as dots, before and after layer normalisation; a bar at the mean, a line one deviation wide.

    before, after (tokens, dim).
    """
    before, after = as_array(before, "the features before"), as_array(after, "the features after")
    if before.ndim != 2 or before.shape != after.shape or not before.size:
        raise ValueError(f"expected features (tokens, dim) before and after, got {before.shape} and {after.shape}")
    tokens = [short(token) for token in checked_labels(tokens, len(before), "tokens")]
    if len(tokens) > 10:
        raise ValueError(f"expected at most 10 tokens, got {len(tokens)}: take some of them")
    left = 0.35 + max(inches(token, LABEL) for token in tokens)
    notes = [[f"{signed(row.mean(), 1)} ± {row.std():.1f}" for row in part] for part in (before, after)]
    right = 0.35 + max(inches(note, LABEL) for part in notes for note in part)
    top = top_of(title, WIDEST) + 0.55
    margins = (left, right, 0.75, top)
    size = (WIDEST, top + 0.85 + 0.55 * len(tokens))
    figure, panels = canvas(*size, columns=2, margins=margins, gaps=(right + 0.15, 0), sharey=True)
    for axes, part, words, name in zip(panels, (before, after), notes, ("before", "after"), strict=True):
        reach = abs(part).max() * 1.08 or 1
        reach = max(reach, 2.5) if name == "after" else reach
        for place, (row, note) in enumerate(zip(part, words, strict=True)):
            shade, marker, _ = LOOKS[place % len(LOOKS)]
            axes.plot(
                [row.mean() - row.std(), row.mean() + row.std()], [place] * 2, color="black", linewidth=2.2, zorder=2
            )
            axes.plot([row.mean()] * 2, [place - 0.32, place + 0.32], color="black", linewidth=3.5, zorder=4)
            axes.plot(row, np.full(len(row), place), marker, color=shade, markersize=7, alpha=0.55, zorder=3)
            spot = {"transform": axes.get_yaxis_transform()}
            write(axes, 1.02, place, note, LABEL, ha="left", **spot)
        axes.axvline(0, color=GREY, linewidth=1.2, zorder=1)
        axes.set(xlim=(-reach, reach), ylim=(len(tokens) - 0.5, -0.5), xlabel="value of a feature")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.set_yticks(range(len(tokens)), tokens)
        axes.tick_params(axis="y", length=0)
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.set_title(f"{name} (right: mean ± deviation)", fontsize=FONT, fontweight="normal", loc="left", pad=10)
    for label in panels[0].get_yticklabels():
        label.set_parse_math(False)
    write_title(figure, title)
    return figure


# The encoder block

NORM, LOOK, FEED, SUM = "norm", "look", "feed", "sum"
PARTS = {  # what is written in a box, its width, face and edge
    NORM: ("layer\nnorm", 1.0, PALE_ORANGE, "#7A5500"),
    LOOK: ("multi-head\nattention", 1.75, PALE_BLUE, BLUE),
    FEED: ("feed-\nforward", 1.4, PALE_GREEN, "#00694D"),
    SUM: ("+", 0.52, "white", "black"),
}
ORDERS = {  # the parts from input to output, and where each of the two skips leaves and arrives: before, at part number
    "pre": ((NORM, LOOK, SUM, NORM, FEED, SUM), ((0, 2), (3, 5))),
    "post": ((LOOK, SUM, NORM, FEED, SUM, NORM), ((0, 1), (3, 4))),
}
ORDER_WORDS = {
    "pre": ("pre-norm", "the norm is inside the branch: from end to end a way of sums alone"),
    "post": ("post-norm", "the norm comes after the sum: no way around it"),
}


def encoder_block(dim, heads, hidden, title, orders=("post", "pre")):
    """The encoder block from left to right, once for each norm order.

    dim, heads, hidden: sizes to write into the shapes: one shape for all arrows, said once, and those inside of the layers.
    orders: "pre", "post" or both, from the top.
    """
    dim, heads, hidden = (operator.index(size) for size in (dim, heads, hidden))
    if min(dim, heads, hidden) < 1 or dim % heads:
        raise ValueError(f"expected sizes above 0 and {heads} heads that divide dim {dim}, got hidden {hidden}")
    orders = [orders] if isinstance(orders, str) else list(orders)
    if not orders or set(orders) - set(ORDERS):
        raise ValueError(f"expected norm orders among {', '.join(ORDERS)}, got {orders}")
    top, row, foot = top_of(title, WIDEST), 2.95, 0.45
    figure, axes = sheet(WIDEST, foot + row * len(orders) + top + 0.05)
    words = f"(b, n, {dim}) at every arrow: sentences, tokens, features"
    write(axes, WIDEST / 2, 0.27, words, FONT + 1, fontweight="bold")
    for place, order in enumerate(orders):
        base = foot + row * (len(orders) - 1 - place)
        _block_row(axes, order, base, (dim, heads, hidden))
        if place:
            axes.plot([0.15, WIDEST - 0.15], [base + row] * 2, color=PALE, linewidth=1.5)
    write_title(figure, title)
    return figure


def _block_row(axes, order, base, sizes):
    dim, heads, hidden = sizes
    parts, skips = ORDERS[order]
    name, words = ORDER_WORDS[order]
    write(axes, 0.2, base + 2.62, name, FONT + 4, ha="left", fontweight="bold")
    write(axes, 0.4 + inches(name, FONT + 4, "bold"), base + 2.61, words, FONT, ha="left", color="#333333")
    widths = np.array([PARTS[part][1] for part in parts])
    ends = 0.32  # the letter at each end
    gap = (WIDEST - 0.3 - 2 * ends - widths.sum()) / (len(parts) + 1)
    lefts = 0.15 + ends + gap + np.concatenate([[0], np.cumsum(widths + gap)[:-1]])
    y = base + 1.05
    write(axes, 0.15 + ends / 2, y, "x", FONT + 8, fontweight="bold", style="italic")
    write(axes, WIDEST - 0.15 - ends / 2, y, "y", FONT + 8, fontweight="bold", style="italic")
    borders = [0.15 + ends, *lefts, WIDEST - 0.15 - ends]
    for place in range(len(parts) + 1):
        start = borders[0] if place == 0 else lefts[place - 1] + widths[place - 1]
        draw_strong_arrow(axes, [(start, y), (borders[place + 1], y)], "black")
    for left, part in zip(lefts, parts, strict=True):
        text, width, face, edge = PARTS[part]
        middle = left + width / 2
        if part == SUM:
            axes.add_patch(Circle((middle, y), width / 2, facecolor=face, edgecolor=edge, linewidth=2.2, zorder=3))
            axes.plot([middle - 0.14, middle + 0.14], [y, y], color="black", linewidth=3, zorder=4)
            axes.plot([middle, middle], [y - 0.14, y + 0.14], color="black", linewidth=3, zorder=4)
        else:
            draw_box(axes, middle, y, width, 0.95, text, face, edge, FONT + 4)
    for leaves, arrives in skips:
        # A skip leaves in the middle of an arrow, where nothing stands, and goes over everything up to its sum.
        start = borders[0] + 0.3 * gap if leaves == 0 else lefts[leaves - 1] + widths[leaves - 1] + 0.3 * gap
        end = lefts[arrives] + widths[arrives] / 2
        axes.plot([start], [y], "o", color=RED, markersize=10, zorder=5)
        draw_strong_arrow(axes, [(start, y), (start, y + 0.95), (end, y + 0.95), (end, y + 0.26)], RED)
        write(axes, (start + end) / 2, y + 1.16, "skip", FONT + 1, color="#A84A00")
    below = {
        LOOK: f"{heads} heads: (b, {heads}, n, {dim // heads})",
        FEED: f"{dim} → {hidden} → {dim}",
    }
    for left, part in zip(lefts, parts, strict=True):
        if part in below:
            write(axes, left + PARTS[part][1] / 2, base + 0.33, below[part], FONT + 1, color=PARTS[part][3])


# Relations of relations


def relation_paths(weights, tokens, target, title, least=0.1):
    """How one token reaches others in two steps and more: from the top layer down, a line for every look that counts.

    weights (layers, n, n), one map for each layer from the first to the last, such as one head of each or their mean.
    The number under a word is the product of the weights along the ways to it, summed over all ways. Looks below
    `least` have no line; their ways are counted all the same. A word is marked if a line leads to it.
    """
    weights = checked_weights(weights, "the weights")
    tokens = [short(token) for token in tokens]
    if weights.ndim != 3 or weights.shape[1:] != (len(tokens), len(tokens)):
        raise ValueError(
            f"expected weights (layers, {len(tokens)}, {len(tokens)}) for {len(tokens)} tokens, got {weights.shape}"
        )
    layers, target = len(weights), operator.index(target)
    if layers > 4:
        raise ValueError(f"expected at most 4 layers, whose lines can still be followed, got {layers}")
    if not 0 <= target < len(tokens):
        raise ValueError(f"expected a target from 0 to {len(tokens) - 1}, got {target}")
    boxes = np.array([max(0.66, inches(token, FONT, "bold") + 0.2) for token in tokens])
    margin = 0.35 + inches("after layer 9", LABEL)
    width = max(8.0, margin + boxes.sum() + 0.1 * (len(tokens) - 1) + 0.2)
    if width > 12.5:
        raise ValueError(f"{len(tokens)} tokens are too wide for a slide: leave some out")
    spare = width - margin - 0.2 - boxes.sum()
    step = spare / max(len(tokens) - 1, 1)
    places = margin + np.cumsum(boxes + step) - step - boxes / 2
    rise = 1.35 if layers <= 2 else 1.15
    bottom = 1.3
    figure, axes = sheet(width, bottom + 0.1 + rise * layers + 0.4 + top_of(title, width))
    share = (np.arange(len(tokens)) == target).astype(float)
    level, marked = {layers: share}, {layers: share > 0}
    for layer in reversed(range(layers)):
        level[layer] = level[layer + 1] @ weights[layer]
        seen = marked[layer + 1][:, None] & (weights[layer] >= least)
        marked[layer] = seen.any(0)
        _draw_looks(axes, places, bottom + rise * layer, rise, level[layer + 1], weights[layer], seen)
    for layer in range(layers + 1):
        y = bottom + rise * layer
        name = "words" if layer == 0 else f"after layer {layer}"
        write(axes, 0.15, y, name, LABEL, ha="left", color=GREY)
        for x, box, token, strong in zip(places, boxes, tokens, marked[layer], strict=True):
            face, edge = (
                (PALE_RED, RED) if layer == layers and strong else (PALE_BLUE, BLUE) if strong else ("white", PALE)
            )
            draw_box(axes, x, y, box, 0.42, token, face, edge, fontweight="bold" if strong else "normal")
    for x, share, strong in zip(places, level[0], marked[0], strict=True):
        write(axes, x, bottom - 0.48, percent(share), LABEL, fontweight="bold" if strong else "normal")
    write(axes, 0.15, bottom - 0.48, "share", LABEL, ha="left", color=GREY)
    words = f"share: product of the weights along all ways, summed; lines for looks of at least {percent(least)}"
    write(axes, 0.15, 0.3, words, SMALL, ha="left", color="#444444")
    write_title(figure, title)
    return figure


def _draw_looks(axes, places, base, rise, shares, weights, seen):
    """Lines from the row above to the row at `base` where `seen` (n, n) is True; as strong as the way that led there."""
    lines, thick, strong = [], [], []
    for upper, lower in np.argwhere(seen):
        weight = weights[upper, lower]
        lines.append([(places[upper], base + rise - 0.21), (places[lower], base + 0.21)])
        thick.append(1 + 6 * weight)
        strong.append((*_rgb(BLUE), 0.25 + 0.7 * shares[upper] * weight))
    axes.add_collection(LineCollection(lines, colors=strong, linewidths=thick, capstyle="round", zorder=1))


def _rgb(shade):
    return tuple(int(shade[at : at + 2], 16) / 255 for at in (1, 3, 5))
