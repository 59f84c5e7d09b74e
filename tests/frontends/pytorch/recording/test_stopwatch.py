"""Clocks of single calls. No accelerator is needed: a stand-in has a stream on which events are recorded in order."""

from __future__ import annotations

import time
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch

from costcore import ComputationalCostHook
from costcore.frontends.pytorch.recording import recording

X = torch.ones(4, 8)
W = torch.ones(3, 8)


class Stream:
    """A stream of an accelerator: a call is launched at once, and ends when its work does."""

    def __init__(self) -> None:
        self.now = 0.0  # milliseconds of work before this point
        self.is_done = False
        self.log: list[str] = []

    def work(self, milliseconds: float) -> None:
        self.now += milliseconds
        self.log.append("work")


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self, stream: Stream) -> None:
        self.stream, self.at = stream, stream.now
        stream.log.append("event")

    def elapsed_time(self, end: Event) -> float:
        assert self.stream.is_done, "an event is read before the device was synchronized"
        return end.at - self.at


@pytest.fixture
def accelerator(monkeypatch):
    """Operators on float64 tensors run on an accelerator."""
    stream = Stream()

    def synchronize(device: torch.device | None = None) -> None:
        stream.is_done = True
        stream.log.append("synchronize")

    module = SimpleNamespace(Event=Event, synchronize=synchronize, is_available=lambda: True)
    module.current_stream = lambda device: stream
    module.is_current_stream_capturing = lambda: False
    monkeypatch.setattr(torch, "toy", module, raising=False)
    device = namedtuple("Device", "type")("toy")
    monkeypatch.setattr(recording, "accelerator_of", lambda tensors, _: device if is_on_it(tensors) else None)
    stream.module, module.stream = module, stream
    return stream


def is_on_it(tensors) -> bool:
    return any(tensor.dtype == torch.float64 for tensor in tensors)


@torch.library.custom_op("stopwatch_test::kernel", mutates_args=(), schema="(Tensor x, float milliseconds) -> Tensor")
def kernel(x: torch.Tensor, milliseconds: float) -> torch.Tensor:
    """Launches work of that many milliseconds."""
    torch.toy.stream.work(milliseconds)
    return x.clone()


def test_the_time_of_a_call_is_that_between_its_events(accelerator):
    watch = recording.Stopwatch([X.double()])
    accelerator.work(2)
    first = watch.stop()
    watch = recording.Stopwatch([X.double()])
    accelerator.work(0.5)
    second = watch.stop()
    assert "synchronize" not in accelerator.log
    assert recording.seconds_of([first, second], True) == [0.002, 0.0005]
    assert accelerator.log.count("synchronize") == 1


def test_a_device_without_events_is_synchronized_around_the_call(accelerator):
    del accelerator.module.Event
    watch = recording.Stopwatch([X.double()])
    accelerator.work(1)
    reading = watch.stop()
    assert accelerator.log == ["synchronize", "work", "synchronize"]
    assert reading.events is None and recording.seconds_of([reading], True) == [reading.wall]


def test_a_call_in_a_graph_has_no_time(accelerator):
    accelerator.module.is_current_stream_capturing = lambda: True
    assert recording.Stopwatch([X.double()]).stop() is None
    assert accelerator.log == []


@pytest.mark.parametrize(("clock", "holds"), [(True, lambda s: s >= 0.05), ("cpu_time", lambda s: s < 0.05)])
def test_cpu_time_lacks_what_the_thread_waits_for(clock, holds):
    @torch.library.custom_op("stopwatch_test::wait", mutates_args=(), schema="(Tensor x) -> Tensor")
    def wait(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return x.clone()

    with pytest.warns(match="no calculator"), ComputationalCostHook(measure_time=clock) as hook:
        wait(X)
    (record,) = (record for record in hook.report.trace if record.call.native.endswith("::wait"))
    assert holds(record.seconds)


def test_two_hooks_measure_by_their_own_clocks():
    with torch.no_grad(), ComputationalCostHook(measure_time=True) as wall:
        with ComputationalCostHook(measure_time="cpu_time") as cpu:
            torch.nn.functional.linear(X, W)
        torch.relu(X)
    assert len(wall.report.trace) == 2 and len(cpu.report.trace) == 1
    assert all(record.seconds is not None for record in (*wall.report.trace, *cpu.report.trace))
    assert wall.report.notes == []
    (note,) = cpu.report.notes
    assert note == "measured time is CPU time of the thread that ran the calls; work in other threads is not included"


def test_fake_tensors_of_an_absent_accelerator_are_measured_by_the_host():
    from torch._subclasses import FakeTensorMode

    if torch.cuda.is_available():
        pytest.skip("this machine has the accelerator")
    with FakeTensorMode():
        x = torch.empty(4, 8, device="cuda")
        assert recording.accelerator_of([x], {"device": "cuda"}) is None


@pytest.mark.parametrize("clock", ["wall", "cuda", 1, None])
def test_an_unknown_clock_is_refused(clock):
    with pytest.raises(ValueError, match=r"measure_time must be True \(time on the device .* 'cpu_time'"):
        ComputationalCostHook(measure_time=clock)
