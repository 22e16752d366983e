"""Write requirements.lock from pyproject.toml with pip-compile: exact versions, and hashes of every package but torch.

torch comes as different builds for different machines, so its version is a comment, which `bootstrap` reads; `--torch`
changes it. Other arguments go to pip-compile.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from utils.build.bootstrap import locked_torch
from utils.paths import ROOT

LOCK = ROOT / "requirements.lock"
OPTIONS = (
    "--quiet --all-extras --generate-hashes --strip-extras --no-annotate --unsafe-package torch --unsafe-package pip "
    "--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make lock", description=__doc__)
    parser.add_argument("--torch", default=locked_torch().removeprefix("torch=="), metavar="VERSION")
    own, others = parser.parse_known_args()
    torch = f"torch=={own.torch}"
    with tempfile.TemporaryDirectory() as folder:
        constraint = Path(folder, "torch.txt")
        constraint.write_text(torch, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "piptools",
            "compile",
            "--constraint",
            str(constraint),
            *OPTIONS.split(),
            *others,
        ]
        code = subprocess.call(command, cwd=ROOT, env=os.environ | {"CUSTOM_COMPILE_COMMAND": "make lock"})
    if code == 0:
        write(torch)
    return code


def write(torch: str) -> None:
    """The lock file without pip-compile's list of packages that it left out, and with torch's version instead."""
    pinned = LOCK.read_text(encoding="utf-8").partition("\n# WARNING: The following packages")[0].rstrip()
    LOCK.write_text(f"{pinned}\n\n# Without hashes, because its builds differ:\n# {torch}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
