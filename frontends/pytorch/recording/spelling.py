"""How the user's code spelled the calls of a thread: which function it called, or which symbol it wrote."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from types import FrameType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from costcore.trace.symbols import symbol_at

from ..function_names import spelling_of

_stack_size = torch._C._len_torch_function_stack
_mode_at = torch._C._get_function_stack_at
_pop = torch._C._pop_torch_function_stack
_push = torch._C._push_on_torch_function_stack

_PLAIN = frozenset((Tensor, Parameter))
"""Types of tensors without a ``__torch_function__`` of their own."""

_WRAPPERS = frozenset(("torch._tensor", "torch.overrides", "torch.utils._device"))
"""The modules of PyTorch whose functions run between the user's code and a mode."""

_SIZES, _OUTPUT_SIZES = ("size", "scale_factor"), ("output_size", "output_ratio")

_ALTERNATIVES: Mapping[Callable[..., Any], tuple[str, ...]] = {
    functional.interpolate: _SIZES,
    functional.upsample: _SIZES,
    functional.upsample_bilinear: _SIZES,
    functional.upsample_nearest: _SIZES,
    functional.fractional_max_pool2d: _OUTPUT_SIZES,
    functional.fractional_max_pool3d: _OUTPUT_SIZES,
    functional.fractional_max_pool2d_with_indices: _OUTPUT_SIZES,
    functional.fractional_max_pool3d_with_indices: _OUTPUT_SIZES,
}
"""The functions that take either of several arguments, and the names of these."""

_INDEXING = (Tensor.__getitem__, Tensor.__setitem__)

_ENTERED = (
    *(Tensor.backward, torch.autograd.backward, torch.autograd.grad),
    *(functional.multi_head_attention_forward, functional.local_response_norm, functional.gumbel_softmax),
    *(functional.lp_pool1d, functional.lp_pool2d, functional.lp_pool3d),
)
"""Functions that do not count as the function called: those that they call do."""


class Spellings(TorchFunctionMode):
    """Follows which function of PyTorch the code of one thread is calling; every thread has one, :func:`spellings`.

    The outermost function counts: ``torch.nn.functional.softmax``, and not ``torch.Tensor.softmax`` inside it. A mode
    is not active while it handles a function, so that it never sees the functions inside.

    Attributes:
        is_over: whether nobody listens any more; the mode may still be on the stack of its thread.
        index: returns the index that a tensor gets instead of another one; None to keep it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False
        self.index: Callable[[Tensor, Any], Any] | None = None
        self._function: Any = None
        """The function that is running; None outside any."""
        self._given: tuple[str, ...] = ()
        self._is_silent = False

    def start(self) -> None:
        """Push this mode on the mode stack, unless it is there since it was left in another thread."""
        self.is_over = False
        if self not in _stack():
            _push(self)

    def remove(self) -> None:
        """Remove this mode from the mode stack, also from below others."""
        if self not in _stack():
            return
        above = []
        while (mode := _pop()) is not self:
            above.append(mode)
        for mode in reversed(above):
            _push(mode)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, and note that it is running."""
        special = _SPECIAL.get(id(func))
        if special is not None and not self.is_over:
            twin, alternatives = special
            if twin is not None and _PLAIN.issuperset(types) and all(isinstance(x, DeviceContext) for x in _stack()):
                with self._active():
                    return twin(*args, **(kwargs or {}))
            self._given = _given(func, alternatives, args, kwargs or {})
        if self.index is not None and func in _INDEXING:
            args = (args[0], self.index(args[0], args[1]), *args[2:])
        before, self._function = self._function, func
        try:
            return func(*args, **kwargs) if kwargs else func(*args)
        finally:
            self._function = before
            self._given = ()

    def facts(self) -> tuple[str, tuple[str, ...]]:
        """Return the name of the function that is running, or "", and which of its alternative arguments were given."""
        if self._function is None:
            return "", ()
        name, method, symbol = spelling_of(self._function)
        if not symbol:
            return name, self._given
        frame = _caller()
        if frame is None:
            return name, ()
        code = frame.f_code
        written = symbol_at(code, frame.f_lasti)
        if not written and method and method in code.co_names:
            return name, ()
        return f"operator.{written or symbol}", ()  # without a symbol: sum() and functions of the module operator

    @property
    def is_listening(self) -> bool:
        """Whether a function that is called now is noted."""
        return self._function is None and not self._is_silent

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Call functions inside the context without a notice, which takes time, unless another mode comes first."""
        size = _stack_size()
        is_next = size > 0 and _mode_at(size - 1) is self
        if is_next:
            _pop()
        was_silent, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = was_silent
            if is_next:
                _push(self)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Note functions inside the context, which no other mode sees, although another function is running."""
        others = [_pop() for _ in range(_stack_size())]
        before, self._function = self._function, None
        was_silent, self._is_silent = self._is_silent, False
        try:
            with self._active():
                yield
        finally:
            self._function, self._is_silent = before, was_silent
            for mode in reversed(others):
                _push(mode)

    @contextmanager
    def running(self, function: Any) -> Iterator[None]:
        """Take all calls inside the context for calls of a function."""
        before, self._function = self._function, function
        try:
            yield
        finally:
            self._function = before

    @contextmanager
    def _active(self) -> Iterator[None]:
        _push(self)
        try:
            yield
        finally:
            self.remove()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.spellings = Spellings()


_THREAD = _Thread()


def spellings() -> Spellings:
    """Return the spellings of the running thread."""
    return _THREAD.spellings


_HANDLER = Spellings.__torch_function__.__code__


def _stack() -> list[Any]:
    return [_mode_at(i) for i in range(_stack_size())]


def _caller() -> FrameType | None:
    """Return the frame that called the function that is running; None if it is not on the stack."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _HANDLER:
        frame = frame.f_back
    frame = frame and frame.f_back
    while frame is not None and frame.f_globals.get("__name__") in _WRAPPERS:
        frame = frame.f_back
    return frame


def _given(function: Any, names: tuple[str, ...], args: Any, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    if not names:
        return ()
    passed = {**dict(zip(signature(function).parameters, args, strict=False)), **kwargs}
    return tuple(name for name in names if passed.get(name) is not None)


class _Globals(dict[str, Any]):
    """Globals of a function: a few of its own, and the present ones of its module."""

    def __init__(self, own: Mapping[str, Any], module: dict[str, Any]) -> None:
        super().__init__(own)
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]


def _twin(function: Any) -> Any:
    """Return a function that runs the code of ``function`` and does not pass itself to the active mode."""
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    own = dict.fromkeys(checks, lambda *_: False)
    twin = FunctionType(
        function.__code__.replace(),
        _Globals(own, function.__globals__),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


_SPECIAL: dict[int, tuple[Any, tuple[str, ...]]] = {
    **{id(function): (_twin(function), ()) for function in _ENTERED if type(function) is FunctionType},
    **{id(function): (None, names) for function, names in _ALTERNATIVES.items()},
}
"""The functions that are entered, with their twins, and those with alternatives, with their names; by id, because a
function of the user may not be hashable."""
