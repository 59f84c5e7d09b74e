"""Attention: as one function, as a layer, and written out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..loops import Triple, attention, linear
from ..probe import Probe

__all__ = ["PROBES"]

FUNCTIONAL = frozenset({"functional", "attention"})
LAYER = frozenset({"attention"})


def _layer(batch: int, queries: int, keys: int, size: int, heads: int) -> Iterator[Triple]:
    """Yield the multiply-accumulates of multi-head attention: four linear layers and the two products of attention."""
    yield from linear(batch * queries, size, size)
    yield from linear(batch * keys, size, size)
    yield from linear(batch * keys, size, size)
    yield from attention(batch, heads, queries, keys, size // heads)
    yield from linear(batch * queries, size, size)


def _encoder(batch: int, steps: int, size: int, heads: int, inner: int) -> Iterator[Triple]:
    """Yield the multiply-accumulates of one layer of a Transformer encoder."""
    yield from _layer(batch, steps, steps, size, heads)
    yield from linear(batch * steps, size, inner)
    yield from linear(batch * steps, inner, size)


def _sdpa(b: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    """Return F.scaled_dot_product_attention of inputs of these shapes."""
    call = b.F.scaled_dot_product_attention
    return b.Fn(lambda self, q, k, v: call(q, k, v, **options)), tuple(b.x(*shape) for shape in shapes)


def _written(b: Any, product: Any) -> Any:
    """Return attention written with softmax and the matrix product ``product``."""
    step = b.Fn(lambda self, q, k, v: product(b.F.softmax(product(q, k.transpose(-2, -1)), -1), v))
    return step, (b.x(2, 3, 4, 6), b.x(2, 3, 5, 6), b.x(2, 3, 5, 6))


PROBES = [
    Probe(
        "attention.function",
        "F.scaled_dot_product_attention: batch 2, 3 heads, 4 queries, 5 keys, 6 per head",
        "macs",
        "2 * 3 heads * 4 queries * 5 keys * (6 scores + 6 values)",
        lambda: attention(2, 3, 4, 5, 6),
        torch=lambda b: _sdpa(b, (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 6)),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.causal",
        "F.scaled_dot_product_attention with is_causal: batch 2, 3 heads, 7 steps, 4 per head; all pairs count",
        "macs",
        "2 * 3 heads * 7 queries * 7 keys * (4 scores + 4 values)",
        lambda: attention(2, 3, 7, 7, 4),
        torch=lambda b: _sdpa(b, *[(2, 3, 7, 4)] * 3, is_causal=True),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.wide_values",
        "F.scaled_dot_product_attention with 6 per head in queries and keys, and 8 in values",
        "macs",
        "2 * 3 heads * 4 queries * 5 keys * (6 scores + 8 values)",
        lambda: attention(2, 3, 4, 5, 6, values=8),
        torch=lambda b: _sdpa(b, (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 8)),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.grouped",
        "F.scaled_dot_product_attention with enable_gqa: 6 heads of queries share 2 heads of keys and values",
        "macs",
        "1 * 6 heads * 4 queries * 5 keys * (8 scores + 8 values)",
        lambda: attention(1, 6, 4, 5, 8),
        torch=lambda b: _sdpa(b, (1, 6, 4, 8), (1, 2, 5, 8), (1, 2, 5, 8), enable_gqa=True),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.grouped_repeated",
        "grouped attention written with repeat_interleave: 2 heads of keys and values for 6 of queries",
        "macs",
        "1 * 6 heads * 4 queries * 5 keys * (8 scores + 8 values)",
        lambda: attention(1, 6, 4, 5, 8),
        torch=lambda b: (
            b.Fn(
                lambda self, q, k, v: b.F.scaled_dot_product_attention(
                    q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
                )
            ),
            (b.x(1, 6, 4, 8), b.x(1, 2, 5, 8), b.x(1, 2, 5, 8)),
        ),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.bool_mask",
        "F.scaled_dot_product_attention with a boolean mask (4, 5): masked pairs count",
        "macs",
        "2 * 3 heads * 4 queries * 5 keys * (6 scores + 6 values)",
        lambda: attention(2, 3, 4, 5, 6),
        torch=lambda b: (
            b.Fn(
                lambda self, q, k, v, mask: b.F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
            ),
            (b.x(2, 3, 4, 6), b.x(2, 3, 5, 6), b.x(2, 3, 5, 6), b.x(4, 5, dtype=b.torch.bool)),
        ),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.float_mask",
        "F.scaled_dot_product_attention with a mask (4, 5) of numbers that are added",
        "macs",
        "2 * 3 heads * 4 queries * 5 keys * (6 scores + 6 values)",
        lambda: attention(2, 3, 4, 5, 6),
        torch=lambda b: (
            b.Fn(
                lambda self, q, k, v, mask: b.F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
            ),
            (b.x(2, 3, 4, 6), b.x(2, 3, 5, 6), b.x(2, 3, 5, 6), b.x(4, 5)),
        ),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.three_dimensions",
        "F.scaled_dot_product_attention of inputs (6, 4, 8) without an axis of heads",
        "macs",
        "6 * 4 queries * 4 keys * (8 scores + 8 values)",
        lambda: attention(6, 1, 4, 4, 8),
        torch=lambda b: _sdpa(b, *[(6, 4, 8)] * 3),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.one_query",
        "F.scaled_dot_product_attention of one query with 17 cached keys: a step of decoding",
        "macs",
        "4 heads * 1 query * 17 keys * (8 scores + 8 values)",
        lambda: attention(1, 4, 1, 17, 8),
        torch=lambda b: _sdpa(b, (1, 4, 1, 8), (1, 4, 17, 8), (1, 4, 17, 8)),
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.operators",
        "attention written with @ and F.softmax: batch 2, 3 heads, 4 queries, 5 keys, 6 per head",
        "macs",
        "2 * 3 heads * 4 queries * 5 keys * (6 scores + 6 values)",
        lambda: attention(2, 3, 4, 5, 6),
        torch=lambda b: _written(b, lambda p, q: p @ q),
        jax=lambda b: (
            lambda q, k, v: b.jnp.einsum("bhqk,bhkd->bhqd", b.jnp.einsum("bhqd,bhkd->bhqk", q, k), v),
            (b.x(2, 3, 4, 6), b.x(2, 3, 5, 6), b.x(2, 3, 5, 6)),
        ),
        tensorflow=lambda b: (
            lambda q, k, v: b.tf.nn.softmax(b.tf.matmul(q, k, transpose_b=True)) @ v,
            (b.x(2, 3, 4, 6), b.x(2, 3, 5, 6), b.x(2, 3, 5, 6)),
        ),
        extras={"softmax": 120},
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.matmul",
        "attention written with torch.matmul: batch 2, 3 heads, 4 queries, 5 keys, 6 per head",
        "macs",
        "2 * 3 heads * 4 queries * 5 keys * (6 scores + 6 values)",
        lambda: attention(2, 3, 4, 5, 6),
        torch=lambda b: _written(b, b.torch.matmul),
        onnx=lambda b: b.model(
            [
                b.helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
                b.helper.make_node("MatMul", ["q", "kt"], ["s"]),
                b.helper.make_node("Softmax", ["s"], ["p"], axis=-1),
                b.helper.make_node("MatMul", ["p", "v"], ["y"]),
            ],
            {"q": (2, 3, 4, 6), "k": (2, 3, 5, 6), "v": (2, 3, 5, 6)},
            {"y": (2, 3, 4, 6)},
        ),
        extras={"softmax": 120},
        tags=FUNCTIONAL,
    ),
    Probe(
        "attention.layer",
        "nn.MultiheadAttention(8, 2, bias=False, batch_first=True) in evaluation mode on (3, 5, 8), with weights",
        "macs",
        "4 layers * 3 * 5 steps * 8 * 8 + 3 * 2 heads * 5 * 5 pairs * (4 + 4)",
        lambda: _layer(3, 5, 5, 8, 2),
        torch=lambda b: (
            b.Fn(
                lambda self, x: self.attention(x, x, x)[0],
                attention=b.nn.MultiheadAttention(8, 2, bias=False, batch_first=True).eval(),
            ),
            (b.x(3, 5, 8),),
        ),
        tags=LAYER,
    ),
    Probe(
        "attention.layer_training",
        "nn.MultiheadAttention(8, 2, bias=False, batch_first=True) in training mode on (3, 5, 8), without weights",
        "macs",
        "4 layers * 3 * 5 steps * 8 * 8 + 3 * 2 heads * 5 * 5 pairs * (4 + 4)",
        lambda: _layer(3, 5, 5, 8, 2),
        torch=lambda b: (
            b.Fn(
                lambda self, x: self.attention(x, x, x, need_weights=False)[0],
                attention=b.nn.MultiheadAttention(8, 2, bias=False, batch_first=True),
            ),
            (b.x(3, 5, 8),),
        ),
        tags=LAYER,
    ),
    Probe(
        "attention.layer_cross",
        "nn.MultiheadAttention(8, 2, bias=False, batch_first=True): 4 queries attend to 6 other steps",
        "macs",
        "2 layers * 3 * 4 queries * 8 * 8 + 2 layers * 3 * 6 keys * 8 * 8 + 3 * 2 heads * 4 * 6 pairs * (4 + 4)",
        lambda: _layer(3, 4, 6, 8, 2),
        torch=lambda b: (
            b.Fn(
                lambda self, x, z: self.attention(x, z, z)[0],
                attention=b.nn.MultiheadAttention(8, 2, bias=False, batch_first=True).eval(),
            ),
            (b.x(3, 4, 8), b.x(3, 6, 8)),
        ),
        tags=LAYER,
    ),
    Probe(
        "attention.layer_other_sizes",
        "nn.MultiheadAttention(8, 2, bias=False, kdim=6, vdim=10) on 4 queries and 5 keys, batch 1",
        "macs",
        "4 queries * 8 * 8 + 5 keys * 6 * 8 + 5 values * 10 * 8 + 2 heads * 4 * 5 pairs * (4 + 4) + 4 outputs * 8 * 8",
        lambda: [
            *linear(4, 8, 8),
            *linear(5, 6, 8),
            *linear(5, 10, 8),
            *attention(1, 2, 4, 5, 4),
            *linear(4, 8, 8),
        ],
        torch=lambda b: (
            b.Fn(
                lambda self, q, k, v: self.attention(q, k, v)[0],
                attention=b.nn.MultiheadAttention(8, 2, bias=False, kdim=6, vdim=10).eval(),
            ),
            (b.x(4, 1, 8), b.x(5, 1, 6), b.x(5, 1, 10)),
        ),
        tags=LAYER,
    ),
    Probe(
        "attention.encoder_layer",
        "nn.TransformerEncoderLayer(8, 2, 16, bias=False, batch_first=True) in training mode, on (3, 5, 8)",
        "macs",
        "4 layers * 15 steps * 8 * 8 + 3 * 2 heads * 5 * 5 pairs * (4 + 4) + 2 layers * 15 steps * 8 * 16",
        lambda: _encoder(3, 5, 8, 2, 16),
        torch=lambda b: (
            b.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, bias=False, batch_first=True),
            (b.x(3, 5, 8),),
        ),
        extras={"layer_norm": 240, "relu": 240},
        tags=LAYER,
    ),
    Probe(
        "attention.encoder_layer_evaluation",
        "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) with biases in evaluation mode, on (3, 5, 8)",
        "macs",
        "4 layers * 15 steps * 8 * 8 + 3 * 2 heads * 5 * 5 pairs * (4 + 4) + 2 layers * 15 steps * 8 * 16",
        lambda: _encoder(3, 5, 8, 2, 16),
        torch=lambda b: (b.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (b.x(3, 5, 8),)),
        extras={"layer_norm": 240, "relu": 240, "bias": 840},
        tags=LAYER,
    ),
    Probe(
        "attention.decoder_layer",
        "nn.TransformerDecoderLayer(8, 2, 16, bias=False, batch_first=True): 4 steps attend to themselves and 6 others",
        "macs",
        "4 layers * 4 * 8 * 8 + 2 heads * 4 * 4 pairs * 8 + 2 layers * 4 * 8 * 8 + 2 layers * 6 * 8 * 8 "
        "+ 2 heads * 4 * 6 pairs * 8 + 2 layers * 4 * 8 * 16",
        lambda: [*_layer(1, 4, 4, 8, 2), *_layer(1, 4, 6, 8, 2), *linear(4, 8, 16), *linear(4, 16, 8)],
        torch=lambda b: (
            b.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, bias=False, batch_first=True),
            (b.x(1, 4, 8), b.x(1, 6, 8)),
        ),
        extras={"layer_norm": 96},
        tags=LAYER,
    ),
    Probe(
        "attention.transformer",
        "nn.Transformer(8, 2, 1, 1, 16, bias=False, batch_first=True) on 6 source and 4 target steps",
        "macs",
        "4 layers * 6 * 8 * 8 + 2 heads * 6 * 6 pairs * 8 + 2 layers * 6 * 8 * 16 + 4 layers * 4 * 8 * 8 "
        "+ 2 heads * 4 * 4 pairs * 8 + 2 layers * 4 * 8 * 8 + 2 layers * 6 * 8 * 8 + 2 heads * 4 * 6 pairs * 8 "
        "+ 2 layers * 4 * 8 * 16",
        lambda: [
            *_encoder(1, 6, 8, 2, 16),
            *_layer(1, 4, 4, 8, 2),
            *_layer(1, 4, 6, 8, 2),
            *linear(4, 8, 16),
            *linear(4, 16, 8),
        ],
        torch=lambda b: (
            b.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, bias=False, batch_first=True),
            (b.x(1, 6, 8), b.x(1, 4, 8)),
        ),
        extras={"layer_norm": 272},
        tags=LAYER,
    ),
    Probe(
        "attention.linear",
        "linear attention: k transposed times v first, then q times that; 9 steps, 4 per head, 5 in values",
        "macs",
        "4 * 5 * 9 keys + 9 queries * 5 * 4",
        lambda: [*linear(4, 9, 5), *linear(9, 4, 5)],
        torch=lambda b: (
            b.Fn(lambda self, q, k, v: q @ (k.transpose(-2, -1) @ v)),
            (b.x(9, 4), b.x(9, 4), b.x(9, 5)),
        ),
        tags=FUNCTIONAL,
    ),
]
