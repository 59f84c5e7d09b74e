"""Rows of views, which cost nothing, and of operators that copy, rearrange or fill tensors."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.translate import Arguments, Row, Source

from .arguments import X, axis, constant, first_argument, first_output, non_default, rows_by_name

_RESHAPES = """
view expand squeeze unsqueeze reshape _unsafe_view _reshape_alias _conj _neg_view _fw_primal _make_dual
"""

_REARRANGED = """
view_as_real view_as_complex as_strided unfold diagonal real imag _nested_view_from_buffer values indices crow_indices
col_indices ccol_indices row_indices _values _indices
"""
"""Views whose elements a reshape does not describe."""


def _rank(args: Arguments) -> int:
    return int(first_argument(args).dim())


def _permutation(args: Arguments) -> tuple[int, ...]:
    """Return the axis of the input that each axis of the output is."""
    rank = _rank(args)
    return tuple(int(dim) % rank for dim in args["dims"])


def _swapped(args: Arguments) -> tuple[int, ...]:
    """Return the order of the axes after two were swapped, by default the first two."""
    order = list(range(_rank(args)))
    if len(order) > 1:
        i, j = (int(args.get(name, default)) % len(order) for name, default in (("dim0", 0), ("dim1", 1)))
        order[i], order[j] = order[j], order[i]
    return tuple(order)


def _moved(args: Arguments) -> tuple[int, ...]:
    """Return the order of the axes after some were moved."""
    ends = (args["source"], args["destination"])
    source, destination = (
        [int(dim) % _rank(args) for dim in (each if isinstance(each, Sequence) else [each])] for each in ends
    )
    order = [axis for axis in range(_rank(args)) if axis not in source]
    for to, moved in sorted(zip(destination, source, strict=True)):
        order.insert(to, moved)
    return tuple(order)


def _first_index(args: Arguments) -> tuple[int]:
    return (int(args["start"] or 0),)


_AXIS: dict[str, Source] = {"axis": axis()}
_AXES: dict[str, Source] = {"axis": lambda args: (axis()(args),)}
_SLICE: dict[str, Source] = {**_AXES, "start": _first_index, "step": lambda args: (int(args.get("step", 1)),)}
_SELECT: dict[str, Source] = {**_AXIS, "index": lambda args: int(args["index"])}
_PERMUTED: dict[str, Source] = {"axes": _permutation}
_SWAPPED: dict[str, Source] = {"axes": _swapped}
_SPLITS = "split split_with_sizes chunk unbind unsafe_split unsafe_split_with_sizes unsafe_chunk"

VIEWS = (
    *rows_by_name(_RESHAPES, X, op="view"),
    *rows_by_name(_REARRANGED, X, {"rearranged": constant(True)}, op="view"),
    Row("aten::permute", "view", X, _PERMUTED),
    Row("aten::_sparse_coo_tensor_with_dims_and_tensors", "view", {"x": "values"}),  # refers to both of its tensors
    *rows_by_name("transpose t swapaxes", X, _SWAPPED, op="view"),
    Row("aten::movedim", "view", X, {"axes": _moved}),
    *rows_by_name("slice narrow", X, _SLICE, op="view"),
    Row("aten::select", "view", X, _SELECT),
    *rows_by_name(_SPLITS, X, _AXIS, op="view"),
    *rows_by_name("item is_nonzero", X, op="identity"),
)


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
    *rows_by_name("narrow_copy slice_copy", X, _SLICE, op="slice"),
    Row("aten::permute_copy", "transpose", X, _PERMUTED),
    *rows_by_name("transpose_copy t_copy", X, _SWAPPED, op="transpose"),
    *rows_by_name("split_copy split_with_sizes_copy", X, _AXIS, op="split"),
    Row("fsdp::split_with_sizes_copy", "split", {"x": "all_gather_output"}, _AXIS),
    Row("aten::select_copy", "select", X, _SELECT),
    Row("aten::unbind_copy", "unbind", X, _AXIS),
    Row("aten::diagonal_copy", "diagonal", X),
    *rows_by_name("as_strided_copy=as_strided unfold_copy=unfold expand_copy=broadcast_to", X),
    Row(
        "aten::_make_per_channel_quantized_tensor",
        "copy",
        {"x": "self", "scale": "scale", "zero_point": "zero_point"},
    ),
)


def _new_axis(args: Arguments) -> int:
    return int(args["dim"]) % (int(args["tensors"][0].dim()) + 1)


def _flipped_axes(args: Arguments) -> tuple[int, ...]:
    return tuple(int(dim) % _rank(args) for dim in args["dims"])


def _rolled_axes(args: Arguments) -> tuple[int, ...] | None:
    """Return the axes that are shifted; None if the elements are shifted as one row."""
    dims = args.get("dims") or ()
    return tuple(int(dim) % _rank(args) for dim in dims) if dims else None


def _padding_before(args: Arguments) -> tuple[int, ...]:
    """Return the width of the border before each axis; PyTorch lists the last axis first."""
    widths = args.get("pad", args.get("padding"))
    before = [int(width) for width in widths[::2]]
    return (*(0,) * (_rank(args) - len(before)), *reversed(before))


_PADS = """
constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
replication_pad3d
"""

_PADDED: dict[str, Source] = {
    "padding": lambda args: args.get("pad", args.get("padding")),
    "before": _padding_before,
}

REARRANGEMENTS = (
    Row("aten::flip", "flip", X, {"axis": _flipped_axes}),
    Row("aten::roll", "roll", X, {"axis": _rolled_axes, "shift": lambda args: tuple(map(int, args["shifts"]))}),
    *rows_by_name("rot90 pixel_shuffle=depth_to_space pixel_unshuffle=space_to_depth channel_shuffle", X),
    *rows_by_name("native_channel_shuffle=channel_shuffle", X),
    *rows_by_name("triu tril", X, {"diagonal": non_default("diagonal", 0)}),
    *rows_by_name("repeat=tile diag_embed im2col col2im repeat_interleave=repeat one_hot", X),
    *rows_by_name(_PADS, X, _PADDED, op="pad"),
    Row("aten::to_padded_tensor", "pad", X),
    Row("aten::_jagged_to_padded_dense_forward", "pad", {"x": "values"}),
    Row("aten::_padded_dense_to_jagged_forward", "pad", {"x": "dense"}),
    Row("aten::_pack_padded_sequence", "slice", {"x": "input"}, outputs=first_output),
    Row("aten::cat", "copy", {"x": lambda args: args["tensors"][0]}, when=lambda args: len(args["tensors"]) == 1),
    *(Row(f"aten::{name}", "concat", {"x*": "tensors"}, {"axis": axis()}) for name in ("cat", "_chunk_cat")),
    Row("fsdp::all_gather_copy_in", "concat", {"x*": "all_gather_inputs"}, outputs=first_output),
    *(
        Row(f"fsdp::{name}", "concat", {"x*": "tensors"}, {"axis": axis()})
        for name in ("chunk_cat", "chunk_cat_mixed_dtype")  # the second since PyTorch 2.15
    ),
    Row("aten::stack", "stack", {"x*": "tensors"}, {"axis": _new_axis}),
    Row("aten::_stack", "stack", {"x*": "tensors"}),
    Row("aten::block_diag", "block_diag", {"x*": "tensors"}),
    Row("aten::complex", "complex", {"x0": "real", "x1": "imag"}),
)

_FILLS = """
zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero scalar_tensor _foreach_zero
_new_zeros_with_same_feature_meta
"""

FILLS = (
    *rows_by_name(_FILLS, {}, op="full"),
    *rows_by_name("arange range fft_fftfreq fft_rfftfreq", {}, op="arange"),
    *rows_by_name("tril_indices triu_indices", {}, op="triangle_indices"),
    Row("aten::eye", "eye"),
    *rows_by_name("linspace logspace", {"x0": "start", "x1": "end"}, op="linspace"),
)

ROWS = (*VIEWS, *COPIES, *REARRANGEMENTS, *FILLS)
