"""Train memory networks on bAbI tasks and print the errors next to the published ones.

python -m utils.training.babi              all twenty tasks of the published files in data/babi/en, if they are there;
                                           otherwise generated stories of tasks 1, 2, 3, 15 and 16
python -m utils.training.babi --tasks 16   one task; --folder names another folder with published files
"""

import argparse
import statistics
import sys
from collections.abc import Sequence

import torch

from utils.data.babi import TASK_NAMES, BabiError, published_files
from utils.data.stories import TASKS
from utils.paths import OWN_DATA
from utils.training.memory import EPOCHS, train_task

FOLDER = OWN_DATA / "babi" / "en"
SUCCESS = 5.0  # per cent; the error up to which the bAbI papers call a task solved

# Test error in per cent on the published files with 1,000 training questions: tasks 1 to 20. The first three are columns
# of Table 1 of Sukhbaatar et al. (2015), the last one the authors' code run again (vinhkhuc/MemN2N-babi-python).
PUBLISHED: dict[str, tuple[float, ...]] = {
    "bag of words": (
        *(0.6, 17.6, 71.0, 32.0, 18.3, 8.7, 23.5, 11.4, 21.1, 22.8),
        *(4.1, 0.3, 10.5, 1.3, 24.3, 52.0, 45.4, 48.1, 89.7, 0.1),
    ),
    "position encoding": (
        *(0.1, 21.6, 64.2, 3.8, 14.1, 7.9, 21.6, 12.6, 23.3, 17.4),
        *(4.3, 0.3, 9.9, 1.8, 0.0, 52.1, 50.1, 13.6, 87.4, 0.0),
    ),
    "all tasks jointly": (
        *(0.0, 11.4, 21.9, 13.4, 14.4, 2.8, 18.3, 9.3, 1.9, 6.5),
        *(0.3, 0.1, 0.2, 6.9, 0.0, 2.7, 40.4, 9.4, 88.0, 0.0),
    ),
    "code run again": (
        *(0.1, 8.2, 41.8, 4.4, 13.7, 7.9, 20.3, 11.7, 13.6, 9.7),
        *(0.7, 0.0, 0.3, 0.9, 0.0, 0.4, 51.0, 10.5, 81.4, 0.0),
    ),
}
NOTES = f"""median, best, seeds: test error in %; best: the seed with the smallest training loss; solved: seeds with at most {SUCCESS:g} % errors
facts: questions whose supporting facts each get the largest weight of some hop; cut: supporting facts older than the memory
Published, on the real files with 1,000 training questions, 3 hops: Sukhbaatar et al. (2015), Table 1, with a bag of words, with position
encoding, and trained on all tasks jointly; their code run again with position encoding, linear start and random noise (MemN2N-babi-python)"""
HEAD = ("task", "median", "best", *PUBLISHED, "solved", "facts", "cut", "seeds")


def errors_of(result: dict) -> tuple[float, ...]:
    """Median error of the seeds, error of the best seed, and the published errors of the task, in per cent."""
    error = 100 * result["error"]
    published = (errors[result["task"] - 1] for errors in PUBLISHED.values())
    return error.quantile(0.5).item(), error[result["best"]].item(), *published


def table(results: Sequence[dict]) -> str:
    """A row for each result of `train_task`, and the means over their tasks, the published ones of the same tasks."""
    rows = [HEAD]
    for result in results:
        task, error = result["task"], 100 * result["error"]
        solved, facts = (error <= SUCCESS).float().mean(), result["agreement"].quantile(0.5)
        shares = (f"{100 * share:.0f}%" for share in (solved, facts, result["facts_cut"]))
        errors = (f"{value:.1f}" for value in errors_of(result))
        rows.append((f"{task} {TASK_NAMES[task]}", *errors, *shares, " ".join(f"{value:.1f}" for value in error)))
    means = map(statistics.fmean, zip(*map(errors_of, results), strict=True))
    rows.append(("mean", *(f"{value:.1f}" for value in means), *[""] * 4))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [f"{cells[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True))]
        for cells in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return int(text)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m utils.training.babi", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", help="default: all twenty, or the five that can be generated")
    parser.add_argument("--seeds", type=positive, default=10, help="networks per task, trained together (default: 10)")
    parser.add_argument("--folder", help="published files (default: data/babi/en if it exists, else generated stories)")
    parser.add_argument("--hops", dest="num_hops", type=positive, default=3)
    parser.add_argument("--bag", dest="position_encoding", action="store_false", help="a bag of words")
    parser.add_argument("--no-time", dest="temporal", action="store_false", help="no temporal encoding")
    parser.add_argument("--tying", choices=("adjacent", "layer-wise"), default="adjacent")
    parser.add_argument("--linear-start", action=argparse.BooleanOptionalAction, help="default: what suits the task")
    parser.add_argument("--noise", action=argparse.BooleanOptionalAction, default=True, help="random noise memories")
    parser.add_argument("--epochs", type=positive, default=EPOCHS, help="after the linear start (default: %(default)s)")
    options = parser.parse_args(given)
    options.folder = options.folder or (str(FOLDER) if FOLDER.is_dir() else None)
    possible = TASK_NAMES if options.folder else TASKS
    options.tasks = options.tasks or list(possible)
    for task in options.tasks:
        if task not in possible:
            hint = "" if options.folder else "; the others need --folder with the published files"
            parser.error(f"expected tasks among {', '.join(map(str, possible))}, got {task}{hint}")
    return options


def main(given: Sequence[str] | None = None) -> int:
    settings = vars(arguments(given))
    tasks, seeds, folder = settings.pop("tasks"), settings.pop("seeds"), settings["folder"]
    torch.set_num_threads(1)  # at this size a second thread is no faster
    results = []
    try:
        if folder:
            for task in tasks:  # a missing file is reported before hours of training
                published_files(folder, task)
        for task in tasks:
            print(f"task {task}: {seeds} networks ...", file=sys.stderr, flush=True)
            results.append(train_task(task, seeds, **settings))
    except BabiError as problem:
        print(problem, file=sys.stderr)
        return 1
    source = f"published files in {folder}" if folder else "generated stories, 1,000 training questions"
    print(f"Test errors on {source}\n\n{table(results)}\n\n{NOTES}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
