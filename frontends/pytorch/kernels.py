"""Kernels of other packages by dotted name: the operator that each computes, and the shapes of its outputs.

A CUDA kernel cannot run on the meta device; its shape rule makes the outputs. Rows are used if the package is
imported. A name that begins with ``*.`` matches a module in any package, such as a copy of the code of Deformable DETR.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from costcore.errors import CostError
from costcore.translate import Arguments, Row, Source

from . import sparse_kernels
from .sparse_kernels import Made

ValuesOf = Callable[[Tensor], "Tensor | None"]
"""Returns the values of a tensor, if they are known."""


class Kernel(NamedTuple):
    """A function, an ``autograd.Function`` or a class of modules of another package.

    Attributes:
        op: the canonical operator.
        inputs: the source of every operand: the name of an argument or parameter.
        attrs: the source of every attribute.
        shapes: returns the outputs or their shapes: ``shapes(*args)``, for a module ``shapes(module, *args)``.
        facts: returns further attributes, which depend on values of arguments.
        objects: replaces ``shapes`` and ``facts`` for calls on objects, such as sparse points:
            ``objects(known_values, module, *args)``, for a function without the module.
    """

    op: str
    inputs: Mapping[str, Source]
    attrs: Mapping[str, Source]
    shapes: Callable[..., Any] | None = None
    facts: Callable[[ValuesOf, Arguments], Mapping[str, Any]] | None = None
    objects: Callable[..., Made] | None = None

    def row(self, native: str) -> Row:
        """Return the mapping rule of calls."""
        more: Mapping[str, Source] = {} if self.facts is None else _PAIRS
        return Row(native, self.op, self.inputs, {**self.attrs, **more})


_PAIRS: Mapping[str, Source] = {"pairs": lambda args: args.get("pairs"), "allowed": lambda args: args.get("allowed")}
"""Numbers of query-key pairs of an attention kernel: all, and those that its mask allows."""


# Attention with the tokens before the heads


_CAUSAL: Mapping[str, Source] = {"causal": lambda args: args.get("causal") or None}


def _with_probabilities(out: tuple[int, ...], kwargs: Mapping[str, Any]) -> Any:
    # ``return_attn_probs`` also returns the log-sum-exp of the softmax; the probabilities are for tests only.
    if not kwargs.get("return_attn_probs"):
        return out
    return out, (out[0], *out[-2:-1], *out[1:-2]), None


def _flash(q: Tensor, k: Tensor, v: Tensor, *_: Any, **kwargs: Any) -> Any:
    return _with_probabilities((*q.shape[:-1], v.shape[-1]), kwargs)


def _flash_qkv(qkv: Tensor, *_: Any, **kwargs: Any) -> Any:
    return _with_probabilities((*qkv.shape[:-3], *qkv.shape[-2:]), kwargs)


def _flash_kv(q: Tensor, kv: Tensor, *_: Any, **kwargs: Any) -> Any:
    return _with_probabilities(tuple(q.shape), kwargs)


def _known_lengths(values: ValuesOf, cumulative: Any) -> list[int] | None:
    known = values(cumulative) if isinstance(cumulative, Tensor) else None
    return None if known is None else known.diff().tolist()


@cache
def _pairs_in_window(queries: int, keys: int, left: int, right: int) -> int:
    # The last query is aligned with the last key; -1 means no limit.
    first = [0 if left < 0 else max(0, i + keys - queries - left) for i in range(queries)]
    last = [keys - 1 if right < 0 else min(keys - 1, i + keys - queries + right) for i in range(queries)]
    return sum(max(0, end - start + 1) for start, end in zip(first, last, strict=True))


def _allowed(args: Arguments, heads: int, lengths: Iterable[tuple[int, int]], is_causal: bool) -> Mapping[str, Any]:
    given = args.get("window_size")
    left, right = (-1, -1) if given is None or isinstance(given, int) else (int(given[0]), int(given[1]))
    right = 0 if is_causal else right
    if left < 0 and right < 0:
        return {}
    return {"allowed": heads * sum(_pairs_in_window(queries, keys, left, right) for queries, keys in lengths)}


def _fixed_pairs(values: ValuesOf, args: Arguments) -> Mapping[str, Any]:
    packed = args.get("qkv")
    q = args["q"] if packed is None else packed[:, :, 0]
    keys = next(args[name].shape[1] for name in ("k", "kv", "qkv") if name in args)
    return _all_and_allowed(args, q, keys, bool(args.get("causal")))


def _all_and_allowed(args: Arguments, q: Tensor, keys: int, is_causal: bool) -> Mapping[str, Any]:
    batch, steps, heads = q.shape[0], q.shape[1], q.shape[2] if q.dim() > 3 else 1
    allowed = _allowed(args, heads, [(steps, keys)] * batch, is_causal)
    return {"pairs": batch * heads * steps * keys, **allowed}


def _pairs_of_sequences(values: ValuesOf, args: Arguments) -> Mapping[str, Any]:
    # Without known lengths, every sequence is assumed to have the maximum length.
    heads = args["q"].shape[-2]
    queries, keys = _known_lengths(values, args["cu_seqlens_q"]), _known_lengths(values, args["cu_seqlens_k"])
    if queries is None or keys is None:
        return {"pairs": heads * args["q"].shape[0] * int(args["max_seqlen_k"])}
    lengths = [*zip(queries, keys, strict=True)]
    return {"pairs": heads * sum(q * k for q, k in lengths), **_allowed(args, heads, lengths, bool(args.get("causal")))}


def _pairs_with_cache(values: ValuesOf, args: Arguments) -> Mapping[str, Any]:
    batch, steps, heads, _ = args["q"].shape
    new = 0 if args.get("k") is None else args["k"].shape[1]
    stored = args.get("cache_seqlens")
    known = values(stored) if isinstance(stored, Tensor) else None
    if known is not None:
        lengths = [int(length) + new for length in known.tolist()]
    else:
        lengths = [args["k_cache"].shape[1] if not isinstance(stored, int) else stored + new] * batch
    pairs = heads * steps * sum(lengths)
    return {"pairs": pairs, **_allowed(args, heads, [(steps, n) for n in lengths], bool(args.get("causal")))}


_QKV: Mapping[str, Source] = {"q": "q", "k": "k", "v": "v"}

_FLASH = Kernel("token_major_attention", _QKV, _CAUSAL, _flash, _fixed_pairs)

_FLASH_VARLEN = _FLASH._replace(facts=_pairs_of_sequences)

_FLASH_CACHE = Kernel(
    "token_major_attention",
    {"q": "q", "k": "k_cache", "v": "v_cache", "new_k": "k", "new_v": "v"},
    _CAUSAL,
    lambda q, k_cache, v_cache, *_, **__: (*q.shape[:-1], v_cache.shape[-1]),
    _pairs_with_cache,
)


def _flash_kernels(package: str) -> dict[str, Kernel]:
    return {
        f"{package}::flash_attn_func": _FLASH,
        f"{package}::flash_attn_varlen_func": _FLASH_VARLEN,
        f"{package}::flash_attn_with_kvcache": _FLASH_CACHE,
        f"{package}::flash_attn_qkvpacked_func": _FLASH._replace(inputs={"qkv": "qkv"}, shapes=_flash_qkv),
        f"{package}::flash_attn_kvpacked_func": _FLASH._replace(inputs={"q": "q", "kv": "kv"}, shapes=_flash_kv),
    }


_QUERY_KEY_VALUE: Mapping[str, Source] = {"q": "query", "k": "key", "v": "value"}


def _like_query(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[int, ...]:
    return (*query.shape[:-1], value.shape[-1])


def _xformers_pairs(values: ValuesOf, args: Arguments) -> Mapping[str, Any]:
    is_causal = "LowerTriangular" in type(args.get("attn_bias")).__name__
    return _all_and_allowed(args, args["query"], args["key"].shape[1], is_causal)


def _varlen(
    query: Tensor, key: Tensor, value: Tensor, *_: Any, return_aux: Any = None, block_table: Any = None, **__: Any
) -> Any:
    out = (*query.shape[:-1], value.shape[-1])
    return (out, (query.shape[1], query.shape[0])) if return_aux is not None and return_aux.lse else out


def _varlen_pairs(values: ValuesOf, args: Arguments) -> Mapping[str, Any]:
    keys = args.get("cu_seq_k")
    names = {"q": "query", "cu_seqlens_q": "cu_seq_q", "max_seqlen_k": "max_k"}
    given = {name: args[name_of_torch] for name, name_of_torch in names.items()}
    return _pairs_of_sequences(values, {**given, "cu_seqlens_k": keys, "window_size": args.get("window_size")})


def _window(n: int) -> Mapping[str, Source]:
    def sizes(args: Arguments) -> tuple[int, ...]:
        given = args["kernel_size"]
        return (given,) * n if isinstance(given, int) else tuple(given)

    return {"window": sizes}


ATTENTION: Mapping[str, Kernel] = {
    **_flash_kernels("flash_attn.flash_attn_interface"),
    **_flash_kernels("flash_attn_interface"),
    "xformers.ops.fmha::memory_efficient_attention": Kernel(
        "token_major_attention", _QUERY_KEY_VALUE, {}, _like_query, _xformers_pairs
    ),
    # By its suffix: it is used only if this module of PyTorch is imported.
    "*.nn.attention.varlen::varlen_attn": Kernel("token_major_attention", _QUERY_KEY_VALUE, {}, _varlen, _varlen_pairs),
    **{
        f"natten.functional::na{n}d": Kernel("neighborhood_attention", _QUERY_KEY_VALUE, _window(n), _like_query)
        for n in (1, 2, 3)
    },
}


# Scans


def _scan(u: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not kwargs.get("return_last_state"):
        return tuple(u.shape)
    return tuple(u.shape), (*u.shape[:2], args[1].shape[-1])


def _conv(x: Tensor, weight: Tensor, bias: Any = None, seq_idx: Any = None, *_: Any, **kwargs: Any) -> Any:
    if not kwargs.get("return_final_states"):
        return tuple(x.shape)
    return tuple(x.shape), (*x.shape[:2], weight.shape[-1] - 1)


def _activation(args: Arguments) -> str | None:
    return "silu" if args.get("activation") in ("silu", "swish") else None


_SCAN: Mapping[str, Source] = {"gate": "z", "skip": "D"}


def _linear_attention(rule: str, **more: Source) -> Kernel:
    def shapes(q: Tensor, k: Tensor, v: Tensor, *_: Any, output_final_state: bool = False, **__: Any) -> Any:
        out = (*q.shape[:3], v.shape[-1])
        return out, (q.shape[0], k.shape[2], k.shape[-1], v.shape[-1]) if output_final_state else None

    return Kernel("linear_attention", {**_QKV, **more}, {"rule": lambda _: rule}, shapes)


SCANS: Mapping[str, Kernel] = {
    "mamba_ssm.ops.selective_scan_interface::selective_scan_fn": Kernel(
        "selective_scan",
        {"u": "u", "dt": "delta", "a": "A", "b_in": "B", "c_out": "C", "dt_bias": "delta_bias", **_SCAN},
        {"softplus": lambda args: args.get("delta_softplus") or None},
        _scan,
    ),
    "mamba_ssm.ops.triton.ssd_combined::mamba_chunk_scan_combined": Kernel(
        "state_space_scan",
        {"u": "x", "dt": "dt", "a": "A", "b_in": "B", "c_out": "C", "dt_bias": "dt_bias", **_SCAN},
        {"softplus": lambda args: args.get("dt_softplus") or None},
        lambda x, *_, **__: tuple(x.shape),
    ),
    "mamba_ssm.ops.selective_scan_interface::mamba_inner_fn": Kernel(
        "mamba_inner",
        {
            "x": "xz",
            "w0": "conv1d_weight",
            "b0": "conv1d_bias",
            "w1": "x_proj_weight",
            "w2": "delta_proj_weight",
            "w3": "out_proj_weight",
            "b3": "out_proj_bias",
            "w4": "b_rms_weight",
            "w5": "c_rms_weight",
            "w6": "dt_rms_weight",
            "a": "A",
            "skip": "D",
            "dt_bias": "delta_bias",
        },
        {},
        lambda xz, conv, bias, x_proj, dt_proj, out_proj, *_, **__: (xz.shape[0], xz.shape[2], out_proj.shape[0]),
    ),
    "causal_conv1d.causal_conv1d_interface::causal_conv1d_fn": Kernel(
        "causal_conv", {"x": "x", "w": "weight", "b": "bias"}, {"activation": _activation}, _conv
    ),
    "causal_conv1d.causal_conv1d_interface::causal_conv1d_update": Kernel(
        "causal_conv",
        {"x": "x", "w": "weight", "b": "bias", "state": "conv_state"},
        {"activation": _activation},
        lambda x, *_, **__: tuple(x.shape),
    ),
    "fla.ops.linear_attn.chunk::chunk_linear_attn": _linear_attention("linear"),
    "fla.ops.gla.chunk::chunk_gla": _linear_attention("gated", decay="g"),
    "fla.ops.gla.fused_recurrent::fused_recurrent_gla": _linear_attention("gated", decay="gk"),
    "fla.ops.delta_rule.chunk::chunk_delta_rule": _linear_attention("delta", beta="beta"),
    "fla.ops.gated_delta_rule.chunk::chunk_gated_delta_rule": _linear_attention("gated_delta", decay="g", beta="beta"),
}


# Deformable sampling


def _sampled(value: Tensor, shapes: Any, starts: Any, locations: Tensor, *_: Any, **__: Any) -> tuple[int, ...]:
    return (*locations.shape[:2], value.shape[-2] * value.shape[-1])


_DEFORMABLE = Kernel(
    "deformable_attention",
    {"x": "value", "locations": "sampling_locations", "weights": "attention_weights"},
    {},
    _sampled,
)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _conv_sizes(sizes: Sequence[int], *settings: Sequence[int]) -> tuple[int, ...]:
    axes = zip(sizes, *settings, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)


def _conv_shape(x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    sizes = _conv_sizes(x.shape[2:], weight.shape[2:], *map(_pair, (stride, padding, dilation)))
    return (x.shape[0], weight.shape[0], *sizes)


def _points_of(args: Arguments) -> int:
    # x, y and weight of every sample.
    return int(args["sampling_loc_attn"].shape[2] * args["sampling_loc_attn"].shape[3] // 3)


_CONVOLUTION: Mapping[str, Source] = {
    "kernel": lambda args: tuple(args["weight"].shape[2:]),
    "groups": lambda args: args.get("groups", 1),
}


def _dcnv3(
    x: Tensor,
    offset: Tensor,
    mask: Tensor,
    kh: int,
    kw: int,
    sh: int,
    sw: int,
    ph: int,
    pw: int,
    dh: int,
    dw: int,
    *_: Any,
) -> tuple[int, ...]:
    return (x.shape[0], *_conv_sizes(x.shape[1:3], (kh, kw), (sh, sw), (ph, pw), (dh, dw)), x.shape[-1])


DEFORMABLE: Mapping[str, Kernel] = {
    "mmcv.ops.multi_scale_deform_attn::MultiScaleDeformableAttnFunction": _DEFORMABLE,
    "*.ms_deform_attn_func::MSDeformAttnFunction": _DEFORMABLE,
    "mmcv.ops.modulated_deform_conv::ModulatedDeformConv2dFunction": Kernel(
        "deform_conv",
        {"x": "input", "w": "weight", "offset": "offset", "mask": "mask", "b": "bias"},
        _CONVOLUTION,
        lambda x, offset, mask, weight, bias=None, stride=1, padding=0, dilation=1, *_, **__: _conv_shape(
            x, weight, stride, padding, dilation
        ),
    ),
    "mmcv.ops.deform_conv::DeformConv2dFunction": Kernel(
        "deform_conv",
        {"x": "input", "w": "weight", "offset": "offset"},
        _CONVOLUTION,
        lambda x, offset, weight, stride=1, padding=0, dilation=1, *_, **__: _conv_shape(
            x, weight, stride, padding, dilation
        ),
    ),
    "*.dcnv3_func::DCNv3Function": Kernel(
        "deformable_attention",
        {"x": "input", "locations": "offset", "weights": "mask"},
        {"channels": "group_channels"},
        _dcnv3,
    ),
    "*.dcnv4_func::DCNv4Function": Kernel(
        "deformable_attention",
        {"x": "input", "locations": "offset_mask"},
        {
            "channels": "group_channels",
            "points": lambda args: args["group"] * (args["kernel_h"] * args["kernel_w"] - int(args["remove_center"])),
        },
        lambda x, offset_mask, kh, kw, sh, sw, ph, pw, dh, dw, group, channels, *_, **__: (
            *_dcnv3(x, offset_mask, offset_mask, kh, kw, sh, sw, ph, pw, dh, dw)[:-1],
            group * channels,
        ),
    ),
    "*.flash_deform_attn_func::FlashDeformAttnFunction": Kernel(
        "deformable_attention",
        {"x": "value", "locations": "sampling_loc_attn"},
        {"points": _points_of, "heads": lambda args: args["value"].shape[2]},
        _sampled,
    ),
    "mmcv.ops.carafe::CARAFEFunction": Kernel(
        "reassemble",
        {"x": "features", "masks": "masks"},
        {"kernel": "kernel_size"},
        lambda features, masks, kernel_size, *_: (*features.shape[:2], *masks.shape[2:]),
    ),
}


# Segments of graphs


def _axis_of(name: str) -> Callable[[Arguments], int]:
    return lambda args: int(args[name].dim()) - 1


def _reduced(src: Tensor, axis: int, size: int, has_indices: bool) -> Any:
    made = src.new_empty((*src.shape[:axis], size, *src.shape[axis + 1 :]), device="meta")
    return (made, torch.empty_like(made, dtype=torch.int64)) if has_indices else made


def _n_segments(index: Tensor, out: Tensor | None, axis: int, dim_size: int | None) -> int:
    if out is not None:
        return int(out.shape[axis])
    if dim_size is not None:
        return dim_size
    if index.is_meta:
        raise CostError("the number of segments depends on the values of an index; please pass dim_size=")
    return int(index.max()) + 1 if index.numel() else 0


def _scatter(has_indices: bool) -> Callable[..., Any]:
    def shapes(
        src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
    ) -> Any:
        axis = dim % src.dim()
        return _reduced(src, axis, _n_segments(index, out, axis, dim_size), has_indices)

    return shapes


def _csr(has_indices: bool) -> Callable[..., Any]:
    def shapes(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Any:
        return _reduced(src, indptr.dim() - 1, indptr.shape[-1] - 1, has_indices)

    return shapes


def _coo(has_indices: bool) -> Callable[..., Any]:
    def shapes(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Any:
        axis = index.dim() - 1
        return _reduced(src, axis, _n_segments(index, out, axis, dim_size), has_indices)

    return shapes


def _gathered_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Any:
    axis = indptr.dim() - 1
    if out is None and indptr.is_meta:
        raise CostError("the number of rows depends on the values of indptr; please pass out=")
    return _reduced(src, axis, int(indptr.flatten()[-1]) if out is None else out.shape[axis], False)


def _gathered_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Any:
    return _reduced(src, index.dim() - 1, index.shape[-1], False)


def _segments(index: str, axis: Source, shapes: Callable[[bool], Callable[..., Any]]) -> dict[str, Kernel]:
    def kernel(reduction: str) -> Kernel:
        attrs: dict[str, Source] = {"reduction": lambda _: reduction, "axis": axis}
        return Kernel("segment_reduce", {"x": "src", "indices": index}, attrs, shapes(reduction in ("min", "max")))

    names = {"sum": "sum", "add": "sum", "mul": "prod", "mean": "mean", "min": "min", "max": "max"}
    return {name: kernel(reduction) for name, reduction in names.items()}


_SCATTER = _segments("index", lambda args: args["dim"] % args["src"].dim(), _scatter)

SEGMENTS: Mapping[str, Kernel] = {
    # The other functions of torch_scatter are composed of operators of PyTorch.
    **{f"torch_scatter.scatter::scatter_{name}": _SCATTER[name] for name in ("mul", "min", "max")},
    **{
        f"torch_scatter.segment_{kind}::segment_{name}_{kind}": kernel
        for kind, index, shapes in (("csr", "indptr", _csr), ("coo", "index", _coo))
        for name, kernel in _segments(index, _axis_of(index), shapes).items()
        if name != "mul"
    },
    **{
        f"torch_scatter.segment_{kind}::gather_{kind}": Kernel(
            "gather", {"x": "src", "indices": index}, {"axis": _axis_of(index)}, shapes
        )
        for kind, index, shapes in (("csr", "indptr", _gathered_csr), ("coo", "index", _gathered_coo))
    },
}


# Sparse points and matrices, in objects


_POINT_OPERANDS: Mapping[str, Source] = {"x": "features", "indices": "indices"}


def _sparse_conv(objects: Callable[..., Made], weight: str = "weight") -> Kernel:
    inputs: Mapping[str, Source] = {**_POINT_OPERANDS, "w": weight, "b": "bias", "z": "added"}
    return Kernel("sparse_conv", inputs, {"pairs": "pairs"}, objects=objects)


def _sparse_pool(reduction: str) -> Kernel:
    return Kernel(
        "sparse_pool",
        _POINT_OPERANDS,
        {"pairs": "pairs", "reduction": lambda _: reduction},
        objects=sparse_kernels.spconv("pool"),
    )


_SPCONV_CLASSES = {
    "SubMConv": _sparse_conv(sparse_kernels.spconv("subm")),
    "SparseConv": _sparse_conv(sparse_kernels.spconv("strided")),
    "SparseConvTranspose": _sparse_conv(sparse_kernels.spconv("transposed")),
    "SparseInverseConv": _sparse_conv(sparse_kernels.spconv("inverse")),
    "SparseMaxPool": _sparse_pool("max"),
    "SparseAvgPool": _sparse_pool("mean"),
}

_MATRIX_OPERANDS: Mapping[str, Source] = {"x0": "values", "x1": "dense"}

_SPARSE_DENSE = Kernel(
    "sparse_dense_matmul",
    _MATRIX_OPERANDS,
    {
        "width": "width",
        "indices": "n_indices",
        "reduction": "reduction",
        "products": "n_products",
        "values": lambda args: args.get("n_values") if "values" not in args else None,
    },
)

SPARSE: Mapping[str, Kernel] = {
    **{f"spconv::{name}{n}d": kernel for name, kernel in _SPCONV_CLASSES.items() for n in (1, 2, 3, 4)},
    "torchsparse::Conv3d": _sparse_conv(sparse_kernels.torchsparse, "kernel"),
    "torch_sparse.matmul::matmul": _SPARSE_DENSE._replace(objects=sparse_kernels.matmul),
    "torch_sparse.matmul::spmm": _SPARSE_DENSE._replace(objects=sparse_kernels.matmul),
    "torch_sparse.matmul::spspmm": _SPARSE_DENSE._replace(objects=sparse_kernels.matmul),
    "torch_sparse.spmm::spmm": _SPARSE_DENSE._replace(objects=sparse_kernels.spmm),
    "torch_sparse.spspmm::spspmm": _SPARSE_DENSE._replace(objects=sparse_kernels.spspmm),
}


# Layers: packed weights, norms and losses


def _packed(module: Module, x: Tensor, *_: Any, **__: Any) -> tuple[int, ...]:
    names = ("out_features", "outfeatures")
    return (*x.shape[:-1], next(getattr(module, name) for name in names if hasattr(module, name)))


def _packed_linear(weight: str = "weight", x: str = "x", **more: Source) -> Kernel:
    return Kernel("packed_linear", {"x": x, "w": weight, "b": "bias", **more}, {}, _packed)


def _last_axis(name: str) -> Mapping[str, Source]:
    return {"axis": lambda args: (args[name].dim() - 1,)}


def _norm(op: str, x: str, w: str = "weight", b: str = "bias", is_module: bool = True) -> Kernel:
    inputs: dict[str, Source] = {"x": x, "w": w, **({"b": b} if op == "layer_norm" else {})}
    shapes: Any = (lambda module, x, *_, **__: x) if is_module else (lambda x, *_, **__: x)
    return Kernel(op, inputs, _last_axis(x), shapes)


def _loss(x: Tensor, target: Tensor, *args: Any, reduction: str = "mean", **_: Any) -> tuple[Any, ...]:
    # The kernel also returns the z-loss, accuracy and predictions, which are optional: here None.
    words = [value for value in args if isinstance(value, str)]
    is_scalar = (words[0] if words else reduction) != "none"
    return x.new_empty(() if is_scalar else tuple(target.shape)), None, None, None


# Transformer Engine

_NORMS = {"LayerNorm": "layer_norm", "RMSNorm": "rms_norm"}

_ACTIVATIONS = {
    **dict.fromkeys(("gelu", "geglu"), "fast_gelu"),
    **dict.fromkeys(("qgelu", "qgeglu"), "quick_gelu"),
    **dict.fromkeys(("relu", "reglu"), "relu"),
    **dict.fromkeys(("srelu", "sreglu"), "squared_relu"),
    **dict.fromkeys(("silu", "swiglu", "clamped_swiglu"), "silu"),
    "glu": "sigmoid",
}


def _engine_linear(module: Any, inp: Tensor, *_: Any, **__: Any) -> Any:
    # On request, the layer also returns its bias, which the caller adds, and its normalized input.
    width = getattr(module, "out_features", None) or module.fc2_weight.shape[0]
    outputs: list[Any] = [(*inp.shape[:-1], width)]
    if getattr(module, "return_bias", False):
        outputs.append((width,))
    if getattr(module, "return_layernorm_output", False):
        outputs.append(tuple(inp.shape))
    return tuple(outputs) if len(outputs) > 1 else outputs[0]


def _applied_bias(name: str) -> Source:
    return lambda args: None if args.get("return_bias") else args.get(name)


_NORM_OPERANDS: Mapping[str, Source] = {"x": "inp", "w0": "layer_norm_weight", "b0": "layer_norm_bias"}

_NORM: Mapping[str, Source] = {"norm": lambda args: _NORMS[args.get("normalization", "LayerNorm")]}


def _engine_attention(
    module: Any, query_layer: Tensor, key_layer: Tensor, value_layer: Tensor, *_: Any, **__: Any
) -> Any:
    return (*query_layer.shape[:-2], query_layer.shape[-2] * value_layer.shape[-1])


def _engine_pairs(values: ValuesOf, args: Arguments) -> Mapping[str, Any]:
    query, key, layout = args["query_layer"], args["key_layer"], args.get("qkv_format") or "sbhd"
    is_causal, window = "causal" in (args.get("attn_mask_type") or "causal"), args.get("window_size")
    if layout == "thd":
        names = {"cu_seqlens_q": "cu_seqlens_q", "cu_seqlens_k": "cu_seqlens_kv", "max_seqlen_k": "max_seqlen_kv"}
        found = {to: args[name] for to, name in names.items()}
        return _pairs_of_sequences(values, {"q": query, **found, "causal": is_causal, "window_size": window})
    batch, heads, axis = query.shape[layout.index("b")], query.shape[2], layout.index("s")
    steps, keys = query.shape[axis], key.shape[axis]
    allowed = _allowed({"window_size": window}, heads, [(steps, keys)] * batch, is_causal)
    return {"pairs": batch * heads * steps * keys, **allowed}


ENGINE: Mapping[str, Kernel] = {
    "transformer_engine.pytorch::Linear": Kernel(
        "linear", {"x": "inp", "w": "weight", "b": _applied_bias("bias")}, {}, _engine_linear
    ),
    "transformer_engine.pytorch::LayerNormLinear": Kernel(
        "norm_then_linear", {**_NORM_OPERANDS, "w1": "weight", "b1": _applied_bias("bias")}, _NORM, _engine_linear
    ),
    "transformer_engine.pytorch::LayerNormMLP": Kernel(
        "norm_mlp",
        {**_NORM_OPERANDS, "w1": "fc1_weight", "b1": "fc1_bias", "w2": "fc2_weight", "b2": _applied_bias("fc2_bias")},
        {**_NORM, "activation": lambda args: _ACTIVATIONS[args.get("activation", "gelu")]},
        _engine_linear,
    ),
    "transformer_engine.pytorch::DotProductAttention": Kernel(
        "token_major_attention",
        {"q": "query_layer", "k": "key_layer", "v": "value_layer"},
        {"causal": lambda args: "causal" in (args.get("attn_mask_type") or "causal") or None},
        _engine_attention,
        _engine_pairs,
    ),
    "transformer_engine.pytorch::LayerNorm": _norm("layer_norm", "input"),
    "transformer_engine.pytorch::RMSNorm": _norm("rms_norm", "input"),
}

_GPTQ = _packed_linear("qweight", w_scale="scales", w_zero_point="qzeros")


def _group_size(args: Arguments) -> int:
    group = args.get("group")
    return 1 if group is None else int(torch.distributed.get_world_size(group))


_QUANTIZED_CLASSES: Mapping[str, Sequence[str]] = {
    "auto_gptq": ("QuantLinear",),
    "gptqmodel": (
        *("TorchQuantLinear", "TritonV2QuantLinear", "MarlinQuantLinear", "ExllamaQuantLinear"),
        *("ExllamaV2QuantLinear", "TorchFusedQuantLinear", "AwqGEMMQuantLinear"),
    ),
    "awq": ("WQLinear_GEMM", "WQLinear_GEMV", "WQLinear_GEMVFast", "WQLinear_Marlin", "WQLinear_Exllama"),
}

LAYERS: Mapping[str, Kernel] = {
    "bitsandbytes::Linear4bit": _packed_linear(),
    "bitsandbytes::Linear8bitLt": _packed_linear(),
    **{f"{package}::{name}": _GPTQ for package, names in _QUANTIZED_CLASSES.items() for name in names},
    "apex.normalization::FusedLayerNorm": _norm("layer_norm", "input"),
    "apex.normalization::FusedRMSNorm": _norm("rms_norm", "input"),
    "liger_kernel.ops.rms_norm::LigerRMSNormFunction": _norm("rms_norm", "X", "W", is_module=False),
    "liger_kernel.ops.layer_norm::LigerLayerNormFunction": _norm("layer_norm", "X", "W", "B", is_module=False),
    "liger_kernel.ops.group_norm::LigerGroupNormFunction": Kernel(
        "group_norm",
        {"x": "X", "w": "affine_scaling_weight", "b": "affine_shifting_bias"},
        {"groups": "num_groups", "eps": "eps"},
        lambda x, *_, **__: x,
    ),
    "liger_kernel.ops.softmax::LigerSoftmaxFunction": Kernel(
        "softmax", {"x": "input_"}, _last_axis("input_"), lambda x: x
    ),
    "liger_kernel.ops.cross_entropy::LigerCrossEntropyFunction": Kernel(
        "cross_entropy",
        {"x": "_input", "target": "target", "w": "weight"},
        {"reduction": "reduction", "label_smoothing": lambda args: args.get("label_smoothing") or None},
        _loss,
    ),
    # Its forward pass also computes the gradients, which the backward pass only scales. They count as backward.
    "liger_kernel.ops.fused_linear_cross_entropy::LigerFusedLinearCrossEntropyFunction": Kernel(
        "linear_cross_entropy",
        {"x": "_input", "w": "weight", "b": "bias", "target": "target", "class_weights": "ce_weight"},
        {"reduction": "reduction"},
        lambda x, weight, target, *args, **kwargs: _loss(x, target, *args, **kwargs),
    ),
    "liger_kernel.ops.swiglu::LigerSiLUMulFunction": Kernel("swiglu", {"x0": "a", "x1": "b"}, {}, lambda a, b, *_: a),
    "liger_kernel.ops.geglu::LigerGELUMulFunction": Kernel(
        "geglu", {"x0": "a", "x1": "b"}, {"approximate": lambda _: "tanh"}, lambda a, b: a
    ),
    "liger_kernel.ops.fused_add_rms_norm::LigerFusedAddRMSNormFunction": Kernel(
        "fused_rms_norm", {"x": "X", "skip": "R", "w": "W"}, _last_axis("X"), lambda x, *_, **__: (x, x)
    ),
    "liger_kernel.ops.rope::LigerRopeFunction": Kernel(
        "rotary_embedding", {"x": "q", "k": "k", "cos": "cos", "sin": "sin"}, {}, lambda q, k, *_, **__: (q, k)
    ),
    "liger_kernel.ops.qwen2vl_mrope::LigerQwen2VLMRopeFunction": Kernel(
        "rotary_embedding", {"x": "q", "k": "k", "cos": "cos", "sin": "sin"}, {}, lambda q, k, *_, **__: (q, k)
    ),
    # Without a process group all experts are in this process.
    "deepspeed.moe.sharded_moe::_AllToAll": Kernel(
        "all_to_all", {"x": "input"}, {"group_size": _group_size}, lambda group, x: x
    ),
}

KERNELS: Mapping[str, Kernel] = {**ATTENTION, **SCANS, **DEFORMABLE, **SEGMENTS, **SPARSE, **ENGINE, **LAYERS}
"""All kernels by ``package.module::name``. ``package::name`` is a class of modules anywhere in the package."""


def _package(name: str) -> str:
    return name.partition("::")[0].partition(".")[0]


PACKAGES = frozenset(map(_package, KERNELS))
"""The packages of these kernels; ``*`` stands for any package."""

_BY_SUFFIX = {name.partition("::")[0].removeprefix("*"): name for name in KERNELS if name.startswith("*.")}

_HAS_SUFFIX = re.compile(f".*(?:{'|'.join(map(re.escape, _BY_SUFFIX))})$").match


def loaded_kernels() -> Mapping[str, Kernel]:
    """Return the kernels of the packages that are imported, by the name of their function or class."""
    found = sys.modules.keys() & PACKAGES
    anywhere = _LOADED_BY_SUFFIX.update()
    if not found and not anywhere:
        return {}
    return {**anywhere, **{name: kernel for name, kernel in KERNELS.items() if _package(name) in found}}


class _SuffixSearch:
    # Searches only modules that were imported since the last search: searching all takes a millisecond.
    def __init__(self) -> None:
        self._n_seen, self._last = 0, ""
        self._kernels: dict[str, Kernel] = {}

    def update(self) -> Mapping[str, Kernel]:
        """Return the kernels of modules in any package that are imported."""
        n_modules, last = len(sys.modules), next(reversed(sys.modules))
        if n_modules == self._n_seen and last == self._last:
            return self._kernels
        if n_modules <= self._n_seen:  # some were removed
            self._n_seen, self._kernels = 0, {}
        new, self._n_seen, self._last = [*islice(sys.modules, self._n_seen, None)], n_modules, last
        for module in filter(_HAS_SUFFIX, new):
            for ending, name in _BY_SUFFIX.items():
                if module.endswith(ending):
                    self._kernels[f"{module}::{name.partition('::')[2]}"] = KERNELS[name]
        return self._kernels


_LOADED_BY_SUFFIX = _SuffixSearch()
