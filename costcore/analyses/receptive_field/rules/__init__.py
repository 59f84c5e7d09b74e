"""Receptive-field rules by operator family. Element-wise operators need none."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence, Rule, RuleContext
from costcore.analyses.receptive_field.rules.layout import element_wise
from costcore.analyses.receptive_field.rules.mixing import combined
from costcore.plugins import modules_with
from costcore.registry import calculators

# Lookup over all families.


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
    return _reject


def _reject(site: RuleContext) -> list[Dependence | None]:
    # A scalar depends on everything, at most.
    if site.layer.outputs and all(not y.shape for y in site.layer.outputs):
        return combined(site)
    raise CannotFollowError(f"no rule for {site.layer.op!r}")
