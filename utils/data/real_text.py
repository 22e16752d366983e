"""Real English that is on every machine with Python: the manual's topics.

The text differs between versions of Python, so figures measured on it name the version.
"""

import ast
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

UNKNOWN_CHARACTER = "\N{REPLACEMENT CHARACTER}"
# Of the standard library, but not about it: tests, and packages of others that come along.
NOT_READ = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "_vendor", "pydoc_data"}
)


class NoText(RuntimeError):
    """The text is not where it should be; the message says what to do."""


def library_folder() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def topics_file() -> Path:
    path = library_folder() / "pydoc_data" / "topics.py"
    if not path.is_file():
        raise NoText(
            f"expected the manual's topics in {path.name} of the folder pydoc_data; this Python came without it"
        )
    return path


def topics() -> dict[str, str]:
    """The manual's pages as `help()` shows them, but without drawn tables, by name; about 80, half a million characters."""
    for node in ast.parse(topics_file().read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "topics":
            return {name: without_tables(text).strip() for name, text in ast.literal_eval(node.value).items()}
    raise NoText("expected a dictionary named topics in pydoc_data/topics.py; this Python keeps them elsewhere")


def without_tables(text: str) -> str:
    """The text without the lines of drawn tables (| and +---+): hundreds of spaces and dashes are no English."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("|", "+-", "+=")))


# Splitting by document


def paragraphs(text: str) -> list[str]:
    """Parts between empty lines; the spaces at their ends are not part of them."""
    return [part.strip() for part in text.split("\n\n") if part.strip()]


def split_documents(documents: Mapping[str, str], share: float = 0.1, seed: int = 0) -> tuple[list[str], list[str]]:
    """Training and held-out documents. Whole documents are held out until they make up `share` of the characters.

    The manual says many things twice, on a page of their own and on the page that collects them. So a paragraph that stands
    in a held-out document is cut from the training documents, and one that stands twice is kept where it comes first.
    """
    names = sorted(documents)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed)).tolist()
    wanted, size, held = share * sum(map(len, documents.values())), 0, []
    while size < wanted:
        held.append(names[order.pop()])
        size += len(documents[held[-1]])
    seen = set()
    parts = []
    for part in (held, [names[place] for place in order]):
        fresh = [_only_new(documents[name], seen) for name in sorted(part)]
        parts.append([text for text in fresh if text])
    return parts[1], parts[0]


def _only_new(text: str, seen: set[str]) -> str:
    kept = []
    for part in paragraphs(text):
        key = " ".join(part.split())
        if key not in seen:
            seen.add(key)
            kept.append(part)
    return "\n\n".join(kept)


# Characters


class Characters:
    """Numbers for characters; 0 is for any that the training text does not have."""

    def __init__(self, characters: Iterable[str]):
        self.characters = (UNKNOWN_CHARACTER, *characters)
        self._number = {character: number for number, character in enumerate(self.characters)}

    @classmethod
    def of(cls, texts: Iterable[str], at_least: int = 1) -> "Characters":
        counts: dict[str, int] = {}
        for text in texts:
            for character in text:
                counts[character] = counts.get(character, 0) + 1
        return cls(sorted(one for one, count in counts.items() if count >= at_least and one != UNKNOWN_CHARACTER))

    def __len__(self) -> int:
        return len(self.characters)

    def numbers(self, text: str) -> Tensor:
        """(n,) long."""
        return torch.tensor([self._number.get(character, 0) for character in text], dtype=torch.long)

    def text(self, numbers: Iterable[int] | Tensor) -> str:
        return "".join(self.characters[number] for number in torch.as_tensor(numbers).tolist())


def windows(texts: Iterable[Tensor], length: int) -> Tensor:
    """Pieces (pieces, length + 1) of documents (n,): each begins at the last token of the one before, so that every token
    but a document's first is predicted exactly once. What is left at the end of a document is dropped."""
    pieces = [text.unfold(0, length + 1, length) for text in texts if len(text) > length]
    if not pieces:
        raise ValueError(f"expected a document of more than {length} tokens, got none; take a smaller length")
    return torch.cat(pieces)
