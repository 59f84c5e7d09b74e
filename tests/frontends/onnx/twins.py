"""How the price of an operator differs from that of the function that defines it, by kind of operation.

The functions are those of the standard, written out as models of ``onnx.backend.test``: their nodes are counted one by
one, and the operator as a whole, by the rules of DETAILS.md. Where these ask for other operations than the nodes do,
the difference is stated here, with the principle it follows from, as arithmetic on the shapes of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from onnx import helper

from costcore.ir import Layer, Operations
from tests.frontends.onnx.corpus import Reading

NONE = Operations()
MUL, ADD, DIV = Operations(mul=1), Operations(add=1), Operations(div=1)
CMP, SPECIAL = Operations(cmp=1), Operations(special=1)

APART = Operations(fma=-1, mul=1, add=1)
"""What the formula counts as one product that is at once added to something is two nodes."""


class Twin(NamedTuple):
    """Why a function costs something else than its operator, and how much more it costs.

    Attributes:
        why: the reason, with the principle, or the entry of DETAILS.md, that the operator follows.
        operations: what the function counts beyond its operator.
        macs: the same.
    """

    why: str
    operations: Callable[[Reading], Operations]
    macs: Callable[[Reading], int] = lambda _: 0


def minus(operations: Operations, others: Operations) -> Operations:
    """The difference of two counts."""
    return operations + others * -1


def layer_of(one: Reading) -> Layer:
    """The operator as the one layer it was read as."""
    (layer,) = {call.layer for call in one.calls if call.type == one.ops[0]}
    return layer


def setting(one: Reading, name: str, default: Any = None) -> Any:
    """An attribute of the operator."""
    given = {a.name: helper.get_attribute_value(a) for a in one.model.graph.node[0].attribute}
    return given.get(name, default)


def each(operations: Operations) -> Callable[[Reading], Operations]:
    """So many operations for every element of the output."""
    return lambda one: layer_of(one).out.size * operations


def rows_of(one: Reading, length: int) -> tuple[int, int]:
    """How many rows of that length the data are, and the length."""
    return layer_of(one)["x"].size // length, length


def along(one: Reading) -> tuple[int, int]:
    """The rows of a softmax."""
    layer = layer_of(one)
    return rows_of(one, layer["x"].shape[layer.attrs["axis"]])


def normalised(one: Reading) -> tuple[int, int]:
    """The rows of a norm over named axes."""
    layer = layer_of(one)
    return rows_of(one, prod(layer["x"].shape[axis] for axis in layer.attrs["axis"]))


def grouped(one: Reading) -> tuple[int, int]:
    """The rows of a norm over groups of channels."""
    layer = layer_of(one)
    return rows_of(one, prod(layer["x"].shape[1:]) // layer.attrs["groups"])


def maximum(one: Reading) -> Operations:
    """The maximum of a row, and its subtraction from every element."""
    rows, c = along(one)
    return rows * Operations(cmp=c - 1, add=c)


MEAN_OF_SQUARES = "products accumulate (3, layer_norm); the body: E[x^2] - E[x]^2, then a division of every element"


def layer_norm(c: int) -> Operations:
    """A row of layer_norm or group_norm, by its function less by its formula.

    The function: mean; squares and their mean; its square, subtracted; epsilon; root; centre, divide, scale, shift.
    """
    body = Operations(mul=c + 1 + c, add=(c - 1) + (c - 1) + 1 + 1 + c + c, div=1 + 1 + c, special=1)
    return minus(body, Operations(fma=2 * c - 1, mul=c + 1, add=2 * c, div=3, special=1))


def layer_normalization(one: Reading) -> Operations:
    """The function makes the reciprocal of the deviation as well, whoever reads it."""
    rows, c = normalised(one)
    return rows * (layer_norm(c) + DIV)


def group_normalization(one: Reading) -> Operations:
    rows, c = grouped(one)
    return rows * layer_norm(c)


def rms_normalization(one: Reading) -> Operations:
    """The function: squares and their mean; epsilon; root; divide, scale."""
    rows, c = normalised(one)
    body = Operations(mul=c + c, add=(c - 1) + 1, div=1 + c, special=1)
    return rows * minus(body, Operations(fma=c - 1, mul=2 * c + 1, add=1, div=2, special=1))


def mean_variance_normalization(one: Reading) -> Operations:
    """The function: mean; its square; squares and their mean; subtracted; root; centre; epsilon; divide."""
    rows, c = normalised(one)
    body = Operations(mul=1 + c, add=(c - 1) + (c - 1) + 1 + c + 1, div=1 + 1 + c, special=1)
    return rows * minus(body, Operations(fma=c - 1, mul=1, add=(c - 1) + c + 1, div=1 + 1 + c, special=1))


def gelu(one: Reading) -> Operations:
    is_tanh = setting(one, "approximate", b"none") == b"tanh"
    return NONE if is_tanh else layer_of(one).out.size * minus(DIV, MUL)


def sum_of_squares(one: Reading) -> Operations:
    """All but the first square of a sum; nothing at all, but a root of it, where nothing is summed."""
    layer = layer_of(one)
    if not layer["x"].size:
        return layer.out.size * SPECIAL if layer.op == "reduce_l2" else NONE
    return (layer["x"].size - layer.out.size) * APART


def logarithm_of_nothing(one: Reading) -> Operations:
    layer = layer_of(one)
    return NONE if layer["x"].size else layer.out.size * SPECIAL


def bounds(one: Reading) -> Operations:
    """A comparison and a choice for every bound."""
    return layer_of(one).out.size * CMP * sum(1 for name in one.model.graph.node[0].input[1:] if name)


def shrink(one: Reading) -> Operations:
    """Two bounds; without a bias nothing is added, but by the function."""
    return layer_of(one).out.size * (2 * CMP + (NONE if setting(one, "bias") else 2 * ADD))


def nll_loss(one: Reading) -> Operations:
    """Weights apart from the sum of what they weight; for an ignored class index 0 in its stead (x - x), a comparison,
    three choices, and weights of 0 and 1.
    """
    target = layer_of(one)["target"].size
    is_weighted = len(one.model.graph.node[0].input) == 3
    is_summed = setting(one, "reduction", b"mean") != b"none"
    apart = (target - 1) * APART if is_weighted and is_summed else NONE
    if setting(one, "ignore_index") is None:
        return apart
    found = target * (ADD + 4 * CMP) + apart
    if is_weighted:
        return found
    return found + target * MUL + ((target - 1) * ADD if setting(one, "reduction", b"mean") == b"mean" else NONE)


ANGLE = 2 * MUL + 2 * ADD + DIV
"""Of a window's length: length - 1, the choice of it by products with 0 and 1 and their sum, 2 pi over it."""


def cosines(one: Reading) -> Operations:
    """The function has three terms: a second angle, its cosine, its factor (0) and the sum, for every element."""
    return ANGLE + layer_of(one).out.size * (2 * MUL + ADD + SPECIAL)


def crop_or_pad(one: Reading) -> Operations:
    """Of every axis: the longer of two lengths; two differences and a half before, and again after padding."""
    axes = setting(one, "axes", range(layer_of(one)["x"].ndim))
    return len(axes) * (CMP + 2 * (2 * ADD + DIV))


def counted_up(one: Reading) -> Operations:
    """limit - start, over delta, rounded up, not below 0; then one sum for every number."""
    return ADD + DIV + 2 * CMP + layer_of(one).out.size * ADD


def spatial(one: Reading) -> tuple[int, int, tuple[int, ...]]:
    """Maps, their rank and the lengths of the axes of an affine grid."""
    maps, rank, _ = layer_of(one)["theta"].shape
    return maps, rank, layer_of(one).out.shape[1:-1]


def mapped(maps: int, points: int, rank: int) -> Operations:
    """The product of maps, rank x (rank + 1), with points: dot products of length rank + 1."""
    return maps * points * rank * Operations(mul=1, fma=rank)


def affine_grid(one: Reading) -> Operations:
    """A map of the plane is written as one of space, with a third row and column, by adding 1 to a 0 of each map.

    The coordinates: a line i * step + start for every axis, with 1 + 1 (first and step where corners are aligned) or 2
    quotients and 1 sum; each of three lines spread over all points by a sum with zeros, and the ones by another.
    """
    maps, rank, lengths = spatial(one)
    points, lines = prod(lengths), sum(lengths) * (MUL + ADD) + 4 * prod(lengths) * ADD
    aligned = setting(one, "align_corners", 0)
    steps = rank * (ADD + (1 if aligned else 2) * DIV)
    if rank == 2:
        return minus(mapped(maps, points, 3), mapped(maps, points, 2)) + lines + steps + maps * ADD
    return lines + steps + (CMP if aligned else NONE)


def map_of_space(one: Reading) -> int:
    """3 dot products of length 4 a point, where the definition has 2 of length 3 in the plane."""
    maps, rank, lengths = spatial(one)
    return maps * prod(lengths) * (3 * 4 - rank * (rank + 1))


def scaled_before(layer: Layer) -> tuple[int, Operations]:
    """How many scores there are, and the scaling: of all queries, and keys for every head, and not of the scores."""
    *batch, queries, width = layer["q"].shape
    keys = layer["k"].shape[-2]
    scores = prod(batch) * queries * keys
    return scores, (prod(batch) * (queries + keys) * width - scores) * MUL


def flex_attention(one: Reading) -> Operations:
    """With a modifier there is no formula: both are the function."""
    has_modifiers = setting(one, "score_mod") or setting(one, "prob_mod")
    return NONE if has_modifiers else scaled_before(layer_of(one))[1]


def attention(one: Reading) -> Operations:
    """Besides the scaling: a bias of zeros where there is no mask, minus infinity at places, rows of nothing else.

    The bias is as large as the mask (bools are made numbers), or as queries x keys; masks by place are added to it.
    """
    layer = layer_of(one)
    scores, found = scaled_before(layer)
    queries, keys, batch = layer["q"].shape[-2], layer["k"].shape[-2], layer["q"].shape[0]
    mask, lengths = layer.get("mask"), layer.get("lengths")
    bias: tuple[int, ...] = (queries, keys) if mask is None else (*mask.shape[:-1], keys)  # padded, where it is short
    if mask is None or mask.dtype == "bool":
        found += scores * ADD
    if mask is not None and mask.dtype == "bool":
        found += mask.size * CMP + scores * CMP * -1
    # where a query stands: behind the past, of each sequence by its length
    apart = 1 if lengths is None else batch
    offset = (0 if lengths is None else batch) * ADD + apart * queries * ADD
    pairs = apart * queries * keys
    placed = (queries, keys) if lengths is None else (batch, 1, queries, keys)
    left, right = layer.attrs.get("window") or (-1, -1)
    if layer.attrs["causal"]:
        bias = np.broadcast_shapes(bias, placed)
        found += offset + pairs * 2 * CMP + prod(bias) * ADD
    if (left, right) != (-1, -1):
        bias = np.broadcast_shapes(bias, placed)
        found += offset + pairs * (ADD + 2 * CMP) + prod(bias) * ADD  # how far, near enough, chosen; added
        found += pairs * (ADD + 2 * CMP) if right >= 0 else NONE  # how far ahead, near enough, both
    if lengths is not None:
        bias = np.broadcast_shapes(bias, (batch, 1, 1, keys))
        found += batch * keys * 2 * CMP + prod(bias) * ADD
    return found + prod(bias) * CMP + scores * CMP  # the maximum of every row, whether it is infinite; then a choice


BOTH = "compare, min, max, select are one cmp (2); the body compares, then chooses"
MAXIMUM = "no max-subtraction (below the table of formulas)"
INDICES = "index arithmetic is 0 (2)"
EMPTY = "an operator with an empty input costs 0 (8); the body's logarithm or root has one element"

TWINS: Mapping[str, Twin] = {
    "AffineGrid": Twin(f"{INDICES}; the map of the plane is 2 dot products of length 3 (1)", affine_grid, map_of_space),
    "Attention": Twin("one mul per score, one add or cmp per score with a mask, causal nothing (11)", attention),
    "BlackmanWindow": Twin(INDICES, lambda _: ANGLE),
    "Celu": Twin("the operations of its definition (2); the body's Elu multiplies by 1", each(MUL)),
    "CenterCropPad": Twin(INDICES, crop_or_pad),
    "Clip": Twin(BOTH, bounds),
    "Elu": Twin(BOTH, each(CMP)),
    "FlexAttention": Twin("one mul per score (11)", flex_attention),
    "Gelu": Twin("x * (1 / sqrt 2) is a product (gelu), x / sqrt 2 a quotient", gelu),
    "GreaterOrEqual": Twin("compare is one cmp (2); the body asks twice and joins the answers", each(2 * CMP)),
    "GroupNormalization": Twin(MEAN_OF_SQUARES, group_normalization),
    "HammingWindow": Twin(f"{INDICES}; the operations of its definition (2), without a second cosine times 0", cosines),
    "HannWindow": Twin(f"{INDICES}; the operations of its definition (2), without a second cosine times 0", cosines),
    "LayerNormalization": Twin(MEAN_OF_SQUARES, layer_normalization),
    "LeakyRelu": Twin(BOTH, each(CMP)),
    "LessOrEqual": Twin("compare is one cmp (2); the body asks twice and joins the answers", each(2 * CMP)),
    "LinearAttention": Twin(
        "products onto the state accumulate (3); the body makes them, then adds",
        lambda one: layer_of(one)["k"].size * layer_of(one)["v"].shape[-1] * APART,
    ),
    "LogSoftmax": Twin(MAXIMUM, maximum),
    "MeanVarianceNormalization": Twin(
        "products accumulate (3); the body: E[x^2] - E[x]^2", mean_variance_normalization
    ),
    "NegativeLogLikelihoodLoss": Twin(f"{INDICES}: pick and negate (cross_entropy)", nll_loss),
    "PRelu": Twin(BOTH, each(CMP)),
    "RMSNormalization": Twin("products accumulate, one reciprocal (3, rms_norm)", rms_normalization),
    "Range": Twin(INDICES, counted_up),
    "ReduceL2": Twin(f"products accumulate (3); {EMPTY}", sum_of_squares),
    "ReduceLogSum": Twin(EMPTY, logarithm_of_nothing),
    "ReduceLogSumExp": Twin(EMPTY, logarithm_of_nothing),
    "ReduceSumSquare": Twin("products accumulate (3)", sum_of_squares),
    "Selu": Twin(f"{BOTH}; each of both branches by the factor (selu)", each(CMP + MUL)),
    "Shrink": Twin(f"{BOTH}; without a bias nothing is added (2)", shrink),
    "Softmax": Twin(MAXIMUM, maximum),
    "Swish": Twin("silu multiplies once (silu)", each(MUL)),
    "ThresholdedRelu": Twin(BOTH, each(CMP)),
}
"""By operator: how its function differs."""


def expected(one: Reading) -> tuple[Operations, Any]:
    """Operations and macs of the function of an operator that was read as ``one``."""
    twin = TWINS.get(one.ops[0])
    if twin is None:
        return one.operations, one.macs
    return one.operations + twin.operations(one), one.macs + twin.macs(one)
