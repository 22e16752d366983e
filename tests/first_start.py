"""`make lab` as a new student runs it: a copy of the course and an empty home folder."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from utils.paths import ROOT

FOREIGN = ("JUPYTER", "XDG_", "COURSE_PROGRESS", "IPYTHONDIR", "PYTHONPATH")  # settings of the tests or of this machine


class FirstStart:
    """A running `make lab`; use it as a context manager. `address` is what it printed."""

    def __init__(self, folder: Path, port: int):
        self.course, self.port = folder / "course", port
        for name in ("utils", "notebooks/src", "notebooks/exercises"):
            shutil.copytree(ROOT / name, self.course / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.course)
        self.home = folder / "home"
        self.home.mkdir()
        own = {"HOME": str(self.home), "PYTHONPATH": str(self.course)}
        self.environment = {name: os.environ[name] for name in os.environ if not name.startswith(FOREIGN)} | own

    def make_lab(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "utils.build.lab", "--no-browser", "--port", str(self.port)]
        return subprocess.Popen(
            command, cwd=self.course, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self):
        self.process = self.make_lab()
        self.printed = self.process.stdout.readline()
        self.address = re.search(r"http://\S+$", self.printed)[0]
        return self

    def again(self) -> str:
        """What a second `make lab` prints."""
        return self.make_lab().communicate(timeout=60)[0]

    def interrupt(self) -> str:
        """Ctrl-C; gives what was printed since the address."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[0]

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.interrupt()
