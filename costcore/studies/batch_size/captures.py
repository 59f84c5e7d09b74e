"""Captures of one model with several batches, each made once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from costcore.analyses.memory.report import Memory
from costcore.api.estimate import estimate
from costcore.errors import CostError, CostWarning
from costcore.registry.frontends import frontend_of
from costcore.reports.report import Report
from costcore.studies.batch_size.inputs import InputsOfBatch


class Captures:
    """Reports of one model by batch, with memory.

    Args:
        model: the model.
        inputs: returns the inputs of a batch.
        options: the options of :func:`costcore.estimate`.

    Attributes:
        reports, memories: the reports so far and their memory, by batch.
    """

    def __init__(self, model: Any, inputs: InputsOfBatch, options: Mapping[str, Any]) -> None:
        self.model = model
        self.inputs = inputs
        self.options = options
        self.reports: dict[int, Report] = {}
        self.memories: dict[int, Memory] = {}

    def with_options(self, **options: Any) -> Captures:
        """Return captures of the same model with further options."""
        return Captures(self.model, self.inputs, {**self.options, **options})

    def report(self, batch: int) -> Report:
        """Return the report of a batch.

        Raises:
            CostError: if the model fails; the message includes the batch.
        """
        if batch not in self.reports:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CostWarning)  # of operators without a formula: their memory is known
                try:
                    report = estimate(self.model, self.inputs(batch), memory=True, **self.options)
                except CostError as error:
                    raise CostError(f"with a batch of {batch}: {error}") from error
            assert report.memory is not None
            self.reports[batch], self.memories[batch] = report, report.memory
        return self.reports[batch]

    def memory(self, batch: int) -> Memory:
        """Return the memory of a batch.

        Raises:
            CostError: if the model fails; the message includes the batch.
        """
        self.report(batch)
        return self.memories[batch]


def check_model(model: Any) -> None:
    """Check that the memory of a model can be recorded.

    Raises:
        CostError: if it cannot; the message says which models can.
    """
    spec = frontend_of(model)
    if "memory" not in spec.model_options:
        raise CostError(
            f"the {spec.name} frontend does not record the memory of a run, which the largest batch follows from "
            "(expected a torch.nn.Module; of an ONNX model, report.arena() has the peak of one batch)"
        )
