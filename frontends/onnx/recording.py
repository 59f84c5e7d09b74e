"""From a node whose values are known to a call of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costcore.engine import Call, Recorder
from costcore.ir import Layer, Role, Tensor
from costcore.translate import Native, Row, Translation, Translator, settings

from .dimensions import Dimensions
from .modules import Modules
from .node import Node
from .scope import Place
from .values import Container, Stored, Value

FREE = frozenset(("Constant", "Shape", "Size", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
"""Operators that are free whatever they are given; all others are free where they make constants of constants."""


class Recording:
    """What is written into a run.

    Args:
        recorder: takes the calls.
        rows: the table.
        dims: named dimensions.
    """

    def __init__(self, recorder: Recorder, rows: Iterable[Row], dims: Dimensions) -> None:
        self.recorder = recorder
        self.translator = Translator(rows, self.tensor)
        self.dims = dims
        self.modules = Modules()
        self._noted: set[str] = set()
        self._reads_elements = True

    def record(self, node: Node, place: Place) -> Call:
        """Record a node as a call."""
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
            found = Translation(layer, (), outputs, known=True)
        elif is_made and is_given:
            self._reads_elements = not is_free
            found = self.translator(Native(node.key, node.args, node.outputs))
        else:
            found = self.unknown(node)
            if is_given:
                why = (
                    "depends on data; give the values of the model's inputs, or"
                    if node.schema
                    else "is not known here;"
                )
                self.note(
                    f"what needs the shape of what {node.label} makes is not counted: how many dimensions that has "
                    f"{why} write the shape into the model"
                )
        layer = self.recorder.intern(found.layer)
        inputs = tuple([self.identity(value) for value in found.inputs])
        read = [value.stored for value in node.inputs if value is not None and value.stored is not None]
        call = Call(
            layer=layer,
            type=node.op,
            native=node.key,
            module=self.modules.around(node.proto, place.module, read),
            times=place.times,
            region=place.region,
            inputs=inputs,
            outputs=tuple([self.identity(value) for value in found.outputs]),
            parameters=tuple([i for i, t in zip(inputs, layer.inputs.values(), strict=True) if t.role == "param"]),
            where=node.label if self.recorder.tracebacks or not found.known else "",
        )
        self.recorder.record(call)
        for what in node.assumed:
            self.assume(what, node.label)
        return call

    def tensor(self, value: Any, role: Role) -> Tensor | None:
        """The operand a value is, none for a sequence; an operator that only renames it reads no parameter."""
        if not isinstance(value, Value) or isinstance(value, Container):
            return None
        if self._reads_elements:
            return value.tensor(role)
        return Tensor(value.known, value.dtype, "data" if value.role == "data" else "const")

    def unknown(self, node: Node) -> Translation:
        """A layer that only names the node and its settings, where not even the rank of an operand is known."""

        def tensor(value: Value) -> Tensor:
            if value.shape is not None:
                return value.tensor("data")
            return Tensor((self.dims.fresh("unknown"),), value.dtype or "float32")

        inputs = tuple(value for value in node.inputs if value is not None)
        outputs = tuple(value for value in node.outputs if value is not None)
        op = f"{node.key} of unknown rank" if self.translator.knows(node.key) else node.key
        operands = {f"x{i}": tensor(v) for i, v in enumerate(inputs)}
        layer = Layer(op, operands, map(tensor, outputs), settings(node.args))
        return Translation(layer, inputs, outputs, known=False)

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

    def note(self, what: str) -> None:
        """Tell the reader of the report something, once."""
        if what not in self._noted:
            self._noted.add(what)
            self.recorder.notes.append(what)

    def assume(self, what: str, where: str) -> None:
        """Note an assumption, once for every place."""
        self.recorder.assume(what, where)
