"""Rows of the functions that a backward pass runs beside those of the forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arrays import array_of
from .rows.arguments import array, at, axis, constant, gradient, named, row, same_rows, setting, settings
from .table_arrays import index_arrays, resize_mode
from .table_losses import reduction

DY = named("dy")
X_DY = named("x", "dy")
Y_DY = named("y", "dy")

OF_INPUT: Mapping[str, str] = {
    "ArccosGrad": "acos_backward",
    "ArcsinGrad": "asin_backward",
    "ArctanGrad": "atan_backward",
    "CosGrad": "cos_backward",
    "SinGrad": "sin_backward",
    "SoftplusGrad": "softplus_backward",
}
OF_OUTPUT: Mapping[str, str] = {"SigmoidGrad": "sigmoid_backward", "TanhGrad": "tanh_backward"}
OF_TWO: Mapping[str, str] = {"Arctan2Grad": "atan2_backward", "DivGrad": "div_backward"}
KEPT: Mapping[str, tuple[str, str, str]] = {  # what it was computed from is kept in an attribute of this name
    "AbsoluteGrad": ("abs_backward", "x", "x"),
    "HardSigmoidGrad": ("hard_sigmoid_backward", "x", "x"),
    "ReLUGrad2": ("relu_backward", "y", "b"),
    "ReLUGradCudnn": ("relu_backward", "y", "y"),
    "_LeakyReLUGrad": ("leaky_relu_backward", "x", "cond"),
    "_RReLUGrad": ("rrelu_backward", "x", "y"),
}

OF_WEIGHT = {"needs": constant(("w",)), "groups": setting("groups")}
WINDOW_2D = {"kernel": settings("kh", "kw"), "stride": settings("sy", "sx"), "padding": settings("ph", "pw")}


def of_pooling(name: str) -> Source:
    """A setting, or an array, of the pooling function whose gradient this is."""
    return lambda args: array_of(getattr(args["function"].func, name))


def of_clip(name: str) -> Source:
    """A bound of the clip whose gradient this is, which knows where they hold and not what they are."""
    return lambda args: getattr(args["origin"], name, None)


def scores(args: Arguments) -> Any:
    """The probabilities that softmax cross entropy kept, or the scores to compute them from."""
    kept = args["function"].y
    return args["inputs"][0] if kept is None else kept


ROWS: tuple[Row, ...] = (
    *same_rows(OF_INPUT, X_DY),
    *same_rows(OF_OUTPUT, Y_DY),
    *same_rows(OF_TWO, named("x0", "x1", "dy")),
    *(row(name, op, {"dy": at(0), operand: array(kept)}) for name, (op, operand, kept) in KEPT.items()),
    row("ClippedReLUGrad2", "clip_backward", {"dy": at(0), "x": array("x")}, lower=constant(0), upper=setting("cap")),
    row("ClippedReLUGrad3", "clip_backward", {"dy": at(0), "x": array("x")}, lower=constant(0), upper=setting("cap")),
    row("ClipGrad", "clip_backward", {"dy": at(0), "x": array("cond")}, lower=of_clip("x_min"), upper=of_clip("x_max")),
    row("DivFromConstantGrad", "constant_div_backward", X_DY, value=setting("value")),
    row("PowConstVarGrad", "constant_pow_backward", Y_DY, value=setting("value")),
    row("ELUGrad", "elu_derivative", {"y": at(0), "x": array("cond")}, alpha=setting("alpha")),
    row("SwishGrad", "swish_backward", named("x", "beta", "dy")),
    row("DropoutGrad", "dropout_backward", {"dy": at(0), "mask": array("mask")}),
    row("DropoutGradCuDNN", "dropout_backward", {"dy": at(0), "mask": array("states")}),
    row("LinearInterpolateGrad", "lerp_backward", {"x2": at(0), "x1": at(1), "x0": at(2), "dy": at(3)}),
    row("LogSoftmaxGrad", "log_softmax_backward", Y_DY, axis=axis),
    row("_SoftmaxGrad", "softmax_backward", Y_DY, axis=axis),
    row("MaximumGrad", "maximum_backward", {"dy": at(0), "condition": array("cond")}),
    row("MinimumGrad", "minimum_backward", {"dy": at(0), "x0": array("x1"), "x1": array("x2")}),
    row("PReLUFunctionGrad", "prelu_backward", named("x", "w", "dy")),
    row("PowVarConstGrad", "pow_backward", {"x0": at(0), "dy": at(1)}, exponent=setting("value")),
    row("PowVarVarGrad", "pow_backward", {"x0": at(0), "x1": at(1), "dy": at(2), "y": array("y")}),
    # products
    row("LinearGradData", "matmul", {"x0": at(1), "x1": at(0)}),
    row("LinearGradWeight", "matmul", {"x0": at(1), "x1": at(0)}, transpose_x0=constant(True)),
    row("Convolution2DGradW", "conv_backward", X_DY, **OF_WEIGHT, **WINDOW_2D, dilation=settings("dy", "dx")),
    row(
        "ConvolutionNDGradW",
        "conv_backward",
        X_DY,
        **OF_WEIGHT,
        kernel=setting("ksize"),
        stride=setting("stride"),
        padding=setting("pad"),
        dilation=setting("dilate"),
    ),
    row("EmbedIDGrad", "embedding_backward", X_DY),
    row("BatchL2NormSquaredGrad", "reduce_sum_square_backward", X_DY),
    # normalisation and pooling
    row(
        "BatchRenormalizationFunctionBackward",
        "batch_renorm_backward",
        {"dy": gradient(0), "x": at(0), "w": at(1)},
    ),
    row(
        "DecorrelatedBatchNormalizationGrad",
        "decorrelated_batch_norm_backward",
        {"dy": at(0), "values": array("eigvals"), "vectors": array("eigvectors"), "y": array("y_hat_pca")},
        groups=setting("groups"),
    ),
    row(
        "FixedDecorrelatedBatchNormalizationGrad",
        "fixed_decorrelated_batch_norm_backward",
        {"dy": at(3), "x": at(0), "mean": at(1), "projection": at(2)},
        groups=setting("groups"),
    ),
    row("_XHat", "normalize_rows", {"x": at(0), "mean": array("mean"), "scale": array("inv_std")}),
    row("_MulInvStd", "mul", {"x0": at(1), "x1": array("inv_std")}),
    row("_ScaleShiftGrad", "scale_shift_backward", {"dy": at(2), "x": at(0), "w": at(1)}),
    # what it reads is the normalised x, of the size of x, which it holds and lets go of
    row("_XHatGrad", "normalize_rows_backward", {"dy": at(1), "y": at(0), "scale": array("inv_std")}),
    row("_SetItemZero", "masked_scatter", {"updates": at(0), "mask": array("mask")}),
    row(
        "LocalResponseNormalizationGrad",
        "local_response_norm_backward",
        {"dy": at(2), "x": at(0), "y": at(1), "u": array("unit_scale"), "scale": array("scale")},
        size=setting("n"),
    ),
    row(
        "BatchNormalizationGrad",
        "batch_norm_backward",
        named("x", "w", "dy"),
        training=constant(True),
        needs=constant(("x", "w", "b")),
    ),
    row(
        "FixedBatchNormalizationGrad",
        "batch_norm_backward",
        {"x": at(0), "w": at(1), "mean": at(2), "var": at(3), "dy": at(4)},
        training=constant(False),
        needs=constant(("x", "w", "b")),
    ),
    row("AveragePooling2DGrad", "avg_pool_backward", DY, **WINDOW_2D),
    row("AveragePoolingNDGrad", "avg_pool_backward", DY, kernel=of_pooling("ksize")),
    row(
        "MaxPoolingNDGrad",
        "max_pool_backward",
        {"dy": at(0), "indices": of_pooling("indexes")},
        kernel=of_pooling("ksize"),
    ),
    row("MaxPoolingNDWithIndexes", "gather_elements", {"x": at(0), "indices": of_pooling("indexes")}),
    row("Unpooling2DGrad", "unpool_backward", DY, **WINDOW_2D),
    row("UnpoolingNDGrad", "unpool_backward", DY, kernel=setting("ksize")),
    row("Upsampling2DGrad", "unpool_backward", {"dy": at(0), "indices": array("indexes")}, **WINDOW_2D),
    # arrays
    row("AsStridedGrad", "as_strided_backward", DY),
    row("Assign", "gather_backward", {"dy": at(0), "indices": array("t")}, axis=constant(1)),
    row("RepeatGrad", "repeat_backward", DY),
    row("Cumprodsum", "linear_recurrence", {"x0": at(1), "x1": at(0)}, axis=setting("axis")),
    row("DiagonalGrad", "diagonal_backward", DY),
    Row("chainer::GetItemGrad", "slice_backward", DY, when=lambda args: not index_arrays(args)),
    row("GetItemGrad", "gather_backward", {"dy": at(0), "indices*": index_arrays}),
    row("Im2ColGrad", "col2im", {"x": at(0)}, **WINDOW_2D, dilation=settings("dy", "dx")),
    row("ResizeImagesGrad", "resize_backward", DY, mode=resize_mode, align_corners=setting("align_corners")),
    # losses
    row(
        "SigmoidCrossEntropyGrad",
        "binary_cross_entropy_with_logits_backward",
        {**X_DY, "target": array("t")},
        reduction=reduction,
    ),
    row(
        "_SoftmaxCrossEntropyGrad_NoDoubleBackprop",
        "cross_entropy_backward",
        {"y": scores, "target": at(1), "dy": at(2)},
    ),
)
