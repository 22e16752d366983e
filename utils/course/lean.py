"""Jupyter without what its libraries import and never use: a second less in each process that starts with this.

As a pytest plugin (`-p utils.course.lean`) it comes before those that are installed, nbval's among them.
"""

import sys


def leave_out():
    """Before Jupyter's first import.

    For addresses in other scripts (the formats "iri" and "iri-reference", which no schema of Jupyter's asks for),
    jsonschema imports a package that builds 38 grammars at once; without the package, it leaves those formats unchecked.
    """
    sys.modules.setdefault("rfc3987_syntax", None)


def pytest_addoption():  # the first of a plugin's hooks
    leave_out()
