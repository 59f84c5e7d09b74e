"""Captures of one model in several ways, and what each needs of a target."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from costcore.analyses.memory.arena_report import Arena
from costcore.api.estimate import estimate
from costcore.errors import CostWarning
from costcore.registry.frontends import frontend_of
from costcore.reports.report import Report
from costcore.studies.batch_size.limit import Limit
from costcore.studies.fit.needs import Needs, needs_of
from costcore.studies.fit.target import Target


class Attempts:
    """Captures of one model.

    Args:
        model: the model; or a report, which is not captured again.
        inputs: its inputs.
        target: what it is to fit.
        limit: the terms beside tensors of a target with one memory; None for one that is divided.
        options: the options of :func:`costcore.estimate`.
        records: whether the memory of a run is recorded; otherwise its values are placed in an arena.
        align: the alignment of an arena.
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        target: Target,
        limit: Limit | None,
        options: Mapping[str, Any],
        records: bool,
        align: int,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.target = target
        self.limit = limit
        self.options = options
        self.records = records
        self.align = align

    @property
    def trains(self) -> bool:
        """Whether the runs are training steps."""
        return bool(self.options.get("backward"))

    @property
    def can_capture(self) -> bool:
        """Whether the model can be captured in another way."""
        return not isinstance(self.model, Report)

    def takes(self, options: Iterable[str]) -> bool:
        """Return whether the model can be captured with these options: the code of a model, but not a file."""
        return set(options) <= set(frontend_of(self.model).model_options)

    def report(self, inputs: Any = None, **changes: Any) -> Report:
        """Return a report of the model.

        Args:
            inputs: other inputs; default: those that were given.
            changes: other options of :func:`costcore.estimate`.

        Raises:
            CostError, TypeError, ValueError: as :func:`costcore.estimate`.
        """
        if isinstance(self.model, Report):
            return self.model
        recorded = {"memory": True} if self.records else {}
        with warnings.catch_warnings():
            # of operators without a formula, whose memory is known, and of code that nobody runs in this way
            warnings.simplefilter("ignore", Warning if changes else CostWarning)
            given = self.inputs if inputs is None else inputs
            return estimate(self.model, given, **{**self.options, **recorded, **changes})

    def arena(self, report: Report) -> Arena:
        """Return the values of an inference, placed.

        Raises:
            ArenaError: if the run has a backward pass, or if lifetimes of values are unknown.
        """
        return report.arena(self.align)

    def needs(self, report: Report, arena: Arena | None = None) -> Needs:
        """Return what a run needs.

        Args:
            report: the report of the run.
            arena: its values, placed in another way; default: in the order of the run.

        Raises:
            ArenaError: if sizes are symbolic, or lifetimes of values are unknown.
        """
        if arena is None and not self.records:
            arena = self.arena(report)
        return needs_of(report, self.target, self.limit, arena)
