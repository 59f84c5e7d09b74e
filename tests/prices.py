"""The cost of one call, by the registered calculators."""

from __future__ import annotations

from functools import cache
from typing import Any

from costcore.counting import Pricer
from costcore.registry import calculators


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
