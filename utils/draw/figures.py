"""Pure functions from arrays and strings to matplotlib figures."""

import textwrap

import numpy as np

from utils.draw.style import (
    BLUE,
    COLOURS,
    FONT,
    GREY,
    SERIES,
    SMALL,
    WEIGHTS_MAP,
    WIDTH,
    as_array,
    canvas,
    colour,
    is_dark,
)

LYING_UP_TO = 16  # bars: more of them with long labels would be too tall a picture
NUMBERS_UP_TO = 10  # rows or columns: beyond that, numbers in the cells are too small to read


def text_inches(text, size=FONT):
    """About how wide a text is. DejaVu Sans letters are 0.6 of their size wide on average."""
    longest = max((len(line) for line in str(text).split("\n")), default=0)
    return 0.61 * size / 72 * longest


def signed(number, decimals=2):
    """A rounded number with a real minus sign, and no minus before zero."""
    text = f"{number:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def checked_labels(labels, count, what="labels"):
    labels = [str(label) for label in labels]
    if len(labels) != count:
        raise ValueError(f"expected one of the {what} for each of the {count} numbers, got {len(labels)}")
    return labels


def checked_weights(weights, what="weights"):
    """Weights are never negative and a row never sums to more than one; a row of zeros looks nowhere."""
    weights = as_array(weights, what)
    if weights.size == 0:
        raise ValueError(f"{what} have the shape {weights.shape}: there is nothing to draw")
    if weights.min() < -1e-6:
        raise ValueError(f"{what} must not be negative, but the smallest is {weights.min():.3g}: are these scores?")
    total = weights.sum(-1).max()
    if total > 1.001:
        raise ValueError(f"each row of the {what} sums to 1 at most, but one sums to {total:.4g}: softmax comes first")
    return weights


TITLE = 16
TITLE_WIDTH = 8.0  # inches: a longer title goes on a second line before it widens the picture

# Bars


def bars(
    labels,
    values,
    title="",
    value_label="",
    label_axis="",
    colours=None,
    limits=None,
    numbers=True,
    decimals=2,
    size=(WIDTH, 4.0),
):
    """Bars over labels. `values` is one list of numbers, or a dict {name: numbers} drawn side by side.

    colours: one colour or role for a single series, a list with one per bar, or a dict with one per name.
    """
    series = checked_series(values)
    count = len(next(iter(series.values())))
    labels = checked_labels(labels, count)
    widest = max(text_inches(label, SMALL + 1) for label in labels)
    crowded = widest > (size[0] - 1.2) / count
    lying = crowded and count <= LYING_UP_TO  # long labels read best beside lying bars
    lines = title_lines(title, size[0])
    top = 0.3 + 0.3 * lines + (0.3 if len(series) > 1 else 0)
    height = size[1] + 0.3 * max(lines - 1, 0)  # a long title makes the picture taller, not the bars lower
    label_room = 0.3 if label_axis else 0
    if lying:
        height = max(height, top + 0.75 + 0.36 * count * max(1, 0.7 * len(series)))
        margins = (min(widest, size[0] / 2) + 0.25 + label_room, 0.5, 0.45 + (0.3 if value_label else 0), top)
    else:
        margins = (0.95 if value_label else 0.7, 0.2, 0.45 + (widest if crowded else 0.05) + label_room, top)
        height += widest if crowded else 0
    figure, axes = canvas(size[0], height, margins=margins)
    low, high = limits if limits is not None else _room(series.values())
    width = 0.8 / len(series)
    for index, (name, lengths) in enumerate(series.items()):
        places = np.arange(count) + (index - (len(series) - 1) / 2) * width
        draw = axes.barh if lying else axes.bar
        draw(places, lengths, width * 0.94, label=name or None, color=_bar_colours(colours, name, index))
        if numbers and (lying or (size[0] - 1.2) / count / len(series) >= text_inches("0.00", SMALL)):
            _write_numbers(axes, places, lengths, decimals, high - low, lying)
    _bar_axes(axes, labels, (low, high), value_label, label_axis, lying, crowded)
    write_title(figure, title)
    if len(series) > 1:
        look = {"borderaxespad": 0.1, "handlelength": 1.2, "ncols": len(series)}
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), **look)
    return figure


def checked_series(values):
    """{name: numbers} from one list or several; all of the same length."""
    series = values if isinstance(values, dict) else {"": values}
    series = {name: as_array(heights, "the bars").reshape(-1) for name, heights in series.items()}
    lengths = {name: len(heights) for name, heights in series.items()}
    if not series or 0 in lengths.values():
        raise ValueError("there are no bars to draw: give numbers, or a dict of names and numbers")
    if len(set(lengths.values())) > 1:
        raise ValueError(f"every series needs the same number of bars, got {lengths}")
    return series


def weights_bars(labels, weights, title="", value_label="weight", colours="weights", **options):
    """A distribution over labels: bars from 0 to 1 whose sum is 1."""
    weights = checked_weights(as_array(weights, "weights").reshape(-1))
    return bars(labels, weights, title, value_label, colours=colours, limits=(0, 1.08), **options)


def _bar_colours(colours, name, index):
    if isinstance(colours, dict):
        return colour(colours[name])
    if isinstance(colours, (list, tuple)):
        return [colour(one) for one in colours]
    if colours is None:
        return BLUE if not name else ([COLOURS["truth"], COLOURS["guess"], *SERIES[1:]])[index]
    return colour(colours)


def _room(all_heights):
    heights = np.concatenate(list(all_heights))
    low, high = min(0.0, heights.min()), max(0.0, heights.max())
    spare = 0.14 * ((high - low) or 1)
    return (low - spare if low < 0 else 0.0), (high + spare if high > 0 or low == 0 else 0.0)


def _bar_axes(axes, labels, limits, value_label, label_axis, lying, crowded):
    """Labels on one axis and numbers on the other; lying bars read from the top."""
    count = len(labels)
    if lying:
        axes.set_yticks(np.arange(count), labels)
        axes.set(ylim=(count - 0.4, -0.6), xlim=limits, xlabel=value_label, ylabel=label_axis)
        axes.grid(True, axis="x")
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xticks(np.arange(count), labels, rotation=90 if crowded else 0)
        axes.set(xlim=(-0.6, count - 0.4), ylim=limits, ylabel=value_label, xlabel=label_axis)
        axes.tick_params(axis="x", length=0)
    if limits[0] < 0:
        (axes.axvline if lying else axes.axhline)(0, color="black", linewidth=1.2)


def _write_numbers(axes, places, lengths, decimals, room, lying):
    for place, length in zip(places, lengths, strict=True):
        end = length + (0.015 if length >= 0 else -0.015) * room
        if lying:
            where, across, up = (end, place), "left" if length >= 0 else "right", "center"
        else:
            where, across, up = (place, end), "center", "bottom" if length >= 0 else "top"
        axes.text(*where, signed(length, decimals), ha=across, va=up, fontsize=SMALL + 1)


def title_lines(title, width):
    """How many lines a title takes in a figure of this width."""
    return wrapped(title, width).count("\n") + 1 if title else 0


def wrapped(title, width):
    """The title in lines that fit the width, in inches."""
    letters = max(12, int((width - 0.3) / text_inches("n", TITLE) / 1.08))  # bold letters are wider
    return "\n".join(line for part in title.split("\n") for line in textwrap.wrap(part, letters))


def write_title(figure, title):
    """Write the title at the left edge of the picture, in as many lines as it needs."""
    if title:
        width, height = figure.get_size_inches()
        text = wrapped(title, width)
        figure.text(0.12 / width, 1 - 0.12 / height, text, ha="left", va="top", fontsize=TITLE, fontweight="bold")


# Heat maps


def heat_map(
    weights,
    row_labels=None,
    column_labels=None,
    title="",
    row_axis="query",
    column_axis="key",
    panel_titles=None,
    panel_columns=None,
    numbers=None,
    decimals=2,
    limits=(0, 1),
    colour_label="weight",
    colour_map=WEIGHTS_MAP,
    size=None,
):
    """A matrix as colours, or several beside each other with one colour bar for all.

    weights (rows, columns), (panels, rows, columns) or (layers, heads, rows, columns); the last form gives one
    row of panels per layer. Rows are queries, columns are keys. numbers=None writes them where they are readable.
    limits=None takes the smallest and the largest number, for matrices that are not weights.
    """
    panels, titles, across = _panels(as_array(weights, "the heat map"), panel_titles, panel_columns)
    count, rows, columns = panels.shape
    row_labels = checked_labels(places(rows) if row_labels is None else row_labels, rows, "row labels")
    column_labels = checked_labels(
        places(columns) if column_labels is None else column_labels, columns, "column labels"
    )
    low, high = limits if limits is not None else (panels.min(), panels.max())
    down = -(-count // across)
    layout = _heat_layout(row_labels, column_labels, title, titles, across, down, row_axis, column_axis, size)
    figure, axes = canvas(
        *layout["size"],
        rows=down,
        columns=across,
        margins=layout["margins"],
        gaps=layout["gaps"],
        squeeze=False,
    )
    if numbers is None:
        numbers = layout["cell"] >= text_inches("0" * (decimals + 2), SMALL - 1) and max(rows, columns) <= NUMBERS_UP_TO
    for index, cell in enumerate(axes.flat):
        if index >= count:
            cell.axis("off")
            continue
        image = cell.imshow(panels[index], cmap=colour_map, vmin=low, vmax=high, aspect="auto")
        _label_heat(cell, row_labels, column_labels, layout)
        if titles:
            cell.set_title(titles[index], fontsize=FONT, fontweight="normal", loc="center", pad=6)
        cell.set_ylabel(row_axis if index % across == 0 else "")
        last_in_column = index + across >= count
        cell.set_xlabel(column_axis if last_in_column else "")
        if numbers:
            _write_cells(cell, panels[index], image, decimals)
    _colour_bar(figure, image, layout, colour_label)
    write_title(figure, title)
    return figure


def places(count):
    """Index labels; a long axis names every fifth place only."""
    return [str(index) if count <= 20 or index % 5 == 0 else "" for index in range(count)]


def _panels(weights, titles, across):
    if weights.ndim not in (2, 3, 4) or weights.size == 0:
        raise ValueError(
            "a heat map takes (rows, columns), (panels, rows, columns) or (layers, heads, rows, columns), "
            f"got the shape {weights.shape}"
        )
    if weights.ndim == 4:
        layers, heads = weights.shape[:2]
        titles = titles or [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(heads)]
        across = across or heads
        weights = weights.reshape(-1, *weights.shape[2:])
    elif weights.ndim == 2:
        weights = weights[None]
    if titles is not None:
        titles = checked_labels(titles, len(weights), "panel titles")
    return weights, titles, across or min(len(weights), 4)


def _heat_layout(row_labels, column_labels, title, titles, across, down, row_axis, column_axis, size):
    """Sizes in inches from the lengths of the labels, so that nothing is cut and nothing has to be measured."""
    rows, columns = len(row_labels), len(column_labels)
    small = SMALL + 1 if max(rows, columns) <= 16 else SMALL - 1
    widest_row = max(text_inches(label, small) for label in row_labels)
    widest_column = max(text_inches(label, small) for label in column_labels)
    cell = 0.62 if across == 1 else 0.46
    if max(rows, columns) > NUMBERS_UP_TO:
        cell = max(0.2, 6.0 / max(rows, columns)) if across == 1 else 0.21
    panel = (max(1.6, columns * cell), max(1.2, rows * cell))
    turned = widest_column > panel[0] / columns * 0.95
    below = (widest_column if turned else 0.25) + 0.1
    left = widest_row + (0.5 if row_axis else 0.2)
    bottom = below + (0.35 if column_axis else 0.1)
    top = 0.15 + (0.4 if titles else 0.1)
    gaps = (widest_row + 0.3, below + (0.45 if titles else 0.2))
    right = 1.15
    width = left + across * panel[0] + (across - 1) * gaps[0] + right
    width = max(width, min(TITLE_WIDTH, text_inches(title, TITLE) * 1.08 + 0.4)) if title else width
    top += 0.3 * title_lines(title, width) + (0.1 if title else 0)
    height = bottom + down * panel[1] + (down - 1) * gaps[1] + top
    if size is not None:
        width, height = size
    extra = max(0.0, width - (left + across * panel[0] + (across - 1) * gaps[0] + right)) if size is None else 0.0
    return {
        "size": (width, height),
        "margins": (left, right + extra, bottom, top),
        "gaps": gaps,
        "turned": turned,
        "cell": panel[0] / columns,
        "small": small,
        "bar_right": extra,
    }


def _label_heat(axes, row_labels, column_labels, layout):
    turn = {"rotation": 90} if layout["turned"] else {}
    axes.set_xticks(range(len(column_labels)), column_labels, fontsize=layout["small"], **turn)
    axes.set_yticks(range(len(row_labels)), row_labels, fontsize=layout["small"])
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _write_cells(axes, matrix, image, decimals):
    for (row, column), number in np.ndenumerate(matrix):
        axes.text(
            column,
            row,
            signed(number, decimals),
            ha="center",
            va="center",
            color="white" if is_dark(image.cmap(image.norm(number))) else "black",
            fontsize=SMALL,
        )


def _colour_bar(figure, image, layout, label):
    width, height = layout["size"]
    _, right, bottom, top = layout["margins"]
    box = ((width - right + 0.2) / width, bottom / height, 0.18 / width, (height - bottom - top) / height)
    bar = figure.colorbar(image, cax=figure.add_axes(box))
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    bar.set_label(label, fontsize=SMALL + 1)


# Attention between two rows of tokens


def attention_lines(
    source_tokens,
    target_tokens,
    weights,
    title="",
    target_name="looks from",
    source_name="looks at",
    focus=None,
    size=None,
):
    """Two rows of tokens and a line for every weight: target tokens above look at source tokens below.

    weights (targets, sources). `focus` is the index of one target token: its lines stand out and carry numbers.
    """
    source_tokens = [str(token) for token in source_tokens]
    target_tokens = [str(token) for token in target_tokens]
    weights = checked_weights(weights)
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"expected weights of the shape (targets, sources) = {(len(target_tokens), len(source_tokens))}, "
            f"got {weights.shape}"
        )
    if focus is not None and not 0 <= focus < len(target_tokens):
        raise ValueError(f"focus must be the index of one of the {len(target_tokens)} target tokens, got {focus}")
    upper, upper_width = _row_places(target_tokens)
    lower, lower_width = _row_places(source_tokens)
    span = max(upper_width, lower_width)
    if source_tokens != target_tokens:
        upper, lower = upper * span / upper_width, lower * span / lower_width
    left = max(text_inches(name, SMALL + 1) for name in (target_name, source_name)) + 0.35
    if size is None:
        width = max(6.0, left + span + 0.3, min(TITLE_WIDTH, text_inches(title, TITLE) * 1.08 + 0.4))
        size = (width, 2.8 + 0.32 * title_lines(title, width) + (0.3 if focus is not None else 0))
    figure, axes = canvas(*size, margins=(left, 0.2, 0.1, 0.1 + 0.32 * title_lines(title, size[0])))
    axes.set(xlim=(0, size[0] - left - 0.2), ylim=(-0.5 if focus is not None else -0.25, 1.25))
    axes.axis("off")
    _draw_lines(axes, upper, lower, weights, focus)
    _draw_tokens(axes, target_tokens, upper, 1.0, COLOURS["query"], focus)
    _draw_tokens(axes, source_tokens, lower, 0.0, COLOURS["key"], None)
    if focus is not None:
        for place, weight in zip(lower, weights[focus], strict=True):
            axes.text(place, -0.36, weight_text(weight), ha="center", va="center", fontsize=SMALL + 1)
    for name, height in ((target_name, 1.0), (source_name, 0.0)):
        axes.text(-0.15, height, name, ha="right", va="center", fontsize=SMALL + 1, color=GREY)
    write_title(figure, title)
    return figure


def weight_text(weight):
    """A weight that is exactly 0 was masked; a small one was not, and must not look the same."""
    return "0" if weight == 0 else "<0.01" if weight < 0.005 else f"{weight:.2f}"


def token_widths(tokens):
    return [max(0.62, text_inches(token, FONT) + 0.34) for token in tokens]


def row_inches(tokens):
    """How wide a row of tokens is in `attention_lines`."""
    return float(sum(token_widths(tokens)))


def _row_places(tokens):
    """Centres of the tokens in inches, and the width of the row."""
    if not tokens:
        raise ValueError("a row of tokens is empty: give at least one token")
    widths = token_widths(tokens)
    ends = np.cumsum(widths)
    return ends - np.array(widths) / 2, float(ends[-1])


def _draw_lines(axes, upper, lower, weights, focus):
    for (target, source), weight in np.ndenumerate(weights):
        chosen = focus is None or target == focus
        if weight < min(0.004, 0.5 / len(lower)):  # hardly more than nothing, even of many
            continue
        axes.plot(
            [upper[target], lower[source]],
            [0.86, 0.14],
            color=COLOURS["query"] if chosen else GREY,
            alpha=_line_alpha(weight, weights[target].max(), focus is not None, chosen),
            linewidth=float(0.8 + 6 * weight),
            solid_capstyle="round",
        )


def _line_alpha(weight, most, with_focus, chosen):
    """Relative to the row's largest weight for the token in focus, which may look at everything a little."""
    if not with_focus:
        return float(0.12 + 0.83 * weight)
    return float(0.3 + 0.65 * weight / most) if chosen else float(0.25 * weight)


def _draw_tokens(axes, tokens, places, height, edge, focus):
    for index, (token, place) in enumerate(zip(tokens, places, strict=True)):
        axes.text(
            place,
            height,
            token,
            ha="center",
            va="center",
            fontsize=FONT,
            bbox={
                "boxstyle": "round,pad=0.28",
                "facecolor": "#DCEBF5" if index == focus else "white",
                "edgecolor": edge,
                "linewidth": 2.6 if index == focus else 1.4,
            },
        )
