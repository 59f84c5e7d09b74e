"""Shape rules: results of operators for which PyTorch has no kernel on the meta device, or a wrong one.

A rule is asked only after the operator was refused. Sparse tensors need two more things: PyTorch moves them to the meta
device without their values, and its meta kernels return sparse results without any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..tensors import with_tensors
from .values import META, all_tensors


def where_by_bytes(native: str, args: Sequence[Any]) -> Any:
    """Return ``torch.where`` by a condition of bytes, which only the meta device refuses; None for other calls."""
    if native != "aten::where" or len(args) != 3 or args[0].dtype is not torch.uint8:
        return None
    with _disable_current_modes():
        return torch.where(torch.empty_like(args[0], dtype=torch.bool), *args[1:])


def result_without_kernel(
    native: str, args: Sequence[Any], kwargs: Mapping[str, Any], own: Callable[..., Any] | None = None
) -> Any:
    """Return the result of an operator on meta tensors, by a rule; None if there is none.

    Args:
        native: the name of the operator, ``aten::addmm``.
        args: its positional arguments.
        kwargs: its keyword arguments.
        own: the shape rule of the user.
    """
    if own is not None and any(x.is_meta for x in all_tensors((*args, *kwargs.values()))):
        with _disable_current_modes():
            first = next(x for x in all_tensors((*args, *kwargs.values())) if x.is_meta)
            return new_outputs(own(*args, **kwargs), first.dtype)
    if native in _LIKE_FIRST and args[0].is_meta:
        return torch.empty_like(args[0])
    rule = _RULES.get(native)
    if rule is None or not any(x.is_meta and x.layout is not torch.strided for x in all_tensors(args)):
        return None
    result = rule(*args)
    out = kwargs.get("out")
    return result if out is None else out


def new_outputs(result: Any, dtype: torch.dtype | None) -> Any:
    """Return the outputs that a shape rule stands for: new meta tensors for tensors and shapes.

    Args:
        result: what the rule returned; an input in it stands for a new tensor like it.
        dtype: the dtype of outputs given as shapes.
    """
    if isinstance(result, Tensor):
        return torch.empty_like(result, device=META, requires_grad=False)
    if isinstance(result, (tuple, list)) and result and all(isinstance(size, int) for size in result):
        return torch.empty(tuple(result), dtype=dtype, device=META)
    if isinstance(result, (tuple, list)):
        items: Iterable[Any] = (new_outputs(item, dtype) for item in result)
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    if type(result) is dict:
        return {key: new_outputs(item, dtype) for key, item in result.items()}
    # In objects, integers are indices and lengths, which stay.
    return with_tensors(result, lambda x: new_outputs(x, dtype) if x.is_floating_point() else x)


_LIKE_FIRST = frozenset(
    ("aten::_sample_dirichlet", "aten::_dirichlet_grad", "aten::_standard_gamma_grad", "aten::binomial")
)
"""Operators whose result is like their first argument."""

SPARSE_RESULT = "a sparse result was taken to have the values of its sparse operands"


def sparse_on_meta(tensor: Tensor) -> Tensor:
    """Return a sparse tensor on the meta device, with the number of values of the original."""
    if tensor.layout is torch.sparse_coo:
        return _coo(tensor, tuple(tensor.shape), tensor._indices(), tensor._values(), tensor.is_coalesced())
    is_by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (
        (tensor.crow_indices(), tensor.col_indices()) if is_by_row else (tensor.ccol_indices(), tensor.row_indices())
    )
    parts = [torch.empty_like(x, device=META) for x in (*indices, tensor.values())]
    made = torch.sparse_compressed_tensor(*parts, tensor.shape, layout=tensor.layout, check_invariants=False)
    return made.requires_grad_(tensor.requires_grad)


def _coo(like: Tensor, shape: Sequence[int], indices: Tensor, values: Tensor, is_coalesced: bool) -> Tensor:
    parts = torch.empty_like(indices, device=META), torch.empty_like(values, device=META)
    made = torch.sparse_coo_tensor(*parts, shape, is_coalesced=is_coalesced, check_invariants=False)
    return made.requires_grad_(like.requires_grad and like.is_leaf)


def with_values_of(result: Any, operands: Sequence[Tensor]) -> Any:
    """Return a sparse meta tensor with as many values as its sparse operands; any other result as it is."""
    if not isinstance(result, Tensor) or not result.is_meta or result.layout is not torch.sparse_coo or result._nnz():
        return result
    given = [x for x in operands if x.is_meta and x.layout is torch.sparse_coo and x._nnz()]
    if not given or given[0]._indices().shape[0] != result.sparse_dim():
        return result
    count = sum(x._nnz() for x in given)  # a sum has the values of both
    indices = given[0]._indices().new_empty((result.sparse_dim(), count))
    values = given[0]._values().new_empty((count, *given[0]._values().shape[1:]), dtype=result.dtype)
    return _coo(result, tuple(result.shape), indices, values, len(given) == 1 and given[0].is_coalesced())


def _product(x: Tensor, y: Tensor, *_: Any) -> Tensor:
    shape = (*x.shape[:-1], *y.shape[-1:]) if y.dim() > 1 else tuple(x.shape[:-1])
    is_sparse = x.layout is not torch.strided and y.layout is not torch.strided
    layout = x.layout if is_sparse else torch.strided
    return torch.empty(shape, dtype=x.dtype, layout=layout, device=META)


def _product_with_addend(addend: Tensor, x: Tensor, y: Tensor, *_: Any) -> Tensor:
    return _product(x, y)


_RULES: Mapping[str, Callable[..., Tensor]] = {
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::mv": _product,
    "aten::_sparse_mm": _product,
    "aten::_sparse_sparse_matmul": _product,
    "aten::addmm": _product_with_addend,
    "aten::addmv": _product_with_addend,
    "aten::_sparse_addmm": _product_with_addend,
}
