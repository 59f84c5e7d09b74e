"""The figures and tables of a training ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costcore.studies.training.ledger_data import ALL, CAUSAL, HARDWARE, PACKED, LedgerData
from costcore.studies.training.pairs import PAIRS
from costcore.studies.training.products import KINDS
from costcore.studies.training.rates import Rates
from costcore.studies.training.rules import RuleFigure
from costcore.studies.training.stage import Stage
from costcore.studies.training.thresholds import Crossing, crossings
from costcore.studies.training.utilization import MODEL_PHASES
from costcore.tables.answer import Answer, Figure
from costcore.tables.table import Table
from costcore.text.amounts import exact, readable
from costcore.text.table import Column
from costcore.text.values import Shown

NAMES = {"all": ALL, "causal": CAUSAL, "packed": PACKED}
"""The names of the counts by how pairs of attention are counted."""

NEAR = 10
"""Thresholds are listed of which a run reaches a tenth."""

NONE: Mapping[str, float] = {}


def answer_of(
    ledger: LedgerData,
    base_flops: int | None = None,
    step_seconds: Mapping[str, float] = NONE,
    rates: Rates = Rates(),  # noqa: B008  # it is immutable
    all_thresholds: bool = False,
) -> Answer:
    """Return the FLOPs by how they are counted, the stages, what rules say, thresholds, and remarks.

    Args:
        ledger: the ledger.
        base_flops: FLOPs of the training of the base model, if there is one.
        step_seconds: measured seconds per step, by name of the stage.
        rates: the utilization, price and power of devices.
        all_thresholds: whether thresholds are listed of which the run reaches less than a tenth.
    """
    title = f"Training, {len(ledger.stages)} stage{'s' * (len(ledger.stages) != 1)}, {ledger.pairs} pairs"
    tables = [_stages(ledger), _models(ledger), _steps(ledger, step_seconds), _per_token(ledger), _rules(ledger)]
    found = crossings(ledger.counts, base_flops)
    if all_thresholds or _is_near(found, max(ledger.counts.values()) + (base_flops or 0)):
        tables.append(_thresholds(found, base_flops))
    return Answer(title, [*_figures(ledger, step_seconds, rates)], tables, [*_remarks(ledger)])


def flops(amount: float) -> str:
    """Return FLOPs with four digits, ``2.625e12``.

    >>> flops(2625000000000)
    '2.625e12'
    """
    mantissa, _, exponent = f"{amount:.3e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _figures(ledger: LedgerData, step_seconds: Mapping[str, float], rates: Rates) -> Iterator[Figure]:
    yield _figure("model_flops", "Model FLOPs", ledger.model_flops)
    yield _figure("hardware_flops", "Hardware FLOPs", ledger.hardware_flops)
    others = {name: amount for name, amount in ledger.counts.items() if name not in (HARDWARE, NAMES[ledger.pairs])}
    yield from (_figure(f"flops, {name}", f"FLOPs, {name}", amount) for name, amount in others.items())
    if ledger.optimizer_flops:
        yield _figure("optimizer_flops", "Operations of the optimizer", ledger.optimizer_flops, "in neither; ")
    for stage in ledger.stages:
        if stage.largest is not None:
            room = readable(stage.largest.limit.memory, "bytes", 2)
            needed = f"{readable(stage.largest.needed, 'bytes', 2)} of {room}"
            of = f" of {stage.name}" if len(ledger.stages) > 1 else ""
            yield Figure(f"largest, {stage.name}", f"Largest batch per rank{of}", stage.largest.batch, "count", needed)
    yield Figure("tokens", f"{_unit(ledger).capitalize()}s", ledger.tokens, "count")
    if ledger.peak is not None:
        days = ledger.days(rates.mfu, step_seconds)
        on = f"on {ledger.devices:,} x {ledger.peak / 1e12:,.1f} TFLOP/s ({ledger.dtype}, dense)"
        because = f"{_at(ledger, step_seconds, rates)} {on}"
        yield Figure("days", "Time", Shown(days, f"{days:,.2f} days"), "ratio", because)
        hours = 24 * days * ledger.devices
        yield Figure("device_hours", "Devices", Shown(hours, f"{hours:,.2f} {ledger.device_hours_name}"), "ratio")
        of_rates = rates.of(hours)
        if rates.price is not None:
            price = of_rates["price"]
            yield Figure("price", "Price", Shown(price, f"{price:,.2f}"), "ratio", f"at {rates.price:g} an hour")
        if rates.watts is not None:
            kwh = of_rates["kwh"]
            yield Figure("kwh", "Energy", Shown(kwh, f"{kwh:,.2f} kWh"), "ratio", f"at {rates.watts:g} W")


def _figure(name: str, title: str, amount: int, because: str = "") -> Figure:
    return Figure(name, title, _rounded(amount), "flops", because + exact(amount))


def _unit(ledger: LedgerData) -> str:
    return ledger.stages[0].step.unit if ledger.stages else "token"


def _at(ledger: LedgerData, step_seconds: Mapping[str, float], rates: Rates) -> str:
    """Return what the days of a run follow from: measured steps, or an MFU."""
    usual = f"at {100 * rates.mfu:.0f} % MFU"
    left = [stage.name for stage in ledger.stages if stage.name not in step_seconds]
    if not left:
        return "of measured steps"
    return f"of measured steps, {', '.join(left)} {usual}," if step_seconds else usual


def _stages(ledger: LedgerData) -> Table:
    unit = _unit(ledger)
    columns = [
        *(
            Column("stage", "Stage"),
            Column("because", "Part of it"),
            Column("tokens", f"{unit.capitalize()}s", "count"),
        ),
        Column("flops_per_token", f"Model FLOPs per {unit}", "ratio"),
        *(Column("model_flops", "Model FLOPs", "count"), Column("hardware_flops", "Hardware FLOPs", "count")),
    ]
    rows = [
        {
            "stage": stage.name,
            "because": stage.because,
            "tokens": _counted(stage.tokens),
            "flops_per_token": _rounded(stage.step.model_flops(ledger.pairs) / stage.step.tokens),
            "model_flops": _rounded(stage.model_flops(ledger.pairs)),
            "hardware_flops": _rounded(stage.hardware_flops(ledger.pairs)),
        }
        for stage in ledger.stages
    ]
    return _table("Stages", columns, rows)


def _models(ledger: LedgerData) -> Table:
    """Return the parameters of the model of every stage, and its inputs."""
    columns = [
        *(Column("stage", "Stage"), Column("n_params", "Parameters", "count"), Column("active", "Active", "count")),
        *(Column("multiplying", "That multiply", "count"), Column("trainable", "Trained", "count")),
        Column("input", "Input", "shapes"),
    ]
    rows = []
    for stage in ledger.stages:
        found = stage.step.parameters
        rows.append(
            {
                "stage": stage.name,
                "n_params": _counted(found.total),
                "active": "" if found.active == found.total else _counted(found.active),
                "multiplying": None if found.multiplying is None else _counted(found.multiplying),
                "trainable": "" if found.trainable in (None, found.total) else _counted(found.trainable),
                "input": Shown(
                    stage.step.input_shapes, ", ".join("x".join(map(str, s)) for s in stage.step.input_shapes)
                ),
            }
        )
    return _table("Models, one micro-batch each", columns, rows)


def _steps(ledger: LedgerData, step_seconds: Mapping[str, float]) -> Table:
    """Return what a step of the optimizer consists of, and the utilization that measured seconds mean."""
    columns = [
        *(Column("stage", "Stage"), Column("micro_batches", "Micro-batches", "count")),
        *(Column("replicas", "Replicas", "count"), Column("tokens", f"{_unit(ledger).capitalize()}s", "count")),
        *(Column("padding", "Padding", "percent"), Column("model_flops", "Model FLOPs", "count")),
        *(Column("optimizer_flops", "Optimizer", "count"), Column("seconds", "Measured", "ratio", "measured")),
        *(Column("mfu", "MFU", "percent", "measured"), Column("hfu", "HFU", "percent", "measured")),
    ]
    rows = []
    for stage in ledger.stages:
        row: dict[str, Any] = {
            "stage": stage.name,
            "micro_batches": stage.accumulation if stage.micro_batches > 1 else "",
            "replicas": stage.replicas if stage.micro_batches > 1 else "",
            "tokens": _counted(stage.tokens_per_step),
            "padding": _share(stage.padding_share) if stage.padding_share else "",
            "model_flops": _rounded(stage.step.model_flops(ledger.pairs) * stage.micro_batches),
            "optimizer_flops": _rounded(stage.step.optimizer_flops) if stage.step.optimizer_flops else "",
        }
        if seconds := step_seconds.get(stage.name):
            row |= {"seconds": Shown(seconds, f"{seconds:g} s")}
            row |= {"mfu": _share(ledger.mfu(seconds, stage.name)), "hfu": _share(ledger.hfu(seconds, stage.name))}
        rows.append(row)
    return _table("A step", columns, rows)


def _per_token(ledger: LedgerData) -> Table:
    """Return the FLOPs of a token by kind of product, by how pairs are counted, and what only hardware computes."""
    columns = [
        *(Column("stage", "Stage"), *(Column(kind, kind.capitalize(), "ratio") for kind in KINDS)),
        *(Column(NAMES[pairs], NAMES[pairs].capitalize(), "ratio") for pairs in PAIRS),
        *(Column("recompute", "Recomputation", "ratio"), Column("capacity", "Padding of experts", "ratio")),
    ]
    rows = [{"stage": stage.name, **_amounts_per_token(stage, ledger.pairs)} for stage in ledger.stages]
    return _table(f"FLOPs per {_unit(ledger)}", columns, rows)


def _amounts_per_token(stage: Stage, pairs: str) -> dict[str, Any]:
    step = stage.step
    amounts = {kind: sum(2 * step.macs(phase, kind, pairs) for phase in MODEL_PHASES) for kind in KINDS}
    counted = [other for other in PAIRS if other != "packed" or step.packing.documents]
    amounts |= {NAMES[other]: step.model_flops(other) for other in counted}
    amounts |= {"recompute": step.recompute_flops(pairs), "capacity": step.capacity_flops}
    return {name: _rounded(amount / step.tokens) for name, amount in amounts.items() if amount}


def _rules(ledger: LedgerData) -> Table:
    """Return the rules that apply, with the causes of their difference from the count."""
    rows = [
        {
            "rule": each.rule.label,
            "flops": _rounded(each.flops),
            "difference": "" if each.share is None else Shown(100 * each.share, f"{each.share:+.1%}"),
            "of": "hardware" if each.rule.is_hardware else "model",
            "causes": ", ".join(f"{cause} {share:+.1%}" for cause, share in _visible(each)),
        }
        for each in ledger.rules
        if each.flops is not None and ledger.stages
    ]
    columns = [
        *(Column("rule", "Rule"), Column("flops", "FLOPs", "count"), Column("difference", "Difference", "ratio")),
        *(Column("of", "FLOPs of"), Column("causes", "Causes")),
    ]
    return Table("Rules, and their difference from the count of all pairs", columns, rows)


def _visible(figure: RuleFigure) -> list[tuple[str, float]]:
    """Return causes and their shares of the count, the largest first, without those that round to 0.0 %."""
    shares = {cause: part / figure.counted for cause, part in figure.causes.items() if figure.counted}
    visible = [(cause, share) for cause, share in shares.items() if abs(share) >= 0.0005]
    return sorted(visible, key=lambda item: -abs(item[1]))


def _is_near(found: Sequence[Crossing], most: int) -> bool:
    """Return whether FLOPs are a tenth of a threshold or more."""
    return any(each.value is not None and NEAR * most >= each.value for each in found)


def _thresholds(found: Sequence[Crossing], base_flops: int | None) -> Table:
    base = "" if base_flops is None else f", with {flops(base_flops)} of the base model where compute is cumulative"
    rows = [
        {
            "flops": _rounded(each.value),
            "exceeded": _verdict(each),
            "name": each.threshold.name,
            "status": each.threshold.status,
        }
        for each in found
        if each.value is not None
    ]
    columns = [Column("flops", "FLOPs", "count"), Column("exceeded", "Exceeded")]
    columns += [Column("name", "Threshold"), Column("status", "Status")]
    as_of = min(each.threshold.as_of for each in found)
    return Table(f"Thresholds, as of {as_of}; to_json has sources{base}", columns, rows)


def _verdict(crossing: Crossing) -> str:
    over = [name for name, exceeded in crossing.exceeded.items() if exceeded]
    if not crossing.depends_on_count:
        return "by all counts" if over else "by no count"
    return f"by {', '.join(over)} only"


def _remarks(ledger: LedgerData) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for figure in ledger.rules:
        if figure.flops is None:
            reasons.setdefault(figure.reason, []).append(figure.rule.label)
    yield from (f"rules that do not apply ({reason}): {', '.join(labels)}" for reason, labels in reasons.items())
    for stage in ledger.stages:
        step = stage.step
        if step.idle_expert_parameters:
            active, total = step.parameters.active, step.parameters.total
            yield (
                f"{stage.name}: a token meets {active:,} of {total:,} parameters; 6ND and thresholds use these active "
                "ones, rules that use all are listed as such"
            )
        if step.masked:
            yield (
                f"{stage.name}: whether attention in {step.masked} modules is causal is unknown (masks that are "
                'tensors, or products), so the causal count has all of its pairs; masks="causal" states that it is'
            )
        yield from (f"{stage.name}: {remark}" for remark in step.report.remarks)
        if stage.largest is not None:
            yield f"{stage.name}: limit: {stage.largest.limit.describe()}"


def _table(title: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table without the columns that no row has a value for."""
    used = [column for column in columns if any(row.get(column.key, "") != "" for row in rows)]
    return Table(title, used or columns, rows)


def _rounded(amount: float) -> Shown:
    return Shown(amount, flops(amount))


def _counted(number: int) -> Shown:
    return Shown(number, f"{number:,}")


def _share(share: float) -> Shown:
    return Shown(100 * share, f"{share:.1%}")
