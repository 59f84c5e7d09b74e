"""What exporters write for one operator: layers with weights, norms, activations."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt
from typing import Any

from ...reading.exporter_metadata import origin
from ...values.value import FLOATS, Value
from ..exported_program import operation
from ..matcher import Either, Extend, Group, Groups, Made, Match, Named, Number, Op, Operand, Pattern, product
from .adaptive_pool import ADAPTIVE
from .assignment import ASSIGNED, MADE
from .attention import ATTENTION
from .data_movement import AS_STRIDED, INDEX, ROLL, TRACED_ROLL

X, W, B = Operand("x"), Operand("w"), Operand("b")
ONE, HALF = Number(1.0), Number(0.5)


def learned(value: Value | None, *shape: Any) -> bool:
    """Whether a value is a stored floating-point tensor of this shape."""
    return value is not None and value.stored is not None and value.dtype in FLOATS and value.shape == shape


def like_x(match: Match) -> bool:
    """Whether the group makes what it is given: the shape and the element type of ``x``."""
    y, x = match.nodes[0].call.layer.out, match.values["x"]
    return x.shape == y.shape and x.dtype == y.dtype


def last_axes(made: Made) -> bool:
    """Whether a reduction goes over the last axes, and keeps them."""
    attrs, rank = made.call.layer.attrs, made.call.layer.out.ndim
    axes = attrs.get("axis") or ()
    return bool(attrs.get("keepdims") and axes and axes == tuple(range(rank - len(axes), rank)))


def axes_of(match: Match) -> tuple[int, ...] | None:
    """The axes of all reductions of a match, None where they differ."""
    found = {made.call.layer.attrs["axis"] for made in match.nodes if made.node.op == "ReduceMean"}
    return found.pop() if len(found) == 1 else None


def number(value: Value) -> Any:
    """The element of a constant of one element."""
    return value.data.ravel()[0]


def _activation(op: str, kind: str, attrs: Mapping[str, Any]) -> Any:
    def build(match: Match, _: Extend) -> Group | None:
        return Group(op, kind, {"x": match.values["x"]}, attrs, match.nodes) if like_x(match) else None

    return build


_QUOTIENT = Op("Div", X, Number(sqrt(2)))
_ERF = Op("Erf", Either((_QUOTIENT, Op("Mul", X, Number(sqrt(0.5))))))
_PRODUCTS = Op("Mul", X, Op("Mul", X, X))


def _tanh(cube: Pattern) -> Op:
    return Op("Tanh", Op("Mul", Number(sqrt(2 / pi)), Op("Add", X, Op("Mul", Number(0.044715), cube))))


_TANH = _tanh(Either((Op("Pow", X, Number(3.0)), _PRODUCTS)))


def _is_swap(made: Made) -> bool:
    return bool(made.call.layer.attrs.get("axes") == (1, 0))


_TRANSPOSED = Op("Transpose", W, check=_is_swap)
_LINEAR = Either(
    (
        Op("Add", Op("MatMul", X, Either((_TRANSPOSED, W))), B),
        Op("MatMul", X, _TRANSPOSED),
    )
)


def _is_learned_part(value: Value, extend: Extend) -> bool:
    """Whether a value is a learned tensor, or a part of one, as the projections of attention have them."""
    whole = extend.whole(value)
    return learned(whole, *(whole.shape or ()))


def _linear(match: Match, extend: Extend) -> Group | None:
    x, w, b = match.values["x"], match.values["w"], match.values.get("b")
    note = origin(match.nodes[0].node.proto)
    said = operation(note)
    is_said = said is not None and said.name == "linear"
    if w.shape is None or len(w.shape) != 2 or not (is_said or _is_learned_part(w, extend)) or not x.shape:
        return None
    if not any(made.node.op == "Transpose" for made in match.nodes):
        w = w.viewed(w.shape[::-1])
    operands = {"x": x, "w": w}
    if b is not None:
        is_one = bool(note)  # operation, which takes a computed bias too
        if b.shape != w.known[:1] or not (is_one or _is_learned_part(b, extend)):
            return None
        operands["b"] = b
    return Group("linear", "Gemm", operands, {}, match.nodes)


_ZEROS = Either((Number(0.0), Op("Expand", Number(0.0))))


def _unbiased(match: Match, _: Extend) -> Group | None:
    """A convolution whose bias is computed, and zero."""
    made = match.nodes[0]
    if match.values["b"].stored is not None or made.call.layer.op not in ("conv", "conv_transpose"):
        return None
    operands = {"x": match.values["x"], "w": match.values["w"]}
    return Group(made.call.layer.op, made.node.op, operands, made.call.layer.attrs, match.nodes)


def _is_float(made: Made) -> bool:
    return made.call.layer.out.dtype in FLOATS


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
    """A norm, and the weight and bias behind it."""
    scaled = Op("Mul", pattern, W)
    return Either((*((Op("Add", scaled, B),) if biased else ()), scaled, pattern))


def _norm(op: str, kind: str) -> Any:
    def build(match: Match, _: Extend) -> Group | None:
        x, axes = match.values["x"], axes_of(match)
        operands = {name: match.values[name] for name in ("x", "w", "b") if name in match.values}
        if axes is None or not like_x(match):
            return None
        if not all(learned(value, *x.known[axes[0] :]) for name, value in operands.items() if name != "x"):
            return None
        return Group(op, kind, operands, {"axis": axes, "eps": number(match.values["eps"])}, match.nodes)

    return build


def _as(name: str) -> Either:
    """An operand, or that operand converted to a type that it has already."""
    return Either((Op("CastLike", Operand(name), Operand(f"like_{name}")), Operand(name)))


_ROWS = Named("rows", Op("Reshape", X))
_GROUP_NORM = Op("Reshape", Op("InstanceNormalization", _ROWS, ONE, Number(0.0)))


def _group_norm(match: Match, _: Extend) -> Group | None:
    x, rows = match.values["x"], match.values["rows"].known
    if not like_x(match) or len(rows) != 3 or len(x.known) < 3 or rows[0] != x.known[0]:
        return None
    if isinstance(x.known[1], int) and isinstance(rows[1], int) and (not rows[1] or x.known[1] % rows[1]):
        return None  # parts of channels are no group of them
    operands = {"x": x}
    for name, neutral in (("w", 1), ("b", 0)):
        value = match.values[name]
        if learned(value, x.known[1], *(1,) * (len(x.known) - 2)) and value.dtype == x.dtype:
            operands[name] = value.viewed((x.known[1],))
        elif value.data is None or any(element != neutral for element in value.data.flat):
            return None
    made = next(made for made in match.nodes if made.node.op == "InstanceNormalization")
    attrs = {"groups": rows[1], "eps": made.node.args["epsilon"]}
    return Group("group_norm", "GroupNormalization", operands, attrs, match.nodes)


def _elu(match: Match, _: Extend) -> Group | None:
    """An activation whose input and output are scaled by 1."""
    made = next(made for made in match.nodes if made.node.op == "Elu")
    return Group("elu", "Elu", {"x": match.values["x"]}, made.call.layer.attrs, match.nodes) if like_x(match) else None


def _select(match: Match, _: Extend) -> Group | None:
    """One place of an axis, which is a slice of it."""
    made = match.nodes[0]
    if match.values["place"].shape != () or made.call.layer.op not in ("gather", "embedding"):
        return None
    axis = made.node.axis(len(match.values["x"].known), "axis") or 0
    attrs = {"axis": (axis,), "start": (number(match.values["place"]),)}
    return Group("slice", "Gather", {"x": match.values["x"]}, attrs, match.nodes)


_V, _G = Operand("w0"), Operand("w1")
_LENGTH = Op("ReduceL2", _V)
_WEIGHT_NORM = Either((Op("Mul", _V, Op("Div", _G, _LENGTH)), Op("Mul", Op("Div", _V, _LENGTH), _G)))


def _weight_norm(match: Match, _: Extend) -> Group | None:
    """Directions of a weight, and lengths along one axis."""
    v, g = match.values["w0"].shape, match.values["w1"].shape
    reduced = next(made.call.layer for made in match.nodes if made.node.op == "ReduceL2")
    left = [i for i in range(len(v or ())) if i not in (reduced.attrs.get("axis") or ())]
    if len(left) != 1 or reduced.out.shape != g or reduced.out.ndim != len(v or ()):
        return None
    if match.nodes[0].call.layer.out.shape != v:
        return None
    return Group(
        "weight_norm", "WeightNorm", {n: match.values[n] for n in ("w0", "w1")}, {"axis": left[0]}, match.nodes
    )


def _not_equal(match: Match, _: Extend) -> Group | None:
    operands = {"x0": match.values["x"], "x1": match.values["other"]}
    return Group("not_equal", "NotEqual", operands, {}, match.nodes)


def _rsqrt(match: Match, _: Extend) -> Group | None:
    return Group("rsqrt", "Rsqrt", {"x": match.values["x"]}, {}, match.nodes) if like_x(match) else None


def _same_type(match: Match, _: Extend) -> Group | None:
    """A conversion to the type that a value has already."""
    return Group("identity", "Cast", {"x": match.values["x"]}, {}, match.nodes) if like_x(match) else None


_SQRT = Op("Sqrt", X)
_CALL_OF_WEIGHT_NORM = r"\btorch\._weight_norm\("
_CALL_OF_RMS_NORM = r"\b(F|functional|torch)\.rms_norm\("

PATTERNS: Mapping[str, Groups] = {
    "attention": ATTENTION,
    "linear": Groups(("Add", "MatMul"), _LINEAR, _linear),
    "conv": Groups(("Conv", "ConvTranspose"), Either(tuple(
        Op(kind, X, W, Named("b", _ZEROS)) for kind in ("Conv", "ConvTranspose")
    )), _unbiased),
    "layer_norm": Groups(
        ("Add", "Mul", "Div", "Cast"), _affine(_LAYER_NORM, True), _norm("layer_norm", "LayerNormalization")
    ),
    "rms_norm": Groups(
        ("Mul", "Div"), _affine(_RMS_NORM, False), _norm("rms_norm", "RMSNormalization"), _CALL_OF_RMS_NORM
    ),
    "weight_norm": Groups(("Mul",), _WEIGHT_NORM, _weight_norm, _CALL_OF_WEIGHT_NORM),
    "group_norm": Groups(("Add",), Op("Add", Op("Mul", _GROUP_NORM, _as("w")), _as("b")), _group_norm),
    "gelu": Groups(
        ("Mul",), product(X, HALF, Op("Add", _ERF, ONE)), _activation("gelu", "Gelu", {"approximate": "none"})
    ),
    "gelu_tanh": Groups(
        ("Mul",), product(X, HALF, Op("Add", _TANH, ONE)), _activation("gelu", "Gelu", {"approximate": "tanh"})
    ),
    "silu": Groups(("Mul",), Op("Mul", X, Op("Sigmoid", X)), _activation("silu", "Swish", {})),
    "elu": Groups(("Mul",), Op("Mul", Op("Elu", Op("Mul", X, ONE)), ONE), _elu),
    "not_equal": Groups(("Not",), Op("Not", Op("Equal", X, Operand("other"))), _not_equal),
    "rsqrt": Groups(("Reciprocal", "Div"), Either((Op("Reciprocal", _SQRT), Op("Div", ONE, _SQRT))), _rsqrt),
    "full": MADE,
    "assign": ASSIGNED,
    "identity": Groups(
        ("Cast", "CastLike"), Either((Op("Cast", X), Op("CastLike", X, Operand("like")))), _same_type
    ),
    "slice": Groups(("Gather",), Op("Gather", X, Named("place", Number())), _select),
    "roll": ROLL,
    "gather": INDEX,
    "as_strided": AS_STRIDED,
    "adaptive_avg_pool": ADAPTIVE,
}  # fmt: skip
"""What ``regroup=True`` looks for, by name."""

TRACED: Mapping[str, Pattern | None] = {
    "gelu": Op("Mul", HALF, Op("Mul", X, Op("Add", Op("Erf", _QUOTIENT), ONE))),
    "gelu_tanh": Op("Mul", HALF, Op("Mul", X, Op("Add", ONE, _tanh(_PRODUCTS)))),
    "rms_norm": None,
    "roll": TRACED_ROLL,
}
"""How PyTorch's older exporter, which traces and notes no origins, spells some of them, None if never.

It cannot write ``rms_norm`` at all. What else computes the same was several operations in the user's program too.
"""
