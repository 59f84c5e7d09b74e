"""Bounds the time and the memory of making a model of a configuration that other people wrote."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from costcore.errors import CostError

from ..meta.operands import META

MOST_PARTS = 200_000
"""The most modules and parameters; a model of 61 layers with 256 experts each, as modules, has 100,000."""

MOST_CALLS = 10**6
"""The most calls of PyTorch, which initialize weights."""

MOST_SECONDS = 5.0
"""The most seconds between two parts or calls: loops in Python over all positions take hours."""

MOST_BYTES = 2**29
"""The most bytes of a tensor that is computed: a table of positions, a mask."""

SMALL = 2**22
"""Results with fewer elements are not looked at."""


FACTORIES = frozenset(
    getattr(torch, name)
    for name in ("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "zeros")
)
"""Functions of sizes, not of tensors."""


class _StoppedError(BaseException):
    """Raised in the thread that makes a model for too long. No code of a library catches it as an error."""


@contextmanager
def bounded() -> Iterator[None]:
    """Refuse a model of too many parts, or that takes too long for the next one; compute no large tensors.

    Raises:
        CostError: if the model that is made inside is beyond these bounds.
    """
    watch = _Watch()
    handles = [
        register_module_module_registration_hook(watch.part),
        register_module_parameter_registration_hook(watch.part),
    ]
    try:
        with _SmallTensors(watch.call):
            watch.start()
            yield
    except _StoppedError:
        raise CostError(
            f"the model takes more than {MOST_SECONDS:g} seconds to make one of its parts, or to initialize it"
        ) from None
    finally:
        watch.stop()
        for handle in handles:
            handle.remove()


class _Watch:
    """Counts the parts of a model, and raises an exception in the thread that makes it if none comes for too long."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._parts, self._calls, self._last = 0, 0, time.monotonic()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._is_raised = False

    def part(self, *_: Any) -> None:
        """Note a module or a parameter."""
        if threading.get_ident() != self._thread:
            return
        self._parts += 1
        self._last = time.monotonic()
        if self._parts > MOST_PARTS:
            raise CostError(f"the model has more than {MOST_PARTS:,} modules and parameters")

    def call(self) -> None:
        """Note a call of PyTorch."""
        self._calls += 1
        self._last = time.monotonic()
        if self._calls > MOST_CALLS:
            raise CostError(f"the model makes more than {MOST_CALLS:,} calls of PyTorch before it runs")

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._look, daemon=True).start()

    def stop(self) -> None:
        """End; an exception that was not raised yet is taken back."""
        with self._lock:
            self._ended.set()
            if self._is_raised:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), None)

    def _look(self) -> None:
        while not self._ended.wait(max(self._last + MOST_SECONDS - time.monotonic(), 0.01)):
            with self._lock:
                is_late = time.monotonic() - self._last > MOST_SECONDS
                if is_late and not self._ended.is_set() and not self._is_raised:
                    self._is_raised = True
                    found = ctypes.py_object(_StoppedError)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), found)


class _SmallTensors(TorchFunctionMode):
    """Computes large results on the meta device: weights, of which only the shape is kept, and tables without end.

    Args:
        note: is called before every call.
    """

    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self._note()
        is_parameter = args and isinstance(args[0], torch.Tensor) and args[0].is_meta
        if is_parameter:  # their attributes are read often
            return function(*args, **kwargs)
        if _bound((args, kwargs)) > SMALL:
            on_meta = {**_on_meta(kwargs), **({"device": META} if function in FACTORIES else {})}
            with suppress(RuntimeError, TypeError, ValueError):  # the call itself says so
                made = function(*_on_meta(tuple(args)), **on_meta)
                if isinstance(made, torch.Tensor) and made.untyped_storage().nbytes() > MOST_BYTES:
                    return made
        return function(*args, **kwargs)


def _bound(value: Any) -> int:
    """Return an upper bound of the elements of a result: those of all tensors multiplied, and all numbers."""
    if isinstance(value, torch.Tensor):
        return int(max(value.numel(), 1))
    if isinstance(value, (int, float)):
        return int(max(min(abs(value), 2.0**62), 1)) if value == value else 1
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    bound: int = prod(map(_bound, inner))
    return bound


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(META)
    if isinstance(value, Mapping):
        return {name: _on_meta(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_on_meta, value)) if type(value) in (list, tuple) else value
    return value
