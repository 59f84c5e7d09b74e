"""Tools for frontends that read static graphs from files.

A frontend has a reader and a table of rows. The reader makes a :class:`GraphNode` of each operator and a
:class:`GraphValue` of each tensor. :class:`GraphRecording` turns them into calls with module paths, data flow and
parameters, so that every analysis works. ``plugins/costcore-tflite`` is an example. A frontend that
infers missing shapes, such as ONNX, has its own values, and writes with :class:`GraphWriter`.
"""

from __future__ import annotations

from costcore.graphs.graph import (
    DEEPEST,
    MOST_NODES,
    Choice,
    GraphNode,
    GraphValue,
    ModuleTree,
    Place,
    given_shapes,
    in_order,
    most_expensive,
    operations_of,
)
from costcore.graphs.writer import DataflowLog, GraphRecording, GraphWriter, Notes, Section

__all__ = [
    "DEEPEST",
    "MOST_NODES",
    "Choice",
    "DataflowLog",
    "GraphNode",
    "GraphRecording",
    "GraphValue",
    "GraphWriter",
    "ModuleTree",
    "Notes",
    "Place",
    "Section",
    "given_shapes",
    "in_order",
    "most_expensive",
    "operations_of",
]
