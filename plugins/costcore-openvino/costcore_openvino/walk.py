"""Walk the graphs of a file: loops and branches, weights that are stored in smaller types, everything else as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from costcore.errors import CostError
from costcore.graphs import GraphNode, GraphRecording, GraphValue, Place, in_order

from .integers import Integers
from .model import Graph, LayerInfo, integer
from .quantized import QUANTIZE, UNPACKING, Plan
from .rows import SIGNATURES

AXES = frozenset(("CumSum", "MVN", "NormalizeL2"))
"""Operators whose axes are an operand, which is in the file of weights."""

ON_INTEGERS = (
    "FakeQuantize: integers are carried to the layers that read them, and bias, activation and the next FakeQuantize "
    "are part of the layer before them, as the runtime executes them"
)

AS_STORED = "weights are stored in smaller types: they are read as they are stored, and unpacking them is not counted"


class Walker:
    """Records the graphs of one file.

    Args:
        recording: receives the calls.
        integers: the small integers in the file of weights.
    """

    def __init__(self, recording: GraphRecording, integers: Integers) -> None:
        self._recording, self._integers = recording, integers
        self._matrices: dict[tuple[str | None, ...], GraphValue] = {}
        self._scales: dict[int, GraphValue] = {}
        """A scale of values that are integers, by the id of the object, which lives as long as this."""
        self._kept: list[GraphValue] = []

    def run(self, graph: Graph) -> None:
        """Record the graph of the file."""
        inputs, outputs = self._walk(graph, {}, Place())
        self._recording.finish(inputs.values(), outputs.values())

    def _walk(
        self, graph: Graph, given: Mapping[str, GraphValue], place: Place
    ) -> tuple[dict[str, GraphValue], dict[str, GraphValue]]:
        """Record a graph; return its inputs and outputs by the number of their layer.

        Args:
            graph: the graph.
            given: values for some of its parameters, by the number of the layer.
            place: where it runs.
        """
        values: dict[tuple[str, str], GraphValue] = {}
        inputs: dict[str, GraphValue] = {}
        outputs: dict[str, GraphValue] = {}
        layers = _in_order(graph)
        plan = Plan(layers, graph)
        if plan.fused:
            self._recording.note(ON_INTEGERS)
        # constants first: a layer needs those of the layers that are part of it
        for layer in sorted(layers, key=lambda layer: not plan.is_stored(layer)):
            found = [values.get(graph.edges.get((layer.id, port), ("", ""))) for port in layer.inputs]
            made = [GraphValue(port.shape, port.dtype, layer.name) for port in layer.outputs]
            if layer.id in plan.within:
                made = [values[plan.within[layer.id], "result"]]
            elif layer.type == "Parameter" and made:
                inputs[layer.id] = made[0]
                if layer.id in given:
                    flow = self._recording.dataflow
                    flow.start_of(flow.new_id(), layer.name, [given[layer.id]], made)
            elif layer.type == "Const":
                for value in made:
                    self._store(layer, value)
            elif layer.type == "Result":
                if found and found[0] is not None:
                    outputs[layer.id] = found[0]
            else:
                fused = plan.fused.get(layer.id)
                more: dict[str, Any] = {}
                if fused is not None:
                    more = {"fused": fused, "bias": values.get(fused.bias) if fused.bias else None}
                    values[layer.id, "result"] = made[0]
                    if fused.quantized is not None:
                        scale = values.get(plan.scale_of(fused.quantized))
                        self._carry(made[0], plan.integers[_result(fused.quantized)], scale)
                for port, value in zip(layer.outputs, made, strict=True):
                    if dtype := plan.integers.get((layer.id, port.number)):
                        own = values.get(plan.scale_of(layer)) if layer.type == QUANTIZE else self._scale_of(found[0])
                        self._carry(value, dtype, own)
                more["scales"] = [self._scale_of(value) for value in found]
                more["y_scale"] = self._scale_of(made[0]) if made and fused is not None else None
                self._layer(layer, found, made, place, more)
            for port, value in zip(layer.outputs, made, strict=True):
                values[layer.id, port.number] = value
        return inputs, outputs

    def _store(self, layer: LayerInfo, value: GraphValue) -> None:
        """Mark a value as stored; matrices at the same place of the file of weights are one.

        Vectors are not: the converter stores equal numbers once, and those of two norms may well be all 1.
        """
        value.is_stored, value.data = True, self._integers.of(layer)
        place = tuple(layer.data.get(name) for name in ("element_type", "offset", "size"))
        if None not in place and sum(size != 1 for size in value.shape) > 1:
            first = self._matrices.setdefault(place, value)
            value.base = None if first is value or first.size != value.size else first

    def _carry(self, value: GraphValue, dtype: str, scale: GraphValue | None) -> None:
        """Make a value one of integers."""
        value.dtype = dtype
        if scale is not None:
            self._scales[id(value)] = scale
            self._kept.append(value)

    def _scale_of(self, value: GraphValue | None) -> GraphValue | None:
        return None if value is None else self._scales.get(id(value))

    def _layer(
        self,
        layer: LayerInfo,
        inputs: Sequence[GraphValue | None],
        outputs: Sequence[GraphValue],
        place: Place,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Record a layer that computes."""
        if layer.bodies:
            self._bodies(layer, inputs, outputs, place)
            return
        given = [value for value in inputs if value is not None]
        if layer.type in UNPACKING and given and all(value.is_stored for value in given):
            self._unpack(given, outputs)
            return
        if layer.type == QUANTIZE and given and given[0].is_stored:
            for value in outputs:
                value.is_stored = True
                self._carry(value, "int8", given[-1])
            return
        _check(layer, inputs, outputs)
        if layer.type in AXES and len(given) > 1 and not axes_decide_nothing(given[0], given[1]):
            taken = "axis 1" if layer.type == "NormalizeL2" else "the last"
            what = f"the axes of {layer.type} are in the file of weights, which is not there: taken to be {taken}"
            self._recording.recorder.assume(what, layer.name)
        arguments = {"inputs": list(inputs), "outputs": dict(enumerate(outputs)), "data": layer.data, **more}
        node = GraphNode(f"openvino::{layer.type}", layer.type, arguments, outputs, layer.name, module_of(layer.name))
        self._recording.record(node, place, f"layer {layer.name!r}")

    def _unpack(self, given: Sequence[GraphValue], outputs: Sequence[GraphValue]) -> None:
        """Take what is computed of stored weights for the stored weights themselves: the largest operand."""
        root = max(given, key=lambda value: value.size)
        for value in outputs:
            value.is_stored, value.dtype = True, root.dtype
            value.base = (root.base or root) if root.size == value.size else None
            scale = next((each for each in given if each is not root and each.is_real), self._scale_of(root))
            if scale is not None:
                self._carry(value, root.dtype, scale)
        if root.dtype not in ("float32", "float64", "int32", "int64"):
            self._recording.note(AS_STORED)

    def _bodies(
        self, layer: LayerInfo, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue], place: Place
    ) -> None:
        """Record the graphs of a loop or a branch."""
        if layer.type == "If":
            names = {name.removesuffix("_body"): name for name in layer.bodies}
            walks = {short: partial(self._body, layer, name, inputs, outputs) for short, name in names.items()}
            given = [value for value in inputs if value is not None]
            self._recording.branch("If", walks, place, given, lambda _: outputs)
        else:
            trips, region = self._recording.loop(sliced_trips(layer, inputs), layer.type, place)
            flow = self._recording.dataflow
            first = flow.new_id()
            returned = self._body(layer, "body", inputs, outputs, place.inside(region, trips))
            flow.end_of(first, layer.name, returned, outputs)

    def _body(
        self,
        layer: LayerInfo,
        name: str,
        inputs: Sequence[GraphValue | None],
        outputs: Sequence[GraphValue],
        place: Place,
    ) -> list[GraphValue]:
        """Record one graph of a layer, with the values that it is given; return what the outputs of the layer are."""
        ports = dict(zip(layer.inputs, inputs, strict=True))
        given: dict[str, GraphValue] = {}
        sources: dict[str, str] = {}
        for kind, entry in layer.maps.get(f"{name.removesuffix('body')}port_map", ()):
            outer, inner = entry.get("external_port_id", ""), entry.get("internal_layer_id", "")
            value = ports.get(outer)
            if kind == "output":
                sources[outer] = inner
            elif kind == "input" and value is not None:
                given[inner] = value
        if name not in layer.bodies:
            raise CostError(f"layer {layer.name!r} has no graph {name}")
        _, found = self._walk(layer.bodies[name], given, place)
        pairs = zip(layer.outputs, outputs, strict=True)
        return [found.get(sources.get(port.number, ""), value) for port, value in pairs]


def _result(layer: LayerInfo) -> tuple[str, str]:
    return layer.id, layer.outputs[0].number


def sliced_trips(layer: LayerInfo, inputs: Sequence[GraphValue | None]) -> int | None:
    """Return how often a loop runs that takes an input apart along an axis; None if it takes none apart."""
    ports = dict(zip(layer.inputs, inputs, strict=True))
    for kind, entry in layer.maps.get("port_map", ()):
        value, axis = ports.get(entry.get("external_port_id", "")), integer(entry.get("axis", ""))
        if kind == "input" and value is not None and axis is not None and 0 <= axis < value.ndim:
            size = value.shape[axis]
            part = max(integer(entry.get("part_size", "1")) or 1, 1)
            return -(-size // part) if isinstance(size, int) else None
    return None


def axes_decide_nothing(x: GraphValue, axes: GraphValue) -> bool:
    """Return whether axes are known, or all cost the same: the operand has no others, or all its sizes are equal."""
    return axes.data is not None or axes.size == x.ndim or len(set(x.shape)) == 1


def _in_order(graph: Graph) -> list[LayerInfo]:
    """Return the layers so that each comes after the sources of its operands.

    Raises:
        CostError: if layers depend on each other in a circle.
    """
    layers, places = graph.layers, {layer.id: i for i, layer in enumerate(graph.layers)}
    sources = ([graph.edges.get((layer.id, port), ("",))[0] for port in layer.inputs] for layer in layers)
    before = [{places[source] for source in each if source in places} for each in sources]
    return [layers[i] for i in in_order(before, lambda i: f"layer {layers[i].name!r}")]


def _check(layer: LayerInfo, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue]) -> None:
    """Check that a layer has the operands and the result that its row reads.

    Raises:
        CostError: if it does not; the file is damaged.
    """
    for position, least in enumerate(SIGNATURES.get(layer.type, (0,))):
        value = inputs[position] if position < len(inputs) else None
        if value is None or value.ndim < least:
            problem = "is missing" if value is None else f"has {value.ndim} axes (expected at least {least})"
            raise CostError(f"layer {layer.name!r}: operand {position} of {layer.type} {problem}")
    if not outputs and layer.type != "Assign":
        raise CostError(f"layer {layer.name!r}: {layer.type} has no result")


def module_of(name: str) -> str:
    """Return the path of the module around a layer: ``layer1.0`` of ``__module.layer1.0/aten::relu/Relu``."""
    if name.startswith("__module."):
        return name.removeprefix("__module.").partition("/")[0]
    return ".".join(part for part in name.strip("/").split("/")[:-1] if part)
