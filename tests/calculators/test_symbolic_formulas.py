"""Every formula on the symbols of its docstring against the same formula on integers."""

from __future__ import annotations

import pytest
import sympy

from costcore.ir import OPERATION_CLASSES, Operations
from tests.calculators.documented_layers import integer_values, substitute, symbolic_layer
from tests.calculators.layer_costs import CALCULATORS, cost_of


@pytest.mark.parametrize("op", sorted(CALCULATORS))
def test_symbols_and_integers_agree(op: str) -> None:
    layer = symbolic_layer(op)
    values = integer_values(layer)
    formula = cost_of(layer)
    number = cost_of(layer.map_dims(lambda dim: substitute(dim, values)))
    assert isinstance(formula.flops, Operations)
    assert Operations(*(substitute(getattr(formula.flops, kind), values) for kind in OPERATION_CLASSES)) == number.flops
    assert tuple(substitute(amount, values) for amount in (formula.mread, formula.mwrite, formula.macs)) == (
        number.mread,
        number.mwrite,
        number.macs,
    )


def test_the_formula_of_a_sum() -> None:
    n, c = sympy.symbols("N C", integer=True, positive=True)
    cost = cost_of(symbolic_layer("reduce_sum"))
    assert cost.flops == Operations(add=n * c - n)
    assert (cost.mread, cost.mwrite) == (4 * n * c, 4 * n)
