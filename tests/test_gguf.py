"""GGUF files: read as the package `gguf` reads them, and refused with a reason where they are damaged."""

import struct

import gguf
import numpy as np
import pytest
import torch

from utils.models.gguf import GGUFError, GGUFFile

Kind = gguf.GGMLQuantizationType


def made(path, alignment=None, kinds=(Kind.Q4_1, Kind.Q8_0)):
    """A small file with a field of every kind and tensors of unlike shapes, written by the package; returns the tensors."""
    writer = gguf.GGUFWriter(path, "tiny")
    if alignment:
        writer.add_custom_alignment(alignment)
    for bits in (8, 16, 32, 64):
        getattr(writer, f"add_uint{bits}")(f"a.uint{bits}", 2**bits - 1)
        getattr(writer, f"add_int{bits}")(f"a.int{bits}", -(2 ** (bits - 1)))
    writer.add_float32("a.float", 0.1)
    writer.add_float64("a.double", 0.1)
    writer.add_bool("a.yes", True)
    writer.add_bool("a.no", False)
    writer.add_string("a.text", "Ünïcode, 日本, 😀")
    writer.add_array("some.texts", ["one", "Ġtwo", "…"])
    writer.add_array("some.numbers", [3, -1, 4])
    writer.add_array("some.floats", [0.5, -1.25])
    random = np.random.default_rng(0)
    tensors = {}
    for number, (kind, shape) in enumerate(
        [(Kind.F32, (7,)), (kinds[0], (5, 64)), (kinds[1], (3, 32)), (Kind.F32, (2, 3)), (kinds[0], (2, 3, 96))]
    ):
        values = random.normal(size=shape).astype(np.float32)
        stored = values if kind is Kind.F32 else gguf.quantize(values, kind)
        writer.add_tensor(f"tensor.{number}", stored, raw_dtype=kind)
        tensors[f"tensor.{number}"] = torch.from_numpy(values if kind is Kind.F32 else gguf.dequantize(stored, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.mark.parametrize("alignment", [None, 8, 256])
def test_a_file_reads_as_the_package_wrote_it(tmp_path, alignment):
    tensors = made(tmp_path / "tiny.gguf", alignment)
    file = GGUFFile(tmp_path / "tiny.gguf")
    theirs = gguf.GGUFReader(tmp_path / "tiny.gguf").fields
    assert set(file.fields) == {name for name in theirs if not name.startswith("GGUF.")}
    assert all(value == theirs[name].contents() for name, value in file.fields.items())
    assert file.fields["a.text"] == "Ünïcode, 日本, 😀" and file.fields["some.texts"] == ["one", "Ġtwo", "…"]
    assert file.fields["a.yes"] is True and file.fields["a.no"] is False
    assert set(file) == set(tensors) and len(file) == 5
    for name, tensor in tensors.items():
        assert file[name].dtype == torch.float32 and torch.equal(file[name], tensor)


def test_a_tensor_can_be_changed_and_the_file_stays(tmp_path):
    made(tmp_path / "tiny.gguf")
    before = (tmp_path / "tiny.gguf").read_bytes()
    file = GGUFFile(tmp_path / "tiny.gguf")
    for name in file:
        file[name].zero_()
    assert all(file[name].any() for name in file)
    assert (tmp_path / "tiny.gguf").read_bytes() == before


def test_every_way_to_be_cut_short_is_refused(tmp_path):
    made(tmp_path / "tiny.gguf")
    whole = (tmp_path / "tiny.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in [*range(1, len(whole) - 32, 7), len(whole) - 32]:
        cut.write_bytes(whole[:length])
        with pytest.raises(GGUFError, match="cut.gguf"):
            GGUFFile(cut)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "odd.gguf"
    with pytest.raises(GGUFError, match="odd.gguf cannot be read"):
        GGUFFile(path)
    made(path)
    whole = path.read_bytes()
    for data, message in (
        (b"", "odd.gguf cannot be read"),
        (b"PK\x03\x04 a zip", r"expected a GGUF file, .* got b'PK"),
        (whole[:4] + struct.pack("<I", 1) + whole[8:], "expected version 2 or 3 of the format, got 1"),
        (whole.replace(b"a.text" + struct.pack("<I", 8), b"a.text" + struct.pack("<I", 77)), "kind of value .* got 77"),
        (whole.replace(b"some.numbers", b"\xff" * 12), "damaged: .*utf-8"),
        (whole.replace(struct.pack("<IQ", 5, 3), struct.pack("<IQ", 5, 2**60)), "expected 1152921504606846976 numbers"),
        (whole.replace(struct.pack("<QQ", 64, 5), struct.pack("<QQ", 63, 5)), r"multiple of 32 .* got shape \(5, 63\)"),
        (whole.replace(struct.pack("<QQ", 64, 5), struct.pack("<QQ", 64, 500)), "ends too early: .* for tensor.1"),
    ):
        assert data != whole
        path.write_bytes(data)
        with pytest.raises(GGUFError, match=message):
            GGUFFile(path)


def test_a_kind_of_weights_that_is_not_read_here_is_named(tmp_path):
    made(tmp_path / "tiny.gguf", kinds=(Kind.Q5_0, Kind.Q8_0))
    with pytest.raises(GGUFError, match="expected tensors of kind F32, Q4_1, Q8_0, got Q5_0 for tensor.1"):
        GGUFFile(tmp_path / "tiny.gguf")
