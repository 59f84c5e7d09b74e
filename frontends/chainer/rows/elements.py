"""Rows of element-wise functions, softmax, dropout and data movement, with indexing, embeddings and communication.

The rows of their gradients are included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from costcore.translate import Arguments, Row, Source

from ..arrays import (
    ALL_INPUTS,
    DY,
    WINDOW_2D,
    X0_X1,
    X_DY,
    Y_DY,
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
    with_saved_array,
)

UNARY: Mapping[str, str] = {
    "Absolute": "abs",
    "Arccos": "acos",
    "Arcsin": "asin",
    "Arctan": "atan",
    "Arctanh": "atanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "DiGamma": "digamma",
    "Erf": "erf",
    "ErfInv": "erfinv",
    "Erfc": "erfc",
    "ErfcInv": "erfcinv",
    "Erfcx": "erfcx",
    "Exp": "exp",
    "Expm1": "expm1",
    "LGamma": "lgamma",
    "LaplaceCDF": "laplace_cdf",
    "LaplaceICDF": "laplace_icdf",
    "Log": "log",
    "Log10": "log10",
    "Log1p": "log1p",
    "Log2": "log2",
    "LogNdtr": "log_ndtr",
    "Ndtr": "ndtr",
    "Ndtri": "ndtri",
    "Neg": "neg",
    "RsqrtGPU": "rsqrt",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Square": "square",
    "Tan": "tan",
}

BINARY: Mapping[str, str] = {
    "Add": "add",
    "Arctan2": "atan2",
    "Div": "div",
    "Fmod": "fmod",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Mul": "mul",
    "PolyGamma": "polygamma",
    "PowVarVar": "pow",
    "Sub": "sub",
}

WITH_CONSTANT: Mapping[str, str] = {"AddConstant": "add", "MulConstant": "mul"}

FROM_CONSTANT: Mapping[str, str] = {"DivFromConstant": "div", "PowConstVar": "pow", "SubFromConstant": "sub"}

GRADIENTS_OF_INPUT: Mapping[str, str] = {
    "ArccosGrad": "acos_backward",
    "ArcsinGrad": "asin_backward",
    "ArctanGrad": "atan_backward",
    "CosGrad": "cos_backward",
    "SinGrad": "sin_backward",
}
"""Gradients computed from the input and the gradient of the output."""

GRADIENTS_OF_TWO_INPUTS: Mapping[str, str] = {"Arctan2Grad": "atan2_backward", "DivGrad": "div_backward"}

VALUE = attribute("value")


def clip_bound(name: str) -> Source:
    """Read a bound from the clip function itself: its gradient function does not store the bounds."""
    return lambda args: getattr(args["origin"], name, None)


def is_checked(args: Arguments) -> bool:
    """Return True if the logarithm of a probability tests whether the outcomes are possible."""
    return bool(args["function"].binary_check)


def with_saved_masks(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs, and the masks of infinite logits and impossible outcomes if a backward pass can follow."""
    return with_saved_array("invalid")(args, with_saved_array("logit_ispinf")(args, outputs))


ELEMENTWISE_ROWS: tuple[Row, ...] = (
    *rows_by_name(UNARY, X),
    *rows_by_name(BINARY, X0_X1),
    *rows_by_name(WITH_CONSTANT, {"x0": input_at(0), "x1": VALUE}),
    *rows_by_name(FROM_CONSTANT, {"x0": VALUE, "x1": input_at(0)}),
    row("PowVarConst", "pow", {"x0": input_at(0), "x1": VALUE}, exponent=VALUE),
    row("MultiAdd", "add", ALL_INPUTS),
    # p x + (1 - p) y = y + p (x - y)
    row("LinearInterpolate", "lerp", {"x0": input_at(2), "x1": input_at(1), "x2": input_at(0)}),
    row("Zeta", "zeta", {"x0": array_attribute("_x"), "x1": input_at(0)}),
    row("Where", "where", {"condition": array_attribute("condition"), "x0": input_at(0), "x1": input_at(1)}),
    row("Clip", "clip", X, lower=attribute("x_min"), upper=attribute("x_max")),
    row("ClippedReLU", "clip", X, lower=constant(0), upper=attribute("cap")),
    row("Gaussian", "gaussian", X0_X1),
    Row("chainer::BernoulliLogProb", "checked_bernoulli_log_prob", X0_X1, when=is_checked, outputs=with_saved_masks),
    Row("chainer::BernoulliLogProb", "bernoulli_log_prob", X0_X1, outputs=with_saved_array("logit_ispinf")),
    Row(
        "chainer::ModifiedXLogX",
        "xlogx",
        {"x0": input_at(0), "x1": lambda args: args["function"]._logx},
        outputs=with_saved_array("x_zero"),
    ),
    row("_MulInvStd", "mul", {"x0": input_at(1), "x1": array_attribute("inv_std")}),
    # gradients
    Row("chainermn::AllGatherBackward", "add", {"x*": "gradients"}),
    Row("chainermn::BcastBackward", "add", {"x*": lambda args: args["gradients"] * args["function"].comm.size}),
    *rows_by_name(GRADIENTS_OF_INPUT, X_DY),
    row("AbsoluteGrad", "abs_backward", {"dy": input_at(0), "x": array_attribute("x")}),
    *rows_by_name(GRADIENTS_OF_TWO_INPUTS, operands("x0", "x1", "dy")),
    *(
        row(
            name,
            "clip_backward",
            {"dy": input_at(0), "x": array_attribute("x")},
            lower=constant(0),
            upper=attribute("cap"),
        )
        for name in ("ClippedReLUGrad2", "ClippedReLUGrad3")
    ),
    row(
        "ClipGrad",
        "clip_backward",
        {"dy": input_at(0), "x": array_attribute("cond")},
        lower=clip_bound("x_min"),
        upper=clip_bound("x_max"),
    ),
    row("DivFromConstantGrad", "constant_div_backward", X_DY, value=VALUE),
    row("PowConstVarGrad", "constant_pow_backward", Y_DY, value=VALUE),
    row("LinearInterpolateGrad", "lerp_backward", operands("x2", "x1", "x0", "dy")),
    row("MaximumGrad", "maximum_backward", {"dy": input_at(0), "condition": array_attribute("cond")}),
    row(
        "MinimumGrad",
        "minimum_backward",
        {"dy": input_at(0), "x0": array_attribute("x1"), "x1": array_attribute("x2")},
    ),
    row("PowVarConstGrad", "pow_backward", operands("x0", "dy"), exponent=VALUE),
    row("PowVarVarGrad", "pow_backward", {**operands("x0", "x1", "dy"), "y": array_attribute("y")}),
)


# Activation functions and softmax.


ACTIVATIONS: Mapping[str, str] = {"ReLU": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}

GRADIENTS_OF_OUTPUT: Mapping[str, str] = {"SigmoidGrad": "sigmoid_backward", "TanhGrad": "tanh_backward"}
"""Gradients computed from the output and its gradient."""

GRADIENTS_OF_SAVED_ARRAY: Mapping[str, tuple[str, str, str]] = {
    "HardSigmoidGrad": ("hard_sigmoid_backward", "x", "x"),
    "ReLUGrad2": ("relu_backward", "y", "b"),
    "ReLUGradCudnn": ("relu_backward", "y", "y"),
    "_LeakyReLUGrad": ("leaky_relu_backward", "x", "cond"),
    "_RReLUGrad": ("rrelu_backward", "x", "y"),
}
"""Gradients computed from an array saved on the function: operator, operand, name of the attribute."""

ACTIVATION_ROWS: tuple[Row, ...] = (
    *rows_by_name(ACTIVATIONS, X),
    Row("chainer::ClippedReLU", "relu6", X, when=lambda args: args["function"].cap == 6),
    row("CReLU", "crelu", X, axis=attribute("axis")),
    row("ELU", "elu", X, alpha=attribute("alpha")),
    row("HardSigmoid", "hard_sigmoid", X, slope=constant(0.2), shift=constant(0.5)),
    row("LeakyReLU", "leaky_relu", X, slope=attribute("slope")),
    row("LogSoftmax", "log_softmax", X, axis=axis),
    row("PReLUFunction", "prelu", operands("x", "w")),
    row("RReLU", "rrelu", X, lower=attribute("lower"), upper=attribute("upper")),
    row("Softmax", "softmax", X, axis=axis),
    row("Softplus", "softplus", X, beta=attribute("beta")),
    row("Swish", "swish", operands("x", "beta")),
    row("Zoneout", "zoneout", X0_X1, rate=attribute("zoneout_ratio"), training=constant(True)),  # in training only
    # gradients
    row("LogSoftmaxGrad", "log_softmax_backward", Y_DY, axis=axis),
    row("_SoftmaxGrad", "softmax_backward", Y_DY, axis=axis),
    row("SoftplusGrad", "softplus_backward", X_DY),
    *rows_by_name(GRADIENTS_OF_OUTPUT, Y_DY),
    *(
        row(name, op, {"dy": input_at(0), operand: array_attribute(saved)})
        for name, (op, operand, saved) in GRADIENTS_OF_SAVED_ARRAY.items()
    ),
    row("ELUGrad", "elu_derivative", {"y": input_at(0), "x": array_attribute("cond")}, alpha=attribute("alpha")),
    row("SwishGrad", "swish_backward", operands("x", "beta", "dy")),
    row("PReLUFunctionGrad", "prelu_backward", operands("x", "w", "dy")),
)


# Dropout.


RANDOM_ROWS: tuple[Row, ...] = (
    Row(  # runs in training only
        "chainer::Dropout",
        "dropout",
        X,
        {"rate": attribute("dropout_ratio"), "training": constant(True)},
        outputs=lambda args, outputs: (*outputs, args["function"].mask),
    ),
    row("DropoutGrad", "dropout_backward", {"dy": input_at(0), "mask": array_attribute("mask")}),
    row("DropoutGradCuDNN", "dropout_backward", {"dy": input_at(0), "mask": array_attribute("states")}),
)


# Rows of data movement, indexing, embeddings and communication, and of their gradients.

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
    # the first value only connects the graph, and its gradient is zeros
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
    # slices; INDEXING_ROWS has all other indices
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
# The gradients of ``allgather`` and ``bcast`` are sums of received arrays: their rows are in ELEMENTWISE_ROWS.


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


ROWS: tuple[Row, ...] = (
    *(*ACTIVATION_ROWS, *ELEMENTWISE_ROWS, *RANDOM_ROWS),
    *(*LAYOUT_ROWS, *INDEXING_ROWS, *COLLECTIVE_ROWS),
)
"""The order matters, because the first row that fits is used: a clipped ReLU is ReLU6 (activation), or else a clip
(elementwise); ``x[...]`` is a slice (layout), or else a selection by a mask or a gather (indexing)."""
