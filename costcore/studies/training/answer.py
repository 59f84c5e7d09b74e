"""The figures and tables of a training ledger."""

from __future__ import annotations

from collections.abc import Iterator

from costcore.studies.training.ledger_data import ALL, CAUSAL, HARDWARE, PACKED, LedgerData
from costcore.studies.training.rates import USUAL_MFU
from costcore.studies.training.text import flops
from costcore.tables.answer import Answer, Figure
from costcore.tables.table import Table
from costcore.text.amounts import exact
from costcore.text.table import Column
from costcore.text.values import Shown

NAMES = {"all": ALL, "causal": CAUSAL, "packed": PACKED}
"""The names of the counts by how pairs of attention are counted."""


def answer_of(ledger: LedgerData) -> Answer:
    """Return the FLOPs by how they are counted, the stages, and what rules say; remarks as lines."""
    title = f"Training, {len(ledger.stages)} stage{'s' * (len(ledger.stages) != 1)}, {ledger.pairs} pairs"
    remarks = [f"{stage.name}: {remark}" for stage in ledger.stages for remark in stage.step.report.remarks]
    return Answer(title, [*_figures(ledger)], [_stages(ledger), _rules(ledger)], remarks)


def _figures(ledger: LedgerData) -> Iterator[Figure]:
    yield _figure("model_flops", "Model FLOPs", ledger.model_flops)
    yield _figure("hardware_flops", "Hardware FLOPs", ledger.hardware_flops)
    others = {name: amount for name, amount in ledger.counts.items() if name not in (HARDWARE, NAMES[ledger.pairs])}
    yield from (_figure(f"flops, {name}", f"FLOPs, {name}", amount) for name, amount in others.items())
    if ledger.optimizer_flops:
        yield _figure("optimizer_flops", "Operations of the optimizer", ledger.optimizer_flops)
    unit = ledger.stages[0].step.unit if ledger.stages else "token"
    yield _figure("tokens", f"{unit.capitalize()}s", ledger.tokens)
    if ledger.peak is not None:
        on = f"at {USUAL_MFU:.0%} MFU on {ledger.devices:,} x {ledger.peak / 1e12:,.1f} TFLOP/s ({ledger.dtype}, dense)"
        days = ledger.days(USUAL_MFU)
        yield Figure("days", "Time", Shown(days, f"{days:,.2f} days"), "ratio", on)
        hours = 24 * days * ledger.devices
        yield Figure("device_hours", "Devices", Shown(hours, f"{hours:,.2f} {ledger.device_hours_name}"), "ratio", on)


def _figure(name: str, title: str, amount: int) -> Figure:
    return Figure(name, title, Shown(amount, flops(amount)), "flops", exact(amount))


def _stages(ledger: LedgerData) -> Table:
    unit = ledger.stages[0].step.unit if ledger.stages else "token"
    rows = [
        {
            "stage": stage.name,
            "tokens": Shown(stage.tokens, f"{stage.tokens:,}"),
            "flops_per_token": _rounded(stage.step.model_flops(ledger.pairs) / stage.step.tokens),
            "model_flops": _rounded(stage.model_flops(ledger.pairs)),
            "hardware_flops": _rounded(stage.hardware_flops(ledger.pairs)),
        }
        for stage in ledger.stages
    ]
    columns = [
        *(Column("stage", "Stage"), Column("tokens", f"{unit.capitalize()}s", "count")),
        Column("flops_per_token", f"Model FLOPs per {unit}", "ratio"),
        *(Column("model_flops", "Model FLOPs", "count"), Column("hardware_flops", "Hardware FLOPs", "count")),
    ]
    return Table("Stages", columns, rows)


def _rules(ledger: LedgerData) -> Table:
    """Return the rules that apply."""
    rows = [
        {
            "rule": each.rule.label,
            "flops": _rounded(each.flops),
            "difference": "" if each.share is None else Shown(100 * each.share, f"{each.share:+.1%}"),
        }
        for each in ledger.rules
        if each.flops is not None
    ]
    columns = [Column("rule", "Rule"), Column("flops", "FLOPs", "count"), Column("difference", "Difference", "ratio")]
    return Table("Rules, and their difference from the count", columns, rows)


def _rounded(amount: float) -> Shown:
    return Shown(amount, flops(amount))
