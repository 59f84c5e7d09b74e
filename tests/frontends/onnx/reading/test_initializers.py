"""Initializers that PyTorch's exporters mark as learned, also of one element, and constants that are plain numbers."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import estimate
from tests.whole_networks.onnx_models import Graph

FLOAT = TensorProto.FLOAT
INPUT_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
"""Keys of the metadata that PyTorch's exporter writes."""


def scaled(name: str, producer: str = "pytorch", kind: str = "") -> ModelProto:
    """``exp(t) * x`` of 2 x 3 elements, where ``t`` is one stored number of this name."""
    t = helper.make_tensor(name, FLOAT, (), [0.5])
    nodes = [helper.make_node("Exp", [name], ["e"]), helper.make_node("Mul", ["e", "x"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, FLOAT, (2, 3)) for name in "xy")
    graph = helper.make_graph(nodes, "scaled", [x], [y], [t])
    if kind:
        graph.value_info.add(name=name).metadata_props.add(key=INPUT_KIND, value=kind)
    return helper.make_model(graph, producer_name=producer, opset_imports=[helper.make_opsetid("", 20)])


LEARNED = {
    "by the kind the newer exporter tells": scaled("temperature", kind="PARAMETER"),
    "by the name the older one gives": scaled("head.0.temperature"),
}


@pytest.mark.parametrize("how", LEARNED)
def test_one_number_can_be_learned(how):
    report = estimate(LEARNED[how])
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == 1
    assert report.total_report["flops"] == 1 + 2 * 3  # exp of the number, and the products
    assert report.total_report["mread"] == 4 + 4 * (1 + 2 * 3)


NOT_LEARNED = {
    "a buffer": scaled("temperature", kind="BUFFER"),
    "a name an exporter made": scaled("/head/Constant_output_0"),
    "another name": scaled("onnx::Exp_12"),
    "a count": scaled("12"),
    "another producer": scaled("temperature", "tf2onnx"),
}


@pytest.mark.parametrize("what", NOT_LEARNED)
def test_other_single_numbers_are_constants(what):
    report = estimate(NOT_LEARNED[what])
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == 0
    assert report.total_report["flops"] == 2 * 3
    assert report.total_report["mread"] == 4 * 2 * 3


def held(g: Graph, *numbers: float) -> str:
    """Numbers in a node."""
    made = f"held{len(g.nodes)}"
    value = helper.make_tensor(made, FLOAT, (len(numbers),), numbers)
    g.nodes.append(helper.make_node("Constant", [], [made], value=value))
    return made


def test_what_is_joined_of_numbers_in_nodes_is_a_constant():
    g = Graph()
    scales = g("Concat", held(g, 1, 1), held(g, 2, 2), axis=0)
    model = g.model({"x": (1, 1, 2, 2)}, g("Mul", g("Resize", "x", "", scales), g.weight(4)))
    model.producer_name = "pytorch"
    report = estimate(model)
    assert report.by("op")["constant"]["mrw"] == 0
    assert "concat" not in report.by("op")
    assert report.total_report["n_params"] == 4


def without_marks(name: str, *, node_name: str = "", dims: tuple[int, ...] = ()) -> ModelProto:
    """The product of ``x`` and a stored float in an export whose marks a tool has dropped."""
    t = helper.make_tensor(name, FLOAT, dims, [0.5])
    nodes = [
        helper.make_node("Relu", ["x"], ["relu" if not node_name else f"{node_name}_output_0"], node_name),
        helper.make_node("Mul", [name, "relu" if not node_name else f"{node_name}_output_0"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, FLOAT, (2, 3)) for name in "xy")
    graph = helper.make_graph(nodes, "scaled", [x], [y], [t])
    return helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])


SCALAR = "scalar_tensor_default"


def with_scalar(op: str, *names: str, kind: str = "") -> ModelProto:
    """One node on ``x`` of 2 by 4, the stored matrix ``w`` of 4 by 5 and a stored scalar."""
    stored = [helper.make_tensor("w", FLOAT, (4, 5), [1.0] * 20), helper.make_tensor(SCALAR, FLOAT, (), [0.5])]
    x, y = (helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("x", (2, 4)), ("y", None)))
    node = helper.make_node(op, names, ["y"])
    used = [tensor for tensor in stored if tensor.name in names]
    graph = helper.make_graph([node], "scalar", [x], [y], used)
    for tensor in used:
        if mark := "PARAMETER" if tensor.name == "w" else kind:
            graph.value_info.add(name=tensor.name).metadata_props.add(key=INPUT_KIND, value=mark)
    return helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize(
    ("op", "names", "learned", "elements"),
    [
        ("Gemm", ("x", "w", SCALAR), 20, 8 + 20),
        ("PRelu", ("x", SCALAR), 0, 8),
        ("LayerNormalization", ("x", SCALAR, SCALAR), 0, 8),
        ("Mul", ("x", SCALAR), 0, 8),
    ],
)
def test_a_stored_scalar_is_a_number_in_every_role(op, names, learned, elements):
    total = estimate(with_scalar(op, *names)).total_report
    assert (total["n_params"], total["n_params_model"], total["mread"]) == (learned, learned, 4 * elements)


@pytest.mark.parametrize(("node_name", "learned"), [("/Relu", 1), ("/clip/Relu", 1), ("_inlfunc_relu|folded_0", 0)])
def test_a_number_of_the_root_module_is_learned_in_a_file_of_the_older_exporter(node_name, learned):
    assert estimate(without_marks("logit_scale", node_name=node_name)).total_report["n_params"] == learned


def unmarked(producer: str = "pytorch", kind: str = "") -> ModelProto:
    """A linear layer of 4 by 5 whose output gets a learned bias and a buffer of 5 elements, as BART adds to logits."""
    g = Graph()
    y = g("Add", g("Add", g("MatMul", "x", g.weight(4, 5)), g.weight(5)), g.weight(1, 5))
    model = g.model({"x": (3, 4)}, y, producer_name=producer)
    names = dict(zip(("w0", "w1", "w2"), ("onnx::MatMul_7", "head.bias", "final_logits_bias"), strict=True))
    for tensor in model.graph.initializer:
        tensor.name = names[tensor.name]
        if kind:
            model.graph.value_info.add(name=tensor.name).metadata_props.add(key=INPUT_KIND, value=kind)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    return model


@pytest.mark.parametrize("producer", ["onnx.quantize", "onnxruntime.transformers"])
def test_a_tensor_that_may_be_a_buffer_is_noted_where_a_tool_dropped_the_marks(producer):
    model = unmarked(producer)
    (note,) = estimate(model).notes
    assert "'final_logits_bias' (5 elements) counts as a parameter, but may be a buffer. The original file may" in note


def test_marks_hold_for_tensors_that_a_quantizer_renamed():
    """ONNX Runtime's quantizer keeps the marks of a tensor, but stores its integers under another name."""
    g = Graph()
    scale, zero = g.number(0.1, dtype=TensorProto.FLOAT, scalar=True), g.number(0, dtype=TensorProto.INT8, scalar=True)
    parts = []
    for name, shape in (("w", (4, 5)), ("mask", (4, 5))):
        g.stored.append(helper.make_tensor(f"{name}_quantized", TensorProto.INT8, shape, [1] * 20))
        parts.append(g("DequantizeLinear", f"{name}_quantized", scale, zero))
    y = g("Add", g("Add", "x", parts[0]), parts[1])
    model = g.model({"x": (3, 4, 5)}, y, producer_name="onnx.quantize")
    for name, sources in (("mask", "['arange', 'val_1']"), ("w", "['w']")):
        model.graph.value_info.add(name=name).metadata_props.add(key=FOLDED_FROM, value=sources)
    listed = "\n# inputs\np_w: PARAMETER target='w'\nx: USER_INPUT\n"
    model.graph.metadata_props.add(key=SIGNATURE, value=listed)
    report = estimate(model)
    assert report.total_report["n_params"] == 20  # w; the mask was computed
    assert not any("does not mark" in note for note in report.notes)


def folded(
    sources: str, signature: str = "p_w: PARAMETER target='w'\nb_table: BUFFER target='table' persistent=True"
) -> ModelProto:
    """A constant of 4 by 5 that the exporter computed from ``sources``, added to data."""
    g = Graph()
    model = g.model({"x": (3, 4, 5)}, g("Add", "x", g.weight(4, 5)), producer_name="pytorch")
    name = model.graph.initializer[0].name
    model.graph.value_info.add(name=name).metadata_props.add(key=FOLDED_FROM, value=sources)
    if signature:
        model.graph.metadata_props.add(key=SIGNATURE, value=f"\n# inputs\n{signature}\nx: USER_INPUT\n")
    return model


@pytest.mark.parametrize(
    ("sources", "elements", "notes"),
    [
        ("['w']", 20, 0),
        ("['arange', 'val_1', 'w']", 20, 1),
        ("['arange', 'val_1']", 0, 0),
        ("['table', 'val_1']", 0, 0),
        ("[]", 0, 0),
    ],
)
def test_a_folded_constant_is_learned_if_a_parameter_is_in_it(sources, elements, notes):
    report = estimate(folded(sources))
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == elements
    assert len(report.notes) == notes
    assert all("(20 elements, from 'w') counts as a parameter" in note for note in report.notes)


def test_the_list_of_parameters_marks_them_where_a_tool_dropped_the_marks():
    model = unmarked()
    listed = "p_head_bias: PARAMETER target='head.bias'\nb_final: BUFFER target='final_logits_bias' persistent=True"
    model.graph.metadata_props.add(key=SIGNATURE, value=listed)
    report = estimate(model)
    assert report.total_report["n_params"] == 4 * 5 + 5
    assert report.notes == []


@pytest.mark.parametrize(("sources", "elements", "notes"), [("['val_1', 'w']", 20, 1), ("['table', 'val_1']", 0, 0)])
def test_parameters_are_listed_as_text_of_python_objects_too(sources, elements, notes):
    """PyTorch 2.6 writes the text of its own object."""
    specs = (
        f"InputSpec(kind=<InputKind.{kind}: {n}>, arg=TensorArgument(name='{name}'), target={target}, "
        f"persistent={kept})"
        for kind, n, name, target, kept in (
            ("PARAMETER", 2, "p_w", "'w'", None),
            ("BUFFER", 3, "b_table", "'table'", True),
            ("USER_INPUT", 1, "x", None, None),
        )
    )
    model = folded(sources, signature="")
    model.graph.metadata_props.add(key=SIGNATURE, value=f"ExportGraphSignature(input_specs=[{', '.join(specs)}])")
    report = estimate(model)
    assert report.total_report["n_params"] == elements
    assert len(report.notes) == notes
