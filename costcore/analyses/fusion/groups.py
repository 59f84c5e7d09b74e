"""Kernel fusion: the groups of calls that a compiler runs as one kernel, and a report with their bytes.

Calls are visited in order. Each is fused with a producer, or with another reader of one of its operands, if both fit
one loop nest and fusing them makes no cycle. Before that, element-wise results are inlined into the loops that read
them, where TorchInductor recomputes them. :mod:`costcore.analyses.fusion.traffic` computes the bytes of the groups.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.analyses.fusion.traffic import MOST_LOADS, NOTHING, CallTraffic, Graph, Node, Operand, sum_of, traffic
from costcore.errors import CostError, unknown
from costcore.ir import Pattern
from costcore.numbers import Dim, as_text, expanded_sum, is_negative, magnitude
from costcore.tables.answer import Content
from costcore.tables.columns import SHARES, TableBuilder, TableRow, by_key, in_unit, preset
from costcore.tables.quantity import Quantity
from costcore.tables.renderers import dropped_first
from costcore.tables.result import OfReport, Table, writes_table
from costcore.text.output import Column, Target
from costcore.trace.call import Call
from costcore.trace.interrupts import collector_off
from costcore.trace.run import LEVELS, Fusion
from costcore.trace.trace import CallCost, Trace


class Group(NamedTuple):
    """Calls that run as one kernel.

    Attributes:
        calls: positions of the calls in the trace, in order.
        read: bytes that one execution reads.
        written: bytes that one execution writes.
        times: how often the group runs, as :attr:`costcore.trace.call.Call.times`.
        read_again: redundant reads, a part of ``read``.
        copied: avoidable writes, a part of ``written``; see
            :class:`costcore.analyses.fusion.traffic.CallTraffic`.
    """

    calls: tuple[int, ...]
    read: Dim
    written: Dim
    times: Dim
    read_again: Dim
    copied: Dim


def groups_of(trace: Trace, level: str) -> list[Group]:
    """Return the groups of a run, in the order of their first calls. Every call is in exactly one group.

    A free call (a view) is in the group that produces its operand, and reads and writes nothing. A call without a cost
    is alone.

    Args:
        trace: the run.
        level: ``none`` (every call alone), ``pointwise`` (loops of element-wise calls, reductions and copies, as
            TorchInductor forms them by default) or ``compiler`` (epilogue fusion: element-wise calls also join the
            matmul or convolution before them).

    Raises:
        ValueError: if the level is unknown.
        CostError: if a calculator states an invalid pattern.
    """
    groups = []
    for calls, shares in _groups(trace, level):
        read, written, again, copied = (sum_of(amounts) for amounts in zip(*shares, strict=True))
        groups.append(Group(calls, read, written, trace.records[calls[0]].call.times, again, copied))
    return groups


def traffic_of_calls(trace: Trace, level: str) -> tuple[list[tuple[int, ...]], list[tuple[Dim, Dim]]]:
    """Return the positions of the calls of each group, and the bytes that every call of the run reads and writes.

    The bytes of a group are the sum over its calls. Arguments and exceptions as for :func:`groups_of`.
    """
    amounts: list[tuple[Dim, Dim]] = [(0, 0)] * len(trace)
    groups = []
    for calls, shares in _groups(trace, level):
        groups.append(calls)
        for position, share in zip(calls, shares, strict=True):
            amounts[position] = share.read, share.written
    return groups, amounts


def _groups(trace: Trace, level: str) -> list[tuple[tuple[int, ...], list[CallTraffic]]]:
    if level not in LEVELS:
        raise ValueError(unknown("level of fusion", level, LEVELS))
    if level == "none":
        return [((i,), [_alone(trace, i)]) for i in range(len(trace))]
    with collector_off():
        graph = Graph(trace)
        if level == "pointwise":
            graph.add_biases()
        keys = [fusion_key(record) for record in trace]
        inline(graph, keys)
        partition = pointwise(trace, graph)
        if sink_into_readers(graph, partition, keys):
            partition = pointwise(trace, graph)
        if level == "compiler":
            fuse_epilogues(partition, graph)
        members: dict[int, list[int]] = {}
        for position in range(len(trace)):
            home = graph.home.get(position, -1)
            members.setdefault(id(partition.of[position if home < 0 else home]), []).append(position)
        return [(tuple(calls), traffic(graph, calls)) for calls in members.values()]


def _alone(trace: Trace, position: int) -> CallTraffic:
    cost = trace.records[position].cost
    return CallTraffic(0, 0) if cost is None else CallTraffic(cost.mread, cost.mwrite)


# Merging rules, by the patterns of calls and the number of elements.


NEVER_MERGED: frozenset[Pattern] = frozenset(("product", "opaque", "free"))
"""Patterns of calls that never join a loop at level ``pointwise``."""

RECOMPUTABLE: frozenset[Pattern] = frozenset(("map", "make"))
"""Patterns of calls whose elements any consumer can recompute."""

MAX_SIBLINGS = 8
"""How many siblings (earlier readers of the same operand) a call tries to join per operand, the latest first."""

_GRADIENT_PHASES = ("backward", "recompute")


def pointwise(trace: Trace, graph: Graph) -> Partition:
    """Group element-wise calls with the reductions and copies that run over the same number of elements."""
    partition = Partition()
    for position, (record, node) in enumerate(zip(trace, graph.nodes, strict=True)):
        work = node.work
        is_alone = position in graph.placed or position in graph.overwriting
        pattern: Pattern = "opaque" if is_alone else work.pattern
        rows = None if work.reads_twice or work.is_short else work.rows
        waits = frozenset(each for each in node.follows if _must_finish_first(graph, each, node))
        cluster = Cluster(fusion_key(record), work.elements, rows, {pattern}, [position], waits)
        partition.add(position, cluster, node.follows)
        if pattern in NEVER_MERGED:
            continue
        for earlier in _producers(graph, [position]):
            if earlier >= position:  # a later call has the same output id, as in a loop
                continue
            cluster = _join(partition, graph, cluster, partition.of[earlier])
        if work.pattern in ("map", "reduce"):
            for sibling in _siblings(partition, node, graph, position):
                cluster = _join_sibling(partition, cluster, sibling)
    return partition


def fuse_epilogues(partition: Partition, graph: Graph) -> Partition:
    """Merge each element-wise group into the product that it continues."""
    seen = set()
    for position in range(len(graph.nodes)):
        cluster = partition.of[position]
        if cluster in seen:
            continue
        seen.add(cluster)
        if not cluster.patterns <= RECOMPUTABLE:
            continue
        for product in _products(partition, graph, cluster):
            if not partition.has_indirect_path(product, cluster):
                seen.add(partition.merge(product, cluster, cluster.elements, None))
                break
    return partition


def _must_finish_first(graph: Graph, earlier: int, node: Node) -> bool:
    work = node.work
    # Windows and unrolled short reductions read neighbors of an element, so these must be in memory. A split reduction
    # needs its second kernel to finish.
    if (work.pattern == "window" or work.is_short) and graph.nodes[earlier].work.pattern != "make":
        return True
    return graph.nodes[earlier].work.ends_loop or work.reads_twice or (work.is_split and not work.is_even)


def fusion_key(record: CallCost) -> tuple[object, ...]:
    """Return the key that calls must share to run as one kernel.

    A compiler sees three programs: the forward pass, the backward pass (with its recomputations) and the
    optimizer. The body of a loop is a program of its own.
    """
    call = record.call
    return "backward" if call.phase in _GRADIENT_PHASES else call.phase, call.region, call.times


def _producers(graph: Graph, calls: Iterable[int]) -> list[int]:
    read = {operand.value for position in calls for operand in graph.nodes[position].operands}
    return sorted({graph.producer[value] for value in read if value in graph.producer}, reverse=True)


def _siblings(partition: Partition, node: Node, graph: Graph, position: int) -> Iterator[Cluster]:
    for operand in node.operands:
        readers = graph.readers[operand.value]
        end = bisect_left(readers, position)
        for reader in reversed(readers[max(0, end - MAX_SIBLINGS) : end]):
            yield partition.of[reader]


def _join(partition: Partition, graph: Graph, cluster: Cluster, earlier: Cluster) -> Cluster:
    if earlier is cluster or earlier.key != cluster.key or not earlier.patterns.isdisjoint(NEVER_MERGED):
        return cluster
    if any(partition.of[each] is earlier for each in cluster.waits):
        return cluster
    extent = _common_extent(cluster, earlier) or _absorbed_extent(cluster, earlier, graph)
    if extent is None or partition.has_indirect_path(earlier, cluster):
        return cluster
    return partition.merge(earlier, cluster, *extent)


def _join_sibling(partition: Partition, cluster: Cluster, other: Cluster) -> Cluster:
    if other is cluster or other.key != cluster.key or not other.patterns.isdisjoint(NEVER_MERGED):
        return cluster
    extent = _common_extent(cluster, other) if cluster.elements == other.elements else None
    if extent is None or partition.depends(cluster, other) or partition.depends(other, cluster):
        return cluster
    return partition.merge(other, cluster, *extent)


def _common_extent(a: Cluster, b: Cluster) -> tuple[Dim, Dim | None] | None:
    if a.elements == b.elements:
        if a.rows is None or b.rows is None or a.rows == b.rows:
            return a.elements, b.rows if a.rows is None else a.rows
        return None
    if b.rows is not None and a.rows is None and a.elements == b.rows:
        return b.elements, b.rows
    if a.rows is not None and b.rows is None and b.elements == a.rows:
        return a.elements, a.rows
    return None


def _absorbed_extent(cluster: Cluster, earlier: Cluster, graph: Graph) -> tuple[Dim, Dim | None] | None:
    # A smaller group that only this one reads is computed inside its loop.
    if not earlier.patterns <= RECOMPUTABLE or not is_negative(earlier.elements - cluster.elements):
        return None
    inside = {*cluster.calls, *earlier.calls}
    results = (result for position in earlier.calls for result in graph.nodes[position].results if result)
    is_private = all(
        result not in graph.kept and inside.issuperset(graph.readers.get(result, ())) for result in results
    )
    return (cluster.elements, cluster.rows) if is_private else None


def _products(partition: Partition, graph: Graph, cluster: Cluster) -> Iterable[Cluster]:
    # The group can only be the epilogue of a product with as many outputs as the group has elements.
    for position in _producers(graph, cluster.calls):
        product, work = partition.of[position], graph.nodes[position].work
        if work.pattern == "product" and work.elements == cluster.elements and product.key == cluster.key:
            yield product


# Partition of the calls: merging keeps the groups free of cycles.


SEARCH_LIMIT = 500
"""Maximum groups that the search for a path visits; beyond, a path is assumed and the groups are not merged."""


@dataclass(slots=True, eq=False)
class Cluster:
    """A group that may still grow.

    Attributes:
        key: the fusion key of its calls: phase, loop body, number of executions.
        elements: the number of elements that it runs over.
        rows: the number of rows that its reductions have; None without a reduction.
        patterns: the patterns of its calls.
        calls: positions of its calls.
        waits: positions of calls that must finish before it starts.
        rank: a number above the ranks of all groups that it depends on.
        before, after: the groups that it depends on, and that depend on it.
    """

    key: Any
    elements: Dim
    rows: Dim | None
    patterns: set[Pattern]
    calls: list[int]
    waits: frozenset[int] = frozenset()
    rank: int = 0
    before: set[Cluster] = field(default_factory=set)
    after: set[Cluster] = field(default_factory=set)


class Partition:
    """The groups of the calls of a run, which are added in order.

    Attributes:
        of: the group of each call, by position.
    """

    def __init__(self) -> None:
        self.of: dict[int, Cluster] = {}

    def add(self, position: int, cluster: Cluster, follows: frozenset[int]) -> None:
        """Add a group of one call that depends on the earlier calls of ``follows``."""
        self.of[position] = cluster
        cluster.before = {self.of[each] for each in follows if each < position}
        for each in cluster.before:
            each.after.add(cluster)
            cluster.rank = max(cluster.rank, each.rank + 1)

    def depends(self, later: Cluster, earlier: Cluster) -> bool:
        """Return whether a group depends on another one, directly or through others."""
        return earlier in later.before or self.has_indirect_path(earlier, later)

    def has_indirect_path(self, earlier: Cluster, later: Cluster) -> bool:
        """Return whether there is a path from one group to another through a third; merging would create a cycle."""
        stack, seen = _successors(earlier, later), {earlier, later}
        while stack:
            cluster = stack.pop()
            if later in cluster.after:
                return True
            if cluster not in seen:
                seen.add(cluster)
                stack += _successors(cluster, later)
                if len(seen) > SEARCH_LIMIT:
                    return True
        return False

    def merge(self, into: Cluster, other: Cluster, elements: Dim, rows: Dim | None) -> Cluster:
        """Merge two groups that no path through a third connects; return the merged group, the larger of the two."""
        if len(into.calls) < len(other.calls):
            into, other = other, into
        into.elements, into.rows = elements, rows
        into.patterns |= other.patterns
        into.calls += other.calls
        into.waits |= other.waits
        for position in other.calls:
            self.of[position] = into
        for each in other.before:
            each.after.discard(other)
            each.after.add(into)
        for each in other.after:
            each.before.discard(other)
            each.before.add(into)
        into.before = (into.before | other.before) - {into, other}
        into.after = (into.after | other.after) - {into, other}
        into.rank = max(into.rank, other.rank)
        _raise_ranks(into)
        return into


def _successors(cluster: Cluster, later: Cluster) -> list[Cluster]:
    # A path ascends in rank, so groups at or above the rank of ``later`` cannot lead to it.
    found = [each for each in cluster.after if each.rank < later.rank and each is not later]
    return sorted(found, key=lambda each: each.rank) if len(found) > 1 else found


def _raise_ranks(cluster: Cluster) -> None:
    stack = [cluster]
    while stack:
        earlier = stack.pop()
        for later in earlier.after:
            if later.rank <= earlier.rank:
                later.rank = earlier.rank + 1
                stack.append(later)


# Recomputation: element-wise results that loops compute again, so that they never reach memory.


INLINING_READERS: frozenset[Pattern] = frozenset(("map", "reduce", "move", "window"))


def inline(graph: Graph, keys: Sequence[object]) -> None:
    """Inline element-wise results into readers of another size. Readers of the same size are left to fusion.

    For example, a loop that pads a sum, or reads half of it, reads the operands of the sum instead. The inlined call
    joins the group of its first reader.

    Args:
        graph: the values; modified in place.
        keys: the fusion key of each call, by position.
    """
    loads: dict[int, int] = {}
    inlined = []
    for position, node in enumerate(graph.nodes):
        count = _loads(node, loads)
        if node.work.pattern != "map" and not node.work.blends:
            loads.update(dict.fromkeys(node.results, count))
            continue
        positions = _readers(graph, node)
        readers = [graph.nodes[each] for each in positions]
        is_inlined = count <= (1 if any(each.work.pattern == "window" for each in readers) else MOST_LOADS)
        loads.update(dict.fromkeys(node.results, count if is_inlined or len(readers) == 1 else 1))
        # If a concatenation stores the interpolation, other loops read it there and do not compute its last blend.
        is_stored = not graph.placed.isdisjoint(positions)
        if node.work.blends and not is_stored and sum(loads.get(each.value, 1) for each in node.operands) > 1:
            _split_interpolations(graph, position, readers)
        if is_inlined and _is_free_to_move(graph, position, keys) and _saves(node, readers):
            inlined.append(position)
    for position in reversed(inlined):
        _move_into_readers(graph, position)
    for position, home in graph.home.items():
        graph.home[position] = graph.home.get(home, home)


def sink_into_readers(graph: Graph, partition: Partition, keys: Sequence[object]) -> bool:
    """Move element-wise calls into their only reader, if that is a later group of the same size.

    An example is the batch norm on a shortcut of ResNet. A call stays if moving it would force the earlier group to
    write one of its operands to memory.

    Args:
        graph: the values; modified in place.
        partition: the groups so far.
        keys: the fusion key of each call, by position.

    Returns:
        Whether anything moved, so that the groups have to be formed again.
    """
    moved = False
    homes = {home for position, home in graph.home.items() if graph.nodes[position].work is NOTHING}
    for position in reversed(range(len(graph.nodes))):
        node = graph.nodes[position]
        if position in homes or not _is_free_to_move(graph, position, keys, may_skip_reads=True):
            continue
        earlier, (reader, *others) = partition.of[position], _readers(graph, node)
        if others or partition.of[reader] is earlier or not _fits(node, graph.nodes[reader]):
            continue
        work = graph.nodes[reader].work
        if work.pattern not in ("map", "reduce"):
            continue
        if not all(_is_in_memory(graph, operand, earlier, partition) for operand in node.operands):
            continue
        _move_into_readers(graph, position)
        with_unread = work._replace(unread=work.unread + node.work.unread)
        graph.nodes[reader] = graph.nodes[reader]._replace(work=with_unread)
        partition.of[position] = partition.of[reader]
        moved = True
    for position, home in graph.home.items():
        graph.home[position] = graph.home.get(home, home)
    return moved


def _is_in_memory(graph: Graph, operand: Operand, earlier: Cluster, partition: Partition) -> bool:
    # False only if the move would make the earlier group write a value that nobody else needs.
    producer = graph.producer.get(operand.value)
    if producer is None or partition.of[producer] is not earlier or operand.value in graph.kept:
        return True
    return any(partition.of[each] is not earlier for each in graph.readers[operand.value])


def _loads(node: Node, loads: dict[int, int]) -> int:
    if node.work.pattern == "map":
        return sum(loads.get(operand.value, 1) for operand in node.operands)
    # The bias of a product is added by whoever reads the product.
    return 2 if node.work.has_bias else 1


def _readers(graph: Graph, node: Node) -> list[int]:
    return sorted(set(chain.from_iterable(graph.readers.get(result, ()) for result in node.results)))


def _is_free_to_move(graph: Graph, position: int, keys: Sequence[object], may_skip_reads: bool = False) -> bool:
    node = graph.nodes[position]
    work, positions = node.work, _readers(graph, node)
    if work.pattern != "map" or len(node.results) != 1 or not positions or node.unnamed != 0:
        return False
    # Only a call that reads all of its operands and writes all of its result, and nothing else, can move.
    unread = work.unread if may_skip_reads else 0
    if work != work._replace(unread=unread, unwritten=0, more_read=0, more_written=0) or position in graph.overwriting:
        return False
    return graph.kept.isdisjoint(node.results) and all(
        graph.nodes[each].work.pattern in INLINING_READERS
        and (may_skip_reads or graph.nodes[each].work.unread == 0)
        and keys[each] == keys[position]
        and each not in graph.placed
        for each in positions
    )


def _split_interpolations(graph: Graph, position: int, readers: Sequence[Node]) -> None:
    # The interpolation writes two values per element, from before its last blend. Readers of another size read both
    # values and the operands, and compute the last blend. TorchInductor does this if the operand is itself computed.
    node = graph.nodes[position]
    if all(map(partial(_fits, node), readers)) or not all(
        each.work.pattern in INLINING_READERS - {"window"} for each in readers
    ):
        return
    graph.nodes[position] = node._replace(work=node.work._replace(more_written=node.work.writes[0]))
    for each in _readers(graph, node):
        reader, result = graph.nodes[each], node.results[0]
        other = (Operand(result, -result, node.work.writes[0]), *node.operands)
        graph.nodes[each] = reader._replace(operands=(*reader.operands, *other), follows=reader.follows | node.follows)
        for operand in node.operands:
            insort(graph.readers[operand.value], each)


def _fits(node: Node, reader: Node) -> bool:
    return bool(reader.work.elements == node.work.elements and not reader.work.is_short)


def _saves(node: Node, readers: Sequence[Node]) -> bool:
    if all(map(partial(_fits, node), readers)):
        return False
    operands, result = sum(magnitude(each.nbytes) for each in node.operands), magnitude(node.work.writes[0])
    return bool(len(readers) * operands <= operands + (1 + len(readers)) * result)


def _move_into_readers(graph: Graph, position: int) -> None:
    node = graph.nodes[position]
    positions = _readers(graph, node)
    for each in positions:
        reader = graph.nodes[each]
        operands = (_inlined_operands(graph, node, operand) for operand in reader.operands)
        follows = (reader.follows | node.follows | {positions[0]}) - {position, each}
        graph.nodes[each] = reader._replace(operands=tuple(chain.from_iterable(operands)), follows=follows)
    for value in {operand.value for operand in node.operands}:
        readers = graph.readers[value]
        del readers[bisect_left(readers, position) : bisect_right(readers, position)]
        for each in positions:
            if bisect_left(readers, each) == bisect_right(readers, each):
                insort(readers, each)
    graph.home[position] = positions[0]
    graph.nodes[position] = Node(NOTHING, (), (), frozenset())


def _inlined_operands(graph: Graph, node: Node, read: Operand) -> list[Operand]:
    whole = node.work.writes[0]
    if read.value != node.results[0]:
        return [read]
    if read.nbytes == whole:
        return list(node.operands)
    parts = []
    for operand in node.operands:
        if magnitude(operand.nbytes) * 2 <= magnitude(whole):  # broadcast: a part of the result may read all of it
            parts.append(operand)
        else:
            graph.sizes.setdefault(operand.value, operand.nbytes)
            parts.append(Operand(operand.value, read.view, operand.nbytes * read.nbytes // whole))
    return parts


# Table of groups.


UNFUSED = "unfused_mrw"
"""The column of bytes without fusion."""

FUSED = by_key(
    Column("group", "Group", "count"),
    Column("names", "Calls"),
    Column("n_layers", "# Calls", "count"),
    Column("op", "Operators"),
    Column("module", "Module"),
    Column("phase", "Phase"),
    *preset("flops", "macs", "mread", "mwrite", "mrw").values(),
    Column(UNFUSED, "Unfused R+W", "bytes"),
    *preset(*SHARES, "n_params").values(),
)


class FusedColumns:
    """Column sets of the table of groups."""

    DEFAULT = ("group", "names", "flops", "mread", "mwrite", "mrw", UNFUSED)
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(FUSED)
    SETS = (DEFAULT, DEFAULT_AND_PERCENT, ALL)


def unfused(original: ReportLike) -> Quantity:
    """Return the bytes that calls read and write in a report without fusion."""
    doc = "bytes read and written if each call runs by itself"
    return Quantity(
        UNFUSED, "Unfused R+W", "bytes", doc, lambda _: [e["mrw"] for e in original.ledger.entries.values()]
    )


def group_rows(fused: ReportLike) -> list[TableRow]:
    """Return a row for every group that computes, reads or writes anything, numbered from 1.

    Args:
        fused: a report with the bytes after fusion.
    """
    fusion, calls = fused.trace.run.fusion, fused.trace.calls
    rows: list[TableRow] = []
    for positions in () if fusion is None else fusion.groups:
        members = [calls[i] for i in positions if calls[i].name in fused.ledger.entries]
        sums = fused.ledger.sum(members)
        if sums["mrw"] != 0 or sums["flops"] != 0:
            rows.append(TableRow({"group": len(rows) + 1, **_group_texts(members), **sums}, members))
    return rows


def _group_texts(calls: list[Call]) -> dict[str, Any]:
    return {
        "names": ", ".join(call.name for call in calls),
        "op": ", ".join(dict.fromkeys(call.layer.op for call in calls)),
        "module": ", ".join(dict.fromkeys(call.module for call in calls if call.module)),
        "phase": calls[0].phase,
    }


# The fused report.


class FusedView(OfReport):
    """A report with the bytes after fusion; :meth:`costcore.Report.fused` returns it.

    The report does not change. :meth:`show_report` shows the groups. Every other property and method comes from
    :attr:`report`, where calls have the bytes after fusion: within a group, the first call that reads a value is
    charged with reading it, and the call that produces a value with writing it.

    Args:
        original: the report, a :class:`costcore.Report`.
        level: the level of fusion.

    Attributes:
        original: the report without fusion.
        level: the level of fusion.
        report: the report with the bytes after fusion, a :class:`costcore.Report`.
    """

    def __init__(self, original: Any, level: str = "pointwise") -> None:
        self.original = original
        self.level = level
        self.report: Any = type(original)(fused_trace(original.trace, level))

    def __repr__(self) -> str:
        return f"<{self}>"

    def _text(self, *_: Any, **options: Any) -> str:
        total = self.total_report
        before, after = as_text(total[UNFUSED]), as_text(total["mrw"])
        return f"{total['n_groups']} groups at level {self.level}: {after} bytes read and written, {before} unfused"

    def _content(self) -> Content:
        answer: Content = self.report._content()
        return answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "report":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.report, name)

    @cached_property
    def groups(self) -> list[Group]:
        """All groups, with positions in ``calls``; groups of free calls read and write nothing."""
        return groups_of(self.original.trace, self.level)

    @property
    def total_report(self) -> dict[str, Any]:
        """The total, with ``n_groups`` (without groups of free calls) and ``unfused_mrw``, the bytes without fusion."""
        return {**self.report.total_report, "n_groups": len(self._rows), UNFUSED: self.original.ledger.total["mrw"]}

    def subs(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> FusedView:
        """Return this view with values for symbolic dimensions; arguments as for :meth:`costcore.Report.subs`."""
        return FusedView(self.original.subs(values, **named), self.level)

    @writes_table(FusedColumns.DEFAULT, elsewhere="csv")
    def show_report(self, columns: Sequence[str], top: int | None, sort: str | None = None) -> Table:
        """Write a table with one row per group, and the total; arguments as for :meth:`costcore.Report.show_report`.

        Groups of free calls (views) are omitted. ``unfused_mrw`` are the bytes that the calls of a group read and write
        if each runs by itself.
        """
        report = self.report
        builder = TableBuilder(report.ledger, FUSED, columns, sort, [unfused(self.original)])
        rows = builder.rows(self._rows, top, "names")
        shown = in_unit(builder.columns, report.trace.run.unit)
        return Table(
            *("Groups", shown, rows[:-1]),
            total=rows[-1],
            remarks=[*builder.remarks, *report.remarks],
            unit=report.trace.run.unit,
            dropped_first=dropped_first(shown, FusedColumns.SETS),
        )

    def to_html(self, target: Target = None, title: str = "", columns: Sequence[str | Quantity] = ()) -> str:
        """Return a page as :meth:`costcore.Report.to_html` does, with a column of bytes without fusion."""
        page: str = self.report.to_html(target, title, [unfused(self.original), *columns])
        return page

    @cached_property
    def _rows(self) -> list[TableRow]:
        return group_rows(self.report)


def fused_trace(trace: Trace, level: str) -> Trace:
    """Return the trace with the bytes after fusion as costs, and the groups in the run.

    Within a group, the first call that reads a value is charged with reading it, and the call that produces a value
    with writing it. All other amounts of the costs are unchanged.

    Raises:
        ValueError: if the level is unknown.
        CostError: if the trace is already fused, or if a calculator states an invalid
            pattern.
    """
    if trace.run.fusion is not None:
        raise CostError(
            f"this report is already fused at level {trace.run.fusion.level!r}. Fuse the report from which it was made."
        )
    groups, amounts = traffic_of_calls(trace, level)
    records = tuple(
        record if record.cost is None else record._replace(cost=record.cost._replace(mread=read, mwrite=written))
        for record, (read, written) in zip(trace, amounts, strict=True)
    )
    unfused = expanded_sum((cost.mread + cost.mwrite) * call.times for call, cost, *_ in trace if cost is not None)
    return Trace(records, trace.run.recording(fusion=Fusion(level, tuple(groups), unfused)))
