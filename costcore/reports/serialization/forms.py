"""The form of a value in a report file, declared once: it writes the value, and reads it back validated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import compress
from operator import attrgetter, ne
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.messages import short_repr
from costcore.reports.serialization.codec import Decoder, Encoder, malformed

REQUIRED: Any = object()
"""Stands for the missing default of a field that every file has."""


class Form(NamedTuple):
    """How a value is written, and read.

    Attributes:
        write: returns the value in plain JSON types.
        read: returns the value from these, given their location in the file; raises a ``CostError`` if they are not in
            this form.
        is_plain: whether JSON has the value itself.
    """

    write: Callable[[Any, Encoder], Any]
    read: Callable[[Any, str, Decoder], Any]
    is_plain: bool = False


class Field(NamedTuple):
    """A field of an object of the file.

    Attributes:
        form: the form of its value.
        absent: the value that a file without it has.
        of: the attribute of the written object that it is, if that has another name; ``call.native`` for one of a part.
        is_written: whether it is written even if it has the value ``absent``.
    """

    form: Form
    absent: Any = REQUIRED
    of: str = ""
    is_written: bool = False


def plain(kind: type, expected: str) -> Form:
    """Return the form of a value of exactly this type, which JSON has too; true is not an integer."""

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        if type(data) is not kind:
            raise malformed(where, "wrong type", data, expected)
        return data

    return Form(lambda value, encoder: value, read, is_plain=True)


TEXT, INTEGER, NUMBER = plain(str, "a string"), plain(int, "an integer"), plain(float, "a number")
FLAG, OBJECT, LIST = plain(bool, "true or false"), plain(dict, "an object"), plain(list, "a list")
AS_IS = Form(lambda value, encoder: value, lambda data, where, decoder: data)
VALUE = Form(lambda value, encoder: encoder.value(value), lambda data, where, decoder: decoder.value(data, where))


def converted(form: Form, back: Callable[[Any, str, Decoder], Any], to: Callable[[Any], Any] | None = None) -> Form:
    """Return the form of another object: ``to`` makes it of a value to write, ``back`` the value of what is read."""

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        return back(form.read(data, where, decoder), where, decoder)

    return Form(form.write if to is None else lambda value, encoder: form.write(to(value), encoder), read)


def checked(form: Form, check: Callable[[Any, Decoder], bool], expected: str, problem: str = "wrong value") -> Form:
    """Return a form all of whose values pass a check."""

    def read(value: Any, where: str, decoder: Decoder) -> Any:
        if not check(value, decoder):
            raise malformed(where, problem, value, expected)
        return value

    return converted(form, read)._replace(is_plain=form.is_plain)


def choice(names: Collection[str]) -> Form:
    """Return the form of a string that is one of ``names``."""
    return checked(TEXT, lambda value, _: value in names, f"one of {', '.join(names)}", "unknown value")


def _dimension(data: Any, where: str, decoder: Decoder) -> Any:
    if type(data) not in (int, str, list):
        raise malformed(where, "wrong type", data, "an integer or a string or a list")
    return decoder.dim(data, where)


def _amount(data: Any, where: str, decoder: Decoder) -> Any:
    value = _dimension(data, where, decoder)
    if isinstance(value, int) and value < 0:
        raise malformed(where, "negative", value, "at least 0")
    return value


def _shape(data: Any, where: str, decoder: Decoder) -> Any:
    if type(data) is not list:
        raise malformed(where, "wrong type", data, "a list of sizes")
    shape = decoder.shape(data, where)
    for size in shape:
        if isinstance(size, int) and size < 0:
            raise malformed(where, "negative", size, "at least 0")
    return shape


DIMENSION = Form(lambda value, encoder: encoder.dim(value), _dimension)
AMOUNT = Form(DIMENSION.write, _amount)
SHAPE = Form(lambda shape, encoder: [encoder.dim(size) for size in shape], _shape)


def many(form: Form) -> Form:
    """Return the form of a list of values, which are read as a tuple."""

    def write(value: Any, encoder: Encoder) -> list[Any]:
        return [*value] if form.is_plain else [form.write(item, encoder) for item in value]

    def read(data: Any, where: str, decoder: Decoder) -> tuple[Any, ...]:
        LIST.read(data, where, decoder)
        return tuple([form.read(item, f"{where}[{i}]", decoder) for i, item in enumerate(data)])

    return Form(write, read)


def listed(kinds: tuple[type, ...], expected: str, n: int | None = None) -> Form:
    """Return the form of a list whose items have these types, one after another if there are ``n`` of them."""

    def read(data: Any, where: str, decoder: Decoder) -> tuple[Any, ...]:
        if type(data) is not list or [*map(type, data)] != [*kinds] * (len(data) if n is None else 1):
            raise malformed(where, "wrong type", data, expected)
        return tuple(data)

    return Form(lambda value, encoder: [*value], read)


IDS, TEXTS = listed((int,), "integers"), listed((str,), "strings")
PAIRS = many(listed((int, int), "a pair of integers", 2))


def by_name(form: Form, make: Callable[[Any], Any] = dict) -> Form:
    """Return the form of an object whose values have one form; ``make`` builds what holds them from all pairs."""

    def write(value: Any, encoder: Encoder) -> dict[str, Any]:
        for name in dict(value):
            if not isinstance(name, str):
                raise CostError(f"names of attributes must be strings (got {name!r})")
        return {name: form.write(item, encoder) for name, item in dict(value).items()}

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        OBJECT.read(data, where, decoder)
        return make((name, form.read(item, f"{where}.{name}", decoder)) for name, item in data.items())

    return Form(write, read)


def entry(make: Callable[..., Any], /, **fields: Form | Field) -> Form:
    """Return the form of an object with fields, in the order in which they are written.

    Args:
        make: builds it from its fields, which are passed by the (last) names of the attributes.
        fields: the fields by key, at least two.
    """
    all_fields = {key: each if isinstance(each, Field) else Field(each) for key, each in fields.items()}
    paths = [field.of or key for key, field in all_fields.items()]
    values_of = attrgetter(*paths)
    names = {key: path.rpartition(".")[2] for key, path in zip(all_fields, paths, strict=True)}
    absent = {names[key]: field.absent for key, field in all_fields.items() if field.absent is not REQUIRED}
    required = [key for key, field in all_fields.items() if field.absent is REQUIRED]
    writers = [None if field.form.is_plain else field.form.write for field in all_fields.values()]
    left_out = [REQUIRED if field.is_written else field.absent for field in all_fields.values()]
    readers = {key: (field.form.read, names[key]) for key, field in all_fields.items()}

    def write(value: Any, encoder: Encoder) -> dict[str, Any]:
        values = values_of(value)
        written = compress(zip(all_fields, writers, values, strict=True), map(ne, values, left_out))
        return {key: item if to_json is None else to_json(item, encoder) for key, to_json, item in written}

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        OBJECT.read(data, where, decoder)
        for key in required:
            if key not in data:
                raise CostError(f"{where}: {key!r} is missing")
        values = dict(absent)
        for key, item in data.items():
            if key not in readers:
                raise CostError(f"{where}: unknown {short_repr(key)}")
            of_json, name = readers[key]
            values[name] = of_json(item, f"{where}.{key}", decoder)
        return make(**values)

    return Form(write, read)


def keyed(key: str, key_form: Form, form: Form, noun: str) -> Form:
    """Return the form of a mapping as a list of objects: the fields of the value, after one with the key of a noun."""

    def write(value: Mapping[Any, Any], encoder: Encoder) -> list[dict[str, Any]]:
        return [{key: name, **form.write(item, encoder)} for name, item in value.items()]

    def read(data: Any, where: str, decoder: Decoder) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for i, item in enumerate(LIST.read(data, where, decoder)):
            at = f"{where}[{i}]"
            fields = dict(OBJECT.read(item, at, decoder))
            name = key_form.read(fields.pop(key, None), f"{at}.{key}", decoder)
            if name in found:
                raise CostError(f"{at}: duplicate {noun} {short_repr(name)}")
            found[name] = form.read(fields, at, decoder)
        return found

    return Form(write, read)


def only(key: str, form: Form) -> Form:
    """Return the form of an object whose only field is the value."""
    inside = entry(dict, **{key: form})
    return Form(
        lambda value, encoder: {key: form.write(value, encoder)},
        lambda data, where, decoder: inside.read(data, where, decoder)[key],
    )


def reference(table: str) -> Form:
    """Return the form of an object that is written once, in a table of the file: its index there."""

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        found = decoder.tables[table]
        if not 0 <= INTEGER.read(data, where, decoder) < len(found):
            raise malformed(where, "index out of range", data, f"less than {len(found)}, at least 0")
        return found[data]

    return Form(lambda value, encoder: encoder.tables[table].index_of(value, encoder), read)
