"""Text files of the user: reading UTF-8, with errors that start with file and line."""

import bz2
from pathlib import Path


def read_text(path: Path, error: type[ValueError]) -> str:
    """UTF-8 text of a file without its byte-order mark, decompressed if it ends in `.bz2`; failures raise `error`."""
    try:
        data = path.read_bytes()
        data = bz2.decompress(data) if path.suffix == ".bz2" else data
        return data.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise error(f"{path}: there is no such file") from None
    except UnicodeDecodeError as reason:
        line = data.count(b"\n", 0, reason.start) + 1
        raise error(f"{path}:{line}: expected text in UTF-8, got {reason.reason}; save it as UTF-8") from None
    except (OSError, ValueError) as reason:  # a damaged bz2 file raises either
        raise error(f"{path}: expected a text file, got {'a folder' if path.is_dir() else reason}") from None


def quoted(text: str) -> str:
    """A line quoted for an error message, truncated to 100 characters."""
    return repr(text if len(text) <= 100 else text[:97] + "...")
