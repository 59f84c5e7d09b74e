"""One row of the audit: an operator on small shapes, its cost worked out by hand, and the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

KINDS = ("fma", "mul", "add", "div", "cmp", "special")
FLOAT, INT, COMPLEX = 4, 8, 8  # bytes per element of float32, int64 and complex64


@dataclass(frozen=True)
class Row:
    """An operator and its expected cost.

    Args:
        name: the operator, and what is special about this row.
        model: makes the model; called by the test, never at import.
        inputs: what :func:`costcore.estimate` gets as its second argument.
        why: the derivation, with the arithmetic.
        expected: operations by kind (absent: 0), ``macs``, and bytes ``read`` and ``written``.
        phase: the phase whose calls are summed; ``"backward"`` and ``backward=True`` ask for the backward pass.
        only: sum the calls of this type or canonical operator alone; empty: all calls.
        compare: compare these alone, if algebra leaves a choice of the others; empty: everything.
        runs: count a real run, of an operator without a meta kernel; ``inputs`` then makes the tensors.
        options: further options of ``estimate``.
    """

    name: str
    model: Callable[[], Any]
    inputs: Any
    why: str
    expected: dict[str, int]
    phase: str = "forward"
    backward: bool = False
    only: str = ""
    compare: tuple[str, ...] = ()
    runs: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def measured(self) -> dict[str, int]:
        """Return the cost that the public interface reports, in the form of ``expected``."""
        from costcore import ComputationalCostHook, estimate

        options = dict(self.options)
        if self.backward or self.phase == "backward":
            options["backward"] = True
        if self.runs:
            with ComputationalCostHook() as report:
                self.model()(*self.inputs())
        else:
            report = estimate(self.model(), self.inputs, **options)
        assert not report.ignored_layers, sorted(report.ignored_layers)
        calls = [call for call in report.layer_report.values() if call["phase"] == self.phase]
        if self.only:
            calls = [call for call in calls if self.only in (call["type"], call["op"])]
            assert calls, f"no call of {self.only}: {sorted(report.layer_report)}"
        kinds = {kind: sum(call["operations"].get(kind, 0) for call in calls) for kind in KINDS}
        sums = {key: sum(call[column] for call in calls) for key, column in COLUMNS.items()}
        return {
            key: value for key, value in (kinds | sums).items() if value and (not self.compare or key in self.compare)
        }


COLUMNS = {"macs": "macs", "read": "mread", "written": "mwrite"}


def without_zeros(cost: dict[str, int]) -> dict[str, int]:
    """Return ``cost`` without its zeros, so that rows need to name only what costs."""
    return {key: value for key, value in cost.items() if value}
