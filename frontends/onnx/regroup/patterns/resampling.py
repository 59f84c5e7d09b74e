"""Interpolation along one axis, which PyTorch decomposes before the exporter sees it."""

from __future__ import annotations

import re

from costcore.trace.patterns import Named, Op, Operand

from ...reading.exporter_metadata import source_line
from ..matcher import Decomposition, Extension, Group, Match, X
from .checks import function, nodes_of_call

_CALL = function("interpolate", "upsample")


def _gathered(places: str) -> Op:
    return Op("Transpose", Op("GatherND", Op("Transpose", X), Operand(places)))


_LOWER = Named("lower", _gathered("first"))
_BETWEEN = Op("Add", _LOWER, Op("Mul", Op("Sub", _gathered("second"), _LOWER), Operand("weight")))


def _linear(match: Match, extend: Extension) -> Group | str | None:
    """Build a resize from all nodes of the call: two elements at positions that the graph computes, and their mean."""
    root = match.nodes[0]
    if not re.search(_CALL, source_line(root.node.proto)):
        return "the program does not call interpolate"
    nodes = nodes_of_call(root, extend)
    made = {value for recorded in nodes for value in recorded.node.outputs}
    read = {value for recorded in nodes for value in recorded.node.inputs if value is not None and value.role == "data"}
    if nodes[0] is not root or read - made != {match.values["x"]}:
        return "the call computes more than one interpolation"
    if not extend.is_separate(Match({}, tuple(nodes)), ()):
        return "others read a value between the nodes"
    return Group("resize", "Resize", {"x": match.values["x"]}, {"mode": "linear"}, tuple(nodes))


LINEAR_RESIZE = Decomposition(("Add",), _BETWEEN, _linear, _CALL, needs_origin=True)
"""``interpolate(x, mode="linear")`` of sequences."""
