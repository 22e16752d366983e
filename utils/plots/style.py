"""The visual style of every figure: readable from the back row, safe for color-blind readers.

Figures are made without pyplot (`canvas`), so nothing is shown twice and nothing has to be closed.
"""

import io

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from utils.plots.layout import contrast_on_pages, picture_facts

# Okabe and Ito's colors: distinguishable under every common color deficiency. Orange and sky blue are darker than theirs, so
# that every line has a contrast of at least 3 to 1 with white, and with the dark page on which figures are inverted.
BLACK = "#000000"
ORANGE = "#C98700"
SKY = "#3C9BD6"
GREEN = "#009E73"
BLUE = "#0072B2"
RED = "#D55E00"
PINK = "#CC79A7"
BROWN = "#8C510A"
GREY = "#6E6E6E"
MUTED = "#8C8C8C"  # lines in the background
PALE = "#D9D9D9"
DARK_RED = "#A84A00"  # the color of outputs, dark enough for letters on white
DASHES = (0, (4, 2))
WIDEST = 10.0  # inches: in a window of 900 px, where JupyterLab shows it 720 px wide, letters of 12 points have 12 px

# The same thing has the same color in every figure and widget.
COLORS = {
    "query": BLUE,
    "key": ORANGE,
    "value": GREEN,
    "output": RED,
    "weights": BLUE,
    "truth": BLUE,
    "guess": ORANGE,
    "neutral": GREY,
}
# For series without a role, such as several keys: never the color of queries or outputs, and never black,
# which disappears on a dark page.
SERIES = (ORANGE, GREEN, PINK, SKY, BROWN, GREY)

# Numbers are written on these colors. The steps leave out the shades on which neither black nor white letters have a contrast
# of 4.5 to 1 on light and on dark pages.
BLUES, ORANGES = ("#62A7D3", "#2277B0"), ("#DB915C", "#B2570F")
WEIGHTS_MAP = "weights"  # from the page's color to its opposite; the step is at one half
SIGNED_MAP = "signed"  # orange below the middle, blue above it
mpl.colormaps.register(
    LinearSegmentedColormap.from_list(
        WEIGHTS_MAP, [(0, "#EAF2F9"), (0.5, BLUES[0]), (0.5, BLUES[1]), (1, "#00283F")], N=256
    )
)
mpl.colormaps.register(
    LinearSegmentedColormap.from_list(
        SIGNED_MAP,
        [
            (0, "#6B2E00"),
            (0.2, ORANGES[1]),
            (0.2, ORANGES[0]),
            (0.5, "white"),
            (0.8, BLUES[0]),
            (0.8, BLUES[1]),
            (1, "#003A5C"),
        ],
        N=257,
    )
)

WIDTH, HEIGHT, DPI = 8.0, 4.5, 100  # inches, inches, dots per inch: 800 x 450 pixels, about 20-40 kB as PNG
FONT = 14
SMALL = 12

STYLE = {
    "figure.figsize": (WIDTH, HEIGHT),
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "font.family": "DejaVu Sans",  # ships with matplotlib, so every machine draws the same letters
    "font.size": FONT,
    "axes.titlesize": 16,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.labelsize": FONT,
    "xtick.labelsize": SMALL + 1,
    "ytick.labelsize": SMALL + 1,
    "legend.fontsize": SMALL + 1,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 1.2,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 1.0,
    "lines.linewidth": 2.8,
    "lines.markersize": 8,
    "image.cmap": WEIGHTS_MAP,
    "image.interpolation": "nearest",
    "axes.prop_cycle": mpl.cycler(color=[BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK]),
    "svg.hashsalt": "course",
}


def use_style():
    """Make the course's style the default of this process. Importing `utils.plots` calls it."""
    mpl.rcParams.update(STYLE)


def color_of(name):
    """The color of a role such as "query", or the name itself if it is a color already."""
    return COLORS.get(name, name)


def ink_on(shade):
    """The color of letters on this color, black or white: the one with more contrast on light and dark pages."""
    return max((BLACK, "#ffffff"), key=lambda ink: contrast_on_pages(ink, shade))


def canvas(width=WIDTH, height=HEIGHT, rows=1, columns=1, margins=(0.85, 0.25, 0.7, 0.6), gaps=(0.8, 0.9), **options):
    """A figure and its axes with fixed margins: (left, right, bottom, top) and gaps (across, down) in inches.

    Fixed margins keep the axes in place while a slider moves, and cost nothing; a computed layout does neither.
    Returns `figure, axes` with the same shapes of `axes` as `plt.subplots`; `options` go to `Figure.subplots`.
    """
    left, right, bottom, top = margins
    panel_width = (width - left - right - gaps[0] * (columns - 1)) / columns
    panel_height = (height - bottom - top - gaps[1] * (rows - 1)) / rows
    figure = Figure(figsize=(width, height), dpi=DPI)
    axes = figure.subplots(
        rows,
        columns,
        gridspec_kw={
            "left": left / width,
            "right": 1 - right / width,
            "bottom": bottom / height,
            "top": 1 - top / height,
            "wspace": gaps[0] / panel_width,
            "hspace": gaps[1] / panel_height,
        },
        **options,
    )
    return figure, axes


def checked_alt(alt):
    """The alt text on one line; raises an error if it is missing."""
    if not isinstance(alt, str):
        raise TypeError(f"expected alt text as a string, got {type(alt).__name__}; describe what the figure shows")
    line = " ".join(alt.split())
    if not line:
        raise ValueError("the alt text is empty: describe in one sentence what the figure shows")
    return line


def figure_png(figure, alt):
    """The figure as PNG bytes, the same bytes for the same figure. `alt` is required: it goes into the file too."""
    if not isinstance(figure, Figure):  # a student's own figure function
        raise TypeError(f"expected a matplotlib Figure, got {type(figure).__name__}; return the figure, not the axes")
    figure.set_dpi(DPI)
    buffer = io.BytesIO()
    # `savefig` would lay out every text twice, which slows down sliders. Without "Software": None, the version of
    # matplotlib would change the bytes of every picture.
    metadata = {"Software": None, "Description": checked_alt(alt), **picture_facts(figure)}
    FigureCanvasAgg(figure).print_png(buffer, metadata=metadata, pil_kwargs={"compress_level": 3})
    return buffer.getvalue()


def png_size(png):
    """(width, height) in pixels, read from the header of PNG bytes."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def as_array(values, what="the values"):
    """A float64 NumPy array from lists, arrays or tensors (also tensors that require a gradient)."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double().numpy()
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers in rows of equal length: {error}") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite, but {int((~np.isfinite(array)).sum())} of {array.size} are not")
    return array
