"""A host such as Colab, simulated: the student notebook of lesson 01 alone, in a folder without the course, runs to its end.

The platform is an environment of its own with a kernel and torch, without JupyterLab. Its torch is the installed build under an
older version, older than the course allows, so that pip would like to replace it: what is proved here is that nobody does.
Whether lessons run with other builds of torch is the part `versions`. git finds the published address in a folder of this machine.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path

from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tests.audit.machines import copy_checkout
from utils import paths
from utils.build.notebooks import read_lesson
from utils.build.source import exercise_ids, student_of

LESSON = "01_softmax_attention"
REPOSITORY = "https://github.com/example/course"
TORCH = "2.5.1+platform"
PLATFORM = ("ipykernel", "matplotlib", "numpy")  # and what torch needs
CELL_SECONDS = 900
LAST_CELL = "import torch, utils\nprint(torch.__version__, utils.__path__[0])"


def run() -> list[dict]:
    with tempfile.TemporaryDirectory(prefix="course-host-") as folder:
        return rows(Path(folder).resolve())


def rows(folder: Path) -> list[dict]:
    python, packages = platform(folder / "platform")
    torch_before, before = files(packages / "torch"), installed(python)
    publish(folder / "origin")
    notebook = published_notebook()
    notebook.cells.append(new_code_cell(LAST_CELL))
    work = folder / "content"
    work.mkdir()
    failure = execute(notebook, python, folder / "origin", work)
    said = text(notebook.cells[-1]).replace(str(folder), "...").strip()
    after = installed(python)
    replaced = {name: after.get(name) for name in before if before[name] != after.get(name)}
    untouched = [
        name
        for name in exercise_ids(notebook)
        if re.search(rf"^Exercise {re.escape(name)} · .+: not attempted yet$", shown(notebook), re.MULTILINE)
    ]
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    return [
        row(f"the student notebook of {LESSON} alone runs to its end", not failure, failure or text(first).splitlines()[-1]),
        row("all its exercises are checked", untouched == exercise_ids(notebook), ", ".join(untouched)),
        row("it runs on the platform's torch and the fetched course", said.startswith(TORCH), said),
        row("no file of the platform's torch changed", files(packages / "torch") == torch_before, f"{len(torch_before)} files"),
        row("nothing that the platform had was replaced", not replaced, str(replaced or f"{len(before)} packages, {len(after)} now")),
        row("JupyterLab was not installed", "jupyterlab" not in after, "absent" if "jupyterlab" not in after else "present"),
    ]  # fmt: skip


def row(what: str, ok: bool, said: str) -> dict:
    return {"what": what, "ok": ok, "said": said.strip()[-300:]}


def platform(folder: Path) -> tuple[Path, Path]:
    """The Python of the platform, and the folder of its packages."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    needs = [line for line in importlib.metadata.requires("torch") if "extra ==" not in line]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PLATFORM, *needs], check=True)
    asked = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    packages = Path(asked.strip())
    distribution = importlib.metadata.distribution("torch")
    for name in ("torch", "torchgen", "functorch"):
        shutil.copytree(distribution.locate_file(name), packages / name, copy_function=os.symlink)
    version = packages / "torch" / "version.py"
    as_built = version.read_text(encoding="utf-8")
    version.unlink()  # a link to the original
    version.write_text(as_built.replace(distribution.version, TORCH), encoding="utf-8")
    facts = packages / f"torch-{TORCH}.dist-info"
    facts.mkdir()
    metadata = distribution.read_text("METADATA").replace(
        f"\nVersion: {distribution.version}\n", f"\nVersion: {TORCH}\n"
    )
    (facts / "METADATA").write_text(metadata, encoding="utf-8")
    (facts / "INSTALLER").write_text("platform\n", encoding="utf-8")
    return python, packages


def publish(origin: Path) -> None:
    """The files of the checkout as they stand, as a repository."""
    copy_checkout(origin)
    git = ["git", "-C", str(origin), "-c", "user.name=audit", "-c", "user.email=audit@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "the course"]):
        subprocess.run([*git, *command], check=True)


def published_notebook() -> NotebookNode:
    """As `make notebooks` writes it once the repository has an address."""
    address, paths.repository_url = paths.repository_url, lambda: REPOSITORY
    try:
        return student_of(read_lesson(LESSON))
    finally:
        paths.repository_url = address


def execute(notebook: NotebookNode, python: Path, origin: Path, work: Path) -> str:
    """Run all cells in the platform's kernel; what failed, if anything did."""
    kernels = origin.with_name("kernels")
    (kernels / "platform").mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "platform/kernel.json").write_text(json.dumps({"argv": argv, "display_name": "", "language": "python"}))
    manager = AsyncKernelManager(
        kernel_name="platform", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(kernels)])
    )
    foreign = ("PYTHON", "COURSE_", "JUPYTER", "VIRTUAL_ENV")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{origin.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": REPOSITORY,
    }
    client = NotebookClient(notebook, km=manager, timeout=CELL_SECONDS)
    try:
        client.execute(env=own, cwd=str(work), cleanup_kc=True)
    except CellExecutionError as error:
        return f"{error.ename}: {error.evalue}"
    return ""


def installed(python: Path) -> dict[str, str]:
    asked = subprocess.check_output([python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"])
    return {package["name"].lower(): package["version"] for package in json.loads(asked)}


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file that is not compiled."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in found}


def text(cell: NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", ()))


def shown(notebook: NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)
