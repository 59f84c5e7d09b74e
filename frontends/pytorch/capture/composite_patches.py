"""Patches of composite operators, for versions of PyTorch without the key ``PreDispatch``.

Patched Python functions see less than kernels at that key: what TorchScript or C++ calls is recorded as the operators
that PyTorch decomposes it into. Nothing is missed, and MACs and parameters are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..meta.operands import tensors_of
from ..operators.composite_ops import COMPOSITES, exists, overload
from .dispatch_mode import CaptureMode
from .replacement import replace
from .stand_ins import run_stand_in

_METHODS = {"matmul": ("__matmul__",)}
"""Further names of a method, by operator."""


def patch_functions(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Replace every function and method of PyTorch that is a composite operator.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    operators: dict[str, list[OpOverload]] = {}
    for name in sorted(COMPOSITES):
        if exists(name):
            operators.setdefault(name.partition(".")[0], []).append(overload(name))
    for name, overloads in operators.items():
        for owner, attribute in _functions(name):
            _patch(stack, owner, attribute, f"aten::{name}", overloads, active_mode)


def _functions(name: str) -> Iterator[tuple[Any, str]]:
    """Yield the owner and attribute of every function that is the operator of this name."""
    for owner in (torch, torch.nn.functional, torch._C._nn, torch._VF, Tensor):
        for attribute in (name, *_METHODS.get(name, ())):
            if _is_native(getattr(owner, attribute, None)):
                yield owner, attribute


def _is_native(function: Any) -> bool:
    return callable(function) and not hasattr(function, "__code__") and not isinstance(function, type)


def _patch(
    stack: ExitStack,
    owner: Any,
    attribute: str,
    native: str,
    overloads: list[OpOverload],
    active_mode: Callable[[], CaptureMode | None],
) -> None:
    original = getattr(owner, attribute)

    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or mode.paused.is_set or _is_transformed(args, kwargs):
            return original(*args, **kwargs)
        operator = next((o for o in overloads if _fits(o, args, kwargs)), None)
        if operator is None:
            return original(*args, **kwargs)
        run = partial(_run, original, mode, native, args, kwargs)
        return mode.run_as_one_call(operator, args, _schema_names(operator, kwargs), run)

    replace(stack, owner, attribute, patched)


def _is_transformed(args: Any, kwargs: Any) -> bool:
    """Return whether the call runs on other tensors: on batches of its operands, or on local shards."""
    if torch._C._functorch.maybe_current_level() is not None:
        return True
    return any(hasattr(tensor, "_local_tensor") for tensor in tensors_of(args, kwargs))


def _run(original: Callable[..., Any], mode: CaptureMode, native: str, args: Any, kwargs: Any) -> Any:
    result = run_stand_in(mode, native, args, kwargs)
    return original(*args, **kwargs) if result is None else result


def _schema_names(operator: OpOverload, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments by the names of the schema, which may be ``self`` instead of ``input``."""
    names = {argument.name for argument in operator._schema.arguments}
    return {"self" if name == "input" and name not in names else name: value for name, value in kwargs.items()}


def _fits(operator: OpOverload, args: Any, kwargs: Any) -> bool:
    """Return whether arguments are those of this overload, and not of another."""
    arguments = operator._schema.arguments
    if len(args) > len(arguments):
        return False
    passed = dict(zip((argument.name for argument in arguments), args, strict=False))
    passed.update(_schema_names(operator, kwargs))
    types = {argument.name: str(argument.type) for argument in arguments}
    return passed.keys() <= types.keys() and all(_has_type(value, types[name]) for name, value in passed.items())


def _has_type(value: Any, schema_type: str) -> bool:
    if value is None:
        return schema_type.startswith("Optional")
    if isinstance(value, Tensor):
        return schema_type in ("Tensor", "Optional[Tensor]")
    if isinstance(value, str):
        return schema_type in ("str", "Optional[str]")
    if isinstance(value, (list, tuple)):
        return "List" in schema_type
    return "Tensor" not in schema_type and "str" not in schema_type
