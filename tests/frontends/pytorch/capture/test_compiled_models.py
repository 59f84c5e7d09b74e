"""Compiled models run as written while anything is captured, and compiled before and afterwards."""

from __future__ import annotations

import threading

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode
from torch.utils.flop_counter import FlopCounterMode

from costcore import estimate
from tests.frontends.pytorch.runs import capturing, record, state_of_torch, types

X = torch.ones(2, 3, 4)


def compiler_functions():
    return {name: value for name, value in vars(torch._dynamo.eval_frame).items() if callable(value)}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(monkeypatch):
    torch._dynamo.reset()
    # the compiler of PyTorch 2.4 leaves it set, without costcore
    monkeypatch.setattr(_python_dispatch, "_is_in_torch_dispatch_mode", False)
    before, compiler = state_of_torch(), compiler_functions()
    yield
    assert state_of_torch() == before
    assert compiler_functions() == compiler


class Compiled:
    """A compiled linear layer, and how often it ran compiled."""

    def __init__(self) -> None:
        self.n_runs = 0

        def backend(graph, inputs):
            def run(*args):
                self.n_runs += 1
                return graph.forward(*args)

            return run

        self.model = torch.compile(nn.Linear(4, 5), backend=backend)


def test_captures_of_two_threads_that_overlap():
    """The first one to begin is the first one to end, and the second one still sees the model as written."""
    compiled, recorders = Compiled(), []
    began, ended = threading.Event(), threading.Event()

    def second():
        with capturing() as recorder:
            recorders.append(recorder)
            began.set()
            assert ended.wait(60)
            compiled.model(X)

    thread = threading.Thread(target=second)
    with capturing():
        thread.start()
        assert began.wait(60)
    ended.set()
    thread.join()
    assert types(recorders[0]) == ["linear"]
    assert not is_in_torch_dispatch_mode()
    compiled.model(X)
    assert compiled.n_runs == 1


def test_a_capture_that_ends_before_a_mode_inside_it():
    context = capturing()
    context.__enter__()
    with FlopCounterMode(display=False):
        context.__exit__(None, None, None)
    assert not is_in_torch_dispatch_mode()


def test_a_capture_inside_a_compiled_function_leaves_it_compiled():
    compiled, found = Compiled(), []

    @torch._dynamo.disable
    def count():
        found.append(types(record(lambda: compiled.model(X))))

    def backend(graph, inputs):
        return graph.forward

    def function(x):
        count()
        return x + 1

    torch.compile(function, backend=backend)(X)
    assert found == [["linear"]]
    compiled.model(X)
    assert compiled.n_runs == 1


def layers():
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))


def compiled_child():
    net = layers()
    net[1] = torch.compile(net[1], backend="eager")
    return net


def compiled_in_place():
    net = layers()
    net.compile(backend="eager")
    return net


def compiled_forward():
    net = layers()
    net.forward = torch.compile(net.forward, backend="eager")
    return net


@pytest.mark.parametrize(
    "make",
    [lambda: torch.compile(layers(), backend="eager"), compiled_child, compiled_in_place, compiled_forward],
    ids=["model", "child", "in place", "forward"],
)
@pytest.mark.parametrize("backward", [False, True])
def test_an_estimate_is_that_of_the_module_before_it_was_compiled(make, backward):
    expected = estimate(layers(), (3, 4), backward=backward)
    report = estimate(make(), (3, 4), backward=backward)
    assert [(call.native, call.module, call.layer) for call in report.trace.calls] == [
        (call.native, call.module, call.layer) for call in expected.trace.calls
    ]
    assert report.total_report == expected.total_report
    assert report.trace.run.modules == expected.trace.run.modules
    assert report.total_report["n_params_model"] == 4 * 4 + 4 + 4 * 2 + 2
