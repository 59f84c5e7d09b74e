"""Values that PyTorch passes to Python, and takes from it, without running an operator.

On the meta device ``tolist`` and ``numpy`` fail, an f-string prints the tensor, and ``torch.tensor`` drops the numbers
that it is given. While a thread captures, these functions use the known values of meta tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.jit._builtins import _get_builtin_table
from torch.overrides import get_ignored_functions
from torch.utils._device import _device_constructors

from ..meta.choices import assumptions_of
from ..meta.contents import without_capture
from ..meta.data_dependent import NUMBERS_ARE_ONE
from ..meta.operands import PLAIN
from ..meta.values import is_small
from .dispatch_mode import CaptureMode


def patch_functions(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Replace the functions.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    _fill_caches()

    def mode_for(tensor: Any) -> CaptureMode | None:
        """Return the mode if a tensor is an ordinary meta tensor and the thread captures."""
        mode = active_mode()
        is_meta = mode is not None and type(tensor) in PLAIN and tensor.is_meta
        return mode if is_meta and mode is not None and not mode.is_paused else None

    def tolist(original: Callable[..., Any], tensor: Tensor) -> Any:
        mode = mode_for(tensor)
        return original(tensor) if mode is None else _data(mode, tensor).tolist()

    def numpy(original: Callable[..., Any], tensor: Tensor, *, force: bool = False) -> Any:
        mode = mode_for(tensor)
        return original(tensor, force=force) if mode is None else _data(mode, tensor).numpy(force=True)

    def __format__(original: Callable[..., Any], tensor: Tensor, spec: str) -> str:  # noqa: N807 - replaces it
        is_number = mode_for(tensor) is not None and not tensor.dim()
        text: str = tensor.item().__format__(spec) if is_number else original(tensor, spec)
        return text

    def make(original: Callable[..., Any], data: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(data, *args, **kwargs)
        mode = mode_for(made)
        if mode is not None and not isinstance(data, Tensor):
            _keep(mode, made, data)
        return made

    def make_like(original: Callable[..., Any], tensor: Tensor, data: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(tensor, data, *args, **kwargs)
        mode = mode_for(made)
        if mode is not None and not isinstance(data, Tensor):
            _keep(mode, made, data)
        return made

    for owner, name, function in (
        (Tensor, "tolist", tolist),
        (Tensor, "numpy", numpy),
        (Tensor, "__format__", __format__),
        (Tensor, "new_tensor", make_like),
        (torch, "tensor", make),
        (torch, "as_tensor", make),
    ):
        _patch(stack, owner, name, function)


def _patch(stack: ExitStack, owner: Any, name: str, function: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    was_own = name in vars(owner)

    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    def restore() -> None:
        if vars(owner).get(name) is not patched:
            return
        if was_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)

    setattr(owner, name, patched)
    stack.callback(restore)


def _fill_caches() -> None:
    """Fill the caches of PyTorch that hold its functions, which would otherwise be filled with the patched ones."""
    _device_constructors()
    _get_builtin_table()
    get_ignored_functions()


def _data(mode: CaptureMode, tensor: Tensor) -> Tensor:
    """Return the values of a meta tensor on the CPU: ones if they are unknown, which is noted."""
    assumptions = mode.recording.assumptions
    known = mode.values.of(tensor)
    if known is not None:
        for assumption in assumptions_of(mode.values.assumptions((tensor,))):
            assumptions.note(assumption)
    else:
        assumptions.count_assumed_value()
        assumptions.note(NUMBERS_ARE_ONE)
    with without_capture():
        return torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu") if known is None else known.clone()


def _keep(mode: CaptureMode, made: Tensor, data: Any) -> None:
    """Keep the numbers that a meta tensor was made of, if all of them are known."""
    if is_small(made) and _is_known(mode, data):
        numbers = _numbers(data)
        with without_capture():
            mode.values.give(made, torch.tensor(numbers, dtype=made.dtype, device="cpu"))


def _is_known(mode: CaptureMode, data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return all(_is_known(mode, item) for item in data)
    return not isinstance(data, Tensor) or mode.values.of(data) is not None


def _numbers(data: Any) -> Any:
    """Return nested lists with numbers in place of tensors, each read as PyTorch reads them with data."""
    if isinstance(data, (list, tuple)):
        return [_numbers(item) for item in data]
    if isinstance(data, Tensor):
        return data.tolist() if data.dim() else data.item()
    return data
