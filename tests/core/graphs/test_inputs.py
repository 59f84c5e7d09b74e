"""Shapes of inputs that are given in order, by name, alone or as arrays."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore import CostError
from costcore.graphs import DataflowLog, GraphWriter, given_shapes

NAMES = ("image", "mask")


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        (None, {}),
        ((1, 3, 8), {0: (1, 3, 8)}),
        ([(1, 3, 8), [1, 8]], {0: (1, 3, 8), 1: (1, 8)}),
        (((1, 3, 8), (1, 8)), {0: (1, 3, 8), 1: (1, 8)}),
        ({"mask": (1, 8)}, {1: (1, 8)}),
        (SimpleNamespace(shape=(2, 3)), {0: (2, 3)}),
    ],
)
def test_shapes_by_position(inputs, found):
    assert given_shapes(NAMES, inputs) == found


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"masc": (1, 8)}, CostError, "Did you mean 'mask'"),
        ([(1,), (2,), (3,)], CostError, "3 inputs were given, but the model has 2: image, mask"),
        (["a"], TypeError, "expected a shape such as"),
    ],
)
def test_what_is_no_shape_of_an_input(inputs, error, message):
    with pytest.raises(error, match=message):
        given_shapes(NAMES, inputs)


@pytest.mark.parametrize("kind", [DataflowLog, GraphWriter])
def test_a_frontend_says_what_its_values_are(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind(None)
