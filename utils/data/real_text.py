"""English text that ships with Python (the topics of its manual), a character tokenizer, and language-model windows.

The text differs between versions of Python, so results measured on it report the version.
"""

import ast
import sysconfig
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

UNKNOWN_CHARACTER = "\N{REPLACEMENT CHARACTER}"
# Folders of the standard library that do not document it: tests, and vendored packages.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "_vendor", "pydoc_data"}
)


class NoText(RuntimeError):
    """Python's own text is not installed; the message says what to do."""


def library_folder() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def topics_file() -> Path:
    path = library_folder() / "pydoc_data" / "topics.py"
    if not path.is_file():
        raise NoText("expected the manual's topics in pydoc_data/topics.py; this Python came without it")
    return path


def topics() -> dict[str, str]:
    """Manual pages as `help()` shows them, by name, without drawn tables: about 80 pages, half a million characters."""
    for node in ast.parse(topics_file().read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "topics":
            return {name: without_tables(text).strip() for name, text in ast.literal_eval(node.value).items()}
    raise NoText("expected a dictionary named topics in pydoc_data/topics.py; this Python keeps them elsewhere")


def without_tables(text: str) -> str:
    """The text without the lines of drawn tables (| and +---+), which are not English."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("|", "+-", "+=")))


def paragraphs(text: str) -> list[str]:
    """Paragraphs: separated by empty lines, stripped."""
    return [part.strip() for part in text.split("\n\n") if part.strip()]


def split_documents(documents: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Train/held-out split by document: whole documents are held out until they make up a tenth of the characters.

    The manual repeats many paragraphs. So that none leaks, a paragraph of a held-out document is removed from the
    training documents, and of other duplicates only the first is kept.
    """
    names = sorted(documents)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(0)).tolist()
    wanted, size, held = 0.1 * sum(map(len, documents.values())), 0, []
    while size < wanted:
        held.append(names[order.pop()])
        size += len(documents[held[-1]])
    seen = set()
    held_out, training = (
        [text for name in sorted(part) if (text := _deduplicated(documents[name], seen))]
        for part in (held, [names[index] for index in order])
    )
    return training, held_out


def _deduplicated(text: str, seen: set[str]) -> str:
    """The paragraphs that are not in `seen`, which they are added to."""
    kept = []
    for part in paragraphs(text):
        key = " ".join(part.split())
        if key not in seen:
            seen.add(key)
            kept.append(part)
    return "\n\n".join(kept)


class CharTokenizer:
    """Character-level tokenizer; id 0 is any character outside the vocabulary."""

    def __init__(self, characters: Iterable[str]):
        self.characters = (UNKNOWN_CHARACTER, *characters)
        self._ids = {character: token_id for token_id, character in enumerate(self.characters)}

    @classmethod
    def build(cls, texts: Iterable[str], min_frequency: int = 1) -> "CharTokenizer":
        """Vocabulary of the characters that occur at least `min_frequency` times, by code point."""
        counts = Counter("".join(texts))
        del counts[UNKNOWN_CHARACTER]
        return cls(sorted(character for character, count in counts.items() if count >= min_frequency))

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Tensor:
        """Token ids (n,) long."""
        return torch.tensor([self._ids.get(character, 0) for character in text], dtype=torch.long)

    def decode(self, token_ids: Iterable[int] | Tensor) -> str:
        return "".join(self.characters[token_id] for token_id in torch.as_tensor(token_ids).tolist())


def windows(texts: Iterable[Tensor], length: int) -> Tensor:
    """Language-model windows (windows, length + 1) of documents (n,), with a stride of `length`.

    Each window starts at the last token of the one before, so every token but a document's first is predicted once.
    The remainder of a document is dropped.
    """
    return torch.cat([text.unfold(0, length + 1, length) for text in texts if len(text) > length])
