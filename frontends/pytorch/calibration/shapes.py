"""Shapes of the chains of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from random import Random
from typing import Any, TypeVar

from torch import nn

Sizes = TypeVar("Sizes", bound=tuple[int, ...])

SIDES = (7, 14, 28, 56, 112, 112, 224)

CHANNELS = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024)

BATCHES = (1, 2, 4, 8)

DEPTHS = (2, 4, 8, 16, 32)
"""Frames of a video or slices of a volume."""

SAMPLES = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 16000)
"""Lengths of signals."""

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

    def volume(self, weight: float) -> tuple[int, int, int, int]:
        """Return batch, channels, depth and side, ``weight * n * c * c * d * h * h`` MACs within the limit."""
        shapes = [
            (n, c, depth, side)
            for n, c, depth, side in product(BATCHES[:2], CHANNELS, DEPTHS, SIDES)
            if n * c * depth * side * side <= LARGEST_MAP and c * side >= SMALLEST_SIDE_BY_CHANNELS
        ]
        return self._within(shapes, lambda n, c, depth, side: weight * n * c * c * depth * side * side)

    def signal(self, weight: float, *, least: int = 16) -> tuple[int, int, int]:
        """Return batch, channels and length of a signal, ``weight * n * c * c * length`` MACs within the limit."""
        shapes = [
            (n, c, length)
            for n, c, length in product(BATCHES, CHANNELS, SAMPLES)
            if c >= least and n * c * length <= LARGEST_MAP
        ]
        return self._within(shapes, lambda n, c, length: weight * n * c * c * length)

    def sequence(self, weight: float) -> tuple[int, int, int]:
        """Return batch, length and width of a sequence, ``weight * n * length * width**2`` MACs within the limit."""
        return self._within(product(BATCHES, LENGTHS, WIDTHS), lambda n, length, width: weight * n * length * width**2)

    def _within(self, shapes: Iterable[Sizes], work: Callable[..., float]) -> Sizes:
        """Return a shape whose work is within the limit, and not much less if there is one."""
        shapes = list(shapes)
        within = [s for s in shapes if work(*s) <= self.limit] or [min(shapes, key=lambda s: work(*s))]
        return self.pick([s for s in within if work(*s) >= self.limit / STEP] or within)


Made = tuple[nn.Module, tuple[Any, ...]]
"""A module, and the shape of its input or the shapes of its inputs."""

Maker = Callable[[Shapes], Made]
