"""Reports for Google's Model Explorer, and what all viewers are told of a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from costcore.dims import Dim, is_symbolic
from costcore.engine import Call
from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.reports.amounts import METRICS, jsonable
from costcore.reports.columns import setting
from costcore.reports.honesty import not_counted
from costcore.reports.paths import names_along
from costcore.reports.report import Report
from costcore.reports.units import written

Keys: TypeAlias = "Mapping[str, str] | Callable[[Call], str]"

_GRADIENT = ((0, "#ffffff"), (0.25, "#fde0a8"), (0.6, "#f28e2b"), (1, "#b2182b"))


def to_model_explorer(report: Report, metric: str = "flops", keys: Keys | None = None) -> str:
    """Node data for Google's Model Explorer: one number a node, which colours the graph.

    Nodes are named as the calls of the report, which is how :func:`to_model_explorer_graph` names them; ``keys`` gives
    the nodes of another graph. The file holds for whatever graph is open when it is loaded.

    Source of the format: ``GraphNodeData`` in ``model_explorer/node_data_builder.py`` of google-ai-edge/model-explorer.

    Args:
        report: the report.
        metric: ``flops``, ``macs``, ``mread``, ``mwrite``, ``mrw`` or ``n_params``.
        keys: node by name of call, or a function of a :class:`~costcore.engine.Call`; calls of the same node add up,
            calls without one are left out.

    Raises:
        ValueError: for an unknown metric; names the known.
        CostError: where a cost is an expression over symbolic dimensions, which has no colour.
    """
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not known; accepted are {', '.join(METRICS)}")
    layers = report.layer_report
    values: dict[str, Dim] = {}
    for call in report.calls:
        node = call.name if keys is None else keys.get(call.name) if isinstance(keys, Mapping) else keys(call)
        if node and call.name in layers:
            values[node] = values.get(node, 0) + layers[call.name][metric]
    for node, value in values.items():
        if is_symbolic(value):
            raise CostError(f"{metric} of {node} is {written(value)}; give its dimensions values (report.subs) first")
    results = {node: {"value": value} for node, value in values.items()}
    return json_text({"results": results, "gradient": [{"stop": stop, "bgColor": color} for stop, color in _GRADIENT]})


def to_model_explorer_graph(report: Report, name: str = "model") -> str:
    """The run as a graph that Model Explorer opens: calls as nodes in the layers of their modules, values as edges.

    Source of the format: ``GraphCollection`` in ``model_explorer/graph_builder.py`` of google-ai-edge/model-explorer.
    """
    layers = report.layer_report
    made_by: dict[int, tuple[str, int]] = {}
    nodes = []
    for call in report.calls:
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


def facts(call: Call, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a viewer is told of a call; ``entry`` is its entry of the report, None where it could not be counted."""
    layer = call.layer
    described: dict[str, Any] = {"op": layer.op, "phase": call.phase}
    if entry is None:
        described["counted"] = f"no: {call.layer.op} has no cost"
    else:
        described |= {key: entry[key] for key in METRICS}
    if call.times != 1:
        described["times"] = call.times
    described["inputs"] = ", ".join(f"{name}: {_tensor(tensor)}" for name, tensor in layer.inputs.items())
    described["outputs"] = ", ".join(map(_tensor, layer.outputs))
    settings = layer.attrs if entry is None else entry["params"]
    return {**described, **{f"settings.{name}": setting(value) for name, value in settings.items()}}


def status(report: Report) -> str:
    """``complete``, or ``partial`` with what is not counted."""
    missing = not_counted(report._priced)
    return f"partial: not counted: {missing}" if missing else "complete"


def json_text(content: Any) -> str:
    """JSON, one line, integers exact, the same for equal content."""
    return json.dumps(jsonable(content), ensure_ascii=False, separators=(",", ":")) + "\n"


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(written, tensor.shape))}]"


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else written(value)
