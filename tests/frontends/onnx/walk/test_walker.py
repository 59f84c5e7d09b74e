"""Graphs that are wrong, unusual or large."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from sympy import Symbol

from costcore import CostError, estimate
from tests.frontends.onnx.read_model import read, shapes, total
from tests.whole_networks.onnx_models import Graph, make_model
from tests.work import at_most

F, INT64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(*nodes: NodeProto, x: tuple[object, ...] = (1, 4), output: str = "y", opset: int = 20) -> ModelProto:
    """A model of hand-made nodes."""
    inputs = [helper.make_tensor_value_info("x", F, x)]
    outputs = [helper.make_tensor_value_info(output, F, None)]
    return make_model(helper.make_graph(nodes, "graph", inputs, outputs), opset)


node = helper.make_node


def test_a_cycle_names_its_nodes():
    cyclic = model(
        node("Add", ["x", "b"], ["a"], "first"),
        node("Relu", ["a"], ["b"], "second"),
        node("Relu", ["b"], ["y"], "third"),
    )
    with pytest.raises(CostError, match=r"the graph has a cycle: (.*)") as raised:
        read(cyclic)
    assert "node 'first' (Add)" in str(raised.value)
    assert "node 'second' (Relu)" in str(raised.value)
    assert "third" not in str(raised.value)


def test_a_node_that_reads_itself_is_a_cycle():
    with pytest.raises(CostError, match=r"cycle: the Add node that produces 'y' -> the Add node that produces 'y'"):
        read(model(node("Add", ["x", "y"], ["y"])))


def test_unsorted_nodes_are_sorted_and_that_is_said():
    recorder = read(model(node("Relu", ["a"], ["y"]), node("Sigmoid", ["x"], ["a"])))
    assert [call.type for call in recorder.calls] == ["Sigmoid", "Relu"]
    assert any("sorted" in note for note in recorder.notes)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("Relu", ["x"], ["y"], "a"), node("Relu", ["x"], ["y"], "b")],
            "node 'a' (Relu) and node 'b' (Relu) both",
        ),
        ([node("Relu", ["z"], ["y"], "a")], "node 'a' (Relu) reads 'z', which is not defined"),
        ([node("Relu", ["x"], ["z"], "a")], "graph output 'y' is not produced by any node"),
        ([node("Relu", [], ["y"], "a")], "node 'a' (Relu) lacks one of its required inputs X"),
    ],
)
def test_names_that_do_not_fit(nodes, message):
    with pytest.raises(CostError, match=re.escape(message)):
        read(model(*nodes))


def test_left_out_and_nameless_is_fine():
    recorder = read(
        model(
            node("Clip", ["x", "", "limit"], ["a"], "same"),
            node("Relu", ["a"], ["y"], "same"),
            node("Constant", [], ["limit"], value_float=6.0),
        )
    )
    clip = next(call.layer for call in recorder.calls if call.type == "Clip")
    assert dict(clip.attrs) == {"upper": 6.0}


@pytest.mark.parametrize(
    ("x", "flops"),
    [((0, 4), 0), ((2**62, 2**62), 2**124), (("n", 4), "4*n"), ((3, None), "3*x_1")],
)
def test_dimensions_of_inputs(x, flops):
    recorder = read(model(node("Relu", ["x"], ["y"]), x=x))
    assert str(total(recorder.calls, "flops")) == str(flops)


def test_negative_dimensions_and_missing_shapes_are_refused():
    with pytest.raises(CostError, match=r"input 'x' has a negative dimension"):
        read(model(node("Relu", ["x"], ["y"]), x=(-3, 4)))
    shapeless = model(node("Relu", ["x"], ["y"]))
    shapeless.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(CostError, match=r"input 'x' has no shape in the model. Give one"):
        read(shapeless)
    assert shapes(shapeless, (2, 3)) == [(2, 3)]


@pytest.mark.parametrize("op", ["Flatten", "Concat", "Tile"])
def test_products_beyond_64_bits_are_exact(op):
    g, huge = Graph(), 2**62
    given, shape, settings = {
        "Flatten": (["x"], (1, huge**2), {"axis": 0}),
        "Concat": (["x", "x"], (huge, 2 * huge), {"axis": 1}),
        "Tile": (["x", g.number(huge, 1)], (huge**2, huge), {}),
    }[op]
    assert shapes(g.model({"x": (huge, huge)}, g(op, *given, **settings))) == [shape]


CONV = {"W": (4, 3, 3, 3)}


@pytest.mark.parametrize(
    ("x", "w", "settings", "message"),
    [
        ((1, 3, 2, 2), (4, 3, 5, 5), {}, "has the kernel (5, 5), larger than its padded input of shape (2, 2)"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"group": 0}, "has group 0 (expected 1 or more)"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": [0, 1]}, "has strides (0, 1) (expected 1 or more)"),
        ((1, 3, 8, 8), (4, 1, 3, 3), {"group": 2}, "has 3 input channels, but weights (4, 1, 3, 3) in 2 groups for 2"),
        ((1, 4, 8, 8), (3, 2, 3, 3), {"group": 2}, "has 2 groups, which do not divide 3 channels"),
        ((1, 3, 8), (4, 3, 3, 3), {}, "needs weights of the same rank as its input"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"pads": [1, 1]}, "has 2 pads for 2 spatial dimensions"),
        (
            (1, 3, 8, 8),
            (4, 3, 3, 3),
            {"kernel_shape": [5, 5]},
            "has the kernel_shape (5, 5), but a weight of shape (4, 3, 3, 3)",
        ),
    ],
)
def test_impossible_convolutions(x, w, settings, message):
    g = Graph()
    y = g("Conv", "x", g.weight(*w), name="/layer1/conv/Conv", **settings)
    with pytest.raises(CostError, match=re.escape(f"node '/layer1/conv/Conv' (Conv) {message}")):
        read(g.model({"x": x}, y))


def test_parts_that_are_not_the_whole_are_no_split():
    g = Graph()
    parts = g("Split", "x", g.number(2, 3), axis=1, outputs=2)
    with pytest.raises(CostError, match=re.escape("splits an axis of size 4 into (2, 3), which add up to 5")):
        read(g.model({"x": (1, 4)}, parts[0]))


@pytest.mark.parametrize(
    ("length", "told", "lengths"),
    [(9, 3, (3, 3, 3)), (9, 4, (3, 3, 3)), (8, 3, (3, 3, 2)), (4, 3, (2, 2, 0)), (4, 1 << 62, (1, 1, 1))],
)
def test_equal_parts_are_as_long_as_if_all_of_them_were_put_out(length, told, lengths):
    g = Graph()
    parts = g("Split", "x", axis=1, num_outputs=told, outputs=3)
    assert shapes(g.model({"x": (1, length)}, parts)) == [(1, part) for part in lengths]
    g = Graph()
    with pytest.raises(CostError, match="has num_outputs 2, but 3 outputs"):
        read(g.model({"x": (1, length)}, g("Split", "x", axis=1, num_outputs=2, outputs=3)))


def test_a_name_stands_for_one_value():
    g = Graph()
    twice = g.model({"x": (1, 4)}, g("Add", "x", g.weight(4)))
    twice.graph.initializer.append(twice.graph.initializer[0])
    with pytest.raises(CostError, match="the graph has 2 initializers named 'w0'"):
        read(twice)
    g = Graph()
    g.nodes.append(node("Relu", ["x"], [g.weight(4)], "act"))
    with pytest.raises(
        CostError, match=re.escape("node 'act' (Relu) produces 'w0', which is already an input or an initializer")
    ):
        read(g.model({"x": (1, 4)}, "w0"))


UNACCEPTED = {
    "word": (
        lambda g: g("GridSample", "x", g.weight(1, 8, 8, 2), name="n", mode="round"),
        "node 'n' (GridSample) has the mode 'round' (expected one of 'linear', 'nearest', 'cubic', 'bilinear',",
    ),
    "number": (
        lambda g: g("GroupNormalization", "x", g.weight(4), g.weight(4), name="n", num_groups=-2),
        "node 'n' (GroupNormalization) has num_groups -2 (expected 1 or more)",
    ),
    "groups": (
        lambda g: g("GroupNormalization", "x", g.weight(4), g.weight(4), name="n", num_groups=3),
        "node 'n' (GroupNormalization) has num_groups 3, which does not divide the 4 channels of (1, 4, 8, 8)",
    ),
    "number of axes": (
        lambda g: g("GatherND", "x", g.number(0), name="n", batch_dims=-1),
        "node 'n' (GatherND) has batch_dims -1 (expected 0 or more)",
    ),
    "number of an operand": (
        lambda g: g("Col2Im", "x", g.number(8, 8), g.number(0, 1), name="n"),
        "node 'n' (Col2Im) has block_shape 0 (expected 1 or more)",
    ),
    "dimensions": (
        lambda g: g("NonMaxSuppression", "x", g.weight(1, 2, 6), name="n"),
        "node 'n' (NonMaxSuppression) has the input boxes of shape (1, 4, 8, 8) (expected 3 dimensions)",
    ),
    "different dimensions": (
        lambda g: g("Attention", "x", g.weight(1, 4, 8), "x", name="n"),
        "has the inputs Q of shape (1, 4, 8, 8), K of shape (1, 4, 8), V of shape (1, 4, 8, 8) (expected the same",
    ),
    "one element": (
        lambda g: g("Range", g.number(0, scalar=True), g.number(3, 4), g.number(1, scalar=True), name="n"),
        "node 'n' (Range) has the input limit of shape (2,) (expected one element)",
    ),
    "another version": (
        lambda g: g("ReduceSum", "x", name="n", axes=1.5),
        "node 'n' (ReduceSum) has the attribute 'axes' as FLOAT, but it must be INTS",
    ),
    "no schema": (
        lambda g: g("GroupNorm", "x", g.weight(8), g.weight(8), name="n", domain="com.microsoft", groups=2.0),
        "node 'n' (GroupNorm) has the attribute 'groups' as FLOAT, but it must be INT",
    ),
    "missing": (
        lambda g: g("GroupNorm", "x", g.weight(8), g.weight(8), name="n", domain="com.microsoft"),
        "node 'n' (GroupNorm) lacks the required attribute 'groups'",
    ),
}


@pytest.mark.parametrize("kind", UNACCEPTED)
def test_settings_that_are_not_accepted_are_told_with_those_that_are(kind):
    write, message = UNACCEPTED[kind]
    g = Graph(24)
    with pytest.raises(CostError, match=re.escape(message)):
        read(g.model({"x": (1, 4, 8, 8)}, write(g)))


def test_a_rank_that_follows_from_data_is_told_at_the_node_that_makes_it():
    g = Graph()
    summed = g("ReduceSum", "x", "axes", name="sum", keepdims=0)
    made = g.model({"x": (2, 3), "axes": (INT64, ("k",))}, g("Relu", summed))
    (note,) = read(made).notes
    assert note.startswith("operators downstream of node 'sum' (ReduceSum) are not counted, because the rank")
    assert total(read(made, {"axes": [1]}).calls, "flops") == 2 * 2 + 2  # 2 rows of 3, and their activation


@pytest.mark.parametrize("lengths", [["n"], [f"n{i}" for i in range(40)]])
def test_symbolic_costs_add_up_to_their_total(lengths):
    """Every branch costs 4 operations an element of its own length, however many lengths there are."""
    g = Graph()
    x = [g("Relu", g("Relu", g("Relu", g("Relu", f"x{i}")))) for i in range(len(lengths))]
    report = estimate(g.model({f"x{i}": (n, 1) for i, n in enumerate(lengths)}, x))
    values = {Symbol(n, integer=True, positive=True): i + 1 for i, n in enumerate(lengths)}
    count = len(lengths) * (len(lengths) + 1) // 2  # 1 + 2 + ...
    for sums in (report.total_report, report.tree(), report.summary_report["Relu"]):
        assert sums["flops"].subs(values) == 4 * count
        assert sums["mread"].subs(values) == sums["mwrite"].subs(values) == 4 * 4 * count


def test_a_chain_and_a_wide_node_take_linear_time():
    def chain(n):
        g, x = Graph(), "x"
        for _ in range(n):
            x = g("Relu", x)
        return g.model({"x": (1, 4)}, x)

    def work(what):
        with at_most(20_000_000) as done:
            calls = read(what).calls
        return done.calls, len(calls)

    short, _ = work(chain(2_000))
    long, count = work(chain(20_000))
    assert count == 20_000
    assert long < 10.5 * short
    g = Graph()
    parts = g("Split", "x", outputs=200_000, axis=1)
    with at_most(30_000_000):
        read(g.model({"x": (1, 200_000)}, parts[0]))


def branches(then: int, other: int, condition: str, cond_dtype: int = B) -> ModelProto:
    """An If of ``then`` or ``other`` activations of 4 elements."""

    def body(count, name):
        names = ["x", *(f"{name}{i}" for i in range(count))]
        nodes = [node("Relu", [a], [b]) for a, b in pairwise(names)]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(names[-1], F, (1, 4))])

    choice = node("If", [condition], ["y"], "choose", then_branch=body(then, "t"), else_branch=body(other, "e"))
    made = model(node("Constant", [], ["yes"], value=helper.make_tensor("", B, (), [True])), choice)
    made.graph.input.append(helper.make_tensor_value_info("c", cond_dtype, ()))
    return made


def test_a_constant_condition_chooses_its_branch():
    recorder = read(branches(1, 3, "yes"))
    assert total(recorder.calls, "flops") == 4
    assert not recorder.assumptions


@pytest.mark.parametrize(("then", "other", "region"), [(1, 3, "choose.else"), (3, 1, "choose.then")])
def test_an_open_condition_counts_the_dearer_branch(then, other, region):
    recorder = read(branches(then, other, "c"))
    assert total(recorder.calls, "flops") == 3 * 4
    assert {call.region for call in recorder.calls if call.type == "Relu"} == {region}
    assert [assumption.where for assumption in recorder.assumptions] == ["node 'choose' (If)"]


def test_a_condition_given_as_a_value_chooses():
    assert total(read(branches(1, 3, "c"), {"c": True}).calls, "flops") == 4


def loop(trips: str) -> ModelProto:
    """A Loop that adds 1 to 4 elements and puts out the sums."""
    body = helper.make_graph(
        [
            node("Constant", [], ["one"], value_float=1.0),
            node("Add", ["v", "one"], ["w"]),
            node("Identity", ["go"], ["go_on"]),
            node("Identity", ["w"], ["out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", B, ()),
            helper.make_tensor_value_info("v", F, (1, 4)),
        ],
        [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "w", "out")],
    )
    made = model(
        node("Constant", [], ["five"], value_int=5),
        node("Constant", [], ["none"], value_int=-1),
        node("Loop", [trips, "", "x"], ["last", "all"], "again", body=body),
        node("Relu", ["all"], ["y"]),
    )
    made.graph.input.append(helper.make_tensor_value_info("m", INT64, ()))
    return made


@pytest.mark.parametrize(("trips", "flops"), [("five", 5 * 4 + 5 * 4), ("none", 0), ("m", "8*again_trips")])
def test_a_loop_counts_its_body_as_often_as_it_runs(trips, flops):
    recorder = read(loop(trips))
    assert str(total(recorder.calls, "flops")) == str(flops)


def test_a_trip_count_can_be_given():
    assert total(read(loop("m"), {"m": 7}).calls, "flops") == 7 * 8
    assert total(read(loop("m"), dims={"again_trips": 7}).calls, "flops") == 7 * 8


def test_scan_counts_its_body_once_a_slice():
    body = helper.make_graph(
        [node("Add", ["s", "row"], ["t"]), node("Identity", ["t"], ["out"])],
        "body",
        [helper.make_tensor_value_info(name, F, (4,)) for name in ("s", "row")],
        [helper.make_tensor_value_info(name, F, (4,)) for name in ("t", "out")],
    )
    g = Graph()
    g.nodes.append(node("Scan", [g.weight(4), "x"], ["last", "y"], num_scan_inputs=1, body=body))
    recorder = read(g.model({"x": (6, 4)}, "y"))
    assert total(recorder.calls, "flops") == 6 * 4


def with_functions(*functions, call: str) -> ModelProto:
    made = model(node(call, ["x"], ["y"], "outer", domain="local"))
    made.opset_import.add(domain="local", version=1)
    made.functions.extend(functions)
    return made


def function(name: str, *nodes: NodeProto):
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], nodes, imports, ["slope"])


def test_functions_are_expanded_for_every_call():
    leaky = node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    twice = [
        node("Inner", ["a"], ["m"], "left", domain="local", slope=0.5),
        node("Inner", ["m"], ["b"], "right", domain="local"),
    ]
    recorder = read(with_functions(function("Inner", leaky), function("Outer", *twice), call="Outer"))
    assert [call.module for call in recorder.calls] == ["outer.left", "outer.right"]
    assert [call.layer.attrs["slope"] for call in recorder.calls] == [0.5, 0.01]


def test_functions_that_call_themselves_are_refused():
    circle = [function(a, node(b, ["a"], ["b"], domain="local")) for a, b in (("F", "G"), ("G", "F"))]
    with pytest.raises(CostError, match=r"calls itself: local::F -> local::G -> local::F"):
        read(with_functions(*circle, call="F"))


def test_a_long_chain_of_functions_needs_no_stack():
    many = [function(f"F{i}", node(f"F{i + 1}", ["a"], ["b"], domain="local")) for i in range(3000)]
    last = function("F3000", node("Relu", ["a"], ["b"]))
    assert [call.type for call in read(with_functions(*many, last, call="F0")).calls] == ["Relu"]
