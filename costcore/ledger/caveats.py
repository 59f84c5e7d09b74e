"""What a report does not count, and what its numbers assume."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import as_text
from costcore.text.escape import escaped, printable
from costcore.trace.call import Uncounted
from costcore.trace.trace import Trace

MAX_LINES = 12
"""The maximum number of remarks of one kind; a further line states how many are omitted."""

MAX_NAMES = 5
"""The maximum number of operators that the line on partial reports names."""

MODES_WITH_REMARKS = ("md", "table", "color")
"""The modes in which remarks follow a table; output in other modes is read by programs."""

LABELS: Mapping[Uncounted, str] = {
    Uncounted.NO_CALCULATOR: "unsupported",
    Uncounted.NO_SHAPES: "without shapes",
    Uncounted.CALCULATOR_FAILED: "calculator failed",
}
"""The reason why calls are not counted, as the remark on an operator states it."""

IN_OTHER_THREADS = "calls in other threads"
"""The text for all calls that were not recorded because they ran in other threads; their number is unknown."""

TRAIN, EVALUATION = "train", "evaluation"
"""The modes of a model."""

COSTS_MORE = f"{TRAIN} mode, in which batch norms and dropouts cost more"
"""What is said of an inference in train mode."""

COSTS_LESS = f"{EVALUATION} mode, in which batch norms and dropouts cost less than in train mode"
"""What is said of a training step in evaluation mode."""

_FRAME = r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)'


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
        if self.uncounted is Uncounted.OTHER_THREADS:
            return IN_OTHER_THREADS
        plural = "s" * (self.calls != 1)
        locations = [f"module {self.module!r}" if self.module else "", self.where]
        location = f"; first in {', '.join(filter(None, locations))}" if any(locations) else ""
        read, written = as_text(self.mread), as_text(self.mwrite)
        traffic = "" if self.mread == self.mwrite == 0 else f", reads {read} B, writes {written} B"
        return f"{self.native}: {self.calls} call{plural}{traffic}{location}"


def uncounted_operators(trace: Trace) -> list[UncountedOperator]:
    """Return every operator without a cost, once for each reason, in order of first call."""
    found: dict[tuple[str, Uncounted], UncountedOperator] = {}
    for call, _, uncounted, *_ in trace:
        if uncounted is not None:
            name = call.native or call.type
            new = UncountedOperator(name, uncounted, 0, 0, 0, call.module, call_site(call.where))
            before = found.get((name, uncounted), new)
            read, written = call.layer.read * call.times, call.layer.written * call.times
            found[name, uncounted] = before._replace(
                calls=before.calls + 1, mread=before.mread + read, mwrite=before.mwrite + written
            )
    return list(found.values())


def not_counted(trace: Trace) -> str:
    """Return how many calls are not counted, why, and of which operators; empty if every call is counted.

    For example ``2 calls of 1 unsupported operator (Wave) and 3 calls without known shapes (Relu)``.
    """
    operators = uncounted_operators(trace)
    by_reason = {
        uncounted: [each for each in operators if each.uncounted is uncounted]
        for uncounted in (*LABELS, Uncounted.OTHER_THREADS)
    }
    clauses = [_clause(uncounted, found) for uncounted, found in by_reason.items() if found]
    return " and ".join(filter(None, [", ".join(clauses[:-1]), *clauses[-1:]]))


def _clause(uncounted: Uncounted, operators: Sequence[UncountedOperator]) -> str:
    """Return the number and the operators of the calls that are not counted for one reason."""
    if uncounted is Uncounted.OTHER_THREADS:
        return IN_OTHER_THREADS
    n_calls, n_operators = sum(each.calls for each in operators), len(operators)
    calls = f"{n_calls} call{'s' * (n_calls > 1)}"
    if uncounted is Uncounted.NO_SHAPES:
        reason = "without known shapes"
    elif uncounted is Uncounted.CALCULATOR_FAILED:
        reason = "whose calculator failed"
    else:
        reason = f"of {n_operators} unsupported operator{'s' * (n_operators > 1)}"
    return f"{calls} {reason} ({_names(operators)})"


def _names(operators: Sequence[UncountedOperator]) -> str:
    names = [*dict.fromkeys(each.native.rpartition("::")[2] for each in operators)]
    further = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{further}"


def call_site(where: str) -> str:
    """Return the innermost frame of a formatted traceback, ``model.py:12 in forward``; other text on one line."""
    frames = list(re.finditer(_FRAME, where))
    if not frames:
        return " ".join(where.split())
    return f"{frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['function']}"


def mode_of(trace: Trace) -> str:
    """Return the mode in which batch norms and dropouts of the forward pass ran; empty if there are none.

    A model with some in train mode is in train mode. Those that are the same in both modes do not count: batch norms
    without statistics of earlier batches, and dropouts that drop nothing.
    """
    forward = (call.layer for call in trace.calls if call.phase == "forward" and "training" in call.layer.attrs)
    found = {bool(layer.attrs["training"]) for layer in forward if "mean" in layer or layer.attrs.get("rate")}
    return TRAIN if True in found else EVALUATION if found else ""


def remarks_on_mode(trace: Trace) -> list[str]:
    """Return a remark if an inference ran in train mode, or a training step in evaluation mode."""
    unexpected = {(TRAIN, False): [COSTS_MORE], (EVALUATION, True): [COSTS_LESS]}
    return unexpected.get((mode_of(trace), trace.has_backward), [])


def remarks(trace: Trace) -> list[str]:
    """Return the lines below a table: operators that are not counted, and why, the mode, then assumptions."""
    operators = uncounted_operators(trace)
    lines = []
    if operators:
        lines.append(f"partial: the totals do not include {not_counted(trace)}")
        named = [f"{LABELS[each.uncounted]}: {each}" for each in operators if each.uncounted in LABELS]
        lines += _limited(named, "operators that are not counted")
    lines += remarks_on_mode(trace)
    if trace.run.fusion is not None:
        level, unfused = trace.run.fusion.level, as_text(trace.run.fusion.unfused)
        lines.append(f"bytes are those after fusion at level {level}; without fusion {unfused} B are read and written")
    if trace.run.rank is not None:
        lines.append(f"costs are those of {trace.run.rank}")
    if trace.run.assumptions:
        lines.append(f"assumed: the totals depend on {n_assumptions(trace)}")
        lines += _limited([f"assumption: {each}" for each in trace.run.assumptions], "assumptions")
    return lines


def n_assumptions(trace: Trace) -> str:
    """Return the number of assumptions as text, ``2 assumptions about data``."""
    n = len(trace.run.assumptions)
    return f"{n} assumption{'s' * (n != 1)} about data"


def footer(lines: Sequence[str], mode: str) -> str:
    """Return the lines as text below a table in ``mode``; empty for modes that are read by programs."""
    if not lines or mode not in MODES_WITH_REMARKS:
        return ""
    if mode == "md":
        return "\n" + "".join(f"- {escaped(line)}\n" for line in lines)
    return "".join(printable(line) + "\n" for line in lines)


def _limited(lines: list[str], kind: str) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more {kind}"]
