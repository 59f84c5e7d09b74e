"""Reads the header of a GGUF file, the format of llama.cpp: metadata and the table of tensors, never the weights.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Everything that a file states is bounded before
memory is reserved for it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from costcore.errors import CostError
from costcore.files import open_file, unreadable

from .stored_tensor import StoredTensor


class BlockFormat(NamedTuple):
    """How a type of ggml stores numbers: in blocks of so many, each of so many bytes with its scales."""

    name: str
    block: int
    nbytes: int
    bits: int


FORMATS: Mapping[int, BlockFormat] = {
    number: BlockFormat(name, block, nbytes, bits)
    for number, name, block, nbytes, bits in (
        (0, "F32", 1, 4, 32),
        (1, "F16", 1, 2, 16),
        (2, "Q4_0", 32, 18, 4),
        (3, "Q4_1", 32, 20, 4),
        (6, "Q5_0", 32, 22, 5),
        (7, "Q5_1", 32, 24, 5),
        (8, "Q8_0", 32, 34, 8),
        (10, "Q2_K", 256, 84, 2),
        (11, "Q3_K", 256, 110, 3),
        (12, "Q4_K", 256, 144, 4),
        (13, "Q5_K", 256, 176, 5),
        (14, "Q6_K", 256, 210, 6),
        (16, "IQ2_XXS", 256, 66, 2),
        (17, "IQ2_XS", 256, 74, 2),
        (18, "IQ3_XXS", 256, 98, 3),
        (19, "IQ1_S", 256, 50, 1),
        (20, "IQ4_NL", 32, 18, 4),
        (21, "IQ3_S", 256, 110, 3),
        (22, "IQ2_S", 256, 82, 2),
        (23, "IQ4_XS", 256, 136, 4),
        (24, "I8", 1, 1, 8),
        (25, "I16", 1, 2, 16),
        (26, "I32", 1, 4, 32),
        (27, "I64", 1, 8, 64),
        (28, "F64", 1, 8, 64),
        (29, "IQ1_M", 256, 56, 1),
        (30, "BF16", 1, 2, 16),
        (34, "TQ1_0", 256, 54, 2),
        (35, "TQ2_0", 256, 66, 2),
        (39, "MXFP4", 32, 17, 4),
        (40, "NVFP4", 64, 36, 4),
        (41, "Q1_0", 128, 18, 1),
    )
}
"""The types of stored tensors by their number: ``ggml_type`` and the blocks of ggml-common.h in llama.cpp."""

MOST_HEADER = 2**28
"""The most bytes that a header may have; those of vocabularies of 260,000 tokens have 10 MB."""

MOST_TENSORS = 200_000
MOST_KEYS = 10_000
MOST_PARTS = 3_000_000
"""The most texts and arrays inside arrays; a vocabulary of 260,000 tokens and its merges are 800,000."""

LONGEST_KEY, LONGEST_TEXT = 2**16, 2**24
"""The most bytes of a name, and of another text; a template of a chat has a few thousand."""

MOST_AXES = 4
MOST_FILES = 1000
"""The most parts of a model that is split over files."""

MOST_ELEMENTS = 2**50
"""The most elements of a tensor."""

PIECE = 2**20

KEPT = 4096
"""Arrays with more elements are not kept; of these only the length is known."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class Array(NamedTuple):
    """An array among the metadata that is too long to be kept, or that holds texts or arrays."""

    length: int


class Gguf(NamedTuple):
    """The header of a file, or of all files over which a model is split.

    Attributes:
        metadata: values by key: numbers, booleans, texts, tuples of numbers and :class:`Array`.
        tensors: the tensors in the order of the file.
    """

    metadata: Mapping[str, Any]
    tensors: tuple[StoredTensor, ...]


def read_gguf(path: str) -> Gguf:
    """Return the header of a model.

    Args:
        path: a file; of a model that is split over several, ``…-00001-of-00003.gguf``, any of them.

    Raises:
        FileError: if a file cannot be read.
        CostError: if it is not such a file, is damaged, or is beyond the bounds of this module.
    """
    first = _read(path)
    n_files = first.metadata.get("split.count", 1)
    match = _PART.search(path)
    if not isinstance(n_files, int) or n_files < 2:
        return first
    if match is None or int(match[2]) != n_files or n_files > MOST_FILES:
        raise CostError(f"{path} is one of {n_files} files, but its name does not end in -00001-of-{n_files:05}.gguf")
    parts = [_read(f"{path[: match.start()]}-{number:05}-of-{match[2]}.gguf") for number in range(1, n_files + 1)]
    return Gguf(parts[0].metadata, tuple(tensor for part in parts for tensor in part.tensors))


def _read(path: str) -> Gguf:
    with open_file(path) as file:
        try:
            return _Header(file).read()
        except CostError as error:
            raise CostError(f"{path} is not a GGUF file that can be read: {error}") from error
        except OSError as error:
            raise unreadable(Path(path), error) from error


class _Header:
    """Reads the parts of a header in order.

    Args:
        file: the file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._data = b""
        self._at = 0
        self._passed = self._parts = 0

    def read(self) -> Gguf:
        """Return the header."""
        if self._take(4) != b"GGUF":
            raise CostError("it does not begin with GGUF")
        version = self._number("I")
        if version & 0xFFFF == 0:
            raise CostError("its numbers are big-endian, which is not supported")
        if version not in (2, 3):
            raise CostError(f"its version is {version} (expected 2 or 3)")
        n_tensors, n_keys = self._count("tensors", MOST_TENSORS), self._count("keys", MOST_KEYS)
        metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = self._text(LONGEST_KEY)
            metadata[key] = self._value(self._number("I"), depth=0)
        tensors = tuple(self._tensor() for _ in range(n_tensors))
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise CostError("two tensors have the same name")
        return Gguf(metadata, tensors)

    def _tensor(self) -> StoredTensor:
        name = self._text(LONGEST_KEY)
        n_axes = self._number("I")
        if n_axes > MOST_AXES:
            raise CostError(f"tensor {name!r} has {n_axes} axes (at most {MOST_AXES})")
        sizes = tuple(self._number("Q") for _ in range(n_axes))
        number, _offset = self._number("I"), self._number("Q")
        found = FORMATS.get(number)
        if found is None:
            raise CostError(f"tensor {name!r} has the type {number}, which is unknown")
        n_elements = 1
        for size in sizes:
            n_elements *= size
            if n_elements > MOST_ELEMENTS:
                raise CostError(f"tensor {name!r} has more than {MOST_ELEMENTS:,} elements")
        if (sizes[0] if sizes else 1) % found.block:
            raise CostError(
                f"rows of tensor {name!r} do not consist of whole blocks of {found.block}, as {found.name} needs"
            )
        nbytes = n_elements // found.block * found.nbytes
        return StoredTensor(name, sizes[::-1], found.name, nbytes, found.bits)  # ggml names the contiguous axis first

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise CostError(f"a value of the metadata has the type {kind}, which is unknown")
        if depth > 3:
            raise CostError("arrays of the metadata are nested more than 4 deep")
        inner, length = self._number("I"), self._count("elements of an array", MOST_HEADER)
        if inner in _SCALARS:
            layout = struct.Struct("<" + _SCALARS[inner])
            if length <= KEPT:
                return tuple(x for (x,) in layout.iter_unpack(self._take(length * layout.size)))
            self._skip(length * layout.size)
            return Array(length)
        self._parts += length
        if self._parts > MOST_PARTS:
            raise CostError(f"its metadata has more than {MOST_PARTS:,} texts and arrays inside arrays")
        for _ in range(length):
            if inner == _STRING:
                self._skip(self._number("Q"))
            else:
                self._value(inner, depth + 1)
        return Array(length)

    def _count(self, what: str, most: int) -> int:
        found: int = self._number("Q")
        if found > most:
            raise CostError(f"it states {found:,} {what} (at most {most:,})")
        return found

    def _number(self, kind: str) -> Any:
        return _NUMBERS[kind].unpack(self._take(_NUMBERS[kind].size))[0]

    def _text(self, longest: int = LONGEST_TEXT) -> str:
        size = self._number("Q")
        if size > longest:
            raise CostError(f"a text of its header has {size:,} bytes (at most {longest:,})")
        with suppress(UnicodeDecodeError):
            return self._take(size).decode("utf-8")
        raise CostError("a text of its header is not in UTF-8")

    def _skip(self, size: int) -> None:
        """Pass over the next bytes."""
        if self._at + size <= len(self._data):
            self._at += size
            return
        if self._passed + self._at + size > MOST_HEADER:
            raise CostError(f"its header has more than {MOST_HEADER:,} bytes")
        left = size - (len(self._data) - self._at)
        self._passed += self._at + size
        self._data, self._at = b"", 0
        while left and (piece := self._file.read(min(left, PIECE))):
            left -= len(piece)
        if left:
            raise CostError("it ends inside of its header")

    def _take(self, size: int) -> bytes:
        """Return the next bytes."""
        if self._passed + self._at + size > MOST_HEADER:
            raise CostError(f"its header has more than {MOST_HEADER:,} bytes")
        if self._at + size > len(self._data):
            rest = self._data[self._at :]
            self._passed, self._at = self._passed + self._at, 0
            self._data = rest + self._file.read(max(size - len(rest), 2**16))
            if size > len(self._data):
                raise CostError("it ends inside of its header")
        self._at += size
        return self._data[self._at - size : self._at]


_NUMBERS = {kind: struct.Struct("<" + kind) for kind in _SCALARS.values()}
