"""FLOPs, tokens and seconds of measured steps, and the rates that follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from costcore.studies.training.utilization import mfu


class PassCost(NamedTuple):
    """What the passes of a model cost that one step, or a part of it, makes.

    Attributes:
        model_flops: FLOPs of forward and backward pass, see :func:`costcore.studies.training.utilization.model_flops`.
        hardware_flops: the same with recomputation.
        tokens: number of input tokens; 0 if the input does not have tokens.
        samples: number of samples; 0 if unknown.
        dtype: dtype in which most of the products are computed; empty without products.
    """

    model_flops: int
    hardware_flops: int
    tokens: int = 0
    samples: int = 0
    dtype: str = ""


NO_STEP = PassCost(0, 0)
"""The cost of no pass."""


def sum_of(costs: Iterable[PassCost]) -> PassCost:
    """Return the cost of several passes together. Its dtype is that of the first one that has products."""
    model, hardware, tokens, samples, dtype = NO_STEP
    for cost in costs:
        model += cost.model_flops
        hardware += cost.hardware_flops
        tokens += cost.tokens
        samples += cost.samples
        dtype = dtype or cost.dtype
    return PassCost(model, hardware, tokens, samples, dtype)


class Rates(NamedTuple):
    """What a number of steps cost, and how long they took.

    Every rate is None if no time was measured, or if what it counts is unknown.

    Attributes:
        steps: number of steps.
        seconds: their duration together.
        cost: their cost together, of the passes that this process computed.
        devices: number of devices that computed them.
        peak: FLOP/s that one of these devices reaches at most; None if unknown.
    """

    steps: int
    seconds: float
    cost: PassCost
    devices: int = 1
    peak: float | None = None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs per second as a share of the peak of all devices: 0.4 for 40 %."""
        return self._utilization(self.cost.model_flops)

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs per second as a share of the peak of all devices."""
        return self._utilization(self.cost.hardware_flops)

    def _utilization(self, flops: int) -> float | None:
        if self.peak is None or not self.seconds:
            return None
        return mfu(flops, self.seconds, self.devices, self.peak)

    @property
    def flops_per_second(self) -> float | None:
        """Model FLOPs per second of all devices together."""
        return self.cost.model_flops / self.seconds if self.seconds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Input tokens per second."""
        return self.cost.tokens / self.seconds if self.seconds and self.cost.tokens else None

    @property
    def samples_per_second(self) -> float | None:
        """Samples per second."""
        return self.cost.samples / self.seconds if self.seconds and self.cost.samples else None

    @property
    def seconds_per_step(self) -> float | None:
        """Mean duration of a step."""
        return self.seconds / self.steps if self.steps else None

    def scalars(self) -> dict[str, float]:
        """Return all rates that are known by name, as floats: a flat dict for TensorBoard, W&B and others."""
        found = {
            name: getattr(self, name)
            for name in (
                *("mfu", "hfu", "flops_per_second", "tokens_per_second", "samples_per_second", "seconds_per_step"),
            )
        }
        return {name: float(value) for name, value in found.items() if value is not None}


def across(ranks: Iterable[Rates]) -> Rates:
    """Return the rates of several processes that train one model together, each of which counted its own passes.

    Costs and devices are added. The steps and the duration are those of the slowest process. The peak is the mean of
    all devices; None if one is unknown.
    """
    each = list(ranks)
    devices = sum(rates.devices for rates in each)
    peaks = [rates.peak for rates in each]
    peak = None
    if all(value is not None for value in peaks):
        peak = sum((value or 0) * rates.devices for value, rates in zip(peaks, each, strict=True)) / devices
    slowest = max(each, key=lambda rates: rates.seconds)
    return Rates(slowest.steps, slowest.seconds, sum_of(rates.cost for rates in each), devices, peak)
