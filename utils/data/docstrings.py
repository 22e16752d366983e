"""Text classification and pretraining text without a download: the docstrings of the running Python's standard library.

One split serves everything. Whole modules are held out for validation and test; their text is in no training set, in no
pretraining text, and so in no tokenizer trained on it. Four classification tasks:

    families       topic: which of 14 families of modules a docstring belongs to (12 with Debian's Python, which has parts of the library in packages of their own)
    kinds          does it describe a module, a class or a function
    continuation   next-sentence prediction: does the second sentence follow the first, or come from elsewhere
    word order     is a sentence intact, or are two adjacent words swapped

The text differs between versions of Python, so results measured on it report the version.
"""

import ast
import functools
import gc
import os
import random
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from utils.data.real_text import SKIPPED_FOLDERS, NoText, library_folder, paragraphs, topics

KINDS = ("module", "class", "function")
PARTS = ("train", "validation", "test")
VALIDATION_FRACTION, TEST_FRACTION = 0.12, 0.22
MIN_CHARACTERS, MAX_CHARACTERS = 80, 1000  # of an example; shorter ones are dropped, longer ones truncated
SENTENCE_CHARACTERS = range(30, 201)  # in the sentence tasks

# Families by the first part of a module's name.
FAMILIES = {
    "code": "ast bdb dis inspect pdb pickletools pyclbr symtable tokenize trace traceback",
    "command line": "argparse cmd configparser getopt optparse shlex",
    "concurrency": "asyncio concurrent multiprocessing queue sched selectors subprocess threading",
    "containers": "_collections_abc collections dataclasses enum functools typing weakref",
    "editor": "idlelib",
    "files": "_compression _pyio bz2 filecmp fileinput genericpath glob gzip lzma ntpath os pathlib posixpath shutil "
    "tarfile tempfile zipfile",
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
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Document(NamedTuple):
    """Docstring of a module (`name` is empty), a class or a function; `kind` is one of `KINDS`."""

    text: str
    module: str
    name: str
    kind: str


class Example(NamedTuple):
    """Labeled example; `source`: its module; `second`: the second text of a sentence-pair task, else None."""

    text: str
    label: str
    source: str
    second: str | None = None


class Task(NamedTuple):
    """Classification task, split by source: no source and no text is in two parts."""

    labels: tuple[str, ...]
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    def label_ids(self, examples: Iterable[Example]) -> Tensor:
        """Class indices (n,) long, into `labels`."""
        return torch.tensor([self.labels.index(example.label) for example in examples], dtype=torch.long)

    def majority(self) -> float:
        """Majority-class baseline: test accuracy of the most frequent training label."""
        majority = Counter(example.label for example in self.train).most_common(1)[0][0]
        return sum(example.label == majority for example in self.test) / len(self.test)


@functools.cache
def documents() -> tuple[Document, ...]:
    """All docstrings of the standard library, by file and position. Files are parsed, never run.

    Tests, vendored packages and files that this Python cannot parse are skipped.
    """
    folder, collected, collects = library_folder(), [], gc.isenabled()
    gc.disable()  # syntax trees have no cycles, and searching for some takes three quarters of the time
    try:
        for parts in sorted(_modules(folder)):
            name = ".".join(parts).removesuffix(".__init__")
            collected += _documents_of(folder.joinpath(*parts).with_suffix(".py"), name)
    finally:
        if collects:
            gc.enable()
    if not collected:
        raise NoText(f"{folder}: this Python came without the sources of its library; use one from python.org or conda")
    return tuple(collected)


def _modules(folder: Path) -> Iterator[tuple[str, ...]]:
    """Module paths below `folder`, as ("json", "decoder"); skipped folders are not even listed."""
    for here, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in SKIPPED_FOLDERS and name.isidentifier()]
        parts = Path(here).relative_to(folder).parts
        yield from ((*parts, name[:-3]) for name in files if name.endswith(".py") and name[:-3].isidentifier())


def _documents_of(path: Path, module: str) -> list[Document]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of the parsed file, not of ours
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    documents_by_name: dict[str, Document] = {}
    for node, name in _described(tree, ""):
        text = (ast.get_docstring(node) or "").strip()
        kind = "module" if node is tree else "class" if isinstance(node, ast.ClassDef) else "function"
        if text:
            documents_by_name.setdefault(name, Document(text, module, name, kind))
    return list(documents_by_name.values())


def _described(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that may have a docstring, outer ones first; definitions inside `if` and `try` count as well."""
    if isinstance(node, ast.Module | Definition):
        yield node, name
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield from _described(child, f"{name}.{child.name}" if name else child.name)
        elif isinstance(child, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            yield from _described(child, name)


def prose(text: str) -> str:
    """The text without its doctest examples, from each `>>>` prompt to the next empty line."""
    kept, example = [], False
    for line in text.splitlines():
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            kept.append(line)
    return "\n".join(kept).strip()


def family_of(module: str) -> str | None:
    """None for a module outside the 14 families."""
    return _FAMILY_OF.get(module.split(".")[0])


def parts_of_modules() -> dict[str, str]:
    """Train/validation/test split by module: "train", "validation" or "test" for each.

    In each family, modules go to test and then to validation until these have their fractions of the docstrings.
    The largest module of a family stays in training, since some have half of it. The order is that of a checksum of
    the name, so a module added in another Python moves few others. Modules of no family are all for training.
    """
    sizes = Counter(document.module for document in documents())
    parts = dict.fromkeys(sizes, "train")
    for family in FAMILIES:
        modules = {module: size for module, size in sizes.items() if family_of(module) == family}
        total = sum(modules.values())
        order = sorted(modules, key=lambda module: zlib.crc32(module.encode()))
        if order:
            order.remove(max(order, key=modules.__getitem__))
        for part, fraction in (("test", TEST_FRACTION), ("validation", VALIDATION_FRACTION)):
            room = fraction * total
            for module in order:
                if parts[module] == "train" and modules[module] <= 1.3 * room:  # it may exceed the room a little
                    parts[module] = part
                    room -= modules[module]
    return parts


def _by_part(texts: Iterable) -> dict[str, list]:
    parts = parts_of_modules()
    split: dict[str, list] = {part: [] for part in PARTS}
    for text in texts:
        split[parts[text.module]].append(text)
    return split


# Tasks


def families_task(by_module: bool = True) -> Task:
    """Topic classification: which of 14 families of modules does a docstring belong to?

    `by_module=False` is a leaky random split of the same sizes: a module's docstrings share its names, so a bag of
    words seems far better than it is. Never compare models on it.
    """
    split = _by_part(document for document in _texts() if family_of(document.module))
    split = {part: [Example(d.text, family_of(d.module), d.module) for d in split[part]] for part in PARTS}
    # A family of which this Python has too few modules to hold one out is no class.
    trained, tested = ({example.label for example in split[part]} for part in ("train", "test"))
    labels = [family for family in FAMILIES if family in trained & tested]
    split = {part: [example for example in split[part] if example.label in labels] for part in PARTS}
    if not by_module:
        examples = [example for part in reversed(PARTS) for example in split[part]]
        random.Random(0).shuffle(examples)
        split = {part: [examples.pop() for _ in split[part]] for part in PARTS}
    return _task(labels, split)


def kinds_task() -> Task:
    """Does a docstring describe a module, a class or a function? Functions are subsampled to the number of classes."""
    split = _by_part(_texts())
    for index, part in enumerate(PARTS):
        functions = [document for document in split[part] if document.kind == "function"]
        classes = sum(document.kind == "class" for document in split[part])
        drawn = set(random.Random(index).sample(functions, min(classes, len(functions))))
        split[part] = [
            Example(document.text, document.kind, document.module)
            for document in split[part]
            if document.kind != "function" or document in drawn
        ]
    return _task(KINDS, split)


def continuation_task() -> Task:
    """Next-sentence prediction: does the second sentence follow the first, or does it come from another docstring?

    Every second sentence with label "no" is a second sentence of its own docstring, so neither sentence alone is
    informative: only the pair is.
    """
    split = _by_part(_sentences())
    for index, part in enumerate(PARTS):
        pairs = [
            (first, second)
            for first, second in zip(split[part], split[part][1:], strict=False)
            if first.document == second.document and second.index == first.index + 1
        ]
        generator = random.Random(index)
        generator.shuffle(pairs)
        half = len(pairs) // 2
        # Rotate the second sentences by one: none keeps its first sentence.
        negatives = [(first, pairs[(i + 1) % half][1]) for i, (first, _) in enumerate(pairs[:half])]
        labeled = [(first, "no", second) for first, second in negatives if first.document != second.document]
        labeled += [(first, "yes", second) for first, second in pairs[half:]]
        generator.shuffle(labeled)
        split[part] = [Example(first.text, label, first.module, second.text) for first, label, second in labeled]
    return _task(("no", "yes"), split)


def word_order_task() -> Task:
    """Is a sentence intact, or are two adjacent words swapped? A bag of words stays at chance."""
    split = _by_part(_sentences())
    for index, part in enumerate(PARTS):
        generator = random.Random(index)
        examples = []
        for sentence in split[part]:
            if swapped := _with_two_swapped(sentence.text, generator):
                text, label = (swapped, "swapped") if generator.random() < 0.5 else (sentence.text, "as written")
                examples.append(Example(text, label, sentence.module))
        split[part] = examples
    return _task(("as written", "swapped"), split)


TASKS: dict[str, Callable[[], Task]] = {
    "families": families_task,
    "kinds": kinds_task,
    "continuation": continuation_task,
    "word order": word_order_task,
}


def few(task: Task, per_class: int | None, seed: int = 0) -> tuple[Example, ...]:
    """Few-shot training set: `per_class` examples of each label; all examples for None.

    With one seed, larger draws contain smaller ones.
    """
    if per_class is None:
        return task.train
    drawn = []
    for label in task.labels:
        examples = [example for example in task.train if example.label == label]
        random.Random(seed).shuffle(examples)
        drawn += examples[:per_class]
    return tuple(drawn)


def _task(labels: Iterable[str], split: dict[str, list[Example]]) -> Task:
    if not all(split.values()):
        raise NoText("too few docstrings for a task: this Python came without most of its sources")
    return Task(tuple(labels), *(tuple(split[part]) for part in PARTS))


def _texts() -> list[Document]:
    """Deduplicated documents of the tasks, one line of prose each; of duplicates, the held-out one is kept."""
    seen, kept = set(), []
    for document in _held_out_first():
        text = " ".join(prose(document.text).split())
        text = text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS].rsplit(" ", 1)[0]
        if len(text) >= MIN_CHARACTERS and text.lower() not in seen:
            seen.add(text.lower())
            kept.append(document._replace(text=text))
    return kept


def _held_out_first() -> list[Document]:
    """All documents, those of the test first, then of validation."""
    parts = parts_of_modules()
    return sorted(documents(), key=lambda document: PARTS[::-1].index(parts[document.module]))


class _Sentence(NamedTuple):
    text: str
    module: str
    document: tuple[str, str]  # module and name
    index: int  # among all sentences of the docstring


def _sentences() -> list[_Sentence]:
    """Distinct sentences of medium length that end with a period."""
    seen, kept = set(), []
    for document in _held_out_first():
        for index, text in enumerate(sentences(document.text)):
            if len(text) in SENTENCE_CHARACTERS and text.endswith(".") and text.lower() not in seen:
                seen.add(text.lower())
                kept.append(_Sentence(text, document.module, document[1:3], index))
    return kept


def sentences(text: str) -> list[str]:
    """Sentence segmentation of a docstring's prose. A paragraph ends a sentence, with or without a period."""
    lines = (" ".join(part.split()) for part in paragraphs(prose(text)))
    return [sentence for line in lines for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", line)]


def _with_two_swapped(text: str, generator: random.Random) -> str | None:
    """The text with two different adjacent words swapped, both in lower case; None if it has no such words."""
    words = text.split(" ")
    swappable = [
        index
        for index, pair in enumerate(zip(words, words[1:], strict=False))
        if pair[0] != pair[1] and all(re.fullmatch("[a-z]+", word) for word in pair)
    ]
    if not swappable:
        return None
    index = generator.choice(swappable)
    words[index], words[index + 1] = words[index + 1], words[index]
    return " ".join(words)


# Unlabeled text


class Texts(NamedTuple):
    """Pretraining text. `validation` comes from the validation modules; nothing comes from the test modules."""

    train: tuple[str, ...]
    validation: tuple[str, ...]


def pretraining_texts() -> Texts:
    """Pretraining corpus, also for the tokenizer: docstrings of the standard library and pages of the manual.

    Every tenth page is for validation. Paragraphs and sentences of held-out docstrings (validation, test) are removed
    from the training text wherever they are repeated. Duplicate paragraphs are kept once.
    """
    split = _by_part(documents())
    texts = {part: [document.text for document in split[part]] for part in PARTS}
    pages = [page for _, page in sorted(topics().items())]
    held_out = [*texts["validation"], *pages[::10]]
    train = [*texts["train"], *(page for index, page in enumerate(pages) if index % 10)]
    test_keys = _keys(texts["test"])
    validation = _without(held_out, test_keys)
    return Texts(_without(train, test_keys | _keys(validation)), validation)


def _key(text: str) -> str:
    return " ".join(text.lower().split())


def _keys(texts: Iterable[str]) -> set[str]:
    """Deduplication keys of all paragraphs and of all but the shortest sentences, which repeat by chance."""
    keys = set()
    for text in texts:
        keys |= {_key(part) for part in paragraphs(prose(text))}
        keys |= {_key(sentence) for sentence in sentences(text) if len(sentence) >= SENTENCE_CHARACTERS.start}
    return keys


def _without(texts: Iterable[str], excluded: set[str]) -> tuple[str, ...]:
    """The texts as prose, without the sentences and paragraphs in `excluded` and repeated paragraphs; empty ones are dropped."""
    kept, seen = [], set()
    for text in texts:
        parts = []
        for part in paragraphs(prose(text)):
            if _key(part) not in seen:
                seen.add(_key(part))
                left = " ".join(sentence for sentence in sentences(part) if _key(sentence) not in excluded)
                parts.append(
                    "" if _key(left) in excluded else left
                )  # also if all its sentences are too short for a key
        kept.append("\n\n".join(filter(None, parts)))
    return tuple(filter(None, kept))
