"""Einstein summation against counts worked out by hand."""

from __future__ import annotations

import pytest

from costcore.errors import CostError
from costcore.ir import Operations
from tests.calculators.layer_costs import layer_cost

EINSUM = [  # equation, operands, output, kinds and macs by hand
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), Operations(mul=30, fma=30 * 3), 120),
    ("nct,ncp->ntp", [(1, 5, 2), (1, 5, 12)], (1, 2, 12), Operations(mul=24, fma=24 * 4), 120),  # fvcore
    ("nc,nchw->hw", [(3, 4), (3, 4, 2, 3)], (2, 3), Operations(mul=6, fma=6 * 11), 72),  # fvcore
    ("...ij,...jk", [(2, 3, 4), (4, 5)], (2, 3, 5), Operations(mul=30, fma=30 * 3), 120),
    ("b i j , b j k -> b i k", [(1, 3, 4), (2, 4, 5)], (2, 3, 5), Operations(mul=30, fma=30 * 3), 120),
    ("i,j->ij", [(3,), (4,)], (3, 4), Operations(mul=12), 0),
    ("ij,ij->ij", [(3, 4), (3, 4)], (3, 4), Operations(mul=12), 0),
    ("i,i->", [(7,), (7,)], (), Operations(mul=1, fma=6), 7),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], (2, 5), Operations(mul=8 + 10, fma=8 * 2 + 10 * 3), 24 + 40),
    ("ij->i", [(3, 4)], (3,), Operations(add=12 - 3), 0),
    ("...j->...", [(2, 3, 4)], (2, 3), Operations(add=24 - 6), 0),
    ("ji", [(3, 4)], (4, 3), Operations(), 0),
    ("ii->", [(5, 5)], (), Operations(add=4), 0),
    ("ii->i", [(5, 5)], (5,), Operations(), 0),
]


@pytest.mark.parametrize(("equation", "shapes", "y", "operations", "macs"), EINSUM)
def test_einsum_by_hand(equation, shapes, y, operations, macs):
    cost = layer_cost("einsum", {f"x{i}": shape for i, shape in enumerate(shapes)}, y, equation=equation)
    assert (cost.flops, cost.macs) == (operations, macs)


def test_einsum_reads_diagonals_and_adds_onto_b():
    assert layer_cost("einsum", {"x0": (5, 5)}, (), equation="ii->").mread == 4 * 5
    outer = layer_cost("einsum", {"x0": (3,), "x1": (4,), "b": (3, 4)}, (3, 4), equation="i,j->ij")
    assert (outer.flops, outer.macs, outer.mread) == (Operations(fma=12), 0, 4 * (3 + 4 + 12))
    summed = layer_cost("einsum", {"x0": (3, 4), "b": (3,)}, (3,), equation="ij->i")
    assert summed.flops == Operations(add=12)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ij,jk->ik", [(2, 3)]), ("ijk->i", [(2, 3)]), ("ij->i", [(2, 3, 4)]), ("ij->k", [(2, 3)])]
)
def test_an_equation_that_does_not_fit_is_named(equation, shapes):
    with pytest.raises(CostError, match=r"the equation 'ij|'ijk' of the equation"):
        layer_cost("einsum", {f"x{i}": shape for i, shape in enumerate(shapes)}, (2,), equation=equation)
