"""Functions of users that ``onnx_chainer`` runs as one node: what they run is counted, once."""

from __future__ import annotations

import chainer
import numpy
import pytest
from chainer import functions
from onnx_chainer.replace_func import fake_as_funcnode

from costcore import ComputationalCostHook, CostWarning
from tests.frontends.chainer.function_calls import i, x


def types(hook):
    return [entry["type"] for entry in hook.layer_report.values()]


def wrapped(function):
    return fake_as_funcnode(function, "Custom", experimental_warning=False)


def test_functions_inside_are_counted():
    function = wrapped(lambda a: functions.tanh(functions.relu(a)))
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        functions.sum(function(chainer.Variable(x(2, 3)))).backward()
    assert hook.ignored_layers == {}
    assert types(hook) == ["ReLU", "Tanh", "Sum", "BroadcastTo", "TanhGrad", "ReLUGrad2"]


def test_old_style_functions_inside_are_counted_once_in_the_backward_pass():
    link = chainer.links.BinaryHierarchicalSoftmax(3, ((0, 1), 2))
    link.cleargrads()
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        wrapped(lambda a: link(a, i(0, 2)))(chainer.Variable(x(2, 3))).backward()
    assert hook.ignored_layers == {}
    assert types(hook) == ["BinaryHierarchicalSoftmaxFunction", "BinaryHierarchicalSoftmaxFunctionBackward"]


def test_a_function_that_computes_on_arrays_is_reported_as_unsupported():
    with pytest.warns(CostWarning, match="WrappedFunctionNode"), ComputationalCostHook(frontends=["chainer"]) as hook:
        wrapped(lambda a: numpy.tanh(a.array))(chainer.Variable(x(2, 3)))
    assert list(hook.ignored_layers) == ["WrappedFunctionNode-1"]
