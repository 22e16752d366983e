"""Output for the reader at the screen that is not saved: seconds, "trained" or "kept"."""

from html import escape

from IPython.display import display

LIVE = {"course": {"live": True}}


def show_live(message: str) -> None:
    """Show a sentence that differs from run to run; the build leaves it out of the saved notebook."""
    soft = "color: var(--jp-ui-font-color2, #50565c)"
    forms = {"text/plain": message, "text/html": f'<div style="{soft}">{escape(message)}</div>'}
    display(forms, raw=True, metadata=LIVE)
