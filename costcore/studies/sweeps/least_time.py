"""The column ``bound_seconds@DEVICE`` of a table of models: the least time of a run on a device."""

from __future__ import annotations

from typing import NamedTuple

from costcore.analyses.devices.catalog import named
from costcore.analyses.timing.remarks import unknown_rates
from costcore.analyses.timing.retyped import DTYPES
from costcore.errors import CostError
from costcore.reports.report import Report

PREFIX = "bound_seconds@"


class LeastTime(NamedTuple):
    """What the name of a column says: ``bound_seconds@l4``, ``bound_seconds@mine.toml:bfloat16``.

    Attributes:
        device: the name of a device, or the path of its file.
        dtype: the dtype of weights and activations; None for those of the model.
    """

    device: str
    dtype: str | None

    @classmethod
    def parse(cls, column: str) -> LeastTime | None:
        """Return what the name of a column says; None if it is that of another column."""
        if not column.startswith(PREFIX):
            return None
        device, _, dtype = column.removeprefix(PREFIX).rpartition(":")
        return cls(device, dtype) if dtype in DTYPES else cls(column.removeprefix(PREFIX), None)

    def check(self) -> None:
        """Check that the device is known.

        Raises:
            ValueError, CostError, OSError: as :func:`costcore.analyses.devices.catalog.named` does.
        """
        named(self.device)

    def seconds(self, report: Report) -> float:
        """Return the least time of a run in seconds.

        Raises:
            CostError: if the report has symbolic sizes, if a device file is invalid, or if it states nothing that the
                run needs.
        """
        times = report.time(self.device, dtype=self.dtype)
        if times.bound_seconds is None:
            raise CostError("; ".join(unknown_rates(times)))
        return times.bound_seconds

    def remarks(self, report: Report) -> list[str]:
        """Return what the time leaves out, because it is unknown of the device."""
        return unknown_rates(report.time(self.device, dtype=self.dtype))

    @property
    def title(self) -> str:
        """The title of the column."""
        return f"Bound ({self.device}{f', {self.dtype}' if self.dtype else ''})"
