"""Operators that ONNX Runtime adds with operands and settings that they do not take."""

from __future__ import annotations

from contextlib import suppress

import pytest

from costcore.errors import CostError
from tests.frontends.onnx import test_contrib_more, test_contrib_sparse
from tests.frontends.onnx.contrib_lines import Line, S, Z, without_an_axis
from tests.frontends.onnx.contrib_nodes import INT8, INT32, INT64, priced
from tests.frontends.onnx.test_contrib_sparse import LONG

LINES = (*test_contrib_more.LINES, *test_contrib_sparse.LINES)


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
            "the ExpandDims node that makes 'y0' has the axis 4 for an output of 3 dimensions",
        ),
        ("UnfoldTensor", [(2, 3)], {"size": 4}, "takes slices of 4 elements of 3"),
        ("UnfoldTensor", [(2, 3)], {}, "has no size"),
        ("CropAndResize", [(2, 4), (3, 4), (INT32, (3,)), [2, 2]], {}, r"needs images \[N, C, H, W\]"),
        ("ComplexMul", [(2, 3), (2, 3)], {}, "needs real and imaginary parts along the last axis"),
        ("CDist", [(2, 3, 4), (2, 3)], {}, "needs two matrices"),
        ("Unique", [(2, 3)], {}, "needs an input of one dimension"),
        ("MatMulNBitsQkv", [(2, 8)], {"Nq": 6, "Nkv": 2}, "has no K"),
        ("MatMulNBitsMlp", [(2, 7)], {"K": 8, "N": 6}, "multiplies rows of 7 by weights of 8 inputs"),
        (
            "DecoderAttention",
            [(3, 8), (3, 2, 8), (8, 8), (8, 16), (24,)],
            {"num_heads": 2},
            "needs a query and a key of 3 dimensions",
        ),
        ("LongformerAttention", LONG, {"num_heads": 2}, "has no window"),
        (
            "LongformerAttention",
            LONG[:3],
            {"num_heads": 2, "window": 1},
            "lacks one of its inputs input, weight, bias,",
        ),
        ("SparseAttentionIndexer", [(1, 4, 8), None, (4,)], {"compress_ratio": 2}, "has the policy_mode None"),
        ("GatedDeltaNet", [(3, 24)], {"update_rule": "linear"}, "no state that tells their heads"),
        ("GatedDeltaNet", [(3, 24)], {}, "has no input 'decay'"),
        ("GatedDeltaNet", [(3, 24)], {"update_rule": "other"}, "has the update_rule 'other'"),
        (
            "NGramHashMapping",
            [(INT64, (2, 5)), (INT64, (3,)), (INT64, (4,))],
            {"max_ngram_size": 1},
            "must be 2 or more",
        ),
        ("HyperConnectionPreMix", [(4,), (4,)], {}, "needs streams as an axis of their own"),
        ("WordConvEmbedding", [(INT32, (2, 6)), (3, 4), (3,), (30, 4)], {}, r"needs filters \[F, 1, K, E\]"),
        ("RemovePadding", [(2, 3), (INT32, (2,))], {}, "RemovePadding .* has inputs or attributes"),
        ("QOrderedMatMul", [(INT8, (1, 3, 4)), S, {(INT8, (5, 4))}, S, S], {}, "cannot multiply"),
        ("QLinearConcat", [S, Z], {"axis": 0}, "has no input 'inputs'"),
    ],
)
def test_what_is_wrong_is_said(op, inputs, attrs, message):
    with pytest.raises(ValueError, match=message):
        priced(op, *inputs, **attrs)
