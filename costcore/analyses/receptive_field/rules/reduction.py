"""Reductions, cumulative operators and sorting: all positions along an axis are combined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.analyses.receptive_field.dependence import Dependence, moved
from costcore.analyses.receptive_field.rules.normalization import over_attribute
from costcore.analyses.receptive_field.site import Rule, Site

REDUCTIONS = (
    *("reduce_sum", "reduce_nansum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_all"),
    *("reduce_any", "reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp", "reduce_sum_square", "reduce_log_sum"),
    *("reduce_log_sum_exp", "min_max", "argmax", "argmin", "count_nonzero", "var", "std", "var_mean", "std_mean"),
    "median",
)


def _reduction(site: Site) -> list[Dependence | None]:
    """Reduce over the attribute ``axis``; over all axes without it."""
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


def _sort(site: Site) -> list[Dependence | None]:
    axis: Any = site.attribute("axis")
    dependence = site.of_x
    return site.all_outputs(None if dependence is None else site.contract(dependence, [axis]))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), over_attribute),
    **dict.fromkeys(("sort", "argsort", "topk"), _sort),
}
