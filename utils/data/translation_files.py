"""Reading real translation pairs: tab-separated text, `english<TAB>french` on a line, further columns ignored.

Nothing of the kind comes with the course; who has such files puts them into `data/translation/`.
"""

from pathlib import Path

from utils.data.phrases import Pair
from utils.data.tokens import split

ENDINGS = (".tsv", ".txt")


class TranslationError(ValueError):
    """A file that does not hold pairs; the message starts with file and line."""


def parse_pairs(text: str, name: str = "text", longest: int | None = None) -> list[Pair]:
    """The pairs of a text, split into tokens, without links. `name` stands in error messages.

    With `longest`, pairs with a side of more tokens are left out. One English sentence may come with several French ones.
    """
    pairs, too_long = [], 0
    for row, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        pair = _pair(line.rstrip("\r"), f"{name}:{row}")
        if longest and max(len(pair.english), len(pair.french)) > longest:
            too_long += 1
        else:
            pairs.append(pair)
    if too_long and not pairs:
        raise TranslationError(f"{name}: all {too_long} pairs have more than {longest} tokens; give a larger `longest`")
    if not pairs:
        raise TranslationError(f"{name}: expected lines `english<TAB>french`, got an empty text; add at least one pair")
    return pairs


def _pair(line: str, where: str) -> Pair:
    columns = line.split("\t")
    if len(columns) < 2:
        raise TranslationError(
            f"{where}: expected `english<TAB>french`, got no tab in {_shown(line)}; separate the two sides by one tab"
        )
    english, french = (tuple(split(text, name)) for text, name in zip(columns, ("english", "french"), strict=False))
    for side, tokens in (("english", english), ("french", french)):
        if not tokens:
            raise TranslationError(
                f"{where}: expected `english<TAB>french`, got nothing for {side} in {_shown(line)}; fill it in or remove the line"
            )
    return Pair(english, french)


def _shown(text: str) -> str:
    """For a message: quoted, and cut if it is long."""
    return repr(text if len(text) <= 100 else text[:97] + "...")


def read_pairs(path: Path | str, longest: int | None = None) -> list[Pair]:
    """The pairs of one file, or of all `.tsv` and `.txt` files of a folder in the order of their names."""
    path = Path(path)
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix.lower() in ENDINGS and one.is_file())
        if not files:
            raise TranslationError(f"{path}: expected files ending in {' or '.join(ENDINGS)}, got none; put one there")
        return [pair for one in files for pair in read_pairs(one, longest)]
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise TranslationError(f"{path}: expected a file of pairs, but there is none; put it there") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TranslationError(
            f"{path}:{line}: expected text in UTF-8, got {error.reason} at byte {error.start}; save it as UTF-8"
        ) from None
    return parse_pairs(text, str(path), longest)
