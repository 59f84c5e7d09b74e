"""Rows of matrix products, linear algebra, distances, window operators, and their gradients.

Products are dense, sparse, scaled or grouped. Window operators are convolutions, pooling, resampling and Fourier
transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from ..operators.plan import is_differentiated
from ..tensors import SPARSE_LAYOUTS, DataOperand, shape_of
from .arguments import (
    DY_AND_Y,
    PACKED,
    X,
    axis,
    constant,
    either,
    enum_name,
    first_argument,
    index_count,
    is_sparse,
    is_unpacked,
    needed_gradients,
    non_default,
    non_empty_outputs,
    ntuple,
    requested_indices,
    rows_by_name,
    tensors_in,
    to_ntuple,
)


def _rows_with_values(name: str) -> Callable[[Arguments], int]:
    """Return a source for the maximum number of rows along ``dim`` that have a value in a sparse tensor."""

    def read(args: Arguments) -> int:
        tensor, axis = args[name], args["dim"]
        values = prod(shape_of(tensor))
        length = int(tensor.shape[axis])
        if axis % tensor.dim() >= tensor.sparse_dim():  # each slice of the dense axes is a row
            return values // max(length, 1)
        return min(values, prod(map(int, tensor.shape)) // max(length, 1))

    return read


def _sparse_rows(name: str) -> dict[str, Source]:
    return {"axis": constant(0), "rows": _rows_with_values(name), "indices": index_count(name)}


def _dense_width(dense: str, sparse: str, contracted: int) -> Callable[[Arguments], int]:
    """Return a source for the number of products per value of the sparse operand.

    It is the number of elements of the other operand in one batch without the axis ``contracted``; if that operand is
    sparse, too, at most its number of stored values.
    """

    def read(args: Arguments) -> int:
        tensor = args[dense]
        axis = contracted if tensor.dim() > 1 else -1
        batch = max(args[sparse].dim(), 2) - 2
        width = prod(int(size) for i, size in enumerate(tensor.shape) if i >= batch and i != tensor.dim() + axis)
        return min(width, shape_of(tensor)[0]) if tensor.layout in SPARSE_LAYOUTS else width

    return read


def _addend(name: str) -> Callable[[Arguments], Any]:
    # PyTorch ignores the addend if ``beta`` is 0 or the addend is empty.
    def read(args: Arguments) -> Any:
        return DataOperand(args[name]) if args.get("beta", 1) != 0 and 0 not in shape_of(args[name]) else None

    return read


_ALPHA_BETA: dict[str, Source] = {
    "alpha": non_default("alpha", 1),
    "beta": lambda args: args["beta"] if args.get("beta", 1) not in (0, 1) else None,
}


def _sparse_dense_rows(native: str, x0: str, x1: str, addend: str | None = None) -> tuple[Row, Row]:
    inputs: dict[str, Source] = {"x0": x0, "x1": x1} | ({} if addend is None else {"b": _addend(addend)})
    scale = {} if addend is None else _ALPHA_BETA
    left_sparse: dict[str, Source] = {"indices": index_count(x0), "width": _dense_width(x1, x0, -2), **scale}
    right_sparse: dict[str, Source] = {
        "indices": index_count(x1),
        "width": _dense_width(x0, x1, -1),
        "side": constant("x1"),
        **scale,
    }
    return (
        Row(f"aten::{native}", "sparse_dense_matmul", inputs, left_sparse, is_sparse(x0)),
        Row(f"aten::{native}", "sparse_dense_matmul", inputs, right_sparse, is_sparse(x1)),
    )


_LINEAR: dict[str, Source] = {"x": "input", "w": "weight", "b": "bias"}

SPARSE_LINEAR = tuple(
    Row(
        "aten::linear",
        "sparse_dense_matmul",
        _LINEAR,
        {"indices": index_count(sparse), "width": _dense_width(dense, sparse, -1), "side": constant(side)},
        is_sparse(sparse),
    )
    for side, sparse, dense in (("w", "weight", "input"), ("x", "input", "weight"))
)
"""The weight is transposed: the last axis of both operands is contracted."""

SPARSE = (
    *SPARSE_LINEAR,
    *_sparse_dense_rows("matmul", "self", "other"),
    *_sparse_dense_rows("linalg_matmul", "self", "other"),
    *_sparse_dense_rows("mm", "self", "mat2"),
    *_sparse_dense_rows("mv", "self", "vec"),
    *_sparse_dense_rows("bmm", "self", "mat2"),
    *_sparse_dense_rows("hspmm", "mat1", "mat2"),
    *_sparse_dense_rows("addmm", "mat1", "mat2", "self"),
    *_sparse_dense_rows("addmv", "mat", "vec", "self"),
    *_sparse_dense_rows("sspaddmm", "mat1", "mat2", "self"),
    *_sparse_dense_rows("_sparse_addmm", "mat1", "mat2", "self"),
    *_sparse_dense_rows("_sparse_sparse_matmul", "self", "other"),
    Row(
        "aten::_sparse_mm_reduce_impl",
        "sparse_dense_matmul",
        {"x0": "self", "x1": "other"},
        {"indices": index_count("self"), "width": _dense_width("other", "self", -2), "reduction": "reduce"},
        outputs=non_empty_outputs,
    ),
    Row(
        "aten::_sparse_mm_reduce_impl_backward",
        "sparse_dense_matmul_backward",
        {"x0": "self", "dy": "grad_out", "x1": "weight", "places": "arg_out"},
        {
            "indices": index_count("self"),
            "width": _dense_width("weight", "self", -2),
            "reduction": "reduce",
            "needs": needed_gradients("x0", "x1"),
        },
    ),
    Row(
        "aten::sparse_sampled_addmm",
        "sampled_product",
        {"x": "self", "x0": "mat1", "x1": "mat2"},
        {"indices": index_count("self"), **_ALPHA_BETA},
    ),
    Row("aten::_to_dense", "to_dense", X, {"indices": index_count("self")}, is_sparse("self")),
    *rows_by_name("_to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc", X, op="to_sparse"),
    Row("aten::sparse_mask", "sparse_mask", {"x": "self", "mask": "mask"}, {"indices": index_count("mask")}),
    Row("aten::_coalesce", "coalesce", X, {"axes": lambda args: args["self"].sparse_dim()}),
    *(Row(f"aten::_sparse_{op}", op, X, _sparse_rows("self")) for op in ("softmax", "log_softmax")),
    *(
        Row(f"aten::_sparse_{op}_backward_data", f"{op}_backward", DY_AND_Y, _sparse_rows("output"))
        for op in ("softmax", "log_softmax")
    ),
)


def _with_addend(x0: str, x1: str) -> dict[str, Source]:
    return {"x0": x0, "x1": x1, "b": _addend("self")}


DENSE = (
    Row("aten::linear", "linear", _LINEAR),
    Row("quantized::linear_dynamic_fp16", "linear", {"x": first_argument, **PACKED}, {}, is_unpacked),
    Row("aten::mkldnn_linear", "linear", {"x": first_argument, "w": "weight", "b": "bias"}),
    *rows_by_name("matmul linalg_matmul vdot", {"x0": "self", "x1": "other"}, op="matmul"),
    *rows_by_name("mm bmm _int_mm", {"x0": "self", "x1": "mat2"}, op="matmul"),
    Row("aten::dot", "matmul", {"x0": "self", "x1": "tensor"}),
    Row("aten::mv", "matmul", {"x0": "self", "x1": "vec"}),
    Row("aten::addmm", "matmul", _with_addend("mat1", "mat2"), _ALPHA_BETA),
    Row("aten::addmv", "matmul", _with_addend("mat", "vec"), _ALPHA_BETA),
    Row("aten::baddbmm", "matmul", _with_addend("batch1", "batch2"), _ALPHA_BETA),
    Row("aten::bilinear", "bilinear", {"x0": "input1", "x1": "input2", "w": "weight", "b": "bias"}),
    Row("aten::_foreach_mm", "foreach_matmul", {"x*": tensors_in("self", "mat2")}),
)


def _subscripts(rank: int, absent: Any) -> str:
    return "".join(chr(ord("a") + axis) for axis in range(rank) if axis not in absent)


def _trilinear_equation(args: Arguments) -> str:
    # ``expand`` lists the axes that an operand lacks.
    absent_axes = [args[f"expand{i}"] for i in (1, 2, 3)]
    rank = args["i1"].dim() + len(absent_axes[0])
    inputs = ",".join(_subscripts(rank, absent) for absent in absent_axes)
    return f"{inputs}->{_subscripts(rank, args['sumdim'])}"


EINSUM = (
    Row(
        "aten::addbmm", "einsum", _with_addend("batch1", "batch2"), {"equation": constant("bij,bjk->ik"), **_ALPHA_BETA}
    ),
    Row("aten::addr", "einsum", _with_addend("vec1", "vec2"), {"equation": constant("i,j->ij"), **_ALPHA_BETA}),
    Row("aten::einsum", "einsum", {"x*": "tensors"}, {"equation": "equation"}),
    Row("aten::_trilinear", "einsum", {"x0": "i1", "x1": "i2", "x2": "i3"}, {"equation": _trilinear_equation}),
)

_SCALED: dict[str, Source] = {"x0": "self", "x1": "mat2", "x0_scale": "scale_a", "x1_scale": "scale_b", "b": "bias"}

_LISTED_SCALES: dict[str, Source] = {"x0_scale*": "scale_a", "x1_scale*": "scale_b"}

SCALED_AND_GROUPED = (
    Row("aten::_scaled_mm", "scaled_matmul", {**_SCALED, "y_scale": "scale_result"}),
    Row(
        "aten::_scaled_mm_v2",
        "scaled_matmul",
        {"x0": "self", "x1": "mat2", **_LISTED_SCALES, "b": "bias"},
    ),
    Row("aten::_scaled_addmm", "scaled_matmul", {**_with_addend("mat1", "mat2"), **_LISTED_SCALES}, _ALPHA_BETA),
    Row("aten::_grouped_mm", "grouped_matmul", {"x0": "self", "x1": "mat2", "offsets": "offs", "b": "bias"}),
    Row("transformers::grouped_mm_fallback", "grouped_matmul", {"x0": "input", "x1": "weight", "offsets": "offs"}),
    Row("aten::_scaled_grouped_mm", "grouped_matmul", {**_SCALED, "offsets": "offs"}),
    Row(
        "aten::_scaled_grouped_mm_v2",
        "grouped_matmul",
        {"x0": "self", "x1": "mat2", "offsets": "offs", "b": "bias", **_LISTED_SCALES},
    ),
)

_LINEAR_GRADIENT: dict[str, Source] = {"dy": "grad_output", "x": "self", "w": "weight"}

GRADIENTS = (
    *(
        Row(f"aten::{name}", "linear_backward", _LINEAR_GRADIENT, {"needs": needed_gradients("x", "w", "b")})
        for name in ("linear_backward", "mkldnn_linear_backward")
    ),
    Row(
        "aten::mkldnn_linear_backward_input",
        "linear_backward",
        {"dy": "grad_output", "w": "weight"},
        {"needs": constant(("x",))},
    ),
    Row(
        "aten::mkldnn_linear_backward_weights",
        "linear_backward",
        {"dy": "grad_output", "x": "input"},
        {"needs": lambda args: ("w", "b") if args["bias_defined"] else ("w",)},
    ),
    Row(
        "aten::matmul_backward",
        "matmul_backward",
        {"dy": "grad", "x0": "self", "x1": "other"},
        {"needs": needed_gradients("x0", "x1", mask="mask")},
    ),
    Row(
        "transformers::grouped_mm_fallback_backward",
        "grouped_matmul_backward",
        {"dy": "grad_output", "x0": "input", "x1": "weight", "offsets": "offs"},
    ),
)

MATMUL_ROWS = (*SPARSE, *DENSE, *EINSUM, *SCALED_AND_GROUPED, *GRADIENTS)


# Factorizations, linear systems, cross products and distances


def _without_status(args: Arguments, outputs: Any) -> Any:
    # The last output is the status of the factorization of each matrix.
    return outputs[:-1]


def _svd_vectors(args: Arguments) -> str:
    if not args["compute_uv"]:
        return "none"
    return "full" if args["full_matrices"] else "thin"


FACTORIZATIONS = (
    Row("aten::cholesky", "cholesky", X),
    Row("aten::linalg_cholesky_ex", "cholesky", X, outputs=_without_status),
    Row("aten::linalg_lu", "lu", X, {"pivot": "pivot"}),
    Row("aten::linalg_lu_factor_ex", "lu_factor", X, {"pivot": "pivot"}, outputs=_without_status),
    Row("aten::lu_unpack", "unpack_lu", {"x": "LU_data", "pivots": "LU_pivots"}),
    Row("aten::_linalg_det", "det", X),
    Row("aten::_linalg_slogdet", "log_det", X),
    Row("aten::linalg_qr", "qr", X, {"mode": "mode"}, outputs=non_empty_outputs),
    Row("aten::geqrf", "qr_factor", X),
    Row("aten::linalg_householder_product", "householder_product", {"x": "input", "tau": "tau"}),
    Row(
        "aten::ormqr",
        "householder_multiply",
        {"x": "self", "tau": "input2", "x1": "input3"},
        {"left": non_default("left", True)},
    ),
    Row("aten::linalg_ldl_factor_ex", "ldl_factor", X, outputs=_without_status),
    Row("aten::linalg_inv_ex", "inverse", X, outputs=_without_status),
    Row("aten::_linalg_eigh", "symmetric_eigen", X, {"vectors": "compute_v"}, outputs=non_empty_outputs),
    Row("aten::linalg_eig", "eigen", X),
    *(Row(f"aten::{name}", "eigen", X, {"vectors": constant(False)}) for name in ("linalg_eigvals", "_linalg_eigvals")),
    Row("aten::linalg_eigvalsh", "symmetric_eigen", X, {"vectors": constant(False)}),
    Row("aten::linalg_svdvals", "singular_values", X, {"vectors": constant("none")}),
    Row("aten::_linalg_svd", "singular_values", X, {"vectors": _svd_vectors}, outputs=non_empty_outputs),
    Row("aten::linalg_matrix_exp", "matrix_exp", X),
    Row("aten::linalg_matrix_sqrth", "matrix_sqrt", X),
    Row("aten::linalg_polar", "polar_decomposition", X),
    Row("aten::linalg_pinv", "pseudo_inverse", {"x": first_argument, "atol": "atol", "rtol": "rtol"}),
)

LINEAR_SYSTEMS = (
    Row("aten::_linalg_solve_ex", "solve", {"x0": "A", "x1": "B"}, outputs=_without_status),
    *(
        Row(f"aten::{name}", "triangular_solve", inputs, {"unit": non_default("unitriangular", False)})
        for name, inputs in (
            ("linalg_solve_triangular", {"x0": "self", "x1": "B"}),
            ("triangular_solve", {"x0": "A", "x1": "self"}),
        )
    ),
    Row("aten::linalg_lu_solve", "lu_solve", {"x0": "LU", "pivots": "pivots", "x1": "B"}),
    Row("aten::linalg_ldl_solve", "ldl_solve", {"x0": "LD", "pivots": "pivots", "x1": "B"}),
    Row("aten::cholesky_solve", "cholesky_solve", {"x0": "input2", "x1": "self"}),
    Row("aten::_cholesky_solve_helper", "cholesky_solve", {"x0": "A", "x1": "self"}),
    Row("aten::cholesky_inverse", "cholesky_inverse", X),
    Row("aten::linalg_lstsq", "least_squares", {"x0": "self", "x1": "b"}, outputs=non_empty_outputs),
)


def _cross_axis(args: Arguments) -> int:
    rank: int = max(args["self"].dim(), args["other"].dim())
    return int(args["dim"]) % rank


CROSS_PRODUCT = (Row("aten::linalg_cross", "cross", {"x0": "self", "x1": "other"}, {"axis": _cross_axis}),)

_GRADIENT = either("grad_output", "grad")  # ``grad`` before PyTorch 2.15

_P: dict[str, Source] = {"p": non_default("p", 2)}


def _broadcast_size(args: Arguments) -> int | None:
    shape = torch.broadcast_shapes(args["self"].shape, args["other"].shape)
    return shape.numel() if shape != args["self"].shape else None


DISTANCES = (
    Row("aten::_cdist_forward", "pairwise_distances", {"x0": "x1", "x1": "x2"}, _P),
    Row("aten::_euclidean_dist", "pairwise_distances", {"x0": "x1", "x1": "x2"}),
    Row(
        "aten::_cdist_backward",
        "pairwise_distances_backward",
        {"dy": _GRADIENT, "x0": "x1", "x1": "x2", "y": "cdist"},
        _P,
    ),
    Row("aten::_pdist_forward", "self_distances", {"x": "self"}, _P),
    Row("aten::_pdist_backward", "self_distances_backward", {"dy": _GRADIENT, "x": "self", "y": "pdist"}, _P),
    Row("aten::dist", "distance", {"x0": "self", "x1": "other"}, {**_P, "elements": _broadcast_size}),
    Row("aten::cosine_similarity", "cosine_similarity", {"x0": "x1", "x1": "x2"}, {"axis": axis()}),
    Row("aten::pairwise_distance", "pairwise_distance", {"x0": "x1", "x1": "x2"}, {"p": "p"}),
)

LINALG_ROWS = (*FACTORIZATIONS, *LINEAR_SYSTEMS, *CROSS_PRODUCT, *DISTANCES)


# Convolutions and their gradients


_INPUT: dict[str, Source] = {"x": "input", "w": "weight", "b": "bias"}

_SELF: dict[str, Source] = {"x": "self", "w": "weight", "b": "bias"}


def _rank(args: Arguments) -> int:
    return int(args["weight"].dim()) - 2


def _kernel(args: Arguments) -> tuple[int, ...]:
    return tuple(args["weight"].shape[2:])


def _spatial(name: str) -> Callable[[Arguments], Any]:
    return lambda args: to_ntuple(args[name], _rank(args))


def _padding(args: Arguments) -> tuple[Any, ...]:
    padding = args["padding"]
    if not isinstance(padding, str):
        return to_ntuple(padding, _rank(args))
    if padding == "valid":
        return (0,) * _rank(args)
    dilation = to_ntuple(args["dilation"], _rank(args))
    totals = [d * (k - 1) for d, k in zip(dilation, _kernel(args), strict=True)]
    return tuple(t // 2 if t % 2 == 0 else (t // 2, t - t // 2) for t in totals)


_ATTRIBUTES: dict[str, Source] = {
    "kernel": _kernel,
    "stride": _spatial("stride"),
    "padding": _padding,
    "dilation": _spatial("dilation"),
    "groups": "groups",
}


def _conv_or_transpose(args: Arguments) -> str:
    return "conv_transpose" if args["transposed"] else "conv"


CONVOLUTIONS = (
    *(Row(f"aten::conv{rank}d", "conv", _INPUT, _ATTRIBUTES) for rank in (1, 2, 3)),
    *(
        Row(
            f"aten::conv_transpose{rank}d",
            "conv_transpose",
            _INPUT,
            {**_ATTRIBUTES, "output_padding": _spatial("output_padding")},
        )
        for rank in (1, 2, 3)
    ),
    *(
        Row(f"aten::{name}", _conv_or_transpose, _INPUT, _ATTRIBUTES, ops=("conv", "conv_transpose"))
        for name in ("convolution", "_convolution", "convolution_overrideable")
    ),
)

_WITHOUT_ATTRIBUTES = """
_slow_conv2d_forward slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d conv_depthwise3d
miopen_depthwise_convolution
"""

BACKEND_SPECIFIC = (
    *rows_by_name("mkldnn_convolution miopen_convolution", _SELF, _ATTRIBUTES, op="conv"),
    Row("aten::cudnn_convolution", "conv", {"x": "self", "w": "weight"}, _ATTRIBUTES),
    Row("aten::cudnn_convolution_transpose", "conv_transpose", {"x": "self", "w": "weight"}),
    Row("aten::miopen_convolution_transpose", "conv_transpose", _SELF),
    *rows_by_name(_WITHOUT_ATTRIBUTES, _SELF, op="conv"),
    *rows_by_name("slow_conv_transpose2d slow_conv_transpose3d", _SELF, op="conv_transpose"),
)

CONV_GRADIENTS = tuple(
    Row(
        f"aten::{name}",
        lambda args: "conv_transpose_backward" if args["transposed"] else "conv_backward",
        {"dy": "grad_output", "x": "input", "w": "weight"},
        {**_ATTRIBUTES, "padding": _spatial("padding"), "needs": needed_gradients("x", "w", "b")},
        ops=("conv_backward", "conv_transpose_backward"),
    )
    for name in ("convolution_backward", "convolution_backward_overrideable")
)


def _along_axes(name: str) -> Callable[[Arguments], tuple[int, int]]:
    return lambda args: (args[f"{name}_h"], args[f"{name}_w"])


def _mask(args: Arguments) -> Any:
    # Without a mask, torchvision passes a tensor that it does not use.
    return args["mask"] if args["use_mask"] else None


_DEFORMED: dict[str, Source] = {"x": "input", "w": "weight", "offset": "offset", "mask": _mask}

_DEFORMED_ATTRIBUTES: dict[str, Source] = {
    "kernel": _kernel,
    **{
        name: _along_axes(short) for name, short in (("stride", "stride"), ("padding", "pad"), ("dilation", "dilation"))
    },
    "groups": "groups",
    "offset_groups": "offset_groups",
}


def _deformed_gradients(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    # All gradients are computed at once; without a mask, its gradient means nothing.
    return [value for i, value in enumerate(outputs) if i != 3 or args["use_mask"]]


DEFORMABLE = (
    Row("torchvision::deform_conv2d", "deform_conv", {**_DEFORMED, "b": "bias"}, _DEFORMED_ATTRIBUTES),
    Row(
        "torchvision::_deform_conv2d_backward",
        "deform_conv_backward",
        {"dy": "grad", **_DEFORMED},
        {
            **_DEFORMED_ATTRIBUTES,
            "needs": lambda args: ("x", "w", "offset", *(("mask",) if args["use_mask"] else ()), "b"),
        },
        outputs=_deformed_gradients,
    ),
)

CONV_ROWS = (*CONVOLUTIONS, *BACKEND_SPECIFIC, *CONV_GRADIENTS, *DEFORMABLE)


# Pooling and its gradients


def _window(rank: int) -> dict[str, Source]:
    return {
        "kernel": ntuple("kernel_size", rank),
        "stride": ntuple("stride", rank, "kernel_size"),
        "padding": ntuple("padding", rank),
    }


def _saved_indices(args: Arguments) -> str | None:
    # Pooling that returns no indices still saves them for its backward pass.
    return "int64" if is_differentiated(first_argument(args)) else None


def _max_pool(name: str, rank: int, attrs: dict[str, Source]) -> Row:
    settings: dict[str, Source] = {"ceil_mode": "ceil_mode", "dilation": ntuple("dilation", rank)}
    return Row(f"aten::{name}", "max_pool", X, {**_window(rank), **settings, **attrs})


def _avg_pool_attributes(rank: int) -> dict[str, Source]:
    counted: dict[str, Source] = {"count_include_pad": non_default("count_include_pad", True)}
    return {**_window(rank), "ceil_mode": "ceil_mode", **counted}


def _adaptive_pool(name: str, kind: str, rank: int) -> Row:
    def sizes(args: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(first_argument(args).shape[-rank:]), ntuple("output_size", rank)(args)

    def divides(args: Arguments) -> bool:
        return all(y > 0 and x % y == 0 for x, y in zip(*sizes(args), strict=True))

    def kernel(args: Arguments) -> tuple[int, ...] | None:
        return tuple(x // y for x, y in zip(*sizes(args), strict=True)) if divides(args) else None

    return Row(
        f"aten::{name}",
        lambda args: f"{kind}_pool" if divides(args) else f"adaptive_{kind}_pool",
        X,
        {"kernel": kernel, "stride": kernel, "adaptive": lambda args: True if divides(args) else None},
        outputs=requested_indices if kind == "max" else None,
        ops=(f"{kind}_pool", f"adaptive_{kind}_pool"),
    )


POOLING_FORWARD = (
    *(_max_pool(f"max_pool{rank}d", rank, {"indices": _saved_indices}) for rank in (1, 2, 3)),
    *(_max_pool(f"max_pool{rank}d_with_indices", rank, {}) for rank in (1, 2, 3)),
    *(Row(f"aten::avg_pool{rank}d", "avg_pool", X, _avg_pool_attributes(rank)) for rank in (1, 2, 3)),
    *(_adaptive_pool(f"adaptive_{kind}_pool{rank}d", kind, rank) for kind in ("avg", "max") for rank in (1, 2, 3)),
    *(_adaptive_pool(f"_adaptive_avg_pool{rank}d", "avg", rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d",
            "fractional_max_pool",
            {"x": "self", "samples": "random_samples"},
            {"kernel": ntuple("kernel_size", rank)},
            outputs=requested_indices,
        )
        for rank in (2, 3)
    ),
    *(Row(f"aten::max_unpool{rank}d", "upsample", {"x": "self", "indices": "indices"}) for rank in (2, 3)),
    *(
        Row(f"aten::{name}{rank}d", "max_pool", X, {"kernel": ntuple("kernel_size", rank)})
        for name, ranks in (("quantized_max_pool", (1, 2, 3)), ("mkldnn_max_pool", (2, 3)))
        for rank in ranks
    ),
)

LP = tuple(
    Row(
        f"torch.nn.functional::lp_pool{rank}d",
        "lp_pool",
        {"x": "input"},
        {
            "kernel": ntuple("kernel_size", rank),
            "stride": ntuple("stride", rank, "kernel_size"),
            "ceil_mode": "ceil_mode",
            "p": "norm_type",
        },
    )
    for rank in (1, 2, 3)
)


def _adaptive_avg_pool_backward(rank: int) -> Row:
    def kernel(args: Arguments) -> tuple[int, ...] | None:
        sizes = zip(args["self"].shape[-rank:], args["grad_output"].shape[-rank:], strict=True)
        pairs = [(int(x), int(y)) for x, y in sizes]
        return tuple(x // y for x, y in pairs) if all(y and x % y == 0 for x, y in pairs) else None

    return Row(
        f"aten::_adaptive_avg_pool{rank}d_backward",
        lambda args: "avg_pool_backward" if kernel(args) else "adaptive_avg_pool_backward",
        {"dy": first_argument},
        {"kernel": kernel, "stride": kernel},
        ops=("avg_pool_backward", "adaptive_avg_pool_backward"),
    )


_AT_INDICES: dict[str, Source] = {"dy": "grad_output", "indices": "indices"}

POOLING_GRADIENTS = (
    *(
        Row(f"aten::max_pool{rank}d_with_indices_backward", "max_pool_backward", _AT_INDICES, _window(rank))
        for rank in (2, 3)
    ),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d_backward",
            "max_pool_backward",
            _AT_INDICES,
            {"kernel": ntuple("kernel_size", rank)},
        )
        for rank in (2, 3)
    ),
    *(
        Row(f"aten::avg_pool{rank}d_backward", "avg_pool_backward", {"dy": "grad_output"}, _window(rank))
        for rank in (2, 3)
    ),
    *(Row(f"aten::adaptive_max_pool{rank}d_backward", "adaptive_max_pool_backward", _AT_INDICES) for rank in (2, 3)),
    *(_adaptive_avg_pool_backward(rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::{name}",
            "max_pool_backward",
            {"dy": "grad_output", "x": x},
            {"kernel": ntuple("kernel_size", rank)},
        )
        for name, x, rank in (
            ("max_pool2d_backward", "self", 2),
            ("mkldnn_max_pool2d_backward", "input", 2),
            ("mkldnn_max_pool3d_backward", "input", 3),
        )
    ),
)


def _bin_samples(args: Arguments) -> tuple[int, int]:
    # 0: the number of samples depends on the size of the region.
    return (max(int(args["sampling_ratio"]), 0),) * 2


_REGIONS: dict[str, Source] = {"x": "input", "rois": "rois"}

_DY_IN_REGIONS: dict[str, Source] = {"dy": "grad", "rois": "rois"}

_SAMPLED: dict[str, Source] = {"sampling": _bin_samples}

REGIONS = (
    Row("torchvision::roi_align", "roi_align", _REGIONS, _SAMPLED),
    Row("torchvision::ps_roi_align", "ps_roi_align", _REGIONS, _SAMPLED),
    Row("torchvision::roi_pool", "roi_max_pool", _REGIONS),
    Row("torchvision::ps_roi_pool", "ps_roi_avg_pool", _REGIONS),
    Row("torchvision::_roi_align_backward", "roi_align_backward", _DY_IN_REGIONS, _SAMPLED),
    Row(
        "torchvision::_ps_roi_align_backward",
        "ps_roi_align_backward",
        {**_DY_IN_REGIONS, "indices": "channel_mapping"},
        _SAMPLED,
    ),
    Row("torchvision::_roi_pool_backward", "roi_max_pool_backward", {**_DY_IN_REGIONS, "indices": "argmax"}),
    Row(
        "torchvision::_ps_roi_pool_backward",
        "ps_roi_avg_pool_backward",
        {**_DY_IN_REGIONS, "indices": "channel_mapping"},
    ),
)

POOLING_ROWS = (*POOLING_FORWARD, *LP, *POOLING_GRADIENTS, *REGIONS)


# Resizing, grid sampling and affine grids, and their gradients


_RESIZE = {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact1d": "nearest",
    "_upsample_nearest_exact2d": "nearest",
    "_upsample_nearest_exact3d": "nearest",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}
"""Interpolation mode by operator."""

_ANTIALIASED = {
    "_upsample_bilinear2d_aa": "linear",
    "_upsample_bicubic2d_aa": "cubic",
    "_upsample_lanczos2d_aa": "lanczos",
}
"""Interpolation mode by antialiased operator."""

_MODE = enum_name("interpolation_mode", "linear", "nearest", "cubic")


def _aligns_corners(args: Arguments) -> bool | None:
    return True if args.get("align_corners") else None


def _inexact_scale(args: Arguments) -> tuple[float, ...] | None:
    # None for integer factors. A factor of 1.5 is an attribute even at sizes where it is exact, so that a network has
    # the same attributes at all sizes.
    x, sizes = first_argument(args).shape[2:], args.get("output_size")
    given = args.get("scale_factors") or [args.get(f"scales_{name}") for name in "dhw"[-len(x) :]]
    if len(x) == 1 and args.get("scales") is not None:
        given = [args["scales"]]
    if any(factor is None for factor in given):
        return None
    sizes = [int(size * factor) for size, factor in zip(x, given, strict=True)] if sizes is None else sizes
    is_exact = all(size * factor == new for size, factor, new in zip(x, given, sizes, strict=True))
    is_whole = all(float(factor).is_integer() for factor in given)
    return None if is_exact and is_whole else tuple(map(float, given))


def _resize_attributes(name: str, mode: str) -> dict[str, Source]:
    # The exact modes sample at the centers of elements.
    attrs: dict[str, Source] = {"mode": constant(mode), "align_corners": _aligns_corners, "scale": _inexact_scale}
    if mode != "nearest":
        return attrs
    is_centered = "exact" in name
    attrs["coordinates"] = constant(None if is_centered else "asymmetric")
    attrs["rounding"] = constant("round_prefer_ceil" if is_centered else None)
    return attrs


RESAMPLING_FORWARD = (
    *(Row(f"aten::{name}", "resize", X, _resize_attributes(name, mode)) for name, mode in _RESIZE.items()),
    *(
        Row(f"aten::{name}", "antialiased_resize", X, _resize_attributes(name, mode))
        for name, mode in _ANTIALIASED.items()
    ),
    *(
        Row(f"aten::grid_sampler_{rank}d", "grid_sample", {"x": "input", "grid": "grid"}, {"mode": _MODE})
        for rank in (2, 3)
    ),
    Row("aten::cudnn_grid_sampler", "grid_sample", {"x": "self", "grid": "grid"}, {"mode": constant("linear")}),
    *rows_by_name("affine_grid_generator cudnn_affine_grid_generator", {"theta": "theta"}, op="affine_grid"),
)

_DY: dict[str, Source] = {"dy": first_argument}

RESAMPLING_GRADIENTS = (
    *(Row(f"aten::{name}_backward", "resize_backward", _DY, {"mode": constant(m)}) for name, m in _RESIZE.items()),
    *(
        Row(f"aten::{name}_backward", "antialiased_resize_backward", _DY, {"mode": constant(mode)})
        for name, mode in _ANTIALIASED.items()
    ),
    *(
        Row(
            f"aten::{name}",
            "grid_sample_backward",
            {"dy": "grad_output", "x": "input", "grid": "grid"},
            {"mode": _MODE, "needs": needed_gradients("x", "grid")},
        )
        for name in ("grid_sampler_2d_backward", "grid_sampler_3d_backward", "_grid_sampler_2d_cpu_fallback_backward")
    ),
    Row(
        "aten::cudnn_grid_sampler_backward",
        "grid_sample_backward",
        {"dy": "grad_output", "x": "self", "grid": "grid"},
        {"mode": constant("linear"), "needs": constant(("x", "grid"))},
    ),
)

RESAMPLING_ROWS = (*RESAMPLING_FORWARD, *RESAMPLING_GRADIENTS)


# Fourier transforms and window functions


def _axes(args: Arguments) -> tuple[int, ...]:
    rank = args["self"].dim()
    return tuple(int(axis) % rank for axis in args["dim"])


def _is_scaled(args: Arguments) -> bool:
    return bool(args["normalization"])


_FFT: dict[str, Source] = {"axes": _axes, "scaled": _is_scaled}

SIGNAL_ROWS = (
    Row("aten::_fft_c2c", "fft", X, {**_FFT, "inverse": lambda args: not args["forward"]}),
    Row("aten::_fft_r2c", "real_fft", X, {**_FFT, "onesided": "onesided"}),
    Row("aten::_fft_c2r", "inverse_real_fft", X, _FFT),
    *(Row(f"aten::{name}", name, {}) for name in ("hann_window", "hamming_window", "blackman_window")),
)


ROWS = (*MATMUL_ROWS, *LINALG_ROWS, *CONV_ROWS, *POOLING_ROWS, *RESAMPLING_ROWS, *SIGNAL_ROWS)
