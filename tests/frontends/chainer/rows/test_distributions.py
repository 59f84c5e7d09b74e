"""Functions defined beside the distributions and memory layouts of Chainer: costs by hand."""

from __future__ import annotations

import chainer
import numpy
import pytest
from chainer import distributions

from costcore import ComputationalCostHook
from tests.frontends.chainer.function_calls import x

LAST = chainer.memory_layouts.CUDNN_CHANNEL_LAST_X


def v(*shape):
    return chainer.Variable(x(*shape))


def bernoulli(checked=False):
    return distributions.Bernoulli(logit=v(3), binary_check=checked)


def outcomes():
    return numpy.array([[0, 1, 1], [1, 0, 1]], "float32")


COSTS = {
    # name: [call, type, FLOPs, bytes read, bytes written]
    # 6 elements: abs, negation, difference, product, sign of 2, expm1; the inverse one product more
    "cdf": (lambda: distributions.Laplace(x(1), x(1)).cdf(v(2, 3)), "LaplaceCDF", 6 * 7, 24, 24),
    "icdf": (lambda: distributions.Laplace(x(1), x(1)).icdf(v(2, 3)), "LaplaceICDF", 6 * 8, 24, 24),
    # 6 outcomes of 3 logits: 1 mul, 4 add, exp, log, and 2 cmp of the check; masks of one byte
    "log_prob": (lambda: bernoulli().log_prob(outcomes()), "BernoulliLogProb", 6 * 7, 12 + 24, 24 + 3),
    "checked": (lambda: bernoulli(True).log_prob(outcomes()), "BernoulliLogProb", 6 * 9, 12 + 24, 24 + 3 + 6),
    # p and log p: a product and a comparison; a mask
    "entropy": (lambda: distributions.Categorical(p=v(2, 3)).entropy, "ModifiedXLogX", 6 * 2, 48, 24 + 6),
    "layout": (lambda: v(2, 3, 4, 5).as_layout(LAST), "AsLayout", 0, 480, 480),
}


@pytest.mark.parametrize("name", COSTS)
def test_costs(name):
    call, kind, *expected = COSTS[name]
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        call()
    assert hook.ignored_layers == {}
    found = [entry for entry in hook.layer_report.values() if entry["type"] == kind]
    assert [[entry["flops"], entry["mread"], entry["mwrite"]] for entry in found] == [expected]


@pytest.mark.parametrize("name", ["cdf", "icdf", "log_prob", "checked", "entropy"])
def test_gradients_have_a_cost(name):
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        chainer.functions.sum(COSTS[name][0]()).backward()
    assert hook.ignored_layers == {}
    assert "backward" in {entry["phase"] for entry in hook.layer_report.values()}


def test_masks_are_written_for_a_backward_pass_only():
    with chainer.no_backprop_mode(), ComputationalCostHook(frontends=["chainer"]) as hook:
        bernoulli(True).log_prob(outcomes())
    (entry,) = [entry for entry in hook.layer_report.values() if entry["type"] == "BernoulliLogProb"]
    assert entry["mwrite"] == 24
