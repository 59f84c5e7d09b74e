"""What a run takes in devices, energy and money, at rates that the user states."""

from __future__ import annotations

from typing import NamedTuple

from costcore.studies.training.utilization import check_positive

USUAL_MFU = 0.4
"""The utilization for which a duration is stated if neither a step was measured nor an MFU is given."""


class Rates(NamedTuple):
    """What the duration of a run is multiplied by.

    Attributes:
        mfu: the utilization of stages that were not measured.
        price: the price of one device for an hour, in any currency; None if unknown.
        watts: the power of one device; None if unknown.
    """

    mfu: float = USUAL_MFU
    price: float | None = None
    watts: float | None = None

    def checked(self) -> Rates:
        """Return the rates.

        Raises:
            TypeError, ValueError: if one is not a positive number.
        """
        check_positive(**{name: value for name, value in self._asdict().items() if value is not None})
        return self

    def of(self, device_hours: float) -> dict[str, float]:
        """Return the price and the energy (kWh) of so many hours of a device, those that are known."""
        found = {}
        if self.price is not None:
            found["price"] = device_hours * self.price
        if self.watts is not None:
            found["kwh"] = device_hours * self.watts / 1000
        return found
