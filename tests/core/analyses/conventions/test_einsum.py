"""The cost that numpy.einsum_path prints, and other readings of an equation."""

from __future__ import annotations

import pytest
import sympy

from costcore.analyses.conventions import quantities
from costcore.errors import CostError


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 2 * 2 * 3 * 5 + 1),  # a product and a sum for each index triple, and 1
        ("i,j->ij", [(4,), (6,)], 4 * 6 + 1),  # nothing is summed
        ("ij->i", [(4, 6)], 2 * 4 * 6 + 1),
        ("bij,bjk->bik", [(4, 16, 8), (4, 8, 16)], 16380),  # 16,385 has four digits in print
        ("...i,ij->...j", [(5, 3, 6), (6, 4)], 2 * 5 * 3 * 6 * 4 + 1),
        ("...i,...i->...", [(5, 3, 6), (3, 6)], 2 * 5 * 3 * 6 + 1),
        ("...i,...", [(5, 3, 6), (3,)], 5 * 3 * 6 + 1),
        ("bi,ij,jk->bk", [(5, 6), (6, 7), (7, 8)], 2 * 5 * 6 * 7 + 2 * 5 * 7 * 8 + 1),  # 981: first bi,ij
        ("ij,jk,kl", [(2, 9), (9, 9), (9, 3)], 2 * 9 * 9 * 2 + 2 * 2 * 9 * 3 + 1),
        ("ij,jk,kl->il", [(3, 3)] * 3, 2 * 27 + 2 * 27 + 1),  # a result as large as the operands is allowed
    ],
)
def test_what_numpy_prints(equation, shapes, expected):
    assert quantities.flops_that_numpy_prints(equation, tuple(shapes)) == expected
    numpy = pytest.importorskip("numpy")
    printed = numpy.einsum_path(equation, *map(numpy.zeros, shapes), optimize="optimal")[1]
    (line,) = (line for line in printed.split("\n") if "optimized flop" in line.lower())
    assert int(float(line.split(":")[-1])) == expected


def test_symbols_have_no_digits_to_round():
    with pytest.raises(CostError, match="needs the sizes of all indices as numbers"):
        quantities.flops_that_numpy_prints("ij,jk->ik", ((2, sympy.Symbol("n", integer=True)), (3, 5)))
    with pytest.raises(CostError, match=r"has 7 operands .expected at most 6."):
        quantities.flops_that_numpy_prints("a,a,a,a,a,a,a->a", ((2,),) * 7)


def test_product_of_all_sizes():
    n = sympy.Symbol("n", integer=True)
    assert quantities.product_of_sizes("bij,bjk->bik", ((4, 2, 3), (4, 3, 5))) == 4 * 2 * 3 * 5
    assert quantities.product_of_sizes("ij,jk->ik", ((n, 3), (3, 5))) == 15 * n
    assert quantities.product_of_sizes("...i,ij->...j", ((2, 6), (6, 4))) == 0


def test_products_of_a_pair():
    assert quantities.products_of_a_pair("bij,bjk->bik", ((4, 2, 3), (4, 3, 5))) == 4 * 2 * 3 * 5
    assert quantities.products_of_a_pair("ij,k->i", ((2, 3), (5,))) == 2  # j and k are summed before
    assert quantities.products_of_a_pair("...i,ij->...j", ((7, 2, 6), (6, 4))) == 7 * 2 * 6 * 4
    assert quantities.products_of_a_pair("bi,ij,jk->bk", ((5, 6), (6, 7), (7, 8))) == 0


@pytest.mark.parametrize(
    ("equation", "expected"),
    [("ij,jk->ik", True), ("i,j->ij", False), ("bi,bi->bi", False), ("ij,jk", True), ("...i,i", True)],
)
def test_whether_an_index_is_summed(equation, expected):
    shapes = tuple((2,) * len(term.replace("...", "")) for term in equation.partition("->")[0].split(","))
    assert quantities.is_summing(equation, shapes) is expected


def test_letters_in_order():
    assert quantities.with_letters_in_order("bqc , bkc -> bqk") == "abc,adc->abd"


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bij,bjk->bik", [(4, 2, 3), (4, 3, 5)], 4 * 2 * 3 * 5),
        ("ij,jk", [(2, 3), (3, 5)], 2 * 3 * 5),
        ("i,j->ij", [(4,), (6,)], 0),  # multiplied element by element
        ("ij,kl->il", [(2, 3), (5, 6)], 0),  # j and k are summed before
        ("bij,bjk->bk", [(4, 2, 3), (4, 3, 5)], 4 * 3 * 5),  # i is summed before
        ("bij,bjk->bik", [(4, 2, 1), (4, 1, 5)], 0),  # nothing to sum over one element
        ("bij,bjk->bik", [(4, 2, 3), (1, 3, 5)], 4 * 2 * 3 * 5),
        ("bi,ij,jk->bk", [(5, 6), (6, 7), (7, 8)], 5 * 6 * 7 + 5 * 7 * 8),
        ("ab,bc,ca->", [(2, 3), (3, 4), (4, 2)], 2 * 3 * 4 + 2 * 4),
        ("ij->ji", [(2, 3)], 0),
    ],
)
def test_products_of_the_batched_matrix_products_that_pytorch_runs(equation, shapes, expected):
    assert quantities.products_in_pairs(equation, tuple(shapes)) == expected


def test_products_in_pairs_of_symbols():
    n = sympy.Symbol("n", integer=True, positive=True)
    assert quantities.products_in_pairs("bij,jk->bik", ((n, 2, 3), (3, 5))) == 30 * n
