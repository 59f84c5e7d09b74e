"""A JSON object of a report file, whose fields are validated as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.errors import CostError
from costcore.messages import short_repr
from costcore.numbers.dims import Dim
from costcore.reports.serialization.codec import Decoder, malformed

REQUIRED: Any = object()
"""The default of a field that must not be missing."""


class FileObject:
    """A JSON object of the file. Each field is read once; :meth:`end` reports the fields that were not read.

    Attributes:
        where: location of the object in the file; empty for the file itself.
    """

    def __init__(self, data: Any, where: str) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise malformed(where or "the file", "wrong type", data, "an object")
        self._unread = dict(data)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that were not read."""
        return tuple(self._unread)

    def field(self, key: str, kind: type | tuple[type, ...], default: Any = REQUIRED) -> Any:
        """Return the value of a field of exactly this type; true is not an integer."""
        value = self._unread.pop(key, default)
        if value is REQUIRED:
            raise CostError(f"{self.where or 'the file'}: {key!r} is missing")
        if value is not default and type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise malformed(self.path_of(key), "wrong type", value, _type_names(kind))
        return value

    def choice(self, key: str, choices: tuple[str, ...] | Mapping[str, Any], default: Any = REQUIRED) -> str:
        """Return a string that must be one of ``choices``."""
        value: str = self.field(key, str, default)
        if value not in choices:
            raise malformed(self.path_of(key), "unknown value", value, f"one of {', '.join(choices)}")
        return value

    def amount(self, key: str, decoder: Decoder, default: Any = REQUIRED) -> Dim:
        """Return an integer of at least 0, or a symbolic expression."""
        return checked_amount(self.field(key, (int, str, list), default), self.path_of(key), decoder)

    def objects(self, key: str, default: Any = REQUIRED) -> list[FileObject]:
        """Return a list of objects."""
        return [FileObject(data, f"{self.path_of(key)}[{i}]") for i, data in enumerate(self.field(key, list, default))]

    def shapes(self, key: str, decoder: Decoder) -> tuple[tuple[Dim, ...], ...]:
        """Return a list of shapes; empty if the field is omitted."""
        where, shapes = self.path_of(key), self.field(key, list, [])
        if any(type(shape) is not list for shape in shapes):
            raise malformed(where, "wrong type", shapes, "lists of sizes")
        return tuple(tuple(checked_amount(size, where, decoder) for size in shape) for shape in shapes)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers; empty if the field is omitted."""
        values = self.field(key, list, [])
        if any(type(value) is not int for value in values):
            raise malformed(self.path_of(key), "wrong type", values, "integers")
        return tuple(values)

    def pairs(self, key: str) -> tuple[tuple[int, int], ...]:
        """Return a list of pairs of integers; empty if the field is omitted."""
        values = self.field(key, list, [])
        for value in values:
            if type(value) is not list or len(value) != 2 or any(type(each) is not int for each in value):
                raise malformed(self.path_of(key), "wrong type", value, "pairs of integers")
        return tuple((first, second) for first, second in values)

    def strings(self, key: str, default: Any = REQUIRED) -> list[str]:
        """Return a list of strings."""
        values: list[str] = self.field(key, list, default)
        if any(type(value) is not str for value in values):
            raise malformed(self.path_of(key), "wrong type", values, "strings")
        return values

    def attributes(self, key: str, decoder: Decoder) -> dict[str, Any]:
        """Return the attributes of an operator by name."""
        where = self.path_of(key)
        return {name: decoder.value(value, f"{where}.{name}") for name, value in self.field(key, dict).items()}

    def end(self) -> None:
        """Check that every field was read.

        Raises:
            CostError: if the object has a field that the schema does not define.
        """
        if self._unread:
            raise CostError(f"{self.where or 'the file'}: unknown {', '.join(map(short_repr, self._unread))}")

    def path_of(self, key: str) -> str:
        """Return the location of a field in the file."""
        return f"{self.where}.{key}" if self.where else key


def checked_amount(value: Any, where: str, decoder: Decoder) -> Dim:
    """Return an integer of at least 0, or a symbolic expression, from its form in the file."""
    return checked_sign(decoder.dim(value, where), where)


def checked_sign(amount: Dim, where: str) -> Dim:
    """Return an amount; a negative one is malformed."""
    if isinstance(amount, int) and amount < 0:
        raise malformed(where, "negative", amount, "at least 0")
    return amount


def _type_names(kind: type | tuple[type, ...]) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        int: "an integer",
        bool: "true or false",
        float: "a number",
    }
    return " or ".join(names[each] for each in (kind if isinstance(kind, tuple) else (kind,)))
