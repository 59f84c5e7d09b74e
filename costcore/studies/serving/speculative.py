"""Speculative decoding: a small model drafts tokens, which the large one verifies in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from costcore.analyses.devices.device import Device
from costcore.studies.serving.phase import Phase
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.text.amounts import exact
from costcore.text.values import Shown


@dataclass(frozen=True, repr=False)
class Speculation(Result):
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

    def _answer(self) -> Answer:
        sequences = f"{exact(self.verify.batch)} sequence{'s' * (self.verify.batch != 1)}"
        drafts = f"{self.drafts} draft{'s' * (self.drafts != 1)} of each of {sequences}"
        expected = Shown(self.expected_tokens, f"{self.expected_tokens:.3g}")
        figures = [
            Figure("macs", "MACs", self.macs, "flops"),
            Figure("draft_macs", "of a draft", self.draft.macs, "flops"),
            Figure("verify_macs", "of the verification", self.verify.macs, "flops"),
            Figure("expected_tokens", "Expected tokens", expected, "ratio", "of each sequence in a step"),
        ]
        return Answer(f"Speculative decoding, {drafts}, acceptance {self.acceptance:g}", figures)

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
