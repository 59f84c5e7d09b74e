"""What is assumed only where tensors have more than 2**20 elements, so that their values are not kept."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore.analyses.sizes.capture import assumed_above, note_of
from costcore.ir import Layer, Tensor
from costcore.numbers import symbol_of
from tests.core.traces import Assumption

N, M = symbol_of("n"), symbol_of("m")
MADE = Assumption("scores are balanced", "net.py:3")


def found(made, *tensors):
    """Return which elements decide over an assumption, of runs at n = 1, 256 and 257, and m = 3."""
    points = [(1, 3), (256, 3), (257, 3)]
    samples = SimpleNamespace(symbols=("n", "m"), points=points, assumed={MADE: {points[i] for i in made}})
    layer = Layer("relu", {"x": tensors[0]}, list(tensors[1:]))
    return [
        elements for _, elements, _ in assumed_above(samples, SimpleNamespace(calls=[SimpleNamespace(layer=layer)]))
    ]


SCORES, TWICE, SMALL, OFTEN = (Tensor(shape) for shape in ((4096, N), (4096, N, 1 + M // 4), (N, 4000), (8192, N)))
"""At n = 257 and not at 256, the first two have more than 2**20 elements; of the others none, and that at 256 too."""


@pytest.mark.parametrize(
    ("made", "tensors", "expected"),
    [
        ([2], (SCORES, SMALL, OFTEN), [4096 * N]),
        ([2], (TWICE, SCORES), [4096 * N]),  # the shorter formula
        ([2], (SCORES, Tensor(TWICE.shape, "int64")), [4096 * N * (1 + M // 4)]),  # indices, if there are any
        ([2], (SCORES, Tensor(TWICE.shape, "bool")), [4096 * N * (1 + M // 4)]),
        ([2], (SCORES, Tensor(OFTEN.shape, "int64")), [4096 * N]),  # but not indices that are large elsewhere
        ([1, 2], (SCORES, OFTEN), [8192 * N]),
        ([0, 2], (SCORES, OFTEN), []),
        ([0, 1, 2], (SCORES, SMALL), []),
    ],
)
def test_the_tensor_that_is_large_where_an_assumption_is_made_decides(made, tensors, expected):
    assert found(made, *tensors) == expected


def test_the_note_states_the_condition():
    assert note_of((MADE, 4096 * N, 2**20)) == (
        f"assumed where 4096*n exceeds 1,048,576, as values of larger tensors are not kept: {MADE}"
    )
