"""What people do wrong with modules of PyTorch is told in a sentence that helps."""

import numpy
import pytest
import torch
from sympy import Symbol
from torch import nn

from costcore import CostError, Tensor, estimate, hookimpl, plugins
from costcore.frontends.pytorch.capture import can_frame


def test_a_plugin_that_replaces_a_built_in_calculator_is_told_once():
    class Second:
        @hookimpl
        def costcore_calculators(self):
            return {"conv": calc_conv}

    def calc_conv(layer):
        return 0, 0, 0, {}

    plugin = Second()
    can_frame.cache_clear()  # the first capture of a process tries one in a thread, where nobody hears of a failure
    plugins.register(plugin)
    try:
        with pytest.raises(CostError, match=r"'conv' has two calculators, costcore\..*\.calc_conv and .*\.calc_conv;"):
            estimate(nn.Conv2d(3, 8, 3), (1, 3, 8, 8))
    finally:
        plugins.unregister(plugin)
    assert estimate(nn.Conv2d(3, 8, 3), (1, 3, 8, 8)).total_report["macs"] == 8 * 6 * 6 * 3 * 3 * 3
    assert can_frame()


@pytest.mark.parametrize(
    ("inputs", "name", "size", "shape"),
    [
        (("batch", 3, 64, 64), "inputs", "'batch'", "('batch', 3, 64, 64)"),
        ([None, 3, 64, 64], "inputs", "None", "(None, 3, 64, 64)"),
        ((1.0, 3, 64, 64), "inputs", "1.0", "(1.0, 3, 64, 64)"),
        ((1, 3, True, 64), "inputs", "True", "(1, 3, True, 64)"),
        ((Symbol("n"), 3, 64, 64), "inputs", "n", "(n, 3, 64, 64)"),
        (Tensor((1, "b"), "int64"), "inputs", "'b'", "(1, 'b')"),
        ([Tensor((1, 3)), Tensor((Symbol("n"), 3))], "inputs[1]", "n", "(n, 3)"),
        ((("batch", 3), torch.int64), "inputs", "'batch'", "('batch', 3)"),
        ({"x": ((1, 2.5), torch.int64)}, "x", "2.5", "(1, 2.5)"),
    ],
)
def test_a_size_that_is_no_whole_number_is_named(inputs, name, size, shape):
    with pytest.raises(TypeError) as caught:
        estimate(nn.Conv2d(3, 8, 3), inputs)
    assert str(caught.value) == (
        f"{name}: {size} in the shape {shape} is no size of an input of a PyTorch module; a size is a whole number "
        "(symbols are for ONNX models)"
    )


def test_a_negative_size_of_a_tensor_is_refused_as_one_of_a_shape():
    with pytest.raises(ValueError, match=r"inputs: the shape \(1, -3\) has a negative size"):
        estimate(nn.Linear(3, 3), Tensor((1, -3)))


def test_integers_of_other_types_are_sizes():
    report = estimate(nn.Linear(3, 5), Tensor((numpy.int64(2), numpy.int32(3))))
    assert report.total_report["macs"] == 2 * 3 * 5


def test_numbers_and_words_beside_a_tensor_are_arguments():
    class Scaled(nn.Module):
        def forward(self, x, factor, mode):
            return x * factor if mode == "up" else x

    assert estimate(Scaled(), ((2, 3), 2, "up")).total_report["flops"] == 2 * 3


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # of torch's own
def test_a_compiled_module_is_told_to_be_given_before():
    net = nn.Sequential(nn.Linear(3, 3), torch.compile(nn.ReLU()))
    with pytest.raises(CostError) as caught:
        estimate(net, (1, 3))
    assert str(caught.value) == "this ReLU was compiled by torch.compile; give estimate the ReLU before compiling"


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch's own, when it copies what it exported
def test_an_exported_program_costs_what_its_module_costs():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    program = torch.export.export(net, (torch.zeros(1, 3, 8, 8),))
    report = estimate(program, (1, 3, 8, 8))
    assert report.total_report["macs"] == 8 * 36 * 27 + 8 * 36 * 5
    assert report.total_report["n_params_model"] == 8 * 27 + 8 + 8 * 36 * 5 + 5
    assert not report.ignored_layers
