"""Gathering and scattering: bytes, and the operations of joined updates."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

GATHER_GRADIENTS = declared("indexing", "GATHER_GRADIENTS")
GATHERS = declared("indexing", "GATHERS")
OVERWRITES = declared("indexing", "OVERWRITES")
SCATTERS = declared("indexing", "SCATTERS")
SELECTION_GRADIENTS = declared("indexing", "SELECTION_GRADIENTS")

INT64 = "int64"


@pytest.mark.parametrize("op", GATHERS)
def test_gather_reads_what_it_writes_and_the_indices(op: str) -> None:
    operands = {"x": Tensor((100, 3), "float16"), "indices": Tensor((4,), INT64)}
    assert bytes_moved(op, operands, Tensor((4, 3), "float16"), axis=0) == (12 * 2 + 4 * 8, 12 * 2)
    assert operations(op, operands, Tensor((4, 3), "float16"), axis=0) == Operations()
    two = {"x": (9, 9), "indices0": Tensor((4,), INT64), "indices1": Tensor((4,), INT64)}
    assert bytes_moved(op, two, (4,)) == (4 * 4 + 2 * 4 * 8, 4 * 4)


@pytest.mark.parametrize("op", SCATTERS)
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("none", Operations()),
        ("add", Operations(add=6)),
        ("mul", Operations(mul=6)),
        ("div", Operations(div=6)),
        ("max", Operations(cmp=6)),
        ("min", Operations(cmp=6)),
        ("mean", Operations(add=6, div=30)),
    ],
)
def test_scatter_joins_every_update(op: str, reduction: str, expected: Operations) -> None:
    operands = {"x": (10, 3), "indices": Tensor((2,), INT64), "updates": (2, 3)}
    assert operations(op, operands, (10, 3), reduction=reduction) == expected
    assert bytes_moved(op, operands, (10, 3), reduction=reduction) == (30 * 4 + 2 * 8 + 6 * 4, 30 * 4)


def test_a_scalar_update_is_joined_at_every_index() -> None:
    operands = {"x": (10,), "indices": Tensor((4,), INT64), "updates": None}
    assert operations("scatter_elements", operands, (10,), reduction="add") == Operations(add=4)


@pytest.mark.parametrize("op", OVERWRITES)
def test_what_is_overwritten_is_not_read(op: str) -> None:
    assert bytes_moved(op, {"x": (10, 3), "updates": (2, 3)}, (10, 3)) == ((24 + 6) * 4, 30 * 4)
    assert operations(op, {"x": (10, 3), "updates": (2, 3)}, (10, 3)) == Operations()


@pytest.mark.parametrize("op", SELECTION_GRADIENTS)
def test_gradients_of_selections_are_put_back(op: str) -> None:
    assert layer_cost(op, {"dy": (2, 3)}, (10, 3))[:3] == (Operations(), 6 * 4, 30 * 4)


@pytest.mark.parametrize("op", GATHER_GRADIENTS)
def test_gradients_of_gathering_are_added_back(op: str) -> None:
    operands = {"dy": (2, 3), "indices": Tensor((2,), INT64), "w": (10, 3)}
    assert layer_cost(op, operands, (10, 3))[:3] == (Operations(add=6), 6 * 4 + 2 * 8, 30 * 4)


def test_compress_reads_what_it_may_write() -> None:
    operands = {"x": (10, 3), "condition": Tensor((10,), "bool")}
    assert bytes_moved("compress", operands, (10, 3), axis=0) == (30 * 4 + 10, 30 * 4)
