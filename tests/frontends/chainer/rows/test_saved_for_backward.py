"""What a backward pass reads of its forward pass is written there, in the same type and size."""

from __future__ import annotations

import chainer
import numpy
import pytest
from chainer import functions

from costcore import ComputationalCostHook

X = numpy.random.rand(1, 2, 4, 4).astype("float32")
REGIONS = numpy.array([[0, 0, 3, 3]], "float32"), numpy.zeros(1, "int32")


def written(run):
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        run()
    entry = next(entry for entry in hook.layer_report.values() if "pool" in entry["op"] or "align" in entry["op"])
    return entry["mwrite"]


FUNCTIONS = [  # function, outputs, bytes of an index
    (lambda x: functions.max_pooling_2d(x, 2), 8, 8),
    (lambda x: functions.max_pooling_nd(x, 2), 8, 8),
    (lambda x: functions.roi_max_pooling_2d(x, *REGIONS, 2, 1.0), 8, 4),
]


@pytest.mark.parametrize(("run", "n", "size"), FUNCTIONS)
def test_indices_are_written_if_a_gradient_needs_them(run, n, size):
    assert written(lambda: run(X)) == 4 * n
    assert written(lambda: run(chainer.Variable(X))) == 4 * n + size * n
    with chainer.no_backprop_mode():
        assert written(lambda: run(chainer.Variable(X))) == 4 * n


def test_indices_that_the_user_asks_for_are_written():
    assert written(lambda: functions.max_pooling_2d(X, 2, return_indices=True)) == 4 * 8 + 8 * 8


def test_the_backward_pass_reads_the_indices_that_the_forward_pass_wrote():
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        functions.sum(functions.max_pooling_2d(chainer.Variable(X), 2)).backward()
    layers = {call.type: call.layer for call in hook.report.trace.calls}
    assert layers["MaxPoolingNDGrad"]["indices"] == layers["MaxPoolingND"].outputs[1]
