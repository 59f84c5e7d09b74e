"""``If``: which branch is counted."""

from __future__ import annotations

from costcore.graphs import Section, dearest

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
    recording = walker.recording
    first = recording.dataflow.new_id()
    outputs: dict[str, list[Value]] = {}
    sections: dict[str, Section] = {}
    for name, graph in graphs.items():
        mark = recording.checkpoint()
        outputs[name] = yield walker.walk_graph(graph, Scope(scope), context.of_subgraph(node, name))
        sections[name] = recording.take(mark)
    choice = dearest({name: section.calls for name, section in sections.items()}, recording.recorder)
    counted, flops = choice.counted, choice.flops
    skipped = "then" if counted == "else" else "else"
    kinds = ", ".join(dict.fromkeys(call.native for call in choice.uncounted))
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
    reads = [scope.find(name) for name in values_read(node.proto)]
    label = context.of_subgraph(node, counted).region.removesuffix(f".{counted}")
    found: list[Value | None] = [computed(value) for value in outputs[counted]]
    recording.choose(first, label, choice, sections, outputs, reads, found)
    return found
