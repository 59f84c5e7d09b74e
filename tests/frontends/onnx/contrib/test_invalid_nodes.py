"""Operators of ONNX Runtime with operands and attributes that they do not support."""

from __future__ import annotations

from contextlib import suppress

import pytest

from costcore.errors import CostError
from tests.frontends.onnx.contrib import test_selected_attention_and_streams, test_single_nodes
from tests.frontends.onnx.contrib.lines import Line, S, Z, without_an_axis
from tests.frontends.onnx.contrib.single_node import INT8, INT32, INT64, UINT8, priced
from tests.frontends.onnx.contrib.test_selected_attention_and_streams import LONG

LINES = (*test_single_nodes.LINES, *test_selected_attention_and_streams.LINES)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.native)
def test_wrong_operands_are_priced_or_refused_in_words(line: Line):
    for i, x in enumerate(line.inputs):
        for wrong in (None, without_an_axis(x)):
            inputs = [*line.inputs[:i], wrong, *line.inputs[i + 1 :]]
            with suppress(CostError):
                layer, _, _ = priced(line.native, *inputs, outputs=len(line.shapes), **line.attrs)
                assert layer.op == line.op


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "ExpandDims",
            [(2, 3), [4]],
            {},
            "the ExpandDims node that produces 'y0' has the axis 4 for an output of 3 dimensions",
        ),
        ("UnfoldTensor", [(2, 3)], {"size": 4}, "takes slices of 4 elements of an axis of size 3"),
        ("UnfoldTensor", [(2, 3)], {}, "lacks the required attribute 'size'"),
        ("CropAndResize", [(2, 4), (3, 4), (INT32, (3,)), [2, 2]], {}, r"needs images \[N, C, H, W\]"),
        ("ComplexMul", [(2, 3), (2, 3)], {}, "needs real and imaginary parts as the last axis"),
        ("CDist", [(2, 3, 4), (2, 3)], {}, "needs two matrices"),
        ("Unique", [(2, 3)], {}, "needs an input of one dimension"),
        ("MatMulNBitsQkv", [(2, 8)], {"Nq": 6, "Nkv": 2}, "lacks the required attribute 'K'"),
        ("MatMulNBitsMlp", [(2, 7)], {"K": 8, "N": 6}, "multiplies rows of 7 by weights of 8 inputs"),
        (
            "DecoderAttention",
            [(3, 8), (3, 2, 8), (8, 8), (8, 16), (24,)],
            {"num_heads": 2},
            "needs a query and a key of 3 dimensions",
        ),
        ("LongformerAttention", LONG, {"num_heads": 2}, "lacks the required attribute 'window'"),
        (
            "LongformerAttention",
            LONG[:3],
            {"num_heads": 2, "window": 1},
            "lacks one of its required inputs input, weight, bias,",
        ),
        ("SparseAttentionIndexer", [(1, 4, 8), None, (4,)], {"compress_ratio": 2}, "has the policy_mode None"),
        ("GatedDeltaNet", [(3, 24)], {"update_rule": "linear"}, "no state that gives their heads"),
        ("GatedDeltaNet", [(3, 24), None, (3, 4, 2)], {"update_rule": "linear"}, "no state that gives their heads"),
        ("GatedDeltaNet", [(3, 24)], {}, "lacks the input 'decay'"),
        ("GatedDeltaNet", [(3, 24)], {"update_rule": "other"}, "has the update_rule 'other'"),
        (
            "NGramHashMapping",
            [(INT64, (2, 5)), (INT64, (3,)), (INT64, (4,))],
            {"max_ngram_size": 1},
            "must be 2 or more",
        ),
        (
            "BifurcationDetector",
            [(INT64, (6,)), (INT64, (6,)), (INT64, ())],
            {"max_ngram_size": 300_000_000},
            r"has max_ngram_size 300000000 \(expected 1024 or less\)",
        ),
        ("HyperConnectionPreMix", [(4,), (4,)], {}, "needs num_branches or an axis of streams"),
        ("WordConvEmbedding", [(INT32, (2, 6)), (3, 4), (3,), (30, 4)], {}, r"needs filters \[F, 1, K, E\]"),
        ("RemovePadding", [(2, 3), (INT32, (2,))], {}, "RemovePadding .* has inputs or attributes"),
        ("QOrderedMatMul", [(INT8, (1, 3, 4)), S, {(INT8, (5, 4))}, S, S], {}, "cannot multiply"),
        ("QLinearConcat", [S, Z], {"axis": 0}, "lacks the input 'inputs'"),
        ("Rfft", [(2, 3)], {"signal_ndim": 3}, r"has signal_ndim 3 for an input of shape \(2, 3\)"),
        ("Rfft", [(2, 3)], {"signal_ndim": 0}, r"has signal_ndim 0 for an input of shape \(2, 3\)"),
        ("Irfft", [(3, 2)], {"signal_ndim": 2}, r"has signal_ndim 2 for an input of shape \(3, 2\)"),
        (
            "UnfoldTensor",
            [(2, 3)],
            {"size": 1, "dim": 2},
            r"has the dim 2 and the step 1 for an input of shape \(2, 3\)",
        ),
        ("UnfoldTensor", [(2, 3)], {"size": 1, "step": 0}, "has the dim -1 and the step 0"),
        ("ExpandDims", [(2, 3), [-4]], {}, "has the axis -4 for an output of 3 dimensions"),
        (
            "DynamicQuantizeLSTM",
            [(3, 4), {(INT8, (1, 4, 20))}, {(INT8, (1, 5, 20))}, None, None, None, None, S, Z, S, Z],
            {"hidden_size": 5},
            "needs inputs and weights of 3 dimensions",
        ),
        (
            "VarlenCausalConvWithState",
            [(1, 6, 3), {(3, 1, 4)}, (INT32, (3,)), {(3,)}, (2, 3, 3)],
            {},
            r"needs joined sequences \[T, C\] \(got the shape \(1, 6, 3\)\)",
        ),
        ("HyperConnectionPreMix", [(4, 6), (4,)], {"num_branches": -1}, "has num_branches -1 for streams of shape"),
        (
            "EngramGate",
            [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 4), {(3, 4)}, {(3, 4)}],
            {},
            r"needs keys and queries \[N, T, C, H\] and values",
        ),
        ("EngramGate", [(1, 2, 3, 4), (1, 2, 3, 4), (2, 4), {(3, 4)}, {(3, 4)}], {}, "needs keys and queries"),
        ("Tokenizer", [(8, (2, 3, 4))], {}, "needs strings of 1 or 2 dimensions"),
        (
            "NGramRepeatBlock",
            [(INT64, (6,)), (2, 50)],
            {"ngram_size": 3},
            r"needs token ids \[N, T\] \(got the shape \(6,\)\)",
        ),
        (
            "WordConvEmbedding",
            [(INT32, (2, 3)), (5, 1, 4, 6), (5,), (30, 6)],
            {},
            "has words of 3 letters, and filters over 4",
        ),
        ("DynamicTimeWarping", [(4,)], {}, r"needs a matrix of costs \(got the shape \(4,\)\)"),
        ("MatMulNBits", [(2, 8), {(UINT8, (4, 1, 4))}, {(4,)}], {"N": 4}, "lacks the required attribute 'K'"),
        (
            "MatMulNBits",
            [(2, 9), {(UINT8, (4, 1, 4))}, {(4,)}],
            {"N": 4, "K": 8},
            "multiplies rows of 9 by a weight of 8",
        ),
        (
            "MatMulNBits",
            [(2, 8), {(UINT8, (4, 1, 4))}, {(4,)}],
            {"N": 4, "K": 8, "bits": 9},
            r"weights of 9 bits \(expected 1 to 8\)",
        ),
        (
            "MatMulNBits",
            [(2, 8), {(UINT8, (4, 1, 4))}, {(4,)}],
            {"N": 4, "K": 0},
            r"needs a positive integer K \(got 0\)",
        ),
        ("Attention", [(1, 3, 8), {(8, 24)}], {}, "lacks the required attribute 'num_heads'"),
        ("MultiHeadAttention", [(1, 3, 8)], {"num_heads": 2}, "needs the inputs 'key' and 'value'"),
        ("NhwcConv", [(1, 8, 8, 3), {(4, 3)}], {}, "needs weights of the same rank as its input"),
    ],
)
def test_what_is_wrong_is_said(op, inputs, attrs, message):
    with pytest.raises(ValueError, match=message):
        priced(op, *inputs, **attrs)
