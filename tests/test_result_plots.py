"""Facts about the plots of stored results: they show the stored figures, on any page, to any reader."""

import copy
import re
from collections import Counter
from functools import cache, reduce
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from utils.build.results import RESULTS, read_entry
from utils.build.site.result_plots import PLOTS, plot
from utils.build.site.svg_plots import COLORS, INK
from utils.plots.layout import luminance

NAMES = sorted(PLOTS)
SVG = "{http://www.w3.org/2000/svg}"
# For each plot, one raw figure that it shows.
FIGURES = {
    "attention_costs": (0, "explicit"),
    "bert_speed": ("rows", 0, "speed"),
    "depth": ("gradient", "plain", 2),
    "encoder_speed": (3, "speed"),
    "few_labels": ("rows", 1, "seeds", 0, 2),
    "growth": (0, "seconds", 3),
    "head_costs": (2, "softmax_ms"),
    "in_context": ("rows", 0, "accuracies", 1, 4, 2),
    "length_costs": ("rows", 4, "mb", 3),
    "long_range": (3, "accuracies", 1),
    "memory_seeds_at_once": ("ratio",),
    "memory_table": (7, "errors", 4),
    "modifications": ("rows", 2, "seeds", 1),
    "norms": (5, "accuracies", 0),
    "order_task": (2, "longer", "64", "least"),
    "published_tasks": ("rows", 0, "accuracy", 1, "most"),
    "regression": (3, "spread"),
    "scaling": ("parameters", "loss", 2, 1),
    "several_tasks": ("rows", 6, "seeds", "from scratch", 1),
    "smollm2_speed": ("loop",),
    "transformer_speed": ("cache", 1, "speed"),
    "translation": ("rows", 0, "quarters", 1, "exact_of_seeds", 2),
    "translation_speed": ("lengths", 2, "decoding", "Transformer"),
    "two_positions": (6, "pairs", 3),
    "warmup": (4, "losses", 1),
}


def stored_entry(name):
    return read_entry(RESULTS / f"{name}.json")


@cache
def drawn(name):
    return plot(name, stored_entry(name))


def without_label(svg):
    """What is drawn, without the sentence about it."""
    return svg.split(">", 1)[1]


def test_every_specification_has_a_file_and_every_other_result_has_no_plot():
    stored = {file.stem: file for file in RESULTS.glob("*.json")}
    assert set(NAMES) <= set(stored), "PLOTS names results that are not stored"
    assert all(plot(name, read_entry(file)) is None for name, file in stored.items() if name not in PLOTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_plot_is_an_accessible_picture_in_the_colors_of_its_page(name):
    svg = drawn(name)
    root = ElementTree.fromstring(svg)
    title = stored_entry(name)["title"].replace("`", "")
    assert svg.startswith("<svg ") and root.tag == f"{SVG}svg"
    assert root.get("role") == "img" and root.get("class") == "result-plot"
    assert root.get("width") == "100%" and root.get("height") is None and root.get("viewBox").startswith("0 0 540 ")
    assert root.get("aria-label").startswith(title) and re.search(r"\d", root.get("aria-label").removeprefix(title))
    texts = list(root.iter(f"{SVG}text"))
    assert texts and all("fill: currentColor" in text.get("style") for text in texts)
    assert all(float(re.search(r"font-size: ([\d.]+)px", text.get("style"))[1]) >= 11 for text in texts)
    assert not re.search(r"#000000|black|DejaVu", svg) and INK not in svg


@pytest.mark.parametrize("name", NAMES)
def test_a_plot_reaches_for_nothing_outside_itself(name):
    svg, ids = drawn(name), {element.get("id") for element in ElementTree.fromstring(drawn(name)).iter()}
    assert {tag for tag in ("style", "script", "image", "metadata") if f"<{tag}" in svg} == set()
    used = re.findall(r'href="([^"]*)"|url\(([^)]*)\)', svg)
    assert used and all((link or address).removeprefix("#") in ids for link, address in used)
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_ids_are_unique_among_all_plots_of_a_page():
    ids = Counter(id_ for name in NAMES for id_ in re.findall(r' id="([^"]*)"', drawn(name)))
    assert ids and max(ids.values()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_that_changes_moves_the_plot(name):
    entry = copy.deepcopy(stored_entry(name))
    *path, last = FIGURES[name]
    reduce(lambda part, key: part[key], path, entry["result"])[last] *= 0.93
    assert without_label(plot(name, entry)) != without_label(drawn(name))


def test_names_and_targets_come_from_the_file():
    entry = copy.deepcopy(stored_entry("transformer_speed"))
    entry["targets"][3]["target"] = "at least 3x"
    assert without_label(plot("transformer_speed", entry)) != without_label(drawn("transformer_speed"))
    entry = copy.deepcopy(stored_entry("modifications"))
    entry["rows"][1][0] = "another activation"
    assert ">another activation<" in plot("modifications", entry) and ">another" not in drawn("modifications")


@pytest.mark.parametrize("name", [name for name in NAMES if PLOTS[name][2].get("bars")])
def test_every_target_of_a_ratio_is_drawn(name):
    entry = stored_entry(name)
    ratios = [each["target"] for each in entry["targets"] if re.search("speedup|relative", each["what"])]
    marks = {point.target for point in PLOTS[name][1](entry)} - {None}
    assert marks == {float(re.search(r"[\d.]+", ratio)[0]) for ratio in ratios} != set()


def test_a_row_without_raw_figures_is_not_drawn_over():
    entry = copy.deepcopy(stored_entry("two_positions"))
    del entry["rows"][-1]
    with pytest.raises(ValueError, match="zip"):
        plot("two_positions", entry)


@pytest.mark.parametrize("name", ["scaling", "several_tasks", "transformer_speed"])
def test_a_plot_drawn_again_is_the_same_whatever_the_process_has_set(name):
    with mpl.rc_context({"font.size": 30, "text.color": "red", "svg.hashsalt": None, "svg.fonttype": "path"}):
        assert plot(name, stored_entry(name)) == drawn(name)


@pytest.mark.parametrize("color", [color for color in COLORS if color != INK])
@pytest.mark.parametrize("page", ["#ffffff", "#121212"])
def test_colors_stand_out_on_light_and_dark_pages(color, page):
    dark, light = sorted((luminance(color), luminance(page)))
    assert (light + 0.05) / (dark + 0.05) >= 3
