"""The layers of the conformance table as ONNX models with one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from onnx import ModelProto, TensorProto

from tests.whole_networks.onnx_models import Graph

X = (2, 3, 4, 4)
"""Shape of the input of the activations."""

M = (3, 4)
"""Shapes of the operands of the arithmetic operators."""

FLOAT16, INT64, BOOL = TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL


def one(
    op: str,
    *inputs: Sequence[Any],
    weights: Sequence[Sequence[int]] = (),
    constants: Sequence[Any] = (),
    outputs: int = 1,
    opset: int = 24,
    **attrs: Any,
) -> ModelProto:
    """Return a builder of a node of ``inputs`` (shapes, or a dtype and a shape), ``weights`` and ``constants``."""
    g = Graph(opset)
    names = [f"x{i}" for i in range(len(inputs))]
    stored = [g.weight(*shape) for shape in weights]
    given = [_constant(g, value) for value in constants]
    made = g(op, *names, *stored, *given, outputs=outputs, **attrs)
    return g.model(dict(zip(names, inputs, strict=True)), made)


def _constant(g: Graph, value: Any) -> str:
    """Add a constant: a vector for a tuple, a scalar for a number, an omitted input for None."""
    if value is None:
        return ""
    elements = value if isinstance(value, tuple) else (value,)
    dtype = TensorProto.FLOAT if isinstance(elements[0], float) else INT64
    return g.number(*elements, dtype=dtype, scalar=not isinstance(value, tuple))


def recurrent(op: str, gates: int, cell: bool = False, **attrs: Any) -> ModelProto:
    """Return a builder: 5 steps of 2 samples, 3 features, 4 hidden units; ONNX has both biases in one tensor."""
    g = Graph(24)
    weights = (g.weight(1, 4 * gates, 3), g.weight(1, 4 * gates, 4), g.weight(1, 2 * 4 * gates))
    states = {"h": (1, 2, 4), "c": (1, 2, 4)} if cell else {"h": (1, 2, 4)}
    made = g(op, "x", *weights, "", *states, outputs=1 + len(states), hidden_size=4, **attrs)
    return g.model({"x": (5, 2, 3), **states}, made)


def dropout_training() -> ModelProto:
    """Build dropout in training: the mode is a constant input, and the mask an output."""
    g = Graph(24)
    ratio = g.number(0.5, dtype=TensorProto.FLOAT, scalar=True)
    return g.model({"x": (4, 6)}, g("Dropout", "x", ratio, g.number(True, dtype=BOOL, scalar=True), outputs=2))


def prelu() -> ModelProto:
    """Build PReLU: its slopes are stored in the shape that broadcasts to x."""
    return one("PRelu", X, weights=[(3, 1, 1)])


def embedding() -> ModelProto:
    """Build an embedding: a gather of rows of an initializer."""
    g = Graph()
    return g.model({"x": (INT64, (2, 5))}, g("Gather", g.weight(20, 8), "x"))


def unary(op: str, shape: Sequence[int] = X, **attrs: Any) -> Callable[[], ModelProto]:
    return partial(one, op, shape, **attrs)


def binary(op: str, first: Sequence[Any] = M, second: Sequence[Any] = M) -> Callable[[], ModelProto]:
    return partial(one, op, first, second)


def reduction(op: str, *axes: int) -> Callable[[], ModelProto]:
    return partial(one, op, (2, 3, 4), constants=[axes] if axes else [], keepdims=0)


def conv(x: Sequence[int], *weights: Sequence[int], op: str = "Conv", **attrs: Any) -> Callable[[], ModelProto]:
    return partial(one, op, x, weights=weights, **attrs)


def attention(q: Sequence[int], k: Sequence[int], *mask: Sequence[Any], **attrs: Any) -> Callable[[], ModelProto]:
    return partial(one, "Attention", q, k, k, *mask, **attrs)


def resize(scale: float, mode: str) -> Callable[[], ModelProto]:
    return partial(one, "Resize", (1, 2, 6, 6), constants=[None, (1.0, 1.0, scale, scale)], mode=mode)


POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
Q, K, MASK = (1, 2, 3, 4), (1, 2, 5, 4), (3, 5)

BUILDERS: Mapping[str, Callable[[], ModelProto]] = {
    "conv1d": conv((2, 3, 10), (4, 3, 3), (4,)),
    "conv2d_no_bias": conv((1, 3, 8, 8), (5, 3, 3, 3), pads=[1] * 4),
    "conv2d_stride": conv((1, 3, 8, 8), (5, 3, 3, 3), (5,), pads=[1] * 4, strides=[2, 2]),
    "conv2d_dilation": conv((1, 2, 9, 9), (3, 2, 3, 3), (3,), dilations=[2, 2]),
    "conv2d_groups": conv((2, 4, 6, 6), (8, 2, 3, 3), (8,), group=2),
    "conv2d_depthwise": conv((1, 6, 5, 5), (6, 1, 3, 3), pads=[1] * 4, group=6),
    "conv3d": conv((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), (3,)),
    "conv_transpose2d_no_bias": conv((1, 3, 4, 4), (3, 2, 3, 3), op="ConvTranspose", strides=[2, 2]),
    "conv_transpose2d_groups": conv((1, 4, 3, 3), (4, 3, 2, 2), (6,), op="ConvTranspose", strides=[2, 2], group=2),
    "linear": partial(one, "Gemm", (4, 5), weights=[(3, 5), (3,)], transB=1),
    "linear_no_bias": partial(one, "Gemm", (4, 5), weights=[(5, 3)]),
    "matmul": binary("MatMul", (3, 4), (4, 5)),
    "matmul_batched": binary("MatMul", (2, 3, 4), (2, 4, 5)),
    "matmul_broadcast": binary("MatMul", (2, 3, 4), (4, 5)),
    "einsum": partial(one, "Einsum", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bik"),
    "batch_norm_inference": partial(one, "BatchNormalization", X, weights=[(3,)] * 4),
    "batch_norm_training": partial(
        one, "BatchNormalization", X, weights=[(3,)] * 4, outputs=3, training_mode=1, momentum=0.9
    ),
    "layer_norm": partial(one, "LayerNormalization", (2, 5, 8), weights=[(8,), (8,)]),
    "group_norm": partial(one, "GroupNormalization", (2, 6, 2, 2), weights=[(6,), (6,)], num_groups=3),
    "instance_norm": partial(one, "InstanceNormalization", (2, 3, 2, 3), weights=[(3,), (3,)]),
    "rms_norm": partial(one, "RMSNormalization", (4, 8), weights=[(8,)]),
    "l2_normalize": unary("LpNormalization", (4, 6), axis=1, p=2),
    "local_response_norm": unary("LRN", (1, 6, 3, 3), size=5),
    "attention": attention(Q, K),
    "attention_bool_mask": attention(Q, K, (BOOL, MASK)),
    "attention_float_mask": attention(Q, K, MASK),
    "attention_causal": attention((1, 2, 4, 3), (1, 2, 4, 3), is_causal=1),
    "attention_grouped": attention((1, 4, 3, 2), (1, 2, 5, 2)),
    "lstm": partial(recurrent, "LSTM", 4, cell=True),
    "gru": partial(recurrent, "GRU", 3, linear_before_reset=1),
    "rnn": partial(recurrent, "RNN", 1),
    "cross_entropy": partial(one, "SoftmaxCrossEntropyLoss", (4, 3), (INT64, (4,))),
    "dropout_inference": unary("Dropout", (4, 6)),
    "dropout_training": dropout_training,
    "relu": unary("Relu"),
    "leaky_relu": unary("LeakyRelu", alpha=0.1),
    "prelu": prelu,
    "sigmoid": unary("Sigmoid"),
    "tanh": unary("Tanh"),
    "gelu": unary("Gelu"),
    "gelu_tanh": unary("Gelu", approximate="tanh"),
    "silu": unary("Swish"),
    "mish": unary("Mish"),
    "softplus": unary("Softplus"),
    "softsign": unary("Softsign"),
    "elu": unary("Elu"),
    "selu": unary("Selu"),
    "hard_sigmoid": unary("HardSigmoid"),
    "hard_swish": unary("HardSwish"),
    "hard_shrink": unary("Shrink", lambd=0.5),
    "soft_shrink": unary("Shrink", lambd=0.5, bias=0.5),
    "clip": unary("Clip", constants=[-1.0, 2.0]),
    "clip_below": unary("Clip", constants=[0.0]),
    "softmax": unary("Softmax", (4, 6), axis=1),
    "log_softmax": unary("LogSoftmax", (4, 6), axis=1),
    "add_broadcast": binary("Add", (3, 1), (1, 4)),
    "add_scalar": unary("Add", M, constants=[2.0]),
    "sub": binary("Sub"),
    "mul": binary("Mul", M, (4,)),
    "div": binary("Div"),
    "pow": binary("Pow"),
    "pow_square": unary("Pow", M, constants=[2.0]),
    "maximum": binary("Max"),
    "neg": unary("Neg", M),
    "abs": unary("Abs", M),
    "exp": unary("Exp", M),
    "log": unary("Log", M),
    "sqrt": unary("Sqrt", M),
    "erf": unary("Erf", M),
    "less": binary("Less"),
    "where": partial(one, "Where", (BOOL, M), M, M),
    "reduce_sum": reduction("ReduceSum", 1, 2),
    "reduce_mean": reduction("ReduceMean", 1),
    "reduce_max": reduction("ReduceMax", 2),
    "reduce_min": reduction("ReduceMin"),
    "argmax": unary("ArgMax", (2, 3, 4), axis=2, keepdims=0),
    "log_sum_exp": reduction("ReduceLogSumExp", 2),
    "cumsum": unary("CumSum", (2, 3, 4), constants=[1]),
    "topk": unary("TopK", (2, 3, 4), constants=[(2,)], outputs=2, axis=2),
    "max_pool": unary("MaxPool", (1, 2, 6, 6), **POOL),
    "avg_pool": unary("AveragePool", (1, 2, 6, 6), count_include_pad=1, **POOL),
    "global_avg_pool": unary("GlobalAveragePool", (1, 2, 6, 6)),
    "resize_nearest": resize(2.0, "nearest"),
    "resize_bilinear": resize(2.0, "linear"),
    "resize_bilinear_down": resize(1 / 3, "linear"),
    "affine_grid": partial(one, "AffineGrid", (2, 2, 3), constants=[(2, 3, 5, 6)]),
    "concat": partial(one, "Concat", (2, 3), (2, 5), axis=1),
    "split": unary("Split", (6, 4), outputs=3, axis=0, num_outputs=3),
    "slice": unary("Slice", (6, 4), constants=[(1,), (3,), (0,)]),
    "transpose": unary("Transpose", (2, 3, 4), perm=[2, 0, 1]),
    "broadcast_to": unary("Expand", (1, 4), constants=[(3, 4)]),
    "reshape": unary("Reshape", (2, 3), constants=[(3, 2)]),
    "pad": unary("Pad", (2, 3), constants=[(1, 2, 1, 2)]),
    "tile": unary("Tile", (2, 3), constants=[(2, 3)]),
    "gather": partial(one, "Gather", (10, 3), (INT64, (4,))),
    "embedding": embedding,
    "cast": unary("Cast", M, to=FLOAT16),
    "depth_to_space": unary("DepthToSpace", (1, 8, 2, 3), blocksize=2),
}
"""One builder for each row of the table that is a single ONNX operator."""
