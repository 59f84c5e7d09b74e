"""Which groups a compiler merges, by the patterns of their calls and the elements that they run over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from costcore.analyses.fusion.graph import Graph, Node
from costcore.analyses.fusion.partition import Cluster, Partition
from costcore.ir import Pattern
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import is_negative
from costcore.trace.trace import CallCost, Trace

ALONE: frozenset[Pattern] = frozenset(("product", "opaque", "free"))
"""Patterns of calls that join no group at level ``pointwise``."""

SIMPLE: frozenset[Pattern] = frozenset(("map", "make"))
"""Patterns of calls that compute an element wherever it is needed."""

MAX_SIBLINGS = 8
"""The number of groups that read a common operand and are tried, the latest first."""

_GRADIENT = ("backward", "recompute")


def pointwise(trace: Trace, graph: Graph) -> Partition:
    """Return the groups of loops: element-wise calls, with the reductions and copies that run over as many elements."""
    partition = Partition()
    for position, (record, node) in enumerate(zip(trace, graph.nodes, strict=True)):
        work = node.work
        is_alone = position in graph.placed or position in graph.overwriting
        pattern: Pattern = "opaque" if is_alone else work.pattern
        rows = None if work.reads_twice or work.is_short else work.rows
        waits = frozenset(each for each in node.follows if _must_end(graph, each, node))
        cluster = Cluster(place_of(record), work.elements, rows, {pattern}, [position], waits)
        partition.add(position, cluster, node.follows)
        if pattern in ALONE:
            continue
        for early in _producers(graph, [position]):
            if early >= position:  # an id that a later call writes again
                continue
            cluster = _join(partition, graph, cluster, partition.of[early])
        if work.pattern in ("map", "reduce"):
            for sibling in _siblings(partition, node, graph, position):
                cluster = _join_sibling(partition, cluster, sibling)
    return partition


def with_products(partition: Partition, graph: Graph) -> Partition:
    """Merge element-wise groups into the product whose output they continue, one product each."""
    seen = set()
    for position in range(len(graph.nodes)):
        cluster = partition.of[position]
        if cluster in seen:
            continue
        seen.add(cluster)
        if not cluster.patterns <= SIMPLE:
            continue
        for product in _products(partition, graph, cluster):
            if not partition.has_detour(product, cluster):
                seen.add(partition.merge(product, cluster, cluster.elements, None))
                break
    return partition


def _must_end(graph: Graph, early: int, node: Node) -> bool:
    """Return whether a call must be complete before one that reads its result.

    A window and a row that is written out need neighbors. Parts of rows are combined by other kernels.
    """
    work = node.work
    if (work.pattern == "window" or work.is_short) and graph.nodes[early].work.pattern != "make":
        return True
    return graph.nodes[early].work.ends_loop or work.reads_twice or (work.is_split and not work.is_even)


def place_of(record: CallCost) -> tuple[object, ...]:
    """Return what calls must have in common to run as one kernel.

    A compiler sees the forward pass, the gradients (with what is computed again for them) and the optimizer as three
    programs, and the body of a loop as one of its own.
    """
    call = record.call
    return "backward" if call.phase in _GRADIENT else call.phase, call.region, call.times


def _producers(graph: Graph, calls: Iterable[int]) -> list[int]:
    """Return the calls that produce operands of others, the latest first."""
    read = {operand.value for position in calls for operand in graph.nodes[position].operands}
    return sorted({graph.producer[value] for value in read if value in graph.producer}, reverse=True)


def _siblings(partition: Partition, node: Node, graph: Graph, position: int) -> Iterator[Cluster]:
    """Yield the latest groups before a call that read one of its operands."""
    for operand in node.operands:
        readers = graph.readers[operand.value]
        end = bisect_left(readers, position)
        for reader in reversed(readers[max(0, end - MAX_SIBLINGS) : end]):
            yield partition.of[reader]


def _join(partition: Partition, graph: Graph, cluster: Cluster, early: Cluster) -> Cluster:
    """Merge the group of a call with one that produces an operand, if the rules allow it; return its group."""
    if early is cluster or early.place != cluster.place or not early.patterns.isdisjoint(ALONE):
        return cluster
    if any(partition.of[each] is early for each in cluster.waits):
        return cluster
    extent = _common(cluster, early) or _drawn_in(cluster, early, graph)
    if extent is None or partition.has_detour(early, cluster):
        return cluster
    return partition.merge(early, cluster, *extent)


def _join_sibling(partition: Partition, cluster: Cluster, other: Cluster) -> Cluster:
    """Merge the group of a call with one that reads the same operand over the same elements."""
    if other is cluster or other.place != cluster.place or not other.patterns.isdisjoint(ALONE):
        return cluster
    extent = _common(cluster, other) if cluster.elements == other.elements else None
    if extent is None or partition.depends(cluster, other) or partition.depends(other, cluster):
        return cluster
    return partition.merge(other, cluster, *extent)


def _common(a: Cluster, b: Cluster) -> tuple[Dim, Dim | None] | None:
    """Return the elements and rows of one loop that does the work of both groups; None if there is none."""
    if a.elements == b.elements:
        if a.rows is None or b.rows is None or a.rows == b.rows:
            return a.elements, b.rows if a.rows is None else a.rows
        return None
    if b.rows is not None and a.rows is None and a.elements == b.rows:
        return b.elements, b.rows
    if a.rows is not None and b.rows is None and b.elements == a.rows:
        return a.elements, a.rows
    return None


def _drawn_in(cluster: Cluster, early: Cluster, graph: Graph) -> tuple[Dim, Dim | None] | None:
    """Return the extent of a group that takes in a smaller one, which computes operands for it alone."""
    if not early.patterns <= SIMPLE or not is_negative(early.elements - cluster.elements):
        return None
    inside = {*cluster.calls, *early.calls}
    results = (result for position in early.calls for result in graph.nodes[position].results if result)
    is_private = all(
        result not in graph.kept and inside.issuperset(graph.readers.get(result, ())) for result in results
    )
    return (cluster.elements, cluster.rows) if is_private else None


def _products(partition: Partition, graph: Graph, cluster: Cluster) -> Iterable[Cluster]:
    """Yield the products whose output a group reads, as large as the elements that it runs over, the latest first."""
    for position in _producers(graph, cluster.calls):
        product, work = partition.of[position], graph.nodes[position].work
        if work.pattern == "product" and work.elements == cluster.elements and product.place == cluster.place:
            yield product
