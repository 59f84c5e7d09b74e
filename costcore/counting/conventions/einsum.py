"""What other tools take as the cost of an einsum."""

from __future__ import annotations

from costcore.dims import Dim, is_symbolic
from costcore.errors import CostError


def _sides(equation: str) -> tuple[list[str], str]:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return inputs.split(","), output


def sizes(equation: str, shapes: tuple[tuple[Dim, ...], ...]) -> dict[str, Dim]:
    """Return the size of every index; an equation with an ellipsis has none."""
    if "..." in equation:
        return {}
    return {
        index: size
        for text, shape in zip(_sides(equation)[0], shapes, strict=False)
        for index, size in zip(text, shape, strict=False)
    }


def is_summing(equation: str, shapes: tuple[tuple[Dim, ...], ...]) -> bool:
    """Return whether any index of an operand is not one of the result."""
    inputs, output = _sides(equation)
    return any(index not in output for text in inputs for index in text if index != ".")


def with_letters_in_order(equation: str) -> str:
    """Return the equation with its indices renamed to ``a``, ``b`` … in the order in which they appear."""
    compact = equation.replace(" ", "")
    letters = [*dict.fromkeys(letter for letter in compact if letter.isalpha())]
    return compact.translate({ord(letter): 97 + i for i, letter in enumerate(letters)})


def flops_that_numpy_prints(equation: str, shapes: tuple[tuple[Dim, ...], ...]) -> int:
    """Return the "optimized FLOP count" of ``numpy.einsum_path``, which has four significant digits.

    It is the size of all indices times the number of operands, one less if nothing is summed, and 1. With three or
    more operands it depends on the path that numpy chooses, which this does not know: all are contracted at once.

    Raises:
        CostError: if a size is symbolic, as digits cannot be rounded then, or the equation has an ellipsis.
    """
    by_index = sizes(equation, shapes)
    if not by_index or any(map(is_symbolic, by_index.values())):
        raise CostError(f"einsum {equation!r}: numpy's rounded count needs the sizes of all indices as numbers")
    total = 1
    for size in by_index.values():
        total *= int(size)
    factor = max(1, len(shapes) - 1) + is_summing(equation, shapes)
    return int(float(f"{total * factor + 1:.3e}"))
