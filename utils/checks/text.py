"""Plain text to HTML that is readable in light and dark themes, and without any style sheet."""

import html
import re

BORDER = "var(--jp-border-color2, #bdbdbd)"
TONES = {
    "passed": "var(--jp-success-color1, #2e7d32)",
    "failed": "var(--jp-error-color1, #c62828)",
    "not attempted": "var(--jp-border-color1, #9e9e9e)",
    "note": "var(--jp-info-color1, #1565c0)",
}
MARKS = {"passed": "✓", "failed": "✗", "not attempted": "○"}
WORDS = {"passed": "passed", "failed": "failed", "not attempted": "not attempted yet"}


def inline(text: str) -> str:
    """Escaped HTML, with `code` in backticks marked up."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"<code>{html.escape(part)}</code>" if index % 2 else html.escape(part) for index, part in enumerate(parts)
    )


def paragraphs(text: str) -> str:
    """Lines become paragraphs; consecutive indented lines become one block of code."""
    out: list[str] = []
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        if block:
            out.append(preformatted("\n".join(block)))
            block = []
        if line.strip():
            out.append(f'<p style="margin: 4px 0">{inline(line)}</p>')
    return "".join(out)


def preformatted(code: str) -> str:
    style = "margin: 4px 0; padding: 4px 8px; white-space: pre-wrap; background: var(--jp-layout-color2, transparent)"
    return f'<pre style="{style}">{html.escape(code)}</pre>'


def panel(tone: str, content: str) -> str:
    """A panel with a colored left edge; the content states the status in words too."""
    style = f"border-left: 4px solid {TONES[tone]}; padding: 4px 12px; margin: 4px 0; line-height: 1.4"
    return f'<div style="{style}">{content}</div>'
