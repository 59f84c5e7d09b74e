"""Autocast without data.

PyTorch casts the operands of a device that it knows; those of the meta device it leaves as they are, so that a pass
under ``torch.autocast`` would silently be costed in the types it was written in. Here they are cast as PyTorch would on
the device that autocast was asked for: frames cast theirs, and once autocast is used, every other operator that has a
rule gets a kernel at the key of the frames that does.

Which operator is computed in which type: ``aten/src/ATen/autocast_mode.h`` of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ..operators.composite_ops import COMPOSITES
from .composites import AFTER

_LOWER = """
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
addbmm addmm addmv addr baddbmm bmm chain_matmul einsum linear linalg_multi_dot linalg_vecdot matmul mm mv prelu
scaled_dot_product_attention gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell
"""

LOWER = frozenset(_LOWER.split())
"""Operators that are computed in the lower precision, where a device has a rule for them."""

_PROMOTED = """
addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_copy index_put scatter_add stack tensordot
"""

PROMOTED = frozenset(_PROMOTED.split())
"""Operators that are computed in the widest type among their operands, which is what they do without autocast."""

INSIDE = frozenset(f"aten::{name}" for name in ("einsum", "gru", "lstm", "rnn_relu", "rnn_tanh"))
"""Frames that have no rule on every device, while the products inside of them have one, and make the result."""

FUSED = "aten::lstm"
"""The one of them that a device computes in one kernel, in the lower precision as a whole."""

KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA", "xpu": "AutocastXPU", "mps": "AutocastMPS"}

is_any_enabled = torch._C._is_any_autocast_enabled


def type_for(func: Any, tensors: Iterable[Tensor]) -> torch.dtype | None:
    """The type that ``func`` would be computed in on the device autocast is asked for; None: as it stands."""
    device = _device()
    packet = func._schema.name.removeprefix("aten::")
    if device is None or packet in PROMOTED:
        return None
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), KEYS[device]):
        return None
    kinds = {tensor.dtype for tensor in tensors if tensor.is_meta and _is_castable(tensor)}
    if not kinds:
        return None
    wanted: torch.dtype = torch.get_autocast_dtype(device) if packet in LOWER else torch.float32
    return wanted if kinds != {wanted} else None


def lower_type() -> torch.dtype:
    """The lower precision of the device autocast is asked for; float32 for a device that has no rules."""
    device = _device()
    return torch.float32 if device is None else torch.get_autocast_dtype(device)


def _device() -> str | None:
    return next((name for name in KEYS if torch.is_autocast_enabled(name)), None)


def _is_castable(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype is not torch.float64


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Arguments with every operand without data in ``dtype``; as in PyTorch the last one is cast first."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_meta and _is_castable(value) and value.dtype is not dtype else value
    if isinstance(value, dict):
        return {name: cast(item, dtype) for name, item in value.items()}
    return type(value)([cast(item, dtype) for item in reversed(value)][::-1]) if type(value) in (list, tuple) else value


def watch(stack: ExitStack, is_capturing: Callable[[], bool], tensors_of: Callable[..., list[Tensor]]) -> None:
    """Have the kernels ready as soon as autocast is used in a thread that captures.

    Args:
        stack: what puts PyTorch back.
        is_capturing: whether the running thread captures.
        tensors_of: finds the tensors among positional and named arguments.
    """
    kind: Any = torch.amp.autocast_mode.autocast
    original = kind.__enter__

    @wraps(original)
    def __enter__(self: Any) -> Any:  # noqa: N807 - stands in for it
        if is_capturing():
            register(tensors_of)
        return original(self)

    def restore() -> None:
        if kind.__enter__ is __enter__:
            kind.__enter__ = original

    kind.__enter__ = __enter__
    stack.callback(restore)


_libraries: list[torch.library.Library] = []
"""Kept, as kernels go with the library that brought them."""


def register(tensors_of: Callable[..., list[Tensor]]) -> None:
    """Register the kernels, for the rest of the process. Threads that do not capture never come by them."""
    if _libraries:
        return
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    for name in sorted({name for key in KEYS.values() for name in _with_rule(key)}):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is not None and name.removeprefix("aten::") not in COMPOSITES and packet not in PROMOTED:
            library.impl(name.removeprefix("aten::"), _kernel(operator, tensors_of), "PreDispatch", with_keyset=True)


def _with_rule(key: str) -> list[str]:
    if not hasattr(torch._C.DispatchKey, key):
        return []
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name for name in names if name.startswith("aten::")]


def _kernel(operator: Any, tensors_of: Callable[..., list[Tensor]]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if is_any_enabled():
            dtype = type_for(operator, tensors_of(args, kwargs))
            if dtype is not None:
                return operator(*cast(args, dtype), **cast(kwargs, dtype))
        return operator.redispatch(keyset & AFTER, *args, **kwargs)

    return kernel
