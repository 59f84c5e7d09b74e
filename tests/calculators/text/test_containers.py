"""Containers of values cost nothing."""

from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.layer_costs import layer_cost


def test_containers_move_nothing() -> None:
    assert layer_cost("container", {"x": (3, 4)}, (3, 4))[:3] == (Operations(), 0, 0)
