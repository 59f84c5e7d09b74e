"""The tree of modules with the cost of each module, and paths of modules.

A parameter counts in the first node that holds it; ``n_shared`` has the repeated ones. Calls that a module with
children makes itself have a node of their own, so that the children of a node always add up to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from costcore.ledger.ledger import SUMS, Ledger, MemoryData, memory, shares
from costcore.numbers import Dim, expanded_sum
from costcore.trace.call import Module
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace

OWN = "(own calls)"
"""Name of the node with the own calls of a module with children."""

OUTSIDE = "(outside of any module)"
"""Name of the node with the calls outside of all modules."""

ADDITIVE = (*SUMS, "activations", "n_layers", "n_unknown", "n_trainable", "n_frozen", "n_buffers")
"""The amounts of a node that are sums over its children."""


@dataclass(slots=True)
class _Node:
    """A node of the tree: a module, or the own calls of a module that also has children.

    Attributes:
        path, name: path of the module, and the name that reports display.
        module: the module; None if the model was not inspected.
        calls: indices of the calls that the module makes itself.
        children: the nodes below.
        sums: the :data:`ADDITIVE` amounts, and measured seconds.
        last_call: ``(is_forward, index)`` of the call that determines ``output_shape``: the last forward call below, or
            the last call if none is; index -1 if there is no call.
        repeated: parameters that an earlier node holds too.
        entry: the node as :meth:`Report.tree` returns it.
        is_own: whether the node has the own calls of a module, not the module.
    """

    path: str
    name: str
    module: Module | None = None
    calls: list[int] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)
    sums: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(ADDITIVE, 0))
    last_call: tuple[bool, int] = (False, -1)
    repeated: set[int] = field(default_factory=set)
    entry: dict[str, Any] = field(default_factory=dict)
    is_own: bool = False


def build(trace: Trace, ledger: Ledger) -> dict[str, Any]:
    """Return the tree of modules, see :meth:`Report.tree`."""
    records, run = trace.records, trace.run
    root = _modules_with_calls(records, run)
    nodes = _with_own_calls_apart(root, run)
    held = {parameter for module in run.modules.values() for parameter in module.parameters}
    first_node: dict[int, int] = {}
    for position, node in enumerate(nodes):
        _count(node, position, records, run, ledger, held, first_node)
    shared = _add_up(nodes, run, first_node)
    if run.memory is not None:
        _add_memory(nodes, MemoryData(run.memory, trace.calls))
    for node, n_shared in zip(reversed(nodes), reversed(shared), strict=True):
        node.entry.update(_entry(node, records, n_shared, bool(run.modules), root.sums))
        node.entry["children"] = [child.entry for child in node.children]
    return root.entry


def walk(tree: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every node of :meth:`Report.tree` with its depth, parents before children, without recursion."""
    stack = [(0, tree)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack += [(depth + 1, child) for child in reversed(node["children"])]


def _modules_with_calls(records: Sequence[CallCost], run: Run) -> _Node:
    root = _Node("", "")
    nodes = {"": root}

    def node_at(path: str) -> _Node:
        missing = []
        while path not in nodes:
            missing.append(path)
            path = parent_of(path)
        for child in reversed(missing):
            parent = nodes[path]
            nodes[child] = _Node(child, below(path, child) or child)
            parent.children.append(nodes[child])
            path = child
        return nodes[path]

    for path, module in run.modules.items():
        node_at(path).module = module
    for i, record in enumerate(records):
        node_at(record.call.module).calls.append(i)
    return root


def _with_own_calls_apart(root: _Node, run: Run) -> list[_Node]:
    nodes, stack = [], [root]
    while stack:
        node = stack.pop()
        nodes.append(node)
        if node is root and not run.modules.get(""):
            name, has_own = OUTSIDE, bool(node.calls)
        else:
            module = node.module or Module("")
            name, has_own = OWN, bool(node.children) and bool(node.calls or module.parameters or module.buffers != 0)
        # A first child for own calls: a node is the sum of its children.
        if has_own:
            node.children.insert(0, _Node(node.path, name, node.module, node.calls, is_own=True))
            node.module, node.calls = node.module and node.module._replace(parameters=(), frozen=(), buffers=0), []
            nodes.append(node.children[0])
            stack += reversed(node.children[1:])
        else:
            stack += reversed(node.children)
    return nodes


def _count(
    node: _Node,
    position: int,
    records: Sequence[CallCost],
    run: Run,
    ledger: Ledger,
    held: set[int],
    first_node: dict[int, int],
) -> None:
    """Sum the own calls, parameters and buffers of a node.

    Args:
        node: the node.
        position: its index among all nodes.
        records: the calls of the run.
        run: the run.
        ledger: the entries of the counted calls.
        held: the parameters that a module of the model owns.
        first_node: index of the first node with a parameter, by parameter; updated.
    """
    module, sums = node.module or Module(""), node.sums
    parameters = list(module.parameters)
    entries: list[dict[str, Any]] = []
    activations: list[Dim] = []
    for i in node.calls:
        call, cost = records[i].call, records[i].cost
        parameters += [parameter for parameter in call.parameters if parameter not in held]
        node.last_call = max(node.last_call, (call.phase == "forward", i))
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
    sums.update(
        {key: expanded_sum(entry[key] for entry in entries) for key in ledger.sums},
        activations=expanded_sum(activations),
    )
    frozen = set(module.frozen)
    for parameter in dict.fromkeys(parameters):
        if first_node.setdefault(parameter, position) == position:
            sums["n_frozen" if parameter in frozen else "n_trainable"] += run.parameters[parameter]
        else:
            node.repeated.add(parameter)
    if not module.same_as:
        sums["n_buffers"] += module.buffers


def _add_up(nodes: list[_Node], run: Run, first_node: dict[int, int]) -> list[Dim]:
    shared: list[Dim] = []
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        summands = [node.sums, *(child.sums for child in node.children)]
        for key in dict.fromkeys(key for sums in summands for key in sums) if node.children else ():
            node.sums[key] = expanded_sum(sums[key] for sums in summands if key in sums)
        for child in node.children:
            node.last_call = max(node.last_call, child.last_call)
            # Merge the smaller set into the larger one: deep trees stay fast.
            if len(child.repeated) > len(node.repeated):
                node.repeated, child.repeated = child.repeated, node.repeated
            node.repeated |= child.repeated
            child.repeated = set()
        if node.repeated:
            node.repeated = {parameter for parameter in node.repeated if first_node[parameter] < position}
        shared.append(sum(run.parameters[parameter] for parameter in sorted(node.repeated)))
    return shared[::-1]


def _add_memory(nodes: Sequence[_Node], memory: MemoryData) -> None:
    amounts, saved = memory.live_by_call(), memory.saved_by_call()
    calls: dict[int, list[int]] = {}
    for node in reversed(nodes):
        below = [call for child in node.children for call in calls.pop(id(child))]
        made = calls[id(node)] = [*node.calls, *below]
        node.sums["live_peak"] = max((amounts[call][2] for call in made), default=0)
        node.sums["live"] = memory.left_behind(made)
        node.sums["saved"] = sum(saved[call] for call in made)


def _entry(
    node: _Node, records: Sequence[CallCost], n_shared: Dim, has_modules: bool, total: dict[str, Any]
) -> dict[str, Any]:
    sums, module = dict(node.sums), node.module or Module("")
    sums["n_params"], sums["n_shared"] = sums["n_trainable"] + sums["n_frozen"] + n_shared, n_shared
    if not has_modules:
        sums |= dict.fromkeys(("n_trainable", "n_frozen", "n_buffers"))
    last = node.last_call[1]
    outputs = records[last].call.layer.outputs if last >= 0 else ()
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


# Paths of modules: names joined by dots, ``layer1.0.conv``, or by slashes if a path starts with a slash.


def parent_of(path: str) -> str:
    """Return the path of the parent module; the separator is a slash if the path starts with one, else a dot."""
    return path.rpartition("/" if path.startswith("/") else ".")[0]


def path_and_parents(path: str) -> list[str]:
    """Return the path and the paths of its parents, outermost first; empty for the root module (the empty path)."""
    paths = []
    while path:
        paths.append(path)
        path = parent_of(path)
    return paths[::-1]


def deepest_that_fit(paths: Iterable[str], most: int) -> list[str]:
    """Return the modules of the deepest level with at most ``most``, leaves above it included; or the top level."""
    depths = {path: len(path_and_parents(path)) for path in paths}
    parents = {parent for path in depths for parent in path_and_parents(path)[:-1]}
    shown: list[str] = []
    for level in sorted(set(depths.values())):
        found = [path for path, own in depths.items() if own == level or (own < level and path not in parents)]
        if shown and len(found) > most:
            break
        shown = found
    return shown


def names_along(path: str) -> list[str]:
    """Return the names of the modules along a path, outermost first, each without the path of its parent."""
    return [below(parent_of(part), part) or part for part in path_and_parents(path)]


def below(parent: str, path: str) -> str:
    """Return ``path`` relative to ``parent``; the module's own name if ``parent`` is its direct parent."""
    return path[len(parent) :].lstrip("./")
