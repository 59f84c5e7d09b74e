"""Loops: bodies counted once for all iterations, or walked one by one if the iterations differ and are few."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.read_model import read, total
from tests.frontends.onnx.small_models import loop, model, node
from tests.whole_networks.onnx_models import Graph

F, B, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def body_of(*nodes: Any, carried: tuple[str, ...] = (), outputs: tuple[str, ...] = ()) -> Any:
    """A loop's body over the iteration number ``i``, the condition ``go`` and ``carried``."""
    values = [helper.make_tensor_value_info("i", INT64, ()), helper.make_tensor_value_info("go", B, ())]
    values += [helper.make_tensor_value_info(name, F, None) for name in carried]
    made = [helper.make_tensor_value_info(name, F, None) for name in ("go_on", *outputs)]
    return helper.make_graph([node("Identity", ["go"], ["go_on"]), *nodes], "body", values, made)


def looped(body: Any, trips: int, inputs: list[str], outputs: list[str], *after: Any, **options: Any) -> ModelProto:
    """A model that runs ``body`` and then the nodes ``after``, which make ``y``."""
    trip_count = node("Constant", [], ["m"], value_int=trips)
    return model(trip_count, node("Loop", ["m", "", *inputs], outputs, "again", body=body), *after, **options)


def doubling(trips: int) -> ModelProto:
    body = body_of(node("Concat", ["v", "v"], ["w"], axis=1), carried=("v",), outputs=("w",))
    return looped(body, trips, ["x"], ["z"], node("Relu", ["z"], ["y"]), x=(1, 4))


def test_a_value_that_grows_is_exact_where_the_iterations_are_few():
    recorder = read(doubling(5))
    joined = [call for call in recorder.calls if call.type == "Concat"]
    assert [call.layer.out.shape for call in joined] == [(1, 8), (1, 16), (1, 32), (1, 64), (1, 128)]
    assert [call.region for call in joined] == [f"again.body[{i}]" for i in range(5)]
    assert total(joined, "mwrite") == 4 * (8 + 16 + 32 + 64 + 128)
    assert total(recorder.calls, "flops") == 4 * 2**5, "the Relu of what the last iteration made"
    assert recorder.assumptions == []


def test_iterations_that_record_the_same_are_counted_together():
    # the slice begins elsewhere every time, and is equally long
    part = [
        node("Constant", [], ["one"], value_ints=[1]),
        node("Reshape", ["i", "one"], ["begin"]),
        node("Add", ["begin", "one"], ["end"]),
        node("Slice", ["x", "begin", "end", "one"], ["part"]),
        node("Add", ["v", "part"], ["w"]),
    ]
    body = body_of(*part, carried=("v",), outputs=("w", "part"))
    made = looped(body, 7, ["start"], ["last", "all"], node("Relu", ["all"], ["y"]), x=(3, 7))
    made.graph.initializer.append(helper.make_tensor("start", F, (3, 1), (0.0,) * 3))
    recorder = read(made)
    assert {(call.times, call.region) for call in recorder.calls if call.region} == {(7, "again.body")}
    # the slices are of 3 rows and 1 column: 7 times 1 number and 3 elements are added, and 7 * 3 clipped in the end
    assert total(recorder.calls, "flops") == 7 * (1 + 3) + 21
    assert recorder.calls[-1].layer.out.shape == (7, 3, 1)


def test_a_condition_that_depends_on_data_leaves_the_loop_as_a_formula():
    grow = [node("Concat", ["v", "v"], ["w"], axis=0), node("ReduceMax", ["v"], ["most"], keepdims=0)]
    values = [helper.make_tensor_value_info(*entry) for entry in (("i", INT64, ()), ("go", B, ()), ("v", F, None))]
    made = [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "w")]
    body = helper.make_graph([*grow, node("Less", ["most", "most"], ["go_on"])], "body", values, made)
    recorder = read(looped(body, 5, ["x"], ["z"], node("Relu", ["z"], ["y"]), x=(4,)))
    assert str(recorder.calls[-1].layer.out.shape) == "(z_0,)"
    assert [assumption.what for assumption in recorder.assumptions] == [
        "data-dependent loop condition: all iterations are counted",
        "the shape of a carried value changes between iterations: its first shape is counted",
    ]


def test_the_work_on_single_iterations_is_bounded():
    # three loops in each other: the innermost value doubles 64 * 64 * 64 times
    body = body_of(node("Concat", ["v", "v"], ["w"], axis=1), carried=("v",), outputs=("w",))
    for _ in range(2):
        trip_count = node("Constant", [], ["m"], value_int=64)
        body = body_of(trip_count, node("Loop", ["m", "", "v"], ["w"], body=body), carried=("v",), outputs=("w",))
    recorder = read(looped(body, 64, ["x"], ["z"], node("Relu", ["z"], ["y"]), x=(1, 4)))
    assert len(recorder.calls) < 10_000
    assert str(recorder.calls[-1].layer.out.shape) == "(1, z_1)"


def test_what_is_stored_in_a_body_is_one_parameter_however_often_it_is_walked():
    stored = helper.make_tensor("w", F, (1, 2), (1.0, 2.0))
    grow = [node("Concat", ["v", "w"], ["u"], axis=1)]
    body = body_of(*grow, carried=("v",), outputs=("u",))
    body.initializer.append(stored)
    body.initializer.append(helper.make_tensor("spare", F, (3,), (0.0,) * 3))
    recorder = read(looped(body, 3, ["x"], ["y"], x=(1, 4)))
    assert recorder.calls[-1].layer.out.shape == (1, 4 + 3 * 2)
    assert list(recorder.parameters.values()) == [2]
    assert recorder.notes == ["unused initializers: 'spare'"]


def counting(most: int, first: list[Any], go_on: list[Any]) -> ModelProto:
    """A loop of at most so many iterations that joins ``x`` to what it made, and goes on as ``go_on`` says."""
    values = [helper.make_tensor_value_info(*entry) for entry in (("i", INT64, ()), ("go", B, ()), ("v", F, None))]
    made = [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "w")]
    body = helper.make_graph([*go_on, node("Concat", ["v", "x"], ["w"], axis=0)], "body", values, made)
    nodes = [node("Constant", [], ["m"], value_int=most), node("Constant", [], ["two"], value_int=2), *first]
    begin = "begin" if first else ""
    return model(*nodes, node("Loop", ["m", begin, "x"], ["z"], "again", body=body), node("Relu", ["z"], ["y"]), x=(4,))


@pytest.mark.parametrize("most", [3, 64, 1 << 62])
def test_a_condition_that_only_counts_says_how_often_a_loop_runs(most):
    # it goes on after the iterations 0 and 1, and not after 2
    recorder = read(counting(most, [], [node("Less", ["i", "two"], ["go_on"])]))
    assert recorder.calls[-1].layer.out.shape == (4 + 3 * 4,)
    assert [call.region for call in recorder.calls if call.type == "Concat"] == [f"again.body[{i}]" for i in range(3)]
    assert recorder.assumptions == []


def test_a_condition_that_always_holds_is_asked_so_often_and_no_more():
    recorder = read(counting(1 << 62, [], [node("Less", ["i", "m"], ["go_on"])]))
    assert str(recorder.calls[-1].layer.out.shape) == "(z_0,)"
    assert [call.times for call in recorder.calls if call.type == "Concat"] == [1 << 62]


def test_a_trip_count_that_data_say_is_what_a_counting_condition_allows():
    made = counting(3, [], [node("Less", ["i", "two"], ["go_on"])])
    del made.graph.node[0]
    trips = [node("ReduceMax", ["x"], ["most"], keepdims=0), node("Cast", ["most"], ["m"], to=INT64)]
    for part in reversed(trips):
        made.graph.node.insert(0, part)
    recorder = read(made)
    assert recorder.calls[-1].layer.out.shape == (4 + 3 * 4,)
    (assumption,) = recorder.assumptions
    assert assumption.what == "the trip count is unknown: assumed as many iterations as the condition allows"


def test_a_condition_to_begin_is_assumed_to_hold():
    ask = [node("ReduceMax", ["x"], ["most"], keepdims=0), node("Less", ["most", "most"], ["begin"])]
    recorder = read(counting(9, ask, [node("Less", ["i", "two"], ["go_on"])]))
    assert recorder.calls[-1].layer.out.shape == (4 + 3 * 4,)
    (assumption,) = recorder.assumptions
    assert assumption.what == "data-dependent loop condition, assumed True on entry"


@pytest.mark.parametrize(("trips", "flops"), [("five", 5 * 4 + 5 * 4), ("none", 0), ("m", "8*again_trips")])
def test_a_loop_counts_its_body_as_often_as_it_runs(trips, flops):
    recorder = read(loop(trips))
    assert str(total(recorder.calls, "flops")) == str(flops)


def test_loops_that_read_one_unknown_count_share_its_symbol():
    made = loop("m")
    again = helper.make_node("Loop", ["m", "", "last"], ["end", "ends"], "later")
    first = next(each for each in made.graph.node if each.op_type == "Loop")
    again.attribute.extend(first.attribute)
    made.graph.node.append(again)
    made.graph.output.append(helper.make_tensor_value_info("ends", F, None))
    recorder = read(made)
    assert {str(call.times) for call in recorder.calls if call.type == "Add"} == {"again_trips"}
    assert total(read(made, dims={"again_trips": 7}).calls, "flops") == 7 * 8 + 7 * 4
    assert len(recorder.assumptions) == 2


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


@pytest.mark.parametrize(("axis", "shape"), [(0, (6, 4)), (1, (4, 6)), (-1, (4, 6)), (-2, (6, 4))])
def test_scan_stacks_its_outputs_along_an_axis(axis, shape):
    """An axis from the end counts those of the stacked output."""
    body = helper.make_graph(
        [node("Relu", ["row"], ["out"])],
        "body",
        [helper.make_tensor_value_info("row", F, (4,))],
        [helper.make_tensor_value_info("out", F, (4,))],
    )
    g = Graph()
    g.nodes.append(node("Scan", ["x"], ["all"], num_scan_inputs=1, scan_output_axes=[axis], body=body))
    recorder = read(g.model({"x": (6, 4)}, g("Sigmoid", "all")))
    assert recorder.calls[-1].layer.out.shape == shape


def row_body(op: str = "Relu", length: int = 4) -> Any:
    return helper.make_graph(
        [node(op, ["row"], ["out"])],
        "body",
        [helper.make_tensor_value_info("row", F, (length,))],
        [helper.make_tensor_value_info("out", F, (length,))],
    )


@pytest.mark.parametrize(("axis", "times", "length"), [(0, 6, 4), (1, 4, 6), (-1, 4, 6), (-2, 6, 4)])
def test_scan_takes_slices_along_an_axis(axis, times, length):
    """Over (6, 4), axis 0 gives 6 slices of 4 elements and axis 1 gives 4 of 6; they are stacked along axis 0."""
    g = Graph()
    scan = node("Scan", ["x"], ["all"], num_scan_inputs=1, scan_input_axes=[axis], body=row_body("Relu", length))
    g.nodes.append(scan)
    recorder = read(g.model({"x": (6, 4)}, g("Sigmoid", "all")))
    body, after = recorder.calls
    assert (body.times, body.layer.out.shape) == (times, (length,))
    assert after.layer.out.shape == (times, length)


def test_a_sequence_that_a_loop_hands_on_keeps_its_items():
    """The value doubles, so that the 3 iterations are walked one by one; the sequence is the same after each."""
    grow = [node("Concat", ["v", "v"], ["w"], axis=0), node("Identity", ["s"], ["t"])]
    body = body_of(*grow, carried=("v", "s"), outputs=("w", "t"))
    after = [
        node("Constant", [], ["second"], value_int=1),
        node("SequenceAt", ["last", "second"], ["item"]),
        node("SequenceLength", ["last"], ["length"]),
        node("Relu", ["item"], ["y"]),
    ]
    made = looped(body, 3, ["x", "items"], ["z", "last"], *after, x=(2,))
    made.graph.input.append(helper.make_tensor_value_info("a", F, (5,)))
    made.graph.node.insert(0, node("SequenceConstruct", ["x", "a"], ["items"]))
    recorder = read(made)
    assert recorder.calls[-1].layer.out.shape == (5,)
    assert [call.layer.out.shape for call in recorder.calls if call.type == "Concat"] == [(4,), (8,), (16,)]
    assert recorder.assumptions == []


def test_a_sequence_that_a_loop_extends_has_a_symbolic_length_where_data_say_how_often():
    """2 items of (5,) at first, and one more for each of the unknown iterations."""
    body = body_of(node("SequenceInsert", ["s", "x"], ["t"]), carried=("s",), outputs=("t",))
    after = [node("SequenceLength", ["last"], ["length"]), node("ConcatFromSequence", ["last"], ["y"], axis=0)]
    made = looped(body, 1, ["items"], ["last"], *after, x=(5,))
    del made.graph.node[0]
    trips = [node("ReduceMax", ["x"], ["most"], keepdims=0), node("Cast", ["most"], ["m"], to=INT64)]
    for part in reversed([*trips, node("SequenceConstruct", ["x", "x"], ["items"])]):
        made.graph.node.insert(0, part)
    assert str(read(made).calls[-1].layer.out.shape) == "(5*again_trips + 10,)"


SILU = [node("Sigmoid", ["v"], ["gate"]), node("Mul", ["v", "gate"], ["u"])]


def test_what_is_decomposed_in_single_iterations_is_regrouped_in_each():
    """SiLU, 5 FLOPs per element, of 4, 8 and 16 elements: 140."""
    body = body_of(*SILU, node("Concat", ["u", "u"], ["w"], axis=1), carried=("v",), outputs=("w",))
    report = estimate(looped(body, 3, ["x"], ["z"], node("Relu", ["z"], ["y"]), x=(1, 4)), regroup=True)
    found = [(call.layer.op, call.layer.out.size, call.region) for call in report.calls if call.region]
    assert [each for each in found if each[0] not in ("identity", "concat")] == [
        ("silu", 4, "again.body[0]"),
        ("silu", 8, "again.body[1]"),
        ("silu", 16, "again.body[2]"),
    ]
    assert report.total_report["flops"] == 5 * (4 + 8 + 16) + 32, "and the Relu of 32 elements"


def test_a_sequence_that_becomes_a_tensor_has_no_shape_after_the_loop():
    steps = [node("ConcatFromSequence", ["s"], ["t"], axis=0)]
    made = looped(
        body_of(*steps, carried=("s",), outputs=("t",)), 70, ["items"], ["z"], node("Relu", ["z"], ["y"]), x=(5,)
    )
    made.graph.node.insert(0, node("SequenceConstruct", ["x"], ["items"]))
    call = read(made).calls[-1]
    assert call.type == "Relu"
    assert call.uncounted is not None
