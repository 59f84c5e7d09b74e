from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, largest, measure, tanh
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

FEATURES = declared("classical_ml", "FEATURES")
KERNELS = declared("classical_ml", "KERNELS")
TRANSFORMS = declared("classical_ml", "TRANSFORMS")

SETTINGS = {"threshold": 0.4, "missing": 0.1, "value": 0.2, "offset": 0.3, "scale": 2.0}


@pytest.mark.parametrize("op", sorted(FEATURES))
def test_features_are_their_definitions(op: str) -> None:
    assert measure(FEATURES[op].definition, "x", **SETTINGS)[1] == FEATURES[op].operations
    assert operations(op, {"x": (3, 4)}, (3, 4)) == 12 * FEATURES[op].operations


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_transforms_are_their_definitions(name: str) -> None:
    assert measure(TRANSFORMS[name].definition, "x")[1] == TRANSFORMS[name].operations


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels_are_their_definitions(name: str) -> None:
    assert measure(KERNELS[name].definition, "s", gamma=0.5, shift=1.0, degree=3)[1] == KERNELS[name].operations


def test_rows_divided_by_their_maximum() -> None:
    def definition(x):
        for row in x:
            most = largest(row)
            [value / most for value in row]

    assert operations("max_normalize", {"x": (2, 5)}, (2, 5), axis=(1,)) == count(definition, (2, 5))


def test_linear_models() -> None:
    given = {"x": (3, 4), "w": (2, 4), "b": (2,)}
    plain = layer_cost("linear_model", given, (3, 2))
    assert (plain.flops, plain.macs) == (Operations(fma=24), 24)
    # the softmax of 3 rows of 2, and one comparison a row
    chosen = operations("linear_model", given, Tensor((3,), "int64"), (3, 2), transform="softmax", classify=True)
    assert chosen == Operations(fma=24) + Operations(add=3, div=6, special=6) + Operations(cmp=3)
    assert operations("linear_model", given, (3, 2), transform="logistic") == Operations(fma=24) + 6 * Operations(
        add=2, div=1, special=1
    )


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "rbf"])
def test_support_vectors_of_a_regressor(kernel: str) -> None:
    def definition(x, vectors, weights):
        for row in x:
            values = []
            for vector in vectors:
                if kernel == "rbf":
                    difference = [a - b for a, b in zip(row, vector, strict=True)]
                    values.append(exp(dot(difference, difference) * -0.5))
                    continue
                product = dot(row, vector)
                if kernel != "linear":
                    product = dot([product], [0.5], start=1.0)
                curved = {"linear": lambda s: s, "poly": lambda s: s * s * s, "sigmoid": tanh}
                values.append(curved[kernel](product))
            dot(values, weights, start=0.5)

    given = {"x": (2, 3), "w0": (5, 3), "w1": (5,)}
    result = layer_cost("support_vectors", given, (2, 1), kernel=kernel, degree=3, classes=1)
    assert result.flops == count(definition, (2, 3), (5, 3), (5,))
    assert result.macs == 10 + (0 if kernel == "rbf" else 30)


def test_support_vectors_of_a_classifier() -> None:
    # 2 rows, 5 vectors of 3, 3 classes: 10 kernels, 2 sums of each, 3 pairs a row
    given = {"x": (2, 3), "w0": (5, 3), "w1": (10,)}
    result = layer_cost("support_vectors", given, (2,), (2, 3), kernel="linear", classes=3, scores=3, probability=True)
    pairs = 6 * (Operations(fma=1, cmp=1) + Operations(add=2, div=1, special=1))
    assert result.flops == Operations(mul=10, fma=20) + Operations(fma=20) + pairs
    assert result.macs == 30 + 20


def test_trees_read_what_lies_on_their_paths() -> None:
    given = {"x": (4, 100), "w0": (50,), "w1": (60,)}
    settings = {"depth": 3 + 2, "votes": 2, "scores": 1}
    assert operations("tree_ensemble", given, (4, 1), **settings) == 4 * Operations(cmp=5, add=2)
    assert bytes_moved("tree_ensemble", given, (4, 1), **settings) == (4 * (20 + 20 + 8), 16)
    assert operations("tree_ensemble", given, (4, 1), **settings, aggregate="max") == 4 * Operations(cmp=5 + 2)
    averaged = operations("tree_ensemble", given, (4, 1), **settings, aggregate="average")
    assert averaged == 4 * Operations(cmp=5, add=2, div=1)
