"""Labelled and unlabelled text without any download: the docstrings of the running Python's standard library.

One split serves everything. Whole modules are held out, for validation and for the test; their text is in no training set,
in no pretraining text, and so in no tokenizer that is trained on that text. Four tasks are made of it:

    families       which family of modules a docstring belongs to, of 14
    kinds          does it describe a module, a class or a function
    continuation   does the second sentence follow the first, or come from elsewhere
    word order     is a sentence as it was written, or have two neighbours changed places

The text differs between versions of Python, so figures measured on it name the version.
"""

import ast
import contextlib
import functools
import gc
import os
import random
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from utils.data.real_text import NOT_READ, NoText, library_folder, paragraphs, topics

KINDS = ("module", "class", "function")
PARTS = ("train", "validation", "test")
VALIDATION_SHARE, TEST_SHARE = 0.12, 0.22
SHORTEST, LONGEST = 80, 1000  # characters of an example: less says too little, and of more the beginning is taken
SENTENCE = range(30, 201)  # characters of a sentence in the tasks about sentences

# The first part of a module's name says to which family it belongs.
FAMILIES = {
    "code": "ast bdb dis inspect pdb pickletools pyclbr symtable tokenize trace traceback",
    "command line": "argparse cmd configparser getopt optparse shlex",
    "concurrency": "asyncio concurrent multiprocessing queue sched selectors subprocess threading",
    "containers": "_collections_abc collections dataclasses enum functools typing weakref",
    "editor": "idlelib",
    "files": "_compression _pyio bz2 filecmp fileinput genericpath glob gzip lzma ntpath os pathlib posixpath shutil tarfile "
    "tempfile zipfile",
    "imports": "importlib modulefinder pkgutil runpy zipapp zipimport",
    "logging": "logging warnings",
    "mail": "email imaplib mailbox poplib smtplib",
    "markup": "html plistlib xml",
    "numbers": "_pydecimal fractions numbers random statistics",
    "testing": "doctest unittest",
    "web": "ftplib http socketserver urllib webbrowser wsgiref xmlrpc",
    "windows": "tkinter turtle",
}
_FAMILY_OF = {top: family for family, tops in FAMILIES.items() for top in tops.split()}


class Document(NamedTuple):
    """A docstring and what it describes: `name` is empty for the module itself, kind is one of `KINDS`."""

    text: str
    module: str
    name: str
    kind: str


class Example(NamedTuple):
    """`second` is there in tasks about two texts only."""

    text: str
    label: str
    module: str
    second: str | None = None


class Task(NamedTuple):
    """A labelled task, split by module: no module has examples in two parts, and no text stands in two."""

    name: str
    labels: tuple[str, ...]
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    def numbers(self, examples: Iterable[Example]) -> Tensor:
        """(n,) long: each example's place in `labels`."""
        place = {label: number for number, label in enumerate(self.labels)}
        return torch.tensor([place[example.label] for example in examples], dtype=torch.long)

    def majority(self) -> float:
        """The share of the test that answering the most frequent label of the training set gets right."""
        answer = Counter(example.label for example in self.train).most_common(1)[0][0]
        return sum(example.label == answer for example in self.test) / len(self.test)


# Reading


def documents(folder: Path | str | None = None) -> tuple[Document, ...]:
    """Every docstring under `folder` (the standard library if None), by file and place. Nothing is imported, so nothing runs.

    Tests and packages of others are left out, and so are files that this Python cannot parse.
    """
    return _documents(library_folder() if folder is None else Path(folder))


@functools.cache
def _documents(folder: Path) -> tuple[Document, ...]:
    found = []
    with _without_collector():
        for place in sorted(_modules(folder)):
            found += _documents_of(
                folder.joinpath(*place).with_suffix(".py"), ".".join(place).removesuffix(".__init__")
            )
    if not found:
        raise NoText(
            f"expected Python files with docstrings in {folder}, got none: this Python came without the sources of its library; "
            "use one from python.org, conda or pyenv"
        )
    return tuple(found)


def _modules(folder: Path) -> Iterator[tuple[str, ...]]:
    """The places of modules below `folder`, as ("json", "decoder"); what is not read is not even looked into."""
    for here, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in NOT_READ and name.isidentifier()]
        place = Path(here).relative_to(folder).parts
        yield from ((*place, name[:-3]) for name in files if name.endswith(".py") and name[:-3].isidentifier())


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """The trees of parsed files have no cycles, but the collector of cycles looks through them again and again: it takes
    three quarters of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _documents_of(path: Path, module: str) -> list[Document]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of the file that is read, and not of ours
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    found: dict[str, Document] = {}
    for node, name in _described(tree, ""):
        text = (ast.get_docstring(node) or "").strip()
        kind = "module" if node is tree else "class" if isinstance(node, ast.ClassDef) else "function"
        if text:
            found.setdefault(name, Document(text, module, name, kind))
    return list(found.values())


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _described(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """All that may carry a docstring, from the outside in; definitions below `if` and `try` count as well."""
    if isinstance(node, ast.Module | Definition):
        yield node, name
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield from _described(child, f"{name}.{child.name}" if name else child.name)
        elif isinstance(child, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            yield from _described(child, name)


def prose(text: str) -> str:
    """The text without its `>>>` examples: from the prompt to the next empty line is code and output, and no English."""
    kept, example = [], False
    for line in text.splitlines():
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            kept.append(line)
    return "\n".join(kept).strip()


# Families and parts


def family_of(module: str) -> str | None:
    """None for a module outside the 14 families."""
    return _FAMILY_OF.get(module.split(".")[0])


def parts_of_modules(folder: Path | str | None = None) -> dict[str, str]:
    """Which part each module belongs to: "train", "validation" or "test".

    In each family modules are taken for the test, and then for validation, until these have their shares of the family's
    docstrings. The largest module of a family stays in training, since some have half of it. The order is that of a checksum of
    the name, so that a module more or less in another Python moves few others. Modules of no family are all for training.
    """
    sizes = Counter(document.module for document in documents(folder))
    parts = dict.fromkeys(sizes, "train")
    for family in FAMILIES:
        modules = {module: size for module, size in sizes.items() if family_of(module) == family}
        total = sum(modules.values())
        order = sorted(modules, key=lambda module: zlib.crc32(module.encode()))
        if order:
            order.remove(max(order, key=modules.__getitem__))
        for part, share in (("test", TEST_SHARE), ("validation", VALIDATION_SHARE)):
            room = share * total
            for module in order:
                # A module may go a little over what is left, but not far.
                if parts[module] == "train" and 0 < modules[module] <= 1.3 * room:
                    parts[module] = part
                    room -= modules[module]
    return parts


def _by_part(examples: Iterable, folder: Path | str | None) -> dict[str, list]:
    parts = parts_of_modules(folder)
    found: dict[str, list] = {part: [] for part in PARTS}
    for example in examples:
        found[parts[example.module]].append(example)
    return found


# Tasks


def families_task(folder: Path | str | None = None, by_module: bool = True) -> Task:
    """Which family of modules does a docstring belong to?

    With `by_module=False` docstrings are dealt at random, in parts of the same sizes. Counting words then looks far better than it
    is: a module's docstrings share its names, and some of them are in training. Such a test must not be used to compare models.
    """
    examples = [Example(one.text, family_of(one.module), one.module) for one in _texts(folder) if family_of(one.module)]
    found = _by_part(examples, folder)
    if not by_module:
        random.Random(0).shuffle(examples)
        found = {part: [examples.pop() for _ in found[part]] for part in PARTS}
    return _task("families", tuple(FAMILIES), found)


def kinds_task(folder: Path | str | None = None, seed: int = 0) -> Task:
    """Does a docstring describe a module, a class or a function? Most describe functions: of these, as many as classes stay."""
    found = _by_part(_texts(folder), folder)
    for number, part in enumerate(PARTS):
        functions = [one for one in found[part] if one.kind == "function"]
        classes = sum(one.kind == "class" for one in found[part])
        chosen = random.Random(3 * seed + number).sample(functions, min(classes, len(functions)))
        drawn = {(one.module, one.name) for one in chosen}
        found[part] = [
            Example(one.text, one.kind, one.module)
            for one in found[part]
            if one.kind != "function" or (one.module, one.name) in drawn
        ]
    return _task("kinds", KINDS, found)


def continuation_task(folder: Path | str | None = None, seed: int = 0) -> Task:
    """Does the second sentence follow the first in its docstring, or was it exchanged with another docstring's?

    Every sentence that stands second with label "no" stands second in its own docstring, so neither sentence alone tells
    anything: only the two together do.
    """
    found = _by_part(_sentences(folder), folder)
    for number, part in enumerate(PARTS):
        pairs = [
            (one, two) for one, two in zip(found[part], found[part][1:], strict=False) if _follow_each_other(one, two)
        ]
        generator = random.Random(3 * seed + number)
        generator.shuffle(pairs)
        half = len(pairs) // 2
        # Passing the second sentences on by one place: none stays where it was, except between two pairs of one docstring.
        exchanged = [(one, pairs[(place + 1) % half][1]) for place, (one, _) in enumerate(pairs[:half])]
        found[part] = [
            *(_pair(one, two, "no") for one, two in exchanged if not _one_docstring(one, two)),
            *(_pair(one, two, "yes") for one, two in pairs[half:]),
        ]
        generator.shuffle(found[part])
    return _task("continuation", ("no", "yes"), found)


def word_order_task(folder: Path | str | None = None, seed: int = 0) -> Task:
    """Is a sentence as it was written, or have two neighbouring words changed places?

    A bag of words knows nothing here: the two words are in the bag all the same.
    """
    found = _by_part(_sentences(folder), folder)
    for number, part in enumerate(PARTS):
        generator = random.Random(3 * seed + number)
        examples = []
        for one in found[part]:
            swapped = _with_two_swapped(one.text, generator)
            if swapped is None:
                continue
            if generator.random() < 0.5:
                examples.append(Example(swapped, "swapped", one.module))
            else:
                examples.append(Example(one.text, "as written", one.module))
        found[part] = examples
    return _task("word order", ("as written", "swapped"), found)


TASKS: dict[str, Callable[..., Task]] = {
    "families": families_task,
    "kinds": kinds_task,
    "continuation": continuation_task,
    "word order": word_order_task,
}


def few(task: Task, per_class: int, seed: int = 0) -> tuple[Example, ...]:
    """`per_class` training examples of each label. With one seed, a larger draw holds the smaller ones."""
    drawn = []
    for label in task.labels:
        found = [example for example in task.train if example.label == label]
        if not 1 <= per_class <= len(found):
            raise ValueError(
                f"expected 1 to {len(found)} examples per class, as many as {label!r} has; got {per_class}"
            )
        random.Random(seed).shuffle(found)
        drawn += found[:per_class]
    return tuple(drawn)


def _task(name: str, labels: Sequence[str], found: dict[str, list[Example]]) -> Task:
    for part in PARTS:
        if not found[part]:
            raise NoText(
                f"expected examples for the {part} of the task {name}, got none: too few modules of the standard library "
                "were found; this Python came without most of its sources"
            )
    return Task(name, tuple(labels), *(tuple(found[part]) for part in PARTS))


def _texts(folder: Path | str | None) -> list[Document]:
    """The documents that tasks are made of: one line of prose each, and no text twice.

    What is said in two places is kept where it is held out.
    """
    parts = parts_of_modules(folder)
    seen, kept = set(), []
    for document in sorted(documents(folder), key=lambda one: PARTS[::-1].index(parts[one.module])):
        text = _beginning(" ".join(prose(document.text).split()))
        if len(text) >= SHORTEST and text.lower() not in seen:
            seen.add(text.lower())
            kept.append(document._replace(text=text))
    return kept


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0]


class _Sentence(NamedTuple):
    text: str
    module: str
    document: str
    place: int


def _sentences(folder: Path | str | None) -> list[_Sentence]:
    """Sentences of middling length that end with a full stop, each once; `place` counts all sentences of its docstring."""
    parts = parts_of_modules(folder)
    seen, kept = set(), []
    for document in sorted(documents(folder), key=lambda one: PARTS[::-1].index(parts[one.module])):
        for place, text in enumerate(sentences(document.text)):
            if len(text) in SENTENCE and text.endswith(".") and text.lower() not in seen:
                seen.add(text.lower())
                kept.append(_Sentence(text, document.module, document.name, place))
    return kept


def sentences(text: str) -> list[str]:
    """The sentences of a docstring's prose. A paragraph ends a sentence, with or without a full stop."""
    return [
        sentence
        for part in paragraphs(prose(text))
        for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(part.split()))
    ]


def _one_docstring(one: _Sentence, two: _Sentence) -> bool:
    return (one.module, one.document) == (two.module, two.document)


def _follow_each_other(one: _Sentence, two: _Sentence) -> bool:
    return _one_docstring(one, two) and two.place == one.place + 1


def _pair(one: _Sentence, two: _Sentence, label: str) -> Example:
    return Example(one.text, label, one.module, two.text)


def _with_two_swapped(text: str, generator: random.Random) -> str | None:
    """The text with two different neighbouring words exchanged, both in small letters; None if it has no such words."""
    words = text.split(" ")
    places = [
        place
        for place, (one, two) in enumerate(zip(words, words[1:], strict=False))
        if one != two and all(re.fullmatch("[a-z]+", word) for word in (one, two))
    ]
    if not places:
        return None
    place = generator.choice(places)
    words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


# Text without labels


class Texts(NamedTuple):
    """Text for pretraining. `validation` is of the modules held out for validation; nothing here is of the test's modules."""

    train: tuple[str, ...]
    validation: tuple[str, ...]


def pretraining_texts(folder: Path | str | None = None) -> Texts:
    """Prose for pretraining and for the tokenizer: docstrings of the standard library and pages of the manual (every tenth is
    for validation).

    A paragraph or sentence that stands in a held-out docstring, of validation or test, is cut from the training text wherever
    it is said again. A paragraph that stands twice is kept once.
    """
    library = _by_part(documents(folder), folder)
    told = {part: [one.text for one in library[part]] for part in PARTS}
    pages = [page for _, page in sorted(topics().items())]
    held = [*told["validation"], *pages[::10]]
    train = [*told["train"], *(page for place, page in enumerate(pages) if place % 10)]
    tested = _said(told["test"])
    validation = _fresh(held, tested)
    return Texts(_fresh(train, tested | _said(validation)), validation)


def _key(text: str) -> str:
    return " ".join(text.lower().split())


def _said(texts: Iterable[str]) -> set[str]:
    """The paragraphs of the texts, and their sentences but for the shortest, which everybody writes."""
    found = set()
    for text in texts:
        found |= {_key(part) for part in paragraphs(prose(text))}
        found |= {_key(one) for one in sentences(text) if len(one) >= SENTENCE.start}
    return found


def _fresh(texts: Iterable[str], said: set[str]) -> tuple[str, ...]:
    """The texts as prose, without what is in `said` and without paragraphs that came before; empty ones are dropped."""
    kept, before = [], set()
    for text in texts:
        parts = []
        for part in paragraphs(prose(text)):
            if _key(part) in before:
                continue
            before.add(_key(part))
            parts.append(" ".join(one for one in sentences(part) if _key(one) not in said))
        if any(parts):
            kept.append("\n\n".join(filter(None, parts)))
    return tuple(kept)
