"""Element-wise results that every loop computes for itself, so that they never reach memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import partial
from itertools import chain

from costcore.analyses.fusion.graph import MOST_LOADS, Graph, Node, Operand
from costcore.analyses.fusion.partition import Cluster, Partition
from costcore.analyses.fusion.work import NOTHING
from costcore.ir import Pattern
from costcore.numbers.symbolic import magnitude

READERS: frozenset[Pattern] = frozenset(("map", "reduce", "move", "window"))


def inline(graph: Graph, places: Sequence[object]) -> None:
    """Compute element-wise results again in each loop that reads them, if the loops differ in size.

    A loop that pads a sum, or that reads half of it, reads the operands of the sum instead. The call then is in the
    group of its first reader.

    Args:
        graph: the values, which change.
        places: what calls must have in common to run as one kernel, by position.
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
        # A concatenation in place holds the finished interpolation, so that other loops read it there.
        is_stored = not graph.placed.isdisjoint(positions)
        if node.work.blends and not is_stored and sum(loads.get(each.value, 1) for each in node.operands) > 1:
            _keep_blends(graph, position, readers)
        if is_inlined and _is_free_to_move(graph, position, places) and _saves(node, readers):
            inlined.append(position)
    for position in reversed(inlined):
        _move_into_readers(graph, position)
    for position, home in graph.home.items():
        graph.home[position] = graph.home.get(home, home)


def compute_late(graph: Graph, partition: Partition, places: Sequence[object]) -> bool:
    """Compute element-wise results where they are read, if that is one later loop over as many elements.

    Such as the batch norm of a shortcut, which is added to what a product computes of the same value. Values that only
    the earlier loop has, and does not write, stay there.

    Args:
        graph: the values, which change.
        partition: the groups so far.
        places: what calls must have in common to run as one kernel, by position.

    Returns:
        Whether anything moved, so that the groups have to be formed again.
    """
    moved = False
    homes = {home for position, home in graph.home.items() if graph.nodes[position].work is NOTHING}
    for position in reversed(range(len(graph.nodes))):
        node = graph.nodes[position]
        if position in homes or not _is_free_to_move(graph, position, places, skips=True):
            continue
        early, (reader, *others) = partition.of[position], _readers(graph, node)
        if others or partition.of[reader] is early or not _fits(node, graph.nodes[reader]):
            continue
        if graph.nodes[reader].work.pattern in ("map", "reduce") and all(
            _is_in_memory(graph, operand, early, partition) for operand in node.operands
        ):
            work = graph.nodes[reader].work
            _move_into_readers(graph, position)
            skipped = work._replace(unread=work.unread + node.work.unread)
            graph.nodes[reader] = graph.nodes[reader]._replace(work=skipped)
            partition.of[position] = partition.of[reader]
            moved = True
    for position, home in graph.home.items():
        graph.home[position] = graph.home.get(home, home)
    return moved


def _is_in_memory(graph: Graph, operand: Operand, early: Cluster, partition: Partition) -> bool:
    """Return whether a group need not write a value for a reader in another one alone."""
    producer = graph.producer.get(operand.value)
    if producer is None or partition.of[producer] is not early or operand.value in graph.kept:
        return True
    return any(partition.of[each] is not early for each in graph.readers[operand.value])


def _loads(node: Node, loads: dict[int, int]) -> int:
    """Return how many values a result is computed from; the bias of a product is added by whoever reads the product."""
    if node.work.pattern == "map":
        return sum(loads.get(operand.value, 1) for operand in node.operands)
    return 2 if node.work.has_bias else 1


def _readers(graph: Graph, node: Node) -> list[int]:
    return sorted(set(chain.from_iterable(graph.readers.get(result, ()) for result in node.results)))


def _is_free_to_move(graph: Graph, position: int, places: Sequence[object], skips: bool = False) -> bool:
    """Return whether only loops of the same program read the result of an element-wise call."""
    node = graph.nodes[position]
    work, positions = node.work, _readers(graph, node)
    if work.pattern != "map" or len(node.results) != 1 or not positions or node.unnamed != 0:
        return False
    unread = work.unread if skips else 0
    if work != work._replace(unread=unread, unwritten=0, more_read=0, more_written=0) or position in graph.overwriting:
        return False
    return graph.kept.isdisjoint(node.results) and all(
        graph.nodes[each].work.pattern in READERS
        and (skips or graph.nodes[each].work.unread == 0)
        and places[each] == places[position]
        and each not in graph.placed
        for each in positions
    )


def _keep_blends(graph: Graph, position: int, readers: Sequence[Node]) -> None:
    """Let loops of other sizes finish an interpolation, for which they need two values per element, and the operand.

    TorchInductor does this if the operand is computed itself, such as a product to which a bias is added.
    """
    node = graph.nodes[position]
    if all(map(partial(_fits, node), readers)) or not all(
        each.work.pattern in READERS - {"window"} for each in readers
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
    """Return whether a reader can be in the loop that computes what it reads."""
    return bool(reader.work.elements == node.work.elements and not reader.work.is_short)


def _saves(node: Node, readers: Sequence[Node]) -> bool:
    """Return whether loops of different sizes read no more bytes if each of them computes the result."""
    if all(map(partial(_fits, node), readers)):
        return False
    operands, result = sum(magnitude(each.nbytes) for each in node.operands), magnitude(node.work.writes[0])
    return bool(len(readers) * operands <= operands + (1 + len(readers)) * result)


def _move_into_readers(graph: Graph, position: int) -> None:
    """Give the operands of a call to those who read its result."""
    node = graph.nodes[position]
    positions = _readers(graph, node)
    for each in positions:
        reader = graph.nodes[each]
        operands = (_operands(graph, node, operand) for operand in reader.operands)
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


def _operands(graph: Graph, node: Node, read: Operand) -> list[Operand]:
    """Return what is read instead of the result of a call, or of a part of it."""
    whole = node.work.writes[0]
    if read.value != node.results[0]:
        return [read]
    if read.nbytes == whole:
        return list(node.operands)
    parts = []
    for operand in node.operands:
        if magnitude(operand.nbytes) * 2 <= magnitude(whole):  # it is broadcast, and may be needed whole
            parts.append(operand)
        else:
            graph.sizes.setdefault(operand.value, operand.nbytes)
            parts.append(Operand(operand.value, read.view, operand.nbytes * read.nbytes // whole))
    return parts
