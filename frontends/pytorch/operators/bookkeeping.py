"""Sets of operators: bookkeeping of PyTorch, and operators whose results need special treatment."""

from __future__ import annotations

_ATEN = """
empty empty_like empty_permuted empty_strided new_empty new_empty_strided scalar_tensor _efficientzerotensor
resize resize_as set detach alias lift lift_fresh record_stream is_pinned _pin_memory _version _backward requires_grad
dim size stride is_contiguous is_same_size is_set_to sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous
_has_same_storage_numel _has_compatible_shallow_copy_type
_assert_async _functional_assert_async _assert_tensor_metadata _linalg_check_errors
q_scale q_zero_point qscheme q_per_channel_scales q_per_channel_zero_points q_per_channel_axis
is_coalesced _coalesced _nnz dense_dim sparse_dim _dimI _dimV
"""

BOOKKEEPING = frozenset(
    (
        *(f"aten::{name}" for name in _ATEN.split()),
        *("_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd", "c10d_functional::wait_tensor"),
        "fsdp::record_grad_output_stream",
    )
)
"""Operators that PyTorch calls for its own bookkeeping; they are never recorded."""

BOOKKEEPING_NAMES = (
    *("profiler::", "prim::", "prims::device_put"),
    *("aten::_nested_get_", "aten::_nested_view_from_jagged"),
    *("aten::_nested_tensor_size", "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets"),
)
"""Beginnings of the names of further bookkeeping operators: namespaces, and accessors of nested tensors."""

ALIASES = frozenset(("aten::detach", "aten::alias", "aten::lift", "aten::lift_fresh"))
"""Bookkeeping operators that return their input as another tensor object."""

DATA_DEPENDENT_SHAPES = frozenset(
    (
        *("torchvision::nms", "aten::_pack_padded_sequence", "aten::_padded_dense_to_jagged_forward"),
        *(f"aten::_to_sparse{layout}" for layout in ("", "_csr", "_csc", "_bsr", "_bsc")),
    )
)
"""Operators with data-dependent output shapes that PyTorch does not tag ``dynamic_output_shape``."""
