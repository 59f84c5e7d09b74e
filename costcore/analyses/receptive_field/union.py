"""Dependences of operators with several operands: the union of what these see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from costcore.analyses.receptive_field.dependence import (
    CannotFollowError,
    Dependence,
    Path,
    at_first,
    number,
    top,
    without,
)
from costcore.analyses.receptive_field.periodic_map import MisalignedError, Taps
from costcore.numbers.dims import Dim, is_symbolic


def united(dependences: Iterable[Dependence | None], node: str) -> Dependence | None:
    """Return the dependence of a value each of whose positions sees what all operands see there.

    Operands that do not depend on the input are None; so is the result if all of them are.

    Raises:
        CannotFollowError: if positions cannot be compared.
    """
    result: Dependence | None = None
    for dependence in dependences:
        if dependence is not None:
            result = dependence if result is None else _of_two(result, dependence, node)
    return result


def _of_two(one: Dependence, other: Dependence, node: str) -> Dependence:
    """Return the union of two dependences. Digits at the same places of both count the same part of the position."""
    if one is other:
        return one
    if one.path is None or other.path is None:
        longer = other if one.path is None else one
        return longer.marks(other if longer is one else one)
    if len(other.path.digits) > len(one.path.digits):
        one, other = other, one
    assert one.path is not None
    other = _paired(other, one.path, node)
    assert one.path is not None
    if other.path is not None:
        other = _extended(other, one.path, node)
    both = one.marks(other)
    if one.path is None or other.path is None or both.path is None:
        return both
    try:
        return both.with_path(Path(one.path.map.union(other.path.map), one.path.digits))
    except MisalignedError:
        return replace(both, path=None, misaligned=both.misaligned or node)


def _paired(dependence: Dependence, target: Path, node: str) -> Dependence:
    """Return a dependence with only the digits that ``target`` has at the same places.

    A result that has the position of one operand along one axis and that of the other along another, as the scores of
    attention, sees the parts of both; their hull is as wide as all positions along the second axis together.
    """
    assert dependence.path is not None
    places = {digit.place for digit in target.digits}
    return without(dependence, [digit for digit in dependence.path.digits if digit.place not in places], node)


def _extended(dependence: Dependence, target: Path, node: str) -> Dependence:
    """Return a dependence with all digits of ``target``, on which its map does not depend.

    A value that is the same for all positions, such as that of one row, has no bounded distance to them: the result
    depends on the whole axis.
    """
    path = dependence.path
    assert path is not None
    weights = {digit.place: digit.weight for digit in path.digits}
    missing = [digit for digit in target.digits if digit.place not in weights]
    if missing and top(target) in missing:
        return dependence.with_path(None).made_global(node)
    factors = {Fraction(d.weight, weights[d.place]) for d in target.digits if d.place in weights}
    if len(factors) > 1 or any(factor.denominator > 1 for factor in factors):
        raise CannotFollowError("operands with different parts of positions")
    factor = max(map(int, factors), default=1)
    extended = path.map.through(Taps.repeated(factor))
    for digit in missing:
        if digit.weight >= factor:
            span = digit.weight * number(digit.size, "a block")
            extended = extended.through(Taps(span, tuple((phase % digit.weight,) for phase in range(span))))
    return dependence.with_path(Path(extended, target.digits))


def broadcast(
    dependence: Dependence | None, shape: tuple[Dim, ...], new: tuple[Dim, ...], node: str
) -> Dependence | None:
    """Return the dependence of an operand that is repeated to a shape with as many axes or more.

    Raises:
        CannotFollowError: if it cannot be.
    """
    if shape == new:
        return dependence
    lead = len(new) - len(shape)
    if lead < 0:
        raise CannotFollowError("an operand with more axes than the result")
    if dependence is None or dependence.path is None:
        return dependence
    repeated, digits = [], []
    for digit in dependence.path.digits:
        size, new_size = shape[digit.axis], new[lead + digit.axis]
        if size == 1 != new_size:
            repeated.append(digit)
        elif size != new_size and not (is_symbolic(size) or is_symbolic(new_size)):
            raise CannotFollowError("operands whose shapes do not match")
    path = at_first(dependence.path, repeated)
    for digit in path.digits:
        is_whole = digit.unit == 1 and digit.size == shape[digit.axis]
        size = new[lead + digit.axis] if is_whole else digit.size
        digits.append(replace(digit, axis=lead + digit.axis, size=size))
    return dependence.with_path(Path(path.map, tuple(digits)))
