"""Softmax and gated units; other activation functions are element-wise."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence, carries
from costcore.analyses.receptive_field.rules.normalization import over_attribute
from costcore.analyses.receptive_field.site import Rule, Site


def _along_channels(site: Site) -> list[Dependence | None]:
    """Halves of an axis multiplied, or joined: along it, a position is not followed."""
    axis, dependence = site.layer.attrs.get("axis", 1 if site.layer.op == "crelu" else site.x.ndim - 1), site.of_x
    if carries(dependence, axis):
        raise CannotFollowError("halves of an axis with positions")
    return site.all_outputs(dependence)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "masked_softmax", "hardmax"), over_attribute),
    **dict.fromkeys(("glu", "crelu"), _along_channels),
}
