"""`make lab`: copy the student notebooks to work/ once, then open JupyterLab at lesson 00, reachable from this machine only."""

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from utils.paths import ROOT, STUDENTS, WORK, has_home, write_whole

PORTS_TO_TRY = 20
# A notebook that is saved and opened again without running shows its widgets, not "model not found".
SETTINGS = Path(__file__).with_name("lab_settings")
# Saved pictures have their alt text.
EXTENSIONS = Path(__file__).with_name("lab_extension")

# Notebooks of the first edition, whose exercises have been renumbered.
MOVED = {
    "07_pretrain_and_fine_tune.ipynb": "its exercises are now in lessons 07 and 08, and what you solved still counts",
    "08_cost_and_scale.ipynb": "it is now lesson 09, and what you solved still counts",
}


def copy_once(students: Path = STUDENTS, work: Path = WORK) -> list[str]:
    """Copy student notebooks that `work` lacks or that a full disk cut off; never overwrite another.

    Returns messages for the student.
    """
    work.mkdir(exist_ok=True)
    record = work / ".copied.json"
    copied = read_record(record)
    news = []
    for notebook in sorted(students.glob("*.ipynb")):
        digest = hashlib.sha256(notebook.read_bytes()).hexdigest()
        mine, whole = work / notebook.name, for_work(notebook.read_text(encoding="utf-8"))
        if not mine.exists() or is_cut_off(mine, whole):
            copied[notebook.name] = digest
            write_whole(record, json.dumps(copied, indent=1))  # first: no copy without its version
            write_whole(mine, whole)
        elif copied.get(notebook.name) not in (None, digest):
            news.append(
                f"{notebook.name} has a newer version; yours was left unchanged. To get the new one, rename work/{mine.name} and run `make lab` again."
            )
    news += [
        f"work/{name} belongs to the first edition: {where}." for name, where in MOVED.items() if (work / name).exists()
    ]
    write_whole(record, json.dumps(copied, indent=1))
    return news


def is_cut_off(copy: Path, whole: str) -> bool:
    """Whether a copy is only the beginning of the notebook, as an interrupted copy of an older version is."""
    content = copy.read_bytes()
    return len(content) < len(whole.encode()) and whole.encode().startswith(content)


def for_work(notebook: str) -> str:
    """The text of a student notebook with its links adapted: `work/` is one folder level above `notebooks/exercises/`."""
    return notebook.replace("](../../", "](../")


def read_record(record: Path) -> dict[str, str]:
    """Which version of each notebook was copied. If the record is lost, newer versions are not announced, no more."""
    try:
        copied = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return copied if isinstance(copied, dict) else {}


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(wanted: int) -> int:
    """`wanted` or the next free one after it."""
    for port in range(wanted, wanted + PORTS_TO_TRY):
        if is_free(port):
            return port
    sys.exit(f"Ports {wanted} to {wanted + PORTS_TO_TRY - 1} are all in use: try `make lab PORT=9000`.")


def server_command(port: int, open_browser: bool = True) -> list[str]:
    """JupyterLab on the loopback address; its own random token stays on."""
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += [f"--ServerApp.root_dir={ROOT}", "--ServerApp.port_retries=0", "--LabApp.news_url=None"]
    command += [f"--LabApp.app_settings_dir={SETTINGS}", f"--LabApp.extra_labextensions_path={EXTENSIONS}"]
    command += ["--LabApp.default_url=/lab/tree/work/00_start_here.ipynb"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers run as root, and only this machine reaches the loopback address
    return command if open_browser else [*command, "--no-browser"]


def server_environment(work: Path = WORK) -> dict[str, str]:
    """The current environment; without a home folder, HOME becomes a folder inside `work`."""
    if has_home():
        return dict(os.environ)
    home = work / ".home"
    home.mkdir(exist_ok=True)
    return os.environ | {"HOME": str(home)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8888)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    try:
        for sentence in copy_once():
            print(sentence)
        environment = server_environment()
    except OSError as error:
        sys.exit(
            f"Your notebooks could not be copied to work/ ({error.strerror}): free some space, or copy the course to a folder "
            "where you can write files, and run `make lab` there."
        )
    if environment.get("HOME") != os.environ.get("HOME"):
        print("There is no writable home folder: JupyterLab stores its settings in work/.home.")
    port = free_port(options.port)
    if port != options.port:
        print(f"Port {options.port} is in use, perhaps by another JupyterLab; this one uses {port}.")
    try:
        return subprocess.call(server_command(port, not options.no_browser), cwd=ROOT, env=environment)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
