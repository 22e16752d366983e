"""Formulas drawn when the site is built, as on the slides: pages need no script and no font for them."""

import html

from docutils import nodes
from sphinx.application import Sphinx

from utils.build.slides import formula


def install(application: Sphinx) -> None:
    application.add_html_math_renderer("drawn", (draw_inline, None), (draw_block, None))
    application.config.html_math_renderer = "drawn"


def draw_inline(visitor, node: nodes.math) -> None:
    visitor.body.append(f'<span class="drawn">{formula(node.astext())}</span>')
    raise nodes.SkipNode


def draw_block(visitor, node: nodes.math_block) -> None:
    label = html.escape(" ".join(node.astext().split()), quote=True)
    # A formula wider than the page scrolls by itself, also from the keyboard.
    visitor.body.append(
        f'<div class="drawn" tabindex="0" role="group" aria-label="{label}">{formula(node.astext(), block=True)}</div>'
    )
    raise nodes.SkipNode
