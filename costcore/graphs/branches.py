"""Which branch of a graph is counted, if data decides which one runs: the dearest."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from costcore.counting.pricing import Pricer
from costcore.ir import Operations
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import magnitude
from costcore.registry.calculators import MergedCalculators, calculators
from costcore.trace.call import Call
from costcore.trace.recorder import Recorder

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Choice(Generic[K]):
    """Which branch is counted.

    Attributes:
        counted: its name.
        flops: FLOPs of each branch by name, as far as its calls have formulas.
        uncounted: calls of the other branches that have no formula; they are listed nevertheless.
    """

    counted: K
    flops: Mapping[K, Dim]
    uncounted: list[Call]


def dearest(branches: Mapping[K, Sequence[Call]], recorder: Recorder) -> Choice[K]:
    """Return the branch with most FLOPs, the first of equal ones.

    Args:
        branches: the calls of each branch by name.
        recorder: of the run, which may have calculators of its own.
    """
    price = Pricer(MergedCalculators(recorder.calculators, calculators()))
    flops = {name: _flops(price, calls) for name, calls in branches.items()}
    counted = max(flops, key=lambda name: magnitude(flops[name]))
    others = (call for name, calls in branches.items() if name != counted for call in calls)
    return Choice(counted, flops, [call for call in others if price(call).cost is None])


def _flops(price: Pricer, calls: Sequence[Call]) -> Dim:
    """Return the FLOPs of the calls that have a formula."""
    total: Dim = 0
    for call in calls:
        cost = price(call).cost
        if cost is not None:
            total += (cost.flops.flops() if isinstance(cost.flops, Operations) else cost.flops) * call.times
    return total
