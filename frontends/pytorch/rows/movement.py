"""Rows of views, which cost nothing, copies, indexing, embeddings and collectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from ..meta.values import all_tensors
from ..operators.plan import any_is_differentiated, group_name, group_size, is_root, reduction
from ..tensors import dtype_name
from .arguments import (
    X,
    axis,
    constant,
    enum_name,
    first_argument,
    first_output,
    non_default,
    rows_by_name,
    tensor_or_number,
)

_RESHAPES = """
view expand squeeze unsqueeze reshape _unsafe_view _reshape_alias _conj _neg_view _fw_primal _make_dual
"""

_REARRANGED = """
view_as_real view_as_complex as_strided unfold diagonal real imag _nested_view_from_buffer values indices crow_indices
col_indices ccol_indices row_indices _values _indices
"""
"""Views that are not a reshape."""


def _rank(args: Arguments) -> int:
    return int(first_argument(args).dim())


def _permutation(args: Arguments) -> tuple[int, ...]:
    rank = _rank(args)
    return tuple(int(dim) % rank for dim in args["dims"])


def _swapped(args: Arguments) -> tuple[int, ...]:
    order = list(range(_rank(args)))
    if len(order) > 1:
        i, j = (int(args.get(name, default)) % len(order) for name, default in (("dim0", 0), ("dim1", 1)))
        order[i], order[j] = order[j], order[i]
    return tuple(order)


def _moved(args: Arguments) -> tuple[int, ...]:
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
    Row("aten::_sparse_coo_tensor_with_dims_and_tensors", "view", {"x": "values"}),  # a view of indices and values
    Row("aten::sparse_compressed_tensor", "view", {"x": "values"}),
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
    Row("aten::_convert_indices_from_coo_to_csr", "cast", X),
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
    # None: the elements are shifted as one row.
    dims = args.get("dims") or ()
    return tuple(int(dim) % _rank(args) for dim in dims) if dims else None


def _padding_before(args: Arguments) -> tuple[int, ...]:
    # PyTorch lists the last axis first.
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

LAYOUT_ROWS = (*VIEWS, *COPIES, *REARRANGEMENTS, *FILLS)


# Gather, scatter, masks, embeddings and segments, and gradients that scatter


def _indices(args: Arguments) -> list[Any]:
    return [index for index in args["indices"] if isinstance(index, torch.Tensor)]


_REDUCTIONS = {
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "mean": "mean",
}


def _scatter_reduction(args: Arguments) -> str:
    return _REDUCTIONS.get(args.get("reduce") or "", "none")


def _put_reduction(args: Arguments) -> str:
    return "add" if args["accumulate"] else "none"


def _source_or_value(args: Arguments) -> Any:
    return tensor_or_number("src" if args.get("src") is not None else "value")(args)


GATHER = (
    Row("aten::index_select", "gather", {"x": "self", "indices": "index"}, _AXIS),
    Row("aten::take", "gather", {"x": "self", "indices": "index"}),
    Row("aten::gather", "gather_elements", {"x": "self", "indices": "index"}, _AXIS),
    Row("aten::index", "gather", {"x": "self", "indices*": _indices}),
    Row(
        "aten::_unsafe_masked_index",
        "masked_gather",
        {"x": "self", "mask": "mask", "indices*": _indices, "fill": tensor_or_number("fill")},
    ),
)

SCATTER = (
    Row(
        "aten::index_put",
        "scatter",
        {"x": "self", "indices*": _indices, "updates": "values"},
        {"reduction": _put_reduction},
    ),
    Row(
        "aten::put",
        "scatter",
        {"x": "self", "indices": "index", "updates": "source"},
        {"reduction": _put_reduction},
    ),
    Row(
        "aten::_unsafe_masked_index_put_accumulate",
        "masked_scatter_add",
        {"x": "self", "mask": "mask", "indices*": _indices, "updates": "values"},
    ),
    Row(
        "aten::scatter",
        "scatter_elements",
        {"x": "self", "indices": "index", "updates": _source_or_value},
        {**_AXIS, "reduction": _scatter_reduction},
    ),
    *(
        Row(
            f"aten::{name}",
            "scatter_elements",
            {"x": "self", "indices": "index", "updates": "src"},
            {**_AXIS, "reduction": reduction},
        )
        for name, reduction in (
            ("scatter_add", constant("add")),
            ("scatter_reduce", _scatter_reduction),
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "scatter",
            {"x": "self", "indices": "index", "updates": "source"},
            {**_AXIS, "reduction": reduction, "alpha": non_default("alpha", 1)},
        )
        for name, reduction in (
            ("index_add", constant("add")),
            ("index_copy", constant("none")),
            ("index_reduce", _scatter_reduction),
        )
    ),
    Row("aten::index_fill", "scatter", {"x": "self", "indices": "index", "updates": tensor_or_number("value")}, _AXIS),
    Row("aten::slice_scatter", "slice_scatter", {"x": "self", "updates": "src"}, _AXIS),
    Row("aten::select_scatter", "select_scatter", {"x": "self", "updates": "src"}, _AXIS),
    Row("aten::diagonal_scatter", "diagonal_scatter", {"x": "self", "updates": "src"}),
    Row("aten::as_strided_scatter", "slice_scatter", {"x": "self", "updates": "src"}),
)

_DY: dict[str, Source] = {"dy": first_argument}

VIEW_GRADIENTS = (
    *(Row(f"aten::{name}_backward", f"{name}_backward", _DY) for name in ("slice", "select", "diagonal", "unfold")),
    *(
        Row(f"aten::{kind}_pad{rank}d_backward", "pad_backward", _DY, {"padding": "padding"})
        for kind in ("reflection", "replication")
        for rank in (1, 2, 3)
    ),
    Row("aten::masked_scatter_backward", "masked_scatter_backward", {"dy": first_argument, "mask": "mask"}),
)


_FAST_SUMS = (torch.float32, torch.float16, torch.bfloat16)


def _bag_of_each_index(args: Arguments) -> Any:
    # ``offset2bag`` is empty if the forward pass saved the start of each bag instead.
    return args["offset2bag"] if args["offset2bag"].numel() else args["offsets"]


def _bag_or_start(args: Arguments) -> Any:
    # A CPU saves the start of each bag for plain sums, the meta device never does.
    weights = args.get("per_sample_weights")
    is_plain = args["mode"] == 0 and args.get("padding_idx", -1) < 0 and (weights is None or weights.stride(0) == 1)
    saves_starts = args["offset2bag"].is_meta and is_plain and args["grad"].dtype in _FAST_SUMS
    return args["offsets"] if saves_starts else _bag_of_each_index(args)


_BAG_GRADIENT: dict[str, Source] = {
    "dy": "grad",
    "x": "indices",
    "offsets": _bag_of_each_index,
    "sizes": lambda args: args.get("bag_size") if args["mode"] == 1 else None,
    "maxima": lambda args: args.get("maximum_indices") if args["mode"] == 2 else None,
    "per_sample_weights": "per_sample_weights",
}

_MODE: dict[str, Source] = {"mode": enum_name("mode", "sum", "mean", "max")}


def _saved_bags(args: Arguments) -> str | None:
    return dtype_name(args["indices"].dtype) if any_is_differentiated(*args.values()) else None


EMBEDDING = (
    Row("aten::embedding", "embedding", {"x": "indices", "w": "weight"}),
    *(
        Row(
            f"aten::{name}",
            "embedding_bag",
            {"x": "indices", "w": "weight", "offsets": "offsets", "per_sample_weights": "per_sample_weights"},
            {**_MODE, "saved": _saved_bags},
            outputs=first_output,
        )
        for name in ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
    ),
    Row(
        "aten::embedding_dense_backward",
        lambda args: "scaled_embedding_backward" if args["scale_grad_by_freq"] else "embedding_backward",
        {"dy": "grad_output", "x": "indices"},
        ops=("embedding_backward", "scaled_embedding_backward"),
    ),
    *(
        Row(
            f"aten::{name}",
            "embedding_bag_backward",
            {**_BAG_GRADIENT, "offsets": offsets},
            _MODE,
            outputs=first_output,
        )
        for name, offsets in (
            ("_embedding_bag_backward", _bag_or_start),
            ("_embedding_bag_dense_backward", _bag_of_each_index),
        )
    ),
    Row(
        "aten::_embedding_bag_per_sample_weights_backward",
        "embedding_bag_weights_backward",
        {"dy": "grad", "w": "weight", "x": "indices", "offsets": _bag_or_start},
        _MODE,
    ),
)


def _segment_reduction(args: Arguments) -> str:
    word: str = args["reduce"]
    return {"amax": "max", "amin": "min"}.get(word, word)


_SEGMENT: dict[str, Source] = {"reduction": _segment_reduction, "axis": axis("axis")}

SEGMENTS = (
    Row(
        "aten::segment_reduce",
        "segment_reduce",
        {"x": "data", "lengths": "lengths", "offsets": "offsets", "indices": "indices"},
        _SEGMENT,
    ),
    Row(
        "aten::_segment_reduce_backward",
        "segment_reduce_backward",
        {"dy": "grad", "y": "output", "x": "data", "lengths": "lengths", "offsets": "offsets"},
        _SEGMENT,
    ),
)

MASKED = (
    Row("aten::masked_select", "masked_select", {"x": "self", "mask": "mask"}),
    Row("aten::_nested_tensor_from_mask", "masked_select", {"x": "t", "mask": "mask"}),
    Row("aten::masked_scatter", "masked_scatter", {"x": "self", "mask": "mask", "updates": "source"}),
)

INDEXING_ROWS = (*GATHER, *SCATTER, *VIEW_GRADIENTS, *EMBEDDING, *SEGMENTS, *MASKED)


# Collectives: functional, of process groups (``c10d``), and of distributed tensors


_GROUP: dict[str, Source] = {"group_size": group_size, "group": group_name}


def _tensors_of(name: str) -> Source:
    return lambda args: list(all_tensors([args[name]]))


_REDUCED: dict[str, Source] = {**_GROUP, "reduce": reduction}


def _functional() -> Iterator[Row]:
    reduced = {
        "all_reduce": ("all_reduce", "all_reduce_"),
        "reduce_scatter": ("reduce_scatter_tensor", "reduce_scatter_tensor_out"),
    }
    for op, natives in reduced.items():
        for native in natives:
            yield Row(f"_c10d_functional::{native}", op, {"x": "input"}, _REDUCED)
    for native in ("all_gather_into_tensor", "all_gather_into_tensor_out"):
        yield Row(f"_c10d_functional::{native}", "all_gather", {"x": "input"}, _GROUP)
    for native in ("all_reduce_coalesced", "all_reduce_coalesced_"):
        yield Row(f"_c10d_functional::{native}", "all_reduce", {"x*": "inputs"}, _REDUCED)
    yield Row("_c10d_functional::reduce_scatter_tensor_coalesced", "reduce_scatter", {"x*": "inputs"}, _REDUCED)
    yield Row("_c10d_functional::all_gather_into_tensor_coalesced", "all_gather", {"x*": "inputs"}, _GROUP)
    yield Row("_c10d_functional::all_to_all_single", "all_to_all", {"x": "input"}, _GROUP)
    yield Row("_dtensor::shard_dim_alltoall", "all_to_all", {"x": "input"}, _GROUP)
    for end in ("", "_"):
        yield Row(f"_c10d_functional::broadcast{end}", "broadcast", {"x": _at_root("input", "src")}, _GROUP)


def _at_root(tensor: str, root: str) -> Source:
    return lambda args: args[tensor] if is_root(args, root) else None


def _process_groups() -> Iterator[Row]:
    # These operators do not read the argument that they write to.
    reduced: Mapping[str, tuple[str, str]] = {
        "allreduce_": ("all_reduce", "tensors"),
        "allreduce_coalesced_": ("all_reduce", "tensors"),
        "reduce_": ("reduce_to_root", "tensors"),
        "reduce_scatter_": ("reduce_scatter", "input_tensors"),
        "_reduce_scatter_base_": ("reduce_scatter", "input_tensor"),
        "reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs"),
    }
    moved: Mapping[str, tuple[str, str]] = {
        "allgather_": ("all_gather", "input_tensors"),
        "_allgather_base_": ("all_gather", "input_tensor"),
        "allgather_coalesced_": ("all_gather", "input_list"),
        "allgather_into_tensor_coalesced_": ("all_gather", "inputs"),
        "alltoall_": ("all_to_all", "input_tensors"),
        "alltoall_base_": ("all_to_all", "input"),
        "gather_": ("gather_to_root", "input_tensors"),
        "scatter_": ("scatter_from_root", "input_tensors"),
    }
    for name, (op, operands) in reduced.items():
        yield Row(f"c10d::{name}", op, {"x*": _tensors_of(operands)}, _REDUCED)
    for name, (op, operands) in moved.items():
        yield Row(f"c10d::{name}", op, {"x*": _tensors_of(operands)}, _GROUP)
    yield Row("c10d::send", "send", {"x*": _tensors_of("tensors")}, _GROUP, outputs=_no_outputs)
    for name in ("recv_", "recv_any_source_"):
        yield Row(f"c10d::{name}", "recv", {}, _GROUP)
    yield Row("c10d::broadcast_", "broadcast", {"x*": _tensors_at_root}, _GROUP, outputs=_outputs_unless_root)
    for name in ("barrier", "monitored_barrier_"):
        yield Row(f"c10d::{name}", "barrier", {}, _GROUP, outputs=_no_outputs)


def _tensors_at_root(args: Arguments) -> list[Any]:
    return list(all_tensors([args["tensors"]])) if is_root(args, "root_rank") else []


def _outputs_unless_root(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    return [] if is_root(args, "root_rank") else outputs


def _no_outputs(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    return []


COLLECTIVE_ROWS: tuple[Row, ...] = (*_functional(), *_process_groups())


ROWS = (*LAYOUT_ROWS, *INDEXING_ROWS, *COLLECTIVE_ROWS)
