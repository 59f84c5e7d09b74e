"""The entries of a report file about memory: blocks of a PyTorch run, values that a graph states beside its calls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from costcore.errors import CostError
from costcore.reports.serialization.codec import Decoder
from costcore.reports.serialization.file_object import FileObject
from costcore.trace.dataflow import Dataflow, Step, Value
from costcore.trace.memory_ledger import KINDS, Block, MemoryLedger


def memory_of(file: FileObject, n_calls: int) -> MemoryLedger | None:
    """Return the memory of the run; None if the file has none."""
    data = file.field("memory", dict, None)
    if data is None:
        return None
    entry = FileObject(data, "memory")
    events = entry.integers("events")
    if any(not 0 <= call <= n_calls for call in events) or any(a > b for a, b in pairwise(events)):
        raise CostError(f"memory.events: expected indices of calls in order, at most {n_calls}")
    device = entry.field("device", str, "")
    blocks = tuple(_block(block, events, n_calls, device) for block in entry.objects("blocks"))
    notes, approximations = (tuple(entry.strings(key)) for key in ("notes", "approximations"))
    entry.end()
    return MemoryLedger(blocks, events, notes, approximations)


def _block(entry: FileObject, events: Sequence[int], n_calls: int, device: str) -> Block:
    block = Block(
        id=entry.field("id", int),
        nbytes=entry.field("nbytes", int),
        kind=entry.choice("kind", KINDS),
        born=entry.field("born", int),
        died=entry.field("died", int, None),
        call=entry.field("call", int),
        shape=entry.integers("shape"),
        dtype=entry.field("dtype", str),
        name=entry.field("name", str, ""),
        device=entry.field("device", str, device),
    )
    entry.end()
    last = len(events) if block.died is None else block.died
    if not 0 <= block.born <= last <= len(events) or block.nbytes < 0 or not -1 <= block.call <= n_calls:
        raise CostError(f"{entry.where}: size, events or call of the block are impossible")
    return block


def dataflow_of(file: FileObject, decoder: Decoder) -> Dataflow | None:
    """Return the values beside those of calls; None if the file has none."""
    data = file.field("dataflow", dict, None)
    if data is None:
        return None
    entry = FileObject(data, "dataflow")
    flow = Dataflow(
        inputs=_values(entry, "inputs", decoder),
        stored=_values(entry, "stored", decoder),
        steps=tuple(_step(each, decoder) for each in entry.objects("steps", [])),
        views=entry.pairs("views"),
        spans=entry.pairs("spans"),
        unknown=tuple(entry.strings("unknown", [])),
    )
    entry.end()
    return flow


def _step(entry: FileObject, decoder: Decoder) -> Step:
    step = Step(
        at=entry.field("at", int),
        reads=entry.integers("reads"),
        makes=_values(entry, "makes", decoder),
        takes=entry.pairs("takes"),
        overwrites=entry.pairs("overwrites"),
        views=entry.pairs("views"),
        name=entry.field("name", str, ""),
    )
    entry.end()
    return step


def _values(entry: FileObject, key: str, decoder: Decoder) -> tuple[Value, ...]:
    values = []
    for each in entry.objects(key, []):
        values.append(Value(each.field("id", int), each.amount("nbytes", decoder), each.field("name", str, "")))
        each.end()
    return tuple(values)
