"""The conformance kit of frontends: layers with costs worked out by hand, and whole networks with totals of PyTorch.

A frontend offers builders for the rows that it can express; :class:`Conformance` compares their costs with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from costcore.errors import CostError, unknown
from costcore.ir import Operations
from costcore.reports.report import Report
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result, Table
from costcore.text.output import Column

# Rows.


class Case(NamedTuple):
    """A layer and its cost, worked out by hand.

    Attributes:
        name: the name under which each framework has a builder for it.
        op: canonical name of the operator with this cost; other operators of the run are ignored.
        operations: number of operations by class.
        mread, mwrite: bytes read and written.
        macs: multiply-accumulates of matrix products.
        n_params: learned parameters that the whole run reads.
    """

    name: str
    op: str
    operations: Operations
    mread: int
    mwrite: int
    macs: int = 0
    n_params: int = 0


# Activations, arithmetic, reductions, layout and pooling.
#
# The comment of each row gives the shapes and the attributes of the layer. Elements are float32 (4 bytes) and indices
# int64 (8 bytes), unless the comment says otherwise. Scalars are constants.


# x [2, 3, 4, 4] of 96 elements
ACTIVATIONS: tuple[Case, ...] = (
    Case("relu", "relu", Operations(cmp=96), 96 * 4, 96 * 4),
    # min(max(x, 0), 6)
    Case("relu6", "relu6", Operations(cmp=2 * 96), 96 * 4, 96 * 4),
    # slope of 0.1
    Case("leaky_relu", "leaky_relu", Operations(mul=96, cmp=96), 96 * 4, 96 * 4),
    # one slope per channel, w [3]
    Case("prelu", "prelu", Operations(mul=96, cmp=96), (96 + 3) * 4, 96 * 4, n_params=3),
    # 1 / (1 + exp(-x))
    Case("sigmoid", "sigmoid", Operations(add=2 * 96, div=96, special=96), 96 * 4, 96 * 4),
    Case("tanh", "tanh", Operations(special=96), 96 * 4, 96 * 4),
    Case("gelu", "gelu", Operations(mul=3 * 96, add=96, special=96), 96 * 4, 96 * 4),
    # approximate="tanh"
    Case("gelu_tanh", "gelu", Operations(mul=6 * 96, add=2 * 96, special=96), 96 * 4, 96 * 4),
    # x / (1 + exp(-x)) counted as x * sigmoid(x)
    Case("silu", "silu", Operations(mul=96, add=2 * 96, div=96, special=96), 96 * 4, 96 * 4),
    # x * tanh(log(1 + exp(x)))
    Case("mish", "mish", Operations(mul=96, add=96, special=3 * 96), 96 * 4, 96 * 4),
    # log(1 + exp(x)), beta 1
    Case("softplus", "softplus", Operations(add=96, special=2 * 96), 96 * 4, 96 * 4),
    # x / (1 + |x|)
    Case("softsign", "softsign", Operations(add=2 * 96, div=96), 96 * 4, 96 * 4),
    Case("elu", "elu", Operations(mul=96, add=96, cmp=96, special=96), 96 * 4, 96 * 4),
    Case("selu", "selu", Operations(mul=2 * 96, add=96, cmp=96, special=96), 96 * 4, 96 * 4),
    # scale, shift, clamp to [0, 1]
    Case("hard_sigmoid", "hard_sigmoid", Operations(mul=96, add=96, cmp=2 * 96), 96 * 4, 96 * 4),
    Case("hard_swish", "hard_swish", Operations(mul=2 * 96, add=96, cmp=2 * 96), 96 * 4, 96 * 4),
    # 0 within [-0.5, 0.5]: two comparisons; beyond it, shifted by 0.5 towards 0
    Case("hard_shrink", "hard_shrink", Operations(cmp=2 * 96), 96 * 4, 96 * 4),
    Case("soft_shrink", "soft_shrink", Operations(add=2 * 96, cmp=2 * 96), 96 * 4, 96 * 4),
    # to [-1, 2]: two bounds
    Case("clip", "clip", Operations(cmp=2 * 96), 96 * 4, 96 * 4),
    # from 0: one bound
    Case("clip_below", "clip", Operations(cmp=96), 96 * 4, 96 * 4),
)

ARITHMETIC: tuple[Case, ...] = (
    # [3, 1] + [1, 4] -> [3, 4]
    Case("add_broadcast", "add", Operations(add=12), (3 + 4) * 4, 12 * 4),
    # [3, 4] + 2
    Case("add_scalar", "add", Operations(add=12), 12 * 4, 12 * 4),
    # [3, 4] - [3, 4]
    Case("sub", "sub", Operations(add=12), 2 * 12 * 4, 12 * 4),
    # [3, 4] * [4] -> [3, 4]
    Case("mul", "mul", Operations(mul=12), (12 + 4) * 4, 12 * 4),
    # [3, 4] / [3, 4]
    Case("div", "div", Operations(div=12), 2 * 12 * 4, 12 * 4),
    # [3, 4] to the power of [3, 4]
    Case("pow", "pow", Operations(special=12), 2 * 12 * 4, 12 * 4),
    # [3, 4] to the constant power of 2: x * x
    Case("pow_square", "pow", Operations(mul=12), 12 * 4, 12 * 4),
    # maximum of [3, 4] and [3, 4]
    Case("maximum", "maximum", Operations(cmp=12), 2 * 12 * 4, 12 * 4),
    # x [3, 4]
    Case("neg", "neg", Operations(add=12), 12 * 4, 12 * 4),
    Case("abs", "abs", Operations(add=12), 12 * 4, 12 * 4),
    Case("exp", "exp", Operations(special=12), 12 * 4, 12 * 4),
    Case("log", "log", Operations(special=12), 12 * 4, 12 * 4),
    Case("sqrt", "sqrt", Operations(special=12), 12 * 4, 12 * 4),
    Case("erf", "erf", Operations(special=12), 12 * 4, 12 * 4),
    # [3, 4] < [3, 4] -> bool
    Case("less", "less", Operations(cmp=12), 2 * 12 * 4, 12 * 1),
    # condition [3, 4] bool, x0 [3, 4], x1 [3, 4]
    Case("where", "where", Operations(cmp=12), 12 * 1 + 2 * 12 * 4, 12 * 4),
)

# x [2, 3, 4] of 24 elements
REDUCTIONS: tuple[Case, ...] = (
    # over axes 1 and 2: 2 rows of 12
    Case("reduce_sum", "reduce_sum", Operations(add=2 * 11), 24 * 4, 2 * 4),
    # over axis 1: 8 rows of 3
    Case("reduce_mean", "reduce_mean", Operations(add=8 * 2, div=8), 24 * 4, 8 * 4),
    # over axis 2: 6 rows of 4
    Case("reduce_max", "reduce_max", Operations(cmp=6 * 3), 24 * 4, 6 * 4),
    # over all axes
    Case("reduce_min", "reduce_min", Operations(cmp=23), 24 * 4, 1 * 4),
    # over axis 2: 6 rows of 4; int64 (excluded in Chainer: int32)
    Case("argmax", "argmax", Operations(cmp=6 * 3), 24 * 4, 6 * 8),
    # over axis 2: 6 rows of 4: 4 exp, 3 add, a log
    Case("log_sum_exp", "reduce_log_sum_exp", Operations(add=6 * 3, special=6 * 5), 24 * 4, 6 * 4),
    # along axis 1: 8 rows of 3
    Case("cumsum", "cumsum", Operations(add=8 * 2), 24 * 4, 24 * 4),
    # the 2 largest along axis 2: 6 rows of 4, sorted by 4 * log2(4) comparisons; values and int64 indices
    Case("topk", "topk", Operations(cmp=6 * 4 * 2), 24 * 4, 12 * 4 + 12 * 8),
)

# x [1, 2, 6, 6] of 72 elements
POOLING: tuple[Case, ...] = (
    # kernel 3, stride 2, padding 1: y [1, 2, 3, 3]
    Case("max_pool", "max_pool", Operations(cmp=18 * 8), 72 * 4, 18 * 4),
    # kernel 3, stride 2, padding 1, padding counted: y [1, 2, 3, 3]
    Case("avg_pool", "avg_pool", Operations(add=18 * 8, div=18), 72 * 4, 18 * 4),
    # kernel 6: y [1, 2, 1, 1]
    Case("global_avg_pool", "avg_pool", Operations(add=2 * 35, div=2), 72 * 4, 2 * 4),
    # to [1, 2, 4, 4]: windows of 2 elements along each axis (0..2, 1..3, 3..5, 4..6)
    Case("adaptive_avg_pool", "adaptive_avg_pool", Operations(add=32 * 3, div=32), 72 * 4, 32 * 4),
    # nearest, to [1, 2, 12, 12]
    Case("resize_nearest", "resize", Operations(), 72 * 4, 288 * 4),
    # bilinear, to [1, 2, 12, 12]
    Case("resize_bilinear", "resize", Operations(mul=3 * 288, add=6 * 288), 72 * 4, 288 * 4),
    # bilinear, to [1, 2, 2, 2]: 8 samples of 4 elements
    Case("resize_bilinear_down", "resize", Operations(mul=3 * 8, add=6 * 8), 4 * 8 * 4, 8 * 4),
    # two affine maps of the plane, theta[2, 2, 3], at 5 x 6 points: 2 dot products of length 3 per point
    Case("affine_grid", "affine_grid", 2 * 30 * 2 * Operations(mul=1, fma=2), 12 * 4, 2 * 30 * 2 * 4, 2 * 30 * 2 * 3),
)

LAYOUT: tuple[Case, ...] = (
    # [2, 3] and [2, 5] along axis 1
    Case("concat", "concat", Operations(), (6 + 10) * 4, 16 * 4),
    # [3, 4] and [3, 4] along a new axis 0
    Case("stack", "stack", Operations(), 2 * 12 * 4, 24 * 4),
    # [6, 4] in 3 parts of 2 along axis 0, copied
    Case("split", "split", Operations(), 24 * 4, 24 * 4),
    # rows 1 and 2 of [6, 4], copied
    Case("slice", "slice", Operations(), 8 * 4, 8 * 4),
    # [2, 3, 4] to [4, 2, 3], copied
    Case("transpose", "transpose", Operations(), 24 * 4, 24 * 4),
    # [1, 4] to [3, 4], copied
    Case("broadcast_to", "broadcast_to", Operations(), 4 * 4, 12 * 4),
    # [2, 3] to [3, 2]
    Case("reshape", "reshape", Operations(), 0, 0),
    # [2, 3] with zeros to [4, 7]
    Case("pad", "pad", Operations(), 6 * 4, 28 * 4),
    # [2, 3] twice along axis 0, three times along axis 1
    Case("tile", "tile", Operations(), 6 * 4, 36 * 4),
    # 4 of the 10 rows of [10, 3]
    Case("gather", "gather", Operations(), 12 * 4 + 4 * 8, 12 * 4),
    # indices [2, 5] into w [20, 8]
    Case("embedding", "embedding", Operations(), 10 * 8 + 80 * 4, 80 * 4, n_params=160),
    # [3, 4] to float16
    Case("cast", "cast", Operations(), 12 * 4, 12 * 2),
    # [1, 8, 2, 3] in blocks of 2 to [1, 2, 4, 6]
    Case("depth_to_space", "depth_to_space", Operations(), 48 * 4, 48 * 4),
)

BASIC_CASES: tuple[Case, ...] = ACTIVATIONS + ARITHMETIC + REDUCTIONS + POOLING + LAYOUT


# Layers with weights, attention, recurrence, normalization and losses.
#
# All dtypes are float32: bytes are 4 times the elements, each read and written once. The comment above each row gives
# the shapes.


F = 4  # bytes of a float32

L = 8  # bytes of an int64

CONNECTION = (
    # x[2, 3, 10], w[4, 3, 3], b[4] -> y[2, 4, 8]: 64 dot products of length 9 added to the bias
    Case("conv1d", "conv", Operations(fma=64 * 9), F * (60 + 36 + 4), F * 64, 64 * 9, 36 + 4),
    # x[1, 3, 8, 8], w[5, 3, 3, 3], padding 1 -> y[1, 5, 8, 8]: 320 dot products of length 27 without a bias
    Case("conv2d_no_bias", "conv", Operations(mul=320, fma=320 * 26), F * (192 + 135), F * 320, 320 * 27, 135),
    # x[1, 3, 8, 8], w[5, 3, 3, 3], b[5], stride 2, padding 1 -> y[1, 5, 4, 4]
    Case("conv2d_stride", "conv", Operations(fma=80 * 27), F * (192 + 135 + 5), F * 80, 80 * 27, 135 + 5),
    # x[1, 2, 9, 9], w[3, 2, 3, 3], b[3], dilation 2 -> y[1, 3, 5, 5]
    Case("conv2d_dilation", "conv", Operations(fma=75 * 18), F * (162 + 54 + 3), F * 75, 75 * 18, 54 + 3),
    # x[2, 4, 6, 6], w[8, 2, 3, 3], b[8], 2 groups -> y[2, 8, 4, 4]: 256 dot products of length 2 x 9
    Case("conv2d_groups", "conv", Operations(fma=256 * 18), F * (288 + 144 + 8), F * 256, 256 * 18, 144 + 8),
    # x[1, 6, 5, 5], w[6, 1, 3, 3], padding 1, 6 groups, no bias -> y[1, 6, 5, 5]: 150 dot products of length 9
    Case("conv2d_depthwise", "conv", Operations(mul=150, fma=150 * 8), F * (150 + 54), F * 150, 150 * 9, 54),
    # x[1, 2, 4, 4, 4], w[3, 2, 2, 2, 2], b[3] -> y[1, 3, 3, 3, 3]: 81 dot products of length 16
    Case("conv3d", "conv", Operations(fma=81 * 16), F * (128 + 48 + 3), F * 81, 81 * 16, 48 + 3),
    # x[1, 3, 4, 4], w[3, 2, 3, 3], no bias, stride 2 -> y[1, 2, 9, 9]: 2 x 9 products for each of 48 elements
    Case("conv_transpose2d_no_bias", "conv_transpose", Operations(fma=48 * 18), F * (48 + 54), F * 162, 48 * 18, 54),
    # x[1, 4, 3, 3], w[4, 3, 2, 2], b[6], stride 2, 2 groups -> y[1, 6, 6, 6]: 3 x 4 products for each of 36 elements
    Case(
        "conv_transpose2d_groups",
        "conv_transpose",
        Operations(fma=36 * 12),
        F * (36 + 48 + 6),
        F * 216,
        36 * 12,
        48 + 6,
    ),
    # x[4, 5], w[3, 5], b[3] -> y[4, 3]
    Case("linear", "linear", Operations(fma=12 * 5), F * (20 + 15 + 3), F * 12, 12 * 5, 15 + 3),
    # x[2, 4, 5], w[3, 5], b[3] -> y[2, 4, 3]
    Case("linear_3d", "linear", Operations(fma=24 * 5), F * (40 + 15 + 3), F * 24, 24 * 5, 15 + 3),
    # x[4, 5], w[3, 5] -> y[4, 3]: 12 dot products of length 5 without a bias
    Case("linear_no_bias", "linear", Operations(mul=12, fma=12 * 4), F * (20 + 15), F * 12, 12 * 5, 15),
    # x0[3, 4], x1[4, 5] -> y[3, 5]
    Case("matmul", "matmul", Operations(mul=15, fma=15 * 3), F * (12 + 20), F * 15, 15 * 4),
    # x0[2, 3, 4], x1[2, 4, 5] -> y[2, 3, 5]
    Case("matmul_batched", "matmul", Operations(mul=30, fma=30 * 3), F * (24 + 40), F * 30, 30 * 4),
    # x0[2, 3, 4], x1[4, 5] -> y[2, 3, 5]: the second operand is read once
    Case("matmul_broadcast", "matmul", Operations(mul=30, fma=30 * 3), F * (24 + 20), F * 30, 30 * 4),
    # x0[2, 3], x1[2, 4], w[5, 3, 4], b[5] -> y[2, 5]: 10 x 4 dot products of length 3, then 10 of length 4 onto b
    Case(
        "bilinear",
        "bilinear",
        Operations(mul=40, fma=40 * 2 + 10 * 4),
        F * (6 + 8 + 60 + 5),
        F * 10,
        40 * 3 + 10 * 4,
        60 + 5,
    ),
    # "bij,bjk->bik": x0[2, 3, 4], x1[2, 4, 5] -> y[2, 3, 5]
    Case("einsum", "einsum", Operations(mul=30, fma=30 * 3), F * (24 + 40), F * 30, 30 * 4),
)

NORMALIZATION = (
    # x[2, 3, 4, 4], four vectors of 3 -> y[2, 3, 4, 4]: scale and shift; two folded vectors are read
    Case("batch_norm_inference", "batch_norm", Operations(fma=96), F * (96 + 2 * 3), F * 96, n_params=3 + 3),
    # the same in training, per channel of m = 2 x 16 = 32 elements: 2m+2 fma, 5 mul, 2m add, 3 div, 1 special
    Case(
        "batch_norm_training",
        "batch_norm",
        Operations(fma=3 * 66, mul=3 * 5, add=3 * 64, div=3 * 3, special=3),
        F * (96 + 4 * 3),
        F * (96 + 2 * 3),
        n_params=3 + 3,
    ),
    # x[2, 5, 8], w[8], b[8]: 10 rows of c = 8: 2c-1 fma, c+1 mul, 2c add, 3 div, 1 special
    Case(
        "layer_norm",
        "layer_norm",
        Operations(fma=10 * 15, mul=10 * 9, add=10 * 16, div=10 * 3, special=10),
        F * (80 + 8 + 8),
        F * 80,
        n_params=8 + 8,
    ),
    # x[2, 5, 8] without weight and bias: c fewer fma
    Case(
        "layer_norm_plain",
        "layer_norm",
        Operations(fma=10 * 7, mul=10 * 9, add=10 * 16, div=10 * 3, special=10),
        F * 80,
        F * 80,
    ),
    # x[2, 6, 2, 2], w[6], b[6], 3 groups: 2 x 3 rows of 2 x 4 = 8 elements
    Case(
        "group_norm",
        "group_norm",
        Operations(fma=6 * 15, mul=6 * 9, add=6 * 16, div=6 * 3, special=6),
        F * (48 + 6 + 6),
        F * 48,
        n_params=6 + 6,
    ),
    # x[2, 3, 2, 3], w[3], b[3]: 2 x 3 rows of 6 elements
    Case(
        "instance_norm",
        "instance_norm",
        Operations(fma=6 * 11, mul=6 * 7, add=6 * 12, div=6 * 3, special=6),
        F * (36 + 3 + 3),
        F * 36,
        n_params=3 + 3,
    ),
    # x[4, 8], w[8]: 4 rows of c = 8: c-1 fma, 2c+1 mul, 1 add, 2 div, 1 special
    Case(
        "rms_norm",
        "rms_norm",
        Operations(fma=4 * 7, mul=4 * 17, add=4, div=4 * 2, special=4),
        F * (32 + 8),
        F * 32,
        n_params=8,
    ),
    # x[4, 6] over axis 1: 4 rows of c = 6: c-1 fma, 1 mul, 1 add, c div, 1 special
    Case("l2_normalize", "l2_normalize", Operations(fma=4 * 5, mul=4, add=4, div=4 * 6, special=4), F * 24, F * 24),
    # x[1, 6, 3, 3], window 5: per element 1 fma, 2 mul, 4 add, 1 special
    Case(
        "local_response_norm",
        "local_response_norm",
        Operations(fma=54, mul=54 * 2, add=54 * 4, special=54),
        F * 54,
        F * 54,
    ),
    # x[4, 6] over axis 1: 4 rows of c = 6: c-1 add, c div, c special
    Case("softmax", "softmax", Operations(add=4 * 5, div=4 * 6, special=4 * 6), F * 24, F * 24),
    # the same: 2c-1 add, c+1 special
    Case("log_softmax", "log_softmax", Operations(add=4 * 11, special=4 * 7), F * 24, F * 24),
)

# q[1, 2, 3, 4], k[1, 2, 5, 4], v[1, 2, 5, 4] -> y[1, 2, 3, 4]: 2 x 3 x 5 = 30 scores in 6 rows of 5. Dot products:
# 30 of length 4 and 24 of length 5; 30 mul for the scale; per row of the softmax 4 add, 5 div, 5 special.
SCORES = Operations(
    mul=30 + 24 + 30,
    fma=30 * 3 + 24 * 4,
    add=6 * 4,
    div=6 * 5,
    special=6 * 5,
)

READ = 24 + 40 + 40

ATTENTION = (
    Case("attention", "attention", SCORES, F * READ, F * 24, 30 * 4 + 24 * 5),
    # with mask[3, 5] of bool, one byte each: a selection per score
    Case("attention_bool_mask", "attention", SCORES + Operations(cmp=30), F * READ + 15, F * 24, 30 * 4 + 24 * 5),
    # with mask[3, 5] of float32: an addition per score
    Case("attention_float_mask", "attention", SCORES + Operations(add=30), F * (READ + 15), F * 24, 30 * 4 + 24 * 5),
    # q, k, v[1, 2, 4, 3], causal: 2 x 4 x 4 = 32 scores in 8 rows of 4, all of them counted
    Case(
        "attention_causal",
        "attention",
        Operations(mul=32 + 24 + 32, fma=32 * 2 + 24 * 3, add=8 * 3, div=32, special=32),
        F * (24 + 24 + 24),
        F * 24,
        32 * 3 + 24 * 4,
    ),
    # q[1, 4, 3, 2], k and v[1, 2, 5, 2]: 4 x 3 x 5 = 60 scores in 12 rows of 5; two query heads share a key head
    Case(
        "attention_grouped",
        "attention",
        Operations(mul=60 + 24 + 60, fma=60 * 1 + 24 * 4, add=12 * 4, div=60, special=60),
        F * (24 + 20 + 20),
        F * 24,
        60 * 2 + 24 * 5,
    ),
)

RECURRENT = (
    # x[5, 2, 3], h0, c0[1, 2, 4], w[16, 3], w[16, 4], two b[16] -> y[5, 2, 4], hn, cn[1, 2, 4]: 10 steps of 4 units,
    # each 4 (3 + 4) + 1 fma, 2 mul, 6 add, 3 div, 5 special
    Case(
        "lstm",
        "lstm",
        Operations(fma=40 * 29, mul=40 * 2, add=40 * 6, div=40 * 3, special=40 * 5),
        F * (30 + 8 + 8 + 48 + 64 + 16 + 16),
        F * (40 + 8 + 8),
        40 * 28,
        48 + 64 + 16 + 16,
    ),
    # two layers, two directions, of 4 units: x[5, 2, 3], h0, c0[4, 2, 4], then w[16, 3], w[16, 4], two b[16] twice, and
    # w[16, 8], w[16, 4], two b[16] twice -> y[5, 2, 8], hn, cn[4, 2, 4]; the upper layer has gates of 8 + 4
    Case(
        "lstm_two_layers_bidirectional",
        "lstm",
        Operations(fma=80 * 29 + 80 * 49, mul=160 * 2, add=160 * 6, div=160 * 3, special=160 * 5),
        F * (30 + 32 + 32 + 2 * (48 + 64 + 32) + 2 * (128 + 64 + 32)),
        F * (80 + 32 + 32),
        80 * 28 + 80 * 48,
        2 * (48 + 64 + 32) + 2 * (128 + 64 + 32),
    ),
    # x[5, 2, 3], h0[1, 2, 4], w[12, 3], w[12, 4], two b[12] -> y[5, 2, 4], hn[1, 2, 4], reset after: 10 steps of 4
    # units, each 3 (3 + 4) + 1 fma, 2 mul, 6 add, 2 div, 3 special
    Case(
        "gru",
        "gru",
        Operations(fma=40 * 22, mul=40 * 2, add=40 * 6, div=40 * 2, special=40 * 3),
        F * (30 + 8 + 36 + 48 + 12 + 12),
        F * (40 + 8),
        40 * 21,
        36 + 48 + 12 + 12,
    ),
    # x[5, 2, 3], h0[1, 2, 4], w[4, 3], w[4, 4], two b[4] -> y[5, 2, 4], hn[1, 2, 4], tanh: per unit 7 fma, 1 special
    Case(
        "rnn",
        "rnn",
        Operations(fma=40 * 7, special=40),
        F * (30 + 8 + 12 + 16 + 4 + 4),
        F * (40 + 8),
        40 * 7,
        12 + 16 + 4 + 4,
    ),
    # the same in two layers, relu: the upper one reads 4 features, w[4, 4] twice and two b[4]
    Case(
        "rnn_two_layers_relu",
        "rnn",
        Operations(fma=40 * 7 + 40 * 8, cmp=80),
        F * (30 + 16 + (12 + 16 + 8) + (16 + 16 + 8)),
        F * (40 + 16),
        40 * 7 + 40 * 8,
        (12 + 16 + 8) + (16 + 16 + 8),
    ),
)

LOSS = (
    # x[4, 3], target[4] of int64: 4 rows of c = 3: 2c add, c+1 special; the mean 3 add, 1 div
    Case(
        "cross_entropy",
        "cross_entropy",
        Operations(add=4 * 6 + 3, special=4 * 4, div=1),
        F * 12 + L * 4,
        F * 1,
    ),
    # x[4, 3], target[4, 3]: 12 subtractions, 12 squares accumulated, 1 div
    Case("mse_loss", "mse_loss", Operations(add=12, mul=1, fma=11, div=1), F * (12 + 12), F * 1),
)

NOISE = (
    Case("dropout_inference", "dropout", Operations(), 0, 0),
    # x[4, 6]: 24 mul and cmp; the mask is written as one byte each
    Case("dropout_training", "dropout", Operations(mul=24, cmp=24), F * 24, F * 24 + 24),
)

LAYER_CASES: tuple[Case, ...] = (*CONNECTION, *NORMALIZATION, *ATTENTION, *RECURRENT, *LOSS, *NOISE)


# The whole table.


__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (*BASIC_CASES, *LAYER_CASES)


# Whole networks: every frontend must count the same integers as PyTorch's.


class Network(NamedTuple):
    """A network with the totals of PyTorch's frontend.

    Attributes:
        name: the name under which a frontend has a builder for it.
        text: its inputs and where it is from.
        macs: multiply-accumulates of matrix products.
        n_params: learned parameters.
    """

    name: str
    text: str
    macs: int
    n_params: int


NETWORKS: tuple[Network, ...] = (
    Network("vgg16", "1 x 3 x 224 x 224, torchvision", 15_470_264_320, 138_357_544),
    Network("resnet50", "1 x 3 x 224 x 224, torchvision", 4_089_184_256, 25_557_032),
    Network("densenet121", "1 x 3 x 224 x 224, torchvision", 2_834_161_664, 7_978_856),
    Network("mobilenet_v2", "1 x 3 x 224 x 224, torchvision", 300_774_272, 3_504_872),
    Network("mobilenet_v3_large", "1 x 3 x 224 x 224, torchvision", 216_589_760, 5_483_032),
    Network("inception_v3", "1 x 3 x 299 x 299, torchvision, without its second head", 5_713_216_096, 23_834_568),
    Network("vit_b_16", "1 x 3 x 224 x 224, torchvision", 17_563_828_224, 86_567_656),
    Network("unet", "1 x 3 x 64 x 64, width 16, depth 2, unpadded, arXiv:1505.04597", 37_064_384, 117_058),
    Network("encoder", "2 x 8 of 50 words, width 16, 4 heads, 64 hidden, one block, norms behind", 53_248, 4_080),
    # 28 x 28 x 6 x 25 + 10 x 10 x 16 x 6 x 25 + 400 x 120 + 120 x 84 + 84 x 10 MACs;
    # 156 + 2,416 + 48,120 + 10,164 + 850 parameters
    Network("lenet5", "1 x 1 x 32 x 32, LeCun et al. 1998, all maps connected", 416_520, 61_706),
    # 10 steps of 4 sequences by 4 gates of 64 cells with 32 + 64 weights; 2 biases of 256
    Network("lstm_network", "10 x 4 x 32, 64 cells", 983_040, 25_088),
    # 3 layers of 784 x 256, 256 x 256 and 256 x 10
    Network("mlp", "8 x 784, 256 hidden twice, 10 classes", 2_150_400, 269_322),
)
"""The networks, in evaluation mode."""


# The check of a frontend.


Builder = Callable[[], Report]
"""Returns the report of a layer or network: ``lambda: estimate(relu, (2, 3, 4, 4))``."""

LAYERS: Mapping[str, Case] = {case.name: case for case in CASES}

WHOLE: Mapping[str, Network] = {network.name: network for network in NETWORKS}

EQUAL, DIFFERS, MISSING = "equal", "differs", "not built"
"""The states of a row."""


class Outcome(NamedTuple):
    """The result of a frontend for one row.

    Attributes:
        name: the layer or network.
        kind: ``layer`` or ``network``.
        state: one of :data:`EQUAL`, :data:`DIFFERS`, :data:`MISSING`.
        text: the differences.
    """

    name: str
    kind: str
    state: str
    text: str = ""


class Conformance(Result):
    """The matrix of a frontend: every layer and network with its outcome.

    Args:
        builders: the builders of the frontend, by the names of layers and networks.

    Raises:
        CostError: if a builder has another name; the message suggests near matches.
    """

    outcomes: tuple[Outcome, ...]

    def __init__(self, builders: Mapping[str, Builder]) -> None:
        if others := [name for name in builders if name not in LAYERS and name not in WHOLE]:
            raise CostError(unknown("layer or network", others, [*LAYERS, *WHOLE]))
        rows = {**dict.fromkeys(LAYERS, "layer"), **dict.fromkeys(WHOLE, "network")}
        self.outcomes = tuple(
            outcome(name, builders[name]) if name in builders else Outcome(name, kind, MISSING)
            for name, kind in rows.items()
        )

    @property
    def differences(self) -> tuple[Outcome, ...]:
        """The rows with another cost."""
        return tuple(each for each in self.outcomes if each.state == DIFFERS)

    @property
    def table(self) -> Table:
        """The rows."""
        titles = ("Name", "Kind", "State", "What differs")
        columns = [Column(key, title) for key, title in zip(Outcome._fields, titles, strict=True)]
        return Table("Rows", columns, [each._asdict() for each in self.outcomes])

    def _content(self) -> Content:
        counts = [sum(each.state == state for each in self.outcomes) for state in (EQUAL, DIFFERS, MISSING)]
        names = [("equal", "Equal"), ("differs", "Different"), ("missing", "Not built")]
        figures = [Figure(key, text, count, "count", "rows") for (key, text), count in zip(names, counts, strict=True)]
        return Content("Conformance", figures, [self.table])


def outcome(name: str, build: Builder) -> Outcome:
    """Compare one row with the count of a frontend.

    Args:
        name: the layer or network.
        build: returns its report.

    Raises:
        CostError: for an unknown name.
    """
    if name in LAYERS:
        found = _of_layer(LAYERS[name], build())
        return Outcome(name, "layer", DIFFERS if found else EQUAL, found)
    if name not in WHOLE:
        raise CostError(unknown("layer or network", name, [*LAYERS, *WHOLE]))
    report = build()
    found = _differences(WHOLE[name], {key: report.total_report[key] for key in ("macs", "n_params")}, report)
    return Outcome(name, "network", DIFFERS if found else EQUAL, found)


def _of_layer(case: Case, report: Report) -> str:
    entries = [entry for entry in report.layer_report.values() if entry["op"] == case.op]
    if not entries:
        return f"no call is {case.op}: {', '.join(sorted({str(e['op']) for e in report.layer_report.values()}))}"
    operations = sum((Operations(**entry["operations"]) for entry in entries), Operations())
    found = {"operations": operations, "n_params": report.total_report["n_params"]}
    found |= {name: sum(entry[name] for entry in entries) for name in ("macs", "mread", "mwrite")}
    return _differences(case, found, report)


def _differences(row: Case | Network, found: Mapping[str, object], report: Report) -> str:
    texts = [
        f"{name} {value} (expected {getattr(row, name)})"
        for name, value in found.items()
        if value != getattr(row, name)
    ]
    ignored = ", ".join(sorted({str(each) for each in report.ignored_layers}))
    return "; ".join([*texts, *([f"not counted: {ignored}"] if ignored else [])])
