"""The memory of a run as data: its peak, what is alive at it, and the course of the run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from costcore.ledger.checks import check_depth, check_top
from costcore.trace.call import PHASES, Call
from costcore.trace.memory_ledger import KINDS, Block, MemoryLedger


class MemoryData:
    """The memory of one run; :class:`costcore.analyses.memory.report.Memory` adds what is shown, and the allocator.

    Args:
        ledger: every block of the run.
        calls: the calls of the run.
    """

    def __init__(self, ledger: MemoryLedger, calls: Sequence[Call]) -> None:
        self.ledger = ledger
        self._calls = calls

    def __repr__(self) -> str:
        return f"<Memory: peak {self.peak} bytes at {self.at or 'the start'}, base {self.base} bytes>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryData):
            return NotImplemented
        return self.ledger == other.ledger and self._calls == other._calls

    __hash__ = None  # type: ignore[assignment]

    @property
    def peak(self) -> int:
        """The highest number of bytes that were alive at once."""
        return self._live[self._event]

    @property
    def base(self) -> int:
        """The bytes that were alive before the run: parameters, buffers, inputs, and state of an optimizer."""
        return self._live[0]

    @property
    def end(self) -> int:
        """The bytes that are alive at the end of the run."""
        return self._live[-1]

    @property
    def at(self) -> str:
        """The name of the call during which the peak is reached; empty if it is before the first or after the last."""
        call = self._call_of(self._event)
        return self._calls[call].name if 0 <= call < len(self._calls) else ""

    @property
    def where(self) -> str:
        """Where the peak is, as a phrase: the call with its phase and module, or before or after all calls."""
        call = self._call_of(self._event)
        if not 0 <= call < len(self._calls):
            return "before the first call" if call < 0 else "after the last call"
        found = self._calls[call]
        return f"at {found.name} ({', '.join(filter(None, (found.phase, found.module)))})"

    @property
    def by_kind(self) -> dict[str, int]:
        """The bytes of every kind that are alive at the peak; see :data:`~costcore.trace.memory_ledger.KINDS`."""
        sums = dict.fromkeys(KINDS, 0)
        for block in self._alive:
            sums[block.kind] += block.nbytes
        return {kind: nbytes for kind, nbytes in sums.items() if nbytes}

    @property
    def by_device(self) -> dict[str, int]:
        """The most bytes that are alive on each device, the largest first: each device has its own peak."""
        peaks = {device: max(self.ledger.on(device).live()) for device in self.ledger.devices}
        return dict(sorted(peaks.items(), key=lambda item: -item[1]))

    def by_module(self, depth: int | None = None) -> dict[str, int]:
        """Return the bytes that are alive at the peak by the path of the module that made or owns them.

        Args:
            depth: the maximum number of names in a path; default: all.

        Raises:
            TypeError, ValueError: if it is not a number from 0.
        """
        check_depth(depth)
        sums: dict[str, int] = {}
        for block in self._alive:
            names = self._module_of(block).split(".")
            path = ".".join(names if depth is None else names[:depth])
            sums[path] = sums.get(path, 0) + block.nbytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def blocks(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the blocks that are alive at the peak, the largest first.

        Each is a dict with ``nbytes``, ``kind``, ``name`` (of a parameter, buffer or input), ``module``, ``call`` (the
        name of the call that made it) and ``phase`` (of that call), ``shape``, ``dtype``, ``device``, ``born`` and
        ``dies`` (names of the calls that ran when it was allocated and freed; empty for the start and the end of the
        run).

        Args:
            top: the maximum number of blocks; default: all.

        Raises:
            TypeError, ValueError: if it is not a number from 1.
        """
        check_top(top)
        ordered = sorted(self._alive, key=lambda block: (-block.nbytes, block.born, block.id))
        return [self._entry(block) for block in ordered[:top]]

    @property
    def timeline(self) -> list[tuple[int, int, dict[str, int]]]:
        """For every call its index, the most bytes alive while it ran, and these by kind."""
        highest = self._highest_events
        by_kind = {kind: self.ledger.live(kind) for kind in KINDS}
        used = {kind: live for kind, live in by_kind.items() if any(live)}
        return [
            (i, self._live[event], {kind: live[event] for kind, live in used.items() if live[event]})
            for i, event in enumerate(highest)
        ]

    @property
    def phases(self) -> dict[str, int]:
        """The most bytes that are alive in each phase."""
        found: dict[str, int] = {}
        for call, event in zip(self._calls, self._highest_events, strict=True):
            found[call.phase] = max(found.get(call.phase, 0), self._live[event])
        return {phase: found[phase] for phase in PHASES if phase in found}

    @property
    def saved(self) -> int:
        """The bytes that autograd keeps for the backward pass when the forward pass ends."""
        return max(self.ledger.live("saved"))

    @property
    def notes(self) -> list[str]:
        """Remarks on the figures, and what is estimated."""
        return [*self.ledger.notes, *(f"approximate: {text}" for text in self.ledger.approximations)]

    @property
    def is_exact(self) -> bool:
        """Whether every block was observed; otherwise :attr:`notes` has what was estimated."""
        return not self.ledger.approximations

    def live_by_call(self) -> list[tuple[str, int, int]]:
        """Return for every call its name, the bytes alive after it, and the most that were alive while it ran."""
        pairs = zip(self._calls, self._highest_events, strict=True)
        after = [self._live[bisect_right(self.ledger.calls, i)] for i in range(len(self._calls))]
        return [(call.name, after[i], self._live[event]) for i, (call, event) in enumerate(pairs)]

    def left_behind(self, calls: Sequence[int]) -> int:
        """Return the bytes that calls of the forward pass made and that are alive after the last of them.

        Args:
            calls: their indices.
        """
        forward = {call for call in calls if self._calls[call].phase == "forward"}
        if not forward:
            return 0
        end = bisect_right(self.ledger.calls, max(forward))
        made = (block for call in forward for block in self._blocks_by_call.get(call, ()))
        return sum(b.nbytes for b in made if b.born <= end and (b.died is None or b.died > end))

    def saved_by_call(self) -> list[int]:
        """Return for every call the bytes that it made and that autograd keeps."""
        sums = [0] * len(self._calls)
        for block in self.ledger.blocks:
            if block.kind == "saved" and 0 <= block.call < len(sums):
                sums[block.call] += block.nbytes
        return sums

    @cached_property
    def _live(self) -> list[int]:
        return self.ledger.live()

    @cached_property
    def _event(self) -> int:
        """The number of the event after which the most bytes are alive."""
        return self._live.index(max(self._live))

    @cached_property
    def _alive(self) -> list[Block]:
        return self.ledger.alive(self._event)

    @cached_property
    def _blocks_by_call(self) -> dict[int, list[Block]]:
        found: dict[int, list[Block]] = {}
        for block in self.ledger.blocks:
            found.setdefault(block.call, []).append(block)
        return found

    @cached_property
    def _highest_events(self) -> list[int]:
        """For every call the event after which the most bytes were alive while it ran; before it, if it has none."""
        calls, live = self.ledger.calls, self._live
        highest = []
        at = 0
        for call in range(len(self._calls)):
            best = at
            if at < len(calls) and calls[at] == call:
                best = at + 1
            while at < len(calls) and calls[at] <= call:
                at += 1
                if live[at] > live[best]:
                    best = at
            highest.append(best)
        return highest

    def _call_of(self, event: int) -> int:
        return self.ledger.calls[event - 1] if event else -1

    def _name_of(self, call: int) -> str:
        return self._calls[call].name if 0 <= call < len(self._calls) else ""

    def _module_of(self, block: Block) -> str:
        if block.kind in ("parameter", "buffer", "gradient", "optimizer") and block.name:
            return block.name.rpartition(".")[0]
        return self._calls[block.call].module if 0 <= block.call < len(self._calls) else ""

    def _entry(self, block: Block) -> dict[str, Any]:
        return {
            "nbytes": block.nbytes,
            "kind": block.kind,
            "name": block.name,
            "module": self._module_of(block),
            "call": self._name_of(block.call),
            "phase": self._calls[block.call].phase if 0 <= block.call < len(self._calls) else "",
            "shape": block.shape,
            "dtype": block.dtype,
            "device": block.device,
            "born": self._name_of(self._call_of(block.born)),
            "dies": "" if block.died is None else self._name_of(self._call_of(block.died)),
        }
