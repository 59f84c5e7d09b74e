"""Measure model FLOPs per second, MFU and HFU of a training loop while it runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from types import TracebackType
from typing import Any
from warnings import warn

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.api.estimate import estimate
from costcore.errors import CostError, CostWarning
from costcore.messages import unknown
from costcore.registry.frontends import needed_ability
from costcore.studies.meter.pass_costs import cost_of
from costcore.studies.meter.passes import Passes, Sizes
from costcore.studies.meter.rates import PassCost, sum_of
from costcore.studies.meter.readings import Readings
from costcore.studies.meter.run_counts import RunCounts
from costcore.studies.meter.step_log import StepLog
from costcore.studies.training.utilization import check_positive, peak_flops

COUNTED = ("copy", "run")
"""Where steps are counted: on a copy of the model on the meta device before they run, or while they run."""

MANY_INPUTS = 100
"""Number of different input shapes above which a warning recommends fewer, as each of them is counted."""


class MFUMeter(Readings):
    """Measures the model FLOPs per second of a training loop, and the share of a device's peak that they are (MFU).

    ::

        with MFUMeter(model, device="h100-sxm5-80gb") as meter:
            for batch in loader:
                ...                       # forward, backward, optimizer, as always
                meter.step()
        print(meter.mfu, meter.total.mfu)

    Every pass of the model with gradients is counted with its backward pass, once for each distinct shape of inputs: on
    a copy on the meta device before the step runs, or, if the model fails there, while a step runs. All later steps
    only add numbers. Passes without gradients (validation, generation) are not counted. Time is that of the host clock
    between two calls of :meth:`step`, without the time of counting. Nothing waits for the device, so a single step on
    an accelerator may seem short: several together are right.

    A step that is counted while it runs is left out of all rates. Everything that it computes counts, of other models
    too. It counts anew for every sequence of shapes in a step.

    Args:
        model: the module that the loop calls.
        device: the device that computes it, for MFU and HFU: a name that ``costcore devices`` lists, the path of a
            TOML file, or a :class:`~costcore.analyses.devices.device.Device`. None: MFU and HFU are None.
        devices: number of devices that compute the passes of this process. If every process has a device and a meter
            of its own, it is 1.
        dtype: dtype of the peak, such as ``"bfloat16"``; default: the one in which most products are computed.
            ``"tfloat32"`` if the device rounds float32 products to TF32.
        peak: FLOP/s of one device, in place of the one in the catalogue.
        window: number of steps that :attr:`last` and the rates of the meter itself are of.
        loss: returns the loss from what the model returned, if not all floating-point outputs have a backward pass;
            default: the output named ``loss``, else their sum.
        compiled: whether the loop calls something compiled that calls ``model``; not necessary if ``model`` is what
            ``torch.compile`` returned. A step takes 3 µs longer then.
        counted: ``"copy"``: before a step runs; ``"run"``: while it runs. Default: on a copy if the model allows it.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if there is no meter for this model.
    """

    def __init__(
        self,
        model: Any,
        device: str | PathLike[str] | Device | None = None,
        *,
        devices: int = 1,
        dtype: str | None = None,
        peak: float | None = None,
        window: int = 50,
        loss: Callable[[Any], Any] | None = None,
        compiled: bool = False,
        counted: str | None = None,
    ) -> None:
        check_positive(devices=devices, window=window)
        if peak is not None:
            check_positive(peak=peak)
        if counted is not None and counted not in COUNTED:
            raise ValueError(unknown("value of counted", counted, COUNTED))
        self._device = None if device is None else named(device)
        if peak is None and self._device is not None and dtype is not None:
            peak = peak_flops(self._device, dtype)
        self._passes = _passes_of(model, compiled)
        self._devices, self._given_dtype, self._given_peak = devices, dtype, peak
        self._loss, self._counted, self._window = loss, counted, window
        self._stack: ExitStack | None = None
        self._clear()

    def _clear(self) -> None:
        self._costs: dict[Hashable, PassCost] = {}
        self._sizes: dict[Hashable, Sizes] = {}
        self._pending: list[PassCost] = []
        self._pending_sizes: list[Sizes] = []
        self._runs = RunCounts()
        self._log = StepLog(self._window)
        self._peak = self._given_peak
        self._is_ignoring = False
        self.notes: list[str] = []
        if self._device is None and self._peak is None:
            self.notes.append(
                "MFU and HFU are unknown, as no device was given: state one that `costcore devices` lists by "
                "device='h100-sxm5-80gb', or its peak by peak=989.4e12"
            )

    def __enter__(self) -> MFUMeter:
        if self._stack is not None:
            raise CostError("this MFUMeter is already active; create a second one")
        self._clear()
        with ExitStack() as stack:
            stack.callback(self._runs.close)
            stack.enter_context(self._passes.watched(self._seen))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def _seen(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Add a pass that is about to run to the running step."""
        if self._is_ignoring:
            return
        cost = self._costs.get(key)
        if cost is not None and not self._pending_sizes:
            self._pending.append(cost)
        else:
            self._add_watched(key, args, kwargs)

    def _add_watched(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Add a pass on new inputs, or one of a step that is not counted on copies."""
        if key not in self._sizes:
            with self.paused():  # the copy has the hooks of the model
                self._note_inputs(key, args, kwargs)
        if key in self._costs and not self._pending_sizes:
            self._pending.append(self._costs[key])
        else:
            self._pending_sizes.append(self._sizes[key])
            self._runs.add(key)

    def _note_inputs(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Count a pass on inputs that are seen for the first time, if it can be counted on a copy."""
        self._sizes[key] = self._passes.sizes(args, kwargs)
        if self._counted != "run":
            self._count_on_a_copy(key, args, kwargs)
        if len(self._sizes) == MANY_INPUTS:
            warn(
                f"MFUMeter has counted inputs of {MANY_INPUTS} different shapes, which takes time for each. Pad "
                "sequences to few different lengths.",
                CostWarning,
                stacklevel=5,
            )

    def _count_on_a_copy(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        try:
            model, inputs, loss = self._passes.on_a_copy(args, kwargs)
            report = estimate(model, inputs, backward=True, loss=self._loss or loss)
        except (CostError, TypeError) as error:
            if self._counted == "copy":
                raise
            self._note(f"steps are counted while they run, as no copy of the model runs on the meta device: {error}")
            return
        cost, notes = cost_of(report, self._sizes[key])
        self._costs[key] = cost
        self._note_all(cost, notes)

    def begin(self, batch: Any) -> None:
        """Begin a step on a batch, in loops that do not call the model itself, and count it while it runs.

        The step ends at :meth:`step`. It is counted once for each distinct shape of the batch.
        """
        self._check_active()
        key = self._passes.key(batch)
        if key not in self._sizes:
            self._sizes[key] = self._passes.sizes((batch,), {})
        self._pending_sizes.append(self._sizes[key])
        self._runs.add(key)
        self._is_ignoring = True

    def step(self) -> None:
        """End a step: call it after every step of the optimizer, however many micro-batches it had.

        Raises:
            CostError: outside of the ``with`` block.
        """
        self._check_active()
        if self._pending_sizes:
            self._end_watched_step()
        elif self._pending:
            pending = self._pending
            self._log.end_step(pending[0] if len(pending) == 1 else sum_of(pending))
            self._pending = []
        else:
            self._log.end_step(PassCost(0, 0))
            self._note_no_pass()
        self._is_ignoring = False

    def _end_watched_step(self) -> None:
        """End a step with passes that cannot be counted on a copy."""
        was_counting = self._runs.is_counting
        sizes, self._pending_sizes = self._pending_sizes, []
        pending, self._pending = self._pending, []
        report = self._runs.end_step()
        if report is None:
            self._log.leave_out_step(sum_of(pending))
            self._note("some steps are not counted: they were seen too late to be, as micro-batches of new shapes came")
            return
        together = Sizes(sum(each.tokens for each in sizes), sum(each.samples for each in sizes))
        cost, notes = cost_of(report, together)
        self._note_all(cost, notes)
        end = self._log.leave_out_step if was_counting else self._log.end_step
        end(sum_of((*pending, cost)))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time and the passes inside the context out: validation, checkpoints, anything but training."""
        before, self._is_ignoring = self._is_ignoring, True
        try:
            with self._log.stopped():
                yield
        finally:
            self._is_ignoring = before

    def restart_clock(self) -> None:
        """Leave out the time since the last step, as it was not spent on training."""
        self._log.restart()

    def _check_active(self) -> None:
        if self._stack is None:
            raise CostError("MFUMeter is not active: enter it first, `with MFUMeter(model) as meter:`")

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _note_all(self, cost: PassCost, notes: Sequence[str]) -> None:
        for note in notes:
            self._note(note)
        if self._peak is None and self._device is not None and cost.dtype:
            try:
                self._peak = peak_flops(self._device, cost.dtype)
            except CostError as error:
                self._note(f"MFU and HFU are unknown: {error}")

    def _note_no_pass(self) -> None:
        note = (
            "no pass of the model with gradients was seen in a step. Pass the module that the loop calls: if it is "
            "compiled, what torch.compile returned."
        )
        if note not in self.notes:
            self.notes.append(note)
            warn(f"MFUMeter: {note}", CostWarning, stacklevel=3)


def _passes_of(model: Any, is_compiled: bool) -> Passes:
    """Return the passes of a model.

    Raises:
        CostError: if its frontend has no meter.
    """
    passes: Passes = needed_ability("passes_of", model, "MFUMeter")(model, is_compiled)
    return passes
