"""What a report does not know, and what its numbers rest on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from costcore.dims import Dim
from costcore.reports.text.escape import escaped, printable
from costcore.trace.call import Uncounted
from costcore.trace.trace import Trace

MOST_LINES = 12
"""Lines of one kind under a table; the rest is counted."""

MOST_KINDS = 5
"""Operators that are named where one line tells of all that could not be counted."""

FOOTED = ("md", "table", "color")
"""Modes in which these lines stand under the table; the others are read by programs."""

_FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)')


class Unknown(NamedTuple):
    """An operator that could not be counted.

    Attributes:
        native: its full name.
        uncounted: why it could not be counted.
        calls: how many calls of it there are.
        mread, mwrite: bytes of all their inputs and outputs.
        module: path of the module with the first.
        where: place of the first in the user's code; empty where not known.
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
        places = [f"module {self.module!r}" if self.module else "", self.where]
        place = f"; first in {', '.join(filter(None, places))}" if any(places) else ""
        moved = "" if self.mread == self.mwrite == 0 else f", reads {self.mread} B, writes {self.mwrite} B"
        return f"{self.native}: {self.calls} call{plural}{moved}{place}"


def unknown_operators(trace: Trace) -> list[Unknown]:
    """Return every operator without a cost, in order of first call."""
    found: dict[str, Unknown] = {}
    for call, _, uncounted, *_ in trace:
        if uncounted is not None:
            name = call.native or call.type
            old = found.get(name, Unknown(name, uncounted, 0, 0, 0, call.module, call_site(call.where)))
            read, written = call.layer.read * call.times, call.layer.written * call.times
            found[name] = old._replace(calls=old.calls + 1, mread=old.mread + read, mwrite=old.mwrite + written)
    return list(found.values())


def not_counted(trace: Trace) -> str:
    """Return how much could not be counted; empty if everything is counted.

    For example ``2 calls of 1 unknown operator (Wave) and 3 calls without known shapes (Relu)``.
    """
    unknown = unknown_operators(trace)
    parts = []
    for shapeless in (False, True):
        found = [each for each in unknown if (each.uncounted is Uncounted.NO_SHAPES) == shapeless]
        calls, kinds = sum(each.calls for each in found), len(found)
        what = "without known shapes" if shapeless else f"of {kinds} unknown operator{'s' * (kinds > 1)}"
        if found:
            parts.append(f"{calls} call{'s' * (calls > 1)} {what} ({_kinds(found)})")
    return " and ".join(parts)


def _kinds(unknown: Sequence[Unknown]) -> str:
    names = [*dict.fromkeys(each.native.rpartition("::")[2] for each in unknown)]
    more = f" and {len(names) - MOST_KINDS} more" if len(names) > MOST_KINDS else ""
    return f"{', '.join(names[:MOST_KINDS])}{more}"


def call_site(where: str) -> str:
    """The innermost place of a formatted traceback, ``model.py:12 in forward``; other text as it is."""
    frames = list(_FRAME.finditer(where))
    if not frames:
        return " ".join(where.split())
    return f"{frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['function']}"


def remarks(trace: Trace) -> list[str]:
    """Lines for the foot of a table: unknown operators, then assumptions."""
    unknown = unknown_operators(trace)
    lines = []
    if unknown:
        lines.append(f"partial: not in these figures: {not_counted(trace)}")
        named = [f"{'without shapes' if u.uncounted is Uncounted.NO_SHAPES else 'unknown'}: {u}" for u in unknown]
        lines += _first(named, "operators that are not counted")
    assumed = [f"assumed: {what}{f' ({where})' if where else ''}" for what, where in trace.run.assumptions]
    return lines + _first(assumed, "assumptions")


def foot(lines: Sequence[str], mode: str) -> str:
    """Those lines as they stand under a table of that mode."""
    if not lines or mode not in FOOTED:
        return ""
    if mode == "md":
        return "\n" + "".join(f"- {escaped(line)}\n" for line in lines)
    return "".join(printable(line) + "\n" for line in lines)


def _first(lines: list[str], what: str) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more {what}"]
