"""Make the environment in .venv, or say in one sentence why it cannot be made.

Runs on whatever Python the machine has, before anything is installed: standard library only, and syntax that an
old Python can read far enough to be told that it is too old.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "course-ready")
PYTHON = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin", "python")
OLDEST = (3, 11)
NEWER_NAMES = ("python3.13", "python3.12", "python3.11")
LOCKED_PYTHONS = ("3.11", "3.12", "3.13")  # what requirements.lock serves, on Linux
LOCKED_MACHINES = ("x86_64", "aarch64")
NEEDED_BYTES = 3 * 2**30
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")


def stop(sentence):
    sys.stderr.write(sentence + "\n")
    sys.exit(1)


def say(sentence):
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def use_a_new_enough_python():
    """Go on under a newer Python when this one is too old and a newer one is at hand."""
    if sys.version_info[:2] >= OLDEST:
        return
    for name in NEWER_NAMES:
        newer = shutil.which(name) if hasattr(shutil, "which") else None
        if newer:
            os.execv(newer, [newer] + sys.argv)
    stop(
        "The course needs Python %d.%d or newer and this is %s: install a newer one, or name it with "
        "'make ... PYTHON=/path/to/python3'." % (OLDEST + (platform.python_version(),))
    )


def wanted_stamp(level):
    """What the environment was made from; a moved checkout or a changed dependency gives another stamp."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt") + (("requirements.lock",) if level == "test" else ()):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    digest.update(repr((ROOT, sys.version_info[:2])).encode())
    return digest.hexdigest()[:16] + " " + level


def is_ready(level):
    """The test environment also serves the lab."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            stamp = file.read().strip()
    except OSError:
        return False
    return stamp in (wanted_stamp(level), wanted_stamp("test")) and os.path.exists(PYTHON)


def check_path():
    """torch's libraries load from a path of other letters only where Python writes paths in UTF-8."""
    if not ROOT.isascii() and sys.getfilesystemencoding().lower().replace("-", "") != "utf8":
        stop(
            "The path of this folder has letters that this machine's settings (%s) cannot write: unset PYTHONUTF8 or set "
            "PYTHONUTF8=1, or move the course to a folder whose path has plain letters." % sys.getfilesystemencoding()
        )


def check_disk():
    free = shutil.disk_usage(ROOT).free
    if free < NEEDED_BYTES:
        stop(
            "The environment needs %.0f GiB of disk and %.1f GiB are free here: make room, then run the command again."
            % (NEEDED_BYTES / 2**30, free / 2**30)
        )


def make_venv():
    if subprocess.call([sys.executable, "-m", "venv", "--clear", VENV], stdout=subprocess.DEVNULL) != 0:
        stop(
            "Python could not make a virtual environment in .venv: on Debian or Ubuntu install python3-venv; "
            "elsewhere check that this folder can be written to."
        )


def why_not_locked():
    """Why the sums of requirements.lock cannot be asked for here, in words; nothing where they can."""
    python, machine = "%d.%d" % sys.version_info[:2], platform.machine()
    if os.environ.get("COURSE_LOCK") == "no":
        return "COURSE_LOCK=no was asked for"
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc" or machine not in LOCKED_MACHINES:
        return "it serves Linux on %s, and this is %s on %s" % (" and ".join(LOCKED_MACHINES), sys.platform, machine)
    if python not in LOCKED_PYTHONS:
        return "it serves Python %s, and this is %s" % (", ".join(LOCKED_PYTHONS), python)
    return ""


def install(level):
    """For the tests every file is held against requirements.lock; then all versions are fixed by constraints.txt.

    The lock has everything but torch, and what builds the course: the second call fetches torch alone.
    """
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    course = ["-c", "constraints.txt", "-e", "." if level == "lab" else ".[test]"]
    if level == "test" and why_not_locked():
        say("The versions are those of constraints.txt, without the sums of requirements.lock: %s." % why_not_locked())
    elif level == "test":
        course.insert(0, "--no-build-isolation")
        if subprocess.call(pip + ["--require-hashes", "--no-deps", "-r", "requirements.lock"], cwd=ROOT) != 0:
            check_disk()
            stop(
                "pip could not install what requirements.lock names (its own words stand above): check the network and "
                "run it again, or, if it says that sums differ and you trust your package index, run it with COURSE_LOCK=no."
            )
    if subprocess.call(pip + course, cwd=ROOT) != 0:
        check_disk()
        stop("pip could not install the course (its own words stand above): check the network, then run it again.")


def lock():
    """Hold off a second `make` in the same folder until this one is done; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:
        return None
    held = open(os.path.join(ROOT, ".venv.lock"), "w", encoding="utf-8")
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


def make_environment(level):
    if is_ready(level):
        return
    check_disk()
    try:
        held = lock()
    except OSError as error:
        stop("This folder cannot be written to (%s): copy the course to a folder of your own." % error.strerror)
    if not is_ready(level):
        say("Making the environment in .venv: about 1.5 GB, one to five minutes, only this once.")
        make_venv()
        install(level)
        with open(STAMP, "w", encoding="utf-8") as file:
            file.write(wanted_stamp(level))
    if held:
        held.close()


def ensure_browser():
    """The pages are tested in a real browser: as root on Debian install one; elsewhere the tests say what to do."""
    if os.environ.get("COURSE_BROWSER") or any(shutil.which(name) for name in BROWSERS):
        return
    if sys.platform != "linux" or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    say("Installing Chromium for the browser tests.")
    quiet = {"stdout": subprocess.DEVNULL, "env": dict(os.environ, DEBIAN_FRONTEND="noninteractive")}
    subprocess.call(["apt-get", "update", "-qq"], **quiet)
    if subprocess.call(["apt-get", "install", "-y", "-qq", "chromium"], **quiet) != 0:
        stop("apt-get could not install Chromium: install any Chrome or Chromium and name it in COURSE_BROWSER.")


if __name__ == "__main__":
    use_a_new_enough_python()
    check_path()
    for_tests = "--test" in sys.argv[1:]
    make_environment("test" if for_tests else "lab")
    if for_tests:
        ensure_browser()
