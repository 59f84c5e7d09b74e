"""``If``: which branch is counted."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.counting.pricing import Pricer
from costcore.ir import Operations
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import magnitude
from costcore.registry.calculators import MergedCalculators, calculators
from costcore.trace.call import Call
from costcore.trace.dataflow import Step

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..graph.topological_sort import values_read
from ..values.value import Value
from .carried_values import computed
from .walker import Outputs, Walker


def branch(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """Walk the branch of an ``If`` that a constant condition selects, else the more expensive one."""
    condition = node.value("cond")
    graphs = {name: node.args[f"{name}_branch"] for name in ("then", "else")}
    if condition.data is not None:
        name = "then" if condition.data.ravel()[0] else "else"
        walker.initializers.mark_skipped(scope.find(each) for each in values_read(node.proto))
        selected: list[Value | None] = yield walker.walk_graph(
            graphs[name], Scope(scope), context.of_subgraph(node, name)
        )
        return selected
    recording, flow = walker.recording, walker.recording.dataflow
    first = flow.new_id()
    outputs: dict[str, list[Value]] = {}
    calls: dict[str, list[Call]] = {}
    steps: dict[str, list[Step]] = {}
    for name, graph in graphs.items():
        mark = recording.checkpoint()
        outputs[name] = yield walker.walk_graph(graph, Scope(scope), context.of_subgraph(node, name))
        calls[name], steps[name], _ = recording.take(mark)
    price = Pricer(MergedCalculators(recording.recorder.calculators, calculators()))
    flops = {name: _flops(price, part) for name, part in calls.items()}
    counted = "else" if magnitude(flops["else"]) > magnitude(flops["then"]) else "then"
    skipped = "then" if counted == "else" else "else"
    uncounted = [call for call in calls[skipped] if price(call).cost is None]
    kinds = ", ".join(dict.fromkeys(call.native for call in uncounted))
    unsupported = f" and unsupported operators, which are listed: {kinds}" if kinds else ""
    is_data = condition.role == "data"
    what = "data" if is_data else "symbolic dimensions"
    remark = "" if is_data else ". The choice is the same for all sizes, after subs too: give the sizes with dims"
    recording.assume(
        f"the condition depends on {what}: the more expensive branch, {counted!r} ({flops[counted]} FLOPs), is "
        f"counted; {skipped!r} has {flops[skipped]}{unsupported}{remark}"
        f"{recording.hints.remedy(condition)}",
        node.label,
    )
    recording.add([*calls[counted], *uncounted])
    choice = context.of_subgraph(node, counted).region.removesuffix(f".{counted}")
    flow.start_of(first, choice, reads=[scope.find(name) for name in values_read(node.proto)])
    flow.skipped(first, calls[skipped], steps[skipped], outputs[skipped], context.of_subgraph(node, skipped).region)
    flow.steps += steps[counted]
    found = [computed(value) for value in outputs[counted]]
    flow.end_of(first, choice, outputs[counted], found)
    return list(found)


def _flops(price: Pricer, calls: Sequence[Call]) -> Dim:
    """Return the FLOPs of the calls that have a formula."""
    total: Dim = 0
    for call in calls:
        cost = price(call).cost
        if cost is not None:
            total += (cost.flops.flops() if isinstance(cost.flops, Operations) else cost.flops) * call.times
    return total
