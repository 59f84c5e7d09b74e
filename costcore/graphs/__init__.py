"""Static graphs, as the files of runtimes store them: what a frontend that reads such files writes a run with.

A frontend of a static format is a reader, which makes a :class:`GraphNode` of each operator and a :class:`GraphValue`
of each tensor, and a table of rows. :class:`GraphRecording` makes calls of them, with module paths, data flow and
parameters, so that every analysis works: the arena too. ``plugins/costcore-tflite`` is an example. A frontend that
infers what the file leaves open, such as that of ONNX, has values of its own, and writes with :class:`GraphWriter`.
"""

from __future__ import annotations

from costcore.graphs.branches import Choice, dearest
from costcore.graphs.dataflow import DataflowLog
from costcore.graphs.inputs import given_shapes
from costcore.graphs.modules import ModuleTree
from costcore.graphs.order import in_order
from costcore.graphs.places import DEEPEST, MOST_NODES, Place
from costcore.graphs.recording import GraphRecording
from costcore.graphs.values import GraphNode, GraphValue
from costcore.graphs.writer import GraphWriter, Notes, Section

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
    "dearest",
    "given_shapes",
    "in_order",
]
