"""Turn one operation of a framework into one neutral layer, by a row of the frontend's table."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from costcore.ir import Layer, Role, Tensor

Arguments: TypeAlias = Mapping[str, Any]
Source: TypeAlias = "str | Callable[[Arguments], Any]"
ToTensor: TypeAlias = "Callable[[Any, Role], Tensor | None]"

ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("w", "b"), "param"),
    **dict.fromkeys(("mean", "var", "h", "c"), "state"),
}
"""Role of an operand by its neutral name without trailing digits; every other operand is data."""

MOST_SETTINGS = 1024
"""Longer lists of numbers or texts are no settings of an operator that no row speaks of."""


@dataclass(frozen=True, slots=True)
class Native:
    """One operation as a frontend saw it: the framework's full name, arguments by the framework's names, outputs.

    Holds the framework's own tensors: translate it at once, and do not keep it.
    """

    name: str
    args: Arguments
    outputs: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a frontend's table: ``native`` becomes ``op``.

    Attributes:
        native: the framework's full name of the operation.
        op: the neutral name, or a function of all arguments that returns it.
        inputs: which argument feeds which operand: the framework's argument name, or a function of all arguments.
            An argument that is a list of tensors feeds ``x0``, ``x1`` … for an operand written ``x*``, ``x0_scale`` …
            for one written ``x*_scale``.
        attrs: the same for the settings.
        when: the row holds only where this is true of the arguments; None: always.
        outputs: which outputs count, as a function of arguments and outputs; None: all of them.
        ops: the names that ``op`` may return where it is a function, for those who read the table without running it.
    """

    native: str
    op: str | Callable[[Arguments], str]
    inputs: Mapping[str, Source] = field(default_factory=dict)
    attrs: Mapping[str, Source] = field(default_factory=dict)
    when: Callable[[Arguments], bool] | None = None
    outputs: Callable[[Arguments, Sequence[Any]], Sequence[Any]] | None = None
    ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """A layer, and the framework's value behind each of its inputs and outputs, in the same order."""

    layer: Layer
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    known: bool
    """Whether a row spoke of the operation; if not, the layer only names it, with its shapes."""


class Translator:
    """Translates by table.

    Args:
        rows: the table; of several rows of one native name the first whose ``when`` holds is taken.
        tensor: makes a :class:`Tensor` of a framework's value in a role, or None where it is no tensor.
    """

    def __init__(self, rows: Iterable[Row], tensor: ToTensor) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row.native, []).append(row)
        self._tensor = tensor

    def by(self, tensor: ToTensor) -> Translator:
        """A translator by the same table that makes tensors another way."""
        other = Translator((), tensor)
        other._rows = self._rows
        return other

    def knows(self, native: str) -> bool:
        """Whether a row speaks of an operation."""
        return native in self._rows

    def __call__(self, native: Native) -> Translation:
        """The layer of ``native``; where no row holds, of the framework's own name, with all tensors and settings."""
        for row in self._rows.get(native.name, ()):
            if row.when is None or row.when(native.args):
                return self._translate(row, native)
        found = [(value, tensor) for value in flatten(native.args.values()) if (tensor := self._tensor(value, "data"))]
        values, tensors = zip(*found, strict=True) if found else ((), ())
        outputs = self._outputs(native.outputs)
        operands = {f"x{i}": tensor for i, tensor in enumerate(tensors)}
        layer = Layer(native.name, operands, outputs.values(), settings(native.args))
        return Translation(layer, values, tuple(native.outputs[i] for i in outputs), known=False)

    def _translate(self, row: Row, native: Native) -> Translation:
        operands: dict[str, Tensor] = {}
        values: list[Any] = []
        for name, value in self._operands(row, native.args):
            tensor = self._tensor(value, ROLES.get(name.rstrip(string.digits), "data"))
            if tensor is not None:
                operands[name] = tensor
                values.append(value)
        chosen = native.outputs if row.outputs is None else row.outputs(native.args, native.outputs)
        outputs = self._outputs(chosen)
        attrs = {name: hashable(pull(source, native.args)) for name, source in row.attrs.items()}
        op = row.op if isinstance(row.op, str) else row.op(native.args)
        layer = Layer(op, operands, outputs.values(), {k: v for k, v in attrs.items() if v is not None})
        return Translation(layer, tuple(values), tuple(chosen[i] for i in outputs), known=True)

    def _outputs(self, values: Sequence[Any]) -> dict[int, Tensor]:
        tensors = ((i, self._tensor(value, "data")) for i, value in enumerate(values))
        return {i: tensor for i, tensor in tensors if tensor is not None}

    @staticmethod
    def _operands(row: Row, args: Arguments) -> Iterable[tuple[str, Any]]:
        for name, source in row.inputs.items():
            value = pull(source, args)
            if "*" in name:
                yield from ((name.replace("*", str(i)), v) for i, v in enumerate(value or ()))
            elif value is not None:
                yield name, value


def pull(source: Source, args: Arguments) -> Any:
    """The value of an argument named by, or computed by, ``source``; None where it was not given."""
    return args.get(source) if isinstance(source, str) else source(args)


def flatten(values: Iterable[Any]) -> Iterable[Any]:
    """Every value inside nested lists and tuples."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flatten(value)
        else:
            yield value


def settings(args: Arguments) -> dict[str, Any]:
    """The arguments of an operation that no row speaks of, but for tensors and long lists."""
    return {name: hashable(value) for name, value in args.items() if _is_setting(value)}


def _is_setting(value: Any) -> bool:
    """Whether an argument of an unknown operator is a number or a text, or a few of these."""
    if isinstance(value, (list, tuple)):
        return 0 < len(value) <= MOST_SETTINGS and all(map(_is_setting, value))
    return isinstance(value, (bool, int, float, str))


def hashable(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(hashable(v) for v in value) if isinstance(value, (list, tuple)) else value
