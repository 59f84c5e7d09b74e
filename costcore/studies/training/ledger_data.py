"""The figures of a training ledger: sums over its stages, utilization, and what rules say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.errors import CostError
from costcore.messages import unknown
from costcore.studies.training.arguments import whole
from costcore.studies.training.pairs import PAIRS
from costcore.studies.training.rules import RuleFigure, rule_figures
from costcore.studies.training.stage import Stage
from costcore.studies.training.utilization import check_positive, mfu, peak_flops

SECONDS_PER_DAY = 86_400

ALL, CAUSAL, PACKED, HARDWARE = "all pairs", "causal", "packed", "hardware"
"""The names of counts."""


class LedgerData:
    """The FLOPs of a training run as data; :class:`costcore.TrainingLedger` adds stages, text and files.

    Args:
        devices: number of devices.
        device: the device; None if none is known.
        dtype: dtype of the products, which selects the peak.
        peak: FLOP/s of one device, instead of that of a known device.
        pairs: how pairs of attention are counted, one of :data:`costcore.studies.training.pairs.PAIRS`.

    Attributes:
        stages: the stages, which add up.
    """

    def __init__(
        self,
        devices: int,
        device: str | PathLike[str] | Device | None,
        dtype: str,
        peak: float | None,
        pairs: str,
    ) -> None:
        if pairs not in PAIRS:
            raise ValueError(unknown("value of pairs", pairs, PAIRS))
        self.devices = whole(devices, "devices")
        self.device = device
        self.dtype = dtype
        self.pairs = pairs
        self._peak = peak
        if peak is not None:
            check_positive(peak=peak)
        elif device is not None:
            self._peak = peak_flops(device, dtype)
        self.stages: list[Stage] = []

    @property
    def model_flops(self) -> int:
        """Model FLOPs of the run, with the pairs of :attr:`pairs`."""
        return self.model_flops_with(self.pairs)

    def model_flops_with(self, pairs: str) -> int:
        """Return the model FLOPs of the run, with pairs counted as ``all``, ``causal`` or ``packed``."""
        return sum(stage.model_flops(pairs) for stage in self.stages)

    @property
    def hardware_flops(self) -> int:
        """Hardware FLOPs of the run: model FLOPs, recomputation, and the padding of experts."""
        return sum(stage.hardware_flops(self.pairs) for stage in self.stages)

    @property
    def recompute_flops(self) -> int:
        """FLOPs of recomputation in the run, which are part of hardware FLOPs."""
        return sum(stage.of_all_tokens(stage.step.recompute_flops(self.pairs)) for stage in self.stages)

    @property
    def optimizer_flops(self) -> int:
        """Operations of the optimizer in the run, which are part of neither model nor hardware FLOPs."""
        return sum(stage.optimizer_flops for stage in self.stages)

    @property
    def tokens(self) -> int:
        """Tokens (or samples) of the run."""
        return sum(stage.tokens for stage in self.stages)

    @property
    def peak(self) -> float | None:
        """FLOP/s of one device; None if no device is known."""
        return self._peak

    @property
    def device_hours_name(self) -> str:
        """What hours of its devices are called."""
        is_gpu = self.device is not None and named(self.device).kind == "gpu"
        return "GPU-hours" if is_gpu else "device-hours"

    @cached_property
    def rules(self) -> list[RuleFigure]:
        """What published rules say of the run, with the causes of the difference."""
        return rule_figures(self.stages)

    @property
    def counts(self) -> dict[str, int]:
        """FLOPs of the run by how they are counted, side by side.

        ``all pairs`` and ``causal`` are model FLOPs; so is ``packed``, if documents are packed. ``6ND`` is there if the
        rule applies; of a mixture of experts it is ``6ND, active``. ``hardware`` are hardware FLOPs of all pairs.
        """
        counts = {ALL: self.model_flops_with("all"), CAUSAL: self.model_flops_with("causal")}
        if any(stage.step.packing.documents for stage in self.stages):
            counts[PACKED] = self.model_flops_with("packed")
        rule = next((each for each in self.rules if each.rule.convention == "6nd-all" and each.flops is not None), None)
        if rule is not None and rule.flops is not None:
            counts[rule.rule.label] = rule.flops
        return {**counts, HARDWARE: sum(stage.hardware_flops() for stage in self.stages)}

    def mfu(self, step_seconds: float, stage: str | None = None) -> float:
        """Return the model FLOPs utilization: a share of the peak of all devices.

        Args:
            step_seconds: measured seconds of one step of the optimizer, with all of its micro-batches.
            stage: the stage that was measured; default: the only one.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if no device is known.
        """
        found = self._stage(stage)
        flops = found.step.model_flops(self.pairs) * found.micro_batches
        return mfu(flops, step_seconds, self.devices, self._known_peak())

    def hfu(self, step_seconds: float, stage: str | None = None) -> float:
        """Return the hardware FLOPs utilization; arguments as for :meth:`mfu`."""
        found = self._stage(stage)
        flops = found.step.hardware_flops(self.pairs) * found.micro_batches
        return mfu(flops, step_seconds, self.devices, self._known_peak())

    def seconds_by_stage(self, step_seconds: float | Mapping[str, float] | None) -> dict[str, float]:
        """Return measured seconds per step by name of the stage; a number is of the only stage.

        Raises:
            TypeError, ValueError: if a stage is unknown or not named, or if a duration is not positive.
        """
        if step_seconds is None:
            return {}
        given = step_seconds if isinstance(step_seconds, Mapping) else {self._stage(None).name: step_seconds}
        for name, seconds in given.items():
            check_positive(step_seconds=seconds)
            self._stage(name)
        return dict(given)

    def days(self, mfu: float, step_seconds: Mapping[str, float] | None = None) -> float:
        """Return how many days the run takes: stages by measured seconds per step, others at this MFU.

        Raises:
            TypeError, ValueError: if ``mfu`` is not between 0 and 1.
            CostError: if no device is known.
        """
        check_positive(mfu=mfu)
        if mfu > 1:
            raise ValueError(f"mfu must be a share of at most 1, 0.4 for 40 % (got {mfu!r})")
        measured = step_seconds or {}
        left = sum(stage.model_flops(self.pairs) for stage in self.stages if stage.name not in measured)
        seconds = sum(stage.steps * measured[stage.name] for stage in self.stages if stage.name in measured)
        return (left / (self.devices * self._known_peak() * mfu) + seconds) / SECONDS_PER_DAY

    def __repr__(self) -> str:
        stages = "1 stage" if len(self.stages) == 1 else f"{len(self.stages)} stages"
        return f"<TrainingLedger: {stages}, {self.model_flops:.3e} model FLOPs ({self.pairs} pairs)>"

    def _stage(self, name: str | None) -> Stage:
        if name is None and len(self.stages) == 1:
            return self.stages[0]
        names = [stage.name for stage in self.stages]
        if name is None:
            raise ValueError(f"stage= is needed (stages: {', '.join(names) or 'none'})")
        if name not in names:
            raise ValueError(unknown("stage", name, names))
        return self.stages[names.index(name)]

    def _known_peak(self) -> float:
        if self._peak is None:
            raise CostError("utilization needs device= or peak= of the ledger (`costcore devices` lists devices)")
        return self._peak
