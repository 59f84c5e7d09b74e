from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting import count, dot, exp, fma
from tests.calculators.layers import cost


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
    result = cost("linear_attention", given, (1, steps, heads * features), (1, 1, width, features), rule=rule)

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
    result = cost("causal_conv", given, (1, 2, 5), (1, 2, 2))
    assert result.flops == count(definition, (2, 5), (2, 3), (2,)) == Operations(fma=30)
    assert (result.macs, result.mread, result.mwrite) == (30, 4 * (10 + 6 + 2 + 4), 4 * (10 + 4))
    assert cost("causal_conv", given, (1, 2, 5), activation="silu").flops == Operations(fma=30) + 10 * Operations(
        mul=1, add=2, div=1, special=1
    )
