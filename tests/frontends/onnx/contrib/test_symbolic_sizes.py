"""Operators of ONNX Runtime with symbolic sizes: with numbers put in, shapes and costs are those of the numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import Report, estimate
from costcore.counting import symbols_in
from tests.frontends.onnx.contrib import test_selected_attention_and_streams, test_single_nodes
from tests.frontends.onnx.contrib.lines import Line
from tests.frontends.onnx.contrib.nodes import NODES, Node
from tests.frontends.onnx.contrib.single_node import INT32, model_of
from tests.frontends.onnx.read_model import read

LINES = [*test_single_nodes.LINES, *test_selected_attention_and_streams.LINES]

WITH_GRAPHS = {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}
"""They run graphs, so no single node is one of them."""

OPAQUE = {"EPContext", "Snpe"}
"""They have no cost."""

FROM_NUMBERS = {"Range"}
"""Its inputs are scalars."""

STORED_SPARSE = {"SparseToDenseMatMul"}
"""Its first input is a stored sparse tensor, which has no symbolic sizes."""

UNRANKED = {"GatherND": "axis 1 of x1"}
"""By operator, the axis whose size decides how many dimensions the output has: the node is reported as not counted."""


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.native)
def test_shapes_of_named_sizes(line: Line) -> None:
    sizes: dict[str, int] = {}
    model = model_of(line.native, *line.inputs, outputs=len(line.shapes), sizes=sizes, **line.attrs)
    (call,) = read(model).calls
    assert call.layer.op == line.op

    def put(d: Any) -> int:
        return d if isinstance(d, int) else int(d.subs({s: sizes[str(s)] for s in d.free_symbols}))

    assert [tuple(put(d) for d in tensor.shape) for tensor in call.layer.outputs] == line.shapes


class Axis(NamedTuple):
    """A model one axis of which is named ``n``, where it is, and its size."""

    model: ModelProto
    where: str
    size: int


def axes(model: ModelProto) -> Iterator[Axis]:
    """The model once for each axis of its inputs that is not empty."""
    for i, entry in enumerate(model.graph.input):
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim):
            if dim.dim_value:
                made = ModelProto()
                made.CopyFrom(model)
                made.graph.input[i].type.tensor_type.shape.dim[axis].dim_param = "n"
                yield Axis(made, f"axis {axis} of {entry.name}", dim.dim_value)


def with_size(report: Report, n: int) -> Report:
    """The report with a number for ``n``, which may be the length of a vector of sizes and then is not in it."""
    return report.subs(n=n) if "n" in map(str, symbols_in(report.trace)) else report


def shapes(report: Report) -> list[Any]:
    """The shapes of all outputs; a size that depends on data is a name."""
    return [tuple(map(str, tensor.shape)) for call in report.trace.calls for tensor in call.layer.outputs]


@pytest.mark.parametrize("node", NODES, ids=lambda node: f"{node.domain}-{node.op}".lstrip("-"))
def test_one_symbolic_axis_costs_what_its_number_does(node: Node) -> None:
    model = model_of(node.op, *node.inputs, domain=node.domain, outputs=node.outputs, **node.attrs)
    expected = estimate(model)
    differ = {}
    for axis in axes(model):
        if UNRANKED.get(node.op) == axis.where:
            continue
        found = with_size(estimate(axis.model), axis.size)
        if (found.total_report, shapes(found)) != (expected.total_report, shapes(expected)):
            differ[axis.where] = found.total_report, shapes(found)
    assert differ == {}


def test_the_table_has_a_node_of_every_operator() -> None:
    known = json.loads((Path(__file__).parents[3] / "data" / "ort_contrib.json").read_text())["operators"]
    missing = known.keys() - {node.op for node in NODES if node.domain == "com.microsoft"}
    assert missing == WITH_GRAPHS | OPAQUE | FROM_NUMBERS | STORED_SPARSE


def total(op: str, *inputs: Any, n: int, outputs: int = 1, **attrs: Any) -> dict[str, Any]:
    """The totals of one node with a number for its axis ``n``, which is -1 in its inputs."""
    model = model_of(op, *inputs, outputs=outputs, **attrs)
    for entry in model.graph.input:
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_value == -1:
                dim.dim_param = "n"
    return with_size(estimate(model), n).total_report


@pytest.mark.parametrize(
    ("capacity", "written"),
    [
        # one output of 32 and, of two heads of 4, one new key and value, or caches that grow to 6
        (10, 4 * (32 + 2 * 8)),
        (6, 4 * (32 + 2 * 8)),
        (5, 4 * (32 + 2 * 2 * 6 * 4)),
    ],
)
def test_a_cache_of_symbolic_capacity_grows_only_if_it_is_full(capacity: int, written: int) -> None:
    cache = (1, 2, -1, 4)
    given = [(1, 1, 32), (1, 1, 8), (1, 1, 8), cache, cache, [5], [6]]
    found = total("GroupQueryAttention", *given, n=capacity, outputs=3, num_heads=8, kv_num_heads=2)
    assert found["mwrite"] == written


@pytest.mark.parametrize(
    ("waiting", "kept"),
    [
        # windows of 2; 4 new tokens: [compressed window] + [rest]
        (0, 2),  # 4 = 2 * 2 + 0, and the last window
        (1, 3),  # 5 = 2 * 2 + 1
        (2, 2),  # the window is compressed already: 4 = 2 * 2 + 0
        (3, 3),  # 1 of 3 waits: 5 = 2 * 2 + 1
    ],
)
def test_the_buffer_of_an_indexer_keeps_its_last_window(waiting: int, kept: int) -> None:
    given = [
        *[(1, 4, 8), (1, 4, 8), {(4,)}, {(4,)}, {(16, 1)}, {(16, 1)}, None, (1, 2, 4), (1, 4, 8), {(2, 8)}],
        *[(1, 4, 2), None, None, (2, 1, -1, 8)],
    ]
    settings: dict[str, Any] = {"policy_mode": "csa", "compress_ratio": 2, "index_topk": 3}
    found = total("SparseAttentionIndexer", *given, n=waiting, outputs=3, **settings)
    # positions [1, 4, 3], keys [1, 2 + 2, 4], buffer [2, 1, kept, 8]
    assert found["mwrite"] == 4 * (12 + 16 + 16 * kept)


@pytest.mark.parametrize(
    ("streams", "gate", "attrs", "macs"),
    [
        ((-1, 3, 4), (2, 3), {}, 24),  # one gate per stream: [1, 3] x [3, 4], twice
        ((2, -1, 4), (2, 3), {}, 2 * 2 * 4),  # of 2 streams
        ((2, 3, 4), (-1, 3, 4), {}, 0),  # one gate per feature
        ((2, 12), (-1, 3), {"num_branches": 3}, 24),
        ((-1, 12), (2, 12), {"num_branches": 3}, 0),
        ((2, 12), (2, -1), {"num_branches": 3}, 0),
    ],
)
def test_the_rank_of_gates_tells_whether_products_are_macs(streams, gate, attrs, macs) -> None:
    n = 12 if gate[-1] == -1 else 2
    assert total("HyperConnectionPreMix", streams, gate, n=n, **attrs)["macs"] == macs


def test_a_symbol_that_only_the_cost_has_can_be_given() -> None:
    pages = (20, 16, 2, 4)
    given = [(6, 32), (6, 8), (6, 8), pages, pages, (INT32, (3,)), (INT32, (2,)), (INT32, (2, -1))]
    found = total("PagedAttention", *given, n=4, outputs=3, num_heads=8, kv_num_heads=2)
    assert found["macs"] == 2 * (6 * 8 * (4 * 16) * 4)


def test_a_cached_layer_without_new_keys_reads_no_weight_of_them() -> None:
    given = [(3, -1, 8), (5, 2, 8), {(8, 8)}, {(8, 16)}, {(24,)}, None, *[(2, 2, 5, 4)] * 2, [1], [1], [1], [0]]
    assert total("DecoderAttention", *given, n=2, outputs=3, num_heads=2)["n_params"] == 8 * 8 + 24


def test_pairs_of_which_both_sizes_have_names_are_pairs() -> None:
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, name)) for name in "ab"]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("ComplexMul", ["a", "b"], ["y"], domain="com.microsoft")
    (call,) = read(helper.make_model(helper.make_graph([node], "pairs", given, [made]))).calls
    assert call.layer.out.shape == (3, 2)
