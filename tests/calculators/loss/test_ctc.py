"""CTC of scores against the recursions executed, with every state visited at every step."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, exp, log, total
from tests.calculators.layer_costs import layer_cost

T, N, C, L = 5, 2, 4, 3
STATES = 2 * L + 1
LABELS = Tensor((N, L), "int32")


def recursion(scores):
    """All states of one sample; each joins three, of which the first ones stand for themselves."""
    before = [scores[0][0]] * STATES
    for step in scores:
        before = [
            log(exp(before[s]) + exp(before[max(s - 1, 0)]) + exp(before[max(s - 2, 0)])) + step[s % C]
            for s in range(STATES)
        ]
    return before


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_loss(reduction):
    def definition(x):
        losses = []
        for sample in range(N):
            scores = []
            for row in x[:, sample]:
                whole = log(total(exp(v) for v in row))
                scores.append([v - whole for v in row])
            last = recursion(scores)
            losses.append(-log(exp(last[-1]) + exp(last[-2])))
        if reduction == "mean":
            total(losses) / N

    output = () if reduction == "mean" else (N,)
    result = layer_cost("ctc_loss_with_logits", {"x": (T, N, C), "target": LABELS}, output, reduction=reduction)
    assert result.flops == count(definition, (T, N, C))
    assert result.mread == 4 * (T * N * C + N * L)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradient(reduction):
    def definition(dy, x, forward):
        share = dy / N if reduction == "mean" else dy
        for sample in range(N):
            scores = x[:, sample]
            recursion(scores)
            whole = scores[0][0]
            for t in range(T):
                posterior = [0] * C
                for s in range(STATES):
                    posterior[s % C] = posterior[s % C] + exp(forward[t, s] + forward[t, s] - whole)
                for v, p in zip(scores[t], posterior, strict=True):
                    (exp(v) - p) * share

    operands = {"dy": (), "x": (T, N, C), "target": LABELS}
    result = layer_cost("ctc_loss_with_logits_backward", operands, (T, N, C), reduction=reduction)
    assert result.flops == count(definition, (), (T, N, C), (T, STATES))


def test_gradient_of_ctc():
    """T = 3 steps, 2 samples, targets of 2 labels: 3 * 2 * 5 visits; the last step for each of 3 * 2 * 4 elements."""

    def final(x, p, dy):
        [(exp(a) - b) * dy for a, b in zip(x, p, strict=True)]

    given = {"dy": (2,), "x": (3, 2, 4), "target": Tensor((2, 2), "int64"), "loss": (2,), "alpha": (2, 3, 5)}
    result = layer_cost("ctc_loss_backward", given, (3, 2, 4))
    visits = 30 * (Operations(add=3, special=4) + Operations(add=2, special=1) + Operations(add=1))
    assert result.flops == visits + count(final, (24,), (24,), ())
    assert result.mread == 4 * (2 + 24 + 2 + 30) + 8 * 4


def test_ctc_loss_by_hand():
    """5 steps, 2 samples of 3 labels, 7 states each: 70 visits of 4 special, 3 add; 2 ends of 3 special, 2 add."""
    target = Tensor((2, 3), "int64")
    cost = layer_cost("ctc_loss", {"x": (5, 2, 20), "target": target}, (), reduction="sum")
    assert cost.flops == Operations(special=70 * 4 + 6, add=70 * 3 + 4 + 1)
    assert cost.mread == 4 * 70 + 8 * 6
    assert layer_cost("ctc_loss", {"x": (5, 2, 4), "target": target}, ()).mread == 4 * 40 + 8 * 6
