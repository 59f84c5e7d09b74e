"""The plans that a search tried, as people see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from costcore.analyses.devices.device import Device
from costcore.messages import unknown
from costcore.studies.batch_size.limit import Limit
from costcore.studies.plans.rank import DEPTHS
from costcore.studies.plans.setup import Setup
from costcore.studies.sweeps.front import LARGE, front
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column

MOST_ROWS = 10
"""The number of plans that ``print`` and notebooks show."""


ASSUMED = {
    "cp": "devices that share a sequence compute equally many pairs, and masks have the same columns for each",
    "ep": "every expert receives the same number of rows",
}
"""What is assumed along the dimensions of a mesh, which only data decide."""


@dataclass(frozen=True)
class Plan:
    """One way to run a step, and what it takes.

    Attributes:
        setup: the way.
        fits: whether it fits; None if it could not be captured.
        memory: the bytes that a device needs, with the context; None if it was not captured.
        memory_at_least: a bound of them, if it was not captured: those of a smaller micro-batch, which do not fit;
            otherwise None.
        sent: bytes that a device sends per step, without what stages of a pipeline send each other.
        seconds: the least time of a step.
        bubble: the share of it that stages of a pipeline wait in addition if each runs a forward pass and a backward
            pass in turn: ``(pp - 1) / passes``. Other schedules wait less.
        binds: what limits it: an engine or memory of the device (``matrix``, ``vector``, ``dram``), or
            ``communication``.
        on_lines: the memory on the lines through captures of few blocks, if :attr:`memory` is that of a capture of all
            blocks of the rank; None if memory is on these lines itself.
        why: why it is left out; empty if it fits.
    """

    setup: Setup
    fits: bool | None
    memory: int | None = None
    sent: int | None = None
    seconds: float | None = None
    bubble: float = 0.0
    binds: str = ""
    on_lines: int | None = None
    why: str = ""
    memory_at_least: int | None = None

    @property
    def is_captured(self) -> bool:
        """Whether all blocks of the rank were captured."""
        return self.on_lines is not None

    @property
    def assumed(self) -> list[str]:
        """What its figures take for granted, as sentences: nothing that a mesh without ``cp`` and ``ep`` needs."""
        return [text for axis, text in ASSUMED.items() if getattr(self.setup.mesh, axis) > 1]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        setup = self.setup
        return {
            **setup.mesh._asdict(),
            "micro_batch": setup.micro_batch,
            "passes": setup.passes,
            "checkpoint": setup.checkpoints,
            "precision": setup.precision,
            **{name: value for name, value in vars(self).items() if name != "setup"},
            "is_captured": self.is_captured,
            "assumed": self.assumed,
        }


COLUMNS = (
    *(Column("mesh", "Mesh"), Column("memory", "Memory", "bytes"), Column("seconds", "Bound", "duration", "bound")),
    *(Column("micro_batch", "Micro-batch", "count"), Column("checkpoint", "Checkpointing")),
    *(Column("bubble", "Bubble", "percent"), Column("passes", "Passes", "count"), Column("sent", "Sent", "bytes")),
    *(Column("binds", "Bound by"), Column("status", "Memory is"), Column("precision", "Precision")),
)

DROPPED_FIRST = ("precision", "status", "binds", "passes", "sent", "bubble")
"""The columns that a narrow terminal does without, in this order."""

LEFT_OUT = (
    *(each for each in COLUMNS if each.key in ("mesh", "micro_batch", "checkpoint", "memory")),
    Column("why", "Left out because"),
)

TIMES = "times are bounds, without latencies and what stages send each other; the order has bubbles of pipelines"

FIGURES = ("seconds", "memory", "sent", "bubble", "micro_batch", "passes")
"""The figures of a plan that :meth:`Plans.pareto` compares."""


@dataclass(frozen=True, repr=False)
class Plans(Result):
    """The plans that were tried.

    Attributes:
        plans: those that fit, the least time of a step first, with the bubble of a pipeline.
        left_out: all others, each with the reason.
        device: the device.
        limit: the terms of its memory.
        global_batch: samples of a step.
    """

    plans: tuple[Plan, ...]
    left_out: tuple[Plan, ...]
    device: Device
    limit: Limit
    global_batch: int

    def __repr__(self) -> str:
        return f"<Plans: {len(self.plans)} of {len(self.plans) + len(self.left_out)} fit {self.device.name}>"

    @property
    def best(self) -> Plan | None:
        """The plan with the least time of a step; None if none fits."""
        return self.plans[0] if self.plans else None

    @property
    def error(self) -> float | None:
        """The largest relative difference between the memory on lines and that captured; None without such a plan."""
        both = [(each.on_lines, each.memory) for each in (*self.plans, *self.left_out)]
        return max((abs(line - memory) / memory for line, memory in both if line and memory), default=None)

    def pareto(self, *names: str) -> Plans:
        """Return the plans that fit than which no other is better in all of some figures.

        Args:
            names: figures, which are to be small: ``"seconds", "memory"``. With a minus sign before its name, a figure
                is to be large.

        Raises:
            ValueError: if there is no such figure.
        """
        check_figures(names)
        best = front([each.to_dict() for each in self.plans], names)
        return replace(self, plans=tuple(self.plans[i] for i in best))

    def _answer(self) -> Answer:
        tried = len(self.plans) + len(self.left_out)
        figures = [Figure("n_fits", "Plans that fit", len(self.plans), "count", f"of {tried} tried")]
        if self.best is not None:
            seconds = self.best.seconds
            figures.append(Figure("seconds", "Step at least", seconds, "duration", str(self.best.setup.mesh), "bound"))
        remarks = [f"limit: {self.limit.describe()}"]
        columns: Sequence[Column] = COLUMNS
        shown, title = self.plans, "Plans that fit, least time with bubbles first"
        if self.plans:
            remarks += [self._certainty(), TIMES]
        else:
            columns, title = LEFT_OUT, "Plans that need the least"
            shown = tuple(sorted(self.left_out, key=lambda each: (each.memory is None, each.memory or 0)))
        rows = [*map(_row, shown)]
        table = Table(title, columns, rows, n_digits=2, most=MOST_ROWS, dropped_first=DROPPED_FIRST)
        remarks += [f"assumed: {text}" for text in dict.fromkeys(text for each in self.plans for text in each.assumed)]
        return Answer(f"Plans on {self.device.name}", figures, [table], remarks)

    def _certainty(self) -> str:
        captured = sum(each.is_captured for each in self.plans)
        off = "" if self.error is None else f", which differ from captures of all by up to {100 * self.error:.2g} %"
        return (
            f"memory: all blocks of the first {captured} plans were captured; that of others is on lines through "
            f"captures of {DEPTHS[0]} and {DEPTHS[1]} blocks{off}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every plan that was tried in plain JSON types: those that fit in order, then those left out."""
        return {
            **super().to_dict(),
            "device": self.device.name,
            "limit": self.limit.to_dict(),
            "global_batch": self.global_batch,
            "error": self.error,
            "plans": [each.to_dict() for each in (*self.plans, *self.left_out)],
        }


def check_figures(names: Iterable[str]) -> None:
    """Check the names of figures that :meth:`Plans.pareto` compares.

    Raises:
        ValueError: if there is no such figure.
    """
    if missing := [name for name in names if name.removeprefix(LARGE) not in FIGURES]:
        raise ValueError(unknown("figure of a plan", missing, FIGURES))


def _row(plan: Plan) -> dict[str, Any]:
    return {
        **{name: value for name, value in plan.to_dict().items() if value is not None},
        "mesh": str(plan.setup.mesh),
        "checkpoint": "yes" if plan.setup.checkpoints else "no",
        "precision": plan.setup.precision or "as the model",
        "bubble": 100 * plan.bubble,
        "status": "captured" if plan.is_captured else "on lines",
    }
