"""Inputs of any batch."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from costcore import Tensor
from costcore.studies.batch_inputs import MAX_VALUES, inputs_of_batch


class Pair(NamedTuple):
    image: object
    scale: object


class Array:
    """An array that is indexed by a list of rows."""

    def __init__(self, rows, dtype="int64"):
        self.rows, self.dtype = rows, dtype
        self.shape = (len(rows), len(rows[0])) if rows else (0, 4)

    def __getitem__(self, indices):
        return Array([self.rows[i] for i in indices])

    def __eq__(self, other):
        return self.rows == other.rows


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (("batch", 3, 224, 224), (5, 3, 224, 224)),
        ((3, "n", 8), (3, 5, 8)),
        ((1, 3, 224, 224), (5, 3, 224, 224)),
        ([1, 3], (5, 3)),
        (("batch",), (5,)),
        ((("batch", 128), "int64"), Tensor((5, 128), "int64")),
        (((2, 128), "int64"), Tensor((5, 128), "int64")),
        (Tensor(("batch", 128), "int64"), Tensor((5, 128), "int64")),
        (Tensor((1, 128), "int64"), Tensor((5, 128), "int64")),
        (((1, 8), (1, 16)), ((5, 8), (5, 16))),
        ((("batch", 8), (16, 4)), ((5, 8), (16, 4))),
        ({"ids": (("batch", 8), "int64"), "n": (8, 8)}, {"ids": Tensor((5, 8), "int64"), "n": (8, 8)}),
        ([("batch", 4), None, "greedy search"], [(5, 4), None, "greedy search"]),
        (Pair(("batch", 3, 8, 8), 2.0), Pair((5, 3, 8, 8), 2.0)),
        (Array([[1, 2], [3, 4]]), Array([[1, 2], [3, 4], [1, 2], [3, 4], [1, 2]])),
        ((("batch", 2), Array([[1, 2], [3, 4]])), ((5, 2), Array([[1, 2], [3, 4]]))),
        (lambda batch: [(3, 8, 8)] * batch, [(3, 8, 8)] * 5),
    ],
)
def test_the_batch_takes_the_place_of_the_name_or_of_first_dimensions(inputs, expected):
    assert inputs_of_batch(inputs)(5) == expected


def test_a_tensor_is_cut_off():
    assert inputs_of_batch(Array([[1], [2], [3]]))(2) == Array([[1], [2]])


def test_a_tensor_whose_values_would_not_be_known_becomes_a_shape():
    batch = MAX_VALUES // 2
    assert len(inputs_of_batch(Array([[1, 2]]))(batch).rows) == batch
    assert inputs_of_batch(Array([[1, 2]], "torch.int64"))(batch + 1) == Tensor((batch + 1, 2), "int64")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (("batch", 3, "height", "width"), "several dimensions, 'batch', 'height', 'width': only the batch has a name"),
        (None, "expected the shapes of inputs with a batch dimension"),
        ({"n": 3}, "expected the shapes of inputs with a batch dimension"),
    ],
)
def test_mistakes(inputs, message):
    with pytest.raises(ValueError, match=message):
        inputs_of_batch(inputs)


def test_no_samples_cannot_be_repeated():
    with pytest.raises(ValueError, match="cannot be repeated: there are none"):
        inputs_of_batch(Array([]))(3)
