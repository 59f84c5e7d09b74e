"""Read a Core ML model and record the calls of one pass: the entry of this frontend."""

from __future__ import annotations

from collections.abc import Mapping
from os import fspath
from typing import Any

from costcore.errors import CostError, unknown
from costcore.graphs import GraphRecording, GraphValue, given_shapes
from costcore.graphs.graph import accepts, capture, in_file, names_of
from costcore.numbers import Dim, symbol_of
from costcore.trace.run import Recorder

from .layers import network_block
from .model import Block, Feature, Model, opened_model
from .rows import LEARNED_BY, ROWS
from .walk import Walker

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

native_names = names_of("coreml")


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, int] | None = None,
    function: str | None = None,
    trips: int | None = None,
) -> None:
    """Record the calls of one pass of ``model``.

    A size that the model leaves open is a symbol with the name of its input and axis, ``x_0``.

    Args:
        recorder: receives the calls.
        model: the path of a package or file.
        inputs: shapes of the inputs in order or by name, if the model leaves sizes open.
        dims: the open sizes by the names of their symbols, ``{"x_0": 8}``.
        function: the function that is counted; default: the one that runs by default.
        trips: how often loops run whose number of runs depends on data; default: a symbol for each.

    Raises:
        CostError: if the file is not a Core ML model with a graph, or is damaged; the message includes the file.
        TypeError, ValueError: for an invalid option.
    """
    recording = GraphRecording(recorder, "coreml", trips, LEARNED_BY)
    with in_file(name := fspath(model)), opened_model(name) as read:
        recorder.frameworks["coreml"] = f"specification {read.version}"
        block = _chosen(read, function)
        shapes = _shapes(block, read.features, inputs, dims)
        values = {
            label: GraphValue(shape, kind.dtype, label)
            for (label, kind), shape in zip(block.inputs, shapes, strict=True)
        }
        Walker(recording).run(block, values)


def _chosen(model: Model, function: str | None) -> Block:
    """Return the block of a function.

    Raises:
        CostError: if it does not exist.
    """
    functions = model.functions if model.network is None else {"main": network_block(model)}
    wanted = function or (model.default if model.default in functions else next(iter(functions), "main"))
    if wanted not in functions:
        raise CostError(unknown("function", [wanted], list(functions)))
    return functions[wanted]


def _shapes(
    block: Block, features: Mapping[str, Feature], inputs: Any, dims: Mapping[str, int] | None
) -> list[tuple[Dim, ...]]:
    """Return the shapes of the inputs of a block.

    Raises:
        CostError: if sizes do not fit the model, or an input is not a tensor.
    """
    given = given_shapes([label for label, _ in block.inputs], inputs)
    found, names = [], set()
    for position, (label, kind) in enumerate(block.inputs):
        feature = features.get(label)
        if kind.shape is None:
            raise CostError(f"input {label!r} is not a tensor")
        is_open = [size is None for size in kind.shape]
        if feature is not None and len(feature.is_open) == len(is_open):
            is_open = [a or b for a, b in zip(is_open, feature.is_open, strict=True)]
        sizes: list[Dim] = []
        for axis, (size, free) in enumerate(zip(kind.shape, is_open, strict=True)):
            symbol = "".join(c if c.isalnum() else "_" for c in label) + f"_{axis}"
            names |= {symbol} if free else set()
            sizes.append((dims or {}).get(symbol, symbol_of(symbol)) if free else size or 0)
        stated = given.get(position)
        if stated is not None:
            wrong = [a for a, b, free in zip(sizes, stated, is_open, strict=False) if not free and a != b]
            if len(stated) != len(sizes) or wrong:
                shown = ", ".join("?" if free else str(size) for size, free in zip(sizes, is_open, strict=True))
                raise CostError(f"input {label!r} has the shape ({shown}) in the model (got {tuple(stated)})")
            sizes = list(stated)
        for size in sizes:
            if isinstance(size, int) and size < 0:
                raise CostError(f"the sizes of input {label!r} must be 0 or more (got {size})")
        found.append(tuple(sizes))
    if dims and (extra := [name for name in dims if name not in names]):
        raise CostError(unknown("dimension", extra, sorted(names)) if names else "the model leaves no dimension open")
    return found
