"""Text files of the user: reading UTF-8, with errors that start with file and line."""

from pathlib import Path


def decode(data: bytes, path: Path, error: type[ValueError]) -> str:
    """UTF-8 text without its byte-order mark; `error` reports the line of the first invalid byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        line = data.count(b"\n", 0, reason.start) + 1
        message = f"{path}:{line}: expected text in UTF-8, got {reason.reason} at byte {reason.start}; save it as UTF-8"
        raise error(message) from None


def quoted(text: str) -> str:
    """A line quoted for an error message, truncated to 100 characters."""
    return repr(text if len(text) <= 100 else text[:97] + "...")
