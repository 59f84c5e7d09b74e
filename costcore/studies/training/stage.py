"""A stage of a training run: how often a captured micro-batch runs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from costcore.studies.batch_size.largest import LargestBatch
from costcore.studies.training.step import Step


@dataclass(frozen=True)
class Stage:
    """A part of a training run in which every step is the same.

    A step is ``accumulation`` micro-batches on each of ``replicas`` copies of the model, and one step of the optimizer.

    Attributes:
        name: its name, ``pre-training``.
        step: the captured micro-batch.
        tokens: tokens (or samples) of the stage, padding included.
        accumulation: micro-batches of one replica per step.
        replicas: copies of the model that each run their own micro-batches.
        padding_share: the share of tokens that are padding, which is computed as all others are.
        because: why the stage is part of the total.
        largest: the largest micro-batch of a rank that fits its device, if that was asked for: the one captured.
    """

    name: str
    step: Step
    tokens: int
    accumulation: int = 1
    replicas: int = 1
    padding_share: float = 0.0
    because: str = ""
    largest: LargestBatch | None = None

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step, of all its micro-batches."""
        return self.step.tokens * self.micro_batches

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a step."""
        return self.accumulation * self.replicas

    @property
    def steps(self) -> Fraction:
        """Number of steps; not whole if the tokens do not fill the last one."""
        return Fraction(self.tokens, self.tokens_per_step)

    @property
    def optimizer_flops(self) -> int:
        """Operations of the optimizer in the stage: once per step, however many replicas share it."""
        return round(self.steps * self.step.optimizer_flops)

    def of_all_tokens(self, flops: int) -> int:
        """Return the FLOPs of the stage from those of a micro-batch, rounded to a whole number."""
        return round(Fraction(flops * self.tokens, self.step.tokens))

    def model_flops(self, pairs: str = "all") -> int:
        """Return the model FLOPs of the stage."""
        return self.of_all_tokens(self.step.model_flops(pairs))

    def hardware_flops(self, pairs: str = "all") -> int:
        """Return the hardware FLOPs of the stage."""
        return self.of_all_tokens(self.step.hardware_flops(pairs))
