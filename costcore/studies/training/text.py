"""The ledger as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from costcore.studies.training.ledger_data import ALL, HARDWARE, LedgerData
from costcore.studies.training.pairs import PAIRS
from costcore.studies.training.products import KINDS
from costcore.studies.training.rates import Rates
from costcore.studies.training.rules import RuleFigure
from costcore.studies.training.stage import Stage
from costcore.studies.training.thresholds import Crossing, crossings
from costcore.studies.training.utilization import MODEL_PHASES

NEAR = 10
"""Thresholds are listed of which a run reaches a tenth."""

COLUMN = 39
"""Characters of the first column."""


def lines_of(
    ledger: LedgerData,
    base_flops: int | None = None,
    step_seconds: Mapping[str, float] | None = None,
    rates: Rates | None = None,
    all_thresholds: bool = False,
) -> Iterator[str]:
    """Yield the lines of a ledger: stages, totals, rules, thresholds and remarks.

    Args:
        ledger: the ledger.
        base_flops: FLOPs of the training of the base model, if there is one.
        step_seconds: measured seconds per step, by name of the stage.
        rates: the utilization, price and power of devices.
        all_thresholds: whether thresholds are listed of which the run reaches less than a tenth.
    """
    for stage in ledger.stages:
        yield from _stage(stage, ledger.pairs, is_alone=len(ledger.stages) == 1)
        if seconds := (step_seconds or {}).get(stage.name):
            reached = f"MFU {ledger.mfu(seconds, stage.name):.1%}, HFU {ledger.hfu(seconds, stage.name):.1%}"
            yield row("  measured", f"{reached}   ({seconds:g} s per step)")
    yield from _totals(ledger, step_seconds or {}, rates or Rates())
    yield from _rules(ledger.rules)
    found = crossings(ledger.counts, base_flops)
    if all_thresholds or _is_near(found, max(ledger.counts.values()) + (base_flops or 0)):
        yield from _thresholds(found, base_flops)
    yield from _remarks(ledger)


def row(title: str, text: str) -> str:
    """Return a line with a title in the first column."""
    return f"{title:{COLUMN}}{text}".rstrip()


def flops(amount: float) -> str:
    """Return FLOPs with four digits, ``2.625e12``.

    >>> flops(2625000000000)
    '2.625e12'
    """
    mantissa, _, exponent = f"{amount:.3e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _stage(stage: Stage, pairs: str, is_alone: bool) -> Iterator[str]:
    step, unit = stage.step, stage.step.unit
    if not is_alone:
        yield f"{stage.name}: {stage.because}".removesuffix(": ")
    yield "  " + _parameters(stage, pairs)
    yield row(f"  model FLOPs per {unit}", _per_token(stage, pairs))
    phases = {
        "recomputation": step.recompute_flops(pairs),
        "padding of experts": step.capacity_flops,
    }
    for name, amount in phases.items():
        if amount:
            yield row(f"  {name} per {unit}", f"{flops(amount / step.tokens)}   (hardware FLOPs only)")
    if step.optimizer_flops:
        yield row("  optimizer per step", f"{flops(step.optimizer_flops)}   (operations of all kinds, in neither)")
    yield row("  step", _step(stage, pairs))
    if stage.padding_share:
        yield row("  padding", f"{stage.padding_share:.1%} of the {unit}s, computed as all others")


def _parameters(stage: Stage, pairs: str) -> str:
    found = stage.step.parameters
    parts = [f"{found.total:,} parameters"]
    if found.active != found.total:
        parts.append(f"{found.active:,} active")
    if found.multiplying is not None:
        parts.append(f"{found.multiplying:,} " + ("multiply" if stage.step.unit == "token" else "MACs per sample"))
    if found.trainable not in (None, found.total):
        parts.append(f"{found.trainable:,} trained")
    shapes = ", ".join("x".join(map(str, shape)) for shape in stage.step.input_shapes)
    return f"{', '.join(parts)}; input {shapes}, {pairs} pairs"


def _per_token(stage: Stage, pairs: str) -> str:
    step = stage.step
    amounts = {kind: sum(2 * step.macs(phase, kind, pairs) for phase in MODEL_PHASES) / step.tokens for kind in KINDS}
    parts = ", ".join(f"{kind} {flops(amount)}" for kind, amount in amounts.items() if amount)
    others = [other for other in PAIRS if other != pairs and (other != "packed" or step.packing.documents)]
    beside = "   ".join(f"{other} {flops(step.model_flops(other) / step.tokens)}" for other in others)
    return f"{flops(step.model_flops(pairs) / step.tokens)}   ({parts or 'no products'})   {beside}"


def _step(stage: Stage, pairs: str) -> str:
    step, unit = stage.step, stage.step.unit
    parts = [f"{flops(step.model_flops(pairs) * stage.micro_batches)} model FLOPs"]
    parts += [_number(stage.tokens_per_step, unit)]
    if stage.micro_batches > 1:
        parts.append(f"{stage.accumulation:,} micro-batches on {stage.replicas:,} replicas of {step.tokens:,} {unit}s")
    return ", ".join(parts)


def _number(count: int, unit: str) -> str:
    return f"{count:,} {unit}" + ("" if count == 1 else "s")


def _totals(ledger: LedgerData, step_seconds: Mapping[str, float], rates: Rates) -> Iterator[str]:
    counts = ledger.counts
    unit = ledger.stages[0].step.unit if ledger.stages else "token"
    names = [name for name in counts if name != HARDWARE or counts[HARDWARE] != counts[ALL]]
    yield row(_number(ledger.tokens, unit), ", ".join(f"{name} {flops(counts[name])}" for name in names))
    if ledger.optimizer_flops:
        yield row("optimizer", f"{flops(ledger.optimizer_flops)} operations")
    if ledger.peak is not None:
        days = ledger.days(rates.mfu, step_seconds)
        on = f"on {ledger.devices:,} x {ledger.peak / 1e12:,.1f} TFLOP/s ({ledger.dtype}, dense)"
        yield row("time", f"{days:,.2f} days {_at(ledger, step_seconds, rates)} {on}")
        hours = 24 * days * ledger.devices
        amounts = {name: f"{amount:,.2f}" for name, amount in rates.of(hours).items()}
        parts = [f"{hours:,.2f} {ledger.device_hours_name}"]
        parts += [f"{amounts['price']} at {rates.price:g} an hour"] if "price" in amounts else []
        parts += [f"{amounts['kwh']} kWh at {rates.watts:g} W"] if "kwh" in amounts else []
        yield row("devices", ", ".join(parts))


def _at(ledger: LedgerData, step_seconds: Mapping[str, float], rates: Rates) -> str:
    """Return what the days of a run follow from: measured steps, or an MFU."""
    usual = f"at {100 * rates.mfu:.0f} % MFU"
    left = [stage.name for stage in ledger.stages if stage.name not in step_seconds]
    if not left:
        return "of measured steps"
    return f"of measured steps, {', '.join(left)} {usual}," if step_seconds else usual


def _rules(figures: list[RuleFigure]) -> Iterator[str]:
    if any(figure.flops is not None for figure in figures):
        yield "rules, with the causes of their difference from the count of all pairs"
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.flops is None:
            reasons.setdefault(figure.reason, []).append(figure.rule.label)
            continue
        parts = ", ".join(f"{cause} {share:+.1%}" for cause, share in _visible(figure))
        share = "" if figure.share is None else f"{figure.share:+.1%}"
        basis = " of hardware" if figure.rule.is_hardware else ""
        yield row(f"  {figure.rule.label}", f"{flops(figure.flops):>9}  {share:>8}{basis}   {parts}")
    for reason, labels in reasons.items():
        yield f"  not applicable ({reason}): {', '.join(labels)}"


def _visible(figure: RuleFigure) -> list[tuple[str, float]]:
    """Return causes and their shares of the count, the largest first, without those that round to 0.0 %."""
    shares = {cause: part / figure.counted for cause, part in figure.causes.items() if figure.counted}
    visible = [(cause, share) for cause, share in shares.items() if abs(share) >= 0.0005]
    return sorted(visible, key=lambda item: -abs(item[1]))


def _is_near(found: list[Crossing], most: int) -> bool:
    """Return whether FLOPs are a tenth of a threshold or more."""
    return any(each.value is not None and NEAR * most >= each.value for each in found)


def _thresholds(found: list[Crossing], base_flops: int | None) -> Iterator[str]:
    base = "" if base_flops is None else f", with {flops(base_flops)} of the base model where compute is cumulative"
    yield f"thresholds (as of {min(each.threshold.as_of for each in found)}; to_json has sources){base}"
    for crossing in found:
        if crossing.value is not None:
            threshold = crossing.threshold
            state = "" if threshold.status == "in force" else f" ({threshold.status})"
            yield row(f"  {flops(crossing.value)}  {_verdict(crossing)}", f"{threshold.name}{state}")


def _verdict(crossing: Crossing) -> str:
    over = [name for name, exceeded in crossing.exceeded.items() if exceeded]
    if not crossing.depends_on_count:
        return "exceeded by all counts" if over else "not exceeded by any count"
    return f"depends on the count: exceeded by {', '.join(over)} only"


def _remarks(ledger: LedgerData) -> Iterator[str]:
    for stage in ledger.stages:
        step = stage.step
        if step.masked:
            yield (
                f"- {stage.name}: whether attention in {step.masked} modules is causal is unknown (masks that are "
                'tensors, or products), so the causal count has all of its pairs; masks="causal" states that it is'
            )
        yield from (f"- {stage.name}: {remark}" for remark in step.report.remarks)
