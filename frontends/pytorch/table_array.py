"""Rows of operators that move, select or make data, and of views, which are free."""

from __future__ import annotations

from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from .rules import axis, constant, first, has, is_tensor, only_first, same, value_or_number

_X: dict[str, Source] = {"x": first}

_VIEWS = """
view view_as_real view_as_complex as_strided expand select slice split split_with_sizes chunk narrow unbind unfold
permute transpose t squeeze unsqueeze diagonal movedim swapaxes real imag reshape _unsafe_view _reshape_alias
_nested_view_from_buffer values indices crow_indices col_indices ccol_indices row_indices _values _indices _conj
_neg_view _fw_primal _make_dual unsafe_split unsafe_split_with_sizes unsafe_chunk
"""

VIEWS = (
    *(Row(f"aten::{name}", "view", _X) for name in _VIEWS.split()),
    Row("aten::item", "identity", _X),
    Row("aten::is_nonzero", "identity", _X),
)


def _copied(args: Arguments) -> str:
    dtype = args.get("dtype")
    return "copy" if dtype is None or dtype == first(args).dtype else "cast"


def _copied_from(args: Arguments) -> str:
    return "copy" if args["self"].dtype == args["src"].dtype else "cast"


def _new_axis(args: Arguments) -> int:
    return int(args["dim"]) % (int(args["tensors"][0].dim()) + 1)


COPIES = (
    Row("aten::_to_copy", _copied, _X, ops=("copy", "cast")),
    Row("aten::copy", _copied_from, {"x": "src"}, ops=("copy", "cast")),
    *same("clone=copy contiguous=copy resolve_conj=copy resolve_neg=copy view_copy=copy alias_copy=copy", _X),
    *same("squeeze_copy=copy unsqueeze_copy=copy view_as_real_copy=copy view_as_complex_copy=copy", _X),
    *same("values_copy=copy indices_copy=copy _reshape_copy=copy detach_copy=copy lift_fresh_copy=copy", _X),
    *same("narrow_copy=slice diagonal_copy=diagonal as_strided_copy=as_strided unfold_copy=unfold", _X),
    *same("expand_copy=broadcast_to permute_copy=transpose transpose_copy=transpose t_copy=transpose", _X),
    *same("slice_copy=slice select_copy=select split_copy=split split_with_sizes_copy=split unbind_copy=unbind", _X),
    *same("flip roll rot90 pixel_shuffle=depth_to_space pixel_unshuffle=space_to_depth channel_shuffle", _X),
    *same("repeat=tile triu tril diag_embed im2col col2im", _X),
    *same("repeat_interleave=repeat one_hot", _X),
    *same(
        "constant_pad_nd=pad reflection_pad1d=pad reflection_pad2d=pad reflection_pad3d=pad replication_pad1d=pad "
        "replication_pad2d=pad replication_pad3d=pad",
        _X,
        {"padding": lambda args: args.get("pad", args.get("padding"))},
    ),
    Row("aten::cat", "copy", {"x": lambda args: args["tensors"][0]}, when=lambda args: len(args["tensors"]) == 1),
    *(Row(f"aten::{name}", "concat", {"x*": "tensors"}, {"axis": axis()}) for name in ("cat", "_chunk_cat")),
    Row("aten::stack", "stack", {"x*": "tensors"}, {"axis": _new_axis}),
    Row("aten::block_diag", "block_diag", {"x*": "tensors"}),
)


def _indices(args: Arguments) -> list[Any]:
    return [index for index in args["indices"] if isinstance(index, torch.Tensor)]


_UPDATES = value_or_number("value")
_REDUCE = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}


def _reduce(args: Arguments) -> str:
    return _REDUCE.get(args.get("reduce") or "", "none")


def _accumulated(args: Arguments) -> str:
    return "add" if args["accumulate"] else "none"


def _source(args: Arguments) -> Any:
    return value_or_number("src" if args.get("src") is not None else "value")(args)


_ALONG: dict[str, Source] = {"axis": axis()}

INDEXING = (
    Row("aten::index_select", "gather", {"x": "self", "indices": "index"}, _ALONG),
    Row("aten::take", "gather", {"x": "self", "indices": "index"}),
    Row("aten::gather", "gather_elements", {"x": "self", "indices": "index"}, _ALONG),
    Row("aten::index", "gather", {"x": "self", "indices*": _indices}),
    Row(
        "aten::index_put",
        "scatter",
        {"x": "self", "indices*": _indices, "updates": "values"},
        {"reduction": _accumulated},
    ),
    Row(
        "aten::scatter",
        "scatter_elements",
        {"x": "self", "indices": "index", "updates": _source},
        {**_ALONG, "reduction": _reduce},
    ),
    *(
        Row(
            f"aten::{name}",
            "scatter_elements",
            {"x": "self", "indices": "index", "updates": "src"},
            {**_ALONG, "reduction": reduction},
        )
        for name, reduction in (
            ("scatter_add", lambda args: "add"),
            ("scatter_reduce", _reduce),
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "scatter",
            {"x": "self", "indices": "index", "updates": "source"},
            {**_ALONG, "reduction": reduction},
        )
        for name, reduction in (
            ("index_add", lambda args: "add"),
            ("index_copy", lambda args: "none"),
            ("index_reduce", _reduce),
        )
    ),
    Row("aten::index_fill", "scatter", {"x": "self", "indices": "index", "updates": _UPDATES}, _ALONG),
    Row("aten::slice_scatter", "slice_scatter", {"x": "self", "updates": "src"}, _ALONG),
    Row("aten::select_scatter", "select_scatter", {"x": "self", "updates": "src"}, _ALONG),
    Row("aten::diagonal_scatter", "diagonal_scatter", {"x": "self", "updates": "src"}),
    Row("aten::as_strided_scatter", "slice_scatter", {"x": "self", "updates": "src"}),
)

_NORMAL = ("Tensor_Tensor", "Tensor_float", "float_Tensor")

MAKING = (
    *same(
        " ".join(
            f"{name}={op}"
            for op, names in (
                (
                    "full",
                    "zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero "
                    "scalar_tensor",
                ),
                ("arange", "arange"),
                ("eye", "eye"),
                ("triangle_indices", "tril_indices triu_indices"),
                (
                    "random",
                    "rand randn randint randperm rand_like randn_like randint_like uniform normal random exponential "
                    "geometric log_normal cauchy normal_functional",
                ),
            )
            for name in names.split()
        ),
        {},
    ),
    *(Row(f"aten::{name}", "linspace", {"x0": "start", "x1": "end"}) for name in ("linspace", "logspace")),
    Row("aten::bernoulli", "bernoulli", {"x": "p"}, when=is_tensor("p")),
    Row("aten::bernoulli", "random", when=has("p")),
    Row("aten::bernoulli", "bernoulli", _X),
    *(Row(f"aten::normal.{name}", "normal", {"x0": "mean", "x1": "std"}) for name in _NORMAL),
    Row("aten::multinomial", "multinomial", _X, {"logarithmic": constant(False)}),
    *same("poisson=sample _standard_gamma=sample _sample_dirichlet=sample", _X),
    Row("aten::binomial", "sample", {"x0": "count", "x1": "prob"}),
    Row("aten::_pack_padded_sequence", "slice", {"x": "input"}, outputs=only_first),
)

ROWS = (*VIEWS, *COPIES, *INDEXING, *MAKING)
