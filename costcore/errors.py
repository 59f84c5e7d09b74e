"""The one family of errors, and the one kind of warning."""

from __future__ import annotations

from typing import Any

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

    report: Any = None  # a costcore.Report, which is made of things that raise these errors


class CostWarning(UserWarning):
    """Something a reader of the figures should know: an unknown operator, a fallback, a replaced calculator."""
