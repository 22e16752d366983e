"""From `make lab` to the first executed cell, on a machine where everything is installed; without the browser's own time."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
from jupyter_client.blocking import BlockingKernelClient

from utils.course import bootstrap, lab
from utils.course.places import ROOT
from utils.training.metrics import over_seeds

FIRST = "00_start_here.ipynb"
PATIENCE = 120  # seconds for each part: far more than needed


def lab_start(rounds: int = 5) -> dict:
    """Seconds from the command until the server answers, the kernel of lesson 00 is ready, and its first cell has run.

    Each round is a server of its own, with folders of its own: nobody's work is touched.
    """
    if not bootstrap.is_ready("lab"):
        raise RuntimeError("expected an environment that is ready, since its making is not measured; run `make setup`")
    taken = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="course-lab-") as folder:
            taken.append(_one_start(Path(folder)))
    return {"rounds": rounds} | {name: over_seeds([one[name] for one in taken], 2) for name in taken[0]}


def _one_start(folder: Path) -> dict[str, float]:
    """What `make lab` does, step by step, with copies in `folder`, and then what a page does to run a cell."""
    start, taken = time.perf_counter(), {}
    subprocess.run([sys.executable, bootstrap.__file__], check=True, stdout=subprocess.DEVNULL)
    lab.copy_once(work=folder / "work")
    port, token = lab.free_port(18_900), secrets.token_hex(16)
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            _command(port, folder), env=_environment(folder, token), stdout=log, stderr=log, cwd=ROOT
        )
    try:
        _wait_until_it_answers(server, port, token, folder / "server.log")
        taken["server"] = time.perf_counter() - start
        client = _kernel(port, token, folder)
        try:
            client.wait_for_ready(PATIENCE)
            taken["kernel"] = time.perf_counter() - start
            _run(client, first_code(folder / "work" / FIRST))
            taken["first_cell"] = time.perf_counter() - start
        finally:
            client.stop_channels()
    finally:
        server.terminate()  # asked politely, it ends its kernels itself
        server.wait(PATIENCE)
    return taken


def _command(port: int, folder: Path) -> list[str]:
    command, root = lab.server_command(port, open_browser=False), "--ServerApp.root_dir="
    return [f"{root}{folder}" if part.startswith(root) else part for part in command]


def _environment(folder: Path, token: str) -> dict[str, str]:
    own = {f"JUPYTER_{name}_DIR": folder / name.lower() for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"IPYTHONDIR": folder / "ipython", "COURSE_PROGRESS": folder / "progress.jsonl"}
    return os.environ | {name: str(path) for name, path in own.items()} | {"JUPYTER_TOKEN": token}


def _asked(port: int, token: str, path: str, content: dict | None = None) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api{path}",
        data=None if content is None else json.dumps(content).encode(),
        headers={"Authorization": f"token {token}"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def _wait_until_it_answers(server: subprocess.Popen, port: int, token: str, log: Path) -> None:
    until = time.perf_counter() + PATIENCE
    while server.poll() is None and time.perf_counter() < until:
        try:
            _asked(port, token, "/contents/work/" + FIRST + "?content=0")
            return
        except urllib.error.HTTPError:
            raise
        except OSError:  # nobody listens yet
            time.sleep(0.02)
    raise RuntimeError(
        f"expected an answer within {PATIENCE} s, got none; the log ends:\n{log.read_text(encoding='utf-8')[-2000:]}"
    )


def _kernel(port: int, token: str, folder: Path) -> BlockingKernelClient:
    """The kernel that the server starts for the notebook; reached past the server, which costs a page only milliseconds."""
    wanted = {"path": f"work/{FIRST}", "name": FIRST, "type": "notebook", "kernel": {"name": "python3"}}
    number = _asked(port, token, "/sessions", wanted)["kernel"]["id"]
    client = BlockingKernelClient(connection_file=str(folder / "runtime" / f"kernel-{number}.json"))
    client.load_connection_file()
    client.start_channels()
    return client


def first_code(notebook: Path) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return next(cell.source for cell in cells if cell.cell_type == "code")


def _run(client: BlockingKernelClient, code: str) -> None:
    reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=lambda message: None)
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"expected the first cell to run, got {reply['content']['ename']}: {code}")


if __name__ == "__main__":
    print(lab_start(1))
