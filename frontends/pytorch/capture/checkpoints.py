"""Activation checkpointing on the meta device, which PyTorch before 2.5 has no module for.

It keeps the state of the random generator of the CPU as it does for tensors on a CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch

from .autocast import enabled_device
from .replacement import replace


def patch_checkpoint(stack: ExitStack, is_capturing: Callable[[], bool]) -> None:
    """Let ``torch.utils.checkpoint`` find a module and random states for the meta device, as later PyTorch does.

    It does so if the code that is captured has imported it before.

    Args:
        stack: undoes the patch.
        is_capturing: returns whether the running thread captures.
    """
    _patch_fork(stack, is_capturing)
    checkpoint: Any = sys.modules.get("torch.utils.checkpoint")  # which imports sympy until PyTorch 2.8
    if checkpoint is None:
        return
    _patch_device_type(stack, checkpoint, is_capturing)
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
