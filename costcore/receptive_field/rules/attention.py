"""Attention: every query sees all keys and values."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.receptive_field.dependence import Dependence
from costcore.receptive_field.site import Rule, Site


def _attention(site: Site) -> list[Dependence | None]:
    """Queries keep their positions; keys and values are combined along the last two axes, tokens and features."""
    parts = []
    for name, tensor in site.layer.inputs.items():
        dependence = site.operands.get(name)
        if dependence is None:
            continue
        last = tensor.ndim - 1
        parts.append(site.contract(dependence, [last] if name == "q" else [last - 1, last]))
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


RULES: Mapping[str, Rule] = {
    "attention": _attention,
    **dict.fromkeys(("multi_head_attention", "transformer_encoder_layer"), _multi_head_attention),
}
