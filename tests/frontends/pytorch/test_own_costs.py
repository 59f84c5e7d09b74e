"""Costs of modules, functions and ``autograd.Function``: one call each, in an estimate and in a real run."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import flop_registry, register_flop_formula

from costcore import ComputationalCostHook, CostError, CostWarning, Operations, Report, costs, estimate
from costcore.ir import pattern

WIDTH, STATES = 8, 16
WEIGHTS = WIDTH * STATES + WIDTH * WIDTH + WIDTH


class Scan(nn.Module):
    """A module whose kernel needs data, as one of CUDA."""

    def __init__(self):
        super().__init__()
        self.states = STATES
        self.decay = nn.Parameter(torch.zeros(WIDTH, STATES))
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        if x.is_meta:
            raise NotImplementedError("this kernel runs on CUDA only")
        return self.project(x) * self.decay.sum(1)


class Net(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.up = nn.Linear(4, WIDTH)
        self.inner = inner

    def forward(self, x):
        return self.inner(self.up(x))


def calc_scan(layer):
    x, states = layer["x"], layer.attrs["states"]
    return Operations(fma=3 * x.size * states), layer.read, layer.written, {"states": states}, x.size * states


def rule(module, x):
    return x


FLOPS, MACS = 3 * 6 * WIDTH * STATES, 6 * WIDTH * STATES
"""Of a scan of 2 x 3 rows, by the formula above."""

OWN = costs(Scan, shapes=rule)(lambda layer: calc_scan(layer))


def calls(report, op):
    return [call for call in report.layer_report.values() if call["type"] == op]


def of_a_step(model, shape, op, own, is_run):
    """Return the report of a forward and a backward pass, from a run or without one."""
    if not is_run:
        return estimate(model, shape, calculators=[own], backward=True)
    hook = ComputationalCostHook()
    hook.add_custom_cost_calculator(op, own)
    with hook:
        model(torch.zeros(shape)).sum().backward()
    return hook


def shares(report):
    return dict.fromkeys(key for key in calls(report, "Scan")[0] if key.endswith("%") or key == "traceback")


@pytest.mark.parametrize(
    "calculators",
    [[OWN], {Scan: OWN}, {f"{__name__}.Scan": OWN}, {f"{__name__.partition('.')[0]}.Scan": OWN}],
    ids=["list", "class", "dotted name", "name in a package"],
)
def test_a_module_class_is_one_call(calculators):
    report = estimate(Net(Scan()), (2, 3, 4), calculators=calculators)
    (scan,) = calls(report, "Scan")
    assert (scan["flops"], scan["macs"], scan["module"]) == (FLOPS, MACS, "inner")
    assert scan["mread"] == 4 * (6 * WIDTH + WEIGHTS) and scan["mwrite"] == 4 * 6 * WIDTH
    assert scan["n_params"] == WEIGHTS and scan["params"] == {"states": STATES}
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == WEIGHTS + 4 * WIDTH + WIDTH
    assert report.status == "complete"


def test_the_hook_counts_the_same():
    model, hook = Net(Scan()), ComputationalCostHook()
    hook.add_custom_cost_calculator(Scan, OWN)
    with torch.no_grad(), hook:
        model(torch.zeros(2, 3, 4))
    report = estimate(model, torch.zeros(2, 3, 4), calculators=[OWN])
    assert {**calls(hook, "Scan")[0], **shares(hook)} == {**calls(report, "Scan")[0], **shares(hook)}


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize("has_formula", [False, True])
def test_the_backward_pass_is_one_call(is_run, has_formula):
    backward = (lambda forward: (7 * forward["x"].size, 1, 2, {}, 5)) if has_formula else None
    own = costs(Scan, shapes=rule, backward=backward)(lambda layer: calc_scan(layer))
    report = of_a_step(Net(Scan()), (2, 3, 4), Scan, own, is_run)
    (scan,) = calls(report, "Scan_backward")
    assert scan["phase"] == "backward" and scan["module"] == "inner"
    assert (scan["flops"], scan["macs"]) == ((7 * 6 * WIDTH, 5) if has_formula else (2 * FLOPS, 2 * MACS))
    inside = [call for call in report.layer_report.values() if call["module"].startswith("inner")]
    assert [call["type"] for call in inside] == ["Scan", "Scan_backward"]
    # The gradient of the weight of the linear layer: 6 rows, 4 by 8 features.
    assert sum(call["macs"] for call in report.layer_report.values() if call["phase"] == "backward") == (
        scan["macs"] + 6 * 4 * WIDTH
    )
    assert any("twice its forward pass" in each.what for each in report.assumptions) != has_formula


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_a_shape_rule_alone_names_what_is_not_counted():
    report = estimate(Net(Scan()), (2, 3, 4), calculators=[costs(Scan, shapes=rule)])
    (ignored,) = report.ignored_layers.values()
    assert report.status == "partial" and ignored["type"].endswith("Scan")
    assert ignored["mread"] == 4 * (6 * WIDTH + WEIGHTS) and ignored["mwrite"] == 4 * 6 * WIDTH


def test_the_inside_is_counted_beside_it_on_request():
    class Plain(nn.Sequential):
        pass

    @costs(Plain, inside=True)
    def calc_plain(layer):
        return 1000, 0, 0, {}

    report = estimate(Net(Plain(nn.Linear(WIDTH, 2))), (3, 4), calculators=[calc_plain])
    assert [call["type"] for call in report.layer_report.values()] == ["linear", "linear", "Plain"]


def test_sizes_are_formulas():
    report = estimate(Net(Scan()), ("batch", 3, 4), calculators=[OWN])
    assert report.subs(batch=2).total_report["flops"] == FLOPS + 6 * 4 * WIDTH


def test_memory_has_the_outputs():
    def peak(**options):
        return estimate(Net(Scan()), (2, 3, 4), calculators=[OWN], memory=True, **options).memory.peak

    weights, x = 4 * (WEIGHTS + 4 * WIDTH + WIDTH), 4 * 6 * WIDTH
    assert peak() == weights + 4 * 6 * 4 + 2 * x


# ``autograd.Function``, functions, and operators without a fake kernel


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, times):
        ctx.save_for_backward(x)
        return x * x * times

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient * x, None


class Applies(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, WIDTH)

    def forward(self, x):
        return Square.apply(self.line(x), 3)


@costs(Square, backward=lambda forward: (2 * forward["x"].size, 0, 0, {}))
def calc_square(layer):
    return 2 * layer["x"].size, layer.read, layer.written, {"times": layer.attrs["times"]}


@pytest.mark.parametrize("is_run", [False, True])
def test_an_autograd_function_is_one_call(is_run):
    report = of_a_step(Applies(), (2, 4), Square, calc_square, is_run)
    (forward,), (backward,) = calls(report, "Square"), calls(report, "Square_backward")
    assert (forward["flops"], forward["params"], backward["flops"]) == (2 * 16, {"times": 3}, 2 * 16)
    products = [call for call in report.layer_report.values() if call["phase"] == "backward" and call["op"] == "mul"]
    assert not products
    assert sum(call["macs"] for call in report.layer_report.values()) == 2 * 4 * WIDTH + 2 * 4 * WIDTH


def kernel(x, weight, *, eps=1e-5):
    return x @ weight


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x):
        return kernel(x, self.weight)


@pytest.mark.parametrize("name", ["function", "dotted name"])
def test_a_function_is_one_call(name):
    key = kernel if name == "function" else f"{__name__}.kernel"
    before = kernel
    report = estimate(Calls(), (2, 4), calculators={key: lambda layer: (5, layer.read, layer.written, layer.attrs)})
    (call,) = report.layer_report.values()
    assert (call["type"], call["flops"], call["n_params"], call["params"]) == ("kernel", 5, 16, {"eps": 1e-5})
    assert kernel is before


def test_an_operator_without_a_fake_kernel_is_counted():
    @torch.library.custom_op("costcore_tests::without_fake", mutates_args=())
    def without_fake(x: torch.Tensor, parts: list[int], none: list[int]) -> torch.Tensor:
        return torch.cat((x, x))

    @costs("costcore_tests::without_fake", shapes=lambda x, parts, none: (2 * x.shape[0], *x.shape[1:]))
    def calc_without_fake(layer):
        return layer.out.size, layer.read, layer.written, layer.attrs

    own = torch.ops.costcore_tests.without_fake
    report = estimate(lambda x: own(x, [1, 2], []), (2, 4), calculators=[calc_without_fake])
    (call,) = report.layer_report.values()
    assert (call["flops"], call["output_shapes"], call["params"]) == (16, [(4, 4)], {"parts": (1, 2)})


@pytest.fixture
def product():
    with torch.library._scoped_library("costcore_formulas", "DEF") as library:
        library.define("product(Tensor x, Tensor w) -> Tensor")
        library.impl("product", lambda x, w: x @ w, "CompositeExplicitAutograd")
        operator = torch.ops.costcore_formulas.product
        yield operator
        flop_registry.pop(operator, None)


def test_an_operator_has_the_formula_that_is_registered_for_flop_counter_mode(product):
    def formula(x_shape, w_shape, *_, out_shape=None, **__):
        return 2 * x_shape[0] * w_shape[0] * out_shape[1]

    register_flop_formula(product)(formula)
    x, w = torch.ones(2, 3), torch.ones(3, 4)
    with torch.no_grad(), ComputationalCostHook() as hook:
        product(x, w)
    for report in (hook.report, estimate(lambda x, w: product(x, w), [x, w])):
        total = report.total_report
        assert (report.status, total["macs"], total["flops"]) == ("complete", 2 * 3 * 4, 2 * 3 * 4)
        assert total["mread"] == 4 * (2 * 3 + 3 * 4)
    twice = estimate(lambda x, w: product(x, w), [x, w], calculators={"costcore_formulas::product": double})
    assert twice.total_report["flops"] == 2 * 2 * 4  # a calculator of the user comes first


def double(layer):
    return 2 * layer.out.size, layer.read, layer.written, {}


@pytest.mark.parametrize("formula", [None, lambda *_, **__: 1 / 0, lambda *_, **__: "many"])
def test_an_operator_without_a_formula_that_works_is_listed(product, formula):
    if formula is not None:
        register_flop_formula(product)(formula)
    with pytest.warns(CostWarning, match="costcore_formulas::product"):
        report = estimate(lambda x, w: product(x, w), [(2, 3), (3, 4)])
    assert report.status == "partial"


def test_mistakes_say_what_to_type():
    with pytest.raises(TypeError, match=r"decorate it with @costcore\.costs"):
        estimate(Net(Scan()), (2, 4), calculators=[calc_scan])
    with pytest.raises(TypeError, match="shapes must be a function"):
        costs(Scan, shapes=(2, 4))
    with pytest.raises(TypeError, match="a calculator must be callable"):
        costs(Scan)(3)
    with pytest.raises(CostError, match="runs on CUDA only"):
        estimate(Net(Scan()), (2, 4))


def test_the_command_line_takes_a_calculator(tmp_path):
    (tmp_path / "net.py").write_text(
        "import costcore\nfrom torch import nn\n\n"
        "class Scan(nn.Module):\n    def forward(self, x):\n        raise NotImplementedError\n\n"
        "@costcore.costs(Scan, shapes=lambda module, x: x)\n"
        "def calc_scan(layer):\n    return 9 * layer['x'].size, layer.read, layer.written, {}\n\n"
        "def make():\n    return nn.Sequential(nn.Linear(4, 8), Scan())\n"
    )
    arguments = ["net.py:make", "--input", "2x4", "--format", "csv", "--unit", "none"]
    command = [sys.executable, "-m", "costcore", *arguments, "--calculator"]
    done = subprocess.run([*command, "net.py:calc_scan"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Scan-1,144," in done.stdout
    failed = subprocess.run([*command, "net.py:make"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 2 and "@costcore.costs" in failed.stderr


def test_a_calculator_of_one_run_states_a_pattern():
    """logcumsumexp is opaque, unless a calculator says that it needs one element at a time; saved reports keep this."""

    @pattern("map")
    def calc_mine(layer):
        return Operations(), layer.read, layer.written, {}

    class Net(nn.Module):
        def forward(self, x):
            return torch.relu(torch.logcumsumexp(x.exp(), 0))

    assert estimate(Net(), (4,)).fused().total_report["n_groups"] == 3
    with pytest.warns(CostWarning, match="replaces the built-in calculator"):
        report = estimate(Net(), (4,), calculators={"logcumsumexp": calc_mine})
    assert report.fused().total_report["n_groups"] == 1
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.fused().report == report.fused().report
