"""Train memory networks on bAbI tasks and print the errors next to the published ones.

python -m utils.training.babi                                    generated stories, tasks 1, 2, 3, 15 and 16
python -m utils.training.babi --folder data/babi/en --tasks 16   the published files
"""

import argparse
import sys
from collections.abc import Sequence

import torch

from utils.data.babi import BabiError
from utils.data.stories import TASKS
from utils.training.memory import EPOCHS, published_files, train_task

ALL_TASKS = range(1, 21)
SUCCESS = 5.0  # per cent; the error up to which the bAbI papers call a task solved

# Test error in per cent on the published files with 1,000 training questions, by source and task.
PUBLISHED: dict[str, dict[int, float]] = {
    "Sukhbaatar et al. 2015, bag of words, 3 hops": {1: 0.6, 2: 17.6, 3: 71.0, 15: 24.3, 16: 52.0},
    "Sukhbaatar et al. 2015, position encoding, 3 hops": {1: 0.1, 2: 21.6, 3: 64.2, 15: 0.0, 16: 52.1},
    "Sukhbaatar et al. 2015, all 20 tasks jointly, 3 hops": {1: 0.0, 2: 11.4, 3: 21.9, 15: 0.0, 16: 2.7},
    "vinhkhuc/MemN2N-babi-python, position encoding, linear start, noise": {1: 0.1, 2: 8.2, 3: 41.8, 15: 0.0, 16: 0.4},
}

NOTES = (
    "median, best and errors: test error in %; best*: the seed with the smallest training loss; "
    f"solved: seeds with at most {SUCCESS:g} % errors;\nfacts: questions whose supporting facts each get the largest "
    "weight of some hop (median); cut: supporting facts older than the memory"
)


def table_row(result: dict) -> str:
    """A result of `train_task` in per cent, in the columns of `table`."""
    error = 100 * result["error"]
    return (
        f"{result['task']:>4}  {error.quantile(0.5):6.1f}  {error[result['best']]:6.1f}  "
        f"{100 * (error <= SUCCESS).float().mean():5.0f}%  {100 * result['agreement'].quantile(0.5):5.0f}%  "
        f"{100 * result['facts_cut']:4.1f}%  {result['seconds']:7.1f}  {' '.join(f'{value:5.1f}' for value in error)}"
    )


def table(results: Sequence[dict]) -> str:
    head = "task  median   best*  solved   facts    cut  seconds  error of each seed"
    return "\n".join([head, *map(table_row, results)])


def published(tasks: Sequence[int]) -> str:
    """The published errors of these tasks, a line for each source; empty if none is known."""
    known = [task for task in tasks if any(task in errors for errors in PUBLISHED.values())]
    if not known:
        return ""
    width = max(map(len, PUBLISHED))
    lines = [f"{'task':<{width}}" + "".join(f"{task:>7}" for task in known)]
    lines += [
        f"{source:<{width}}" + "".join(f"{errors[task]:7.1f}" for task in known) for source, errors in PUBLISHED.items()
    ]
    return "\n".join(lines)


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return int(text)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m utils.training.babi", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", default=list(TASKS), help="default: %(default)s")
    parser.add_argument("--seeds", type=positive, default=10, help="networks per task, trained together (default: 10)")
    parser.add_argument("--folder", help="published files, such as data/babi/en; without it, stories are generated")
    parser.add_argument("--hops", type=positive, default=3)
    parser.add_argument("--bag", action="store_true", help="a bag of words instead of position encoding")
    parser.add_argument("--no-time", action="store_true", help="no temporal encoding")
    parser.add_argument("--tying", choices=("adjacent", "layer-wise"), default="adjacent")
    parser.add_argument("--linear-start", action=argparse.BooleanOptionalAction, help="default: what suits the task")
    parser.add_argument("--noise", action=argparse.BooleanOptionalAction, default=True, help="random noise memories")
    parser.add_argument("--epochs", type=positive, default=EPOCHS, help="after the linear start (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="train even if the result is cached")
    options = parser.parse_args(given)
    possible = ALL_TASKS if options.folder else TASKS
    for task in options.tasks:
        if task not in possible:
            hint = "" if options.folder else "; the others need --folder with the published files"
            parser.error(f"expected tasks among {', '.join(map(str, possible))}, got {task}{hint}")
    return options


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    run = train_task.__wrapped__ if options.again else train_task
    torch.set_num_threads(1)  # at this size a second thread is no faster
    results = []
    try:
        if options.folder:
            for task in options.tasks:  # a missing file is reported before hours of training
                published_files(options.folder, task)
        for task in options.tasks:
            print(f"task {task}: {options.seeds} networks ...", file=sys.stderr, flush=True)
            result = run(
                task,
                options.seeds,
                num_hops=options.hops,
                position_encoding=not options.bag,
                temporal=not options.no_time,
                tying=options.tying,
                linear_start=options.linear_start,
                noise=options.noise,
                epochs=options.epochs,
                folder=options.folder,
            )
            results.append(result)
    except BabiError as problem:
        print(problem, file=sys.stderr)
        return 1
    source = f"published files in {options.folder}" if options.folder else "generated stories, 1,000 training questions"
    print(f"Errors on {source}\n\n{table(results)}\n\n{NOTES}")
    if published(options.tasks):
        print(f"\nPublished, on the real bAbI files with 1,000 training questions\n\n{published(options.tasks)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
