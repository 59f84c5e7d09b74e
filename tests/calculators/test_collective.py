from __future__ import annotations

import pytest

from costcore.calculators.collective import COMMUNICATION
from costcore.ir import Operations
from tests.calculators.layer_costs import layer_cost


@pytest.mark.parametrize("op", COMMUNICATION)
def test_communication_is_not_counted(op):
    assert layer_cost(op, {"x0": (3, 4), "x1": (3, 4)}, (3, 4), (3, 4)) == (Operations(), 0, 0, {}, 0)
    assert layer_cost(op, {}, (3, 4)) == (Operations(), 0, 0, {}, 0)
