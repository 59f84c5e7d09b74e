"""What keeps ``fully_shard`` from running on meta tensors: four places, replaced while a mesh is simulated.

It wants to know the device of the mesh, its streams, and that parameters have data. On the meta device there is nothing
to wait for, as on a CPU, and nothing to compute with.
"""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from types import ModuleType
from typing import Any

import torch

from costcore.errors import CostError

from ..capture.replacement import replace
from ..meta.operands import META

_PACKAGE = "torch.distributed.fsdp._fully_shard"
_PARTS = ("_fsdp_collectives", "_fsdp_init", "_fsdp_param", "_fsdp_param_group", "_fsdp_state", "_fully_shard")


class _Stream(torch.cpu.Stream):
    """A stream of nothing, whose events exist and are over."""

    stream_id = device_index = device_type = 0  # PyTorch 2.15 passes them to an operator that does nothing

    def record_event(self) -> torch.cpu.Event:
        return torch.cpu.Event()

    def wait_event(self, event: object) -> None:
        pass  # PyTorch 2.6 has no such method


class _Device:
    """The module of a device (``torch.cuda``) as ``fully_shard`` uses it; on the meta device nothing waits."""

    Stream = _Stream

    def current_stream(self, device: object = None) -> _Stream:
        return _Stream()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


class _Torch:
    """``torch`` as groups of parameters see it, which ask it for the present stream at one place, not their device."""

    cuda = accelerator = _Device()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def shard_on_meta(stack: ExitStack) -> None:
    """Let ``fully_shard`` run on the meta device until ``stack`` is closed."""
    parts = _modules()
    if not parts:
        return  # this version keeps it elsewhere: it refuses meta tensors, and says so
    for part in parts:
        if hasattr(part, "_get_device_from_mesh"):
            replace(stack, part, "_get_device_from_mesh", lambda mesh: META)
        if hasattr(part, "_get_device_handle"):
            replace(stack, part, "_get_device_handle", lambda device_type="cpu": _Device())
        if hasattr(part, "AllGatherState"):
            replace(stack, part, "torch", _Torch())
    group: Any = next((part.FSDPParamGroup for part in parts if hasattr(part, "FSDPParamGroup")), None)
    if hasattr(group, "_validate_no_meta_params"):
        replace(stack, group, "_validate_no_meta_params", lambda self: None)


def _modules() -> list[ModuleType]:
    try:
        return [import_module(f"{_PACKAGE}.{part}") for part in _PARTS]
    except ImportError:
        return []


def check_supported(module: object) -> None:
    """Check that a module whose parameters are flattened is not in a plan: its predecessor cannot run on meta tensors.

    Raises:
        CostError: for ``FullyShardedDataParallel``.
    """
    if type(module).__name__ == "FullyShardedDataParallel":
        raise CostError("FullyShardedDataParallel needs parameters with data; use fully_shard in the plan instead")
