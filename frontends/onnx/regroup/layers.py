"""Patterns of attention, linear layers, losses, statistics, resizes and assignments, as exporters decompose them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from costcore.ir import prod
from costcore.numbers import Dim
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

from ..reading import origin, source_line
from ..values import Value
from ..walk.walker import RecordedNode
from .elementwise import built, function, is_learned, is_shape, is_swap, nodes_of_call, scalar
from .matcher import (
    CREATES,
    ONE,
    X0,
    X1,
    B,
    Decomposition,
    Extension,
    Group,
    Match,
    Operation,
    W,
    X,
    last_axis,
    operation,
)

# Scaled dot-product attention, for opsets without an Attention operator
#
# The TorchScript exporter writes boolean and causal masks in float32. In half precision, it converts the scores and the
# values to float32. Such a file computes attention in another precision than PyTorch, so it is not matched.


Q, KT, V, MASK = (Operand(name) for name in ("q", "kt", "v", "mask"))

_SCORES = Either(
    (Op("MatMul", Op("Mul", Q, Number()), Op("Mul", KT, Number())), Named("unscaled", Op("MatMul", Q, KT)))
)

_SOFTMAX = Named("weights", Op("Softmax", Either((Op("Add", _SCORES, MASK), _SCORES)), check=last_axis))

_WEIGHTS = Either((_SOFTMAX, Op("Where", Op("IsNaN", _SOFTMAX), Number(0.0), _SOFTMAX)))


def _is_inactive_dropout(recorded: RecordedNode) -> bool:
    return not recorded.call.layer.attrs.get("training")


_ATTENTION = Op("MatMul", Either((_WEIGHTS, Op("Dropout", _WEIGHTS, check=_is_inactive_dropout))), V)


def _swaps_last(recorded: RecordedNode) -> bool:
    rank = recorded.call.layer.out.ndim
    return bool(rank > 1 and recorded.call.layer.attrs.get("axes") == (*range(rank - 2), rank - 1, rank - 2))


_SWAPPED = Op("Transpose", Operand("k"), check=_swaps_last)

_FOLDED = Op(
    "Reshape", Op("Transpose", Named("folded", Op("Reshape", Operand("k"))), check=_swaps_last)
)  # all axes before the last two may be merged

_SPREAD = Named("spread", Op("Expand", Named("apart", Op("Unsqueeze", Operand("head")))))

_REPEATED_HEADS = Op("Reshape", _SPREAD)

_FOLDED_AND_REPEATED = Op("Reshape", Op("Transpose", Named("folded", _REPEATED_HEADS), check=_swaps_last))

_TIMES = Op("Mul", Operand("factor"), Number())

_MASKED_SCORE = Either(
    tuple(Number(x) for x in (float("-inf"), -3.4028234663852886e38, -65504.0, -3.3895313892515355e38))
)

_MASKED = Op("Where", Operand("allowed"), Number(0.0), _MASKED_SCORE)


def _is_lower(recorded: RecordedNode) -> bool:
    return recorded.node.args.get("upper") == 0 and recorded.node.args.get("k") is None


_CAUSAL = Op(
    "Where",
    Op("Equal", Op("Trilu", Op("Expand", Number(1.0)), check=_is_lower), Number(0.0)),
    _MASKED_SCORE,
    Number(0.0),
)


def _attention(match: Match, extend: Extension) -> Group | None:
    q, kt, v = (match.values[name] for name in ("q", "kt", "v"))
    y = match.nodes[0].call.layer.out
    if any(x.shape is None or len(x.shape) != len(y.shape) for x in (q, kt, v)) or len(y.shape) < 3:
        return None
    rows, weights, keys = q.known_shape[:-1], match.values["weights"].shape, kt.known_shape[-1]
    if weights is not None and v.known_shape[-2] == keys:
        weights = (*weights[:-1], keys)  # required by the product with the values, even if the mask has another symbol
    if not is_shape(weights, (*rows, keys)) or not is_shape(y.shape, (*rows, v.known_shape[-1])):
        return None  # broadcast beyond the queries
    if "unscaled" in match.values and not _is_scaled_by_one(match, extend):
        return None
    swapped = (*kt.known_shape[:-2], kt.known_shape[-1], kt.known_shape[-2])
    grouped = _grouped_heads(match, extend, kt, _FOLDED_AND_REPEATED, swapped)
    longer = extend(match, kt, _SWAPPED) or extend(match, kt, _FOLDED)
    if grouped is not None:
        match, k = grouped
    elif longer is not None and _is_key(longer, swapped):
        match, k = longer, longer.values["k"]
        match, k = _grouped_heads(match, extend, k) or (match, k)
    else:
        k = kt.viewed(swapped)
    match, v = _grouped_heads(match, extend, v) or (match, v)
    operands, attrs = {"q": q, "k": k, "v": v}, {"causal": False}
    mask = match.values.get("mask")
    if mask is not None:
        causal, masked = extend(match, mask, _CAUSAL), extend(match, mask, _MASKED)
        if causal is not None and mask.known_shape == (q.known_shape[-2], kt.known_shape[-1]):
            match, attrs = causal, {"causal": True}
        elif masked is not None and masked.values["allowed"].dtype == "bool":
            match, allowed = masked, masked.values["allowed"]
            if not _allows_all(allowed, extend):
                operands["mask"] = allowed
        else:
            operands["mask"] = mask
    guarded = "IsNaN" in {recorded.node.op for recorded in match.nodes}
    if guarded and (mask is None or not (_is_folded(match, mask) or extend(match, mask, _MASKED, shared=True))):
        return None  # only a boolean mask leaves rows without weights
    return Group("attention", "Attention", operands, attrs, match.nodes)


def _is_scaled_by_one(match: Match, extend: Extension) -> bool:
    # The exporter removes multiplications by 1.
    written_for = origin(match.nodes[0].node.proto)
    source = operation(written_for)
    if source is None or source.name != "scaled_dot_product_attention":
        return False
    scaled = (extend(match, match.values[name], _TIMES, shared=True) for name in ("q", "kt"))
    return all(longer is None or origin(longer.nodes[-1].node.proto) != written_for for longer in scaled)


def _allows_all(mask: Value, extend: Extension) -> bool:
    # Models in PyTorch omit such a mask, except during export.
    made = extend.producer(mask)
    source = made.node.inputs[0] if made is not None and made.node.op == "Expand" else mask
    return source is not None and source.role == "const" and source.data is not None and bool(all(source.data.flat))


def _is_folded(match: Match, mask: Value) -> bool:
    # A stored mask is a folded boolean mask: the exporter writes the ``IsNaN`` guard only for boolean masks.
    return mask.stored is not None and bool(origin(match.nodes[0].node.proto))


def _is_key(match: Match, shape: tuple[Dim, ...]) -> bool:
    folded = match.values.get("folded")
    return is_shape(match.values["k"].shape, shape) and (folded is None or folded.known_shape[-2:] == shape[-2:])


def _grouped_heads(
    match: Match,
    extend: Extension,
    value: Value,
    pattern: Pattern = _REPEATED_HEADS,
    shape: tuple[Dim, ...] | None = None,
) -> tuple[Match, Value] | None:
    # Find keys or values that the exporter repeated for grouped queries; ``shape`` is the shape of repeated keys.
    without = {name: v for name, v in match.values.items() if name not in ("head", "apart", "spread", "folded")}
    longer = extend(Match(without, match.nodes), value, pattern)
    if longer is None or not origin(longer.nodes[0].node.proto):
        return None  # the program itself repeats the heads: the operands are the repeated ones
    head, apart, spread = (longer.values[name].known_shape for name in ("head", "apart", "spread"))
    if len(head) != 4 or apart != (*head[:2], 1, *head[2:]):
        return None
    repeated = (head[0], head[1] * spread[2], *head[2:])
    if spread != (*head[:2], spread[2], *head[2:]) or not is_shape(shape or value.known_shape, repeated):
        return None
    folded = longer.values.get("folded")
    return (longer, longer.values["head"]) if folded is None or folded.known_shape[-2:] == head[2:] else None


ATTENTION = Decomposition(("MatMul",), _ATTENTION, _attention)
"""``softmax((q * s) (k^T * s) + mask) v``."""


# Linear layers and convolutions


_TRANSPOSED = Op("Transpose", W, check=is_swap)

_LINEAR = Either(
    (
        Op("Add", Op("MatMul", X, Either((_TRANSPOSED, W))), B),
        Op("MatMul", X, _TRANSPOSED),
    )
)


def _is_learned_part(value: Value, extend: Extension) -> bool:
    # The projections of attention are slices of one parameter.
    whole = extend.whole(value)
    return is_learned(whole, *(whole.shape or ()))


def _is_written_for_linear(match: Match) -> bool:
    # The TorchScript exporter writes the bias as the first operand.
    root, b = match.nodes[0], match.values.get("b")
    is_transposed = any(recorded.node.op == "Transpose" for recorded in match.nodes)
    return is_transposed and b is not None and root.node.inputs[0] is b and not origin(root.node.proto)


def _linear(match: Match, extend: Extension) -> Group | None:
    x, w, b = match.values["x"], match.values["w"], match.values.get("b")
    written_for = origin(match.nodes[0].node.proto)
    source = operation(written_for)
    is_linear = (source is not None and source.name == "linear") or _is_written_for_linear(match)
    if w.shape is None or len(w.shape) != 2 or not (is_linear or _is_learned_part(w, extend)) or not x.shape:
        return None
    if not any(recorded.node.op == "Transpose" for recorded in match.nodes):
        w = w.viewed(w.shape[::-1])
    operands = {"x": x, "w": w}
    if b is not None:
        # a single operation of the program may also have a computed bias
        if not (written_for or _is_learned_part(b, extend)) or not is_shape(b.shape, w.known_shape[:1]):
            return None
        operands["b"] = b
    return Group("linear", "Gemm", operands, {}, match.nodes)


_ZERO_BIAS = Either((Number(0.0), Op("Expand", Number(0.0))))


def _unbiased(match: Match, _: Extension) -> Group | None:
    # The exporter adds a computed bias of zeros.
    recorded = match.nodes[0]
    if match.values["b"].stored is not None or recorded.call.layer.op not in ("conv", "conv_transpose"):
        return None
    operands = {"x": match.values["x"], "w": match.values["w"]}
    return Group(recorded.call.layer.op, recorded.node.op, operands, recorded.call.layer.attrs, match.nodes)


LINEAR = Decomposition(("Add", "MatMul"), _LINEAR, _linear)

CONV = Decomposition(
    ("Conv", "ConvTranspose"),
    Either(tuple(Op(kind, X, W, Named("b", _ZERO_BIAS)) for kind in ("Conv", "ConvTranspose"))),
    _unbiased,
)


# Losses: elementwise terms, and their mean or sum


TARGET, ZERO = Operand("target"), Number(0.0)


def _reduces_all(recorded: RecordedNode) -> bool:
    layer = recorded.call.layer
    axes = layer.attrs.get("axis")
    return axes is None or ("x" in layer and len(axes) == layer["x"].ndim)


def _reduced(terms: Pattern) -> Either:
    mean, total = (Op(f"Reduce{name}", terms, check=_reduces_all) for name in ("Mean", "Sum"))
    return Either((Op("Squeeze", mean), mean, total, terms))


def _loss(
    op: str, terms: Pattern, *roots: str, source: str = "", operands: tuple[str, ...] = ("x", "target"), **settings: str
) -> Decomposition:
    # ``terms``: the loss of each element; ``source``: the PyTorch function that computes it by several operations;
    # ``settings``: names of matched values by attribute.
    kind = "".join(word.capitalize() for word in op.split("_"))

    def build(match: Match, _: Extension) -> Group | str | None:
        given = {name: match.values[name] for name in operands}
        reduced = [r.node.op for r in match.nodes[:2] if r.node.op in ("ReduceMean", "ReduceSum")]
        reduction = {"ReduceMean": "mean", "ReduceSum": "sum"}[reduced[0]] if reduced else "none"
        attrs = {name: scalar(match.values[value]) for name, value in settings.items() if value in match.values}
        return Group(op, kind, given, {"reduction": reduction, **attrs}, match.nodes)

    return Decomposition(
        ("Squeeze", "ReduceMean", "ReduceSum", *roots),
        _reduced(terms),
        build,
        function(source or op),
        needs_origin=True,
    )


_DIFFERENCE = Op("Sub", X, TARGET)

_DISTANCE = Named("distance", Op("Abs", _DIFFERENCE))

L1_LOSS = _loss("l1_loss", Op("Abs", _DIFFERENCE), "Abs")

_BROADCAST = Op("Add", Op("Add", Op("ConstantOfShape", Op("Shape", X)), X), TARGET)

_SHAPE = Op("Shape", Named("broadcast", _BROADCAST))

_EXPANDED = Op("Sub", Op("Expand", X, _SHAPE), Op("Expand", TARGET, _SHAPE))

_EXPANDED_SQUARES = Op("Mul", _EXPANDED, _EXPANDED)

MSE_LOSS = _loss("mse_loss", Either((_EXPANDED_SQUARES, Op("Mul", _DIFFERENCE, _DIFFERENCE))), "Mul")._replace(
    needs_origin=False
)

_BOUND = Named("bound", Number())

_NEAR = Op("Less", _DISTANCE, _BOUND)

HUBER_LOSS = _loss(
    "huber_loss",
    Op(
        "Where",
        _NEAR,
        Op("Mul", Op("Mul", _DISTANCE, Number(0.5)), _DISTANCE),
        Op("Mul", Op("Sub", _DISTANCE, Number()), _BOUND),
    ),
    "Where",
    delta="bound",
)

SMOOTH_L1_LOSS = _loss(
    "smooth_l1_loss",
    Op(
        "Where",
        _NEAR,
        Op("Div", Op("Mul", Op("Pow", _DISTANCE, Number(2.0)), Number(0.5)), _BOUND),
        Op("Sub", _DISTANCE, Number()),
    ),
    "Where",
    beta="bound",
)

_LOG_TARGET = Op("Mul", TARGET, Op("Log", TARGET))

_DEFINED = Op("Where", Op("Equal", TARGET, ZERO), TARGET, Op("Where", Op("IsNaN", TARGET), TARGET, _LOG_TARGET))

_PRODUCT = Named("product", Op("Mul", TARGET, Op("Sub", Op("Log", TARGET), X)))

_DIVERGENCE = Op("Where", Op("Greater", TARGET, ZERO), _PRODUCT, Op("ConstantOfShape", Op("Shape", _PRODUCT)))

KL_DIV = _loss("kl_div", Either((Op("Sub", _DEFINED, Op("Mul", TARGET, X)), _DIVERGENCE)), "Sub", "Where")._replace(
    needs_origin=False
)

_LOWEST_LOG = Either((Number(-100.0), Op("Expand", Number(-100.0))))

_LOG_1P = Op("Log", Op("Add", Op("Neg", X), ONE))

BINARY_CROSS_ENTROPY = _loss(
    "binary_cross_entropy",
    Op(
        "Sub",
        Op("Mul", Op("Sub", TARGET, ONE), Op("Max", _LOG_1P, _LOWEST_LOG)),
        Op("Mul", TARGET, Op("Max", Op("Log", X), _LOWEST_LOG)),
    ),
    "Sub",
)

_PROBABILITY = Named("probability", Op("Sigmoid", X))

_REST = Op("Sub", ONE, TARGET)

_ENTROPY = Op(
    "Neg",
    Op(
        "Add",
        Op("Mul", TARGET, Op("Log", _PROBABILITY)),
        Op("Mul", _REST, Op("Log", Op("Sub", ONE, _PROBABILITY))),
    ),
)

BINARY_CROSS_ENTROPY_WITH_LOGITS = _loss(
    "binary_cross_entropy_with_logits",
    Either((Op("Sub", Op("Mul", _REST, X), Op("Log", _PROBABILITY)), _ENTROPY)),
    "Sub",
    "Neg",
)._replace(needs_origin=False)

SOFT_MARGIN_LOSS = _loss(
    "soft_margin_loss", Op("Log", Op("Add", Op("Exp", Op("Mul", Op("Neg", X), TARGET)), ONE)), "Log"
)

POISSON_NLL_LOSS = _loss("poisson_nll_loss", Op("Sub", Op("Exp", X), Op("Mul", TARGET, X)), "Sub")

MARGIN_RANKING_LOSS = _loss(
    "margin_ranking_loss",
    Op("Clip", Op("Add", Op("Mul", Op("Neg", TARGET), Op("Sub", X0, X1)), Number()), ZERO),
    "Clip",
    operands=("x0", "x1", "target"),
)

_ZEROS = Op("Expand", ZERO, Op("Shape", Operand("like")))

_ONES = Op("Expand", ONE, Op("Shape", Op("Expand", ZERO, Op("Shape", Operand("like")))))


def _where_target_is(sign: float, chosen: Pattern, *, negated: bool) -> Op:
    is_sign = Op("Equal", TARGET, Number(sign))
    return Op("Where", Op("Not", is_sign) if negated else is_sign, chosen, _ZEROS)


HINGE_EMBEDDING_LOSS = _loss(
    "hinge_embedding_loss",
    Op(
        "Add",
        _where_target_is(1.0, Op("Clip", Op("Sub", Either((_ONES, Number())), X), ZERO), negated=True),
        _where_target_is(-1.0, X, negated=True),
    ),
    "Add",
)


def _squared_length(x: Pattern) -> Op:
    return Op("Add", Op("ReduceSum", Op("Mul", x, x)), Number())


_COSINE = Named(
    "cosine",
    Op("Div", Op("ReduceSum", Op("Mul", X0, X1)), Op("Sqrt", Op("Mul", _squared_length(X0), _squared_length(X1)))),
)

COSINE_EMBEDDING_LOSS = _loss(
    "cosine_embedding_loss",
    Op(
        "Add",
        Op("Where", Op("Equal", TARGET, ONE), Op("Sub", _ONES, _COSINE), Named("zeros", _ZEROS)),
        Op(
            "Where",
            Op("Equal", TARGET, Number(-1.0)),
            Op("Clip", Op("Sub", _COSINE, Number()), ZERO),
            Named("zeros", _ZEROS),
        ),
    ),
    "Add",
    operands=("x0", "x1", "target"),
)


def _distance(name: str) -> Op:
    return Op("ReduceL2", Op("Add", Op("Sub", X0, Operand(name)), Number()))


TRIPLET_MARGIN_LOSS = _loss(
    "triplet_margin_loss",
    Op("Clip", Op("Sub", Op("Add", _distance("x1"), Number()), _distance("x2")), ZERO),
    "Clip",
    operands=("x0", "x1", "x2"),
)

_COLUMN = Named("column", Op("Unsqueeze", TARGET))

_CHOSEN = Op("GatherElements", X, Either((Op("Cast", _COLUMN), _COLUMN)))

MULTI_MARGIN_LOSS = _loss(
    "multi_margin_loss",
    Op(
        "Where",
        Op("Not", Op("Equal", Operand("classes"), _COLUMN)),
        Op("Clip", Op("Add", Op("Sub", Number(), _CHOSEN), X), ZERO),
        ZERO,
    ),
    "Where",
)

LOSSES = {
    "l1_loss": L1_LOSS,
    "mse_loss": MSE_LOSS,
    "huber_loss": HUBER_LOSS,
    "smooth_l1_loss": SMOOTH_L1_LOSS,
    "kl_div": KL_DIV,
    "binary_cross_entropy": BINARY_CROSS_ENTROPY,
    "binary_cross_entropy_with_logits": BINARY_CROSS_ENTROPY_WITH_LOGITS,
    "soft_margin_loss": SOFT_MARGIN_LOSS,
    "poisson_nll_loss": POISSON_NLL_LOSS,
    "margin_ranking_loss": MARGIN_RANKING_LOSS,
    "hinge_embedding_loss": HINGE_EMBEDDING_LOSS,
    "cosine_embedding_loss": COSINE_EMBEDDING_LOSS,
    "multi_margin_loss": MULTI_MARGIN_LOSS,
    "triplet_margin_loss": TRIPLET_MARGIN_LOSS,
}

TORCHSCRIPT_LOSSES = {
    "mse_loss": _reduced(_EXPANDED_SQUARES),
    "kl_div": _reduced(_DIVERGENCE),
    "binary_cross_entropy_with_logits": _reduced(_ENTROPY),
}
"""The forms of PyTorch's TorchScript-based exporter."""


# Variances, standard deviations, similarities and distances


_CENTRED = Named("centred", Op("Sub", X, Op("ReduceMean", X)))

_MEAN_SQUARES = Op("ReduceMean", Op("Mul", _CENTRED, _CENTRED))

_UNBIASED = Op("Div", Op("Mul", _MEAN_SQUARES, Named("n", Number())), Named("n - 1", Number()))

_VARIANCE = Either((_UNBIASED, _MEAN_SQUARES))


def _statistic(op: str, kind: str) -> Any:
    def build(match: Match, _: Extension) -> Group | str | None:
        x = match.values["x"]
        if x.shape is None:
            return None
        layers = [recorded.call.layer for recorded in match.nodes if recorded.node.op == "ReduceMean"]
        found = {tuple(layer.attrs.get("axis") or range(len(x.shape))) for layer in layers}
        if len(found) != 1:
            return "the axes of both means differ"
        axes, is_unbiased = found.pop(), "n" in match.values
        if not is_unbiased and not any("prims.var" in origin(recorded.node.proto) for recorded in match.nodes):
            return "without a correction, the nodes are a variance only if they come from prims.var"
        correction = 0
        if is_unbiased:
            n = scalar(match.values["n"])
            correction = n - scalar(match.values["n - 1"])
            count = int(n) if isinstance(n, float) and n.is_integer() else n
            if not is_shape((count,), (prod(x.shape[axis] for axis in axes),)):
                return "the factor is not the number of elements"
        return Group(op, kind, {"x": x}, {"axis": axes, "correction": correction}, match.nodes)

    return build


VAR = Decomposition(("Div", "ReduceMean"), _VARIANCE, _statistic("var", "Var"))

STD = Decomposition(("Sqrt",), Op("Sqrt", _VARIANCE), _statistic("std", "Std"), r"\bstd\(")


def _along_axis(op: str, kind: str, reduction: str, **attrs: Any) -> Any:
    def build(match: Match, extend: Extension) -> Group | str | None:
        found = {recorded.call.layer.attrs.get("axis") for recorded in match.nodes if recorded.node.op == reduction}
        axes = found.pop() if len(found) == 1 else None
        if not axes or len(axes) != 1:
            return "the reductions are not along one axis"
        return built(op, kind, "x0", "x1", axis=axes[0], **attrs)(match, extend)

    return build


def _sum_of(*factors: Pattern) -> Op:
    return Op("ReduceSum", Op("Mul", *factors))


def _unit(x: Pattern) -> Op:
    # The norm is clamped to a small minimum.
    length = Op("ReduceL2", x)
    return Op("Div", x, Op("Clip", Either((Op("Identity", length), length)), Number()))


_LENGTHS = Op("Sqrt", Op("Mul", _sum_of(X0, X0), _sum_of(X1, X1)))

TORCHSCRIPT_COSINE_SIMILARITY = Op("Div", _sum_of(X0, X1), Op("Max", _LENGTHS, Number()))

COSINE_SIMILARITY = Decomposition(
    ("ReduceSum", "Div"),
    Either((_sum_of(_unit(X0), _unit(X1)), TORCHSCRIPT_COSINE_SIMILARITY)),
    _along_axis("cosine_similarity", "CosineSimilarity", "ReduceSum"),
    function("cosine_similarity"),
)


def _rooted(difference: Pattern) -> Op:
    # The older exporter writes a power of about 0.5.
    return Op("Pow", Op("ReduceSum", Op("Pow", difference, Number(2.0))), Named("root", Number()))


def _euclidean(op: str, kind: str, **attrs: Any) -> Any:
    build = _along_axis(op, kind, "ReduceSum", **attrs)

    def rooted(match: Match, extend: Extension) -> Group | str | None:
        if "root" not in match.values:
            return built(op, kind, "x0", "x1", **attrs)(match, extend)
        return build(match, extend) if abs(scalar(match.values["root"]) - 0.5) < 1e-5 else "the power is not a root"

    return rooted


TORCHSCRIPT_PAIRWISE_DISTANCE = _rooted(Op("Sub", X0, X1))

PAIRWISE_DISTANCE = Decomposition(
    ("ReduceL2", "Pow"),
    Either((Op("ReduceL2", Op("Add", Op("Sub", X0, X1), Number())), TORCHSCRIPT_PAIRWISE_DISTANCE)),
    _euclidean("pairwise_distance", "PairwiseDistance", p=2),
    function("pairwise_distance"),
)

PAIRWISE_DISTANCES = Decomposition(
    ("Pow",),
    _rooted(Op("Sub", Op("Unsqueeze", X0), Op("Unsqueeze", X1))),
    _euclidean("pairwise_distances", "PairwiseDistances", p=2),
)
"""``cdist(x0, x1)``."""


# Interpolation along one axis, which PyTorch decomposes before export


_CALL = function("interpolate", "upsample")


def _gathered(places: str) -> Op:
    return Op("Transpose", Op("GatherND", Op("Transpose", X), Operand(places)))


_LOWER = Named("lower", _gathered("first"))

_BETWEEN = Op("Add", _LOWER, Op("Mul", Op("Sub", _gathered("second"), _LOWER), Operand("weight")))


def _linear_resize(match: Match, extend: Extension) -> Group | str | None:
    root = match.nodes[0]
    if not re.search(_CALL, source_line(root.node.proto)):
        return "the program does not call interpolate"
    nodes = nodes_of_call(root, extend)
    made = {value for recorded in nodes for value in recorded.node.outputs}
    read = {value for recorded in nodes for value in recorded.node.inputs if value is not None and value.role == "data"}
    if nodes[0] is not root or read - made != {match.values["x"]}:
        return "the call computes more than one interpolation"
    if not extend.is_separate(Match({}, tuple(nodes)), ()):
        return "other nodes read a value between these nodes"
    return Group("resize", "Resize", {"x": match.values["x"]}, {"mode": "linear"}, tuple(nodes))


LINEAR_RESIZE = Decomposition(("Add",), _BETWEEN, _linear_resize, _CALL, needs_origin=True)
"""``interpolate(x, mode="linear")`` of sequences."""


# Assignments to parts of tensors, and tensors filled with one number, by ``torch.export``-based exporters
#
# ONNX has no in-place operators: an assignment to a part of a tensor becomes a scatter into a copy of the tensor.
# Tensors that are equal in every run become constants.


UPDATES, PLACES = Operand("updates"), Operand("places")


def _operation_of(match: Match) -> Operation | None:
    origins = {origin(recorded.node.proto) for recorded in match.nodes}
    return operation(origins.pop()) if len(origins) == 1 else None


def _replaces(recorded: RecordedNode) -> bool:
    return recorded.call.layer.attrs.get("reduction") in (None, "none")


_FIRST_AXIS = Op("ScatterND", X, PLACES, UPDATES, check=_replaces)

_OTHER_AXIS = Op("Transpose", Op("ScatterND", Op("Transpose", X), PLACES, Op("Transpose", UPDATES), check=_replaces))

_ONE_PLACE = Op("ScatterElements", X, PLACES, Either((Op("Unsqueeze", UPDATES), UPDATES)), check=_replaces)

_COUNTED = Op("Unsqueeze", Op("Slice", Op("Range", Number(0), Operand("count"), Number(1))))

_ONE_NUMBER = Op("Expand", Number())


def _assign(match: Match, extend: Extension) -> Group | str | None:
    written_for, places = _operation_of(match), match.values["places"]
    line = source_line(match.nodes[0].node.proto)
    may_update = bool(line) and "_scatter(" not in line
    if written_for is None or not extend.program.is_assigned(written_for.result, updates=may_update):
        return "the program does not assign to a part of a tensor"
    match = extend(match, places, _COUNTED) or extend(match, places, _ONE_NUMBER) or match
    updates = replace(match.values["updates"], spread=None)  # PyTorch first fills a tensor with the number
    return Group("assign", "ScatterND", {"x": match.values["x"], "updates": updates}, {}, match.nodes)


ASSIGN = Decomposition(
    ("ScatterND", "Transpose", "ScatterElements"), Either((_FIRST_AXIS, _OTHER_AXIS, _ONE_PLACE)), _assign
)
"""``x[2:5] = y``, ``x[2] = y`` and ``x[2:5] += y``."""

_FILLED = Either((Op("Expand", Operand("value")), Op("ConstantOfShape", Operand("shape"))))

_COUNTED_UP = Op("Range", Operand("start"), Operand("limit"), Operand("delta"))

_OWN_FUNCTION = re.compile(r"(?!.*\b(?:torch|F|functional)\.)\s*(?:return |[^(]*[=:] *)?(?:self\.)?\w+\(")
"""A line that calls a function of the program. Exporters omit the lines inside the function, unless it is a module."""


def _full(match: Match, extend: Extension) -> Group | None:
    # The program creates or fills the tensor, or assigns to parts of it.
    written_for = _operation_of(match)
    if written_for is None or written_for.name not in CREATES:
        return None
    line = source_line(match.nodes[0].node.proto)
    is_called = re.search(rf"\b{written_for.name}\(", line) or _OWN_FUNCTION.match(line)
    if written_for.name != "fill" and not is_called and written_for.result not in extend.program.assigned_to:
        return None
    return Group(CREATES[written_for.name], match.nodes[-1].node.op, {}, {}, match.nodes)


FULL = Decomposition(
    ("Expand", "ConstantOfShape", "Cast", "CastLike", "Range"),
    Either((Op("CastLike", _FILLED, Operand("like")), Op("Cast", _FILLED), _FILLED, _COUNTED_UP)),
    _full,
)
"""``zeros(...)``, ``full(...)``, ``x.fill_(1)`` and ``arange(...)``."""
