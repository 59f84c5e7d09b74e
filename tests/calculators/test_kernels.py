"""Kernels of other packages against plain loops of their algorithms."""

from __future__ import annotations

import numpy as np

from costcore import Operations
from tests.calculators.counting_scalar import count, dot, exp, fma, log
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import attend, sigmoid


def test_attention_with_tokens_first():
    def loops(q, k, v):
        for b in range(2):
            for h in range(2):
                attend(q[b, :, h], k[b, :, h], v[b, :, h])

    shapes = {"q": (2, 3, 2, 4), "k": (2, 5, 2, 4), "v": (2, 5, 2, 6)}
    assert operations("token_major_attention", shapes, (2, 3, 2, 6)) == count(loops, *shapes.values())
    assert layer_cost("token_major_attention", shapes, (2, 3, 2, 6)).macs == 2 * 2 * 3 * 5 * (4 + 6)


def test_packed_operands_of_attention():
    separate = operations(
        "token_major_attention", {"q": (1, 3, 2, 4), "k": (1, 3, 2, 4), "v": (1, 3, 2, 4)}, (1, 3, 2, 4)
    )
    assert operations("token_major_attention", {"qkv": (1, 3, 3, 2, 4)}, (1, 3, 2, 4)) == separate
    assert operations("token_major_attention", {"q": (1, 3, 2, 4), "kv": (1, 3, 2, 2, 4)}, (1, 3, 2, 4)) == separate


def test_packed_sequences_attend_to_themselves():
    def loops(q, k, v):
        for h in range(2):
            attend(q[:2, h], k[:2, h], v[:2, h])
            attend(q[2:, h], k[2:, h], v[2:, h])

    shapes = {"q": (5, 2, 4), "k": (5, 2, 4), "v": (5, 2, 4)}
    pairs = 2 * (2 * 2 + 3 * 3)
    assert operations("token_major_attention", shapes, (5, 2, 4), pairs=pairs) == count(loops, *shapes.values())


def test_neighborhood_attention():
    def loops(q, k, v):
        for i in range(6):
            start = min(max(i - 1, 0), 3)  # a window at the border is shifted, not cut
            attend(q[0, i : i + 1, 0], k[0, start : start + 3, 0], v[0, start : start + 3, 0])

    shapes = dict.fromkeys("qkv", (1, 6, 1, 4))
    assert operations("neighborhood_attention", shapes, (1, 6, 1, 4), window=(3,)) == count(loops, *shapes.values())


def test_registered_formula():
    # a product of 2 x 3 and 3 x 4 matrices: 24 multiply-adds are 48 FLOPs of the formula; an odd one is an addition
    shapes = {"x0": (2, 3), "x1": (3, 4)}
    assert operations("registered_formula", shapes, (2, 4), flops=48) == Operations(fma=24)
    assert operations("registered_formula", shapes, (2, 4), flops=49) == Operations(fma=24, add=1)


def softplus(x):
    return log(1.0 + exp(x))


def test_selective_scan():
    channels, steps, states = 2, 3, 4

    def loops(u, dt, a, b_in, c_out, skip, gate, bias):
        for c in range(channels):
            state = np.zeros(states)
            for t in range(steps):
                step = softplus(dt[0, c, t] + bias[c])
                x = step * u[0, c, t]
                state = [fma(exp(step * a[c, n]), state[n], x * b_in[0, n, t]) for n in range(states)]
                y = dot(state, c_out[0, :, t])
                y = fma(skip[c], u[0, c, t], y)
                y * (gate[0, c, t] * sigmoid(gate[0, c, t]))

    shapes = {
        "u": (1, channels, steps),
        "dt": (1, channels, steps),
        "a": (channels, states),
        "b_in": (1, states, steps),
        "c_out": (1, states, steps),
        "skip": (channels,),
        "gate": (1, channels, steps),
        "dt_bias": (channels,),
    }
    found = operations("selective_scan", shapes, (1, channels, steps), softplus=True)
    assert found == count(loops, *shapes.values())
    assert layer_cost("selective_scan", shapes, (1, channels, steps)).macs == 2 * channels * steps * states


def test_state_space_scan():
    heads, width, steps, states = 2, 3, 2, 4

    def loops(u, dt, a, b_in, c_out):
        for h in range(heads):
            state = np.zeros((width, states))
            for t in range(steps):
                decay = exp(dt[0, t, h] * a[h])
                for p in range(width):
                    x = dt[0, t, h] * u[0, t, h, p]
                    state_row = [fma(x, b_in[0, t, 0, n], decay * state[p, n]) for n in range(states)]
                    dot(state_row, c_out[0, t, 0])

    shapes = {
        "u": (1, steps, heads, width),
        "dt": (1, steps, heads),
        "a": (heads,),
        "b_in": (1, steps, 1, states),
        "c_out": (1, steps, 1, states),
    }
    assert operations("state_space_scan", shapes, shapes["u"]) == count(loops, *shapes.values())


def interpolated(corners, dx, dy):
    """Two lines along x and one along y: 1 mul and 2 add each."""
    low = corners[0] + dx * (corners[1] - corners[0])
    high = corners[2] + dx * (corners[3] - corners[2])
    return low + dy * (high - low)


def test_deformable_attention():
    def loops(x, weights):
        for q in range(2):
            for m in range(2):
                for d in range(3):
                    samples = [interpolated(x[0, :4, m, d], 0.5, 0.5) for _ in range(4)]
                    dot(samples, weights[0, q, m].reshape(-1))

    x, weights = (1, 9, 2, 3), (1, 2, 2, 1, 4)
    found = operations("deformable_attention", {"x": x, "locations": (*weights, 2), "weights": weights}, (1, 2, 6))
    assert found == count(loops, x, weights)


def test_reassembly():
    def loops(x, masks):
        for c in range(2):
            for i in range(4):
                for j in range(4):
                    dot(x[0, c, :3, :3].reshape(-1), masks[0, :, i, j])

    shapes = {"x": (1, 2, 3, 3), "masks": (1, 9, 4, 4)}
    assert operations("reassemble", shapes, (1, 2, 4, 4), kernel=3) == count(loops, *shapes.values())
