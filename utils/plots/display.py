"""A static picture as one notebook output: the PNG and its alt text."""

import base64
import sys

from IPython.display import display

from utils.plots.style import checked_alt, figure_png


def picture_bundle(png, alt):
    """(data, metadata) of a static picture: image/png and its alt text as text/plain."""
    alt = checked_alt(alt)
    data = {"image/png": base64.b64encode(png).decode("ascii"), "text/plain": alt}
    # Pages and slides use the metadata; JupyterLab 4.6 and nbconvert 7.17 ignore it. No width and height: a page narrower
    # than the picture would distort it.
    return data, {"image/png": {"alt": alt}}


def show(figure, alt):
    """Display a static figure with its alt text, as one output; the figure is closed afterwards."""
    data, metadata = picture_bundle(figure_png(figure, alt), alt)
    close(figure)
    display(data, metadata=metadata, raw=True)


def close(figure):
    """Close a figure that pyplot may still hold, so that the notebook does not show it twice."""
    # Figures made without pyplot need no closing, and pyplot stays unloaded.
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
