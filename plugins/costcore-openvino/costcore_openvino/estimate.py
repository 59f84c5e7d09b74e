"""Read an IR file and record the calls of one pass: the entry of this frontend."""

from __future__ import annotations

from os import fspath
from typing import Any

from costcore.errors import CostError
from costcore.graphs import GraphRecording
from costcore.graphs.graph import accepts, capture, in_file, names_of
from costcore.trace.run import Recorder

from .integers import Integers
from .model import read_model
from .rows import LEARNED_BY, ROWS
from .walk import Walker

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

native_names = names_of("openvino")


def estimate(recorder: Recorder, model: Any, inputs: Any = None, *, trips: int | None = None) -> None:
    """Record the calls of one pass of ``model``. All shapes are those of the file.

    Args:
        recorder: receives the calls.
        model: the path of a file.
        inputs: None; the file states the shapes of its inputs.
        trips: how often loops run whose number of runs depends on data; default: a symbol for each.

    Raises:
        CostError: if the file is not an IR file, is damaged, or has open sizes; the message includes the file.
        OSError: if a file cannot be read.
        ValueError: for an invalid option.
    """
    recording = GraphRecording(recorder, "openvino", trips, LEARNED_BY)
    with in_file(name := fspath(model)):
        if inputs is not None:
            raise CostError("the file states the shapes of its inputs. Change them with model.reshape(…) of OpenVINO")
        graph, version = read_model(name)
        recorder.frameworks["openvino"] = f"IR {version}"
        Walker(recording, Integers.beside(name)).run(graph)
