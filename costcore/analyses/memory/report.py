"""The memory of a run as people see it: an overview, and what an allocator makes of it."""

from __future__ import annotations

from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.allocator import Allocator, replay
from costcore.analyses.memory.rows import memory_rows
from costcore.errors import CostError
from costcore.ledger.memory_data import MemoryData
from costcore.messages import unknown
from costcore.renamed import renamed
from costcore.tables.answer import Answer, Figure
from costcore.tables.columns import BLOCKS, choose
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.targets import Target, save
from costcore.trace.memory_ledger import KINDS

MOST_BLOCKS = 5
"""The number of blocks that ``print`` and notebooks show; a row sums the others."""

COLUMNS = ("kind", "module", "name", "call", "shape", "nbytes", "nbytes%")
"""The columns of their table."""

TIMELINE = (
    *(Column("call", "Call"), Column("phase", "Phase"), Column("module", "Module")),
    *(Column("live_peak", "Live peak", "bytes"), *(Column(kind, kind.capitalize(), "bytes") for kind in KINDS)),
)
"""The columns of the timeline."""


class Memory(Result, MemoryData):
    """The memory of one run, in bytes.

    It is the *tensor peak*: the largest sum of blocks of memory that tensors hold between two operators. Workspace of
    kernels and unused memory of an allocator come on top.
    """

    @renamed(policy="name")
    def allocator(self, name: str = "cuda", device: str | None = None, **settings: Any) -> Allocator:
        """Return what a caching allocator takes from the device for this run: ``.allocated`` and ``.reserved``.

        Args:
            name: the name of the allocator, ``"cuda"``: that of PyTorch for GPUs, on one stream.
            device: the device, a key of :attr:`by_device`; default: the one with the highest peak, but the CPU only if
                there is no other.
            settings: its settings by name, :class:`~costcore.analyses.memory.caching.Settings`.

        Raises:
            TypeError, ValueError: for an unknown allocator, device or setting, or an invalid value.
        """
        devices = [*self.by_device]
        if device is None:
            device = next((each for each in devices if each != "cpu"), "cpu")
        elif device not in devices:
            raise ValueError(unknown("device", device, devices))
        return replay(self.ledger.on(device), name, **settings)

    def _answer(self) -> Answer:
        figures = [
            Figure("peak", "Peak", self.peak, "bytes", self.where),
            Figure("base", "Before the run", self.base, "bytes"),
            *([Figure("saved", "Kept for the backward pass", self.saved, "bytes")] if self.saved else []),
            Figure("end", "After the run", self.end, "bytes"),
            *(
                Figure(f"peak of {name}", f"Most in {name}", most, "bytes")
                for name, most in self.phases.items()
                if len(self.phases) > 1
            ),
        ]
        rows, shown = (memory_rows(self, top, with_module=True) for top in (None, MOST_BLOCKS))
        blocks = Table("Alive at the peak", choose(BLOCKS, COLUMNS), rows[: len(self.blocks())])
        tables = [blocks.part(shown), self._by_call().part([])]
        return Answer(f"Memory of a run, {'exact' if self.is_exact else 'approximate'}", figures, tables, self.notes)

    def to_html(self, target: Target = None, title: str = "") -> str:
        """Return one self-contained HTML page, with live memory as a picture, and write it to ``target`` if given."""
        from costcore.analyses.memory.picture import columns_of, figure
        from costcore.tables.html import page

        columns = columns_of(self, self._calls)
        drawn = figure(self, columns, self._calls) if columns and self.peak else ""
        picture = f"<section id='memory'><h2>Live memory</h2>{drawn}</section>" if drawn else ""
        return save(page(self._answer(), title, picture=picture, styles=("memory.css",)), target)

    def _by_call(self) -> Table:
        none = dict.fromkeys(KINDS, 0)
        rows = [
            {"call": call.name, "phase": call.phase, "module": call.module, "live_peak": live, **none, **by_kind}
            for (_, live, by_kind), call in zip(self.timeline, self._calls, strict=True)
        ]
        return Table("Live bytes by call", TIMELINE, rows)

    def to_csv(self, target: Target = None, table: int = 1) -> str:
        """Return the timeline as CSV, one row per call, and write it to ``target`` if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            table: 1 for the timeline, 0 for the blocks that are alive at the peak.
        """
        return super().to_csv(target, table)


def memory_of(report: Analyzed) -> Memory:
    """Return the memory of a run.

    Raises:
        CostError: if it was not recorded.
    """
    ledger = report.trace.run.memory
    if ledger is None:
        raise CostError("memory was not recorded. Pass memory=True to estimate (PyTorch) or to ComputationalCostHook.")
    return Memory(ledger, report.trace.calls)
