"""What is tried on a broken machine, in a process of its own: `python -m tests.audit.probe lesson 01`, `... lab`.

The last line that it prints is JSON.
"""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
from jupyter_client.blocking import BlockingKernelClient

from utils import paths

PATIENCE = 120


# --- lessons ----------------------------------------------------------------------------------------------------


def lesson(number: str, threads: int | str = 1) -> dict:
    """Run a lecture with an empty cache; which of its compared cells show something else than the saved ones?"""
    from utils.build import notebooks
    from utils.build.lint import compared_cells

    (name,) = [name for name in notebooks.HERE.names() if name.startswith(number)]
    notebook = notebooks.lecture_of(notebooks.read_lesson(name))
    with_threads(notebook, threads)
    notebooks.KERNEL_SETTINGS.update(dict.fromkeys(notebooks.THREADS, str(threads)))
    result = notebooks.execute(notebook, name)
    cells = {cell.id: cell for cell in result.notebook.cells if cell.cell_type == "code"}
    outputs = [output for cell in cells.values() for output in cell.outputs]
    compared = compared_cells(nbformat.read(notebooks.HERE.lecture(name), as_version=4))
    return {
        "compared": len(compared),
        "different": [first_line(cell) for cell in compared if cell.outputs != cells[cell.id].outputs],
        "hashes": {f"{cell.id} {first_line(cell)}": hash_of(cell.outputs) for cell in cells.values()},
        "warnings": [output.text[:300] for output in outputs if output.get("name") == "stderr"],
        "seconds": round(result.seconds, 1),
        "mebibytes": round(result.mebibytes),
    }


def with_threads(notebook: nbformat.NotebookNode, threads: int | str) -> None:
    """Each lesson sets the number of threads in a line of its own."""
    line = "torch.set_num_threads({})"
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and line.format(1) in cell.source]
    cell.source = cell.source.replace(line.format(1), line.format(threads))


def first_line(cell: nbformat.NotebookNode) -> str:
    return (cell.source.splitlines() or [""])[0]


def hash_of(outputs: list) -> str:
    return hashlib.sha256(json.dumps(outputs, sort_keys=True).encode()).hexdigest()[:16]


def answers(number: str, turn: str, cache: str) -> dict:
    """Run a lecture with the correct answers of this number instead of its solutions; which findings turn?"""
    from utils.build import notebooks
    from utils.build.lint import compared_cells

    (name,) = [name for name in notebooks.HERE.names() if name.startswith(number)]
    notebook = notebooks.lecture_of(notebooks.read_lesson(name))
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    settings = {"COURSE_CACHE": cache, "PYTHONPATH": str(paths.ROOT)}
    first.source = (
        f"import os, sys\nos.environ.update({settings!r})\nsys.path.append({str(paths.ROOT)!r})\n"
        f"from tests.audit.answers import stand_in\nstand_in({int(turn)})\n{first.source}"
    )
    result = notebooks.execute(notebook, name)
    compared = compared_cells(nbformat.read(notebooks.HERE.lecture(name), as_version=4))
    # Numbers may differ: whoever builds layers in another order draws other weights.
    new = {cell.id: verdicts(cell) for cell in result.notebook.cells if cell.cell_type == "code"}
    turned = [first_line(cell) for cell in compared if verdicts(cell) != new[cell.id]]
    return {"turned": turned, "seconds": round(result.seconds, 1)}


def verdicts(cell: nbformat.NotebookNode) -> list[str]:
    return re.findall(r"\b(?:True|False)\b", "".join(output.get("text", "") for output in cell.outputs))


# --- make lab ---------------------------------------------------------------------------------------------------


def lab(port: str = "18970") -> dict:
    """What `make lab` starts on an installed machine: does the page answer, and does the kernel of lesson 00 start?"""
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, "-m", "utils.build.lab", "--no-browser", "--port", port]
        own = os.environ | {"JUPYTER_TOKEN": "t"}
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=own, start_new_session=True)
        try:
            answered = _answers(port, server)
            kernel = answered and _start_kernel(port)
        finally:
            # As an interrupt from a terminal: it reaches all that was started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(PATIENCE)
        log.seek(0)
        return {"answered": answered, "kernel": kernel, "said": log.read().decode(errors="replace").strip()[-1000:]}


def ask(port: str, path: str, content: dict | None = None) -> bytes:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data, {"Authorization": "token t"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
        return answer.read()


def _answers(port: str, server: subprocess.Popen) -> bool:
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(ConnectionError, urllib.error.URLError):
            return b"JupyterLab" in ask(port, "lab")
        time.sleep(0.1)
    return False


def _start_kernel(port: str) -> bool:
    """Start the kernel that the page would start, and wait until it answers."""
    name = "00_start_here.ipynb"
    wanted = {"path": f"work/{name}", "name": name, "type": "notebook", "kernel": {"name": "python3"}}
    number = json.loads(ask(port, "api/sessions", wanted))["kernel"]["id"]
    # The server has written the connection file below the home folder, or below the one that it was given instead.
    homes = [paths.WORK / ".home", *([Path.home()] if paths.has_home() else [])]
    (file,) = [file for home in homes for file in home.glob(f".local/share/jupyter/runtime/kernel-{number}.json")]
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels(hb=False)  # without a heartbeat: a kernel that is still starting does not count as dead
    try:
        client.wait_for_ready(PATIENCE)
    finally:
        client.stop_channels()
    return True


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"lesson": lesson, "answers": answers, "lab": lab}[what](*arguments)))
