"""Verdicts, each on an answer that earns it."""

import pytest

from costcore_probes.adapter import Adapter, Figure, Limit, Rule
from costcore_probes.probe import Probe
from costcore_probes.score import judge

PROBE = Probe(
    "made.up", "a network of the tests", "macs", "2 rows * 3", lambda: range(6), extras={"bias": 4}, tags=frozenset("t")
)
TOOL = Adapter(
    name="made",
    package="made",
    declares="",
    cites="",
    counts={"macs": lambda format, built: Figure(0)},
    unit={"macs": 2},
    rules=(Rule("biases count", "its README", lambda probe: 2 * probe.answer + probe.extras["bias"]),),
    limits=(Limit(frozenset("t"), "misses some", "its README"),),
)


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        ({"value": 12, "missing": []}, "right", "2 rows * 3 is 6, times 2 is 12"),
        ({"value": 16, "missing": []}, "explained", "biases count (its README)"),
        ({"value": 8, "missing": []}, "explained", "misses some (its README)"),
        ({"value": 8, "missing": ["aten::mm"]}, "refused", "lists as not counted: aten::mm"),
        ({"error": "TypeError: no"}, "refused", "raises TypeError: no"),
        ({"value": 0, "missing": []}, "zero", "says 0"),
        ({"value": 0, "missing": ["aten::mm"]}, "refused", "aten::mm"),
        ({"value": 14, "missing": ["aten::mm"]}, "refused", "aten::mm"),
        ({"value": 18, "missing": ["aten::mm"]}, "wrong", "says 18"),
    ],
)
def test_a_verdict(answer, verdict, words):
    cell = judge(PROBE, TOOL, answer)
    assert cell.verdict == verdict
    assert words in cell.sentence
