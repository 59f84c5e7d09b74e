"""Rules of operators that combine positions: recurrent layers, attention, products, norms, reductions, sorting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.analyses.receptive_field.dependence import (
    CannotFollowError,
    Dependence,
    Rule,
    RuleContext,
    broadcast,
    carries,
    moved,
)


def combined(site: RuleContext) -> list[Dependence | None]:
    """Return the dependence of outputs that combine all elements of all operands."""
    tensors = site.layer.inputs
    parts = [site.contract(dependence, range(tensors[name].ndim)) for name, dependence in site.operands.items()]
    return site.all_outputs(site.unite(parts))


GLOBAL_OPERATORS_RULES: Mapping[str, Rule] = dict.fromkeys(
    ("lstm", "gru", "rnn", "dynamic_quantized_lstm", "attention_lstm", "fft", "real_fft", "inverse_real_fft"), combined
)


# Attention: every query sees all keys and values.


def _attention(site: RuleContext) -> list[Dependence | None]:
    parts = []
    for name, tensor in site.layer.inputs.items():
        dependence = site.operands.get(name)
        if dependence is None:
            continue
        rank, kept = tensor.ndim, 1 if name in ("q", "mask") else 0  # of a mask too, the axis of the keys is combined
        dependence = site.contract(dependence, range(rank - 2 + kept, rank))
        parts.append(broadcast(dependence, tensor.shape, site.y.shape, site.node))
    return site.all_outputs(site.unite(parts))


def _multi_head_attention(site: RuleContext) -> list[Dependence | None]:
    # Tokens are along the last axis but one.
    names = [name for name in site.layer.inputs if name in ("q", "x")]
    parts = []
    for name, dependence in site.operands.items():
        last = site.layer[name].ndim - 1
        parts.append(site.contract(dependence, [last] if name in names[:1] else range(last + 1)))
    united = site.unite(parts)
    return site.all_outputs(None if united is None else site.in_context(united, [site.y.ndim - 2]))


def _rotary_embedding(site: RuleContext) -> list[Dependence | None]:
    # Pairs of features of one token are rotated; the angles are operands.
    found = site.of_x
    if found is None or len(site.operands) > 1:
        raise CannotFollowError("angles that depend on the input")
    return site.all_outputs(site.contract(found, [site.x.ndim - 1]))


ATTENTION_RULES: Mapping[str, Rule] = {
    "attention": _attention,
    "rotary_embedding": _rotary_embedding,
    **dict.fromkeys(("multi_head_attention", "transformer_encoder_layer"), _multi_head_attention),
}


# Matrix products: the contracted axis is combined, other axes keep their positions.


def _linear(site: RuleContext) -> list[Dependence | None]:
    x = site.layer["x"]
    dependence, weights = site.operands.get("x"), site.operands.get("w")
    if dependence is not None:
        dependence = site.contract(dependence, [x.ndim - 1])
    if weights is not None:
        weights = site.contract(weights, range(site.layer["w"].ndim))
    added = site.elementwise(site.y.shape, [name for name in site.operands if name not in ("x", "w")])
    return site.all_outputs(site.unite([dependence, weights, added]))


def _matmul(site: RuleContext) -> list[Dependence | None]:
    x0, x1, y = site.layer["x0"], site.layer["x1"], site.y
    left, right = site.operands.get("x0"), site.operands.get("x1")
    if left is not None:
        left = site.contract(left, [x0.ndim - 1])
        left = broadcast(left, x0.shape[:-1] if x1.ndim == 1 else x0.shape, y.shape, site.node)
    if right is not None:
        right = site.contract(right, [max(x1.ndim - 2, 0)])
        shape = () if x1.ndim == 1 else x1.shape
        if x0.ndim == 1 and x1.ndim > 1:
            right = moved(right, [*range(x1.ndim - 2), None, x1.ndim - 2])
            shape = (*x1.shape[:-2], x1.shape[-1])
        right = broadcast(right, shape, y.shape, site.node)
    added = site.elementwise(y.shape, [name for name in site.operands if name not in ("x0", "x1")])
    return site.all_outputs(site.unite([left, right, added]))


def _einsum(site: RuleContext) -> list[Dependence | None]:
    equation = str(site.attribute("equation")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    names = [name for name in site.layer.inputs if name.startswith("x")]
    if "." in equation or not arrow or len(terms.split(",")) != len(names) or len(site.operands.keys() - set(names)):
        raise CannotFollowError("an equation with implicit axes")
    parts = []
    for name, letters in zip(names, terms.split(","), strict=True):
        dependence = site.operands.get(name)
        if dependence is not None:
            if len(set(letters)) < len(letters):
                raise CannotFollowError("an equation with a diagonal")
            gone = [axis for axis, letter in enumerate(letters) if letter not in result]
            dependence = moved(
                site.contract(dependence, gone), [result.index(each) if each in result else None for each in letters]
            )
        parts.append(dependence)
    return site.all_outputs(site.unite(parts))


MATMUL_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("linear", "packed_linear"), _linear),
    "matmul": _matmul,
    "einsum": _einsum,
}


# Normalizations: every element sees itself and the statistics over some axes.


def over(site: RuleContext, axes: Iterable[int]) -> list[Dependence | None]:
    """Return the dependence of a value computed from its own element and statistics of x along some axes."""
    dependence = site.elementwise(site.y.shape)
    return site.all_outputs(None if dependence is None else site.in_context(dependence, axes))


def over_attribute(site: RuleContext) -> list[Dependence | None]:
    """Normalize over the attribute ``axis``, one axis or several."""
    axes: Any = site.attribute("axis")
    return over(site, axes if isinstance(axes, tuple) else (axes,))


def _batch_norm(site: RuleContext) -> list[Dependence | None]:
    # In training, the statistics are over the batch and all positions.
    if site.layer.op != "batch_norm" or site.layer.attrs.get("training"):
        return _over_all_but_channels(site)
    return site.all_outputs(site.elementwise(site.y.shape, ["x"]))


def _over_all_but_channels(site: RuleContext) -> list[Dependence | None]:
    dependence = site.operands.get("x")
    axes = (axis for axis in range(site.x.ndim) if axis != 1)
    return site.all_outputs(None if dependence is None else site.in_context(dependence, axes))


def _group_norm(site: RuleContext) -> list[Dependence | None]:
    return over(site, range(1, site.x.ndim))


def _instance_norm(site: RuleContext) -> list[Dependence | None]:
    return over(site, range(2, site.x.ndim))


def _over_channels(site: RuleContext) -> list[Dependence | None]:
    return over(site, (1,))


def _mean_variance_norm(site: RuleContext) -> list[Dependence | None]:
    axes: Any = site.layer.attrs.get("axis") or (0, *range(2, site.x.ndim))
    return over(site, axes)


def _normalize_rows(site: RuleContext) -> list[Dependence | None]:
    dependence = site.operands.get("x")
    return site.all_outputs(None if dependence is None else site.in_context(dependence, [site.x.ndim - 1]))


NORMALIZATION_RULES: Mapping[str, Rule] = {
    "batch_norm": _batch_norm,
    **dict.fromkeys(("batch_renorm", "decorrelated_batch_norm"), _batch_norm),
    **dict.fromkeys(("layer_norm", "rms_norm", "l2_normalize", "l1_normalize"), over_attribute),
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "local_response_norm": _over_channels,
    "mean_variance_norm": _mean_variance_norm,
    "normalize_rows": _normalize_rows,
}


# Softmax and gated units; other activation functions are element-wise.


def _along_channels(site: RuleContext) -> list[Dependence | None]:
    # Halves of this axis are multiplied or joined, which breaks its positions.
    axis, dependence = site.layer.attrs.get("axis", 1 if site.layer.op == "crelu" else site.x.ndim - 1), site.of_x
    if carries(dependence, axis):
        raise CannotFollowError("halves of an axis with positions")
    return site.all_outputs(dependence)


ACTIVATION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "masked_softmax", "hardmax"), over_attribute),
    **dict.fromkeys(("glu", "crelu"), _along_channels),
}


# Reductions, cumulative operators and sorting: combine all positions along an axis.


REDUCTIONS = (
    *("reduce_sum", "reduce_nansum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_all"),
    *("reduce_any", "reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp", "reduce_sum_square", "reduce_log_sum"),
    *("reduce_log_sum_exp", "min_max", "argmax", "argmin", "count_nonzero", "var", "std", "var_mean", "std_mean"),
    "median",
)


def _reduction(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y = site.of_x, site.x, site.y
    if dependence is None:
        return site.all_outputs(None)
    axes: Any = site.layer.attrs.get("axis")
    if axes is None or axes == ():
        axes = range(x.ndim)
    axes = {axes} if isinstance(axes, int) else {axis % x.ndim for axis in axes}
    dependence = site.contract(dependence, axes)
    if y.ndim != x.ndim:
        numbers = iter(range(x.ndim))
        dependence = moved(dependence, [None if axis in axes else next(numbers) for axis in range(x.ndim)])
    return site.all_outputs(dependence)


def _sort(site: RuleContext) -> list[Dependence | None]:
    axis: Any = site.attribute("axis")
    dependence = site.of_x
    return site.all_outputs(None if dependence is None else site.contract(dependence, [axis]))


REDUCTION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), over_attribute),
    **dict.fromkeys(("sort", "argsort", "topk"), _sort),
}


RULES: Mapping[str, Rule] = {
    **GLOBAL_OPERATORS_RULES,
    **ATTENTION_RULES,
    **MATMUL_RULES,
    **NORMALIZATION_RULES,
    **ACTIVATION_RULES,
    **REDUCTION_RULES,
}
