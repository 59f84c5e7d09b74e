"""The memory behind tensors: storages of ordinary tensors, and the parts of all others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..meta.contents import without_capture
from ..meta.operands import PLAIN

STRIDED = torch.strided

PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
"""The methods that return the tensors of which a sparse tensor consists, by its layout."""


def parts_of(tensor: Tensor) -> Sequence[Tensor] | None:
    """Return the ordinary tensors of which a tensor consists, itself if it is one; None if it has no visible memory."""
    if type(tensor) not in PLAIN and is_traceable_wrapper_subclass(tensor):
        with without_capture():
            names, _ = tensor.__tensor_flatten__()
            inner = [getattr(tensor, name) for name in names]
        return [part for each in inner if isinstance(each, Tensor) for part in parts_of(each) or ()]
    if tensor.layout in PARTS:
        with without_capture():
            return [getattr(tensor, name)() for name in PARTS[tensor.layout]]
    return None if storage_of(tensor) is None else (tensor,)


def nested_parts_of(tensor: Tensor) -> list[Tensor]:
    """Return the sizes, strides and offsets that a nested tensor of strided layout keeps in memory of its own."""
    with without_capture():
        return [getattr(tensor, f"_nested_tensor_{name}")() for name in ("size", "strides", "storage_offsets")]


def storage_of(tensor: Tensor) -> UntypedStorage | None:
    """Return the storage of a tensor; None for sparse, batched and opaque tensors."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def is_dense(tensor: Tensor) -> bool:
    """Return whether a tensor is an ordinary one whose elements are one after another in memory, in any order."""
    if type(tensor) not in PLAIN or tensor.layout is not STRIDED:
        return False
    if tensor.is_contiguous():
        return True
    expected = 1
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True
