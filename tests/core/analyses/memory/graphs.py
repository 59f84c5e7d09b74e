"""Graphs of calls by their sizes in bytes, and the least memory of one, found by trying every order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from costcore import Report, Trace
from costcore.ir import Layer, Tensor
from tests.core import html_reports
from tests.core.traces import Call, CallCost, Dataflow, MemoryLedger, Run


def arena_of(graph: Trace, align: int = 64, **options: Any) -> Any:
    """Return the arena of a run."""
    return Report(graph).arena(align=align, **options)


def memory_of(ledger: MemoryLedger, records: Sequence[CallCost] = ()) -> Any:
    """Return the memory of a run with this ledger."""
    return html_reports.report(records, memory=ledger).memory


def section(report: Report, name: str) -> str:
    """Return a section of the page of a report; empty if it has none."""
    found = re.search(rf"<section id='{name}'.*?</section>", report.to_html(), re.DOTALL)
    return found[0] if found else ""


class Node(NamedTuple):
    """A call of ``op`` that reads values and makes one of ``nbytes``."""

    op: str
    reads: tuple[int, ...]
    makes: int
    nbytes: int


def trace(
    nodes: Sequence[Node], inputs: Mapping[int, int], returned: Sequence[int], dataflow: Dataflow | None = None
) -> Trace:
    """The trace of these nodes; ``inputs`` are bytes by id."""
    sizes = dict(inputs) | {node.makes: node.nbytes for node in nodes}
    if dataflow is not None:
        sizes |= {value.id: value.nbytes for value in dataflow.values()}
    records = []
    for i, node in enumerate(nodes):
        operands = {f"x{k}": Tensor((sizes[read],), "int8") for k, read in enumerate(node.reads)}
        layer = Layer(node.op, operands, [Tensor((node.nbytes,), "int8")])
        call = Call(layer, node.op, name=f"{node.op}-{i}", inputs=node.reads, outputs=(node.makes,))
        records.append(CallCost(call, None))
    return Trace(tuple(records), Run().recording(returned=tuple(returned), dataflow=dataflow))


def random_trace(random: Random, n: int) -> Trace:
    """A graph of ``n`` nodes, with one or two inputs, views, element-wise operators and skipped connections."""
    inputs = {i: random.choice([1, 2, 4, 8]) for i in range(1, random.choice([2, 3]))}
    sizes, nodes = dict(inputs), []
    for made in range(10, 10 + n):
        op = random.choice(["relu", "add", "reshape", *["conv"] * 5])
        reads = tuple(
            random.choice([*sizes][-4:]) for _ in range(1 if op in ("relu", "reshape") else random.choice([1, 2, 3]))
        )
        sizes[made] = random.choice([1, 2, 3, 5, 8, 16]) if op == "conv" else sizes[reads[0]]
        nodes.append(Node(op, reads, made, sizes[made]))
    return trace(nodes, inputs, [random.choice(nodes[-3:]).makes])


def least_memory(graph: Trace, inplace: bool, count_inputs: bool) -> int:
    """The least bytes of all orders of the calls, by the definition of liveness and not by the code under test."""
    calls = graph.calls
    maker = {call.outputs[0]: i for i, call in enumerate(calls)}
    sizes = {call.outputs[0]: call.layer.out.size for call in calls}
    sizes |= {i: t.size for call in calls for i, t in zip(call.inputs, call.layer.inputs.values(), strict=True)}

    def memory(value: int) -> int:
        call = calls[maker[value]] if value in maker else None
        return memory(call.inputs[0]) if call is not None and call.layer.op == "reshape" else value

    readers: dict[int, set[int]] = {}
    for i, call in enumerate(calls):
        for value in call.inputs:
            readers.setdefault(memory(value), set()).add(i)
    kept = {memory(value) for value in graph.run.returned}
    inputs = {value for value in sizes if value not in maker}
    best = [1 << 60]

    def visit(done: frozenset[int], alive: frozenset[int], peak: int) -> None:
        if peak >= best[0]:
            return
        if len(done) == len(calls):
            best[0] = peak
        for i, call in enumerate(calls):
            if i in done or any(maker[value] not in done for value in call.inputs if value in maker):
                continue
            now, made = done | {i}, call.outputs[0]
            is_new = memory(made) == made
            dying = [
                memory(call.inputs[k])
                for k, operand in enumerate(call.layer.inputs.values())
                if call.layer.op in ("relu", "add") and operand.shape == call.layer.out.shape
                if memory(call.inputs[k]) not in inputs | kept and readers[memory(call.inputs[k])] <= now
            ]
            need = sum(sizes[value] for value in alive if value not in inputs or count_inputs)
            need += sizes[made] if is_new and not (inplace and dying) else 0
            after = {v for v in alive | ({made} if is_new else set()) if v in kept or not readers.get(v, set()) <= now}
            visit(now, frozenset(after), max(peak, need))

    visit(frozenset(), frozenset(inputs), sum(sizes[value] for value in inputs) if count_inputs else 0)
    return best[0]
