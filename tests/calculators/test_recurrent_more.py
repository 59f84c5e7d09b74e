"""Recurrent layers with attention, and with quantised weights, against their executed definitions."""

from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.counting import count, dot, exp, tanh, total
from tests.calculators.layers import cost
from tests.calculators.test_recurrent import lstm_cell

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
    result = cost("attention_lstm", operands, (T, 1, 1, H), hidden=H)
    shapes = [(T, I), (H,), (H,), (R,), (4 * H, I + R), (4 * H, H), (4 * H,), (S, M), (H, A), (M, A), (A,), (H + M, R)]
    assert result.flops == count(attending, *shapes)
    steps = 4 * H * (I + R + H) + H * A + S * A + M * S + (H + M) * R
    assert result.macs == S * M * A + T * steps


def test_quantised_lstm_quantises_inputs_and_states():
    operands = {"x": (3, 2, 4), "w0": (1, 4, 20), "w1": (1, 5, 20), "b0": (40,), "w0_scale": None, "w1_scale": None}
    plain = cost("lstm", {"x": (3, 2, 4), "w0": (20, 4), "w1": (20, 5), "b0": (20,)}, (3, 2, 5), hidden=5)
    result = cost("dynamic_quantized_lstm", operands, (3, 1, 2, 5), hidden=5)
    assert isinstance(plain.flops, Operations)
    # n = 24 once and 10 three times: 2n + 2 add with the zero point, n + 2 div, 5n + 3 cmp; 2 * 20 gates a step and row
    quantised = Operations(add=50 + 66, div=26 + 36, cmp=123 + 159, mul=3 * 2 * 40)
    assert result.flops == plain.flops + quantised
    assert result.macs == plain.macs
    shifted = cost("dynamic_quantized_lstm", {**operands, "w0_zero_point": None}, (3, 1, 2, 5), hidden=5)
    assert shifted.flops == result.flops + Operations(add=80)
