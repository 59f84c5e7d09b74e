"""Operators that are housekeeping of PyTorch, and operators with special results."""

from __future__ import annotations

BOOKKEEPING = frozenset(
    {
        *("aten::empty", "aten::empty_like", "aten::empty_permuted", "aten::empty_strided"),
        *("aten::new_empty", "aten::new_empty_strided", "aten::resize", "aten::resize_as", "aten::set"),
        *(
            "aten::scalar_tensor",
            "aten::detach",
            "aten::alias",
            "aten::lift",
            "aten::lift_fresh",
            "aten::_version",
            "aten::record_stream",
            "aten::_has_same_storage_numel",
        ),
        *("aten::_efficientzerotensor", "aten::_linalg_check_errors", "aten::is_coalesced"),
        *("aten::q_scale", "aten::q_zero_point", "aten::qscheme", "aten::q_per_channel_scales", "aten::is_set_to"),
        *("aten::q_per_channel_zero_points", "aten::q_per_channel_axis", "aten::_nnz", "aten::dense_dim"),
        *("aten::sparse_dim", "aten::_dimI", "aten::_dimV", "aten::_coalesced"),
        *("aten::is_pinned", "aten::_pin_memory", "aten::is_same_size", "aten::_assert_async"),
        *("aten::_assert_tensor_metadata", "aten::_has_compatible_shallow_copy_type", "aten::_functional_assert_async"),
        *(
            "aten::sym_size",
            "aten::sym_stride",
            "aten::sym_numel",
            "aten::sym_storage_offset",
            "aten::sym_is_contiguous",
        ),
        *("aten::is_contiguous", "aten::stride", "aten::size", "aten::_backward", "aten::requires_grad", "aten::dim"),
        *("_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd", "c10d_functional::wait_tensor"),
    }
)
"""The framework's own housekeeping, which is never listed."""

ALIASES = frozenset({"aten::detach", "aten::alias", "aten::lift", "aten::lift_fresh"})
"""Bookkeeping that returns its input under another name."""

DATA_DEPENDENT_SHAPES = frozenset(
    {
        *("torchvision::nms", "aten::_pack_padded_sequence", "aten::_padded_dense_to_jagged_forward"),
        *(f"aten::_to_sparse{kind}" for kind in ("", "_csr", "_csc", "_bsr", "_bsc")),
    }
)
"""Operators whose outputs have shapes that depend on data, beside those that PyTorch tags so."""

BOOKKEEPING_NAMESPACES = (
    *("profiler::", "prim::", "prims::device_put"),
    *("aten::_nested_get_", "aten::_nested_view_from_jagged"),
    *("aten::_nested_tensor_size", "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets"),
)
