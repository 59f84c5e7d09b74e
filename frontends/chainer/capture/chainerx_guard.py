"""Rejects ChainerX arrays during a capture: ChainerX runs functions without calling Chainer's hooks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import chainer
from chainer import chainerx  # a package of its own, installed and imported with Chainer

from costcore.errors import CostError

_lock = threading.Lock()
_capturing: list[int] = []
"""The threads that capture, one entry per capture."""
_apply: Any = None


@contextmanager
def chainerx_rejected() -> Iterator[None]:
    """Reject ChainerX arrays in functions that this thread runs; does nothing if ChainerX is not installed.

    Raises:
        CostError: from the function that receives a ChainerX array.
    """
    if not chainerx.is_available():
        yield
        return
    global _apply
    thread = threading.get_ident()
    with _lock:
        if not _capturing:
            _apply, chainer.FunctionNode.apply = chainer.FunctionNode.apply, _checked_apply
        _capturing.append(thread)
    try:
        yield
    finally:
        with _lock:
            _capturing.remove(thread)
            if not _capturing:
                chainer.FunctionNode.apply = _apply


def is_chainerx(value: Any) -> bool:
    """Return True if a value is a ChainerX array or a Variable that holds one."""
    return isinstance(value.array if isinstance(value, chainer.Variable) else value, chainerx.ndarray)


def _checked_apply(self: Any, inputs: Any) -> Any:
    if threading.get_ident() in _capturing and any(map(is_chainerx, inputs)):
        raise CostError(
            f"{self.label}: cannot count a function of a ChainerX array, for which Chainer does not call hooks "
            "(expected NumPy or CuPy arrays). "
            "Move model and inputs first: model.to_cpu(), x = chainer.backend.from_chx(x)."
        )
    return _apply(self, inputs)
