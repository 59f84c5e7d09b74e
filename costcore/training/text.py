"""The ledger as text."""

from __future__ import annotations

from collections.abc import Iterator

from costcore.training.ledger_data import ALL, HARDWARE, LedgerData
from costcore.training.products import ATTENTION, EXPERTS, WEIGHTS
from costcore.training.rules import RuleFigure
from costcore.training.stage import Stage
from costcore.training.thresholds import Crossing, crossings
from costcore.training.utilization import MODEL_PHASES

COLUMN = 39
"""Characters of the first column."""


def lines_of(ledger: LedgerData, base_flops: int | None = None) -> Iterator[str]:
    """Yield the lines of a ledger: stages, totals, rules, thresholds and remarks.

    Args:
        ledger: the ledger.
        base_flops: FLOPs of the training of the base model, if there is one.
    """
    for stage in ledger.stages:
        yield from _stage(stage, ledger.pairs, is_alone=len(ledger.stages) == 1)
    yield from _totals(ledger)
    yield from _rules(ledger.rules)
    yield from _thresholds(crossings(ledger.counts, base_flops))
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
    yield _parameters(stage)
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


def _parameters(stage: Stage) -> str:
    found = stage.step.parameters
    parts = [f"{found.total:,} parameters"]
    if found.active != found.total:
        parts.append(f"{found.active:,} active")
    if found.multiplying is not None:
        parts.append(f"{found.multiplying:,} multiply" + ("" if stage.step.unit == "token" else " per sample"))
    if found.trainable not in (None, found.total):
        parts.append(f"{found.trainable:,} trained")
    return "  " + ", ".join(parts)


def _per_token(stage: Stage, pairs: str) -> str:
    step = stage.step
    both = {
        name: sum(2 * step.macs(phase, kind, pairs) for phase in MODEL_PHASES for kind in kinds) / step.tokens
        for name, kinds in (("weights", (WEIGHTS,)), ("experts", (EXPERTS,)), ("attention", (ATTENTION,)))
    }
    parts = ", ".join(f"{name} {flops(amount)}" for name, amount in both.items() if amount)
    others = [other for other in ("all", "causal") if other != pairs]
    if step.packing.documents and pairs != "packed":
        others.append("packed")
    beside = ", ".join(f"{other} {flops(step.model_flops(other) / step.tokens)}" for other in others)
    return f"{flops(step.model_flops(pairs) / step.tokens)}   {pairs} pairs ({parts or 'none'}); {beside}"


def _step(stage: Stage, pairs: str) -> str:
    step, unit = stage.step, stage.step.unit
    parts = [f"{flops(step.model_flops(pairs) * stage.micro_batches)} model FLOPs"]
    parts += [f"{stage.tokens_per_step:,} {unit}s"]
    if stage.micro_batches > 1:
        parts.append(f"{stage.accumulation:,} micro-batches on {stage.replicas:,} replicas of {step.tokens:,} {unit}s")
    return ", ".join(parts)


def _totals(ledger: LedgerData) -> Iterator[str]:
    counts = ledger.counts
    unit = ledger.stages[0].step.unit if ledger.stages else "token"
    names = [name for name in counts if name != HARDWARE or counts[HARDWARE] != counts[ALL]]
    yield row(f"{ledger.tokens:,} {unit}s", ", ".join(f"{name} {flops(counts[name])}" for name in names))
    if ledger.optimizer_flops:
        yield row("optimizer", f"{flops(ledger.optimizer_flops)} operations")
    if ledger.peak is not None:
        days = ledger.days(0.4)
        on = f"{ledger.devices:,} x {ledger.peak / 1e12:,.1f} TFLOP/s ({ledger.dtype}, dense)"
        yield row("time", f"{days:,.2f} days at 40 % MFU on {on}")


def _rules(figures: list[RuleFigure]) -> Iterator[str]:
    if any(figure.flops is not None for figure in figures):
        yield "rules, with the causes of their difference from the count of all pairs"
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.flops is None:
            reasons.setdefault(figure.reason, []).append(figure.rule.label)
            continue
        causes = sorted(figure.causes.items(), key=lambda item: -abs(item[1]))
        parts = ", ".join(f"{cause} {part / figure.counted:+.1%}" for cause, part in causes if figure.counted)
        share = "" if figure.share is None else f"{figure.share:+.1%}"
        basis = " of hardware" if figure.rule.is_hardware else ""
        yield row(f"  {figure.rule.label}", f"{flops(figure.flops):>9}  {share:>8}{basis}   {parts}")
    for reason, labels in reasons.items():
        yield f"  not applicable ({reason}): {', '.join(labels)}"


def _thresholds(found: list[Crossing]) -> Iterator[str]:
    yield "thresholds (thresholds.toml states source and date of each)"
    for crossing in found:
        if crossing.value is None:
            continue
        yield f"  {flops(crossing.value)}  {_verdict(crossing)}   {crossing.threshold.name}"


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
                f"- {stage.name}: masks of {step.masked} attentions are unknown, so the causal count has all of their "
                'pairs (masks="causal" if they are)'
            )
        if not step.model_flops() or not any(product.call.phase == "backward" for product in step.products):
            yield f"- {stage.name}: no backward pass was captured (backward=True)"
        yield from (f"- {stage.name}: {remark}" for remark in step.report.remarks)
