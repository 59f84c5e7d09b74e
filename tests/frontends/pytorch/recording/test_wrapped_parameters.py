"""Parameters that are wrapper subclasses, such as quantized weights, and weights that take the place of parameters."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate


class Int8Weight(torch.Tensor):
    """A weight of int8 with a scale per row, in the way of torchao: a product converts it to floats."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale) -> None:
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["data_"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is functional.linear:
            x, weight, *bias = args
            return functional.linear(x, weight.data_.to(weight.scale.dtype) * weight.scale, *bias)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default, torch.ops.aten._to_copy.default):
            weight = args[0]
            apply = lambda x: func(x, **{k: v for k, v in (kwargs or {}).items() if k == "device"})  # noqa: E731
            return cls(apply(weight.data_), apply(weight.scale))
        raise NotImplementedError(func)


def quantized():
    layer = nn.Linear(256, 64)
    weight = Int8Weight(torch.zeros(64, 256, dtype=torch.int8), torch.ones(64, 1))
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return nn.Sequential(layer)


def test_elements_of_a_wrapped_weight_are_parameters():
    """64 x 256 elements and 64 of the bias; the scales belong to the weight, in whose place they stand."""
    model, x = quantized(), torch.ones(4, 256)
    with ComputationalCostHook() as cch:
        model(x)
    report = estimate(model, (4, 256))
    assert cch.total_report["n_params"] == report.total_report["n_params"] == 64 * 256 + 64
    assert not any("no call reads" in note for note in report.notes)
    converted = next(iter(cch.layer_report.values()))
    assert (converted["type"], converted["mread"], converted["n_params"]) == ("to", 64 * 256, 64 * 256)


def test_weights_of_an_ensemble_are_parameters():
    """Three models of 8 x 4 + 4 and 4 x 2 + 2 elements, stacked."""
    models = [nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2)) for _ in range(3)]
    weights, buffers = torch.func.stack_module_state(models)

    def run(weights, buffers, x):
        return torch.func.functional_call(models[0], (weights, buffers), (x,))

    with ComputationalCostHook() as cch:
        torch.vmap(run, (0, 0, None))(weights, buffers, torch.ones(5, 8))
    assert cch.total_report["n_params"] == 3 * (8 * 4 + 4 + 4 * 2 + 2)


def test_an_argument_that_needs_a_gradient_is_no_parameter():
    x = torch.ones(5, 8, requires_grad=True)
    with ComputationalCostHook() as cch:
        nn.Linear(8, 4)(x * 1)
        nn.Softmax(-1)(x)
    assert cch.total_report["n_params"] == 8 * 4 + 4


def test_products_with_a_result_of_another_dtype():

    class Product(nn.Module):
        def forward(self, x, w):
            return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, w)

    x, w = torch.zeros(32, 64, dtype=torch.int8), torch.zeros(64, 16, dtype=torch.int8)
    report = estimate(Product(), (x, w))
    assert report.status == "complete"
    assert report.total_report["macs"] == 32 * 64 * 16
    assert report.total_report["mread"] == 32 * 64 + 64 * 16
