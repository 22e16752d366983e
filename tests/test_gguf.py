"""GGUF files: read as the package `gguf` reads them; damaged ones raise an error that says why."""

import struct

import gguf
import numpy as np
import pytest
import torch

from utils.models.gguf import GGUFError, GGUFFile

QuantType = gguf.GGMLQuantizationType


def write_file(path, alignment=None, quant_types=(QuantType.Q4_1, QuantType.Q8_0)):
    """A small file with a field of every value type and tensors of several shapes; returns the tensors."""
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
    float32, (first, second) = QuantType.F32, quant_types
    for number, (quant_type, shape) in enumerate(
        [(float32, (7,)), (first, (5, 64)), (second, (3, 32)), (float32, (2, 3)), (first, (2, 3, 96))]
    ):
        values = random.normal(size=shape).astype(np.float32)
        blocks = values if quant_type is float32 else gguf.quantize(values, quant_type)
        writer.add_tensor(f"tensor.{number}", blocks, raw_dtype=quant_type)
        values = values if quant_type is float32 else gguf.dequantize(blocks, quant_type)
        tensors[f"tensor.{number}"] = torch.from_numpy(values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.mark.parametrize("alignment", [None, 8, 256])
def test_a_file_reads_as_the_package_wrote_it(tmp_path, alignment):
    tensors = write_file(tmp_path / "tiny.gguf", alignment)
    file = GGUFFile(tmp_path / "tiny.gguf")
    reference = gguf.GGUFReader(tmp_path / "tiny.gguf").fields
    assert set(file.fields) == {name for name in reference if not name.startswith("GGUF.")}
    assert all(value == reference[name].contents() for name, value in file.fields.items())
    assert file.fields["a.text"] == "Ünïcode, 日本, 😀" and file.fields["some.texts"] == ["one", "Ġtwo", "…"]
    assert file.fields["a.yes"] is True and file.fields["a.no"] is False
    assert set(file) == set(tensors) and len(file) == 5
    for name, tensor in tensors.items():
        assert file[name].dtype == torch.float32 and torch.equal(file[name], tensor)


def test_a_tensor_can_be_changed_and_the_file_stays(tmp_path):
    write_file(tmp_path / "tiny.gguf")
    before = (tmp_path / "tiny.gguf").read_bytes()
    file = GGUFFile(tmp_path / "tiny.gguf")
    for name in file:
        file[name].zero_()
    assert all(file[name].any() for name in file)
    assert (tmp_path / "tiny.gguf").read_bytes() == before


def test_a_truncated_file_is_rejected_at_every_length(tmp_path):
    write_file(tmp_path / "tiny.gguf")
    whole = (tmp_path / "tiny.gguf").read_bytes()
    truncated = tmp_path / "truncated.gguf"
    for length in [*range(1, len(whole) - 32, 7), len(whole) - 32]:
        truncated.write_bytes(whole[:length])
        with pytest.raises(GGUFError, match="truncated.gguf"):
            GGUFFile(truncated)


def test_a_damaged_file_is_rejected(tmp_path):
    path = tmp_path / "odd.gguf"
    with pytest.raises(GGUFError, match="odd.gguf cannot be read"):
        GGUFFile(path)
    write_file(path)
    whole = path.read_bytes()
    for data, message in (
        (b"", "odd.gguf cannot be read"),
        (b"PK\x03\x04 a zip", r"expected a GGUF file, .* got b'PK"),
        (whole[:4] + struct.pack("<I", 1) + whole[8:], "expected version 2 or 3 of the format, got 1"),
        (whole.replace(b"a.text" + struct.pack("<I", 8), b"a.text" + struct.pack("<I", 77)), "value type .* got 77"),
        (whole.replace(b"some.numbers", b"\xff" * 12), "damaged: .*utf-8"),
        (whole.replace(struct.pack("<IQ", 5, 3), struct.pack("<IQ", 5, 2**60)), "expected 1152921504606846976 values"),
        (whole.replace(struct.pack("<QQ", 64, 5), struct.pack("<QQ", 63, 5)), r"multiple of 32 .* got shape \(5, 63\)"),
        (whole.replace(struct.pack("<QQ", 64, 5), struct.pack("<QQ", 64, 500)), "ends too early: .* for tensor.1"),
    ):
        assert data != whole
        path.write_bytes(data)
        with pytest.raises(GGUFError, match=message):
            GGUFFile(path)


def test_an_unsupported_quantization_type_is_named(tmp_path):
    write_file(tmp_path / "tiny.gguf", quant_types=(QuantType.Q5_0, QuantType.Q8_0))
    with pytest.raises(GGUFError, match="expected tensors of type F32, Q4_1, Q8_0, got type 6 for tensor.1"):
        GGUFFile(tmp_path / "tiny.gguf")
