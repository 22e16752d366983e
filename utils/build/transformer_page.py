"""The open Transformer as one HTML file that needs neither Python nor a network: `python -m utils.build.transformer_page [FILE]`.

Part of the website; a lecturer can also mail it.
"""

import sys
from pathlib import Path

from utils import paths
from utils.exercises.lessons import LESSONS
from utils.training.stored_translator import translator_config
from utils.widgets.base import page_html, page_script, page_style
from utils.widgets.open_transformer import open_transformer

NAME = "transformer.html"
TITLE = "A Transformer, open"
STYLE = """
:root { color-scheme: light; --pst-color-text-base: #1a1a1a; --pst-color-text-muted: #555; --pst-color-background: #fff; --pst-color-surface: #eee; --pst-color-border: #bbb; }
[data-theme="dark"] { color-scheme: dark; --pst-color-text-base: #eee; --pst-color-text-muted: #b4b4b4; --pst-color-background: #16181c; --pst-color-surface: #2a2d33; --pst-color-border: #5c6068; }
body { margin: 0 auto; padding: 10px 20px; max-width: 1280px; color: var(--pst-color-text-base); background: var(--pst-color-background); font: 16px/1.45 system-ui, sans-serif; }
header { display: flex; gap: 6px 20px; align-items: baseline; flex-wrap: wrap; }
h1 { font-size: 22px; margin: 0; }
header p { margin: 0; flex: 1 1 30em; }
footer { margin: 12px 0; font-size: 14px; color: var(--pst-color-text-muted); max-width: 60em; }
nav:empty { display: none; }
#theme { font: inherit; color: inherit; background: none; border: 1px solid var(--pst-color-border); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
"""
SCRIPT = """
const theme = document.getElementById("theme");
const paint = (dark) => {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  theme.textContent = dark ? "Light" : "Dark";
};
theme.addEventListener("click", () => paint(document.documentElement.dataset.theme !== "dark"));
paint(matchMedia("(prefers-color-scheme: dark)").matches);
startWidget(document.querySelector(".live-widget"));
"""


def transformer_page() -> str:
    config = translator_config()
    held_out, settings = config["held_out"], config["settings"]
    widget = open_transformer()
    names = {widget.script}
    code = page_script(names).replace("</script", "<\\/script")
    url = paths.site_url()  # a mailed file has no neighbors
    course = (
        f'<a href="{url}/index.html">The course</a> · <a href="{url}/{LESSONS[1].name}.html">Read lesson 01</a>'
        if url
        else ""
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title><link rel="icon" href="data:,">
<style>{page_style(names)}{STYLE}</style></head><body>
<header><h1>{TITLE}</h1><p>It translates English into French, here in this page. Type a sentence, click a block, point at a token.</p>
<nav>{course}</nav><button id="theme" type="button"></button></header>
<main>{page_html(widget.page_state())}</main>
<footer>Encoder-decoder Transformer, {settings["num_layers"]} layers in each stack, {config["parameters"]:,} parameters, trained on
{config["num_pairs"]:,} sentence pairs of a small grammar. It translates {100 * held_out["exact"]:.1f} % of {held_out["pairs"]:,} held-out sentences of that
grammar exactly, and knows {len(config["source_tokens"]) - 4} English words: it cannot translate other text.</footer>
<script>{code}{SCRIPT}</script></body></html>
"""


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else paths.SITE / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(transformer_page(), encoding="utf-8")
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
