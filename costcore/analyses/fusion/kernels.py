"""The kernels of a compiled model, joined with the calls of its report by module and operator."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.ir import Operations
from costcore.numbers import Dim
from costcore.registry import needed_ability
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result, Table
from costcore.text.output import Column
from costcore.trace.trace import CallCost, Trace

COLUMNS = (
    Column("kernel", "Kernel"),
    Column("module", "Module"),
    Column("n_calls", "# Calls", "count"),
    Column("macs", "MACs", "flops"),
    Column("mrw", "MemR+W", "bytes"),
)

MOST_NAMES = 3
"""The maximum number of operators or modules in a cell."""


class Kernel(NamedTuple):
    """A kernel, and the calls of the report that it computes.

    Attributes:
        calls: the positions of its calls, including calls that an earlier kernel began.
        own: its calls that are in no earlier kernel; their MACs count here.
        n_bytes: the bytes that it reads and writes, as the compiler counts them.
        rewrites: for a kernel that only copies into another layout, what it copies: ``weight`` or ``activation``.
    """

    calls: tuple[int, ...]
    own: tuple[int, ...]
    n_bytes: int
    rewrites: str


class Kernels(Result):
    """The kernels that a compiler makes of a model.

    They are read from the compiler's scheduler: nothing is compiled to machine code, and nothing runs. Bytes are the
    compiler's own count. It includes whole operands where a kernel reads a part, and, on a CPU, values in registers.

    Args:
        trace: the run of the report.
        schedule: the schedule of the compiler.

    Attributes:
        kernels: every kernel, in order.
        missing: the positions of computing calls that are in no kernel.
    """

    trace: Trace
    schedule: Schedule
    missing: list[int]

    def __init__(self, trace: Trace, schedule: Schedule) -> None:
        self.trace, self.schedule = trace, schedule
        by_name = _positions_by_name(trace)
        self.kernels: list[Kernel] = []
        taken: set[int] = set()
        for scheduled in schedule.kernels:
            calls = _calls(scheduled, by_name)
            own = () if scheduled.rewrites else tuple(i for i in calls if i not in taken)
            taken.update(own)
            self.kernels.append(Kernel(calls, own, scheduled.n_bytes, scheduled.rewrites))
        self.missing = [i for i, record in enumerate(trace) if i not in taken and _computes(record)]

    def __repr__(self) -> str:
        return f"<Kernels: {len(self.kernels)} of {self.schedule.compiler}>"

    @property
    def total_bytes(self) -> int:
        """The bytes that all kernels read and write."""
        return sum(kernel.n_bytes for kernel in self.kernels)

    @property
    def rewritten_bytes(self) -> int:
        """The bytes of kernels that only store weights and activations in another layout."""
        return sum(kernel.n_bytes for kernel in self.kernels if kernel.rewrites)

    @cached_property
    def table(self) -> Table:
        """A row per kernel, and the total."""
        rows = [self._row(kernel) for kernel in self.kernels]
        total = {
            "kernel": "total",
            "n_calls": len({i for kernel in self.kernels for i in kernel.calls}),
            "macs": sum(row["macs"] for row in rows),
            "mrw": self.total_bytes,
        }
        return Table("Kernels", COLUMNS, rows, total=total, remarks=self.remarks)

    def _row(self, kernel: Kernel) -> dict[str, Any]:
        records = [self.trace.records[i] for i in kernel.calls]
        operators = _listed(record.call.operator.rpartition("::")[2] for record in records)
        return {
            "kernel": f"layout of {_article(kernel.rewrites)}: {operators}" if kernel.rewrites else operators,
            "module": _listed(record.call.module for record in records if record.call.module),
            "n_calls": len(kernel.calls),
            "macs": self._macs(kernel),
            "mrw": kernel.n_bytes,
        }

    def _macs(self, kernel: Kernel) -> Dim:
        costs = (self.trace.records[i] for i in kernel.own)
        return sum(record.cost.macs * record.call.times for record in costs if record.cost is not None)

    @property
    def remarks(self) -> list[str]:
        """The lines below the table."""
        lines = []
        reason = f" ({self.schedule.reason})" if self.schedule.reason else ""
        if not self.schedule.n_graphs:
            lines.append(f"{self.schedule.compiler} compiles no part of this model: all of it runs eagerly{reason}")
        if self.schedule.n_graphs > 1:
            lines.append(f"graph breaks split the model into {self.schedule.n_graphs} graphs{reason}")
        whole = {each.operator for kernel in self.schedule.kernels for each in kernel.origins if each.is_whole}
        if whole:
            lines.append(
                f"kernels of {_listed(sorted(whole))} compute the same calls of a module: the first has the MACs"
            )
        if self.missing:
            operators = _listed(self.trace.records[i].call.operator.rpartition("::")[2] for i in self.missing)
            lines.append(
                f"{len(self.missing)} calls that compute are in no kernel: {operators} (constant-folded, "
                "shared with an equal module after a graph break, or left to Python)"
            )
        return lines

    def _content(self) -> Content:
        rewrites = sum(1 for kernel in self.kernels if kernel.rewrites)
        figures = [
            Figure(
                "n_kernels",
                "Kernels",
                len(self.kernels),
                "count",
                f"{self.schedule.compiler} for {self.schedule.device}",
            ),
            Figure("mrw", "Read + write", self.total_bytes, "bytes", "as the compiler counts it"),
            Figure(
                "rewritten", "Other layouts", self.rewritten_bytes, "bytes", f"{rewrites} kernels do nothing but copy"
            ),
        ]
        return Content("Kernels of the compiled model", figures, [self.table], self.remarks)


def kernels_of(report: Any, model: Any = None, inputs: Any = None) -> Kernels:
    """Return the kernels that a compiler makes of a model; arguments as for :meth:`costcore.Report.kernels`."""
    trace: Trace = report.trace
    if any(call.phase != "forward" for call in trace.calls):
        raise CostError(
            "report.kernels() needs the report of a forward pass (got one with a backward pass or an optimizer)"
        )
    schedule: Schedule = needed_ability("schedule", model, "report.kernels")(model, inputs)
    return Kernels(trace, schedule)


def _computes(record: CallCost) -> bool:
    flops = 0 if record.cost is None else record.cost.flops
    return bool(flops.flops() if isinstance(flops, Operations) else flops)


def _positions_by_name(trace: Trace) -> dict[tuple[str, str], list[int]]:
    # A schedule names calls without the suffix of in-place operators.
    by_name: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, call in enumerate(trace.calls):
        by_name[call.module, call.operator.rpartition("::")[2].rstrip("_")].append(position)
    return by_name


def _calls(kernel: ScheduledKernel, by_name: dict[tuple[str, str], list[int]]) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for module, operator, number, is_whole in kernel.origins:
        there = by_name.get((module, operator), [])
        if is_whole:
            inside = f"{module}." if module else ""
            for (path, _), positions in by_name.items():
                if path == module or path.startswith(inside):
                    found |= dict.fromkeys(positions)
        elif number < len(there):
            found[there[number]] = None
    return tuple(sorted(found))


def _listed(names: Any) -> str:
    different = [*dict.fromkeys(names)]
    more = len(different) - MOST_NAMES
    return ", ".join(different[:MOST_NAMES]) + (f", {more} more" if more > 0 else "")


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


# The schedule of a compiler, as a frontend reports it.


class Origin(NamedTuple):
    """An operator of the model that a kernel computes.

    Attributes:
        module: path of the module that calls it; empty for the model.
        operator: its name without a namespace, ``layer_norm``.
        number: how many operators of this name the module called before.
        is_whole: whether it stands for all calls of the module, submodules included.
    """

    module: str
    operator: str
    number: int
    is_whole: bool = False


class ScheduledKernel(NamedTuple):
    """A kernel of a schedule.

    Attributes:
        n_bytes: the bytes that it reads and writes, as the compiler counts them.
        origins: the operators that it computes.
        rewrites: for a kernel that only copies into another layout, what it copies: ``weight`` or ``activation``.
    """

    n_bytes: int
    origins: tuple[Origin, ...]
    rewrites: str = ""


class Schedule(NamedTuple):
    """The kernels of a model.

    Attributes:
        compiler: the name and release of the compiler, ``TorchInductor 2.13.0``.
        device: the type of the device that it compiles for.
        kernels: the kernels, in their order.
        n_graphs: how many graphs the model was divided into.
        reason: why the first graph ended, or why there is none, if the compiler says so.
    """

    compiler: str
    device: str
    kernels: tuple[ScheduledKernel, ...]
    n_graphs: int
    reason: str = ""
