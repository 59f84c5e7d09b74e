"""What a report does not count, and what its numbers assume."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from costcore.dims import Dim
from costcore.reports.text.escape import escaped, printable
from costcore.trace.call import Uncounted
from costcore.trace.trace import Trace

MOST_LINES = 12
"""The largest number of remarks of one kind; a last line states how many further ones there are."""

MOST_NAMES = 5
"""The largest number of operators that the line on partial reports names."""

MODES_WITH_REMARKS = ("md", "table", "color")
"""The modes in which remarks follow a table; output in other modes is read by programs."""

_FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)')


class UncountedOperator(NamedTuple):
    """An operator whose cost could not be computed.

    Attributes:
        native: the framework's own operator name.
        uncounted: why its cost could not be computed.
        calls: number of its calls.
        mread, mwrite: size of all their inputs and outputs in bytes.
        module: path of the module of the first call.
        where: line of the user's code with the first call; empty if it was not recorded.
    """

    native: str
    uncounted: Uncounted
    calls: int
    mread: Dim
    mwrite: Dim
    module: str
    where: str

    def __str__(self) -> str:
        plural = "s" * (self.calls != 1)
        locations = [f"module {self.module!r}" if self.module else "", self.where]
        location = f"; first in {', '.join(filter(None, locations))}" if any(locations) else ""
        traffic = "" if self.mread == self.mwrite == 0 else f", reads {self.mread} B, writes {self.mwrite} B"
        return f"{self.native}: {self.calls} call{plural}{traffic}{location}"


def uncounted_operators(trace: Trace) -> list[UncountedOperator]:
    """Return every operator without a cost, in order of first call."""
    found: dict[str, UncountedOperator] = {}
    for call, _, uncounted, *_ in trace:
        if uncounted is not None:
            name = call.native or call.type
            new = UncountedOperator(name, uncounted, 0, 0, 0, call.module, call_site(call.where))
            before = found.get(name, new)
            read, written = call.layer.read * call.times, call.layer.written * call.times
            found[name] = before._replace(
                calls=before.calls + 1, mread=before.mread + read, mwrite=before.mwrite + written
            )
    return list(found.values())


def not_counted(trace: Trace) -> str:
    """Return how many calls are not counted, and of which operators; empty if every call is counted.

    For example ``2 calls of 1 unsupported operator (Wave) and 3 calls without known shapes (Relu)``.
    """
    operators = uncounted_operators(trace)
    clauses = []
    for without_shapes in (False, True):
        found = [each for each in operators if (each.uncounted is Uncounted.NO_SHAPES) == without_shapes]
        calls, kinds = sum(each.calls for each in found), len(found)
        cause = "without known shapes" if without_shapes else f"of {kinds} unsupported operator{'s' * (kinds > 1)}"
        if found:
            clauses.append(f"{calls} call{'s' * (calls > 1)} {cause} ({_names(found)})")
    return " and ".join(clauses)


def _names(operators: Sequence[UncountedOperator]) -> str:
    names = [*dict.fromkeys(each.native.rpartition("::")[2] for each in operators)]
    further = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{further}"


def call_site(where: str) -> str:
    """Return the innermost frame of a formatted traceback, ``model.py:12 in forward``; other text on one line."""
    frames = list(_FRAME.finditer(where))
    if not frames:
        return " ".join(where.split())
    return f"{frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['function']}"


def remarks(trace: Trace) -> list[str]:
    """Return the lines below a table: operators that are not counted, then assumptions."""
    operators = uncounted_operators(trace)
    lines = []
    if operators:
        lines.append(f"partial: the totals do not include {not_counted(trace)}")
        named = [
            f"{'without shapes' if each.uncounted is Uncounted.NO_SHAPES else 'unsupported'}: {each}"
            for each in operators
        ]
        lines += _limited(named, "operators that are not counted")
    assumptions = [f"assumed: {what}{f' ({where})' if where else ''}" for what, where in trace.run.assumptions]
    return lines + _limited(assumptions, "assumptions")


def footer(lines: Sequence[str], mode: str) -> str:
    """Return the lines as text below a table in ``mode``; empty for modes that are read by programs."""
    if not lines or mode not in MODES_WITH_REMARKS:
        return ""
    if mode == "md":
        return "\n" + "".join(f"- {escaped(line)}\n" for line in lines)
    return "".join(printable(line) + "\n" for line in lines)


def _limited(lines: list[str], kind: str) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more {kind}"]
