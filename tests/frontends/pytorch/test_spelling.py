"""The function or symbol by which code called an operator, and the calls of modules (``record_api_calls=True``)."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import gelu, relu
from torch.overrides import TorchFunctionMode

from costcore import ComputationalCostHook, Report, estimate, table
from tests.frontends.pytorch.runs import estimated, record
from tests.frontends.pytorch.unchanged import unchanged

F = "torch.nn.functional."

BOUND = (relu, gelu)
"""Functions that were bound when this module was imported."""


PRODUCT = operator.mul


class Fn(nn.Module):
    """A module whose forward method is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def spelled(run: Callable[[], object]) -> dict[str, str]:
    """Return the function of every operator that ran, each once."""
    return {call.type: call.function for call in record(run, record_api_calls=True).calls}


def functions(run: Callable[[], object]) -> list[str]:
    return [call.function for call in record(run, record_api_calls=True).calls]


x, y = torch.ones(2, 2), torch.full((2, 2), 2.0)
i = torch.ones(2, 2, dtype=torch.int64)
image = torch.ones(1, 3, 8, 8)

SYMBOLS: dict[str, tuple[Callable[[], object], str]] = {
    "x + y": (lambda: x + y, "add"),
    "2 + x": (lambda: 2 + x, "add"),
    "x - y": (lambda: x - y, "sub"),
    "2 - x": (lambda: 2 - x, "sub"),
    "x * 2": (lambda: x * 2, "mul"),
    "2 * x": (lambda: 2 * x, "mul"),
    "x / y": (lambda: x / y, "truediv"),
    "2 / x": (lambda: 2 / x, "truediv"),
    "x // y": (lambda: x // y, "floordiv"),
    "2 // x": (lambda: 2 // x, "floordiv"),
    "x % y": (lambda: x % y, "mod"),
    "x ** 2": (lambda: x**2, "pow"),
    "2 ** x": (lambda: 2**x, "pow"),
    "x @ y": (lambda: x @ y, "matmul"),
    "-x": (lambda: -x, "neg"),
    "~i": (lambda: ~i, "invert"),
    "i & i": (lambda: i & i, "and_"),
    "1 | i": (lambda: 1 | i, "or_"),
    "i ^ i": (lambda: i ^ i, "xor"),
    "i << 1": (lambda: i << 1, "lshift"),
    "i >> 1": (lambda: i >> 1, "rshift"),
    "x == y": (lambda: x == y, "eq"),
    "x != y": (lambda: x != y, "ne"),
    "x < y": (lambda: x < y, "lt"),
    "x <= y": (lambda: x <= y, "le"),
    "x > y": (lambda: x > y, "gt"),
    "x >= y": (lambda: x >= y, "ge"),
    "2 > x": (lambda: 2 > x, "gt"),  # noqa: SIM300 - the reflected comparison
    "x[0]": (lambda: x[0], "getitem"),
    "x[0:1]": (lambda: x[0:1], "getitem"),
    "sum": (lambda: sum((x, y)), "add"),
    "reduce": (lambda: reduce(PRODUCT, (x, y)), "mul"),
    "__matmul__": (lambda: x.__matmul__(y), "matmul"),
    "__radd__": (lambda: x.__radd__(2), "add"),
}


@pytest.mark.parametrize("written", SYMBOLS)
def test_symbols(written):
    run, name = SYMBOLS[written]
    assert {*functions(run)} == {f"operator.{name}"}


def test_symbols_in_place():
    def run():
        z, k = x.clone(), i.clone()
        z += y
        z -= 1
        z *= y
        z /= y
        z **= 2
        z //= y
        z %= y
        z @= y
        k &= i
        k |= 1
        k ^= 1
        k <<= 1
        k >>= 1
        z[0] = 1

    names = [
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ipow",
        "ifloordiv",
        "imod",
        "imatmul",
        "iand",
        "ior",
        "ixor",
        "ilshift",
        "irshift",
    ]
    found = functions(run)
    assert found[:2] == ["torch.Tensor.clone"] * 2
    assert [name for name in found[2:] if name != "operator.setitem"] == [f"operator.{name}" for name in names]
    assert "operator.setitem" in found


METHODS: dict[str, tuple[Callable[[], object], str]] = {
    "x.add(y)": (lambda: x.add(y), "torch.Tensor.add"),
    "x.mul(2)": (lambda: x.mul(2), "torch.Tensor.mul"),
    "x.matmul(y)": (lambda: x.matmul(y), "torch.Tensor.matmul"),
    "x.pow(2)": (lambda: x.pow(2), "torch.Tensor.pow"),
    "x.neg()": (lambda: x.neg(), "torch.Tensor.neg"),
    "x.gt(y)": (lambda: x.gt(y), "torch.Tensor.gt"),
    "x.relu()": (lambda: x.relu(), "torch.Tensor.relu"),
    "x.softmax(0)": (lambda: x.softmax(0), "torch.Tensor.softmax"),
    "in place": (lambda: x.clone().add_(y), "torch.Tensor.add_"),
    "x.T": (lambda: x.T, "torch.Tensor.T"),
    "x.mT": (lambda: x.mT, "torch.Tensor.mT"),
    "torch.add": (lambda: torch.add(x, y), "torch.add"),
    "torch.matmul": (lambda: torch.matmul(x, y), "torch.matmul"),
    "torch.bmm": (lambda: torch.bmm(x[None], y[None]), "torch.bmm"),
    "torch.relu": (lambda: torch.relu(x), "torch.relu"),
    "torch.einsum": (lambda: torch.einsum("ij,jk->ik", x, y), "torch.einsum"),
    "torch.linalg.vector_norm": (lambda: torch.linalg.vector_norm(x), "torch.linalg.vector_norm"),
    "torch.special.expit": (lambda: torch.special.expit(x), "torch.special.expit"),
    "torch.fft.fft": (lambda: torch.fft.fft(x), "torch.fft.fft"),
    "torch.ops": (lambda: torch.ops.aten.relu(x), "torch.ops.aten.relu"),
    "torch.ops overload": (lambda: torch.ops.aten.relu.default(x), "torch.ops.aten.relu"),
    "F.relu": (lambda: functional.relu(x), F + "relu"),
    "F.relu in place": (lambda: functional.relu(x.clone(), inplace=True), F + "relu"),
    "F.linear": (lambda: functional.linear(x, y), F + "linear"),
    "F.conv2d": (lambda: functional.conv2d(image, torch.ones(4, 3, 3, 3)), F + "conv2d"),
    "F.softmax": (lambda: functional.softmax(x, 0), F + "softmax"),
    "F.layer_norm": (lambda: functional.layer_norm(x, (2,)), F + "layer_norm"),
    "F.gelu": (lambda: functional.gelu(x), F + "gelu"),
    "attention": (lambda: functional.scaled_dot_product_attention(x, x, x), F + "scaled_dot_product_attention"),
    "bound relu": (lambda: BOUND[0](x), F + "relu"),
    "bound gelu": (lambda: BOUND[1](x), F + "gelu"),
    "F.max_pool2d": (lambda: functional.max_pool2d(image, 2), F + "max_pool2d"),
    "with indices": (lambda: functional.max_pool2d(image, 2, return_indices=True), F + "max_pool2d"),
    "F.adaptive_max_pool2d": (lambda: functional.adaptive_max_pool2d(image, 2), F + "adaptive_max_pool2d"),
    "F.avg_pool2d": (lambda: functional.avg_pool2d(image, 2), F + "avg_pool2d"),
    "nn.ReLU": (lambda: nn.ReLU()(x), F + "relu"),
    "nn.ReLU6": (lambda: nn.ReLU6()(x), F + "hardtanh"),
    "nn.MaxPool2d": (lambda: nn.MaxPool2d(2, return_indices=True)(image), F + "max_pool2d"),
    "nn.AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(1)(image), F + "adaptive_avg_pool2d"),
    "nn.Softmax": (lambda: nn.Softmax(0)(x), F + "softmax"),
    "nn.Sigmoid": (lambda: nn.Sigmoid()(x), "torch.sigmoid"),
    "nn.BatchNorm2d": (lambda: nn.BatchNorm2d(3).eval()(image), F + "batch_norm"),
}


@pytest.mark.parametrize("written", METHODS)
def test_functions_and_methods(written):
    run, name = METHODS[written]
    assert functions(run)[-1] == name


def test_functions_of_an_estimate():
    def forward(x):
        x = functional.relu(x) + x.relu()
        return torch.matmul(x, x) @ x.matmul(x)

    recorder = estimated(Fn(forward), (2, 2), record_api_calls=True)
    relus, add, products = [F + "relu", "torch.Tensor.relu"], ["operator.add"], ["torch.matmul", "torch.Tensor.matmul"]
    assert [call.function for call in recorder.calls] == [*relus, *add, *products, "operator.matmul"]


def test_the_size_or_the_scale_that_was_given():
    def given(run):
        return {call.given for call in record(run, record_api_calls=True).calls}

    assert given(lambda: functional.interpolate(image, size=(4, 4))) == {("size",)}
    assert given(lambda: functional.interpolate(image, (4, 4))) == {("size",)}
    assert given(lambda: functional.interpolate(image, None, 2)) == {("scale_factor",)}
    assert given(lambda: functional.interpolate(image, scale_factor=2)) == {("scale_factor",)}
    assert given(lambda: nn.Upsample(scale_factor=2)(image)) == {("scale_factor",)}
    assert given(lambda: nn.Upsample(size=4)(image)) == {("size",)}
    assert given(lambda: functional.fractional_max_pool2d(image, 2, output_ratio=(0.5, 0.5))) >= {("output_ratio",)}
    assert given(lambda: functional.relu(image)) == {()}
    (call,) = record(lambda: nn.Upsample(size=4)(image), record_api_calls=True).calls
    assert call.function == F + "interpolate"


@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_is_entered(need_weights):
    attention, q = nn.MultiheadAttention(4, 2), torch.ones(3, 1, 4, requires_grad=True)
    found = record(lambda: attention(q, q, q, need_weights=need_weights), record_api_calls=True).calls
    assert "multi_head_attention_forward" not in " ".join(call.function for call in found)
    assert [call.function for call in found if call.type == "linear"] == [F + "linear"] * 2
    if need_weights:
        assert [call.function for call in found if call.type in ("bmm", "softmax")] == [
            *("torch.bmm", F + "softmax", "torch.bmm")
        ]
    else:
        assert [call.function for call in found if "attention" in call.type] == [F + "scaled_dot_product_attention"]


def test_a_fast_path_is_taken_as_ever_and_spelled_as_without_it():
    layer, q = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.rand(1, 5, 8)
    with torch.no_grad():
        expected = layer(q)
        with ComputationalCostHook(record_api_calls=True) as hook:
            found = layer(q)
    assert torch.equal(found, expected)
    slow = estimate(layer, (1, 5, 8), record_api_calls=True)
    assert [call.function for call in hook.report.calls] == [call.function for call in slow.calls]
    functions = {(call.module, call.type): call.function for call in slow.calls}
    assert functions["", "add"] == "operator.add"
    assert functions["", "relu"] == F + "relu"
    assert functions["self_attn", "scaled_dot_product_attention"] == F + "scaled_dot_product_attention"
    assert hook.report.trace.run.module_calls == slow.trace.run.module_calls


def test_the_backward_pass_has_no_function():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    z = torch.ones(1, 4)
    for run in (lambda: model(z).sum().backward(), lambda: torch.autograd.backward(model(z).sum())):
        calls = record(run, record_api_calls=True).calls
        assert {call.function for call in calls if call.phase == "backward"} == {""}
        assert {call.module_call for call in calls if call.phase == "backward"} == {0}
        assert [call.function for call in calls if call.type in ("linear", "relu")] == [F + "linear", F + "relu"]


class Twice(nn.Module):
    """Calls one leaf twice in a row, and a module inside a module."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.body = nn.ReLU(), nn.Sequential(nn.Linear(4, 2))
        self.shared = self.act

    def forward(self, x: Tensor, scale: Tensor | None = None) -> dict[str, Any]:
        x = self.act(self.act(x))
        return {"a": [self.body(x)], "b": self.shared(x)}


def test_module_calls():
    report = estimate(Twice(), (3, 4), record_api_calls=True)
    assert report.trace.run.module_calls == (
        ("", 0, ((3, 4),), ((3, 2), (3, 4))),
        ("act", 1, ((3, 4),), ((3, 4),)),
        ("act", 1, ((3, 4),), ((3, 4),)),
        ("body", 1, ((3, 4),), ((3, 2),)),
        ("body.0", 4, ((3, 4),), ((3, 2),)),
        ("act", 1, ((3, 4),), ((3, 4),)),
    )
    assert [(call.type, call.module_call) for call in report.calls] == [
        ("relu", 2),
        ("relu", 3),
        ("linear", 5),
        ("relu", 6),
    ]


def test_shapes_are_those_of_positional_arguments():
    recorder = estimated(Twice(), {"x": (3, 4)}, record_api_calls=True)
    assert recorder.module_calls[0].inputs == ()
    nested = Fn(lambda pair, rest: pair[0] + rest["z"])
    found = record(lambda: nested((x, 3), {"z": y}), record_api_calls=True).module_calls
    assert found == [("", 0, ((2, 2), (2, 2)), ((2, 2),))]


def test_nested_hooks_each_record_what_they_ask_for():
    with ComputationalCostHook(record_api_calls=True) as outer:
        torch.relu(x)
        with ComputationalCostHook() as plain:
            torch.relu(x)
            with ComputationalCostHook(record_api_calls=True) as inner:
                nn.ReLU()(x)
        torch.relu(x)
    assert [call.function for call in outer.report.calls] == ["torch.relu"] * 2 + [F + "relu", "torch.relu"]
    assert [call.function for call in plain.report.calls] == ["", ""]
    assert [(call.function, call.module_call) for call in inner.report.calls] == [(F + "relu", 1)]
    assert [call.module_call for call in outer.report.calls] == [0, 0, 1, 0]


def test_nothing_is_left_behind():
    model = Twice()
    with unchanged(model):
        estimate(model, (3, 4), record_api_calls=True, backward=True)
        with ComputationalCostHook(record_api_calls=True):
            model(torch.ones(3, 4))


def test_a_call_after_an_exception_has_its_own_module_call():
    def run():
        with pytest.raises(ValueError, match="no"):
            Fn(lambda x: int("no"))(x)
        nn.ReLU()(x)

    recorder = record(run, record_api_calls=True)
    assert [(call.type, call.module_call) for call in recorder.calls] == [("relu", 2)]
    assert recorder.module_calls[1].parent == 0


class Seen(TorchFunctionMode):
    """Lists the functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("is_outside", [False, True])
def test_modes_of_the_user_see_what_they_always_see(is_outside):
    attention, q = nn.MultiheadAttention(4, 2), torch.ones(3, 1, 4)

    def run():
        return attention(q, q, q)[0] + functional.relu(q)

    names = []
    for option in (False, True):
        seen, hook = Seen(), ComputationalCostHook(record_api_calls=option)
        outer, inner = (seen, hook) if is_outside else (hook, seen)
        with unchanged(), outer, inner:
            run()
        names.append(seen.names)
    assert names[0] == names[1]
    assert [call.function for call in hook.report.calls][-2:] == [F + "relu", "operator.add"]


def test_a_mode_that_is_pushed_before_the_hook_ends():
    seen = Seen()
    with unchanged():
        hook = ComputationalCostHook(record_api_calls=True)
        hook.__enter__()
        seen.__enter__()
        hook.__exit__(None, None, None)
        torch.relu(x)
        seen.__exit__(None, None, None)
    assert seen.names == ["relu"]


def test_a_function_of_the_user_that_overrides_and_cannot_be_hashed():
    class Odd:
        __hash__ = None
        __name__ = __qualname__ = "odd"

        def __eq__(self, other):
            return False

        def __call__(self, a):
            if torch.overrides.has_torch_function((a,)):
                return torch.overrides.handle_torch_function(self, (a,), a)
            return torch.relu(a)

    assert functions(lambda: Odd()(x)) == [f"{__name__}.odd"]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_traced_graph_does_not_depend_on_the_option():
    model, graphs = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    for option in (False, True):
        with ComputationalCostHook(record_api_calls=option):
            graphs.append(str(torch.jit.trace(model, x, check_trace=False).inlined_graph).split("return")[1])
    assert graphs[0] == graphs[1]


def test_threads():
    found: dict[str, list[str]] = {}

    def run(name: str, option: bool) -> None:
        with ComputationalCostHook(record_api_calls=option) as hook:
            for _ in range(50):
                x + y
        found[name] = [call.function for call in hook.report.calls]

    threads = [threading.Thread(target=run, args=(str(n), n % 2 == 0)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {str(n): ["operator.add" if n % 2 == 0 else ""] * 50 for n in range(4)}


def test_a_function_that_is_regrouped():
    report = estimate(Fn(functional.normalize), (2, 3), regroup=True, record_api_calls=True)
    assert [(call.type, call.function) for call in report.calls] == [("normalize", F + "normalize")]


def test_a_saved_report_and_a_table():
    report = estimate(Twice(), (3, 4), record_api_calls=True)
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.trace.run == report.trace.run
    assert report.trace.run.module_calls and not estimate(Twice(), (3, 4)).trace.run.module_calls
    assert not table({"a": Twice()}, (3, 4), record_api_calls=True).rows[0].failed
