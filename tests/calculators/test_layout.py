from __future__ import annotations

import pytest

from costcore.ir import Layer, Operations, Tensor
from tests.calculators.counting_scalar import count
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations, priced

COPIES = declared("layout", "COPIES")
CREATED = declared("layout", "CREATED")
CROPS = declared("layout", "CROPS")
DATA_MOVEMENTS = declared("layout", "DATA_MOVEMENTS")
OVERLAPPING = declared("layout", "OVERLAPPING")
SLICES = declared("layout", "SLICES")
ZERO_COST = declared("layout", "ZERO_COST")

INT64 = "int64"


@pytest.mark.parametrize("op", [*COPIES, *SLICES, *OVERLAPPING, *DATA_MOVEMENTS, *CROPS])
def test_moving_elements_is_no_operation(op: str) -> None:
    assert operations(op, {"x": (2, 3)}, (2, 3)) == Operations()
    assert bytes_moved(op, {"x": (2, 3)}, (2, 3)) == (6 * 4, 6 * 4)


@pytest.mark.parametrize("op", ZERO_COST)
def test_free_operators(op: str) -> None:
    assert layer_cost(op, {"x": (2, 3)}, (3, 2))[:3] == (Operations(), 0, 0)


@pytest.mark.parametrize("op", [*COPIES, *SLICES, *OVERLAPPING, "assign"])
def test_layout_operators_are_free_on_demand(op: str) -> None:
    layer = Layer(op, {"x": Tensor((2, 3)), "updates": Tensor((2, 3))}, [Tensor((2, 3))])
    free = priced(layer, layout="free")
    assert free[:3] == (Operations(), 0, 0)


@pytest.mark.parametrize("op", ["concat", "pad", "gather", "cast", "tile"])
def test_other_movements_are_never_free(op: str) -> None:
    layer = Layer(op, {"x": Tensor((2, 3)), "indices": Tensor((2,))}, [Tensor((2, 3))])
    moved = priced(layer, layout="free")
    assert moved.mwrite == 6 * 4


def test_bytes_of_layout_operators() -> None:
    assert bytes_moved("transpose", {"x": (2, 3)}, (3, 2), axes=(1, 0)) == (6 * 4, 6 * 4)
    assert bytes_moved("broadcast_to", {"x": (3,)}, (2, 3)) == (3 * 4, 6 * 4)
    assert bytes_moved("slice", {"x": (10, 3)}, (2, 3)) == (6 * 4, 6 * 4)
    assert bytes_moved("split", {"x": (10, 3)}, (4, 3), (6, 3), axis=0) == (30 * 4, 30 * 4)
    assert bytes_moved("split", {"x": (10, 3)}, (4, 3), axis=0) == (12 * 4, 12 * 4)
    assert bytes_moved("diagonal", {"x": (5, 5)}, (5,)) == (5 * 4, 5 * 4)
    assert bytes_moved("unfold", {"x": (10,)}, (8, 3)) == (10 * 4, 24 * 4)
    assert bytes_moved("as_strided", {"x": (10,)}, (4,)) == (4 * 4, 4 * 4)
    assert bytes_moved("assign", {"x": (10, 3), "updates": Tensor((2, 3), "float16")}, (10, 3)) == (6 * 2, 6 * 4)


def test_bytes_of_movements() -> None:
    assert bytes_moved("concat", {"x0": (2, 3), "x1": (4, 3)}, (6, 3), axis=0) == (18 * 4, 18 * 4)
    assert bytes_moved("tile", {"x": (2, 3)}, (4, 9)) == (6 * 4, 36 * 4)
    assert bytes_moved("pad", {"x": (2, 3), "value": None}, (4, 5)) == (6 * 4, 20 * 4)
    assert bytes_moved("cast", {"x": (6,)}, Tensor((6,), "float16")) == (6 * 4, 6 * 2)
    assert bytes_moved("cast", {"x": (5,)}, Tensor((5,), "int4")) == (5 * 4, 3)
    assert bytes_moved("one_hot", {"x": Tensor((6,), INT64)}, (6, 10)) == (6 * 8, 60 * 4)
    assert bytes_moved("shift", {"x": (1, 9, 4, 4)}, (1, 9, 4, 4)) == (144 * 4, 144 * 4)
    assert bytes_moved("im2col", {"x": (1, 2, 4, 4)}, (1, 18, 4)) == (32 * 4, 72 * 4)
    assert bytes_moved("center_crop_pad", {"x": (8, 8)}, (4, 4)) == (16 * 4, 16 * 4)


def test_col2im_adds_every_element_onto_zeros() -> None:
    def col2im(columns):
        image = [0] * 5
        for start in range(3):
            for tap in range(3):
                image[start + tap] = columns[tap, start] + image[start + tap]
        return image

    assert operations("col2im", {"x": (1, 3, 3)}, (1, 1, 1, 5)) == count(col2im, (3, 3)) == Operations(add=9)


@pytest.mark.parametrize("op", CREATED)
def test_new_values_are_only_written(op: str) -> None:
    assert layer_cost(op, {}, Tensor((2, 3), INT64))[:3] == (Operations(), 0, 6 * 8)
    assert bytes_moved(op, {"like": (2, 3), "x0": None}, (2, 3)) == (0, 6 * 4)
    assert bytes_moved(op, {"x0": Tensor((), INT64)}, (2, 3)) == (8, 6 * 4)


def test_repeat_backward():
    result = layer_cost("repeat_backward", {"dy": (2, 6)}, (2, 3))
    assert (result.flops, result.mread, result.mwrite) == (Operations(add=6), 4 * 12, 4 * 6)


@pytest.mark.parametrize("diagonal", [-3, -1, 0, 1, 2, 9])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 5), (5, 3)])
def test_a_triangle_reads_the_elements_it_keeps(rows, columns, diagonal):
    kept = {
        "tril": sum(1 for i in range(rows) for j in range(columns) if j - i <= diagonal),
        "triu": sum(1 for i in range(rows) for j in range(columns) if j - i >= diagonal),
    }
    shape = (2, rows, columns)
    for op, elements in kept.items():
        moved = bytes_moved(op, {"x": shape}, shape, diagonal=diagonal)
        assert moved == (4 * 2 * elements, 4 * 2 * rows * columns)
        assert bytes_moved(op, {"x": shape}, shape, diagonal="data")[0] == 4 * 2 * rows * columns


def test_a_pad_that_cuts_reads_what_it_keeps():
    assert bytes_moved("pad", {"x": (3, 4)}, (5, 6), padding=(1, 1, 1, 1)) == (48, 120)
    assert bytes_moved("pad", {"x": (3, 4)}, (2, 2), padding=(-1, -1, 0, -1)) == (16, 16)
    assert bytes_moved("pad", {"x": (3, 4)}, (2, 6), padding=(1, 1, 0, -1)) == (32, 48)
