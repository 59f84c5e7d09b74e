"""Patterns of activations, arithmetic, normalizations and recurrent cells, as exporters decompose them.

The first section has common checks. A builder turns a match into a group; it returns a reason (str) if the nodes are
not the operator, and None if shapes or dtypes do not fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import log, pi, sqrt
from typing import Any, NamedTuple

from costcore.numbers import Dim, is_symbolic
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern, product

from ..node import Node
from ..reading import call_site, classes, origin, source_line
from ..values import FLOATS, Value
from ..walk.walker import RecordedNode
from .matcher import (
    ONE,
    X0,
    X1,
    X2,
    B,
    Decomposition,
    DependsOnSizes,
    Extension,
    Group,
    Match,
    Operation,
    W,
    X,
    operation,
)

# Common checks


def is_shape(shape: tuple[Dim, ...] | None, expected: tuple[Dim, ...]) -> bool:
    """Return True if two shapes are equal for all sizes, False if for no sizes.

    Raises:
        DependsOnSizes: if they are equal for some sizes only.
    """
    if shape is None or len(shape) != len(expected):
        return False
    unequal: list[tuple[Any, Any]] = [pair for pair in zip(shape, expected, strict=True) if pair[0] != pair[1]]
    if any(not (is_symbolic(a) or is_symbolic(b)) or (a - b).is_zero is False for a, b in unequal):
        return False
    if unequal:
        raise DependsOnSizes(tuple(dict.fromkeys(_condition(*pair) for pair in unequal)))
    return True


def _condition(size: Any, expected: Any) -> tuple[Any, Any]:
    # A named size comes first. If ``size`` is the broadcast of ``expected`` and another size, these two must be equal.
    broadcast = size.args if is_symbolic(size) and size.func.__name__ == "Max" else ()
    others = [other for other in broadcast if other != expected]
    found = (others[0], expected) if len(broadcast) == 2 and len(others) == 1 else (size, expected)
    return found if is_symbolic(found[0]) and found[0].is_Symbol else found[::-1]


def is_learned(value: Value | None, *shape: Any) -> bool:
    """Return True for a stored floating-point tensor of this shape; see :func:`is_shape`."""
    if value is None or value.stored is None or value.dtype not in FLOATS:
        return False
    return is_shape(value.shape, shape)


def preserves_x(match: Match) -> bool:
    """Return True if the output of the group has the shape and dtype of ``x``; see :func:`is_shape`."""
    y, x = match.nodes[0].call.layer.out, match.values["x"]
    return x.dtype == y.dtype and is_shape(x.shape, y.shape)


def scalar(value: Value) -> Any:
    """Return the only element of a constant."""
    return value.data.ravel()[0]


def comes_from(match: Match, name: str, *, or_no_origin: bool = True) -> bool:
    """Return True if all nodes of a match come from this operation of the user's program.

    Args:
        match: the match.
        name: the name of the operation.
        or_no_origin: the result for nodes without metadata.
    """
    origins = {origin(recorded.node.proto) for recorded in match.nodes}
    written_for = operation(origins.pop()) if len(origins) == 1 else None
    return or_no_origin if written_for is None else written_for.name == name


def built(
    op: str, kind: str, *operands: str, source: str = "", settings: dict[str, str] | None = None, **attrs: Any
) -> Callable[[Match, Extension], Group | str | None]:
    """Return a builder of an operator with matched values as operands.

    Args:
        op: the canonical name of the operator.
        kind: its op_type.
        operands: names of matched values; ``x`` must have the shape of the output.
        source: the operation from which nodes with metadata must come; empty for any.
        settings: names of matched numbers by attribute.
        attrs: further attributes.
    """

    def build(match: Match, _: Extension) -> Group | str | None:
        if source and not comes_from(match, source):
            return f"the nodes were not written for {source}"
        if operands == ("x",) and not preserves_x(match):
            return None
        numbers = {name: scalar(match.values[value]) for name, value in (settings or {}).items()}
        return Group(op, kind, {name: match.values[name] for name in operands}, {**attrs, **numbers}, match.nodes)

    return build


def function(*names: str) -> str:
    """Return a regular expression for a call of a PyTorch function in a source line."""
    return rf"\b(F|functional|torch)\.({'|'.join(names)})\("


def is_swap(recorded: RecordedNode) -> bool:
    """Return True for the transposition of a matrix."""
    return bool(recorded.call.layer.attrs.get("axes") == (1, 0))


def nodes_of_call(root: RecordedNode, extend: Extension) -> list[RecordedNode]:
    """Return the connected nodes that come from the same call of the user's program, last node first."""
    site, found, waiting = call_site(root.node.proto), {root.position: root}, [root]
    while waiting:
        node = waiting.pop().node
        near = [extend.producer(value) for value in node.inputs if value is not None]
        near += [reader for value in node.outputs if value is not None for reader in extend.readers(value)]
        for recorded in near:
            if recorded is None or recorded.position in found or recorded.node.op == "Constant":
                continue  # operations of the program share constants
            if call_site(recorded.node.proto) == site:
                found[recorded.position] = recorded
                waiting.append(recorded)
    return sorted(found.values(), key=lambda recorded: recorded.position, reverse=True)


# Activation functions


HALF = Number(0.5)

_X_BY_ROOT_OF_2 = Op("Div", X, Number(sqrt(2)))

_ERF = Op("Erf", Either((_X_BY_ROOT_OF_2, Op("Mul", X, Number(sqrt(0.5))))))

_CUBE = Op("Mul", X, Op("Mul", X, X))


def _tanh(cube: Pattern) -> Op:
    return Op("Tanh", Op("Mul", Number(sqrt(2 / pi)), Op("Add", X, Op("Mul", Number(0.044715), cube))))


_TANH = _tanh(Either((Op("Pow", X, Number(3.0)), _CUBE)))


def _elu(match: Match, _: Extension) -> Group | None:
    # Its input and output may be scaled by 1.
    recorded = next(recorded for recorded in match.nodes if recorded.node.op == "Elu")
    return (
        Group("elu", "Elu", {"x": match.values["x"]}, recorded.call.layer.attrs, match.nodes)
        if preserves_x(match)
        else None
    )


GELU = Decomposition(("Mul",), product(X, HALF, Op("Add", _ERF, ONE)), built("gelu", "Gelu", "x", approximate="none"))

GELU_TANH = Decomposition(
    ("Mul",), product(X, HALF, Op("Add", _TANH, ONE)), built("gelu", "Gelu", "x", approximate="tanh")
)

SILU = Decomposition(("Mul",), Op("Mul", X, Op("Sigmoid", X)), built("silu", "Swish", "x"))

ELU = Decomposition(("Mul",), Op("Mul", Op("Elu", Op("Mul", X, ONE)), ONE), _elu)

ZERO, LAMBDA, MINUS_LAMBDA = Number(0.0), Named("lambda", Number()), Named("minus", Number())


def _shrink(op: str) -> Any:
    build = built(op, "Shrink", "x", settings={"lambd": "lambda"})

    def both_sides(match: Match, extend: Extension) -> Group | str | None:
        minus = match.values.get("minus")
        is_same = minus is None or scalar(minus) == -scalar(match.values["lambda"])
        return build(match, extend) if is_same else "the bounds differ"

    return both_sides


_OUTSIDE = Op("Or", Op("Cast", Op("Greater", X, LAMBDA)), Op("Cast", Op("Less", X, MINUS_LAMBDA)))

_ABOVE = Op("Where", Op("Greater", X, LAMBDA), Op("Sub", X, LAMBDA), ZERO)

_BELOW = Op("Where", Op("Less", X, MINUS_LAMBDA), Op("Add", X, LAMBDA), ZERO)

_TOWARDS_ZERO = Op("Sub", X, Op("Mul", Op("Sign", X), LAMBDA))

TORCHSCRIPT_HARD_SHRINK, TORCHSCRIPT_SOFT_SHRINK = Op("Where", _OUTSIDE, X, ZERO), Op("Add", _ABOVE, _BELOW)

HARD_SHRINK = Decomposition(
    ("Where",),
    Either((Op("Where", Op("LessOrEqual", Op("Abs", X), LAMBDA), ZERO, X), TORCHSCRIPT_HARD_SHRINK)),
    _shrink("hard_shrink"),
    function("hardshrink"),
)

SOFT_SHRINK = Decomposition(
    ("Where", "Add"),
    Either(
        (
            Op("Where", Op("Greater", Op("Abs", X), LAMBDA), _TOWARDS_ZERO, Op("Mul", X, ZERO)),
            TORCHSCRIPT_SOFT_SHRINK,
        )
    ),
    _shrink("soft_shrink"),
    function("softshrink"),
)

_LIMIT, _REPLACEMENT = Named("limit", Number()), Named("replacement", Number())

THRESHOLD = Decomposition(
    ("Where",),
    Op("Where", Op("LessOrEqual", X, _LIMIT), _REPLACEMENT, X),
    built("threshold", "Threshold", "x", settings={"threshold": "limit", "value": "replacement"}),
    function("threshold"),
    needs_origin=True,
)

LOG_SIGMOID = Decomposition(
    ("Log",), Op("Log", Op("Sigmoid", X)), built("log_sigmoid", "LogSigmoid", "x", source="log_sigmoid")
)


def _is_sixth(recorded: RecordedNode) -> bool:
    slope, offset = recorded.node.args.get("alpha", 0.2), recorded.node.args.get("beta", 0.5)
    return bool(abs(slope * 6 - 1) < 1e-3 and offset == 0.5)


_RAMP = Op("Clip", Op("Add", X, Number(3.0)), ZERO, Number(6.0))

HARD_SWISH = Decomposition(
    ("Mul", "Div"),
    Either(
        (
            Op("Mul", X, Either((Op("HardSigmoid", X, check=_is_sixth), Op("Div", _RAMP, Number(6.0))))),
            Op("Div", Op("Mul", X, _RAMP), Number(6.0)),
        )
    ),
    built("hard_swish", "HardSwish", "x"),
)
"""``x * clip(x + 3, 0, 6) / 6``, for opsets without an operator."""

TORCHSCRIPT_GELU = Op("Mul", HALF, Op("Mul", X, Op("Add", Op("Erf", _X_BY_ROOT_OF_2), ONE)))

TORCHSCRIPT_GELU_TANH = Op("Mul", HALF, Op("Mul", X, Op("Add", ONE, _tanh(_CUBE))))


# Products added to an operand, and gated or shifted activations


_VALUE = Named("value", Number())


def _settings(match: Match, **names: str) -> dict[str, Any]:
    # A factor of 1 is omitted.
    found = {name: scalar(match.values[value]) for name, value in names.items() if value in match.values}
    return {name: number for name, number in found.items() if number != 1}


_PRODUCT = Op("Mul", X1, X2)

_ADDCMUL = Op("Add", X0, Either((Op("Mul", Op("Mul", X1, _VALUE), X2), Op("Mul", _PRODUCT, _VALUE), _PRODUCT)))

TORCHSCRIPT_ADDCMUL = Op("Add", X0, Op("Mul", _PRODUCT, _VALUE))
"""The TorchScript exporter stores the factor as a vector of one element; a number of the program is a scalar."""


def _addcmul(match: Match, _: Extension) -> Group | None:
    factor = match.values.get("value")
    is_along_an_axis = factor is not None and factor.shape == (1,)
    if not comes_from(match, "addcmul", or_no_origin=is_along_an_axis):
        return None
    operands = {name: match.values[name] for name in ("x0", "x1", "x2")}
    return Group("addcmul", "Addcmul", operands, _settings(match, value="value"), match.nodes)


ADDCMUL = Decomposition(("Add",), _ADDCMUL, _addcmul)
"""``x0 + value * x1 * x2``."""


def _addcdiv(match: Match, _: Extension) -> Group | None:
    operands = {name: match.values[name] for name in ("x0", "x1", "x2")}
    return Group("addcdiv", "Addcdiv", operands, _settings(match, value="value"), match.nodes)


ADDCDIV = Decomposition(("Add",), Op("Add", X0, Op("Mul", Op("Div", X1, X2), _VALUE)), _addcdiv)
"""``x0 + value * x1 / x2``; exporters write the factor even if it is 1."""

_FRACTION = Either((Op("CastLike", X2, X0), X2))

_DIFFERENCE, _WEIGHT = Op("Sub", X1, X0), Named("weight", _FRACTION)

_LERP = Op(
    "Where",
    Op("Less", _WEIGHT, Number(0.5)),
    Op("Add", X0, Op("Mul", _WEIGHT, Named("difference", _DIFFERENCE))),
    Op("Sub", X1, Op("Mul", Named("difference", _DIFFERENCE), Either((Op("Sub", Number(1.0), _WEIGHT), Number())))),
)

LERP = Decomposition(("Where",), _LERP, built("lerp", "Lerp", "x0", "x1", "x2"))
"""``x0 + x2 * (x1 - x0)``."""

_BETA = Named("beta", Number())

_SCALED = Op("Mul", X, _BETA)

_SCALED_X, _THRESHOLD, _DIVISOR = Named("scaled", _SCALED), Named("threshold", Number()), Named("divisor", Number())

_SHIFTED = Either(
    (
        Op("Where", Op("Greater", _SCALED_X, _THRESHOLD), X, Op("Div", Op("Softplus", _SCALED_X), _DIVISOR)),
        Op("Where", Op("Greater", X, _THRESHOLD), X, Op("Softplus", X)),
    )
)

TORCHSCRIPT_SOFTPLUS = Op("Div", Op("Softplus", _SCALED), _DIVISOR)


def _softplus(match: Match, _: Extension) -> Group | None:
    # PyTorch's softplus is the identity above a threshold, or has a factor.
    factors = {scalar(match.values[name]) for name in ("beta", "divisor") if name in match.values}
    if len(factors) > 1 or not preserves_x(match) or not comes_from(match, "softplus"):
        return None
    threshold = {"threshold": scalar(match.values["threshold"])} if "threshold" in match.values else {}
    attrs = {**_settings(match, beta="beta"), **threshold}
    return Group("softplus", "Softplus", {"x": match.values["x"]}, attrs, match.nodes)


SOFTPLUS = Decomposition(("Where", "Div"), Either((_SHIFTED, TORCHSCRIPT_SOFTPLUS)), _softplus)
"""``log(1 + exp(beta * x)) / beta``, and ``x`` if that is large."""

MISH = Decomposition(("Mul",), Op("Mul", X, Op("Tanh", Op("Softplus", X))), built("mish", "Mish", "x", source="mish"))


def _glu(match: Match, extend: Extension) -> Group | None:
    longer = extend(match, match.values["first"], Op("Split", X))
    if longer is None or not comes_from(longer, "glu"):
        return None
    split = longer.nodes[-1]
    if len(split.node.outputs) != 2 or split.node.outputs[1] is not match.values["second"]:
        return None
    attrs = {"axis": split.call.layer.attrs.get("axis")}
    return Group("glu", "Glu", {"x": longer.values["x"]}, attrs, longer.nodes)


GLU = Decomposition(("Mul",), Op("Mul", Operand("first"), Op("Sigmoid", Operand("second"))), _glu)

_MATMUL = Op("MatMul", X0, X1)

_ALPHA = Named("alpha", Number())

_SCALED_MATMUL = Either((Op("Mul", _MATMUL, _ALPHA), _MATMUL))

_ADDEND = Either((Op("Mul", B, Named("beta", Number())), B))

TORCHSCRIPT_BADDBMM = Either(
    (
        Op("Add", Op("Mul", _MATMUL, _ALPHA), Op("Mul", B, Named("beta", Number()))),
        Op("Add", Op("Mul", _MATMUL, Named("alpha", Number(1.0))), B),
    )
)
"""Factors are written even if they are 1; the factor of a stored addend is folded into it."""


def _baddbmm(match: Match, _: Extension) -> Group | None:
    product = next(recorded.call.layer.out for recorded in match.nodes if recorded.node.op == "MatMul")
    if product.ndim != 3 or not is_shape(match.nodes[0].call.layer.out.shape, product.shape):
        return None
    alpha = match.values.get("alpha")
    is_scaled = alpha is not None and ("beta" in match.values or scalar(alpha) == 1)
    if not comes_from(match, "baddbmm", or_no_origin=is_scaled):
        return None
    operands = {name: match.values[name] for name in ("x0", "x1", "b")}
    return Group("matmul", "Baddbmm", operands, _settings(match, alpha="alpha", beta="beta"), match.nodes)


BADDBMM = Decomposition(("Add",), Op("Add", _SCALED_MATMUL, _ADDEND), _baddbmm)
"""``beta * b + alpha * x0 @ x1``."""

_STACKED = Either((Op("Reshape", Op("Transpose", Named("whole", W))), W))

_FORMS = Op("Squeeze", Op("MatMul", Op("Reshape", Op("MatMul", X0, _STACKED)), Op("Unsqueeze", X1)))


def _bilinear(match: Match, _: Extension) -> Group | None:
    root, x0, x1 = match.nodes[0].call.layer.out, match.values["x0"].shape, match.values["x1"].shape
    if not comes_from(match, "bilinear", or_no_origin=False) or not x0 or not x1:
        return None
    shape, w = (root.shape[-1], x0[-1], x1[-1]), match.values["w"]
    if "whole" not in match.values and w.stored is None:
        return None
    if not is_shape(w.shape, shape if "whole" in match.values else (shape[1], shape[0] * shape[2])):
        return None
    w = w.viewed(shape)
    operands = {"x0": match.values["x0"], "x1": match.values["x1"], "w": w}
    if "b" in match.values:
        operands["b"] = match.values["b"]
    return Group("bilinear", "Bilinear", operands, {}, match.nodes)


BILINEAR = Decomposition(("Add", "Squeeze"), Either((Op("Add", _FORMS, B), _FORMS)), _bilinear)
"""``x0^T w x1 + b`` for each output feature."""


# Layer, RMS, group and weight normalization


def last_axes(recorded: RecordedNode) -> bool:
    """Return True for a reduction over the last axes with ``keepdims``."""
    attrs, rank = recorded.call.layer.attrs, recorded.call.layer.out.ndim
    axes = attrs.get("axis") or ()
    return bool(attrs.get("keepdims") and axes and axes == tuple(range(rank - len(axes), rank)))


def axes_of(match: Match) -> tuple[int, ...] | None:
    """Return the axes of all reductions of a match; None if they differ."""
    found = {recorded.call.layer.attrs["axis"] for recorded in match.nodes if recorded.node.op == "ReduceMean"}
    return found.pop() if len(found) == 1 else None


def _is_float(recorded: RecordedNode) -> bool:
    return recorded.call.layer.out.dtype in FLOATS


_CENTRED = Op("Sub", X, Op("ReduceMean", X, check=last_axes))

_D = Named("d", Either((_CENTRED, Op("Cast", _CENTRED, check=_is_float))))

_VARIANCE = Op("ReduceMean", Either((Op("Pow", _D, Number(2.0)), Op("Mul", _D, _D))), check=last_axes)

_EPS = Named("eps", Number())

_STANDARD = Op("Div", _D, Op("Sqrt", Op("Add", _VARIANCE, _EPS)))

_LAYER_NORM = Either((_STANDARD, Op("Cast", _STANDARD)))

_MEAN_SQUARE = Op("ReduceMean", Either((Op("Pow", X, Number(2.0)), Op("Mul", X, X))), check=last_axes)

_ROOT = Op("Sqrt", Op("Add", _MEAN_SQUARE, _EPS))

_RMS_NORM = Either((Op("Div", X, _ROOT), Op("Mul", X, Either((Op("Reciprocal", _ROOT), Op("Div", ONE, _ROOT))))))


def _affine(pattern: Any, biased: bool) -> Either:
    scaled = Op("Mul", pattern, W)
    return Either((*((Op("Add", scaled, B),) if biased else ()), scaled, pattern))


def _norm(op: str, kind: str) -> Any:
    def build(match: Match, _: Extension) -> Group | None:
        x, axes = match.values["x"], axes_of(match)
        operands = {name: match.values[name] for name in ("x", "w", "b") if name in match.values}
        if axes is None or not preserves_x(match):
            return None
        if not all(is_learned(value, *x.known_shape[axes[0] :]) for name, value in operands.items() if name != "x"):
            return None
        return Group(op, kind, operands, {"axis": axes, "eps": scalar(match.values["eps"])}, match.nodes)

    return build


def _as(name: str) -> Either:
    # An exporter may convert an operand to its own dtype.
    return Either((Op("CastLike", Operand(name), Operand(f"like_{name}")), Operand(name)))


_ROWS = Either((Named("rows", Op("Reshape", X)), Named("rows", X)))

_NORMED = Op("InstanceNormalization", _ROWS, ONE, Number(0.0))

_GROUP_NORM = Either((Op("Reshape", _NORMED), _NORMED))  # a folding exporter removes a Reshape that changes nothing


def _group_norm(match: Match, _: Extension) -> Group | None:
    x, rows = match.values["x"], match.values["rows"].known_shape
    if not preserves_x(match) or len(rows) != 3 or len(x.known_shape) < 3 or rows[0] != x.known_shape[0]:
        return None
    if isinstance(x.known_shape[1], int) and isinstance(rows[1], int) and (not rows[1] or x.known_shape[1] % rows[1]):
        return None  # groups that split channels
    operands = {"x": x}
    for name, neutral in (("w", 1), ("b", 0)):
        value = match.values[name]
        if is_learned(value, x.known_shape[1], *(1,) * (len(x.known_shape) - 2)) and value.dtype == x.dtype:
            operands[name] = value.viewed((x.known_shape[1],))
        elif value.data is None or any(element != neutral for element in value.data.flat):
            return None
    recorded = next(recorded for recorded in match.nodes if recorded.node.op == "InstanceNormalization")
    attrs = {"groups": rows[1], "eps": recorded.node.args["epsilon"]}
    return Group("group_norm", "GroupNormalization", operands, attrs, match.nodes)


_DIRECTION, _MAGNITUDE = Operand("w0"), Operand("w1")

_LENGTH = Op(
    "ReduceL2", Either((_DIRECTION, Op("Cast", _DIRECTION)))
)  # the newer exporter of torch 2.15 casts to the same dtype

_WEIGHT_NORM = Either(
    (Op("Mul", _DIRECTION, Op("Div", _MAGNITUDE, _LENGTH)), Op("Mul", Op("Div", _DIRECTION, _LENGTH), _MAGNITUDE))
)


def _weight_norm(match: Match, _: Extension) -> Group | None:
    v, g = match.values["w0"].shape, match.values["w1"].shape
    if v is None or g is None:
        return None
    reduced = next(recorded.call.layer for recorded in match.nodes if recorded.node.op == "ReduceL2")
    left = [i for i in range(len(v)) if i not in (reduced.attrs.get("axis") or ())]
    dtypes = {recorded.call.layer.out.dtype for recorded in match.nodes}
    if len(left) != 1 or reduced.out.ndim != len(v) or dtypes != {match.values["w0"].dtype}:
        return None
    if not is_shape(reduced.out.shape, g) or not is_shape(v, match.nodes[0].call.layer.out.shape):
        return None
    return Group(
        "weight_norm", "WeightNorm", {n: match.values[n] for n in ("w0", "w1")}, {"axis": left[0]}, match.nodes
    )


def _is_weight_norm_hook(nodes: Collection[Any]) -> bool:
    # ``torch.nn.utils.weight_norm`` is a hook that runs before ``forward`` of a module. Its parameters are named
    # ``weight_v`` and ``weight_g``. No other module of ``torch.nn`` computes norms of parameters.
    steps = {each.name: each for each in map(operation, {origin(node) for node in nodes}) if each is not None}
    if steps.keys() != {"linalg_vector_norm", "div", "mul"}:
        return False
    v, g = steps["mul"].args[0], steps["div"].args[0]
    has_hook_names = v.startswith("%p_") and v.endswith("_v") and g == f"{v[:-2]}_g"
    return has_hook_names and all(next(reversed(classes(node)), "").startswith("torch.nn.modules.") for node in nodes)


LAYER_NORM = Decomposition(
    ("Add", "Mul", "Div", "Cast"), _affine(_LAYER_NORM, True), _norm("layer_norm", "LayerNormalization")
)

RMS_NORM = Decomposition(
    ("Mul", "Div"),
    _affine(_RMS_NORM, False),
    _norm("rms_norm", "RMSNormalization"),
    r"\b(F|functional|torch)\.rms_norm\(",
)

WEIGHT_NORM = Decomposition(("Mul",), _WEIGHT_NORM, _weight_norm, r"\b_weight_norm\(", is_hook=_is_weight_norm_hook)

GROUP_NORM = Decomposition(("Add",), Op("Add", Op("Mul", _GROUP_NORM, _as("w")), _as("b")), _group_norm)


def _filled(name: str, number: float) -> Either:
    # Only a stored tensor is bound to the name, not a computed one.
    expanded = Op("Expand", Number(number))
    return Either((Number(number, name), Op("CastLike", expanded, X), expanded))


_ONES, _ZEROS = _filled("ones", 1.0), _filled("zeros", 0.0)

_PLAIN = (
    Op("InstanceNormalization", X, _ONES, _ZEROS),
    Op("LayerNormalization", X, _ONES, _ZEROS),
    Op("LayerNormalization", X, _ONES),
)


def _plain_norm(match: Match, extend: Extension) -> Group | str | None:
    # The ONNX operator needs weights, so the exporter adds ones and zeros.
    root, given = match.nodes[0], [match.values[name] for name in ("ones", "zeros") if name in match.values]
    makers = [extend.producer(value) for value in given]
    if any(maker is None or maker.node.op == "Identity" for maker in makers):  # exporters share weights by Identity
        return "its weights are stored tensors, which may be learned"
    layer = root.call.layer
    return Group(layer.op, root.node.op, {"x": match.values["x"]}, layer.attrs, match.nodes)


PLAIN_NORM = Decomposition(("InstanceNormalization", "LayerNormalization"), Either(_PLAIN), _plain_norm)

# Functions of single elements


_SQRT = Op("Sqrt", X)


def is_to(dtype: str) -> Callable[[RecordedNode], bool]:
    """Return a check for conversions to a dtype."""
    return lambda recorded: recorded.call.layer.out.dtype == dtype


def _same_type(match: Match, _: Extension) -> Group | None:
    # A conversion to the dtype of the value computes nothing.
    return Group("identity", "Cast", {"x": match.values["x"]}, {}, match.nodes) if preserves_x(match) else None


NOT_EQUAL = Decomposition(("Not",), Op("Not", Op("Equal", X0, X1)), built("not_equal", "NotEqual", "x0", "x1"))

RSQRT = Decomposition(
    ("Reciprocal", "Div"), Either((Op("Reciprocal", _SQRT), Op("Div", ONE, _SQRT))), built("rsqrt", "Rsqrt", "x")
)

EXPM1 = Decomposition(("Sub",), Op("Sub", Op("Exp", X), ONE), built("expm1", "Expm1", "x", source="expm1"))


def _is_first_constant(recorded: RecordedNode) -> bool:
    # The older exporter writes the constant of an operation first.
    first = recorded.node.inputs[0]
    return bool(origin(recorded.node.proto)) or (first is not None and first.role == "const")


LOG1P = Decomposition(
    ("Log",),
    Op("Log", Op("Add", X, ONE, check=_is_first_constant)),
    built("log1p", "Log1p", "x", source="log1p"),
)
"""``log(1 + x)``. The older exporter writes the 1 first for this operation, but second for a sum in the program."""

LOG2 = Decomposition(("Div",), Op("Div", Op("Log", X), Number(log(2))), built("log2", "Log2", "x", source="log2"))

_QUOTIENT = Op("Div", X0, X1)


def _floor_div(match: Match, extend: Extension) -> Group | str | None:
    # The program wrote ``floor_divide``, or ``div`` with a rounding mode.
    source = "div" if comes_from(match, "div") else "floor_divide"
    return built("floor_div", "FloorDiv", "x0", "x1", source=source)(match, extend)


FLOOR_DIV = Decomposition(
    ("Floor", "Cast"),
    Either((Op("Floor", _QUOTIENT), Op("Cast", Op("Cast", _QUOTIENT, check=is_to("int64"))))),
    _floor_div,
)

REMAINDER = Decomposition(
    ("Sub",),
    Op("Sub", X0, Op("Mul", Op("Floor", _QUOTIENT), X1)),
    built("mod", "Mod", "x0", "x1", source="remainder"),
)
"""``x0 - floor(x0 / x1) * x1``."""

_ANGLE = Named("angle", Op("Atan", _QUOTIENT))

_OTHER_SIDE = Op("Where", Op("Greater", X0, Number(0.0)), Op("Add", _ANGLE, Number(pi)), Op("Sub", _ANGLE, Number(pi)))

_QUADRANT = Op("Where", Op("Less", X1, Number(0.0)), _OTHER_SIDE, _ANGLE)

_DEFINED = Named("quadrant", _QUADRANT)

ATAN2 = Decomposition(
    ("Where",),
    Either((Op("Where", Op("IsNaN", _DEFINED), Number(0.0), _DEFINED), _QUADRANT)),
    built("atan2", "Atan2", "x0", "x1"),
)

IDENTITY = Decomposition(("Cast", "CastLike"), Either((Op("Cast", X), Op("CastLike", X, Operand("like")))), _same_type)

_CLASSES = Op("Cast", Op("Equal", Op("Unsqueeze", X), Operand("classes")))

ONE_HOT = Decomposition(
    ("Cast",),
    _CLASSES,
    lambda match, _: Group("one_hot", "OneHot", {"x": match.values["x"]}, {}, match.nodes),
    function("one_hot"),
    needs_origin=True,
)


# Recurrent layers and cells, which PyTorch unrolls into nodes
#
# Nodes without metadata are not matched unless the user names the pattern: two products that are added and passed to an
# activation may also be additive attention, and the TorchScript-based exporter writes the same nodes for a cell and for
# its parts.


H0, C0 = Operand("h0"), Operand("c0")


def _is_linear(recorded: RecordedNode) -> bool:
    return len(recorded.node.inputs) == 3 and _is_unscaled(recorded)


def _is_unbiased_linear(recorded: RecordedNode) -> bool:
    return len(recorded.node.inputs) == 2 and _is_unscaled(recorded)


def _is_unscaled(recorded: RecordedNode) -> bool:
    args = recorded.node.args
    return (args.get("alpha"), args.get("beta"), args.get("transA"), args.get("transB")) == (1, 1, 0, 1)


def _linear(x: Pattern, i: int) -> Pattern:
    w, b = Operand(f"w{i}"), Operand(f"b{i}")
    product = Op("MatMul", x, Either((Op("Transpose", w, check=is_swap), Operand(f"transposed{i}"))))
    biased = Op("Gemm", x, w, b, check=_is_linear), Op("Add", product, b)
    return Either((*biased, Op("Gemm", x, w, check=_is_unbiased_linear), product))


def _part(name: str, whole: Pattern, i: int) -> Pattern:
    gates = Named(name, whole)
    sequence = Named(f"{name}_parts", Op("SplitToSequence", gates))
    return Either((Op("SequenceAt", sequence, Number(i)), Op("Split", gates, output=i)))


_GATES = Op("Add", _linear(H0, 1), _linear(X, 0))


def _cell_group(match: Match, op: str, gates: int, outputs: tuple[Value, ...] = (), **attrs: object) -> Group | None:
    out = match.nodes[0].call.layer.out.shape
    hidden = out[-1] if out else 0
    names = ("x", "h0", "c0", "w0", "w1", "b0", "b1")
    operands = {name: match.values[name] for name in names if name in match.values}
    for name, w in (("w0", match.values.get("transposed0")), ("w1", match.values.get("transposed1"))):
        if w is not None and w.stored is not None:  # a folding exporter stores it transposed
            operands[name] = w.viewed(w.known_shape[::-1])
    x, state, is_biased = operands["x"], operands["h0"], "b0" in operands
    if not x.shape or not state.shape or len(x.shape) != 2 or is_biased != ("b1" in operands):
        return None
    if not {"w0", "w1"} <= operands.keys():
        return None
    shapes: dict[str, tuple[Dim, ...]] = {"w0": (gates * hidden, x.shape[-1]), "w1": (gates * hidden, hidden)}
    if is_biased:
        shapes |= dict.fromkeys(("b0", "b1"), (gates * hidden,))
    if not all(is_shape(operands[name].shape, shape) for name, shape in shapes.items()):
        return None
    if not is_shape(state.shape, (x.shape[0], hidden)):
        return None
    return Group(op, op.upper(), operands, {"hidden": hidden, **attrs}, match.nodes, outputs)


def _rnn_cell(match: Match, _: Extension) -> Group | None:
    kind = match.nodes[0].node.op
    return _cell_group(match, "rnn", 1, activation=kind.lower())


RNN_CELL = Decomposition(
    ("Tanh", "Relu"),
    Either((Op("Tanh", _GATES), Op("Relu", _GATES))),
    _rnn_cell,
    r"\b_VF\.rnn_(tanh|relu)_cell\(",
    needs_origin=True,
)
"""``tanh(W x + b + U h + c)``."""

_I, _F, _G, _O = (_part("gates", _GATES, i) for i in range(4))

_C = Op("Add", Op("Mul", Op("Sigmoid", _F), C0), Op("Mul", Op("Sigmoid", _I), Op("Tanh", _G)))


def _lstm_cell(match: Match, _: Extension) -> Group | None:
    return _cell_group(match, "lstm", 4, (match.values["h"], match.values["c"]))


LSTM_CELL = Decomposition(
    ("Mul",),
    Named("h", Op("Mul", Op("Sigmoid", _O), Op("Tanh", Named("c", _C)))),
    _lstm_cell,
    r"\b_VF\.lstm_cell\(",
    ("c",),
    needs_origin=True,
)
"""``o tanh(c)`` with ``c = f c0 + i g``; the next step also reads c."""

_OF_X, _OF_H = (
    [_part(name, products, i) for i in range(3)]
    for name, products in (
        ("of_x", _linear(X, 0)),
        ("of_h", _linear(H0, 1)),
    )
)

_R, _Z = (Op("Sigmoid", Op("Add", _OF_H[i], _OF_X[i])) for i in range(2))

_N = Named("candidate", Op("Tanh", Op("Add", _OF_X[2], Op("Mul", _OF_H[2], _R))))


def _gru_cell(match: Match, _: Extension) -> Group | None:
    return _cell_group(match, "gru", 3, reset_after=True)


GRU_CELL = Decomposition(
    ("Add",),
    Op("Add", Op("Mul", Op("Sub", H0, _N), _Z), _N),
    _gru_cell,
    r"\b_VF\.gru_cell\(",
    needs_origin=True,
)
"""``(h - n) z + n`` with the candidate ``n``."""

_LAYER_CALL = r"\b_VF\.rnn_(tanh|relu)\("

Y, FINAL = "y", "stack"

_STEPS = ("add", "cat", "flip", "linear", "relu", "squeeze", "stack", "tanh", "transpose", "unbind", "unsqueeze")
"""All operations into which PyTorch decomposes an Elman RNN."""


class _Program(NamedTuple):
    # Weights are names in the text of operations, in the order of PyTorch's parameters.
    weights: tuple[str, ...]
    is_biased: bool
    is_bidirectional: bool


def _program(operations: Collection[Operation], activation: str) -> _Program | None:
    """Return the RNN that consists of these operations; None if they are not an RNN.

    Each layer and direction has one linear layer for the whole input; for every step, it has a linear layer for the
    state, a sum and the activation.
    """
    count = Counter(each.name for each in operations)
    products = [each.args[1:] for each in operations if each.name == "linear"]
    weights = Counter(weight for weight, *_ in products)
    once, often = set(list(weights.values())[0::2]), set(list(weights.values())[1::2])
    layers, flips = len(weights) // 2, count["flip"]
    if not layers or len(weights) % 2 or once != {1} or len(often) != 1 or set(count) - {*_STEPS}:
        return None
    if not count["add"] == count[activation] == layers * often.pop() == count["tanh"] + count["relu"]:
        return None
    if flips not in (0, layers // 2) or len({len(args) for args in products}) != 1:
        return None
    return _Program(tuple(weights), len(products[0]) == 2, flips > 0)


def _rnn(match: Match, extend: Extension) -> Group | None:
    # All nodes that come from the call: all steps, layers and directions
    root = match.nodes[0]
    call = re.search(_LAYER_CALL, source_line(root.node.proto))
    if call is None:
        return None
    nodes = nodes_of_call(root, extend)
    written = [operation(origin(recorded.node.proto)) for recorded in nodes]
    operations = [each for each in reversed(written) if each is not None]
    program = _program(list(dict.fromkeys(operations)), call[1])
    if nodes[0] is not root or program is None or len(operations) != len(nodes):
        return None
    operands = _operands(list(zip(reversed(nodes), operations, strict=True)), program)
    if operands is None:
        return None
    x, state = operands["x"], operands["h0"]
    width, inside = state.known_shape[-1], {recorded.node for recorded in nodes}
    made = {Y: Value((*x.known_shape[:-1], width * (1 + program.is_bidirectional)), x.dtype)}
    made[FINAL] = Value(state.shape, x.dtype)
    ends: list[tuple[str, Value]] = []
    for recorded, each in zip(nodes, reversed(operations), strict=True):
        kind = Y if each.name in ("cat", "transpose", call[1]) else each.name
        ends += [(kind, value) for value in recorded.node.outputs if value and _is_read_outside(value, inside, extend)]
    made.update(ends)
    if (
        made.keys() != {Y, FINAL}
        or len(dict(ends)) != len(ends)
        or not extend.is_separate(Match({}, tuple(nodes)), made.values())
    ):
        return None
    layers = len(program.weights) // (4 if program.is_bidirectional else 2)
    attrs = {"hidden": width, "layers": layers, "bidirectional": program.is_bidirectional, "activation": call[1]}
    return Group("rnn", "RNN", operands, attrs, tuple(nodes), tuple(made.values()))


def _is_read_outside(value: Value, inside: Collection[Node], extend: Extension) -> bool:
    return any(reader is None or reader.node not in inside for reader in extend.readers(value))


def _operands(nodes: Sequence[tuple[RecordedNode, Operation]], program: _Program) -> dict[str, Value] | None:
    # Returns None unless there are exactly one input and one initial state.
    made = {value for recorded, _ in nodes for value in recorded.node.outputs}
    found: dict[str, dict[Value, str]] = {"x": {}, "h0": {}}
    for recorded, each in nodes:
        for value in recorded.node.inputs:
            if value is None or value in made or (value.data is not None and value.dtype == "int64"):
                continue  # an index
            if each.name == "linear" and (recorded.node.op != "MatMul" or value is not recorded.node.inputs[0]):
                kind, i = ("b" if recorded.node.op == "Add" else "w"), program.weights.index(each.args[1])
                found.setdefault(f"{kind}{i}", {})[value] = recorded.node.op
            else:
                found["h0" if each.name == "unbind" else "x"][value] = recorded.node.op
    count = len(program.weights) * (1 + program.is_biased)
    if len(found) != 2 + count or any(len(values) != 1 for values in found.values()):
        return None
    pairs = ((name, *next(iter(values.items()))) for name, values in found.items())
    return {
        # a folding exporter stores weights transposed
        name: value.viewed(value.known_shape[::-1]) if kind == "MatMul" and name[0] == "w" else value
        for name, value, kind in pairs
    }


_ENDS = ("Concat", "Transpose", "Identity", "Unsqueeze", "Tanh", "Relu")

RNN = Decomposition(_ENDS, Either(tuple(map(Op, _ENDS))), _rnn, _LAYER_CALL)
"""``nn.RNN``, unrolled into nodes for each step."""
