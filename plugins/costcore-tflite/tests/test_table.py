"""Shapes and costs of every operator whose results have a rule, by hand, in files with open axes and without.

Sources of the shapes: the documentation of the operators in ``tensorflow/lite/schema`` and ``tf_ops`` of TensorFlow,
and of the TensorFlow function of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import tflite
from build import G, Op, T, model
from flatbuffers import flexbuffers

from costcore import estimate

B, N, M, Q = (2, 3), (8, 12), (7, 10), (4, 8)
"""Open axes: each has these two sizes in turn."""

RELU, RELU_N1, RELU6, TANH, SIGN = (
    tflite.ActivationFunctionType.RELU,
    tflite.ActivationFunctionType.RELU_N1_TO_1,
    tflite.ActivationFunctionType.RELU6,
    tflite.ActivationFunctionType.TANH,
    tflite.ActivationFunctionType.SIGN_BIT,
)
LAST = 2**31 - 1
UNUSED = T((None, None), name="unused")
"""Has two open axes: shapes follow from operands then."""


class Row(NamedTuple):
    """A case.

    Attributes:
        name: the operator.
        operands: of each, the shape of one that is given, elements of an int32 constant (a list, or a number), a
            tensor, or None for none. An axis with two sizes is open in the file.
        results: the shapes of the results. The file leaves all their axes open, or states a list or a tensor.
        options: its options; None without any.
        costs: of the first sizes: entries of the layer report and attributes; the shapes ``x`` and ``y`` of the layer,
            and how many operands it has.
    """

    name: str
    operands: Sequence[Any]
    results: Sequence[Any]
    options: dict[str, Any] | None
    costs: Mapping[str, Any]


def row(name: str, operands: Sequence[Any], *others: Any, **costs: Any) -> Row:
    """Return a case; ``others`` are the shapes of results, and options."""
    options = [each for each in others if isinstance(each, dict)]
    return Row(name, operands, [each for each in others if not isinstance(each, dict)], *options or [None], costs)


KINDS = {name.lower(): name for name in vars(tflite) if name.endswith("Options")}
OTHER_KINDS = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_PROD", "SUM"), "ReducerOptions"),
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}


def operator(name: str, inputs: Sequence[int], outputs: Sequence[int], options: dict[str, Any] | None = None) -> Op:
    """Return an operator with options of its kind."""
    if options is None:
        return Op(name, inputs, outputs)
    kind = OTHER_KINDS.get(name) or KINDS[name.replace("_", "").lower() + "options"]
    return Op(name, inputs, outputs, kind, options)


def w(*shape: int) -> T:
    return T(shape, stored=True)


def q(*shape: int, stored: bool = False) -> T:
    """Return a tensor of integers with a scale and a zero point."""
    return T(shape, "int8", stored, scales=1, zero_point=3)


def is_open(size: Any) -> bool:
    return isinstance(size, tuple)


def tensor(operand: Any) -> T:
    if isinstance(operand, (T, int)):
        return operand if isinstance(operand, T) else T((), "int32", data=(operand,))
    if isinstance(operand, list):
        return T((len(operand),), "int32", data=operand)
    return T([None if is_open(size) else size for size in operand])


def stated(result: list[int] | T) -> T:
    return result if isinstance(result, T) else T(result)


def file_of(row: Row) -> str:
    """Return the file of an operator, each result of which another one reads."""
    tensors = [UNUSED, *(tensor(each) for each in row.operands if each is not None)]
    numbers = iter(range(1, len(tensors)))
    inputs = [-1 if each is None else next(numbers) for each in row.operands]
    first = len(tensors)
    tensors += [T([None] * len(each)) if type(each) is tuple else stated(each) for each in row.results]
    outputs = range(first, len(tensors))
    tensors += [T([None] * len(each.shape)) for each in tensors[first:]]
    ends = [*range(outputs.stop, len(tensors))]
    readers = [Op("EXP", (i,), (j,)) for i, j in zip(outputs, ends, strict=True)]
    given = [i for i in inputs if i >= 0 and not tensors[i].stored and tensors[i].data is None]
    return model(G(tensors, [operator(row.name, inputs, outputs, row.options), *readers], given, ends))


def given(operands: Sequence[Any], size: Any) -> list[Any]:
    """Return the shapes of the inputs; ``size`` returns that of an open axis."""
    shapes = [each.shape if isinstance(each, T) else each for each in operands if not isinstance(each, (list, int))]
    stored = [isinstance(each, T) and each.stored for each in operands if not isinstance(each, (list, int))]
    return [
        tuple(size(each) if is_open(each) else each for each in shape)
        for shape, is_stored in zip(shapes, stored, strict=True)
        if shape is not None and not is_stored
    ]


def symbol(sizes: tuple[int, int]) -> str:
    return f"s{sizes[0]}_{sizes[1]}"


def both(operands: Sequence[Any], file: str) -> Any:
    """Yield the reports of the first and the second sizes, each as numbers and as values of symbols."""
    symbols = {symbol(each): each for shape in given(operands, lambda each: each) for each in shape if is_open(each)}
    formulas = estimate(file, given(operands, symbol))
    assert formulas.status == "complete"
    for i in range(2 if symbols else 1):
        yield i, "numbers", estimate(file, given(operands, lambda each, i=i: each[i]))
        if symbols:
            yield i, "formulas", formulas.subs({name: sizes[i] for name, sizes in symbols.items()})


def conv(stride_h: int = 1, stride_w: int = 1, same: bool = False, **options: Any) -> dict[str, Any]:
    padding = tflite.Padding.SAME if same else tflite.Padding.VALID
    return {"StrideH": stride_h, "StrideW": stride_w, "Padding": padding, **options}


def sliced(operand: Sequence[Any], begin: list[int], end: list[int], step: list[int], result: Any, **masks: int) -> Row:
    return row("STRIDED_SLICE", [operand, begin, end, step], result, {f"{name}Mask": n for name, n in masks.items()})


POOL = {"FilterHeight": 3, "FilterWidth": 2}
DILATED = {"DilationHFactor": 2, "DilationWFactor": 3}

# fmt: off
ELEMENTS = [
    # broadcast: 2 * 8 * 7 = 112 elements
    *(
        row(name, [(B, 1, M), (1, N, 1)], (B, N, M), flops=flops)
        for name, flops in (("ADD", 112), ("SUB", 112), ("MUL", 112), ("DIV", 112), ("LESS", 112), ("MAXIMUM", 112))
    ),
    row("ADD", [(B, N, 5), w(5)], (B, N, 5), n_params=5),
    row("ADD", [(B, N, 5), w(1)], (B, N, 5), n_params=0),
    row("ADD", [(B, N, 2), [1, 2]], (B, N, 2), n_params=0),
    row("SELECT_V2", [(B, 1, M), (1, N, 1), (B, N, M)], (B, N, M), op="where", flops=112, mread=4 * (14 + 8 + 112)),
    row("SELECT", [(B, 1), (B, N), (B, N)], (B, N), op="where", flops=16, mread=4 * (2 + 16 + 16)),
    row("PRELU", [(B, N, 5), w(5)], (B, N, 5), n_params=5),
    # an activation of 112 results: relu and the sign compare once, relu6 and the unit interval twice
    *(
        row(name, [(B, 1, M), (1, N, 1)], (B, N, M), {"FusedActivationFunction": f}, flops=n)
        for name, f, n in (
            *(("ADD", RELU, 224), ("SUB", RELU6, 336), ("MUL", RELU_N1, 336), ("DIV", TANH, 224), ("ADD", SIGN, 224)),
        )
    ),
    row("EXP", [(B, N)], (B, N), op="exp", flops=16),
    row("LOG_SOFTMAX", [(B, N, M)], (B, N, M), axis=2),
    row("L2_NORMALIZATION", [(B, N, M)], (B, N, M), axis=(2,)),
    row("SOFTMAX", [(B, N, M)], (B, N, M), axis=2),
    row("FAKE_QUANT", [(B, N)], (B, N), op="fake_quantize"),
    row("LOCAL_RESPONSE_NORMALIZATION", [(B, N, M, 3)], (B, N, M, 3), size=1),
    row("LOCAL_RESPONSE_NORMALIZATION", [(B, N, M, 3)], (B, N, M, 3), {"Radius": 2}, size=5),
    row("WHERE", [(2, 8)], [16, 2], op="nonzero"),
    row("CUMSUM", [(B, N, M), [-1]], (B, N, M), op="cumsum", axis=2),
    row("CUMSUM", [(B, N, M), [1]], (B, N, M), axis=1),
    row("REVERSE_V2", [(B, N, M), [-2]], (B, N, M), op="flip", axis=(1,)),
    # 112 elements to 14, 16 or 8 sums
    row("SUM", [(B, N, M), [1]], (B, M), {}, flops=98, axis=(1,)),
    row("SUM", [(B, N, M), [-1]], (B, N, 1), {"KeepDims": True}, flops=96),
    row("MEAN", [(B, N, M), [-1, 0]], (N,), {}, flops=112, axis=(0, 2)),
    row("REDUCE_MAX", [(B, N, M), 1], (B, 1, M), {"KeepDims": True}, keepdims=True),
    row("REDUCE_PROD", [(B, N), [1]], (B,)),
    row("ARG_MAX", [(B, N, M), [1]], (B, M), op="argmax", flops=98, axis=(1,)),
    row("ARG_MIN", [(B, N, M), -1], (B, N), op="argmin", flops=96, axis=(2,)),
    row("TOPK_V2", [(B, N), 3], (B, 3), (B, 3), axis=1, k=3),
    row("RFFT2D", [(B, N, M), [8, 16]], (B, 8, 9), axes=(1, 2)),
]

IMAGES = [
    # (8 - 3) // 2 + 1 = 3, (12 - 3) // 2 + 1 = 5; (7 - 2) // 3 + 1 = 2, (10 - 2) // 3 + 1 = 3; 36 results
    row("AVERAGE_POOL_2D", [(B, N, M, 3)], (B, (3, 5), (2, 3), 3), {**POOL, **conv(2, 3)}, flops=216, stride=(2, 3),
        kernel=(3, 2)),
    row("AVERAGE_POOL_2D", [(B, N, M, 3)], (B, (3, 5), (2, 3), 3),
        {**POOL, **conv(2, 3), "FusedActivationFunction": RELU}, flops=216 + 36),
    row("AVERAGE_POOL_2D", [(B, N, M, 3)], (B, N, M, 3), {"FilterHeight": 1, "FilterWidth": 1}, kernel=(1, 1)),
    row("MAX_POOL_2D", [(B, N, M, 3)], (B, N, M, 3), kernel=(1, 1), stride=(1, 1)),
    row("L2_POOL_2D", [(B, N, M, 3)], (B, (3, 5), (2, 3), 3), {**POOL, **conv(2, 3)}, op="lp_pool", p=2),
    # ceil(8 / 2) = 4, 6; ceil(7 / 3) = 3, 4; 3 * 2 + 3 - 8 = 1 row at the end; 2 * 3 + 2 - 7 = 1 column at the end
    row("MAX_POOL_2D", [(B, N, M, 3)], (B, (4, 6), (3, 4), 3), {**POOL, **conv(2, 3, same=True)}, flops=72 * 5,
        padding=((0, 1), (0, 1))),
    # dilated by 2 and 3, 3 x 2 are as 5 x 4: 8 - 4, 12 - 4; (7 - 4) // 2 + 1 = 2, (10 - 4) // 2 + 1 = 4
    row("CONV_2D", [(B, N, M, 2), w(4, 3, 2, 2)], (B, (4, 8), (2, 4), 4), conv(1, 2, **DILATED), op="conv",
        macs=64 * 12, stride=(1, 2), dilation=(2, 3), groups=1),
    # 8 + 4 - 8 = 4 rows in all; 3 * 2 + 4 - 7 = 3 columns
    row("CONV_2D", [(B, N, M, 2), w(4, 3, 2, 2)], (B, N, (4, 5), 4), conv(1, 2, same=True, **DILATED),
        padding=((2, 2), (1, 2))),
    row("CONV_2D", [(B, N, M, 2), w(4, 1, 1, 2)], (B, (4, 6), (4, 5), 4), conv(2, 2, same=True), padding=(0, 0)),
    row("DEPTHWISE_CONV_2D", [(B, N, M, 3), w(1, 3, 3, 6), w(6)], (B, (6, 10), (5, 8), 6), conv(),
        macs=2 * 30 * 6 * 9, n_params=60, groups=3),
    # depth: (6 - 3) // 1 + 1; height (8 - 2) // 2 + 1 = 4, 6; width (7 - 2 - 1) // 3 + 1 = 2, (10 - 3) // 3 + 1 = 3
    row("CONV_3D", [(B, 6, N, M, 2), w(3, 2, 2, 2, 5), w(5)], (B, 4, (4, 6), (2, 3), 5),
        {"StrideD": 1, **conv(2, 3), "DilationDFactor": 1, "DilationHFactor": 1, "DilationWFactor": 2}, op="conv",
        macs=2 * 4 * 4 * 2 * 5 * 24, n_params=125, x=(2, 2, 6, 8, 7), stride=(1, 2, 3), dilation=(1, 1, 2)),
    row("CONV_3D", [(B, 6, N, M, 2), w(3, 2, 1, 2, 5)], (B, 3, (4, 6), (3, 4), 5),
        {"StrideD": 2, **conv(2, 3, same=True)}, padding=((0, 1), (0, 0), (0, 0)),
        kernel=(3, 2, 1)),
    # (8 - 1) * 2 + 3 = 17, 25; (7 - 1) * 3 + 2 = 20, 29
    row("TRANSPOSE_CONV", [(4,), w(5, 3, 2, 2), (B, N, M, 2)], (B, (17, 25), (20, 29), 5), conv(2, 3),
        op="conv_transpose", macs=224 * 30, groups=1),
    # 7 * 2 + 3 - 16 = 1 row, 6 * 3 + 2 - 21 < 0 columns
    row("TRANSPOSE_CONV", [(4,), w(5, 3, 2, 2), (B, N, M, 2), w(5)], (B, (16, 24), (21, 30), 5),
        conv(2, 3, same=True), n_params=65, padding=((0, 1), (0, 0))),
    row("TRANSPOSE_CONV", [[2, 18, 20, 5], w(5, 3, 2, 2), (2, N, M, 2)], (2, 18, 20, 5),
        conv(2, 3, FusedActivationFunction=RELU), op="activated_conv_transpose", flops=224 * 30 + 3600),
    # 2 * 3 * 4 * 5 inputs, each times 2 * 2 * 2 * 3 weights
    row("CONV_3D_TRANSPOSE", [[2, 6, 8, 10, 3], w(2, 2, 2, 3, 4), (2, 3, 4, 5, 4), w(3)], (2, 6, 8, 10, 3),
        {"StrideD": 2, **conv(2, 2)}, op="conv_transpose", macs=480 * 24, n_params=99, x=(2, 4, 3, 4, 5)),
    row("CONV_3D_TRANSPOSE", [(5,), w(3, 2, 1, 3, 4), (B, 3, N, M, 4)], (B, 5, (16, 24), (19, 28), 3),
        {"StrideD": 1, **conv(2, 3)}, kernel=(3, 2, 1), groups=1),
    row("RESIZE_BILINEAR", [(B, N, M, 3), [4, 5]], (B, 4, 5, 3), {"AlignCorners": True}, mode="linear",
        align_corners=True),
    row("RESIZE_NEAREST_NEIGHBOR", [(B, N, M, 3), [4, 5]], (B, 4, 5, 3), mode="nearest", coordinates="asymmetric"),
    row("DEPTH_TO_SPACE", [(B, N, M, 8)], (B, (16, 24), (14, 20), 2), {"BlockSize": 2}, block=2),
    row("SPACE_TO_DEPTH", [(B, N, Q, 3)], (B, (4, 6), (2, 4), 12), {"BlockSize": 2}, block=2),
    row("SPACE_TO_DEPTH", [(B, N, M, 3)], (B, N, M, 3), {"BlockSize": 1}),
    # 2 * 8 - 1, 2 * 12 - 1; 2 * 7 - 2, 2 * 10 - 2
    row("BATCH_TO_SPACE_ND", [(Q, N, M, 3), [2, 2], [1, 0, 0, 2]], ((1, 2), (15, 23), (12, 18), 3),
        op="space_to_batch", flops=0, mread=4 * 672),
    # (8 + 1 + 3) / 2, (12 + 4) / 2; (7 + 2) / 3, (10 + 2) / 3
    row("SPACE_TO_BATCH_ND", [(B, N, M, 3), [2, 3], [1, 3, 0, 2]], ((12, 18), (6, 8), (3, 4), 3), mwrite=4 * 648),
    row("SPACE_TO_BATCH_ND", [(B, N, 3), [2], [0, 0]], ((4, 6), (4, 6), 3)),
]

BIASES = [T((4,), "float16", stored=True)] * 4
LSTM = [*[w(4, 3)] * 4, *[w(4, 5)] * 4, *[w(4)] * 3, *BIASES, w(5, 4), w(5)]
"""Weights of the input, of the state, peepholes, biases of 2 bytes, and of a projection to 5 features."""

TIED = [None, *LSTM[1:4], None, *LSTM[5:8], None, *LSTM[9:11], None, *LSTM[12:]]
DIRECTION = [*[w(4, 3)] * 4, *[w(4, 4)] * 4, *[w(4)] * 3, *BIASES, None, None]
RNN = [w(4, 3), w(4, 4), w(4)]

PRODUCTS = [
    row("FULLY_CONNECTED", [(B, N, 6), w(5, 6), w(5)], (B, N, 5), {"KeepNumDims": True}, op="linear", macs=480,
        n_params=35),
    row("FULLY_CONNECTED", [(B, N, 6), w(5, 6)], ((16, 36), 5), {}, macs=480),
    # 2 * 8 * 3 / 6, 3 * 12 * 3 / 6
    row("FULLY_CONNECTED", [(B, N, 3), w(5, 6)], ((8, 18), 5), {}, macs=240),
    row("FULLY_CONNECTED", [(2, 6), w(5, 6)], [10], macs=60, y=(2, 5)),
    row("BATCH_MATMUL", [(B, N, 4), (B, 4, M)], (B, N, M), macs=448),
    row("BATCH_MATMUL", [(B, 4, N), (B, M, 4)], (B, N, M), {"AdjX": True, "AdjY": True}, macs=448),
    row("BATCH_MATMUL", [q(2, 8, 4), (2, 4, 7)], [2, 8, 7], op="matmul"),
    row("BATCH_MATMUL", [(B, 5, N, 4), (B, 5, M, 4)], (B, 5, N, M), {"AdjY": True}, macs=5 * 448),
    # 6 filters of rank 2
    row("SVDF", [(B, 4), w(6, 4), w(6, 5), w(3), (B, 30)], (B, 3), {"Rank": 2}, macs=108, n_params=57),
    row("SVDF", [(B, 4), w(6, 4), w(6, 5), w(6), (B, 30)], (B, 6), {"Rank": 1}, flops=108 + 12, mread=4 * 128),
    # 2 * 8 steps of 4 units with 4 gates of 3 + 5 products, and 5 * 4 of a projection: 16 * (128 + 20).
    # 3 sigmoids of 3, 2 tanh, 3 others: 14 of each unit; 12 peepholes; 6 of each of 16 norms
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", [(B, N, 3), *LSTM, (B, 5), (B, 4), *[w(4)] * 4], (B, N, 5), {},
        op="gated_lstm", macs=2368, flops=2368 + 64 * 14 + 16 * (12 + 96), n_params=197,
        mread=4 * (48 + 128 + 12 + 25 + 16 + 10 + 8) + 32),
    # without an input gate: 3 gates, 2 sigmoids of 3, and 1 add for 1 - f
    row("LSTM", [(B, 3), *TIED, (B, 5), (B, 4), None, *[w(4)] * 3], (B, 5), {}, macs=2 * 116,
        flops=2 * 116 + 8 * 12 + 2 * (8 + 72), n_params=153),
    # 10 steps in two directions of 4 gates of 3 + 4 products; 24 peepholes
    row("BIDIRECTIONAL_SEQUENCE_LSTM", [(2, 5, 3), *DIRECTION, *DIRECTION, *[(2, 4)] * 4], [2, 5, 8],
        {"MergeOutputs": True}, macs=2240, flops=2240 + 80 * 14 + 240, n_params=280,
        mread=4 * (30 + 224 + 24) + 64),
    row("UNIDIRECTIONAL_SEQUENCE_RNN", [(B, N, 3), *RNN, (B, 4)], (B, N, 4), {"FusedActivationFunction": RELU},
        op="rnn", x=(8, 2, 3), macs=16 * 28, n_params=32, hidden=4, activation="relu"),
    row("UNIDIRECTIONAL_SEQUENCE_RNN", [(6, N, 3), *RNN, (1, 4)], (6, N, 4), {"TimeMajor": True}, x=(6, 8, 3),
        activation="tanh"),
    row("RNN", [(B, 3), *RNN, (B, 4)], (B, 4), {}, op="rnn", x=(2, 3), macs=56),
    row("BIDIRECTIONAL_SEQUENCE_RNN", [(2, 5, 3), *RNN, (2, 4), *RNN, (2, 4)], [2, 5, 8],
        {"MergeOutputs": True, "FusedActivationFunction": RELU}, x=(5, 2, 3), macs=560, n_params=64, hidden=4,
        activation="relu", bidirectional=True),
    row("EMBEDDING_LOOKUP", [(B,), w(10, 4)], (B, 4), op="embedding", n_params=40),
]

MOVEMENT = [
    row("RESHAPE", [(B, N, 6), [-1, 3]], ((32, 72), 3)),
    row("RESHAPE", [(B, N, 6)], ((8, 18), 12), {"NewShape": (-1, 12)}),
    row("RESHAPE", [(Q, 6), [2, -1]], (2, (12, 24))),
    row("RESHAPE", [(2, 0, 3), [0, 5]], (0, 5)),
    row("SQUEEZE", [(B, 1, N, 1)], (B, N), {}),
    row("SQUEEZE", [(B, 1, N, 1)], (B, N, 1), {"SqueezeDims": (1,)}),
    row("SQUEEZE", [(B, 1, N, 1)], (B, N), {"SqueezeDims": (-1, 1)}),
    row("EXPAND_DIMS", [(B, N), 1], (B, 1, N)),
    row("EXPAND_DIMS", [(B, N), [-1]], (B, N, 1)),
    row("TRANSPOSE", [(B, N, M), [2, 0, 1]], (M, B, N), axes=(2, 0, 1)),
    row("TILE", [(B, N), [1, 3]], (B, (24, 36)), repeats=(1, 3)),
    row("BROADCAST_TO", [(1, 5), [4, 5]], (4, 5), op="broadcast_to"),
    *(
        row(
            name,
            [(B, N, M), [0, 0, 1, 2, 3, 0]],
            (B, (11, 15), (10, 13)),
            mode=mode,
            padding=(0, 1, 3, 0, 2, 0),
            before=(0, 1, 3),
        )
        for name, mode in (("PAD", "constant"), ("MIRROR_PAD", "reflect"), ("PADV2", "constant"))
    ),
    row("SPLIT", [1, (B, Q, M)], *[(B, (2, 4), M)] * 2, op="split", axis=1),
    row("SPLIT", [[-2], (B, Q, M)], *[(B, (1, 2), M)] * 4, axis=1),
    row("SPLIT", [1, (B, N)], (B, N)),
    row("SPLIT_V", [(B, N), [3, -1], 1], (B, 3), (B, (5, 9)), op="split", axis=1),
    row("SPLIT_V", [(B, 8, N), [3, 5], [-2]], (B, 3, N), (B, 5, N), axis=1),
    row("PACK", [(B, N), (B, N), (B, N)], (B, 3, N), {"Axis": 1}, axis=1),
    row("PACK", [(B, N), (B, N)], (B, N, 2), {"Axis": -1}, op="stack", axis=2),
    row("PACK", [(B, N), (B, N)], (B, 2, N), {"Axis": -2}, axis=1),
    row("UNPACK", [(B, 3, N)], *[(B, N)] * 3, {"Axis": 1}, axis=1),
    row("UNPACK", [(B, N, 2)], *[(B, N)] * 2, {"Axis": -1}, op="unbind", axis=2),
    row("CONCATENATION", [(B, N, 3), (B, M, 3)], (B, (15, 22), 3), {"Axis": -2}, flops=0, axis=1),
    row("CONCATENATION", [(B, N), (B, N), (B, 1)], (B, (17, 25)), {"Axis": 1, "FusedActivationFunction": RELU},
        op="activated_concat", flops=34),
    row("SLICE", [(B, N, M), [0, 1, 2], [-1, 3, -1]], (B, 3, (5, 8)), start=(0, 1, 2), stop=(None, 4, None),
        axis=(0, 1, 2)),
    # ceil((8 - 1 - 1) / 2), ceil((12 - 1 - 1) / 2)
    sliced((B, N, M, 5), [1, 1, 2, 0], [9, -1, 6, 3], [1, 2, 1, 1], (B, (3, 5), 4, 3), Begin=1, End=1),
    sliced((B, N, M), [0, 1, 0], [0, 2, 0], [1, 1, 1], (B, M), Begin=5, End=5, ShrinkAxis=2),
    sliced((B, N), [0, 0, 0], [0, 0, 0], [1, 1, 1], (B, 1, N), Begin=5, End=5, NewAxis=2),
    sliced((B, N), [0, 0, 0], [0, 0, 0], [1, 1, 1], (N, 1), Begin=2, End=2, ShrinkAxis=1, NewAxis=4),
    sliced((B, N, M, 5), [0, 1], [0, 3], [1, 1], (B, N, M, 2), Ellipsis=1),
    sliced((B, N, M, 5), [0, 0, 0, 1], [1, 0, 0, 3], [1, 1, 1, 1], (1, N, M, 1, 2), Ellipsis=2, NewAxis=4),
    sliced((B, N, M, 5), [1, 0, 0, 1], [2, 0, 0, 3], [1, 1, 1, 1], (N, 2), ShrinkAxis=5, Ellipsis=2),
    sliced((B, N, M), [0, 0], [1, 5], [1, 1], (1, 5, M)),
    *(
        sliced((B, M), [0, begin], [0, end], [1, step], (B, size), Begin=1 + 2 * (begin == 9), End=1 + 2 * (end == 9))
        for begin, end, step, size in (
            (9, 9, -1, M),
            (9, 9, -2, (4, 5)),
            (-1, -LAST, -2, (4, 5)),
            (-1, 9, -3, (3, 4)),
            (5, 1, -2, 2),
            (-2, -6, -1, 4),
            (-2, -6, -3, 2),
            (6, 9, -1, 7),
            (9, 2, -1, (4, 7)),
            (LAST, 2, -2, (2, 4)),
            (2, LAST, 1, (5, 8)),
            (-3, 9, 1, 3),
            (9, -3, 1, (4, 7)),
            (1, -1, 2, (3, 4)),
            (0, 5, 3, 2),
        )
    ),
    row("STRIDED_SLICE", [(2, 8), [0, 1], [2, 7], [1, 2]], (2, 3), {"BeginMask": 1, "EndMask": 1}, start=(0, 1),
        stop=(None, 7), step=(1, 2), axis=(0, 1)),
    row("STRIDED_SLICE", [(2, 8), [1, 1], [2, 7], [1, 2]], (1, 4), {"BeginMask": 2, "EndMask": 2}, start=(1, 0),
        stop=(2, None)),
    row("ONE_HOT", [(B, N), 5, 1, 0], (B, N, 5), {"Axis": -1}, op="one_hot"),
    row("ONE_HOT", [(B, N), 5, 1, 0], (B, 5, N), {"Axis": 1}),
    row("ONE_HOT", [(B, N), 5, 1, 0], (B, N, 5)),
    row("GATHER", [(B, N, M), [1, 2, 3]], (B, 3, M), {"Axis": 1}, op="gather", axis=1),
    row("GATHER", [(B, N, M), [1, 2, 3]], (B, N, 3), {"Axis": -1}, axis=2),
    row("GATHER", [(B, N, M), 2], (B, M), {"Axis": 1}, axis=1, index=2),
    row("GATHER", [(B, N, 4), (B, 5)], (B, 5, 4), {"Axis": 1, "BatchDims": 1}),
    row("GATHER", [w(9, 4), (B, N)], (B, N, 4), {}, op="embedding", n_params=36),
    row("GATHER", [w(9, 4), (B, N)], (B, N, 4), op="embedding"),
    row("GATHER", [w(9, 4), (B, N)], (9, B, N), {"Axis": 1}, op="gather"),
    row("GATHER_ND", [(B, N, 4), (B, 5, 2)], (B, 5, 4), op="gather_nd", input_shapes=[(2, 8, 4), (2, 5, 2)]),
    row("SCATTER_ND", [(B, 1), (B, 3), [4, 3]], (4, 3), input_shapes=[(2, 1), (2, 3)], reduction="add"),
    row("FILL", [[3, 4], ()], (3, 4), op="full", mwrite=48),
    row("SHAPE", [(B, N, M)], (3,), op="shape"),
    row("UNIQUE", [(N,)], [5], (N,), op="unique"),
    row("WHERE", [(B, N), (B, N), (B, N)], (B, N), op="where"),
]

# Scales and zero points are operands: two of each quantized operand, and two of the result.
QUANTIZED = [
    row("BATCH_MATMUL", [q(2, 8, 4), q(2, 4, 7)], q(2, 8, 7), op="quantized_matmul", macs=448, n_operands=2 + 6),
    row("CONV_2D", [q(2, 5, 5, 3), q(4, 3, 3, 3, stored=True), w(4)], q(2, 3, 3, 4), conv(), n_operands=3 + 6),
    row("CONV_2D", [(2, 5, 5, 3), q(4, 3, 3, 3, stored=True), w(4)], [2, 3, 3, 4], conv(), n_operands=3 + 2),
    row("FULLY_CONNECTED", [q(2, 6), q(5, 6, stored=True), w(5)], q(2, 5), op="quantized_linear", n_operands=3 + 6),
    row("FULLY_CONNECTED", [(2, 6), q(5, 6, stored=True), w(5)], [2, 5], n_operands=3 + 2),
    *(
        row(
            name,
            [q(2, 8), q(2, 8)],
            q(2, 8),
            {"FusedActivationFunction": RELU},
            op=op,
            n_operands=2 + 6,
            activation=None,
        )
        for name, op in (("ADD", "quantized_add"), ("SUB", "quantized_add"), ("MUL", "quantized_mul"))
    ),
    row("ADD", [q(2, 8), q(2, 8)], q(2, 8), {"FusedActivationFunction": TANH}, activation="tanh"),
    row("LOGISTIC", [q(2, 8)], q(2, 8), op="quantized_sigmoid", n_operands=1 + 4),
    row("SOFTMAX", [q(2, 8)], q(2, 8), op="quantized_softmax", n_operands=1 + 4, axis=1),
    row("MEAN", [q(2, 8), [1]], q(2), {}, op="quantized_reduce_mean", n_operands=1 + 4, axis=(1,)),
    row("QUANTIZE", [(2, 8)], q(2, 8), op="quantize", n_operands=2),
    row("DEQUANTIZE", [q(2, 8)], [2, 8], op="dequantize", n_operands=3),
    row("DEQUANTIZE", [T((2, 8), "float16")], [2, 8], op="cast"),
]

# Operators without a rule, or with few options: which operand is which.
OTHERS = [
    row("DYNAMIC_UPDATE_SLICE", [(B, N), (B, 3), (2,)], (B, N), op="slice_scatter", input_shapes=[(2, 8), (2, 3)]),
    row("REVERSE_SEQUENCE", [(B, N), (B,)], (B, N), op="reverse_sequence", input_shapes=[(2, 8), (2,)]),
    row("MATRIX_SET_DIAG", [(B, N, N), (B, N)], (B, N, N), op="diagonal_scatter", input_shapes=[(2, 8, 8), (2, 8)]),
    row("STABLEHLO_CLAMP", [(), (2, 8), (8,)], [2, 8], op="clip", input_shapes=[(2, 8), (), (8,)]),
    row("STABLEHLO_SELECT", [(1, 8), (2, 8), (2, 1)], [2, 8], op="where", input_shapes=[(1, 8), (2, 8), (2, 1)]),
    row("STABLEHLO_GATHER", [(9, 4), (2, 1)], [2, 4], op="gather", input_shapes=[(9, 4), (2, 1)]),
    row("SPARSE_TO_DENSE", [(3, 1), [9], (3,), ()], [9], op="to_dense", x=(3,)),
    row("SEGMENT_SUM", [(6, 4), (6,)], [3, 4], op="segment_reduce", input_shapes=[(6, 4), (6,)], reduction="sum"),
    row("UNSORTED_SEGMENT_MAX", [(6, 4), (6,), 3], [3, 4], input_shapes=[(6, 4), (6,)], reduction="max"),
    *(
        row(name, [(6, 4), (6,)], [3], op="non_max_suppression", input_shapes=[(6, 4), (6,)])
        for name in ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
    ),
    row("BUCKETIZE", [(B, N)], (B, N), {"Boundaries": (0.0, 1.0, 2.0)}, flops=32, input_shapes=[(2, 8), (3,)]),
    row("ASSIGN_VARIABLE", [(), (2, 8)], [2, 8], op="copy", x=(2, 8)),
    row("STABLEHLO_TRANSPOSE", [(2, 8)], [8, 2], {"Permutation": (1, 0)}, op="transpose", axes=(1, 0)),
    row("STABLEHLO_CONCATENATE", [(2, 8), (2, 3)], [2, 11], {"Dimension": 1}, op="concat", axis=1),
    row("CAST", [(B, N)], (B, N), op="cast", dtype="float32"),
    row("MULTINOMIAL", [(2, 8), 5], [2, 5], op="multinomial", x=(2, 8)),
    row("MaxUnpooling2D", [(1, 4, 4, 3), (1, 2, 2, 3)], [1, 8, 8, 3], op="unpool",
        input_shapes=[(1, 4, 4, 3), (1, 2, 2, 3)]),
    *(
        row("REDUCE_WINDOW", [(1, 7, 7, 2), (), [1, 3, 2, 1]], [1, 3, 3, 2], {"ReduceFunction": number}, by=by,
            kernel=(1, 3, 2, 1))
        for number, by in enumerate(("add", "mul", "min", "max", "min", "max"), 1)
    ),
    row("BITCAST", [(2, 8)], [2, 8, 4], op="bitcast"),
]

ROWS = [*ELEMENTS, *IMAGES, *PRODUCTS, *MOVEMENT, *QUANTIZED, *OTHERS]

# fmt: on


def check(row: Row, file: str) -> None:
    for i, how, report in both(row.operands, file):
        first, *readers = report.calls
        shapes = [call.layer["x"].shape for call in readers if "x" in call.layer]
        results = [each.shape if isinstance(each, T) else each for each in row.results]
        assert shapes == [tuple(each[i] if is_open(each) else each for each in shape) for shape in results], how
        found = next(iter(report.layer_report.values()))
        found |= {"x": first.layer.inputs.get("x"), "y": first.layer.out, "n_operands": len(first.layer.inputs)}
        for name, value in row.costs.items() if i == 0 else ():
            if name in found:
                assert (name, getattr(found[name], "shape", found[name])) == (name, value), how
            elif how == "numbers":
                assert (name, found["params"].get(name)) == (name, value)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_shapes_and_costs(row):
    check(row, file_of(row))


# Elements of small values, which a shape shows that is made of them.

# fmt: off
LENGTHS: list[tuple[list[tuple[Any, ...]], tuple[Any, ...]]] = [
    # steps: the operator, its operands (X is what the step before made), the shape of its result, options
    ([], (B, N, M)),
    ([("MUL", ["X", [1, 2, 3]], (3,))], (B, (16, 24), (21, 30))),
    ([("ADD", ["X", 1], (3,))], ((3, 4), (9, 13), (8, 11))),
    ([("SUB", [[20], "X"], (3,))], ((18, 17), (12, 8), (13, 10))),
    ([("DIV", ["X", [1, 2, 3]], (3,))], (B, (4, 6), (2, 3))),
    ([("FLOOR_DIV", ["X", [1, 3, 2]], (3,))], (B, (2, 4), (3, 5))),
    ([("FLOOR_MOD", ["X", [4, 5, 4]], (3,))], (B, (3, 2), (3, 2))),
    ([("MAXIMUM", ["X", 9], (3,))], (9, (9, 12), (9, 10))),
    ([("MINIMUM", ["X", 9], (3,))], (B, (8, 9), (7, 9))),
    ([("NEG", ["X"], (3,)), ("ADD", ["X", 20], (3,))], ((18, 17), (12, 8), (13, 10))),
    ([("CAST", ["X"], (3,)), ("RESHAPE", ["X", [3, 1]], (3, 1)), ("SQUEEZE", ["X"], (3,))], (B, N, M)),
    ([("GATHER", ["X", [2, 0]], (2,))], (M, B)),
    ([("GATHER", ["X", 1], ()), ("EXPAND_DIMS", ["X", 0], (1,))], (N,)),
    ([("SUM", ["X", 0], ())], ((17, 25),)),
    ([("REDUCE_PROD", ["X", 0], (1,), {"KeepDims": True})], ((112, 360),)),
    ([("SLICE", ["X", [1], [2]], (2,))], (N, M)),
    ([("SLICE", ["X", [1], [1]], (1,))], (N,)),
    ([("SLICE", ["X", [1], [-1]], (2,))], (N, M)),
    ([("SLICE", ["X", [0], [-1]], (3,))], (B, N, M)),
    ([("CONCATENATION", ["X", [5, 6]], (5,), {})], (B, N, M, 5, 6)),
    ([("CONCATENATION", ["X", [5]], (4,), {"Axis": -1})], (B, N, M, 5)),
    ([("STRIDED_SLICE", ["X", [0], [3], [2]], (2,))], (B, M)),
    ([("STRIDED_SLICE", ["X", [1], [LAST], [1]], (2,))], (N, M)),
    ([("STRIDED_SLICE", ["X", [2], [9], [-1]], (3,), {"EndMask": 1})], (M, N, B)),
    ([("RESHAPE", ["X", [3, 1]], (3, 1)), ("STRIDED_SLICE", ["X", [0, 0], [3, 1], [1, 1]], (3, 1))], (B, N, M)),
    ([("STRIDED_SLICE", ["X", [2], [1], [1]], (1,), {"BeginMask": 1})], (B,)),
    ([("STRIDED_SLICE", ["X", [2], [1], [1]], (1,), {"EndMask": 1})], (M,)),
    ([("STRIDED_SLICE", ["X", [-2], [-1], [1]], (), {"ShrinkAxisMask": 1}), ("PACK", [4, "X"], (2,), {})], (4, N)),
    ([("GATHER", ["X", 1], ()), ("RANGE", [2, "X", 3], ((2, 4),))], None),
]
# fmt: on


@pytest.mark.parametrize(
    ("steps", "result"),
    LENGTHS,
    ids=lambda each: "-".join(step[0] for step in each or ()) if isinstance(each, list) else "",
)
def test_elements_of_lengths(steps, result):
    """FILL makes a tensor of the shape that they are; ranges have as many elements as (8 - 2) / 3, (12 - 2) / 3."""
    tensors, operators = [T((None, None, None)), T((3,), "int32"), T((), stored=True)], [Op("SHAPE", (0,), (1,))]
    last = 1
    for name, operands, shape, *options in steps:
        inputs = []
        for each in operands:
            inputs.append(last if each == "X" else len(tensors))
            tensors += [] if each == "X" else [tensor(each)]
        last = len(tensors)
        tensors.append(T([None if is_open(size) else size for size in shape], "int32"))
        operators.append(operator(name, inputs, (last,), *options))
    if result is not None:
        operators.append(Op("FILL", (last, 2), (len(tensors),)))
        tensors.append(T([None] * len(result)))
    expected = shape if result is None else result
    file = model(G(tensors, operators, [0], [len(tensors) - 1]))
    for i, how, report in both([(B, N, M)], file):
        assert report.calls[-1].layer.out.shape == tuple(each[i] if is_open(each) else each for each in expected), how


@pytest.mark.parametrize(
    ("options", "kept"),
    [({"max_detections": 3, "max_classes_per_detection": 2}, 6), ({"max_detections": 3}, 3), ({}, 100)],
)
def test_detections_have_shapes_that_the_file_does_not_state(options, kept):
    builder = flexbuffers.Builder()
    builder.MapFromElements({"classes": 2, **options})
    tensors = [T((1, 6, 4)), T((1, 6, 3)), w(6, 4), *[T(())] * 4]
    found = Op("TFLite_Detection_PostProcess", (0, 1, 2), (3, 4, 5, 6), custom=bytes(builder.Finish()))
    (call,) = estimate(model(G(tensors, [found], [0, 1], [3, 4, 5, 6]))).calls
    assert [each.shape for each in call.layer.outputs] == [(1, kept, 4), (1, kept), (1, kept), (1,)]


@pytest.mark.parametrize("position", [16, 33])
@pytest.mark.filterwarnings("ignore:no calculator for:costcore.CostWarning")
def test_a_bidirectional_layer_with_a_projection_is_not_priced(position):
    operands = [(2, 5, 3), *DIRECTION, *DIRECTION, *[(2, 4)] * 4]
    operands[position] = w(4, 4)
    report = estimate(file_of(row("BIDIRECTIONAL_SEQUENCE_LSTM", operands, [2, 5, 8])))
    assert [each["type"] for each in report.ignored_layers.values()] == ["BIDIRECTIONAL_SEQUENCE_LSTM"]
