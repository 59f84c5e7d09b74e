from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, exp, fma, log, sqrt
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import sigmoid


def recurrence(q, k, v, decay, beta, rule):
    """One head: q, k [T, D], v [T, D_v], decay [T, D] or [T, 1], beta [T]; further queries share the state."""
    state = np.zeros((k.shape[1], v.shape[1]), dtype=object)
    places = list(np.ndindex(state.shape))
    for t in range(len(k)):
        row = v[t]
        if "gated" in rule:
            factor = [exp(g) for g in decay[t]]
            for i, j in places:
                # a state of zeros is a plain number, and its product counts as any other
                state[i, j] = factor[i % len(factor)] * state[i, j]
        if "delta" in rule:
            known = [dot(state[:, j], k[t]) for j in range(v.shape[1])]
            row = [(row[j] - known[j]) * beta[t] for j in range(v.shape[1])]
        for i, j in places:
            state[i, j] = fma(k[t, i], row[j], state[i, j])
        for head in q:
            for j in range(v.shape[1]):
                dot(head[t], state[:, j]) * 0.5


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("gates", [1, 4])
@pytest.mark.parametrize("heads", [1, 3])
def test_linear_attention_is_its_recurrence(rule: str, gates: int, heads: int) -> None:
    steps, width, features = 3, 4, 2
    given = {"q": (1, heads, steps, width), "k": (1, 1, steps, width), "v": (1, 1, steps, features)}
    if "gated" in rule:
        given["decay"] = (1, steps, gates)
    if "delta" in rule:
        given["beta"] = (1, steps, 1)
    result = layer_cost("linear_attention", given, (1, steps, heads * features), (1, 1, width, features), rule=rule)

    def definition(q, k, v, decay, beta):
        recurrence(q, k, v, decay, beta, rule)

    counted = count(definition, (heads, steps, width), (steps, width), (steps, features), (steps, gates), (steps,))
    assert result.flops == counted
    products = 1 + heads + (1 if "delta" in rule else 0)
    assert result.macs == steps * width * features * products
    assert result.mread == 4 * sum(int(np.prod(shape)) for shape in given.values())


def test_causal_convolution() -> None:
    def definition(x, w, b):
        for channel in range(2):
            padded = [0, 0, *x[channel]]
            for t in range(5):
                dot(padded[t : t + 3], w[channel], b[channel])

    given = {"x": (1, 2, 5), "w": (2, 1, 3), "b": (2,), "state": (1, 2, 2)}
    result = layer_cost("causal_conv", given, (1, 2, 5), (1, 2, 2))
    assert result.flops == count(definition, (2, 5), (2, 3), (2,)) == Operations(fma=30)
    assert (result.macs, result.mread, result.mwrite) == (30, 4 * (10 + 6 + 2 + 4), 4 * (10 + 4))
    assert layer_cost("causal_conv", given, (1, 2, 5), activation="silu").flops == Operations(fma=30) + 10 * Operations(
        mul=1, add=2, div=1, special=1
    )


def softplus(x):
    return log(1 + exp(x))


def gate(x, b, rate, beta):
    for i in range(len(x)):
        rate[i] * softplus(x[i] + b[i])
        sigmoid(beta[i])


def test_gate_is_its_definition() -> None:
    operands = {"x": (1, 2, 3), "b": (3,), "rate": (3,), "beta": (1, 2, 3)}
    assert operations("decay_gate", operands, (1, 2, 3), (1, 2, 3)) == 2 * count(gate, (3,), (3,), (3,), (3,))


def raw(q, k, decay, beta, rate, bias):
    """Prepare the recurrence: 2 steps, 1 head of keys and 2 of values."""
    for row in (*q, *k):
        length = sqrt(dot(row, row)) + 1e-6
        [a / length for a in row]
    factors = [-exp(r) for r in rate]
    for step in decay:
        [f * softplus(d + b) for f, d, b in zip(factors, step, bias, strict=True)]
    [sigmoid(b) for b in beta.ravel()]


def test_raw_projections_are_prepared_before_the_recurrence() -> None:
    operands = {"q": (2, 1, 3), "k": (2, 1, 3), "v": (2, 2, 4), "decay": (2, 2), "beta": (2, 2), "state": (1, 2, 4, 3)}
    settings = {"heads": (1, 2), "features": (3, 4), "rule": "gated_delta"}
    made = ((2, 2, 4), (1, 2, 4, 3))
    plain = layer_cost("gated_delta_net", operands, *made, **settings)
    # 2 steps and 2 heads of 3 x 4 cells: state, S^T k, S^T q
    assert plain.macs == 3 * 48
    prepared = operations(
        "gated_delta_net",
        {**operands, "decay_rate": (2,), "decay_bias": (2,)},
        *made,
        **{**settings, "normalize": 1, "squash": True},
    )
    assert isinstance(plain.flops, Operations)
    assert prepared == plain.flops + count(raw, (2, 3), (2, 3), (2, 2), (2, 2), (2,), (2,))
