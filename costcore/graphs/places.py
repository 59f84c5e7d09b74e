"""Where graphs run: how often, in which loop or branch, and how deep inside others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from costcore.errors import CostError
from costcore.numbers.dims import Dim

DEEPEST = 32
"""The most graphs inside each other that are followed."""

MOST_NODES = 100_000
"""The most nodes that are recorded, those of graphs that run at several places included."""

P = TypeVar("P", bound="Place")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a graph runs: how often, in which loop or branch, and how deep inside others.

    Attributes:
        times: how often.
        region: the loops and branches around it, ``loop1/if``; empty if there are none.
        depth: the number of graphs around it.
    """

    times: Dim = 1
    region: str = ""
    depth: int = 0

    def inside(self: P, region: str, times: Dim = 1) -> P:
        """Return the place of a graph that a node here runs.

        Raises:
            CostError: if graphs run each other deeper than is followed.
        """
        if self.depth >= DEEPEST:
            raise CostError(f"graphs run each other more than {DEEPEST} deep")
        return replace(self, times=self.times * times, region=self.inner_region(region), depth=self.depth + 1)

    def inner_region(self, name: str) -> str:
        """Return the region of a loop or branch of that name inside this one."""
        return f"{self.region}/{name}" if self.region else name
