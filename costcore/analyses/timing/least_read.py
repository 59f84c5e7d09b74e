"""The bytes that groups of calls must read, if what a formula counts several times is read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from costcore.analyses.fusion.groups import Group
from costcore.trace.trace import Trace


def least_reads(trace: Trace, groups: Sequence[Group], fusion: str) -> list[int]:
    """Return the bytes that one execution of each group must read from outside.

    A lookup counts every row that it reads, but needs no more than its table. A call by itself counts every operand,
    but a value that is several of them (``x * x``) comes from memory once. Groups of fused calls count it once already,
    but for what a compiler reads again.

    Args:
        trace: the run, with numbers for all sizes.
        groups: its groups.
        fusion: the level of fusion.
    """
    excess = [*_beyond_operands(trace)]
    if fusion == "none":
        for position, nbytes in _repeated(trace):
            excess[position] += nbytes
    return [max(0, int(group.read - group.read_again) - sum(excess[i] for i in group.calls)) for group in groups]


def _beyond_operands(trace: Trace) -> Iterator[int]:
    """Yield how many bytes more than the size of its operands each call reads."""
    sizes: dict[int, int] = {}
    for call, cost, *_ in trace.records:
        key = id(call.layer)
        if key not in sizes:
            sizes[key] = sum(int(tensor.nbytes) for tensor in call.layer.inputs.values())
        yield 0 if cost is None else max(0, int(cost.mread) - sizes[key])


def _repeated(trace: Trace) -> Iterator[tuple[int, int]]:
    """Yield the position of each call that reads a value several times, and the bytes that it counts too often."""
    source: dict[int, int] = {}  # the value that a view is a part of
    sizes: dict[int, int] = {}  # bytes of the values of which there are views
    for position, (call, cost, *_) in enumerate(trace.records):
        if cost is not None and call.inputs and cost.mread == cost.mwrite == 0:
            value = source.get(call.inputs[0], call.inputs[0])
            sizes.setdefault(value, int(next(iter(call.layer.inputs.values())).nbytes))
            source.update(dict.fromkeys(call.outputs, value))
            continue
        values = [source.get(each, each) for each in call.inputs if each]
        if len(set(values)) < len(values):
            operands = zip(call.inputs, call.layer.inputs.values(), strict=False)
            counted = [(each, int(tensor.nbytes)) for each, tensor in operands if each]
            yield position, sum(nbytes for _, nbytes in counted) - _distinct(counted, source, sizes)


def _distinct(operands: Iterable[tuple[int, int]], source: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    """Return the bytes of operands without repetition: those of different views, at most those of the whole value."""
    views = dict(operands)
    parts: dict[int, int] = {}
    for view, nbytes in views.items():
        value = source.get(view, view)
        parts[value] = parts.get(value, 0) + nbytes
    return sum(min(nbytes, sizes.get(value, nbytes)) for value, nbytes in parts.items())
