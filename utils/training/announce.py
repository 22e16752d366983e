"""Progress messages of training and downloads. A notebook redirects them; elsewhere they go to stderr."""

import sys
from collections.abc import Callable

_show: Callable[[str], None] | None = None


def announce(message: str) -> None:
    """Show one message to the user: "trained in 21.3 s"."""
    _show(message) if _show else print(message, file=sys.stderr)


def announce_with(show: Callable[[str], None] | None) -> None:
    """Send all later messages to `show(message)`; None restores the default, a line on stderr."""
    global _show
    _show = show
