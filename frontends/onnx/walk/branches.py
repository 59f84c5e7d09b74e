"""Branches and loops: which part of them is counted, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from costcore.counting.pricing import Pricer
from costcore.dims import Dim
from costcore.ir import Operations
from costcore.registry.calculators import calculators
from costcore.symbolic import magnitude
from costcore.trace.call import Call

from ..graph.node import Node
from ..graph.scope import Place, Scope, inside
from ..graph.topological_sort import reads
from ..values.value import Value
from .beam_search import SEARCHES, search
from .loops import computed, loop, scan
from .walker import Outputs, Walker


def branch(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``If``: the branch that a constant condition chooses, else the dearer one."""
    condition = node.value("cond")
    parts = {name: node.args[f"{name}_branch"] for name in ("then", "else")}
    if condition.data is not None:
        name = "then" if condition.data.ravel()[0] else "else"
        read = (scope.find(each) for each in reads(node.proto))
        walker.read_elsewhere |= {value.stored for value in read if value is not None and value.stored is not None}
        outputs: list[Value | None] = yield walker.graph(parts[name], Scope(scope), inside(place, node, name))
        return outputs
    calls: list[Call] = walker.recorder.calls
    found: dict[str, tuple[list[Value], list[Call]]] = {}
    for name, graph in parts.items():
        start = len(calls)
        made: list[Value] = yield walker.graph(graph, Scope(scope), inside(place, node, name))
        found[name] = (made, calls[start:])
        del calls[start:]
    price = Pricer({**calculators(), **walker.recorder.calculators})
    costs = {name: _flops(price, part) for name, (_, part) in found.items()}
    dearer = "else" if magnitude(costs["else"]) > magnitude(costs["then"]) else "then"
    other = "then" if dearer == "else" else "else"
    hidden = [call for call in found[other][1] if price(call).cost is None]
    kinds = ", ".join(dict.fromkeys(call.native for call in hidden))
    listed = f" and operators without a price, which are listed: {kinds}" if kinds else ""
    what = "data" if condition.role == "data" else "open dimensions"
    walker.assume(
        f"the condition depends on {what}: the dearer branch, {dearer!r} ({costs[dearer]} FLOPs), is counted; "
        f"{other!r} has {costs[other]}{listed}{walker.hint(condition)}",
        node.label,
    )
    calls += found[dearer][1] + hidden
    return [computed(value) for value in found[dearer][0]]


def _flops(price: Pricer, calls: Sequence[Call]) -> Dim:
    """FLOPs of a branch, as far as they are known."""
    total: Dim = 0
    for call in calls:
        cost = price(call).cost
        if cost is not None:
            total += (cost.flops.flops() if isinstance(cost.flops, Operations) else cost.flops) * call.times
    return total


CONTROL: Mapping[str, Callable[[Walker, Node, Scope, Place], Outputs]] = {
    "ai.onnx::If": branch,
    "ai.onnx::Loop": loop,
    "ai.onnx::Scan": scan,
    **dict.fromkeys(SEARCHES, search),
}
"""How each operator that holds graphs is walked."""
