"""How code that trains speaks to whoever watches. It does not know about notebooks: they bring a voice of their own."""

import sys
from collections.abc import Callable


def _on_stderr(message: str) -> None:
    print(message, file=sys.stderr)


_teller: Callable[[str], None] = _on_stderr


def announce(message: str) -> None:
    """Say one sentence to the reader: "trained in 21 s"."""
    _teller(message)


def announce_with(teller: Callable[[str], None] | None) -> None:
    """Let `teller(message)` do the saying from now on; None gives back the default, a line on stderr."""
    global _teller
    _teller = _on_stderr if teller is None else teller
