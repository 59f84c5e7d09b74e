"""Counting leaves the model and PyTorch as they were, whatever happens meanwhile."""

from __future__ import annotations

import gc
import queue
import threading

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from costcore import ComputationalCostHook, CostError, CostWarning, Report, estimate
from tests.frontends.pytorch.runs import capturing, estimated, macs, record, types
from tests.frontends.pytorch.unchanged import unchanged

X = torch.ones(2, 4)


class Failing(nn.Module):
    """Raises in the middle of its forward pass."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.before, self.after, self.error = nn.Linear(4, 4), nn.Linear(4, 4), error

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            x = self.before(x)
            raise self.error


def model() -> nn.Module:
    """Modules of all kinds of state: frozen, in evaluation within training, with buffers, hooks, attributes."""
    result = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Sequential(nn.Linear(4, 3), nn.RReLU()))
    result[1].eval()
    result[0].weight.requires_grad_(False)
    result[0].register_forward_hook(lambda module, args, output: None)
    result.total_ops = result[3].total_params = 17  # other tools put such attributes there
    return result


@pytest.mark.parametrize("backward", [False, True])
def test_an_estimate_changes_nothing(backward):
    net = model()
    with unchanged(net):
        estimate(net, (2, 4), backward=backward)


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


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), StopIteration(), RecursionError()], ids=repr)
def test_p01_an_exception_of_the_model(error):
    net = Failing(error)
    cch = ComputationalCostHook(frontends=["pytorch"])
    with unchanged(net), pytest.raises(type(error)), cch:
        net(X)
    assert [entry["type"] for entry in cch.layer_report.values()] == ["to"] * 3 + ["linear"]  # what ran until then
    with unchanged(net), pytest.raises((CostError, type(error))):
        estimate(net, (2, 4))


def test_p01_the_error_of_an_estimate_names_the_module():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Failing(ValueError("odd"))))
    with unchanged(net), pytest.raises(CostError, match=r"module 1\.0 \(Failing\): .*ValueError: odd"):
        estimate(net, (2, 4))


@pytest.mark.parametrize("step", ["modules", "composites", "functions", "mode"])
def test_p02_an_exception_while_a_capture_is_being_set_up(step, monkeypatch):
    from costcore.frontends.pytorch.capture import composites, context
    from costcore.frontends.pytorch.capture.dispatch_mode import CaptureMode

    def fail(*_):
        raise OSError("half way")

    places = {
        "modules": (context, "_patch_module_calls"),
        "composites": (composites, "register_composite_kernels"),
        "functions": (context, "patch_dispatch"),
        "mode": (CaptureMode, "__enter__"),
    }
    net = model()
    estimated(net, (2, 4))
    with unchanged(net):
        with monkeypatch.context() as patch:
            patch.setattr(*places[step], fail)
            with pytest.raises(OSError, match="half way"):
                record(lambda: net(X))
        assert types(record(lambda: net[0](X))) == ["linear"]


def test_p02_an_exception_of_our_own_in_the_middle_of_a_run(monkeypatch):
    from costcore.frontends.pytorch.recording.recording import CallLog

    net = nn.Linear(4, 4)

    def fail(*_):
        raise AssertionError("a mistake of ours")

    with unchanged(net):
        with monkeypatch.context() as patch:
            patch.setattr(CallLog, "append", fail)
            with pytest.raises(AssertionError, match="ours"):
                record(lambda: net(X))
        assert types(record(lambda: net(X))) == ["linear"]


def test_p03_one_hook_entered_twice_is_refused_and_goes_on():
    net, cch = nn.Linear(4, 4), ComputationalCostHook(frontends=["pytorch"])
    with unchanged(net):
        with cch:
            net(X)
            with pytest.raises(CostError, match="already active"), cch:
                net(X)
            net(X)
        assert cch.total_report["macs"] == 2 * 2 * 4 * 4


def test_p04_hooks_one_after_another_and_one_in_another():
    net, outer, inner = nn.Linear(4, 4), *(ComputationalCostHook(frontends=["pytorch"]) for _ in range(2))
    with unchanged(net):
        for _ in range(2):
            with outer:
                net(X)
            assert outer.total_report["macs"] == 2 * 4 * 4
        with outer, inner:
            net(X)
        assert outer.total_report["macs"] == inner.total_report["macs"] == 2 * 4 * 4
        with outer:
            nested = estimate(net, (3, 4))
            net(X)
        assert nested.total_report["macs"] == 3 * 4 * 4


def test_p05_threads_record_their_own_calls_and_those_of_the_threads_they_start():
    counts: dict[int, int] = {}
    start = threading.Barrier(4)

    nets = {n: nn.Sequential(*(nn.Linear(4, 4) for _ in range(n))) for n in (1, 2, 3, 4)}

    def work(n):
        start.wait()
        recorder = record(lambda: [nets[n](X) for _ in range(10)])
        counts[n] = macs(recorder.calls)
        assert recorder.notes == []

    net = nn.Linear(4, 4)
    with unchanged(net):
        threads = [threading.Thread(target=work, args=(n,)) for n in nets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == {n: 10 * n * 2 * 4 * 4 for n in nets}

        def elsewhere():
            thread = threading.Thread(target=net, args=(X,))
            thread.start()
            thread.join()

        recorder = record(elsewhere)
    assert [call.native for call in recorder.calls] == ["aten::linear"]
    assert recorder.notes == []


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

    warning = "modules also ran in other threads: .* not counted; a hook sees the thread it was entered in"
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


def test_p06_a_generator_that_is_left_alone():
    def suspended():
        with capturing():
            yield

    net = nn.Linear(4, 4)
    with unchanged(net):
        running = suspended()
        next(running)
        running.close()
        forgotten = suspended()
        next(forgotten)
        del forgotten
        gc.collect()
    with unchanged(net), FlopCounterMode(display=False) as other:
        running = suspended()
        next(running)
        net(X)
        running.close()
    assert other.get_total_flops() == 2 * 2 * 4 * 4


def test_p06_a_hook_that_is_left_in_a_generator_counts_what_runs_meanwhile():
    cch = ComputationalCostHook(frontends=["pytorch"])

    def steps():
        with cch:
            for _ in range(2):
                yield

    net = nn.Linear(4, 4)
    for _ in steps():
        net(X)
    assert cch.total_report["macs"] == 2 * 2 * 4 * 4


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


def test_an_unsupported_operator_warns_and_changes_nothing():
    with torch.library._scoped_library("costcoretest", "DEF") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x + 0, "CompositeExplicitAutograd")
        cch = ComputationalCostHook(frontends=["pytorch"])
        with unchanged(), pytest.warns(CostWarning, match="costcoretest::odd"), cch:
            torch.ops.costcoretest.odd(X)
    assert list(cch.ignored_layers) == ["costcoretest::odd-1"]
