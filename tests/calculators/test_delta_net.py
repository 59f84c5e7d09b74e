"""Gated delta rules with raw gates against their executed definitions."""

from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.counting import count, dot, exp, log, sqrt
from tests.calculators.layers import cost, operations
from tests.calculators.test_recurrent import sigmoid


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
    """What is done before the recurrence: 2 steps, 1 head of keys and 2 of values."""
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
    plain = cost("gated_delta_net", operands, *made, **settings)
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
