"""Rows of data movement, indexing, embeddings and communication, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from costcore.translate import Arguments, Row, Source

from .arguments import (
    ALL_INPUTS,
    DY,
    WINDOW_2D,
    X_DY,
    X,
    array_attribute,
    attribute,
    attributes,
    axis,
    constant,
    index_arrays,
    input_at,
    non_negative_axis,
    operands,
    output_gradient,
    pooling_attribute,
    row,
    rows_by_name,
)

RESHAPES: Mapping[str, str] = {"ExpandDims": "reshape", "Reshape": "reshape", "Squeeze": "reshape"}

DILATION_2D = attributes("dy", "dx")


def permutation(transpose: Callable[[Any, Any], Any]) -> Source:
    """Compute the permutation of axes by transposing an array with the axis numbers as sizes."""
    return lambda args: transpose(numpy.broadcast_to(0, range(args["inputs"][0].ndim)), args["function"]).shape


def hstack_axis(args: Arguments) -> int:
    """Return the axis that ``F.hstack`` joins along: 0 for vectors, else 1."""
    return 0 if args["inputs"][0].ndim < 2 else 1


def new_axis(args: Arguments) -> int | None:
    """Return the axis that ``F.stack`` creates, counted from the front of the output."""
    return non_negative_axis(args["function"].axis, args["inputs"][0].ndim + 1)


def before(args: Arguments) -> tuple[int, ...]:
    """Return the width of the border before each axis."""
    pairs = numpy.broadcast_to(args["function"].pad_bw, (args["inputs"][0].ndim, 2))
    return tuple(int(width) for width, _ in pairs.tolist())


def sliced_axes(args: Arguments) -> list[tuple[int, int, int | None, int | None]]:
    """Return axis, start, stop and step of every index of ``x[...]``; an integer has no step."""
    given, rank = list(args["function"].slices), args["inputs"][0].ndim
    named = sum(index is not None and index is not Ellipsis for index in given)
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given[at : at + 1] = [slice(None)] * (rank - named)
    found: list[tuple[int, int, int | None, int | None]] = []
    for at, index in enumerate(index for index in given if index is not None):
        size = args["inputs"][0].shape[at]
        if isinstance(index, slice):
            start, stop, step = index.indices(size)
            found.append((at, start, stop if stop >= 0 else None, step))
        else:
            found.append((at, int(index) % size, None, None))
    return found


def slice_part(part: int) -> Source:
    """Return a source for one of axis, start, stop and step of all indices of ``x[...]``."""
    return lambda args: tuple(index[part] for index in sliced_axes(args))


SLICES: Mapping[str, Source] = {name: slice_part(i) for i, name in enumerate(("axis", "start", "stop", "step"))}

LAYOUT_ROWS: tuple[Row, ...] = (
    row("Identity", "identity", X),
    # the values after the first; the first only connects the graph, and its gradient is zeros
    Row("chainermn::PseudoConnect", "identity", {"x*": lambda args: args["inputs"][1:]}),
    Row("chainermn::PseudoConnectBackward", "full"),
    row("Cast", "cast", X),
    row("Copy", "copy", X),
    *rows_by_name(RESHAPES, X),
    row("Transpose", "transpose", X, axes=permutation(lambda x, f: x.transpose(f.axes))),
    row("AsLayout", "transpose", X, axes=attribute("axes")),
    row("Swapaxes", "transpose", X, axes=permutation(lambda x, f: x.swapaxes(f.axis1, f.axis2))),
    row("Moveaxis", "transpose", X, axes=permutation(lambda x, f: numpy.moveaxis(x, f.source, f.destination))),
    row("Rollaxis", "transpose", X, axes=permutation(lambda x, f: numpy.rollaxis(x, f.axis, f.start))),
    row("Broadcast", "broadcast_arrays", ALL_INPUTS),
    row("BroadcastTo", "broadcast_to", X, shape=attribute("_shape")),
    row("AsStrided", "as_strided", X, shape=attribute("shape"), strides=attribute("strides")),
    row("Depth2Space", "depth_to_space", X, block=attribute("r")),
    row("Space2Depth", "space_to_depth", X, block=attribute("r")),
    row("Diagonal", "diagonal", X, offset=attribute("offset"), axes=attributes("axis1", "axis2")),
    row("Flip", "flip", X, axis=lambda args: (axis(args),)),
    row("FlipLR", "flip", X, axis=constant((1,))),
    row("FlipUD", "flip", X, axis=constant((0,))),
    row("Im2Col", "im2col", X, **WINDOW_2D, dilation=DILATION_2D),
    row("Im2ColGrad", "col2im", X, **WINDOW_2D, dilation=DILATION_2D),
    row("Shift", "shift", X, kernel=attributes("kh", "kw"), dilation=DILATION_2D),
    # slices; the rows of indexing.py translate the other ways to index
    Row("chainer::GetItem", "slice", X, SLICES, when=lambda args: not index_arrays(args)),
    # joining, splitting, repeating
    row("Concat", "concat", ALL_INPUTS, axis=axis),
    row("CudnnRNNWeightConcat", "concat", ALL_INPUTS),
    row("CudnnRNNWeightConcatBackward", "split", {"x": output_gradient(0)}),
    row("Hstack", "concat", ALL_INPUTS, axis=hstack_axis),
    row("Vstack", "concat", ALL_INPUTS, axis=constant(0)),
    row("Dstack", "concat", ALL_INPUTS, axis=constant(2)),
    row("Stack", "stack", ALL_INPUTS, axis=new_axis),
    row("SplitAxis", "split", X, axis=axis),
    row("Separate", "unbind", X, axis=axis),
    row("Tile", "tile", X, repeats=attribute("reps")),
    row("Repeat", "repeat", X, repeats=attribute("repeats"), axis=axis),
    row("Pad", "pad", X, padding=lambda args: args["function"].pad_bw.tolist(), mode=attribute("mode"), before=before),
    row("PadSequence", "pad_sequence", ALL_INPUTS),
    row("TransposeSequence", "transpose_sequence", ALL_INPUTS),
    # gradients
    row("RepeatGrad", "repeat_backward", DY),
)


# Gather, scatter, masks and embeddings.


def is_masked(args: Arguments) -> bool:
    """Return True if ``x[...]`` selects by a mask of bools."""
    return [index.dtype.kind for index in index_arrays(args)] == ["b"]


def mask(args: Arguments) -> Any:
    """Return the mask of ``x[mask]``."""
    return index_arrays(args)[0]


INDEXING_ROWS: tuple[Row, ...] = (
    # a selection by a mask comes before a gather by any other array
    Row("chainer::GetItem", "masked_select", {"x": input_at(0), "mask": mask}, when=is_masked),
    Row(
        "chainer::GetItem",
        "gather",
        {"x": input_at(0), "indices": lambda args: index_arrays(args)[0]},
        when=lambda args: len(index_arrays(args)) == 1,
    ),
    row("GetItem", "gather", {"x": input_at(0), "indices*": index_arrays}),
    row("_SetItemZero", "masked_scatter", {"updates": input_at(0), "mask": array_attribute("mask")}),
    row("SelectItem", "gather_elements", {"x": input_at(0), "indices": input_at(1)}, axis=constant(1)),
    row("Permutate", "gather", {"x": input_at(0), "indices": array_attribute("indices")}, axis=axis),
    row(
        "ScatterAdd",
        "scatter",
        {"x": input_at(0), "indices*": index_arrays, "updates": input_at(1)},
        reduction=constant("add"),
    ),
    row("EmbedIDFunction", "embedding", operands("x", "w")),
    row("MaxPoolingNDWithIndexes", "gather_elements", {"x": input_at(0), "indices": pooling_attribute("indexes")}),
    # gradients
    Row("chainer::GetItemGrad", "slice_backward", DY, when=lambda args: not index_arrays(args)),
    row("GetItemGrad", "gather_backward", {"dy": input_at(0), "indices*": index_arrays}),
    row("Assign", "gather_backward", {"dy": input_at(0), "indices": array_attribute("t")}, axis=constant(1)),
    row("EmbedIDGrad", "embedding_backward", X_DY),
    row("AsStridedGrad", "as_strided_backward", DY),
    row("DiagonalGrad", "diagonal_backward", DY),
)


# Communication between processes (ChainerMN).
#
# The gradients of ``allgather`` and ``bcast`` are sums of received arrays: their rows are in elements.py.


FORWARD: Mapping[str, str] = {
    "AllGather": "all_gather",
    "AllToAll": "all_to_all",
    "Bcast": "broadcast",
    "Gather": "gather_to_root",
    "Scatter": "scatter_from_root",
    "Send": "send",
    "Recv": "recv",
}

BACKWARD: Mapping[str, str] = {
    "AllToAllBackward": "all_to_all",
    "GatherBackward": "scatter_from_root",
    "ScatterBackward": "gather_to_root",
    "SendBackward": "recv",
    "RecvBackward": "send",
}


def sent(name: str) -> Source:
    """Read the arrays of an argument, without the empty ones that only connect Chainer's graph."""

    def read(args: Arguments) -> list[Any]:
        return [array for array in args[name] if array is not None and array.size]

    return read


def received(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs without the empty ones that only connect Chainer's graph."""
    return [array for array in outputs if array is not None and array.size]


GROUP: Mapping[str, Source] = {"group_size": lambda args: args["function"].comm.size}


def _rows(operators: Mapping[str, str], arrays: str) -> list[Row]:
    operands = {"x*": sent(arrays)}
    return [Row(f"chainermn::{name}", op, operands, GROUP, outputs=received) for name, op in operators.items()]


COLLECTIVE_ROWS: tuple[Row, ...] = (*_rows(FORWARD, "inputs"), *_rows(BACKWARD, "gradients"))


ROWS: tuple[Row, ...] = (*LAYOUT_ROWS, *INDEXING_ROWS, *COLLECTIVE_ROWS)
"""``x[...]`` is a slice (layout), or else a selection by a mask or a gather (indexing)."""
