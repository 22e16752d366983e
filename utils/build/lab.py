"""`make lab`: lay out the student's notebooks once, then open JupyterLab on this machine alone, at lesson 00."""

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from utils.paths import ROOT, STUDENTS, WORK, has_home

PORTS_TO_TRY = 20
# A notebook that is saved and opened again without running shows its widgets, not "model not found".
SETTINGS = Path(__file__).with_name("lab_settings")
# Saved pictures have their alt text.
EXTENSIONS = Path(__file__).with_name("lab_extension")

# Notebooks of the first edition, whose exercises have other numbers now.
MOVED = {
    "07_pretrain_and_fine_tune.ipynb": "its exercises are in lessons 07 and 08 now, and what you solved still counts",
    "08_cost_and_scale.ipynb": "this is lesson 09 now, and what you solved still counts",
}


def copy_once(students: Path = STUDENTS, work: Path = WORK) -> list[str]:
    """Copy student notebooks that `work` lacks; never overwrite one. Returns sentences worth telling."""
    work.mkdir(exist_ok=True)
    record = work / ".copied.json"
    copied = read_record(record)
    news = []
    for notebook in sorted(students.glob("*.ipynb")):
        digest = hashlib.sha256(notebook.read_bytes()).hexdigest()
        mine = work / notebook.name
        if not mine.exists():
            mine.write_text(for_work(notebook.read_text(encoding="utf-8")), encoding="utf-8")
            copied[notebook.name] = digest
        elif copied.get(notebook.name) not in (None, digest):
            news.append(
                f"{notebook.name} has a newer version; yours is left as it is. To start again, rename work/{mine.name}."
            )
    news += [
        f"work/{name} is of the first edition: {where}." for name, where in MOVED.items() if (work / name).exists()
    ]
    record.write_text(json.dumps(copied, indent=1), encoding="utf-8")
    return news


def for_work(notebook: str) -> str:
    """The text of a student notebook one folder higher up: `work/` stands beside `docs/`, `notebooks/exercises/` below it."""
    return notebook.replace("](../../", "](../")


def read_record(record: Path) -> dict[str, str]:
    """Which edition of each notebook was copied; a lost or damaged record only costs the news of newer editions."""
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
    sys.exit(f"Ports {wanted} to {wanted + PORTS_TO_TRY - 1} are all taken: try `make lab PORT=9000`.")


def server_command(port: int, open_browser: bool = True) -> list[str]:
    """JupyterLab on the loopback address; its own random token stays on."""
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += [f"--ServerApp.root_dir={ROOT}", "--ServerApp.port_retries=0", "--LabApp.news_url=None"]
    command += [f"--LabApp.app_settings_dir={SETTINGS}", f"--LabApp.extra_labextensions_path={EXTENSIONS}"]
    command += ["--LabApp.default_url=/lab/tree/work/00_start_here.ipynb"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in a container everybody is root, and nobody else can reach loopback
    return command if open_browser else [*command, "--no-browser"]


def server_environment(work: Path = WORK) -> dict[str, str]:
    """As it is here; without a home folder, one inside `work`."""
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
            f"Your notebooks could not be laid out in work/ ({error.strerror}): make room there, or copy the course to a "
            "folder of your own that can be written, and run `make lab` there."
        )
    if environment.get("HOME") != os.environ.get("HOME"):
        print("There is no home folder that can be written: the settings of JupyterLab are kept in work/.home.")
    port = free_port(options.port)
    if port != options.port:
        print(f"Port {options.port} is taken, perhaps by a JupyterLab that still runs; this one uses {port}.")
    try:
        return subprocess.call(server_command(port, not options.no_browser), cwd=ROOT, env=environment)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
