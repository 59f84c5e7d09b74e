"""Map an operator call of a framework to a canonical layer, by a row of the mapping rules of the frontend."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError, short_repr
from costcore.ir import Layer, Role, Tensor

Names: TypeAlias = "Callable[[str], Collection[str] | None]"
"""A function from the full name of an operator to the names of its arguments; None if it has no schema."""

Arguments: TypeAlias = Mapping[str, Any]
"""All arguments of a call, by the framework's names."""

Source: TypeAlias = "str | Callable[[Arguments], Any]"
"""The value of an operand or attribute: the name of an argument, or a function of all arguments."""

ToTensor: TypeAlias = "Callable[[Any, Role], Tensor | None]"
"""A function from a framework's value and a role to a :class:`Tensor`; None if it is not a tensor."""

ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("w", "b"), "param"),
    **dict.fromkeys(("mean", "var", "h", "c"), "state"),
}
"""Role of an operand by its name without trailing digits; all other operands are data."""


def role_of(operand: str) -> Role:
    """Return the role of an operand by its name: ``"w1"`` is a learned parameter, ``"h"`` a state, ``"x0"`` data."""
    return ROLES.get(operand.rstrip(string.digits), "data")


_MAX_ATTRIBUTE_LENGTH = 1024
"""The maximum length of a list that is an attribute of an operator without a row; longer lists are data."""


class Native(NamedTuple):
    """An operator call as the framework made it.

    It holds the framework's own tensors. Translate it immediately and do not store it, or their memory stays in use.

    Attributes:
        name: the framework's full name of the operator.
        args: the arguments by the framework's names.
        outputs: the returned values.
    """

    name: str
    args: Arguments
    outputs: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A mapping rule: calls of the framework's operator ``native`` become layers of the operator ``op``.

    Attributes:
        native: the framework's full name of the operator.
        op: the canonical name, or a function of all arguments that returns it.
        inputs: the source of each operand: the name of an argument, or a function of all arguments. None leaves the
            operand out. A list of tensors is the source of the operands ``x0``, ``x1`` … if the operand is written
            ``x*``, and of ``x0_scale``, ``x1_scale`` … if it is written ``x*_scale``.
        attrs: the source of each attribute, in the same way.
        when: restricts the row to calls with arguments for which it returns True. Default: all calls.
        outputs: selects the outputs that count, given the arguments and all outputs. Default: all outputs.
        ops: the names that ``op`` may return if it is a function, for readers of the table that do not call it.

    Raises:
        TypeError: if the source of an operand or attribute is neither a string nor a function.
    """

    native: str
    op: str | Callable[[Arguments], str]
    inputs: Mapping[str, Source] = field(default_factory=dict)
    attrs: Mapping[str, Source] = field(default_factory=dict)
    when: Callable[[Arguments], bool] | None = None
    outputs: Callable[[Arguments, Sequence[Any]], Sequence[Any]] | None = None
    ops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field_name, sources in (("inputs", self.inputs), ("attrs", self.attrs)):
            if type(sources) is not dict and not isinstance(sources, Mapping):  # the second check is slow
                raise TypeError(
                    f"row of {self.native}: invalid {field_name} (got {short_repr(sources)}, expected a mapping by "
                    "name)"
                )
            for name, source in sources.items():
                if not (isinstance(source, str) or callable(source)):
                    raise TypeError(
                        f"row of {self.native}: invalid source of {name} (got {short_repr(source)}, expected the name "
                        "of an argument or a function of all arguments)"
                    )


class Translation(NamedTuple):
    """A layer, and the framework's values of its inputs and outputs, in the same order."""

    layer: Layer
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    has_row: bool
    """Whether a row was found. If not, the layer has the framework's own name and all tensors of the call."""


def by_operator(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by the framework's operator, in their order."""
    table: dict[str, list[Row]] = {}
    for row in rows:
        table.setdefault(row.native, []).append(row)
    return table


class Translator:
    """Mapping of operator calls to layers by a table of rows.

    Args:
        rows: the table, or its rows by operator. A call uses the first row of its operator whose ``when`` returns
            True.
        tensor: describes a framework's value in a role as a :class:`Tensor`; returns None if it is not a tensor.
        role: returns the role of an operand by its name.
        names: returns the arguments of an operator in all its versions, by its full name; None if it has no schema.
    """

    def __init__(
        self,
        rows: Iterable[Row] | Mapping[str, Sequence[Row]],
        tensor: ToTensor,
        role: Callable[[str], Role] = role_of,
        names: Names = lambda _: None,
    ) -> None:
        self._rows: Any = rows if isinstance(rows, Mapping) else by_operator(rows)
        self._tensor = tensor
        self._role = role
        self._names = names
        self._checked: set[int] = set()  # identities of rows with existing arguments

    def by(self, tensor: ToTensor) -> Translator:
        """Return a translator with the same table that describes tensors by another function."""
        translator = Translator((), tensor, self._role, self._names)
        translator._rows, translator._checked = self._rows, self._checked
        return translator

    def replace_row(self, row: Row) -> None:
        """Make ``row`` the only row of its operator, here and in translators made by :meth:`by`.

        If the translator was made from a mapping, the mapping is modified.
        """
        self._rows[row.native] = [row]

    def has_row(self, native: str) -> bool:
        """Return whether the table has a row for an operator."""
        return native in self._rows

    def __call__(self, native: Native) -> Translation:
        """Return the layer of a call; without a row, a layer with the framework's own name, all tensors and attributes.

        Raises:
            CostError: if the source of an operand is an argument that the operator does not have, or a list where one
                tensor is expected, or the reverse.
        """
        for row in self._rows.get(native.name, ()):
            if row.when is None or row.when(native.args):
                return self._translate(row, native)
        found = [(value, tensor) for value in flatten(native.args.values()) if (tensor := self._tensor(value, "data"))]
        values, tensors = zip(*found, strict=True) if found else ((), ())
        outputs = self._outputs(native.outputs)
        operands = {f"x{i}": tensor for i, tensor in enumerate(tensors)}
        layer = Layer(native.name, operands, outputs.values(), settings(native.args))
        return Translation(layer, values, tuple(native.outputs[i] for i in outputs), has_row=False)

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
                    f"row of {row.native}: operand {name} reads a list of tensors (expected one tensor). Write it with "
                    "a star, such as x*"
                )
        counted = native.outputs if row.outputs is None else row.outputs(native.args, native.outputs)
        outputs = self._outputs(counted)
        attrs = {}
        for name, source in row.attrs.items():
            found = pull(source, native.args)
            if found is not None:
                attrs[name] = hashable(found)
        op = row.op if isinstance(row.op, str) else row.op(native.args)
        layer = Layer(op, operands, outputs.values(), attrs)
        return Translation(layer, tuple(values), tuple([counted[i] for i in outputs]), has_row=True)

    def _outputs(self, values: Sequence[Any]) -> dict[int, Tensor]:
        found = {}
        for i, value in enumerate(values):
            tensor = self._tensor(value, "data")
            if tensor is not None:
                found[i] = tensor
        return found

    def _check(self, row: Row, args: Arguments) -> None:
        # A wrong argument would drop its operand silently. Without a schema, a row is rejected only if a call has none
        # of its arguments: each may be optional.
        named = {name: source for name, source in row.inputs.items() if isinstance(source, str)}
        declared = self._names(row.native)
        if declared is None:
            none_exists = len(named) == len(row.inputs) and args.keys().isdisjoint(named.values())
            declared = () if none_exists else named.values()
        for name, source in named.items():
            if source not in args and source not in declared:
                passed = [argument for argument in args if isinstance(argument, str) and not argument.startswith("@")]
                raise CostError(
                    f"row of {row.native}: operand {name} reads the unknown argument {source!r} (expected one of "
                    f"{', '.join(map(repr, dict.fromkeys([*passed, *declared])))})"
                )
        self._checked.add(id(row))

    def _operands(self, row: Row, args: Arguments) -> list[tuple[str, Any]]:
        found = []
        for name, source in row.inputs.items():
            value = pull(source, args)
            # An unknown argument has no value. Calls with all values are not checked: checking is slow.
            if value is None and id(row) not in self._checked and source not in args:
                self._check(row, args)
            if "*" in name:
                if self._tensor(value, "data") is not None:
                    raise CostError(
                        f"row of {row.native}: operand {name} reads one tensor (expected a list of tensors). Write it "
                        "without the star"
                    )
                found += [(name.replace("*", str(i)), v) for i, v in enumerate(value or ())]
            elif value is not None:
                found.append((name, value))
        return found


def pull(source: Source, args: Arguments) -> Any:
    """Return the value of a source: an argument by its name, None if it is absent, or the result of a function."""
    return args.get(source) if isinstance(source, str) else source(args)


def flatten(values: Iterable[Any]) -> Iterable[Any]:
    """Yield every value in nested lists and tuples."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flatten(value)
        else:
            yield value


def settings(args: Arguments) -> dict[str, Any]:
    """Return the attributes of an operator without a row: all arguments but tensors and long lists."""
    return {name: hashable(value) for name, value in args.items() if _is_attribute(value)}


def _is_attribute(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return 0 < len(value) <= _MAX_ATTRIBUTE_LENGTH and all(map(_is_attribute, value))
    return isinstance(value, (bool, int, float, str))


def hashable(value: Any) -> Any:
    """Convert nested lists to tuples."""
    return tuple(hashable(v) for v in value) if isinstance(value, (list, tuple)) else value
