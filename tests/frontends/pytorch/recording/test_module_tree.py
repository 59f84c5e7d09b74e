"""Facts about the modules of a model: classes with their bases, parameters by name, int kernels."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import nn

from tests.frontends.pytorch.runs import estimated, record

T = TypeVar("T")


class Mixin(Generic[T]):
    """A class that is not a module."""


class Narrow(Mixin[int], nn.Linear):
    """A subclass of a module of PyTorch, with another base before it."""


def modules(model: nn.Module, *shape: int) -> dict[str, Any]:
    return estimated(model, shape).modules


def test_bases_are_qualified_and_end_before_module():
    found = modules(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), 1, 3, 8, 8)
    assert found["0"].bases == ("torch.nn.modules.conv.Conv2d", "torch.nn.modules.conv._ConvNd")
    assert found["1"].bases == (
        "torch.nn.modules.batchnorm.BatchNorm2d",
        "torch.nn.modules.batchnorm._BatchNorm",
        "torch.nn.modules.batchnorm._NormBase",
    )
    assert found[""].bases == ("torch.nn.modules.container.Sequential",)


def test_bases_of_a_class_of_the_user_with_a_mixin():
    assert modules(Narrow(4, 2), 1, 4)[""].bases == (
        f"{__name__}.Narrow",
        f"{__name__}.Mixin",
        "typing.Generic",
        "torch.nn.modules.linear.Linear",
    )


def test_own_parameters_by_name():
    found = modules(nn.Sequential(nn.Linear(4, 2), nn.PReLU(), nn.Linear(2, 3, bias=False)), 1, 4)
    assert found["0"].own == (("weight", 4 * 2), ("bias", 2))
    assert found["1"].own == (("weight", 1),)
    assert found["2"].own == (("weight", 2 * 3),)
    assert found[""].own == ()


def test_a_module_at_two_paths_owns_its_parameters_once():
    tied = nn.Linear(4, 4)
    found = modules(nn.Sequential(tied, nn.Sequential(tied)), 1, 4)
    assert found["0"].own == (("weight", 16), ("bias", 4))
    assert (found["1.0"].own, found["1.0"].same_as, found["1.0"].bases) == ((), "0", found["0"].bases)


def test_int_kernels():
    model = nn.Sequential(nn.Conv2d(3, 3, 3), nn.MaxPool2d(2), nn.AvgPool2d((2, 2)), nn.LPPool2d(2, 1), nn.ReLU())
    found = modules(model, 1, 3, 18, 18)
    assert [found[f"{i}"].kernel_is_int for i in range(5)] == [False, True, False, True, False]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("compile", [torch.jit.script, lambda model: torch.jit.trace(model, torch.ones(1, 4))])
def test_parameters_of_compiled_modules(compile):
    model = compile(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).eval())
    found = record(lambda: model(torch.ones(1, 4))).modules
    assert found["0"].own == (("weight", 8), ("bias", 2))
    assert found["1"].own == (("weight", 2), ("bias", 2))
    assert found["1"].buffers == 2 + 2 + 1  # mean, variance and the number of batches
