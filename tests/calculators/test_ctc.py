"""CTC of scores against the recursions executed, with every state visited at every step."""

from __future__ import annotations

import pytest

from costcore.ir import Tensor
from tests.calculators.counting import count, exp, log, total
from tests.calculators.layers import cost

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
    result = cost("ctc_loss_with_logits", {"x": (T, N, C), "target": LABELS}, output, reduction=reduction)
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
    result = cost("ctc_loss_with_logits_backward", operands, (T, N, C), reduction=reduction)
    assert result.flops == count(definition, (), (T, N, C), (T, STATES))
