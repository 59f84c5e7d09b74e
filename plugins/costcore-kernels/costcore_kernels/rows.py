"""The mapping rules of kernels. A trace has their arguments by position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

Made: TypeAlias = "Callable[[Arguments], Any]"
"""A function that computes an operand or attribute from all arguments."""


def kernel(
    native: str,
    op: str,
    inputs: Mapping[str, int | Made],
    outputs: Sequence[int] | Callable[[Arguments], Sequence[Tensor]],
    attrs: Mapping[str, Made] | None = None,
    needs: Sequence[int] = (),
    when: Callable[[Arguments], bool] = lambda _: True,
) -> Row:
    """Return the rule of a kernel.

    Args:
        native: the name of the kernel in traces.
        op: the operator that it computes.
        inputs: operands, each as the position of an argument or a function of all arguments.
        outputs: positions of the arguments that the kernel writes, or a function that returns its results.
        attrs: attributes, each as a function of all arguments.
        needs: positions of further required tensors. The rule only applies if no required tensor is missing or empty.
        when: a further condition on the arguments.
    """
    positions = [x for x in inputs.values() if isinstance(x, int)]
    written = outputs if callable(outputs) else None
    at = () if callable(outputs) else tuple(outputs)
    needed = (*positions, *needs, *at)

    def fits(args: Arguments) -> bool:
        found = [args.get(f"arg{i}") for i in needed]
        return all(isinstance(x, Tensor) and x.size > 0 for x in found) and when(args)

    def results(args: Arguments, _: Sequence[Any]) -> Sequence[Any]:
        return written(args) if written is not None else [args[f"arg{i}"] for i in at]

    operands = {name: f"arg{x}" if isinstance(x, int) else x for name, x in inputs.items()}
    return Row(native, op, operands, dict(attrs or {}), when=fits, outputs=results)


def tensor(args: Arguments, position: int) -> Tensor:
    """Return the tensor argument at a position."""
    found = args[f"arg{position}"]
    assert isinstance(found, Tensor)  # kernel() checks this
    return found


def integer(args: Arguments, position: int) -> int | None:
    """Return the int at a position; None if it is not an int."""
    found = args.get(f"arg{position}")
    return found if type(found) is int else None


def like(position: int) -> Callable[[Arguments], Sequence[Tensor]]:
    """Return a function that returns one result, with the shape and dtype of an argument."""
    return lambda args: [tensor(args, position)]


# Norms, gated activations, rotary embeddings and stores into a cache.
#
# Sources of the signatures: ``csrc/torch_bindings.cpp`` of vLLM (https://github.com/vllm-project/vllm),
# ``sgl-kernel/csrc/common_extension.cc`` and ``python/sglang/jit_kernel/kvcache.py`` of SGLang
# (https://github.com/sgl-project/sglang), ``aiter/ops/rmsnorm.py``, ``aiter/ops/groupnorm.py`` and
# ``aiter/ops/activation.py`` of aiter (https://github.com/ROCm/aiter).


def _last_axis(position: int) -> Callable[[Arguments], tuple[int, ...]]:
    return lambda args: (tensor(args, position).ndim - 1,)


def _norm(native: str, x: int, w: int, out: int | None) -> Row:
    """An RMS norm over the last axis. It writes argument ``out``, or returns a new tensor."""
    outputs = like(x) if out is None else (out,)
    return kernel(native, "rms_norm", {"x": x, "w": w}, outputs, {"axis": _last_axis(x)})


def _norm_of_sum(native: str, x: int, skip: int, w: int, outputs: tuple[int, int]) -> Row:
    """An RMS norm of a sum ``x + skip``, which is also written."""
    return kernel(native, "fused_rms_norm", {"x": x, "skip": skip, "w": w}, outputs, {"axis": _last_axis(x)})


NORMS = (
    _norm("_C::rms_norm", 1, 2, 0),
    _norm_of_sum("_C::fused_add_rms_norm", 0, 1, 2, (0, 1)),
    _norm("sgl_kernel::rmsnorm", 1, 2, 0),
    _norm_of_sum("sgl_kernel::fused_add_rmsnorm", 0, 1, 2, (0, 1)),
    _norm("aiter::rmsnorm", 1, 2, 0),
    _norm_of_sum("aiter::add_rmsnorm", 1, 2, 4, (0, 3)),
    _norm("aiter::rms_norm", 0, 1, None),
    *(
        row
        for kind in ("", "_ck")
        for row in (
            _norm(f"aiter::rmsnorm2d_fwd{kind}", 0, 1, None),
            _norm_of_sum(f"aiter::rmsnorm2d_fwd_with_add{kind}", 1, 2, 4, (0, 3)),
        )
    ),
    kernel(
        "aiter::_groupnorm_run",
        "group_norm",
        {"x": 0, "w": 2, "b": 3},
        like(0),
        {"groups": lambda args: integer(args, 1)},
        when=lambda args: (integer(args, 1) or 0) > 0 and tensor(args, 0).ndim > 1,
    ),
)


def _half(args: Arguments) -> Tensor:
    """Return one half of the input, which is twice as wide as the output."""
    x = tensor(args, 1)
    return Tensor((*x.shape[:-1], x.shape[-1] // 2), x.dtype)


def _gated(native: str, op: str, approximate: str = "") -> Row:
    attrs = {"approximate": lambda _: approximate} if approximate else {}
    return kernel(
        native,
        op,
        {"x0": _half, "x1": _half},
        (0,),
        attrs,
        needs=(1,),
        when=lambda args: tensor(args, 1).ndim > 0 and tensor(args, 1).shape[-1] % 2 == 0,
    )


GATES = tuple(
    _gated(f"{library}::{name}", op, approximate)
    for library in ("_C", "sgl_kernel", "aiter")
    for name, op, approximate in (
        ("silu_and_mul", "swiglu", ""),
        ("gelu_and_mul", "gated_gelu", "none"),
        ("gelu_tanh_and_mul", "gated_gelu", "tanh"),
    )
)


def _heads(args: Arguments) -> Tensor:
    """Return queries and keys as one tensor, because the same angles rotate both."""
    size, q, k = integer(args, 3) or 1, tensor(args, 1), tensor(args, 2)
    tokens = tensor(args, 0).size
    return Tensor((tokens, (q.size + k.size) // max(tokens * size, 1), size), q.dtype)


def _angles(args: Arguments) -> Tensor:
    """Return the table of cosines, or of sines. Each is half of a row of the cache."""
    table = tensor(args, 4)
    return Tensor((table.shape[0], table.shape[-1] // 2), table.dtype)


def _rotation(native: str) -> Row:
    inputs: dict[str, int | Made] = {"x": _heads, "cos": _angles, "sin": _angles, "position": 0}
    return kernel(
        native,
        "rotary_embedding",
        inputs,
        (1, 2),
        {"rotary_dim": lambda args: tensor(args, 4).shape[-1]},
        needs=(4,),
        when=lambda args: (integer(args, 3) or 0) > 0 and tensor(args, 4).ndim == 2 and tensor(args, 4).shape[-1] > 1,
    )


ROTATIONS = tuple(_rotation(f"{library}::rotary_embedding") for library in ("_C", "sgl_kernel"))


def _store(native: str, indices: int) -> Row:
    """Write keys and values of new tokens to a cache, without reading it; ``indices`` is their position."""
    inputs = {"x0": 0, "x1": 1, "indices": indices}
    return kernel(native, "store_cache", inputs, lambda args: [tensor(args, 0), tensor(args, 1)], needs=(2, 3))


STORES = (
    _store("_C_cache_ops::reshape_and_cache", 4),
    _store("_C_cache_ops::reshape_and_cache_flash", 4),
    _store("sglang::store_cache", 4),
)

POINTWISE_ROWS: tuple[Row, ...] = (*NORMS, *GATES, *ROTATIONS, *STORES)


# Attention over padded batches, packed samples and a paged cache.
#
# The lengths of packed samples are tensor elements, which a trace does not record. It has the number of samples, the
# sum of their lengths and the maximum. If number times maximum is the sum, all lengths are equal. Otherwise equal
# lengths are assumed, and the report says so.
#
# Sources of the signatures: ``flash_attn/flash_attn_interface.py`` of flash-attn (https://github.com/Dao-AILab/flash-
# attention), ``hopper/flash_api.cpp`` of the same, ``aiter/ops/mha.py`` of aiter (https://github.com/ROCm/aiter),
# ``xformers/ops/fmha`` of xFormers (https://github.com/facebookresearch/xformers), ``vllm/vllm_flash_attn`` of vLLM.

EQUAL = "samples of equal lengths"


def _by_heads(position: int) -> Made:
    """Return x[N, T, H, D] as x[N, H, T, D]."""

    def made(args: Arguments) -> Tensor:
        n, length, heads, width = tensor(args, position).shape
        return Tensor((n, heads, length, width), tensor(args, position).dtype)

    return made


def _has_rank(rank: int, *positions: int) -> Made:
    return lambda args: all(tensor(args, i).ndim == rank for i in positions)


def _padded(native: str, causal: int | None = None, without: Sequence[int] = ()) -> Row:
    """Return the rule of attention over ``q[N, T, H, D]``; k and v have the same layout.

    Args:
        native: the name of the kernel.
        causal: the position of the flag ``causal``.
        without: positions of optional tensors, such as lengths or pages, with which this rule does not apply.
    """
    attrs = {} if causal is None else {"causal": lambda args: args.get(f"arg{causal}") is True or None}
    return kernel(
        native,
        "attention",
        {"q": _by_heads(0), "k": _by_heads(1), "v": _by_heads(2)},
        lambda args: [Tensor((*_by_heads(0)(args).shape[:-1], tensor(args, 2).shape[-1]), tensor(args, 0).dtype)],
        attrs,
        needs=(0, 1, 2),
        when=lambda args: (
            all(tensor(args, i).ndim == 4 for i in (0, 1, 2)) and not any(f"arg{i}" in args for i in without)
        ),
    )


def _backward(native: str) -> Row:
    """Return the rule of a backward pass with arguments dout, q, k, v, in the layout of :func:`_padded`."""
    inputs = {"dy": _by_heads(0), "q": _by_heads(1), "k": _by_heads(2), "v": _by_heads(3)}
    return kernel(
        native,
        "attention_backward",
        inputs,
        lambda args: [tensor(args, i) for i in (1, 2, 3)],
        needs=(0, 1, 2, 3),
        when=_has_rank(4, 0, 1, 2, 3),
    )


class _Packed:
    """Attention of packed samples, q[T, H, D].

    Args:
        ends: the position of the cumulative lengths of q, one more element than samples.
        longest: the positions of the maximum numbers of queries and of keys.
        paged: whether k and v are paged caches; only the keys of the samples are read.
    """

    def __init__(self, ends: int, longest: tuple[int, int], paged: bool = False) -> None:
        self.ends, self.longest, self.paged = ends, longest, paged

    def lengths(self, args: Arguments) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        """Return the numbers of queries and of keys per sample, and whether they are certain."""
        n, total = tensor(args, self.ends).size - 1, tensor(args, 0).shape[0]
        queries, keys = (integer(args, i) or 0 for i in self.longest)
        is_certain = n * queries == total
        own = (queries,) * n if is_certain else _divided(total, n)
        all_keys = 0 if self.paged else tensor(args, 1).shape[0]
        if self.paged or n * keys == all_keys:
            is_certain = is_certain and (n * keys == all_keys or keys == queries)
            return own, (keys,) * n, is_certain
        return own, _divided(all_keys, n), False

    def row(self, native: str, causal: int) -> Row:
        """Return the rule of a kernel; ``causal`` is the position of its flag."""

        def q(args: Arguments) -> Tensor:
            length, heads, width = tensor(args, 0).shape
            return Tensor((1, heads, length, width), tensor(args, 0).dtype)

        def k(position: int) -> Made:
            def made(args: Arguments) -> Tensor:
                x = tensor(args, position)
                return Tensor((1, x.shape[-2], sum(self.lengths(args)[1]), x.shape[-1]), x.dtype)

            return made

        def has_lengths(args: Arguments) -> bool:
            longest = [integer(args, i) for i in self.longest]
            return (
                tensor(args, 0).ndim == 3
                and tensor(args, 1).ndim >= 3
                and all(n is not None and n > 0 for n in longest)
                and tensor(args, self.ends).size > 1
            )

        return kernel(
            native,
            "ragged_attention",
            {"q": q, "k": k(1), "v": k(2)},
            lambda args: [Tensor((*q(args).shape[:-1], tensor(args, 2).shape[-1]), tensor(args, 0).dtype)],
            {
                "lengths": lambda args: self.lengths(args)[0],
                "key_lengths": lambda args: self.lengths(args)[1],
                "causal": lambda args: args.get(f"arg{causal}") is True or None,
                "assumed": lambda args: None if self.lengths(args)[2] else EQUAL,
            },
            needs=(0, 1, 2, self.ends),
            when=has_lengths,
        )


def _divided(total: int, n: int) -> tuple[int, ...]:
    """Split ``total`` into n integers that differ by at most 1."""
    return tuple(total // n + (i < total % n) for i in range(n))


_HOPPER_OPTIONS = (3, 4, *range(7, 12), 14, 15, 16)
"""Positions of optional tensors of FlashAttention-3: new keys and values, lengths, pages."""

ATTENTION_ROWS: tuple[Row, ...] = (
    _padded("flash_attn::_flash_attn_forward", causal=5),
    *(
        _padded(f"aiter::{name}", causal=5)
        for name in ("mha_fwd", "fmha_v3_fwd", "wrapper_fmha_v3_fwd", "_flash_attn_forward")
    ),
    *(
        _padded(f"{library}::fwd", causal=24, without=_HOPPER_OPTIONS)
        for library in ("flash_attn_3", "sgl_kernel", "_vllm_fa3_C")
    ),
    _padded("xformers::efficient_attention_forward_cutlass"),
    _padded("xformers_flash::flash_fwd"),
    _backward("flash_attn::_flash_attn_backward"),
    _backward("flash_attn_3::bwd"),
    _backward("aiter::mha_bwd"),
    _Packed(3, (5, 6)).row("flash_attn::_flash_attn_varlen_forward", causal=9),
    _Packed(3, (5, 6)).row("aiter::mha_varlen_fwd", causal=12),
    _Packed(3, (6, 7), paged=True).row("aiter::mha_batch_prefill", causal=12),
)


# Products of quantized operands, and quantization.
#
# Source of the signatures: ``csrc/torch_bindings.cpp`` of vLLM, ``sgl-kernel/csrc/common_extension.cc`` of SGLang,
# ``aiter/ops/gemm_op_a8w8.py`` of aiter.


def _transposed(args: Arguments) -> Tensor:
    """Return w[N, K] as w[K, N]."""
    w = tensor(args, 1)
    return Tensor(w.shape[::-1], w.dtype)


def _product(args: Arguments) -> list[Tensor]:
    return [Tensor((tensor(args, 0).shape[0], tensor(args, 1).shape[0]), "bfloat16")]


def _is_matrices(args: Arguments) -> bool:
    return all(tensor(args, i).ndim == 2 for i in (0, 1))


def _is_product(args: Arguments) -> bool:
    """Return whether y[M, N] is the product of x[M, K] and w[K, N]."""
    y, x, w = (tensor(args, i).shape for i in range(3))
    return len(x) == len(w) == 2 and x[1] == w[0] and y == (x[0], w[1])


QUANTIZED_ROWS: tuple[Row, ...] = (
    kernel(
        "_C::cutlass_scaled_mm",
        "scaled_matmul",
        {"x0": 1, "x1": 2, "x0_scale": 3, "x1_scale": 4},
        (0,),
        when=_is_product,
    ),
    kernel(
        "aiter::gemm_a8w8_CK",
        "scaled_matmul",
        {"x0": 0, "x1": _transposed, "x0_scale": 2, "x1_scale": 3},
        _product,
        needs=(1,),
        when=_is_matrices,
    ),
    *(
        kernel(f"{library}::{name}", "scaled_quantize", {"x": 1, "scale": 2}, (0,))
        for library in ("_C", "sgl_kernel")
        for name in ("static_scaled_fp8_quant", "static_scaled_int8_quant")
    ),
    *(
        kernel(f"_C::{name}", "scaled_quantize", {"x": 1}, (0, 2), {"dynamic": lambda _: True})
        for name in ("dynamic_scaled_fp8_quant", "dynamic_per_token_scaled_fp8_quant", "dynamic_scaled_int8_quant")
    ),
    kernel("sgl_kernel::sgl_per_token_quant_fp8", "scaled_quantize", {"x": 0}, (1, 2), {"dynamic": lambda _: True}),
)


# Mixture-of-experts layers.
#
# Sources of the signatures: ``vllm/model_executor/layers/fused_moe/fused_moe.py`` of vLLM, and its counterpart in
# SGLang. Arguments: hidden states, w1[E, 2I, D], w2[E, D, I], weights[N, k] and ids[N, k] of the chosen experts.


def _is_gated(args: Arguments) -> bool:
    ranks = [tensor(args, i).ndim for i in range(5)]
    return ranks == [2, 3, 3, 2, 2] and tensor(args, 1).shape[1] == 2 * tensor(args, 2).shape[2]


EXPERT_ROWS: tuple[Row, ...] = tuple(
    kernel(
        f"{library}::{name}",
        "routed_experts",
        {"x": 0, "w0": 1, "w1": 2, "factor": 3, "indices": 4},
        like(0),
        when=_is_gated,
    )
    for library in ("vllm", "sglang")
    for name in ("inplace_fused_experts", "outplace_fused_experts")
)


# Linear layers of TransformerEngine, with or without a norm before them, forward and backward.
#
# A trace has no operator for their products, only the autograd functions around them with their arguments.
# Sources of the signatures: ``transformer_engine/pytorch/module/linear.py`` and ``layernorm_linear.py`` of
# TransformerEngine (https://github.com/NVIDIA/TransformerEngine), releases 1 and 2. A trace does not
# show FP8 quantization inside these functions. A backward pass is counted with the operands of its forward pass.

BY_NAME = "the function of that name in TransformerEngine, with operands of their recorded dtype"


def _tensors(args: Arguments, positions: range) -> list[Tensor]:
    found = (args.get(f"arg{i}") for i in positions)
    return [x for x in found if isinstance(x, Tensor) and x.size > 0]


def _linear_input(args: Arguments) -> Tensor | None:
    """Return the input of ``_Linear``: the last matrix in arguments 1 to 3, after copies of the weight in release 1."""
    found = [x for x in _tensors(args, range(1, 4)) if x.ndim >= 2]
    return found[-1] if found else None


def _input_of(position: int | None) -> Made:
    return _linear_input if position is None else lambda args: args.get(f"arg{position}")


def _fits(args: Arguments, x: Made, w: int) -> bool:
    found, weight = x(args), args[f"arg{w}"]
    return isinstance(found, Tensor) and found.ndim >= 2 and weight.ndim == 2 and found.shape[-1] == weight.shape[1]


def _rows(name: str, position: int | None, w: int, norm: Mapping[str, int]) -> tuple[Row, Row]:
    """Return the rules of the forward and the backward pass.

    Args:
        name: the name of the autograd function.
        position: the position of the input; None to search for it.
        w: the position of the weight.
        norm: the positions of weight and bias of the norm, by operand name.
    """
    x = _input_of(position)

    def y(args: Arguments) -> Tensor:
        return Tensor((*x(args).shape[:-1], tensor(args, w).shape[0]), x(args).dtype)

    def part(i: int) -> Made:
        return lambda args: args.get(f"arg{i}") if _tensors(args, range(i, i + 1)) else None

    operands: dict[str, int | Made] = {"x": x, "w": w, **{operand: part(i) for operand, i in norm.items()}}
    op = "norm_linear" if norm else "linear"
    attrs: dict[str, Made] = {"assumed": lambda _: BY_NAME}
    needs = tuple(i for operand, i in norm.items() if operand == "norm_w")

    def gradients(args: Arguments) -> list[Tensor]:
        return [x(args), tensor(args, w), *(found for i in norm.values() for found in _tensors(args, range(i, i + 1)))]

    return (
        kernel(f"span::{name}", op, operands, lambda args: [y(args)], attrs, needs, lambda args: _fits(args, x, w)),
        kernel(
            f"span::{name}Backward",
            f"{op}_backward",
            {"dy": y, **operands},
            gradients,
            {**attrs, "needs": lambda _: ("x", "w")},
            needs,
            lambda args: _fits(args, x, w),
        ),
    )


TRANSFORMER_ENGINE_ROWS: tuple[Row, ...] = (
    *_rows("_Linear", None, 0, {}),
    *_rows("_LayerNormLinear", 0, 3, {"norm_w": 1, "norm_b": 2}),
)


# Triton kernels generated by TorchInductor: only the bytes of their arguments are counted.
#
# Source: ``torch/_inductor/codegen/triton.py`` of PyTorch: input pointers precede output pointers. A trace does not
# have the code of a kernel, so its operations are unknown.

UNKNOWN = "the last tensor is written, the others are read, and operations are not counted"


def _all_tensors(args: Arguments) -> list[Tensor]:
    return [x for x in args.values() if isinstance(x, Tensor)]


COMPILED_ROWS: tuple[Row, ...] = (
    Row(
        "triton::*",
        "generated_kernel",
        {"x*": lambda args: _all_tensors(args)[:-1]},
        {"assumed": lambda _: UNKNOWN},
        when=lambda args: bool(_all_tensors(args)),
        outputs=lambda args, _: _all_tensors(args)[-1:],
    ),
)


ROWS: tuple[Row, ...] = (
    *(*POINTWISE_ROWS, *ATTENTION_ROWS, *QUANTIZED_ROWS),
    *(*EXPERT_ROWS, *TRANSFORMER_ENGINE_ROWS, *COMPILED_ROWS),
)
