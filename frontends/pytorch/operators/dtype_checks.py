"""Operators whose operands must share a dtype, which PyTorch does not check on the meta device."""

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
    "aten::baddbmm": ("self", "batch1", "batch2"),
    "aten::binary_cross_entropy": ("self", "target"),
    "aten::bmm": ("self", "mat2"),
    "aten::convolution": ("input", "weight", "bias"),
    "aten::dot": ("self", "tensor"),
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
"""Arguments that must share a dtype in a run, by operator; without those that every PyTorch checks there."""

_HALVES = (torch.float16, torch.bfloat16)
"""Dtypes that a normalization accepts together with parameters in float32, at least on a CPU."""


INTEGERS_ONLY: Mapping[str, str] = {"aten::embedding": "indices"}
"""Arguments that must be int32 or int64 in a run, by operator, in messages of PyTorch ``Long, Int``."""


class DtypeMismatchError(RuntimeError):
    """The error that a run would have raised.

    Args:
        operator: the name of the operator in reports.
        dtypes: the dtypes of its operands, two or more.
    """

    def __init__(self, operator: str, dtypes: Sequence[torch.dtype]) -> None:
        super().__init__(f"PyTorch refuses {operator} of {' and '.join(map(dtype_name, dtypes))}")
        self.dtypes = tuple(dtypes)


class IndexDtypeError(RuntimeError):
    """The error that a run would have raised about indices, in the words of PyTorch.

    Args:
        operator: the name of the operator in reports.
        argument: the name of its argument.
        dtype: its dtype.
    """

    def __init__(self, operator: str, argument: str, dtype: torch.dtype) -> None:
        accepted = "expected one of: Long, Int"
        super().__init__(f"PyTorch refuses {argument} of {operator} with dtype {dtype_name(dtype)} ({accepted})")


def check_dtypes(plan: OperatorPlan, tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check that a run would accept the dtypes of a call.

    Raises:
        DtypeMismatchError: if it would not; the message includes the operator and the dtypes.
    """
    if plan.native in INTEGERS_ONLY:
        _check_integers(plan, args, kwargs)
    names = SAME_DTYPE.get(plan.native)
    if names is None or len({tensor.dtype for tensor in tensors}) == 1 or any(type(x) not in PLAIN for x in tensors):
        return
    bound = plan.bind(args, kwargs)
    if "out_dtype" in bound:  # the addend may have that dtype
        return
    operands = [bound[name] for name in names if isinstance(bound.get(name), Tensor)]
    dtypes = dict.fromkeys(x.dtype for x in operands)
    if plan.native in _NORMS and (operands[0].dtype in _HALVES or not operands[0].numel()):
        dtypes.pop(torch.float32, None)
    if len(dtypes) > 1:
        raise DtypeMismatchError(plan.type, list(dtypes))


def _check_integers(plan: OperatorPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    name = INTEGERS_ONLY[plan.native]
    found = plan.bind(args, kwargs)[name]
    if type(found) in PLAIN and found.dtype not in (torch.int32, torch.int64):
        raise IndexDtypeError(plan.type, name, found.dtype)
