"""The module tree of a model, from the names and metadata that PyTorch's exporters write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.small_models import local_function, with_functions
from tests.whole_networks.onnx_models import make_model

F = TensorProto.FLOAT


def node(
    op: str, inputs: Sequence[str], output: str, name: str = "", scopes: dict[str, str] | None = None, **settings: Any
) -> NodeProto:
    """A node; ``scopes`` are the modules around it with their classes, as PyTorch's newer exporter writes them."""
    made = helper.make_node(op, inputs, [output], name=name, **settings)
    if scopes is not None:
        paths, classes = [*scopes, output], [*scopes.values(), "aten.some.default"]
        made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(paths))
        made.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=str(classes))
    return made


def model(nodes: Sequence[NodeProto], stored: dict[str, Sequence[int]], x: Sequence[int] = (1, 4)) -> ModelProto:
    tensors = [TensorProto(name=name, dims=dims, data_type=F, raw_data=bytes(4)) for name, dims in stored.items()]
    inputs = [helper.make_tensor_value_info("x", F, x)]
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], F, None)]
    return make_model(helper.make_graph(nodes, "graph", inputs, outputs, tensors))


def classes(made):
    return {path: module.type for path, module in read(made).modules.items()}


def sizes(made: ModelProto, **options: Any) -> dict[str, tuple[str, list[int], int]]:
    """Class, sizes of the parameters and number of buffer elements of every module."""
    recorder = read(made, **options)
    return {
        path: (module.type, [recorder.parameters[i] for i in module.parameters], module.buffers)
        for path, module in recorder.modules.items()
    }


NET, SEQUENTIAL = {"": "nets.Net"}, {"": "nets.Net", "body": "torch.nn.modules.container.Sequential"}
CONV, NORM = ({**SEQUENTIAL, f"body.{i}": f"torch.nn.modules.{kind}"} for i, kind in ((0, "conv.Conv1d"), (1, "bn.BN")))
STATISTICS = ("body.1.weight", "body.1.bias", "body.1.running_mean", "body.1.running_var")
CONVOLUTION = {"body.0.weight": (8, 2, 3), "body.0.bias": (8,), **dict.fromkeys(STATISTICS, (8,))}


def test_the_newer_exporter_says_paths_and_classes():
    nodes = [
        node("Conv", ["x", "body.0.weight", "body.0.bias"], "a", scopes=CONV),
        node("BatchNormalization", ["a", *STATISTICS], "b", scopes=NORM),
        node("Relu", ["b"], "y", scopes=NET),
    ]
    made = model(nodes, CONVOLUTION, (1, 2, 10))
    assert sizes(made) == {
        "": ("Net", [], 0),
        "body": ("Sequential", [], 0),
        "body.0": ("Conv1d", [8 * 2 * 3, 8], 0),
        "body.1": ("BN", [8, 8], 8 + 8),
    }
    assert [call.module for call in read(made).calls] == ["body.0", "body.1", ""]


def test_the_older_exporter_says_paths_only():
    nodes = [
        node("Conv", ["x", "body.0.weight", "body.0.bias"], "a", "/body/body.0/Conv"),
        node("BatchNormalization", ["a", *STATISTICS], "b", "/body/body.1/BatchNormalization"),
        node("Relu", ["b"], "y", "/Relu"),
    ]
    assert sizes(model(nodes, CONVOLUTION, (1, 2, 10))) == {
        "": ("", [], 0),
        "body.0": ("", [8 * 2 * 3, 8], 0),
        "body.1": ("", [8, 8], 8 + 8),
    }


def test_the_name_of_a_tensor_says_whose_it_is_before_the_nodes_that_read_it():
    """A norm folded into the convolution before it leaves a node of the norm with the weights of the convolution."""
    made = model([node("Conv", ["x", "body.0.weight", "body.0.bias"], "y", scopes=NORM)], CONVOLUTION, (1, 2, 10))
    del made.graph.initializer[2:]
    assert list(sizes(made)) == ["", "body", "body.0", "body.1"]
    assert sizes(made)["body.0"] == ("", [48, 8], 0)
    assert sizes(made)["body.1"] == ("BN", [], 0)


def test_a_convolution_that_took_a_norm_in_stays_a_convolution():
    folded = node("Conv", ["x", "body.0.weight", "body.0.bias"], "y", scopes=NORM)
    folded.metadata_props.add(key="pkg.onnxscript.rewriter.rule_name", value="FuseBatchNormIntoConv, Other")
    made = model([folded], {name: CONVOLUTION[name] for name in ("body.0.weight", "body.0.bias")}, (1, 2, 10))
    assert [call.module for call in read(made).calls] == ["body.0"]
    assert sizes(made) == {"": ("Net", [], 0), "body": ("Sequential", [], 0), "body.0": ("", [8 * 2 * 3, 8], 0)}


def test_tensors_that_onnx_runtime_fused_belong_to_the_convolution():
    """Its optimizer puts what it did before the name; the bias was that of the norm."""
    weights = {
        "ConvBnFusion_W_body.0.weight": CONVOLUTION["body.0.weight"],
        "ConvBnFusion_BN_B_body.1.bias": CONVOLUTION["body.0.bias"],
    }
    made = model([node("Conv", ["x", *weights], "y", "/body/body.0/Conv")], weights, (1, 2, 10))
    assert sizes(made) == {"": ("", [], 0), "body.0": ("", [8 * 2 * 3, 8], 0)}


def test_what_stands_in_no_module_stands_in_the_model():
    nowhere = dict.fromkeys(["_empty_nn_module_stack_from_metadata_hook"], "_empty_nn_module_stack_from_metadata_hook")
    made = model([node("Relu", ["x"], "a", scopes=NET), node("Neg", ["a"], "y", scopes=nowhere)], {})
    assert sizes(made) == {"": ("Net", [], 0)}
    assert [call.module for call in read(made).calls] == ["", ""]


def test_tied_weights_belong_to_both_and_count_once():
    nodes = [
        node("MatMul", ["x", "encode.weight"], "a", "/encode/MatMul"),
        node("Transpose", ["encode.weight"], "t", "/decode/Transpose"),
        node("MatMul", ["a", "t"], "y", "/decode/MatMul"),
    ]
    made = model(nodes, {"encode.weight": (4, 3)})
    assert sizes(made) == {"": ("", [], 0), "encode": ("", [12], 0), "decode": ("", [12], 0)}
    report = estimate(made)
    assert report.tree()["n_params"] == report.total_report["n_params_model"] == 12


def test_the_older_exporter_numbers_the_runs_of_one_module():
    nodes = [
        node("Gemm", ["x", "block.0.weight"], "a", "/block/block.0/Gemm"),
        node("Relu", ["a"], "b", "/act/Relu"),
        node("Gemm", ["b", "block.0.weight"], "c", "/block/block.0_1/Gemm"),
        node("Relu", ["c"], "d", "/act_1/Relu"),
        node("Gemm", ["d", "block.0_2.weight"], "e", "/block/block.0_2/Gemm"),  # another, which is called so
        node("Relu", ["e"], "y", "/other_1/Relu"),
    ]
    made = model(nodes, {"block.0.weight": (4, 4), "block.0_2.weight": (4, 4)})
    paths = ["block.0", "act", "block.0", "act", "block.0_2", "other_1"]
    assert [call.module for call in read(made).calls] == paths
    assert sizes(made)["block.0"] == sizes(made)["block.0_2"] == ("", [16], 0)


def test_a_call_of_a_function_is_a_module_of_the_functions_name():
    inner = helper.make_node("Inner", ["a"], ["b"], "left", domain="local")
    made = with_functions(
        local_function("Inner", helper.make_node("Relu", ["a"], ["b"])), local_function("Outer", inner), call="Outer"
    )
    assert classes(made) == {"": "", "outer": "Outer", "outer.left": "Inner"}


def test_a_function_that_the_exporter_kept_lies_in_the_module_of_its_call():
    made = with_functions(local_function("gelu", helper.make_node("Relu", ["a"], ["b"])), call="gelu")
    scopes = {"": "nets.Net", "act": "torch.nn.modules.activation.GELU"}
    made.graph.node[0].CopyFrom(node("gelu", ["x"], "y", "node_gelu", scopes, domain="local"))
    assert classes(made) == {"": "Net", "act": "GELU"}
    assert [call.module for call in read(made).calls] == ["act"]


def test_a_model_that_says_nothing_of_modules_has_none():
    made = model([node("Gemm", ["x", "fc.weight"], "y", "Gemm_0")], {"fc.weight": (4, 4)})
    assert read(made).modules == {}
    assert estimate(made).tree()["n_trainable"] is None
    assert estimate(made).tree()["n_params"] == 16


def test_regrouped_nodes_leave_the_modules_as_they_are():
    nodes = [
        node("MatMul", ["x", "onnx::MatMul_3"], "a", "/fc/MatMul"),
        node("Add", ["a", "fc.bias"], "y", "/fc/Add"),
    ]
    made = model(nodes, {"onnx::MatMul_3": (4, 4), "fc.bias": (4,)})
    assert sizes(made) == sizes(made, regroup=True) == {"": ("", [], 0), "fc": ("", [16, 4], 0)}
