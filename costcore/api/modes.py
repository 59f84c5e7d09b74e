"""The mode in which a model is counted: training or evaluation."""

from __future__ import annotations

from functools import partial
from typing import Any

from costcore.api.user_code import run_user_code
from costcore.errors import CostError
from costcore.ledger.caveats import EVALUATION, TRAIN, mode_of
from costcore.registry.libraries import library_target
from costcore.reports.data.report_data import ReportData

MODES = (TRAIN, EVALUATION)
"""The modes into which a model can be put."""


def in_mode(model: Any, target: str, mode: str | None, is_step: bool) -> str:
    """Put a model into the mode in which it is counted, and return that mode if it was put into one.

    A model is counted in the mode in which it comes, by every command and function. A model of a library comes in
    evaluation mode, for a training step in train mode.

    Args:
        model: the model; one without modes stays as it is.
        target: the target that it was loaded from.
        mode: one of :data:`MODES`, which replaces the mode in which it comes; None for that one.
        is_step: whether a training step is counted.

    Raises:
        CostError: if the model cannot be put into this mode.
    """
    if mode is None and is_step and library_target(target):
        mode = TRAIN
    if mode is None or not has_modes(model):
        return ""
    run_user_code(f"{target} cannot be put into {mode} mode", partial(model.train, mode == TRAIN))
    return mode


def has_modes(model: Any) -> bool:
    """Return whether a model can be put into train mode and evaluation mode."""
    return hasattr(model, "training") and callable(getattr(model, "train", None))


def check_report(report: ReportData, model: Any, target: str, mode: str | None, is_step: bool) -> None:
    """Check that a report is what was asked for, although its model could not be changed or captured for that.

    Args:
        report: the report.
        model: the model, such as the path of a file; None for a report that was there.
        target: its name.
        mode: as for :func:`in_mode`.
        is_step: as for :func:`in_mode`.

    Raises:
        CostError: if it is of another mode, or has no backward pass.
    """
    if model is None and is_step and not report.trace.has_backward:
        raise CostError(f"{target} has no backward pass: save the report of a training step (backward=True)")
    ran = mode_of(report.trace)
    if mode is not None and ran not in ("", mode) and not has_modes(model):
        raise CostError(f"{target} runs in {ran} mode: only a PyTorch module of a target can be put into {mode} mode")
