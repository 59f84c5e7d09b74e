"""Layer, RMS and batch normalization."""

from __future__ import annotations

from costcore.ir import prod
from costcore.trace.patterns import Named, Number, Operand, Pattern

from ...capture.recording import Recorded
from ...capture.values import Value
from ..matcher import Graph, Match, either, op, product, vector
from .builders import B, Decomposition, Group, W, X, is_mean, layer_of, reduced_axes


def _mean(of: Pattern) -> Pattern:
    total = op("reduce_sum", of)
    return either(op("div", total, Number(name="count")), op("mul", total, Number(name="share")))


def _square(of: Pattern) -> Pattern:
    return either(op("square", of), op("mul", of, of))


_MEAN = Named("mean", _mean(X))
_CENTRED = op("sub", X, either(_MEAN, _mean(X)))
_OF_SQUARES = op("sub", _mean(_square(X)), _square(either(_MEAN, _mean(X))))
_TWO_PASSES = _mean(_square(op("sub", X, _mean(X))))
_VARIANCE = either(op("max", Number(0), _OF_SQUARES), _OF_SQUARES, _TWO_PASSES, op("max", Number(0), _TWO_PASSES))
_EPS = Number(name="eps")
_INVERSE = op("rsqrt", op("add", _VARIANCE, _EPS))
_SCALE = Named("scale", op("mul", _INVERSE, W))
_SCALED_NORM = product(_CENTRED, _INVERSE, W)
LAYER_NORM = Decomposition(
    either(
        op("add", op("mul", X, _SCALE), op("add", op("mul", op("neg", either(_MEAN, _mean(X))), _SCALE), B)),
        op("add", _SCALED_NORM, B),
        _SCALED_NORM,
        op("mul", _CENTRED, _INVERSE),
        op("div", _CENTRED, op("sqrt", op("add", _VARIANCE, _EPS))),
    ),
    lambda match, root, graph: _norm("layer_norm", match, root, graph) or _norm_of_groups(match, root, graph),
)
_MEAN_SQUARE = op("rsqrt", op("add", _mean(_square(X)), _EPS))
_MAYBE_LESS_0 = either(op("sub", X, Number(0)), X)
RMS_NORM = Decomposition(
    either(product(_MAYBE_LESS_0, _MEAN_SQUARE, W), op("mul", _MAYBE_LESS_0, _MEAN_SQUARE)),
    lambda match, root, graph: _norm("rms_norm", match, root, graph),
)


def _norm(kind: str, match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a layer or RMS norm over the last axes."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    if axes is None or axes != tuple(range(x.ndim - len(axes), x.ndim)) or root.outputs[0].shape != x.shape:
        return None
    length = Value(x.shape[x.ndim - len(axes) :], x.dtype).size
    if not is_mean(match, length):
        return None
    operands = {"x": x}
    for name in ("w", "b"):
        if name in match.values:
            if match.values[name].size != length:
                return None
            operands[name] = vector(match.values[name])
    return layer_of(kind, operands, root, {"axis": axes, "eps": match.values["eps"].number})


def _norm_of_groups(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a group norm, or an instance norm, of x[N, …, C]: the channels are the last axis."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    reduced = {graph.history[i].inputs[0].shape for i in match.nodes if graph.history[i].primitive == "reduce_sum"}
    if axes is None or len(reduced) != 1 or x.ndim < 3 or root.outputs[0].shape != x.shape:
        return None
    shape = reduced.pop()
    space = tuple(range(1, x.ndim - 1))
    if shape == x.shape and axes == space:
        kind, attrs = "instance_norm", {}
    elif shape[:-2] == x.shape[:-1] and axes == (*space, x.ndim):
        kind, attrs = "group_norm", {"groups": shape[-2]}
    else:
        return None
    operands = {"x": x.viewed(x.shape[0], x.shape[-1], *x.shape[1:-1])}
    operands |= {name: vector(match.values[name]) for name in ("w", "b") if name in match.values}
    length = prod(shape[axis] for axis in axes)
    if not is_mean(match, length) or any(v.size != x.shape[-1] for name, v in operands.items() if name != "x"):
        return None
    return layer_of(kind, operands, root, {**attrs, "eps": match.values["eps"].number})


_STATE = Operand("mean")
_STATE_INVERSE = op("rsqrt", op("add", Operand("var"), _EPS))
_STATE_SCALE = Named("scale", op("mul", _STATE_INVERSE, W))
_NORMED = product(op("sub", X, _STATE), _STATE_INVERSE, W)
BATCH_NORM = Decomposition(
    either(
        op("add", op("mul", X, _STATE_SCALE), op("add", op("mul", op("neg", _STATE), _STATE_SCALE), B)),
        op("add", _NORMED, B),
        _NORMED,
        op("mul", op("sub", X, _STATE), _STATE_INVERSE),
    ),
    lambda match, root, graph: _batch_norm(match, root, graph),
)


def _batch_norm(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a batch norm at inference: its statistics are not computed in this run."""
    names = [name for name in ("x", "w", "b", "mean", "var") if name in match.values]
    x, mean, var = (match.values[name] for name in ("x", "mean", "var"))
    if mean.size != var.size or graph.producer(mean) is not None or graph.producer(var) is not None:
        return None
    if x.shape != root.outputs[0].shape or mean.size not in x.shape:
        return None
    operands = {name: x if name == "x" else vector(match.values[name]) for name in names}
    if any(value.size != mean.size for name, value in operands.items() if name != "x"):
        return None
    return layer_of("batch_norm", operands, root, {"training": False, "eps": match.values["eps"].number})
