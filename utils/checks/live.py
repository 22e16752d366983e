"""Output for the reader at the screen: seconds, "trained" or "loaded", the state of this machine.

It differs from run to run, so builds and tests leave it out (`COURSE_LIVE=no`): what they save or compare is the rest.
"""

import os
from html import escape

from IPython.display import display


def display_live(shown, **options) -> None:
    if os.environ.get("COURSE_LIVE") != "no":
        display(shown, **options)


def show_live(message: str) -> None:
    """Show a sentence that differs from run to run."""
    soft = "color: var(--jp-ui-font-color2, #50565c)"
    forms = {"text/plain": message, "text/html": f'<div style="{soft}">{escape(message)}</div>'}
    display_live(forms, raw=True)
