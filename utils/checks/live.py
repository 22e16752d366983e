"""Output that differs between runs: seconds, "trained" or "loaded", the state of this machine.

Builds and tests suppress it (`COURSE_LIVE=no`), because they save or compare outputs.
"""

import os
from html import escape

from IPython.display import display


def is_live() -> bool:
    return os.environ.get("COURSE_LIVE") != "no"


def display_live(shown, **options) -> None:
    if is_live():
        display(shown, **options)


def show_live(message: str) -> None:
    """Show a message that differs between runs."""
    soft = "color: var(--jp-ui-font-color2, #50565c)"
    forms = {"text/plain": message, "text/html": f'<div style="{soft}">{escape(message)}</div>'}
    display_live(forms, raw=True)
