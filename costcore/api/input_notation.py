"""Inputs in the notation of the command line: as arguments, and read back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from costcore.ir import BITS, Tensor
from costcore.messages import short_repr, unknown
from costcore.numbers.dims import whole_number
from costcore.trace.input_shapes import Value

INPUT_FORMS = (
    "1x3x224x224, 1x128:int64, batch,3,16*h,16*w for formulas in sizes, scalar, NAME=1x3x224x224, or [2,3], NAME:=9 "
    "and NAME:=[2,3] for values"
)

_EXPRESSION = re.compile(r"[\s\w+*/()-]*[^\W\d][\s\w+*/()-]*")
"""A size with names in it, such as ``past + new``."""


def parse_inputs(texts: Sequence[str]) -> Any:
    """Return the inputs in the arguments of ``--input``.

    The result is None for no argument, one shape for a single unnamed input, a tuple for several, and a dict for named
    inputs.

    Raises:
        ValueError: if an argument does not have one of :data:`INPUT_FORMS`, or only some inputs have names.
    """
    named: dict[str, Any] = {}
    unnamed: list[Any] = []
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_value = name.endswith(":")
        name = name.removesuffix(":")
        if separator and not name:
            raise ValueError(f"--input {short_repr(text)} has an empty name (expected {INPUT_FORMS})")
        if name in named:
            raise ValueError(f"--input {name!r} is given twice")
        if is_value:
            named[name] = _parse_json(text, value)
        elif separator:
            named[name] = _parse_input(text, value)
        else:
            unnamed.append(_parse_input(text, value))
    if named and unnamed:
        raise ValueError("--input is given both with and without names. Name all inputs or none.")
    if named:
        return named
    return None if not unnamed else unnamed[0] if len(unnamed) == 1 else tuple(unnamed)


def parse_dims(texts: Sequence[str]) -> dict[str, int | str]:
    """Return the named dimensions in the arguments of ``--dim``, such as ``batch=8`` or ``total=past+new``.

    Raises:
        ValueError: if an argument has another form, or a name is given twice.
    """
    dims: dict[str, int | str] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_size = value.isdecimal() or _EXPRESSION.fullmatch(value)
        if not (separator and name and is_size):
            raise ValueError(
                f"--dim {short_repr(text)} is invalid (expected NAME=N, such as batch=8, or NAME=past+new)"
            )
        if name in dims:
            raise ValueError(f"--dim {name!r} is given twice")
        dims[name] = _number("--dim", text, value) if value.isdecimal() else value
    return dims


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the shapes in the arguments of ``--shape``, such as ``h=batch,8``, or ``h=1x8`` for numbers only.

    Raises:
        ValueError: if an argument has another form, or a name is given twice.
    """
    shapes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        sizes = value.split("x" if re.fullmatch(r"\d+(x\d+)*", value) else ",")
        if not (separator and name and all(size.isdecimal() or size.isidentifier() for size in sizes)):
            raise ValueError(f"--shape {short_repr(text)} is invalid (expected NAME=batch,8 or NAME=1x8)")
        if name in shapes:
            raise ValueError(f"--shape {name!r} is given twice")
        shapes[name] = tuple(_number("--shape", text, size) if size.isdecimal() else size for size in sizes)
    return shapes


def _parse_input(text: str, value: str) -> Any:
    shape: tuple[Any, ...]
    if value.startswith("["):
        return _parse_json(text, value)
    match = re.fullmatch(r"(\d+(?:x\d+)*|scalar|[^:]+,[^:]*)(?::(\w+))?", value)
    if not match:
        raise ValueError(f"--input {short_repr(text)} is invalid (expected {INPUT_FORMS})")
    if "," in match[1]:
        shape = _named_shape(text, match[1])
    else:
        shape = () if match[1] == "scalar" else tuple(_number("--input", text, size) for size in match[1].split("x"))
    if match[2] is None:
        return shape
    if match[2] not in BITS:
        raise ValueError(f"--input {short_repr(text)}: {unknown('dtype', match[2], BITS)}")
    return Tensor(shape, match[2])


def _named_shape(text: str, value: str) -> tuple[Any, ...]:
    """Return a shape with names: ``batch,3,16*h,16*w``, or ``seq,`` for one axis."""
    sizes = [size.strip() for size in value.removesuffix(",").split(",")]
    if not all(size.isdecimal() or _EXPRESSION.fullmatch(size) for size in sizes):
        raise ValueError(f"--input {short_repr(text)} is invalid (expected {INPUT_FORMS})")
    return tuple(_number("--input", text, size) if size.isdecimal() else size for size in sizes)


def _parse_json(text: str, value: str) -> Any:
    try:
        parsed = json.loads(value, parse_int=lambda digits: _number("--input", text, digits))
        return Value(parsed) if isinstance(parsed, (list, dict)) else parsed
    except json.JSONDecodeError as error:
        raise ValueError(f"--input {short_repr(text)}: {error} (expected {INPUT_FORMS})") from error
    except RecursionError as error:
        raise ValueError(f"--input {short_repr(text)} is nested too deeply (expected {INPUT_FORMS})") from error


def _number(option: str, text: str, digits: str) -> int:
    try:
        return whole_number(digits)
    except ValueError as error:
        raise ValueError(f"{option} {short_repr(text)}: {error}") from error


def input_arguments(inputs: Any) -> str:
    """Return the arguments that give these inputs on the command line, ``--input 1x3x224x224``.

    Inputs that have no such notation, a list of images, are written as in Python.
    """
    if isinstance(inputs, Mapping):
        named = [_named_text(name, value) for name, value in inputs.items()]
    else:
        named = [_text(value) for value in (inputs if _are_several(inputs) else [inputs])]
    return " ".join(f"--input {text}" for text in named) if all(named) else repr(inputs)


def _are_several(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and not all(isinstance(size, int) for size in inputs)


def _named_text(name: str, value: Any) -> str:
    """Return the text of one input with a name; empty if it has none."""
    if isinstance(value, Value):
        return f"{name}:={json.dumps(value.value, separators=(',', ':'), default=repr)}"
    return f"{name}={text}" if (text := _text(value)) else ""


def _text(value: Any) -> str:
    """Return the text of one input; empty if it has none."""
    shape, suffix = (value.shape, f":{value.dtype}") if isinstance(value, Tensor) else (value, "")
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return ""
    return ("x".join(map(str, shape)) or "scalar") + suffix
