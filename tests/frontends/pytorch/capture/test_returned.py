"""Facts about values: what a model returned, which operands are not contiguous, which overload ran."""

from __future__ import annotations

import gc
import weakref
from collections import UserDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.frontends.pytorch.runs import estimated, record


@dataclass
class Output:
    """What some models return."""

    scores: Tensor
    extra: Any = None
    unset: Any = field(init=False)


class Pair(NamedTuple):
    first: Tensor
    second: Any


class Returns(nn.Module):
    """Returns what ``pack`` makes of two tensors."""

    def __init__(self, pack: Any) -> None:
        super().__init__()
        self.inner, self.pack = nn.Sequential(nn.ReLU()), pack

    def forward(self, x: Tensor) -> Any:
        return self.pack(self.inner(x), x.sigmoid())


def outputs(recorder: Any) -> list[int]:
    return [identity for call in recorder.calls for identity in call.outputs]


PACKS = {
    "one tensor": (lambda a, b: a, (0,)),
    "a tuple": (lambda a, b: (b, a), (1, 0)),
    "a list in a dict": (lambda a, b: {"x": [a, 3, "text", None], "y": b}, (0, 1)),
    "a mapping": (lambda a, b: UserDict(x=b, y=a), (1, 0)),
    "a dataclass": (lambda a, b: Output(a, {"b": (b,)}), (0, 1)),
    "a named tuple": (lambda a, b: Pair(b, [a, a]), (1, 0, 0)),
    "one container twice": (lambda a, b: [[a]] * 2, (0, 0)),
    "no tensor": (lambda a, b: 3, ()),
}


@pytest.mark.parametrize("kind", PACKS)
def test_returned_are_the_tensors_in_order(kind):
    pack, expected = PACKS[kind]
    model, x = Returns(pack), torch.ones(2, 3)
    for recorder in (estimated(model, (2, 3)), record(lambda: model(x))):
        relu, sigmoid = outputs(recorder)
        assert recorder.returned == [(relu, sigmoid)[i] for i in expected]


def test_an_input_and_a_parameter_that_are_returned():
    model = nn.ReLU()
    model.w = nn.Parameter(torch.ones(3))
    model.forward = lambda x: (x, torch.relu(x), model.w)
    x = torch.ones(2)
    recorder = record(lambda: model(x))
    (call,) = recorder.calls
    assert recorder.returned[:2] == [*call.inputs, *call.outputs]
    assert len({*recorder.returned}) == 3


def test_modules_that_run_again_in_the_backward_pass_return_nothing():
    model, x = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), torch.ones(1, 2)
    recorder = record(lambda: checkpoint(model, x, use_reentrant=False).sum().backward())
    assert "recompute" in {call.phase for call in recorder.calls}
    assert recorder.returned == outputs(recorder)[1:2]


def test_returned_tensors_are_not_kept():
    returned, x = [], torch.ones(2)

    def run():
        y = nn.ReLU()(x)
        returned.append(weakref.ref(y))

    recorder = record(run)
    gc.collect()
    assert returned[0]() is None
    assert len(recorder.returned) == 1


def test_operands_that_are_not_contiguous():
    linear, x, y = nn.Linear(4, 2), torch.ones(4, 3), torch.ones(2)
    recorder = record(lambda: linear(x.t()) + y)
    found = {call.type: call.strided for call in recorder.calls}
    assert found["t"] == found["add"] == ()
    assert found["linear"] == (0,)  # x of 3 x 4 with strides 1, 3


def test_equal_shapes_with_other_strides_are_told_apart():
    a = torch.ones(3, 3)
    recorder = record(lambda: (a @ a, a.t() @ a, a @ a.t(), a.t() @ a.t()))
    assert [call.strided for call in recorder.calls if call.type == "matmul"] == [(), (0,), (1,), (0, 1)]


def test_numbers_and_missing_operands_do_not_shift_positions():
    x = torch.ones(2, 3)
    recorder = record(lambda: 2 * x.t())
    (call,) = (call for call in recorder.calls if call.type == "mul")
    (position,) = call.strided
    assert list(call.layer.inputs.values())[position].shape == (3, 2)


def test_the_overload():
    x, w = torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3)
    recorder = record(lambda: (functional.conv2d(x, w), functional.conv2d(x, w, padding="same"), x.relu(), x + 1))
    assert [call.overload for call in recorder.calls] == ["", "padding", "", "Tensor"]
    assert {call.native for call in recorder.calls[:2]} == {"aten::conv2d"}
