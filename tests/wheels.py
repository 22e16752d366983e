"""Small wheels for a folder that serves as the package index."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

CONTENTS = {"crate/data/weights.bin": b"\x00\x01\x02" * 1000, "crate/data/words.txt": b"key\nvalue\n"}


def make_wheel(folder: Path, version="1.0", contents: Mapping[str, bytes] = CONTENTS, name="crate") -> Path:
    """A wheel whose code ends the process if it is ever imported."""
    info = f"{name}-{version}.dist-info"
    files = {
        **contents,
        f"{name}/__init__.py": b"raise SystemExit('code from a wheel was run')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel
