"""Margin losses with c classes: by executed definitions of one row, times the rows."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, select, total
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import reduced

REDUCTIONS = pytest.mark.parametrize("reduction", ["none", "sum", "mean"])

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


@REDUCTIONS
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_hinge_loss_is_its_definition(norm, reduction):
    def loss(x):
        signed = [[-v if c == i % 3 else v for c, v in enumerate(row)] for i, row in enumerate(x)]
        terms = [max(1 + value, 0.0) for row in signed for value in row]
        if reduction == "none":
            return terms if norm == "l1" else [term * term for term in terms]
        summed = total(terms) if norm == "l1" else dot(terms, terms)
        return summed / len(x) if reduction == "mean" else summed

    cost = layer_cost("hinge_loss", {"x": (4, 3), "target": LABELS}, (), norm=norm, reduction=reduction)
    assert cost.flops == count(loss, (4, 3))


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss_is_its_definition(p):
    def loss(x):
        terms = []
        for i, row in enumerate(x):
            bound = 10.0 - row[i % 3]
            parts = [max(bound + value, 0.0) for c, value in enumerate(row) if c != i % 3]
            terms.append((total(parts) if p == 1 else dot(parts, parts)) / 3)
        reduced(terms, "mean")

    cost = layer_cost("multi_margin_loss", {"x": (4, 3), "target": LABELS}, (), p=p, reduction="mean")
    assert cost.flops == count(loss, (4, 3))


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_hinge_loss_backward(norm, reduction):
    def definition(dy, x, target):
        share = dy / 4 if reduction == "mean" else dy
        for row in x:
            margins = [-row[0], *row[1:]]
            slopes = []
            for margin in margins:
                left = 1 + margin
                left = select(left > 0, left, left)
                slopes.append(left * 2 * share if norm == "L2" else select(left, share, share))
            slopes[0] = -slopes[0]

    shapes = {"dy": (), "x": (4, 3), "target": Tensor((4,), "int32")}
    result = layer_cost("hinge_loss_backward", shapes, (4, 3), norm=norm, reduction=reduction)
    assert result.flops == count(definition, (), (4, 3), (4,))
