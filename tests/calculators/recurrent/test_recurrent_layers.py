"""Recurrent layers against their executed definitions and other counters."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, exp, fma, maximum, minimum, tanh, total
from tests.calculators.layer_costs import layer_cost
from tests.calculators.reference import sigmoid

T, N, I, H = 2, 2, 3, 2  # noqa: E741 - the letters of the formulas


def onto(x, h, w, u, bias):
    """Return one dot product over input and state, plus the bias if there is one."""
    return dot([*x, *h], [*w, *u], bias)


def lstm_cell(x, h, c, w, u, b, p=None):
    new_c, new_h = [], []
    for j, cell in enumerate(c):
        i, f, g, o = (onto(x, h, w[4 * j + gate], u[4 * j + gate], b and b[4 * j + gate]) for gate in range(4))
        if p is not None:
            i, f, o = (fma(p[j], cell, gate) for gate in (i, f, o))
        i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
        new_c.append(fma(i, g, f * cell))
        new_h.append(o * tanh(new_c[-1]))
    return new_h, new_c


def gru_cell(x, h, w, u, b, d, reset_after):
    """b: starting values of the gates; d: that of the candidate's product with the state, if it is separate."""

    def part(values, weights, gate, bias):
        return [dot(values, weights[3 * j + gate], bias and bias[3 * j + gate]) for j in range(H)]

    def joint(state, number):
        rows = range(number, 3 * H, 3)
        return [onto(x, state, w[row], u[row], b and b[row]) for row in rows]

    r, z = ([sigmoid(value) for value in joint(h, number)] for number in (0, 1))
    if reset_after:
        inner = [a * c for a, c in zip(r, part(h, u, 2, d), strict=True)]
        n = [tanh(a + c) for a, c in zip(part(x, w, 2, b), inner, strict=True)]
    else:
        n = [tanh(value) for value in joint([a * c for a, c in zip(r, h, strict=True)], 2)]
    return [fma(zz, hh, (1 - zz) * nn) for zz, nn, hh in zip(z, n, h, strict=True)]


def listed(bias):
    return None if bias is None else list(bias)


def operands(gates, bias):
    given = {"x": (T, N, I), "h0": (1, N, H), "w0": (gates * H, I), "w1": (gates * H, H)}
    return given | ({"b0": (gates * H,), "b1": (gates * H,)} if bias else {})


@pytest.mark.parametrize("peephole", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_lstm_is_its_definition(bias, peephole):
    def lstm(x, h, w, u, b=None, _=None):
        for n in range(N):
            state, cell = h[0, n], h[0, n]
            for step in x[:, n]:
                state, cell = lstm_cell(step, state, cell, w, u, listed(b), h[0, n] if peephole else None)

    given = operands(4, bias)
    cost = layer_cost("lstm", given | {"c0": (1, N, H)}, (T, N, H), (1, N, H), (1, N, H), hidden=H, peephole=peephole)
    assert cost.flops == count(lstm, *given.values())
    assert cost.macs == T * N * H * 4 * (I + H)
    elements = T * N * I + 2 * N * H + 4 * H * (I + H) + (8 * H if bias else 0)
    assert (cost.mread, cost.mwrite) == (4 * elements, 4 * (T * N * H + 2 * N * H))


def test_lstm_by_hand():
    """Per step and unit, I = 3 and H = 2: 4 (3 + 2) + 1 fma, 2 mul, 6 add, 3 div, 5 special; 2 x 2 steps of 2 units."""
    cost = layer_cost("lstm", operands(4, True), (T, N, H), hidden=H)
    assert cost.flops == Operations(fma=8 * 21, mul=8 * 2, add=8 * 6, div=8 * 3, special=8 * 5)


def test_lstm_in_layers_and_directions_by_hand():
    """I = 3, H = 2, 5 steps: the first layer reads 3 features, the second the 4 of both directions; 2 directions."""
    cost = layer_cost("lstm", {"x": (5, 1, 3), "b0": (8,)}, (5, 1, 4), hidden=2, layers=2, bidirectional=True)
    cells = 5 * 2 * 2
    assert cost.macs == cells * 4 * (3 + 2) + cells * 4 * (4 + 2)
    assert cost.flops == Operations(
        fma=cost.macs + 2 * cells, mul=4 * cells, add=12 * cells, div=6 * cells, special=10 * cells
    )


def test_lstm_with_projected_outputs_by_hand():
    """I = 3, H = 4, P = 2, two layers, 5 steps: gates over 3 + 2 and 2 + 2 features, then 2 outputs of length 4."""
    cost = layer_cost("lstm", {"x": (5, 1, 3), "b0": (16,)}, (5, 1, 2), hidden=4, projection=2, layers=2)
    gates, projected = 5 * 4 * 4 * (5 + 4), 2 * 5 * 2
    assert cost.macs == gates + projected * 4
    assert (cost.flops.fma, cost.flops.mul) == (gates + 2 * 20 + projected * 3, 2 * 40 + projected)


def test_lstm_macs_of_another_counter():
    """TylerYep/torchinfo@5c4164f tests/test_output/lstm.out: 300 inputs, 512 units, 2 layers, 100 steps; no biases."""
    assert layer_cost("lstm", {"x": (1, 100, 300)}, (1, 100, 512), hidden=512, layers=2).macs == 376_012_800


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_gru_is_its_definition(bias, reset_after):
    def gru(x, h, w, u, b=None, d=None):
        for n in range(N):
            state = h[0, n]
            for step in x[:, n]:
                state = gru_cell(step, state, w, u, listed(b), listed(d), reset_after)

    given = operands(3, bias)
    cost = layer_cost("gru", given, (T, N, H), (1, N, H), hidden=H, reset_after=reset_after)
    assert cost.flops == count(gru, *given.values())
    assert cost.macs == T * N * H * 3 * (I + H)


@pytest.mark.parametrize(("reset_after", "adds"), [(False, 5), (True, 6)])
def test_gru_by_hand(reset_after, adds):
    """Per step and unit, I = 3 and H = 2: 3 (3 + 2) + 1 fma, 2 mul, 5 or 6 add, 2 div, 3 special."""
    cost = layer_cost("gru", operands(3, True), (T, N, H), hidden=H, reset_after=reset_after)
    assert cost.flops == Operations(fma=8 * 16, mul=8 * 2, add=8 * adds, div=8 * 2, special=8 * 3)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_rnn_is_its_definition(bias, activation):
    def rnn(x, h, w, u, b=None, _=None):
        for n in range(N):
            state = h[0, n]
            for step in x[:, n]:
                sums = [onto(step, state, w[j], u[j], None if b is None else b[j]) for j in range(H)]
                state = [tanh(value) if activation == "tanh" else max(value, 0.0) for value in sums]

    given = operands(1, bias)
    cost = layer_cost("rnn", given, (T, N, H), (1, N, H), hidden=H, activation=activation)
    assert cost.flops == count(rnn, *given.values())
    assert cost.macs == T * N * H * (I + H)


def test_rnn_in_two_layers_and_directions_by_hand():
    """x[3, 2, 4], H = 5: 6 steps x 2 directions x 5 units, over 4 + 5 and then 10 + 5 features."""
    cost = layer_cost("rnn", {"x": (3, 2, 4), "b0": (5,)}, (3, 2, 10), hidden=5, layers=2, bidirectional=True)
    assert cost.macs == 60 * 9 + 60 * 15
    assert cost.flops == Operations(fma=60 * 24, special=120)


def softsign(x):
    return x / (1 + abs(x))


def clipped(x):
    return minimum(maximum(x, -3), 3)


def test_lstm_with_tied_gates_limits_and_other_functions_is_its_definition():
    """f is 1 - i; peepholes of i and o; limits around the operand of each function: sigmoid, softsign and relu."""

    def cell(x, h, c, w, u, b, p):
        new_c, new_h = [], []
        for j, old in enumerate(c):
            i, g, o = (onto(x, h, w[4 * j + gate], u[4 * j + gate], b[4 * j + gate]) for gate in (0, 2, 3))
            i, o = (fma(p[j], old, gate) for gate in (i, o))
            i, g, o = sigmoid(clipped(i)), softsign(clipped(g)), sigmoid(clipped(o))
            new_c.append(fma(i, g, (1 - i) * old))
            new_h.append(o * maximum(clipped(new_c[-1]), 0))
        return new_h, new_c

    def lstm(x, h, w, u, b, _):
        for n in range(N):
            state, memory = h[0, n], h[0, n]
            for step in x[:, n]:
                state, memory = cell(step, state, memory, w, u, list(b), h[0, n])

    given = operands(4, True)
    settings = {"peephole": True, "clip": True, "tied_gates": True, "activations": ("sigmoid", "softsign", "relu")}
    cost = layer_cost("lstm", given | {"c0": (1, N, H)}, (T, N, H), hidden=H, **settings)
    assert cost.flops == count(lstm, *given.values())
    assert cost.macs == T * N * H * 3 * (I + H)


def test_functions_of_two_directions_by_hand():
    """8 units a direction: sigmoid twice and tanh once; leaky relu (1 mul, 1 cmp) twice and affine (1 fma) once."""
    given, settings = {"x": (T, N, I), "b0": (6,)}, {"hidden": H, "bidirectional": True}
    plain = layer_cost("gru", given, (T, N, 2 * H), **settings)
    other = ("sigmoid", "tanh", "leaky_relu", "affine")
    cost = layer_cost("gru", given, (T, N, 2 * H), activations=other, **settings)
    assert cost.flops + 8 * Operations(add=4, div=2, special=3) == plain.flops + 8 * Operations(mul=2, cmp=2, fma=1)
    assert layer_cost("gru", given, (T, N, 2 * H), clip=True, **settings).flops == plain.flops + Operations(cmp=16 * 6)


T, I, H, S, M, A, R = 2, 3, 2, 3, 4, 2, 5  # noqa: E741 - the letters of the formula


def attending(x, h, c, context, w, u, b, memory, query, keys, v, joined):
    """One sample."""
    known = [[dot(row, keys[:, i]) for i in range(A)] for row in memory]
    h, c, context = list(h), list(c), list(context)
    for step in range(T):
        h, c = lstm_cell([*x[step], *context], h, c, w, u, list(b))
        asked = [dot(h, query[:, i]) for i in range(A)]
        scores = [exp(dot([tanh(a + k) for a, k in zip(asked, row, strict=True)], v)) for row in known]
        whole = total(scores)
        weights = [s / whole for s in scores]
        seen = [dot(weights, memory[:, i]) for i in range(M)]
        context = [dot([*h, *seen], joined[:, i]) for i in range(R)]


def test_attention_lstm_is_its_definition():
    operands = {"x": (T, 1, I), "memory": (1, S, M), "w0": (1, 4 * H, I + R), "w1": (1, 4 * H, H), "b0": (1, 8 * H)}
    operands |= {"w3": (1, H, A), "w4": (1, M, A), "w5": (1, A), "w6": (1, H + M, R)}
    result = layer_cost("attention_lstm", operands, (T, 1, 1, H), hidden=H)
    shapes = [(T, I), (H,), (H,), (R,), (4 * H, I + R), (4 * H, H), (4 * H,), (S, M), (H, A), (M, A), (A,), (H + M, R)]
    assert result.flops == count(attending, *shapes)
    steps = 4 * H * (I + R + H) + H * A + S * A + M * S + (H + M) * R
    assert result.macs == S * M * A + T * steps


def test_quantized_lstm_quantizes_inputs_and_states():
    operands = {"x": (3, 2, 4), "w0": (1, 4, 20), "w1": (1, 5, 20), "b0": (40,), "w0_scale": None, "w1_scale": None}
    plain = layer_cost("lstm", {"x": (3, 2, 4), "w0": (20, 4), "w1": (20, 5), "b0": (20,)}, (3, 2, 5), hidden=5)
    result = layer_cost("dynamic_quantized_lstm", operands, (3, 1, 2, 5), hidden=5)
    assert isinstance(plain.flops, Operations)
    # n = 24 once and 10 three times: 2n + 2 add with the zero point, n + 2 div, 5n + 3 cmp; 2 * 20 gates a step and row
    quantized = Operations(add=50 + 66, div=26 + 36, cmp=123 + 159, mul=3 * 2 * 40)
    assert result.flops == plain.flops + quantized
    assert result.macs == plain.macs
    shifted = layer_cost("dynamic_quantized_lstm", {**operands, "w0_zero_point": None}, (3, 1, 2, 5), hidden=5)
    assert shifted.flops == result.flops + Operations(add=80)
