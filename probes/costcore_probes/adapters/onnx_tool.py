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


def _with_bias(probe: Probe) -> int:
    return probe.answer + probe.extras.get("bias", 0)


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
    rules=(Rule("a bias counts one for each output", "onnx_tool/node.py, data/Profile.md", _with_bias),),
    framework="onnx",
)
