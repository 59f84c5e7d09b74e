"""Counting leaves the model and PyTorch as they were, whatever happens meanwhile."""

from __future__ import annotations

import queue
import threading

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, CostError, CostWarning, Report, estimate, fit, max_batch
from tests.frontends.pytorch.runs import estimated, record, types
from tests.frontends.pytorch.unchanged import unchanged

X = torch.ones(2, 4)


def model() -> nn.Module:
    """Modules of all kinds of state: frozen, in evaluation within training, with buffers, hooks, attributes."""
    result = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Sequential(nn.Linear(4, 3), nn.RReLU()))
    result[1].eval()
    result[0].weight.requires_grad_(False)
    result[0].register_forward_hook(lambda module, args, output: None)
    result.total_ops = result[3].total_params = 17  # other tools put such attributes there
    return result


DOORS = {
    "inference": lambda net: estimate(net, (2, 4)),
    "backward": lambda net: estimate(net, (2, 4), backward=True),
    "step": lambda net: estimate(net, (2, 4), optimizer="adamw", memory=True),
    "max_batch": lambda net: max_batch(net, ("batch", 4), "2 GiB", optimizer="sgd"),
    "fit": lambda net: fit(net, (2, 4), "24 GB", optimizer="adamw"),
    "suggestions": lambda net: fit(net, (2, 4), "100 B", context=0, optimizer="adamw"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_model_that_is_not_run_stays_as_it_was(door):
    net = model()
    net[3][0].weight.grad = torch.ones(3, 4)
    settings = (torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark)
    functions = {name: value for name, value in vars(nn.functional).items() if callable(value)}
    with unchanged(net):
        DOORS[door](net)
    assert functions.items() <= vars(nn.functional).items()
    assert net[3][0].weight.grad.tolist() == [[1.0] * 4] * 3
    assert settings == (
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.benchmark,
    )


def test_a_counted_run_changes_what_the_run_changes_and_no_more():
    net, twin = model(), model()
    twin.load_state_dict(net.state_dict())
    torch.manual_seed(0)
    expected = twin(X)
    expected_state = torch.get_rng_state()
    torch.manual_seed(0)
    with ComputationalCostHook(frontends=["pytorch"]):
        found = net(X)
    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), expected_state)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), twin.state_dict().values(), strict=True))
    with unchanged(net), torch.random.fork_rng(), ComputationalCostHook(frontends=["pytorch"]):
        net.eval()(X)
        net.train()
        net[1].eval()


def test_p03_one_hook_entered_twice_is_refused_and_goes_on():
    net, cch = nn.Linear(4, 4), ComputationalCostHook(frontends=["pytorch"])
    with unchanged(net):
        with cch:
            net(X)
            with pytest.raises(CostError, match="already active"), cch:
                net(X)
            net(X)
        assert cch.total_report["macs"] == 2 * 2 * 4 * 4


def test_p06_a_report_that_misses_other_threads_is_partial():
    net, given = nn.Linear(4, 4), queue.Queue()

    def work():
        while (done := given.get()) is not None:
            net(X)
            done.set()

    thread = threading.Thread(target=work)
    thread.start()

    def elsewhere():
        done = threading.Event()
        given.put(done)
        done.wait()

    warning = "modules also ran in other threads: .* not counted; a hook sees the thread that entered it"
    with pytest.warns(CostWarning, match=warning), ComputationalCostHook() as outer:
        net(X)
        with ComputationalCostHook() as inner:
            elsewhere()
    assert (outer.report.status, inner.report.status) == ("partial", "partial")
    assert outer.total_report["macs"] == 2 * 4 * 4 and inner.total_report["macs"] == 0
    assert list(inner.ignored_layers) == ["other_threads-1"]
    assert Report.from_json(inner.report.to_json()) == inner.report

    class Model(nn.Module):  # an estimate is of the model alone
        def forward(self, x):
            elsewhere()
            return x + x

    report = estimate(Model(), (2, 4))
    assert report.status == "complete" and not report.notes
    given.put(None)
    thread.join()


@pytest.mark.parametrize("action", ["raise", "edit", "replace", "remove"])
def test_p34_hooks_of_the_user(action):
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def hook(module, args, output):
        if action == "raise":
            raise LookupError("the user's")
        if action == "replace":
            module.weight = nn.Parameter(torch.zeros(4, 4))
        if action == "remove":
            handle.remove()
        return output * 2 if action == "edit" else None

    handle = net[0].register_forward_hook(hook)
    if action == "raise":
        with unchanged(net), pytest.raises(LookupError):
            record(lambda: net(X))
        with unchanged(net), pytest.raises(CostError, match="LookupError"):
            estimate(net, (2, 4))
        return
    with unchanged(net):
        found = [t for t in types(estimated(net, (2, 4))) if t != "zeros"]
    assert found == (["linear", "mul", "relu"] if action == "edit" else ["linear", "relu"])
    assert [t for t in types(record(lambda: net(X))) if t != "zeros"] == found


def test_p34_modules_that_are_made_and_replaced_while_they_run():
    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            self.second = nn.Linear(4, 3, device=x.device)
            return self.second(x)

    net = Growing()
    with unchanged(net):
        recorder = estimated(net, (2, 4))
    assert [(c.type, c.module) for c in recorder.calls if c.type == "linear"] == [
        ("linear", "first"),
        ("linear", "second"),
    ]
    recorder = record(lambda: net(X))
    assert [c.module for c in recorder.calls if c.type == "linear"] == ["first", "second"]
