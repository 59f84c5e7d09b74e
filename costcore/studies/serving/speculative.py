"""Speculative decoding: a small model drafts tokens, which the large one verifies in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from costcore.analyses.devices.device import Device
from costcore.studies.serving.phase import Phase
from costcore.tables.overview.displayed import Displayed
from costcore.tables.overview.overview import Figure, Overview
from costcore.text.amounts import exact, readable


@dataclass(frozen=True, repr=False)
class Speculation(Displayed):
    """A step of speculative decoding.

    Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", arXiv:2211.17192, equation 1.

    Attributes:
        draft: one step of the model that drafts.
        verify: the pass of the large model over all drafts and one more token.
        drafts: drafts of each sequence.
        acceptance: probability that a draft is accepted, independently of the others.
    """

    draft: Phase
    verify: Phase
    drafts: int
    acceptance: float

    def __repr__(self) -> str:
        return f"<Speculation: {self.drafts} drafts, acceptance {self.acceptance:g}, {self.macs:,} MACs>"

    def _overview(self) -> Overview:
        """Return the MACs of a step, and the tokens that it yields."""
        drafts = f"{self.drafts} draft{'s' * (self.drafts != 1)} of each of {exact(self.verify.batch)} sequences"
        figures = [
            Figure("MACs", readable(self.macs, "flops"), exact(self.macs)),
            Figure("of a draft", readable(self.draft.macs, "flops"), exact(self.draft.macs)),
            Figure("of the verification", readable(self.verify.macs, "flops"), exact(self.verify.macs)),
            Figure("Expected tokens", f"{self.expected_tokens:.3g}", "of each sequence in a step"),
        ]
        return Overview(f"Speculative decoding, {drafts}, acceptance {self.acceptance:g}", figures)

    @property
    def expected_tokens(self) -> float:
        """Tokens that a step is expected to yield for each sequence: (1 - a ** (n + 1)) / (1 - a)."""
        if self.acceptance == 1:
            return self.drafts + 1.0
        return float((1 - self.acceptance ** (self.drafts + 1)) / (1 - self.acceptance))

    @property
    def macs(self) -> int:
        """MACs of a step: all drafts, and the pass that verifies them."""
        return self.drafts * self.draft.macs + self.verify.macs

    def bound_seconds(self, device: str | PathLike[str] | Device) -> float:
        """Return the least seconds of a step on a device.

        Raises:
            TypeError, ValueError, CostError, OSError: as :meth:`costcore.studies.serving.phase.Phase.time`.
        """
        return self.drafts * self.draft.time(device).bound_seconds + self.verify.time(device).bound_seconds

    def tokens_per_second(self, device: str | PathLike[str] | Device) -> float:
        """Return the tokens of all sequences per second that are expected, if a step takes its least time.

        Raises:
            TypeError, ValueError, CostError, OSError: as :meth:`costcore.studies.serving.phase.Phase.time`.
        """
        return self.verify.batch * self.expected_tokens / self.bound_seconds(device)
