"""Measure model FLOPs per second, MFU and HFU of a training loop while it runs.

Every pass with gradients is counted once per input shape: on a copy of the model on the meta device before the step, or
if that fails, with a hook while the step runs. Later steps only add numbers. A step log measures durations.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from fractions import Fraction
from os import PathLike
from time import perf_counter_ns
from types import TracebackType
from typing import Any, NamedTuple, Protocol
from warnings import warn

from costcore.analyses.devices.device import Device, find_device
from costcore.api.estimate import estimate
from costcore.api.hook import ComputationalCostHook
from costcore.errors import CostError, CostWarning, unknown
from costcore.registry import needed_ability
from costcore.reports.report import Report
from costcore.studies.training.step import MODEL_PHASES, check_positive, hardware_flops, mfu, model_flops, peak_flops
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result
from costcore.text.amounts import BASES, PREFIXES, duration, rounded

# Readings: rates of the last steps and of all.


class Readings(Result):
    """The rates of a meter; :class:`costcore.MFUMeter` counts the steps.

    Attributes:
        notes: assumptions, and why there is no MFU; a list of sentences.
    """

    notes: list[str]
    _log: StepLog
    _devices: int
    _peak: float | None
    _given_dtype: str | None

    def _rates(self, totals: Totals) -> Rates:
        steps, nanoseconds, cost = totals
        return Rates(steps, nanoseconds / 1e9, cost, self._devices, self._peak)

    @property
    def last(self) -> Rates:
        """The last steps: those in the window."""
        return self._rates(self._log.last)

    @property
    def total(self) -> Rates:
        """All steps, except steps counted while running."""
        return self._rates(self._log.all)

    @property
    def model_flops(self) -> int:
        """Model FLOPs of all steps, including steps counted while running."""
        return self._log.all[2].model_flops + self._log.untimed.model_flops

    @property
    def hardware_flops(self) -> int:
        """Hardware FLOPs of all steps, including steps counted while running."""
        return self._log.all[2].hardware_flops + self._log.untimed.hardware_flops

    @property
    def dtype(self) -> str:
        """The dtype of the peak; empty before the first step."""
        return self._given_dtype or self._log.all[2].dtype or self._log.untimed.dtype

    @property
    def mfu(self) -> float | None:
        """Model FLOPs per second of the last steps as a share of the peak; None if the peak is unknown."""
        return self.last.mfu

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs per second of the last steps as a share of the peak; None if the peak is unknown."""
        return self.last.hfu

    @property
    def flops_per_second(self) -> float | None:
        """Model FLOPs per second of the last steps."""
        return self.last.flops_per_second

    @property
    def tokens_per_second(self) -> float | None:
        """Input tokens per second of the last steps; None if the input does not have tokens."""
        return self.last.tokens_per_second

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """Return the rates of the last steps and the model FLOPs of all: a flat dict of floats.

        It suits TensorBoard, W&B and others. Unknown rates are left out.

        Args:
            prefix: is put before every name, ``"costcore/"``.
        """
        found = {**self.last.scalars(), "total_model_flops": float(self.model_flops)}
        return {prefix + name: value for name, value in found.items()}

    def describe(self) -> str:
        """Return the rates of the last steps as text, followed by the notes."""
        return "\n".join([described(self.last, self.total, self.dtype), *self.notes])

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return self.describe()

    def _content(self) -> Content:
        rates = [Figure(name, name, value, "ratio", "", "measured") for name, value in self.last.scalars().items()]
        flops = Figure("total_model_flops", "Model FLOPs of all steps", self.model_flops, "flops")
        return Content(described(self.last, self.total, self.dtype), [flops, *rates], (), self.notes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({described(self.last, self.total, self.dtype)})"


def described(last: Rates, total: Rates, dtype: str) -> str:
    """Return one line: utilization, FLOP/s, tokens or samples per second, duration of a step, number of steps."""
    if last.flops_per_second is None or last.seconds_per_step is None:
        return "no step was measured"
    parts = [f"{_amount(last.flops_per_second)}FLOP/s"]
    if last.mfu is not None and last.hfu is not None and last.peak is not None:
        peak = f"{_amount(last.peak * last.devices)}FLOP/s" + f" in {dtype}" * bool(dtype)
        parts = [f"MFU {last.mfu:.1%}", f"HFU {last.hfu:.1%} of {peak}", *parts]
    if last.tokens_per_second is not None:
        parts.append(f"{last.tokens_per_second:,.0f} tokens/s")
    elif last.samples_per_second is not None:
        parts.append(f"{last.samples_per_second:,.1f} samples/s")
    parts.append(f"{duration(last.seconds_per_step)} per step")
    return f"{', '.join(parts)} (last {last.steps} of {total.steps} steps)"


def _amount(value: float) -> str:
    base = BASES["flops"]
    power = max((i for i in range(len(PREFIXES)) if value >= base**i), default=0)
    return f"{rounded(Fraction(value) / base**power, 1)} {PREFIXES[power]}"


# The meter.


COUNTED = ("copy", "run")
"""Where steps are counted: on a copy of the model on the meta device before they run, or while they run."""

MANY_INPUTS = 100
"""Number of different input shapes at which a warning recommends fewer: each of them is counted."""


class MFUMeter(Readings):
    """Measures the model FLOPs per second of a training loop, and their share of the peak of a device (MFU).

    ::

        with MFUMeter(model, device="h100-sxm5-80gb") as meter:
            for batch in loader:
                ...                       # forward, backward, optimizer, as always
                meter.step()
        print(meter.mfu, meter.total.mfu)

    Every pass of the model with gradients is counted with its backward pass, once for each distinct shape of inputs: on
    a copy on the meta device before the step runs, or, if the model fails there, while a step runs. All later steps
    only add numbers. Passes without gradients (validation, generation) are not counted. Time is measured by the
    host clock between two calls of :meth:`step`, without the time of counting. Nothing waits for the device, so a
    single step on an accelerator may seem short; the sum of several steps is right.

    A step counted while running is left out of all rates. Its count includes all computation, also of other models. A
    step with a new sequence of shapes is counted again.

    Args:
        model: the module that the loop calls.
        device: the device that computes it, for MFU and HFU: a name that ``costcore devices`` lists, the path of a
            TOML file, or a :class:`~costcore.analyses.devices.device.Device`. None: MFU and HFU are None.
        devices: number of devices that compute the passes of this process. If every process has a device and a meter
            of its own, it is 1.
        dtype: dtype of the peak, such as ``"bfloat16"``; default: the dtype of most products.
            ``"tfloat32"`` if the device rounds float32 products to TF32.
        peak: FLOP/s of one device, in place of the one in the catalogue.
        window: number of steps in :attr:`last` and the rates of the meter.
        loss: returns the loss from the output of the model, if not all floating-point outputs have a backward pass;
            default: the output named ``loss``, else their sum.
        compiled: whether the loop calls a compiled function that calls ``model``; True costs 3 µs per step. Not needed
            if ``model`` is the result of ``torch.compile``.
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
        self._device = None if device is None else find_device(device)
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
                "MFU and HFU are unknown, because no device was given: pass device='h100-sxm5-80gb' or another of "
                "`costcore devices`, or peak=989.4e12"
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
        if self._is_ignoring:
            return
        # This runs before every pass: known inputs take one look-up.
        cost = self._costs.get(key)
        if cost is not None and not self._pending_sizes:
            self._pending.append(cost)
        else:
            self._add_watched(key, args, kwargs)

    def _add_watched(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if key not in self._sizes:
            with self.paused():  # the copy has the hooks of the model
                self._note_inputs(key, args, kwargs)
        if key in self._costs and not self._pending_sizes:
            self._pending.append(self._costs[key])
        else:
            self._pending_sizes.append(self._sizes[key])
            self._runs.add(key)

    def _note_inputs(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
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
            self._note(
                f"steps are counted while they run, because no copy of the model runs on the meta device: {error}"
            )
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
        was_counting = self._runs.is_counting
        sizes, self._pending_sizes = self._pending_sizes, []
        pending, self._pending = self._pending, []
        report = self._runs.end_step()
        if report is None:
            self._log.leave_out_step(sum_of(pending))
            self._note("some steps are not counted: a micro-batch of a new shape came in the middle of them")
            return
        together = Sizes(sum(each.tokens for each in sizes), sum(each.samples for each in sizes))
        cost, notes = cost_of(report, together)
        self._note_all(cost, notes)
        end = self._log.leave_out_step if was_counting else self._log.end_step
        end(sum_of((*pending, cost)))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager: do not count time and passes inside, such as validation and the saving of checkpoints."""
        before, self._is_ignoring = self._is_ignoring, True
        try:
            with self._log.stopped():
                yield
        finally:
            self._is_ignoring = before

    def restart_clock(self) -> None:
        """Leave out the time since the last step, which was not spent on training."""
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
            "compiled, the result of torch.compile."
        )
        if note not in self.notes:
            self.notes.append(note)
            warn(f"MFUMeter: {note}", CostWarning, stacklevel=3)


def _passes_of(model: Any, is_compiled: bool) -> Passes:
    passes: Passes = needed_ability("passes_of", model, "MFUMeter")(model, is_compiled)
    return passes


# Cost of a pass.


def cost_of(report: Report, sizes: Sizes) -> tuple[PassCost, list[str]]:
    """Return the cost of a pass, and notes on uncounted calls.

    Args:
        report: the report of forward and backward pass.
        sizes: how much data they processed.
    """
    model, hardware = model_flops(report), hardware_flops(report)
    assert isinstance(model, int) and isinstance(hardware, int)  # inputs of a run have integer sizes
    cost = PassCost(model, hardware, sizes.tokens, sizes.samples, dtype_of_products(report))
    notes = []
    if ignored := len(report.ignored_layers):
        notes.append(f"FLOPs are too low: {ignored} calls of a pass could not be counted; a warning names them")
    return cost, notes


def dtype_of_products(report: Report) -> str:
    """Return the dtype of most products of the model FLOPs; empty without products."""
    macs: Counter[str] = Counter()
    for call, cost, *_ in report.trace:
        if cost is not None and cost.macs and call.phase in MODEL_PHASES and call.layer.inputs:
            macs[next(iter(call.layer.inputs.values())).dtype] += cost.macs * call.times
    return max(macs, key=lambda dtype: macs[dtype], default="")


# Protocol of frontends: the passes of a model and their inputs.


Seen = Callable[[Hashable, Sequence[Any], Mapping[str, Any]], None]
"""Receives every pass before it runs: the key of its inputs, see :meth:`Passes.key`, and its arguments."""


class Sizes(NamedTuple):
    """How much data a pass processes.

    Attributes:
        tokens: number of input tokens, padding included; 0 if the input does not have tokens.
        samples: number of samples; 0 if unknown.
    """

    tokens: int
    samples: int


class Passes(Protocol):
    """The passes of a model with gradients."""

    def watched(self, seen: Seen) -> AbstractContextManager[object]:
        """Return a context in which ``seen`` is called before every pass; the model is as before afterwards."""

    def key(self, value: Any) -> Hashable:
        """Return the shapes and dtypes of all tensors in a value; passes on inputs of equal keys cost the same."""

    def sizes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
        """Return how much data a pass on these arguments processes."""

    def on_a_copy(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
        """Return model, inputs and loss with which ``estimate`` counts a pass on these arguments.

        Raises:
            TypeError: if an estimate cannot take the arguments.
        """


# Steps counted while running, once for each sequence of inputs.


Key = Hashable
"""The shapes of the inputs of a pass."""


class RunCounts:
    """Reports of whole steps, by the sequence of model inputs in the step.

    A step is counted if its first input matches no recorded sequence. A step that begins like a recorded one but
    continues differently is noticed too late; the next step with the same beginning is counted.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Key, ...], Report] = {}
        self._beginnings: set[tuple[Key, ...]] = set()
        self._missed: set[Key] = set()
        self._sequence: tuple[Key, ...] = ()
        self._hook: ComputationalCostHook | None = None

    @property
    def is_counting(self) -> bool:
        """Whether the running step is counted."""
        return self._hook is not None

    def add(self, key: Key) -> None:
        """Record the start of a pass in the running step; count the rest of the step if it is new."""
        self._sequence += (key,)
        # A hook cannot record passes that ran before it: counting begins with the first pass of a step, or not at all.
        is_new = key in self._missed or (key,) not in self._beginnings
        if self._hook is None and len(self._sequence) == 1 and is_new:
            hook = ComputationalCostHook(frontends=["pytorch"])
            hook.__enter__()
            self._hook = hook

    def end_step(self) -> Report | None:
        """Return the report of the step; None if nothing was added to it, or if a new input came in the middle."""
        sequence, self._sequence = self._sequence, ()
        if not sequence:
            return None
        if self._hook is not None:
            self._known[sequence] = self._ended()
            self._beginnings.update(sequence[: i + 1] for i in range(len(sequence)))
            self._missed.discard(sequence[0])
        elif sequence not in self._known:
            self._missed.add(sequence[0])
        return self._known.get(sequence)

    def _ended(self) -> Report:
        assert self._hook is not None
        hook, self._hook = self._hook, None
        hook.__exit__(None, None, None)
        return hook.report

    def close(self) -> None:
        """End the count of a running step without a report."""
        if self._hook is not None:
            self._ended()


# FLOPs, tokens, seconds and rates of measured steps.


class PassCost(NamedTuple):
    """The cost of the passes of a step, or of a part of it.

    Attributes:
        model_flops: FLOPs of forward and backward pass, see :func:`costcore.studies.training.step.model_flops`.
        hardware_flops: the same with recomputation.
        tokens: number of input tokens; 0 if the input does not have tokens.
        samples: number of samples; 0 if unknown.
        dtype: dtype of most products; empty without products.
    """

    model_flops: int
    hardware_flops: int
    tokens: int = 0
    samples: int = 0
    dtype: str = ""


NO_STEP = PassCost(0, 0)
"""The cost of no pass."""


def sum_of(costs: Iterable[PassCost]) -> PassCost:
    """Return the cost of several passes together, with the dtype of the first one with products."""
    model, hardware, tokens, samples, dtype = NO_STEP
    for cost in costs:
        model += cost.model_flops
        hardware += cost.hardware_flops
        tokens += cost.tokens
        samples += cost.samples
        dtype = dtype or cost.dtype
    return PassCost(model, hardware, tokens, samples, dtype)


class Rates(NamedTuple):
    """Cost and duration of a number of steps.

    Every rate is None if no time was measured, or if its count is unknown.

    Attributes:
        steps: number of steps.
        seconds: their duration together.
        cost: their cost together, of the passes of this process.
        devices: number of devices that computed them.
        peak: peak FLOP/s of one of these devices; None if unknown.
    """

    steps: int
    seconds: float
    cost: PassCost
    devices: int = 1
    peak: float | None = None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs per second as a share of the peak of all devices: 0.4 for 40 %."""
        return self._utilization(self.cost.model_flops)

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs per second as a share of the peak of all devices."""
        return self._utilization(self.cost.hardware_flops)

    def _utilization(self, flops: int) -> float | None:
        if self.peak is None or not self.seconds:
            return None
        return mfu(flops, self.seconds, self.devices, self.peak)

    @property
    def flops_per_second(self) -> float | None:
        """Model FLOPs per second of all devices together."""
        return self.cost.model_flops / self.seconds if self.seconds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Input tokens per second."""
        return self.cost.tokens / self.seconds if self.seconds and self.cost.tokens else None

    @property
    def samples_per_second(self) -> float | None:
        """Samples per second."""
        return self.cost.samples / self.seconds if self.seconds and self.cost.samples else None

    @property
    def seconds_per_step(self) -> float | None:
        """Mean duration of a step."""
        return self.seconds / self.steps if self.steps else None

    def scalars(self) -> dict[str, float]:
        """Return all rates that are known by name, as floats: a flat dict for TensorBoard, W&B and others."""
        found = {
            name: getattr(self, name)
            for name in (
                *("mfu", "hfu", "flops_per_second", "tokens_per_second", "samples_per_second", "seconds_per_step"),
            )
        }
        return {name: float(value) for name, value in found.items() if value is not None}


def across(ranks: Iterable[Rates]) -> Rates:
    """Return the rates of several processes that train one model together and each count their own passes.

    Costs and devices are added. Steps and duration are from the slowest process. The peak is the mean of all devices;
    None if one is unknown.
    """
    each = list(ranks)
    devices = sum(rates.devices for rates in each)
    peaks = [rates.peak for rates in each]
    peak = None
    if all(value is not None for value in peaks):
        peak = sum((value or 0) * rates.devices for value, rates in zip(peaks, each, strict=True)) / devices
    slowest = max(each, key=lambda rates: rates.seconds)
    return Rates(slowest.steps, slowest.seconds, sum_of(rates.cost for rates in each), devices, peak)


# Step log: durations and costs.


MOST_NEW = 1000
"""Steps are added up in batches of this many."""

Step = tuple[int, PassCost]
"""Nanoseconds and cost of a step."""

Totals = tuple[int, int, PassCost]
"""Steps, nanoseconds and cost of several steps together."""


class StepLog:
    """Durations and costs of steps; the clock runs from the end of one step to the end of the next.

    Args:
        window: number of steps with stored durations.

    Attributes:
        untimed: cost of the steps without a valid duration.
    """

    untimed: PassCost

    def __init__(self, window: int) -> None:
        self._last: deque[Step] = deque(maxlen=window)
        self._new: list[Step] = []
        self._steps = 0
        self._nanoseconds = 0
        self._cost = self.untimed = NO_STEP
        self._not_counted = 0
        self._start = perf_counter_ns()

    def end_step(self, cost: PassCost) -> None:
        """End a step that cost this much, and begin the next one."""
        now = perf_counter_ns()
        self._new.append((now - self._start - self._not_counted, cost))
        self._start, self._not_counted = now, 0
        if len(self._new) == MOST_NEW:
            self._add_new()

    def _add_new(self) -> None:
        # Adding many steps at once is cheaper than adding each.
        new, self._new = self._new, []
        self._last.extend(new)
        self._steps += len(new)
        self._nanoseconds += sum(spent for spent, _ in new)
        self._cost = sum_of((self._cost, *(cost for _, cost in new)))

    def leave_out_step(self, cost: PassCost) -> None:
        """End a step without its duration, which counting distorted, and begin the next one."""
        self.untimed = sum_of((self.untimed, cost))
        self.restart()

    def restart(self) -> None:
        """Leave out the time since the last step."""
        self._start, self._not_counted = perf_counter_ns(), 0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Leave the time inside the context out."""
        start = perf_counter_ns()
        try:
            yield
        finally:
            self._not_counted += perf_counter_ns() - start

    @property
    def last(self) -> Totals:
        """The last steps together."""
        self._add_new()
        steps = list(self._last)
        return len(steps), sum(spent for spent, _ in steps), sum_of(cost for _, cost in steps)

    @property
    def all(self) -> Totals:
        """All timed steps together."""
        self._add_new()
        return self._steps, self._nanoseconds, self._cost
