"""Margin losses with c classes: by executed definitions of one row, times the rows."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, exp, select, total
from tests.calculators.layers import cost, operations

LABELS = Tensor((4,), "int64")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_gradient_of_the_multi_class_margin(p, weighted):
    def row(dy, x, w=None):
        margin = 1 - x[0]
        share = dy / len(x)
        share = share if w is None else share * w
        slopes = []
        for value in x[1:]:
            left = margin + value
            slope = select(left > 0, share, 0.0)
            slopes.append(slope * 2 * left if p == 2 else slope)
        return -total(slopes)

    shapes = [(), (5,)] + [()] * weighted
    operands = {"dy": (), "x": (4, 5), "target": LABELS} | ({"w": (5,)} if weighted else {})
    found = operations("multi_margin_loss_backward", operands, (4, 5), p=p, reduction="mean")
    assert found == 4 * count(row, *shapes) + Operations(div=1)


def test_bound_of_several_targets():
    """6 classes, half of them targets: 3 * 3 pairs a row."""
    given = {"x": (4, 6), "target": Tensor((4, 6), "int64")}
    row = Operations(add=3, div=1) + 9 * Operations(add=2, cmp=1)
    assert operations("multilabel_margin_loss", given, (), (4, 6), reduction="sum") == 4 * row + Operations(add=3)
    back = Operations(add=3, div=1) + 9 * Operations(add=3, cmp=1)
    slopes = {"dy": (), **given, "is_target": (4, 6)}
    found = operations("multilabel_margin_loss_backward", slopes, (4, 6), reduction="mean")
    assert found == 4 * back + Operations(div=1)


def test_a_single_score():
    given = {"x": (), "target": Tensor((), "int64")}
    assert operations("multilabel_margin_loss", given, (), reduction="sum") == Operations(div=1)


def test_gradient_of_ctc():
    """T = 3 steps, 2 samples, targets of 2 labels: 3 * 2 * 5 visits; the last step for each of 3 * 2 * 4 elements."""

    def final(x, p, dy):
        [(exp(a) - b) * dy for a, b in zip(x, p, strict=True)]

    given = {"dy": (2,), "x": (3, 2, 4), "target": Tensor((2, 2), "int64"), "loss": (2,), "alpha": (2, 3, 5)}
    result = cost("ctc_loss_backward", given, (3, 2, 4))
    visits = 30 * (Operations(add=3, special=4) + Operations(add=2, special=1) + Operations(add=1))
    assert result.flops == visits + count(final, (24,), (24,), ())
    assert result.mread == 4 * (2 + 24 + 2 + 30) + 8 * 4
