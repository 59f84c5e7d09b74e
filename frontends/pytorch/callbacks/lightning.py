"""MFU and HFU of the ``Trainer`` of Lightning."""

from __future__ import annotations

from contextlib import ExitStack
from os import PathLike
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from costcore.analyses.devices.device import Device, find_device
from costcore.studies.meter import MFUMeter


class CostCallback(Callback):
    """Logs the rates of a :class:`costcore.MFUMeter` to the loggers of a ``Trainer``.

    ::

        trainer = Trainer(callbacks=[CostCallback("h100-sxm5-80gb")])
        trainer.fit(module, loader)

    A training step may call any part of the module, so its forward and backward pass are counted while they run, once
    per distinct shape of the batch. The time of validation does not count. Rates of the last batches are logged every
    ``log_every_n_steps`` steps. Every process counts its own work.

    Args:
        device, devices, dtype, peak, window: as for :class:`costcore.MFUMeter`.
        prefix: is put before the name of every rate.

    Attributes:
        meter: the meter of the last training; None before the first one. Its steps are batches.

    Raises:
        TypeError, ValueError: if the device is unknown.
    """

    def __init__(
        self,
        device: str | PathLike[str] | Device | None = None,
        *,
        devices: int = 1,
        dtype: str | None = None,
        peak: float | None = None,
        window: int = 50,
        prefix: str = "",
    ) -> None:
        device = None if device is None else find_device(device)
        self._options: dict[str, Any] = {"device": device, "dtype": dtype, "peak": peak, "window": window}
        self._options["devices"] = devices
        self._prefix = prefix
        self._active = ExitStack()
        self._logged = 0
        self.meter: MFUMeter | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start counting."""
        self._logged = trainer.global_step
        self.meter = self._active.enter_context(MFUMeter(pl_module, counted="run", **self._options))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Begin a step."""
        if self.meter is not None:
            self.meter.begin(batch)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step, and log the rates every ``log_every_n_steps`` steps."""
        if self.meter is None:
            return
        self.meter.step()
        step = trainer.global_step
        if step != self._logged and step % trainer.log_every_n_steps == 0:
            self._logged = step
            for logger in trainer.loggers:
                logger.log_metrics(self.meter.scalars(self._prefix), step=step)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Exclude the time of validation."""
        if self.meter is not None:
            self.meter.restart_clock()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop counting."""
        self._active.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Stop counting, and remove the hook from the module."""
        self._active.close()
