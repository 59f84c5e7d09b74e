"""The bytes of a .tflite file without its weights, whose places are zeros that take no memory."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from os import PathLike
from typing import IO, Any

from costcore.errors import CostError
from costcore.files import FileBytes, content_of

SMALL = 2**16
"""Buffers up to this many bytes are read: small constants are values."""

MOST_BYTES = 2**28
"""The most bytes of a file that are read besides weights; graphs have a few million."""

MOST_BUFFERS = 2_000_000

PIECE = 2**20

BUFFERS, DATA = 4, 0
"""The numbers of fields in the schema: the buffers of a model, and the data of a buffer."""


def content_without_weights(file: IO[bytes], path: str | PathLike[str]) -> Any:
    """Return what flatbuffers reads a file from: its bytes, or of a large one an image in memory without the weights.

    Raises:
        CostError: if it cannot be read, or has a graph that is too large.
        ValueError, struct.error: if the file is damaged.
    """
    content = content_of(file, path)
    if isinstance(content, bytes):
        return content
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    image = mmap.mmap(-1, len(content), **private)
    read = at = 0
    for start, end in [*sorted(_weights(content)), (len(content), len(content))]:
        while at < start:
            piece = content[at : min(at + PIECE, start)]
            image[at : at + len(piece)] = piece
            at += len(piece)
            read += len(piece)
            if read > MOST_BYTES:
                raise CostError(f"it has more than {MOST_BYTES:,} bytes besides weights")
        at = max(at, end)
    return image


def _weights(content: FileBytes) -> Iterator[tuple[int, int]]:
    """Yield where the data of large buffers is."""
    buffers = _field(content, _number(content, 0), BUFFERS)
    if buffers is None:
        return
    count = _number(content, buffers)
    if count > MOST_BUFFERS:
        raise ValueError(f"it has more than {MOST_BUFFERS:,} buffers")
    for i in range(count):
        place = buffers + 4 + 4 * i
        data = _field(content, place + _number(content, place), DATA)
        length = 0 if data is None else _number(content, data)
        if data is not None and length > SMALL:
            yield data + 4, min(data + 4 + length, len(content))


def _number(content: FileBytes, at: int, kind: str = "<I") -> int:
    (found,) = struct.unpack(kind, content[at : at + struct.calcsize(kind)])
    return int(found)


def _field(content: FileBytes, table: int, number: int) -> int | None:
    """Return where the list is that a field of a table refers to; None without the field."""
    entries = table - _number(content, table, "<i")
    if entries < 0 or 4 + 2 * number >= _number(content, entries, "<H"):
        return None
    offset = _number(content, entries + 4 + 2 * number, "<H")
    place = table + offset
    return place + _number(content, place) if offset else None
