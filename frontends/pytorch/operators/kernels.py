"""The kernels of an operator: whether PyTorch runs it as one, or decomposes it into other operators."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

DEVICES = ("CPU", "CUDA", "HIP", "MPS", "XPU", "HPU", "XLA", "MTIA", "PrivateUse1")
"""The dispatch keys at which a device has its kernels for ordinary tensors."""

NESTED = ("NestedTensorCPU", "NestedTensorCUDA")
"""The dispatch keys of the kernels for nested tensors."""

NESTED_COMPOSITE = "CompositeImplicitAutogradNestedTensor"
"""The dispatch key of the kernels that decompose an operator for nested tensors in another way than for others."""


def has_kernel(operator: OpOverload, *keys: str) -> bool:
    """Return whether an operator has a kernel at one of the dispatch keys."""
    name = operator.name()
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def is_decomposed(operator: OpOverload) -> bool:
    """Return whether PyTorch decomposes an operator on every device.

    Some operators have a decomposition, for the devices that have no kernel of their own, and kernels besides:
    ``silu_backward``, ``mish_backward``, ``native_channel_shuffle``.
    """
    return has_kernel(operator, "CompositeImplicitAutograd") and not has_kernel(operator, *DEVICES)


def decomposed(operator: OpOverload, args: Any, kwargs: Any, is_nested: bool) -> Any:
    """Run the operators that PyTorch decomposes an operator into.

    Args:
        operator: an operator that :func:`is_decomposed`.
        args: its positional arguments.
        kwargs: its keyword arguments.
        is_nested: whether a nested tensor is among them.

    Returns:
        The result; NotImplemented if there is a kernel for nested tensors, which PyTorch runs instead.
    """
    if not is_nested or not has_kernel(operator, *NESTED, NESTED_COMPOSITE):
        return operator.decompose(*args, **kwargs)
    if has_kernel(operator, *NESTED):
        return NotImplemented
    return operator._op_dk(getattr(torch._C.DispatchKey, NESTED_COMPOSITE), *args, **kwargs)


def run_kernel(run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a kernel; if it was the first one to import something, collect garbage.

    Kernels in Python import the compiler when the first of them is called. Cycles of that import hold the frames above
    it, and thereby their tensors. Memory would stay alive, and a gradient would be copied, as something else holds it.
    """
    before = len(sys.modules)
    result = run(*args, **kwargs)
    if len(sys.modules) != before:
        gc.collect()
    return result
