"""Attention: every query sees all keys and values."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence
from costcore.analyses.receptive_field.site import Rule, Site
from costcore.analyses.receptive_field.union import broadcast


def _attention(site: Site) -> list[Dependence | None]:
    """Queries keep their positions; keys and values are combined along the last two axes, tokens and features."""
    parts = []
    for name, tensor in site.layer.inputs.items():
        dependence = site.operands.get(name)
        if dependence is None:
            continue
        rank, kept = tensor.ndim, 1 if name in ("q", "mask") else 0  # of a mask too, the axis of the keys is combined
        dependence = site.contract(dependence, range(rank - 2 + kept, rank))
        parts.append(broadcast(dependence, tensor.shape, site.y.shape, site.node))
    return site.all_outputs(site.unite(parts))


def _multi_head_attention(site: Site) -> list[Dependence | None]:
    """Attention with its projections; tokens are along the last axis but one."""
    names = [name for name in site.layer.inputs if name in ("q", "x")]
    parts = []
    for name, dependence in site.operands.items():
        last = site.layer[name].ndim - 1
        parts.append(site.contract(dependence, [last] if name in names[:1] else range(last + 1)))
    united = site.unite(parts)
    return site.all_outputs(None if united is None else site.in_context(united, [site.y.ndim - 2]))


def _rotary_embedding(site: Site) -> list[Dependence | None]:
    """Pairs of features of one token are rotated, by angles that other operands give for it."""
    found = site.of_x
    if found is None or len(site.operands) > 1:
        raise CannotFollowError("angles that depend on the input")
    return site.all_outputs(site.contract(found, [site.x.ndim - 1]))


RULES: Mapping[str, Rule] = {
    "attention": _attention,
    "rotary_embedding": _rotary_embedding,
    **dict.fromkeys(("multi_head_attention", "transformer_encoder_layer"), _multi_head_attention),
}
