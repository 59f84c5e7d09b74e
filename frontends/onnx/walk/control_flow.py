"""The operators with subgraphs, and how each is walked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from .beam_search import SEARCHES, search
from .branches import branch
from .loops import loop
from .scan import scan
from .sequence_map import SEQUENCE_MAP, sequence_map
from .walker import Outputs, Walker

CONTROL_FLOW: Mapping[str, Callable[[Walker, Node, Scope, GraphContext], Outputs]] = {
    "ai.onnx::If": branch,
    "ai.onnx::Loop": loop,
    "ai.onnx::Scan": scan,
    SEQUENCE_MAP: sequence_map,
    **dict.fromkeys(SEARCHES, search),
}
"""By full name of the operator."""
