"""Is this machine ready for the course? Each line says what is there and, where it is not enough, what to do."""

import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass

import psutil
from packaging.requirements import Requirement

from utils.checks.live import display_live
from utils.checks.text import inline
from utils.paths import ROOT, WORK

LEAST_MEMORY, LEAST_DISK = 4, 1  # GiB


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    fix: str = ""  # empty: all is well

    @property
    def fine(self) -> bool:
        return not self.fix


def python_finding(version=sys.version_info) -> Finding:
    found = ".".join(map(str, version[:3]))
    fix = "" if version[:2] >= (3, 11) else "install Python 3.11 or newer and run `make lab` again"
    return Finding("Python", found, fix)


def package_findings(requirements=None) -> list[Finding]:
    """The course's own requirements against what is installed."""
    requirements = importlib.metadata.requires("attention-course") if requirements is None else requirements
    wrong, versions = [], {}
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(Finding(requirement.name, "missing", f"run `make lab`, or `pip install '{requirement}'`"))
            continue
        versions[requirement.name] = version
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(Finding(requirement.name, version, f"run `make lab`, or `pip install '{requirement}'`"))
    if wrong:
        return wrong
    shown = [f"{name} {versions[name]}" for name in ("torch", "jupyterlab", "ipywidgets") if name in versions]
    return [Finding("packages", f"all {len(versions)} in place: {', '.join(shown)}")]


def core_finding(cores=None) -> Finding:
    cores = os.cpu_count() or 1 if cores is None else cores
    note = "" if cores >= 2 else "; one is enough, but lessons take longer than their cards say"
    return Finding("processor cores", f"{cores}{note}")


def thread_finding(threads=None) -> Finding:
    if threads is None:
        import torch

        threads = torch.get_num_threads()
    return Finding("torch threads", f"{threads}; every lesson sets 1, which is best for models this small")


def memory_finding(total=None, free=None) -> Finding:
    memory = psutil.virtual_memory()
    total = memory.total / 2**30 if total is None else total
    free = memory.available / 2**30 if free is None else free
    fix = ""
    if total < LEAST_MEMORY:
        fix = f"lessons need up to {LEAST_MEMORY} GiB: the larger ones may not run here"
    elif free < 1:
        fix = "close other programs or other notebooks' kernels"
    return Finding("memory", f"{total:.0f} GiB, {free:.0f} GiB free", fix)


def disk_finding(free=None) -> Finding:
    free = shutil.disk_usage(ROOT).free / 2**30 if free is None else free
    fix = "" if free >= LEAST_DISK else "make room: kept results and your own work need about 1 GiB"
    return Finding("disk", f"{free:.0f} GiB free", fix)


def work_finding(folder=WORK) -> Finding:
    place = folder if folder.exists() else folder.parent
    fix = (
        ""
        if os.access(place, os.W_OK)
        else "copy the course to a folder of your own: your progress cannot be saved here"
    )
    return Finding("your work", "can be saved" if not fix else "cannot be saved", fix)


def offline_finding() -> Finding:
    return Finding("network", "needed once more, for the published models of lessons 08 and 09 (`make downloads`)")


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
    """The findings as a table; `ready` is True when nothing has to be fixed."""

    def __init__(self, findings: list[Finding]):
        self.findings = findings

    @property
    def ready(self) -> bool:
        return all(finding.fine for finding in self.findings)

    @property
    def verdict(self) -> str:
        to_fix = sum(not finding.fine for finding in self.findings)
        return (
            "This machine is ready." if self.ready else f"{to_fix} thing{'s' * (to_fix > 1)} to fix first, see below."
        )

    def __repr__(self) -> str:
        lines = [
            f"{'ok ' if f.fine else 'FIX'}  {f.what}: {f.found}{'' if f.fine else ' -> ' + f.fix}"
            for f in self.findings
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left; font-weight:normal'>{'✓' if f.fine else '✗'} {inline(f.what)}</th>"
            f"<td style='text-align:left'>{inline(f.found)}{'' if f.fine else '<br><b>' + inline(f.fix) + '</b>'}</td></tr>"
            for f in self.findings
        )
        return f"<table style='font-size:1em'>{rows}</table>"


def check_environment() -> EnvironmentReport:
    """Show the table, live only: it differs from machine to machine, so a saved notebook does not keep it."""
    report = EnvironmentReport(check_all())
    display_live(report)
    return report
