"""GGUF, the file format of llama.cpp: a language model's metadata, tokenizer and weights, many of them quantized.

    file = GGUFFile("model.gguf")
    file.fields["llama.block_count"]        # 30: the metadata
    file["blk.0.attn_q.weight"]             # a float32 tensor, dequantized on access

Quantized weights come in blocks of 32 consecutive values of a row. A Q4_1 block has 20 bytes: a float16 scale, a
float16 minimum, and 32 values from 0 to 15, two to a byte; a weight is scale * value + minimum. So a weight takes
5 bits, not 32.

The package `gguf` reads these files too, and more quantization types. It takes seconds for the hundred thousand strings
of a tokenizer, which is why this reader exists; the tests compare the two.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

MAGIC, VERSIONS = b"GGUF", (2, 3)
BLOCK_SIZE = 32  # weights that share a scale
ALIGNMENT = 32  # bytes: tensors start at multiples of it, unless the metadata has another alignment
STRING, ARRAY = 8, 9  # value types with a length of their own
# The other value types by their id, as `struct` format characters.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class GGUFError(ValueError):
    """Not a GGUF file, a damaged one, or one with unsupported content."""


# Dequantization


def dequantize_q4_1(blocks: Tensor) -> Tensor:
    """Blocks (k, 20) uint8 to weights (k, 32). The last 16 bytes hold values 0-15 in low nibbles, 16-31 in high."""
    scale, minimum = blocks[:, :4].contiguous().view(torch.float16).float().split(1, -1)
    weights = torch.empty(len(blocks), BLOCK_SIZE)
    weights[:, : BLOCK_SIZE // 2] = blocks[:, 4:] & 15
    weights[:, BLOCK_SIZE // 2 :] = blocks[:, 4:] >> 4
    return weights.mul_(scale).add_(minimum)


def dequantize_q8_0(blocks: Tensor) -> Tensor:
    """Blocks (k, 34) uint8 to weights (k, 32): a float16 scale, then 32 values from -128 to 127."""
    scale = blocks[:, :2].contiguous().view(torch.float16).float()
    return blocks[:, 2:].view(torch.int8) * scale


def from_float32(blocks: Tensor) -> Tensor:
    """Blocks (k, 4) uint8 to weights (k, 1), copied, so that they outlive the file."""
    return blocks.clone().view(torch.float32)


class QuantType(NamedTuple):
    """Quantization type: a block of `block_size` weights takes `block_bytes` bytes."""

    name: str
    block_size: int
    block_bytes: int
    dequantize: Callable[[Tensor], Tensor]


QUANT_TYPES = {
    0: QuantType("F32", 1, 4, from_float32),
    3: QuantType("Q4_1", BLOCK_SIZE, 20, dequantize_q4_1),
    8: QuantType("Q8_0", BLOCK_SIZE, 34, dequantize_q8_0),
}


# The file


class TensorInfo(NamedTuple):
    """Shape, type and offset of a tensor; the offset is in bytes from the beginning of the file."""

    shape: tuple[int, ...]
    quant_type: QuantType
    offset: int

    @property
    def end(self) -> int:
        return self.offset + math.prod(self.shape) // self.quant_type.block_size * self.quant_type.block_bytes


class GGUFFile(Mapping[str, Tensor]):
    """GGUF file: `fields` is its metadata; the file itself maps names to tensors, dequantized on access."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        try:
            # Memory-mapped: bytes are read from disk on access. Mode "c" because torch wants writable memory.
            self._bytes = np.memmap(self.path, np.uint8, "c")
        except (OSError, ValueError) as problem:  # ValueError: an empty file cannot be mapped
            raise GGUFError(f"{self.path} cannot be read: {problem}") from problem
        try:
            self.fields, self.tensor_infos = _read_header(memoryview(self._bytes))
        except (struct.error, UnicodeDecodeError) as problem:
            raise GGUFError(f"{self.path} ends too early or is damaged: {problem}") from problem
        except GGUFError as problem:
            raise GGUFError(f"{self.path}: {problem}") from None
        for name, info in self.tensor_infos.items():
            if info.end > len(self._bytes):
                raise GGUFError(
                    f"{self.path} ends too early: expected {info.end} bytes for {name}, got {len(self._bytes)}"
                )

    def __getitem__(self, name: str) -> Tensor:
        info = self.tensor_infos[name]
        blocks = torch.from_numpy(self._bytes[info.offset : info.end]).view(-1, info.quant_type.block_bytes)
        return info.quant_type.dequantize(blocks).view(info.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensor_infos)

    def __len__(self) -> int:
        return len(self.tensor_infos)


def _read_header(data: memoryview) -> tuple[dict, dict[str, TensorInfo]]:
    """The metadata and the tensor infos."""
    if bytes(data[:4]) != MAGIC:
        raise GGUFError(f"expected a GGUF file, which begins with {MAGIC}, got {bytes(data[:4])}")
    reader = _Reader(data, len(MAGIC))
    if (version := reader.scalar("I")) not in VERSIONS:
        raise GGUFError(f"expected version {' or '.join(map(str, VERSIONS))} of the format, got {version}")
    num_tensors, num_fields = reader.scalar("Q"), reader.scalar("Q")
    fields = {reader.string(): reader.value(reader.scalar("I")) for _ in range(num_fields)}
    infos = dict(_read_info(reader) for _ in range(num_tensors))
    alignment = fields.get("general.alignment", ALIGNMENT)
    start = -(-reader.position // alignment) * alignment
    return fields, {name: info._replace(offset=start + info.offset) for name, info in infos.items()}


def _read_info(reader: "_Reader") -> tuple[str, TensorInfo]:
    name = reader.string()
    shape = reader.scalars("Q", reader.scalar("I"))[::-1]  # the file lists axes from the last
    type_id, offset = reader.scalar("I"), reader.scalar("Q")
    quant_type = QUANT_TYPES.get(type_id)
    if quant_type is None:
        supported = ", ".join(known.name for known in QUANT_TYPES.values())
        raise GGUFError(f"expected tensors of type {supported}, got type {type_id} for {name}")
    if not shape or shape[-1] % quant_type.block_size:
        raise GGUFError(f"expected rows of a multiple of {quant_type.block_size} weights in {name}, got shape {shape}")
    return name, TensorInfo(shape, quant_type, offset)


class _Reader:
    """Sequential reader of little-endian values."""

    def __init__(self, data: memoryview, position: int):
        self.data, self.position = data, position

    def scalars(self, code: str, count: int) -> tuple:
        # Without this check a damaged count would ask for more memory than there is.
        if count > len(self.data) - self.position:
            raise GGUFError(
                f"expected {count} values at byte {self.position}, where the file has {len(self.data)} bytes"
            )
        layout = f"<{count}{code}"
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values

    def scalar(self, code: str) -> int | float | bool:
        return self.scalars(code, 1)[0]

    def string(self) -> str:
        (length,) = struct.unpack_from("<Q", self.data, self.position)
        start, self.position = self.position + 8, self.position + 8 + length
        if self.position > len(self.data):
            raise GGUFError(
                f"expected a string of {length} bytes at byte {start}, where the file has {len(self.data)} bytes"
            )
        return str(self.data[start : self.position], "utf-8")

    def value(self, value_type: int) -> object:
        if value_type == STRING:
            return self.string()
        if value_type == ARRAY:
            item_type, count = self.scalar("I"), self.scalar("Q")
            if item_type in SCALARS:
                return list(self.scalars(SCALARS[item_type], count))
            return [self.value(item_type) for _ in range(count)]
        if value_type not in SCALARS:
            raise GGUFError(
                f"expected a value type from 0 to {max(SCALARS)} before byte {self.position}, got {value_type}"
            )
        return self.scalar(SCALARS[value_type])
