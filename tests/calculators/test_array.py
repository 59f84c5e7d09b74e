from __future__ import annotations

import pytest

from costcore.calculators.indexing.gather_scatter import ADDED_BACK, GATHERS, OVERWRITES, PLACED, SCATTERS
from costcore.calculators.layout import COPIES, CROPS, FREE, GENERATED, MOVES, OVERLAPS, PARTS
from costcore.counting.pricing import Pricer
from costcore.ir import Layer, Operations, Tensor
from costcore.trace.call import Call
from tests.calculators.counting import count, dot, largest, total
from tests.calculators.layers import CALCULATORS, cost, moved, operations

INT64 = "int64"


@pytest.mark.parametrize("op", [*COPIES, *PARTS, *OVERLAPS, *MOVES, *CROPS])
def test_moving_elements_is_no_operation(op: str) -> None:
    assert operations(op, {"x": (2, 3)}, (2, 3)) == Operations()
    assert moved(op, {"x": (2, 3)}, (2, 3)) == (6 * 4, 6 * 4)


@pytest.mark.parametrize("op", FREE)
def test_free_operators(op: str) -> None:
    assert cost(op, {"x": (2, 3)}, (3, 2))[:3] == (Operations(), 0, 0)


@pytest.mark.parametrize("op", [*COPIES, *PARTS, *OVERLAPS, "assign"])
def test_layout_operators_are_free_on_demand(op: str) -> None:
    layer = Layer(op, {"x": Tensor((2, 3)), "updates": Tensor((2, 3))}, [Tensor((2, 3))])
    free = Pricer(CALCULATORS, layout="free")(Call(layer, op)).cost
    assert free is not None
    assert free[:3] == (Operations(), 0, 0)


@pytest.mark.parametrize("op", ["concat", "pad", "gather", "cast", "tile"])
def test_other_movements_are_never_free(op: str) -> None:
    layer = Layer(op, {"x": Tensor((2, 3)), "indices": Tensor((2,))}, [Tensor((2, 3))])
    priced = Pricer(CALCULATORS, layout="free")(Call(layer, op)).cost
    assert priced is not None
    assert priced.mwrite == 6 * 4


def test_bytes_of_layout_operators() -> None:
    assert moved("transpose", {"x": (2, 3)}, (3, 2), axes=(1, 0)) == (6 * 4, 6 * 4)
    assert moved("broadcast_to", {"x": (3,)}, (2, 3)) == (3 * 4, 6 * 4)
    assert moved("slice", {"x": (10, 3)}, (2, 3)) == (6 * 4, 6 * 4)
    assert moved("split", {"x": (10, 3)}, (4, 3), (6, 3), axis=0) == (30 * 4, 30 * 4)
    assert moved("split", {"x": (10, 3)}, (4, 3), axis=0) == (12 * 4, 12 * 4)
    assert moved("diagonal", {"x": (5, 5)}, (5,)) == (5 * 4, 5 * 4)
    assert moved("unfold", {"x": (10,)}, (8, 3)) == (10 * 4, 24 * 4)
    assert moved("as_strided", {"x": (10,)}, (4,)) == (4 * 4, 4 * 4)
    assert moved("assign", {"x": (10, 3), "updates": Tensor((2, 3), "float16")}, (10, 3)) == (6 * 2, 6 * 4)


def test_bytes_of_movements() -> None:
    assert moved("concat", {"x0": (2, 3), "x1": (4, 3)}, (6, 3), axis=0) == (18 * 4, 18 * 4)
    assert moved("tile", {"x": (2, 3)}, (4, 9)) == (6 * 4, 36 * 4)
    assert moved("pad", {"x": (2, 3), "value": None}, (4, 5)) == (6 * 4, 20 * 4)
    assert moved("cast", {"x": (6,)}, Tensor((6,), "float16")) == (6 * 4, 6 * 2)
    assert moved("cast", {"x": (5,)}, Tensor((5,), "int4")) == (5 * 4, 3)
    assert moved("one_hot", {"x": Tensor((6,), INT64)}, (6, 10)) == (6 * 8, 60 * 4)
    assert moved("shift", {"x": (1, 9, 4, 4)}, (1, 9, 4, 4)) == (144 * 4, 144 * 4)
    assert moved("im2col", {"x": (1, 2, 4, 4)}, (1, 18, 4)) == (32 * 4, 72 * 4)
    assert moved("center_crop_pad", {"x": (8, 8)}, (4, 4)) == (16 * 4, 16 * 4)


def test_col2im_adds_every_element_onto_zeros() -> None:
    def col2im(columns):
        image = [0] * 5
        for start in range(3):
            for tap in range(3):
                image[start + tap] = columns[tap, start] + image[start + tap]
        return image

    assert operations("col2im", {"x": (1, 3, 3)}, (1, 1, 1, 5)) == count(col2im, (3, 3)) == Operations(add=9)


@pytest.mark.parametrize("op", GENERATED)
def test_new_values_are_only_written(op: str) -> None:
    assert cost(op, {}, Tensor((2, 3), INT64))[:3] == (Operations(), 0, 6 * 8)
    assert moved(op, {"like": (2, 3), "x0": None}, (2, 3)) == (0, 6 * 4)
    assert moved(op, {"x0": Tensor((), INT64)}, (2, 3)) == (8, 6 * 4)


@pytest.mark.parametrize("op", GATHERS)
def test_gather_reads_what_it_writes_and_the_indices(op: str) -> None:
    operands = {"x": Tensor((100, 3), "float16"), "indices": Tensor((4,), INT64)}
    assert moved(op, operands, Tensor((4, 3), "float16"), axis=0) == (12 * 2 + 4 * 8, 12 * 2)
    assert operations(op, operands, Tensor((4, 3), "float16"), axis=0) == Operations()
    two = {"x": (9, 9), "indices0": Tensor((4,), INT64), "indices1": Tensor((4,), INT64)}
    assert moved(op, two, (4,)) == (4 * 4 + 2 * 4 * 8, 4 * 4)


def test_embedding_reads_the_rows_at_the_weights_own_size() -> None:
    operands = {"x": Tensor((2, 5), "int32"), "w": Tensor((1000, 8), "float16", "param")}
    assert moved("embedding", operands, (2, 5, 8)) == (10 * 4 + 80 * 2, 80 * 4)
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
    assert moved("embedding_bag", operands, (2, 4)) == (6 * 8 + 24 * 4, 8 * 4)
    weights = {**operands, "per_sample_weights": (6,)}
    assert operations("embedding_bag", weights, (2, 4)) == count(weighted, (2, 3, 4), (3,))


@pytest.mark.parametrize("op", SCATTERS)
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("none", Operations()),
        ("add", Operations(add=6)),
        ("mul", Operations(mul=6)),
        ("max", Operations(cmp=6)),
        ("min", Operations(cmp=6)),
        ("mean", Operations(add=6, div=30)),
    ],
)
def test_scatter_joins_every_update(op: str, reduction: str, expected: Operations) -> None:
    operands = {"x": (10, 3), "indices": Tensor((2,), INT64), "updates": (2, 3)}
    assert operations(op, operands, (10, 3), reduction=reduction) == expected
    assert moved(op, operands, (10, 3), reduction=reduction) == (30 * 4 + 2 * 8 + 6 * 4, 30 * 4)


def test_a_scalar_update_is_joined_at_every_index() -> None:
    operands = {"x": (10,), "indices": Tensor((4,), INT64), "updates": None}
    assert operations("scatter_elements", operands, (10,), reduction="add") == Operations(add=4)


@pytest.mark.parametrize("op", OVERWRITES)
def test_what_is_overwritten_is_not_read(op: str) -> None:
    assert moved(op, {"x": (10, 3), "updates": (2, 3)}, (10, 3)) == ((24 + 6) * 4, 30 * 4)
    assert operations(op, {"x": (10, 3), "updates": (2, 3)}, (10, 3)) == Operations()


@pytest.mark.parametrize("op", PLACED)
def test_gradients_of_selections_are_put_back(op: str) -> None:
    assert cost(op, {"dy": (2, 3)}, (10, 3))[:3] == (Operations(), 6 * 4, 30 * 4)


@pytest.mark.parametrize("op", ADDED_BACK)
def test_gradients_of_gathering_are_added_back(op: str) -> None:
    operands = {"dy": (2, 3), "indices": Tensor((2,), INT64), "w": (10, 3)}
    assert cost(op, operands, (10, 3))[:3] == (Operations(add=6), 6 * 4 + 2 * 8, 30 * 4)


def test_compress_reads_what_it_may_write() -> None:
    operands = {"x": (10, 3), "condition": Tensor((10,), "bool")}
    assert moved("compress", operands, (10, 3), axis=0) == (30 * 4 + 10, 30 * 4)
