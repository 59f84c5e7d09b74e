"""Values that PyTorch passes to Python, and takes from it, without running an operator.

On the meta device ``tolist`` and ``numpy`` fail, an f-string prints the tensor, and ``torch.tensor`` drops the numbers
that it is given. While a thread captures, these functions use the known values of meta tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial, wraps
from numbers import Number
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.jit._builtins import _get_builtin_table
from torch.overrides import get_ignored_functions
from torch.utils._device import _device_constructors

from ..meta.choices import assumptions_of
from ..meta.contents import Contents, without_capture
from ..meta.data_dependent import NUMBERS_ARE_ONE
from ..meta.operands import NUMBERS, PLAIN
from ..meta.values import is_small
from .dispatch_mode import CaptureMode
from .replacement import replace

ActiveMode = Callable[[], "CaptureMode | None"]
"""Returns the mode of the running thread."""

FUNCTIONS: tuple[tuple[Any, str], ...] = (
    *((Tensor, name) for name in ("tolist", "numpy", "__format__", "new_tensor")),
    *((torch, name) for name in ("tensor", "as_tensor", "asarray")),
)
"""The functions that are replaced, and where they are found."""


def patch_functions(stack: ExitStack, active_mode: ActiveMode) -> None:
    """Replace the functions.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    patched = _patched_functions(active_mode)
    for owner, name in FUNCTIONS:
        replace(stack, owner, name, patched[name])


@cache
def _patched_functions(active_mode: ActiveMode) -> dict[str, Callable[..., Any]]:
    """Return the functions in place of those of PyTorch, made once.

    Before, the caches of PyTorch that hold its functions are filled, so that they never hold these.
    """
    _device_constructors()
    _get_builtin_table()
    get_ignored_functions()
    replacements: dict[str, Callable[..., Any]] = {
        "tolist": _tolist,
        "numpy": _numpy,
        "__format__": _format,
        "new_tensor": _make_like,
        "tensor": _make,
        "as_tensor": _make,
        "asarray": _make,
    }
    return {name: _patched(getattr(owner, name), replacements[name], active_mode) for owner, name in FUNCTIONS}


def _patched(
    original: Callable[..., Any], replacement: Callable[..., Any], active_mode: ActiveMode
) -> Callable[..., Any]:
    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or mode.paused.is_set:
            return original(*args, **kwargs)
        return replacement(mode, original, *args, **kwargs)

    return patched


def _is_without_data(tensor: Any) -> bool:
    return type(tensor) in PLAIN and tensor.is_meta


def _tolist(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor) -> Any:
    return _data(mode, tensor).tolist() if _is_without_data(tensor) else original(tensor)


def _numpy(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, *, force: bool = False) -> Any:
    is_known = _is_without_data(tensor) and mode.is_known(tensor)
    return original(_data(mode, tensor) if is_known else tensor, force=force)


def _format(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, spec: str) -> Any:
    return tensor.item().__format__(spec) if _is_without_data(tensor) and not tensor.dim() else original(tensor, spec)


def _make(mode: CaptureMode, original: Callable[..., Any], data: Any, *args: Any, **kwargs: Any) -> Any:
    made = original(data, *args, **kwargs)
    if _is_without_data(made):
        _see(mode, made, data)
    return made


def _make_like(
    mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, data: Any, *args: Any, **kwargs: Any
) -> Any:
    made = original(tensor, data, *args, **kwargs)
    if _is_without_data(made):
        _see(mode, made, data)
    return made


def known_index(mode: CaptureMode, tensor: Tensor, index: Any) -> Any:
    """Return the index of a tensor with tensors in place of lists, which have the values of these.

    On the meta device PyTorch makes such a tensor without an operator, and without its numbers.
    """
    if not _is_without_data(tensor):
        return index
    if type(index) is tuple:
        return tuple(_as_tensor(mode, each) for each in index)
    if isinstance(index, list) and any(isinstance(each, (list, Tensor)) for each in index):
        return index  # it is a tuple to PyTorch, with a warning of its own
    return _as_tensor(mode, index)


def _as_tensor(mode: CaptureMode, index: Any) -> Any:
    """Return the tensor that PyTorch makes of a sequence of known numbers; anything else as it is."""
    is_sequence = isinstance(index, (list, tuple, range)) or _is_array(index)
    if not is_sequence or not _is_known(mode, index):
        return index
    numbers = _numbers(index)
    with without_capture():
        data = torch.tensor(numbers, device="cpu")
        if data.dtype not in (torch.bool, torch.uint8):  # any other dtype is converted, also that of an empty list
            data = data.long()
        made = torch.empty_like(data, device="meta")
    mode.values.give(made, data)
    return made


def _data(mode: CaptureMode, tensor: Tensor) -> Tensor:
    """Return the values of a meta tensor on the CPU: ones if they are unknown, which is noted."""
    known = mode.values.of(tensor)
    if known is not None:
        for assumption in assumptions_of(mode.values.assumptions((tensor,))):
            mode.assume(assumption)
    else:
        mode.recording.assumptions.count_assumed_value()
        mode.assume(NUMBERS_ARE_ONE)
    with without_capture():
        return torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu") if known is None else known.clone()


def _see(mode: CaptureMode, made: Tensor, data: Any) -> None:
    """Register the memory of a meta tensor, and keep the numbers that it was made of, if all of them are known."""
    if isinstance(data, Tensor):
        return
    mode.ledgers.allocated(made)
    if is_small(made) and _is_known(mode, data):
        mode.values.put(made, Contents(partial(_storage_of, _numbers(data), made.dtype)))


def _is_known(mode: CaptureMode, data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return all(_is_known(mode, item) for item in data)
    if isinstance(data, Tensor):
        return mode.values.of(data) is not None
    return type(data) in NUMBERS or isinstance(data, (Number, range)) or _is_array(data)


def _is_array(data: Any) -> bool:
    """Return whether an object is an array of numpy, which need not be installed."""
    return hasattr(data, "__array_interface__")


def _numbers(data: Any) -> Any:
    """Return nested lists with numbers in place of tensors, each read as PyTorch reads them with data."""
    if isinstance(data, (list, tuple)):
        return [_numbers(item) for item in data]
    if isinstance(data, Tensor):
        return data.tolist() if data.dim() else data.item()
    return data.tolist() if _is_array(data) else data


def _storage_of(numbers: Any, dtype: torch.dtype) -> UntypedStorage:
    with without_capture():
        return torch.tensor(numbers, dtype=dtype, device="cpu").untyped_storage()
