"""Numbers assigned to places of a tensor, ``x[0] = 1``: where there is data PyTorch fills the places.

On the meta device it makes a tensor of the number first, views that in the shape of the places, and copies it there.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .plan import OperatorPlan

PICKS = frozenset(("aten::select", "aten::slice", "aten::unsqueeze", "aten::view", "aten::expand"))
"""What comes between the number and its copy: the places are picked, and the number is viewed."""


class ScalarFills:
    """Follows a number from the tensor that is made of it to the copy.

    Attributes:
        number: the tensor of a number that may be on its way.
    """

    def __init__(self) -> None:
        self.number: Tensor | None = None

    def made(self, plan: OperatorPlan, result: object) -> None:
        """Something that is not listed was made."""
        if plan.native == "aten::scalar_tensor" and isinstance(result, Tensor) and result.is_meta:
            self.number = result

    def step(self, plan: OperatorPlan, tensors: Sequence[Tensor]) -> str:
        """What a call is to the number: a ``view`` of it, the ``fill`` with it, or nothing, ``""``."""
        is_read = len(tensors) > 0 and self.number is not None and _memory(tensors[-1]) == _memory(self.number)
        if plan.native in PICKS:
            return "view" if is_read else ""
        self.number = None
        return "fill" if is_read and plan.native == "aten::copy" else ""


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.is_meta else 0
