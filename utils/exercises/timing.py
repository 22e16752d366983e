"""What a lesson costs, as measured: the small file beside the sources that holds what differs between runs."""

import json
import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

from utils.paths import SOURCES


def timing_file(sources: Path = SOURCES) -> Path:
    return sources / "timing.json"


def read_timings(sources: Path = SOURCES) -> dict[str, dict]:
    """All entries, by the name of the lesson; none when nothing was measured yet."""
    file = timing_file(sources)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def record(name: str, seconds: float, mebibytes: float, sources: Path = SOURCES) -> dict:
    """Write what `name` cost just now, and return its entry."""
    entry = {
        "seconds": round(seconds, 1),
        "mebibytes": round(mebibytes),
        "measured": date.today().isoformat(),
        "machine": machine(),
    }
    entries = dict(sorted({**read_timings(sources), name: entry}.items()))
    file = timing_file(sources)
    waiting = file.with_suffix(f".{os.getpid()}.part")
    waiting.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    waiting.replace(file)
    return entry


def machine() -> str:
    """The machine in words; no name, no path."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = ".".join(platform.python_version_tuple()[:2])
    torch = ".".join(version("torch").split("+")[0].split(".")[:2])
    return f"{cores} cores, Python {python}, torch {torch}"


def in_words(entry: dict | None) -> str:
    """The cost rounded to what a second measurement would give again: "about 15 s and 0.6 GiB on two CPU cores"."""
    if entry is None:
        return "not measured yet"
    return f"about {_seconds(entry['seconds'])} and {_memory(entry['mebibytes'])} on {_cores(entry['machine'])}"


def _seconds(seconds: float) -> str:
    if seconds <= 120:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{round(seconds / 60)} min"


def _memory(mebibytes: float) -> str:
    return f"{max(0.1, mebibytes / 1024):.1f} GiB"


def _cores(machine: str) -> str:
    count = machine.partition(" ")[0]
    names = {"1": "one CPU core", "2": "two CPU cores", "4": "four CPU cores", "8": "eight CPU cores"}
    return names.get(count, f"{count} CPU cores")
