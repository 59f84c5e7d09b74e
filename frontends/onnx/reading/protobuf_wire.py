"""Drop the weights of a serialized model without parsing them: a walk over the protobuf wire format."""

from __future__ import annotations

from typing import Any, Protocol

from onnx import ModelProto, TensorProto

SMALL = 32 * 1024
"""Messages up to this many bytes are copied unchanged: 1024 elements of the widest dtype fit, with their names."""

PAYLOAD = frozenset(
    TensorProto.DESCRIPTOR.fields_by_name[name].number
    for name in (
        *("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data"),
        *("external_data", "doc_string"),
    )
)
"""Fields of a tensor that hold its elements, or their place in another file."""

DEEPEST = 100
"""More deeply nested messages are copied; the parser refuses them."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Buffer(Protocol):
    """Bytes, or a file that is read piece by piece."""

    def __getitem__(self, where: Any, /) -> Any: ...

    def __len__(self) -> int: ...


def without_weights(buffer: Buffer) -> bytes:
    """Return a serialized ``ModelProto`` without the elements of its large tensors; reads little more than the graph.

    Raises:
        ValueError: if the bytes are not a protobuf message, or end inside one.
    """
    return b"".join(_without_payload(buffer, 0, len(buffer), ModelProto.DESCRIPTOR, 0))


def _without_payload(buffer: Buffer, position: int, end: int, message: Any, depth: int) -> list[bytes]:
    """Return the pieces of the message in ``buffer[position:end]`` without the payload of tensors."""
    pieces: list[bytes] = []
    nested = {number: field.message_type for number, field in message.fields_by_number.items() if field.message_type}
    dropped = PAYLOAD if message is TensorProto.DESCRIPTOR else frozenset()
    copied = position
    while position < end:
        start = position
        tag, position = _varint(buffer, position, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ValueError(f"no protobuf field starts at byte {start}")
        if kind == BYTES:
            length, position = _varint(buffer, position, end)
        elif kind == VARINT:
            length = _varint(buffer, position, end)[1] - position
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"no protobuf field starts at byte {start}")
        if position + length > end:
            raise ValueError(
                f"the file is truncated: the field at byte {start} needs {position + length - end} more bytes"
            )
        if number in dropped or (kind == BYTES and length > SMALL and number in nested and depth < DEEPEST):
            pieces.append(buffer[copied:start])
            copied = position + length
            if number not in dropped:
                inner = _without_payload(buffer, position, copied, nested[number], depth + 1)
                pieces += [_as_varint(tag), _as_varint(sum(map(len, inner))), *inner]
        position += length
    pieces.append(buffer[copied:end])
    return pieces


def _varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the number encoded at ``position``, and the position after it."""
    value = shift = 0
    while position < end:
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError(f"the number at byte {position} is too long")
    raise ValueError("the file is truncated inside a number")


def _as_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
