"""Assignments of a number to elements of a tensor, ``x[0] = 1``.

With data PyTorch fills the elements. On the meta device it makes a tensor of the number, views it in the shape of the
elements, and copies it there. The copy is recorded as the fill, and the views are not recorded. A number that is
assigned to one element, ``x[0, 0] = 1`` of a matrix, is copied with data too.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from torch import Tensor

from .plan import OperatorPlan

VIEWS = frozenset(("aten::select", "aten::slice", "aten::unsqueeze", "aten::view", "aten::expand"))
"""The operators between the tensor of the number and its copy: they select the elements, and view the number."""


class FillStep(Enum):
    """What a call is in an assignment of a number."""

    NONE = auto()
    VIEW = auto()
    COPY = auto()


class ScalarFills:
    """Follows the tensor of a number from its creation to its copy.

    Attributes:
        number: the tensor of a number that may be about to be copied.
    """

    def __init__(self) -> None:
        self.number: Tensor | None = None

    def watch_unrecorded(self, plan: OperatorPlan, result: object) -> None:
        """Follow the result of an unrecorded operator if it is the tensor of a number."""
        if plan.native == "aten::scalar_tensor" and isinstance(result, Tensor) and result.is_meta:
            self.number = result

    def step_of(self, plan: OperatorPlan, tensors: Sequence[Tensor]) -> FillStep:
        """Return what a call is to the number that is followed."""
        is_read = len(tensors) > 0 and self.number is not None and _memory(tensors[-1]) == _memory(self.number)
        if plan.native in VIEWS:
            return FillStep.VIEW if is_read else FillStep.NONE
        self.number = None
        return FillStep.COPY if is_read and plan.native == "aten::copy" and tensors[0].dim() else FillStep.NONE


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.is_meta else 0
