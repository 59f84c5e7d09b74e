"""Attention with some of the keys, gates and streams that ONNX Runtime adds: one node each, by hand."""

from __future__ import annotations

import pytest

from tests.frontends.onnx.contrib.lines import Line, O, S, check
from tests.frontends.onnx.contrib.single_node import INT8, INT32, INT64

# x, weight, bias, mask, global weight and bias, flags of a Longformer: 8 tokens of 4 features
LONG = [(1, 8, 4), {(4, 12)}, {(12,)}, (1, 8), {(4, 12)}, {(12,)}, (INT32, (1, 8))]
TABLES = [{(16, 2)}, {(16, 2)}]

LINES = (
    # 12 rows of 3 scores of 4; 48 elements of q and 96 of k and v projected
    Line(
        "DecoderAttention",
        [(3, 2, 8), (5, 2, 8), {(8, 8)}, {(8, 16)}, {(24,)}, None, None, None, [0], [0], [0], [0]],
        {"num_heads": 2},
        "cached_attention",
        O(mul=36, fma=108) + O(mul=48, fma=96) + O(mul=36) + O(add=24, div=36, special=36) + O(fma=144 * 8),
        2 * 144 + 144 * 8,
        4 * (48 + 64 + 128 + 24),
        192,
        [(3, 2, 8)],
    ),
    # all 5 keys are in the cache: 60 scores, and q alone is projected
    Line(
        "DecoderAttention",
        [(3, 2, 8), (5, 2, 8), {(8, 8)}, {(8, 16)}, {(24,)}, None, *[(2, 2, 5, 4)] * 2, [1], [1], [1], [0]],
        {"num_heads": 2},
        "cached_attention",
        O(mul=60, fma=180) + O(mul=48, fma=192) + O(mul=60) + O(add=48, div=60, special=60) + O(fma=384),
        2 * 240 + 384,
        4 * (48 + 64 + 24 + 160),
        4 * (48 + 160),
        [(3, 2, 8), (2, 2, 5, 4), (2, 2, 5, 4)],
    ),
    # 16 rows of 3 scores of 2; 96 elements projected, twice
    Line(
        *("LongformerAttention", LONG, {"num_heads": 2, "window": 1}, "longformer_attention"),
        O(mul=48, fma=48) + O(mul=32, fma=64) + O(mul=48, add=48) + O(add=32, div=48, special=48) + O(fma=768),
        *(192 + 768, 4 * 168, 128, [(1, 8, 4)]),
    ),
    Line(
        "QOrderedLongformerAttention",
        [
            *[(INT8, (1, 8, 4)), S, {(INT8, (4, 12))}, S, {(12,)}, S, S, (1, 8), {(INT8, (4, 12))}, S, {(12,)}, S],
            *[(INT32, (1, 8)), S],
        ],
        {"num_heads": 2, "window": 1},
        "quantized_longformer_attention",
        O(fma=880, mul=128 + 192, add=80, div=48 + 32, special=48, cmp=96),
        960,
        32 + 48 + 48 + 32 + 48 + 48 + 32,
        32,
        [(1, 8, 4)],
    ),
    # 4 rows of 3 scores of 4; 24 elements of each cache read, 8 written
    Line(
        "DynamicSparseAttention",
        [
            *[(1, 2, 8), (1, 2, 4), (1, 2, 4), (1, 1, 10, 4), (1, 1, 10, 4), None, None],
            *[(INT32, (2, 3)), (INT32, (2,)), (INT32, (1,)), [10]],
        ],
        {"num_heads": 2, "kv_num_heads": 1},
        "selected_attention",
        O(mul=12, fma=36) + O(mul=16, fma=32) + O(mul=12) + O(add=8, div=12, special=12),
        96,
        64 + 32 + 32 + 24 + 8 + 2 * 96,
        64 + 2 * 32,
        [(1, 2, 8), (1, 1, 10, 4), (1, 1, 10, 4)],
    ),
    # 6 rows of 2 selected and 4 local scores of 4; 24 elements of the shared keys, 48 of each cache
    Line(
        "SparsePagedAttention",
        [
            *[(3, 8), (3, 4), (3, 4), (5, 4, 1, 4), (5, 4, 1, 4), (INT32, (2,)), (INT32, (1,)), (INT32, (1, 5)), None],
            *[(INT32, (3, 2)), (INT32, (3,)), (1, 6, 1, 4), None, (INT32, (1,))],
        ],
        {"num_heads": 2, "kv_num_heads": 1, "attention_mode": "local_plus_selected", "local_window_size": 4},
        "selected_attention",
        O(mul=36, fma=108) + O(mul=24, fma=120) + O(mul=36) + O(add=30, div=36, special=36),
        288,
        96 + 48 + 48 + 24 + 12 + 96 + 2 * 192,
        96 + 2 * 48,
        [(3, 8), (5, 4, 1, 4), (5, 4, 1, 4)],
    ),
    # 12 keys in 3 blocks of 4; 4 queries of 2 heads of 4
    Line(
        "SparseAttentionIndexer",
        [(1, 4, 8), (1, 4, 4), {(4,)}, {(4,)}, *TABLES, None, (1, 8, 4)],
        {"policy_mode": "qsa", "compress_ratio": 4, "token_budget": 8},
        "attention_indexer",
        O(fma=24, mul=72, add=8, div=16, special=8)
        + O(fma=9, mul=27, add=3, div=6, special=3)
        + 22 * O(mul=2, add=1)
        + O(add=36, div=12)
        + O(mul=24 + 24, fma=72, cmp=24)
        + O(add=12, cmp=4 * 3 * 2),
        96,
        128 + 64 + 32 + 128 + 2 * 56,
        4 * 44 + 4 * 48,
        [(1, 4, 11), (1, 12, 4)],
    ),
    # one key waits: 2 entries of 2 are made of 5, with 2 before; 3 keys stay for the next
    Line(
        "SparseAttentionIndexer",
        [
            *[(1, 4, 8), (1, 4, 8), {(4,)}, {(4,)}, {(16, 1)}, {(16, 1)}, None, (1, 2, 4), (1, 4, 8), {(2, 8)}],
            *[(1, 4, 2), (INT64, (1, 4)), None, (2, 1, 1, 8)],
        ],
        {"policy_mode": "csa", "compress_ratio": 2, "index_topk": 3},
        "attention_indexer",
        O(fma=24, mul=72, add=8, div=16, special=8)
        + O(fma=6, mul=18, add=2, div=4, special=2)
        + 20 * O(mul=2, add=1)
        + 8 * O(mul=1, fma=3, add=3, div=4, special=4)
        + O(add=32)
        + O(mul=32 + 32, fma=96, cmp=32)
        + O(mul=16 + 8, fma=16, cmp=4 * 4 * 2),
        128,
        128 + 128 + 32 + 32 + 128 + 64 + 32 + 32 + 64 + 2 * 24,
        48 + 64 + 192,
        [(1, 4, 3), (1, 4, 4), (2, 1, 3, 8)],
    ),
    # 6 tokens make 3 entries; there is room for 5
    Line(
        "PackedSparseAttentionIndexer",
        [
            *[(6, 8), (6, 4), {(4,)}, {(4,)}, *TABLES, (INT32, (3,)), (INT32, (2,)), *[None] * 4],
            *[(2, 5, 4), (2, 3, 4), None, (INT32, (2, 2))],
        ],
        {"policy_mode": "qsa", "compress_ratio": 2, "token_budget": 4, "state_capacity": 5},
        "attention_indexer",
        O(fma=36, mul=108, add=12, div=24, special=12)
        + O(fma=9, mul=27, add=3, div=6, special=3)
        + 30 * O(mul=2, add=1)
        + O(add=12, div=12)
        + O(mul=60 + 60, fma=180, cmp=60)
        + O(add=30, cmp=6 * 5 * 3),
        240,
        192 + 96 + 32 + 160 + 96 + 2 * 4 * 18,
        120 + 24 + 160 + 96,
        [(6, 5), (6,), (2, 5, 4), (2, 3, 4)],
    ),
    Line(
        *("LinearAttentionGate", [(1, 3, 2), {(2,)}, {(2,)}, (1, 3, 2)], {}, "decay_gate"),
        *(6 * O(mul=1, add=4, div=1, special=3), 0, 24 + 8 + 8 + 24, 48, [(1, 3, 2), (1, 3, 2)]),
    ),
    Line(
        *("VarlenCausalConvWithState", [(6, 3), {(3, 1, 4)}, (INT32, (3,)), {(3,)}, (2, 3, 3)]),
        *({"activation": "silu"}, "causal_conv", 18 * O(fma=4, mul=1, add=2, div=1, special=1)),
        *(72, 4 * (18 + 12 + 3 + 18), 4 * 36, [(6, 3), (2, 3, 3)]),
    ),
    # 6 rows of 4: two norms, a dot product, |s|, max, root, sign, product, sigmoid; the value times it
    Line(
        *("EngramGate", [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 4), {(3, 4)}, {(3, 4)}], {}, "similarity_gate"),
        6 * (2 * O(fma=3, mul=9, add=1, div=2, special=1) + O(mul=3, fma=3, add=3, cmp=3, div=1, special=2))
        + O(mul=24),
        *(0, 4 * (24 + 24 + 8 + 12 + 12), 96, [(1, 2, 3, 4)]),
    ),
    Line(
        *("BranchwiseRMSNorm", [(2, 6), {(3,)}], {"num_branches": 2}, "rms_norm"),
        *(4 * O(fma=2, mul=7, add=1, div=2, special=1), 0, 48 + 12, 48, [(2, 6)]),
    ),
    Line(
        *("HyperConnectionPreMix", [(2, 3, 4), (2, 3)], {}, "reduce_streams"),
        *(8 * O(mul=1, fma=2), 24, 4 * 30, 32, [(2, 4)]),
    ),
    Line(
        *("HyperConnectionPreMix", [(2, 12), (2, 12)], {"num_branches": 3, "reduction_scale": 0.5}, "reduce_streams"),
        *(8 * O(mul=2, fma=2), 0, 4 * 48, 32, [(2, 4)]),
    ),
    Line(
        *("HyperConnectionPostMix", [(2, 3, 4), (2, 4), (2, 3), (2, 3, 3)], {}, "mix_streams"),
        *(24 * O(mul=1, fma=3), 72, 4 * (24 + 8 + 6 + 18), 96, [(2, 3, 4)]),
    ),
    Line("GatedAdd", [(2, 3), (2, 3), (2, 1)], {}, "gated_add", 6 * O(fma=1), 0, 56, 24, [(2, 3)]),
    Line(
        *("RelativePositionBias", [{(8, 2)}, [3], [3]], {"max_distance": 16}, "relative_position_bias"),
        *(O(), 0, 64, 72, [(1, 2, 3, 3)]),
    ),
    # 6 rows of 4 to 6 features, of which each half is summed
    Line(
        "GatedRelativePositionBias",
        [(1, 3, 8), {(8,)}, (1, 2, 3, 3), {(4, 6)}, {(6,)}, {(1, 2, 1, 1)}],
        {"num_heads": 2},
        "gated_position_bias",
        O(add=24) + O(fma=144) + O(add=24) + 6 * O(mul=2, add=6, div=2, special=2) + O(mul=18),
        144,
        4 * (24 + 8 + 18 + 24 + 6 + 2),
        72,
        [(1, 2, 3, 3)],
    ),
    Line("RestorePadding", [(5, 4), (INT32, (2, 3))], {}, "repad", O(), 0, 80 + 24, 96, [(2, 3, 4)]),
)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.native)
def test_one_operator(line: Line):
    check(line)


# 96 cells: outer product, decay, k^T S, q^T S; 24 rows: scale, and difference and rate of the delta
RECURRENCE = O(fma=96) + O(mul=24, fma=72) + O(mul=24) + O(mul=96, special=12) + O(mul=24, fma=72) + O(add=24, mul=24)
