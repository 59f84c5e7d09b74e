"""Operators as exporters decompose them, each with the operator and its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from onnx import ModelProto, TensorProto

from costcore import Report, estimate
from tests.whole_networks.onnx_models import Graph

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
LOWEST = -3.4028234663852886e38


class Spelled(Graph):
    """A graph of spelled-out operators."""

    def scalar(self, value: float) -> str:
        return self.number(value, dtype=FLOAT, scalar=True)

    def ones(self, count: int, value: float = 1.0) -> str:
        return self.number(*[value] * count, dtype=FLOAT)


Write = Callable[..., str]
Places = tuple[tuple[int, ...], ...]


def linear(g: Spelled) -> str:
    return g("Add", g.weight(5), g("MatMul", "x", g("Transpose", g.weight(5, 8), perm=[1, 0])))


def linear_folded(g: Spelled) -> str:
    return g("Add", g("MatMul", "x", g.weight(8, 5)), g.weight(5))


def linear_unbiased(g: Spelled) -> str:
    return g("MatMul", "x", g("Transpose", g.weight(5, 8), perm=[1, 0]))


def conv(g: Spelled) -> str:
    """A convolution with a computed bias of zeros, as the newer exporter writes it without folding."""
    return g("Conv", "x", g.weight(4, 6, 3), g("Expand", g.scalar(0.0), g.number(4)))


def layer_norm(g: Spelled, axes: tuple[int, ...] = (-1,), other: tuple[int, ...] | None = None) -> str:
    centred = g("Sub", "x", g("ReduceMean", "x", g.number(*axes)))
    variance = g("ReduceMean", g("Pow", centred, g.scalar(2.0)), g.number(*(other or axes)))
    y = g("Div", centred, g("Sqrt", g("Add", variance, g.scalar(1e-5))))
    return g("Add", g("Mul", y, g.weight(8)), g.weight(8))


def layer_norm_of_products(g: Spelled) -> str:
    centred = g("Sub", "x", g("ReduceMean", "x", g.number(2)))
    variance = g("ReduceMean", g("Mul", centred, centred), g.number(2))
    return g("Div", centred, g("Sqrt", g("Add", g.scalar(1e-5), variance)))


def rms_norm(g: Spelled, axes: tuple[int, ...] = (-1,)) -> str:
    mean = g("ReduceMean", g("Pow", "x", g.scalar(2.0)), g.number(*axes))
    scale = g("Reciprocal", g("Sqrt", g("Add", mean, g.scalar(1e-6))))
    return g("Mul", g.weight(8), g("Mul", "x", scale))


def rms_norm_by_division(g: Spelled) -> str:
    mean = g("ReduceMean", g("Mul", "x", "x"), g.number(-1))
    return g("Div", "x", g("Sqrt", g("Add", mean, g.scalar(1e-6))))


def group_norm(g: Spelled) -> str:
    rows = g("Reshape", "x", g.number(0, 3, -1))
    normal = g("InstanceNormalization", rows, g.ones(3), g.ones(3, 0.0))
    y = g("Mul", g("Reshape", normal, g("Shape", "x")), g("Unsqueeze", g.weight(6), g.number(1)))
    return g("Add", y, g("Unsqueeze", g.weight(6), g.number(1)))


def gelu(g: Spelled) -> str:
    """As the older exporter writes it."""
    inner = g("Add", g("Erf", g("Div", "x", g.scalar(2**0.5))), g.scalar(1.0))
    return g("Mul", g("Mul", "x", inner), g.scalar(0.5))


def gelu_of_half(g: Spelled) -> str:
    """As the newer one does."""
    inner = g("Add", g("Erf", g("Mul", "x", g.scalar(0.5**0.5))), g.scalar(1.0))
    return g("Mul", "x", g("Mul", g.scalar(0.5), inner))


def gelu_tanh(g: Spelled) -> str:
    cube = g("Pow", "x", g.scalar(3.0))
    inner = g("Mul", g.scalar(0.7978845608), g("Add", "x", g("Mul", g.scalar(0.044715), cube)))
    return g("Mul", "x", g("Mul", g.scalar(0.5), g("Add", g("Tanh", inner), g.scalar(1.0))))


def gelu_tanh_of_products(g: Spelled) -> str:
    cube = g("Mul", "x", g("Mul", "x", "x"))
    inner = g("Mul", g.scalar(0.7978845608), g("Add", "x", g("Mul", g.scalar(0.044715), cube)))
    return g("Mul", g.scalar(0.5), g("Mul", "x", g("Add", g.scalar(1.0), g("Tanh", inner))))


def silu(g: Spelled) -> str:
    return g("Mul", "x", g("Sigmoid", "x"))


def elu(g: Spelled) -> str:
    return g("Mul", g("Elu", g("Mul", "x", g.scalar(1.0)), alpha=0.5), g.scalar(1.0))


def softplus(g: Spelled) -> str:
    """As the older exporter writes it."""
    return g("Div", g("Softplus", g("Mul", "x", g.scalar(2.0))), g.scalar(2.0))


def mish(g: Spelled) -> str:
    return g("Mul", "x", g("Tanh", g("Softplus", "x")))


def glu(g: Spelled) -> str:
    first, second = g("Split", "x", axis=-1, num_outputs=2, outputs=2)
    return g("Mul", first, g("Sigmoid", second))


def addcmul(g: Spelled) -> str:
    """As the older exporter writes it, with the factor along an axis."""
    return g("Add", "x", g("Mul", g("Mul", "x", g.weight(8)), g.ones(1, 0.5)))


def baddbmm(g: Spelled) -> str:
    return g("Add", g("Mul", g("MatMul", "x", "k"), g.scalar(0.5)), g("Mul", g.weight(2, 6, 6), g.scalar(3.0)))


def bilinear(g: Spelled) -> str:
    forms = g("Reshape", g("Transpose", g.weight(5, 8, 8), perm=[1, 0, 2]), g.number(8, 40))
    vectors = g("Reshape", g("MatMul", "x", forms), g.number(2, 6, 5, 8))
    y = g("Squeeze", g("MatMul", vectors, g("Unsqueeze", "x", g.number(-1))), g.number(-1))
    return g("Add", y, g.weight(5))


def weight_norm(g: Spelled) -> str:
    """As the older exporter writes it, of a weight that is an input here."""
    return g("Mul", g("Div", "x", g("ReduceL2", "x", g.number(0, 2))), g.weight(1, 6, 1))


def weight_norm_by_factor(g: Spelled) -> str:
    """As the newer one does."""
    return g("Mul", "x", g("Div", g.weight(1, 6, 1), g("ReduceL2", "x", g.number(0, 2))))


def not_equal(g: Spelled) -> str:
    return g("Not", g("Equal", "x", g.scalar(0.0)))


def rsqrt(g: Spelled) -> str:
    return g("Reciprocal", g("Sqrt", "x"))


def select(g: Spelled) -> str:
    return g("Gather", "x", g.number(1, scalar=True), axis=1)


def roll(g: Spelled, late: tuple[int, ...] = (2, 1 << 62, 1), early: tuple[int, ...] = (0, 2, 1), axis: int = 1) -> str:
    parts = (g("Slice", "x", *(g.number(place) for place in part)) for part in (late, early))
    return g("Concat", *parts, axis=axis)


def gather(g: Spelled, before: tuple[int, ...] = (1, 0, 2), after: tuple[int, ...] = (1, 0, 2)) -> str:
    """As the newer exporter picks by one tensor of indices."""
    spread = g("Expand", "indices", g("Shape", g("Max", "indices")))
    column = g("Concat", g("Unsqueeze", spread, g.number(-1)), axis=-1)
    return g("Transpose", g("GatherND", g("Transpose", "x", perm=before), column), perm=after)


def index(g: Spelled) -> str:
    """As the newer exporter picks by two tensors of indices, which broadcast."""
    shape = g("Shape", g("Max", "rows", "columns"))
    places = [g("Unsqueeze", g("Expand", each, shape), g.number(-1)) for each in ("rows", "columns")]
    elements = g("GatherND", g("Transpose", "x", perm=(0, 1, 2)), g("Concat", *places, axis=-1))
    return g("Transpose", elements, perm=(0, 1, 2))


def as_strided(g: Spelled) -> str:
    places = g("Reshape", g.number(0, 2, 4, 8, 10, 12), g.number(2, 3))
    return g("Gather", g("Reshape", "x", g.number(-1)), places)


def picked(g: Spelled, rows: Places, columns: Places) -> str:
    """Elements of each channel, at the places of all windows."""
    one = g("Reshape", g.number(*chain(*rows)), g.number(len(rows), len(rows[0]), 1, 1))
    other = g("Reshape", g.number(*chain(*columns)), g.number(len(columns), len(columns[0])))
    shape = g("Shape", g("Max", one, other))
    places = g("Concat", *(g("Unsqueeze", g("Expand", x, shape), g.number(-1)) for x in (one, other)), axis=-1)
    return g("Transpose", g("GatherND", g("Transpose", "x", perm=[1, 2, 0]), places), perm=[4, 0, 1, 2, 3])


ROWS, EVEN = ((0, 1), (1, 2), (3, 4), (4, 5)), ((0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7))
UNEVEN, SPARE = ((0, 1, 2, 3), (2, 3, 4, 5), (5, 6, 7, 7)), (0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
"""Windows of 6 rows for 4, of 8 columns for 6, and for 3, of which one is longer than the others."""


def adaptive_avg_pool(g: Spelled, rows: Places = ROWS, columns: Places = EVEN, axes: tuple[int, ...] = (2, 4)) -> str:
    """As the newer exporter writes it where all windows are of one size."""
    return g("ReduceMean", picked(g, rows, columns), g.number(*axes), keepdims=0)


def adaptive_avg_pool_uneven(
    g: Spelled,
    columns: Places = UNEVEN,
    spare: tuple[int, ...] = SPARE,
    terms: tuple[tuple[int, int], ...] = tuple(product(range(2), range(4))),
    axis: int = 2,
) -> str:
    """As it writes it where they are not."""
    mask = g("Reshape", g.number(*spare, dtype=BOOL), g.number(3, 4))
    kept = g("Where", mask, g.scalar(0.0), picked(g, ROWS, columns))
    parts = [
        g("Gather", g("Gather", kept, g.number(i, scalar=True), axis=axis), g.number(j, scalar=True), axis=3)
        for i, j in terms
    ]
    total = parts[0]
    for part in parts[1:]:
        total = g("Add", total, part)
    return g("Div", total, g.number(2 * 3.0, 2 * 4.0, 2 * 3.0, dtype=FLOAT))


def hard_shrink(g: Spelled) -> str:
    """As the older exporter writes it."""
    above, below = g("Greater", "x", g.scalar(0.5)), g("Less", "x", g.scalar(-0.5))
    outside = g("Or", g("Cast", above, to=BOOL), g("Cast", below, to=BOOL))
    return g("Where", outside, "x", g.scalar(0.0))


def soft_shrink(g: Spelled) -> str:
    """As the newer one does."""
    towards_zero = g("Sub", "x", g("Mul", g("Sign", "x"), g.scalar(0.5)))
    return g("Where", g("Greater", g("Abs", "x"), g.scalar(0.5)), towards_zero, g("Mul", "x", g.scalar(0.0)))


def log_sigmoid(g: Spelled) -> str:
    return g("Log", g("Sigmoid", "x"))


def hard_swish(g: Spelled) -> str:
    """As exporters write it before opset 14."""
    return g("Mul", "x", g("HardSigmoid", "x", alpha=1 / 6))


def lerp(g: Spelled) -> str:
    difference = g("Sub", "y", "x")
    near = g("Add", "x", g("Mul", "t", difference))
    far = g("Sub", "y", g("Mul", difference, g("Sub", g.scalar(1.0), "t")))
    return g("Where", g("Less", "t", g.scalar(0.5)), near, far)


def addcdiv(g: Spelled) -> str:
    return g("Add", "x", g("Mul", g("Div", "y", "t"), g.scalar(1.5)))


def expm1(g: Spelled) -> str:
    return g("Sub", g("Exp", "x"), g.scalar(1.0))


def log1p(g: Spelled) -> str:
    return g("Log", g("Add", g.scalar(1.0), "x"))


def log2(g: Spelled) -> str:
    return g("Div", g("Log", "x"), g.scalar(0.6931471805599453))


def floor_div(g: Spelled) -> str:
    return g("Floor", g("Div", "x", "y"))


def remainder(g: Spelled) -> str:
    return g("Sub", "x", g("Mul", g("Floor", g("Div", "x", "y")), "y"))


def atan2(g: Spelled) -> str:
    angle, zero, half = g("Atan", g("Div", "x", "y")), g.scalar(0.0), g.scalar(3.141592653589793)
    other = g("Where", g("Greater", "x", zero), g("Add", angle, half), g("Sub", angle, half))
    return g("Where", g("Less", "y", zero), other, angle)


def var(g: Spelled, axes: tuple[int, ...] = (2,)) -> str:
    centred = g("Sub", "x", g("ReduceMean", "x", g.number(2)))
    squares = g("ReduceMean", g("Mul", centred, centred), g.number(*axes), keepdims=0)
    return g("Div", g("Mul", squares, g.scalar(8.0)), g.scalar(7.0))


def std(g: Spelled) -> str:
    return g("Sqrt", var(g))


def cosine_similarity(g: Spelled) -> str:
    """As the older exporter writes it."""
    dot, x, y = (g("ReduceSum", g("Mul", a, b), g.number(2), keepdims=0) for a, b in ("xy", "xx", "yy"))
    return g("Div", dot, g("Max", g("Sqrt", g("Mul", x, y)), g.scalar(1e-8)))


def pairwise_distance(g: Spelled) -> str:
    squares = g("ReduceSum", g("Pow", g("Sub", "x", "y"), g.scalar(2.0)), g.number(2), keepdims=0)
    return g("Pow", squares, g.scalar(0.4999998))


def pairwise_distances(g: Spelled) -> str:
    differences = g("Sub", g("Unsqueeze", "x", g.number(2)), g("Unsqueeze", "y", g.number(1)))
    squares = g("ReduceSum", g("Pow", differences, g.scalar(2.0)), g.number(3), keepdims=0)
    return g("Pow", squares, g.scalar(0.4999998))


def mse_loss(g: Spelled) -> str:
    """As the older exporter writes it."""
    broadcast = g("Add", g("Add", g("ConstantOfShape", g("Shape", "x")), "x"), "y")
    x, y = (g("Expand", value, g("Shape", broadcast)) for value in "xy")
    return g("ReduceMean", g("Mul", g("Sub", x, y), g("Sub", x, y)), keepdims=0)


def kl_div(g: Spelled) -> str:
    """As the older exporter writes it."""
    terms = g("Mul", "y", g("Sub", g("Log", "y"), "x"))
    zeros = g("ConstantOfShape", g("Shape", terms))
    return g("ReduceSum", g("Where", g("Greater", "y", g.scalar(0.0)), terms, zeros), keepdims=0)


def binary_cross_entropy_with_logits(g: Spelled) -> str:
    """As the older exporter writes it."""
    p = g("Sigmoid", "x")
    rest = g("Mul", g("Sub", g.scalar(1.0), "y"), g("Log", g("Sub", g.scalar(1.0), p)))
    return g("Neg", g("Add", g("Mul", "y", g("Log", p)), rest))


def plain_norm(g: Spelled) -> str:
    ones, zeros = (g("Expand", g.ones(1, x), g.number(6)) for x in (1.0, 0.0))
    return g("InstanceNormalization", "x", ones, zeros)


def im2col(g: Spelled) -> str:
    """Windows of 3 x 3 of an image of 5 x 6."""

    def places(count: int) -> str:
        starts, steps = (g("Range", *(g.number(n, scalar=True) for n in (0, n, 1))) for n in (count, 3))
        return g("Add", g("Unsqueeze", starts, g.number(0)), g("Unsqueeze", steps, g.number(1)))

    padded = g("Pad", "image", g.number(*[0] * 8))
    windows = g("Gather", g("Gather", padded, places(3), axis=2), places(4), axis=4)
    return g("Reshape", g("Transpose", windows, perm=[0, 1, 2, 4, 3, 5]), g.number(2, 18, 12))


def circular_pad(g: Spelled, stop: int = 2) -> str:
    """As the older exporter writes it: two elements before, and as many after."""
    last = g("Slice", "x", g.number(-2), g.number(1 << 62), g.number(2))
    return g("Concat", last, "x", g("Slice", "x", g.number(0), g.number(stop), g.number(2)), axis=2)


def same_type(g: Spelled) -> str:
    return g("Cast", "x", to=FLOAT)


def scores(g: Spelled, mask: str = "", axis: int = -1, k: str = "k") -> str:
    k = g("Transpose", k, perm=[0, 1, 3, 2])
    y = g("MatMul", g("Mul", "q", g.scalar(0.6)), g("Mul", k, g.scalar(0.6)))
    return g("Softmax", g("Add", y, mask) if mask else y, axis=axis)


def attention(g: Spelled) -> str:
    """As the older exporter writes it."""
    return g("MatMul", scores(g), "v")


def attention_by_reshapes(g: Spelled) -> str:
    """As the newer exporter turns the keys."""
    k = g("Transpose", g("Reshape", "k", g.number(-1, 4, 8)), perm=[0, 2, 1])
    k = g("Reshape", k, g.number(2, 3, 8, 4))
    y = g("Softmax", g("MatMul", g("Mul", "q", g.scalar(0.6)), g("Mul", k, g.scalar(0.6))))
    return g("MatMul", y, "v")


def attention_masked(g: Spelled) -> str:
    return g("MatMul", scores(g, "mask"), "v")


def attention_where(g: Spelled, lowest: float = LOWEST) -> str:
    """A mask of bools, and no weights where a row has none."""
    zero = g.scalar(0.0)
    weights = scores(g, g("Where", "allowed", zero, g.scalar(lowest)))
    return g("MatMul", g("Where", g("IsNaN", weights), zero, weights), "v")


def attention_causal(g: Spelled, upper: int = 0) -> str:
    ones = g("Expand", g.scalar(1.0), g.number(4, 4))
    lower = g("Trilu", g("Relu", ones) if upper < 0 else ones, upper=max(upper, 0))
    zero = g.scalar(0.0)
    mask = g("Where", g("Equal", lower, zero), g.scalar(float("-inf")), zero)
    return g("MatMul", scores(g, mask), "v")


BILINEAR = "%y : [num_users=1] = call_function[target=torch.ops.aten.bilinear.default](args = (%x, %x), kwargs = {})"
X = {"x": (2, 6, 8)}
XY = {**X, "y": (2, 6, 8)}
INDEXED = {**X, "rows": (TensorProto.INT64, (3, 1)), "columns": (TensorProto.INT64, (1, 2))}
XYT = {**XY, "t": (2, 6, 8)}
QKV = dict.fromkeys("qkv", (2, 3, 4, 8))
MASKED = {**QKV, "mask": (4, 4)}
ALLOWED = {**QKV, "allowed": (BOOL, (2, 1, 4, 4))}


@dataclass(frozen=True)
class Case:
    """An operator, how it is spelled out, and what it costs: FLOPs with a fused multiply-add as one, and bytes."""

    write: Write
    op: str
    inputs: dict[str, Any]
    flops: int
    mread: int
    mwrite: int
    any_number: tuple[float, ...] = ()
    """Constants that the definition leaves open."""
    origin: str = ""
    """The operation that has to be noted at its nodes."""


# |x| = 96 in 12 rows of 8; a norm over c elements: 15+9+16+3+1 = 44 a row of 8 with affine, 8 fewer without;
# root mean square: 7+17+1+2+1 = 28 a row with weight, 20 without; 6 groups of 16: 31+17+32+3+1 = 84.
# The length of 6 channels of 16 weights: 1+15+1, a quotient, 16 products: 34 a channel.
# The windows of 2 channels hold 4*2 rows, and 6*2 or 3 + 4 + 3 columns: as many additions and divisions.
# Products of 6 rows and 6 columns of 8, twice, onto an addend: 72 elements of 8, and two factors an element.
# Bilinear: 60 outputs, for each a vector of 8 products of 8, and its product with the other vector onto the bias.
# Hard shrink: 2 comparisons; soft shrink: these, a sum or a difference, and the choice of it. Hard swish: x + 3, two
# bounds, a product and a quotient. The variance of 8: their mean (8), 8 differences, 8 products, one quotient: 25.
# Rows of 8: three dot products of 8, two roots, two comparisons, a product, a quotient; a distance is 8 differences, 8
# products and a root, and 8 sums where PyTorch adds a small number. Losses: a difference and an fma an element, and one
# quotient; a logarithm, a difference and a product, 95 of them onto a sum. Instance norm: a layer norm without affine.
# Attention: 96 scores of 8 products, 192 outputs of 4, one scale a score, 24 rows of softmax with 2*4 + 3.
ATTENTION = 96 * 8 + 192 * 4 + 96 + 24 * 11
CASES = (
    Case(linear, "linear", X, 12 * 5 * 8, 4 * (96 + 40 + 5), 4 * 60),
    Case(linear_folded, "linear", X, 12 * 5 * 8, 4 * (96 + 40 + 5), 4 * 60),
    Case(linear_unbiased, "linear", X, 12 * 5 * 8, 4 * (96 + 40), 4 * 60),
    Case(conv, "conv", X, 2 * 4 * 6 * 6 * 3, 4 * (96 + 72), 4 * 48),
    Case(layer_norm, "layer_norm", X, 12 * 44, 4 * (96 + 16), 4 * 96, (1e-5,)),
    Case(layer_norm_of_products, "layer_norm", X, 12 * 36, 4 * 96, 4 * 96, (1e-5,)),
    Case(rms_norm, "rms_norm", X, 12 * 28, 4 * (96 + 8), 4 * 96, (1e-6,)),
    Case(rms_norm_by_division, "rms_norm", X, 12 * 20, 4 * 96, 4 * 96, (1e-6,)),
    Case(group_norm, "group_norm", X, 6 * 84, 4 * (96 + 12), 4 * 96),
    Case(gelu, "gelu", X, 5 * 96, 4 * 96, 4 * 96),
    Case(gelu_of_half, "gelu", X, 5 * 96, 4 * 96, 4 * 96),
    Case(gelu_tanh, "gelu", X, 9 * 96, 4 * 96, 4 * 96),
    Case(gelu_tanh_of_products, "gelu", X, 9 * 96, 4 * 96, 4 * 96),
    Case(silu, "silu", X, 5 * 96, 4 * 96, 4 * 96),
    Case(elu, "elu", X, 4 * 96, 4 * 96, 4 * 96),
    Case(softplus, "softplus", X, 5 * 96, 4 * 96, 4 * 96, (2.0,)),
    Case(mish, "mish", X, 5 * 96, 4 * 96, 4 * 96),
    Case(glu, "glu", X, 5 * 48, 4 * 96, 4 * 48),
    Case(addcmul, "addcmul", X, 2 * 96, 4 * (96 + 96 + 8), 4 * 96, (0.5,)),
    Case(baddbmm, "matmul", {**X, "k": (2, 8, 6)}, 72 * (8 + 2), 4 * (96 + 96 + 72), 4 * 72, (0.5, 3.0)),
    Case(bilinear, "bilinear", X, 480 * 8 + 60 * 8, 4 * (96 + 96 + 320 + 5), 4 * 60, (), BILINEAR),
    Case(weight_norm, "weight_norm", X, 6 * 34, 4 * (96 + 6), 4 * 96),
    Case(weight_norm_by_factor, "weight_norm", X, 6 * 34, 4 * (96 + 6), 4 * 96),
    Case(not_equal, "not_equal", X, 96, 4 * 96, 96, (0.0,)),
    Case(rsqrt, "rsqrt", X, 2 * 96, 4 * 96, 4 * 96),
    Case(select, "slice", X, 0, 4 * 16, 4 * 16),
    Case(roll, "roll", X, 0, 4 * 96, 4 * 96),
    Case(gather, "gather", {**X, "indices": (TensorProto.INT64, (3,))}, 0, 4 * 48 + 8 * 3, 4 * 48),
    Case(index, "gather", INDEXED, 0, 4 * 48 + 8 * 5, 4 * 48, origin="torch.ops.aten.index.Tensor"),
    Case(as_strided, "as_strided", X, 0, 4 * 6, 4 * 6, origin="torch.ops.aten.as_strided.default"),
    Case(adaptive_avg_pool, "adaptive_avg_pool", X, 192, 4 * 96, 4 * 48),
    Case(adaptive_avg_pool_uneven, "adaptive_avg_pool", X, 160, 4 * 96, 4 * 24),
    Case(same_type, "identity", X, 0, 0, 0),
    Case(hard_shrink, "hard_shrink", X, 2 * 96, 4 * 96, 4 * 96, (0.5, -0.5)),
    Case(soft_shrink, "soft_shrink", X, 4 * 96, 4 * 96, 4 * 96, (0.5,)),
    Case(log_sigmoid, "log_sigmoid", X, 5 * 96, 4 * 96, 4 * 96),
    Case(hard_swish, "hard_swish", X, 5 * 96, 4 * 96, 4 * 96),
    Case(lerp, "lerp", XYT, 3 * 96, 12 * 96, 4 * 96),
    Case(addcdiv, "addcdiv", XYT, 2 * 96, 12 * 96, 4 * 96, (1.5,)),
    Case(expm1, "expm1", X, 96, 4 * 96, 4 * 96),
    Case(log1p, "log1p", X, 96, 4 * 96, 4 * 96),
    Case(log2, "log2", X, 96, 4 * 96, 4 * 96),
    Case(floor_div, "floor_div", XY, 2 * 96, 8 * 96, 4 * 96),
    Case(remainder, "mod", XY, 96, 8 * 96, 4 * 96),
    Case(atan2, "atan2", XY, 96, 8 * 96, 4 * 96),
    Case(var, "var", X, 12 * 25, 4 * 96, 4 * 12, (7.0,)),
    Case(std, "std", X, 12 * 26, 4 * 96, 4 * 12, (7.0,)),
    Case(cosine_similarity, "cosine_similarity", XY, 12 * 30, 8 * 96, 4 * 12, (1e-8,)),
    Case(pairwise_distance, "pairwise_distance", XY, 12 * 25, 8 * 96, 4 * 12),
    Case(pairwise_distances, "pairwise_distances", XY, 72 * 17, 8 * 96, 4 * 72),
    Case(mse_loss, "mse_loss", XY, 2 * 96 + 1, 8 * 96, 4),
    Case(kl_div, "kl_div", XY, 3 * 96, 8 * 96, 4),
    Case(binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits", XY, 12 * 96, 8 * 96, 4 * 96),
    Case(plain_norm, "instance_norm", X, 12 * 36, 4 * 96, 4 * 96),
    Case(im2col, "im2col", {"image": (2, 2, 5, 6)}, 0, 4 * 120, 4 * 2 * 18 * 12),
    Case(circular_pad, "copy", X, 0, 4 * 96, 4 * 2 * 6 * 12),
    Case(attention, "attention", QKV, ATTENTION, 4 * 3 * 192, 4 * 192, (0.6,)),
    Case(attention_by_reshapes, "attention", QKV, ATTENTION, 4 * 3 * 192, 4 * 192, (0.6,)),
    Case(attention_masked, "attention", MASKED, ATTENTION + 96, 4 * (3 * 192 + 16), 4 * 192, (0.6,)),
    Case(attention_where, "attention", ALLOWED, ATTENTION + 96, 4 * 3 * 192 + 32, 4 * 192, (0.6,)),
    Case(attention_causal, "attention", QKV, ATTENTION, 4 * 3 * 192, 4 * 192, (0.6,)),
)
BY_NAME = {case.write.__name__: case for case in CASES}


def model(case: Case, **options: Any) -> ModelProto:
    g = Spelled()
    made = g.model(case.inputs, case.write(g, **options))
    return from_operation(made, *[case.origin] * len(made.graph.node)) if case.origin else made


def from_operation(made: ModelProto, *operations: str, line: str = "") -> ModelProto:
    """The model with the operation of the user's program, and the line that called it, noted at each of its nodes."""
    for node, operation in zip(made.graph.node, operations, strict=True):
        node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=operation)
        if line:
            trace = f'File "net.py", line 9, in forward\n    return self.norm(x)\n  File "norm.py", line 3\n    {line}'
            node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    return made


def priced(report: Report) -> list[tuple[Any, ...]]:
    """The calls that are more than shapes and constants."""
    names = ("op", "flops", "mread", "mwrite")
    found = (tuple(entry[name] for name in names) for entry in report.layer_report.values())
    return [row for row in found if row[0] not in ("constant", "shape", "reshape")]


def is_as_before(changed: ModelProto, op: str) -> bool:
    """Whether nothing of this model is taken for ``op`` that was none before."""
    plain, asked = estimate(changed), estimate(changed, regroup=True)
    return [e["op"] for e in plain.layer_report.values()].count(op) == sum(
        call.layer.op == op for call in asked.calls
    ) and not any(note.startswith(f"regrouped as {op}: ") for note in asked.notes)
