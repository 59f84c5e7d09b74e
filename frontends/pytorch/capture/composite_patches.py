"""Composite operators where PyTorch does not let frames see them: caught one level up, where Python calls them.

Less is seen so than by frames: what TorchScript or C++ calls comes as the pieces that PyTorch takes it apart into.
Nothing is missed, and macs and parameters are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..meta import sdpa
from ..meta.operands import tensors_of
from ..operators.composite_ops import COMPOSITES, overload
from .dispatch_mode import CaptureMode

_METHODS = {"matmul": ("__matmul__",)}
"""Other names of a method, by operator."""


def draw(stack: ExitStack, running: Callable[[], CaptureMode | None]) -> None:
    """Stand in for every function and method of PyTorch that is a composite operator.

    Args:
        stack: what puts them back.
        running: the capture of the thread that calls.
    """
    operators: dict[str, list[OpOverload]] = {}
    for name in sorted(COMPOSITES):
        if (operator := overload(name)) is not None:
            operators.setdefault(name.partition(".")[0], []).append(operator)
    for name, overloads in operators.items():
        for owner, attribute in _places(name):
            _replace(stack, owner, attribute, overloads, running)


def _places(name: str) -> Iterator[tuple[Any, str]]:
    for owner in (torch, torch.nn.functional, torch._C._nn, torch._VF, Tensor):
        for attribute in (name, *_METHODS.get(name, ())):
            if _is_native(getattr(owner, attribute, None)):
                yield owner, attribute


def _is_native(function: Any) -> bool:
    return callable(function) and not hasattr(function, "__code__") and not isinstance(function, type)


def _replace(
    stack: ExitStack,
    owner: Any,
    attribute: str,
    overloads: list[OpOverload],
    running: Callable[[], CaptureMode | None],
) -> None:
    original = getattr(owner, attribute)
    was_own = attribute in vars(owner)

    @wraps(original)
    def outline(*args: Any, **kwargs: Any) -> Any:
        session = running()
        if session is None or session.is_paused or _is_seen_below(args, kwargs):
            return original(*args, **kwargs)
        operator = next((o for o in overloads if _fits(o, args, kwargs)), None)
        if operator is None:
            return original(*args, **kwargs)
        run = partial(original, *args, **kwargs)
        if overloads[0].name() == sdpa.NAME:
            run = partial(_attend, original, args, kwargs)
        return session.whole(operator, args, _schema_names(operator, kwargs), run)

    def restore() -> None:
        if vars(owner).get(attribute) is not outline:
            return
        if was_own:
            setattr(owner, attribute, original)
        else:
            delattr(owner, attribute)

    setattr(owner, attribute, outline)
    stack.callback(restore)


def _is_seen_below(args: Any, kwargs: Any) -> bool:
    """Whether the call runs on others than its tensors: on batches of them, or on the parts that are here."""
    if torch._C._functorch.maybe_current_level() is not None:
        return True
    return any(hasattr(tensor, "_local_tensor") for tensor in tensors_of(args, kwargs))


def _attend(original: Any, args: Any, kwargs: Any) -> Any:
    result = sdpa.fused(*args, **kwargs)
    return original(*args, **kwargs) if result is None else result


def _schema_names(operator: OpOverload, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Functions of Python say ``input`` where some operators say ``self``."""
    known = {argument.name for argument in operator._schema.arguments}
    return {"self" if name == "input" and name not in known else name: value for name, value in kwargs.items()}


def _fits(operator: OpOverload, args: Any, kwargs: Any) -> bool:
    """Whether arguments are those of this overload, and not of another."""
    arguments = operator._schema.arguments
    if len(args) > len(arguments):
        return False
    given = dict(zip((argument.name for argument in arguments), args, strict=False))
    given.update(_schema_names(operator, kwargs))
    types = {argument.name: str(argument.type) for argument in arguments}
    return given.keys() <= types.keys() and all(_is_of(value, types[name]) for name, value in given.items())


def _is_of(value: Any, kind: str) -> bool:
    if value is None:
        return kind.startswith("Optional")
    if isinstance(value, Tensor):
        return kind in ("Tensor", "Optional[Tensor]")
    if isinstance(value, str):
        return kind in ("str", "Optional[str]")
    if isinstance(value, (list, tuple)):
        return "List" in kind
    return "Tensor" not in kind and "str" not in kind
