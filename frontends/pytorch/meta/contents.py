"""Contents of a storage on the meta device: its bytes, computed on the CPU when they are first read.

Nothing is computed while a model runs. Each operator on known values is kept with its arguments, and runs only if a
later operator needs the values themselves (the number of an ``if``, the size of a ``nonzero``). Contents never change:
an in-place operator gives its storage new contents, which are computed from a copy of the former ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, UntypedStorage

Layout: TypeAlias = "tuple[torch.Size, tuple[int, ...], torch.dtype]"
"""Shape, strides and dtype of a tensor that starts at the beginning of its storage."""

MAX_DEPTH = 16
"""How many operators may wait for one another; contents that depend on more are computed at once."""

CPU = torch.device("cpu")

_CAPTURED = (
    torch._C.DispatchKeySet(torch._C.DispatchKey.PreDispatch)
    .add(torch._C.DispatchKey.Python)
    .add(torch._C.DispatchKey.PythonTLSSnapshot)
    .add(torch._C.DispatchKey.AutocastCPU)
)


class Contents:
    """The bytes of a storage.

    Args:
        compute: returns them, or None if they turn out to be unknown; called at most once.
        assumptions: what they rest on, as bits; see :mod:`.choices`.
        depth: how many operators wait for one another.
    """

    __slots__ = ("_compute", "_storage", "assumptions", "depth")

    def __init__(self, compute: Callable[[], UntypedStorage | None], assumptions: int = 0, depth: int = 0) -> None:
        self._compute: Callable[[], UntypedStorage | None] | None = compute
        self._storage: UntypedStorage | None = None
        self.assumptions = assumptions
        self.depth = depth

    def storage(self) -> UntypedStorage | None:
        """Return a storage on the CPU that holds them, which must not be written to; None if they are unknown."""
        if self._compute is not None:
            compute, self._compute = self._compute, None
            self._storage = compute()
            self.depth = 0
        return self._storage


class Reading(NamedTuple):
    """A tensor whose values are known, as an argument of an operator that has not run yet."""

    contents: Contents
    dtype: torch.dtype
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    def in_storage(self, storage: UntypedStorage) -> Tensor:
        """Return the tensor in a storage on the CPU."""
        return torch.empty(0, dtype=self.dtype, device=CPU).set_(storage, self.offset, self.shape, self.stride)


def without_capture() -> ExitStack:
    """Return a context in which operators run on the CPU as if nothing was captured."""
    stack = ExitStack()
    stack.enter_context(torch._C._ExcludeDispatchKeyGuard(_CAPTURED))
    stack.enter_context(torch._C._DisableFuncTorch())
    stack.enter_context(torch._C.DisableTorchFunction())
    return stack


def layout_of(tensor: Tensor) -> Layout:
    """Return shape, strides and dtype of a tensor."""
    return tensor.shape, tensor.stride(), tensor.dtype


def storage_with(value: Tensor, layout: Layout) -> UntypedStorage | None:
    """Return a storage that holds ``value`` in a layout; None if shape or dtype differ."""
    shape, stride, dtype = layout
    if value.shape != shape or value.dtype != dtype:
        return None
    if value.stride() != stride or value.storage_offset() or not value.is_cpu:
        value = torch.empty_strided(shape, stride, dtype=dtype, device=CPU).copy_(value)
    return value.untyped_storage()


class UnknownValueError(Exception):
    """An argument whose contents turned out to be unknown."""


class WaitingCall:
    """An operator call that runs when one of its results is read.

    Args:
        func: the operator.
        args: its positional arguments, with a :class:`Reading` for each tensor.
        kwargs: its keyword arguments, likewise.
        results: layouts of the tensors that it returns; None: not needed.
        written: the contents of the storages that it writes to, before the call. New contents take their place.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        results: Sequence[Layout | None] = (),
        written: Sequence[Contents] = (),
    ) -> None:
        self._call: tuple[Any, ...] | None = (func, args, kwargs, results, written)
        self._storages: Sequence[UntypedStorage | None] = [None] * (len(results) + len(written))

    def storage(self, index: int) -> UntypedStorage | None:
        """Return the storage of a result, or, numbered after the results, the new one of a storage written to."""
        if self._call is not None:
            call, self._call = self._call, None
            with without_capture(), suppress(*UNKNOWN):
                self._storages = _run(*call)
        return self._storages[index]


UNKNOWN = (UnknownValueError, RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
"""How an operator fails whose arguments are unknown, or which the CPU does not support for their dtypes."""


def run_on_data(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Run an operator that writes to tensors with data; return whether it ran."""
    with without_capture():
        try:
            func(*_filled(args, {}), **_filled(kwargs, {}))
        except UNKNOWN:
            return False
    return True


def _run(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    results: Sequence[Layout | None],
    written: Sequence[Contents],
) -> Sequence[UntypedStorage | None]:
    copies: dict[int, UntypedStorage] = {}
    for contents in written:
        before = contents.storage()
        if before is None:
            raise UnknownValueError
        copies[id(contents)] = before.clone()
    made = func(*_filled(args, copies), **_filled(kwargs, copies))
    outputs = made if isinstance(made, (tuple, list)) else (made,)
    storages = [None if x is None else storage_with(y, x) for x, y in zip(results, outputs, strict=False)]
    return [*storages, *copies.values()]


def _filled(value: Any, copies: Mapping[int, UntypedStorage]) -> Any:
    """Return an argument with tensors on the CPU in place of readings."""
    kind = type(value)
    if kind is Reading:
        storage = copies.get(id(value.contents)) or value.contents.storage()
        if storage is None:
            raise UnknownValueError
        return value.in_storage(storage)
    if kind is list or kind is tuple:
        return kind([_filled(item, copies) for item in value])
    if kind is dict:
        return {name: _filled(item, copies) for name, item in value.items()}
    return CPU if kind is torch.device else value
