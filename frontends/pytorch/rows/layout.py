"""Rows of views, which cost nothing, and of operators that copy, rearrange or fill tensors."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .arguments import X, axis, first_argument, first_output, non_default, rows_by_name

_VIEWS = """
view view_as_real view_as_complex as_strided expand select slice split split_with_sizes chunk narrow unbind unfold
permute transpose t squeeze unsqueeze diagonal movedim swapaxes real imag reshape _unsafe_view _reshape_alias
_nested_view_from_buffer values indices crow_indices col_indices ccol_indices row_indices _values _indices _conj
_neg_view _fw_primal _make_dual unsafe_split unsafe_split_with_sizes unsafe_chunk
"""

VIEWS = (*rows_by_name(_VIEWS, X, op="view"), *rows_by_name("item is_nonzero", X, op="identity"))


def _copy_or_cast(args: Arguments) -> str:
    dtype = args.get("dtype")
    return "copy" if dtype is None or dtype == first_argument(args).dtype else "cast"


def _copy_or_cast_from(args: Arguments) -> str:
    return "copy" if args["self"].dtype == args["src"].dtype else "cast"


_COPIES = """
clone contiguous resolve_conj resolve_neg view_copy alias_copy squeeze_copy unsqueeze_copy view_as_real_copy
view_as_complex_copy values_copy indices_copy _reshape_copy detach_copy lift_fresh_copy _to_dense to_mkldnn _copy_from
_cudnn_rnn_flatten_weight int_repr _make_per_tensor_quantized_tensor
"""

COPIES = (
    Row("aten::_to_copy", _copy_or_cast, X, ops=("copy", "cast")),
    Row("aten::copy", _copy_or_cast_from, {"x": "src"}, ops=("copy", "cast")),
    *rows_by_name(_COPIES, X, op="copy"),
    *rows_by_name("narrow_copy slice_copy", X, op="slice"),
    *rows_by_name("permute_copy transpose_copy t_copy", X, op="transpose"),
    *rows_by_name("split_copy split_with_sizes_copy", X, op="split"),
    *rows_by_name("select_copy=select unbind_copy=unbind diagonal_copy=diagonal", X),
    *rows_by_name("as_strided_copy=as_strided unfold_copy=unfold expand_copy=broadcast_to", X),
    Row(
        "aten::_make_per_channel_quantized_tensor",
        "copy",
        {"x": "self", "scale": "scale", "zero_point": "zero_point"},
    ),
)


def _new_axis(args: Arguments) -> int:
    return int(args["dim"]) % (int(args["tensors"][0].dim()) + 1)


_PADS = """
constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
replication_pad3d
"""

REARRANGEMENTS = (
    *rows_by_name("flip roll rot90 pixel_shuffle=depth_to_space pixel_unshuffle=space_to_depth channel_shuffle", X),
    *rows_by_name("native_channel_shuffle=channel_shuffle", X),
    *rows_by_name("triu tril", X, {"diagonal": non_default("diagonal", 0)}),
    *rows_by_name("repeat=tile diag_embed im2col col2im repeat_interleave=repeat one_hot", X),
    *rows_by_name(_PADS, X, {"padding": lambda args: args.get("pad", args.get("padding"))}, op="pad"),
    Row("aten::to_padded_tensor", "pad", X),
    Row("aten::_jagged_to_padded_dense_forward", "pad", {"x": "values"}),
    Row("aten::_padded_dense_to_jagged_forward", "pad", {"x": "dense"}),
    Row("aten::_pack_padded_sequence", "slice", {"x": "input"}, outputs=first_output),
    Row("aten::cat", "copy", {"x": lambda args: args["tensors"][0]}, when=lambda args: len(args["tensors"]) == 1),
    *(Row(f"aten::{name}", "concat", {"x*": "tensors"}, {"axis": axis()}) for name in ("cat", "_chunk_cat")),
    Row("aten::stack", "stack", {"x*": "tensors"}, {"axis": _new_axis}),
    Row("aten::_stack", "stack", {"x*": "tensors"}),
    Row("aten::block_diag", "block_diag", {"x*": "tensors"}),
    Row("aten::complex", "complex", {"x0": "real", "x1": "imag"}),
)

_FILLS = """
zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero scalar_tensor _foreach_zero
"""

FILLS = (
    *rows_by_name(_FILLS, {}, op="full"),
    *rows_by_name("arange range fft_fftfreq fft_rfftfreq", {}, op="arange"),
    *rows_by_name("tril_indices triu_indices", {}, op="triangle_indices"),
    Row("aten::eye", "eye"),
    *rows_by_name("linspace logspace", {"x0": "start", "x1": "end"}, op="linspace"),
)

ROWS = (*VIEWS, *COPIES, *REARRANGEMENTS, *FILLS)
