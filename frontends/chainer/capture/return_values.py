"""Seeing what a function of Chainer returns, which its hooks are not told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

_ABSENT = object()


class Watch:
    """Stands for one method of one function object, for one call, and keeps what it returned.

    The function is called once, by Chainer. The watch takes itself off the object before it passes the call on, so
    that several watches on one object (nested hooks), an exception in the call, and the method itself find the object
    as it was.

    Args:
        function: the function object.
        method: the name of the method, ``forward`` or ``backward``.
        ended: told after the call, whether it returned or raised.
        around: a context to run the call in.

    Attributes:
        function: the function object.
        returned: what the method returned; None before, and where it raised.
        seconds: how long it took.
    """

    def __init__(
        self,
        function: Any,
        method: str,
        ended: Callable[[Watch], None],
        around: AbstractContextManager[object] | None = None,
    ) -> None:
        self.function = function
        self.returned: Any = None
        self.seconds = 0.0
        self._method = method
        self._ended = ended
        self._around = nullcontext() if around is None else around
        self._before = vars(function).get(method, _ABSENT)
        setattr(function, method, self)

    def __call__(self, *args: Any) -> Any:
        """Pass the call on, and keep what it returns."""
        self.take_off()
        method = getattr(self.function, self._method)
        try:
            with self._around:
                start = perf_counter()
                self.returned = method(*args)
                self.seconds = perf_counter() - start
            return self.returned
        finally:
            self._ended(self)

    def take_off(self) -> None:
        """Leave the object as it was, if that has not happened yet."""
        if vars(self.function).get(self._method) is not self:
            return
        if self._before is _ABSENT:
            delattr(self.function, self._method)
        else:
            setattr(self.function, self._method, self._before)
