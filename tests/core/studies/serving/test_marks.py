"""Which operands of a pass are in the cache, and what copies of them cost, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore import Trace
from costcore.counting import Pricer
from costcore.ir import BITS, Cost, Layer, Operations, Tensor
from costcore.studies.serving.cached_model import CacheStorages, computes_nothing, is_move
from costcore.studies.serving.passes import Kind, Widths, tallies_of, times_cached, with_marks
from costcore.studies.serving.tallies import StoredWeight
from tests.core.traces import Call, CallCost, Run
from tests.registered import calculators

PRICER = Pricer(calculators())
CACHE = CacheStorages(frozenset({1}), frozenset())
WIDTHS = Widths(16, Fraction(8), lambda _, tensor: StoredWeight(Fraction(16), BITS[tensor.dtype], 16))


def trace(*calls: tuple[str, list[tuple[tuple[int, ...], int]], tuple[int, ...], int]) -> Trace:
    """Calls by operator, shape and storage of each input, shape and storage of the output."""
    records = []
    for op, inputs, shape, storage in calls:
        tensors = {
            f"x{i}" if len(inputs) > 1 else "x": Tensor(size, "float16", role="const" if size == () else "data")
            for i, (size, _) in enumerate(inputs)
        }
        layer = Layer(op, tensors, [Tensor(shape, "float16")])
        records.append(PRICER(Call(layer, op, storages=(*(each for _, each in inputs), storage))))
    return Trace(tuple(records), Run())


@pytest.mark.parametrize(
    ("cost", "is_nothing", "moves"),
    [
        (Cost(Operations(), 3, 5, {}), True, True),
        (Cost(0, 3, 5, {}), True, True),
        (Cost(Operations(), 3, 0, {}), True, True),
        (Cost(Operations(), 0, 5, {}), True, True),
        (Cost(Operations(), 1, 0, {}), True, True),
        (Cost(Operations(), 0, 1, {}), True, True),
        (Cost(Operations(), 0, 0, {}), True, False),
        (Cost(1, 3, 5, {}), False, False),
        (Cost(Operations(add=1), 3, 5, {}), False, False),
        (None, None, False),
    ],
)
def test_a_move_reads_or_writes_and_computes_nothing(cost, is_nothing, moves):
    record = CallCost(Call(Layer("copy", {}, []), "copy"), cost)
    assert is_move(record) == moves
    assert cost is None or computes_nothing(cost) == is_nothing
    assert bool(tallies_of([record], WIDTHS).by_op) == (cost is not None and (moves or not is_nothing))


@pytest.mark.parametrize(
    ("first", "times"),
    [
        (("copy", [((1, 4), 7)], (3, 4), 8), 3),  # each element three times
        (("copy", [((1,), 7)], (5,), 8), 5),
        (("copy", [((3, 4), 7)], (3, 4), 8), 1),
        (("copy", [((0, 4), 7)], (3, 4), 8), 1),
        (("relu", [((1, 4), 7)], (3, 4), 8), 1),  # computes
        (("concat", [((1, 4), 7), ((2, 4), 9)], (3, 4), 8), 1),
    ],
)
def test_copies_before_the_cache_count_how_often_it_has_each_element(first, times):
    found = trace(first, ("concat", [((6, 4), 1), ((3, 4), 8)], (9, 4), 1))
    assert times_cached(found, CACHE) == times


@pytest.mark.parametrize(
    ("inputs", "shape", "stored"),
    [
        ([((2, 4), 1)], (2, 4), 8),
        ([((2, 4), 1)], (6, 4), 8),  # repeated
        ([((2, 4), 1), ((0, 4), 5)], (2, 4), 8),  # of nothing else
        ([((2, 4), 1), ((), 5)], (2, 4), 8),
        ([((2, 4), 1), ((3, 4), 1)], (5, 4), 20),
        ([((2, 4), 1), ((1,), 5)], (2, 4), None),  # one element that is not cached
        ([((2, 4), 1), ((1, 4), 5)], (3, 4), None),
        ([((2, 4), 5)], (2, 4), None),
    ],
)
def test_copies_of_the_cache_are_in_it(inputs, shape, stored):
    (record,) = with_marks(trace(("concat", inputs, shape, 9)), CACHE, PRICER)
    out = record.call.layer.out
    assert (out.role == "state", out.stored_size) == (stored is not None, out.size if stored is None else stored)


def test_what_copies_and_products_of_the_cache_cost():
    """Numbers of the cache have 8 bits, others 16; a copy of 8 cached and 4 other numbers is no cache itself.

    A copy of 4 numbers into a cache of 12 reads 8 cached ones, and writes 12.
    """
    joined, appended, product, scaled = with_marks(
        trace(
            ("concat", [((2, 4), 1), ((1, 4), 5)], (3, 4), 9),
            ("concat", [((2, 4), 1), ((1, 4), 5)], (3, 4), 1),
            ("matmul", [((5, 4), 6), ((4, 3), 1)], (5, 3), 7),
            ("mul", [((5, 4), 6), ((5, 4), 6)], (5, 4), 7),
        ),
        CACHE,
        PRICER,
    )
    at = Kind("concat", 0, 0, False)
    found = tallies_of([joined], WIDTHS).by_op[at]
    assert (found.n_calls, found.load_act, found.store_kv, found.copied) == (1, 4 * 16, 0, 8 * 8 + 4 * 16)
    assert (found.load_kv, found.store_act) == (0, 0)
    found = tallies_of([appended], WIDTHS).by_op[at]
    assert (found.load_act, found.store_kv, found.copied) == (4 * 16, 4 * 8, 8 * 8 + 12 * 8 + 4 * 16)
    found = tallies_of([product], WIDTHS).by_op[Kind("matmul", 0, 0, False)]
    assert (found.macs, found.cache_macs, found.expand_macs) == (60, 60, 0)
    assert (found.load_act, found.load_kv, found.store_act) == (20 * 16, 12 * 8, 15 * 16)
    found = tallies_of([scaled, scaled], WIDTHS).by_op[Kind("mul", 0, 0, False)]
    assert (found.n_calls, found.flops, found.load_act, found.load_kv) == (2, 2 * 20, 2 * 40 * 16, 0)
