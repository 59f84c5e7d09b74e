"""Records of runs of PyTorch, and what tests read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from costcore.frontends.pytorch import capture, estimate
from costcore.frontends.pytorch.parallel.plan import simulated_mesh as _simulated_mesh
from costcore.ir import Layer
from costcore.trace.run import Recorder
from tests.registered import cost

GRAD_MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


@contextmanager
def capturing(
    record_api_calls: bool = False,
    memory: bool = False,
    tracebacks: bool = False,
    measure_time: bool = False,
    **settings: Any,
) -> Iterator[Recorder]:
    """Record what runs inside, and return the record."""
    recorder = Recorder(record_api_calls=record_api_calls, tracebacks=tracebacks, measure_time=measure_time)
    recorder.memory = memory
    with capture(recorder, **settings):
        yield recorder


def record(run: Callable[[], object], record_api_calls: bool = False, **settings: Any) -> Recorder:
    """Return the record of a run."""
    with capturing(record_api_calls, **settings) as recorder:
        run()
    return recorder


def estimated(model: torch.nn.Module, inputs: Any, record_api_calls: bool = False, **options: Any) -> Recorder:
    """Return the record of one pass of ``model`` on the meta device."""
    recorder = Recorder(record_api_calls=record_api_calls)
    estimate(recorder, model, inputs, **options)
    return recorder


def types(recorder: Recorder, phase: str | None = None) -> list[str]:
    return [call.type for call in recorder.calls if phase is None or call.phase == phase]


SAVED = ("indices", "mask", "saved")
"""Attributes that a call has if a backward pass can follow: types of what it writes for it."""


def listed(recorder: Recorder) -> list[tuple[Any, ...]]:
    """Return everything recorded about each call but its ids, and what it writes only for a backward pass."""
    return [(call.type, call.native, call.module, call.phase, _without_saved(call.layer)) for call in recorder.calls]


def _without_saved(layer: Layer) -> Layer:
    attrs = {name: value for name, value in layer.attrs.items() if name not in SAVED}
    return Layer(layer.op, layer.inputs, layer.outputs, attrs)


def macs(calls: Sequence[Any]) -> int:
    """Return the MACs of all calls, each of which must be supported."""
    return sum(cost(call).macs for call in calls)


def state_of_torch() -> tuple[Any, ...]:
    """Return the state of PyTorch that a capture changes while it lasts."""
    return (
        tuple(_get_current_dispatch_mode_stack()),
        torch.nn.Module.__call__,
        torch.nn.Module.__call__.__code__,
        torch.nn.Module.__call__.__kwdefaults__,
        torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_grad_enabled(),
        torch._ops.HigherOrderOperator.dispatch,
        tuple(torch.overrides._get_current_function_mode_stack()),
        torch.overrides.has_torch_function,
    )


def simulated_mesh(sizes: dict[str, int], rank: int = 0) -> AbstractContextManager[Any]:
    """Return a mesh of simulated processes, of which this one is ``rank``."""
    return _simulated_mesh(sizes, rank)
