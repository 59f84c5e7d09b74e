"""One node of every operator that ONNX Runtime adds: of the lines of tables, and of ``tests/data/ort_nodes.txt``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from onnx import TensorProto

from tests.frontends.onnx.contrib import test_selected_attention_and_streams, test_single_nodes

DATA = Path(__file__).parents[3] / "data" / "ort_nodes.txt"


class Node(NamedTuple):
    """One node; inputs are those of :func:`tests.frontends.onnx.contrib.single_node.model_of`."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any]
    outputs: int = 1
    domain: str = "com.microsoft"


def _read(line: str) -> Node:
    name, inputs, attrs = line.split(" | ")
    name, outputs = name.split()
    domain, _, op = name.rpartition("::")
    types = dict(TensorProto.DataType.items())
    return Node(op, eval(inputs, types), eval(attrs), int(outputs), domain if "::" in name else "com.microsoft")


NODES: tuple[Node, ...] = (
    *(
        Node(line.native, line.inputs, line.attrs, len(line.shapes))
        for line in (*test_single_nodes.LINES, *test_selected_attention_and_streams.LINES)
    ),
    *map(_read, DATA.read_text(encoding="utf-8").splitlines()[1:]),
)
