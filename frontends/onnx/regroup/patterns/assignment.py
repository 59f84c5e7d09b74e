"""Assignments to parts of tensors, and tensors filled with one number, as ``torch.export``-based exporters write them.

The exporter has no operators that write into memory: an assignment to a part of a tensor becomes a scatter into a copy
of the tensor, and all that is the same in every run becomes a constant.
"""

from __future__ import annotations

import re
from dataclasses import replace

from costcore.trace.patterns import Either, Number, Op, Operand

from ...reading.exporter_metadata import origin, source_line
from ...walk.history import RecordedNode
from ..exported_program import CREATES, Operation, operation
from ..matcher import Decomposition, Extension, Group, Match, X

UPDATES, PLACES = Operand("updates"), Operand("places")


def _operation_of(match: Match) -> Operation | None:
    """Return the operation that all nodes of a match were written for."""
    origins = {origin(recorded.node.proto) for recorded in match.nodes}
    return operation(origins.pop()) if len(origins) == 1 else None


def _replaces(recorded: RecordedNode) -> bool:
    return recorded.call.layer.attrs.get("reduction") in (None, "none")


_FIRST_AXIS = Op("ScatterND", X, PLACES, UPDATES, check=_replaces)
_OTHER_AXIS = Op("Transpose", Op("ScatterND", Op("Transpose", X), PLACES, Op("Transpose", UPDATES), check=_replaces))
_ONE_PLACE = Op("ScatterElements", X, PLACES, Either((Op("Unsqueeze", UPDATES), UPDATES)), check=_replaces)
_COUNTED = Op("Unsqueeze", Op("Slice", Op("Range", Number(0), Operand("count"), Number(1))))
_REPEATED = Op("Expand", Number())


def _assign(match: Match, extend: Extension) -> Group | str | None:
    written_for, places = _operation_of(match), match.values["places"]
    line = source_line(match.nodes[0].node.proto)
    may_update = bool(line) and "_scatter(" not in line
    if written_for is None or not extend.program.is_assigned(written_for.result, updates=may_update):
        return "the program does not assign to a part of a tensor"
    match = extend(match, places, _COUNTED) or extend(match, places, _REPEATED) or match
    updates = replace(match.values["updates"], spread=None)  # one number for all places fills them first
    return Group("assign", "ScatterND", {"x": match.values["x"], "updates": updates}, {}, match.nodes)


ASSIGN = Decomposition(
    ("ScatterND", "Transpose", "ScatterElements"), Either((_FIRST_AXIS, _OTHER_AXIS, _ONE_PLACE)), _assign
)
"""``x[2:5] = y``, ``x[2] = y`` and ``x[2:5] += y``."""

_FILLED = Either((Op("Expand", Operand("value")), Op("ConstantOfShape", Operand("shape"))))
_COUNTED_UP = Op("Range", Operand("start"), Operand("limit"), Operand("delta"))
_OWN_FUNCTION = re.compile(r"(?!.*\b(?:torch|F|functional)\.)\s*(?:return |[^(]*[=:] *)?(?:self\.)?\w+\(")
"""A line that calls a function of the program, whose own lines exporters leave out unless it is that of a module."""


def _full(match: Match, extend: Extension) -> Group | None:
    """Build a tensor that the program creates, or fills, or assigns to in parts."""
    written_for = _operation_of(match)
    if written_for is None or written_for.name not in CREATES:
        return None
    line = source_line(match.nodes[0].node.proto)
    is_called = re.search(rf"\b{written_for.name}\(", line) or _OWN_FUNCTION.match(line)
    if written_for.name != "fill" and not is_called and written_for.result not in extend.program.assigned_to:
        return None
    return Group(CREATES[written_for.name], match.nodes[-1].node.op, {}, {}, match.nodes)


FULL = Decomposition(
    ("Expand", "ConstantOfShape", "Cast", "CastLike", "Range"),
    Either((Op("CastLike", _FILLED, Operand("like")), Op("Cast", _FILLED), _FILLED, _COUNTED_UP)),
    _full,
)
"""``zeros(...)``, ``full(...)``, ``x.fill_(1)`` and ``arange(...)``."""
