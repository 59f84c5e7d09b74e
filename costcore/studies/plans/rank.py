"""What one rank of a distributed step needs and does, from captures of it with few blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from math import ceil, fsum
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device
from costcore.api.estimate import estimate
from costcore.reports.report import Report
from costcore.studies.plans.setup import Setup

DEPTHS = (2, 4)
"""So many blocks two captures have, from which the figures of more blocks follow: each block adds the same."""


class Rank(NamedTuple):
    """The figures of one pass of one rank, or of a pass and a step of the optimizer.

    Attributes:
        peaks: the most bytes alive in each phase.
        base: bytes alive before the pass.
        end: bytes alive after it.
        saved: bytes that autograd keeps for the backward pass.
        seconds: the least time of the pass.
        step_seconds: the least time of the optimizer.
        sent: bytes that the pass sends.
        binds: the least time of the pass by what binds it.
        parameters: how many parameters the rank holds.
    """

    peaks: Mapping[str, float]
    base: float
    end: float
    saved: float
    seconds: float
    step_seconds: float
    sent: float
    binds: Mapping[str, float]
    parameters: float

    def with_step(self, alone: Rank, step: Rank) -> Rank:
        """Return the figures of this pass with a step of the optimizer, which were captured with another micro-batch.

        The state of the optimizer is alive throughout. What the step needs beyond what is alive before it does not
        depend on the pass.

        Args:
            alone: a pass without the optimizer.
            step: the same pass with it.
        """
        state, needed = step.base - alone.base, step.peaks["optimizer"] - step.end
        peaks = {phase: peak + state for phase, peak in self.peaks.items()}
        return self._replace(
            peaks={**peaks, "optimizer": self.end + state + needed},
            base=self.base + state,
            end=self.end + state,
            step_seconds=step.step_seconds,
        )

    def toward(self, other: Rank, share: float) -> Rank:
        """Return the figures on the line through this rank and another one: 0 is this one, 1 the other."""

        def between(a: Any, b: Any) -> Any:
            if isinstance(a, Mapping):
                return {key: between(a.get(key, 0.0), b.get(key, 0.0)) for key in {**a, **b}}
            return a + share * (b - a)

        return Rank(*(between(a, b) for a, b in zip(self, other, strict=True)))


class Ranks:
    """Captures of one rank in several ways, each made once.

    Args:
        model: the model.
        inputs: returns the inputs of a batch.
        distribution: how the model can be distributed, see :class:`costcore.frontend.DistributionOf`.
        device: the device.
        dtype: the dtype of products.
        optimizer: the optimizer.
        options: further options of :func:`costcore.estimate`.
    """

    def __init__(
        self,
        model: Any,
        inputs: Callable[[int], Any],
        distribution: Any,
        device: Device,
        dtype: str,
        optimizer: Any,
        options: Mapping[str, Any],
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._distribution = distribution
        self._device = device
        self._dtype = dtype
        self._optimizer = optimizer
        self._options = options
        self._captured: dict[Any, Rank] = {}

    def of(self, setup: Setup, blocks: int, exactly: bool = False) -> Rank:
        """Return the figures of a rank that has so many blocks.

        Args:
            setup: how the step runs.
            blocks: the number of blocks.
            exactly: whether all of them are captured; otherwise the figures are on the line through two captures.

        Raises:
            CostError, TypeError, ValueError: if the model cannot be captured in this way.
        """
        few, more = DEPTHS
        if exactly or blocks <= more:
            return self._capture(setup, blocks, exactly)
        return self._capture(setup, few).toward(self._capture(setup, more), (blocks - few) / (more - few))

    def _capture(self, setup: Setup, blocks: int, exactly: bool = False) -> Rank:
        if exactly:
            return self._run(setup, blocks, with_step=True)
        simplest = setup._replace(micro_batch=1, passes=1, checkpoints=False)
        alone, step = (self._run(simplest, blocks, with_step) for with_step in (False, True))
        return self._run(setup, blocks, with_step=False).with_step(alone, step)

    def _run(self, setup: Setup, blocks: int, with_step: bool) -> Rank:
        mesh = {"dp": setup.mesh.fsdp, "tp": setup.mesh.tp}
        accumulates = setup.passes > 1
        key = (*mesh.values(), setup.micro_batch, setup.checkpoints, setup.precision, accumulates, blocks, with_step)
        if key not in self._captured:
            options = {
                **self._options,
                "backward": True,
                "memory": True,
                "mesh": mesh,
                "plan": self._distribution.plan(blocks, setup.mesh.fsdp > 1),
                "step": "accumulated" if accumulates else "steady",
                "precision": setup.precision,
                "checkpoint": self._distribution.kind if setup.checkpoints else None,
                "optimizer": self._optimizer if with_step else None,
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of formulas that are missing, and of code that is left out of a stage
                report = estimate(self._model, self._inputs(setup.micro_batch), **options)
            self._captured[key] = self._figures(report)
        return self._captured[key]

    def _figures(self, report: Report) -> Rank:
        memory, rank = report.memory, report.trace.run.rank
        assert memory is not None and rank is not None
        groups = report.time(self._device, dtype=self._dtype, fusion="compiler").groups
        passes = [group for group in groups if group.calls[0].phase != "optimizer"]
        steps = [group for group in groups if group.calls[0].phase == "optimizer"]
        binds: dict[str, float] = {}
        for group in passes:
            binds[group.bound.binds] = binds.get(group.bound.binds, 0.0) + group.bound_seconds
        return Rank(
            peaks=memory.phases,
            base=memory.base,
            end=memory.end,
            saved=memory.saved,
            seconds=fsum(group.bound_seconds for group in passes),
            step_seconds=fsum(group.bound_seconds for group in steps),
            sent=report.total_report.get("mcomm", 0),
            binds=binds,
            parameters=rank.n_params,
        )


def peak_of(setup: Setup, rank: Rank, block: float) -> int:
    """Return the most bytes that a rank holds at once.

    The first stage of a pipeline keeps what autograd saved of as many passes as there are stages, or passes.

    Args:
        setup: how the step runs.
        rank: the figures of the rank.
        block: what autograd saves of its blocks in one pass.
    """
    waiting = (min(setup.mesh.pp, setup.passes) - 1) * block
    return ceil(max(peak + (0 if phase == "optimizer" else waiting) for phase, peak in rank.peaks.items()))
