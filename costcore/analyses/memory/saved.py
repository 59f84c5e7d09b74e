"""What each call of the forward pass keeps for the backward pass."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.trace.call import Call
from costcore.trace.memory_ledger import MemoryLedger, RawLedger


def with_saved(calls: Sequence[Call], raw: RawLedger, memory: MemoryLedger) -> list[Call]:
    """Return the calls with the ids of those operands whose memory autograd keeps.

    Args:
        calls: the calls of the run.
        raw: which block the memory of an operand is.
        memory: the kind of every block.
    """
    kinds = {block.id: block.kind for block in memory.blocks}
    saved = {storage for storage, block in raw.storages.items() if kinds.get(block) == "saved"}
    return [_with_saved(call, saved) if call.phase == "forward" else call for call in calls]


def _with_saved(call: Call, saved: set[int]) -> Call:
    operands = zip((*call.inputs, *call.outputs), call.storages, strict=True)
    kept = tuple(dict.fromkeys(operand for operand, storage in operands if storage in saved))
    return call._replace(saved=kept) if kept else call
