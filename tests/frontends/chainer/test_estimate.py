"""``estimate`` of a link: the inputs it accepts, and that it does not change the link."""

from __future__ import annotations

import random
import threading
from functools import partial

import chainer
import numpy
import pytest
from chainer import functions, links

from costcore import CostError, Tensor, Value, estimate


class Several(chainer.Chain):
    """Accepts arrays by position and by name, and lists of them."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.layer = links.Linear(3, 2)

    def forward(self, a, b=None, more=()):
        y = self.layer(a)
        if b is not None:
            y = y + self.layer(b)
        return [y, {"sums": tuple(functions.sum(each) for each in more)}]


A = (4, 3)


@pytest.mark.parametrize(
    ("inputs", "types"),
    [
        (A, ["LinearFunction"]),
        (list(A), ["LinearFunction"]),
        (numpy.ones(A, "float32"), ["LinearFunction"]),
        (chainer.Variable(numpy.ones(A, "float32")), ["LinearFunction"]),
        (Tensor(A), ["LinearFunction"]),
        ((A, A), ["LinearFunction", "LinearFunction", "Add"]),
        ([A, numpy.ones(A, "float32")], ["LinearFunction", "LinearFunction", "Add"]),
        ({"a": A, "b": A}, ["LinearFunction", "LinearFunction", "Add"]),
        ({"a": A, "more": [(2,), (3,)]}, ["LinearFunction", "Sum", "Sum"]),
    ],
)
def test_inputs(inputs, types):
    report = estimate(Several(), inputs)

    assert [entry["type"] for entry in report.layer_report.values()] == types


@pytest.mark.parametrize("inputs", [Tensor((5,), "int32"), ((5,), "int32")])
def test_dtype_of_inputs(inputs):
    report = estimate(links.EmbedID(10, 4), inputs)

    # 5 indices of 4 B, 5 rows of 4 float32
    assert report.total_report["mread"] == 5 * 4 + 5 * 4 * 4


@pytest.mark.parametrize("inputs", [None, "1x3", ((4, 3), None), {"a": 2.5}])
def test_invalid_inputs(inputs):
    with pytest.raises(CostError, match=r"Several: argument .* is .* \(expected a shape"):
        estimate(Several(), inputs)


def test_a_value_is_a_list_of_integers():
    class Loop(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.layer = links.Linear(3, 3)

        def forward(self, x, steps):
            for _ in steps:
                x = self.layer(x)
            return x

    assert estimate(Loop(), {"x": A, "steps": Value([999, 500])}).total_report["macs"] == 2 * 4 * 3 * 3


def test_unknown_option():
    with pytest.raises(TypeError, match=r"unknown option 'dims' for the chainer frontend \(expected backward\)"):
        estimate(Several(), A, dims={"batch": 2})
    with pytest.raises(TypeError, match=r"unknown option 'backwards' .*\. Did you mean 'backward'\?$"):
        estimate(Several(), A, backwards=True)


class Stateful(chainer.Chain):
    """Has every kind of state that a run changes."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        with self.init_scope():
            self.lazy = links.Linear(None, 3)
            self.norm = links.BatchNormalization(3)
            self.rnn = links.StatefulGRU(3, 3)
        self.kept = [self.norm]

    def forward(self, values):
        self.calls += 1
        return functions.dropout(self.rnn(self.kept[0](self.lazy(values))), 0.5)


def test_the_link_is_not_changed():
    net = Stateful()
    net.norm.gamma.grad = numpy.full(3, 7, "float32")
    mean, gamma = net.norm.avg_mean.copy(), net.norm.gamma.array
    random.seed(1)
    numpy.random.seed(1)
    expected = random.random(), numpy.random.rand()
    random.seed(1)
    numpy.random.seed(1)

    with chainer.using_config("train", True):
        report = estimate(net, (4, 5), backward=True)

    assert net.calls == 0
    assert not net.lazy.W.is_initialized
    assert net.norm.avg_mean.tolist() == mean.tolist()
    assert net.rnn.h is None
    assert net.norm.gamma.array is gamma
    assert net.norm.gamma.grad.tolist() == [7, 7, 7]
    assert (random.random(), numpy.random.rand()) == expected
    # (5 + 1) * 3, two vectors, and two of the GRU's six (3 + 1) * 3: the first step, which has no state, reads two
    assert report.total_report["n_params"] == 18 + 6 + 2 * 12
    assert report.total_report["n_params_model"] == 18 + 6 + 6 * 12


def test_shared_links_and_parameters_are_counted_once():
    class Shared(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.one = links.Linear(3, 3)
                self.other = self.one

        def forward(self, values):
            return self.other(self.one(values))

    total = estimate(Shared(), (2, 3)).total_report

    assert (total["n_params"], total["n_params_model"]) == (12, 12)


class Pair(chainer.Chain):
    """Two layers, 3 to 5 to 2 features; a method runs the first."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.first, self.second = links.Linear(3, 5), links.Linear(5, 2)

    def forward(self, x):
        return self.second(functions.relu(self.encode(x)))

    def encode(self, x):
        return self.first(x)


NET = Pair()

FIRST, SECOND = 4 * 3 * 5, 4 * 5 * 2


def training_step():
    model = links.Classifier(Pair())
    optimizer = chainer.optimizers.Adam().setup(model)

    def step(x, labels):
        loss = model(x, labels)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        return loss

    return step, [A, numpy.zeros(4, "int32")]


def of_another(x, *, scale=1):
    return functions.relu(called(x)) * scale


def called(x):
    return NET(x)


def repeated():
    model = Pair()

    def run(x, times=2):
        y = model(x)
        return y + run(x, times - 1) if times > 1 else y

    return run, A


@pytest.mark.parametrize(
    ("make", "macs"),
    [
        (lambda: (NET.encode, A), {"first": FIRST}),
        (lambda: (partial(NET.encode), A), {"first": FIRST}),
        (lambda: (lambda x: NET(x), A), {"NET.first": FIRST, "NET.second": SECOND}),
        (lambda: (partial(lambda model, x: model(x), NET), A), {"link_0.first": FIRST, "link_0.second": SECOND}),
        # forward, the gradients of both weights, and of the input of the second layer
        (training_step, {"model.predictor.first": 2 * FIRST, "model.predictor.second": 3 * SECOND}),
        (lambda: (functions.relu, A), {}),
        (lambda: (of_another, A), {"NET.first": FIRST, "NET.second": SECOND}),
        (repeated, {"model.first": 2 * FIRST, "model.second": 2 * SECOND}),
    ],
)
def test_methods_and_functions_are_models(make, macs):
    function, inputs = make()
    before = [(parameter.array.copy(), parameter.grad) for parameter in NET.params()]
    report = estimate(function, inputs)
    assert {path: costs["macs"] for path, costs in report.by("module").items() if costs["macs"]} == macs
    for parameter, (array, gradient) in zip(NET.params(), before, strict=True):
        assert parameter.grad is gradient
        assert (parameter.array == array).all()


def test_a_step_that_a_function_makes_does_not_change_its_optimizer():
    step, inputs = training_step()
    cells = dict(zip(step.__code__.co_freevars, step.__closure__, strict=True))
    optimizer, model = cells["optimizer"].cell_contents, cells["model"].cell_contents
    weights = [parameter.array.copy() for parameter in model.params()]
    estimate(step, inputs)
    assert optimizer.t == 0
    assert all((p.array == was).all() for p, was in zip(model.params(), weights, strict=True))


def test_link_that_cannot_be_copied():
    net = Several()
    net.lock = threading.Lock()

    with pytest.raises(CostError, match=r"Several: the link cannot be copied .*inside a ComputationalCostHook"):
        estimate(net, A)


def test_facts_about_links_and_what_they_returned():
    report = estimate(Several(), {"a": A, "b": A})
    assert report.trace.run.returned == report.calls[-1].outputs  # of the sum of the two products
    modules = report.trace.run.modules
    assert modules["layer"].own == (("W", 3 * 2), ("b", 2))
    assert modules["layer"].bases == ("chainer.links.connection.linear.Linear",)
    assert modules[""].bases == (f"{__name__}.Several", "chainer.link.Chain")
