"""Entry of this frontend: read an IR file and record the calls of one pass."""

from __future__ import annotations

from collections.abc import Mapping
from os import fspath
from typing import Any

from costcore.errors import CostError
from costcore.graphs import GraphRecording
from costcore.graphs.graph import OpenSizes, accepts, capture, in_file, names_of
from costcore.trace.run import Recorder

from .model import read_model
from .rows import LEARNED_BY, ROWS
from .shapes import Integers
from .walk import Walker, bind_inputs

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

native_names = names_of("openvino")


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, Any] | None = None,
    trips: int | None = None,
) -> None:
    """Record the calls of one pass of ``model``.

    A size that the file leaves open becomes a symbol. It is named after its input and axis, ``x_0``; if it depends on
    data, after its layer. Shapes of results are inferred from these.

    Args:
        recorder: receives the calls.
        model: the path of a file.
        inputs: shapes of the inputs, in order or by name; only needed if the file leaves sizes open.
        dims: values of open sizes by symbol, ``{"x_0": 8}``.
        trips: iterations of each loop with a data-dependent trip count; default: a symbol for each.

    Raises:
        CostError: if the file is not an IR file or damaged, or if sizes do not fit it; the message names the file.
        OSError: if a file cannot be read.
        TypeError, ValueError: for an invalid option.
    """
    recording = GraphRecording(recorder, "openvino", trips, LEARNED_BY)
    with in_file(name := fspath(model)):
        graph, version, is_open = read_model(name)
        sizes = OpenSizes(dims)
        if not is_open and inputs is not None:
            try:
                bind_inputs(graph, sizes, inputs)
            except CostError as error:
                raise CostError(f"{error}. Change shapes with model.reshape(…) of OpenVINO") from None
        recorder.frameworks["openvino"] = f"IR {version}"
        Walker(recording, Integers.beside(name, is_open), sizes if is_open else None).run(graph, inputs)
        sizes.check()
