"""Facts about the reader of review snippets, on small tables of our own in the form of the real one."""

import bz2
from collections import Counter

import pytest

from utils.data.docstrings import Example
from utils.data.reviews import FILE, LABELS, ReviewError, read_reviews, split_reviews

HEADER = "category,text,movie_name,has_plot_and_reviews\n"
ROWS = (
    'plot,"A man walks.\n\nHe arrives, at last.",the_walk,True\n'
    'fresh,"Slow, but ""worth"" it.",the_walk,True\n'
    'rotten,"He never\n arrives &amp; nor do we.",the_walk,True\n'
    "fresh,Short and sweet,a_run,False\n"
)


def table(folder, rows: str, header: str = HEADER, name: str = FILE):
    path = folder / name
    data = (header + rows).encode()
    path.write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
    return path


def test_reviews_are_read_and_plots_are_left_out(tmp_path):
    path = table(tmp_path, ROWS)
    assert read_reviews(path) == [
        Example('Slow, but "worth" it.', "fresh", "the_walk"),
        Example("He never arrives & nor do we.", "rotten", "the_walk"),
        Example("Short and sweet", "fresh", "a_run"),
    ]
    assert read_reviews(tmp_path) == read_reviews(path) == read_reviews(table(tmp_path, ROWS, name="plain.csv"))


@pytest.mark.parametrize(
    "rows, message",
    [
        ("good,Fine,a_run,False\n", "expected a category of rotten, fresh, plot, got 'good'"),
        ("fresh,Fine,a_run\n", "expected 4 columns, got 3"),
        ("fresh,  ,a_run,False\n", "got no text"),
        ("fresh,Fine,,False\n", "got no film"),
        ('fresh,"Fine,a_run,False\n', "expected a table with commas and quotes"),
        ('fresh,"Fi"ne,a_run,False\n', "expected a table with commas and quotes"),
    ],
)
def test_an_error_names_the_file_and_the_first_line_of_the_row(tmp_path, rows, message):
    path = table(tmp_path, ROWS + rows)
    with pytest.raises(ReviewError, match=message) as caught:
        read_reviews(path)
    assert str(caught.value).startswith(f"{path}:9: ")  # two of the four rows before it take several lines


def test_an_error_says_what_the_file_should_contain(tmp_path):
    with pytest.raises(ReviewError, match="there is no such file"):
        read_reviews(tmp_path)
    with pytest.raises(ReviewError, match=r":1: expected the columns category,text,.* got text,label"):
        read_reviews(table(tmp_path, "", "text,label\n"))
    with pytest.raises(ReviewError, match="expected rows of reviews, got none"):
        read_reviews(table(tmp_path, 'plot,"A man walks.",the_walk,True\n'))
    with pytest.raises(ReviewError, match="expected rows of reviews, got none"):
        read_reviews(table(tmp_path, "", ""))
    (tmp_path / FILE).write_bytes(b"no bzip2 at all")
    with pytest.raises(ReviewError, match="expected a text file, got "):
        read_reviews(tmp_path)
    (tmp_path / FILE).write_bytes(bz2.compress((HEADER + ROWS).encode())[:-20])
    with pytest.raises(ReviewError, match="expected a text file, got "):
        read_reviews(tmp_path)
    latin = tmp_path / "latin.csv"
    latin.write_bytes(HEADER.encode() + b"fresh,caf\xe9,a_run,False\n")
    with pytest.raises(ReviewError, match=r"latin.csv:2: expected text in UTF-8"):
        read_reviews(latin)


# Splitting


REVIEWS = [
    Example(f"text {film} of {index}", LABELS[index % 2], f"film {film:02}")
    for film in range(40)
    for index in range(10)
]


def by_part(reviews):
    task = split_reviews(reviews)
    return task.train, task.validation, task.test


def test_no_film_and_no_text_is_in_two_parts_and_nothing_is_lost():
    parts = by_part(REVIEWS)
    assert sorted(review for part in parts for review in part) == sorted(REVIEWS)
    films = [{review.source for review in part} for part in parts]
    assert not films[0] & films[1] and not films[0] & films[2] and not films[1] & films[2]
    assert [len(part) for part in parts] == [280, 40, 80]


def test_duplicate_texts_are_kept_once_even_with_other_punctuation_and_case():
    copies = [Example("Text 3, of 4!", "rotten", "film 03"), Example("text 3 of 4", "fresh", "film 03")]
    counts = Counter(review.text for part in by_part([*REVIEWS, *copies]) for review in part)
    assert counts["text 3 of 4"] == 1 and "Text 3, of 4!" not in counts and counts.total() == 400


@pytest.mark.parametrize("first", range(1, 12))
def test_a_film_under_two_names_is_one_film(first):
    """Two names share a review, and a third shares one with the second."""
    shared = [Example(f"text {first} of 0", "fresh", "film 20"), Example("TEXT 20 of 3.", "rotten", "film 39")]
    parts = by_part([*REVIEWS, *shared])
    part_of = {review.source: index for index, part in enumerate(parts) for review in part}
    assert part_of[f"film {first:02}"] == part_of["film 20"] == part_of["film 39"]


def test_the_same_films_are_held_out_whatever_the_order_of_the_rows():
    parts, reordered = ({review.source for review in split_reviews(rows).test} for rows in (REVIEWS, REVIEWS[::-1]))
    assert parts == reordered
