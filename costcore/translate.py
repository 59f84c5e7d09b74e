"""Turn one operation of a framework into one neutral layer, by a row of the frontend's table."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError
from costcore.ir import Layer, Role, Tensor
from costcore.messages import shortly

Names: TypeAlias = "Callable[[str], Collection[str] | None]"
Arguments: TypeAlias = Mapping[str, Any]
Source: TypeAlias = "str | Callable[[Arguments], Any]"
ToTensor: TypeAlias = "Callable[[Any, Role], Tensor | None]"

ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("w", "b"), "param"),
    **dict.fromkeys(("mean", "var", "h", "c"), "state"),
}
"""Role of an operand by its neutral name without trailing digits; every other operand is data."""


def role_of(operand: str) -> Role:
    """The role of an operand by its neutral name."""
    return ROLES.get(operand.rstrip(string.digits), "data")


MOST_SETTINGS = 1024
"""Longer lists of numbers or texts are no settings of an operator that no row speaks of."""


class Native(NamedTuple):
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

    Raises:
        TypeError: for an operand or a setting that is fed from anything else; says what is accepted.
    """

    native: str
    op: str | Callable[[Arguments], str]
    inputs: Mapping[str, Source] = field(default_factory=dict)
    attrs: Mapping[str, Source] = field(default_factory=dict)
    when: Callable[[Arguments], bool] | None = None
    outputs: Callable[[Arguments, Sequence[Any]], Sequence[Any]] | None = None
    ops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for fed in (self.inputs, self.attrs):
            if not isinstance(fed, Mapping):
                raise TypeError(f"the row of {self.native} feeds {shortly(fed)}; accepted is a mapping by neutral name")
            for name, source in fed.items():
                if not (isinstance(source, str) or callable(source)):
                    raise TypeError(
                        f"the row of {self.native} feeds {name} from {shortly(source)}; accepted are the name of an "
                        "argument, or a function of all arguments"
                    )


class Translation(NamedTuple):
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
        role: the role of an operand by its name.
        names: the arguments that an operation may have, in any version, by its full name; None where that is not known.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        tensor: ToTensor,
        role: Callable[[str], Role] = role_of,
        names: Names = lambda _: None,
    ) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row.native, []).append(row)
        self._tensor = tensor
        self._role = role
        self._names = names
        self._fitting: set[int] = set()
        """Rows, by identity, of which the arguments are known to exist."""

    def by(self, tensor: ToTensor) -> Translator:
        """A translator by the same table that makes tensors another way."""
        other = Translator((), tensor, self._role, self._names)
        other._rows, other._fitting = self._rows, self._fitting
        return other

    def knows(self, native: str) -> bool:
        """Whether a row speaks of an operation."""
        return native in self._rows

    def __call__(self, native: Native) -> Translation:
        """The layer of ``native``; where no row holds, of the framework's own name, with all tensors and settings.

        Raises:
            CostError: for a row that feeds an operand from an argument that the operation does not have; names it.
        """
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
            tensor = self._tensor(value, self._role(name))
            if tensor is not None:
                operands[name] = tensor
                values.append(value)
            elif isinstance(value, (list, tuple)) and any(self._tensor(part, "data") is not None for part in value):
                raise CostError(
                    f"the row of {row.native} feeds {name} from a list of tensors; a list feeds operands written x*"
                )
        chosen = native.outputs if row.outputs is None else row.outputs(native.args, native.outputs)
        outputs = self._outputs(chosen)
        attrs = {name: hashable(pull(source, native.args)) for name, source in row.attrs.items()}
        op = row.op if isinstance(row.op, str) else row.op(native.args)
        layer = Layer(op, operands, outputs.values(), {k: v for k, v in attrs.items() if v is not None})
        return Translation(layer, tuple(values), tuple(chosen[i] for i in outputs), known=True)

    def _outputs(self, values: Sequence[Any]) -> dict[int, Tensor]:
        tensors = ((i, self._tensor(value, "data")) for i, value in enumerate(values))
        return {i: tensor for i, tensor in tensors if tensor is not None}

    def _check(self, row: Row, args: Arguments) -> None:
        """Refuse a row whose arguments the operation does not have: what they feed would silently be missing."""
        named = {name: source for name, source in row.inputs.items() if isinstance(source, str)}
        known = self._names(row.native)
        if known is None:
            is_blind = len(named) == len(row.inputs) and args.keys().isdisjoint(named.values())
            known = () if is_blind else named.values()
        for name, source in named.items():
            if source not in args and source not in known:
                there = [argument for argument in args if isinstance(argument, str) and not argument.startswith("@")]
                raise CostError(
                    f"the row of {row.native} feeds {name} from {source!r}, which it does not have; its arguments are "
                    f"{', '.join(map(repr, dict.fromkeys([*there, *known])))}"
                )
        self._fitting.add(id(row))

    def _operands(self, row: Row, args: Arguments) -> Iterable[tuple[str, Any]]:
        for name, source in row.inputs.items():
            value = pull(source, args)
            if value is None and id(row) not in self._fitting and source not in args:
                self._check(row, args)
            if "*" in name:
                if self._tensor(value, "data") is not None:
                    raise CostError(f"the row of {row.native} feeds {name} from one tensor; accepted is a list of them")
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
