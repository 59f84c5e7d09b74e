"""Score answers against the definition of the probe and the statements of the tool itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .adapter import Adapter
from .probe import Probe

__all__ = ["VERDICTS", "Cell", "judge"]

VERDICTS = {
    "right": "the answer",
    "explained": "another number, which a rule or limit stated by the tool gives",
    "refused": "an error, or a number that is too low, with a list of operators that the tool says it did not count",
    "zero": "0 where the answer is not 0, and nothing that says so",
    "wrong": "another number, which no rule stated by the tool gives",
}
"""Every verdict with its meaning."""


@dataclass(frozen=True)
class Cell:
    """The verdict on one answer, and one sentence about it."""

    verdict: str
    sentence: str


def judge(probe: Probe, tool: Adapter, answer: dict[str, Any]) -> Cell:
    """Return the verdict on the answer of a tool."""
    if "error" in answer:
        return Cell("refused", f"raises {answer['error']}")
    unit = tool.unit.get(probe.quantity, 1)
    value, expected = answer["value"], unit * probe.answer
    said = f"says {value:,}; {probe.derivation if len(probe.derivation) < 80 else 'the sum of the layers'}"
    said += f" is {probe.answer:,}" + (f", times {unit} is {expected:,}" if unit != 1 else "")
    if value == expected:
        return Cell("right", said)
    rules = {rule: rule.figure(probe) for rule in tool.rules} if probe.quantity == "macs" else {}
    for rule, figure in rules.items():
        if value == figure:
            return Cell("explained", f"{said}: {rule.text} ({rule.cites})")
    if value < max(expected, *rules.values(), 0) and answer["missing"]:
        return Cell("refused", f"{said}; lists as not counted: {', '.join(answer['missing'])}")
    if value == 0:
        return Cell("zero", said)
    for limit in tool.limits:
        if value < expected and limit.tags & probe.tags:
            return Cell("explained", f"{said}: {limit.text} ({limit.cites})")
    return Cell("wrong", said)
