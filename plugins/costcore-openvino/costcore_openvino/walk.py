"""Walk the graphs of a file: loops and branches, weights that are stored in smaller types, everything else as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.errors import CostError
from costcore.graphs import GraphNode, GraphRecording, GraphValue, Place

from .model import Graph, LayerInfo
from .rows import SIGNATURES

UNPACKING = frozenset(("Convert", "Multiply", "Reshape", "Subtract", "Transpose", "Unsqueeze", "Squeeze"))
"""Operators that unpack weights which are stored in smaller types, as they are read."""

LEARNED_BY = frozenset(("Add", "Divide", "Gather", "MatMul", "Multiply", "Subtract"))
"""Operators whose constants of several real numbers are learned parameters, as those of layers are by their place."""

REAL = frozenset(("bfloat16", "float16", "float32", "float64"))

AS_STORED = "weights are stored in smaller types: they are read as they are stored, and unpacking them is not counted"


class Walker:
    """Records the graphs of one file.

    Args:
        recording: receives the calls.
    """

    def __init__(self, recording: GraphRecording) -> None:
        self._recording = recording

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
        for layer in _in_order(graph):
            found = [values.get(graph.edges.get((layer.id, port), ("", ""))) for port in layer.inputs]
            made = [GraphValue(port.shape, port.dtype, layer.name) for port in layer.outputs]
            if layer.type == "Parameter" and made:
                inputs[layer.id] = made[0]
                if layer.id in given:
                    self._recording.join([given[layer.id]], made, f"{layer.name}: start")
            elif layer.type == "Const":
                for value in made:
                    value.is_stored = True
            elif layer.type == "Result":
                if found and found[0] is not None:
                    outputs[layer.id] = found[0]
            else:
                self._layer(layer, found, made, place)
            values |= {(layer.id, port.number): value for port, value in zip(layer.outputs, made, strict=True)}
        return inputs, outputs

    def _layer(
        self, layer: LayerInfo, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue], place: Place
    ) -> None:
        """Record a layer that computes."""
        if layer.bodies:
            self._bodies(layer, inputs, outputs, place)
            return
        given = [value for value in inputs if value is not None]
        if layer.type in UNPACKING and given and all(value.is_stored for value in given):
            self._unpack(given, outputs)
            return
        _check(layer, inputs, outputs)
        if layer.type in LEARNED_BY:
            for value in given:
                is_real = value.dtype in REAL or value.base is not None
                (value.base or value).is_parameter |= value.is_stored and is_real and value.size != 1
        arguments = {"inputs": list(inputs), "outputs": dict(enumerate(outputs)), "data": dict(layer.data)}
        node = GraphNode(f"openvino::{layer.type}", layer.type, arguments, outputs, layer.name, module_of(layer.name))
        self._recording.record(node, place, f"layer {layer.name!r}")

    def _unpack(self, given: Sequence[GraphValue], outputs: Sequence[GraphValue]) -> None:
        """Take what is computed of stored weights for the stored weights themselves: the largest operand."""
        root = max(given, key=lambda value: value.size)
        for value in outputs:
            value.is_stored, value.dtype = True, root.dtype
            value.base = (root.base or root) if root.size == value.size else None
        if root.dtype not in ("float32", "float64", "int32", "int64"):
            self._recording.note(AS_STORED)

    def _bodies(
        self, layer: LayerInfo, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue], place: Place
    ) -> None:
        """Record the graphs of a loop or a branch."""
        if layer.type == "If":
            sizes = {name.removesuffix("_body"): len(graph.layers) for name, graph in layer.bodies.items()}
            chosen, inside = self._recording.branch(sizes, "If", place)
            self._body(layer, f"{chosen}_body", inputs, outputs, inside)
        else:
            trips, region = self._recording.loop(sliced_trips(layer, inputs), layer.type, place)
            self._body(layer, "body", inputs, outputs, place.inside(region, trips))

    def _body(
        self,
        layer: LayerInfo,
        name: str,
        inputs: Sequence[GraphValue | None],
        outputs: Sequence[GraphValue],
        place: Place,
    ) -> None:
        """Record one graph of a layer, with the values that it is given and returns."""
        prefix = name.removesuffix("body")
        ports = dict(zip(layer.inputs, inputs, strict=True))
        given: dict[str, GraphValue] = {}
        for kind, entry in layer.maps.get(f"{prefix}port_map", ()):
            value = ports.get(entry.get("external_port_id", ""))
            if kind == "input" and value is not None:
                given[entry.get("internal_layer_id", "")] = value
        if name not in layer.bodies:
            raise CostError(f"layer {layer.name!r} has no graph {name}")
        _, inner = self._walk(layer.bodies[name], given, place)
        by_port = {port.number: value for port, value in zip(layer.outputs, outputs, strict=True)}
        pairs = [
            (inner[entry["internal_layer_id"]], by_port[entry["external_port_id"]])
            for kind, entry in layer.maps.get(f"{prefix}port_map", ())
            if kind == "output" and entry.get("internal_layer_id") in inner and entry.get("external_port_id") in by_port
        ]
        self._recording.join([old for old, _ in pairs], [new for _, new in pairs], f"{layer.name}: end")


def sliced_trips(layer: LayerInfo, inputs: Sequence[GraphValue | None]) -> int | None:
    """Return how often a loop runs that takes an input apart along an axis; None if it takes none apart."""
    ports = dict(zip(layer.inputs, inputs, strict=True))
    for kind, entry in layer.maps.get("port_map", ()):
        value, axis = ports.get(entry.get("external_port_id", "")), entry.get("axis", "")
        if kind == "input" and value is not None and axis.isdecimal() and int(axis) < value.ndim:
            step = entry.get("part_size", "1")
            size = value.shape[int(axis)]
            part = max(int(step), 1) if step.isdecimal() else 1
            return -(-size // part) if isinstance(size, int) else None
    return None


def _in_order(graph: Graph) -> list[LayerInfo]:
    """Return the layers so that each comes after the sources of its operands.

    Raises:
        CostError: if layers depend on each other in a circle.
    """
    by_id = {layer.id: layer for layer in graph.layers}
    needs = {
        layer.id: {
            source[0]
            for port in layer.inputs
            if (source := graph.edges.get((layer.id, port))) is not None and source[0] in by_id
        }
        for layer in graph.layers
    }
    readers: dict[str, list[str]] = {name: [] for name in by_id}
    for name, sources in needs.items():
        for needed in sources:
            readers[needed].append(name)
    missing = {name: len(sources) for name, sources in needs.items()}
    ready = [name for name in by_id if not missing[name]][::-1]
    found = []
    while ready:
        name = ready.pop()
        found.append(by_id[name])
        for reader in readers[name]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    if len(found) < len(by_id):
        raise CostError("layers depend on each other in a circle")
    return found


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
