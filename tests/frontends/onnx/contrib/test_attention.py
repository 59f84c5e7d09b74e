"""Attention as ONNX Runtime adds it: shapes and costs, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from costcore.ir import Operations, Tensor
from tests.frontends.onnx.contrib.single_node import FLOAT, FLOAT16, INT8, INT32, UINT8, priced, shapes


# B 2, S 5, H 4, D 8, E 32
def test_attention_projects_and_attends():
    layer, cost, recorder = priced("Attention", (2, 5, 32), {(32, 96)}, {(96,)}, num_heads=4)
    assert shapes(layer) == [(2, 5, 32)]
    assert cost.macs == 2 * 5 * 32 * 96 + 2 * (2 * 4 * 5 * 5 * 8)
    assert recorder.n_params_model == 32 * 96 + 96


def test_attention_with_a_past_meets_all_keys():
    layer, cost, _ = priced(
        "Attention", (2, 1, 32), {(32, 96)}, {(96,)}, None, (2, 2, 4, 7, 8), outputs=2, num_heads=4, unidirectional=1
    )
    assert shapes(layer) == [(2, 1, 32), (2, 2, 4, 8, 8)]
    assert cost.macs == 2 * 1 * 32 * 96 + 2 * (2 * 4 * 1 * 8 * 8)


@pytest.mark.parametrize(
    "inputs",
    [
        ((2, 5, 32), (2, 7, 32), (2, 7, 16)),
        ((2, 5, 32), (2, 4, 7, 8), (2, 4, 7, 4)),
    ],
)
def test_multi_head_attention_has_no_projection(inputs):
    layer, cost, _ = priced("MultiHeadAttention", *inputs, num_heads=4)
    assert shapes(layer) == [(2, 5, 16)]
    assert cost.macs == 2 * 4 * 5 * 7 * (8 + 4)
    assert cost.mread == 4 * 2 * (5 * 32 + 7 * 32 + 7 * 16)


def test_multi_head_attention_packed_reads_once():
    layer, cost, _ = priced("MultiHeadAttention", (2, 5, 4, 3, 8), num_heads=4)
    assert shapes(layer) == [(2, 5, 32)]
    assert cost.macs == 2 * (2 * 4 * 5 * 5 * 8)
    assert cost.mread == 4 * 2 * 5 * 4 * 3 * 8
    _, packed, _ = priced("MultiHeadAttention", (2, 5, 32), (2, 7, 4, 2, 8), num_heads=4)
    assert packed.mread == 4 * 2 * (5 * 32 + 7 * 4 * 2 * 8)


def test_multi_head_attention_adds_its_bias_and_its_past():
    layer, cost, _ = priced(
        "MultiHeadAttention", *[(1, 2, 8)] * 3, {(24,)}, None, None, (1, 2, 3, 4), (1, 2, 3, 4), outputs=3, num_heads=2
    )
    assert shapes(layer) == [(1, 2, 8), (1, 2, 5, 4), (1, 2, 5, 4)]
    assert cost.macs == 2 * (2 * 2 * 5 * 4)
    scores = 2 * 2 * 5
    # dot products of 4 and of 5, the scale, the softmax of 4 rows of 5, the bias on 3 times 16 elements
    expected = Operations(mul=scores, fma=scores * 3) + Operations(mul=16, fma=16 * 4) + Operations(mul=scores)
    expected += Operations(add=scores - 4, div=scores, special=scores) + Operations(add=48)
    assert cost.flops == expected
    assert cost.mread == 4 * (3 * 16 + 24 + 2 * 24)


# Llama-like: 8 query heads on 2 key heads of 4 features, one new token on a cache of 10 of which 6 are in use
CACHE = (1, 2, 10, 4)


@pytest.mark.parametrize("past", [3, None])
def test_keys_and_values_may_go_into_the_cache_they_come_from(past):
    # 2 sequences, 4 heads of 8 features, a cache of 8 places: onnxruntime makes it of 8 places again
    q, cache = (2, 1, 32), (2, 4, 8, 8)
    used = [past] if past else (INT32, (1,))
    given = (q, q, q, None, None, cache, cache, used)
    op = "DecoderMaskedMultiHeadAttention"
    layer, cost, _ = priced(op, *given, outputs=3, num_heads=4, past_present_share_buffer=1)
    assert [y.shape for y in layer.outputs] == [q, cache, cache]
    keys = 4 if past else 8  # what is there and the new one, or all that fits
    assert cost.macs == 2 * 4 * keys * (8 + 8)
    assert cost.mread == 4 * (3 * 64 + 2 * 64 * (keys - 1))
    assert cost.mwrite == 4 * 3 * 64


@pytest.mark.parametrize("packed", [False, True])
def test_grouped_attention_counts_the_keys_in_use(packed):
    query = [(1, 1, 48), None, None] if packed else [(1, 1, 32), (1, 1, 8), (1, 1, 8)]
    layer, cost, _ = priced(
        "GroupQueryAttention", *query, CACHE, CACHE, [5], [6], outputs=3, num_heads=8, kv_num_heads=2
    )
    assert shapes(layer) == [(1, 1, 32), CACHE, CACHE]
    assert cost.macs == 2 * (8 * 1 * 6 * 4)
    # the new query, key and value; five keys and values of the past (two heads of four features)
    assert cost.mread == 4 * (48 + 2 * 5 * 8)
    # the output, one new key and value into the cache
    assert cost.mwrite == 4 * (32 + 2 * 8)


def as_it_lies() -> Any:
    """Grouped attention whose queries and keys are not turned."""
    given = [(1, 3, 32), (1, 3, 8), (1, 3, 8), None, None, [2], [3]]
    return priced("GroupQueryAttention", *given, num_heads=8, kv_num_heads=2)[1]


def test_grouped_attention_turns_queries_and_keys():
    layer, cost, recorder = priced(
        "GroupQueryAttention",
        *[(1, 3, 32), (1, 3, 8), (1, 3, 8), (1, 2, 0, 4), (1, 2, 0, 4), [2], [3], {(64, 2)}, {(64, 2)}],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
        do_rotary=1,
    )
    plain = as_it_lies()
    assert layer.attrs["rotary_dim"] == 4
    assert isinstance(cost.flops, Operations) and isinstance(plain.flops, Operations)
    assert cost.flops == plain.flops + (96 + 24) * Operations(mul=2, add=1), "an empty past is none"
    assert recorder.assumptions == []


def test_a_quantised_cache_is_read_at_its_width_and_made_real():
    cache = (INT8, CACHE)
    inputs = [(FLOAT16, (1, 1, 32)), (FLOAT16, (1, 1, 8)), (FLOAT16, (1, 1, 8)), cache, cache, [5], [6]]
    layer, cost, _ = priced(
        "GroupQueryAttention", *inputs, *[None] * 5, {(1,)}, {(1,)}, outputs=3, num_heads=8, kv_num_heads=2
    )
    assert [tensor.dtype for tensor in layer.outputs] == ["float16", "int8", "int8"]
    assert cost.mread == 2 * 48 + 2 * 5 * 8
    assert cost.mwrite == 2 * 32 + 2 * 8


def test_the_keys_in_use_may_be_unknown():
    _, cost, recorder = priced(
        "GroupQueryAttention",
        *[(1, 1, 32), (1, 1, 8), (1, 1, 8), CACHE, CACHE, (INT32, (1,)), (INT32, (1,))],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
    )
    assert cost.macs == 2 * (8 * 11 * 4)
    assert [a.what for a in recorder.assumptions] == [
        "the number of keys depends on data: assumed to be the whole cache and the new keys"
    ]


def test_paged_attention_takes_the_longest_its_pages_allow():
    pages = (FLOAT, (20, 16, 2, 4))  # 20 pages of 16 keys
    layer, cost, recorder = priced(
        "PagedAttention",
        *[(6, 32), (6, 8), (6, 8), pages, pages, (INT32, (3,)), (INT32, (2,)), (INT32, (2, 4))],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
    )
    assert shapes(layer) == [(6, 32), (20, 16, 2, 4), (20, 16, 2, 4)]
    assert cost.macs == 2 * (6 * 8 * (4 * 16) * 4)
    # two tables of 64 places, 6 of them new: 122 of the past, of 2 heads of 4; 6 new ones are written
    assert cost.mread == 4 * (6 * 48 + 2 * 122 * 8)
    assert cost.mwrite == 4 * (6 * 32 + 2 * 6 * 8)
    assert len(recorder.assumptions) == 1


def test_packed_attention_pads_no_queries():
    layer, cost, _ = priced("PackedAttention", (7, 8), {(8, 24)}, {(24,)}, (INT32, (2, 5)), (INT32, (3,)), num_heads=2)
    assert shapes(layer) == [(7, 8)]
    assert cost.macs == 7 * 8 * 24 + 2 * (2 * 7 * 5 * 4)


def test_quantised_attention_subtracts_and_scales():
    inputs = [(UINT8, (1, 3, 8)), {(INT8, (8, 24))}, {(24,)}, [0.1], [0.2], None, (UINT8, (1,)), {(INT8, (1,))}]
    layer, cost, _ = priced("QAttention", *inputs, num_heads=2)
    plain = priced("Attention", (1, 3, 8), {(8, 24)}, {(24,)}, num_heads=2)[1]
    assert layer.outputs == (Tensor((1, 3, 8), "float32"),)
    assert cost.macs == plain.macs
    assert isinstance(plain.flops, Operations)
    assert cost.flops == plain.flops + Operations(mul=3 * 24, add=24 + 8 * 24)


def test_gemma_turns_queries_and_keys_by_angles():
    heads = (1, 2, 3, 4)
    layer, cost, _ = priced("GemmaRotaryEmbedding", (1, 3, 4), heads, heads, heads, heads, outputs=2)
    assert shapes(layer) == [heads, heads]
    assert cost.flops == Operations(special=24) + 48 * Operations(mul=2, add=1)
