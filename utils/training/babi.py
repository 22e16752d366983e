"""Train memory networks on bAbI tasks and print the errors beside the published ones.

python -m utils.training.babi                                    generated stories, tasks 1, 2, 3, 15 and 16
python -m utils.training.babi --folder data/babi/en --tasks 16   the published files
"""

import argparse
import sys
from collections.abc import Sequence

import torch

from utils.data.babi import BabiError
from utils.data.stories import TASKS
from utils.training.memory import real_files, train_task

ALL_TASKS = range(1, 21)
SUCCESS = 5.0  # per cent; the error up to which the bAbI papers call a task solved

# Test error in per cent on the published files with 1,000 training questions, by source and task.
PUBLISHED: dict[str, dict[int, float]] = {
    "Sukhbaatar et al. 2015, bag of words, 3 hops": {1: 0.6, 2: 17.6, 3: 71.0, 15: 24.3, 16: 52.0},
    "Sukhbaatar et al. 2015, position encoding, 3 hops": {1: 0.1, 2: 21.6, 3: 64.2, 15: 0.0, 16: 52.1},
    "Sukhbaatar et al. 2015, all 20 tasks jointly, 3 hops": {1: 0.0, 2: 11.4, 3: 21.9, 15: 0.0, 16: 2.7},
    "vinhkhuc/MemN2N-babi-python, position encoding, linear start, noise": {1: 0.1, 2: 8.2, 3: 41.8, 15: 0.0, 16: 0.4},
}


def task_row(result: dict) -> dict:
    """What the table says of a result of `train_task`, in per cent."""
    error = 100 * result["error"]
    return {
        "task": result["task"],
        "errors": error.tolist(),
        "median": error.quantile(0.5).item(),
        "best": error[result["best"]].item(),
        "success": 100 * (error <= SUCCESS).float().mean().item(),
        "agreement": 100 * result["agreement"].quantile(0.5).item(),
        "cut": 100 * result["cut"][1],
        "seconds": result["seconds"],
    }


def table(rows: Sequence[dict]) -> str:
    """One line for each task: what the networks got wrong, in per cent of the test questions."""
    head = f"{'task':>4}  {'median':>6}  {'best*':>6}  {'solved':>6}  {'facts':>6}  {'cut':>5}  {'seconds':>7}  error of each seed"
    lines = [head]
    for row in rows:
        errors = " ".join(f"{one:5.1f}" for one in row["errors"])
        lines.append(
            f"{row['task']:>4}  {row['median']:6.1f}  {row['best']:6.1f}  {row['success']:5.0f}%  "
            f"{row['agreement']:5.0f}%  {row['cut']:4.1f}%  {row['seconds']:7.1f}  {errors}"
        )
    return "\n".join(lines)


def published(tasks: Sequence[int]) -> str:
    """The published errors of these tasks, a line for each source; empty if none is known."""
    known = [task for task in tasks if any(task in figures for figures in PUBLISHED.values())]
    if not known:
        return ""
    width = max(map(len, PUBLISHED))
    lines = [f"{'task':<{width}}" + "".join(f"{task:>7}" for task in known)]
    for source, figures in PUBLISHED.items():
        cells = (f"{figures[task]:7.1f}" if task in figures else f"{'-':>7}" for task in known)
        lines.append(f"{source:<{width}}" + "".join(cells))
    return "\n".join(lines)


NOTES = (
    "median, best and errors: test questions answered wrongly, in %; best*: the seed with the smallest training loss; "
    f"solved: seeds with at most {SUCCESS:g} % errors;\nfacts: questions whose supporting facts are each the top statement "
    "of some hop (median); cut: supporting facts older than the memory"
)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m utils.training.babi", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", help=f"default: {' '.join(map(str, TASKS))}")
    parser.add_argument("--seeds", type=int, default=10, help="networks per task, trained together (default: 10)")
    parser.add_argument("--folder", help="published files, such as data/babi/en; left out, stories are generated")
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--bag", action="store_true", help="a bag of words instead of position encoding")
    parser.add_argument("--no-time", action="store_true", help="no temporal encoding")
    parser.add_argument("--tying", choices=("adjacent", "layer-wise"), default="adjacent")
    parser.add_argument("--linear-start", action=argparse.BooleanOptionalAction, help="default: what suits the task")
    parser.add_argument("--noise", action=argparse.BooleanOptionalAction, help="random blank memories (default: yes)")
    parser.add_argument("--epochs", type=int, help="after the linear start (default: 100)")
    parser.add_argument("--again", action="store_true", help="train even if there is a kept result")
    chosen = parser.parse_args(given)
    chosen.tasks = chosen.tasks or list(TASKS)
    possible = ALL_TASKS if chosen.folder else TASKS
    for task in chosen.tasks:
        if task not in possible:
            hint = "" if chosen.folder else "; the others need --folder with the published files"
            parser.error(f"expected tasks among {', '.join(map(str, possible))}, got {task}{hint}")
    for name in ("seeds", "hops"):
        if getattr(chosen, name) < 1:
            parser.error(f"expected --{name} of at least 1, got {getattr(chosen, name)}")
    if chosen.epochs is not None and chosen.epochs < 1:
        parser.error(f"expected --epochs of at least 1, got {chosen.epochs}")
    return chosen


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    run = train_task.__wrapped__ if chosen.again else train_task
    torch.set_num_threads(1)  # at this size a second thread gains little and can lose much
    rows = []
    try:
        if chosen.folder:
            for task in chosen.tasks:  # a missing file is told before hours of training, not after
                real_files(chosen.folder, task)
        for task in chosen.tasks:
            print(f"task {task}: {chosen.seeds} networks ...", file=sys.stderr, flush=True)
            result = run(
                task,
                chosen.seeds,
                hops=chosen.hops,
                positions=not chosen.bag,
                temporal=not chosen.no_time,
                tying=chosen.tying,
                linear_start=chosen.linear_start,
                noise=chosen.noise,
                epochs=chosen.epochs,
                folder=chosen.folder,
            )
            rows.append(task_row(result))
    except BabiError as problem:
        print(problem, file=sys.stderr)
        return 1
    source = f"published files in {chosen.folder}" if chosen.folder else "generated stories, 1,000 training questions"
    print(f"Errors on {source}\n\n{table(rows)}\n\n{NOTES}")
    if published(chosen.tasks):
        print(f"\nPublished, on the real bAbI files with 1,000 training questions\n\n{published(chosen.tasks)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
