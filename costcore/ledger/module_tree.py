"""The tree of modules with the cost of each module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from costcore.ledger.ledger import SUMS, Ledger, memory, shares
from costcore.ledger.module_paths import below, parent_of
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import expanded_sum
from costcore.trace.call import Module
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace

if TYPE_CHECKING:
    from costcore.ledger.memory_data import MemoryData

OWN = "(own calls)"
"""Name of the node with the calls that a module with children makes itself."""

OUTSIDE = "(outside of any module)"
"""Name of the node with the calls outside of all modules."""

ADDITIVE = (*SUMS, "activations", "n_layers", "n_unknown", "n_trainable", "n_frozen", "n_buffers")
"""The amounts of a node that are the sums of its children's."""


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
        from costcore.ledger.memory_data import MemoryData

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
    """Return the root of a tree of all modules of the model and all module paths of calls."""
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
    """Move the own calls of modules with children to a first child, and return all nodes, parents before children."""
    nodes, stack = [], [root]
    while stack:
        node = stack.pop()
        nodes.append(node)
        if node is root and not run.modules.get(""):
            name, has_own = OUTSIDE, bool(node.calls)
        else:
            module = node.module or Module("")
            name, has_own = OWN, bool(node.children) and bool(node.calls or module.parameters or module.buffers != 0)
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
    """Add the sums of all nodes to those of their parents.

    Returns:
        For each node, the elements of the parameters below that an earlier node holds too.
    """
    shared: list[Dim] = []
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        summands = [node.sums, *(child.sums for child in node.children)]
        for key in dict.fromkeys(key for sums in summands for key in sums) if node.children else ():
            node.sums[key] = expanded_sum(sums[key] for sums in summands if key in sums)
        for child in node.children:
            node.last_call = max(node.last_call, child.last_call)
            if len(child.repeated) > len(node.repeated):
                node.repeated, child.repeated = child.repeated, node.repeated
            node.repeated |= child.repeated
            child.repeated = set()
        if node.repeated:
            node.repeated = {parameter for parameter in node.repeated if first_node[parameter] < position}
        shared.append(sum(run.parameters[parameter] for parameter in sorted(node.repeated)))
    return shared[::-1]


def _add_memory(nodes: Sequence[_Node], memory: MemoryData) -> None:
    """Add to all nodes the most bytes alive while they run, those they leave behind, and those that autograd keeps."""
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
    """Return a node as :meth:`Report.tree` returns it, without its children.

    Args:
        node: the node, summed up.
        records: the calls of the run.
        n_shared: the elements of its parameters that an earlier node holds too.
        has_modules: whether the modules of the model are known; otherwise only the paths of calls are.
        total: the sums of the whole model.
    """
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
