"""From the cells of a notebook to the slides of a deck; tests/browser opens whole decks."""

import base64
import re

import pytest

from utils.build.results import Stored
from utils.build.slides import (
    CODE_LINES,
    SlideError,
    drawing_lines,
    formula,
    lines_of,
    read_slides,
    shown_code,
    split_code,
    with_running_heads,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
OUTPUT = {"output_type": "stream", "name": "stdout"}


def markdown(source, slide_type=None):
    metadata = {"slideshow": {"slide_type": slide_type}} if slide_type else {}
    return {"cell_type": "markdown", "metadata": metadata, "source": source}


def code(source, slide_type=None, outputs=(), tags=()):
    cell = {**markdown(source, slide_type), "cell_type": "code", "outputs": list(outputs)}
    cell["metadata"]["tags"] = list(tags)
    return cell


def shown(data, **metadata):
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def columns_of(tmp_path, *cells):
    return read_slides({"cells": list(cells)}, tmp_path)


def only_slide(tmp_path, *cells):
    return "".join(columns_of(tmp_path, *cells)[0][0].parts)


def test_breaks_are_where_the_metadata_says(tmp_path):
    columns = columns_of(
        tmp_path,
        markdown("before", None),
        markdown("one", "slide"),
        markdown("joined", "-"),
        markdown("left out", "skip"),
        markdown("below", "subslide"),
        {**markdown("left out", "skip"), "metadata": {"course": {"notes": ["for the *speaker*"]}}},
        markdown("two", "slide"),
        markdown("later", "fragment"),
    )
    assert [len(column) for column in columns] == [2, 1]
    first, below = columns[0]
    assert len(first.parts) == 2 and "joined" in first.parts[1]
    assert len(below.notes) == 1 and "for the <em>speaker</em>" in below.notes[0] and not first.notes
    assert 'class="fragment"' in columns[1][0].parts[1]
    assert "left out" not in str(columns) and "before" not in str(columns)


def exercise(body):
    header = "# Exercise 1.1 · a function · easy · 5 min"
    return f"{header}\ndef f():\n{body}\n\n\nf = exercise('1.1').use(f)"


STUB = exercise("    # YOUR CODE HERE\n    raise NotImplementedError()").replace("'", '"')


def test_the_solution_of_an_exercise_takes_the_place_of_its_stub(tmp_path):
    cell = {**code(exercise("    return 1").replace("'", '"'), "-"), "id": "a"}
    ((slide,),) = read_slides({"cells": [markdown("## Try", "slide"), cell]}, tmp_path, {"a": STUB})
    asked, solved = slide.parts[1].split('<div class="input fragment"')
    assert "NotImplementedError" in asked and "fade-out" in asked and "NotImplementedError" not in solved
    assert "return" in solved and "Exercise 1.1 · easy · 5 min, solved" in solved
    assert ".use" not in slide.parts[1], "the line that passes the answer to the check"


def test_long_code_continues_on_the_next_slide(tmp_path):
    body = "\n".join(f"    x{number} = {number}" for number in range(10))
    source = f"def f():\n{body}\n\n\ndef g():\n{body}\n    return (\n        1,\n    )"
    parts = split_code(source)
    assert len(parts) == 2 and parts[1].startswith("def g") and all(lines_of(part) <= CODE_LINES for part in parts)
    ((first, second),) = with_running_heads(
        columns_of(tmp_path, markdown("## Two", "slide"), code(source, "-", [{**OUTPUT, "text": "done"}]))
    )
    assert "done" not in str(first.parts) and "done" in str(second.parts)
    assert '<p class="running">Two, continued</p>' in second.parts[0]


def test_cells_that_together_have_too_much_code_get_two_slides(tmp_path):
    ten = "\n".join(f"x{number} = {number}" for number in range(10))
    ((first, second),) = columns_of(tmp_path, code(ten, "slide"), code(ten, "-"))
    assert first.lines == second.lines == 10


def test_a_slide_without_a_heading_carries_the_one_before_it(tmp_path):
    columns = with_running_heads(
        columns_of(
            tmp_path,
            markdown("# Title", "slide"),
            markdown("## Part *one*", "slide"),
            code("x = 1", "subslide"),
            markdown("### Next", "subslide"),
        )
    )
    heads = ["running" in "".join(slide.parts) for column in columns for slide in column]
    assert heads == [False, False, True, False]
    assert '<p class="running">Part <em>one</em></p>' in columns[1][1].parts[0]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([markdown("a")], "no cell has a slide_type"),
        ([markdown("a", "slides")], "cell 0: slide_type 'slides' is none of"),
        ([markdown("a", "fragment")], "before the first slide"),
        ([markdown("$\\nosuch x$", "slide")], r"cell 0: the formula .* uses \\nosuch"),
        ([markdown("![x](https://example.org/x.png)", "slide")], "is on the network"),
        ([markdown("![x](none.png)", "slide")], "does not exist"),
        ([markdown("see $\\frac{1}\n{2}$ here", "slide")], r"a formula with \\frac was not drawn"),
        ([code("x", "slide", [{"output_type": "error", "ename": "E", "evalue": "bad"}])], "error output: E: bad"),
        ([code("x", "slide", [shown({"text/html": "<script>1</script>"})])], "loads something"),
        ([code("x", "slide", [shown({"text/html": '<img src="//host/x">'})])], "loads something"),
    ],
)
def test_what_cannot_become_a_slide_is_refused_by_name(tmp_path, cells, message):
    with pytest.raises(SlideError, match=message):
        columns_of(tmp_path, *cells)


def test_a_formula_is_a_drawing_that_stands_on_the_line():
    flat, deep = formula("x"), formula(r"\frac{a}{b_j}")
    depth = [float(re.search(r"vertical-align:(-?[\d.]+)em", formula)[1]) for formula in (flat, deep)]
    assert -0.05 < depth[0] <= 0.05 and depth[1] < -0.2
    assert 'role="img"' in deep and r'aria-label="\frac{a}{b_j}"' in deep
    assert "<path" in deep and "<text" not in deep and " id=" not in deep
    assert "display-formula" in formula("x", block=True)


def test_a_relative_link_is_only_its_text_because_a_deck_stands_alone(tmp_path):
    text = "([Xu, *2015*](../docs/references.md#xu2015)) [paper](https://arxiv.org/abs/1502.03044) [next](02.ipynb)"
    page = only_slide(tmp_path, markdown(text, "slide"))
    assert "(Xu, <em>2015</em>)" in page and ">paper</a> next" in page
    assert re.findall(r'href="(.*?)"', page) == ["https://arxiv.org/abs/1502.03044"]


def test_prose_keeps_dollars_in_code_and_carries_local_pictures(tmp_path):
    (tmp_path / "a b.png").write_bytes(base64.b64decode(PIXEL))
    prose = "a `$x$` and $y$ and \\$5\n\n```python\nprice = '$z$'\n```\n\n![a dot](a%20b.png)"
    page = only_slide(tmp_path, markdown(prose, "slide"))
    assert page.count('class="formula"') == 1
    assert "$x$" in page and "$5" in page and "$z$" in page
    assert f'src="data:image/png;base64,{PIXEL}"' in page and 'alt="a dot"' in page


def test_code_that_only_draws_and_marks_of_the_build_are_not_shown():
    marked = code("def f(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n\n\nf(1)")
    assert shown_code(marked) == "def f(x):\n    return x\n\nf(1)"
    source = "a = 1\n\n\ndef picture(t):\n    return a * t\n\n\nexplore(\n    picture,\n    t=(0, 1),\n)"
    assert shown_code(code(source)) == "a = 1"
    used = source.replace("a = 1", "def other():\n    return picture(2)")
    assert "def picture" in shown_code(code(used)), "a function that other code calls stays"
    assert shown_code(code('quiz("1.a")')) == ""
    assert shown_code(code("x = 1\nassert x == 1, 'why'\nfor y in (1, 2):\n    assert y > 0")) == "x = 1"
    assert drawing_lines("%matplotlib inline\nshow(x)") == set()


def test_code_and_its_output_form_a_pair(tmp_path):
    stream = {"output_type": "stream", "name": "stdout", "text": "1 < 2\x1b[31m!\x1b[0m\n"}
    section = shown({"text/html": "<section>a</section>"})
    page = only_slide(tmp_path, code("print(1)", "slide", [stream, section]))
    assert "section" not in page and "<div>a</div>" in page, "an output must not become a slide of its own"
    assert 'class="pair"' in page and "1 &lt; 2!" in page and "\x1b" not in page
    assert 'class="pair"' not in only_slide(tmp_path, code("print(1)", "slide", [stream], ["hide-input"]))
    assert "1 &lt; 2" not in only_slide(tmp_path, code("print(1)", "slide", [stream], ["hide-output"]))


def test_the_label_of_a_stored_result_is_set_apart(tmp_path):
    printed = {**OUTPUT, "text": f"1 2 3\n{Stored('speed', 'a machine', '2026-01-01', {}).label}\n"}
    page = only_slide(tmp_path, code("print(1)", "slide", [printed]))
    assert '<pre class="text">1 2 3</pre>' in page and page.count("Stored, not computed here") == 1
    assert '<p class="stored">' in page


def test_a_picture_carries_its_words_and_a_widget_its_static_form(tmp_path):
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "image/png": PIXEL, "text/plain": "said"}
    output = shown(widget, **{"image/png": {"alt": 'bars "A" and "B"'}})
    page = only_slide(tmp_path, code("x", "slide", [output]))
    assert 'alt="bars &quot;A&quot; and &quot;B&quot;"' in page and f"data:image/png;base64,{PIXEL}" in page
    assert 'alt="said"' in only_slide(tmp_path, code("x", "slide", [shown(widget)]))
