"""The memory of a run as people see it: an overview, and what an allocator makes of it."""

from __future__ import annotations

from typing import Any

from costcore.analyses.memory.allocator import Allocator, replay
from costcore.analyses.memory.rows import memory_rows
from costcore.ledger.memory_data import MemoryData
from costcore.messages import unknown
from costcore.tables.columns import BLOCKS, choose
from costcore.tables.overview.displayed import Displayed
from costcore.tables.overview.overview import Figure, Overview, Part
from costcore.tables.tabulate import tabulate
from costcore.text.amounts import exact, readable

MOST_BLOCKS = 5
"""The number of blocks that ``print`` and notebooks show; a row sums the others."""

COLUMNS = ("kind", "module", "name", "call", "shape", "nbytes", "nbytes%")
"""The columns of their table."""


class Memory(Displayed, MemoryData):
    """The memory of one run, in bytes.

    It is the *tensor peak*: the largest sum of blocks of memory that tensors hold between two operators. Workspace of
    kernels and unused memory of an allocator come on top.
    """

    def allocator(self, policy: str = "cuda", device: str | None = None, **settings: Any) -> Allocator:
        """Return what a caching allocator takes from the device for this run: ``.allocated`` and ``.reserved``.

        Args:
            policy: the name of the allocator, ``"cuda"``: that of PyTorch for GPUs, on one stream.
            device: the device, a key of :attr:`by_device`; default: the one with the highest peak, but the CPU only if
                there is no other.
            settings: its settings by name, :class:`~costcore.analyses.memory.caching.Settings`.

        Raises:
            TypeError, ValueError: for an unknown allocator, device or setting, or an invalid value.
        """
        devices = [*self.by_device]
        if device is None:
            device = next((name for name in devices if name != "cpu"), "cpu")
        elif device not in devices:
            raise ValueError(unknown("device", device, devices))
        return replay(self.ledger.on(device), policy, **settings)

    def _overview(self) -> Overview:
        """Return the peak and what is alive at it, the largest blocks first, and the bytes of the phases."""
        figures = [
            _figure("Peak", self.peak, self.where),
            _figure("Before the run", self.base),
            *([_figure("Kept for the backward pass", self.saved)] if self.saved else []),
            _figure("After the run", self.end),
            *(_figure(f"Most in {name}", most) for name, most in self.phases.items() if len(self.phases) > 1),
        ]
        rows = memory_rows(self, MOST_BLOCKS, with_module=True)
        table = tabulate(choose(BLOCKS, COLUMNS), rows, "auto", 1, fixed=True)
        title = f"Memory of a run, {'exact' if self.is_exact else 'approximate'}"
        return Overview(title, figures, [Part("Alive at the peak", table)], self.notes)


def _figure(title: str, nbytes: int, note: str = "") -> Figure:
    """Return bytes with their exact number, if that is not what is shown."""
    shown, digits = readable(nbytes, "bytes"), f"{exact(nbytes)} B"
    return Figure(title, shown, "; ".join(filter(None, [digits * (digits != shown), note])))
