"""Mistakes with PyTorch modules are reported with a remedy."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import CostError, Tensor, estimate, hookimpl, plugins
from costcore.translate import Row
from tests.frontends.pytorch.test_estimate import Call


def test_a_plugin_that_replaces_a_built_in_calculator_is_an_error():
    class Second:
        @hookimpl
        def costcore_calculators(self):
            return {"conv": calc_conv}

    def calc_conv(layer):
        return 0, 0, 0, {}

    plugin = Second()
    plugins.register(plugin)
    try:
        message = r"'conv' has two calculators, costcore\..*\.calc_conv and .*\.calc_conv\. Remove one"
        with pytest.raises(CostError, match=message):
            estimate(nn.Conv2d(3, 8, 3), (1, 3, 8, 8))
    finally:
        plugins.unregister(plugin)
    assert estimate(nn.Conv2d(3, 8, 3), (1, 3, 8, 8)).total_report["macs"] == 8 * 6 * 6 * 3 * 3 * 3


@pytest.mark.parametrize("inputs", [{"x": "input"}, {"x0": "self", "x1": "othr"}])
def test_a_row_that_misnames_an_argument_is_refused_by_its_name(inputs):
    native = "aten::relu" if len(inputs) == 1 else "aten::mul"

    class Rows:
        @hookimpl
        def costcore_rows(self, frontend):
            return [Row(native, "mul", inputs)] if frontend == "pytorch" else []

    plugin = Rows()
    plugins.register(plugin)
    try:
        with pytest.raises(CostError, match=rf"row of {native}: operand x1? reads the unknown argument '(input|othr)'"):
            estimate(Call(lambda x: x.relu() * x), (2, 3))
    finally:
        plugins.unregister(plugin)
    assert estimate(Call(lambda x: x.relu() * x), (2, 3)).total_report["flops"] == 2 * 6


@pytest.mark.parametrize(
    ("inputs", "name", "size", "shape"),
    [
        ([None, 3, 64, 64], "inputs", "None", "(None, 3, 64, 64)"),
        ((1.0, 3, 64, 64), "inputs", "1.0", "(1.0, 3, 64, 64)"),
        ((1, 3, True, 64), "inputs", "True", "(1, 3, True, 64)"),
        ({"x": ((1, 2.5), torch.int64)}, "x", "2.5", "(1, 2.5)"),
    ],
)
def test_a_size_that_is_no_whole_number_is_named(inputs, name, size, shape):
    with pytest.raises(TypeError) as caught:
        estimate(nn.Conv2d(3, 8, 3), inputs)
    assert str(caught.value) == (
        f"{name}: invalid size {size} in the shape {shape} (expected an integer, or a name for formulas in sizes)"
    )


def test_a_negative_size_of_a_tensor_is_refused_as_one_of_a_shape():
    with pytest.raises(ValueError, match=r"inputs: the shape \(1, -3\) has a negative size"):
        estimate(nn.Linear(3, 3), Tensor((1, -3)))


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch's own, when it copies what it exported
def test_an_exported_program_costs_what_its_module_costs():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    program = torch.export.export(net, (torch.zeros(1, 3, 8, 8),), strict=False)
    report = estimate(program, (1, 3, 8, 8))
    assert report.total_report["macs"] == 8 * 36 * 27 + 8 * 36 * 5
    assert report.total_report["n_params_model"] == 8 * 27 + 8 + 8 * 36 * 5 + 5
    assert not report.ignored_layers


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")
def test_an_exported_program_runs_on_the_inputs_it_was_exported_with():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 5)

        def forward(self, x, *, factor):
            return self.layer(x) * factor

    batch = torch.export.Dim("batch", min=2, max=16)
    shapes = {"x": {0: batch}, "factor": None}
    program = torch.export.export(Scaled(), (torch.zeros(4, 8),), {"factor": torch.ones(5)}, dynamic_shapes=shapes)
    report = estimate(program)
    assert report.total_report["macs"] == 4 * 8 * 5
    assert report.notes == ["no inputs were passed: the program ran on its example inputs, (4, 8), (5,)"]
    assert estimate(program, {"x": (3, 8), "factor": (5,)}).total_report["macs"] == 3 * 8 * 5
    with pytest.raises(CostError, match=r"(Guard failed: .*|Expected input at .* to be) <= 16\b"):
        estimate(program, {"x": (17, 8), "factor": (5,)})


def test_an_error_of_the_model_has_file_and_line():
    def scaled(x):
        return x.no_such_method()

    with pytest.raises(CostError) as caught:
        estimate(Call(scaled), (1, 4))
    assert str(caught.value) == (
        "Call: the forward pass on the meta device raised AttributeError: 'Tensor' object has no attribute "
        f"'no_such_method' at {__file__}:{scaled.__code__.co_firstlineno + 1}"
    )


@pytest.mark.parametrize(
    ("model", "inputs", "operands"),
    [
        (
            nn.Sequential(nn.ReLU(), nn.Conv2d(3, 16, 3)),
            (1, 4, 8, 8),
            "conv2d: input (1, 4, 8, 8), weight (16, 3, 3, 3), bias (16,)",
        ),
        (Call(lambda x: x.view(3, 5)), (1, 4), "view: self (1, 4)"),
        (Call(lambda x, y: torch.cat([x, y])), ((1, 4), (3, 5)), "cat: tensors[0] (1, 4), tensors[1] (3, 5)"),
        (Call(lambda x, y: x @ y), ((1, 4), (3, 5)), "matmul: self (1, 4), other (3, 5)"),
        (Call(lambda x: torch.cat([x] * 7 + [x[:, :2]])), (1, 4), "tensors[5] (1, 4) and 2 more"),
        (
            Call(lambda x: functional.cross_entropy(x, torch.zeros(3, dtype=torch.int64, device="meta"))),
            (1, 4),
            "cross_entropy_loss: self (1, 4) float32, target (3,) int64",
        ),
    ],
)
def test_an_error_of_an_operator_states_the_shapes_that_met(model, inputs, operands):
    with pytest.raises(CostError) as caught:
        estimate(model, inputs)
    assert operands in str(caught.value)
    assert str(caught.value).count("operands of") == 1


def test_a_forgotten_batch_is_suggested():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(CostError) as caught:
        estimate(net, (3, 8, 8))
    end = "; is the dimension of the batch missing? Pass (1, 3, 8, 8), on the command line 1x3x8x8"
    assert str(caught.value).endswith(end)
    with pytest.raises(CostError) as caught:
        estimate(nn.Sequential(net, nn.Flatten(2), nn.BatchNorm2d(4)), (1, 3, 8, 8))
    assert "batch missing" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": "first"}, "pass optimizer= too"),
        ({"step": "first", "backward": True}, "pass optimizer= too"),
        ({"step": "accumulated"}, "step='accumulated' changes the backward pass only"),
        ({"checkpoint": "Linear"}, "checkpoint='Linear' changes the backward pass only: pass backward=True"),
    ],
)
def test_options_of_training_are_refused_without_it(options, message):
    with pytest.raises(ValueError, match=message):
        estimate(nn.Linear(4, 2), (1, 4), **options)


def only_on_a_cpu(x):
    with torch.library._scoped_library("only_on_a_cpu", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CPU")
        return torch.ops.only_on_a_cpu.twice(x)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.from_numpy(x.detach().numpy()), "TypeError: can't convert meta device type tensor to numpy"),
        (only_on_a_cpu, "NotImplementedError: only_on_a_cpu::twice: attempted to run this operator with Meta tensors"),
    ],
)
def test_a_model_that_needs_data_is_to_be_counted_in_a_real_run(function, reason):
    with pytest.raises(CostError) as caught:
        estimate(Call(function), (2, 4))
    message, _, rest = str(caught.value).partition(f" at {__file__}:")
    assert message.startswith(f"Call: the forward pass on the meta device raised {reason}")
    assert "count a real run inside ComputationalCostHook instead" in rest
    assert "Use Tensor.cpu" not in message and "landing_page" not in message and "\n" not in message


def test_a_device_that_is_not_there_is_to_be_left_to_the_inputs():
    def to_a_device(x):
        raise AssertionError("Torch not compiled with CUDA enabled")  # as x.cuda() does, where it is not

    with pytest.raises(CostError) as caught:
        estimate(Call(to_a_device), (2, 4))
    assert str(caught.value).endswith(
        "; count a real run inside ComputationalCostHook on a machine with that device, or make the model use the "
        "device of its input"
    )


def test_missing_inputs_are_reported_with_an_example():
    with pytest.raises(CostError) as caught:
        estimate(nn.Linear(4, 2))
    assert str(caught.value) == (
        "the model needs inputs. Linear.forward takes input. For example estimate(model, (1, 4))."
    )
    with pytest.raises(CostError, match=r"raised TypeError: .*missing 1 required positional argument"):
        estimate(Call(lambda: functional.linear(torch.ones(2))))


class Scaled(nn.Module):
    def forward(self, x, scale=1.0):
        return x * scale


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"y": (2, 3)}, "got an unexpected keyword argument 'y'"),
        ({"scale": (2, 3)}, "missing 1 required positional argument: 'x'"),
        (((2,), (2,), (2,)), "takes from 2 to 3 positional arguments but 4 were given"),
    ],
)
def test_inputs_that_forward_does_not_take_are_reported_with_those_that_it_takes(inputs, problem):
    with pytest.raises(CostError) as caught:
        estimate(Scaled(), inputs)
    assert str(caught.value) == (
        f"Scaled: the forward pass on the meta device raised TypeError: Scaled.forward() {problem}; "
        "Scaled.forward takes x, scale (optional)"
    )


def test_a_guess_of_such_a_value_is_explained_where_the_model_runs():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.tensor(3))
            self.register_buffer("unread", torch.arange(4))

        def forward(self, x):
            return x[:, : int(self.n)] + self.unread[:1]

    with torch.device("meta"):
        report = estimate(Scaled(), (1, 8))
    assert report.status == "assumed"
    assert "Scaled: it needs the values of buffer 'n', but" in report.notes[-1]
    assert estimate(Scaled(), (1, 8)).notes == []


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_an_error_of_scripted_code_is_that_of_its_operator():
    flatten = torch.jit.script(_as_seven)
    with pytest.raises(CostError, match=r"raised RuntimeError: shape '\[7\]' is invalid for input of size 6") as caught:
        estimate(nn.Sequential(nn.Linear(3, 3), Called(flatten)), (2, 3))
    assert "TorchScript" not in str(caught.value)


def _as_seven(x):
    return x.view(7)


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
