"""The first sizes at which a network is captured."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.analyses.sizes.limits import SMALLEST, Limits, how_to_state
from costcore.analyses.sizes.samples import Point, Samples
from costcore.errors import CostError

DOUBLINGS = 3
"""How often first sizes are doubled while the network fails."""

STEPS = (2, 3, 4, 7, 8, 14, 16, 32, 64, 128, 224, 256)
"""Multiples that a message may recommend for a symbol."""


def start(samples: Samples, limits: Sequence[Limits]) -> tuple[Point, list[Limits]]:
    """Capture the network at its first sizes; return them, and the limits of every symbol from there.

    Sizes that no range states are doubled while the network fails.

    Raises:
        CostError: if the network fails at all of them.
    """
    errors: list[CostError] = []
    for doublings in range(DOUBLINGS + 1):
        tried = [each if _is_fixed(each) else each._replace(low=each.low << doublings) for each in limits]
        point = tuple(each.low for each in tried)
        try:
            samples.restart(point)
        except CostError as error:
            errors.append(error)
            if all(map(_is_fixed, limits)):
                break
        else:
            return point, tried
    if free := [name for name, each in zip(samples.symbols, limits, strict=True) if not _is_fixed(each)]:
        where = f"It was tried at {'; '.join(map(samples.text, samples.failed))}"
        message = f"{str(errors[0]).rstrip('.')}. {where}; if it needs others, state a range: {how_to_state(free)}."
        raise CostError(message) from errors[0]
    raise errors[0]


def _is_fixed(limits: Limits) -> bool:
    return limits.is_stated or limits.low == SMALLEST


def multiple_that_works(samples: Samples, base: Point, position: int) -> int | None:
    """Return the smallest multiple at which a symbol can take several sizes; None if there is none.

    Args:
        samples: the runs.
        base: the first point.
        position: the position of the symbol.
    """
    for step in STEPS:
        if all(_is_captured(samples, base, position, step * k) for k in (1, 2)):
            return step
    return None


def _is_captured(samples: Samples, base: Point, position: int, distance: int) -> bool:
    try:
        samples.at((*base[:position], base[position] + distance, *base[position + 1 :]))
    except CostError:
        return False
    return True
