"""Recording: from a node whose values are known to a call of the run."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from costcore.graphs import GraphWriter, Notes
from costcore.ir import Layer, Role, Tensor
from costcore.registry.calculators import calculators
from costcore.trace.call import Call, Uncounted
from costcore.trace.recorder import Recorder
from costcore.translate import Native, Row, Translation, Translator, settings
from costcore.translate import role_of as canonical_role

from ..graph.input_hints import InputHints
from ..graph.modules import Modules
from ..graph.node import Node, describe
from ..graph.scope import GraphContext
from ..operators import arguments_of_any_version
from ..values.dimensions import Dimensions, describe_size
from ..values.value import Container, StoredTensor, Value
from .dataflow import DataflowLog
from .unranked import UnrankedValues, is_unranked, shapes_argument

ZERO_COST = frozenset(("Constant", "Shape", "Size", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
"""Operators that always cost nothing. Any operator costs nothing if its outputs are constants."""


class Recording(GraphWriter[Value, StoredTensor]):
    """Writes nodes into a run as calls: translated, with the sizes that the file leaves open as symbols.

    Args:
        recorder: receives the calls.
        rows: the mapping rules by full name of the operator.
        dims: named dimensions.
        note: receives notes for the report.
        hints: inputs whose values the user may give.
    """

    modules: Modules

    def __init__(
        self, recorder: Recorder, rows: Mapping[str, Sequence[Row]], dims: Dimensions, note: Notes, hints: InputHints
    ) -> None:
        self.dims = dims
        self.hints = hints
        self.unranked = UnrankedValues(dims, self.identity)
        super().__init__(recorder, DataflowLog(recorder, dims, self.unranked), Modules(), note)
        self._translator = Translator(rows, _operand, _role_of, arguments_of_any_version)
        self._zero_cost_translator = self._translator.by(_unread_operand)

    def record(self, node: Node, context: GraphContext) -> Call:
        """Record a node as a call."""
        self.dataflow.ids(node.inputs)  # an operand that is a view of an input has the id of the input
        translation, uncounted = self.translate(node, context.prefix)
        translation = translation._replace(layer=self.recorder.intern(translation.layer))
        produced = tuple(node.proto.output)
        call = self.write_node(
            node.proto, node.key, produced, translation, node.inputs, node.outputs, context, uncounted
        )
        for what in node.assumed:
            self.assume(what, node.label)
        for what in node.noted:
            self.note(f"{node.label} {what}")
        return call

    def translate(self, node: Node, prefix: str = "") -> tuple[Translation, Uncounted | None]:
        """Return the layer of a node, the values it reads and produces, and why it cannot be counted, if so.

        ``prefix`` goes before the names of the values.
        """
        outputs = tuple(value for value in node.outputs if value is not None)
        if node.makes_tensors and any(isinstance(value, Container) and value.shape is None for value in outputs):
            raise node.error("produces tensors, but the model declares a sequence")
        is_zero_cost = node.op in ZERO_COST
        if outputs and not is_zero_cost and all(value.role == "const" for value in outputs):
            # with all axes: a value of one element is a plain number to its readers only
            layer = Layer("constant", {}, [Tensor(value.known_shape, value.dtype, "data") for value in outputs])
            return Translation(layer, (), outputs, has_row=True), None
        if any(map(is_unranked, node.inputs)):
            return self._unranked_layer(node, prefix)
        if not any(map(is_unranked, outputs)):
            translator = self._zero_cost_translator if is_zero_cost else self._translator
            return _with_shapes(translator(Native(node.key, node.args, node.outputs))), None
        why = "it depends on data" if node.schema else "the operator is not supported"
        argument = self.hints.argument(*node.inputs) if node.lacks_elements else ""
        name = next(n for n, value in zip(node.proto.output, node.outputs, strict=False) if is_unranked(value))
        self.note(
            f"operators downstream of {node.label} are not counted, because the rank of its output is unknown ({why}). "
            f"Give its shape: {shapes_argument(f'{prefix}{name}')}{f', or {argument}' if argument else ''}"
        )
        return self._unranked_layer(node, prefix)

    def on_constants(self, node: Node) -> Translation:
        """Return the layer of a node whose result is constant, as if it were computed in every run."""
        return _with_shapes(self._translator(Native(node.key, node.args, node.outputs)))

    def has_formula(self, operator: str) -> bool:
        """Return True if an operator (full name) has a row, or a calculator of this run."""
        return operator in self.recorder.calculators or self._translator.has_row(operator)

    def write_node(
        self,
        proto: Any,
        native: str,
        produced: tuple[str, ...],
        translation: Translation,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None],
        context: GraphContext,
        uncounted: Uncounted | None = None,
    ) -> Call:
        """Write a translated node (``NodeProto``) into the run.

        Args:
            proto: the node.
            native: full name of its operator.
            produced: names of its outputs, read once as that takes long.
            translation: its layer, and the values that this reads and produces.
            inputs: all inputs of the node.
            outputs: all outputs of the node.
            context: of the graph it is in.
            uncounted: why it cannot be counted, if so.
        """
        stored = [value.stored for value in inputs if value is not None and value.stored is not None]
        return self.write(
            proto.op_type,
            native,
            self.nodes_key(proto.name, produced, context.prefix),
            translation,
            context,
            module=self.modules.around(proto, context.module, stored),
            where=describe(proto) if self.recorder.tracebacks or not translation.has_row else "",
            uncounted=uncounted,
            inputs=inputs,
            outputs=outputs,
        )

    def _unranked_layer(self, node: Node, prefix: str) -> tuple[Translation, Uncounted | None]:
        """Return a layer that has only the name and the attributes of a node, if the rank of an operand is unknown."""
        has_calculator = node.key in self.recorder.calculators or node.key in calculators()

        def tensor(value: Value) -> Tensor:
            if value.shape is not None:
                return value.tensor("data")
            unranked = self.unranked[value]
            if has_calculator:
                self.assume(
                    f"the shape of {unranked.name!r} is unknown: assumed one axis, its size "
                    f"{describe_size(unranked.size)}. Give its shape: {shapes_argument(unranked.name)}",
                    unranked.node,
                )
            return Tensor((unranked.size,), value.dtype or "float32")

        for names, values in ((node.proto.input, node.inputs), (node.proto.output, node.outputs)):
            for name, value in zip(names, values, strict=False):
                if value is not None and value.shape is None:
                    self.unranked.add(value, f"{prefix}{name}", node.label)
        inputs = tuple(value for value in node.inputs if value is not None)
        outputs = tuple(value for value in node.outputs if value is not None)
        operands = {f"x{i}": tensor(v) for i, v in enumerate(inputs)}
        layer = Layer(node.key, operands, map(tensor, outputs), settings(node.args))
        uncounted = Uncounted.NO_SHAPES if self._translator.has_row(node.key) and not has_calculator else None
        return Translation(layer, inputs, outputs, has_row=False), uncounted

    def identity(self, value: Value) -> int:
        """Return the operand id of a value; that of a learned parameter is its parameter id."""
        if value.stored is not None:
            return self.stored_identity(value.stored, "param" in value.stored.uses)
        if not value.identity:
            value.identity = self.recorder.new_id()
        return value.identity

    def stored_identity(self, stored: StoredTensor, is_parameter: bool = True) -> int:
        """Return the id of a stored tensor; that of a learned parameter is its parameter id."""
        if not stored.identity:
            stored.identity = self.recorder.parameter(stored.size) if is_parameter else self.recorder.new_id()
        elif is_parameter:
            self.recorder.parameters.setdefault(stored.identity, stored.size)
        return stored.identity

    def assume(self, what: str, where: str) -> None:
        """Add an assumption; the same one at the same node is reported once."""
        self.recorder.assume(what, where)


def _role_of(operand: str) -> Role:
    """Return the role of an operand by its canonical name; scales and zero points are not learned."""
    return "const" if operand.endswith(("_scale", "_zero_point")) else canonical_role(operand)


def _operand(value: Any, role: Role) -> Tensor | None:
    """Return the operand for a value, None for a sequence or a plain argument."""
    return value.tensor(role) if isinstance(value, Value) and not isinstance(value, Container) else None


def _with_shapes(translation: Translation) -> Translation:
    """Return a translation in which constants of one element keep their axes, unless they are broadcast.

    A constant that is added or multiplied is a plain number; one that a product, a sum or a copy reads has axes.
    Outputs are written in full, also those that repeat elements.
    """
    layer = translation.layer
    if any(tensor.stored is not None for tensor in layer.outputs):
        outputs = [Tensor(tensor.shape, tensor.dtype, tensor.role) for tensor in layer.outputs]
        layer = Layer(layer.op, layer.inputs, outputs, layer.attrs)
        translation = translation._replace(layer=layer)
    kept: dict[str, Tensor] = {}
    for (name, tensor), value in zip(layer.inputs.items(), translation.inputs, strict=True):
        if tensor.is_scalar and value.shape and name.rstrip(string.digits) == "x":
            kept[name] = Tensor(value.shape, tensor.dtype, "const")
    calculator = calculators().get(layer.op) if kept else None
    stated = getattr(calculator, "pattern_by_op", {}).get(layer.op) or getattr(calculator, "pattern", "map")
    if stated == "map":
        return translation
    return translation._replace(layer=Layer(layer.op, {**layer.inputs, **kept}, layer.outputs, layer.attrs))


def _unread_operand(value: Any, role: Role) -> Tensor | None:
    """Return the operand of a zero-cost operator, which reads no parameter."""
    if not isinstance(value, Value) or isinstance(value, Container):
        return None
    return Tensor(value.known_shape, value.dtype, "data" if value.role == "data" else "const")
