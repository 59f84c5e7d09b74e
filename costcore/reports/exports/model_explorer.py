"""Reports for Google's Model Explorer, and what all viewers are told of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from costcore.dims import Dim, is_symbolic
from costcore.errors import CostError
from costcore.reports.exports.facts import _tensor, _word, facts, json_text
from costcore.reports.module_paths import names_along
from costcore.reports.report_data import ReportData
from costcore.reports.text.amounts import METRICS
from costcore.symbolic import written
from costcore.trace.call import Call

Keys: TypeAlias = "Mapping[str, str] | Callable[[Call], str]"

_GRADIENT = ((0, "#ffffff"), (0.25, "#fde0a8"), (0.6, "#f28e2b"), (1, "#b2182b"))


def to_model_explorer(report: ReportData, metric: str = "flops", keys: Keys | None = None) -> str:
    """Node data for Google's Model Explorer: one number a node, which colours the graph.

    Nodes are named as the calls of the report, which is how :func:`to_model_explorer_graph` names them; ``keys`` gives
    the nodes of another graph. The file holds for whatever graph is open when it is loaded.

    Source of the format: ``GraphNodeData`` in ``model_explorer/node_data_builder.py`` of google-ai-edge/model-explorer.

    Args:
        report: the report.
        metric: ``flops``, ``macs``, ``mread``, ``mwrite``, ``mrw`` or ``n_params``.
        keys: node by name of call, or a function of a :class:`~costcore.trace.call.Call`; calls of the same node add
            up, calls without one are left out.

    Raises:
        ValueError: for an unknown metric; names the known.
        CostError: where a cost is an expression over symbolic dimensions, which has no colour.
    """
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not known; accepted are {', '.join(METRICS)}")
    layers = report.layer_report
    values: dict[str, Dim] = {}
    for call in report.trace.calls:
        node = call.name if keys is None else keys.get(call.name) if isinstance(keys, Mapping) else keys(call)
        if node and call.name in layers:
            values[node] = values.get(node, 0) + layers[call.name][metric]
    for node, value in values.items():
        if is_symbolic(value):
            raise CostError(f"{metric} of {node} is {written(value)}; give its dimensions values (report.subs) first")
    results = {node: {"value": value} for node, value in values.items()}
    return json_text({"results": results, "gradient": [{"stop": stop, "bgColor": color} for stop, color in _GRADIENT]})


def to_model_explorer_graph(report: ReportData, name: str = "model") -> str:
    """The run as a graph that Model Explorer opens: calls as nodes in the layers of their modules, values as edges.

    Source of the format: ``GraphCollection`` in ``model_explorer/graph_builder.py`` of google-ai-edge/model-explorer.
    """
    layers = report.layer_report
    made_by: dict[int, tuple[str, int]] = {}
    nodes = []
    for call in report.trace.calls:
        edges = [
            {"sourceNodeId": made_by[i][0], "sourceNodeOutputId": str(made_by[i][1]), "targetNodeInputId": str(n)}
            for n, i in enumerate(call.inputs)
            if i in made_by
        ]
        outputs = [
            {"id": str(n), "attrs": [{"key": "tensor_shape", "value": _tensor(tensor)}]}
            for n, tensor in enumerate(call.layer.outputs)
        ]
        described = facts(call, layers.get(call.name))
        nodes.append(
            {
                "id": call.name,
                "label": call.type,
                "namespace": "/".join(part.replace("/", "_") for part in names_along(call.module)),
                "attrs": [{"key": key, "value": _word(value)} for key, value in described.items()],
                "incomingEdges": edges,
                "outputsMetadata": outputs,
            }
        )
        made_by.update({i: (call.name, n) for n, i in enumerate(call.outputs)})
    return json_text({"label": name, "graphs": [{"id": name, "nodes": nodes}]})
