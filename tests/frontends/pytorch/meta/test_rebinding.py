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

    def run(self, y):
        return self.f(y)

    def forward(self, x):
        return self.h(self.g(x))


class Holder:
    __slots__ = ("function",)

    def __init__(self, function):
        self.function = function


class AskedByLayer:
    """As configurations of transformers whose layers differ: what differs cannot be asked for."""

    def __init__(self, function):
        self.function, self.heads = function, 4

    def __getattribute__(self, name):
        if name == "heads":
            raise RuntimeError("heads differ by layer")
        return object.__getattribute__(self, name)


class Child(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.parent = [parent]

    def forward(self, x):
        return self.parent[0].f(x)


def local_function(self):
    layer = self.f

    def g(y):
        def inner(z):
            return layer(z)

        return inner(y)

    self.g = g


def default(self):
    def g(y, layer=self.f, *, scale=self.h):
        return layer(y)

    self.g = g


def decorated(self):
    def twice(function):
        @functools.wraps(function)
        def wrapped(y):
            return function(y) * 2

        return wrapped

    self.g = twice(lambda y: self.f(y))


def stores_in_its_cell(self):
    features = self.features = {}

    def hook(module, args, output):
        features["f"] = output

    self.f.register_forward_hook(hook)


def stores_in_a_method(self):
    def save(name):
        def hook(module, args, output):
            self.features[name] = output

        return hook

    self.features = {}
    self.f.register_forward_hook(save("f"))


def stores(self):
    self.features = {}
    self.f.register_forward_hook(lambda module, args, output: self.features.update(f=output))


def counts(self):
    calls = 0

    def g(y):
        nonlocal calls
        calls += 1
        return self.f(y)

    self.g, self.calls = g, lambda: calls


def counts_in_a_list(self):
    calls, log = [0], []

    def g(y):
        calls[0] += 1
        log.append(calls[0])
        return self.f(y)

    self.g, self.calls, self.log = g, lambda: calls[0], log


def calls_itself(self):
    def g(y, n=1):
        return g(self.f(y), n - 1) if n else y

    self.g = g


def class_in_a_method(self):
    model = self

    class Call:
        def __call__(self, y):
            return model.f(y)

    self.g = Call()


def view_of_a_parameter(self):
    w, b = self.f.weight.t(), self.f.bias
    self.g = lambda y: y @ w + b


def of_no_module(self):
    """A layer that only a closure holds: its parameters are none of the model's."""
    layer = self.f
    del self.f
    self.g = lambda y: layer(y)
    self.layers = lambda: [layer]


def stores_outside(self):
    features = []
    self.f.register_forward_hook(lambda module, args, output: features.append(output))
    self.stored = lambda: features
    self.sum = lambda: sum(features)


def set_up(**values):
    """Set attributes of a model, each to what a function makes of it."""

    def run(self):
        for name, value in values.items():
            setattr(self, name, value(self))

    return run


def only_h(self, x):
    return self.h(x)


def stored(self, x):
    self.f(x)
    return self.h(self.features["f"])


def from_outside(self, x):
    self.f(x)
    return self.h(self.sum())


KINDS = {
    "lambda": (set_up(g=lambda self: lambda y: self.f(y)),),
    "local function": (local_function,),
    "default": (default,),
    "partial": (set_up(g=lambda self: functools.partial(lambda layer, y: layer(y), self.f)),),
    "partial of a closure": (set_up(g=lambda self: functools.partial(lambda scale, y: self.f(y) * scale, 2)),),
    "bound method": (set_up(g=lambda self: self.f.forward),),
    "decorated": (decorated,),
    "in containers": (
        set_up(functions=lambda self: {"all": [(lambda y: self.f(y), 1)]}),
        lambda self, x: self.h(self.functions["all"][0][0](x)),
    ),
    "in an object": (
        set_up(held=lambda self: Holder(lambda y: self.f(y)), g=lambda self: lambda y: self.held.function(y)),
    ),
    "pre-hook": (lambda self: self.h.register_forward_pre_hook(lambda module, args: (self.f(args[0]),)), only_h),
    "hook": (lambda self: self.h.register_forward_hook(lambda module, args, output: self.f(output)), only_h),
    "hook stores": (stores, stored),
    "hook stores in its cell": (stores_in_its_cell, stored),
    "hook of a method": (stores_in_a_method, stored),
    "hook stores outside": (stores_outside, from_outside),
    "weak reference": (set_up(of_f=lambda self: weakref.ref(self.f)), lambda self, x: self.h(self.of_f()(x))),
    "weak method": (
        set_up(method=lambda self: weakref.WeakMethod(self.run)),
        lambda self, x: self.h(self.method()(x)),
    ),
    "cached": (
        set_up(layer=lambda self: functools.lru_cache(lambda index: (self.f, self.h)[index])),
        lambda self, x: self.layer(1)(self.layer(0)(x)),
    ),
    "default of a dict": (
        set_up(by_name=lambda self: defaultdict(lambda: self.f)),
        lambda self, x: self.h(self.by_name["f"](x)),
    ),
    "object that refuses": (
        set_up(settings=lambda self: AskedByLayer(lambda y: self.f(y))),
        lambda self, x: self.h(self.settings.function(x)),
    ),
    "counts": (counts,),
    "counts in a list": (counts_in_a_list,),
    "calls itself": (calls_itself,),
    "class in a method": (class_in_a_method,),
    "view of a parameter": (view_of_a_parameter,),
    "parent in a list": (set_up(g=Child),),
    "of no module": (of_no_module,),
}
"""How a model is set up, and its ``forward`` if it is another one."""


def made(parts):
    return type("Model", (Base,), dict(zip(("set_up", "forward"), parts, strict=False)))()


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
    **{name: functools.partial(made, parts) for name, parts in KINDS.items()},
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


@pytest.mark.parametrize("name", ["lambda", "hook", "hook stores", "patched", "in an object"])
def test_a_call_has_its_module_and_its_parameters(name):
    report = estimate(MODELS[name](), (4, 16))
    linears = [call.module for call, *_ in report.trace if call.type == "linear"]
    assert sorted(linears) == (["0", "1"] if name == "patched" else ["f", "h"])
    assert report.total_report["n_params"] == 2 * (16 * 16 + 16)


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
