"""The model as a tree of modules, and what each of them costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from costcore.dims import Dim
from costcore.reports.ledger import SUMS, Ledger, memory, shares
from costcore.reports.module_paths import parent_of
from costcore.symbolic import added
from costcore.trace.call import Module
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace

OWN = "(own calls)"
OUTSIDE = "(outside of any module)"

ADDED = (*SUMS, "activations", "n_layers", "n_unknown", "n_trainable", "n_frozen", "n_buffers")


@dataclass(slots=True)
class _Node:
    """A place in the tree: a module, or the calls of a module that also has children."""

    path: str
    name: str
    module: Module | None = None
    calls: list[int] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)
    sums: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(ADDED, 0))
    output: tuple[bool, int] = (False, -1)
    late: set[int] = field(default_factory=set)
    entry: dict[str, Any] = field(default_factory=dict)
    is_own: bool = False


def build(trace: Trace, ledger: Ledger) -> dict[str, Any]:
    """Return :meth:`Report.tree`."""
    records, run = trace.records, trace.run
    root = _places(records, run)
    nodes = _split(root, run)
    home = _held(run)
    first: dict[int, int] = {}
    for i, node in enumerate(nodes):
        _count(node, i, records, run, ledger, home, first)
    shared = _add_up(nodes, run, first)
    for node, n_shared in zip(reversed(nodes), reversed(shared), strict=True):
        node.entry.update(_entry(node, records, n_shared, bool(run.modules), root.sums))
        node.entry["children"] = [child.entry for child in node.children]
    return root.entry


def walk(tree: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every node of :meth:`Report.tree` with its depth, parents before children; however deep the tree is."""
    stack = [(0, tree)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack += [(depth + 1, child) for child in reversed(node["children"])]


def _places(records: Sequence[CallCost], run: Run) -> _Node:
    """The tree of all modules that are known or have calls."""
    root = _Node("", "")
    nodes = {"": root}

    def at(path: str) -> _Node:
        missing = []
        while path not in nodes:
            missing.append(path)
            path = parent_of(path)
        for below in reversed(missing):
            parent = nodes[path]
            nodes[below] = _Node(below, below[len(path) :].lstrip("./") or below)
            parent.children.append(nodes[below])
            path = below
        return nodes[path]

    for path, module in run.modules.items():
        at(path).module = module
    for i, item in enumerate(records):
        at(item.call.module).calls.append(i)
    return root


def _split(root: _Node, run: Run) -> list[_Node]:
    """All nodes, parents before children, after what a module with children does itself has become its first child."""
    nodes, stack = [], [root]
    while stack:
        node = stack.pop()
        nodes.append(node)
        if node is root and not run.modules.get(""):
            name, apart = OUTSIDE, bool(node.calls)
        else:
            module = node.module or Module("")
            name, apart = OWN, bool(node.children) and bool(node.calls or module.parameters or module.buffers != 0)
        if apart:
            node.children.insert(0, _Node(node.path, name, node.module, node.calls, is_own=True))
            node.module, node.calls = node.module and node.module._replace(parameters=(), frozen=(), buffers=0), []
            nodes.append(node.children[0])
            stack += reversed(node.children[1:])
        else:
            stack += reversed(node.children)
    return nodes


def _held(run: Run) -> set[int]:
    """The parameters that a known module holds."""
    return {identity for module in run.modules.values() for identity in module.parameters}


def _count(
    node: _Node,
    position: int,
    records: Sequence[CallCost],
    run: Run,
    ledger: Ledger,
    held: set[int],
    first: dict[int, int],
) -> None:
    """Sum what a node does and holds itself; ``first`` notes where each parameter was met first."""
    module, sums = node.module or Module(""), node.sums
    identities = list(module.parameters)
    entries: list[dict[str, Any]] = []
    activations: list[Dim] = []
    for i in node.calls:
        call, cost = records[i].call, records[i].cost
        identities += [identity for identity in call.parameters if identity not in held]
        node.output = max(node.output, (call.phase == "forward", i))
        if cost is None:
            sums["n_unknown"] += 1
            continue
        entry = ledger.entries[call.name]
        entries.append(entry)
        if call.phase == "forward":
            activations.append(memory(call, cost))
        if "seconds" in entry:
            sums["seconds"] = sums.get("seconds", 0.0) + entry["seconds"]
        sums["n_layers"] += 1
    sums.update({key: added(entry[key] for entry in entries) for key in SUMS}, activations=added(activations))
    frozen = set(module.frozen)
    for identity in dict.fromkeys(identities):
        if first.setdefault(identity, position) == position:
            sums["n_frozen" if identity in frozen else "n_trainable"] += run.parameters[identity]
        else:
            node.late.add(identity)
    if not module.same_as:
        sums["n_buffers"] += module.buffers


def _add_up(nodes: list[_Node], run: Run, first: dict[int, int]) -> list[Dim]:
    """Add children to their parents, from the leaves up; the elements of each that were met before it, too."""
    shared: list[Dim] = []
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        parts = [node.sums, *(child.sums for child in node.children)]
        for key in dict.fromkeys(key for sums in parts for key in sums) if node.children else ():
            node.sums[key] = added(sums[key] for sums in parts if key in sums)
        for child in node.children:
            node.output = max(node.output, child.output)
            if len(child.late) > len(node.late):
                node.late, child.late = child.late, node.late
            node.late |= child.late
            child.late = set()
        node.late = {identity for identity in node.late if first[identity] < position} if node.late else node.late
        shared.append(sum(run.parameters[identity] for identity in sorted(node.late)))
    return shared[::-1]


def _entry(
    node: _Node, records: Sequence[CallCost], n_shared: Dim, modules_known: bool, total: dict[str, Any]
) -> dict[str, Any]:
    sums, module = dict(node.sums), node.module or Module("")
    sums["n_params"], sums["n_shared"] = sums["n_trainable"] + sums["n_frozen"] + n_shared, n_shared
    if not modules_known:
        sums |= dict.fromkeys(("n_trainable", "n_frozen", "n_buffers"))
    outputs = records[node.output[1]].call.layer.outputs if node.output[1] >= 0 else ()
    module = Module("") if node.is_own else module
    return {
        "name": node.name,
        "path": node.path,
        "is_own": node.is_own,
        "type": module.type,
        "same_as": module.same_as,
        "output_shape": outputs[0].shape if outputs else None,
        **sums,
        **shares(sums, total),
    }
