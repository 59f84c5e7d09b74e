"""Operators that want operands of one element type, which PyTorch does not ask for where there is no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..meta.operands import PLAIN
from ..tensors import dtype_name
from .plan import OperatorPlan

_NORMS = dict.fromkeys(
    ("aten::native_batch_norm", "aten::native_group_norm", "aten::native_layer_norm"),
    ("input", "weight", "bias", "running_mean", "running_var"),
)

SAME_DTYPE: Mapping[str, tuple[str, ...]] = {
    "aten::addmm": ("mat1", "mat2", "self"),
    "aten::binary_cross_entropy": ("self", "target"),
    "aten::convolution": ("input", "weight", "bias"),
    "aten::embedding_bag": ("weight", "per_sample_weights"),
    "aten::grid_sampler_2d": ("input", "grid"),
    "aten::grid_sampler_3d": ("input", "grid"),
    "aten::index_add": ("self", "source"),
    "aten::index_copy": ("self", "source"),
    "aten::index_put": ("self", "values"),
    "aten::linalg_cross": ("self", "other"),
    "aten::mm": ("self", "mat2"),
    "aten::mv": ("self", "vec"),
    **_NORMS,
}
"""Arguments that have to be of one type where there is data, by full name; not those that PyTorch compares anyway."""

_HALVES = (torch.float16, torch.bfloat16)
"""Types that a norm takes beside parameters in float32, on a CPU at least."""


class DtypeMismatchError(RuntimeError):
    """What a run with data would have raised.

    Args:
        operator: the operator, as reports name it.
        types: the types that met, two or more.
    """

    def __init__(self, operator: str, types: Sequence[torch.dtype]) -> None:
        super().__init__(f"PyTorch refuses {operator} of {' and '.join(map(dtype_name, types))}")
        self.types = tuple(types)


def check_dtypes(plan: OperatorPlan, tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse what a run with data would refuse for the types of its operands.

    Raises:
        DtypeMismatchError: naming the operator and the types.
    """
    names = SAME_DTYPE.get(plan.native)
    if names is None or len({tensor.dtype for tensor in tensors}) == 1 or any(type(x) not in PLAIN for x in tensors):
        return
    bound = plan.bind(args, kwargs)
    if "out_dtype" in bound:  # the addend may be of that type
        return
    operands = [bound[name] for name in names if isinstance(bound.get(name), Tensor)]
    types = dict.fromkeys(x.dtype for x in operands)
    if plan.native in _NORMS and (operands[0].dtype in _HALVES or not operands[0].numel()):
        types.pop(torch.float32, None)
    if len(types) > 1:
        raise DtypeMismatchError(plan.type, list(types))
