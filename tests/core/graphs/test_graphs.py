"""Which branch is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from costcore import CostError
from costcore.graphs import (
    DataflowLog,
    GraphNode,
    GraphRecording,
    GraphValue,
    GraphWriter,
    ModuleTree,
    Notes,
    Place,
    given_shapes,
    in_order,
    most_expensive,
)
from costcore.graphs.graph import (
    DEEPEST_MODULE,
    OpenSizes,
    accepts,
    capture,
    damaged,
    in_file,
    names_of,
    native_names,
    operand,
)
from costcore.graphs.writer import ValueLog
from costcore.ir import Layer, Tensor
from costcore.translate import Row, Translation
from tests.core.traces import Call, Module, Recorder


def call(op: str, *shape: int, times: int = 1) -> Call:
    """Return a call of an operator on a tensor."""
    x = Tensor(shape, "float32")
    return Call(Layer(op, {"x": x}, [x]), op, times=times)


def test_the_branch_with_most_flops_is_counted():
    """10 elements twice are 20 FLOPs, 12 once 12; a reshape costs nothing, nor does what nobody knows."""
    unknown = call("nobody_knows", 1000)
    choice = most_expensive({"a": [call("relu", 12), unknown], "b": [call("relu", 10, times=2)]}, Recorder())
    assert (choice.counted, choice.flops, choice.uncounted) == ("b", {"a": 12, "b": 20}, [unknown])


def test_of_equal_branches_the_first_is_counted():
    assert most_expensive({1: [call("relu", 3)], 0: [call("relu", 3)]}, Recorder()).counted == 1


def test_calculators_of_the_run_decide():
    recorder = Recorder(calculators={"relu": lambda layer: (0, 0, 0, {})})
    assert most_expensive({"a": [call("relu", 3)], "b": [call("abs", 2)]}, recorder).counted == "b"


def test_a_reader_of_files_accepts_no_objects():
    assert (accepts(object()), capture(Recorder()), native_names("Conv")) == (False, None, ())


def test_names_of_operators():
    names = names_of("net", ("Conv",))
    asked = ("net::Any", "Conv", "Any", "other::Conv", 3)
    assert [*map(names, asked)] == [("net::Any",), ("net::Conv",), (), (), ()]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CostError("it is empty"), "a.net: it is empty"),
        (CostError("a.net cannot be read"), "a.net cannot be read"),
        (ValueError("bad\n size"), "a.net: the file is damaged: bad size"),
        (KeyError(), "a.net: the file is damaged: KeyError"),
    ],
)
def test_errors_name_the_file_once(error, message):
    with pytest.raises(CostError) as raised, in_file("a.net"), damaged(KeyError):
        raise error
    assert str(raised.value) == message


def test_other_errors_are_not_damage():
    with pytest.raises(KeyError), in_file("a.net"), damaged():
        raise KeyError


NAMES = ("image", "mask")


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        (None, {}),
        ((1, 3, 8), {0: (1, 3, 8)}),
        ([(1, 3, 8), [1, 8]], {0: (1, 3, 8), 1: (1, 8)}),
        (((1, 3, 8), (1, 8)), {0: (1, 3, 8), 1: (1, 8)}),
        ({"mask": (1, 8)}, {1: (1, 8)}),
        (SimpleNamespace(shape=(2, 3)), {0: (2, 3)}),
    ],
)
def test_shapes_by_position(inputs, found):
    assert given_shapes(NAMES, inputs) == found


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"masc": (1, 8)}, CostError, "Did you mean 'mask'"),
        ([(1,), (2,), (3,)], CostError, "3 inputs were given, but the model has 2: image, mask"),
        (["a"], TypeError, "expected a shape such as"),
    ],
)
def test_what_is_no_shape_of_an_input(inputs, error, message):
    with pytest.raises(error, match=message):
        given_shapes(NAMES, inputs)


@pytest.mark.parametrize("kind", [DataflowLog, GraphWriter])
def test_a_frontend_says_what_its_values_are(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind(None)


@dataclass(eq=False)
class Weight:
    """A stored tensor."""

    name: str
    size: int
    is_parameter: bool = True
    is_state: bool = False


def test_tensors_belong_to_the_modules_that_read_them():
    shared, own, mean = Weight("", 6), Weight("", 2), Weight("", 3, is_parameter=False, is_state=True)
    tree: ModuleTree[Weight] = ModuleTree()
    tree.read("a", [shared, mean])
    tree.enter("b", "Head")
    tree.read("b.c", [shared, own])
    found = tree.tree([shared, own, mean], lambda weight: weight.size)
    assert found == {"": Module(""), "a": Module("", (6,), buffers=3), "b": Module("Head"), "b.c": Module("", (6, 2))}


def test_a_tensor_belongs_to_the_module_in_its_name():
    """``b.w`` is of module b, which no node is in; it comes before the first module that reads the tensor."""
    weight = Weight("b.w", 4)
    tree: ModuleTree[Weight] = ModuleTree(lambda weight: weight.name.rpartition(".")[0])
    tree.read("b.inner", [weight])
    found = tree.tree([weight], lambda weight: 7)
    assert [*found.items()] == [("", Module("")), ("b", Module("", (7,))), ("b.inner", Module(""))]


def test_a_tensor_belongs_to_others_too_if_its_own_module_reads_it():
    """The tied weight ``b.w`` is read in b, in b.inner, which is inside of b, and in a."""
    weight = Weight("b.w", 4)
    tree: ModuleTree[Weight] = ModuleTree(lambda weight: weight.name.rpartition(".")[0])
    for path in ("b", "b.inner", "a"):
        tree.read(path, [weight])
    found = tree.tree([weight], lambda weight: 7)
    assert {path: module.parameters for path, module in found.items()} == {"": (), "b": (7,), "b.inner": (), "a": (7,)}


def test_there_is_no_tree_without_modules():
    tree: ModuleTree[Weight] = ModuleTree()
    tree.read("", [Weight("w", 2)])
    assert tree.tree([Weight("w", 2)], lambda weight: 1) == {}


def test_modules_are_inside_each_other_as_deep_as_is_followed():
    """A name of 30,000 parts would make 30,000 paths, the last of which repeat the whole name."""
    tree: ModuleTree[Weight] = ModuleTree()
    assert tree.enter_within("a.b.c") == "a.b.c"
    assert tree.enter_within("x." * 30_000 + "y") == "x." * (DEEPEST_MODULE - 1) + "x"
    assert len(tree.tree([], lambda weight: 0)) == 1 + 3 + DEEPEST_MODULE


@pytest.mark.parametrize(
    ("before", "order"),
    [
        ([], []),
        ([[], [0], [0, 1]], [0, 1, 2]),
        ([[2], [], []], [1, 2, 0]),  # the first reads from the last
        ([[3], [0], [], [2]], [2, 3, 0, 1]),
    ],
)
def test_each_node_comes_after_those_it_reads_from(before, order):
    assert [*in_order(before, str)] == order


def test_a_cycle_is_named_by_its_nodes():
    """0 reads from 2, 2 from 1, and 1 from 0; 3 is outside."""
    with pytest.raises(CostError, match=r"the graph has a cycle: n1 -> n2 -> n0 -> n1|n0 -> n1 -> n2 -> n0"):
        in_order([[2], [0], [1], [0]], lambda i: f"n{i}")


def test_graphs_are_inside_each_other_as_deep_as_is_followed():
    place = Place()
    for i in range(32):
        place = place.inside(f"loop{i}", 2)
    assert (place.depth, place.times, place.region[:11]) == (32, 2**32, "loop0/loop1")
    with pytest.raises(CostError, match="more than 32 deep"):
        place.inside("loop")


def test_a_view_has_the_elements_of_its_base_in_other_axes():
    """Two numbers of 8 bits unpacked from each byte are as real as those of any view."""
    x = GraphValue((2, 3, 4), "int8", "x", is_stored=True, data=(1,))
    y = x.permuted(2, 0, 1)
    assert (y.shape, y.ndim, y.size, y.nbytes, y.base) == ((4, 2, 3), 3, 24, 24, x)
    assert (y.is_real, x.is_real, y.viewed(24).base, y.is_stored, y.data) == (True, False, x, True, (1,))


def test_what_is_recorded_since_a_mark_is_removed(monkeypatch):
    monkeypatch.setattr("costcore.graphs.writer.rows", lambda frontend: [Row("net::Any", "exp", {"x": operand(0)})])
    recorder = Recorder()
    recording = GraphRecording(recorder, "net")
    x = GraphValue((2, 4), "float32")
    first = recording.record(node("Any", x), Place())
    mark = recording.checkpoint()
    recording.record(node("Any", x)._replace(scratch=(7,)), Place())
    recorder.assume("a guess")
    section = recording.since(mark)
    assert [len(each) for each in section] == [1, 1, 1]
    recording.rollback(mark)
    assert (recorder.calls, recording.dataflow.steps, recorder.assumptions) == ([first], [], [])
    recording.add(*section)
    assert (recorder.calls, recording.dataflow.steps) == ([first, *section.calls], section.steps)
    assert len(recorder.assumptions) == 1
    assert recording.take(mark)[:2] == section[:2]
    assert (recorder.calls, recording.dataflow.steps, len(recorder.assumptions)) == ([first], [], 1)


def test_an_inner_graph_takes_over_values_or_copies_them():
    """Weights are no values of the data flow; what a graph returns unchanged is not made again."""
    log = ValueLog(Recorder())
    a, b, inner, found = (GraphValue((size,), "int8") for size in (2, 3, 3, 5))
    weight = GraphValue((4,), "int8", is_stored=True)
    log.start_of(first := log.new_id(), "loop", [a, b, weight], [a, inner, None], further=[found], reads=[b, weight])
    log.end_of(first, "loop", [inner, a], [found, a])
    start, end = log.steps
    assert (start.at, start.reads, start.takes) == (first, (a.identity, b.identity), ((inner.identity, b.identity),))
    assert [each.nbytes for each in start.makes] == [3, 5]
    assert (end.reads, end.takes) == ((inner.identity, a.identity), ((found.identity, inner.identity),))
    assert [each.nbytes for each in end.makes] == [5]
    assert log.spans == [(first, end.at)]
    log.view(found, a.identity)
    assert log.views == [(found.identity, a.identity)]


def test_a_translated_node_is_written(monkeypatch):
    """It reads a value beside the operand of its layer, and makes one beside the result, and 7 bytes of scratch."""
    monkeypatch.setattr("costcore.graphs.writer.rows", lambda frontend: ())
    recorder = Recorder()
    recording = GraphRecording(recorder, "net")
    x, beside, y, more = (GraphValue((size,), "int8") for size in (2, 3, 5, 6))
    weight = GraphValue((4,), "float32", is_stored=True, is_parameter=True)
    layer = Layer("linear", {"x": Tensor((2,), "int8"), "w": Tensor((4,), "float32", "param")}, [Tensor((5,), "int8")])
    place = Place().inside("loop", 3)
    translation = Translation(layer, (x, weight), (y,), has_row=True)
    values = {"inputs": [x, weight, None, beside], "outputs": [y, None, more], "scratch": (7,)}
    call = recording.write("Any", "net::Any", "any", translation, place, module="a.b", where="node 1", **values)
    assert recorder.calls == [call]
    assert (call.type, call.native, call.name, call.module, call.where) == ("Any", "net::Any", "any", "a.b", "node 1")
    assert (call.times, call.region, call.inputs) == (3, "loop", (x.identity, weight.identity))
    assert (call.outputs, call.parameters) == ((y.identity,), (weight.identity,))
    (step,) = recording.dataflow.steps
    assert (step.at, step.reads, [each.nbytes for each in step.makes]) == (y.identity, (beside.identity,), [6, 7])


def test_a_size_that_a_shape_gives_has_its_name_too():
    sizes = OpenSizes({"y_0": "2*k"})
    found = sizes.bind([("y", [None, 3]), ("x", [None])], {"x": (5,)}, lambda name, axis: f"{name}_{axis}")
    assert (str(found[0][0]), found[0][1:], found[1], sizes("x_0")) == ("2*k", (3,), (5,), 5)
    sizes.check()


def test_a_note_is_added_once():
    notes: list[str] = []
    note = Notes(notes)
    for text in ("a", "b", "a"):
        note(text)
    assert notes == ["a", "b"]


# Equal nodes.


def recorded(monkeypatch, *nodes: GraphNode, rows: Sequence[Row]) -> Recorder:
    """Return the run of some nodes by a table of rows."""
    monkeypatch.setattr("costcore.graphs.writer.rows", lambda frontend: rows)
    recorder = Recorder()
    recording = GraphRecording(recorder, "net")
    for node in nodes:
        recording.record(node, Place())
    recording.finish([], [])
    return recorder


def node(kind: str, *inputs: GraphValue, **settings: object) -> GraphNode:
    """Return a node whose result has the shape of its first operand."""
    return GraphNode(
        f"net::{kind}", kind, {"inputs": list(inputs), **settings}, [GraphValue(inputs[0].shape, "float32")]
    )


def test_the_row_of_equal_nodes_runs_once(monkeypatch):
    """Three products with weights of their own, one of another setting: 3 * 16 parameters, and two layers."""
    calls = []
    row = Row("net::Mul", "linear", {"x": operand(0), "w": operand(1)}, {"k": lambda a: calls.append(1) or a["k"]})
    x, *weights = GraphValue((2, 4), "float32"), *(GraphValue((4, 4), "float32", is_stored=True) for _ in range(3))
    run = recorded(monkeypatch, *(node("Mul", x, w, k=w is weights[2]) for w in weights), rows=[row])
    assert (len(calls), len(run.layers), run.n_params_model) == (2, 2, 48)
    assert all(w.is_parameter for w in weights)
    assert [each.parameters for each in run.calls] == [(w.identity,) for w in weights]


def test_which_operands_are_the_same_value_decides(monkeypatch):
    """The layers of x + x, x + y, y + x are equal; what each reads is not."""
    row = Row("net::Add", "add", {"x*": lambda a: a["inputs"]})
    x, y = (GraphValue((2, 4), "float32") for _ in range(2))
    run = recorded(monkeypatch, *(node("Add", *pair) for pair in ((x, x), (x, y), (y, x), (y, y))), rows=[row])
    a, b = x.identity, y.identity
    assert [each.inputs for each in run.calls] == [(a, a), (a, b), (b, a), (b, b)]
    assert len(run.layers) == 1


def test_equal_options_need_not_be_one_mapping(monkeypatch):
    calls = []
    row = Row("net::Pad", "pad", {"x": operand(0)}, {"k": lambda a: calls.append(1) or tuple(a["k"])})
    x = GraphValue((2, 4), "float32")
    nodes = [node("Pad", x)._replace(options={"k": k}) for k in ([1, 2], [1, 2], [3])]
    run = recorded(monkeypatch, *nodes, nodes[0], rows=[row])
    assert (len(calls), [each.layer.attrs["k"] for each in run.calls]) == (2, [(1, 2), (1, 2), (3,), (1, 2)])


def test_what_is_computed_of_stored_values_is_stored_each_time(monkeypatch):
    """The second sum of weights is recorded like the first; what reads it is also a constant."""
    row = Row("net::Add", "add", {"x*": lambda a: a["inputs"]})
    weights = [GraphValue((4,), "float32", is_stored=True) for _ in range(4)]
    sums = [node("Add", *pair) for pair in (weights[:2], weights[2:])]
    last = node("Add", sums[0].outputs[0], sums[1].outputs[0])
    run = recorded(monkeypatch, *sums, last, rows=[row])
    assert [each.layer.op for each in run.calls] == ["constant"] * 3
    assert all(each.outputs[0].is_stored for each in (*sums, last))
    assert len({each.outputs for each in run.calls}) == 3


def test_what_the_layer_does_not_read_or_make_is_data_flow_each_time(monkeypatch):
    row = Row("net::Split", "split", {"x": operand(0)}, outputs=lambda a, outputs: outputs[:1])
    xs, states = ([GraphValue((2, 4), "float32") for _ in range(2)] for _ in range(2))
    nodes = [node("Split", x, state) for x, state in zip(xs, states, strict=True)]
    nodes = [each._replace(outputs=[*each.outputs, GraphValue((3,), "int8")], scratch=(7,)) for each in nodes]
    run = recorded(monkeypatch, *nodes, rows=[row])
    for call, each, state, step in zip(run.calls, nodes, states, run.dataflow.steps, strict=True):
        assert call.outputs == (each.outputs[0].identity,)
        assert (step.at, step.reads) == (call.outputs[0], (state.identity,))
        assert [made.nbytes for made in step.makes] == [3, 7]


def test_an_operand_that_a_row_makes(monkeypatch):
    """Each of two equal nodes has a mask of its own, which no node made."""
    row = Row("net::Any", "add", {"x0": operand(0), "x1": lambda a: GraphValue((4,), "int8")})
    x = GraphValue((2, 4), "float32")
    run = recorded(monkeypatch, node("Any", x), node("Any", x), rows=[row])
    ids = [each.inputs for each in run.calls]
    assert ids[0][0] == ids[1][0] == x.identity
    assert ids[0][1] != ids[1][1]


def test_where_a_node_without_a_row_is(monkeypatch):
    monkeypatch.setattr("costcore.graphs.writer.rows", lambda frontend: ())
    recording = GraphRecording(Recorder(), "net")
    found = [
        recording.record(node("Any", GraphValue((2,), "float32")), Place(), where).where
        for where in ("node 1", lambda: "node 2")
    ]
    assert found == ["node 1", "node 2"]


@pytest.mark.parametrize(
    "change",
    [{"shape": (8, 1)}, {"dtype": "int8"}, {"data": (3,)}, {"is_stored": True}],
    ids=lambda change: next(iter(change)),
)
def test_all_that_a_row_may_read_is_compared(monkeypatch, change):
    seen = []
    row = Row("net::Any", "add", {"x0": operand(0), "x1": lambda a: seen.append(1) or a["inputs"][1]})
    x = GraphValue((2, 4), "float32")
    others = GraphValue((2, 4), "float32"), GraphValue(**{"shape": (2, 4), "dtype": "float32", **change})
    recorded(monkeypatch, *(node("Any", x, other) for other in others), rows=[row])
    assert len(seen) == 2
