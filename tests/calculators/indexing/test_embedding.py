"""Embeddings, bags of embeddings, and their gradients."""

from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, fma, largest, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations

INT64 = "int64"


def test_embedding_reads_the_rows_at_the_weights_own_size() -> None:
    operands = {"x": Tensor((2, 5), "int32"), "w": Tensor((1000, 8), "float16", "param")}
    assert bytes_moved("embedding", operands, (2, 5, 8)) == (10 * 4 + 80 * 2, 80 * 4)
    assert operations("embedding", operands, (2, 5, 8)) == Operations()


def test_embedding_bag() -> None:
    def summed(rows):
        return [total(row[j] for row in bag) for bag in rows for j in range(4)]

    def mean(rows):
        return [total(row[j] for row in bag) / 3 for bag in rows for j in range(4)]

    def most(rows):
        return [largest([row[j] for row in bag]) for bag in rows for j in range(4)]

    def weighted(rows, weights):
        return [dot([row[j] for row in bag], weights) for bag in rows for j in range(4)]

    operands = {"x": Tensor((6,), INT64), "w": (100, 4)}
    assert operations("embedding_bag", operands, (2, 4)) == count(summed, (2, 3, 4))
    assert operations("embedding_bag", operands, (2, 4), mode="mean") == count(mean, (2, 3, 4))
    assert operations("embedding_bag", operands, (2, 4), mode="max") == count(most, (2, 3, 4))
    assert bytes_moved("embedding_bag", operands, (2, 4)) == (6 * 8 + 24 * 4, 8 * 4)
    weights = {**operands, "per_sample_weights": (6,)}
    assert operations("embedding_bag", weights, (2, 4)) == count(weighted, (2, 3, 4), (3,))


def test_more_bags_than_indices_are_empty_in_part() -> None:
    operands = {"x": Tensor((2,), INT64), "w": (9, 4)}
    assert operations("embedding_bag", operands, (3, 4)) == Operations()
    assert operations("embedding_bag", operands, (3, 4), mode="mean") == Operations(div=8)
    weights = {**operands, "per_sample_weights": (2,)}
    assert operations("embedding_bag", weights, (3, 4)) == Operations(mul=8)


def test_gradients_of_bags():
    def added(dy, weights):
        for bag, rows in ((0, (0, 1)), (1, (2, 3, 4))):
            for i in rows:
                [fma(slope, weights[i], 0.0) for slope in dy[bag]]

    given = {"dy": (2, 4), "x": INDICES}
    back = "embedding_bag_backward"
    assert operations(back, given, (9, 4), mode="sum") == Operations(add=20)
    assert operations(back, given, (9, 4), mode="mean") == Operations(add=20, div=8)
    assert operations(back, given, (9, 4), mode="max") == Operations(add=8)
    weighted = given | {"per_sample_weights": (5,)}
    assert operations(back, weighted, (9, 4), mode="sum") == count(added, (2, 4), (5,))


def test_gradient_of_the_weights_of_a_bag():
    def slopes(dy, w):
        for bag, rows in ((0, (0, 1)), (1, (2, 3, 4))):
            [dot(dy[bag], w[i]) for i in rows]

    result = layer_cost("embedding_bag_weights_backward", {"dy": (2, 4), "w": (9, 4), "x": INDICES}, (5,))
    assert result[:3] == (count(slopes, (2, 4), (9, 4)), 4 * 8 + 4 * 20 + 8 * 5, 4 * 5)


def test_an_embedding_scaled_by_frequency():
    """5 counts; 20 divisions and additions."""
    result = layer_cost("scaled_embedding_backward", {"dy": (5, 4), "x": INDICES}, (9, 4))
    assert result[:3] == (Operations(add=25, div=20), 4 * 20 + 40, 4 * 36)


INDICES = Tensor((5,), "int64")
