"""Collectives of process groups on meta tensors, for releases of PyTorch (before 2.13) that run them on data only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from ..operators.process_groups import WRITTEN


def communicate_on_meta(stack: ExitStack) -> None:
    """Register the missing kernels, which ask the process group as those of a CPU do, until ``stack`` is closed."""
    library = torch.library.Library("c10d", "IMPL")
    stack.callback(library._destroy)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in WRITTEN:
        for overload in _overloads(name):
            if has_kernel(overload.name(), "CPU") and not has_kernel(overload.name(), "Meta"):
                library.impl(overload.name(), _as_on_cpu(overload), "Meta")


def _overloads(name: str) -> list[Any]:
    packet = getattr(torch.ops.c10d, name, None)
    return [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]


def _as_on_cpu(operator: Any) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return partial(operator.redispatch, keys)
