"""Clocks for single calls: that of the host, CPU time of the thread, and events on the stream of an accelerator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from costcore.trace.recorder import CPU_TIME

HOSTS = ("cpu", "meta")
"""Types of devices whose operators have ended when their call returns."""


class Events(NamedTuple):
    """Two events on the stream of an accelerator, before and after a call.

    Attributes:
        device: the accelerator.
        start, end: the events, which record time.
    """

    device: torch.device
    start: Any
    end: Any


class Reading(NamedTuple):
    """How long one call took, in seconds.

    Attributes:
        wall: by the clock of the host.
        cpu: CPU time of the thread.
        events: of a call on an accelerator, which returns to the host before it ends; None for other calls.
    """

    wall: float
    cpu: float
    events: Events | None = None


class Stopwatch:
    """Measures one call: created before it, read by :meth:`stop` after it.

    An accelerator that has no events is synchronized before and after the call. A call that only becomes part of a
    graph (of ``torch.cuda.graph``) has no time.

    Args:
        tensors: all tensors among the arguments of the call.
        kwargs: its keyword arguments.
    """

    __slots__ = ("_cpu", "_device", "_is_graph", "_start", "_wall")

    def __init__(self, tensors: Sequence[Tensor], kwargs: Mapping[str, Any] | None = None) -> None:
        self._device = accelerator_of(tensors, kwargs or {})
        self._is_graph = self._device is not None and _is_capturing(self._device)
        if self._is_graph:
            self._device = None
        self._start = None if self._device is None else _event_or_wait(self._device)
        self._cpu = thread_time()
        self._wall = perf_counter()  # the inner pair of readings, since the other clock takes longer to read

    def stop(self) -> Reading | None:
        """Return the time since the stopwatch was created."""
        if self._is_graph:
            return None
        device = self._device
        end = None if device is None else _event_or_wait(device)
        wall = perf_counter() - self._wall
        cpu = thread_time() - self._cpu
        if device is None or end is None:
            return Reading(wall, cpu)
        return Reading(wall, cpu, Events(device, self._start, end))


def accelerator_of(tensors: Sequence[Tensor], kwargs: Mapping[str, Any]) -> torch.device | None:
    """Return the accelerator that runs a call, by its tensors and its argument ``device``; None for the host."""
    devices = [tensor.device for tensor in tensors]
    if kwargs.get("device") is not None:
        devices.append(torch.device(kwargs["device"]))
    return next((device for device in devices if device.type not in HOSTS and _is_available(device)), None)


def _is_available(device: torch.device) -> bool:
    """Return whether this machine has such a device, which fake tensors do not need."""
    module = getattr(torch, device.type, None)
    return module is not None and bool(module.is_available())


def _is_capturing(device: torch.device) -> bool:
    """Return whether calls on a device become part of a graph instead of running."""
    query = getattr(getattr(torch, device.type), "is_current_stream_capturing", None)
    return query is not None and bool(query())


def _event_or_wait(device: torch.device) -> Any:
    """Record an event on the current stream of an accelerator; without events, wait for it and return None."""
    module: Any = getattr(torch, device.type)
    if not hasattr(module, "Event"):
        module.synchronize()
        return None
    event = module.Event(enable_timing=True)
    event.record(module.current_stream(device))
    return event


def seconds_of(readings: Iterable[Reading], clock: bool | str) -> list[float]:
    """Return the seconds of every reading by the clock that was asked for.

    Every accelerator is synchronized once, before its events are read.

    Args:
        readings: the readings.
        clock: :data:`CPU_TIME`, or True for the time on the device that ran the call.
    """
    readings = list(readings)
    if clock == CPU_TIME:
        return [reading.cpu for reading in readings]
    for device in {reading.events.device for reading in readings if reading.events is not None}:
        getattr(torch, device.type).synchronize(device)
    return [_on_device(reading) for reading in readings]


def _on_device(reading: Reading) -> float:
    if reading.events is None:
        return reading.wall
    milliseconds: float = reading.events.start.elapsed_time(reading.events.end)
    return milliseconds / 1000
