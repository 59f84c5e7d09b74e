"""All rules by operator."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence
from costcore.analyses.receptive_field.rules.global_operators import combined
from costcore.analyses.receptive_field.rules.layout import element_wise
from costcore.analyses.receptive_field.site import Rule, Site
from costcore.import_paths import modules_with
from costcore.registry.calculators import calculators

FAMILIES = modules_with("RULES", __package__)

RULES: Mapping[str, Rule] = {op: rule for family in FAMILIES for op, rule in family.RULES.items()}


def rule_of(op: str) -> Rule:
    """Return the rule of an operator; one that raises ``CannotFollowError`` if it has none.

    An operator on quantized values reads the elements that the operator on real values does.
    """
    for name in (op, op.removeprefix("dynamic_").removeprefix("quantized_")):
        if name in RULES:
            return RULES[name]
        if getattr(calculators().get(name), "is_element_wise", False):
            return element_wise
    return _without_rule


def _without_rule(site: Site) -> list[Dependence | None]:
    """Without a rule, only a scalar is known: it depends on everything, at most."""
    if site.layer.outputs and all(not y.shape for y in site.layer.outputs):
        return combined(site)
    raise CannotFollowError(f"no rule for {site.layer.op!r}")
