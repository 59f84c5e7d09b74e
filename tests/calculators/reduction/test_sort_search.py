from __future__ import annotations

from itertools import permutations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, maximum, minimum, select
from tests.calculators.layer_costs import bytes_moved, operations


# n * ceil(log2 n): 1 * 0, 2 * 1, 3 * 2, 5 * 3, 8 * 3, 9 * 4
@pytest.mark.parametrize(("n", "bound"), [(1, 0), (2, 2), (3, 6), (5, 15), (8, 24), (9, 36)])
@pytest.mark.parametrize("op", ["sort", "argsort", "quantile"])
def test_sorts_are_held_to_the_bound_of_comparisons(op: str, n: int, bound: int) -> None:
    assert operations(op, {"x": (7, n)}, (7, n), axis=1) == Operations(cmp=7 * bound)
    assert operations(op, {"x": (n, 7)}, (n, 7), axis=0) == Operations(cmp=7 * bound)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_no_order_needs_more_comparisons_than_the_bound(n: int) -> None:
    most = max(count(lambda x, order=order: sorted(x[list(order)]), (n,)).cmp for order in permutations(range(n)))
    assert most <= operations("sort", {"x": (n,)}, (n,), axis=0).cmp


# n * ceil(log2(k + 1)), at most n * ceil(log2 n): 8 * 1, 8 * 2, 8 * 2, 8 * 3; 8 of 8 would be 8 * 4; 5 * 3, 1 * 0
@pytest.mark.parametrize(
    ("n", "k", "bound"), [(8, 1, 8), (8, 2, 16), (8, 3, 16), (8, 4, 24), (8, 8, 24), (5, 5, 15), (1, 1, 0)]
)
def test_selections_are_held_to_the_bound_of_insertions(n: int, k: int, bound: int) -> None:
    assert operations("topk", {"x": (7, n)}, (7, k), axis=1, k=k) == Operations(cmp=7 * bound)
    assert operations("kth_value", {"x": (n, 7)}, (1, 7), axis=0, k=k) == Operations(cmp=7 * bound)


# the middle of 5 is the 3rd, 5 * ceil(log2(4)); of 8 the 4th, 8 * ceil(log2(5)); of 2 the 1st, 2 * 1; of 100 the 50th
@pytest.mark.parametrize(("n", "bound"), [(5, 10), (8, 24), (2, 2), (1, 0), (100, 600)])
def test_a_median_is_the_middle_element(n: int, bound: int) -> None:
    assert operations("median", {"x": (7, n)}, (7,), axis=1) == Operations(cmp=7 * bound)
    assert operations("median", {"x": (n,)}, ()) == Operations(cmp=bound)


def select_smallest(values, k):
    """Insert each value into the k smallest so far, which are in order."""
    kept = []
    for value in values:
        low, high = 0, len(kept)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if value < kept[middle] else (middle + 1, high)
        kept.insert(low, value)
        del kept[k:]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_no_order_needs_more_insertions_than_the_bound(k: int) -> None:
    orders = permutations(range(6))
    most = max(count(lambda x, order=order: select_smallest(x[list(order)], k), (6,)).cmp for order in orders)
    assert most <= operations("topk", {"x": (6,)}, (k,), axis=0, k=k).cmp


def test_without_an_axis_and_without_axes() -> None:
    assert operations("sort", {"x": (2, 4)}, (8,)) == Operations(cmp=8 * 3)
    assert operations("sort", {"x": ()}, (), axis=0) == Operations()


def test_topk_writes_values_and_indices() -> None:
    assert bytes_moved("topk", {"x": (2, 10)}, (2, 3), Tensor((2, 3), "int64"), axis=1, k=3) == (20 * 4, 6 * 4 + 6 * 8)


def test_unique_and_mode_compare_neighbors_after_sorting() -> None:
    assert operations("unique", {"x": (2, 4)}, (8,)) == Operations(cmp=8 * 3 + 7)
    assert operations("mode", {"x": (2, 4)}, (2,), axis=1) == Operations(cmp=2 * (4 * 2 + 3))


def bisect(rows, value):
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < value:
            low = middle + 1
        else:
            high = middle


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_searching_bisects(n: int) -> None:
    most = max(count(lambda row, at=at: bisect(row, at / (n + 1)), (n,)).cmp for at in range(n + 2))
    assert operations("search_sorted", {"x": (5,), "sorted": (n,)}, (5,)) == Operations(cmp=5 * most)


def test_nonzero_elements_are_compared_and_indexed() -> None:
    assert operations("nonzero", {"x": (2, 3)}, Tensor((6, 2), "int64")) == Operations(cmp=6)
    assert bytes_moved("nonzero", {"x": (2, 3)}, Tensor((6, 2), "int64")) == (6 * 4, 12 * 8)


def overlap(a, b, area_a, area_b, threshold):
    height = minimum(a[2], b[2]) - maximum(a[0], b[0])
    width = minimum(a[3], b[3]) - maximum(a[1], b[1])
    both = maximum(height, 0) * maximum(width, 0)
    return select(both / (area_a + area_b - both) > threshold, 0, 1)


def test_non_max_suppression_compares_all_pairs_at_most() -> None:
    def suppress(boxes):
        areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in boxes]
        for i in range(5):
            for j in range(i):
                overlap(boxes[i], boxes[j], areas[i], areas[j], 0.5)

    expected = count(suppress, (5, 4)) + Operations(cmp=5 * 3)
    assert operations("non_max_suppression", {"x0": (5, 4), "x1": (5,)}, Tensor((5,), "int64")) == expected
    pair = Operations(mul=1, add=4, div=1, cmp=7)
    classes = Operations(cmp=3 * 5 * 3) + 3 * 10 * pair + 5 * Operations(mul=1, add=2)
    assert operations("non_max_suppression", {"x0": (1, 5, 4), "x1": (1, 3, 5)}, (9, 3)) == classes


def test_membership():
    # 8 values: a sort of 8 * 3, a search of 4 and a comparison for each of 100
    assert operations("is_in", {"x": (100,), "values": (8,)}, (100,)) == Operations(cmp=24 + 100 * 5)
    # 2 elements are compared with all 8 faster than that
    assert operations("is_in", {"x": (2,), "values": (8,)}, (2,)) == Operations(cmp=16)
    assert operations("is_in", {"x": (7,), "values": None}, (7,)) == Operations(cmp=7)
