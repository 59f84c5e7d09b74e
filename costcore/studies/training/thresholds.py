"""Thresholds of training compute in laws and guidelines, and which counts exceed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from costcore.errors import CostError
from costcore.studies.training.arguments import whole
from costcore.toml_files import read_toml

FILE = Path(__file__).with_name("thresholds.toml")


@dataclass(frozen=True)
class Threshold:
    """A threshold, as it was on a date.

    Attributes:
        name: the law or guideline, and what it sets apart.
        basis: what is compared with it.
        source: the text in which it is stated.
        checked: ``read`` or ``second source``.
        status: whether it is in force.
        as_of: the date on which it was looked up.
        value: FLOPs; None if it is a share of those of a base model.
        share_of_base: the share; None if it is a number of FLOPs.
    """

    name: str
    basis: str
    source: str
    checked: str
    status: str
    as_of: str
    value: int | None = None
    share_of_base: Fraction | None = None


@dataclass(frozen=True)
class Crossing:
    """A threshold, and what several counts of a run say of it.

    Attributes:
        threshold: the threshold.
        value: its FLOPs; None if it is a share of a base model that was not given.
        exceeded: whether each count exceeds it, by name of the count; empty if ``value`` is None.
    """

    threshold: Threshold
    value: int | None
    exceeded: Mapping[str, bool]

    @property
    def depends_on_count(self) -> bool:
        """Whether some counts exceed it and others do not."""
        return len(set(self.exceeded.values())) > 1


@cache
def thresholds() -> tuple[Threshold, ...]:
    """Return the thresholds of ``thresholds.toml``, in its order."""
    content, _ = read_toml(FILE, CostError)
    return tuple(
        Threshold(
            **{key: str(entry[key]) for key in ("name", "basis", "source", "checked", "status", "as_of")},
            value=whole(entry["value"], "value") if "value" in entry else None,
            share_of_base=Fraction(entry["share_of_base"]) if "share_of_base" in entry else None,
        )
        for entry in content["thresholds"]
    )


def crossings(counts: Mapping[str, int], base: int | None, known: Sequence[Threshold] | None = None) -> list[Crossing]:
    """Return which counts exceed which thresholds.

    Args:
        counts: FLOPs of the run by name of the count, without those of a base model.
        base: FLOPs of the training of the base model, which are part of cumulative compute; None if there is none.
        known: the thresholds; default: :func:`thresholds`.
    """
    return [_crossing(threshold, counts, base) for threshold in (thresholds() if known is None else known)]


def _crossing(threshold: Threshold, counts: Mapping[str, int], base: int | None) -> Crossing:
    if threshold.share_of_base is None:
        value, total = threshold.value, base or 0
    else:
        value, total = None if base is None else int(threshold.share_of_base * base), 0
    exceeded = {} if value is None else {name: flops + total > value for name, flops in counts.items()}
    return Crossing(threshold, value, exceeded)
