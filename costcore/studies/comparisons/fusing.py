"""Operators that a tool merged into others, found from how many of each are gone and new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

LIMITS = ("relu", "clip", "leaky_relu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish")
"""Activations that a convolution may apply to its result."""


class Fusion(NamedTuple):
    """One way to merge operators.

    Attributes:
        into: the operator of the new graph.
        base: the operator of the old graph of which there is one in each.
        parts: the other ones, with the most that one of them may include.
        is_spelled: whether the base is only one of the steps in which the operator was written.
    """

    into: str
    base: str
    parts: Mapping[str, int]
    is_spelled: bool = False


GELU = {"div": 1, "add": 1, "mul": 2}
FUSIONS = (
    Fusion("fused_conv", "conv", {**dict.fromkeys(LIMITS, 1), "add": 1}),
    Fusion("fused_linear", "linear", dict.fromkeys(LIMITS, 1)),
    Fusion("linear", "matmul", {"add": 1}),
    Fusion("gelu", "erf", GELU, is_spelled=True),
    Fusion("silu", "sigmoid", {"mul": 1}, is_spelled=True),
    Fusion("biased_activation", "gelu", {"add": 1}),
    Fusion("biased_activation", "erf", {**GELU, "add": 2}, is_spelled=True),
    Fusion("fused_matmul", "matmul", {"transpose": 2, "mul": 2, "div": 1}),
    Fusion("fused_layer_norm", "layer_norm", {"add": 2}),
    Fusion("fused_rms_norm", "rms_norm", {"add": 2}),
)
"""The ways to merge operators that tools know; those that may include more of an operator come last."""


class Fused(NamedTuple):
    """What was merged.

    Attributes:
        fusion: how.
        parts: the operators that are gone, with their number.
        into: the number of operators that they were merged into.
    """

    fusion: Fusion
    parts: Counter[str]
    into: int

    @property
    def text(self) -> str:
        """The same in words: ``17 relu, 8 add fused into 17 conv``."""
        fusion = self.fusion
        shown = (fusion.into if fusion.into != "biased_activation" else "gelu") if fusion.is_spelled else fusion.base
        parts = Counter({fusion.base: self.into}) + self.parts if fusion.is_spelled else self.parts
        return f"{listed((count, op) for op, count in parts.items())} fused into {self.into} {shown}"


def take_fused(gone: Counter[str], more: Counter[str], old: Mapping[str, int]) -> Iterable[Fused]:
    """Yield what was merged, and take it out of the operators that are gone and those that are new.

    ``old`` has the operators of the old graph. One that was merged may be there again, as another was merged into it.
    """
    for fusion in FUSIONS:
        is_there_again = fusion.base in ("linear", "matmul")
        count = min(old.get(fusion.base, 0) if is_there_again else gone[fusion.base], more[fusion.into])
        parts = Counter({op: min(gone[op], count * most) for op, most in fusion.parts.items()})
        if +parts:
            gone.subtract(parts)
            again = max(count - gone[fusion.base], 0)
            gone[fusion.base] -= count - again
            more[fusion.base] += again
            more[fusion.into] -= count
            yield Fused(fusion, +parts, count)


def listed(counts: Iterable[tuple[int, str]]) -> str:
    """Return ``11 conv, 2 add``."""
    return ", ".join(f"{count} {op}" for count, op in counts)
