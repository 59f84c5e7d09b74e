"""What ``print`` and notebooks show of a training ledger."""

from __future__ import annotations

from collections.abc import Iterator

from costcore.studies.training.ledger_data import ALL, CAUSAL, HARDWARE, PACKED, LedgerData
from costcore.studies.training.text import USUAL_MFU, flops
from costcore.tables.overview.overview import Figure, Overview, Part
from costcore.text.amounts import exact
from costcore.text.table import TextTable

NAMES = {"all": ALL, "causal": CAUSAL, "packed": PACKED}
"""The names of the counts by how pairs of attention are counted."""


def overview_of(ledger: LedgerData) -> Overview:
    """Return the FLOPs by how they are counted, the stages, and what rules say; remarks as lines."""
    title = f"Training, {len(ledger.stages)} stage{'s' * (len(ledger.stages) != 1)}, {ledger.pairs} pairs"
    remarks = [f"{stage.name}: {remark}" for stage in ledger.stages for remark in stage.step.report.remarks]
    parts = [Part("Stages", _stages(ledger)), Part("Rules, and their difference from the count", _rules(ledger))]
    return Overview(title, [*_figures(ledger)], parts, remarks)


def _figures(ledger: LedgerData) -> Iterator[Figure]:
    yield _figure("Model FLOPs", ledger.model_flops)
    yield _figure("Hardware FLOPs", ledger.hardware_flops)
    others = {name: amount for name, amount in ledger.counts.items() if name not in (HARDWARE, NAMES[ledger.pairs])}
    yield from (_figure(f"FLOPs, {name}", amount) for name, amount in others.items())
    if ledger.optimizer_flops:
        yield _figure("Operations of the optimizer", ledger.optimizer_flops)
    yield _figure(f"{ledger.stages[0].step.unit.capitalize()}s" if ledger.stages else "Tokens", ledger.tokens)
    if ledger.peak is not None:
        on = f"at {USUAL_MFU:.0%} MFU on {ledger.devices:,} x {ledger.peak / 1e12:,.1f} TFLOP/s ({ledger.dtype}, dense)"
        yield Figure("Time", f"{ledger.days(USUAL_MFU):,.2f} days", on)


def _figure(title: str, amount: int) -> Figure:
    return Figure(title, flops(amount), exact(amount))


def _stages(ledger: LedgerData) -> TextTable:
    rows = [
        [
            stage.name,
            f"{stage.tokens:,}",
            flops(stage.step.model_flops(ledger.pairs) / stage.step.tokens),
            flops(stage.model_flops(ledger.pairs)),
            flops(stage.hardware_flops(ledger.pairs)),
        ]
        for stage in ledger.stages
    ]
    unit = ledger.stages[0].step.unit if ledger.stages else "token"
    titles = ["Stage", f"{unit.capitalize()}s", f"Model FLOPs per {unit}", "Model FLOPs", "Hardware FLOPs"]
    return TextTable([(each, "") for each in titles], rows, [False, True, True, True, True])


def _rules(ledger: LedgerData) -> TextTable:
    """Return the rules that apply."""
    rows = [
        [each.rule.label, flops(each.flops), "" if each.share is None else f"{each.share:+.1%}"]
        for each in ledger.rules
        if each.flops is not None
    ]
    return TextTable([("Rule", ""), ("FLOPs", ""), ("Difference", "")], rows, [False, True, True])
