"""Operators of ONNX Runtime with symbolic sizes: with numbers substituted, shapes are those of the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.onnx.contrib import test_selected_attention_and_streams, test_single_nodes
from tests.frontends.onnx.contrib.lines import Line
from tests.frontends.onnx.contrib.single_node import model_of
from tests.frontends.onnx.read_model import read

PAIRS = {"ComplexMul", "ComplexMulConj", "EngramGate"}
"""They are refused: names do not tell that an axis has two parts, or that two inputs are alike."""

WAITING = "SparseAttentionIndexer"
"""With names it is not known how many keys wait to be compressed."""

LINES = [
    line for line in (*test_single_nodes.LINES, *test_selected_attention_and_streams.LINES) if line.native not in PAIRS
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.native)
def test_shapes_of_named_sizes(line: Line) -> None:
    sizes: dict[str, int] = {}
    model = model_of(line.native, *line.inputs, outputs=len(line.shapes), sizes=sizes, **line.attrs)
    (call,) = read(model).calls
    assert call.layer.op == line.op

    def put(d: Any) -> int:
        return d if isinstance(d, int) else int(d.subs({s: sizes[str(s)] for s in d.free_symbols}))

    found = [tuple(put(d) for d in tensor.shape) for tensor in call.layer.outputs]
    if line.native == WAITING:
        found, expected = found[:2], line.shapes[:2]
    else:
        expected = line.shapes
    assert found == expected
