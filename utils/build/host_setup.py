"""The course on a host such as Colab or Kaggle: the first cell of a student notebook clones it and runs this file.

Standard library only, because nothing else is installed yet.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLDEST = (3, 11)


def installed_torch() -> str | None:
    """The version of the platform's torch, without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def wanted(dependencies: list[str], torch: str | None) -> list[str]:
    """What pip is asked for: it leaves alone whatever suits, and torch in any version."""
    return [f"torch=={torch}" if torch and re.match(r"torch\b", line) else line for line in dependencies]


def install_what_is_missing() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    torch = installed_torch()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, *wanted(project["dependencies"], torch)]).returncode:
        raise SystemExit(
            "pip could not install what the course needs: switch on the notebook's internet access and run this cell again."
        )
    print(f"The course is ready in {ROOT.name}/{f'; torch is still {torch}' if torch else ''}.")


def make_importable() -> None:
    """In this kernel, and in the processes that it starts for checks."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "utils"]:  # of the platform
        del sys.modules[name]
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def main() -> None:
    if sys.version_info[:2] < OLDEST:
        version = ".".join(map(str, sys.version_info[:2]))
        raise SystemExit(f"The course needs Python 3.11 or newer and this is {version}: choose a newer runtime.")
    install_what_is_missing()
    make_importable()


if __name__ == "__main__":
    main()
