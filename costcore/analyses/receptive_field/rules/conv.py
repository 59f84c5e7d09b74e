"""Convolutions: every output reads a window of positions and all channels."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence
from costcore.analyses.receptive_field.periodic_map import Taps
from costcore.analyses.receptive_field.rules.windows import windows_of
from costcore.analyses.receptive_field.site import Rule, Site


def _products(site: Site, taps: list[Taps]) -> Dependence | None:
    """Return the dependence of windows over the last axes that combine all channels; other operands are added.

    Raises:
        CannotFollowError: if the operands of the layer have their axes in another order than the values have.
    """
    if site.layer.attrs.get("permuted"):
        raise CannotFollowError("channels that are not the second axis")
    dependence, rank = site.operands.get("x"), len(taps)
    if dependence is not None:
        x, y = site.layer["x"], site.y
        first = x.ndim - rank
        dependence = site.contract(dependence, [first - 1])
        for axis, each in enumerate(taps, first):
            dependence = site.slide(dependence, axis, each, x.shape[axis], y.shape[axis])
    others = [name for name in site.operands if name not in ("x", "w")]
    weights = site.operands.get("w")
    computed = None if weights is None else site.contract(weights, range(site.layer["w"].ndim))
    return site.unite([dependence, site.elementwise(site.y.shape, others), computed])


def _conv(site: Site) -> list[Dependence | None]:
    return site.all_outputs(_products(site, windows_of(site).taps()))


def _conv_transpose(site: Site) -> list[Dependence | None]:
    return site.all_outputs(_products(site, windows_of(site).transposed_taps()))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv", "fused_conv"), _conv),
    "conv_transpose": _conv_transpose,
}
