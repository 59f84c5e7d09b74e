"""Attention: masks, grouped and expanded heads, backward. E is the head size; scores are never read or written."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from costcore import Tensor

from .modules import function, learned
from .row import FLOAT, Row

Q, K, V = (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)

# 2·3·5 = 30 scores: dot products of 4 (1 mul, 3 fma), scale 30 mul; 6 rows of softmax over 5 (4 add, 5 div, 5 exp);
# 36 outputs, dot products of 5 (1 mul, 4 fma); 120 + 180 macs. Reads 24 + 40 + 60, writes 36.
PLAIN = {
    "fma": 90 + 144,
    "mul": 30 + 30 + 36,
    "add": 24,
    "div": 30,
    "special": 30,
    "macs": 300,
    "read": FLOAT * 124,
    "written": FLOAT * 36,
}

ROWS = [
    Row("attention", function(fn.scaled_dot_product_attention), (Q, K, V), "see PLAIN", PLAIN),
    Row(
        "attention-causal",
        function(lambda q, k, v: fn.scaled_dot_product_attention(q, k, v, is_causal=True)),
        (Q, K, V),
        "all pairs count and the flag costs nothing",
        PLAIN,
    ),
    Row(
        "attention-float-mask",
        function(fn.scaled_dot_product_attention),
        (Q, K, V, (3, 5)),
        "30 add more; the mask of 15 elements is read",
        PLAIN | {"add": 54, "read": FLOAT * 139},
    ),
    Row(
        "attention-bool-mask",
        function(fn.scaled_dot_product_attention),
        (Q, K, V, Tensor((3, 5), "bool")),
        "30 selects; the mask of 15 bytes is read",
        PLAIN | {"cmp": 30, "read": FLOAT * 124 + 15},
    ),
    Row(
        "attention-grouped",
        function(lambda q, k, v: fn.scaled_dot_product_attention(q, k, v, enable_gqa=True)),
        ((1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8)),
        "4 query heads: 36 scores, dot products of 8 (1 mul, 7 fma), scale; 12 rows of softmax over 3; 96 outputs, "
        "dot products of 3; 288 + 288 macs. The 2 key and value heads are read once: 96 + 48 + 48",
        {
            "fma": 252 + 192,
            "mul": 36 + 36 + 96,
            "add": 24,
            "div": 36,
            "special": 36,
            "macs": 576,
            "read": FLOAT * 192,
            "written": FLOAT * 96,
        },
    ),
    Row(
        "attention-expanded",
        function(
            lambda q, k, v: fn.scaled_dot_product_attention(q, k.expand(1, 4, 3, 8), v.expand(1, 4, 3, 8)),
        ),
        ((1, 4, 3, 8), (1, 1, 3, 8), (1, 1, 3, 8)),
        "the work of 4 heads; expanded keys and values are read as the 24 elements stored: 96 + 24 + 24",
        {
            "fma": 252 + 192,
            "mul": 36 + 36 + 96,
            "add": 24,
            "div": 36,
            "special": 36,
            "macs": 576,
            "read": FLOAT * 144,
            "written": FLOAT * 96,
        },
    ),
    Row(
        "attention-larger-batch-of-keys",
        function(fn.scaled_dot_product_attention),
        ((1, 4, 5, 7), (3, 4, 6, 7), (3, 4, 6, 2)),
        "the batch follows the output, 3: 3·4·5·6 = 360 scores of 7 (1 mul, 6 fma), scale 360; 60 rows over 6 (5 add, "
        "6 div, 6 exp); 120 outputs of 6 (1 mul, 5 fma); 2520 + 720 macs. Reads 140 + 504 + 144",
        {
            "fma": 2160 + 600,
            "mul": 360 + 360 + 120,
            "add": 300,
            "div": 360,
            "special": 360,
            "macs": 3240,
            "read": FLOAT * 788,
            "written": FLOAT * 120,
        },
    ),
    Row(
        "attention-backward",
        learned(fn.scaled_dot_product_attention, (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
        (),
        "four products. gv = Pᵀ g: 40 of 3 (1 mul, 2 fma). gP = g vᵀ: 30 of 4 (1 mul, 3 fma). softmax: 6 rows of 5, "
        "fma 4, mul 6, add 5. Scale: 30 mul. gq: 24 of 5 (1 mul, 4 fma). gk: 40 of 3 (1 mul, 2 fma). 480 macs. Reads "
        "g 24, q 24, k 40, v 40, the output 24 and the log-sums 6 that the kernel saved; writes 24 + 40 + 40",
        {
            "fma": 80 + 90 + 24 + 96 + 80,
            "mul": 40 + 30 + 36 + 30 + 24 + 40,
            "add": 30,
            "macs": 480,
            "read": FLOAT * 158,
            "written": FLOAT * 104,
        },
        phase="backward",
        only="_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    Row(
        "attention-with-gradient",
        learned(fn.scaled_dot_product_attention, (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
        (),
        "as without a gradient, with values of head size 4 (24 outputs of 5: 1 mul, 4 fma; 120 macs); the log-sums of "
        "6 rows, which the backward reads, are written: 24 + 6",
        {
            "fma": 90 + 96,
            "mul": 30 + 30 + 24,
            "add": 24,
            "div": 30,
            "special": 30,
            "macs": 240,
            "read": FLOAT * 104,
            "written": FLOAT * 30,
        },
        backward=True,
    ),
    Row(
        "attention-expanded-mask",
        function(lambda q, k, v, m: fn.scaled_dot_product_attention(q, k, v, m.expand(1, 2, 3, 5))),
        (Q, K, V, (1, 1, 1, 5)),
        "30 add more; the expanded mask has 5 stored elements",
        PLAIN | {"add": 54, "read": FLOAT * 129},
    ),
    Row(
        "attention-three-axes",
        function(fn.scaled_dot_product_attention),
        ((2, 3, 4), (2, 5, 4), (2, 5, 6)),
        "as PLAIN, without the axis of length 1",
        PLAIN,
    ),
    Row(
        "attention-keys-of-larger-rank",
        function(fn.scaled_dot_product_attention),
        ((3, 4), (2, 5, 4), (2, 5, 6)),
        "the rank follows the output, 2·3·6: the work of PLAIN; the query is read once, 12",
        PLAIN | {"read": FLOAT * 112},
    ),
    Row(
        "multi_head_attention",
        lambda: torch.nn.MultiheadAttention(8, 2, batch_first=True),
        ((2, 3, 8), (2, 3, 8), (2, 3, 8)),
        "projections of 6 rows: 3·8 outputs and 8 outputs of 8: 1152 + 384; 2·2·9 = 36 scores of 4, 48 outputs of 3: "
        "288 macs",
        {"macs": 1152 + 384 + 288},
        compare=("macs",),
    ),
    Row(
        "transformer_encoder_layer",
        lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        (2, 3, 8),
        "attention as in multi_head_attention, 1824; 6 rows through 8 → 16 → 8: 6·2·128 = 1536 macs",
        {"macs": 1824 + 1536},
        compare=("macs",),
    ),
]
