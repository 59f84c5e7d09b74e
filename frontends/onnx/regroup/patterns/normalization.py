"""Layer, RMS, group and weight normalization as exporters decompose them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from costcore.trace.patterns import Either, Named, Number, Op, Operand

from ...reading.exporter_metadata import classes, origin
from ...values.value import FLOATS
from ...walk.history import RecordedNode
from ..exported_program import operation
from ..matcher import ONE, B, Decomposition, Extension, Group, Match, W, X
from .checks import is_learned, is_shape, preserves_x, scalar


def last_axes(recorded: RecordedNode) -> bool:
    """Return True for a reduction over the last axes that keeps them."""
    attrs, rank = recorded.call.layer.attrs, recorded.call.layer.out.ndim
    axes = attrs.get("axis") or ()
    return bool(attrs.get("keepdims") and axes and axes == tuple(range(rank - len(axes), rank)))


def axes_of(match: Match) -> tuple[int, ...] | None:
    """Return the axes of all reductions of a match, None if they differ."""
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
    """Return the pattern of a normalization followed by a weight and a bias."""
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
    """Return the pattern of an operand, or of its conversion to the dtype that it has already."""
    return Either((Op("CastLike", Operand(name), Operand(f"like_{name}")), Operand(name)))


_ROWS = Either((Named("rows", Op("Reshape", X)), Named("rows", X)))
_NORMED = Op("InstanceNormalization", _ROWS, ONE, Number(0.0))
_GROUP_NORM = Either((Op("Reshape", _NORMED), _NORMED))  # a folding exporter removes what keeps the shape


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


_V, _G = Operand("w0"), Operand("w1")
_LENGTH = Op("ReduceL2", Either((_V, Op("Cast", _V))))  # the newer exporter of torch 2.15 casts to the same dtype
_WEIGHT_NORM = Either((Op("Mul", _V, Op("Div", _G, _LENGTH)), Op("Mul", Op("Div", _V, _LENGTH), _G)))


def _weight_norm(match: Match, _: Extension) -> Group | None:
    """Build weight normalization from directions and lengths along one axis."""
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
    """Return True for nodes of ``torch.nn.utils.weight_norm``: a hook that runs before ``forward`` of a module.

    It names the parameters ``weight_v`` and ``weight_g``. The modules of ``torch.nn`` compute no norms of parameters.
    """
    steps = {each.name: each for each in map(operation, {origin(node) for node in nodes}) if each is not None}
    if steps.keys() != {"linalg_vector_norm", "div", "mul"}:
        return False
    v, g = steps["mul"].args[0], steps["div"].args[0]
    is_named_so = v.startswith("%p_") and v.endswith("_v") and g == f"{v[:-2]}_g"
    return is_named_so and all(next(reversed(classes(node)), "").startswith("torch.nn.modules.") for node in nodes)


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
    """Return the pattern of a tensor of one number that nodes make; it gets the name unless it is computed."""
    expanded = Op("Expand", Number(number))
    return Either((Number(number, name), Op("CastLike", expanded, X), expanded))


_ONES, _ZEROS = _filled("ones", 1.0), _filled("zeros", 0.0)
_PLAIN = (
    Op("InstanceNormalization", X, _ONES, _ZEROS),
    Op("LayerNormalization", X, _ONES, _ZEROS),
    Op("LayerNormalization", X, _ONES),
)


def _plain_norm(match: Match, extend: Extension) -> Group | str | None:
    """Build a normalization without the ones and zeros that its operator needs as weights."""
    root, given = match.nodes[0], [match.values[name] for name in ("ones", "zeros") if name in match.values]
    makers = [extend.producer(value) for value in given]
    if any(maker is None or maker.node.op == "Identity" for maker in makers):  # Identity: how exporters share a weight
        return "its weights are stored tensors, which may be learned"
    layer = root.call.layer
    return Group(layer.op, root.node.op, {"x": match.values["x"]}, layer.attrs, match.nodes)


PLAIN_NORM = Decomposition(("InstanceNormalization", "LayerNormalization"), Either(_PLAIN), _plain_norm)
