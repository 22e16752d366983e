"""`make lab`: copy the student notebooks to work/ once, then open JupyterLab at lesson 00, reachable from this machine only.

One server per folder: a second `make lab` opens the one that is running.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

from utils.paths import COPIED, INSTALLED, ROOT, STUDENTS, WORK, has_home, write_whole

PORTS_TO_TRY = 20
START_SECONDS, STOP_SECONDS = 180, 15
FIRST_PAGE = "lab/tree/work/00_start_here.ipynb"
# Of the test environment; without a course of nbgrader they add menus that lead nowhere, and a second to the start.
SERVER_EXTENSIONS_OFF = (
    "notebook",
    *(
        f"nbgrader.server_extensions.{name}"
        for name in ("assignment_list", "course_list", "formgrader", "validate_assignment")
    ),
)
SERVER = "utils.build.server"
# lab_settings: no news popup, no dialog about a build, no menus of nbgrader, and saved notebooks keep their widgets;
# lab_extension: saved pictures have their alt text, and saving without a kernel keeps the widgets;
# lab_templates: notebooks exported as HTML have it, too.
OPTIONS = (
    f"--LabApp.app_settings_dir={Path(__file__).with_name('lab_settings')}",
    f"--LabApp.extra_labextensions_path={Path(__file__).with_name('lab_extension')}",
    "--HTMLExporter.template_name=course",
    f"--HTMLExporter.extra_template_basedirs={Path(__file__).with_name('lab_templates')}",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    f"--ServerApp.jpserver_extensions={dict.fromkeys(SERVER_EXTENSIONS_OFF, False)}",
)

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
    record = work / COPIED
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
    """The text of a student notebook with its links adapted: `work/` is one folder level above `notebooks/exercises/`.

    Of an installed package, the documents are copied into `work/` too.
    """
    return notebook.replace("](../../", "](" if INSTALLED else "](../")


def copy_documents(work: Path = WORK) -> None:
    """The pages to which the student notebooks link, where no checkout holds them."""
    shutil.copytree(ROOT / "docs", work / "docs", dirs_exist_ok=True)


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
    command = [sys.executable, "-m", SERVER, "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += [f"--ServerApp.root_dir={WORK.parent}", "--ServerApp.port_retries=0", *OPTIONS]
    command += [f"--LabApp.default_url=/{FIRST_PAGE}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers run as root, and only this machine reaches the loopback address
    return command if open_browser else [*command, "--no-browser"]


def ensure_home(work: Path = WORK) -> str:
    """Without a home folder, HOME becomes a folder inside `work`; returns a message for the student, or nothing."""
    if has_home():
        return ""
    home = work / ".home"
    home.mkdir(exist_ok=True)
    os.environ["HOME"] = str(home)
    return "There is no writable home folder: JupyterLab stores its settings in work/.home."


# --- the running server -----------------------------------------------------------------------------------------


def runtime_folder() -> Path:
    """Where Jupyter servers describe themselves, as Jupyter itself says: it differs between systems."""
    asked = subprocess.run([sys.executable, "-m", "jupyter", "--runtime-dir"], capture_output=True, text=True)
    return Path(
        asked.stdout.strip() or os.devnull
    )  # without Jupyter there is no server; its start then says what is wrong


def running_server(runtime: Path, port: int | None = None) -> Path | None:
    """The runtime file of the server of this folder, if one answers; with `port`, only the one at that port."""
    for file in sorted(runtime.glob("jpserver-*.json")):
        try:
            server = json.loads(file.read_text(encoding="utf-8"))
            if Path(server["root_dir"]).resolve() == WORK.parent and port in (None, server["port"]) and answers(server):
                return file
        except (OSError, ValueError, KeyError, TypeError):  # half written, or left behind by a server that crashed
            continue
    return None


def answers(server: dict) -> bool:
    """Whether the server of a runtime file still runs; another one that now has its port refuses its token."""
    try:
        request(server, "api/status")
    except urllib.error.HTTPError:
        return not server["token"]  # it asks for a password instead
    except OSError:
        return False
    return True


def request(server: dict, path: str, data: bytes | None = None) -> None:
    """Ask the server of a runtime file; an OSError if it refuses."""
    headers = {"Authorization": f"token {server['token']}"}
    # No proxy: the environment may name one even for this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(urllib.request.Request(f"{server['url']}{path}", data, headers), timeout=5).close()


def start_kernel(file: Path) -> None:
    """Ask the server of a runtime file for lesson 00's kernel, which then starts while the browser loads the page."""
    server, lesson = json.loads(file.read_text(encoding="utf-8")), FIRST_PAGE.removeprefix("lab/tree/")
    session = {"path": lesson, "name": lesson, "type": "notebook", "kernel": {"name": "python3"}}
    with contextlib.suppress(OSError):  # the page asks again, and shows what is wrong
        request(server, "api/sessions", json.dumps(session).encode())


def address(file: Path) -> str:
    """The address of lesson 00 at the server of a runtime file."""
    server = json.loads(file.read_text(encoding="utf-8"))
    token = f"?token={server['token']}" if server["token"] else ""
    return f"{server['url']}{FIRST_PAGE}{token}"


def serve(port: int, open_browser: bool, runtime: Path, log: Path) -> int:
    """Run the server until Ctrl-C, and print its address; its own log goes to a file, and is shown if it fails."""
    # Others on this machine must not read the log: it contains the token.
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        # In a session of its own: otherwise Ctrl-C would reach it too, and it would ask for confirmation in the log.
        server = subprocess.Popen(
            server_command(port, open_browser),
            cwd=WORK.parent,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + START_SECONDS
        while server.poll() is None and time.monotonic() < until:
            if runtime_file := running_server(runtime, port):
                print(f"The course runs at this address until you press Ctrl-C: {address(runtime_file)}", flush=True)
                start_kernel(runtime_file)
                server.wait()
                break
            time.sleep(0.05)
    except KeyboardInterrupt:
        return 0
    finally:
        stop(server)
    if server.returncode:
        print(f"{log.read_text(encoding='utf-8', errors='replace')}\nJupyterLab failed: its log stands above.")
    return server.returncode


def stop(server: subprocess.Popen) -> None:
    """Ask the server to end its kernels and itself; after a while, or after a second Ctrl-C, end it at once."""
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()


def interrupt(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8888)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    try:
        for sentence in filter(None, [*copy_once(), ensure_home()]):
            print(sentence)
        if INSTALLED:
            copy_documents()
    except OSError as error:
        sys.exit(
            f"Your notebooks could not be copied to work/ ({error.strerror}): free some space, or copy the course to a folder "
            "where you can write files, and run `make lab` there."
        )
    runtime = runtime_folder()
    if runtime_file := running_server(runtime):
        print(f"The course already runs at this address (File > Shut Down stops it): {address(runtime_file)}")
        if not options.no_browser:
            # The page that the server wrote for this: the command line of a browser would show the token to others.
            webbrowser.open(runtime_file.with_name(f"{runtime_file.stem}-open.html").as_uri())
        return 0
    # Also where a script ignores Ctrl-C; the end of the terminal is the end of the server.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), interrupt)
    return serve(free_port(options.port), not options.no_browser, runtime, WORK / ".lab.log")


if __name__ == "__main__":
    sys.exit(main())
