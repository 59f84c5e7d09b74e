"""MFU and HFU of the ``Trainer`` of Hugging Face Transformers."""

from __future__ import annotations

from contextlib import ExitStack
from os import PathLike
from typing import Any
from weakref import finalize

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from costcore.analyses.devices.device import Device, find_device
from costcore.errors import CostError
from costcore.studies.meter import MFUMeter


class CostCallback(TrainerCallback):
    """Adds the rates of a :class:`costcore.MFUMeter` to the logs of a ``Trainer``.

    ::

        trainer = Trainer(model, args, train_dataset=data)
        CostCallback("h100-sxm5-80gb").add_to(trainer)
        trainer.train()

    Each log of training steps gets ``mfu``, ``hfu``, ``flops_per_second``, ``tokens_per_second`` and so on, of the last
    steps; the final log has the rates of all steps. The time of validation and checkpoints does not count. A step is an
    optimizer step with all its micro-batches. Every process counts its own work.

    After an exception, :meth:`close` or the next training removes the hook from the model.

    Args:
        device, devices, dtype, peak, window: as for :class:`costcore.MFUMeter`. The default of ``devices`` is the
            number that ``torch.nn.DataParallel`` uses in this process, which is 1 without it.
        prefix: is put before the name of every rate.

    Attributes:
        meter: the meter of the last training; None before the first one.

    Raises:
        TypeError, ValueError: if the device is unknown.
    """

    def __init__(
        self,
        device: str | PathLike[str] | Device | None = None,
        *,
        devices: int | None = None,
        dtype: str | None = None,
        peak: float | None = None,
        window: int = 50,
        prefix: str = "",
    ) -> None:
        device = None if device is None else find_device(device)
        self._options: dict[str, Any] = {"device": device, "dtype": dtype, "peak": peak, "window": window}
        self._devices = devices
        self._prefix = prefix
        self._active = ExitStack()
        self._is_interrupted = True  # by the start of the training
        self.meter: MFUMeter | None = None
        finalize(self, self._active.close)

    def add_to(self, trainer: Trainer) -> None:
        """Add the callback before all others of a trainer, so that its loggers (TensorBoard, W&B) get the rates too."""
        trainer.callback_handler.callbacks.insert(0, self)

    def close(self) -> None:
        """Stop counting, and remove the hook from the model."""
        self._active.close()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Start counting the passes of the model."""
        self.close()
        devices = max(1, args.n_gpu) if self._devices is None else self._devices
        meter = MFUMeter(model, devices=devices, compiled=args.torch_compile, **self._options)
        self.meter = self._active.enter_context(meter)
        self._is_interrupted = True

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leave out the time since the last step if it was not spent on training."""
        if self._is_interrupted:
            self._running_meter().restart_clock()
            self._is_interrupted = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End a step."""
        self._running_meter().step()

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note that validation ran since the last step."""
        self._is_interrupted = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note that a checkpoint was written since the last step."""
        self._is_interrupted = True

    def _running_meter(self) -> MFUMeter:
        if self.meter is None:
            raise CostError("CostCallback was added during training: add it before training")
        return self.meter

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the rates to the log."""
        if self.meter is None or logs is None:
            return
        rates = {}
        if "loss" in logs:
            rates = self.meter.scalars(self._prefix)
        elif "train_runtime" in logs:
            rates = {self._prefix + name: value for name, value in self.meter.total.scalars().items()}
        logs.update(rates)
        if rates and state.log_history:
            state.log_history[-1].update(rates)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stop counting."""
        self.close()
