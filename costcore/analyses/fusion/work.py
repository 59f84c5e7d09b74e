"""What one call does, as far as fusion needs it: its pattern, its size and the bytes of each operand."""

from __future__ import annotations

from typing import NamedTuple

from costcore.analyses.fusion.long_rows import parts_of_rows
from costcore.analyses.fusion.patterns import pattern_of, rows_of
from costcore.counting.layout import is_layout
from costcore.ir import Cost, Layer, Pattern
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import is_negative, magnitude
from costcore.registry.calculators import calculators
from costcore.trace.trace import CallCost

LOOPS: frozenset[Pattern] = frozenset(("map", "reduce", "window", "move", "make"))
"""Patterns of calls whose kernels a compiler writes, so that it decides where their results go."""


class Work(NamedTuple):
    """One execution of a call. Equal layers have equal work.

    Attributes:
        pattern: its pattern.
        elements: the number of elements that it runs over: those of a reduction's input, of any other output.
        rows: the number of rows of a reduction; None for any other pattern, or if it is unknown.
        parts: into how many parts each row is split, 0 if rows are written out; see
            :mod:`costcore.analyses.fusion.long_rows`.
        reads: bytes of every input.
        unread: bytes of the inputs that are not needed, as an embedding needs few rows of its table.
        writes: bytes of every output.
        unwritten: bytes of the outputs that are not written.
        more_read: bytes read beside the inputs.
        more_written: bytes written beside the outputs, as a mask for the backward pass.
        has_bias: whether it is a product to which a bias is added.
        blends: whether it is an interpolation, which blends what it has blended along another axis.
    """

    pattern: Pattern
    elements: Dim
    rows: Dim | None
    reads: tuple[Dim, ...]
    unread: Dim
    writes: tuple[Dim, ...]
    unwritten: Dim
    more_read: Dim
    more_written: Dim
    parts: Dim = 1
    has_bias: bool = False
    blends: bool = False

    @property
    def is_split(self) -> bool:
        """Whether its rows are split, so that other kernels combine the parts."""
        return bool(self.parts not in (0, 1))

    @property
    def is_short(self) -> bool:
        """Whether its rows are written out, so that it needs neighbors as a window does."""
        return bool(self.parts == 0)

    @property
    def is_even(self) -> bool:
        """Whether the parts of its rows are equal, so that a loop over their elements can compute them too."""
        return bool(self.elements % ((self.rows or 1) * self.parts) == 0)

    @property
    def ends_loop(self) -> bool:
        """Whether nobody can use its results in the loop that computes them."""
        return self.is_split and not self.reads_twice

    @property
    def reads_twice(self) -> bool:
        """Whether it needs its rows once more when they are reduced, as a norm does, and does not keep them."""
        return self.parts != 1 and _has_all_of(self.writes, self.reads[0])

    @property
    def joins(self) -> bool:
        """Whether it puts whole operands side by side, as a concatenation does."""
        return self.pattern == "move" and len(self.reads) > 1 and bool(sum(self.reads) == sum(self.writes))


NOTHING = Work("free", 0, None, (), 0, (), 0, 0, 0)
"""The work of a call that reads and writes nothing."""


class Works:
    """The work of calls, computed once for equal layers.

    Args:
        is_free_layout: whether operators that only move data are free.
    """

    def __init__(self, is_free_layout: bool) -> None:
        self._is_free_layout = is_free_layout
        self._by_identity: dict[tuple[int, int, Pattern | None], tuple[CallCost, Work]] = {}
        """By ``id`` of layer and cost; storing the record keeps these ids valid."""

    def __call__(self, record: CallCost, pattern: Pattern | None = None) -> Work:
        """Return the work of a call, whose pattern a calculator of the run may have stated."""
        key = (id(record.call.layer), id(record.cost), pattern)
        found = self._by_identity.get(key)
        if found is None:
            found = self._by_identity[key] = (record, self._work(record, pattern))
        return found[1]

    def _work(self, record: CallCost, pattern: Pattern | None) -> Work:
        layer, cost = record.call.layer, record.cost
        if cost is None:
            return Work("opaque", 0, None, (0,) * len(layer.inputs), 0, (0,) * len(layer.outputs), 0, 0, 0)
        if self._is_free_layout and is_layout(calculators().get(layer.op)):
            return work_of(layer, cost, "free")
        return work_of(layer, cost, pattern or pattern_of(layer))


def work_of(layer: Layer, cost: Cost, pattern: Pattern) -> Work:
    """Return the work of a layer with a given pattern."""
    reads = tuple(tensor.nbytes for tensor in layer.inputs.values())
    writes = tuple(tensor.nbytes for tensor in layer.outputs)
    unread, more_read = _difference(sum(reads), cost.mread)
    unwritten, more_written = _difference(sum(writes), cost.mwrite)
    reduces = pattern == "reduce" and bool(layer.inputs)
    tensors = layer.inputs.values() if reduces else layer.outputs
    elements = max((tensor.size for tensor in tensors), key=magnitude, default=0)
    rows = rows_of(layer) if reduces else None
    parts = parts_of_rows(layer, elements, rows)
    if parts == 0 and rows is not None and not _has_all_of(writes, reads[0]):
        elements = rows
    blends = pattern == "window" and layer.attrs.get("mode") == "linear"
    has_bias = pattern == "product" and "b" in layer
    return Work(
        pattern, elements, rows, reads, unread, writes, unwritten, more_read, more_written, parts, has_bias, blends
    )


def _has_all_of(writes: tuple[Dim, ...], nbytes: Dim) -> bool:
    """Return whether an output has as many bytes as the rows that are reduced, or more."""
    return any(magnitude(each) >= magnitude(nbytes) for each in writes)


def statistics_of(work: Work) -> Dim:
    """Return the bytes of two values of each row, such as its mean and its variance, written and then read."""
    return 4 * (work.rows or 1) * work.reads[0] // work.elements


def _difference(whole: Dim, counted: Dim) -> tuple[Dim, Dim]:
    """Return how much of ``whole`` is not counted, and how much is counted beside it."""
    if whole == counted:
        return 0, 0
    rest = whole - counted
    return (0, -rest) if is_negative(rest) else (rest, 0)
