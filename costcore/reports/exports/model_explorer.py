"""``model_explorer``: node data, and a graph, for Google's Model Explorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from costcore.errors import CostError
from costcore.ledger.module_paths import names_along
from costcore.messages import subs_call
from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.reports.data.report_data import ReportData
from costcore.reports.exports.facts import call_facts, json_text, tensor_text
from costcore.tables.quantities import numeric
from costcore.trace.call import Call

Keys: TypeAlias = "Mapping[str, str] | Callable[[Call], str]"

GRADIENT = ((0, "#ffffff"), (0.25, "#fde0a8"), (0.6, "#f28e2b"), (1, "#b2182b"))
"""Colors of nodes from the cheapest (0) to the most expensive (1)."""


def to_model_explorer(report: ReportData, column: str = "flops", keys: Keys | None = None) -> str:
    """Return node data for Google's Model Explorer: one number per node, which colors the graph.

    Nodes have the names of calls, as in :func:`to_model_explorer_graph`. To color another graph, map calls to its
    nodes with ``keys``. Model Explorer applies the data to the graph that is open when the file is loaded.

    Source of the format: ``GraphNodeData`` in ``model_explorer/node_data_builder.py`` of google-ai-edge/model-explorer.

    Args:
        report: the report.
        column: a quantity with numbers that :func:`costcore.quantities` lists.
        keys: the node of each call, as a mapping from names of calls or as a function of a
            :class:`~costcore.trace.call.Call`. The values of calls of one node are combined; calls without a node are
            skipped.

    Raises:
        ValueError: if the column is unknown.
        CostError: if this report does not have it, or if a value is symbolic, because symbolic expressions cannot be
            mapped to colors.
    """
    shown, ledger = numeric(column), report.ledger
    shown.by_call(ledger)  # raises an error if calls have no values
    by_node: dict[str, list[Call]] = {}
    for call in ledger.calls:
        node = call.name if keys is None else keys.get(call.name) if isinstance(keys, Mapping) else keys(call)
        if node:
            by_node.setdefault(node, []).append(call)
    values = {node: shown.of(ledger, calls) or 0 for node, calls in by_node.items()}
    for node, value in values.items():
        if is_symbolic(value):
            raise CostError(
                f"{node}: {column} is symbolic ({as_text(value)}), which no color shows. "
                f"Substitute its dimensions first: {subs_call(report.symbols)}."
            )
    results = {node: {"value": value} for node, value in values.items()}
    return json_text({"results": results, "gradient": [{"stop": stop, "bgColor": color} for stop, color in GRADIENT]})


def to_model_explorer_graph(report: ReportData, name: str = "model") -> str:
    """Return the run as a graph for Model Explorer: calls as nodes, nested in their modules, and values as edges.

    Source of the format: ``GraphCollection`` in ``model_explorer/graph_builder.py`` of google-ai-edge/model-explorer.
    """
    layers = report.layer_report
    producers: dict[int, tuple[str, int]] = {}
    nodes = []
    for call in report.trace.calls:
        edges = [
            {
                "sourceNodeId": producers[value][0],
                "sourceNodeOutputId": str(producers[value][1]),
                "targetNodeInputId": str(n),
            }
            for n, value in enumerate(call.inputs)
            if value in producers
        ]
        outputs = [
            {"id": str(n), "attrs": [{"key": "tensor_shape", "value": tensor_text(tensor)}]}
            for n, tensor in enumerate(call.layer.outputs)
        ]
        described = call_facts(call, layers.get(call.name))
        nodes.append(
            {
                "id": call.name,
                "label": call.type,
                "namespace": "/".join(part.replace("/", "_") for part in names_along(call.module)),
                "attrs": [{"key": key, "value": _attribute_value(value)} for key, value in described.items()],
                "incomingEdges": edges,
                "outputsMetadata": outputs,
            }
        )
        producers.update({value: (call.name, n) for n, value in enumerate(call.outputs)})
    return json_text({"label": name, "graphs": [{"id": name, "nodes": nodes}]})


def _attribute_value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else as_text(value)
