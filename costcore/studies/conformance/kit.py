"""The kit: whether the layers and networks that a frontend builds have the costs that are known of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from costcore.errors import CostError
from costcore.ir import Operations
from costcore.messages import unknown
from costcore.reports.report import Report
from costcore.studies.conformance.case import Case
from costcore.studies.conformance.cases import CASES
from costcore.studies.conformance.networks import NETWORKS, Network
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column

Builder = Callable[[], Report]
"""Returns the report of a layer or network: ``lambda: estimate(relu, (2, 3, 4, 4))``."""

LAYERS: Mapping[str, Case] = {case.name: case for case in CASES}
WHOLE: Mapping[str, Network] = {network.name: network for network in NETWORKS}

EQUAL, DIFFERS, MISSING = "equal", "differs", "not built"
"""What a row of the matrix can be."""


class Outcome(NamedTuple):
    """What a frontend counts of one row.

    Attributes:
        name: the layer or network.
        kind: ``layer`` or ``network``.
        state: one of :data:`EQUAL`, :data:`DIFFERS`, :data:`MISSING`.
        text: what differs.
    """

    name: str
    kind: str
    state: str
    text: str = ""


class Conformance(Result):
    """The matrix of a frontend: every layer and network with its outcome.

    Args:
        builders: the builders of the frontend, by the names of layers and networks.

    Raises:
        CostError: if a builder has another name; the message suggests near matches.
    """

    def __init__(self, builders: Mapping[str, Builder]) -> None:
        if others := [name for name in builders if name not in LAYERS and name not in WHOLE]:
            raise CostError(unknown("layer or network", others, [*LAYERS, *WHOLE]))
        rows = {**dict.fromkeys(LAYERS, "layer"), **dict.fromkeys(WHOLE, "network")}
        self.outcomes = tuple(
            outcome(name, builders[name]) if name in builders else Outcome(name, kind, MISSING)
            for name, kind in rows.items()
        )

    @property
    def differences(self) -> tuple[Outcome, ...]:
        """The rows with another cost."""
        return tuple(each for each in self.outcomes if each.state == DIFFERS)

    @property
    def table(self) -> Table:
        """The rows."""
        titles = ("Name", "Kind", "State", "What differs")
        columns = [Column(key, title) for key, title in zip(Outcome._fields, titles, strict=True)]
        return Table("Rows", columns, [each._asdict() for each in self.outcomes])

    def _answer(self) -> Answer:
        counts = [sum(each.state == state for each in self.outcomes) for state in (EQUAL, DIFFERS, MISSING)]
        names = [("equal", "Equal"), ("differs", "Different"), ("missing", "Not built")]
        figures = [Figure(key, text, count, "count", "rows") for (key, text), count in zip(names, counts, strict=True)]
        return Answer("Conformance", figures, [self.table])


def outcome(name: str, build: Builder) -> Outcome:
    """Return what a frontend counts of one row.

    Args:
        name: the layer or network.
        build: returns its report.

    Raises:
        CostError: for an unknown name.
    """
    if name in LAYERS:
        found = _of_layer(LAYERS[name], build())
        return Outcome(name, "layer", DIFFERS if found else EQUAL, found)
    if name not in WHOLE:
        raise CostError(unknown("layer or network", name, [*LAYERS, *WHOLE]))
    report = build()
    found = _differences(WHOLE[name], {key: report.total_report[key] for key in ("macs", "n_params")}, report)
    return Outcome(name, "network", DIFFERS if found else EQUAL, found)


def _of_layer(case: Case, report: Report) -> str:
    """Return what differs from a row of the table; empty if nothing does."""
    entries = [entry for entry in report.layer_report.values() if entry["op"] == case.op]
    if not entries:
        return f"no call is {case.op}: {', '.join(sorted({str(e['op']) for e in report.layer_report.values()}))}"
    operations = sum((Operations(**entry["operations"]) for entry in entries), Operations())
    found = {"operations": operations, "n_params": report.total_report["n_params"]}
    found |= {name: sum(entry[name] for entry in entries) for name in ("macs", "mread", "mwrite")}
    return _differences(case, found, report)


def _differences(row: Case | Network, found: Mapping[str, object], report: Report) -> str:
    """Return what differs from a row, of a network from the totals of PyTorch; empty if nothing does."""
    texts = [
        f"{name} {value} (expected {getattr(row, name)})"
        for name, value in found.items()
        if value != getattr(row, name)
    ]
    ignored = ", ".join(sorted({str(each) for each in report.ignored_layers}))
    return "; ".join([*texts, *([f"not counted: {ignored}"] if ignored else [])])
