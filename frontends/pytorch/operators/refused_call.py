"""The operator call that raised an error, for messages that state the shapes of its operands."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..meta.operands import all_tensors
from ..tensors import dtype_name
from .plan import OperatorPlan

MAX_OPERANDS = 6
"""The maximum number of operands of a message."""


class RefusedCalls:
    """The outermost operator that an exception passed through; one of PyTorch's own may call others."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._text = ""

    def note(self, error: BaseException, plan: OperatorPlan, args: Any, kwargs: Any) -> None:
        """Note that a call raised ``error``."""
        self._error = error
        self._text = _described(plan, args, kwargs)

    def described(self, error: BaseException) -> str:
        """Return the operator that raised ``error`` and its operands; empty if no operator did."""
        return self._text if error is self._error else ""


def _described(plan: OperatorPlan, args: Any, kwargs: Any) -> str:
    named = [
        (f"{name}[{i}]" if isinstance(value, (list, tuple)) else name, tensor)
        for name, value in plan.bind(tuple(args), dict(kwargs or {})).items()
        for i, tensor in enumerate(all_tensors((value,)))
    ]
    are_mixed = len({tensor.dtype for _, tensor in named}) > 1
    shown = [f"{name} {_shape(tensor, are_mixed)}" for name, tensor in named[:MAX_OPERANDS]]
    more = f" and {len(named) - MAX_OPERANDS} more" if len(named) > MAX_OPERANDS else ""
    return f"operands of {plan.type}: {', '.join(shown)}{more}" if shown else ""


def _shape(tensor: Tensor, has_dtype: bool) -> str:
    shape = str(tuple(tensor.shape))
    return f"{shape} {dtype_name(tensor.dtype)}" if has_dtype else shape
