"""Autocast on the meta device.

PyTorch's autocast casts the operands of the devices it supports, and leaves meta tensors as they are, so that a pass
under ``torch.autocast`` would silently be costed in the dtypes of the model. Here meta operands are cast as PyTorch
would cast them on the device that autocast is enabled for: composite operators cast their own operands, and once
autocast is used, every other operator that has a rule gets a kernel at the key ``PreDispatch`` that casts.

Source of the rules: ``aten/src/ATen/autocast_mode.h`` of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..meta.operands import tensors_of
from ..operators.composite_ops import COMPOSITES, FAST_PATHS
from .dispatch_keys import AFTER
from .libraries import kernels_of_aten
from .replacement import replace

_LOWER = """
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
addbmm addmm addmv addr baddbmm bmm chain_matmul einsum linear linalg_multi_dot linalg_vecdot matmul mm mv prelu
scaled_dot_product_attention gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell
"""

LOWER = frozenset(_LOWER.split())
"""Operators that are computed in the lower precision on devices that have a rule for them."""

_PROMOTED = """
addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_copy index_put scatter_add stack tensordot
"""

PROMOTED = frozenset(_PROMOTED.split())
"""Operators that are computed in the widest dtype among their operands, as they are without autocast."""

CASTS_INSIDE = frozenset(f"aten::{name}" for name in ("einsum", "gru", "lstm", "rnn_relu", "rnn_tanh"))
"""Composite operators without a rule on some devices; the products inside them have one and determine the result."""

LOWER_AS_A_WHOLE = "aten::lstm"
"""The member of :data:`CASTS_INSIDE` that a device computes in one kernel, in the lower precision."""

KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA", "xpu": "AutocastXPU", "mps": "AutocastMPS"}
"""The name of the dispatch key at which a device has its autocast kernels."""

_DISPATCH_KEYS = tuple(
    (name, getattr(torch._C.DispatchKey, name)) for name in KEYS.values() if hasattr(torch._C.DispatchKey, name)
)

_DEVICES = tuple(name for name in KEYS if torch.amp.is_autocast_available(name))
"""The devices whose autocast this version of PyTorch knows."""

is_any_enabled = torch._C._is_any_autocast_enabled


def casts_first(operator: OpOverload, keyset: Any) -> bool:
    """Return whether autocast is about to cast the operands of an operator, and to call it again."""
    return any(
        keyset.has(key) and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), name)
        for name, key in _DISPATCH_KEYS
    )


def dtype_for(operator: OpOverload, tensors: Iterable[Tensor]) -> torch.dtype | None:
    """Return the dtype that the meta operands of an operator are to be cast to; None: they are not cast."""
    device = _device()
    packet = operator._schema.name.removeprefix("aten::")
    if device is None or packet in PROMOTED:
        return None
    if not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), KEYS[device]):
        return None
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_meta and _is_castable(tensor)}
    if not dtypes:
        return None
    wanted: torch.dtype = torch.get_autocast_dtype(device) if packet in LOWER else torch.float32
    return wanted if dtypes != {wanted} else None


def lower_dtype() -> torch.dtype:
    """Return the lower precision of the device that autocast is enabled for; float32 if it has no rules."""
    device = _device()
    return torch.float32 if device is None else torch.get_autocast_dtype(device)


def _device() -> str | None:
    return next((name for name in _DEVICES if torch.is_autocast_enabled(name)), None)


def _is_castable(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype is not torch.float64


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Return arguments with every meta operand cast to ``dtype``, the last one first as in PyTorch."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_meta and _is_castable(value) and value.dtype is not dtype else value
    if isinstance(value, dict):
        return {name: cast(item, dtype) for name, item in value.items()}
    return type(value)([cast(item, dtype) for item in reversed(value)][::-1]) if type(value) in (list, tuple) else value


def patch_autocast(stack: ExitStack, is_capturing: Callable[[], bool]) -> None:
    """Let ``torch.autocast`` work on the meta device, in a thread that captures.

    It registers the casting kernels when it is entered. ``torch.autocast("meta")``, as models spell the device of their
    input, which PyTorch rejects, is autocast of the device that it is enabled for, or else of the CPU.

    Args:
        stack: undoes the patches.
        is_capturing: returns whether the running thread captures.
    """
    autocast: Any = torch.amp.autocast_mode.autocast
    enter, init = autocast.__enter__, autocast.__init__

    @wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807 - replaces it
        if is_capturing():
            register_kernels()
        return enter(self)

    @wraps(init)
    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - replaces it
        is_meta = device_type == "meta" and is_capturing()
        init(self, _device() or "cpu" if is_meta else device_type, *args, **kwargs)

    replace(stack, autocast, "__enter__", __enter__)
    replace(stack, autocast, "__init__", __init__)


@cache
def register_kernels() -> None:
    """Register the casting kernels for the rest of the process.

    Threads that do not capture never reach them.
    """
    with kernels_of_aten() as library:
        for name in sorted({name for key in KEYS.values() for name in _operators_at(key)}):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            has_kernel = name.removeprefix("aten::") in COMPOSITES or packet in FAST_PATHS
            if operator is not None and not has_kernel and packet not in PROMOTED:
                library.impl(name.removeprefix("aten::"), _kernel(operator), "PreDispatch", with_keyset=True)


def _operators_at(key: str) -> list[str]:
    """Return the names of the operators that have a kernel at a dispatch key."""
    if not hasattr(torch._C.DispatchKey, key):
        return []
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name for name in names if name.startswith("aten::")]


def _kernel(operator: OpOverload) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if is_any_enabled():
            dtype = dtype_for(operator, tensors_of(args, kwargs))
            if dtype is not None:
                return operator(*cast(args, dtype), **cast(kwargs, dtype))
        return operator.redispatch(keyset & AFTER, *args, **kwargs)

    return kernel
