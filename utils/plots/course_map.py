"""The encoder-decoder Transformer, each part labeled with the lesson that introduces it."""

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from utils.plots.style import BLACK, GREY, canvas

# Two columns of parts, from the bottom up: (name, lesson, height). A part without a lesson is empty space.
TALL, THIN, SPACE = 0.58, 0.3, 0.24
ENCODER = (
    ("token embedding", "03", TALL),
    ("+ position encoding", "04", TALL),
    ("", "", SPACE),
    ("multi-head self-attention", "05", TALL),
    ("add & norm", "05", THIN),
    ("feed-forward", "04", TALL),
    ("add & norm", "05", THIN),
)
DECODER = (
    ("shifted targets", "06", TALL),
    ("+ position encoding", "04", TALL),
    ("", "", SPACE),
    ("self-attention, causal mask", "04", TALL),
    ("add & norm", "05", THIN),
    ("cross-attention", "03", TALL),
    ("add & norm", "05", THIN),
    ("feed-forward", "04", TALL),
    ("add & norm", "05", THIN),
    ("", "", SPACE),
    ("linear, softmax", "01", TALL),
)
BADGES = {  # the part as `badges` of the exercises names it
    "token embedding": "embedding",
    "+ position encoding": "positions",
    "multi-head self-attention": "self_attn",
    "self-attention, causal mask": "mask",
    "cross-attention": "cross_attn",
    "feed-forward": "feed_forward",
    "add & norm": "norm",
    "linear, softmax": "softmax",
}
SIDE = (
    ("01", "softmax attention"),
    ("02", "several hops"),
    ("03", "sequence to sequence"),
    ("04", "self-attention, masks"),
    ("05", "heads, residuals, norm"),
    ("06", "encoder-decoder"),
    ("07", "tokens, pretraining"),
    ("08", "fine-tuning"),
    ("09", "cost, scaling laws"),
)
SHADES = {  # light enough for black letters, also where they are inverted
    "01": "#8CC5E6",
    "02": "#E8BE6A",
    "03": "#7FCDB3",
    "04": "#CFE4F5",
    "05": "#E3B3CD",
    "06": "#EDA97C",
    "07": "#F0E442",
    "08": "#C5E3A8",
    "09": "#D0D0D0",
}


def course_map(badges=None):
    """Encoder on the left, decoder in the middle, list of lessons on the right.

    badges: {part: {"passed", ...}}; a part whose exercise the reader has passed gets a check mark.
    """
    passed = {label for label, part in BADGES.items() if badges and badges[part]["passed"]}
    figure, axes = canvas(10, 7.2, margins=(0.1, 0.1, 0.1, 0.6))
    axes.set(xlim=(0, 11), ylim=(-0.3, 7.2))
    axes.axis("off")
    encoder = _column(axes, ENCODER, 0.25, "encoder", (3, 6), passed)
    decoder = _column(axes, DECODER, 4.1, "decoder", (3, 8), passed)
    _elbow(axes, encoder[6], decoder[5])
    for row, (lesson, topic) in enumerate(SIDE):
        y = 6.2 - 0.66 * row
        axes.add_patch(_box(7.95, y - 0.24, 0.64, 0.48, SHADES[lesson], BLACK))
        axes.text(8.27, y, lesson, ha="center", va="center", fontsize=13, fontweight="bold")
        axes.text(8.72, y, topic, va="center", fontsize=12)
        if lesson not in ("03", "09"):
            axes.plot([7.8], [y], "o", color=BLACK, markersize=6)
    axes.text(7.7, 6.2 - 0.66 * len(SIDE), "●  the short path", va="center", fontsize=12)
    axes.set_title("Nine lessons: where each part of the Transformer comes from", fontsize=17)
    return figure


def _column(axes, parts, left, name, frame, passed, width=3.3):
    """Parts from the bottom up with arrows between them; returns the (left, right, middle height) of each."""
    bottom, edges, step = 0.3, [], 0.2
    for label, lesson, height in parts:
        edges.append((left, left + width, bottom + height / 2))
        if lesson:
            axes.add_patch(_box(left, bottom, width, height, SHADES[lesson], BLACK))
            style = {"va": "center", "zorder": 5, "fontsize": 12}
            axes.text(left + 0.12, bottom + height / 2, lesson, fontweight="bold", **style)
            axes.text(left + 0.55, bottom + height / 2, label, **style)
            if label in passed:
                axes.text(left + width - 0.05, bottom + height / 2, "✓", ha="right", fontweight="bold", **style)
            if bottom > 0.3:
                start = bottom - step - (SPACE + step if parts[len(edges) - 2][0] == "" else 0)
                _arrow(axes, (left + width / 2, start), (left + width / 2, bottom))
        bottom += height + step
    first, last = edges[frame[0]], edges[frame[1]]
    low, high = first[2] - TALL / 2 - 0.14, last[2] + THIN / 2 + 0.14
    axes.add_patch(_box(left - 0.2, low, width + 0.4, high - low, "#F1F1F1", GREY, order=0))
    axes.text(left - 0.15, high + 0.02, "N layers", ha="left", va="bottom", fontsize=12, color="#444444")
    axes.text(left + width / 2, 0.12, name, ha="center", va="top", fontsize=14, color="#444444")
    return edges


def _elbow(axes, source, target):
    """An arrow from the top of the encoder to the right, then into the decoder."""
    (_, right, top), (left, _, height) = source, target
    middle, up = right + 0.35, top + THIN / 2 + 0.62
    x = (source[0] + right) / 2
    axes.plot([x, x, middle, middle], [top + THIN / 2, up, up, height], color=BLACK, linewidth=1.8, zorder=4)
    _arrow(axes, (middle, height), (left, height))


def _box(left, bottom, width, height, face, edge, order=3):
    shape = "round,pad=0,rounding_size=0.1"
    return FancyBboxPatch(
        (left, bottom), width, height, boxstyle=shape, facecolor=face, edgecolor=edge, linewidth=1.2, zorder=order
    )


def _arrow(axes, start, end):
    style = {"arrowstyle": "-|>", "mutation_scale": 13, "linewidth": 1.8, "color": BLACK, "zorder": 4}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **style))
