"""Nothing that was downloaded or sent is run, unpickled or taken for another file than the one that was meant."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils.build.downloads import DOWNLOADS
from utils.data import checksums
from utils.paths import ROOT
from utils.training import cache, stored_encoder

# --- the files in data/ -----------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A copy of the folder that may be damaged."""
    copy = tmp_path / "data"
    shutil.copytree(checksums.DATA / "encoder", copy / "encoder")
    shutil.copy(checksums.DATA / checksums.NAME, copy / checksums.NAME)
    monkeypatch.setattr(checksums, "DATA", copy)
    return copy


def test_every_file_in_data_is_listed_with_its_checksum():
    listed = checksums.read_checksums()
    assert listed == {
        file.relative_to(checksums.DATA).as_posix(): checksums.checksum(file) for file in checksums.files()
    }
    assert {name.partition("/")[0] for name in listed} == set(checksums.FOLDERS)


@pytest.mark.parametrize("name", [stored_encoder.WEIGHTS, stored_encoder.CONFIG])
def test_stored_weights_that_were_tampered_with_are_refused_in_a_sentence(data, name):
    file = data / "encoder" / name
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    with pytest.raises(checksums.ChecksumError) as refused:
        stored_encoder.stored_encoder(data / "encoder")
    said = str(refused.value)
    assert f"{name} is not the file that the course came with" in said and f"git checkout data/encoder/{name}" in said
    assert "\n" not in said


def test_a_missing_file_is_refused_with_what_to_do(data):
    (data / "encoder" / stored_encoder.CONFIG).unlink()
    with pytest.raises(
        checksums.ChecksumError, match=f"no file.* found.*git checkout data/encoder/{stored_encoder.CONFIG}"
    ):
        stored_encoder.stored_encoder(data / "encoder")


def test_a_file_that_is_not_listed_is_refused(data):
    (data / checksums.NAME).write_text("", encoding="utf-8")
    with pytest.raises(checksums.ChecksumError, match="sha256 none... expected"):
        checksums.verify(data / "encoder" / stored_encoder.CONFIG, data)


def test_windows_line_endings_do_not_count_in_a_text_and_do_in_weights(tmp_path):
    for suffix, same in ((".json", True), (".safetensors", False)):
        unix, windows = tmp_path / f"unix{suffix}", tmp_path / f"windows{suffix}"
        unix.write_bytes(b"a\nb\n")
        windows.write_bytes(b"a\r\nb\r\n")
        assert (checksums.checksum(unix) == checksums.checksum(windows)) is same


# --- only data, never programs ----------------------------------------------------------------------------------

DATA_ONLY = {".safetensors", ".gguf", ".json", ".csv", ".bz2", ".tsv", ".txt", ".md", ".js", ".css"}


def test_weights_come_in_formats_that_hold_numbers_alone():
    downloaded = [name for download in DOWNLOADS for name in download.files if name != "LICENSE"]
    for name in downloaded + [file.name for file in checksums.files()]:
        assert Path(name).suffix in DATA_ONLY, name


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("import pickle\n\nprint(pickle)", "is banned"),
        ("from multiprocessing import Pool\n\nprint(Pool)", "is banned"),
        ("from torch import load as read\n\nprint(read)", "is banned"),
        ("import torch\n\ntorch.load(path)\n", "is banned"),
        ("import torch.distributed as dist\n\ndist.all_gather_object(found, mine)\n", "is banned"),
        ("import numpy as np\n\nnp.load(path, allow_pickle=True)\n", "is banned"),
        ("import yaml\n\nyaml.load(text, Loader=yaml.Loader)\n", "yaml"),
        ('print(open("x"))\n', "without explicit `encoding`"),
        ('from pathlib import Path\n\nPath("x").write_text("é")\n', "without explicit `encoding`"),
    ],
)
def test_make_lint_refuses_code_that_opens_a_pickle_or_a_text_without_its_encoding(code, refused):
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", str(ROOT / "utils/new.py"), "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 1 and refused in done.stdout, done.stdout + done.stderr


class RunsWhenOpened:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (Path(self.mark),)


def test_a_cached_result_that_holds_a_pickle_is_not_opened(tmp_path):
    payload = io.BytesIO()
    torch.save({"result": RunsWhenOpened(str(tmp_path / "opened"))}, payload)
    with pytest.raises(Exception, match="(?i)weights.only|unsupported"):
        cache._load(payload.getvalue())
    assert not (tmp_path / "opened").exists()
