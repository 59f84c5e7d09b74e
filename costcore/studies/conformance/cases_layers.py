"""Layers with weights, attention, recurrence, normalization and losses, worked out by hand. All dtypes are float32.

Bytes are 4 times the elements, each read and written once; the comment above each row gives the shapes.
"""

from __future__ import annotations

from costcore.ir import Operations
from costcore.studies.conformance.case import Case

F = 4  # bytes of a float32
L = 8  # bytes of an int64

CONNECTION = (
    # x[2, 3, 10], w[4, 3, 3], b[4] -> y[2, 4, 8]: 64 dot products of length 9 onto the bias
    Case("conv1d", "conv", Operations(fma=64 * 9), F * (60 + 36 + 4), F * 64, 64 * 9, 36 + 4),
    # x[1, 3, 8, 8], w[5, 3, 3, 3], padding 1 -> y[1, 5, 8, 8]: 320 dot products of length 27 onto nothing
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
    # x[4, 5], w[3, 5] -> y[4, 3]: 12 dot products of length 5 onto nothing
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

CASES: tuple[Case, ...] = (*CONNECTION, *NORMALIZATION, *ATTENTION, *RECURRENT, *LOSS, *NOISE)
