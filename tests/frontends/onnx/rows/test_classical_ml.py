"""The ``ai.onnx.ml`` operators, whose weights are attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from costcore import CostError
from costcore.ir import Operations
from tests.frontends.onnx.read_model import read
from tests.registered import cost
from tests.whole_networks.onnx_models import Graph

STRING, INT64 = TensorProto.STRING, TensorProto.INT64


def priced(op: str, x: Any, *more: Any, outputs: int = 1, **attrs: Any) -> Any:
    """The layer, the cost and the run of one node."""
    g = Graph()
    names = ["x", *(f"x{i}" for i in range(len(more)))]
    y = g(op, *names, domain="ai.onnx.ml", outputs=outputs, **attrs)
    model = g.model(dict(zip(names, (x, *more), strict=True)), y)
    model.opset_import.add(domain="ai.onnx.ml", version=5 if op.startswith("Tree") else 3)
    recorder = read(model)
    (call,) = recorder.calls
    return call.layer, cost(call), recorder


def test_linear_regressor():
    layer, cost, recorder = priced("LinearRegressor", (5, 3), coefficients=[1.0] * 6, intercepts=[0.0, 1.0], targets=2)
    assert layer.out.shape == (5, 2)
    assert (cost.macs, cost.flops) == (30, Operations(fma=30))
    assert recorder.n_params_model == sum(recorder.parameters.values()) == 8
    assert cost.mread == 4 * (15 + 6 + 2)


def test_linear_classifier():
    layer, cost, _ = priced(
        "LinearClassifier",
        (5, 3),
        outputs=2,
        coefficients=[1.0] * 12,
        intercepts=[0.0] * 4,
        classlabels_ints=[0, 1, 2, 3],
        post_transform="SOFTMAX",
    )
    assert [(y.shape, y.dtype) for y in layer.outputs] == [((5,), "int64"), ((5, 4), "float32")]
    assert cost.macs == 5 * 12
    assert cost.flops == Operations(fma=60) + Operations(add=15, div=20, special=20) + Operations(cmp=15)


def test_a_classifier_with_more_coefficients_than_features_reads_the_first():
    # logreg_iris.onnx of ONNX Runtime: coefficients of 3 classes by 4 features, and an input of 3 rows by 2 features
    layer, cost, recorder = priced(
        "LinearClassifier",
        (3, 2),
        outputs=2,
        coefficients=[1.0] * 12,
        intercepts=[0.0] * 3,
        classlabels_ints=[0, 1, 2],
        post_transform="LOGISTIC",
    )
    assert [y.shape for y in layer.outputs] == [(3,), (3, 3)]
    assert cost.macs == 3 * 3 * 2
    assert cost.mread == 4 * (3 * 2 + 3 * 2 + 3)
    assert recorder.n_params_model == 12 + 3
    assert recorder.notes == [
        "the LinearClassifier node that produces 'LinearClassifier_0_0' has 12 coefficients (expected 6 for the shape "
        "(3, 2)): the first are read"
    ]


def test_two_classes_may_share_one_score():
    layer, cost, _ = priced(
        "LinearClassifier", (5, 3), outputs=2, coefficients=[1.0] * 3, classlabels_strings=["no", "yes"]
    )
    assert [(y.shape, y.dtype) for y in layer.outputs] == [((5,), "string"), ((5, 2), "float32")]
    assert cost.macs == 15


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(CostError, match="has 7 coefficients for the shape"):
        priced("LinearRegressor", (5, 3), coefficients=[1.0] * 7, targets=2)


def test_support_vectors():
    vectors = {"support_vectors": [1.0] * 12, "coefficients": [1.0] * 4, "rho": [0.5]}
    layer, cost, recorder = priced("SVMRegressor", (5, 3), kernel_type="RBF", n_supports=4, **vectors)
    assert layer.out.shape == (5, 1)
    assert (layer["w0"].shape, layer.attrs["kernel"]) == ((4, 3), "rbf")
    assert recorder.n_params_model == 12 + 4 + 1
    assert cost.macs == 5 * 4
    layer, cost, _ = priced(
        "SVMClassifier",
        (5, 3),
        outputs=2,
        kernel_type="POLY",
        kernel_params=[1.0, 0.0, 2.0],
        support_vectors=[1.0] * 12,
        coefficients=[1.0] * 8,
        rho=[0.5] * 3,
        vectors_per_class=[2, 1, 1],
        classlabels_ints=[0, 1, 2],
    )
    assert [y.shape for y in layer.outputs] == [(5,), (5, 3)]
    assert layer.attrs["degree"] == 2
    assert cost.macs == 5 * 4 * 3 + 5 * 4 * 2


def test_preparation_of_features():
    assert priced("Binarizer", (5, 3), threshold=0.5)[1].flops == Operations(cmp=15)
    assert priced("Imputer", (5, 3), imputed_value_floats=[1.0])[1].flops == Operations(cmp=15)
    layer, cost, recorder = priced("Scaler", (5, 3), scale=[1.0] * 3, offset=[1.0] * 3)
    assert (cost.flops, recorder.n_params_model) == (Operations(mul=15, add=15), 6)
    assert priced("Normalizer", (5, 3), norm="MAX")[1].flops == Operations(cmp=10, div=15)
    assert priced("Normalizer", (5, 3), norm="L1")[1].flops == Operations(add=25, div=15)
    layer, cost, _ = priced("OneHotEncoder", (INT64, (5, 3)), cats_int64s=[1, 2, 3, 4])
    assert (layer.out.shape, cost.flops) == ((5, 3, 4), Operations())
    layer, cost, _ = priced("FeatureVectorizer", (5, 3), (5, 2), inputdimensions=[3, 2])
    assert (layer.out.shape, cost.mread) == ((5, 5), 4 * 25)
    layer, cost, _ = priced("ArrayFeatureExtractor", (5, 3), (INT64, (2,)))
    assert (layer.out.shape, cost.mread) == ((5, 2), 4 * 10 + 16)


def test_labels():
    layer, cost, _ = priced("LabelEncoder", (STRING, (4,)), keys_strings=["a", "b"], values_int64s=[1, 2])
    assert (layer.op, layer.out.dtype, cost.mwrite) == ("lookup", "int64", 32)
    layer, cost, _ = priced("CategoryMapper", (INT64, (4,)), cats_int64s=[1, 2], cats_strings=["a", "b"])
    assert (layer.out.dtype, cost.mread) == ("string", 32)


def test_trees_of_the_first_kind():
    # tree 0: a root over a leaf and a node over two leaves; tree 1: a root over two leaves
    nodes = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        "nodes_featureids": [0] * 8,
        "nodes_values": [0.5] * 8,
    }
    leaves = {"target_treeids": [0, 0, 0, 1, 1], "target_nodeids": [1, 3, 4, 1, 2], "target_ids": [0] * 5}
    layer, cost, recorder = priced(
        "TreeEnsembleRegressor", (6, 3), n_targets=1, target_weights=[1.0] * 5, **nodes, **leaves
    )
    assert layer.out.shape == (6, 1)
    assert (layer.attrs["depth"], layer.attrs["votes"]) == (2 + 1, 2)
    assert cost.flops == 6 * Operations(cmp=3, add=2)
    assert recorder.n_params_model == 8 + 5
    votes = {f"class_{name[7:]}": ids for name, ids in leaves.items()}
    layer, cost, _ = priced(
        "TreeEnsembleClassifier",
        (6, 3),
        outputs=2,
        class_weights=[1.0] * 5,
        classlabels_int64s=[0, 1],
        **nodes,
        **votes,
    )
    assert [y.shape for y in layer.outputs] == [(6,), (6, 2)]
    assert cost.flops == 6 * Operations(cmp=3, add=2) + Operations(cmp=6)
    nodes["nodes_falsenodeids"][2] = 0
    with pytest.raises(CostError, match="has a tree with a cycle"):
        priced("TreeEnsembleRegressor", (6, 3), target_weights=[1.0] * 5, **nodes, **leaves)


def test_trees_of_the_second_kind():
    tensor = numpy_helper.from_array
    layer, cost, _ = priced(
        "TreeEnsemble",
        (6, 3),
        n_targets=2,
        tree_roots=[0],
        nodes_splits=tensor(np.float32([0.5, 0.7])),
        nodes_modes=tensor(np.uint8([0, 0])),
        nodes_featureids=[0, 1],
        nodes_truenodeids=[1, 0],
        nodes_trueleafs=[0, 1],
        nodes_falsenodeids=[2, 1],
        nodes_falseleafs=[1, 1],
        leaf_targetids=[0, 1, 0],
        leaf_weights=tensor(np.float32([1, 2, 3])),
    )
    assert layer.out.shape == (6, 2)
    assert cost.flops == 6 * Operations(cmp=2, add=1)


def test_a_map_of_unknown_length_becomes_a_row():
    g = Graph()
    kind = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, ()))
    model = g.model({}, g("CastMap", "m", domain="ai.onnx.ml", map_form="DENSE"))
    model.graph.input.insert(0, helper.make_value_info("m", kind))
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    (call,) = read(model).calls
    assert str(call.layer.out.shape) == "(1, m_length)"
