"""The one family of errors, and the one kind of warning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costcore.reports.report import Report


WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".safetensors")
"""How the names of files that hold weights end."""

WEIGHTS_ONLY = "weights do not say how they are used; give the model that code makes"
"""What is said of weights in the place of a model."""


class CostError(ValueError):
    """A cost that cannot be told: says which file or model, which node or module, and why."""


class PartialReportError(CostError):
    """``strict=True``, and some operators could not be counted.

    Attributes:
        report: the report of everything else.
    """

    report: Report | None = None


def why(error: Exception) -> str:
    """What went wrong, without the number and the path that the system's errors carry."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def shortly(value: object) -> str:
    """A value as far as a sentence takes it, on one line."""
    text = re.sub(r"\s*\n\s*", " ", repr(value))
    return text if len(text) <= 80 else text[:79] + "…"


class CostWarning(UserWarning):
    """Something a reader of the figures should know: an unknown operator, a fallback, a replaced calculator."""
