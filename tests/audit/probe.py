"""What is tried on a broken machine, in a process of its own: `python -m tests.audit.probe lesson 01`, `... lab`, `... progress`.

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

from utils.course import places

PATIENCE = 120


def lesson(number: str, threads: int | str = 1) -> dict:
    """Run a lecture with nothing kept; which of its compared cells show something else than the saved ones?"""
    from utils.course import build
    from utils.course.lint import compared_cells

    (name,) = [name for name in build.HERE.names() if name.startswith(number)]
    notebook = build.lecture_of(build.read_lesson(name))
    with_threads(notebook, threads)
    build.KERNEL_SETTINGS.update(dict.fromkeys(build.THREADS, str(threads)))
    result = build.execute(notebook, name)
    saved = nbformat.read(build.HERE.lecture(name), as_version=4)
    compared = compared_cells(saved)
    return {
        "compared": len(compared),
        "different": different(compared, result.notebook),
        "sums": sums(result.notebook),
        "pictures": len(pictures(saved)),
        "other_pictures": len(set(pictures(saved)) - set(pictures(result.notebook))),
        "warnings": warnings_of(result.notebook),
        "seconds": round(result.seconds, 1),
        "mebibytes": round(result.mebibytes),
    }


def answers(number: str, turn: str, cache: str) -> dict:
    """Run a lecture with the right answers of this number in the place of its solutions; which findings turn?"""
    from utils.course import build
    from utils.course.lint import compared_cells

    (name,) = [name for name in build.HERE.names() if name.startswith(number)]
    notebook = build.lecture_of(build.read_lesson(name))
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    settings = {"COURSE_CACHE": cache, "PYTHONPATH": str(places.ROOT)}
    first.source = (
        f"import os, sys\nos.environ.update({settings!r})\nsys.path.append({str(places.ROOT)!r})\n"
        f"from tests.audit.answers import stand_in\nstand_in({int(turn)})\n{first.source}"
    )
    result = build.execute(notebook, name)
    compared = compared_cells(nbformat.read(build.HERE.lecture(name), as_version=4))
    return {"turned": turned(compared, result.notebook), "seconds": round(result.seconds, 1)}


def turned(compared: list[nbformat.NotebookNode], notebook: nbformat.NotebookNode) -> list[str]:
    """The first lines of the compared cells that say True where the saved ones say False, or the other way round.

    Their numbers may differ: whoever builds layers in another order draws other weights.
    """
    found = {cell.id: verdicts(cell) for cell in notebook.cells if cell.cell_type == "code"}
    return [cell.source.splitlines()[0] for cell in compared if verdicts(cell) != found[cell.id]]


def verdicts(cell: nbformat.NotebookNode) -> list[str]:
    shown = "".join(output.get("text", "") for output in cell.outputs)
    return re.findall(r"\b(?:True|False)\b", shown)


def with_threads(notebook: nbformat.NotebookNode, threads: int) -> None:
    """Each lesson sets the number of threads in a line of its own."""
    line = "torch.set_num_threads({})"
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and line.format(1) in cell.source]
    cell.source = cell.source.replace(line.format(1), line.format(threads))


def different(compared: list[nbformat.NotebookNode], notebook: nbformat.NotebookNode) -> list[str]:
    """The first lines of the compared cells whose outputs are others in the notebook."""
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    return [cell.source.splitlines()[0] for cell in compared if cell.outputs != outputs[cell.id]]


def sums(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each cell of code shows, by its first line; where several begin alike, all of them together."""
    shown: dict[str, list] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown.setdefault((cell.source.splitlines() or [""])[0], []).append(cell.outputs)
    return {
        line: hashlib.sha256(json.dumps(outputs, sort_keys=True).encode()).hexdigest()
        for line, outputs in shown.items()
    }


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def warnings_of(notebook: nbformat.NotebookNode) -> list[str]:
    """What cells said on stderr: a lecture says nothing there."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.text[:300] for output in outputs if output.output_type == "stream" and output.name == "stderr"]


def lab(port: str = "18970") -> dict:
    """What `make lab` starts on an installed machine: does the page answer, and does a kernel run the first cell?"""
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, "-m", "utils.course.lab", "--no-browser", "--port", port]
        own = os.environ | {"JUPYTER_TOKEN": "t"}
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=own, start_new_session=True)
        try:
            start, answered = time.monotonic(), False
            while server.poll() is None and not answered and time.monotonic() < start + PATIENCE:
                answered = _answers(int(port))
                time.sleep(0.1)
            seconds = time.monotonic() - start
            ran = _first_cell(int(port)) if answered else ""
        finally:
            code = _end(server)
        log.seek(0)
        said = log.read().decode(errors="replace").strip()
    return {"answered": answered, "ran": ran, "seconds": round(seconds, 1), "code": code, "said": said}


def _end(server: subprocess.Popen) -> int | None:
    """End the server as an interrupt from a terminal does: it reaches all that was started. None: it had not ended by itself."""
    code = server.poll()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    server.wait(PATIENCE)
    return code


def _request(port: int, path: str, content: dict | None = None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}",
        data=None if content is None else json.dumps(content).encode(),
        headers={"Authorization": "token t"},
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
        return answer.read()


def _answers(port: int) -> bool:
    try:
        return b"JupyterLab" in _request(port, "lab")
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"the page of JupyterLab is answered with {error}") from error
    except OSError:
        return False


def _first_cell(port: int) -> str:
    """Start the kernel that the page would start, and ask it for what lesson 00 imports first."""
    from jupyter_client.blocking import BlockingKernelClient

    name = "00_start_here.ipynb"
    notebook = json.loads(_request(port, f"api/contents/work/{name}"))["content"]
    code = next(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    wanted = {"path": f"work/{name}", "name": name, "type": "notebook", "kernel": {"name": "python3"}}
    number = json.loads(_request(port, "api/sessions", wanted))["kernel"]["id"]
    client = BlockingKernelClient(connection_file=_connection_file(number))
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(PATIENCE)
        reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=lambda message: None)["content"]
    finally:
        client.stop_channels()
    return "ok" if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"


def _connection_file(number: str) -> str:
    """The server has written it below the home folder, or below that which it was given in the place of one."""
    homes = [places.WORK / ".home", *([Path.home()] if places.has_home() else [])]
    (found,) = [file for home in homes for file in home.glob(f".local/share/jupyter/runtime/kernel-{number}.json")]
    return str(found)


def progress() -> dict:
    """Save progress until the disk of the file is full, then make room: what was said, and what is left of what was saved."""
    from utils.course import progress as journal

    filler = places.progress_file().with_name("filler")
    saved, troubles = [], []
    for number in range(400):
        if number == 5:
            _fill(filler)
        trouble = journal.record_check(f"1.{number}", "passed")
        troubles += [trouble] if trouble else []
        saved += [] if trouble else [f"1.{number}"]
    kept = [name for name in saved if journal.read().exercise(name).status == "passed"]
    filler.unlink()
    again = journal.record_check("2.1", "passed")
    after = journal.read()
    return {
        "saved": len(saved),
        "kept": len(kept),
        "refused": len(troubles),
        "said": sorted(set(troubles)),
        "again": again,
        "all_after": all(after.exercise(name).status == "passed" for name in [*saved, "2.1"]),
    }


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 512):
                continue
        except OSError:
            return


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(
        json.dumps({"lesson": lesson, "answers": answers, "lab": lab, "progress": progress}[what](*map(str, arguments)))
    )
