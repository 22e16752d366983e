"""The wheel carries, in `utils/course`, what students and lessons need besides Python, laid out as in a checkout.

pyproject.toml names `BuildWithCourse`; setuptools loads this file alone, so it imports nothing of ours.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from setuptools.command.build_py import build_py

SHIPPED = (
    "pyproject.toml",
    "data/SHA256SUMS",
    "docs/notation.md",
    "docs/references.md",
    "notebooks/exercises/*.ipynb",
    "notebooks/src/timing.json",
    "tests/benchmarks/results/*.json",
)


def shipped(root: Path) -> Iterator[Path]:
    """Paths below `root`: SHIPPED, and the files that data/SHA256SUMS lists."""
    for pattern in SHIPPED:
        yield from (file.relative_to(root) for file in sorted(root.glob(pattern)))
    for line in (root / "data" / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        yield Path("data") / line.split(maxsplit=1)[1]


class BuildWithCourse(build_py):
    """An editable install needs no copy: it finds the checkout. A source distribution holds what a wheel needs."""

    def get_source_files(self):
        return [*super().get_source_files(), *map(str, shipped(Path.cwd()))]

    def run(self):
        super().run()
        if not self.editable_mode:
            for path in shipped(Path.cwd()):
                target = Path(self.build_lib, "utils", "course", path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
