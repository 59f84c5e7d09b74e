"""What the hook records, and that it leaves the run, the model and Chainer unchanged."""

from __future__ import annotations

import threading

import chainer
import chainerx
import pytest
from chainer import functions, links

from costcore import CostError
from tests.frontends.chainer.capture.user_functions import (
    Accumulates,
    Breaks,
    Passes,
    Twice,
    calls,
    counting,
    nothing_is_left,
    x,
)


def test_exception_in_a_function():
    broken = Breaks()

    with pytest.raises(RuntimeError, match="on purpose"), counting() as hook:
        functions.relu(functions.relu(x(3)))
        broken.apply((x(3),))

    assert calls(hook) == ["ReLU", "ReLU"]
    assert "forward" not in vars(broken)
    assert nothing_is_left()


def test_counting_continues_after_an_exception_in_a_link():
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.fails = links.Linear(3, 2)
                self.works = links.Linear(3, 2)

        def forward(self, values):
            with pytest.raises(chainer.utils.type_check.InvalidType):
                self.fails(values.T)
            return functions.relu(self.works(functions.sigmoid(values)))

    with counting() as hook:
        Model()(x(4, 3))

    assert calls(hook, "type", "module") == [
        ("Sigmoid", ""),
        ("LinearFunction", "works"),
        ("ReLU", ""),
    ]


def test_nested_hooks_both_count():
    outer, inner = counting(), counting()
    seen = []

    class Looks(chainer.FunctionNode):
        def forward(self, inputs):
            seen.append("forward" in vars(self))
            return (inputs[0].copy(),)

        def backward(self, indexes, gradients):
            return (gradients[0] * 2,)

    with pytest.warns(UserWarning, match="Looks"), outer:
        functions.relu(x(3))
        with inner:
            y = Looks().apply((chainer.Variable(x(3)),))[0]
        functions.tanh(x(3))

    assert calls(inner) == [] and [entry["type"] for entry in inner.ignored_layers.values()] == ["Looks"]
    assert calls(outer) == ["ReLU", "Tanh"]
    assert seen == [False]
    assert "forward" not in vars(y.creator)
    assert nothing_is_left()


def test_forward_runs_once():
    runs = []

    class Counts(chainer.FunctionNode):
        def forward(self, inputs):
            runs.append(1)
            return (inputs[0].copy(),)

    with pytest.warns(UserWarning, match="Counts"), counting():
        Counts().apply((x(3),))

    assert len(runs) == 1


def test_each_thread_counts_only_itself():
    in_thread = counting()

    def work():
        functions.tanh(x(2))
        with in_thread:
            functions.sigmoid(x(2))

    with counting() as hook:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        functions.relu(x(2))

    assert calls(hook) == ["ReLU"]
    assert calls(in_thread) == ["Sigmoid"]


def test_chainerx_arrays_are_rejected(monkeypatch):
    class Array:
        """A stand-in for a ChainerX array in a build without ChainerX."""

    monkeypatch.setattr(chainerx, "ndarray", Array)
    monkeypatch.setattr(chainerx, "is_available", lambda: True)
    apply = chainer.FunctionNode.apply

    with pytest.raises(CostError, match=r"ReLU: cannot count a function of a ChainerX array.*from_chx"), counting():
        functions.activation.relu.ReLU().apply((Array(),))

    assert chainer.FunctionNode.apply is apply
    assert nothing_is_left()


def test_old_style_functions_are_recorded_by_their_own_names():
    v = chainer.Variable(x(3))

    with pytest.warns(UserWarning, match="not counted"), counting() as hook:
        y = Passes()(Twice()(v) + Twice()(v))
        y.grad = x(3)
        y.backward()

    assert calls(hook, "type", "phase") == [("Add", "forward"), ("Add", "backward")]  # the latter joins gradients of v
    assert sorted(entry["type"] for entry in hook.ignored_layers.values()) == [
        "Passes",
        "Twice",
        "Twice",
        "TwiceBackward",
        "TwiceBackward",
    ]
    assert v.grad.tolist() == [4, 4, 4]


def test_gradient_computed_by_backward_accumulate_is_reported_as_unsupported():
    v = chainer.Variable(x(3))

    with pytest.warns(UserWarning, match="Accumulates"), counting() as hook:
        y = Accumulates().apply((v,))[0]
        y.grad = x(3)
        y.backward()

    assert [entry["type"] for entry in hook.ignored_layers.values()] == ["Accumulates", "AccumulatesBackward"]


def test_functions_in_forget_are_counted_in_both_passes():
    v = chainer.Variable(x(3))

    with counting() as hook:
        y = functions.forget(lambda a: functions.exp(functions.tanh(a)), v)
        y.grad = x(3)
        y.backward()

    assert calls(hook, "type", "phase") == [
        ("Tanh", "forward"),
        ("Exp", "forward"),
        ("Tanh", "recompute"),
        ("Exp", "recompute"),
        ("Mul", "backward"),
        ("TanhGrad", "backward"),
    ]


def test_backward_with_inputs_that_were_not_retained_and_gradients_that_are_none():
    v = chainer.Variable(x(4, 6))

    with counting() as hook:
        left, right = functions.split_axis(v, 2, axis=1)  # right gets no gradient
        y = functions.sum(functions.relu(left) * 2)
        y.backward()

    backward = [kind for kind, phase in calls(hook, "type", "phase") if phase == "backward"]
    assert backward[-1] == "Concat"
    assert v.grad.shape == (4, 6)
    assert right.grad is None


class Block(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.inner = links.Linear(3, 3)

    def forward(self, values):
        return functions.relu(self.inner(values))


class Nested(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.blocks = chainer.ChainList(Block(), Block())
            self.last = links.Linear(3, 2)

    def forward(self, values):
        for block in self.blocks:
            values = block(values)
        return functions.sum(self.last(values))


def test_modules_of_forward_and_backward():
    net = Nested()

    with counting() as hook:
        net(x(1, 3)).backward()

    places = calls(hook, "type", "module", "phase")
    assert [place for place in places if place[2] == "forward"] == [
        ("LinearFunction", "blocks.0.inner", "forward"),
        ("ReLU", "blocks.0", "forward"),
        ("LinearFunction", "blocks.1.inner", "forward"),
        ("ReLU", "blocks.1", "forward"),
        ("LinearFunction", "last", "forward"),
        ("Sum", "", "forward"),
    ]
    assert ("LinearGradData", "blocks.1.inner", "backward") in places
    assert ("ReLUGrad2", "blocks.0", "backward") in places


def test_modules_of_recomputation():
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.block = Block()

        def forward(self, values):
            return functions.sum(functions.forget(self.block, values))

    net = Model()

    with counting() as hook:
        net(chainer.Variable(x(1, 3))).backward()

    assert [entry for entry in calls(hook, "type", "module", "phase") if entry[2] == "recompute"] == [
        ("LinearFunction", "block.inner", "recompute"),
        ("ReLU", "block", "recompute"),
    ]


def test_link_that_the_model_calls_but_does_not_own():
    other = links.Linear(3, 3)

    class Model(chainer.Chain):
        def forward(self, values):
            return other(values)

    with counting() as hook:
        Model()(x(1, 3))

    assert calls(hook, "module") == [("Linear",)]


def test_parameters_that_are_read_repeatedly_are_counted_once():
    layer = links.Linear(3, 3)

    with counting() as hook:
        layer(layer(x(2, 3)))
        functions.linear(x(2, 3), layer.W.array.T)

    assert hook.total_report["n_params"] == 3 * 3 + 3
    assert hook.total_report["n_layers"] == 3


def test_computed_and_default_weights_are_not_parameters():
    norm = links.BatchNormalization(3, use_gamma=False)

    with chainer.using_config("train", False), counting() as hook:
        norm(x(2, 3))
        functions.linear(x(2, 3), functions.tanh(x(4, 3)))

    # beta; not the ones in place of gamma, the running statistics, or the weight that tanh computed
    assert hook.total_report["n_params"] == 3


def test_ids_connect_calls():
    with counting() as hook:
        v = chainer.Variable(x(2, 3))
        h = functions.reshape(functions.tanh(v), (3, 2))
        functions.relu(h)

    tanh, reshape, relu = hook.report.calls
    assert tanh.outputs == reshape.inputs and reshape.outputs == relu.inputs
    assert len({*tanh.inputs, *tanh.outputs, *reshape.outputs, *relu.outputs}) == 4
    assert reshape.storages[0] == reshape.storages[1] == relu.storages[0]
    assert relu.storages[0] != relu.storages[1]
    assert tanh.saved == tanh.outputs and reshape.saved == ()
    assert hook.report.versions["chainer"] == chainer.__version__


def test_duration_on_request():
    with counting(measure_time=True) as hook:
        functions.tanh(x(2, 3))

    assert [record.seconds > 0 for record in hook.report.trace] == [True]
