"""Entry of this frontend: read a Core ML model and record the calls of one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import fspath
from typing import Any

from costcore.errors import CostError, unknown
from costcore.graphs import GraphRecording, GraphValue
from costcore.graphs.graph import OpenSizes, Shape, accepts, capture, in_file, names_of
from costcore.trace.run import Recorder

from .layers import network_block
from .model import Block, Feature, Model, TypeInfo, opened_model
from .rows import LEARNED_BY, ROWS
from .walk import Walker

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

native_names = names_of("coreml")


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, Any] | None = None,
    function: str | None = None,
    trips: int | None = None,
) -> None:
    """Record the calls of one pass of ``model``.

    A size that the model leaves open becomes a symbol, named after its input and axis: ``x_0``.

    Args:
        recorder: receives the calls.
        model: the path of a package or file.
        inputs: shapes of the inputs, in order or by name; only needed if the model leaves sizes open.
        dims: values of open sizes by symbol, ``{"x_0": 8}``.
        function: the function to count; default: the default function of the model.
        trips: iterations of each loop with a data-dependent trip count; default: a symbol for each.

    Raises:
        CostError: if the file is not a Core ML model with a graph, or is damaged; the message names the file.
        TypeError, ValueError: for an invalid option.
    """
    recording = GraphRecording(recorder, "coreml", trips, LEARNED_BY)
    with in_file(name := fspath(model)), opened_model(name) as read:
        recorder.frameworks["coreml"] = f"specification {read.version}"
        stages = _stages(read, function)
        sizes = OpenSizes(dims)
        entering = stages[0][1].inputs if not read.stages else entering_values(read, stages)
        shapes = _shapes(entering, read.features, sizes, inputs)
        values = {
            label: GraphValue(shape, kind.dtype, label) for (label, kind), shape in zip(entering, shapes, strict=True)
        }
        Walker(recording, sizes).run(stages, values)
        sizes.check()


def _stages(model: Model, function: str | None) -> list[tuple[str, Block]]:
    """Return the block of a function; for a pipeline, the names and blocks of all stages.

    Raises:
        CostError: if the function does not exist.
    """
    if model.stages:
        return [(name, block) for name, stage in model.stages for _, block in _stages(stage, None)]
    functions = model.functions if model.network is None else {"main": network_block(model)}
    wanted = function or (model.default if model.default in functions else next(iter(functions), "main"))
    if wanted not in functions:
        raise CostError(unknown("function", [wanted], list(functions)))
    return [("", functions[wanted])]


def entering_values(model: Model, stages: Sequence[tuple[str, Block]]) -> list[tuple[str, TypeInfo]]:
    """Return the inputs of a pipeline: values that a stage reads and no earlier stage returns."""
    made: set[str] = set()
    found: dict[str, TypeInfo] = {}
    for _, block in stages:
        for name, kind in block.inputs:
            if name not in made:
                found.setdefault(name, kind)
        made |= set(block.outputs)
    return [*found.items()]


def _shapes(
    entering: Sequence[tuple[str, TypeInfo]], features: Mapping[str, Feature], sizes: OpenSizes, given: Any
) -> list[Shape]:
    """Return the shapes of the inputs of a block.

    Raises:
        CostError: if sizes do not fit the model, or an input is not a tensor.
    """
    stated: list[tuple[str, Sequence[int | None]]] = []
    for label, kind in entering:
        if kind.shape is None:
            raise CostError(f"input {label!r} is not a tensor")
        is_open = features[label].is_open if label in features else ()
        if len(is_open) != len(kind.shape):
            is_open = (False,) * len(kind.shape)
        stated.append((label, tuple(None if free else size for size, free in zip(kind.shape, is_open, strict=True))))
    found = sizes.bind(stated, given, "{}_{}".format)
    for (label, _), shape in zip(entering, found, strict=True):
        if label in features:
            features[label].check(label, shape)
    return found
