"""Autocast on the meta device.

PyTorch's autocast casts the operands of the devices it supports, and leaves meta tensors as they are, so that a pass
under ``torch.autocast`` would silently be costed in the dtypes of the model. Here meta operands are cast as PyTorch
would cast them on the device that autocast is enabled for: composite operators cast their own operands, and once
autocast is used, every other operator that has a rule gets a kernel at the key ``PreDispatch`` that casts. A weight is
cast once: the copy is kept until the outermost block of autocast ends.

Source of the rules: ``aten/src/ATen/autocast_mode.h`` and ``autocast_mode.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from functools import cache, wraps
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils.weak import WeakIdRef

from ..meta.operands import tensors_of
from ..operators.composite_ops import COMPOSITES, FAST_PATHS
from .dispatch_keys import AFTER, CAPTURED
from .libraries import kernels_of_aten
from .replacement import replace

_LOWER = """
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
addbmm addmm _addmm_activation addmv addr baddbmm bmm chain_matmul einsum linear linalg_multi_dot linalg_vecdot matmul
mm mv prelu scaled_dot_product_attention gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell mkldnn_rnn_layer
"""

LOWER = frozenset(_LOWER.split())
"""Operators that are computed in the lower precision on devices that have a rule for them."""

_PROMOTED = """
addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_copy index_put scatter_add stack tensordot
"""

PROMOTED = frozenset(_PROMOTED.split())
"""Operators that are computed in the widest dtype among their operands."""

_CELLS = "lstm gru rnn_relu rnn_tanh lstm_cell gru_cell rnn_relu_cell rnn_tanh_cell"

CASTS_INSIDE = frozenset(f"aten::{name}" for name in ("einsum", "bilinear", *_CELLS.split()))
"""Composite operators without a rule on some devices; the products inside them have one and determine the result."""

KEYS = {"cuda": "AutocastCUDA", "xpu": "AutocastXPU", "mps": "AutocastMPS", "cpu": "AutocastCPU"}
"""The name of the dispatch key at which a device has its autocast kernels; of several enabled devices the first counts.
"""

MADE_IN_ESTIMATES: WeakSet[Any] = WeakSet()
"""The autocast objects that were made in estimates, in which PyTorch disables none."""

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


def has_rule(operator: OpOverload, tensors: Iterable[Tensor]) -> bool:
    """Return whether autocast decides how an operator runs on meta tensors, of which there are any."""
    device = enabled_device()
    if device is None or not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), KEYS[device]):
        return False
    return any(tensor.is_meta for tensor in tensors)


def lower_dtype() -> torch.dtype:
    """Return the lower precision of the device that autocast is enabled for; float32 if it has no rules."""
    device = enabled_device()
    return torch.float32 if device is None else torch.get_autocast_dtype(device)


def enabled_device() -> str | None:
    """Return the device whose autocast is enabled."""
    return next((name for name in _DEVICES if torch.is_autocast_enabled(name)), None)


def _is_operand(tensor: Tensor) -> bool:
    """Return whether a tensor is on the device of the meta tensors beside it: a scalar on the CPU need not be."""
    return bool(tensor.is_meta or tensor.dim() > 0)


def is_castable(tensor: Tensor) -> bool:
    """Return whether autocast changes the dtype of a tensor."""
    return tensor.is_floating_point() and tensor.dtype is not torch.float64


class Casts:
    """Casts meta operands, and keeps the copies of weights as PyTorch does: one each, in the dtype that came first.

    Args:
        is_estimate: whether this is an estimate rather than a run.
    """

    def __init__(self, is_estimate: bool) -> None:
        self.is_estimate = is_estimate
        self._copies: dict[WeakIdRef, Tensor] = {}

    def clear(self) -> None:
        """Free the copies of weights."""
        self._copies.clear()

    def run(self, operator: OpOverload, args: Any, kwargs: Any) -> Any:
        """Run an operator that has a rule: on operands of the dtype that is wanted, and without autocast inside it."""
        dtypes = {x.dtype for x in tensors_of(args, kwargs) if _is_operand(x) and is_castable(x)}
        wanted = _wanted(operator._schema.name.removeprefix("aten::"), dtypes)
        if wanted is not None and dtypes - {wanted}:
            args, kwargs = self(args, wanted), self(kwargs, wanted)
        with torch._C._ExcludeDispatchKeyGuard(_keys_of(enabled_device() or "cpu")):
            return operator(*args, **kwargs)

    def __call__(self, value: Any, dtype: torch.dtype) -> Any:
        """Return arguments with every operand cast to ``dtype``, the last one first as in PyTorch."""
        if isinstance(value, Tensor):
            is_cast = _is_operand(value) and is_castable(value) and value.dtype is not dtype
            return self._cast(value, dtype) if is_cast else value
        if isinstance(value, dict):
            return {name: self(item, dtype) for name, item in value.items()}
        if type(value) not in (list, tuple):
            return value
        return type(value)([self(item, dtype) for item in reversed(value)][::-1])

    def _cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        is_weight = tensor.dtype is torch.float32 and tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
        if not is_weight or dtype is not lower_dtype() or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        keeps_gradients = _keeps_gradients()
        if keeps_gradients and torch.is_inference_mode_enabled():
            return tensor.to(dtype)
        key = WeakIdRef(tensor)
        copy = self._copies.get(key)
        if copy is None:
            with torch.set_grad_enabled(keeps_gradients or torch.is_grad_enabled()):
                copy = self._copies[key] = tensor.to(dtype)
        return copy


def _wanted(packet: str, dtypes: Collection[torch.dtype]) -> torch.dtype | None:
    """Return the dtype that an operator computes in; None: that of its operands."""
    if packet in PROMOTED:
        return torch.float32 if torch.float32 in dtypes else None
    return lower_dtype() if packet in LOWER else torch.float32


@cache
def _keys_of(device: str) -> Any:
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEYS[device]))


@cache
def _keeps_gradients() -> bool:
    """Return whether a copy that is kept has a gradient also if it was made without; if so, inference mode keeps none.

    PyTorch does so since 2.11.
    """
    with torch.inference_mode(False), torch._C._ExcludeDispatchKeyGuard(CAPTURED):
        weight = torch.ones(1, 1, device="cpu", requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=True):
            with torch.no_grad():
                torch.mm(weight, weight)
            with torch.enable_grad():
                return bool(torch.mm(weight, weight).requires_grad)


def patch_autocast(stack: ExitStack, active_casts: Callable[[], Casts | None]) -> None:
    """Let ``torch.autocast`` work on the meta device, in a thread that captures.

    It registers the casting kernels when it is entered. ``torch.autocast("meta")``, as models spell the device of their
    input, which PyTorch rejects, is autocast of the device that it is enabled for, or else of the CPU. When PyTorch
    frees its copies of weights, as at the end of the outermost block, those of meta weights are freed too. The inputs
    of functions with ``torch.amp.custom_fwd(cast_inputs=…)`` are cast as well.

    Args:
        stack: undoes the patches.
        active_casts: returns the casts of the running thread; None if it does not capture.
    """
    for owner, name, function in _patched_functions(active_casts):
        replace(stack, owner, name, function)


@cache
def _patched_functions(active_casts: Callable[[], Casts | None]) -> Sequence[tuple[Any, str, Callable[..., Any]]]:
    """Return owner, name and replacement of the functions that are patched, made once."""
    autocast: Any = torch.amp.autocast_mode.autocast
    enter, init, clear = autocast.__enter__, autocast.__init__, torch.clear_autocast_cache
    cast_inputs: Callable[..., Any] = torch.amp.autocast_mode._cast

    @wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807 - replaces it
        if active_casts() is not None:
            register_kernels(active_casts)
        return enter(self)

    @wraps(init)
    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - replaces it
        casts = active_casts()
        if casts is not None and casts.is_estimate:
            MADE_IN_ESTIMATES.add(self)
        is_meta = device_type == "meta" and casts is not None
        init(self, enabled_device() or "cpu" if is_meta else device_type, *args, **kwargs)

    @wraps(clear)
    def clear_autocast_cache() -> None:
        casts = active_casts()
        if casts is not None:
            casts.clear()
        clear()

    @wraps(cast_inputs)
    def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        if isinstance(value, Tensor) and value.is_meta and active_casts() is not None:
            return value.to(dtype) if is_castable(value) else value
        return cast_inputs(value, device_type, dtype)

    return (
        (torch.amp.autocast_mode, "_cast", _cast),
        (autocast, "__enter__", __enter__),
        (autocast, "__init__", __init__),
        (torch, "clear_autocast_cache", clear_autocast_cache),
    )


@cache
def register_kernels(active_casts: Callable[[], Casts | None]) -> None:
    """Register the casting kernels for the rest of the process.

    Threads that do not capture never reach them.

    Args:
        active_casts: returns the casts of the running thread.
    """
    with kernels_of_aten() as library:
        for name in sorted({name for key in KEYS.values() for name in _operators_at(key)}):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            has_kernel = name.removeprefix("aten::") in COMPOSITES or packet in FAST_PATHS
            if operator is not None and not has_kernel:
                library.impl(
                    name.removeprefix("aten::"), _kernel(operator, active_casts), "PreDispatch", with_keyset=True
                )


def _operators_at(key: str) -> list[str]:
    """Return the names of the operators that have a kernel at a dispatch key."""
    if not hasattr(torch._C.DispatchKey, key):
        return []
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name for name in names if name.startswith("aten::")]


def _kernel(operator: OpOverload, active_casts: Callable[[], Casts | None]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        casts = active_casts()
        if casts is not None and is_any_enabled() and has_rule(operator, tensors_of(args, kwargs)):
            return casts.run(operator, args, kwargs)
        return operator.redispatch(keyset & AFTER, *args, **kwargs)

    return kernel
