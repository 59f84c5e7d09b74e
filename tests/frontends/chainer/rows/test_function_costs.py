"""The costs of single functions: broadcasting, empty arrays, attributes. See also test_predecessor_faults."""

from __future__ import annotations

import chainer
import numpy
import pytest
from chainer import functions, links

from costcore import ComputationalCostHook


def x(*shape, dtype="float32"):
    return numpy.ones(shape, dtype)


def v(*shape, dtype="float32"):
    return chainer.Variable(x(*shape, dtype=dtype))


CASES = {
    "constant minus": (lambda: 1 - v(3, 4), [("SubFromConstant", 12, 12, 48, 48)]),
    "constant over": (lambda: 1 / v(3, 4), [("DivFromConstant", 12, 12, 48, 48)]),
    "constant to the power of": (lambda: 2 ** v(3, 4), [("PowConstVar", 12, 12, 48, 48)]),
    "addition of three": (lambda: functions.add(x(5), x(5), x(5)), [("MultiAdd", 10, 10, 60, 20)]),
    "single element": (lambda: v() * v(), [("Mul", 1, 1, 8, 4)]),
    "unpooling": (lambda: functions.unpooling_2d(x(1, 1, 2, 2), 2, cover_all=False), [("Unpooling2D", 0, 0, 16, 64)]),
    "shift": (lambda: functions.shift(x(1, 9, 4, 4)), [("Shift", 0, 0, 576, 576)]),
    "relu of nothing": (lambda: functions.relu(x(0, 3)), [("ReLU", 0, 0, 0, 0)]),
    "reshape": (lambda: functions.reshape(x(2, 3), (6,)), [("Reshape", 0, 0, 0, 0)]),
    # 2 x 3 products of length 4, the first operand stored transposed
    "product with a transposed operand": (
        lambda: functions.matmul(x(4, 2), x(4, 3), transa=True),
        [("MatMul", 24, 2 * 24 - 6, 4 * (8 + 12), 24)],
    ),
    # [2, 3, 4] and [4, 3, 5] over 3 and 4: 2 x 5 products of length 12
    "tensordot": (
        lambda: functions.tensordot(x(2, 3, 4), x(4, 3, 5), axes=((1, 2), (1, 0))),
        [("TensorDot", 120, 230, 4 * (24 + 60), 40)],
    ),
    # 3 of 4 rows, by a list of indices, int64
    "rows by a list": (lambda: v(4, 5)[[0, 2, 2]], [("GetItem", 0, 0, 60 + 24, 60)]),
    # the mask and all of x, because only the values of the mask show which elements are needed
    "elements by a mask": (lambda: v(4)[numpy.array([True, False, True, True])], [("GetItem", 0, 0, 16 + 4, 12)]),
    "one element a row": (
        lambda: functions.select_item(x(4, 5), numpy.zeros(4, "int32")),
        [("SelectItem", 0, 0, 16 + 16, 16)],
    ),
    "running sum of all elements": (lambda: functions.cumsum(x(2, 3)), [("Cumsum", 5, 5, 24, 24)]),
    # training: sample and scale; the mask has the dtype of x
    "dropout": (lambda: functions.dropout(x(4, 6), 0.25), [("Dropout", 48, 48, 96, 96 + 96)]),
    # three sigmoids of 4, two tanh, two products and one product with a sum: 17 for each of 2 * 3 units, or 18
    "gates of an LSTM": (
        lambda: functions.lstm(x(2, 3), x(2, 12)),
        [("LSTM", 6 * 17, 6 * 18, 4 * (6 + 24), 4 * (6 + 6))],
    ),
    "linear with parameters of another type": (
        lambda: links.Linear(3, 5)(x(2, 3)),
        [("LinearFunction", 30, 60, 4 * (6 + 15 + 5), 40)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cost(name):
    run, expected = CASES[name]
    hooks = [ComputationalCostHook(fma_1flop=fma, frontends=["chainer"]) for fma in (True, False)]

    with hooks[0], hooks[1]:
        run()

    for hook, flops in zip(hooks, (1, 2), strict=True):
        costs = [
            (entry["type"], entry["flops"], entry["mread"], entry["mwrite"]) for entry in hook.layer_report.values()
        ]
        assert costs == [(row[0], row[flops], row[3], row[4]) for row in expected]


ATTRIBUTES = [
    (lambda: functions.transpose(x(2, 3, 4), (2, 0, 1)), {"axes": (2, 0, 1)}),
    (lambda: functions.transpose(x(2, 3, 4)), {"axes": (2, 1, 0)}),
    (lambda: functions.swapaxes(x(2, 3, 4), 0, -1), {"axes": (2, 1, 0)}),
    (lambda: functions.moveaxis(x(2, 3, 4), 0, -1), {"axes": (1, 2, 0)}),
    (lambda: functions.rollaxis(x(2, 3, 4), 2), {"axes": (2, 0, 1)}),
    (lambda: functions.concat([x(2, 3), x(2, 3)], axis=-1), {"axis": 1}),
    (lambda: functions.stack([x(2, 3), x(2, 3)], axis=-1), {"axis": 2}),
    (lambda: functions.sum(x(2, 3, 4), axis=(-1, 0)), {"axis": (2, 0), "keepdims": False}),
    (lambda: functions.max(x(2, 3)), {"axis": (0, 1), "keepdims": False}),
    (lambda: functions.sum_to(x(2, 3, 4), (3, 1)), {"axis": (0, 2), "keepdims": True}),
    (lambda: functions.clip(x(3), 0.5, 2.0), {"lower": 0.5, "upper": 2.0}),
    (lambda: functions.leaky_relu(x(3), 0.25), {"slope": 0.25}),
    (
        lambda: functions.max_pooling_nd(x(1, 1, 4, 4, 4), 2),
        {"kernel": (2, 2, 2), "stride": (2, 2, 2), "padding": (0, 0, 0), "ceil_mode": True},
    ),
    (
        lambda: functions.average_pooling_2d(x(1, 1, 5, 5), (3, 2), stride=2, pad=(1, 0)),
        {"kernel": (3, 2), "stride": (2, 2), "padding": (1, 0)},
    ),
    (lambda: functions.einsum("...ij,...jk->...ik", x(2, 2, 3), x(2, 3, 4)), {"equation": "...ij,...jk->...ik"}),
]


@pytest.mark.parametrize(("run", "attributes"), ATTRIBUTES)
def test_attributes_have_canonical_names(run, attributes):
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        run()

    (entry,) = hook.layer_report.values()
    assert entry["params"] == attributes
