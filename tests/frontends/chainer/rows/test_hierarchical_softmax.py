"""``links.BinaryHierarchicalSoftmax``, whose function is defined beside it: costs by hand."""

from __future__ import annotations

import chainer
import numpy

from costcore import ComputationalCostHook

TREE = ((0, 1), ((2, 3), 4))
"""Paths: 2 nodes to each of the words 0, 1 and 4, 3 nodes to 2 and 3; 4 nodes in all."""


def counted(*targets: int, tree: object = TREE) -> list[dict[str, object]]:
    link = chainer.links.BinaryHierarchicalSoftmax(3, tree)
    link.cleargrads()
    x = chainer.Variable(numpy.ones((len(targets), 3), "float32"))
    with ComputationalCostHook(frontends=["chainer"], fma_1flop=False) as hook:
        link(x, numpy.array(targets, "int32")).backward()
    assert hook.ignored_layers == {}
    return list(hook.layer_report.values())


def test_costs_follow_the_paths_of_the_targets():
    """Targets 0 and 3: 2 + 3 nodes of 3 features, products counted twice but the first of each dot product.

    Forward, 5 dot products of 3: 5 * 5; a product, 2 add, exp and log each: 5 * 5; a sum of 5: 4. Backward 5 * 5 again;
    2 mul, 1 add, 1 div, exp each: 5 * 5; dy negated; dx, 3 dot products of 2 and 3 of 3: 3 * 3 + 3 * 5; dw: 15 * 2.
    """
    forward, backward = counted(0, 3)
    assert (forward["type"], forward["flops"], forward["macs"]) == (
        "BinaryHierarchicalSoftmaxFunction",
        25 + 25 + 4,
        15,
    )
    # x 6, targets 2, 5 rows of the weight, 5 nodes, 5 codes
    assert (forward["mread"], forward["mwrite"]) == (4 * (6 + 2 + 15 + 5 + 5), 4)
    assert (backward["type"], backward["flops"], backward["macs"]) == (
        "BinaryHierarchicalSoftmaxFunctionBackward",
        25 + 25 + 1 + 24 + 30,
        45,
    )
    assert (backward["mread"], backward["mwrite"]) == (4 * (1 + 6 + 2 + 15 + 5 + 5), 4 * (6 + 12))


def test_other_targets_have_longer_paths():
    assert [entry["macs"] for entry in counted(0, 1, 4)] == [3 * 6, 9 * 6]
    assert [entry["macs"] for entry in counted(2, 3, 2)] == [3 * 9, 9 * 9]


def test_words_outside_the_tree_have_no_path():
    assert [entry["macs"] for entry in counted(0, 1, tree=((0, 2), 3))] == [3 * 2, 9 * 2]
    assert [entry["flops"] for entry in counted(1, 1, tree=((0, 2), 3))] == [0, 0]
