"""Walk the graphs of a file: record layers as calls, run loops and branches, set open sizes, skip unpacking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from costcore.errors import CostError
from costcore.graphs import GraphNode, GraphRecording, GraphValue, Place, in_order
from costcore.graphs.graph import OpenSizes, Shape
from costcore.ir import Dim
from costcore.numbers import as_dim, ceil_div, is_symbolic, magnitude

from .model import Graph, LayerInfo, Port, integer
from .quantized import QUANTIZE, UNPACKING, QuantizationPlan
from .rows import NARY, SIGNATURES
from .shapes import Found, Integers, aligned, data_of, shapes_of

AXES = frozenset(("CumSum", "MVN", "NormalizeL2"))
"""Operators with an operand for axes; its constant is in the weights file."""

ON_INTEGERS = (
    "FakeQuantize: layers pass on integers, and bias, activation and the next FakeQuantize are fused into the layer "
    "before them, as in the runtime"
)

PAST = "past"
"""The symbol of the length of states, such as the number of earlier tokens in a KV cache."""

LARGEST = 2**40
"""The maximum size of an axis."""

MADE_BY_DATA = (
    "the shape of {layer} ({kind}) depends on data, or on constants in the weights file: {sizes}. "
    "Give sizes with dims={{{first!r}: …}}"
)

AS_STORED = "weights are stored in smaller types: they are read in stored form, and unpacking them is not counted"


class Walker:
    """Records the graphs of one file.

    Args:
        recording: receives the calls.
        integers: the small constants in the weights file.
        sizes: the sizes that the file leaves open; None if there are none.
    """

    def __init__(self, recording: GraphRecording, integers: Integers, sizes: OpenSizes | None = None) -> None:
        self._recording, self._integers, self._sizes = recording, integers, sizes
        self._matrices: dict[tuple[str | None, ...], GraphValue] = {}
        self._scales: dict[int, GraphValue] = {}
        """The scales of integer values by ``id(value)``; ``_kept`` keeps the values alive, so no id is reused."""
        self._kept: list[GraphValue] = []
        self._batch: Dim | None = None

    def run(self, graph: Graph, given: Any = None) -> None:
        """Record the main graph; ``given`` are the shapes of its inputs."""
        shapes = {} if self._sizes is None else bind_inputs(graph, self._sizes, given)
        self._batch = next((shape[0] for shape in shapes.values() if shape), None)
        inputs, outputs = self._walk(graph, {}, Place(), shapes)
        self._recording.finish(inputs.values(), outputs.values())

    def _walk(
        self,
        graph: Graph,
        given: Mapping[str, GraphValue],
        place: Place,
        shapes: Mapping[str, Shape] = MappingProxyType({}),
    ) -> tuple[dict[str, GraphValue], dict[str, GraphValue]]:
        """Record a graph; return its inputs and outputs by layer id.

        Args:
            graph: the graph.
            given: outer values of its parameters, by layer id.
            place: its loop context.
            shapes: shapes of its parameters, by layer id, if the file leaves sizes open.
        """
        values: dict[tuple[str, str], GraphValue] = {}
        inputs: dict[str, GraphValue] = {}
        outputs: dict[str, GraphValue] = {}
        layers = _in_order(graph)
        plan = QuantizationPlan(layers, graph)
        if plan.fused:
            self._recording.note(ON_INTEGERS)
        # constants first: a layer needs the bias and the scale of layers that are fused into it
        for layer in sorted(layers, key=lambda layer: not plan.is_stored(layer)):
            found = [values.get(graph.edges.get((layer.id, port), ("", ""))) for port in layer.inputs]
            made = self._made(layer, found, shapes.get(layer.id))
            if layer.id in plan.fused_into:
                made = [values[plan.fused_into[layer.id], "result"]]
            elif made and (layer.type == "Parameter" or (layer.type == "ReadValue" and not layer.inputs)):
                # a state without an initial value is an input
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

    def _made(
        self, layer: LayerInfo, found: Sequence[GraphValue | None], given: Shape | None = None
    ) -> list[GraphValue]:
        """Return the results of a layer, with sizes from the file; open sizes are inferred from the operands."""
        default = found[0].dtype if found and found[0] is not None else "float32"
        if self._sizes is None:
            return [GraphValue(port.shape, port.dtype or default, layer.name) for port in layer.outputs]
        if layer.bodies:
            # _returned sets the shapes
            return [GraphValue((), port.dtype or default, layer.name) for port in layer.outputs]
        ports = layer.outputs
        is_known = layer.type == "Const" or all(port.shape and None not in port.shape for port in ports)
        shapes: Sequence[Found | None] = [given] if given is not None else [None] * len(ports)
        if layer.type == "ReadValue":
            shapes = [self._state(layer, found)]
        elif layer.type == "Assign":
            shapes = [found[0].shape if found and found[0] is not None else None]
        elif given is None and not is_known:
            shapes = shapes_of(layer, found)
            if shapes[0] is None and found and found[0] is not None:
                shapes = [self._aligned(layer, found[0].shape, ports[0].shape), *shapes[1:]]
        made = [
            GraphValue(self._completed(layer, i, port, shape), port.dtype or default, layer.name)
            for i, (port, shape) in enumerate(zip_longest(ports, shapes[: len(ports)]))
        ]
        if layer.type in NARY:
            self._note_equal(found)
        if made and all(value.ndim <= 2 for value in made):
            data_of(layer, found, made)
        return made

    def _aligned(self, layer: LayerInfo, x: Shape, stated: Found) -> Shape | None:
        """Assume the first shape that fits the file for a layer with unknown axes."""
        shape = aligned(layer, x, stated)
        if shape is not None:
            what = (
                f"the axes of {layer.type} are in the weights file, which is missing: assumed to give the shape {shape}"
            )
            self._recording.recorder.assume(what, layer.name)
        return shape

    def _completed(self, layer: LayerInfo, position: int, port: Port, found: Found | None) -> Shape:
        """Return the shape of a result: sizes of the file, else the inferred sizes ``found``, else new symbols.

        Raises:
            CostError: if a size is negative or too large; the file is damaged.
        """
        stated: Found = port.shape
        if found is not None and len(found) == len(stated):
            stated = tuple(b if a is None else a for a, b in zip(stated, found, strict=True))
        elif found is not None:
            stated = found  # a result of unknown rank has no sizes in the file
        label = layer.name if not position else f"{layer.name}_{position}"
        names = {i: f"{label}_{i}" for i, size in enumerate(stated) if size is None}
        sizes = tuple(as_dim(self._sizes(names[i]) if size is None else size) for i, size in enumerate(stated))  # type: ignore[misc]
        if any(not is_symbolic(size) and not 0 <= size <= LARGEST for size in sizes):
            raise CostError(f"layer {layer.name!r} has the shape {sizes}, which does not follow from its operands")
        if made := [str(sizes[i]) for i in names if is_symbolic(sizes[i])]:  # dims has the others
            text = MADE_BY_DATA.format(layer=repr(layer.name), kind=layer.type, sizes=", ".join(made), first=made[0])
            self._recording.recorder.assume(text, layer.name)
        return sizes

    def _state(self, layer: LayerInfo, found: Sequence[GraphValue | None]) -> Shape | None:
        """Return the shape of a state. Open sizes come from its initial value; an empty axis gets size ``past``."""
        parts = [part.strip() for part in layer.data.get("variable_shape", "").split(",") if part.strip()]
        first = found[0] if found else None
        if not parts and first is not None:
            return first.shape
        at_start = first.shape if first is not None and first.ndim == len(parts) else (0,) * len(parts)
        if first is None and len(parts) > 1 and self._batch is not None:
            at_start = (self._batch, *at_start[1:])  # the batch size of the inputs
        shape: list[Dim] = []
        for part, size in zip(parts, at_start, strict=True):
            number = integer(part)
            if number is not None and number >= 0:
                shape.append(number)
            elif is_symbolic(size) or size != 0:
                shape.append(size)
            else:
                shape.append(self._sizes(PAST))  # type: ignore[misc]
                self._recording.note(f"states hold {shape[-1]} steps of earlier passes (dims={{'{PAST}': …}})")
        return tuple(shape)

    def _note_equal(self, found: Sequence[GraphValue | None]) -> None:
        """Note that different symbols are assumed equal because their operands are broadcast."""
        shapes = [value.shape for value in found if value is not None and not value.is_stored]
        for axis in range(1, min(map(len, shapes), default=0) + 1):
            symbols = dict.fromkeys(shape[-axis] for shape in shapes if is_symbolic(shape[-axis]))
            if len(symbols) > 1:
                first, *others = map(str, symbols)
                self._recording.note(f"{', '.join(others)} is assumed equal to {first}: their operands are broadcast")

    def _store(self, layer: LayerInfo, value: GraphValue) -> None:
        """Mark a value as stored. Matrices at the same offset of the weights file are one shared tensor.

        Vectors are not shared: the converter stores equal bytes once, and the weights of two norms may both be all 1.
        """
        value.is_stored, value.data = True, self._integers.of(layer)
        place = tuple(layer.data.get(name) for name in ("element_type", "offset", "size"))
        if None not in place and sum(size != 1 for size in value.shape) > 1:
            first = self._matrices.setdefault(place, value)
            value.base = None if first is value or first.size != value.size else first

    def _carry(self, value: GraphValue, dtype: str, scale: GraphValue | None) -> None:
        """Turn a value into integers with a scale."""
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
        """Record a layer, unless it only unpacks stored weights."""
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
        if layer.type in AXES and len(given) > 1 and not are_axes_irrelevant(given[0], given[1]):
            assumed = "axis 1" if layer.type == "NormalizeL2" else "the last axes"
            what = f"the axes of {layer.type} are in the weights file, which is missing: assumed {assumed}"
            self._recording.recorder.assume(what, layer.name)
        arguments = {"inputs": list(inputs), "data": layer.data, **more}
        node = GraphNode(f"openvino::{layer.type}", layer.type, arguments, outputs, layer.name, module_of(layer.name))
        self._recording.record(node, place, f"layer {layer.name!r}")

    def _unpack(self, given: Sequence[GraphValue], outputs: Sequence[GraphValue]) -> None:
        """Treat unpacked weights as the stored weights, the largest operand."""
        root = max(given, key=lambda value: magnitude(value.size))
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
        """Record the subgraphs of a loop or a branch."""
        if layer.type == "If":
            names = {name.removesuffix("_body"): name for name in layer.bodies}
            walks = {short: partial(self._body, layer, name, inputs, outputs) for short, name in names.items()}
            given = [value for value in inputs if value is not None]
            self._recording.branch("If", walks, place, given, partial(self._returned, layer, outputs, 1))
        else:
            trips, region = self._recording.loop(loop_trips(layer, inputs), layer.type, place)
            flow = self._recording.dataflow
            first = flow.new_id()
            returned = self._body(layer, "body", inputs, outputs, place.inside(region, trips))
            flow.end_of(first, layer.name, returned, self._returned(layer, outputs, trips, returned))

    def _returned(
        self, layer: LayerInfo, outputs: Sequence[GraphValue], trips: Dim, returned: Sequence[GraphValue]
    ) -> Sequence[GraphValue]:
        """Set open sizes of the results of a loop or branch; a loop may concatenate the results of its iterations."""
        if self._sizes is None:
            return outputs
        joined = {
            entry.get("external_port_id", ""): integer(entry.get("axis", ""))
            for kind, entry in layer.maps.get("port_map", ())
            if kind == "output"
        }
        for i, (port, value, inner) in enumerate(zip(layer.outputs, outputs, returned, strict=True)):
            shape, axis = inner.shape, joined.get(port.number)
            if axis is not None and -len(shape) <= axis < len(shape):
                axis %= len(shape)
                shape = (*shape[:axis], shape[axis] * trips, *shape[axis + 1 :])
            value.shape = self._completed(layer, i, port, None if inner is value else shape)
        return outputs

    def _body(
        self,
        layer: LayerInfo,
        name: str,
        inputs: Sequence[GraphValue | None],
        outputs: Sequence[GraphValue],
        place: Place,
    ) -> list[GraphValue]:
        """Record one subgraph of a layer; return its results in the order of the outputs of the layer."""
        ports = dict(zip(layer.inputs, inputs, strict=True))
        given: dict[str, GraphValue] = {}
        shapes: dict[str, Shape] = {}
        sources: dict[str, str] = {}
        for kind, entry in layer.maps.get(f"{name.removesuffix('body')}port_map", ()):
            outer, inner = entry.get("external_port_id", ""), entry.get("internal_layer_id", "")
            value = ports.get(outer)
            if kind == "output":
                sources[outer] = inner
            elif kind == "input" and value is not None:
                given[inner] = value
                axis = integer(entry.get("axis", ""))
                shapes[inner] = value.shape
                if axis is not None and -value.ndim <= axis < value.ndim:
                    axis %= value.ndim
                    part = max(integer(entry.get("part_size", "1")) or 1, 1)
                    shapes[inner] = (*value.shape[:axis], part, *value.shape[axis + 1 :])
        if name not in layer.bodies:
            raise CostError(f"layer {layer.name!r} has no graph {name}")
        _, found = self._walk(layer.bodies[name], given, place, shapes if self._sizes is not None else {})
        pairs = zip(layer.outputs, outputs, strict=True)
        return [found.get(sources.get(port.number, ""), value) for port, value in pairs]


def _result(layer: LayerInfo) -> tuple[str, str]:
    return layer.id, layer.outputs[0].number


def loop_trips(layer: LayerInfo, inputs: Sequence[GraphValue | None]) -> Dim | None:
    """Return the trip count of a loop: the number of slices of a sliced input, or else its first operand.

    None if it depends on data: the operand or the condition of the body is computed.
    """
    ports = dict(zip(layer.inputs, inputs, strict=True))
    for kind, entry in layer.maps.get("port_map", ()):
        value, axis = ports.get(entry.get("external_port_id", "")), integer(entry.get("axis", ""))
        if kind == "input" and value is not None and axis is not None and -value.ndim <= axis < value.ndim:
            return ceil_div(value.shape[axis], max(integer(entry.get("part_size", "1")) or 1, 1))
    limit = inputs[0] if layer.type == "Loop" and inputs else None
    if limit is None or limit.data is None or len(limit.data) != 1 or not is_unconditional(layer):
        return None
    (count,) = limit.data
    return as_dim(count) if is_symbolic(count) or count >= 0 else None


def is_unconditional(layer: LayerInfo) -> bool:
    """Return whether the condition that the body of a loop returns is constant."""
    graph = layer.bodies.get("body")
    conditions = {
        entry.get("internal_layer_id", "")
        for kind, entry in layer.maps.get("port_map", ())
        if kind == "output" and entry.get("purpose") == "execution_condition"
    }
    if graph is None or not conditions:
        return False
    constants = {each.id for each in graph.layers if each.type == "Const"}
    return all(
        graph.edges.get((each.id, port), ("",))[0] in constants
        for each in graph.layers
        if each.id in conditions
        for port in each.inputs
    )


def bind_inputs(graph: Graph, sizes: OpenSizes, given: Any) -> dict[str, Shape]:
    """Return the shapes of the inputs of a file, by layer id.

    Raises:
        CostError: if a given shape does not fit, or an input of unknown rank has none.
    """
    layers = [layer for layer in graph.layers if layer.type == "Parameter" and layer.outputs]
    names = {name: layer.name for layer in layers for name in layer.outputs[0].names.split(",")}
    if isinstance(given, Mapping):
        labels = {layer.name for layer in layers}
        given = {name if name in labels else names.get(name, name): shape for name, shape in given.items()}
    inputs: list[tuple[str, Sequence[int | None]]] = []
    for position, layer in enumerate(layers):
        shape = layer.outputs[0].shape
        if "..." in layer.data.get("shape", ""):
            stated: Any = given.get(layer.name) if isinstance(given, Mapping) else None
            if stated is None and isinstance(given, (list, tuple)) and position < len(given):
                stated = given if all(not isinstance(each, (list, tuple)) for each in given) else given[position]
            if stated is None:
                raise CostError(
                    f"input {layer.name!r} has no shape in the file. Give one: inputs={{{layer.name!r}: …}}"
                )
            shape = (None,) * len(tuple(getattr(stated, "shape", stated)))
        inputs.append((layer.name, shape))
    found = dict(zip((layer.id for layer in layers), sizes.bind(inputs, given, "{}_{}".format), strict=True))
    for layer in layers:
        _check_range(layer, found[layer.id])
    return found


def _check_range(layer: LayerInfo, shape: Shape) -> None:
    """Check given sizes against the ranges of the file, ``1,3,100..200``.

    Raises:
        CostError: if a size is out of range.
    """
    for axis, (part, size) in enumerate(zip(layer.data.get("shape", "").split(","), shape, strict=False)):
        if ".." not in part or "..." in part or is_symbolic(size):
            continue
        least, most = (integer(end) for end in part.split("..", 1))
        if (least is not None and size < least) or (most is not None and size > most):
            raise CostError(f"input {layer.name!r} has {part.strip()} elements along axis {axis} (got {size})")


def are_axes_irrelevant(x: GraphValue, axes: GraphValue) -> bool:
    """Return whether the cost needs no assumed axes: their values are known, or every choice of axes costs the same."""
    return axes.data is not None or axes.size == x.ndim or len(set(x.shape)) == 1


def _in_order(graph: Graph) -> list[LayerInfo]:
    """Return the layers in topological order.

    Raises:
        CostError: if the graph has a cycle.
    """
    layers, places = graph.layers, {layer.id: i for i, layer in enumerate(graph.layers)}
    sources = ([graph.edges.get((layer.id, port), ("",))[0] for port in layer.inputs] for layer in layers)
    before = [{places[source] for source in each if source in places} for each in sources]
    return [layers[i] for i in in_order(before, lambda i: f"layer {layers[i].name!r}")]


def _check(layer: LayerInfo, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue]) -> None:
    """Check that a layer has the operands and results that its rule needs.

    Raises:
        CostError: if one is missing; the file is damaged.
    """
    for position, least in enumerate(SIGNATURES.get(layer.type, (0,))):
        value = inputs[position] if position < len(inputs) else None
        if value is None or value.ndim < least:
            problem = "is missing" if value is None else f"has {value.ndim} axes (expected at least {least})"
            raise CostError(f"layer {layer.name!r}: operand {position} of {layer.type} {problem}")
    if not outputs and layer.type != "Assign":
        raise CostError(f"layer {layer.name!r}: {layer.type} has no result")


def module_of(name: str) -> str:
    """Return the module path of a layer name: ``layer1.0`` for ``__module.layer1.0/aten::relu/Relu``."""
    if name.startswith("__module."):
        return name.removeprefix("__module.").partition("/")[0]
    return ".".join(part for part in name.strip("/").split("/")[:-1] if part)
