"""Write requirements.lock: the versions of constraints.txt, each with the sha256 of the files that may be installed.

    make lock        asks pip about every Python and every kind of machine that the lock serves (minutes)

pip then refuses a file with any other sum (`bootstrap.py` asks it to, for the environment of the tests). torch is not
in it: the same version comes as another build for another machine, and some of them bring packages of their own. It is
fixed by its version alone.
"""

import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

from utils.course.bootstrap import LOCKED_MACHINES, LOCKED_PYTHONS
from utils.course.places import ROOT

LOCK, CONSTRAINTS = ROOT / "requirements.lock", ROOT / "constraints.txt"
NOT_LOCKED = {"torch"}
BUILDS = ("setuptools",)  # builds the course itself, and pip freeze leaves it out
GLIBC = (5, 12, 17, 24, 27, 28)  # the second part of glibc 2.x
OLD_NAMES = ("manylinux1", "manylinux2010", "manylinux2014")
HEAD = (
    "# The versions of constraints.txt with the sums of their files, written by `make lock`.",
    "# torch is not in it: the same version comes as another build for another machine.",
)


class LockError(RuntimeError):
    """The lock could not be written; the message says why."""


def fixed_versions(text: str) -> list[str]:
    """The lines `name==version` of constraints.txt that are locked."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [line for line in lines if Requirement(line).name not in NOT_LOCKED]


def platforms(machine: str) -> list[str]:
    return [f"manylinux_2_{minor}_{machine}" for minor in GLIBC] + [f"{name}_{machine}" for name in OLD_NAMES]


def sums(wanted: Iterable[str], python: str, machine: str) -> dict[str, str]:
    """The sha256 of the wheel that pip takes for each of `wanted`, on that Python and kind of machine."""
    with tempfile.TemporaryDirectory(prefix="course-lock-") as folder:
        report, listed = Path(folder) / "report.json", Path(folder) / "wanted.txt"
        listed.write_text("\n".join(wanted), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--no-deps", "--ignore-installed", "--only-binary=:all:", "--target", folder, "-r", str(listed)]
        command += ["--report", str(report), "--implementation", "cp", "--python-version", python]
        command += [part for name in platforms(machine) for part in ("--platform", name)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise LockError(f"pip found no file of some package for Python {python} on {machine}: {reason}")
        if yanked := [line for line in done.stderr.splitlines() if "yanked version" in line]:
            raise LockError(f"a version was withdrawn by its makers, choose another one: {yanked[0]}")
        return read_report(json.loads(report.read_text(encoding="utf-8")))


def read_report(report: dict) -> dict[str, str]:
    """From pip's report: `name==version` to sha256."""
    found = {}
    for entry in report["install"]:
        package = f"{entry['metadata']['name']}=={entry['metadata']['version']}"
        archive = entry["download_info"]["archive_info"]
        # Before pip 23.1, which Debian 12 still brings, "hashes" was not there.
        found[package] = archive["hashes"]["sha256"] if "hashes" in archive else archive["hash"].removeprefix("sha256=")
    return found


def lock_text(found: Iterable[dict[str, str]]) -> str:
    """The lock file: one package after the other, each with all sums that were found for it."""
    merged: dict[str, set[str]] = {}
    for some in found:
        for package, digest in some.items():
            merged.setdefault(package, set()).add(digest)
    entries = [
        " \\\n    ".join([package, *(f"--hash=sha256:{digest}" for digest in sorted(digests))])
        for package, digests in sorted(merged.items(), key=lambda item: item[0].lower())
    ]
    return "\n".join([*HEAD, *entries]) + "\n"


def main() -> int:
    wanted = fixed_versions(CONSTRAINTS.read_text(encoding="utf-8"))
    wanted += [f"{name}=={importlib.metadata.version(name)}" for name in BUILDS]
    served = [(python, machine) for python in LOCKED_PYTHONS for machine in LOCKED_MACHINES]
    found = []
    try:
        for python, machine in served:
            print(f"asking for the files of {len(wanted)} packages for Python {python} on {machine} ...", flush=True)
            found.append(sums(wanted, python, machine))
    except LockError as problem:
        print(f"{problem}; {LOCK.name} is as it was", file=sys.stderr)
        return 1
    LOCK.write_text(lock_text(found), encoding="utf-8")
    print(f"{LOCK.name} is written: commit it together with {CONSTRAINTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
