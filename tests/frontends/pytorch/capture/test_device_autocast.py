"""An estimate honours autocast of a device that this machine does not have; PyTorch disables it where it runs."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch import nn

from costcore import estimate

if torch.cuda.is_available():
    pytest.skip("PyTorch disables nothing on a machine with CUDA", allow_module_level=True)


class Net(nn.Module):
    """A linear layer in a context, and one in a context inside of that."""

    def __init__(self, context, inner=nullcontext):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)
        self.context, self.inner = context, inner

    def forward(self, x):
        with self.context():
            x = self.a(x)
            with self.inner():
                return self.b(x.float())


def cuda(*args, **kwargs):
    return lambda: torch.autocast("cuda", *args, **kwargs)


def of_cuda_amp(*args, **kwargs):
    @contextmanager
    def context():
        with ignored():
            made = torch.cuda.amp.autocast(*args, **kwargs)
        with made:
            yield

    return context


@contextmanager
def ignored():
    """The class of torch.cuda.amp is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


HALF, BRAIN, FULL = "float16", "bfloat16", "float32"

CONTEXTS = {
    "the default of CUDA is float16": (cuda(), nullcontext, [HALF, HALF]),
    "a dtype": (cuda(torch.bfloat16), nullcontext, [BRAIN, BRAIN]),
    "disabled": (cuda(enabled=False), nullcontext, [FULL, FULL]),
    "disabled inside": (cuda(), cuda(enabled=False), [HALF, FULL]),
    "another dtype inside": (cuda(torch.bfloat16), cuda(torch.float16), [BRAIN, HALF]),
    "enabled inside of a disabled one": (cuda(enabled=False), cuda(torch.bfloat16), [FULL, BRAIN]),
    "disabled inside of one of the CPU": (lambda: torch.autocast("cpu"), cuda(enabled=False), [BRAIN, FULL]),
    "one of the CPU": (lambda: torch.autocast("cpu", torch.float16), nullcontext, [HALF, HALF]),
    "torch.cuda.amp": (of_cuda_amp(), nullcontext, [HALF, HALF]),
    "torch.cuda.amp with a dtype": (of_cuda_amp(dtype=torch.bfloat16), nullcontext, [BRAIN, BRAIN]),
    "torch.cuda.amp, disabled": (of_cuda_amp(False), nullcontext, [FULL, FULL]),
    "another accelerator": (lambda: torch.autocast("xpu", torch.bfloat16), nullcontext, [BRAIN, BRAIN]),
}


def dtypes_of_products(report, phase="forward"):
    products = ("linear", "mm", "matmul", "addmm")
    return [call.layer.out.dtype for call, *_ in report.trace if call.type in products and call.phase == phase]


@pytest.mark.parametrize("case", CONTEXTS)
def test_products_run_in_the_dtype_of_autocast(case):
    context, inner, expected = CONTEXTS[case]
    report = estimate(Net(context, inner), (8, 64), strict=True)
    assert dtypes_of_products(report) == expected
    assert not report.notes


def test_normalization_and_softmax_are_computed_in_float32_on_cuda():
    """By ``aten/src/ATen/autocast_mode.h``: AT_FORALL_FP32 has layer_norm and softmax for CUDA."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.n = nn.Linear(8, 8), nn.LayerNorm(8)

        def forward(self, x):
            with torch.autocast("cuda"):
                return self.n(self.a(x)).softmax(-1)

    found = {call.type: call.layer.out.dtype for call, *_ in estimate(Model(), (2, 8)).trace}
    assert (found["linear"], found["layer_norm"], found["softmax"]) == (HALF, FULL, FULL)


def test_code_sees_that_autocast_is_enabled():
    seen = []

    class Model(nn.Linear):
        def forward(self, x):
            with torch.autocast("cuda"):
                seen.append((torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")))
                with torch.autocast("cuda", enabled=False):
                    seen.append(torch.is_autocast_enabled("cuda"))
            return super().forward(x)

    estimate(Model(4, 4), (2, 4))
    assert seen == [(True, torch.float16), False]
    assert not torch.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not torch.autocast("cuda")._enabled


class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


def test_functions_that_cast_their_inputs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)

        def forward(self, x):
            with torch.autocast("cuda"):
                return Product.apply(self.a(x), self.a.weight)

    report = estimate(Model(), (2, 8), backward=True)
    assert dtypes_of_products(report) == [HALF, FULL]
    assert dtypes_of_products(report, "backward") == [FULL, FULL, HALF]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    class Decorated(nn.Module):
        """Its decorators were made when PyTorch disabled them."""

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)  # PyTorch casts a weight once

        @torch.autocast("cuda")
        def enabled(self, x):
            return self.b(x)

        @torch.autocast("cuda", enabled=False)
        def disabled(self, x):
            return self.a(x.float())

        @torch.cuda.amp.autocast(True, torch.bfloat16)
        def forward(self, x):
            return self.enabled(self.disabled(self.a(x)))


def test_decorators_say_whether_they_are_enabled():
    assert dtypes_of_products(estimate(Decorated(), (2, 8), strict=True)) == [BRAIN, FULL, HALF]


def test_an_object_made_before_is_assumed_enabled():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        made = torch.autocast("cuda", torch.bfloat16)
    report = estimate(Net(lambda: made), (8, 64))
    assert dtypes_of_products(report) == [BRAIN, BRAIN]
    assert report.status == "assumed"
    assert [each.what for each in report.assumptions] == [
        'torch.autocast("cuda") was made outside of the forward pass, where PyTorch disables it on a machine without '
        "CUDA: assumed enabled"
    ]
