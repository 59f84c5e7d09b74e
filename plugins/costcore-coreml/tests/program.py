"""Writes programs of a few operations as .mlmodel files, so that costs can be worked out by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

FOLDER = TemporaryDirectory()
NUMBERS = count()
TYPES = {
    "bool": 1,
    "string": 2,
    "float16": 10,
    "float32": 11,
    "float64": 12,
    "int8": 21,
    "int16": 22,
    "int32": 23,
    "int64": 24,
    "uint8": 31,
    "uint16": 32,
    "uint32": 33,
}
PACKED = {"float16": "e", "int8": "b", "int16": "h", "uint8": "B", "uint16": "H", "uint32": "I"}


class V(NamedTuple):
    """A value: its shape (None for an open axis) and type; ``stored`` constants are in the file of weights.

    The first axis of a list counts its elements.
    """

    shape: Sequence[int | None]
    dtype: str = "float32"
    stored: bool = False
    is_list: bool = False


class Packed(NamedTuple):
    """A constant whose elements are stored as bytes, or in another field of the format."""

    data: Sequence[float]
    dtype: str


class Op(NamedTuple):
    """An operation: its type, operands by name (names of values, or numbers, texts and lists of them), its results."""

    type: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, V]


def varint(value: int) -> bytes:
    value %= 1 << 64
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, *content: bytes | str) -> bytes:
    data = b"".join(each.encode() if isinstance(each, str) else each for each in content)
    return varint(field << 3 | 2) + varint(len(data)) + data


def size_of(size: int | None) -> bytes:
    return part(2) if size is None else part(1, number(1, size))


def kind(value: V) -> bytes:
    if value.is_list:
        return part(2, part(1, kind(V(value.shape[1:], value.dtype))), part(2, size_of(value.shape[0])))
    dims = (part(3, size_of(size)) for size in value.shape)
    return part(1, number(1, TYPES[value.dtype]), number(2, len(value.shape)), *dims)


def named(name: str, value: V) -> bytes:
    return part(1, name) + part(2, kind(value))


def constant(value: Any) -> bytes:
    """Return a Value: a number, a text or a list of numbers, or a tensor in the file of weights."""
    if isinstance(value, V):
        return part(2, kind(value)) + part(5, part(1, "weight.bin"), number(2, 64))
    if isinstance(value, Packed):
        if value.dtype == "float64":
            content = part(6, part(1, struct.pack(f"<{len(value.data)}d", *value.data)))
        elif value.dtype == "int64":
            content = part(5, part(1, *map(varint, value.data)))
        else:
            content = part(7, part(1, struct.pack(f"<{len(value.data)}{PACKED[value.dtype]}", *value.data)))
        return part(2, kind(V((len(value.data),), value.dtype))) + part(3, part(1, content))
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    shape = (len(items),) if isinstance(value, (tuple, list)) else ()
    if isinstance(items[0], str):
        content, dtype = part(4, *(part(1, item) for item in items)), "string"
    elif isinstance(items[0], bool):
        content, dtype = part(3, part(1, *(varint(item) for item in items))), "bool"
    elif isinstance(items[0], int):
        content, dtype = part(2, part(1, *(varint(item) for item in items))), "int32"
    else:
        content, dtype = part(1, part(1, struct.pack(f"<{len(items)}f", *items))), "float32"
    return part(2, kind(V(shape, dtype))) + part(3, part(1, content))


def argument(value: Any) -> bytes:
    """Return an Argument: names that begin with ``%`` are those of values."""
    items = value if isinstance(value, list) else [value]
    names = (isinstance(each, str) and each[:1] == "%" for each in items)
    return b"".join(
        part(1, part(1, each[1:]) if is_name else part(2, constant(each)))
        for each, is_name in zip(items, names, strict=True)
    )


def operation(op: Op) -> bytes:
    inputs = (part(2, part(1, name), part(2, argument(value))) for name, value in op.inputs.items())
    return part(1, op.type) + b"".join(inputs) + b"".join(part(3, named(*each)) for each in op.outputs.items())


def program(inputs: Mapping[str, V], *operations: Op, outputs: Sequence[str] = ()) -> bytes:
    """Return the content of a file with one function."""
    last = outputs or [*operations[-1].outputs]
    block = b"".join(part(2, name) for name in last) + b"".join(part(3, operation(op)) for op in operations)
    given = b"".join(part(1, named(*each)) for each in inputs.items())
    function = given + part(2, "CoreML7") + part(3, part(1, "CoreML7"), part(2, block))
    return number(1, 8) + part(502, number(1, 1), part(2, part(1, "main"), part(2, function)))


def saved(content: bytes) -> str:
    """Write a file, and return its path. It lies in a folder that is removed when the process ends."""
    path = Path(FOLDER.name, f"{next(NUMBERS)}.mlmodel")
    path.write_bytes(content)
    return str(path)


def model(inputs: Mapping[str, V], *operations: Op, outputs: Sequence[str] = ()) -> str:
    """Write a program, and return its path."""
    return saved(program(inputs, *operations, outputs=outputs))


def feature(name: str, shape: Sequence[int], *further: bytes) -> bytes:
    """Return the description of an input or a result: an array of float32; ``further`` are fields of its type."""
    return part(1, name) + part(3, part(5, part(1, *map(varint, shape)), number(2, 65568), *further))


def network(
    shape: Sequence[int],
    *layers: tuple[str, int, bytes, Sequence[str], Sequence[str]],
    is_exact: bool = True,
    kind: int = 500,
) -> bytes:
    """Return a network of the older format with the input ``x``: names, fields, parameters, operands, results."""
    body = b"".join(
        part(
            1,
            part(1, name),
            *(part(2, each) for each in given),
            *(part(3, each) for each in made),
            part(field, content),
        )
        for name, field, content, given, made in layers
    )
    last = layers[-1][-1][-1]
    described = part(2, part(1, feature("x", shape)), part(10, part(1, last)))
    return number(1, 4) + described + part(kind, body, number(5, is_exact))
