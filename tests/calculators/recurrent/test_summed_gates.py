"""Recurrent cells on two products, against executed definitions for one hidden unit."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import exp, measure
from tests.calculators.layer_costs import declared, operations

SUMMED_GATE_GRADIENTS = declared("recurrent", "SUMMED_GATE_GRADIENTS")
SUMMED_GATES = declared("recurrent", "SUMMED_GATES")

UNITS = 6


def s(x):
    return 1 / (1 + exp(-x))


WORDS = (
    *("xi", "hi", "xf", "hf", "xo", "ho", "xa", "ha", "c0", "h0", "xr", "hr", "xz", "hz", "xn", "hn"),
    *("dh", "dc", "c", "a", "i", "f", "o", "z", "r", "h", "m"),
)


@pytest.mark.parametrize("op", SUMMED_GATES)
def test_cells(op):
    gates, unit = SUMMED_GATES[op]
    _, counted = measure(unit.definition, *WORDS, s=s)
    shapes = {"x0": (2, 3 * gates), "x1": (2, 3 * gates), "h0": (2, 3)}
    assert operations(op, shapes, (2, 3)) == UNITS * counted
    biased = shapes | {"b0": (3 * gates,), "b1": (3 * gates,)}
    assert operations(op, biased, (2, 3)) == UNITS * (counted + Operations(add=2 * gates))


@pytest.mark.parametrize(
    ("op", "kept", "sides"), [("summed_lstm_gates_backward", 4, 1), ("summed_gru_gates_backward", 5, 2)]
)
def test_gradients(op, kept, sides):
    gates, unit = SUMMED_GATE_GRADIENTS[op]
    _, counted = measure(unit.definition, *WORDS)
    shapes = {"dy": (2, 3), "gates": (2, 3 * kept)}
    assert operations(op, shapes, (2, 3 * gates), kept=kept) == UNITS * counted
    # a bias sums 2 rows: one addition for each of its 3 * gates elements
    biased = operations(op, shapes, (2, 3 * gates), kept=kept, biased=True)
    assert biased == UNITS * counted + Operations(add=sides * 3 * gates)
