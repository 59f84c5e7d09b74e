"""Malicious and broken graphs: exact integers or one error message, in bounded time."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper
from sympy import Symbol

from costcore import CostError, estimate
from tests.command_line import main
from tests.frontends.onnx.read_model import read, total
from tests.frontends.onnx.small_models import local_function, model, node, with_functions
from tests.whole_networks.onnx_models import Graph
from tests.work import at_most

F, B, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def conv(x: tuple[int, ...] = (1, 3, 8, 8), w: tuple[int, ...] = (4, 3, 3, 3), **settings: Any) -> ModelProto:
    g = Graph()
    return g.model({"x": x}, g("Conv", "x", g.weight(*w), name="/stem/Conv", **settings))


WRONG = {
    "cycle": (
        model(node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second"), output="a"),
        "the graph has a cycle: node 'second' (Relu) -> node 'first' (Add) -> node 'second' (Relu)",
    ),
    "self loop": (
        model(node("Relu", ["y"], ["y"])),
        "the graph has a cycle: the Relu node that produces 'y' -> the Relu node that produces 'y'",
    ),
    "output": (model(node("Relu", ["x"], ["y"]), output="z"), "graph output 'z' is not produced by any node"),
    "two makers": (
        model(node("Relu", ["x"], ["y"], "a"), node("Neg", ["x"], ["y"], "b")),
        "node 'a' (Relu) and node 'b' (Neg) both produce 'y'",
    ),
    "no maker": (model(node("Relu", ["z"], ["y"], "a")), "node 'a' (Relu) reads 'z', which is not defined"),
    "kernel": (conv(w=(4, 3, 9, 9)), "node '/stem/Conv' (Conv) has the kernel (9, 9), larger than its padded input"),
    "groups": (conv(group=0), "node '/stem/Conv' (Conv) has group 0 (expected 1 or more)"),
    "channels": (conv(group=2), "node '/stem/Conv' (Conv) has 3 input channels, but weights (4, 3, 3, 3) in 2 groups"),
    "dilations": (conv(dilations=[0, 1]), "node '/stem/Conv' (Conv) has dilations (0, 1) (expected 1 or more)"),
    "strides": (conv(strides=[1, 0]), "node '/stem/Conv' (Conv) has strides (1, 0) (expected 1 or more)"),
    "attribute": (conv(strides=[1.5, 1.5]), "node '/stem/Conv' (Conv) has the attribute 'strides' as FLOATS, but it"),
    "functions": (
        with_functions(local_function("F", node("F", ["a"], ["b"], domain="local")), call="F"),
        "a function calls itself: local::F -> local::F",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_one_sentence_and_exit_code_1(tmp_path, capsys, kind):
    made, sentence = WRONG[kind]
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    assert main([str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"costcore: {path}: {sentence}")
    assert err.count("\n") == 1


def test_sizes_beyond_64_bits_are_exact():
    report = estimate(model(node("Relu", ["x"], ["y"]), x=(2**62, 2**62)))
    assert report.total_report["mread"] == 4 * 2**124


def test_products_beyond_64_bits_are_exact():
    # onnx infers no shape of these: 2**62 * 2**62 in one axis, then twice that
    made = model(node("Flatten", ["x"], ["a"]), node("Concat", ["a", "a"], ["y"], axis=1), x=(2, 2**62, 2**62))
    (joined,) = [call.layer.out.shape for call in read(made).calls if call.type == "Concat"]
    assert joined == (2, 2**125)


def test_a_cycle_through_a_branch_is_named():
    body = helper.make_graph([node("Relu", ["z"], ["q"])], "body", [], [helper.make_tensor_value_info("q", F, None)])
    made = model(
        node("If", ["c"], ["y"], "choice", then_branch=body, else_branch=body), node("Neg", ["y"], ["z"], "back")
    )
    made.graph.input.append(helper.make_tensor_value_info("c", B, ()))
    with pytest.raises(CostError, match=r"cycle: node 'back' \(Neg\) -> node 'choice' \(If\) -> node 'back' \(Neg\)"):
        estimate(made)


@pytest.mark.parametrize(
    ("data_type", "shape", "nbytes"),
    [
        (TensorProto.INT4, (3, 5), 8),  # 15 elements of 4 bits
        (TensorProto.UINT4, (2, 5), 5),
        (TensorProto.FLOAT4E2M1, (7,), 4),
        (TensorProto.FLOAT8E4M3FN, (7,), 7),
        (TensorProto.FLOAT16, (7,), 14),
        (TensorProto.COMPLEX128, (7,), 112),
        (TensorProto.STRING, (7,), 0),  # a shape does not tell how long strings are
    ],
)
def test_stored_tensors_take_the_bytes_of_their_type(data_type, shape, nbytes):
    g = Graph()
    g.stored.append(TensorProto(name="w", dims=shape, data_type=data_type))
    (call,) = read(g.model({"x": (1,)}, g("Add", "x", "w"))).calls
    assert call.layer["x1"].nbytes == nbytes


def test_an_unknown_element_type_is_refused():
    g = Graph()
    g.stored.append(TensorProto(name="w", dims=(3,), data_type=999))
    with pytest.raises(CostError, match="initializer 'w' has the unknown data type 999"):
        read(g.model({"x": (3,)}, g("Add", "x", "w")))


def test_fewer_bytes_than_the_shape_needs_are_told():
    g = Graph()
    g.stored.append(TensorProto(name="w", dims=(3,), data_type=F, raw_data=bytes(8)))
    report = estimate(g.model({"x": (3,)}, g("Add", "x", "w")))
    assert report.total_report["mread"] == 4 * 6
    assert report.notes == ["initializer 'w' needs 12 bytes, but the model stores 8"]


def nested(depth: int) -> ModelProto:
    """Branches in branches, and an activation in the innermost."""
    inner = [node("Relu", ["x"], ["y0"])]
    for i in range(depth):
        body = helper.make_graph(inner, f"body{i}", [], [helper.make_tensor_value_info(f"y{i}", F, (1, 4))])
        other = body if i == 0 else _other(i)
        inner = [node("If", ["c"], [f"y{i + 1}"], f"if{i}", then_branch=body, else_branch=other)]
    made = model(*inner, output=f"y{depth}")
    made.graph.input.append(helper.make_tensor_value_info("c", B, ()))
    return made


def _other(i: int) -> Any:
    nodes = [node("Identity", ["x"], [f"y{i}"])]
    return helper.make_graph(nodes, f"other{i}", [], [helper.make_tensor_value_info(f"y{i}", F, (1, 4))])


def test_branches_thirty_deep():
    report = estimate(nested(30).SerializeToString())
    assert report.total_report["flops"] == 4
    assert report.layer_report["Relu-1"]["flops"] == 4


@pytest.mark.parametrize("depth", [60, 5_000])
def test_branches_too_deep_for_the_format_are_refused_with_text(depth):
    def field(number: int, content: bytes) -> bytes:
        length, size = bytearray(), len(content)
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        return bytes([number << 3 | 2]) + bytes(length) + bytes([size]) + content

    branch = AttributeProto(name="then_branch", type=AttributeProto.GRAPH).SerializeToString()
    graph = b""
    for _ in range(depth):
        graph = field(1, node("If", ["c"], ["y"]).SerializeToString() + field(5, branch + field(6, graph)))
    with pytest.raises(CostError, match="is not an ONNX model: "):
        estimate(field(7, graph))


def test_calls_that_double_thirty_times_are_counted_with_little_work():
    twice = [
        local_function(f"F{i}", *(node(f"F{i + 1}", [a], [b], domain="local") for a, b in (("a", "m"), ("m", "b"))))
        for i in range(30)
    ]
    made = with_functions(*twice, local_function("F30", node("Relu", ["a"], ["b"])), call="F0")
    with at_most(100_000):
        report = estimate(made)
    assert report.total_report["flops"] == 4 * 2**30
    assert report.total_report["mread"] == 16 * 2**30
    assert report.notes == [
        f"the model's functions expand to {sum(2**i for i in range(1, 31)) + 2**30} nodes: calls of one function with "
        "equal inputs are counted together, in the module of the first"
    ]


def test_attributes_and_stored_tensors_keep_calls_apart(monkeypatch):
    monkeypatch.setattr("costcore.frontends.onnx.walk.walker.MOST_EXPANDED", 1)
    made = with_functions(
        local_function("F", *_two("G")),
        local_function("G", node("Add", ["a", "a"], ["c"]), node("LeakyRelu", ["c"], ["b"])),
        call="F",
    )
    assert [call.times for call in estimate(made).calls] == [2, 2]
    made.functions[0].node[1].attribute.append(helper.make_attribute("slope", 0.5))
    assert [call.times for call in estimate(made).calls] == [1, 1, 1, 1]


def _two(name: str) -> list[Any]:
    return [node(name, ["a"], ["m"], domain="local"), node(name, ["m"], ["b"], domain="local")]


def test_functions_that_call_each_other_from_inside_branches_are_refused():
    body = helper.make_graph(
        [node("G", ["a"], ["b"], domain="local")], "body", [], [helper.make_tensor_value_info("b", F, None)]
    )
    choice = [node("Constant", [], ["c"], value=helper.make_tensor("", B, (), [True]))]
    choice.append(node("If", ["c"], ["b"], then_branch=body, else_branch=body))
    functions = local_function("F", *choice), local_function("G", node("F", ["a"], ["b"], domain="local"))
    with pytest.raises(CostError, match="a function calls itself: local::F -> local::G -> local::F"):
        estimate(with_functions(*functions, call="F"))


def test_names_of_inner_graphs_are_their_own():
    # the branch stores a "w" of its own, and makes a "t" that a later node outside makes as well
    nodes = [node("Add", ["x", "w"], ["t"]), node("Relu", ["t"], ["out"])]
    stored = helper.make_tensor("w", F, (3, 4), [0.0] * 12)
    body = helper.make_graph(nodes, "body", [], [helper.make_tensor_value_info("out", F, None)], [stored])
    made = model(
        node("Constant", [], ["yes"], value=helper.make_tensor("", B, (), [True])),
        node("If", ["yes"], ["inner"], then_branch=body, else_branch=body),
        node("Relu", ["inner"], ["t"]),
        node("Add", ["t", "w"], ["y"]),
    )
    made.graph.initializer.append(helper.make_tensor("w", F, (4,), [0.0] * 4))
    report = estimate(made)
    assert report.total_report["flops"] == 4 * 12
    assert report.total_report["n_params"] == 12 + 4
    assert not report.notes


@pytest.mark.parametrize(
    ("versions", "note"),
    [
        ([("", 9999)], "the model uses version 9999 of ai.onnx; it was read as version "),
        ([("", 0)], "the model imports no version of ai.onnx; it was read as v"),
        ([("", -1)], "the model imports no version of ai.onnx; it was read as v"),
        ([], "the model imports no version of ai.onnx; it was read as v"),
        ([("", 13), ("", 17)], "the model imports several versions of ai.onnx; it was read as version 17"),
        ([("", 17), ("made.up", 3)], ""),
    ],
)
def test_versions_that_do_not_exist(versions, note):
    made = model(node("Relu", ["x"], ["y"]))
    made.ir_version = 9999
    del made.opset_import[:]
    for domain, version in versions:
        made.opset_import.add(domain=domain, version=version)
    report = estimate(made)
    assert report.total_report["flops"] == 4
    assert [n[: len(note)] for n in report.notes] == ([note] if note else [])


@pytest.mark.parametrize(("trips", "flops"), [(0, 0), (-1, 0), (1 << 62, 8 << 62)])
def test_loops_are_never_unrolled(trips, flops):
    body = helper.make_graph(
        [node("Relu", ["v"], ["w"]), node("Neg", ["w"], ["u"]), node("Identity", ["go"], ["go_on"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", B, ()),
            helper.make_tensor_value_info("v", F, (1, 4)),
        ],
        [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "u")],
    )
    made = model(node("Constant", [], ["m"], value_int=trips), node("Loop", ["m", "", "x"], ["y"], body=body))
    with at_most(50_000):
        assert total(read(made).calls, "flops") == flops


def test_a_value_that_grows_in_a_long_loop_is_assumed_and_said():
    body = helper.make_graph(
        [node("Concat", ["v", "v"], ["w"], axis=1), node("Identity", ["go"], ["go_on"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", B, ()),
            helper.make_tensor_value_info("v", F, None),
        ],
        [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "w")],
    )
    made = model(
        node("Constant", [], ["m"], value_int=65), node("Loop", ["m", "", "x"], ["z"], "grow", body=body),
        node("Relu", ["z"], ["y"]),
    )  # fmt: skip
    report = estimate(made)
    assert [str(symbol) for symbol in report.total_report["flops"].free_symbols] == ["z_1"]
    assert any("changes between iterations" in a.what for a in report.assumptions)


def powers(times: int) -> ModelProto:
    """A dimension that is squared so many times."""
    g = Graph()
    n = g("Shape", "x")
    for _ in range(times):
        n = g("Add", g("Mul", n, n), g.number(1))
    return g.model({"x": ("n",)}, g("Expand", g.number(0, dtype=TensorProto.FLOAT), n))


def outer_sums(times: int) -> ModelProto:
    """As many elements as there were pairs of them, and those before, so many times."""
    g, x = Graph(), "x"
    for _ in range(times):
        pairs = g("Add", g("Reshape", x, g.number(-1, 1)), g("Reshape", x, g.number(1, -1)))
        x = g("Concat", x, g("Reshape", pairs, g.number(-1)), axis=0)
    return g.model({"x": ("n",)}, x)


def test_shapes_of_too_many_factors_are_refused_as_no_report_could_be_read_back():
    g = Graph()
    n = Symbol("n", integer=True, positive=True)
    squares = g("Tile", "x", g("Shape", "x"))  # every size n becomes n², two factors each: 1,024, then 1,026
    assert estimate(g.model({"x": ("n",) * 512}, squares)).total_report["mwrite"] == 4 * n**1024
    g = Graph()
    with pytest.raises(CostError, match="whose sizes have more than 1024 factors; give numbers for its symbols"):
        estimate(g.model({"x": ("n",) * 513}, g("Tile", "x", g("Shape", "x"))))


def test_sizes_that_are_high_powers_of_a_symbol_are_given_up():
    # x -> x² + 1, four times: the 16th power, which is the longest that is worked with; once more, and it is open
    assert estimate(powers(4)).subs(n=1).total_report["mwrite"] == 4 * 677  # 1, 2, 5, 26, 677
    report = estimate(powers(60))
    assert any("depends on data" in assumption.what for assumption in report.assumptions)
    with pytest.raises(CostError, match="more than 16 factors; give numbers for its symbols"):
        estimate(outer_sums(8))
    # n + n² elements: 2, 6, 42 for one
    assert estimate(outer_sums(2), {"x": (1,)}).calls[-1].layer.out.shape == (6,)


def test_a_tensor_of_impossible_size_is_refused_though_each_dimension_is_possible():
    g = Graph()
    x = g("Expand", "x", g.number(*[1 << 62] * 70))
    with pytest.raises(CostError, match=r"has an output of 2\*\*4096 elements or more"):
        estimate(g.model({"x": (1,)}, x))


def growing(depth: int, width: int = 4) -> ModelProto:
    """Functions that call each other ``width`` times, each time with one more element: no two calls are equal.

    The function at level i has 2 * width nodes, and is called width ** i times.
    """
    levels = []
    for i in range(depth):
        nodes, made = [], "a"
        for k in range(width):
            nodes.append(node("Concat", [made, "one"], [f"c{k}"], axis=0))
            inner = {"op_type": f"F{i + 1}", "inputs": [f"c{k}", "one"], "domain": "local"}
            leaf = {"op_type": "Relu", "inputs": [f"c{k}"]}
            nodes.append(helper.make_node(outputs=[f"d{k}"], **(inner if i + 1 < depth else leaf)))
            made = f"d{k}"
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
        levels.append(helper.make_function("local", f"F{i}", ["a", "one"], [made], nodes, imports))
    made = with_functions(*levels, call="F0")
    made.graph.node[0].input.append("x")
    del made.graph.input[0].type.tensor_type.shape.dim[1:]
    return made


def test_functions_that_expand_without_end_are_refused_with_the_limit_that_can_be_raised():
    made = growing(12)
    assert len(made.SerializeToString()) < 4000
    match = r"functions, loops and branches expand to more than 500 nodes, besides the 97 that the model stores"
    with at_most(1_000_000), pytest.raises(CostError, match=match) as raised:
        estimate(made, max_nodes=500)  # 97 = 12 levels of 2 * 4 nodes, and the call of the first
    assert "max_nodes=5000 (--max-nodes)" in str(raised.value)


def test_the_limit_can_be_raised(tmp_path, capsys):
    made = growing(4)  # 8 + 8 * 4 + 8 * 16 + 8 * 64 = 680 nodes, and the call of the first; 33 are stored
    assert len(estimate(made, max_nodes=681 - 33).calls) == 4 * (1 + 4 + 16 + 64) + 4**4  # Concat, and Relu
    with pytest.raises(CostError, match="more than 647 nodes"):
        estimate(made, max_nodes=681 - 33 - 1)
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    assert main([str(path), "--max-nodes", "100"]) == 1
    assert "max_nodes=1000 (--max-nodes)" in capsys.readouterr().err
    assert main([str(path), "--max-nodes", "1000", "--summary"]) == 0


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), (-5, ValueError), (1.5, TypeError), (True, TypeError)])
def test_the_limit_is_a_positive_int(given, error):
    with pytest.raises(error, match="max_nodes must be"):
        estimate(model(node("Relu", ["x"], ["y"])), max_nodes=given)


def scan(count: int, **attributes: Any) -> ModelProto:
    """A Scan of one state and one sequence."""
    values = [helper.make_tensor_value_info(name, F, (4,)) for name in ("s", "e")]
    made = [helper.make_tensor_value_info(name, F, (4,)) for name in ("t", "f")]
    body = helper.make_graph([node("Add", ["s", "e"], ["t"]), node("Relu", ["e"], ["f"])], "body", values, made)
    start = node("Constant", [], ["start"], value_floats=[0.0] * 4)
    return model(start, node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=count, **attributes))


@pytest.mark.parametrize("count", [300_000_000, 3, 0, -1, -300_000_000])
def test_a_scan_of_more_inputs_than_it_has_is_refused(count):
    with pytest.raises(CostError, match=rf"has num_scan_inputs {count} \(expected 1 to 2, the number"):
        estimate(scan(count))


def test_a_scan_with_axes_for_other_inputs_is_refused():
    assert estimate(scan(1, scan_input_axes=[0])).total_report["flops"] == 4 + 4  # one slice of 4 elements
    with pytest.raises(CostError, match="has 3 scan_input_axes for 1 scan inputs"):
        estimate(scan(1, scan_input_axes=[0, 0, 0]))
