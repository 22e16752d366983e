"""Snippets of film reviews, each fresh (the reviewer liked the film) or rotten: real sentiment, 12,808 of them.

They come in a table, `rotten_tomatoes_corpus_full.csv.bz2`, that a package of the Python index carries; its rows are
`category,text,movie_name,has_plot_and_reviews`. Some rows tell a film's plot and are left out.
"""

import bz2
import csv
import html
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

FILE = "rotten_tomatoes_corpus_full.csv.bz2"
COLUMNS = ("category", "text", "movie_name", "has_plot_and_reviews")
LABELS = ("rotten", "fresh")
PLOT = "plot"


class ReviewError(ValueError):
    """A file that is not the table of reviews; the message starts with file and line."""


class Review(NamedTuple):
    text: str
    fresh: bool
    film: str = ""
    second: None = None  # a task about one text


class Reviews(NamedTuple):
    train: tuple[Review, ...]
    validation: tuple[Review, ...]
    test: tuple[Review, ...]


def read_reviews(path: Path | str) -> list[Review]:
    """The snippets of the table at `path`, in its order, with plain spaces and with & for &amp;. `path` is the file, packed or not, or its folder."""
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    rows = csv.reader(io.StringIO(_content(path), newline=""), strict=True)
    found = []
    start = 1  # a quoted text may have line breaks, so a row may begin lines before it ends
    try:
        for row in rows:
            where = f"{path}:{start}"
            if start == 1:
                _require_header(row, where)
            elif row and (review := _review(row, where)):
                found.append(review)
            start = rows.line_num + 1
    except csv.Error as error:
        raise ReviewError(f"{path}:{start}: expected a table with commas and quotes, got {error}") from None
    if not found:
        raise ReviewError(f"{path}: expected rows of reviews, got none; take {FILE} as it comes")
    return found


def _content(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ReviewError(
            f"{path}: expected the table of reviews, but there is no such file; fetch it or put it there"
        ) from None
    if path.suffix == ".bz2":
        try:
            data = bz2.decompress(data)
        except (OSError, ValueError) as error:
            raise ReviewError(f"{path}: expected a file packed with bzip2, got {error}; fetch it again") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ReviewError(f"{path}:{line}: expected text in UTF-8, got {error.reason} at byte {error.start}") from None


def _require_header(row: Sequence[str], where: str) -> None:
    if tuple(row) != COLUMNS:
        raise ReviewError(f"{where}: expected the columns {','.join(COLUMNS)}, got {','.join(row)[:100]}")


def _review(row: Sequence[str], where: str) -> Review | None:
    """None for a row that tells a plot."""
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
    return Review(text, category == "fresh", film.strip())


def labels(reviews: Sequence[Review]) -> Tensor:
    """(n,) long: 1 is fresh, 0 is rotten, as in `LABELS`."""
    return torch.tensor([review.fresh for review in reviews], dtype=torch.long)


# Splitting


def split_reviews(reviews: Sequence[Review], validation: float = 0.1, test: float = 0.2, seed: int = 0) -> Reviews:
    """Parts without a common film, and without a common text.

    A text that comes again is kept once. Some films are in the table under two names and share reviews, so films that share a
    text, in whatever case and punctuation, count as one film. The same films are held out whatever the order of the rows.
    """
    once, film_of = {}, _one_name_per_film(reviews)
    for review in reviews:
        once.setdefault(_key(review.text), review)
    films = sorted(set(film_of.values()))
    random.Random(seed).shuffle(films)
    sizes = dict.fromkeys(films, 0)
    for review in once.values():
        sizes[film_of[review.film]] += 1
    part_of, taken = {}, 0
    for_test, held_out = round(test * len(once)), round((test + validation) * len(once))
    for film in films:
        part_of[film] = 2 if taken < for_test else 1 if taken < held_out else 0
        taken += sizes[film]
    parts: tuple[list[Review], ...] = ([], [], [])
    for review in once.values():
        parts[part_of[film_of[review.film]]].append(review)
    if not all(parts):
        raise ValueError(f"expected films enough for three parts, got {len(films)}: {', '.join(films[:5])}")
    return Reviews(*map(tuple, parts))


def _key(text: str) -> str:
    """What two texts have in common if they differ in case, marks and spaces only; the text itself if it is all marks."""
    return "".join(one for one in text.lower() if one.isalnum()) or text


def _one_name_per_film(reviews: Sequence[Review]) -> dict[str, str]:
    """For each name of a film, the first in the alphabet of all names that are joined to it by common texts."""
    name = {review.film: review.film for review in reviews}

    def root(film: str) -> str:
        while name[film] != film:
            film = name[film]
        return film

    first: dict[str, str] = {}
    for review in reviews:
        one, two = sorted((root(review.film), root(first.setdefault(_key(review.text), review.film))))
        name[two] = one
    return {film: root(film) for film in name}
