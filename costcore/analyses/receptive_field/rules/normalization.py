"""Normalizations: every element depends on itself, and on the statistics of some axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.analyses.receptive_field.dependence import Dependence
from costcore.analyses.receptive_field.site import Rule, Site


def over(site: Site, axes: Iterable[int]) -> list[Dependence | None]:
    """Return the dependence of a value computed from its own element and statistics of x along some axes."""
    dependence = site.elementwise(site.y.shape)
    return site.all_outputs(None if dependence is None else site.in_context(dependence, axes))


def over_attribute(site: Site) -> list[Dependence | None]:
    """Normalize over the attribute ``axis``, one axis or several."""
    axes: Any = site.attribute("axis")
    return over(site, axes if isinstance(axes, tuple) else (axes,))


def _batch_norm(site: Site) -> list[Dependence | None]:
    """In training, the statistics are those of the batch and all positions."""
    if site.layer.op != "batch_norm" or site.layer.attrs.get("training"):
        return _over_all_but_channels(site)
    return site.all_outputs(site.elementwise(site.y.shape, ["x"]))


def _over_all_but_channels(site: Site) -> list[Dependence | None]:
    dependence = site.operands.get("x")
    axes = (axis for axis in range(site.x.ndim) if axis != 1)
    return site.all_outputs(None if dependence is None else site.in_context(dependence, axes))


def _group_norm(site: Site) -> list[Dependence | None]:
    return over(site, range(1, site.x.ndim))


def _instance_norm(site: Site) -> list[Dependence | None]:
    return over(site, range(2, site.x.ndim))


def _over_channels(site: Site) -> list[Dependence | None]:
    return over(site, (1,))


def _mean_variance_norm(site: Site) -> list[Dependence | None]:
    axes: Any = site.layer.attrs.get("axis") or (0, *range(2, site.x.ndim))
    return over(site, axes)


def _normalize_rows(site: Site) -> list[Dependence | None]:
    dependence = site.operands.get("x")
    return site.all_outputs(None if dependence is None else site.in_context(dependence, [site.x.ndim - 1]))


RULES: Mapping[str, Rule] = {
    "batch_norm": _batch_norm,
    **dict.fromkeys(("batch_renorm", "decorrelated_batch_norm"), _batch_norm),
    **dict.fromkeys(("layer_norm", "rms_norm", "l2_normalize", "l1_normalize"), over_attribute),
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "local_response_norm": _over_channels,
    "mean_variance_norm": _mean_variance_norm,
    "normalize_rows": _normalize_rows,
}
