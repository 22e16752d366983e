"""The picture rules, on the very pictures that lessons show."""

import base64
import io
import json

import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb
from PIL import Image

from tests.browser import lessons
from tests.picture_rules import rules_broken_by, smallest_pixels
from utils.build.widget_pictures import WIDGET_MARK
from utils.plots import show
from utils.plots.course_map import course_map
from utils.plots.layout import KEY, contrast, in_dark, layout_facts
from utils.plots.style import DPI, canvas, figure_png

FEWEST_WORDS, MOST_WORDS = 6, 400


def pictures_of(name):
    """(its cell, alt text, picture) of every PNG that a lecture saved."""
    for index, cell in enumerate(lessons.cells_of(lessons.lecture(name))):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            assert "<img" not in "".join(data.get("text/html", "")), f"cell {index}: use show()"
            if "image/png" in data:
                picture = Image.open(io.BytesIO(base64.b64decode("".join(data["image/png"]))))
                yield f"cell {index} of {name}", output["metadata"].get("image/png", {}).get("alt", ""), picture


# What lessons show


@pytest.mark.parametrize("name", lessons.NAMES)
def test_every_picture_of_a_lecture_has_alt_text_also_in_its_file_and_keeps_the_rules(name):
    """The file's own text is what a screen reader gets in JupyterLab, the output's is for decks and other pages."""
    pictures = list(pictures_of(name))
    assert pictures, f"{name} has no picture"
    for cell, alt, picture in pictures:
        assert FEWEST_WORDS <= len(alt.split()) <= MOST_WORDS, f"{cell}: {alt!r}"
        assert picture.text["Description"] == alt
        if WIDGET_MARK in picture.text:  # a screenshot of a widget, which has browser tests of its own
            continue
        assert picture.width >= 400 and 100 <= picture.height <= 900, (cell, picture.size)
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
        assert (pixels != pixels[0]).any(1).mean() > 0.005, f"{cell} is empty"
        assert KEY in picture.text, f"{cell} carries no facts: run `make notebooks`"
        facts = json.loads(picture.text[KEY])
        assert [round(DPI * side) for side in facts["inches"]] == pytest.approx(picture.size, abs=1), "facts of another"
        assert rules_broken_by(facts) == [], f"{cell}: {alt}"


# Facts are true


def test_a_bad_figure_has_bad_facts_and_breaks_every_rule():
    figure, axes = canvas(13, 9.5)
    axes.axhspan(0, 1, facecolor="#0072B2")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.text(0.5, 0.2, "dark on dark", color="#222222")
    axes.text(0.5, 0.4, "light on dark", color="white")
    axes.text(0.5, 0.6, "one text", color="white")
    axes.text(0.51, 0.6, "another text", color="white")
    axes.text(0.98, 0.8, "over the edge of the picture", color="white")
    axes.text(0.1, 0.9, "tiny", fontsize=6, color="white")
    facts = layout_facts(figure)
    assert facts["inches"] == [13, 9.5] and facts["smallest"] == 6
    assert facts["cut"] == ["over the edge of the picture"]
    assert facts["overlaps"] == [["one text", "another text"]]
    assert {words for words, _ in facts["faint"]} >= {"dark on dark"} and "light on dark" not in str(facts["faint"])
    assert len(rules_broken_by(facts)) >= 5


def test_the_smallest_letters_are_those_of_a_formula_and_shrink_with_a_wide_figure():
    figure, axes = canvas(7.2, 4)
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, "letters", fontsize=12)
    assert smallest_pixels(layout_facts(figure)) == pytest.approx(12 * 100 / 72)
    figure.set_size_inches(14.4, 4)
    assert smallest_pixels(layout_facts(figure)) == pytest.approx(6 * 100 / 72)
    axes.text(0.5, 0.2, "$10^{-3}$", fontsize=12)
    assert smallest_pixels(layout_facts(figure)) == pytest.approx(0.7 * 6 * 100 / 72)


def test_texts_and_lines_that_are_faint_on_a_dark_page_only_are_found():
    figure, axes = canvas()
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    axes.axhspan(0, 1, facecolor="#2B8AC8")
    axes.text(0.5, 0.5, "black letters")
    axes.plot([0, 1], [0, 1], color="#E69F00", label="a line")
    axes.plot([0, 1], [0, 1], color="#0072B2", label="another")
    assert contrast("black", "#2B8AC8") > 4.5
    assert [words for words, _ in layout_facts(figure)["faint"]] == ["black letters", "a line"]


def test_a_dark_page_shows_white_as_its_own_color_black_as_white_and_keeps_hues():
    assert to_hex(in_dark("white")) == "#111111" and to_hex(in_dark("white", "#121212")) == "#121212"
    assert to_hex(in_dark("black")) == "#ffffff"
    for shade in ("#0072B2", "#D55E00", "#009E73"):
        before, after = (rgb_to_hsv(rgb)[0] for rgb in (to_rgb(shade), in_dark(shade)))
        assert abs(before - after) < 0.05


def test_tick_labels_out_of_sight_are_no_texts():
    figure, axes = canvas()
    axes.set(xlim=(0, 1), xticks=[0, 1, 50])
    assert layout_facts(figure)["cut"] == []


def test_contrast_is_that_of_the_published_rule():
    assert contrast("white", "black") == pytest.approx(21) == contrast("black", "white")
    assert contrast("#767676", "white") == pytest.approx(4.54, abs=0.01)
    assert contrast("#E69F00", "#E69F00") == 1


def test_facts_travel_in_the_file_while_a_lesson_is_built_and_the_bytes_are_the_same_twice(monkeypatch):
    plain = figure_png(course_map(), "the map")
    assert KEY not in Image.open(io.BytesIO(plain)).text
    monkeypatch.setenv("COURSE_BUILD", "1")
    first, second = (figure_png(course_map(), "the map") for _ in range(2))
    assert first == second
    assert json.loads(Image.open(io.BytesIO(first)).text[KEY]) == layout_facts(course_map())


def test_show_gives_a_picture_and_its_alt_text_as_one_output(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("utils.plots.display.display", lambda data, metadata, raw: shown.append((data, metadata)))
    show(course_map(), alt="All parts\n of the machine.")
    ((data, metadata),) = shown
    assert data["text/plain"] == metadata["image/png"]["alt"] == "All parts of the machine."
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


@pytest.mark.parametrize(("alt", "error"), [("", ValueError), ("  \n ", ValueError), (None, TypeError)])
def test_a_picture_without_alt_text_is_refused(alt, error):
    with pytest.raises(error, match="describe .*what the figure shows"):
        figure_png(course_map(), alt)
