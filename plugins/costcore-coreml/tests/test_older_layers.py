"""Layers of the older format by the numbers of NeuralNetwork.proto (coremltools 9.0), with hand-computed costs.

A row: the layer of the proto, its field, its parameters, the shapes of its inputs; operators, the shape of the result,
FLOPs (a fused multiply-add is one) and learned parameters.
"""

import struct

import pytest
from program import TYPES, Op, V, feature, model, number, part, saved, varint
from program import network as layers

from costcore import CostError, estimate

MAP = (2, 3, 4, 4)
"""96 elements."""


def floats(field, *values):
    return part(field, struct.pack(f"<{len(values)}f", *values))


def one(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def sizes(field, *values):
    return part(field, *map(varint, values))


def weights(field):
    """Return weights of float32; their size follows from the parameters of their layer."""
    return part(field, floats(1, 0.0))


# The functions of the layer ``unary`` in their order; the inverse of a square root is a division too.
UNARY = [
    *(("sqrt", 96), ("rsqrt", 192), ("reciprocal", 96), ("pow", 96), ("exp", 96), ("log", 96), ("abs", 96)),
    ("threshold", 96),
]

# The field of a layer without parameters, its operator, and FLOPs per element.
OF_ELEMENTS = [
    *((660, "clip", 2), (665, "ceil", 1), (670, "floor", 1), (680, "sign", 2), (685, "round", 1), (700, "exp2", 1)),
    *((710, "sin", 1), (715, "cos", 1), (720, "tan", 1), (730, "asin", 1), (735, "acos", 1), (740, "atan", 1)),
    *((750, "sinh", 1), (755, "cosh", 1), (760, "tanh", 1), (770, "asinh", 1), (775, "acosh", 1), (780, "atanh", 1)),
    *((790, "erf", 1), (850, "logical_not", 1)),
]

BINARY = [
    *((230, "add", 1), (231, "mul", 1), (260, "maximum", 1), (261, "minimum", 1), (870, "minimum", 1)),
    *((875, "maximum", 1), (880, "add", 1), (885, "pow", 1), (890, "div", 1), (900, "mul", 1), (905, "sub", 1)),
    *((815, "equal", 1), (820, "not_equal", 1), (825, "less", 1), (827, "less_equal", 1), (830, "greater", 1)),
    *((832, "greater_equal", 1), (840, "logical_or", 1), (845, "logical_xor", 1), (855, "logical_and", 1)),
]

ACTIVATIONS = [
    *((5, one(1, 2.0) + one(2, 1.0), "scale_and_shift"), (10, b"", "relu"), (15, one(1, 0.1), "leaky_relu")),
    *((20, one(1, 0.5), "threshold"), (30, b"", "tanh"), (31, one(1, 2.0), "scaled_tanh")),
    *((40, b"", "sigmoid"), (41, one(1, 0.2), "hard_sigmoid"), (50, one(1, 1.0), "elu"), (60, b"", "softsign")),
    (70, b"", "softplus"),
]

AXES = enumerate([(2, 1, 1, 1), (2, 3, 1, 1), (2, 1, 4, 4), (2, 3, 1, 4), (2, 3, 4, 1)])
"""Channels, rows and columns; rows and columns; channels; rows; columns."""

REDUCTIONS = [
    *((0, "reduce_sum"), (1, "reduce_mean"), (2, "reduce_prod"), (3, "reduce_log_sum"), (4, "reduce_sum_square")),
    *((5, "reduce_l1"), (6, "reduce_l2"), (7, "reduce_max"), (8, "reduce_min"), (9, "argmax")),
]

CONV = number(1, 6) + number(2, 3) + sizes(20, 3, 3)
LSTM = number(1, 3) + number(2, 4)
OF_LSTM = part(20, weights(1), weights(20), weights(40), weights(60))

ROWS = [
    # 16 places of 6 outputs, 27 products; valid: 2 x 2 places
    ("convolution", 100, CONV + part(51) + weights(90), [MAP], ["conv"], (2, 6, 4, 4), 2 * 16 * 6 * 27, 162),
    ("convolution", 100, CONV + part(50) + weights(90), [MAP], ["conv"], (2, 6, 2, 2), 2 * 4 * 6 * 27, 162),
    # one row above, two below: (4 + 3 - 3) // 2 + 1 rows; 4 - 2 columns; starting at a bias
    (
        "convolution",
        100,
        CONV
        + sizes(30, 2, 1)
        + part(50, part(1, part(10, number(1, 1), number(2, 2)), part(10)))
        + number(70, 1)
        + weights(90)
        + weights(91),
        [MAP],
        ["conv"],
        (2, 6, 3, 2),
        2 * 6 * 6 * 27,
        168,
    ),
    # groups of one channel: 9 products each
    (
        "convolution",
        100,
        number(1, 3) + number(2, 1) + number(10, 3) + part(51) + weights(90),
        [MAP],
        ["conv"],
        (2, 3, 4, 4),
        2 * 16 * 3 * 9,
        27,
    ),
    # the inputs of 16 places times 6 x 9 weights each; without a bias, as many products as in the other direction
    (
        "deconvolution",
        100,
        number(1, 6) + number(2, 3) + sizes(30, 2, 2) + part(50) + number(60, 1) + weights(90) + sizes(100, 9, 9),
        [MAP],
        ["conv_transpose"],
        (2, 6, 9, 9),
        None,
        162,
    ),
    ("pooling", 120, sizes(10, 2, 2) + sizes(20, 2, 2) + part(30), [MAP], ["max_pool"], (2, 3, 2, 2), 24 * 3, 0),
    (
        "pooling",
        120,
        number(1, 1) + sizes(10, 2, 2) + sizes(20, 2, 2) + part(30),
        [MAP],
        ["avg_pool"],
        (2, 3, 2, 2),
        None,
        0,
    ),
    ("pooling", 120, number(1, 2) + number(60, 1), [MAP], ["reduce_l2"], (2, 3, 1, 1), None, 0),
    ("pooling", 120, number(60, 1), [MAP], ["reduce_max"], (2, 3, 1, 1), 6 * 15, 0),
    # including the last pixel, padded by 1: ceil((4 + 2 - 3) / 2) + 1 = 3
    ("pooling", 120, sizes(20, 2, 2) + part(32, sizes(10, 1, 1)), [MAP], ["max_pool"], (2, 3, 3, 3), None, 0),
    ("innerProduct", 140, number(1, 8) + number(2, 5) + weights(20), [(2, 8)], ["linear"], (2, 5), 2 * 5 * 8, 40),
    (
        "innerProduct",
        140,
        number(1, 8) + number(2, 5) + number(10, 1) + weights(20) + weights(21),
        [(2, 8)],
        ["linear"],
        (2, 5),
        2 * 5 * 8,
        45,
    ),
    ("embedding", 150, number(1, 50) + number(2, 6) + weights(20), [(7, 1, 1, 1)], ["embedding"], (7, 6, 1, 1), 0, 300),
    (
        "embedding",
        150,
        number(1, 50) + number(2, 6) + number(10, 1) + weights(20) + weights(21),
        [(7, 1, 1, 1)],
        ["embedding", "add"],
        (7, 6, 1, 1),
        42,
        306,
    ),
    (
        "embeddingND",
        1040,
        number(1, 50) + number(2, 6) + number(3, 1) + weights(20) + weights(21),
        [(7, 2, 1)],
        ["embedding", "add"],
        (7, 2, 6),
        84,
        306,
    ),
    (
        "batchnorm",
        160,
        number(1, 3) + b"".join(map(weights, (15, 16, 17, 18))),
        [MAP],
        ["batch_norm"],
        MAP,
        None,
        6,
    ),
    *(
        ("batchnorm", 160, number(1, 3) + kind + weights(15) + weights(16), [MAP], ["instance_norm"], MAP, None, 6)
        for kind in (number(5, 1) + number(6, 1), number(5, 1))
    ),
    ("scale", 245, sizes(1, 3, 1, 1) + weights(2), [MAP], ["mul"], MAP, 96, 3),
    (
        "scale",
        245,
        sizes(1, 3, 1, 1) + weights(2) + number(3, 1) + sizes(4, 3, 1, 1) + weights(5),
        [MAP],
        ["mul", "add"],
        MAP,
        192,
        6,
    ),
    ("bias", 250, sizes(1, 3, 1, 1) + weights(2), [MAP], ["add"], MAP, 96, 3),
    *(("unary", 220, number(1, i), [MAP], [op], MAP, flops, 0) for i, (op, flops) in enumerate(UNARY)),
    # 2 x + 1, one multiply-add, before the function
    ("unary", 220, number(1, 4) + one(4, 1.0) + one(5, 2.0), [MAP], ["scale_and_shift", "exp"], MAP, 192, 0),
    ("add", 230, one(1, 2.0), [MAP], ["add"], MAP, 96, 0),
    ("multiply", 231, one(1, 2.0), [MAP], ["mul"], MAP, 96, 0),
    ("add", 230, b"", [MAP, MAP, MAP], ["add", "add"], MAP, 192, 0),
    ("max", 260, b"", [MAP, MAP, MAP], ["maximum", "maximum"], MAP, 192, 0),
    ("average", 240, b"", [MAP, MAP], ["add", "mul"], MAP, 192, 0),  # the sum, times 1 / 2
    ("average", 240, b"", [MAP, MAP, MAP], ["add", "add", "mul"], MAP, 288, 0),
    ("greaterThan", 830, one(2, 0.5), [MAP], ["greater"], MAP, 96, 0),
    ("equal", 815, one(1, 0.5), [MAP], ["equal"], MAP, 96, 0),
    *((f"binary {op}", field, b"", [MAP, MAP], [op], MAP, 96 * each, 0) for field, op, each in BINARY),
    *((f"unary {op}", field, b"", [MAP], [op], MAP, 96 * each, 0) for field, op, each in OF_ELEMENTS),
    ("upsample", 210, sizes(1, 2, 3), [MAP], ["resize"], (2, 3, 8, 12), None, 0),
    ("upsample", 210, floats(7, 1.5, 2.5) + number(5, 1), [MAP], ["resize"], (2, 3, 6, 10), None, 0),
    ("resizeBilinear", 211, sizes(1, 6, 7), [MAP], ["resize"], (2, 3, 6, 7), None, 0),
    (
        "padding",
        200,
        part(1) + part(10, part(10, number(1, 1), number(2, 2)), part(10, number(2, 3))),
        [MAP],
        ["pad"],
        (2, 3, 7, 7),
        0,
        0,
    ),
    (
        "crop",
        190,
        part(1, part(10, number(1, 1), number(2, 1)), part(10, number(2, 3))),
        [MAP],
        ["slice"],
        (2, 3, 2, 1),
        0,
        0,
    ),
    ("crop", 190, sizes(5, 0, 0), [MAP, (1, 1, 2, 3)], ["slice"], (2, 3, 2, 3), 0, 0),
    ("reorganizeData", 345, number(2, 2), [MAP], ["space_to_depth"], (2, 12, 2, 2), 0, 0),
    ("reorganizeData", 345, number(1, 1) + number(2, 2), [(2, 8, 1, 2)], ["depth_to_space"], (2, 2, 2, 4), 0, 0),
    ("reorganizeData", 345, number(1, 2) + number(2, 2), [(8, 1, 2)], ["pixel_shuffle"], (2, 2, 4), 0, 0),
    ("sequenceRepeat", 340, number(1, 3), [(2, 1, 3, 4, 4)], ["tile"], (6, 1, 3, 4, 4), 0, 0),
    ("permute", 310, sizes(1, 0, 2, 3, 1), [MAP], ["transpose"], (2, 4, 4, 3), 0, 0),
    ("transpose", 985, sizes(1, 1, 0), [(2, 5)], ["transpose"], (5, 2), 0, 0),
    ("concat", 320, b"", [MAP, MAP], ["concat"], (2, 6, 4, 4), 0, 0),
    ("concatND", 980, number(1, 0), [MAP, MAP], ["concat"], (4, 3, 4, 4), 0, 0),
    ("stack", 925, number(1, 1), [(2, 5), (2, 5)], ["stack"], (2, 2, 5), 0, 0),
    ("flattenTo2D", 1130, number(1, 2), [MAP], ["reshape"], (6, 16), 0, 0),
    ("flattenTo2D", 1130, b"", [MAP], ["reshape"], (1, 96), 0, 0),
    ("squeeze", 1120, number(2, 1), [(1, 3, 1)], ["reshape"], (3,), 0, 0),
    ("squeeze", 1120, sizes(1, 2), [(1, 3, 1)], ["reshape"], (1, 3), 0, 0),
    ("expandDims", 1125, sizes(1, 0), [(3, 4)], ["reshape"], (1, 3, 4), 0, 0),
    ("reshapeStatic", 1140, sizes(1, 6, 16), [MAP], ["reshape"], (6, 16), 0, 0),
    ("rankPreservingReshape", 1150, sizes(1, 2, 12, 2, 2), [MAP], ["reshape"], (2, 12, 2, 2), 0, 0),
    ("constantPad", 1155, sizes(2, 0, 1, 2, 0), [(3, 4)], ["pad"], (4, 6), 0, 0),
    ("broadcastToStatic", 1105, sizes(1, 5, 3), [(1, 3)], ["broadcast_to"], (5, 3), 0, 0),
    ("tile", 920, sizes(1, 2, 3), [(2, 5)], ["tile"], (4, 15), 0, 0),
    ("splitND", 975, number(1, 1) + number(2, 2) + sizes(3, 1, 4), [(2, 5)], ["split"], (2, 1), 0, 0),
    ("sliceBySize", 1470, number(2, 3) + number(3, 1), [(2, 5)], ["slice"], (2, 3), 0, 0),
    (
        "sliceStatic",
        995,
        sizes(1, 0, 1) + sizes(2, 1, 0) + sizes(3, 0, 4) + sizes(4, 1, 0) + sizes(5, 1, 2),
        [(2, 5)],
        ["slice"],
        (2, 2),
        0,
        0,
    ),
    ("slidingWindows", 1005, number(2, 3) + number(3, 2), [(9, 2)], ["im2col"], (4, 3, 2), 0, 0),  # of axis 0
    ("oneHot", 1450, number(1, 7), [(5,)], ["one_hot"], (7, 5), None, 0),  # axis 0
    # each of 3 x 16 sums of 2 elements: the axis of the format is 0 unless stated
    ("softmaxND", 950, b"", [MAP], ["softmax"], MAP, None, 0),
    ("reduceSum", 1270, sizes(1, 2, 3) + number(2, 1), [MAP], ["reduce_sum"], (2, 3, 1, 1), 6 * 15, 0),
    ("reduceSum", 1270, number(3, 1), [MAP], ["reduce_sum"], (), 95, 0),
    ("reduceMax", 1260, sizes(1, 1), [MAP], ["reduce_max"], (2, 4, 4), 32 * 2, 0),
    ("argMax", 1025, number(1, 1) + number(2, 1), [MAP], ["argmax"], (2, 4, 4), 32 * 2, 0),
    ("argMin", 1020, number(1, 1), [MAP], ["argmin"], (2, 1, 4, 4), 32 * 2, 0),
    ("batchedMatmul", 1045, number(2, 1), [(2, 8), (5, 8)], ["matmul"], (2, 5), 2 * 5 * 8, 0),
    ("batchedMatmul", 1045, number(5, 8) + number(6, 5) + weights(8), [(2, 8)], ["linear"], (2, 5), 80, 40),
    (
        "batchedMatmul",
        1045,
        number(5, 8) + number(6, 5) + number(7, 1) + weights(8) + weights(9),
        [(2, 8)],
        ["linear", "add"],
        (2, 5),
        90,
        45,
    ),
    ("layerNormalization", 1350, sizes(1, 8) + weights(3) + weights(4), [(2, 8)], ["layer_norm"], (2, 8), None, 16),
    ("gather", 930, number(1, 1), [(2, 5), (3,)], ["gather"], (2, 3), 0, 0),
    ("whereBroadcastable", 1330, b"", [(2, 5), (2, 5), (2, 5)], ["where"], (2, 5), None, 0),
    ("topK", 1015, number(1, 1) + number(2, 2), [(2, 9)], ["topk"], (2, 2), None, 0),
    # windows of 2 x 2 x 2
    (
        "pooling3d",
        1465,
        b"".join(number(i, 2) for i in range(2, 8)) + number(15, 1),
        [(1, 2, 4, 4, 4)],
        ["max_pool"],
        (1, 2, 2, 2, 2),
        16 * 7,
        0,
    ),
    ("globalPooling3d", 1466, b"", [(1, 2, 4, 4, 4)], ["reduce_max"], (1, 2, 1, 1, 1), 2 * 63, 0),
    (
        "convolution",
        100,
        CONV + sizes(40, 2, 1) + part(50) + weights(90),
        [(1, 3, 7, 7)],
        ["conv"],
        (1, 6, 3, 5),
        None,
        162,
    ),
    *(("activation", 130, part(field, content), [MAP], [op], MAP, None, 0) for field, content, op in ACTIVATIONS),
    ("activation", 130, part(25, part(1, floats(1, 0.1, 0.2, 0.3))), [MAP], ["prelu"], MAP, None, 3),
    (
        "activation",
        130,
        part(71, part(1, floats(1, 0.1, 0.2, 0.3)) + part(2, floats(1, 0.1))),
        [MAP],
        ["parametric_softplus"],
        MAP,
        None,
        4,
    ),
    *(("reduce", 280, number(3, axis), [MAP], ["reduce_sum"], shape, None, 0) for axis, shape in AXES),
    *(("reduce", 280, number(1, kind) + number(3, 4), [MAP], [op], (2, 3, 4, 1), None, 0) for kind, op in REDUCTIONS),
    ("rangeStatic", 635, one(1, 7.0) + one(2, 1.0) + one(3, 2.0), [], ["constant"], (3,), None, 0),
    ("rangeStatic", 635, one(1, 7.0), [], ["constant"], (7,), None, 0),
    ("fillStatic", 1085, one(1, 1.0) + sizes(2, 2, 5), [], ["constant"], (2, 5), None, 0),
    ("randomNormalStatic", 1175, sizes(4, 2, 5), [], ["random"], (2, 5), None, 0),
    ("randomUniformStatic", 1195, sizes(4, 2, 5), [], ["random"], (2, 5), None, 0),
    ("randomBernoulliStatic", 1215, sizes(3, 2, 5), [], ["random"], (2, 5), None, 0),
    ("categoricalDistribution", 1230, number(2, 3), [(2, 5)], ["multinomial"], (2, 3), None, 0),
    # 5 steps of 4 units: 4 x (3 + 4) products; 3 sigmoids of 4 operations and 2 tanh; f c (mul), + i g (fma),
    # o tanh(c) (mul); and 3 peepholes
    (
        "uniDirectionalLSTM",
        420,
        LSTM + part(15, number(10, 1), number(20, 1), number(40, 1)) + OF_LSTM,
        [(5, 1, 3, 1, 1)],
        ["lstm"],
        (5, 1, 4, 1, 1),
        5 * 4 * (4 * 7 + 3 * 4 + 2 + 3 + 3),
        4 * 4 * (3 + 4) + 16 + 12,
    ),
    (
        "simpleRecurrent",
        400,
        number(1, 3) + number(2, 4) + number(15, 1) + part(10, part(30)) + weights(30) + weights(31),
        [(5, 1, 3, 1, 1)],
        ["rnn"],
        (5, 1, 4, 1, 1),
        None,
        4 * (3 + 4),
    ),
    # the forms of the format that the rows above do not have
    ("convolution", 100, CONV + part(51) + weights(90), [(5, 2, 3, 4, 4)], ["conv"], (5, 2, 6, 4, 4), None, 162),
    # the dilation of the other direction is ignored: 3 x 3 taps, 3 - 1 rows and columns more
    (
        "deconvolution",
        100,
        number(1, 6) + number(2, 4) + number(10, 2) + number(60, 1) + number(70, 1) + sizes(40, 2, 2) + part(50),
        [(5, 2, 4, 3, 3)],
        ["conv_transpose"],
        (5, 2, 6, 5, 5),
        None,
        4 * 3 * 9 + 6,
    ),
    (
        "deconvolution",
        100,
        CONV + number(60, 1) + part(51) + sizes(30, 2, 3),
        [MAP],
        ["conv_transpose"],
        (2, 6, 8, 12),
        None,
        162,
    ),
    *(("pooling", 120, part(kind), [MAP], ["max_pool"], (2, 3, 2, 2), 24 * 8, 0) for kind in (30, 32)),
    ("pooling", 120, number(1, 2) + sizes(10, 2, 1) + part(30), [(5, *MAP)], ["lp_pool"], (5, 2, 3, 3, 4), None, 0),
    ("pooling", 120, number(1, 1) + number(60, 1), [MAP], ["reduce_mean"], (2, 3, 1, 1), 6 * 16, 0),
    # ceil((4 + 2 - 2) / 3) + 1 = 3 rows, the last of which begins behind the padding; ceil((6 - 3) / 2) + 1 columns
    (
        "pooling",
        120,
        sizes(10, 2, 3) + sizes(20, 3, 2) + part(32, sizes(10, 1, 0)),
        [(1, 1, 4, 6)],
        ["max_pool"],
        (1, 1, 2, 3),
        None,
        0,
    ),
    ("innerProduct", 140, number(1, 48) + number(2, 5), [MAP], ["linear"], (2, 5, 1, 1), 2 * 5 * 48, 240),
    ("innerProduct", 140, number(1, 48) + number(2, 5), [(4, *MAP)], ["linear"], (4, 2, 5, 1, 1), 8 * 5 * 48, 240),
    ("innerProduct", 140, number(1, 4) + number(2, 5), [(2, 3, 4)], ["linear"], (2, 3, 5), 6 * 5 * 4, 20),
    ("batchnorm", 160, number(1, 3) + number(6, 1), [MAP], ["batch_norm"], MAP, 96, 6),
    # 3 x 16 = 48 elements of a row, or 16: of the mean c adds and div, c differences; of both 4 c + 3
    ("mvn", 165, number(1, 1), [MAP], ["subtract_mean"], MAP, 2 * 2 * 48, 0),
    ("mvn", 165, b"", [MAP], ["subtract_mean"], MAP, 6 * 2 * 16, 0),
    ("mvn", 165, number(1, 1) + number(2, 1), [MAP], ["mean_variance_norm"], MAP, 2 * (4 * 48 + 3), 0),
    ("mvn", 165, number(2, 1), [MAP], ["mean_variance_norm"], MAP, 6 * (4 * 16 + 3), 0),
    # a row of 48: products, eps, a root, and 48 div
    ("l2normalize", 170, b"", [MAP], ["l2_normalize"], MAP, 2 * (48 + 2 + 48), 0),
    ("softmax", 175, b"", [MAP], ["softmax"], MAP, 2 * 16 * (3 + 2 + 3), 0),
    ("unary", 220, number(1, 4) + one(5, 1.0), [MAP], ["exp"], MAP, 96, 0),
    ("unary", 220, number(1, 4) + one(4, 1.0), [MAP], ["scale_and_shift", "exp"], MAP, 192, 0),
    ("unary", 220, number(1, 4) + one(5, 2.0), [MAP], ["scale_and_shift", "exp"], MAP, 192, 0),
    ("min", 261, b"", [MAP, MAP, MAP], ["minimum", "minimum"], MAP, 192, 0),
    ("multiply", 231, b"", [MAP, MAP, MAP], ["mul", "mul"], MAP, 192, 0),
    ("upsample", 210, b"", [MAP], ["resize"], MAP, None, 0),
    # 8 products of each sample; of a cosine 3 x 8, 2 roots, 2 cmp, 1 mul and div
    ("dot", 270, b"", [(5, 8, 1, 1)] * 2, ["matmul"], (5, 1, 1, 1), 5 * 8, 0),
    ("dot", 270, number(1, 1), [(5, 8, 1, 1)] * 2, ["cosine_similarity"], (5, 1, 1, 1), 5 * (24 + 6), 0),
    ("reshape", 300, sizes(1, 12, 2, 2), [MAP], ["reshape"], (2, 12, 2, 2), 0, 0),
    ("reshape", 300, sizes(1, 12, 2, 2), [(5, *MAP)], ["reshape"], (5, 2, 12, 2, 2), 0, 0),
    ("reshape", 300, sizes(1, 12, 2, 2), [(2, 48)], ["reshape"], (2, 12, 2, 2), 0, 0),
    ("reshape", 300, sizes(1, 12, 2, 2), [(48,)], ["reshape"], (12, 2, 2), 0, 0),
    ("reshape", 300, sizes(1, 12, 2, 2), [(3, 4, 4)], ["reshape"], (12, 2, 2), 0, 0),
    ("reshape", 300, sizes(1, 4, 6, 2, 2), [MAP], ["reshape"], (4, 6, 2, 2), 0, 0),
    ("reshape", 300, sizes(1, 10, 6, 2, 2), [(5, *MAP)], ["reshape"], (10, 2, 6, 2, 2), 0, 0),
    ("flatten", 301, b"", [(5, *MAP)], ["reshape"], (5, 2, 48, 1, 1), 0, 0),
    ("flatten", 301, b"", [(3, 4, 4)], ["reshape"], (48, 1, 1), 0, 0),
    ("flatten", 301, b"", [(2, 48)], ["reshape"], (2, 48), 0, 0),
    ("permute", 310, sizes(1, 3, 1, 2, 0), [(5, 2, 3, 4, 6)], ["transpose"], (6, 2, 3, 4, 5), 0, 0),
    ("permute", 310, sizes(1, 0, 3, 1, 2), [(5, 2, 3, 4, 6)], ["transpose"], (5, 2, 6, 3, 4), 0, 0),
    ("permute", 310, b"", [MAP], ["transpose"], MAP, 0, 0),
    ("concat", 320, number(100, 1), [(5, *MAP), (2, *MAP)], ["concat"], (7, *MAP), 0, 0),
    ("split", 330, number(1, 2), [(2, 6, 4, 4)], ["split"], (2, 3, 4, 4), 0, 0),
    ("sequenceRepeat", 340, b"", [(2, 1, 3, 4, 4)], ["tile"], (2, 1, 3, 4, 4), 0, 0),
    ("slice", 350, number(1, 1) + number(2, -1) + number(4, 2), [MAP], ["slice"], (2, 3, 4, 2), 0, 0),
    ("slice", 350, number(1, 1) + number(2, 3), [MAP], ["slice"], (2, 2, 4, 4), 0, 0),
    ("slice", 350, number(1, 1) + number(2, 4) + number(4, 1), [(5, *MAP)], ["slice"], (5, 2, 3, 3, 4), 0, 0),
    ("copy", 600, b"", [MAP], ["reshape"], MAP, 0, 0),
    *(
        ("gelu", 795, number(1, mode), [MAP], [op], MAP, 96 * each, 0)
        for mode, op, each in ((0, "gelu", 5), (1, "gelu", 9), (2, "quick_gelu", 6))
    ),
    ("tile", 920, sizes(1, 2, 1), [(2, 5)], ["tile"], (4, 5), 0, 0),
    # 6 updates
    *(
        (name, field, number(mode, join), [(4, 3), (2,), (2, 3)], [op], (4, 3), 6 * (join > 0), 0)
        for join in range(7)
        for name, field, mode, op in (("scatter", 935, 2, "scatter_elements"), ("scatterND", 945, 1, "scatter_nd"))
    ),
    ("scatterAlongAxis", 954, number(2, 1), [(4, 3), (2, 3), (2, 3)], ["scatter_elements"], (4, 3), 6, 0),
    ("gatherND", 940, b"", [(4, 3), (5, 1)], ["gather_nd"], (5, 3), 0, 0),
    ("gatherAlongAxis", 952, number(1, 1), [(4, 3), (4, 2)], ["gather_elements"], (4, 2), 0, 0),
    ("reverse", 960, sizes(1, 1, 0), [(4, 3)], ["flip"], (4, 3), 0, 0),
    ("reverseSeq", 965, number(2, 1), [(4, 3), (4,)], ["reverse_sequence"], (4, 3), 0, 0),
    ("concatND", 980, number(1, -1), [(2, 3), (2, 4)], ["concat"], (2, 7), 0, 0),
    (
        "sliceStatic",
        995,
        sizes(1, 1, 1) + sizes(3, 2, 4) + sizes(5, 1, 1) + sizes(6, 1, 0),
        [(2, 5)],
        ["slice"],
        (3,),
        0,
        0,
    ),
    ("slidingWindows", 1005, number(1, 1) + number(2, 3), [(2, 9)], ["im2col"], (2, 7, 3), 0, 0),
    ("batchedMatmul", 1045, number(1, 1), [(8, 2), (8, 5)], ["matmul"], (2, 5), 80, 0),
    ("getShape", 1065, b"", [MAP], ["shape"], (4,), 0, 0),
    ("fillLike", 1080, b"", [MAP], ["full"], MAP, 0, 0),
    ("broadcastToLike", 1100, b"", [(1, 3), (5, 1)], ["broadcast_to"], (5, 3), 0, 0),
    ("reshapeLike", 1135, b"", [MAP, (12, 8)], ["reshape"], (12, 8), 0, 0),
    ("constantPad", 1155, sizes(2, 0, 21, 14, 0) + number(3, 1), [(20, 10)], ["pad"], (21, 14), 0, 0),
    ("constantPad", 1155, sizes(2, 0, 1, 14, 0) + number(3, 1), [(20, 10)], ["pad"], (20, 14), 0, 0),
    *((f"random {field}", field, b"", [MAP], ["random"], MAP, None, 0) for field in (1170, 1190, 1210)),
    # 6 rows of 16 elements
    *(
        (f"reduce {op}", field, sizes(1, 2, 3), [MAP], [f"reduce_{op}"], (2, 3), None, 0)
        for field, op in (
            *((1250, "l1"), (1255, "l2"), (1260, "max"), (1265, "min"), (1270, "sum"), (1275, "prod"), (1280, "mean")),
            *((1285, "log_sum"), (1290, "sum_square"), (1295, "log_sum_exp")),
        )
    ),
    *((f"band {field}", field, b"", [MAP], ["tril"], MAP, 0, 0) for field in (1315, 1320, 1325)),
    ("NonMaximumSuppression", 1400, number(3, 5), [(2, 9, 4), (2, 9, 3)], ["non_max_suppression"], (2, 5, 4), None, 0),
    ("oneHot", 1450, number(1, 7) + number(2, -1), [(5,)], ["one_hot"], (5, 7), None, 0),
    ("cumSum", 1455, number(1, 1), [(4, 3)], ["cumsum"], (4, 3), 4 * 2, 0),
    ("clampedReLU", 1460, one(1, 0.1) + one(2, 6.0), [MAP], ["leaky_clip"], MAP, 96 * 3, 0),
    ("argSort", 1461, number(1, 1), [(4, 8)], ["argsort"], (4, 8), 4 * 8 * 3, 0),
    # 4 + 1 + 0, 5 + 0 + 2 and 6 + 3 + 1 elements; windows of 1, 2 and 3 of them, every 2, 3 and 1
    (
        "pooling3d",
        1465,
        number(1, 1) + b"".join(number(2 + i, n) for i, n in enumerate((1, 2, 3, 2, 3, 1, 1, 0, 0, 2, 3, 1))),
        [(1, 2, 4, 5, 6)],
        ["avg_pool"],
        (1, 2, 3, 2, 8),
        None,
        0,
    ),
    (
        "pooling3d",
        1465,
        number(2, 2) + number(3, 1) + number(4, 1) + number(15, 2),
        [(1, 2, 4, 4, 4)],
        ["max_pool"],
        (1, 2, 4, 4, 4),
        None,
        0,
    ),
    ("globalPooling3d", 1466, number(1, 1), [(1, 2, 4, 4, 4)], ["reduce_mean"], (1, 2, 1, 1, 1), 2 * 64, 0),
    # windows of 1, 3 (dilation 2) and 3: (6 + 2) // 2 + 1, (6 + 1 + 0 - 3) // 1 + 1, (6 + 2 + 1 - 3) // 3 + 1
    (
        "convolution3d",
        1471,
        number(1, 4)
        + number(2, 6)
        + number(10, 2)
        + number(50, 1)
        + b"".join(number(*each) for each in zip(range(20, 23), (1, 2, 3), strict=True))
        + b"".join(number(*each) for each in zip(range(31, 34), (2, 1, 3), strict=True))
        + b"".join(number(*each) for each in zip(range(40, 43), (1, 2, 1), strict=True))
        + b"".join(number(*each) for each in zip(range(80, 86), (2, 1, 1, 0, 2, 1), strict=True)),
        [(1, 6, 6, 6, 6)],
        ["conv"],
        (1, 4, 5, 5, 3),
        None,
        4 * 3 * 6 + 4,
    ),
    # (4 - 1) 2 + 3 of each; or as stated
    *(
        (
            "deconvolution3d",
            1471,
            number(1, 4)
            + number(2, 6)
            + number(10, 2)
            + number(86, 1)
            + number(70, 1)
            + stated
            + b"".join(number(20 + i, 3) + number(31 + i, 2) for i in range(3)),
            [(1, 6, 4, 4, 4)],
            ["conv_transpose"],
            (1, 4, *space),
            None,
            6 * 2 * 27,
        )
        for stated, space in ((b"", (9, 9, 9)), (sizes(87, 8, 9, 10), (8, 9, 10)))
    ),
    # 5 steps of 4 units: 3 x 4 x (3 + 4) products
    (
        "gru",
        410,
        number(1, 3) + number(2, 4) + number(15, 1) + number(20, 1),
        [(5, 1, 3, 1, 1)],
        ["gru"],
        (5, 1, 4, 1, 1),
        None,
        3 * 4 * (3 + 4) + 12,
    ),
    (
        "biDirectionalLSTM",
        430,
        LSTM + part(15, number(20, 1), number(40, 1)) + OF_LSTM * 2,
        [(5, 1, 3, 1, 1)],
        ["lstm"],
        (1, 1, 8, 1, 1),
        None,
        2 * (4 * 4 * (3 + 4) + 16 + 12),
    ),
    (
        "simpleRecurrent",
        400,
        number(1, 3) + number(2, 4) + number(20, 1),
        [(5, 1, 3, 1, 1)],
        ["rnn"],
        (1, 1, 4, 1, 1),
        None,
        32,
    ),
]


def network(shapes, field, parameters, results):
    """Return a network of one layer with several inputs of exact ranks."""
    names = [f"x{i}" for i in range(len(shapes))]
    layer = part(1, "layer") + b"".join(part(2, name) for name in names) + b"".join(part(3, name) for name in results)
    inputs = zip(names or ["unused"], shapes or [(1,)], strict=True)
    described = b"".join(part(1, feature(name, shape)) for name, shape in inputs)
    body = part(1, layer + part(field, parameters))
    return saved(number(1, 4) + part(2, described + part(10, part(1, results[0]))) + part(500, body, number(5, 1)))


@pytest.mark.parametrize(
    ("field", "parameters", "shapes", "operators", "shape", "flops", "n_params"),
    [row[1:] for row in ROWS],
    ids=[f"{row[0]}-{i}" for i, row in enumerate(ROWS)],
)
def test_a_layer_is_read_by_the_numbers_of_the_format(field, parameters, shapes, operators, shape, flops, n_params):
    results = ["y", "z", "v", "w"][: {330: 2, 975: 2, 1015: 2, 1400: 4}.get(field, 1)]
    report = estimate(network(shapes, field, parameters, results))
    rows = [*report.layer_report.values()]
    assert report.status == "complete"
    assert [call.layer.op for call in report.calls] == operators
    assert shape is None or rows[-1]["output_shapes"][0] == shape
    assert flops is None or report.total_report["flops"] == flops
    assert report.total_report["n_params"] == n_params


def halves(field):
    return part(field, part(2, bytes(2)))


RNN, STEPS = number(1, 3) + number(2, 4), (5, 1, 3, 1, 1)

SETTINGS = [
    # the layer's field, parameters and shapes of inputs; entries of the layer report, or attributes of the layer
    (100, number(1, 6) + number(2, 3) + sizes(20, 2, 2) + part(51, number(1, 1)), [MAP], {"padding": ((1, 0), (1, 0))}),
    (100, CONV + part(51) + sizes(30, 2, 2), [MAP], {"padding": ((0, 1), (0, 1)), "stride": (2, 2), "groups": 1}),
    # 162 weights as they are stored: of 2 bytes, of 1, of some bits
    *(
        (100, CONV + part(51) + part(90, stored), [MAP], {"mread": 4 * 96 + weight})
        for stored, weight in (
            *((part(2, bytes(2)), 324), (part(31, bytes(1)), 162)),
            *((part(30, b"1") + part(40, number(1, bits)), -(-162 * bits // 8)) for bits in (1, 2, 3, 4, 5, 6, 7, 8)),
        )
    ),
    (130, part(25, part(1, part(2, bytes(6)))), [MAP], {"mread": 4 * 96 + 6}),
    (130, part(50, one(1, 0.5)), [MAP], {"alpha": 0.5}),
    (130, part(15, one(1, 0.25)), [MAP], {"slope": 0.25}),
    (100, CONV + part(51) + number(70, 1) + halves(90) + halves(91), [MAP], {"mread": 4 * 96 + 2 * 168}),
    (140, number(1, 8) + number(2, 5) + number(10, 1) + halves(20) + halves(21), [(2, 8)], {"mread": 64 + 80 + 10}),
    (150, number(1, 50) + number(2, 6) + halves(20), [(7, 1, 1, 1)], {"mread": 4 * 7 + 2 * 42}),
    (270, b"", [(5, 8, 1, 1)] * 2, {"mread": 4 * 80, "input_shapes": [(5, 1, 8), (5, 8, 1)]}),
    (190, b"", [MAP], {"output_shapes": [MAP]}),
    (200, b"", [MAP], {"output_shapes": [MAP]}),
    (212, sizes(1, 2, 7), [(1, 2, 3, 8, 8), (5, 1, 4, 1, 1)], {"output_shapes": [(5, 2, 3, 2, 7)]}),
    (212, b"", [(1, 2, 3, 8, 8), (5, 1, 5, 1, 1)], {"output_shapes": [(5, 1, 3, 1, 1)]}),
    (211, b"", [MAP], {"output_shapes": [(2, 3, 1, 1)]}),
    (925, number(1, -1), [(2, 5), (2, 5)], {"output_shapes": [(2, 5, 2)], "axis": 2}),
    (930, number(1, -1), [(2, 5), (3,)], {"output_shapes": [(2, 3)], "axis": 1}),
    (1015, number(1, -2), [(2, 9), (1,)], {"input_shapes": [(2, 9)], "axis": 0}),
    (160, number(1, 3) + halves(17), [MAP], {"mread": 4 * 96 + 2 * 6}),
    *((160, number(1, 3) + number(5, 1) + halves(i), [MAP], {"mread": 4 * 96 + 18}) for i in (15, 16)),
    (180, number(3, 5), [MAP], {"size": 5}),
    (
        1471,
        number(1, 4)
        + number(2, 3)
        + b"".join(number(20 + i, 2) + number(31 + i, 1 + i) for i in range(3))
        + b"".join(number(40 + i, 4 - i) for i in range(3)),
        [(2, 3, 7, 7, 7)],
        {"kernel": (2, 2, 2), "stride": (1, 2, 3), "dilation": (4, 3, 2), "output_shapes": [(2, 4, 3, 2, 2)]},
    ),
    (
        1471,
        number(1, 4) + number(2, 3) + number(50, 1) + b"".join(number(i, 1) for i in (20, 21, 22)) + halves(61),
        [(2, 3, 2, 2, 2)],
        {"mread": 4 * 48 + 48 + 8},
    ),
    (210, sizes(1, 2, 2) + number(5, 1), [MAP], {"mode": "linear"}),
    (210, sizes(1, 2, 2), [MAP], {"mode": "nearest"}),
    (245, sizes(1, 3, 1, 1) + halves(2), [MAP], {"mread": 4 * 96 + 6}),
    (250, sizes(1, 3, 1, 1) + halves(2), [MAP], {"mread": 4 * 96 + 6}),
    (660, one(1, 0.5) + one(2, 2.0), [MAP], {"lower": 0.5, "upper": 2.0}),
    (175, b"", [MAP], {"axis": 1}),
    (950, number(1, -1), [MAP], {"axis": 3}),
    (1455, number(1, 2), [MAP], {"axis": 2}),
    (1461, number(1, 2), [MAP], {"axis": 2}),
    (1015, number(1, 1) + number(2, 3), [(2, 9)], {"k": 3, "axis": 1}),
    (1045, number(5, 8) + number(6, 5) + halves(8), [(2, 8)], {"mread": 64 + 80}),
    # steps of the first axis, of a vector each
    (400, RNN + number(15, 1), [(5, 3)], {"output_shapes": [(5, 4)], "input_shapes": [(5, 1, 3), (4, 3), (4, 4)]}),
    (400, RNN + number(15, 1), [(5, 3, 1, 1)], {"output_shapes": [(5, 4, 1, 1)]}),
    *((1350, sizes(1, 4, 4) + halves(i), [MAP], {"mread": 4 * 96 + 6 * 16, "axis": (2, 3)}) for i in (3, 4)),
    (1040, number(1, 50) + number(2, 6) + halves(20), [(7, 1)], {"mread": 4 * 7 + 2 * 42}),
    # 4 (3 + 4) weights of 2 bytes for each gate, biases, peepholes, and states of 4
    (400, RNN + number(20, 1) + halves(30), [STEPS], {"mread": 60 + 2 * 32, "bidirectional": False}),
    (
        410,
        RNN + number(20, 1) + halves(30),
        [STEPS, (1, 1, 4, 1, 1)],
        {"mread": 60 + 2 * 96 + 16, "reset_after": False},
    ),
    *(
        (field, RNN + part(15, number(20, 1)) + part(20, halves(1)) * n, [STEPS, *[(1, 1, 4, 1, 1)] * 2], found)
        for field, n, found in (
            (420, 1, {"mread": 60 + 2 * 128 + 32, "bidirectional": False, "output_shapes": [(1, 1, 4, 1, 1)] * 3}),
            (430, 2, {"mread": 60 + 4 * 128 + 32, "bidirectional": True}),
        )
    ),
    (
        1471,
        number(1, 4) + number(2, 3) + number(70, 1) + number(20, 1) + number(21, 1) + number(22, 1) + halves(60),
        [(2, 3, 2, 2, 2)],
        {"mread": 4 * 48 + 24, "padding": (0, 0, 0), "stride": (1, 1, 1), "dilation": (1, 1, 1)},
    ),
]


@pytest.mark.parametrize(("field", "parameters", "shapes", "expected"), SETTINGS, ids=[str(row[0]) for row in SETTINGS])
def test_settings_and_weights_are_read(field, parameters, shapes, expected):
    results = ["y", "z", "v"][: {1015: 2, 420: 3}.get(field, 1)]
    (found,) = estimate(network(shapes, field, parameters, results)).layer_report.values()
    found |= found["params"]
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("field", [290, 1070])
def test_a_constant_layer_is_a_value(field):
    constant = ("c", field, sizes(1, 3, 1, 1) + halves(2), [], ["h"])
    (found,) = estimate(saved(layers(MAP, constant, ("net/a", 230, b"", ["x", "h"], ["y"])))).layer_report.values()
    assert (found["output_shapes"], found["mread"], found["n_params"]) == ([MAP], 4 * 96 + 6, 3)
    assert found["module"] == "net"


@pytest.mark.parametrize(
    ("field", "parameters", "shape", "mread"),
    [
        (150, number(1, 50) + number(2, 6) + number(10, 1) + halves(21), (7, 1, 1, 1), 4 * 42 + 12),
        (1040, number(1, 50) + number(2, 6) + number(3, 1) + halves(21), (7, 1), 4 * 42 + 12),
        (245, sizes(1, 3, 1, 1) + number(3, 1) + sizes(4, 3, 1, 1) + halves(5), MAP, 4 * 96 + 6),
        (1045, number(5, 8) + number(6, 5) + number(7, 1) + halves(9), (2, 8), 4 * 10 + 10),
    ],
)
def test_a_bias_that_is_added_after_the_layer_is_read(field, parameters, shape, mread):
    *_, found = estimate(network([shape], field, parameters, ["y"])).layer_report.values()
    assert (found["op"], found["mread"]) == ("add", mread)


@pytest.mark.parametrize(("shape", "kind"), [((8,), 303), ((3, 4, 4), 403), ((2, 8), 500)])
def test_an_input_without_a_batch_gets_one(shape, kind):
    """Of a regressor, a classifier, and another network, unless the file says that shapes are exact."""
    content = layers(shape, ("a", 130, part(10), ["x"], ["y"]), is_exact=False, kind=kind)
    (found,) = estimate(saved(content)).layer_report.values()
    assert found["output_shapes"] == [shape if len(shape) == 2 else (1, *shape)]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        *((605, "branch"), (615, "loop"), (620, "loopBreak"), (625, "loopContinue"), (640, "rangeDynamic")),
        *((1000, "sliceDynamic"), (1090, "fillDynamic"), (1110, "broadcastToDynamic"), (1145, "reshapeDynamic")),
        *((1180, "randomNormalDynamic"), (1200, "randomUniformDynamic"), (1220, "randomBernoulliDynamic")),
        (1999, "layer 1999"),
    ],
)
def test_layers_that_are_not_counted_have_their_name(field, name):
    with pytest.warns(match=f"no calculator for 'coreml::{name}'"):
        (ignored,) = estimate(network([MAP, MAP], field, b"", ["y"])).ignored_layers.values()
    assert ignored["input_shapes"] == [MAP, MAP]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        *((number, "generalized linear model") for number in (300, 400)),
        *((number, "support vector machine") for number in (301, 401)),
        *((number, "ensemble of trees") for number in (302, 402)),
        *((304, "Bayesian probit regressor"), (404, "nearest neighbors"), (501, "recommender of similar items")),
        *((555, "custom model"), (556, "linked model"), (560, "class confidence thresholding")),
        *((600, "one-hot encoder"), (601, "imputer"), (602, "feature vectorizer"), (603, "dictionary vectorizer")),
        *((604, "scaler"), (606, "categorical mapping"), (607, "normalizer"), (609, "array feature extractor")),
        *((610, "non-maximum suppression"), (900, "identity"), (2000, "text classifier"), (2001, "word tagger")),
        *((2002, "vision feature print"), (2003, "sound analysis preprocessing"), (2004, "gazetteer")),
        *((2005, "word embedding"), (2006, "audio feature print"), (3000, "encrypted model")),
    ],
)
def test_other_kinds_of_models_are_named(field, name):
    described = part(2, part(1, feature("x", (1,))), part(10, part(1, "y")))
    with pytest.raises(CostError, match=name):
        estimate(saved(number(1, 4) + described + part(field)))


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        *((1, 8), (10, 16), (11, 32), (12, 64), (13, 16), (21, 8), (22, 16), (23, 32), (24, 64), (25, 4), (31, 8)),
        *((32, 16), (33, 32), (34, 64), (35, 4), (36, 2), (37, 1), (38, 6), (39, 3), (40, 8), (41, 8)),
    ],
)
def test_types_of_elements_have_their_size(kind, bits, monkeypatch):
    """Numbers of ``DataType`` in MIL.proto; 64 elements are read and written."""
    monkeypatch.setitem(TYPES, "any", kind)
    report = estimate(model({"x": V((8, 8), "any")}, Op("reverse", {"x": "%x"}, {"y": V((8, 8), "any")})))
    assert report.total_report["mwrite"] == 8 * bits
