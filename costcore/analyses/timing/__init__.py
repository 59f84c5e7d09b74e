"""Time of a run on a device: a lower bound for every group of calls, and the resource that limits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from costcore.analyses.analysis import Analysis
from costcore.errors import CostError
from costcore.ledger.ledger import Ledger
from costcore.tables.quantity import Quantity
from costcore.trace.call import Call

if TYPE_CHECKING:
    from costcore.analyses.timing.bound import GroupTime
    from costcore.analyses.timing.times import Times


# Quantities of time on a device: the minimum time of a call, its bottleneck, and the calibrated time.

PARAMETER = "DEVICE[:DTYPE]"


def _parsed(parameter: str) -> tuple[str, str | None]:
    from costcore.analyses.devices.device import find_device
    from costcore.analyses.timing.times import DTYPES

    device, _, dtype = parameter.rpartition(":")
    found = (device, dtype) if dtype in DTYPES else (parameter, None)
    find_device(found[0])
    return found


def _times(ledger: Ledger, device: str, dtype: str | None) -> Times:
    from costcore.analyses.timing.times import Times, times_of

    return ledger.cached(("times", device, dtype), lambda: times_of(Times, ledger.trace, device, dtype))  # type: ignore[no-any-return]


class _OnDevice:
    def __init__(self, parameter: str) -> None:
        self.parameter = parameter
        self.device, self.dtype = _parsed(parameter)
        self.place = f"{self.device}{f', {self.dtype}' if self.dtype else ''}"

    def quantity(self, name: str, title: str, of: Callable[[GroupTime], Any], doc: str, **fields: Any) -> Quantity:
        """Return a quantity of this device; ``of`` returns its value for one call, given as a group."""
        name, title, doc = f"{name}@{self.parameter}", f"{title} ({self.place})", f"{doc} on {self.place}"
        kind = fields.pop("kind", "duration")

        def of_calls(ledger: Ledger) -> Sequence[Any]:
            return [of(group) for group in self.groups_of(ledger, ledger.calls)]

        return Quantity(name, title, kind, doc, of_calls, remarks=self._meaning, missing=self._missing, **fields)

    def times(self, ledger: Ledger) -> Times:
        """Return the times of the run.

        Raises:
            CostError: if sizes are symbolic, or if the report is fused or counted by another convention.
        """
        return _times(ledger, self.device, self.dtype)

    def groups_of(self, ledger: Ledger, calls: Iterable[Call]) -> list[GroupTime]:
        """Return the time of each call; without fusion, every call is a group."""
        groups = {group.name: group for group in self.times(ledger).groups}
        return [groups[call.name] for call in calls]

    def binds(self, ledger: Ledger, calls: Sequence[Call]) -> str:
        """Return the bottlenecks of calls, with the share of each in their time."""
        from costcore.analyses.timing.roofline import seconds_by
        from costcore.analyses.timing.time_report import UNKNOWN, shares_of

        groups = self.groups_of(ledger, calls)
        is_unknown = groups and not any(group.is_bounded for group in groups)
        return UNKNOWN if is_unknown else shares_of(seconds_by(groups))

    def calibrated(self, ledger: Ledger) -> float | None:
        """Return the calibrated time of the run.

        Raises:
            CostError: if the device is not calibrated.
        """
        if self.times(ledger).calibrated is None:
            raise CostError(f"{self.device} was not calibrated: run costcore calibrate on it, and name its file")
        return self.times(ledger).seconds

    def _meaning(self, ledger: Ledger) -> Sequence[str]:
        from costcore.analyses.timing.time_report import meaning

        return meaning(self.times(ledger))

    def _missing(self, ledger: Ledger) -> Sequence[str]:
        from costcore.analyses.timing.time_report import unknown_rates

        return unknown_rates(self.times(ledger))


def _bound(parameter: str) -> Quantity:
    on = _OnDevice(parameter)

    def seconds(group: GroupTime) -> float | None:
        return group.bound_seconds if group.is_bounded else None

    return on.quantity(
        *("bound_seconds", "Bound", seconds, "least time"),
        of_run=lambda ledger: on.times(ledger).bound_seconds,
        certainty="bound",
        words=f"at least on {on.place}",
    )


def limits(parameter: str) -> Callable[[Ledger], Sequence[float | None]]:
    """Return a function from a ledger to the minimum time of each call if caches are empty.

    It is the bound or, if longer, the time to move all bytes of the call from and to main memory; None if the bound is
    unknown.
    """
    on = _OnDevice(parameter)

    return lambda ledger: [on.times(ledger).limit(group) for group in on.groups_of(ledger, ledger.calls)]


def _binds(parameter: str) -> Quantity:
    on = _OnDevice(parameter)
    return on.quantity(
        "binds", "Bound by", lambda group: group.binds, "bottleneck of the least time", kind="text"
    )._replace(combine=on.binds, certainty="bound")


def _calibrated(parameter: str) -> Quantity:
    on = _OnDevice(parameter)

    def total(ledger: Ledger, calls: Sequence[Call]) -> float | None:
        on.calibrated(ledger)
        known = [group.seconds for group in on.groups_of(ledger, calls)]
        return None if None in known else fsum(filter(None, known))

    return on.quantity(
        *("calibrated_seconds", "Calibrated", lambda group: group.seconds, "estimated time"),
        combine=total,
        of_run=on.calibrated,
        certainty="calibrated",
        words=f"estimated on {on.place}",
    )


QUANTITIES = (
    Quantity(
        f"bound_seconds@{PARAMETER}",
        "Bound",
        "duration",
        "least time on a device, in seconds",
        at=_bound,
        certainty="bound",
    ),
    Quantity(f"binds@{PARAMETER}", "Bound by", "text", "bottleneck of the bound", at=_binds, certainty="bound"),
    Quantity(
        *(
            f"calibrated_seconds@{PARAMETER}",
            "Calibrated",
            "duration",
            "estimated time on a calibrated device, in seconds",
        ),
        at=_calibrated,
        certainty="calibrated",
    ),
)


ANALYSES = (
    Analysis(
        "time",
        "lower bound of the time of the run on a device",
        f"{__name__}.time_report:time_of",
        quantities=f"{__name__}:QUANTITIES",
        pictures={"roofline": f"{__name__}.roofline:roofline_of"},
    ),
)
