"""The lock pins every package but torch with the hashes of its files, and pip refuses a file with another one."""

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.wheels import make_wheel
from utils.build import bootstrap, lock
from utils.paths import ROOT

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = dict(re.findall(r"^([\w.-]+)==([^\s;]+) \\\n    --hash=sha256:[0-9a-f]{64}", LOCK, re.MULTILINE))


def test_the_lock_pins_an_allowed_version_of_every_dependency_but_torch():
    project = PROJECT["project"]
    groups = [line for group in project["optional-dependencies"].values() for line in group]
    locked = VERSIONS | {"torch": bootstrap.locked_torch().removeprefix("torch==")}
    for requirement in map(Requirement, [*project["dependencies"], *groups, *PROJECT["build-system"]["requires"]]):
        assert requirement.specifier.contains(locked[requirement.name]), f"{requirement}: run `make lock`"
    assert "torch" not in VERSIONS, "its hashes differ between machines"


@pytest.mark.parametrize(("arguments", "torch"), [([], "torch==98.0"), (["--torch", "99.1"], "torch==99.1")])
def test_a_new_lock_keeps_the_version_of_torch_or_takes_the_one_that_is_named(arguments, torch, tmp_path, monkeypatch):
    file = tmp_path / "requirements.lock"
    file.write_text("# torch==98.0\n", encoding="utf-8")
    constraints = []

    def compile_(command, **_):
        constraints.append(Path(command[command.index("--constraint") + 1]).read_text(encoding="utf-8"))
        file.write_text("crate==1.0\n\n# WARNING: The following packages\n# torch\n", encoding="utf-8")
        return 0

    monkeypatch.setattr(lock, "LOCK", file)
    monkeypatch.setattr(bootstrap, "ROOT", str(tmp_path))
    monkeypatch.setattr(lock.subprocess, "call", compile_)
    monkeypatch.setattr(sys, "argv", ["make lock", *arguments])
    assert lock.main() == 0 and constraints == [torch]
    assert bootstrap.locked_torch() == torch and file.read_text(encoding="utf-8").startswith("crate==1.0\n\n# Without")


def test_every_locked_package_has_hashes_and_no_index_is_named():
    assert len(VERSIONS) == len(re.findall(r"^[\w.-]+==", LOCK, re.MULTILINE)) > 100
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links|--trusted-host", LOCK)


ALL = ".[lab,test,site,grading]"


@pytest.fixture
def installing(tmp_path, monkeypatch):
    """bootstrap's install with this Python's pip, an index that is a folder, and a course of one crate."""
    wheel, root = make_wheel(tmp_path / "index"), tmp_path / "a course"
    root.mkdir()
    (root / "pyproject.toml").write_text('"torch>=2.6"', encoding="utf-8")
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
    monkeypatch.setattr(bootstrap, "has_torch", lambda: False)
    real, calls = subprocess.call, []

    def call(command, **options):
        if "venv" in command:
            return 0
        calls.append(command[command.index("--disable-pip-version-check") + 1 :])
        return real(command, **options) if "--require-hashes" in command else 0

    monkeypatch.setattr(bootstrap.subprocess, "call", call)

    def install(level, sha256="0" * 64):
        (root / "requirements.lock").write_text(
            f"crate==1.0 \\\n    --hash=sha256:{sha256}\n# torch==2.13.0\n", encoding="utf-8"
        )
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
    assert [call[2:] for call in calls[-2:]] == [["torch==2.13.0"], ["--no-build-isolation", "-e", ALL]]


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
    (_, constraints, torch), (_, _, *rest) = calls
    assert torch == "torch==2.13.0", "before the course, whose range would choose the newest"
    assert rest == ["-e", ".[lab]" if level == "lab" else ALL]
    assert Path(constraints).read_text(encoding="utf-8") == "crate==1.0\n"


@pytest.mark.parametrize(
    ("version", "kept"), [("2.6.0", True), ("2.14.1+cu130", True), ("2.5.1", False), (None, False)]
)
def test_the_lab_keeps_a_torch_that_its_python_has_and_the_tests_use_the_locked_one(version, kept, monkeypatch):
    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(bootstrap, "read", lambda name: '"torch>=2.6"')
    monkeypatch.setattr(importlib.metadata, "version", installed)
    assert bootstrap.keeps_torch("lab") is kept and not bootstrap.keeps_torch("test")


def test_a_torch_that_is_kept_is_visible_in_the_environment_and_not_installed_again(installing, monkeypatch):
    install, calls, _ = installing
    monkeypatch.setattr(bootstrap, "has_torch", lambda: True)
    real, made = bootstrap.subprocess.call, []
    monkeypatch.setattr(
        bootstrap.subprocess, "call", lambda command, **options: made.append(command) or real(command, **options)
    )
    install("lab")
    assert "--system-site-packages" in made[0] and [call[2:] for call in calls] == [["-e", ".[lab]"]]
