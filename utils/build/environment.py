"""Is this machine ready for the course? Each finding reports what is there and, if that is not enough, how to fix it.

python -m utils.build.environment        prints the findings, for lesson 00 and for a report of a problem
"""

import importlib.metadata
import os
import shutil
import sys
import tomllib
from dataclasses import dataclass

import psutil
from packaging.requirements import Requirement

from utils.checks.live import display_live
from utils.checks.text import inline
from utils.paths import ROOT, WORK

MIN_MEMORY, MIN_DISK = 4, 1  # GiB


@dataclass(frozen=True)
class Finding:
    name: str
    value: str
    fix: str = ""  # empty if nothing has to be fixed

    @property
    def ok(self) -> bool:
        return not self.fix


def python_finding(version=sys.version_info) -> Finding:
    fix = "" if version[:2] >= (3, 11) else "install Python 3.11 or newer and run `make lab` again"
    return Finding("Python", ".".join(map(str, version[:3])), fix)


def course_requirements() -> list[str]:
    """From the checkout where there is one: on a host such as Colab the course itself is not installed."""
    if (ROOT / "pyproject.toml").is_file():
        return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return importlib.metadata.requires("attention-course")


def package_findings(requirements=None) -> list[Finding]:
    """Compares the course's requirements with the installed versions."""
    requirements = course_requirements() if requirements is None else requirements
    faulty, versions = [], {}
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            faulty.append(Finding(requirement.name, "missing", f"run `make lab`, or `pip install '{requirement}'`"))
            continue
        versions[requirement.name] = version
        if not requirement.specifier.contains(version, prereleases=True):
            faulty.append(Finding(requirement.name, version, f"run `make lab`, or `pip install '{requirement}'`"))
    if faulty:
        return faulty
    shown = [f"{name} {versions[name]}" for name in ("torch", "jupyterlab", "ipywidgets") if name in versions]
    return [Finding("packages", f"all {len(versions)} installed, among them {', '.join(shown)}")]


def core_finding(cores=None) -> Finding:
    cores = os.cpu_count() or 1 if cores is None else cores
    note = "" if cores >= 2 else "; one is enough, but lessons take longer than stated"
    return Finding("processor cores", f"{cores}{note}")


def thread_finding(threads=None) -> Finding:
    if threads is None:
        import torch

        threads = torch.get_num_threads()
    return Finding("torch threads", f"{threads}; every lesson sets 1, the fastest for such small models")


def memory_finding(total=None, free=None) -> Finding:
    memory = psutil.virtual_memory()
    total = memory.total / 2**30 if total is None else total
    free = memory.available / 2**30 if free is None else free
    fix = ""
    if total < MIN_MEMORY:
        fix = f"some lessons need {MIN_MEMORY} GiB and may not run here"
    elif free < 1:
        fix = "close other programs, or shut down the kernels of other notebooks"
    return Finding("memory", f"{total:.0f} GiB, {free:.0f} GiB free", fix)


def disk_finding(free=None) -> Finding:
    free = shutil.disk_usage(WORK.parent).free / 2**30 if free is None else free
    fix = "" if free >= MIN_DISK else "free some space: cached results and your own work need about 1 GiB"
    return Finding("disk", f"{free:.0f} GiB free", fix)


def work_finding(folder=WORK) -> Finding:
    existing = folder if folder.exists() else folder.parent
    fix = "" if os.access(existing, os.W_OK) else "copy the course to a folder of your own, where you can write files"
    return Finding("your work", "can be saved" if not fix else "cannot be saved", fix)


def offline_finding() -> Finding:
    return Finding(
        "network", "not needed, except once for the published models of lessons 08 and 09 (`make downloads`)"
    )


def check_all() -> list[Finding]:
    return [
        python_finding(),
        *package_findings(),
        core_finding(),
        thread_finding(),
        memory_finding(),
        disk_finding(),
        work_finding(),
        offline_finding(),
    ]


class EnvironmentReport:
    """A table of findings; `ready` is True if nothing has to be fixed."""

    def __init__(self, findings: list[Finding]):
        self.findings = findings

    @property
    def ready(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def verdict(self) -> str:
        to_fix = sum(not finding.ok for finding in self.findings)
        return (
            "This machine is ready."
            if self.ready
            else f"{to_fix} thing{'s' * (to_fix > 1)} to fix first: see the table."
        )

    def __repr__(self) -> str:
        lines = [
            f"{'ok ' if f.ok else 'FIX'}  {f.name}: {f.value}{'' if f.ok else ' -> ' + f.fix}" for f in self.findings
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left; font-weight:normal'>{'✓' if f.ok else '✗'} {inline(f.name)}</th>"
            f"<td style='text-align:left'>{inline(f.value)}{'' if f.ok else '<br><b>' + inline(f.fix) + '</b>'}</td></tr>"
            for f in self.findings
        )
        return f"<table style='font-size:1em'>{rows}</table>"


def check_environment() -> EnvironmentReport:
    """Display the table only while the kernel runs: it differs between machines, so saved notebooks leave it out."""
    report = EnvironmentReport(check_all())
    display_live(report)
    return report


if __name__ == "__main__":
    print(EnvironmentReport(check_all()))
