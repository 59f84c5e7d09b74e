"""Rows of functions that reduce, multiply, move, join and pick whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_letters
from typing import Any

import numpy

from costcore.translate import Arguments, Row

from .arrays import Seen, is_array
from .rows.arguments import (
    ALL,
    X,
    array,
    at,
    axes,
    axis,
    constant,
    from_front,
    permutation,
    row,
    same_rows,
    setting,
    settings,
)

REDUCTIONS: Mapping[str, str] = {
    "LogSumExp": "reduce_log_sum_exp",
    "Max": "reduce_max",
    "Mean": "reduce_mean",
    "Min": "reduce_min",
    "Prod": "reduce_prod",
    "Sum": "reduce_sum",
}
ARGUMENTS: Mapping[str, str] = {"ArgMax": "argmax", "ArgMin": "argmin"}
CUMULATIVE: Mapping[str, str] = {"Cumprod": "cumprod", "Cumsum": "cumsum"}
RESHAPES: Mapping[str, str] = {"ExpandDims": "reshape", "Reshape": "reshape", "Squeeze": "reshape"}


def summed_axes(args: Arguments) -> tuple[int, ...]:
    """The axes that a sum to a shape, the reverse of broadcasting, sums over."""
    shape, target = args["inputs"][0].shape, args["function"]._shape
    lead = len(shape) - len(target)
    return (*range(lead), *(lead + i for i, size in enumerate(target) if size == 1 != shape[lead + i]))


def in_line(args: Arguments) -> Any:
    """The input, as one row where no axis is given."""
    x = args["inputs"][0]
    return x if args["function"].axis is not None else Seen(x, (x.size,))


def as_matrices(index: int) -> Any:
    """An operand of a batched product as [batch, rows, columns], a vector as one column."""

    def matrices(args: Arguments) -> Seen:
        x = args["inputs"][index]
        return Seen(x, (*x.shape[:2], numpy.prod(x.shape[2:], dtype=int).item()))

    return matrices


def is_transposed(index: int, name: str) -> Any:
    """Whether an operand of a product is stored with rows and columns exchanged; None, the usual, where not."""
    return lambda args: True if getattr(args["function"], name) and args["inputs"][index].ndim > 1 else None


def einsum_equation(args: Arguments) -> str:
    """The subscripts of ``F.einsum``, whose ellipsis Chainer writes ``@``."""
    function = args["function"]
    return f"{function.in_subs}->{function.out_sub}".replace("@", "...")


def inverse_equation(args: Arguments) -> str:
    """The subscripts of a gradient of ``F.einsum``, without those that the result is repeated along."""
    given = args["function"].in_subs
    return f"{given}->{''.join(c for c in args['function'].out_sub if c in given)}".replace("@", "...")


def tensordot_equation(args: Arguments) -> str:
    """The subscripts of ``F.tensordot``, which sums over pairs of axes."""
    a, b = (x.ndim for x in args["inputs"])
    left, right = list(ascii_letters[:a]), list(ascii_letters[a : a + b])
    for i, j in zip(args["function"].a_axes[1], args["function"].b_axes[0], strict=True):
        right[j] = left[i]
    rest = [left[i] for i in args["function"].a_axes[0]] + [right[j] for j in args["function"].b_axes[1]]
    return f"{''.join(left)},{''.join(right)}->{''.join(rest)}"


def index_arrays(args: Arguments) -> list[Any]:
    """The arrays among the indices of ``x[...]``; lists are arrays written out."""
    slices = args["function"].slices
    return [
        numpy.asarray(each) if isinstance(each, list) else each
        for each in slices
        if is_array(each) or isinstance(each, list)
    ]


def is_masked(args: Arguments) -> bool:
    """Whether ``x[...]`` picks where a mask holds."""
    return [index.dtype.kind for index in index_arrays(args)] == ["b"]


def joined_axis(lowest: int) -> Any:
    """The axis along which vstack, hstack or dstack join: vectors get axes before they are joined along one."""
    return lambda args: min(lowest, 0 if args["inputs"][0].ndim < 2 and lowest == 1 else lowest)


def resize_mode(args: Arguments) -> str:
    """How ``F.resize_images`` interpolates, in the word for any rank."""
    return {"bilinear": "linear"}.get(args["function"].mode, "nearest")


ROWS: tuple[Row, ...] = (
    *same_rows(REDUCTIONS, X, axis=axes, keepdims=setting("keepdims")),
    *same_rows(ARGUMENTS, X, axis=axes, keepdims=constant(False)),
    *same_rows(CUMULATIVE, {"x": in_line}, axis=lambda args: axis(args) or 0),
    row("SumTo", "reduce_sum", X, axis=summed_axes, keepdims=constant(True)),
    # products
    row(
        "MatMul",
        "matmul",
        {"x0": at(0), "x1": at(1)},
        transpose_x0=is_transposed(0, "transa"),
        transpose_x1=is_transposed(1, "transb"),
    ),
    row(
        "BatchMatMul",
        "matmul",
        {"x0": as_matrices(0), "x1": as_matrices(1)},
        transpose_x0=is_transposed(0, "transa"),
        transpose_x1=is_transposed(1, "transb"),
    ),
    row("EinSum", "einsum", ALL, equation=einsum_equation),
    row("DiagEinSum", "einsum", ALL, equation=inverse_equation),
    row("BatchL2NormSquared", "reduce_sum_square", X, axis=lambda args: tuple(range(1, args["inputs"][0].ndim))),
    row("TensorDot", "einsum", ALL, equation=tensordot_equation),
    # shapes and layout
    *same_rows(RESHAPES, X),
    row("Transpose", "transpose", X, axes=permutation(lambda x, f: x.transpose(f.axes))),
    row("Swapaxes", "transpose", X, axes=permutation(lambda x, f: x.swapaxes(f.axis1, f.axis2))),
    row("Moveaxis", "transpose", X, axes=permutation(lambda x, f: numpy.moveaxis(x, f.source, f.destination))),
    row("Rollaxis", "transpose", X, axes=permutation(lambda x, f: numpy.rollaxis(x, f.axis, f.start))),
    row("Broadcast", "broadcast_arrays", ALL),
    row("BroadcastTo", "broadcast_to", X, shape=setting("_shape")),
    row("AsStrided", "as_strided", X, shape=setting("shape"), strides=setting("strides")),
    row("Cast", "cast", X),
    row("Copy", "copy", X),
    row("Depth2Space", "depth_to_space", X, block=setting("r")),
    row("Space2Depth", "space_to_depth", X, block=setting("r")),
    row("Diagonal", "diagonal", X, offset=setting("offset"), axes=settings("axis1", "axis2")),
    row("Flip", "flip", X, axis=lambda args: (axis(args),)),
    row("FlipLR", "flip", X, axis=constant((1,))),
    row("FlipUD", "flip", X, axis=constant((0,))),
    row(
        "Im2Col",
        "im2col",
        X,
        kernel=settings("kh", "kw"),
        stride=settings("sy", "sx"),
        padding=settings("ph", "pw"),
        dilation=settings("dy", "dx"),
    ),
    # joining, splitting, repeating
    row("Concat", "concat", ALL, axis=axis),
    row("Hstack", "concat", ALL, axis=joined_axis(1)),
    row("Vstack", "concat", ALL, axis=constant(0)),
    row("Dstack", "concat", ALL, axis=constant(2)),
    row("Stack", "stack", ALL, axis=lambda args: from_front(args["function"].axis, args["inputs"][0].ndim + 1)),
    row("SplitAxis", "split", X, axis=axis),
    row("Separate", "unbind", X, axis=axis),
    row("Tile", "tile", X, repeats=setting("reps")),
    row("Repeat", "repeat", X, repeats=setting("repeats"), axis=axis),
    row("Pad", "pad", X, padding=lambda args: args["function"].pad_bw.tolist(), mode=setting("mode")),
    row("PadSequence", "pad_sequence", ALL),
    row("TransposeSequence", "transpose_sequence", ALL),
    row(
        "ResizeImages",
        "resize",
        X,
        mode=resize_mode,
        align_corners=setting("align_corners"),
    ),
    # picking
    Row("chainer::GetItem", "slice", X, when=lambda args: not index_arrays(args)),
    Row("chainer::GetItem", "masked_select", {"x": at(0), "mask": lambda args: index_arrays(args)[0]}, when=is_masked),
    Row(
        "chainer::GetItem",
        "gather",
        {"x": at(0), "indices": lambda args: index_arrays(args)[0]},
        when=lambda args: len(index_arrays(args)) == 1,
    ),
    row("GetItem", "gather", {"x": at(0), "indices*": index_arrays}),
    row("SelectItem", "gather_elements", {"x": at(0), "indices": at(1)}, axis=constant(1)),
    row("Permutate", "gather", {"x": at(0), "indices": array("indices")}, axis=axis),
    row("ScatterAdd", "scatter", {"x": at(0), "indices*": index_arrays, "updates": at(1)}, reduction=constant("add")),
)
