"""Read a .tflite file and record the calls of one pass: the entry of this frontend."""

from __future__ import annotations

from collections.abc import Mapping
from os import fspath
from typing import Any

from costcore.errors import CostError
from costcore.graphs import GraphRecording
from costcore.graphs.graph import OpenSizes, Shape, accepts, capture, in_file, names_of
from costcore.trace.run import Recorder

from .model import OPERATORS, Graph, read_model
from .operators import LEARNED_BY, ROWS
from .walk import Walker

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

native_names = names_of("tflite", OPERATORS.values())

BATCH_OF_ONE = (
    "the file leaves the batch size open: 1 is assumed, as in its stored shapes. Set another with dims={'batch': …}"
)


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, Any] | None = None,
    trips: int | None = None,
) -> None:
    """Record the calls of one pass of ``model``.

    Tensors have the shapes of the file, which are for a batch of one. An open first axis is ``batch``: 1, unless
    ``dims`` or the shapes of the inputs give another size. Other open axes are symbols with the name of their input and
    axis, ``x_1``; shapes of results follow from these.

    Args:
        recorder: receives the calls.
        model: the path of a file.
        inputs: shapes of the inputs in order or by name; they may give sizes to open axes only.
        dims: sizes of the axes that the file leaves open, ``{"batch": 8}``; ``{"batch": "batch"}`` is a symbol.
        trips: iterations of each loop with a data-dependent trip count; default: a symbol for each.

    Raises:
        CostError: if the file is not a TensorFlow Lite model, or is damaged; the message includes the file.
        TypeError, ValueError: for an invalid option.
    """
    recording = GraphRecording(recorder, "tflite", trips, LEARNED_BY)
    with in_file(name := fspath(model)):
        read = read_model(name)
        recorder.frameworks["tflite"] = f"schema {read.version}"
        sizes = OpenSizes(dims, {"batch": 1})
        shapes = bind_inputs(read.graphs[0], sizes, inputs)
        if sizes.assumed:
            recorder.assume(BATCH_OF_ONE)
        recording.dataflow.file = read.nbytes  # the runtime reads the flatbuffer in place
        Walker(recording, read, sizes, shapes).run()
        sizes.check()


def bind_inputs(graph: Graph, sizes: OpenSizes, given: Any) -> dict[int, Shape]:
    """Return the shapes of the inputs of a graph by tensor index.

    Raises:
        CostError: if sizes do not fit the file.
    """
    tensors = [graph.tensors[index] for index in graph.inputs]
    stated = [
        (each.name, tuple(None if i in each.open_axes else size for i, size in enumerate(each.shape)))
        for each in tensors
    ]
    found = sizes.bind(stated, given, lambda name, axis: f"{name}_{axis}" if axis else "batch")
    batches = {shape[0] for each, shape in zip(tensors, found, strict=True) if 0 in each.open_axes}
    if len(batches) > 1:
        raise CostError(f"the first axis has several sizes: {', '.join(sorted(map(str, batches)))}")
    return dict(zip(graph.inputs, found, strict=True))
