"""What other tools take as the cost of an einsum."""

from __future__ import annotations

import string
from collections.abc import Mapping
from itertools import combinations
from typing import TypeAlias

from costcore.errors import CostError
from costcore.ir import prod
from costcore.numbers.dims import Dim, is_symbolic

MAX_OPERANDS = 6
"""The maximum number of operands of which every order of contraction is tried."""

_Shapes: TypeAlias = "tuple[tuple[Dim, ...], ...]"


def _sides(equation: str, shapes: _Shapes) -> tuple[list[str], str]:
    """Return the indices of each operand and of the result, with letters for the dimensions of an ellipsis.

    The result may have more such letters than the operands; no dimension has them.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    dots = "".join(letter for letter in string.ascii_letters if letter not in equation)
    if not arrow:
        letters = inputs.replace(",", "").replace("...", "")
        output = dots + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    expanded = [
        term.replace("...", dots[len(dots) - len(shape) + len(term) - 3 :])
        for term, shape in zip(inputs.split(","), shapes, strict=False)
    ]
    return expanded, output.replace("...", dots)


def _sizes(inputs: list[str], shapes: _Shapes) -> dict[str, Dim]:
    """Return the size of every index; that of a dimension of 1 which is broadcast is the other one."""
    found: dict[str, Dim] = {}
    for term, shape in zip(inputs, shapes, strict=False):
        for index, size in zip(term, shape, strict=False):
            if found.get(index, 1) == 1:
                found[index] = size
    return found


def product_of_sizes(equation: str, shapes: _Shapes) -> Dim:
    """Return the product of the sizes of all indices; 0 for an equation with an ellipsis, as torchprofile does."""
    return 0 if "..." in equation else prod(_sizes(_sides(equation, shapes)[0], shapes).values())


def products_of_a_pair(equation: str, shapes: _Shapes) -> Dim:
    """Return the products of two operands, after each is summed over indices that only it has; 0 for more operands."""
    if len(shapes) != 2:
        return 0
    inputs, output = _sides(equation, shapes)
    first, second = (
        {index: size for index, size in zip(term, shape, strict=False) if size != 1}
        for term, shape in zip(inputs, shapes, strict=True)
    )
    kept = [index for index in {**first, **second} if (index in first and index in second) or index in output]
    return prod(first.get(index, second.get(index, 1)) for index in kept)


def products_in_pairs(equation: str, shapes: _Shapes) -> Dim:
    """Return the products of the batched matrix products that PyTorch runs, in pairs from left to right.

    An index that one operand of a pair has, and nothing later needs, is summed before. A pair without a common index to
    sum over is multiplied element by element. Indices of size 1 do not count.
    """
    inputs, output = _sides(equation, shapes)
    sizes = _sizes(inputs, shapes)
    terms = [
        {index for index, size in zip(term, shape, strict=False) if size != 1}
        for term, shape in zip(inputs, shapes, strict=True)
    ]
    products: Dim = 0
    left = terms[0]
    for i, right in enumerate(terms[1:], start=2):
        later = set(output).union(*terms[i:])
        if left & right - later:
            products += prod(sizes[index] for index in sorted((left & right) | ((left | right) & later)))
        left = (left | right) & later
    return products


def is_summing(equation: str, shapes: _Shapes) -> bool:
    """Return whether any index of an operand is not one of the result."""
    inputs, output = _sides(equation, shapes)
    return any(index not in output for term in inputs for index in term)


def with_letters_in_order(equation: str) -> str:
    """Return the equation with its indices renamed to ``a``, ``b`` … in the order in which they appear."""
    compact = equation.replace(" ", "")
    letters = [*dict.fromkeys(letter for letter in compact if letter.isalpha())]
    return compact.translate({ord(letter): 97 + i for i, letter in enumerate(letters)})


def flops_that_numpy_prints(equation: str, shapes: _Shapes) -> int:
    """Return the "optimized FLOP count" of ``numpy.einsum_path``, which has four significant digits.

    A contraction costs the size of all its indices, times the number of its operands, one less if nothing is summed.
    Of three or more operands numpy takes the order of pairs that costs least, without results larger than the largest
    operand or the result. It adds 1.

    Raises:
        CostError: if a size is symbolic, as digits cannot be rounded then, or there are too many operands.
    """
    inputs, output = _sides(equation, shapes)
    by_index = _sizes(inputs, shapes)
    if any(map(is_symbolic, by_index.values())):
        raise CostError(f"einsum {equation!r}: numpy's rounded count needs the sizes of all indices as numbers")
    if len(inputs) > MAX_OPERANDS:
        raise CostError(f"einsum {equation!r} has {len(inputs)} operands (expected at most {MAX_OPERANDS})")
    operands = tuple(map(frozenset, inputs))
    limit = max(_size(term, by_index) for term in (*operands, frozenset(output)))
    if len(operands) <= 2:
        cost = _cost_of_one(operands, frozenset(output), by_index)
    else:
        cost = _least_cost(operands, frozenset(output), by_index, limit)
    return int(float(f"{cost + 1:.3e}"))


def _size(indices: frozenset[str], by_index: Mapping[str, Dim]) -> int:
    return int(prod(by_index.get(index, 1) for index in indices))


def _cost_of_one(operands: tuple[frozenset[str], ...], kept: frozenset[str], by_index: Mapping[str, Dim]) -> int:
    """Return the cost of contracting all operands at once."""
    indices: frozenset[str] = frozenset().union(*operands)
    return _size(indices, by_index) * (max(1, len(operands) - 1) + bool(indices - kept))


def _least_cost(
    operands: tuple[frozenset[str], ...], output: frozenset[str], by_index: Mapping[str, Dim], limit: int
) -> int:
    """Return the least cost of contracting operands pair by pair; all at once if every pair is too large."""
    if len(operands) == 1:
        return 0
    costs = []
    for pair in combinations(range(len(operands)), 2):
        taken = tuple(operands[i] for i in pair)
        rest = tuple(operand for i, operand in enumerate(operands) if i not in pair)
        kept = output.union(*rest)
        made = (taken[0] | taken[1]) & kept
        if _size(made, by_index) <= limit:
            costs.append(_cost_of_one(taken, kept, by_index) + _least_cost((*rest, made), output, by_index, limit))
    return min(costs, default=_cost_of_one(operands, output, by_index))
