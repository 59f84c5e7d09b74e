"""Attention: of padded batches, of packed samples, and over pages of a cache.

The lengths of packed samples are numbers inside tensors, which a trace does not have. It has their sum and the longest
one: if so many longest ones make the sum, all are as long. Otherwise equal lengths are assumed, and the report says so.

Sources of the signatures: ``flash_attn/flash_attn_interface.py`` of flash-attn (https://github.com/Dao-AILab/flash-attention),
``hopper/flash_api.cpp`` of the same, ``aiter/ops/mha.py`` of aiter (https://github.com/ROCm/aiter),
``xformers/ops/fmha`` of xFormers (https://github.com/facebookresearch/xformers), ``vllm/vllm_flash_attn`` of vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

from .kernel import Made, kernel, tensor, whole

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
    """q[N, T, H, D], k and v in the same order of axes.

    Args:
        native: the name of the kernel.
        causal: the position of that flag.
        without: positions of tensors that make it another kernel, with lengths or pages for example.
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
    """dout, q, k, v first, in the order of axes of :func:`_padded`."""
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
        ends: the position of the ends of the samples in q, one more than there are samples.
        longest: the positions of the longest numbers of queries and of keys.
        paged: whether k and v are caches, of which only the keys of the samples are read.
    """

    def __init__(self, ends: int, longest: tuple[int, int], paged: bool = False) -> None:
        self.ends, self.longest, self.paged = ends, longest, paged

    def lengths(self, args: Arguments) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        """Return the numbers of queries and of keys of the samples, and whether they are certain."""
        n, total = tensor(args, self.ends).size - 1, tensor(args, 0).shape[0]
        queries, keys = (whole(args, i) or 0 for i in self.longest)
        is_certain = n * queries == total
        own = (queries,) * n if is_certain else _divided(total, n)
        all_keys = 0 if self.paged else tensor(args, 1).shape[0]
        if self.paged or n * keys == all_keys:
            is_certain = is_certain and (n * keys == all_keys or keys == queries)
            return own, (keys,) * n, is_certain
        return own, _divided(all_keys, n), False

    def row(self, native: str, causal: int) -> Row:
        """Return the rule of a kernel; ``causal`` is the position of that flag."""

        def q(args: Arguments) -> Tensor:
            length, heads, width = tensor(args, 0).shape
            return Tensor((1, heads, length, width), tensor(args, 0).dtype)

        def k(position: int) -> Made:
            def made(args: Arguments) -> Tensor:
                x = tensor(args, position)
                return Tensor((1, x.shape[-2], sum(self.lengths(args)[1]), x.shape[-1]), x.dtype)

            return made

        def has_lengths(args: Arguments) -> bool:
            longest = [whole(args, i) for i in self.longest]
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
    """Return n whole numbers with a sum that differ by one at most."""
    return tuple(total // n + (i < total % n) for i in range(n))


_OF_HOPPER = (3, 4, *range(7, 12), 14, 15, 16)
"""Arguments of FlashAttention-3: new keys and values, lengths, pages."""

ROWS: tuple[Row, ...] = (
    _padded("flash_attn::_flash_attn_forward", causal=5),
    *(
        _padded(f"aiter::{name}", causal=5)
        for name in ("mha_fwd", "fmha_v3_fwd", "wrapper_fmha_v3_fwd", "_flash_attn_forward")
    ),
    *(
        _padded(f"{library}::fwd", causal=24, without=_OF_HOPPER)
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
