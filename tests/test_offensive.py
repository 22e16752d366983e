"""No generated text contains an offensive word: neither when it is sampled nor in what is saved."""

import codecs
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from utils import paths
from utils.build.slides import read_slides
from utils.data import offensive
from utils.data.offensive import inoffensive, is_offensive


def use_harmless_list(monkeypatch):
    """The real list holds hashes only: put a harmless word in its place."""
    monkeypatch.setattr(offensive, "WORDS", {hashlib.sha256(b"parsnip").hexdigest()[:12]})
    monkeypatch.setattr(offensive, "STEMS", {hashlib.sha256(b"turnip").hexdigest()[:12]})


def test_offensive_words_are_found_in_any_case_and_only_as_words(monkeypatch):
    use_harmless_list(monkeypatch)
    assert is_offensive("A Parsnip, please.")
    assert not is_offensive("parsnippet")
    assert is_offensive("the megaturnips")
    assert not is_offensive("An integer, a negative index, a passage of the document.")


def test_the_real_list_holds_the_stems_it_was_made_for():
    """In rot13, which a reader does not read by accident."""
    for word in ("artre", "avttref", "shpxvat", "snttbg"):
        assert is_offensive(f"is a {codecs.decode(word, 'rot13')} and")


def test_an_offensive_sample_is_drawn_again(monkeypatch):
    use_harmless_list(monkeypatch)
    samples = {3: "a parsnip", 4: "turnips", 5: "a carrot"}
    assert inoffensive(samples.__getitem__, 3) == "a carrot"
    with pytest.raises(ValueError, match="another prompt"):
        inoffensive(lambda seed: "parsnip", 0)


def shown_texts(notebook: dict, folder: Path) -> Iterator[str]:
    """The text of all saved outputs, and of the slides made from them."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            for text in (output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")):
                yield re.sub(r"<[^>]*>", " ", "".join(text))
    for slide in itertools.chain.from_iterable(read_slides(notebook, folder)):
        for part in (*slide.parts, *slide.notes):
            numbers = r'"(float32|sealed|truth)":"[^"]*"|"[A-Za-z0-9+/=]{200,}"'  # of a widget, as letters
            yield re.sub(r"<[^>]*>", " ", re.sub(numbers, "", part))


@pytest.mark.parametrize("path", sorted(paths.LECTURES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_saved_output_and_no_slide_contains_an_offensive_word(path):
    for text in shown_texts(json.loads(path.read_text(encoding="utf-8")), path.parent):
        assert not is_offensive(text), f"choose another seed or prompt, then `make notebooks`: {text[:200]}"
