"""Facts about the reader of review snippets, on small tables of our own in the form of the real one."""

import bz2
from collections import Counter

import pytest

from utils.data.reviews import FILE, Review, ReviewError, labels, read_reviews, split_reviews

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
        Review('Slow, but "worth" it.', True, "the_walk"),
        Review("He never arrives & nor do we.", False, "the_walk"),
        Review("Short and sweet", True, "a_run"),
    ]
    assert read_reviews(tmp_path) == read_reviews(path) == read_reviews(table(tmp_path, ROWS, name="plain.csv"))
    assert labels(read_reviews(path)).tolist() == [1, 0, 1]


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


def many(films: int = 40, each: int = 10) -> list[Review]:
    return [
        Review(f"text {film} of {index}", index % 2 == 0, f"film {film:02}")
        for film in range(films)
        for index in range(each)
    ]


def test_no_film_and_no_text_is_in_two_parts_and_nothing_is_lost():
    reviews = many()
    parts = split_reviews(reviews)
    assert sorted(review for part in parts for review in part) == sorted(reviews)
    films = [{review.film for review in part} for part in parts]
    assert not films[0] & films[1] and not films[0] & films[2] and not films[1] & films[2]
    assert [len(part) for part in parts] == [280, 40, 80]


def test_duplicate_texts_are_kept_once_even_with_other_punctuation_and_case():
    reviews = [*many(), Review("Text 3, of 4!", False, "film 03"), Review("text 3 of 4", True, "film 03")]
    counts = Counter(review.text for part in split_reviews(reviews) for review in part)
    assert counts["text 3 of 4"] == 1 and "Text 3, of 4!" not in counts and counts.total() == 400


def test_a_film_under_two_names_is_one_film():
    # Two names that share a review, and a third that shares one with the second.
    for seed in range(12):
        reviews = [*many(), Review("text 1 of 0", True, "film 20"), Review("TEXT 20 of 3.", False, "film 39")]
        where = {review.film: index for index, part in enumerate(split_reviews(reviews, seed=seed)) for review in part}
        assert where["film 01"] == where["film 20"] == where["film 39"]


def test_the_split_repeats_with_its_seed_and_holds_out_the_same_films_in_any_order():
    reviews = many()
    parts = split_reviews(reviews, seed=2)
    reordered = split_reviews(reviews[::-1], seed=2)
    assert parts == split_reviews(reviews, seed=2) != split_reviews(reviews, seed=3)
    assert {review.film for review in parts.test} == {review.film for review in reordered.test}
