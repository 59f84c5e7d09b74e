"""Steps of recurrent cells and their gradients against the executed definitions of their tables."""

from __future__ import annotations

import ast

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, exp, fma, measure, tanh
from tests.calculators.layer_costs import declared, layer_cost
from tests.calculators.reference import sigmoid

CELLS = declared("recurrent", "CELLS")
RECURRENT_GRADIENTS = declared("recurrent", "RECURRENT_GRADIENTS")

N, H = 2, 3


def s(x):
    return 1 / (1 + exp(-x))


def operands(definition):
    """Return the names that a definition uses but does not define."""
    made: set[str] = {"s", "tanh", "fma"}
    wanted = []
    for step in definition.split("; "):
        name, _, expression = step.rpartition(" = ")
        tree = ast.parse(expression)
        wanted += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in made]
        made.add(name)
    return list(dict.fromkeys(wanted))


@pytest.mark.parametrize("op", [*CELLS, *RECURRENT_GRADIENTS])
def test_definitions(op):
    entry = {**CELLS, **RECURRENT_GRADIENTS}[op]
    assert measure(entry.definition, *operands(entry.definition), s=s)[1] == entry.operations


@pytest.mark.parametrize("op", CELLS)
def test_every_unit(op):
    cells = (
        {"c0": (N, H), "x": (N, 4 * H)}
        if op.startswith("lstm")
        else {
            **{f"c{i}": (N, H) for i in range(2)},
            **{f"x{i}": (N, 4 * H) for i in range(2)},
        }
    )
    assert layer_cost(op, cells, (N, H), (N, H)).flops == N * H * CELLS[op].operations


def test_step_of_fewer_rows_than_states():
    """2 of 3 sequences continue: 2 * 3 units are computed, and all states are written."""
    result = layer_cost("lstm_gates", {"x": (2, 12), "c0": (3, 3)}, (3, 3), (2, 3))
    # three sigmoids, two tanh; f c and o tanh(c) are mul, i g is added
    assert result.flops == 6 * Operations(fma=1, mul=2, add=6, div=3, special=5)
    assert result.mwrite == 4 * (9 + 6)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tree_lstm(n):
    def step(a, i, o, f, c):
        cell = tanh(a[0]) * s(i[0])
        for gate, child in zip(f, c, strict=True):
            cell = fma(s(gate), child, cell)
        return s(o[0]) * tanh(cell)

    def back(a, i, o, f, c, k, dc, dh):
        a, i, o, k = tanh(a[0]), s(i[0]), s(o[0]), tanh(k[0])
        t = dh[0] * o * (1 - k * k) + dc[0]
        t * i * (1 - a * a), t * a * (i * (1 - i)), dh[0] * k * (o * (1 - o))
        for gate, child in zip(f, c, strict=True):
            gate = s(gate)
            t * child * (gate * (1 - gate)), t * gate

    cells = {f"c{i}": (N, H) for i in range(n)}
    x = (N, (3 + n) * H)
    forward = layer_cost("tree_lstm_gates", {**cells, "x": x}, (N, H), (N, H))
    assert forward.flops == N * H * count(step, (1,), (1,), (1,), (n,), (n,))
    assert forward.mread == 4 * N * H * (n + 3 + n)
    gradients = {"dc": (N, H), "dh": (N, H)}
    backward = layer_cost("tree_lstm_gates_backward", {**cells, "x": x, **gradients}, *cells.values(), x)
    assert backward.flops == N * H * count(back, (1,), (1,), (1,), (n,), (n,), (1,), (1,), (1,))


def test_lstm_gates_are_the_rest_of_the_definition():
    def gates(x, c):
        for (i, f, g, o), cell in zip(x, c, strict=True):
            sigmoid(o) * tanh(fma(sigmoid(i), tanh(g), sigmoid(f) * cell))

    cost = layer_cost("lstm_gates", {"x": (3, 4 * 2), "c0": (3, 2)}, (3, 2), (3, 2))
    assert cost.flops == count(gates, (6, 4), (6,))
    assert (cost.mread, cost.mwrite, cost.macs) == (4 * 30, 4 * 12, 0)
