"""Create the environment in .venv, or report in one sentence why this is impossible.

`python -m utils` and so `make` call it; `python utils/build/bootstrap.py [--test]` does nothing else. It runs on whatever
Python the machine has, before anything is installed: standard library only, and syntax that an old Python can parse, so
that it can report that it is too old.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "course-ready")
PYTHON = os.path.join(VENV, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))
OLDEST, NEWEST_LOCKED = (3, 11), (3, 13)
NEWER_NAMES = ("python3.13", "python3.12", "python3.11")
NEEDED_GIB = 3
GROUPS = {"lab": "[lab]", "test": "[lab,test,site,grading]"}  # of pyproject.toml, beside what notebooks import
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")


def stop(sentence):
    sys.stderr.write(sentence + "\n")
    sys.exit(1)


def say(sentence):
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def again():
    """The arguments of a Python that starts this command once more."""
    if os.path.basename(sys.argv[0]) == "__main__.py":  # python -m utils
        return ["-m", "utils"] + sys.argv[1:]
    return sys.argv


def check_python():
    """Continue under a newer Python if this one is too old and a newer one is installed."""
    if sys.version_info[:2] >= OLDEST:
        return
    for name in NEWER_NAMES:
        newer = shutil.which(name) if hasattr(shutil, "which") else None
        if newer:
            os.execv(newer, [newer] + again())
    stop(
        "The course needs Python %d.%d or newer and this is %s: install a newer one, or name it with "
        "'make ... PYTHON=/path/to/python3'." % (OLDEST + (platform.python_version(),))
    )


def check_path():
    """torch's libraries load from a path with accents only where Python writes paths in UTF-8."""
    if not ROOT.isascii() and sys.getfilesystemencoding().lower().replace("-", "") != "utf8":
        stop(
            "The path of this folder has characters that this machine's encoding (%s) does not support: unset PYTHONUTF8 or set "
            "PYTHONUTF8=1, or move the course to a folder whose path is plain ASCII." % sys.getfilesystemencoding()
        )


def check_disk():
    free = shutil.disk_usage(ROOT).free / 2**30
    if free < NEEDED_GIB:
        stop(
            "The environment needs %d GiB of disk space, but only %.1f GiB are free here: free some space, then run the command again."
            % (NEEDED_GIB, free)
        )


def wanted_stamp(level):
    """A hash of everything that determines the environment; a moved checkout or a changed dependency changes it."""
    digest = hashlib.sha256(repr((ROOT, sys.version_info[:2])).encode())
    for name in ("pyproject.toml", "requirements.lock"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16] + " " + level


def is_ready(level):
    """The test environment also serves the lab."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            stamp = file.read().strip()
    except OSError:
        return False
    return stamp in (wanted_stamp(level), wanted_stamp("test")) and os.path.exists(PYTHON)


def pip(*arguments):
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.call(command + list(arguments), cwd=ROOT) != 0:
        check_disk()
        stop(
            "pip could not install the course (see its message above): check the network and try again. If pip reports "
            "different hashes and you trust your package index, run the command with COURSE_LOCK=no."
        )


def verifies_hashes(level):
    """The lock file has hashes for Linux and the tested Pythons; elsewhere only its versions are used."""
    tested = sys.platform == "linux" and sys.version_info[:2] <= NEWEST_LOCKED
    return level == "test" and tested and os.environ.get("COURSE_LOCK") != "no"


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def locked_torch():
    """torch stands in the lock file without hashes, as a comment: its builds differ between machines."""
    return re.search(r"^# (torch==[\w.]+)$", read("requirements.lock"), re.MULTILINE).group(1)


def has_torch():
    """Whether the Python that runs this has a torch that pyproject.toml allows."""
    from importlib import metadata

    oldest = re.search(r'"torch>=([\d.]+)"', read("pyproject.toml")).group(1)
    try:
        numbers = re.match(r"[\d.]+", metadata.version("torch")).group()
    except metadata.PackageNotFoundError:
        return False
    return [int(part) for part in numbers.split(".")] >= [int(part) for part in oldest.split(".")]


def keeps_torch(level):
    """A torch that this Python already has stays in use, except in the tests, which use the locked one."""
    return level == "lab" and has_torch()


def install(level):
    """Install the versions of requirements.lock, for the tests with their hashes.

    torch comes first: the range in pyproject.toml alone would choose its newest version.
    """
    versions = re.findall(r"^[\w.-]+==[^\s;]+", read("requirements.lock"), re.MULTILINE)
    constraints = os.path.join(VENV, "constraints.txt")  # pip takes no hashes beside an editable install
    with open(constraints, "w", encoding="utf-8") as file:
        file.write("\n".join(versions) + "\n")
    course = "." + GROUPS[level]
    if verifies_hashes(level):
        pip("--require-hashes", "--no-deps", "-r", "requirements.lock")
        pip("-c", constraints, locked_torch())
        pip("-c", constraints, "--no-build-isolation", "-e", course)
    else:
        if not keeps_torch(level):
            pip("-c", constraints, locked_torch())
        pip("-c", constraints, "-e", course)


def lock_folder():
    """A second `make` in the same folder waits until this process has ended."""
    try:
        held = open(os.path.join(ROOT, ".venv.lock"), "w", encoding="utf-8")
    except OSError as error:
        stop("This folder cannot be written to (%s): copy the course to a folder of your own." % error.strerror)
    if os.name == "posix":
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX)
    return held


def make_environment(level):
    if is_ready(level):
        return
    check_disk()
    held = lock_folder()
    if not is_ready(level):
        say("Creating the environment in .venv (once): about 1.5 GB, one to five minutes.")
        command = [sys.executable, "-m", "venv", "--clear", VENV]
        if keeps_torch(level):
            say("It uses the torch that is installed beside %s." % sys.executable)
            command.append("--system-site-packages")
        if subprocess.call(command, stdout=subprocess.DEVNULL) != 0:
            stop(
                "Python could not create a virtual environment in .venv: on Debian or Ubuntu, install python3-venv; "
                "elsewhere, check that this folder is writable."
            )
        install(level)
        with open(STAMP, "w", encoding="utf-8") as file:
            file.write(wanted_stamp(level))
    held.close()


def ensure_programs():
    """Tests need a browser and the sandbox of the grading: install them as root on Debian; elsewhere the tests say what to do."""
    missing = []
    if not os.environ.get("COURSE_BROWSER") and not any(shutil.which(name) for name in BROWSERS):
        missing.append(
            ("chromium", "Chromium for the browser tests", "any Chrome or Chromium; name it in COURSE_BROWSER")
        )
    if not shutil.which("bwrap"):
        missing.append(("bubblewrap", "bubblewrap for the tests of the grading", "bubblewrap 0.8 or newer"))
    if not missing or sys.platform != "linux" or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    quiet = {"stdout": subprocess.DEVNULL, "env": dict(os.environ, DEBIAN_FRONTEND="noninteractive")}
    subprocess.call(["apt-get", "update", "-qq"], **quiet)
    for package, purpose, instead in missing:
        say("Installing %s." % purpose)
        if subprocess.call(["apt-get", "install", "-y", "-qq", package], **quiet) != 0:
            stop("apt-get could not install %s: install %s." % (package, instead))


def main(level):
    check_python()
    check_path()
    make_environment(level)
    if level == "test":
        ensure_programs()


if __name__ == "__main__":
    main("test" if "--test" in sys.argv[1:] else "lab")
