"""Run the slow proofs, or those that are named; `make audit` does.

python -m tests.audit               all of them
python -m tests.audit machines      this one alone
python -m tests.audit versions --only floor 3.13        these rows of it; the stored others stay (answers, pages, reproducible, versions)

Each part is a module beside this one with `run() -> list[dict]`: rows with "what" was tried, whether it was "ok", what
was "said", and perhaps figures. The exit code is 1 if a row is not ok.
"""

import argparse
import datetime
import importlib
import inspect
import json
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from utils.exercises.timing import machine

PARTS = (
    "verdicts",
    "mutants",
    "answers",
    "grading",
    "assignment",
    "machines",
    "hosts",
    "versions",
    "reproducible",
    "pages",
)
RESULTS = Path(__file__).with_name("results")


def main(given: Sequence[str] | None = None, folder: Path = RESULTS) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="part", help=f"any of: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--only", nargs="+", metavar="words", help="rows to run again; the others stay as stored")
    options = parser.parse_args(given)
    names = options.names or PARTS
    for name in names:
        if name not in PARTS:
            parser.error(f"expected a part among {', '.join(PARTS)}, got {name}")
    parts = {name: importlib.import_module(f"tests.audit.{name}") for name in names}
    if options.only and any("only" not in inspect.signature(part.run).parameters for part in parts.values()):
        parser.error("--only needs a part that can run some of its rows: answers, pages, reproducible or versions")
    fine = [audit(name, part.run, folder, options.only) for name, part in parts.items()]
    return 0 if all(fine) else 1


def audit(name: str, run: Callable[..., list[dict]], folder: Path = RESULTS, only: Sequence[str] | None = None) -> bool:
    """Run one part, write its rows, print them; True if all is well. A part that breaks off is a row that is not ok.

    With `only`, the stored rows that are not run again stay, with their date.
    """
    print(f"{name} ...", flush=True)
    start = time.perf_counter()
    try:
        rows = [{**row, "ok": row["ok"] is True} for row in (run(only) if only else run())]
        rows = rows or [{"what": f"the part {name} itself", "ok": False, "said": "it tried nothing"}]
    except Exception as error:
        traceback.print_exc()
        rows = [{"what": f"the part {name} itself", "ok": False, "said": f"{type(error).__name__}: {error}"}]
    seconds = time.perf_counter() - start
    entry = {"machine": machine(), "date": datetime.date.today().isoformat(), "seconds": round(seconds), "rows": rows}
    file = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    if only:
        again, stored = {row["what"]: row for row in rows}, json.loads(file.read_text(encoding="utf-8"))
        older = {} if stored["date"] == entry["date"] else {"date": stored["date"]}
        stay = [again.pop(row["what"], older | row) for row in stored["rows"]]
        entry |= {"seconds": stored["seconds"] + entry["seconds"], "rows": [*stay, *again.values()]}
    file.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(rows), flush=True)
    wrong = sum(not row["ok"] for row in rows)
    print(f"{name}: {len(rows) - wrong} of {len(rows)} as they should be, {seconds:.0f} s\n", flush=True)
    return wrong == 0


def table(rows: list[dict], width: int = 118) -> str:
    """Rows for a terminal: a mark, what was tried, and below it what was said."""
    lines = []
    for row in rows:
        figures = ", ".join(f"{name} {value}" for name, value in row.items() if name not in ("what", "ok", "said"))
        lines.append(f"{'ok ' if row['ok'] else 'NOT'}  {row['what']}{f' ({figures})' if figures else ''}")
        lines += textwrap.wrap(row["said"], width, initial_indent=" " * 5, subsequent_indent=" " * 5)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
