"""Steps of recurrent cells and their gradients: the definitions in the table are executed."""

from __future__ import annotations

import ast

import pytest

from costcore.calculators.recurrent.cells import CELLS
from costcore.calculators.recurrent.gradients import UNITS
from costcore.ir import Operations
from tests.calculators.counting import count, exp, fma, measure, tanh
from tests.calculators.layers import cost

N, H = 2, 3


def s(x):
    return 1 / (1 + exp(-x))


def operands(definition):
    """The names a definition asks for: those it does not make itself."""
    made: set[str] = {"s", "tanh", "fma"}
    wanted = []
    for step in definition.split("; "):
        name, _, expression = step.rpartition(" = ")
        tree = ast.parse(expression)
        wanted += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in made]
        made.add(name)
    return list(dict.fromkeys(wanted))


@pytest.mark.parametrize("op", [*CELLS, *UNITS])
def test_definitions(op):
    entry = {**CELLS, **UNITS}[op]
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
    assert cost(op, cells, (N, H), (N, H)).flops == N * H * CELLS[op].operations


def test_step_of_fewer_rows_than_states():
    """2 of 3 sequences go on: 2 * 3 units are computed, and all states are written."""
    result = cost("lstm_gates", {"x": (2, 12), "c0": (3, 3)}, (3, 3), (2, 3))
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
    forward = cost("tree_lstm_gates", {**cells, "x": x}, (N, H), (N, H))
    assert forward.flops == N * H * count(step, (1,), (1,), (1,), (n,), (n,))
    assert forward.mread == 4 * N * H * (n + 3 + n)
    gradients = {"dc": (N, H), "dh": (N, H)}
    backward = cost("tree_lstm_gates_backward", {**cells, "x": x, **gradients}, *cells.values(), x)
    assert backward.flops == N * H * count(back, (1,), (1,), (1,), (n,), (n,), (1,), (1,), (1,))


# 2 layers of 3 units over 4 features, 5 steps of 2 sequences: for each layer its inputs and its state
ONE_WAY, BOTH_WAYS = (4 + 3) + (3 + 3), (4 + 3) + (6 + 3)


@pytest.mark.parametrize(("bidirectional", "lengths"), [(False, ONE_WAY), (True, BOTH_WAYS)])
@pytest.mark.parametrize(("op", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_gradients_of_whole_layers(op, gates, bidirectional, lengths):
    directions = 2 if bidirectional else 1
    shapes = {"dy": (5, 2, 3 * directions), "x": (5, 2, 4), "h0": (2 * directions, 2, 3), "w0": (1,), "b0": (1,)}
    settings = {"hidden": 3, "layers": 2, "bidirectional": bidirectional}
    result = cost(f"{op}_backward", shapes, (5, 2, 4), **settings)
    units = 5 * 2 * 3 * 2 * directions
    macs = 2 * gates * 5 * 2 * 3 * directions * lengths
    assert result.macs == macs
    assert result.flops == units * (UNITS[f"{op}_backward"].operations + Operations(add=gates)) + Operations(fma=macs)


def test_gradients_of_a_rectified_layer_and_of_a_projection():
    settings = {"hidden": 3, "layers": 1}
    shapes = {"dy": (5, 3), "x": (5, 4), "h0": (1, 1, 3), "w0": (3, 7)}
    relu = cost("rnn_backward", shapes, (5, 4), **settings, activation="relu")
    assert relu.flops == Operations(add=15, cmp=15, fma=2 * 15 * 7)
    # 4 gates of 4 + 2 products, then 2 outputs of 3
    projected = cost("lstm_backward", shapes, (5, 4), **settings, projection=2)
    assert projected.macs == 2 * (4 * 15 * 6 + 5 * 2 * 3)
