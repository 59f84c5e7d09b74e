"""The profile of onnx-tool."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..probe import Probe

__all__ = ["ADAPTER"]


def _graph(built: Any) -> Any:
    import numpy as np
    import onnx_tool
    from onnx import helper

    inputs = {}
    for value in built.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        inputs[value.name] = np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    graph = onnx_tool.Model(built).graph
    graph.shape_infer(inputs)
    graph.profile()
    return graph


def _with_others(probe: Probe) -> int:
    per = {"bias": 1, "multiply": 1, "softmax": 36}
    return probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="onnx_tool",
    package="onnx-tool",
    declares="MACs, parameters, memory footprint",
    cites="https://github.com/ThanatosShinji/onnx-tool/blob/main/README.md",
    formats=("onnx",),
    counts={
        "macs": lambda _format, built: Figure(int(_graph(built).macs[0])),
        "params": lambda _format, built: Figure(int(_graph(built).params)),
    },
    rules=(
        Rule("a bias and a product count one, a softmax 36: ADD_MACS, MUL_MACS …", "onnx_tool/node.py", _with_others),
    ),
    framework="onnx",
)
