"""Sentiment classification on Rotten Tomatoes: 12,808 snippets of film reviews, fresh (positive) or rotten (negative).

They come in a table, `rotten_tomatoes_corpus_full.csv.bz2`, that a package of the Python index carries; its rows are
`category,text,movie_name,has_plot_and_reviews`. Rows that summarize a plot are left out.
"""

import csv
import html
import io
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from utils.data.docstrings import Example, Task
from utils.data.text_files import read_text

FILE = "rotten_tomatoes_corpus_full.csv.bz2"
COLUMNS = ("category", "text", "movie_name", "has_plot_and_reviews")
LABELS = ("rotten", "fresh")
PLOT = "plot"
VALIDATION_FRACTION, TEST_FRACTION = 0.1, 0.2


class ReviewError(ValueError):
    """Not the table of reviews; the message starts with file and line."""


def review_file(path: Path | str) -> Path:
    """The table, from its own path or from that of its folder."""
    return Path(path) / FILE if Path(path).is_dir() else Path(path)


def read_reviews(path: Path | str) -> list[Example]:
    """Snippets of the table at `path` (the file, compressed or not, or its folder); `source` is the film.

    HTML entities are decoded.
    """
    path = review_file(path)
    rows = csv.reader(io.StringIO(read_text(path, ReviewError), newline=""), strict=True)
    reviews = []
    start = 1  # a quoted text may have line breaks, so a row may begin lines before it ends
    try:
        for row in rows:
            if start == 1 and tuple(row) != COLUMNS:
                raise ReviewError(f"{path}:1: expected the columns {','.join(COLUMNS)}, got {','.join(row)[:100]}")
            if start > 1 and row and (review := _review(row, f"{path}:{start}")):
                reviews.append(review)
            start = rows.line_num + 1
    except csv.Error as error:
        raise ReviewError(f"{path}:{start}: expected a table with commas and quotes, got {error}") from None
    if not reviews:
        raise ReviewError(f"{path}: expected rows of reviews, got none; take {FILE} as it comes")
    return reviews


def _review(row: Sequence[str], where: str) -> Example | None:
    """None for a plot summary."""
    if len(row) != len(COLUMNS):
        raise ReviewError(f"{where}: expected {len(COLUMNS)} columns, got {len(row)}")
    category, text, film, _ = row
    if category == PLOT:
        return None
    if category not in LABELS:
        raise ReviewError(f"{where}: expected a category of {', '.join((*LABELS, PLOT))}, got {category!r}")
    text = " ".join(html.unescape(text).split())
    if not text or not film.strip():
        raise ReviewError(f"{where}: expected a text and a film, got {'no text' if film.strip() else 'no film'}")
    return Example(text, category, film.strip())


def split_reviews(reviews: Sequence[Example]) -> Task:
    """Train/validation/test split by film: no film and no text is in two parts.

    Duplicate texts are kept once. Some films are in the table under two names and share reviews, so films that share a
    text, in whatever case and punctuation, count as one film. The split does not depend on the order of the rows.
    """
    unique, film_of = {}, _canonical_names(reviews)
    for review in reviews:
        unique.setdefault(_key(review.text), review)
    films = sorted(set(film_of.values()))
    random.Random(0).shuffle(films)
    sizes = Counter(film_of[review.source] for review in unique.values())
    num_test, num_held_out = (
        round(fraction * len(unique)) for fraction in (TEST_FRACTION, TEST_FRACTION + VALIDATION_FRACTION)
    )
    part_of, taken = {}, 0
    for film in films:
        part_of[film] = 2 if taken < num_test else 1 if taken < num_held_out else 0
        taken += sizes[film]
    parts: tuple[list[Example], ...] = ([], [], [])
    for review in unique.values():
        parts[part_of[film_of[review.source]]].append(review)
    return Task(LABELS, *map(tuple, parts))


def _key(text: str) -> str:
    """Deduplication key: the text without case, punctuation and spaces; the text itself if nothing is left."""
    return "".join(character for character in text.lower() if character.isalnum()) or text


def _canonical_names(reviews: Sequence[Example]) -> dict[str, str]:
    """Union-find over films that share a text: each name maps to the alphabetically first name of its set."""
    parent = {review.source: review.source for review in reviews}

    def root(film: str) -> str:
        while parent[film] != film:
            film = parent[film]
        return film

    first: dict[str, str] = {}
    for review in reviews:
        first_film = first.setdefault(_key(review.text), review.source)
        first_name, second_name = sorted((root(review.source), root(first_film)))
        parent[second_name] = first_name
    return {film: root(film) for film in parent}
