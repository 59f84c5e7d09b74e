"""Activation checkpointing in a capture.

PyTorch before 2.5 has no module for the meta device; the state of the random generator is that of the CPU. Policies of
selective checkpointing name the attention kernels of a GPU, which an estimate runs as that of a CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any

import torch

from .autocast import enabled_device
from .dispatch_mode import CaptureMode
from .replacement import replace

_ATTENTION = "_scaled_dot_product_{}_attention"
_KERNELS_OF_GPU = tuple(map(_ATTENTION.format, ("flash", "efficient", "cudnn", "fused")))


def patch_checkpoint(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Let ``torch.utils.checkpoint`` find a module and random states for the meta device, as later PyTorch does.

    It does so if the code that is captured has imported it before.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """

    def is_capturing() -> bool:
        return active_mode() is not None

    _patch_fork(stack, is_capturing)
    checkpoint: Any = sys.modules.get("torch.utils.checkpoint")  # which imports sympy until PyTorch 2.8
    if checkpoint is None:
        return
    _patch_device_type(stack, checkpoint, is_capturing)
    for selective in (checkpoint._CachingTorchDispatchMode, checkpoint._CachedTorchDispatchMode):
        _patch_policy(stack, selective, active_mode)
    if _knows_meta(checkpoint._get_device_module):
        return
    original: Callable[..., Any] = checkpoint._get_device_module

    @wraps(original)
    def get_device_module(device: str = "cuda") -> Any:
        return torch.device(device) if device == "meta" and is_capturing() else original(device)

    replace(stack, checkpoint, "_get_device_module", get_device_module)


def _patch_device_type(stack: ExitStack, checkpoint: Any, is_capturing: Callable[[], bool]) -> None:
    """Recompute under the same autocast: PyTorch keeps that of the device of the inputs and of the CPU."""
    original: Callable[..., str] = checkpoint._infer_device_type

    @wraps(original)
    def infer_device_type(*args: Any) -> str:
        device = original(*args)
        return enabled_device() or device if device == "meta" and is_capturing() else device

    replace(stack, checkpoint, "_infer_device_type", infer_device_type)


def _patch_policy(stack: ExitStack, selective: Any, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Let a policy that saves the attention of a GPU save that of a CPU in an estimate."""
    original: Callable[..., None] = selective.__init__

    @wraps(original)
    def init(self: Any, policy_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        mode = active_mode()
        is_estimate = mode is not None and mode.is_estimate
        original(self, partial(_ask, policy_fn) if is_estimate else policy_fn, *args, **kwargs)

    replace(stack, selective, "__init__", init)


def _ask(policy: Callable[..., Any], context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    found = policy(context, operator, *args, **kwargs)
    if getattr(operator, "__name__", "") != f"{_ATTENTION.format('flash')}_for_cpu.default":
        return found
    names = (name for name in _KERNELS_OF_GPU if hasattr(torch.ops.aten, name))
    of_gpu = (policy(context, getattr(torch.ops.aten, name).default, *args, **kwargs) for name in names)
    return next((each for each in (found, *of_gpu) if _saves(each)), found)


def _saves(policy: Any) -> bool:
    """Return whether a policy saves; it is an item of ``CheckpointPolicy`` or a bool."""
    return policy is True or getattr(policy, "name", "").endswith("_SAVE")


def _patch_fork(stack: ExitStack, is_capturing: Callable[[], bool]) -> None:
    original: Callable[..., Any] = torch.random.fork_rng

    @wraps(original)
    def fork_rng(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device_type") == "meta" and is_capturing():  # which has no state beside that of the CPU
            kwargs |= {"devices": (), "device_type": "cpu"}
            return original(**dict(zip(("devices", "enabled"), args, strict=False)) | kwargs)
        return original(*args, **kwargs)

    replace(stack, torch.random, "fork_rng", fork_rng)


def _knows_meta(get_device_module: Callable[..., Any]) -> bool:
    try:
        get_device_module("meta")
    except AttributeError:
        return False
    return True
