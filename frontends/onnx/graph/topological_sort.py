"""Topological sort of the nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from costcore.errors import CostError
from costcore.graphs import in_order

from .messages import joined
from .node import describe


def inner_graphs(node: Any) -> list[Any]:
    """Return the graphs among a node's attributes: branches and bodies."""
    attributes = node.attribute
    return [g for a in attributes for g in ((a.g,) if a.HasField("g") else a.graphs)] if attributes else []


def values_read(node: Any) -> list[str]:
    """Return the values of the surrounding graph that a node reads, also from inside its own graphs."""
    found = [name for name in node.input if name]
    waiting = [(graph, frozenset[str]()) for graph in inner_graphs(node)]
    while waiting:
        graph, around = waiting.pop()
        own = around | _produced_in(graph)
        for inner in graph.node:
            found += [name for name in inner.input if name and name not in own]
            waiting += [(deeper, own) for deeper in inner_graphs(inner)]
        found += [output.name for output in graph.output if output.name not in own]
    return found


def _produced_in(graph: Any) -> set[str]:
    """Return the names that a graph defines: inputs, initializers and outputs of nodes."""
    stored = {tensor.name for tensor in graph.initializer} | {sparse.values.name for sparse in graph.sparse_initializer}
    return stored | {entry.name for entry in graph.input} | {name for node in graph.node for name in node.output}


def topological_sort(
    nodes: Sequence[Any],
    outputs: Iterable[str],
    own: Collection[str],
    is_defined: Callable[[str], bool],
    note: Callable[[str], None],
) -> Sequence[Any]:
    """Return ``nodes`` ordered so that each comes after those it reads from.

    Args:
        nodes: the nodes of one graph.
        outputs: the outputs of the graph.
        own: the inputs and initializers of the graph.
        is_defined: whether a name is defined outside these nodes.
        note: receives a note if they had to be sorted, and one that lists nodes whose outputs are unused.

    Raises:
        CostError: for a duplicate name, a name that is not defined, or a cycle; the message includes the nodes.
    """
    producer: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in own:
                raise CostError(
                    f"{describe(node)} produces {name!r}, which is already an input or an initializer of the graph"
                )
            if name in producer:
                raise CostError(f"{describe(nodes[producer[name]])} and {describe(node)} both produce {name!r}")
            producer[name] = i
    before: list[list[int]] = []
    is_sorted, used = True, {producer[name] for name in outputs if name in producer}
    for i, node in enumerate(nodes):
        names = values_read(node)
        earlier = [producer[name] for name in names if name in producer]
        if len(earlier) < len(names):
            for name in node.input:
                if name and name not in producer and not is_defined(name):
                    raise CostError(f"{describe(node)} reads {name!r}, which is not defined: no node produces it")
        used.update(earlier)
        before.append(earlier)
        if earlier and max(earlier) >= i:
            is_sorted = False
    if len(used) < len(nodes):
        unused = [node for i, node in enumerate(nodes) if i not in used and node.op_type != "Constant"]
        if unused:
            labels = joined([describe(node) for node in unused])
            note(f"the outputs of these nodes are unused; the nodes are counted: {labels}")
    if is_sorted:
        return nodes
    note("the nodes of the graph are not in topological order; they were sorted")
    order = in_order([[*dict.fromkeys(earlier)] for earlier in before], lambda i: describe(nodes[i]))
    return [nodes[i] for i in order]
