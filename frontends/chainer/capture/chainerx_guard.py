"""ChainerX runs a function without telling Chainer's hooks; so its arrays are refused while something counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import chainer
from chainer import chainerx  # its own package, which ships and loads with Chainer

from costcore.errors import CostError

_lock = threading.Lock()
_counting: list[int] = []
_apply: Any = None


@contextmanager
def chainerx_refused() -> Iterator[None]:
    """Refuse ChainerX arrays in functions that this thread runs; nothing to do where ChainerX is not built in.

    Raises:
        CostError: from the function that is given one.
    """
    if not chainerx.is_available():
        yield
        return
    global _apply
    thread = threading.get_ident()
    with _lock:
        if not _counting:
            _apply, chainer.FunctionNode.apply = chainer.FunctionNode.apply, _checked_apply
        _counting.append(thread)
    try:
        yield
    finally:
        with _lock:
            _counting.remove(thread)
            if not _counting:
                chainer.FunctionNode.apply = _apply


def is_chainerx(value: Any) -> bool:
    """Whether a value is, or holds, a ChainerX array."""
    return isinstance(value.array if isinstance(value, chainer.Variable) else value, chainerx.ndarray)


def _checked_apply(self: Any, inputs: Any) -> Any:
    if threading.get_ident() in _counting and any(map(is_chainerx, inputs)):
        raise CostError(
            f"{self.label} is given a ChainerX array, which ChainerX runs without telling hooks, so it is not counted; "
            "move model and inputs to NumPy or CuPy first: model.to_cpu(), x = chainer.backend.from_chx(x)"
        )
    return _apply(self, inputs)
