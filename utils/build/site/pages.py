"""Pages that exist only on the site: the landing page, the slides, the results with plots."""

import html

from utils.build.documents import MEASURED, results_page
from utils.build.hosting import hosted
from utils.build.site.lesson_page import on_site
from utils.build.site.result_plots import plot
from utils.build.transformer_page import NAME as TRANSFORMER_PAGE
from utils.exercises.lessons import LESSONS
from utils.exercises.registry import exercise_count, exercises_of

PLOT = '<div class="plot-scroll">'
TREES = {
    "Lessons": [f"{lesson.number} {lesson.title} <{lesson.name}>" for lesson in LESSONS],
    "Reference": ["Notation and glossary <notation>", "Results <results>", "References <references>"],
    "Take part": [
        "Install and work <students>",
        "Slides and notebooks <slides>",
        "For lecturers <lecturers>",
        "Data <data>",
        "Contribute <contributing>",
    ],
}


def landing_page(widget: str) -> str:
    """A short description of the course next to a live widget, then the lessons."""
    exercises = sum(len(exercises_of(lesson.number)) for lesson in LESSONS)
    trees = "\n\n".join(
        f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```"
        for caption, pages in TREES.items()
    )
    cards = "".join(lesson_card(lesson) for lesson in LESSONS)
    return f"""---
html_theme.sidebar_secondary.remove: true
---
# Attention and the Transformer

<div class="landing"><div class="landing-words">
<p class="lead">Build the Transformer yourself, from a softmax to a pretrained language model, and measure every claim.</p>
<ul><li>{len(LESSONS) - 1} lessons as Jupyter notebooks: short text, formulas, code, figures.</li>
<li>{exercises} exercises whose checks name the misconception.</li>
<li>Results on held-out data over several seeds, including what did not work.</li>
<li>On a laptop: two CPU cores, no GPU, offline.</li></ul>
<p class="buttons"><a class="first" href="{LESSONS[1].name}.html">Read lesson 01</a> <a href="students.html">Run it</a> <a href="slides.html">Slides</a>
<a href="{TRANSFORMER_PAGE}">A Transformer, open</a></p>
</div><div class="landing-widget"><p class="landing-caption"><strong>Drag the query</strong>, the blue arrow, or move it with the arrow keys.</p>
{widget}<p class="landing-caption">Each key gets an attention weight, the softmax of its dot product with the query. The output is the
weighted average of the keys.</p></div></div>

{trees}

## Lessons

<div class="lesson-cards">{cards}</div>
"""


def lesson_card(lesson) -> str:
    return (
        f'<a class="lesson-card" href="{lesson.name}.html"><b>{lesson.number}</b><span><strong>{html.escape(lesson.title)}</strong>'
        f"<em>{html.escape(lesson.question)}</em><small>You measure {html.escape(MEASURED[lesson.name].replace('`', ''))}. "
        f"{lesson.minutes} min, {exercise_count(lesson.number)}.</small></span></a>"
    )


def slides_page() -> str:
    rows = "".join(
        f"<tr><td>{lesson.number}</td><td>{html.escape(lesson.title)}</td>"
        f'<td><a href="slides/{lesson.name}.html">slides</a></td>'
        f'<td><a href="notebooks/exercises/{lesson.name}.ipynb" download>student</a></td>'
        f'<td><a href="notebooks/{lesson.name}.ipynb" download>lecture</a></td></tr>'
        for lesson in LESSONS
    )
    elsewhere = " Where a lesson offers to open it on a host, its first cell gets all of this." if hosted("") else ""
    return f"""# Slides and notebooks

Each deck is a single HTML file that works offline: save it and project it. <kbd>S</kbd> opens the speaker notes, <kbd>Esc</kbd> the overview, <kbd>?</kbd> lists all keys.

<a href="{TRANSFORMER_PAGE}">A Transformer, open</a> is one more such file: the trained translator of lesson 06, computed in the page, every matrix to look at.

Student notebooks have stubs instead of solutions. Their checks, data and figures come from the library of the course, so they run
only inside a copy of the course: see [Install and work](students.md).{elsewhere}

<table class="table slides-table"><thead><tr><th></th><th>lesson</th><th>slides</th><th colspan="2">notebooks</th></tr></thead><tbody>{rows}</tbody></table>
"""


def results_on_site() -> str:
    """docs/results.md with plots; the table below a plot is folded."""
    blocks = results_page(plot=scrolling_plot).split("\n\n")
    for index, block in enumerate(blocks):
        if block.startswith(PLOT):
            blocks[index + 1] = f"<details><summary>Table</summary>\n\n{blocks[index + 1]}\n\n</details>"
    return on_site("\n\n".join(blocks), "docs")


def scrolling_plot(name: str, entry: dict) -> str | None:
    drawn = plot(name, entry)
    return f"{PLOT}{drawn}</div>".replace("\n", " ") if drawn else None
