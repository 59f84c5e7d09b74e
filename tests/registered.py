"""What this installation has, plug-ins included: frontends, calculators, models, modes of tables and exports."""

from __future__ import annotations

from functools import cache
from typing import Any

from costcore.api.estimate import in_mode, load_model
from costcore.counting import Pricer
from costcore.registry import ability, calculators, default_inputs, load, needed_ability, plugin_rows, specs
from costcore.reports.exports import Export, exports
from costcore.tables.renderers import renderers

__all__ = [
    "Export",
    "ability",
    "calculators",
    "cost",
    "default_inputs",
    "exports",
    "in_mode",
    "load",
    "load_model",
    "needed_ability",
    "plugin_rows",
    "price",
    "renderers",
    "specs",
    "usual_inputs",
]


def usual_inputs(model: Any, target: str = "") -> Any:
    """Return the inputs that a command uses if none are given."""
    found = default_inputs(model, target)
    return None if found is None else found.inputs


@cache
def _pricer() -> Pricer:
    return Pricer(calculators())


def price(call: Any) -> Any:
    """Return a recorded call with its cost, or with the reason why it has none."""
    return _pricer()(call)


def cost(call: Any) -> Any:
    """Return the cost of a recorded call, which must have one."""
    priced = price(call)
    assert priced.cost is not None, (call.native, priced.reason)
    return priced.cost
