"""What a meter of training shows: rates of the last steps and of all."""

from __future__ import annotations

from fractions import Fraction

from costcore.studies.meter.rates import Rates
from costcore.studies.meter.step_log import StepLog, Totals
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.text.durations import duration
from costcore.text.units import BASES, PREFIXES, rounded


class Readings(Result):
    """The rates of a meter; :class:`costcore.MFUMeter` counts the steps.

    Attributes:
        notes: what the figures assume, and why there is no MFU; a list of sentences.
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
        """The last steps, as many as the window has."""
        return self._rates(self._log.last)

    @property
    def total(self) -> Rates:
        """All steps but those that were counted while they ran."""
        return self._rates(self._log.all)

    @property
    def model_flops(self) -> int:
        """Model FLOPs of all steps, those that were counted while they ran included."""
        return self._log.all[2].model_flops + self._log.untimed.model_flops

    @property
    def hardware_flops(self) -> int:
        """Hardware FLOPs of all steps, those that were counted while they ran included."""
        return self._log.all[2].hardware_flops + self._log.untimed.hardware_flops

    @property
    def dtype(self) -> str:
        """The dtype that the peak is for; empty before the first step."""
        return self._given_dtype or self._log.all[2].dtype or self._log.untimed.dtype

    @property
    def mfu(self) -> float | None:
        """Share of the peak that the model FLOPs of the last steps are; None if the peak is unknown."""
        return self.last.mfu

    @property
    def hfu(self) -> float | None:
        """Share of the peak that the hardware FLOPs of the last steps are; None if the peak is unknown."""
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

        It suits TensorBoard, W&B and others. What is unknown is left out.

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

    def _answer(self) -> Answer:
        rates = [Figure(name, name, value, "ratio", "", "measured") for name, value in self.last.scalars().items()]
        flops = Figure("total_model_flops", "Model FLOPs of all steps", self.model_flops, "flops")
        return Answer(described(self.last, self.total, self.dtype), [flops, *rates], (), self.notes)

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
    """Return a rate with the prefix that suits it: ``408.1 T``."""
    base = BASES["flops"]
    power = max((i for i in range(len(PREFIXES)) if value >= base**i), default=0)
    return f"{rounded(Fraction(value) / base**power, 1)} {PREFIXES[power]}"
