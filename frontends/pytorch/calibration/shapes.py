"""Shapes of the chains of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from random import Random
from typing import Any

from torch import nn

SIDES = (7, 14, 28, 56, 112, 112, 224)

CHANNELS = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024)

BATCHES = (1, 2, 4, 8)

LENGTHS = (1, 7, 16, 32, 49, 64, 100, 128, 197, 256, 384, 512)

WIDTHS = (64, 128, 192, 256, 384, 512, 768, 1024)

STEP = 5
"""The factor between the sizes of chains."""

LARGEST_MAP = 2**23
"""The most elements of a map at the start of a chain; those inside may have some times as many."""

SMALLEST_SIDE_BY_CHANNELS = 256
"""Networks have many channels where maps are small: the least product of channels and side."""


class Shapes:
    """Draws shapes of all sizes: as many with much work as with little.

    Args:
        random: the source of choices.
        limit: about how many MACs the largest chains have.
    """

    def __init__(self, random: Random, limit: float) -> None:
        self.pick = random.choice
        self.limit = limit / random.choice((1, STEP, STEP**2, STEP**3))

    def image(self, weight: float, *, least: int = 16) -> tuple[int, int, int]:
        """Return batch, channels and side of a map, ``weight * n * c * c * h * h`` MACs within the limit."""
        shapes = [
            (n, c, side)
            for n, c, side in product(BATCHES, CHANNELS, SIDES)
            if c >= least and n * c * side * side <= LARGEST_MAP and c * side >= SMALLEST_SIDE_BY_CHANNELS
        ]
        n, c, side = self._within(shapes, lambda n, c, side: weight * n * c * c * side * side)
        return n, c, side + self.pick((0, 0, 0, -1, 1))

    def sequence(self, weight: float) -> tuple[int, int, int]:
        """Return batch, length and width of a sequence, ``weight * n * length * width**2`` MACs within the limit."""
        return self._within(product(BATCHES, LENGTHS, WIDTHS), lambda n, length, width: weight * n * length * width**2)

    def _within(
        self, shapes: Iterable[tuple[int, int, int]], work: Callable[[int, int, int], float]
    ) -> tuple[int, int, int]:
        """Return a shape whose work is within the limit, and not much less if there is one."""
        shapes = list(shapes)
        within = [s for s in shapes if work(*s) <= self.limit] or [min(shapes, key=lambda s: work(*s))]
        return self.pick([s for s in within if work(*s) >= self.limit / STEP] or within)


Made = tuple[nn.Module, tuple[Any, ...]]
"""A module, and the shape of its input or the shapes of its inputs."""

Maker = Callable[[Shapes], Made]
