"""Every lecture, run four times from an empty cache: twice on one thread and twice on two, the same cells show the same.

On the same number of threads each cell shows the same, byte for byte, but for those that show how long something took. Between
one thread and two, sums are taken in another order; there the cells that tests compare must show what is saved.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from utils.build.notebooks import HERE
from utils.paths import ROOT

RUNS = (1, 1, 2, 2)  # threads
PATIENCE = 1800
# The cells that show times, by lesson and first line; none of them is compared.
TIMED = {
    "03": ("lengths = (32, 64, 128, 256, 512, 1024)",),
    "04": (
        "(speedup,) = language_model.parallel_training_speedup(repeats=1)",
        "costs = layer_costs.layer_costs()",
        'timed = {row["kind"]: row["seconds"] for row in costs if row["kind"] != "dense"}',
    ),
    "05": ("costs = experiments.head_costs(repeats=5)",),
    "09": (
        "basic = [costs.RECURRENCE, costs.EXPLICIT, costs.FUSED]",
        "linear = [costs.FUSED, costs.LOCAL, costs.BIGBIRD, costs.LINFORMER]",
    ),
}


def run(only: Sequence[str] = ()) -> list[dict]:
    names = [name for name in HERE.names() if not only or name[:2] in only]
    return [lesson_row(name, [one_run(name, threads) for threads in RUNS]) for name in names]


def one_run(name: str, threads: int) -> dict:
    """What the probe reports of a run in a process of its own; how it failed, if it did."""
    print(f"    {name}, threads: {threads} ...", flush=True)
    command = [sys.executable, "-m", "tests.audit.probe", "lesson", name[:2], str(threads)]
    # A thread that waits must not keep a core busy: beside other work, two such threads are ten times slower.
    own = os.environ | {"PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "passive"}
    options = {"capture_output": True, "text": True, "encoding": "utf-8", "timeout": PATIENCE}
    done = subprocess.run(command, cwd=ROOT, env=own, **options)
    failed = {"failed": done.stderr.strip()[-300:]}
    return {"threads": threads} | (json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else failed)


def lesson_row(name: str, runs: list[dict]) -> dict:
    what = f"{name}: runs on {', '.join(str(report['threads']) for report in runs)} threads"
    if failed := [report["failed"] for report in runs if "failed" in report]:
        return {"what": what, "ok": False, "said": f"{len(failed)} of {len(runs)} runs failed: {failed[0]}"}
    problems = [
        f"on {report['threads']} threads these cells show something else than saved: {', '.join(report['different'])}"
        for report in runs
        if report["different"]
    ]
    for threads in sorted({report["threads"] for report in runs}):
        first, *others = [report["hashes"] for report in runs if report["threads"] == threads]
        unlike = [cell.partition(" ")[2] for cell in first if any(other[cell] != first[cell] for other in others)]
        if unlike := [line for line in unlike if line not in TIMED.get(name[:2], ())]:
            problems.append(f"two runs on {threads} threads do not show the same in the cells {'; '.join(unlike)}")
    if not all(report["compared"] for report in runs):
        problems.append("no cell was compared")
    figures = {"compared": runs[0]["compared"], "seconds": [report["seconds"] for report in runs]}
    return {"what": what, "ok": not problems, "said": "; ".join(problems) or "the same, byte for byte"} | figures
