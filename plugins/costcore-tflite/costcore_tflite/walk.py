"""Walk the graphs of a file: follow control flow, skip operators that unpack constants, record all others as calls.

An axis is *open* if the file leaves its size to the input, such as the batch. Old converters also leave out the whole
shape of a result; the runtime infers it, and so does this walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tflite

from costcore.errors import CostError
from costcore.graphs import GraphNode, GraphRecording, GraphValue, Place
from costcore.graphs.graph import REAL, OpenSizes, Shape, new_node
from costcore.ir import BITS
from costcore.numbers import Dim, as_dim, is_symbolic, maximum

from .model import Graph, Model, OperatorInfo, TensorInfo
from .operators import SIGNATURES, WITHOUT_RESULT
from .shapes import Found, data_of, shapes_of

UNPACKED = {"DEQUANTIZE": "stored in a smaller type", "DENSIFY": "stored without their zeros"}
"""Operators that the runtime runs once on a constant, before the first pass, and how the constant is stored."""

NPUS = frozenset(("ethos-u", "edgetpu-custom-op", "DISPATCH_OP", "NeutronGraph"))
"""Custom operators that contain the program of an NPU, made by Vela, the Edge TPU compiler, LiteRT or Neutron."""


RUNS_GRAPHS = frozenset(("CALL", "IF", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "WHILE"))
"""Operators that return the results of another graph."""

CONTROL_FLOW = RUNS_GRAPHS | {"CALL_ONCE"}

LARGEST = 2**40
"""The maximum size of an axis."""

COMBINERS = frozenset(("UpdateComputationSubgraphIndex", "BodySubgraphIndex"))
"""Options of reductions and scatters with the index of the graph that combines two elements."""


class Quantized(GraphValue):
    """A value, with the quantization of its integers.

    Attributes:
        scale: its scales, a constant; None if it is not quantized.
        zero_point: its zero points; None if all are 0.
        is_fixed: whether all sizes are known from the start.
    """

    __slots__ = ("is_fixed", "scale", "zero_point")
    is_fixed: bool
    scale: GraphValue | None
    zero_point: GraphValue | None

    @property
    def is_real(self) -> bool:
        """Whether its elements represent real numbers."""
        return self.scale is not None or self.dtype in REAL


def value_of(tensor: TensorInfo, batch: Dim) -> Quantized:
    """Return the value of a tensor. The size of an open axis is its stored size times the batch."""
    shape = tensor.shape
    if tensor.open_axes:
        shape = tuple(batch * size if i in tensor.open_axes else size for i, size in enumerate(shape))
    value = Quantized(shape, tensor.dtype, tensor.name, tensor.is_stored, tensor.data)
    value.is_fixed = not tensor.open_axes
    value.scale = value.zero_point = None
    if tensor.scales or tensor.has_zero_point:
        counts = () if tensor.scales == 1 else (tensor.scales,)
        value.scale = GraphValue(counts, "float32", is_stored=True) if tensor.scales else None
        value.zero_point = GraphValue((), tensor.dtype, is_stored=True) if tensor.has_zero_point else None
        value.beside = value.scale, value.zero_point
    return value


class Walker:
    """Records the graphs of one file.

    Args:
        recording: receives the calls.
        model: the file.
        sizes: the sizes that the file leaves open.
        shapes: the shapes of the inputs, by the index of the tensor.
    """

    def __init__(self, recording: GraphRecording, model: Model, sizes: OpenSizes, shapes: Mapping[int, Shape]) -> None:
        self._recording, self._model, self._sizes, self._shapes = recording, model, sizes, shapes
        self._at = 0, ""
        graph = model.graphs[0]
        batches = [shapes[index][0] for index in graph.inputs if graph.tensors[index].open_axes[:1] == (0,)]
        self._batch: Dim = batches[0] if batches else 1
        # The file states shapes for a batch of one. If the inputs leave only the batch open, every
        # other open size is a multiple of it.
        tensors = [tensor for each in model.graphs for tensor in each.tensors]
        are_batches = all(graph.tensors[index].open_axes in ((), (0,)) for index in graph.inputs)
        results = (each.tensors[i] for each in model.graphs for o in each.operators for i in o.outputs)
        self._infers_shapes = (
            not are_batches
            or any(len(tensor.open_axes) > 1 for tensor in tensors)
            or not all(tensor.shape for tensor in results)  # a scalar, or a shape that the runtime infers
        )

    def run(self) -> None:
        """Record the first graph, which is the model."""
        graph = self._model.graphs[0]
        values = self._values(graph)
        for index, shape in self._shapes.items():
            values[index].shape = shape
        self._walk(graph, values, Place())
        ends = ([values[i] for i in side] for side in (graph.inputs, graph.outputs))
        self._recording.finish(*ends)

    def _values(self, graph: Graph) -> list[Quantized]:
        slices = {
            o.outputs: o.inputs[0] for o in graph.operators if o.name == "SLICE" and o.inputs and o.inputs[0] >= 0
        }
        tensors = [
            self._at_maximum(tensor, graph.tensors[slices.get((i,), i)]) if tensor.open_axes else tensor
            for i, tensor in enumerate(graph.tensors)
        ]
        return [value_of(tensor, self._batch) for tensor in tensors]

    def _at_maximum(self, tensor: TensorInfo, whole: TensorInfo) -> TensorInfo:
        """Return the result of a SLICE with data-dependent sizes at their maximum, the sizes of the sliced tensor."""
        if whole.open_axes or len(whole.shape) != len(tensor.shape):
            return tensor
        shape = tuple(whole.shape[i] if i in tensor.open_axes else size for i, size in enumerate(tensor.shape))
        self._recording.recorder.assume(
            f"the size of a SLICE depends on data: counted at its maximum {shape}", tensor.name
        )
        return tensor._replace(shape=shape, open_axes=())

    def _walk(self, graph: Graph, values: Sequence[Quantized], place: Place) -> None:
        for position, operator in enumerate(graph.operators):
            self._at = position, graph.name
            inputs = [None if i < 0 else values[i] for i in operator.inputs]
            outputs = [values[i] for i in operator.outputs]
            if self._infers_shapes:
                self._infer_shapes(operator, inputs, [graph.tensors[i] for i in operator.outputs], outputs)
            if operator.name in CONTROL_FLOW:
                self._control_flow(operator, inputs, outputs, place)
            else:
                self._record(operator, inputs, outputs, place)

    def _where(self) -> str:
        position, name = self._at
        return f"operator {position} of graph {name or 0!r}"

    def _infer_shapes(
        self,
        operator: OperatorInfo,
        inputs: Sequence[Quantized | None],
        tensors: Sequence[TensorInfo],
        outputs: Sequence[Quantized],
    ) -> None:
        """Infer missing shapes and open axes of results from the operands; sizes that depend on data are symbols."""
        if operator.name in RUNS_GRAPHS:
            return  # _returned sets their shapes
        shapes = shapes_of(operator, inputs)
        for tensor, value, found in zip(tensors, outputs, shapes, strict=True):
            if not value.is_fixed or not tensor.shape:
                value.shape = self._completed(tensor, found)
        if outputs and outputs[0].ndim <= 2:
            data_of(operator, inputs, outputs[0])

    def _completed(self, tensor: TensorInfo, found: Found | None) -> Shape:
        """Return the shape of a tensor with the found sizes in place of open sizes.

        Raises:
            CostError: if a size is negative or too large.
        """
        stated: Found = [None if i in tensor.open_axes else size for i, size in enumerate(tensor.shape)]
        if found is not None and len(found) == len(stated):
            stated = [new if old is None else old for old, new in zip(stated, found, strict=True)]
        elif found is not None and not stated:
            stated = found
        names = {i: f"{tensor.name}_{i}" for i, size in enumerate(stated) if size is None}
        sizes = tuple(self._sizes(names[i]) if size is None else as_dim(size) for i, size in enumerate(stated))
        if any(not is_symbolic(size) and not 0 <= size <= LARGEST for size in sizes):
            raise CostError(f"tensor {tensor.name!r} has the shape {sizes}")
        if shown := [str(sizes[i]) for i in names if is_symbolic(sizes[i])]:  # the others were given
            self._recording.recorder.assume(
                f"the shape of {tensor.name!r} depends on data: {', '.join(shown)}. "
                f"Give sizes with dims={{{shown[0]!r}: …}}"
            )
        return sizes

    def _returned(self, outputs: Sequence[Quantized], inner: Sequence[GraphValue]) -> Sequence[Quantized]:
        """Return the results of an operator that runs a graph, with the shapes of the results of this graph."""
        if self._infers_shapes:
            for value, made in zip(outputs, inner, strict=False):
                value.shape = made.shape
        return outputs

    def _record(
        self,
        operator: OperatorInfo,
        inputs: Sequence[Quantized | None],
        outputs: Sequence[Quantized],
        place: Place,
    ) -> None:
        """Record an operator, unless the runtime unpacks a constant with it before the first pass."""
        if operator.name in SIGNATURES or not operator.is_custom:
            _check(operator.name, inputs, outputs, self._where)
        if operator.name in UNPACKED and {value.is_stored for value in inputs if value is not None} == {True}:
            for value in outputs:
                value.is_stored = True
            self._recording.note(f"constants are {UNPACKED[operator.name]}, and unpacked once before the first pass")
            return
        if operator.name in NPUS:
            self._recording.note(
                f"{operator.name} contains a program for an NPU: count the file from before the compilation"
            )
        kind, options = operator.name, operator.options
        arguments: dict[str, Any] = {"inputs": inputs}
        for joined in () if COMBINERS.isdisjoint(options) else COMBINERS & options.keys():
            arguments["update"] = tuple(each.name for each in self._graph(options[joined]).operators)
        name = outputs[0].name if outputs else ""
        scratch = scratch_of(kind, inputs, outputs) if kind in _RULES else ()
        attributes = (f"tflite::{kind}", kind, arguments, outputs, name, module_of(name), scratch, options)
        self._recording.record(new_node(GraphNode, attributes), place, self._where)

    def _control_flow(
        self,
        operator: OperatorInfo,
        inputs: Sequence[Quantized | None],
        outputs: Sequence[Quantized],
        place: Place,
    ) -> None:
        """Record the graphs that an operator runs."""
        options, given = operator.options, [value for value in inputs if value is not None]
        if operator.name in ("WHILE", "STABLEHLO_WHILE"):
            self._loop(options, given, outputs, place)
        elif operator.name == "IF":
            sides = {"then": options["ThenSubgraphIndex"], "else": options["ElseSubgraphIndex"]}
            walks = {name: partial(self._inner, index, given[1:]) for name, index in sides.items()}
            self._recording.branch("IF", walks, place, given, partial(self._returned, outputs))
        elif operator.name == "CALL_ONCE":
            self._recording.note("CALL_ONCE prepares the model before the first pass and is not counted")
        elif operator.name == "CALL":
            self._call(options["Subgraph"], given, outputs, place.inside("call"))
        else:
            self._call(options["DecompositionSubgraphIndex"], given, outputs, place.inside("composite"))

    def _call(self, index: int, given: Sequence[GraphValue], outputs: Sequence[Quantized], place: Place) -> None:
        """Record one run of a graph, with its inputs and results."""
        flow = self._recording.dataflow
        first = flow.new_id()
        inner = self._inner(index, given, place)
        flow.end_of(first, self._graph(index).name, inner, self._returned(outputs, inner))

    def _inner(self, index: int, given: Sequence[GraphValue], place: Place) -> list[Quantized]:
        """Record a graph for the given inputs; return its results."""
        graph, flow = self._graph(index), self._recording.dataflow
        values = self._values(graph)
        if self._infers_shapes:
            for i, value in zip(graph.inputs, given, strict=False):
                if graph.tensors[i].open_axes or not graph.tensors[i].shape:
                    values[i].shape = value.shape
        flow.start_of(flow.new_id(), graph.name, given, [values[i] for i in graph.inputs])
        self._walk(graph, values, place)
        return [values[i] for i in graph.outputs]

    def _loop(
        self, options: Mapping[str, Any], given: Sequence[GraphValue], outputs: Sequence[Quantized], place: Place
    ) -> None:
        """Record the condition and the body of a loop with their trip counts."""
        condition, body = self._graph(options["CondSubgraphIndex"]), self._graph(options["BodySubgraphIndex"])
        trips, region = self._recording.loop(counted_trips(condition, body, given), "WHILE", place)
        self._call(options["CondSubgraphIndex"], given, (), place.inside(region, trips + 1))
        self._call(options["BodySubgraphIndex"], given, outputs, place.inside(region, trips))

    def _graph(self, index: int) -> Graph:
        if not 0 <= index < len(self._model.graphs):
            raise CostError(f"an operator runs graph {index} of {len(self._model.graphs)}")
        return self._model.graphs[index]


def _check(
    name: str, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue], where: Callable[[], str]
) -> None:
    """Check that an operator has the operands and the result that :data:`SIGNATURES` names.

    Raises:
        CostError: if it does not; the file is damaged.
    """
    for position, rank in enumerate(SIGNATURES.get(name, (None,))):
        value = inputs[position] if position < len(inputs) else None
        if value is None or (rank is not None and rank != len(value.shape)):
            expected = "is missing" if value is None else f"has {value.ndim} axes (expected {rank})"
            raise CostError(f"{where()}: operand {position} of {name} {expected}")
    if not outputs and name not in WITHOUT_RESULT:
        raise CostError(f"{where()}: {name} has no result")


def module_of(name: str) -> str:
    """Return the path of the module whose operator made a tensor, ``model.dense`` for ``model/dense/BiasAdd;…``."""
    path = name.partition(";")[0].strip("/").rpartition("/")[0].rstrip("/").replace(".", "_")
    return ".".join([part for part in path.split("/") if part]) if "//" in path else path.replace("/", ".")


# Trip counts of loops.

LOOP_JOINS = ("LOGICAL_AND", "STABLEHLO_AND")
ORDERS = ("LESS", "STABLEHLO_COMPARE")
LESS = tflite.StablehloComparisonDirection.STABLEHLO_COMPARISON_DIRECTION_LT


def counted_trips(condition: Graph, body: Graph, given: Sequence[GraphValue]) -> int | None:
    """Return the trip count of a loop that counts between constants; None if it depends on data.

    The condition is a comparison LESS of a carried value with a constant, or with a carried value that never changes.
    It may also be several of these joined by LOGICAL_AND, as converters write for recurrent layers. The body adds a
    constant to each compared value. The first comparison that fails ends the loop.
    """
    producers = {index: operator for operator in condition.operators for index in operator.outputs}
    waiting, counts = [*condition.outputs], []
    while waiting:
        operator = producers.pop(waiting.pop(), None)
        if operator is None or operator.name not in (*LOOP_JOINS, *ORDERS):
            return None
        if operator.name == "STABLEHLO_COMPARE" and operator.options.get("ComparisonDirection") != LESS:
            return None
        if operator.name in LOOP_JOINS:
            waiting += operator.inputs
        else:
            counts.append(_trips_below(operator, condition, body, given))
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None


def _trips_below(less: OperatorInfo, condition: Graph, body: Graph, given: Sequence[GraphValue]) -> int | None:
    """Return the number of iterations until one comparison fails; None if it depends on data."""
    if len(less.inputs) != 2 or less.inputs[0] not in condition.inputs:
        return None
    counter, limit = less.inputs
    place = condition.inputs.index(counter)
    if place >= min(len(body.inputs), len(body.outputs), len(given)):
        return None
    steps = [
        body.tensors[i].data
        for operator in body.operators
        if operator.name in ("ADD", "STABLEHLO_ADD")
        and operator.outputs == (body.outputs[place],)
        and body.inputs[place] in operator.inputs
        for i in operator.inputs
        if i != body.inputs[place]
    ]
    numbers = (given[place].data, _limit(condition, body, limit, given), steps[0] if len(steps) == 1 else None)
    if any(each is None or len(each) != 1 for each in numbers):
        return None
    (start,), (stop,), (by,) = numbers  # type: ignore[misc]  # none of them is None
    return max(0, -(-(stop - start) // by)) if by > 0 else None


def _limit(condition: Graph, body: Graph, index: int, given: Sequence[GraphValue]) -> tuple[int, ...] | None:
    """Return the constant that a counter is compared with; None if it is computed or changes."""
    if index not in condition.inputs:
        return condition.tensors[index].data
    place = condition.inputs.index(index)
    is_unchanged = place < min(len(body.inputs), len(body.outputs)) and body.inputs[place] == body.outputs[place]
    return given[place].data if is_unchanged and place < len(given) else None


# Scratch buffers that the kernels of LiteRT Micro request in the arena.
#
# Sources: the functions ``Prepare`` of the reference kernels of tflite-micro, ``tensorflow/lite/micro/kernels`` and
# ``signal/micro/kernels``. Kernels of vendors, such as CMSIS-NN, request other buffers.

CELL_STATE = 19
"""The position of the state of the cells among the operands of an LSTM."""

_Values = Sequence[GraphValue | None]
_INTEGERS = ("int8", "int16")


def scratch_of(operator: str, inputs: _Values, outputs: Sequence[GraphValue]) -> tuple[Dim, ...]:
    """Return the bytes of each scratch buffer of an operator.

    Args:
        operator: its name.
        inputs: its operands, in the order of the file; None for an absent operand.
        outputs: its results.
    """
    rule = _RULES.get(operator)
    return rule(inputs, outputs[0]) if rule is not None and outputs else ()


def _first_two(inputs: _Values) -> _Values:
    return (*inputs, None, None)[:2]


def _transposed_conv(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """An accumulator for each element of the result: 32 bits for int8, 64 bits for int16."""
    return (y.size * {"int8": 4, "int16": 8}[y.dtype],) if y.dtype in _INTEGERS else ()


def _svdf(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """A 32-bit number for each filter; with integers, also one for each unit."""
    x, features = _first_two(inputs)
    if x is None or features is None or not (x.shape and features.shape):
        return ()
    filters = 4 * x.shape[0] * features.shape[0]
    return (filters, 4 * y.size) if y.dtype in _INTEGERS else (filters,)


def _lstm(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """The four gates of one step, each as large as the state of the cells."""
    cells = inputs[CELL_STATE] if len(inputs) > CELL_STATE else None
    return () if cells is None else (cells.nbytes,) * 4


def _axes(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """A 32-bit number for each axis of the operand, and for each reduced axis."""
    x, axes = _first_two(inputs)
    return () if x is None or axes is None else (4 * x.ndim, 4 * axes.size)


def _sums(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """The buffers of :func:`_axes`; with integers, also a 32-bit sum for each element."""
    return (*_axes(inputs, y), 4 * y.size) if y.dtype in _INTEGERS else _axes(inputs, y)


def _real_fft(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """One number for each of n inputs. The result has n / 2 + 1 bins of two numbers, so n is its size minus 2."""
    return (maximum(y.size - 2, 0) * (BITS[y.dtype] // 8),) if y.dtype in BITS else ()


_RULES: Mapping[str, Callable[[_Values, GraphValue], tuple[Dim, ...]]] = {
    "MEAN": _sums,
    "REDUCE_MAX": _axes,
    "REDUCE_MIN": _axes,
    "SUM": _sums,
    "SVDF": _svdf,
    "SignalRfft": _real_fft,
    "TRANSPOSE_CONV": _transposed_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
