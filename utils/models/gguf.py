"""GGUF, a file that holds a whole language model: what it is, its splitter, and its weights, many of them in four bits.

    file = GGUFFile("model.gguf")
    file.fields["llama.block_count"]        # 30: what the file says of itself
    file["blk.0.attn_q.weight"]             # a tensor, float32, made when it is asked for

Weights in few bits come in blocks of 32 neighbours of one row. A block of "Q4_1" is 20 bytes: a scale, an offset, and 32
numbers from 0 to 15, two to a byte; a weight is scale * number + offset. So a weight costs 5 bits in place of 32.

The package `gguf` reads these files as well, and more kinds of weights. It takes seconds for the hundred thousand strings of
a splitter, which is why this one exists; the tests compare the two.
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
BLOCK = 32  # weights that share a scale
ALIGNMENT = 32  # bytes: tensors start at multiples of it, unless the file says otherwise
STRING, ARRAY = 8, 9  # kinds of values that have a length of their own
# The other kinds of values by their number, as `struct` spells them.
FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# The names of kinds of tensors that are not read here, so that an error can say them.
OTHER_KINDS = {1: "F16", 2: "Q4_0", 6: "Q5_0", 7: "Q5_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 30: "BF16"}  # fmt: skip


class GGUFError(ValueError):
    """A file that is no GGUF, is damaged, or holds what this cannot read."""


# --- blocks to weights ------------------------------------------------------------------------------------------


def from_q4_1(blocks: Tensor) -> Tensor:
    """(k, 20) bytes to (k, 32) weights. The low halves of the last 16 bytes are the first 16 numbers, the high halves the rest."""
    scale, offset = blocks[:, :4].contiguous().view(torch.float16).float().split(1, -1)
    weights = torch.empty(len(blocks), BLOCK)
    weights[:, : BLOCK // 2] = blocks[:, 4:] & 15
    weights[:, BLOCK // 2 :] = blocks[:, 4:] >> 4
    return weights.mul_(scale).add_(offset)


def from_q8_0(blocks: Tensor) -> Tensor:
    """(k, 34) bytes to (k, 32) weights: a scale, then 32 numbers from -128 to 127."""
    scale = blocks[:, :2].contiguous().view(torch.float16).float()
    return blocks[:, 2:].view(torch.int8) * scale


def from_float32(blocks: Tensor) -> Tensor:
    """(k, 4) bytes to (k, 1) weights, copied, so that they outlive the file."""
    return blocks.clone().view(torch.float32)


class Kind(NamedTuple):
    """How a tensor is stored: so many weights make a block of so many bytes, and `weights` turns blocks back."""

    name: str
    block: int
    bytes: int
    weights: Callable[[Tensor], Tensor]


KINDS = {
    0: Kind("F32", 1, 4, from_float32),
    3: Kind("Q4_1", BLOCK, 20, from_q4_1),
    8: Kind("Q8_0", BLOCK, 34, from_q8_0),
}


# --- the file ---------------------------------------------------------------------------------------------------


class Stored(NamedTuple):
    """Where a tensor lies: `start` counts bytes from the beginning of the file."""

    shape: tuple[int, ...]
    kind: Kind
    start: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) // self.kind.block * self.kind.bytes


class GGUFFile(Mapping[str, Tensor]):
    """`fields`, what the file says of itself, by name; and its tensors by name, each made from its blocks when asked for."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        try:
            # Mapped, not read: a tensor's bytes come from the disk when they are needed. "c": nobody writes, but torch wants to.
            self._bytes = np.memmap(self.path, np.uint8, "c")
        except (OSError, ValueError) as problem:  # ValueError: an empty file cannot be mapped
            raise GGUFError(f"{self.path} cannot be read: {problem}") from problem
        try:
            self.fields, self.stored = _head(memoryview(self._bytes))
        except (struct.error, UnicodeDecodeError) as problem:
            raise GGUFError(f"{self.path} ends too early or is damaged: {problem}") from problem
        except GGUFError as problem:
            raise GGUFError(f"{self.path}: {problem}") from None
        for name, one in self.stored.items():
            if one.start + one.bytes > len(self._bytes):
                raise GGUFError(
                    f"{self.path} ends too early: expected {one.start + one.bytes} bytes for {name}, got {len(self._bytes)}"
                )

    def __getitem__(self, name: str) -> Tensor:
        one = self.stored[name]
        blocks = torch.from_numpy(self._bytes[one.start : one.start + one.bytes]).view(-1, one.kind.bytes)
        return one.kind.weights(blocks).view(one.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


def _head(data: memoryview) -> tuple[dict, dict[str, Stored]]:
    """The fields and where the tensors lie, from the beginning of the file."""
    if bytes(data[:4]) != MAGIC:
        raise GGUFError(f"expected a GGUF file, which begins with {MAGIC}, got {bytes(data[:4])}")
    reader = _Reader(data, len(MAGIC))
    if (version := reader.number("I")) not in VERSIONS:
        raise GGUFError(f"expected version {' or '.join(map(str, VERSIONS))} of the format, got {version}")
    tensors, fields = reader.number("Q"), reader.number("Q")
    found = {reader.string(): reader.value(reader.number("I")) for _ in range(fields)}
    stored = dict(_stored(reader) for _ in range(tensors))
    alignment = found.get("general.alignment", ALIGNMENT)
    start = -(-reader.place // alignment) * alignment
    return found, {name: one._replace(start=start + one.start) for name, one in stored.items()}


def _stored(reader: "_Reader") -> tuple[str, Stored]:
    name = reader.string()
    shape = reader.numbers("Q", reader.number("I"))[::-1]  # the file counts axes from the last
    number, start = reader.number("I"), reader.number("Q")
    kind = KINDS.get(number)
    if kind is None:
        known = ", ".join(one.name for one in KINDS.values())
        raise GGUFError(f"expected tensors of kind {known}, got {OTHER_KINDS.get(number, number)} for {name}")
    if not shape or shape[-1] % kind.block:
        raise GGUFError(f"expected rows of a multiple of {kind.block} weights in {name}, got shape {shape}")
    return name, Stored(shape, kind, start)


class _Reader:
    """Reads one value after the other; all numbers are little-endian."""

    def __init__(self, data: memoryview, place: int):
        self.data, self.place = data, place

    def numbers(self, code: str, count: int) -> tuple:
        # Without this a damaged count would ask for more memory than there is.
        if count > len(self.data) - self.place:
            raise GGUFError(f"expected {count} numbers at byte {self.place}, where the file has {len(self.data)} bytes")
        form = f"<{count}{code}"
        found = struct.unpack_from(form, self.data, self.place)
        self.place += struct.calcsize(form)
        return found

    def number(self, code: str) -> int | float | bool:
        return self.numbers(code, 1)[0]

    def string(self) -> str:
        (length,) = struct.unpack_from("<Q", self.data, self.place)
        start, self.place = self.place + 8, self.place + 8 + length
        if self.place > len(self.data):
            raise GGUFError(
                f"expected a text of {length} bytes at byte {start}, where the file has {len(self.data)} bytes"
            )
        return str(self.data[start : self.place], "utf-8")

    def value(self, kind: int) -> object:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in FIXED:
                return list(self.numbers(FIXED[inner], count))
            return [self.value(inner) for _ in range(count)]
        if kind not in FIXED:
            raise GGUFError(f"expected a kind of value from 0 to {max(FIXED)} before byte {self.place}, got {kind}")
        return self.number(FIXED[kind])
