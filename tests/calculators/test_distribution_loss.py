"""The divergence of a softmax against its definition, executed."""

from __future__ import annotations

import pytest

from tests.calculators.counting import count, dot, exp, log, total
from tests.calculators.layers import cost


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_kl_div_with_logits(reduction):
    def definition(x, target):
        losses = []
        for row, wanted in zip(x, target, strict=True):
            whole = log(total(exp(value) for value in row))
            losses.append(dot(wanted, [log(t) - (value - whole) for t, value in zip(wanted, row, strict=True)]))
        if reduction == "mean":
            total(losses) / len(losses)

    output = () if reduction == "mean" else (4,)
    result = cost("kl_div_with_logits", {"x": (4, 3), "target": (4, 3)}, output, reduction=reduction)
    assert result.flops == count(definition, (4, 3), (4, 3))
    assert result.mread == 4 * 24
