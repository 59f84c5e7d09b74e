"""Rows of views, which are free, and of operators that copy, rearrange or fill tensors."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .arguments import X, axis, first_argument, first_output, is_number, rows_by_name

_VIEWS = """
view view_as_real view_as_complex as_strided expand select slice split split_with_sizes chunk narrow unbind unfold
permute transpose t squeeze unsqueeze diagonal movedim swapaxes real imag reshape _unsafe_view _reshape_alias
_nested_view_from_buffer values indices crow_indices col_indices ccol_indices row_indices _values _indices _conj
_neg_view _fw_primal _make_dual unsafe_split unsafe_split_with_sizes unsafe_chunk
"""

VIEWS = (
    *(Row(f"aten::{name}", "view", X) for name in _VIEWS.split()),
    *rows_by_name("item=identity is_nonzero=identity", X),
)


def _copy_or_cast(args: Arguments) -> str:
    dtype = args.get("dtype")
    return "copy" if dtype is None or dtype == first_argument(args).dtype else "cast"


def _copy_or_cast_from(args: Arguments) -> str:
    return "copy" if args["self"].dtype == args["src"].dtype else "cast"


COPIES = (
    Row("aten::_to_copy", _copy_or_cast, X, ops=("copy", "cast")),
    Row("aten::copy", _copy_or_cast_from, {"x": "src"}, ops=("copy", "cast")),
    *rows_by_name("clone=copy contiguous=copy resolve_conj=copy resolve_neg=copy view_copy=copy alias_copy=copy", X),
    *rows_by_name("squeeze_copy=copy unsqueeze_copy=copy view_as_real_copy=copy view_as_complex_copy=copy", X),
    *rows_by_name("values_copy=copy indices_copy=copy _reshape_copy=copy detach_copy=copy lift_fresh_copy=copy", X),
    *rows_by_name("narrow_copy=slice diagonal_copy=diagonal as_strided_copy=as_strided unfold_copy=unfold", X),
    *rows_by_name("expand_copy=broadcast_to permute_copy=transpose transpose_copy=transpose t_copy=transpose", X),
    *rows_by_name(
        "slice_copy=slice select_copy=select split_copy=split split_with_sizes_copy=split unbind_copy=unbind", X
    ),
    *rows_by_name("_to_dense=copy to_mkldnn=copy _copy_from=copy _cudnn_rnn_flatten_weight=copy int_repr=copy", X),
    Row("aten::_make_per_tensor_quantized_tensor", "copy", X),
    Row(
        "aten::_make_per_channel_quantized_tensor",
        "copy",
        {"x": "self", "scale": "scale", "zero_point": "zero_point"},
    ),
)


def _new_axis(args: Arguments) -> int:
    return int(args["dim"]) % (int(args["tensors"][0].dim()) + 1)


REARRANGEMENTS = (
    *rows_by_name("flip roll rot90 pixel_shuffle=depth_to_space pixel_unshuffle=space_to_depth channel_shuffle", X),
    *rows_by_name("repeat=tile triu tril diag_embed im2col col2im repeat_interleave=repeat one_hot", X),
    *rows_by_name(
        "constant_pad_nd=pad reflection_pad1d=pad reflection_pad2d=pad reflection_pad3d=pad replication_pad1d=pad "
        "replication_pad2d=pad replication_pad3d=pad",
        X,
        {"padding": lambda args: args.get("pad", args.get("padding"))},
    ),
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

_FILLS = (
    "zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero scalar_tensor _foreach_zero"
)
_RANDOM = (
    "rand randn randint randperm rand_like randn_like randint_like uniform normal random exponential geometric "
    "log_normal cauchy normal_functional"
)

FILLS = (
    *(Row(f"aten::{name}", "full", {}) for name in _FILLS.split()),
    *(Row(f"aten::{name}", "random", {}) for name in _RANDOM.split()),
    Row("aten::bernoulli", "random", when=is_number("p")),
    *rows_by_name("arange range=arange fft_fftfreq=arange fft_rfftfreq=arange eye", {}),
    *rows_by_name("tril_indices=triangle_indices triu_indices=triangle_indices", {}),
    *(Row(f"aten::{name}", "linspace", {"x0": "start", "x1": "end"}) for name in ("linspace", "logspace")),
)

ROWS = (*VIEWS, *COPIES, *REARRANGEMENTS, *FILLS)
