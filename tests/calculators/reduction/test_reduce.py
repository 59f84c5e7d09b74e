from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import (
    CountingScalar,
    count,
    dot,
    execute,
    largest,
    measure,
    minimum,
    run,
    select,
    total,
)
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

REDUCTIONS = declared("reduction", "REDUCTIONS")


def define(op: str, x):
    """Execute the definition of ``op`` on an array."""

    def along(condition, a, b):
        return [select(c, p, q) for c, p, q in np.broadcast(condition, a, b)]

    words = {
        "sum": total,
        "prod": lambda values: reduce(lambda a, b: a * b, values),
        "max": largest,
        "min": lambda values: reduce(minimum, values),
        "argmax": largest,
        "argmin": lambda values: reduce(minimum, values),
        "sum_square": lambda values: dot(values, values),
        "exp": np.exp,
        "where": along,
    }
    one = CountingScalar(1, x[0].counts)
    settings = {"n": len(x), "p": 3, "correction": 1 if len(x) > 1 else 0, "one": one, "zero": 0}
    return execute(REDUCTIONS[op].definition, x=x, **words, **settings)


def cubic_norm(x):
    return total([(e := abs(value)) * e * e for value in x]) ** (1 / 3)


def test_the_cubes_of_a_norm_are_products() -> None:
    counted = count(cubic_norm, (5,))
    assert operations("reduce_lp", {"x": (3, 5)}, (3,), axis=(1,), p=3) == 3 * counted
    assert operations("foreach_norm", {"x0": (5,)}, (), p=3) == counted
    assert operations("foreach_powsum", {"x0": (5,)}, (), p=3) == counted + Operations(special=-1)


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_reduction_counts_what_its_definition_does(op: str, n: int) -> None:
    assert operations(op, {"x": (3, n)}, (3,), axis=(1,)) == 3 * count(lambda x: define(op, x), (n,))


# Five elements 1/6, 2/6 ... 5/6: sum 5/2, mean 1/2, squares 55/36, squared deviations 10/36.
@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("reduce_sum", 5 / 2),
        ("reduce_mean", 1 / 2),
        ("reduce_prod", 120 / 6**5),
        ("reduce_max", 5 / 6),
        ("reduce_min", 1 / 6),
        ("reduce_l1", 5 / 2),
        ("reduce_l2", (55 / 36) ** 0.5),
        ("reduce_linf", 5 / 6),
        ("reduce_lp", (225 / 216) ** (1 / 3)),
        ("reduce_sum_square", 55 / 36),
        ("var", 10 / 36 / 4),
        ("std", (10 / 36 / 4) ** 0.5),
    ],
)
def test_a_definition_computes_what_its_name_says(op: str, value: float) -> None:
    assert run(lambda x: define(op, x), (5,))[0].value == pytest.approx(value)


# The counting convention for n = 6 and 4 results.
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("reduce_sum", Operations(add=5)),
        ("reduce_mean", Operations(add=5, div=1)),
        ("reduce_max", Operations(cmp=5)),
        ("argmin", Operations(cmp=5)),
        ("var", Operations(fma=5, mul=1, add=11, div=2)),
        ("reduce_log_sum_exp", Operations(add=5, special=7)),
        ("count_nonzero", Operations(add=5, cmp=6)),
    ],
)
def test_the_counting_table(op: str, expected: Operations) -> None:
    assert operations(op, {"x": (4, 2, 3)}, (4,), axis=(1, 2)) == 4 * expected
    assert operations(op, {"x": (4, 2, 3)}, (4, 1, 1), axis=(1, 2), keepdims=True) == 4 * expected


def test_a_reduction_to_one_element() -> None:
    assert operations("reduce_sum", {"x": (4, 2, 3)}, ()) == Operations(add=4 * 2 * 3 - 1)
    assert operations("reduce_mean", {"x": ()}, ()) == Operations(div=1)


def test_indices_have_their_own_size() -> None:
    half = Tensor((4, 6), "float16")
    assert bytes_moved("argmax", {"x": half}, Tensor((4,), "int32"), axis=(1,)) == (24 * 2, 4 * 4)
    assert bytes_moved("var_mean", {"x": half}, Tensor((4,), "float16"), Tensor((4,), "float16")) == (24 * 2, 2 * 4 * 2)


@pytest.mark.parametrize(("shape", "n"), [((4, 4), 4), ((3, 5), 3)])
def test_trace_reads_the_diagonal(shape: tuple[int, int], n: int) -> None:
    def trace(x):
        return total(x[i, i] for i in range(n))

    assert operations("trace", {"x": shape}, ()) == count(trace, shape)
    assert bytes_moved("trace", {"x": shape}, ()) == (4 * n, 4)


def test_exclusive_or():
    def fold(x):
        for row in x:
            y = row[0]
            for value in row[1:]:
                y = y ^ value

    assert operations("reduce_xor", {"x": (3, 5)}, (3,)) == count(fold, (3, 5))
    assert bytes_moved("reduce_xor", {"x": (3, 5)}, (3,)) == (60, 12)


def test_reduce_sum_square_backward() -> None:
    _, each = measure("2 * x * dy", "x", "dy")
    result = layer_cost("reduce_sum_square_backward", {"x": (2, 3), "dy": (2, 3)}, (2, 3))
    assert (result.flops, result.mread, result.mwrite) == (6 * each, 2 * 24, 24)
