"""The sizes of a pass, and the phase that they make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SHAPES: Mapping[str, tuple[Any, ...]] = {
    "prefill": ("batch", "tokens", 0),
    "decode": ("batch", 1, "past"),
    "extend": ("batch", "tokens", "past"),
}
"""For every phase its batch, its new tokens and the tokens in the cache."""


class Point(NamedTuple):
    """Sizes of a pass: sequences, new tokens of each, tokens of each in the cache. They are names in formulas."""

    batch: int
    tokens: int
    past: int

    @property
    def phase(self) -> str:
        """The name of its phase, a key of :data:`SHAPES`."""
        return "prefill" if not self.past else "decode" if self.tokens == 1 else "extend"

    @property
    def length(self) -> int:
        """The tokens that vary with the phase: those of the prompt, or those in the cache."""
        return self.past or self.tokens
