"""From a node whose values are known to a call of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from costcore.dims import Dim
from costcore.ir import Layer, Role, Tensor
from costcore.registry.calculators import calculators
from costcore.trace.call import Call, Uncounted
from costcore.trace.recorder import Recorder
from costcore.translate import Native, Row, Translation, Translator, settings
from costcore.translate import role_of as neutral_role

from ..graph.modules import Modules
from ..graph.node import Node, describe
from ..graph.scope import Place
from ..graph.user_inputs import Missing
from ..operators import arguments_of_any_version
from ..values.dimensions import Dimensions, called
from ..values.value import Container, Stored, Value

FREE = frozenset(("Constant", "Shape", "Size", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
"""Operators that are free whatever they are given; all others are free where they make constants of constants."""


def role_of(operand: str) -> Role:
    """The role of an operand by its neutral name: how a weight is stored in few bits is nothing that is learned."""
    return "const" if operand.endswith(("_scale", "_zero_point")) else neutral_role(operand)


def asked(name: str) -> str:
    """What the caller is told to give who knows the shape of a value."""
    return f"shapes={{{name!r}: ('N', 8)}}"


def is_open(value: Value | None) -> bool:
    """Whether not even the rank of a tensor is known."""
    return value is not None and value.shape is None and not isinstance(value, Container)


class Whole(NamedTuple):
    """All elements of a value whose rank is not known: its name, how many they are, and the node that it was met at."""

    name: str
    length: Dim
    where: str


class Recording:
    """What is written into a run.

    Args:
        recorder: takes the calls.
        rows: the table.
        dims: named dimensions.
    """

    def __init__(self, recorder: Recorder, rows: Iterable[Row], dims: Dimensions) -> None:
        self.recorder = recorder
        self.translator = Translator(rows, self.tensor, role_of, arguments_of_any_version)
        self.dims = dims
        self.modules = Modules()
        self.missing = Missing()
        """Numbers that the model's inputs carry and that are not known."""
        self._noted: set[str] = set()
        self._elements: dict[int, Whole] = {}
        """All elements of each value whose rank is not known, by operand id."""
        self._met: dict[str, int] = {}
        """How many of them have the same name, as in the iterations of a loop."""
        self._reads_elements = True

    def record(self, node: Node, place: Place) -> Call:
        """Record a node as a call."""
        found, uncounted = self.translated(node, place.names)
        found = found._replace(layer=self.recorder.intern(found.layer))
        call = self.write(node.proto, node.key, found, node.inputs, place, uncounted)
        for what in node.assumed:
            self.assume(what, node.label)
        return call

    def translated(self, node: Node, place: str = "") -> tuple[Translation, Uncounted | None]:
        """The layer of a node with the values it reads and makes, and why it cannot be counted, if so.

        ``place`` goes before the names of the values.
        """
        is_free, is_folded, is_made, is_given = node.op in FREE, True, True, True
        for value in node.outputs:
            if value is not None:
                is_folded = is_folded and value.role == "const"
                if value.shape is None and not isinstance(value, Container):
                    is_made = False
                elif value.shape is None and node.makes_tensors:
                    raise node.error("is declared to make a sequence, and makes tensors")
        for value in node.inputs:
            if value is not None and value.shape is None and not isinstance(value, Container):
                is_given = False
        if is_folded and not is_free and any(value is not None for value in node.outputs):
            outputs = tuple(value for value in node.outputs if value is not None)
            layer = Layer("constant", {}, [value.tensor("data") for value in outputs])
            return Translation(layer, (), outputs, known=True), None
        if is_made and is_given:
            self._reads_elements = not is_free
            return self.translator(Native(node.key, node.args, node.outputs)), None
        if is_given:
            why = "depends on data" if node.schema else "is not known here"
            known_by = self.missing.hint(*node.inputs) if node.lacks_elements else ""
            name = next(n for n, value in zip(node.proto.output, node.outputs, strict=False) if is_open(value))
            self.note(
                f"what needs the shape of what {node.label} makes is not counted: how many dimensions that has {why}; "
                f"give its shape: {asked(f'{place}{name}')}{f', or {known_by}' if known_by else ''}"
            )
        return self.unknown(node, place)

    def write(
        self,
        proto: Any,
        native: str,
        found: Translation,
        given: Sequence[Value | None],
        place: Place,
        uncounted: Uncounted | None = None,
    ) -> Call:
        """Write a node (``NodeProto``) of that full name, whose translation and inputs are given, into the run."""
        layer = found.layer
        identities = tuple([self.identity(value) for value in found.inputs])
        read = [value.stored for value in given if value is not None and value.stored is not None]
        call = Call(
            layer=layer,
            type=proto.op_type,
            native=native,
            module=self.modules.around(proto, place.module, read),
            times=place.times,
            region=place.region,
            inputs=identities,
            outputs=tuple([self.identity(value) for value in found.outputs]),
            parameters=tuple([i for i, t in zip(identities, layer.inputs.values(), strict=True) if t.role == "param"]),
            where=describe(proto) if self.recorder.tracebacks or not found.known else "",
            uncounted=uncounted,
        )
        self.recorder.record(call)
        return call

    def tensor(self, value: Any, role: Role) -> Tensor | None:
        """The operand a value is, none for a sequence; an operator that only renames it reads no parameter."""
        if not isinstance(value, Value) or isinstance(value, Container):
            return None
        if self._reads_elements:
            return value.tensor(role)
        return Tensor(value.known, value.dtype, "data" if value.role == "data" else "const")

    def unknown(self, node: Node, place: str) -> tuple[Translation, Uncounted | None]:
        """A layer that only names the node and its settings, where not even the rank of an operand is known."""
        is_priced = node.key in self.recorder.calculators or node.key in calculators()

        def tensor(value: Value) -> Tensor:
            if value.shape is not None:
                return value.tensor("data")
            whole = self._elements[self.identity(value)]
            if is_priced:
                self.assume(
                    f"the shape of {whole.name!r} is not known: it is taken as one axis, whose length is "
                    f"{called(whole.length)}; give its shape: {asked(whole.name)}",
                    whole.where,
                )
            return Tensor((whole.length,), value.dtype or "float32")

        for names, values in ((node.proto.input, node.inputs), (node.proto.output, node.outputs)):
            for name, value in zip(names, values, strict=False):
                if value is not None and value.shape is None:
                    self._name_elements(value, f"{place}{name}", node.label)
        inputs = tuple(value for value in node.inputs if value is not None)
        outputs = tuple(value for value in node.outputs if value is not None)
        operands = {f"x{i}": tensor(v) for i, v in enumerate(inputs)}
        layer = Layer(node.key, operands, map(tensor, outputs), settings(node.args))
        uncounted = Uncounted.NO_SHAPES if self.translator.knows(node.key) and not is_priced else None
        return Translation(layer, inputs, outputs, known=False), uncounted

    @property
    def without_shape(self) -> list[str]:
        """The values whose rank is not known."""
        return [whole.name for whole in self._elements.values()]

    def _name_elements(self, value: Value, name: str, where: str) -> None:
        """Make up a symbol for all elements of a value whose rank is not known, a symbol of its own."""
        identity = self.identity(value)
        if identity not in self._elements:
            self._met[name] = count = self._met.get(name, 0) + 1
            symbol = f"{name}_elements" if count == 1 else f"{name}_elements_{count}"
            self._elements[identity] = Whole(name, self.dims.fresh(symbol), where)

    def identity(self, value: Value) -> int:
        """The operand id of a value; that of a learned parameter is its parameter id."""
        if value.stored is not None:
            return self.stored_identity(value.stored, "param" in value.stored.uses)
        if not value.identity:
            value.identity = self.recorder.new_id()
        return value.identity

    def stored_identity(self, stored: Stored, is_parameter: bool = True) -> int:
        """The id of a stored tensor, which is that of a parameter where it is one."""
        if not stored.identity:
            stored.identity = self.recorder.parameter(stored.size) if is_parameter else self.recorder.new_id()
        elif is_parameter:
            self.recorder.parameters.setdefault(stored.identity, stored.size)
        return stored.identity

    def hint(self, *values: Value | None) -> str:
        """What follows an assumption that rests on elements of ``values``: how the caller can make them known."""
        known_by = self.missing.hint(*values)
        return f"; give {known_by}" if known_by else ""

    def note(self, what: str) -> None:
        """Tell the reader of the report something, once."""
        if what not in self._noted:
            self._noted.add(what)
            self.recorder.notes.append(what)

    def assume(self, what: str, where: str) -> None:
        """Note an assumption, once for every place."""
        self.recorder.assume(what, where)
