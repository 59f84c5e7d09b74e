"""A lazy protobuf reader: fields that are not needed, above all weights, are skipped."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

MOST_FIELDS = 2_000_000
"""The maximum number of fields read from a file; an operation has about twenty."""

MOST_MESSAGES = 100_000
"""The maximum length of a list of messages, such as the operations of a block; language models have 20,000."""

MOST_VALUES = 1024
"""The maximum number of values read from a list; shapes, axes and paddings have a few."""

NAME, CONTENT = 0x0A, 0x12
"""The tags of fields 1 and 2 with texts or messages."""

Span: TypeAlias = tuple[int, int]
"""The first byte of a message, and the byte after its last."""

SHORT = 256
"""The maximum bytes of a message whose result is cached: types and small constants often repeat."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class File:
    """The bytes of a file, and the number of fields that may still be read."""

    __slots__ = ("cache", "content", "fields_left")

    def __init__(self, content: Any) -> None:
        self.content = content
        self.fields_left = MOST_FIELDS
        self.cache: dict[tuple[Any, bytes], Any] = {}
        """The cache of :meth:`Message.cached`, by function and bytes."""

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """Return the number at a position, and the position after it.

        Raises:
            ValueError: if it is too long, or the file ends in it.
        """
        value = shift = 0
        while position < end and shift < 64:
            byte = self.content[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, position
            shift += 7
        raise ValueError(f"no number ends at byte {position}")


class Message:
    """A message: its fields by number. Nested messages are parsed on demand.

    Raises:
        ValueError: if the bytes are not a message, or the file has too many fields.
    """

    __slots__ = ("_fields", "_file")

    def __init__(self, file: File, start: int, end: int) -> None:
        self._file = file
        self._fields: dict[int, list[int | tuple[int, int]]] = {}
        content, fields = file.content, self._fields
        while start < end:
            # fast path: most numbers have one byte
            position, tag = start + 1, content[start]
            if tag > 0x7F:
                tag, position = file.varint(start, end)
            kind = tag & 7
            value: int | tuple[int, int]
            if kind in (VARINT, BYTES):
                length = content[position] if position < end else 0x80
                start = position + 1
                if length > 0x7F:
                    length, start = file.varint(position, end)
                value = length
                if kind == BYTES:
                    value = start, start + length
                    start += length
            elif kind in (FIXED64, FIXED32):
                start = position + (8 if kind == FIXED64 else 4)
                value = position, start
            else:
                raise ValueError(f"no field starts at byte {position}")
            if start > end or tag < 8:
                raise ValueError(f"it ends in the field at byte {position}")
            number = tag >> 3
            if number in fields:
                fields[number].append(value)
            else:
                fields[number] = [value]
            file.fields_left -= 1
            if file.fields_left < 0:
                raise ValueError("it has more fields than are read")

    def has(self, number: int) -> bool:
        """Return whether the message has the field."""
        return number in self._fields

    def numbers(self) -> Sequence[int]:
        """Return the numbers of its fields."""
        return [*self._fields]

    def all(self, number: int) -> list[Message]:
        """Return the messages of a field.

        Raises:
            ValueError: if there are too many.
        """
        return [*self.each(number)]

    def each(self, number: int) -> Iterator[Message]:
        """Yield the messages of a field, parsed one by one.

        Raises:
            ValueError: if there are too many.
        """
        values, file = self._fields.get(number, ()), self._file
        if len(values) > MOST_MESSAGES:
            raise ValueError(f"a list has more than {MOST_MESSAGES:,} entries")
        for value in values:
            yield Message(file, *_span(value))

    def one(self, number: int) -> Message:
        """Return the message of a field; an empty message if the field is absent."""
        return Message(self._file, *self.span(number))

    def named(self, number: int) -> dict[str, Message]:
        """Return a field that maps names to messages."""
        return {name: Message(self._file, *span) for name, span in self.entries(number)}

    def entries(self, number: int) -> Sequence[tuple[str, Span]]:
        """Return the entries of a field that maps names to messages: each name, and the span of its message.

        Raises:
            ValueError: if there are too many.
        """
        values = self._fields.get(number)
        if values is None:
            return ()
        if len(values) > MOST_MESSAGES:
            raise ValueError(f"a list has more than {MOST_MESSAGES:,} entries")
        content, found = self._file.content, []
        for value in values:
            start, end = value if type(value) is tuple else _span(value)
            # fast path: most entries have both fields in order, with lengths of one byte
            middle = start + 2 + content[start + 1] if 4 <= end - start < 0x80 else end
            if middle + 1 < end and content[start] == NAME and content[middle] == CONTENT:
                name = content[start + 2 : middle]
                if middle + 2 + content[middle + 1] == end and name.isascii():
                    found.append((name.decode(), (middle + 2, end)))
                    continue
            entry = Message(self._file, start, end)
            found.append((entry.text(1), entry.span(2)))
        return found

    def cached(self, span: Span, make: Callable[[Message], T]) -> T:
        """Return ``make(message)``; results for short messages are cached by their bytes."""
        start, end = span
        if end - start > SHORT:
            return make(Message(self._file, start, end))
        key = make, self._file.content[start:end]
        found = self._file.cache.get(key)
        if found is None:
            found = self._file.cache[key] = make(Message(self._file, start, end))
        return found

    def only_text(self, span: Span, *tags: int) -> str:
        """Follow a path of tags to a text; empty if the text is not the last field, or the message is long."""
        (start, end), content = span, self._file.content
        if end - start >= 0x80:
            return ""
        for tag in tags:
            after = start + 2
            while after <= end and content[start] != tag and content[start] & 7 == BYTES:
                start = after + content[start + 1]
                after = start + 2
            if after > end or content[start] != tag or after + content[start + 1] != end:
                return ""
            start = after
        return str(content[start:end].decode("utf-8", "replace"))

    def span(self, number: int) -> Span:
        """Return the span of the message of a field; (0, 0) if the field is absent."""
        return _span(self._fields.get(number, [(0, 0)])[-1])

    def raw(self, number: int) -> bytes:
        """Return the bytes of a field."""
        start, end = self.span(number)
        return bytes(self._file.content[start:end])

    def size(self, number: int) -> int:
        """Return the bytes of the values of a field without reading them."""
        return sum(end - start for start, end in map(_span, self._fields.get(number, ())))

    def texts(self, number: int) -> list[str]:
        """Return the texts of a field."""
        spans = map(_span, self._fields.get(number, ()))
        return [self._file.content[start:end].decode("utf-8", "replace") for start, end in spans]

    def text(self, number: int) -> str:
        """Return the text of a field; empty if the field is absent."""
        values = self._fields.get(number)
        if not values:
            return ""
        start, end = _span(values[-1])
        return str(self._file.content[start:end].decode("utf-8", "replace"))

    def integer(self, number: int) -> int:
        """Return the signed integer of a field; 0 without it."""
        return (self.integers(number) or [0])[-1]

    def integers(self, number: int) -> list[int]:
        """Return the signed integers of a field, slightly more than ``MOST_VALUES`` at most."""
        found: list[int] = []
        for value in self._fields.get(number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            position, end = value
            while position < end and len(found) <= MOST_VALUES:
                number_, position = self._file.varint(position, end)
                found.append(number_)
        return [value - (1 << 64) if value >> 63 else value for value in found]

    def floats(self, number: int, kind: str = "f") -> list[float]:
        """Return the numbers of a field, at most ``MOST_VALUES + 1``; ``kind`` is their ``struct`` format."""
        size = struct.calcsize(kind)
        found: list[float] = []
        for start, end in map(_span, self._fields.get(number, ())):
            count = min((end - start) // size, MOST_VALUES + 1)
            found += struct.unpack(f"<{count}{kind}", self._file.content[start : start + count * size])
        return found


def _span(value: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(value, int):
        raise ValueError("a field has a type that does not fit the format")
    return value
