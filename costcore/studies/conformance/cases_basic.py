"""Activations, arithmetic, reductions, layout and pooling, worked out by hand.

The comment of each row gives the shapes and the attributes of the layer. Elements are float32 (4 bytes) and indices
int64 (8 bytes), unless the comment says otherwise. Scalars are constants.
"""

from __future__ import annotations

from costcore.ir import Operations
from costcore.studies.conformance.case import Case

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

CASES: tuple[Case, ...] = ACTIVATIONS + ARITHMETIC + REDUCTIONS + POOLING + LAYOUT
