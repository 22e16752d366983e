"""Parallel corpora in tab-separated files: `english<TAB>french` on a line, further columns ignored.

The course ships none; put your own files into `data/translation/`.
"""

from pathlib import Path

from utils.data.phrases import Pair
from utils.data.text_files import quoted, read_text
from utils.data.tokens import split

ENDINGS = (".tsv", ".txt")


class TranslationError(ValueError):
    """Not a parallel corpus; the message starts with file and line."""


def parse_pairs(text: str, name: str = "text", max_len: int | None = None) -> list[Pair]:
    """Tokenized sentence pairs of a text, without word alignment; error messages start with `name`.

    With `max_len`, pairs with more tokens on either side are left out. A sentence may have several translations.
    """
    pairs, too_long = [], 0
    for row, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        pair = _pair(line.rstrip("\r"), f"{name}:{row}")
        if max_len and max(len(pair.english), len(pair.french)) > max_len:
            too_long += 1
        else:
            pairs.append(pair)
    if too_long and not pairs:
        raise TranslationError(f"{name}: all {too_long} pairs have more than {max_len} tokens; give a larger `max_len`")
    if not pairs:
        raise TranslationError(f"{name}: expected lines `english<TAB>french`, got an empty text; add at least one pair")
    return pairs


def _pair(line: str, where: str) -> Pair:
    columns = line.split("\t")
    if len(columns) < 2:
        raise TranslationError(f"{where}: expected `english<TAB>french`, got no tab in {quoted(line)}")
    english, french = tuple(split(columns[0], "english")), tuple(split(columns[1], "french"))
    if not english or not french:
        raise TranslationError(f"{where}: expected text on both sides of the tab, got {quoted(line)}")
    return Pair(english, french)


def read_pairs(path: Path | str, max_len: int | None = None) -> list[Pair]:
    """Sentence pairs of one file, or of all `.tsv` and `.txt` files of a folder in the order of their names."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
        if not files:
            raise TranslationError(f"{path}: expected files ending in {' or '.join(ENDINGS)}, got none")
        return [pair for file in files for pair in read_pairs(file, max_len)]
    return parse_pairs(read_text(path, TranslationError), str(path), max_len)
