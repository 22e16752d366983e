"""The lock pins every package but torch with the hashes of its files, and pip refuses a file with another one."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.wheels import make_wheel
from utils.build import bootstrap
from utils.paths import ROOT

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = dict(re.findall(r"^([\w.-]+)==([^\s;]+) \\\n    --hash=sha256:[0-9a-f]{64}", LOCK, re.MULTILINE))


def test_the_lock_pins_an_allowed_version_of_every_dependency_but_torch():
    project = PROJECT["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["test"] + PROJECT["build-system"]["requires"]
    for requirement in map(Requirement, wanted):
        if requirement.name == "torch":
            assert str(requirement.specifier).startswith("=="), "not in the lock: pinned in pyproject.toml"
        else:
            assert requirement.specifier.contains(VERSIONS[requirement.name]), f"{requirement}: run `make lock`"
    assert "torch" not in VERSIONS


def test_every_locked_package_has_hashes_and_no_index_is_named():
    assert len(VERSIONS) == len(re.findall(r"^[\w.-]+==", LOCK, re.MULTILINE)) > 100
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links|--trusted-host", LOCK)


@pytest.fixture
def installing(tmp_path, monkeypatch):
    """bootstrap's install with this Python's pip, an index that is a folder, and a course of one crate."""
    wheel, root = make_wheel(tmp_path / "index"), tmp_path / "a course"
    root.mkdir()
    (root / "pyproject.toml").touch()
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent), "PIP_CONFIG_FILE": os.devnull}
    for name, value in {**settings, "PIP_TARGET": str(tmp_path / "installed")}.items():
        monkeypatch.setenv(name, value)
    values = {
        "ROOT": str(root),
        "VENV": str(root),
        "STAMP": str(root / "course-ready"),
        "PYTHON": sys.executable,
        "NEWEST_LOCKED": sys.version_info[:2],
    }
    for name, value in values.items():
        monkeypatch.setattr(bootstrap, name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bootstrap, "check_disk", lambda: None)
    real, calls = subprocess.call, []

    def call(command, **options):
        if "venv" in command:
            return 0
        calls.append(command[command.index("--disable-pip-version-check") + 1 :])
        return real(command, **options) if "--require-hashes" in command else 0

    monkeypatch.setattr(bootstrap.subprocess, "call", call)

    def install(level, sha256="0" * 64):
        (root / "requirements.lock").write_text(f"crate==1.0 \\\n    --hash=sha256:{sha256}\n", encoding="utf-8")
        bootstrap.make_environment(level)

    return install, calls, wheel


def test_pip_installs_a_file_with_the_locked_hash_and_refuses_another(installing, tmp_path, capfd):
    install, calls, wheel = installing
    with pytest.raises(SystemExit):
        install("test")
    said = capfd.readouterr().err
    assert "DO NOT MATCH THE HASHES" in said and "pip could not install the course" in said
    assert "check the network" in said and said.endswith("run the command with COURSE_LOCK=no.\n")
    assert not (tmp_path / "installed").exists() and len(calls) == 1 and not bootstrap.is_ready("test")
    install("test", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert (tmp_path / "installed/crate").is_dir() and bootstrap.is_ready("test")
    assert calls[-1][2:] == ["--no-build-isolation", "-e", ".[test]"]


@pytest.mark.parametrize(
    ("level", "change"),
    [
        ("lab", lambda patch: None),
        ("test", lambda patch: patch.setenv("COURSE_LOCK", "no")),
        ("test", lambda patch: patch.setattr(sys, "platform", "darwin")),
        ("test", lambda patch: patch.setattr(sys, "version_info", (3, 99, 0))),
    ],
    ids=["the lab", "another index", "another system", "a newer Python"],
)
def test_versions_alone_are_fixed_where_hashes_are_not_verified(installing, monkeypatch, level, change):
    install, calls, _ = installing
    change(monkeypatch)
    install(level)
    ((_, constraints, *rest),) = calls
    assert rest == ["-e", "." if level == "lab" else ".[test]"]
    assert Path(constraints).read_text(encoding="utf-8") == "crate==1.0\n"
