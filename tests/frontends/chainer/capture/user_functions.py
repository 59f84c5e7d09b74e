"""Functions of a user that fail, or compute their gradients in unusual ways, and hooks that count them."""

from __future__ import annotations

import chainer
import numpy

from costcore import ComputationalCostHook


def counting(**options):
    return ComputationalCostHook(frontends=["chainer"], **options)


def calls(hook, *fields):
    """Return one tuple of ``fields`` per call; without fields, the types."""
    entries = hook.layer_report.values()
    return [tuple(entry[name] for name in fields) if fields else entry["type"] for entry in entries]


def x(*shape):
    return numpy.ones(shape, "float32")


class Breaks(chainer.FunctionNode):
    """Raises when it runs."""

    def forward(self, inputs):
        raise RuntimeError("broken on purpose")


class Twice(chainer.Function):
    """An old-style function whose backward method does not run other functions."""

    def forward(self, inputs):
        return (inputs[0] * 2,)

    def backward(self, inputs, gradients):
        return (gradients[0] * 2,)


class Passes(chainer.Function):
    """An old-style function that passes its gradient on."""

    def forward(self, inputs):
        return (inputs[0].copy(),)

    def backward(self, inputs, gradients):
        return (gradients[0],)


class Accumulates(chainer.FunctionNode):
    """Computes its gradient by ``backward_accumulate``, for which Chainer does not call hooks."""

    def forward(self, inputs):
        return (inputs[0].copy(),)

    def backward_accumulate(self, target_input_indexes, grad_outputs, grad_inputs):
        return (chainer.Variable(grad_outputs[0].array * 1),)


def nothing_is_left():
    return not chainer.get_function_hooks() and not chainer._get_link_hooks() and chainer.config.use_static_graph
