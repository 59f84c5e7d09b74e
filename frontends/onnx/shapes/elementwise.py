"""Shapes of operators that compute every element from the elements at its place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from costcore.dims import Dim, maximum

from ..node import Node
from ..values.constant_folding import BINARY, UNARY, cast, each
from ..values.value import DTYPES, FLOATS, Shape, Value
from .rules import Rule


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """The shape that all ``shapes`` broadcast to.

    Raises:
        CostError: where they do not.
    """

    def pair(a: Dim, b: Dim) -> Dim:
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        if isinstance(a, int) and isinstance(b, int):
            raise node.error(f"cannot broadcast its inputs {' and '.join(map(str, shapes))}")
        if isinstance(a, int) or isinstance(b, int):
            return a if isinstance(a, int) else b  # the symbol is this number, or 1
        return maximum(a, b)

    def both(a: Shape, b: Shape) -> Shape:
        rank = max(len(a), len(b))
        return tuple(map(pair, (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))

    return reduce(both, shapes)


def given(node: Node) -> list[Value]:
    """The inputs that are not left out.

    Raises:
        CostError: where there is none.
    """
    values = [value for value in node.inputs if value is not None]
    if not values:
        raise node.error("has no inputs")
    return values


def same(node: Node) -> Sequence[Value]:
    """The output is like the first input."""
    x = given(node)[0]
    if node.op == "Gelu" and node.args.get("approximate", "none") not in ("none", "tanh"):
        raise node.error(f"has the unknown approximation {node.args['approximate']!r}")
    function = UNARY.get(node.op)
    return [node.result(x.known, x.dtype, each(lambda a, *_: function(a)) if function else None)]


def shape_only(dtype: str) -> Rule:
    """The output has the shape of the first input and this element type."""
    return lambda node: [node.result(given(node)[0].known, dtype)]


def arithmetic(node: Node) -> Sequence[Value]:
    """Inputs of equal standing, broadcast; before opset 7 only the second is, onto the first."""
    values = given(node)
    dtype = values[0].dtype
    name = node.op
    if name == "Div" and dtype in FLOATS:
        name = "Div of floats"
    elif name == "Mod" and node.args.get("fmod"):
        name = "Mod as in C"
    known = BINARY.get(name)
    fold = (lambda *arrays: reduce(each(known), arrays)) if known else None
    shape = values[0].known if "broadcast" in node.args else broadcast(node, *(v.known for v in values))
    return [node.result(shape, dtype, fold)]


def comparison(node: Node) -> Sequence[Value]:
    """As :func:`arithmetic`; the answers are bools."""
    result = arithmetic(node)[0]
    result.dtype = "bool"
    return [result]


def where(node: Node) -> Sequence[Value]:
    """Each element from one of two inputs."""
    condition, x, y = node.value("condition"), node.value("X"), node.value("Y")
    shape = broadcast(node, condition.known, x.known, y.known)
    return [node.result(shape, x.dtype, each(lambda c, a, b: a if c else b))]


def convert(node: Node) -> Sequence[Value]:
    """Another element type: of an attribute, or of the second input."""
    x, target = node.value("input"), node.args.get("to")
    if target is None:
        dtype = node.value("target_type").dtype
    elif target in DTYPES:
        dtype = DTYPES[target]
    else:
        raise node.error(f"has the unknown element type {target}")
    return [node.result(x.known, dtype, each(cast(dtype)), count=1)]


def dropout(node: Node) -> Sequence[Value]:
    """The output and, where asked for, the mask: of bools since opset 10."""
    x = node.value("data")
    return [node.result(x.known, x.dtype), node.result(x.known, "bool" if node.version >= 10 else x.dtype)]


def quantize(node: Node) -> Sequence[Value]:
    """The output has the type of the zero point, or of the attribute, or is uint8."""
    zero = node.get("y_zero_point")
    chosen = DTYPES.get(node.args.get("output_dtype") or 0, "uint8")
    return [node.result(node.value("x").known, zero.dtype if zero is not None else chosen)]


def dequantize(node: Node) -> Sequence[Value]:
    """The output has the type of the scale, or of the attribute."""
    dtype = DTYPES.get(node.args.get("output_dtype") or 0, node.value("x_scale").dtype)
    return [node.result(node.value("x").known, dtype)]


def dynamic_quantize(node: Node) -> Sequence[Value]:
    """The output, its scale and its zero point."""
    x = node.value("x")
    return [node.result(x.known, "uint8"), node.result((), "float32"), node.result((), "uint8")]


RULES = {
    **dict.fromkeys(
        (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Clip", "Cos"),
            *("Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "LeakyRelu", "Log"),
            *("LogSoftmax", "Mish", "Neg", "Not", "PRelu", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid"),
            *("Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh"),
            *("ThresholdedRelu", "LRN", "LpNormalization", "MeanVarianceNormalization", "InstanceNormalization"),
            *("GroupNormalization", "RMSNormalization", "RotaryEmbedding", "CumSum", "CumProd", "ReverseSequence"),
            *("Trilu", "ScatterElements", "ScatterND", "Scatter", "TensorScatter"),
        ),
        same,
    ),
    **dict.fromkeys(("IsInf", "IsNaN", "RegexFullMatch"), shape_only("bool")),
    **dict.fromkeys(
        (
            *("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul"),
            *("Pow", "Sub", "Sum", "SwiGLU"),
        ),
        arithmetic,
    ),
    **dict.fromkeys(
        ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor"),
        comparison,
    ),
    "Where": where,
    "Cast": convert,
    "CastLike": convert,
    "Dropout": dropout,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
}
