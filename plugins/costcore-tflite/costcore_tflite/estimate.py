"""Read a .tflite file and record the calls of one pass: the entry of this frontend."""

from __future__ import annotations

from collections.abc import Mapping
from os import fspath
from typing import Any

from costcore.errors import CostError, unknown
from costcore.graphs import GraphRecording, given_shapes
from costcore.graphs.graph import accepts, capture, in_file, names_of
from costcore.numbers import Dim, symbol_of
from costcore.trace.run import Recorder

from .model import OPERATORS, Graph, TensorInfo, read_model
from .rows.table import LEARNED_BY, ROWS
from .walk import Walker

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

native_names = names_of("tflite", OPERATORS.values())


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, int] | None = None,
    trips: int | None = None,
) -> None:
    """Record the calls of one pass of ``model``.

    The shapes of all tensors are those of the file. An axis that it leaves open is the symbol ``batch`` if it is the
    first one, and can be given with ``dims``, or by the shapes of the inputs.

    Args:
        recorder: receives the calls.
        model: the path of a file.
        inputs: shapes of the inputs in order or by name; they may give sizes to open axes only.
        dims: sizes of the axes that the file leaves open, ``{"batch": 8}``.
        trips: how often loops run whose number of runs depends on data; default: a symbol for each.

    Raises:
        CostError: if the file is not a TensorFlow Lite model, or is damaged; the message includes the file.
        TypeError, ValueError: for an invalid option.
    """
    recording = GraphRecording(recorder, "tflite", trips, LEARNED_BY)
    with in_file(name := fspath(model)):
        read = read_model(name)
        recorder.frameworks["tflite"] = f"schema {read.version}"
        Walker(recording, read, _batch(read.graphs[0], inputs, dims)).run()


def _batch(graph: Graph, inputs: Any, dims: Mapping[str, int] | None) -> Dim:
    """Return the size of the first axis where the file leaves it open; 1 if it is open nowhere.

    Raises:
        CostError: if another axis is open, or if sizes do not fit the file.
    """
    given = _given(graph, inputs)
    if dims is not None and (extra := [name for name in dims if name != "batch"]):
        raise CostError(unknown("dimension", extra, ["batch"]))
    open_inputs = [graph.tensors[index] for index in graph.inputs if graph.tensors[index].open_axes]
    for tensor in open_inputs:
        if tensor.open_axes != (0,):
            raise CostError(
                f"input {tensor.name!r} has the shape {_text(tensor)}: only the first axis may be open. Convert the "
                "model with fixed sizes"
            )
    sizes = {shape[0] for index, shape in given.items() if graph.tensors[index].open_axes}
    sizes |= {dims["batch"]} if dims else set()
    if not open_inputs:
        if dims:
            raise CostError("the file leaves no dimension open, so that dims cannot be given")
        return 1
    if len(sizes) > 1:
        raise CostError(f"the first axis has several sizes: {', '.join(map(str, sizes))}")
    (size,) = sizes or {symbol_of("batch")}
    if not isinstance(size, int):
        return size
    if size < 0:
        raise CostError(f"batch must be 0 or more (got {size})")
    return size


def _given(graph: Graph, inputs: Any) -> dict[int, tuple[Any, ...]]:
    """Return the shapes that the user gives, by the tensor.

    Raises:
        CostError: if an input does not exist, or a size differs from that of the file.
    """
    names = [graph.tensors[index].name for index in graph.inputs]
    shapes = {graph.inputs[position]: shape for position, shape in given_shapes(names, inputs).items()}
    for index, shape in shapes.items():
        tensor = graph.tensors[index]
        pairs = zip(tensor.shape, shape, strict=False)
        fixed = [pair for axis, pair in enumerate(pairs) if axis not in tensor.open_axes]
        if len(shape) != len(tensor.shape) or any(expected != size for expected, size in fixed):
            raise CostError(f"input {tensor.name!r} has the shape {_text(tensor)} in the file (got {tuple(shape)})")
    return shapes


def _text(tensor: TensorInfo) -> str:
    sizes = ("?" if axis in tensor.open_axes else str(size) for axis, size in enumerate(tensor.shape))
    return f"({', '.join(sizes)})"
