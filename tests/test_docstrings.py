"""Facts about the labeled and unlabeled text made of docstrings: what is in it, how it is split, and that nothing leaks."""

import random
from collections import Counter

import pytest

from utils.data import docstrings
from utils.data.docstrings import (
    FAMILIES,
    KINDS,
    PARTS,
    TASKS,
    Document,
    Task,
    continuation_task,
    documents,
    families_task,
    family_of,
    few,
    kinds_task,
    parts_of_modules,
    pretraining_texts,
    prose,
    sentences,
    word_order_task,
)
from utils.data.real_text import NoText, paragraphs


def key(text: str) -> str:
    return " ".join(text.lower().split())


@pytest.fixture(scope="module")
def library():
    return documents()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in place of the standard library."""
    monkeypatch.setattr(docstrings, "library_folder", lambda: tmp_path)
    monkeypatch.setattr(docstrings, "documents", documents.__wrapped__)
    return tmp_path


@pytest.fixture(scope="module")
def parts(library):
    return parts_of_modules()


@pytest.fixture(scope="module", params=TASKS)
def task(request, library) -> Task:
    return TASKS[request.param]()


# Reading


def test_docstrings_are_read_and_never_run(folder):
    (folder / "package" / "test").mkdir(parents=True)
    (folder / "site-packages" / "other").mkdir(parents=True)
    (folder / "config-3.11").mkdir()
    (folder / "package" / "__init__.py").write_text('"""The package."""\nraise SystemExit\n', encoding="utf-8")
    (folder / "package" / "one.py").write_text(
        'class A:\n    """A class.\n\n    Indented."""\n    def b(self):\n        "A method."\n        def inner(): "Inner."\n'
        'if x:\n    async def c(): "First."\nelse:\n    def c(): "Second."\n'
        'try:\n    pass\nexcept ImportError:\n    def d(): "Fallback."\n\ndef bare(): pass\n',
        encoding="utf-8",
    )
    for path in ("package/test/two.py", "site-packages/other/three.py", "config-3.11/four.py", "not-a-name.py"):
        (folder / path).write_text('"""Left out."""', encoding="utf-8")
    (folder / "broken.py").write_text("def (:\n", encoding="utf-8")
    assert docstrings.documents() == (
        Document("The package.", "package", "", "module"),
        Document("A class.\n\nIndented.", "package.one", "A", "class"),
        Document("A method.", "package.one", "A.b", "function"),
        Document("Inner.", "package.one", "A.b.inner", "function"),
        Document("First.", "package.one", "c", "function"),
        Document("Fallback.", "package.one", "d", "function"),
    )


def test_a_python_without_sources_is_an_error(folder):
    (folder / "compiled.pyc").write_bytes(b"")
    with pytest.raises(NoText, match="came without the sources of its library"):
        docstrings.documents()
    (folder / "json.py").write_text('"""Left alone."""', encoding="utf-8")
    with pytest.raises(NoText, match="too few docstrings for a task"):
        families_task()


def test_the_library_is_there_without_its_tests(library):
    assert len(library) > 5000 and sum(len(document.text) for document in library) > 1_000_000
    assert {document.kind for document in library} == set(KINDS)
    tops = {part for document in library for part in document.module.split(".")}
    assert not tops & {"test", "tests", "idle_test", "pydoc_data", "pip", "torch"}
    assert len({(document.module, document.name) for document in library}) == len(library)


# The split


def test_each_family_has_modules_in_training_and_in_the_test_and_its_largest_is_trained_on(library, parts):
    sizes = Counter(document.module for document in library)
    families = families_task().labels
    assert {*FAMILIES} - {*families} <= {"editor", "windows"}  # in packages of their own in Debian
    for family in families:
        own = {module: size for module, size in sizes.items() if family_of(module) == family}
        total = sum(own.values())
        fraction = {part: sum(size for module, size in own.items() if parts[module] == part) / total for part in PARTS}
        assert parts[max(own, key=own.get)] == "train", family
        assert 0.05 < fraction["test"] < 0.3 and fraction["validation"] < 0.2, (family, fraction)
    outside = [module for module in sizes if family_of(module) is None]
    assert len(outside) > 100 and all(parts[module] == "train" for module in outside)


# Tasks


def test_no_module_and_no_text_is_in_two_parts(task, parts):
    modules, texts = [], []
    for part in PARTS:
        examples = getattr(task, part)
        assert all(parts[example.source] == part for example in examples)
        modules.append({example.source for example in examples})
        texts.append({key(text) for example in examples for text in (example.text, example.second) if text})
    for first in range(3):
        for second in range(first):
            assert not modules[first] & modules[second] and not texts[first] & texts[second]


def test_every_label_occurs_in_training_and_test(task):
    assert {example.label for example in task.train} == {example.label for example in task.test} == set(task.labels)
    assert {example.label for example in task.validation} <= set(task.labels)
    assert min(Counter(example.label for example in task.train).values()) >= 32
    label_ids = task.label_ids(task.test)
    assert [task.labels[label_id] for label_id in label_ids] == [example.label for example in task.test]


def test_a_docstring_of_many_modules_is_kept_once_and_held_out(folder):
    (folder / "email").mkdir()
    shared = "This is what every module says of itself, in so many words, and it is long enough to be an example."
    for number in range(20):
        own = f"This is what module {number} says of itself, and nobody else does; it is long enough to be an example."
        (folder / "email" / f"m{number:02}.py").write_text(
            f'"""{own}"""\ndef f():\n    """{shared}"""', encoding="utf-8"
        )
    task = families_task()
    assert [[example.text for example in getattr(task, part)].count(shared) for part in PARTS] == [0, 0, 1]


def test_a_random_split_has_parts_of_the_same_sizes_and_most_test_modules_also_in_training():
    honest, leaky = families_task(), families_task(by_module=False)
    assert [len(getattr(leaky, part)) for part in PARTS] == [len(getattr(honest, part)) for part in PARTS]
    assert sorted(leaky.train + leaky.validation + leaky.test) == sorted(honest.train + honest.validation + honest.test)
    trained = {example.source for example in leaky.train}
    assert sum(example.source in trained for example in leaky.test) > 0.9 * len(leaky.test)


def test_kinds_are_balanced_between_classes_and_functions(library):
    task = kinds_task()
    described = {(document.module, key(prose(document.text)))[:2]: document.kind for document in library}
    for part in PARTS:
        counts = Counter(example.label for example in getattr(task, part))
        assert counts["function"] == counts["class"] > counts["module"] > 0
        for example in getattr(task, part)[:200]:
            if len(example.text) < 900:  # longer ones are truncated
                assert described[example.source, key(example.text)] == example.label


def test_a_continuation_is_the_next_sentence_and_the_other_is_from_elsewhere(library):
    task = continuation_task()
    follows = set()
    for document in library:
        own = sentences(document.text)
        follows |= {(document.module, *pair) for pair in zip(own, own[1:], strict=False)}
    for part in PARTS:
        for example in getattr(task, part):
            assert ((example.source, example.text, example.second) in follows) == (example.label == "yes")
        labels = Counter(example.label for example in getattr(task, part))
        assert abs(labels["yes"] - labels["no"]) < 0.05 * labels.total()
    # Neither sentence alone is informative: the second sentence of a "no" follows another one, too.
    seconds = {second for _, _, second in follows}
    assert all(example.second in seconds for example in task.train)


def test_two_adjacent_words_are_swapped_and_nothing_else(library):
    task = word_order_task()
    written = {sentence for document in library for sentence in sentences(document.text)}
    for example in random.Random(0).sample(task.train, 400):
        assert (example.text in written) == (example.label == "as written")
        if example.label == "swapped":
            words = example.text.split(" ")
            back = [" ".join([*words[:at], words[at + 1], words[at], *words[at + 2 :]]) for at in range(len(words) - 1)]
            assert any(text in written for text in back)


def test_few_labels_are_balanced_and_a_larger_draw_contains_the_smaller():
    task = families_task()
    for seed in range(3):
        four = few(task, 4, seed)
        assert Counter(example.label for example in four) == dict.fromkeys(task.labels, 4) and set(four) <= set(
            task.train
        )
        assert set(few(task, 1, seed)) < set(four) < set(few(task, 16, seed))
        assert few(task, 4, seed) == four != few(task, 4, seed + 10)
    assert few(task, None) == task.train


# Unlabeled text


def test_nothing_of_a_held_out_docstring_is_in_the_pretraining_text(library, parts):
    texts = pretraining_texts()
    trained = [key(part) for text in texts.train for part in paragraphs(text)]
    validated = {key(part) for text in texts.validation for part in paragraphs(text)}
    tested = {
        key(part)
        for document in library
        if parts[document.module] == "test"
        for part in paragraphs(prose(document.text))
        if part
    }
    assert not tested & set(trained) and not tested & validated and not validated & set(trained)
    assert len(trained) < 1.001 * len(set(trained))  # hardly a paragraph occurs twice
    assert sum(map(len, texts.train)) > 1_000_000 and sum(map(len, texts.validation)) > 80_000


def test_a_held_out_paragraph_is_removed_even_if_its_sentences_are_too_short_to_be_searched_for():
    held_out, other = "Remove this. It must be empty.", "Remove this. It must be empty. Otherwise nothing happens here."
    assert docstrings._without([f"{held_out}\n\n{other}"], docstrings._keys([held_out])) == (other,)


def test_the_test_texts_of_every_task_are_unseen_in_pretraining(task):
    seen = {key(sentence) for text in pretraining_texts().train for sentence in sentences(text)}
    tested = {key(sentence) for example in task.test for sentence in sentences(example.text) if len(sentence) >= 30}
    assert len(tested) > 200 and len(tested & seen) <= 0.002 * len(tested)
