"""A bar that fills while something is fetched: a line in a terminal, a live output in a notebook, silence elsewhere."""

from html import escape

from IPython import get_ipython
from IPython.display import display
from tqdm import tqdm

from utils.course.live import LIVE


def bar(what: str, total: int):
    """A bar of `total` bytes (0: unknown) as a context; its `at(done)` says how many there are."""
    shell = get_ipython()
    return NotebookBar(what, total) if hasattr(shell, "kernel") else TerminalBar(what, total)


def at_most(done: int, total: int | None) -> int:
    """A file that turns out larger than announced must not push the bar beyond its end."""
    return min(done, total) if total else done


class TerminalBar:
    """One line on stderr, taken away at the end; nothing at all where nobody sits at a terminal."""

    def __init__(self, what: str, total: int):
        self._line = tqdm(desc=what, total=total or None, unit="B", unit_scale=True, disable=None, leave=False)

    def at(self, done: int) -> None:
        self._line.update(at_most(done, self._line.total) - self._line.n)

    def __enter__(self) -> "TerminalBar":
        return self

    def __exit__(self, *problem) -> None:
        self._line.close()


class NotebookBar:
    """A bar below the cell, marked as live: the build keeps it out of the saved notebook."""

    def __init__(self, what: str, total: int):
        self._what, self._total, self._done = what, total, 0
        self._handle = display(self._forms(), raw=True, metadata=LIVE, display_id=True)

    def at(self, done: int) -> None:
        done = at_most(done, self._total)
        if done != self._done:
            self._done = done
            self._handle.update(self._forms(), raw=True, metadata=LIVE)

    def _forms(self) -> dict[str, str]:
        whole = f" of {self._total / 1e6:.0f}" if self._total else ""
        text = f"{self._what}: {self._done / 1e6:.0f}{whole} MB"
        soft = "color: var(--jp-ui-font-color2, #50565c)"
        filled = f' value="{self._done}" max="{self._total}"' if self._total else ""
        drawn = f'<progress{filled} aria-label="{escape(self._what)}"></progress>'
        return {"text/plain": text, "text/html": f'<div style="{soft}">{drawn} {escape(text)}</div>'}

    def __enter__(self) -> "NotebookBar":
        return self

    def __exit__(self, *problem) -> None:
        """It stays where it is: full, or where the download broke off."""
