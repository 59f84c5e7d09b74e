"""Gathers and embeddings: an index keeps its position, an axis that is indexed loses it."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence, moved
from costcore.analyses.receptive_field.rules.layout import select
from costcore.analyses.receptive_field.site import Rule, Site


def _embedding(site: Site) -> list[Dependence | None]:
    if "w" in site.operands:
        raise CannotFollowError("a table that depends on the input")
    return site.all_outputs(site.operands.get("x"))


def _gather(site: Site) -> list[Dependence | None]:
    """The axes of the indices take the place of the axis; a constant index is a selection."""
    if "index" in site.layer.attrs:
        return select(site)
    axis, dependence = site.attribute("axis"), site.operands.get("x")
    if len(site.operands) > (dependence is not None) or not isinstance(axis, int):
        raise CannotFollowError("indices that depend on the input")
    if dependence is None:
        return site.all_outputs(None)
    added, rank = site.y.ndim - site.layer["x"].ndim, site.y.ndim
    return site.all_outputs(moved(dependence, [*range(axis), None, *range(axis + 1 + added, rank)]))


def _at_data(site: Site) -> list[Dependence | None]:
    """Read places that are values of an operand."""
    raise CannotFollowError("places that depend on data")


AT_DATA = """
grid_sample deform_conv roi_align ps_roi_align roi_max_pool roi_avg_pool ps_roi_avg_pool crop_and_resize gather_elements
gather_nd masked_select masked_gather compress upsample fractional_max_pool
"""
"""Operators that read or write places that only a run knows."""

RULES: Mapping[str, Rule] = {
    "embedding": _embedding,
    "gather": _gather,
    **dict.fromkeys(AT_DATA.split(), _at_data),
}
