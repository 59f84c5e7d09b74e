"""Reads what a function of Chainer returns, which Chainer does not pass to its hooks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter, thread_time
from typing import Any

_ABSENT = object()


class MethodWatch:
    """Replaces one method of one function object for one call, and keeps the return value.

    Chainer calls the function once. The watch removes itself from the object before it calls the method, so that
    several watches on one object (nested hooks), an exception in the call, and the method itself find the object
    unchanged.

    Args:
        function: the function object.
        method: the name of the method, ``forward`` or ``backward``.
        on_end: called with the watch after the call, whether it returned or raised.
        context: a context to run the call in.

    Attributes:
        function: the function object.
        returned: the return value of the method; None before the call, and if it raised.
        seconds: the duration of the call by the clock of the host.
        cpu_seconds: CPU time of the thread in the call.
    """

    def __init__(
        self,
        function: Any,
        method: str,
        on_end: Callable[[MethodWatch], None],
        context: AbstractContextManager[object] | None = None,
    ) -> None:
        self.function = function
        self.returned: Any = None
        self.seconds = self.cpu_seconds = 0.0
        self._method = method
        self._on_end = on_end
        self._context = nullcontext() if context is None else context
        self._before = vars(function).get(method, _ABSENT)
        setattr(function, method, self)

    def __call__(self, *args: Any) -> Any:
        """Call the method, and keep what it returns."""
        self.remove()
        method = getattr(self.function, self._method)
        try:
            with self._context:
                cpu, start = thread_time(), perf_counter()
                self.returned = method(*args)
                self.seconds = perf_counter() - start
                self.cpu_seconds = thread_time() - cpu
            return self.returned
        finally:
            self._on_end(self)

    def remove(self) -> None:
        """Restore the method of the object, unless that has happened already."""
        if vars(self.function).get(self._method) is not self:
            return
        if self._before is _ABSENT:
            delattr(self.function, self._method)
        else:
            setattr(self.function, self._method, self._before)
