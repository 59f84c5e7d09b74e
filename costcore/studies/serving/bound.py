"""The least time of a pass on a device: arithmetic at the peak, or bytes at the bandwidth of main memory."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.errors import CostError
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.text.values import Shown


@dataclass(frozen=True)
class PhaseTime(Result):
    """The least time of a pass: it is a bound, and programs take longer.

    If the pass reads experts, the bound is that of the mean of many passes, which read as many as are expected. Only
    ``least_seconds`` then bounds every single pass.

    All products run at the peak of the matrix engine, and weights and cache come from main memory once, at the same
    time. Activations stay in caches.

    Attributes:
        device: name of the device.
        compute_seconds: two FLOPs per needed MAC at the peak of the dtype; None if that is unknown.
        memory_seconds: weights and cache at the bandwidth of main memory, with the experts that are expected.
        tokens: new tokens of the pass.
        cached_share: the share of these bytes that the caches of the device could keep from one pass to the next.
        least_memory_seconds: as ``memory_seconds``, with the experts of one token; without experts equal to it.
    """

    device: str
    compute_seconds: float | None
    memory_seconds: float
    tokens: int
    cached_share: float
    least_memory_seconds: float

    def _answer(self) -> Answer:
        rate, tokens = self.tokens_per_second, f"{self.tokens:,} new tokens in a pass"
        figures = [
            Figure("bound_seconds", "At least", self.bound_seconds, "duration", f"bound by {self.binds}", "bound"),
            Figure("compute_seconds", "Compute", self.compute_seconds, "duration", "", "bound"),
            Figure("memory_seconds", "Weights and cache", self.memory_seconds, "duration", "from main memory", "bound"),
            Figure("tokens_per_second", "At most", Shown(rate, f"{rate:,.0f} tokens/s"), "ratio", tokens, "bound"),
        ]
        return Answer(f"Least time of a pass on {self.device}", figures, (), self.remarks)

    @property
    def bound_seconds(self) -> float:
        """The larger of both; with experts the least time of the mean pass."""
        return max(self.compute_seconds or 0.0, self.memory_seconds)

    @property
    def least_seconds(self) -> float:
        """The least time of every pass, also of one whose tokens all choose the same experts."""
        return max(self.compute_seconds or 0.0, self.least_memory_seconds)

    @property
    def binds(self) -> str:
        """``compute`` or ``memory``: which is the larger."""
        return "compute" if (self.compute_seconds or 0.0) > self.memory_seconds else "memory"

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all sequences per second, at most."""
        return self.tokens / self.bound_seconds

    @property
    def remarks(self) -> list[str]:
        """What the bound rests on."""
        found = [f"bound: no program that reads weights and cache once a pass takes less on {self.device}"]
        if self.least_seconds < self.bound_seconds:
            found.append(
                "with experts it is the bound of the mean pass, which reads as many as are expected: a pass whose "
                "tokens choose the same ones can take less (least_seconds)"
            )
        if self.compute_seconds is None:
            found.append(f"the peak of {self.device} at this dtype is unknown: only bytes bind")
        if self.cached_share > 0.1:
            found.append(
                f"caches of {self.device} hold {min(self.cached_share, 1):.0%} of these bytes: if they keep them, a "
                "pass can take less"
            )
        return found


def least_time(
    device: str | PathLike[str] | Device, dtype: str, macs: int, nbytes: int, tokens: int, least: int
) -> PhaseTime:
    """Return the least time of a pass on a device.

    Args:
        device: the device, its name or its file.
        dtype: dtype in which products are computed.
        macs: multiplications that must happen.
        nbytes: bytes that come from main memory or go there.
        tokens: new tokens of the pass.
        least: these bytes with as few experts as there can be.

    Raises:
        TypeError, ValueError, OSError: if there is no such device.
        CostError: if its file is invalid, or the bandwidth of its memory is unknown.
    """
    found = named(device)
    if found.memory.dram_gbs is None:
        raise CostError(f"the bandwidth of the memory of {found.name} is unknown, so a pass has no bound")
    rate = found.matrix_rate(dtype) or found.vector_rate(dtype)
    cached = max((size for _, size, _ in found.levels()), default=0)
    return PhaseTime(
        device=found.name,
        compute_seconds=2 * macs / rate if rate else None,
        memory_seconds=nbytes / (1e9 * found.memory.dram_gbs),
        least_memory_seconds=least / (1e9 * found.memory.dram_gbs),
        tokens=tokens,
        cached_share=cached / nbytes if nbytes else 1.0,
    )
