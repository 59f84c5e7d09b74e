"""Functions that refer to a model run the parts of its copy: closures, hooks, partials, patched methods.

Every model computes two products of 4 x 16 by 16 x 16. Its backward pass has three: of both weights, and of the input
of the second layer.
"""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict

import pytest
import torch
from torch import nn

from costcore import estimate

PRODUCT = 4 * 16 * 16


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.h = nn.Linear(16, 16), nn.Linear(16, 16)
        self.set_up()

    def set_up(self):
        pass

    def forward(self, x):
        return self.h(self.g(x))


class Only(Base):
    """Calls its second layer; a hook calls the first."""

    def forward(self, x):
        return self.h(x)


class Features(Base):
    """Reads what a hook has stored."""

    def forward(self, x):
        self.f(x)
        return self.h(self.features["f"])


class Lambda(Base):
    def set_up(self):
        self.g = lambda y: self.f(y)


class LocalFunction(Base):
    def set_up(self):
        layer = self.f

        def g(y):
            def inner(z):
                return layer(z)

            return inner(y)

        self.g = g


class Default(Base):
    def set_up(self):
        def g(y, layer=self.f, *, scale=self.h):
            return layer(y)

        self.g = g


class Partial(Base):
    def set_up(self):
        self.g = functools.partial(lambda layer, y: layer(y), self.f)


class PartialOfAClosure(Base):
    def set_up(self):
        self.g = functools.partial(lambda scale, y: self.f(y) * scale, 2)


class BoundMethod(Base):
    def set_up(self):
        self.g = self.f.forward


class Decorated(Base):
    def set_up(self):
        def twice(function):
            @functools.wraps(function)
            def wrapped(y):
                return function(y) * 2

            return wrapped

        self.g = twice(lambda y: self.f(y))


class InContainers(Base):
    def set_up(self):
        self.functions = {"all": [(lambda y: self.f(y), 1)]}

    def forward(self, x):
        return self.h(self.functions["all"][0][0](x))


class Solver:
    def __init__(self, function):
        self.function = function

    def solve(self, y):
        return self.function(y)


class InAnObject(Base):
    def set_up(self):
        self.solver = Solver(lambda y: self.f(y))
        self.g = lambda y: self.solver.solve(y)


class ForwardPreHook(Only):
    def set_up(self):
        self.h.register_forward_pre_hook(lambda module, args: (self.f(args[0]),))


class ForwardHook(Only):
    def set_up(self):
        self.h.register_forward_hook(lambda module, args, output: self.f(output))


class HookStores(Features):
    def set_up(self):
        self.features = {}
        self.f.register_forward_hook(lambda module, args, output: self.features.update(f=output))


class HookStoresInItsCell(Features):
    def set_up(self):
        features = self.features = {}

        def hook(module, args, output):
            features["f"] = output

        self.f.register_forward_hook(hook)


class HookOfAMethod(Features):
    def set_up(self):
        self.features = {}
        self.f.register_forward_hook(self.save("f"))

    def save(self, name):
        def hook(module, args, output):
            self.features[name] = output

        return hook


class WeakReference(Base):
    def set_up(self):
        self.of_f = weakref.ref(self.f)

    def forward(self, x):
        return self.h(self.of_f()(x))


class Cached(Base):
    def set_up(self):
        self.layer = functools.lru_cache(lambda index: (self.f, self.h)[index])

    def forward(self, x):
        return self.layer(1)(self.layer(0)(x))


class Counter(Base):
    def set_up(self):
        calls = 0

        def g(y):
            nonlocal calls
            calls += 1
            return self.f(y)

        self.g, self.calls = g, lambda: calls


class CountsInAList(Base):
    def set_up(self):
        calls, log = [0], []

        def g(y):
            calls[0] += 1
            log.append(calls[0])
            return self.f(y)

        self.g, self.calls, self.log = g, lambda: calls[0], log


class CallsItself(Base):
    def set_up(self):
        def g(y, n=1):
            return g(self.f(y), n - 1) if n else y

        self.g = g


class WeakMethod(Base):
    def set_up(self):
        self.method = weakref.WeakMethod(self.run)

    def run(self, y):
        return self.f(y)

    def forward(self, x):
        return self.h(self.method()(x))


class Slots:
    __slots__ = ("function",)

    def __init__(self, function):
        self.function = function


class InSlots(Base):
    def set_up(self):
        self.slots = Slots(lambda y: self.f(y))

    def forward(self, x):
        return self.h(self.slots.function(x))


class DefaultOfADict(Base):
    def set_up(self):
        self.by_name = defaultdict(lambda: self.f)

    def forward(self, x):
        return self.h(self.by_name["f"](x))


class ClassInAMethod(Base):
    def set_up(self):
        model = self

        class Call:
            def __call__(self, y):
                return model.f(y)

        self.g = Call()


class ViewOfAParameter(Base):
    def set_up(self):
        w, b = self.f.weight.t(), self.f.bias
        self.g = lambda y: y @ w + b


class ParentInAList(Base):
    class Child(nn.Module):
        def __init__(self, parent):
            super().__init__()
            self.parent = [parent]

        def forward(self, x):
            return self.parent[0].f(x)

    def set_up(self):
        self.g = self.Child(self)


class OfNoModule(Base):
    """A layer that only a closure holds: its parameters are none of the model's."""

    def set_up(self):
        layer = self.f
        del self.f
        self.g = lambda y: layer(y)
        self.layers = lambda: [layer]


def of_a_class_in_a_function():
    features = {}

    class Model(Base):
        def set_up(self):
            self.f.register_forward_hook(lambda module, args, output: features.update(f=output))

        def forward(self, x):
            self.f(x)
            return self.h(features["f"])

    model = Model()
    model.stored = lambda: features
    return model


def of_a_list():
    features = []

    class Model(Base):
        def set_up(self):
            self.f.register_forward_hook(lambda module, args, output: features.append(output))

        def forward(self, x):
            self.f(x)
            return self.h(sum(features))

    model = Model()
    model.stored = lambda: features
    return model


def patched():
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    old = model.forward
    model.forward = lambda x: old(x) * 2
    return model


GLOBAL = Base()
GLOBAL.g = lambda y: GLOBAL.f(y)
PATCHED = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
OLD = PATCHED.forward
PATCHED.forward = lambda x: OLD(x) * 2

MODELS = {
    **{kind.__name__: kind for kind in (Lambda, LocalFunction, Default, Partial, PartialOfAClosure, BoundMethod)},
    **{kind.__name__: kind for kind in (Decorated, InContainers, InAnObject, ForwardPreHook, ForwardHook, HookStores)},
    **{kind.__name__: kind for kind in (HookStoresInItsCell, HookOfAMethod, WeakReference, Cached, Counter)},
    **{kind.__name__: kind for kind in (CallsItself, OfNoModule, CountsInAList)},
    **{
        kind.__name__: kind
        for kind in (WeakMethod, InSlots, DefaultOfADict, ClassInAMethod, ViewOfAParameter, ParentInAList)
    },
    "of a class in a function": of_a_class_in_a_function,
    "of a list in a function": of_a_list,
    "patched": patched,
    "global": lambda: GLOBAL,
    "patched, global": lambda: PATCHED,
}


def snapshot(model):
    """What a model holds: its objects by identity, its tensors by value."""
    held = {(path, name): id(value) for path, module in model.named_modules() for name, value in vars(module).items()}
    tensors = {name: (tensor.clone(), tensor.grad) for name, tensor in model.named_parameters()}
    hooks = [[*module._forward_hooks.values()] for module in model.modules()]
    cells = [
        [(id(cell), repr(cell.cell_contents)) for cell in function.__closure__ or ()]
        for module in model.modules()
        for function in vars(module).values()
        if hasattr(function, "__closure__")
    ]
    return held, {name: (value.tolist(), gradient) for name, (value, gradient) in tensors.items()}, hooks, cells


@pytest.mark.parametrize("name", MODELS)
def test_a_function_runs_the_copy(name):
    model = MODELS[name]()
    before = snapshot(model)
    for _ in range(2):
        report = estimate(model, (4, 16), backward=True, strict=True)
        assert {phase: row["macs"] // PRODUCT for phase, row in report.by("phase").items()} == {
            "forward": 2,
            "backward": 3,
        }
    assert snapshot(model) == before
    assert not getattr(model, "features", None)
    assert not getattr(model, "stored", dict)()
    assert getattr(model, "calls", int)() == 0
    assert all(parameter.grad is None for layer in getattr(model, "layers", list)() for parameter in layer.parameters())


@pytest.mark.parametrize("name", ["Lambda", "ForwardHook", "HookStores", "patched", "InSlots"])
def test_a_call_has_its_module_and_its_parameters(name):
    report = estimate(MODELS[name](), (4, 16))
    linears = [call.module for call, *_ in report.trace if call.type == "linear"]
    assert sorted(linears) == (["0", "1"] if name == "patched" else ["f", "h"])
    assert report.total_report["n_params"] == 2 * (16 * 16 + 16)


def test_memory_of_an_inference_has_no_gradients():
    """Weights and biases are 2 x 1,088 bytes; the input, the first output and the second are 256 each."""
    memory = estimate(Lambda(), (4, 16), memory=True).memory
    assert memory.peak == 2 * 1088 + 3 * 256


def test_what_a_function_adds_to_a_list_is_left_for_its_caller():
    seen = ["before"]
    model = Base()
    model.g = lambda y: (seen.append(tuple(y.shape)), model.f(y))[1]
    for _ in range(2):
        estimate(model, (4, 16))
    assert seen == ["before", (4, 16), (4, 16)]


def test_low_rank_adapters_made_of_closures():
    """x A B beside a frozen layer: 4 x 16 x 2 and 4 x 2 x 16. Backward: of A, of B, and of x A."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)).requires_grad_(False)
    layer = model[1]
    old, a, b = layer.forward, nn.Parameter(torch.zeros(16, 2)), nn.Parameter(torch.zeros(2, 16))
    layer.a, layer.b = a, b
    layer.forward = lambda x: old(x) + x @ a @ b
    macs = {name: row["macs"] for name, row in estimate(model, (4, 16), backward=True).by("phase").items()}
    assert macs == {"forward": 2 * PRODUCT + 2 * 4 * 16 * 2, "backward": 3 * 4 * 16 * 2}
