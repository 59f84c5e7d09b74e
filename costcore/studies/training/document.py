"""The ledger as a JSON document, as a record of the training compute of a model.

It states what exceeds a threshold; whether that has consequences in law is not for a tool to decide.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from costcore._version import __version__
from costcore.analyses.devices.catalog import named
from costcore.reports.exports.model_card import report_hash
from costcore.studies.batch_size.largest import LargestBatch
from costcore.studies.training.arguments import whole
from costcore.studies.training.ledger_data import SECONDS_PER_DAY, LedgerData
from costcore.studies.training.rules import RuleFigure
from costcore.studies.training.stage import Stage
from costcore.studies.training.thresholds import Crossing, crossings
from costcore.text.values import jsonable

SCHEMA = "costcore.studies.training/1"
"""The name of the format; ``ledger.schema.json`` describes it."""


def to_dict(
    ledger: LedgerData,
    base_flops: float | None = None,
    base_source: str = "",
    step_seconds: float | Mapping[str, float] | None = None,
    date: str | None = None,
) -> dict[str, Any]:
    """Return a ledger in plain JSON types.

    Args:
        ledger: the ledger.
        base_flops: training FLOPs of the model that this run modifies; they are part of cumulative compute.
        base_source: where these come from.
        step_seconds: measured seconds per step, by name of the stage; or a number, if there is one stage.
        date: the date of the document, ``2026-01-31``; default: today.

    Raises:
        TypeError, ValueError: if an argument is invalid, or a stage is unknown.
    """
    base = None if base_flops is None else whole(base_flops, "base_flops")
    seconds = ledger.seconds_by_stage(step_seconds)
    counts = ledger.counts
    return {
        "schema": SCHEMA,
        "tool": f"costcore {__version__}",
        "date": datetime.date.today().isoformat() if date is None else date,
        "pairs": ledger.pairs,
        "stages": [_stage(ledger, stage, seconds.get(stage.name)) for stage in ledger.stages],
        "totals": {
            "tokens": ledger.tokens,
            "model_flops": ledger.model_flops,
            "hardware_flops": ledger.hardware_flops,
            "recompute_flops": ledger.recompute_flops,
            "optimizer_flops": ledger.optimizer_flops,
            "counts": counts,
        },
        "rules": [_rule(figure) for figure in ledger.rules],
        "hardware": _hardware(ledger),
        "base_model": None if base is None else {"flops": base, "source": base_source},
        "modification_share": None if base is None else ledger.model_flops / base,
        "thresholds": [_threshold(crossing, ledger, base) for crossing in crossings(counts, base)],
        "remarks": list(dict.fromkeys(remark for stage in ledger.stages for remark in stage.step.report.remarks)),
    }


def _stage(ledger: LedgerData, stage: Stage, seconds: float | None) -> dict[str, Any]:
    step, report = stage.step, stage.step.report
    run = report.trace.run
    return {
        "name": stage.name,
        "included_because": stage.because,
        "model": {
            "class": run.modules[""].type if "" in run.modules else "",
            "n_params": step.parameters.total,
            "n_params_active": step.parameters.active,
            "n_params_trainable": step.parameters.trainable,
            "n_params_multiplying": step.parameters.multiplying,
        },
        "input": {
            "shapes": jsonable(step.input_shapes),
            "unit": step.unit,
            "micro_batch": step.tokens,
            "padding_share": stage.padding_share,
            "document_lengths": list(step.packing.documents),
            "masks": "causal" if step.packing.masks_are_causal else "unknown",
            "modules_with_unknown_masks": step.masked,
        },
        "micro_batch": {
            "macs": _macs(stage),
            "operations": step.by_kind,
            "model_flops": {pairs: step.model_flops(pairs) for pairs in ("all", "causal", "packed")},
            "hardware_flops": step.hardware_flops(ledger.pairs),
            "recompute_flops": step.recompute_flops(ledger.pairs),
            "capacity_factor": step.capacity_factor,
            "capacity_flops": step.capacity_flops,
        },
        "accumulation": stage.accumulation,
        "replicas": stage.replicas,
        "tokens_per_step": stage.tokens_per_step,
        "steps": float(stage.steps),
        "tokens": stage.tokens,
        "model_flops": stage.model_flops(ledger.pairs),
        "hardware_flops": stage.hardware_flops(ledger.pairs),
        "optimizer_flops": stage.optimizer_flops,
        "measured": _measured(ledger, stage, seconds),
        "status": report.status,
        "assumptions": [str(each) for each in report.assumptions],
        "unknown": list(report.ignored_layers),
        "convention": run.convention,
        "frameworks": dict(run.frameworks),
        "report_sha256": report_hash(report),
        "largest_batch": None if stage.largest is None else _largest(stage.largest),
    }


def _largest(found: LargestBatch) -> dict[str, Any]:
    limit = found.limit.to_dict()
    return {"batch": found.batch, "needed": found.needed, "next_peak": found.next_peak, "limit": limit}


def _macs(stage: Stage) -> dict[str, dict[str, int]]:
    """Return MACs over all pairs by phase and kind of product, without zeros."""
    found: dict[str, dict[str, int]] = {}
    for product in stage.step.products:
        of_phase = found.setdefault(product.call.phase, {})
        of_phase[product.kind] = of_phase.get(product.kind, 0) + product.macs
    return found


def _measured(ledger: LedgerData, stage: Stage, seconds: float | None) -> dict[str, Any] | None:
    if seconds is None:
        return None
    is_known = ledger.peak is not None
    return {
        "step_seconds": seconds,
        "mfu": ledger.mfu(seconds, stage.name) if is_known else None,
        "hfu": ledger.hfu(seconds, stage.name) if is_known else None,
        "days": float(stage.steps) * seconds / SECONDS_PER_DAY,
    }


def _rule(figure: RuleFigure) -> dict[str, Any]:
    return {
        "name": "6nd-active" if figure.rule.is_active else figure.rule.convention,
        "label": figure.rule.label,
        "flops": figure.flops,
        "compared_with": "hardware FLOPs" if figure.rule.is_hardware else "model FLOPs",
        "counted": figure.counted,
        "difference": figure.difference,
        "causes": dict(figure.causes),
        "not_applicable": figure.reason,
    }


def _hardware(ledger: LedgerData) -> dict[str, Any] | None:
    if ledger.peak is None:
        return None
    device = None if ledger.device is None else named(ledger.device)
    return {
        "device": None if device is None else device.name,
        "count": ledger.devices,
        "dtype": ledger.dtype,
        "peak_flops": ledger.peak,
        "is_dense": True if device is not None else None,
        "sources": [] if device is None else [f"{source.title}: {source.states}" for source in device.sources],
    }


def _threshold(crossing: Crossing, ledger: LedgerData, base: int | None) -> dict[str, Any]:
    threshold = crossing.threshold
    total = ledger.model_flops + (0 if threshold.share_of_base else base or 0)
    return {
        "name": threshold.name,
        "basis": threshold.basis,
        "value": crossing.value,
        "share_of_base": None if threshold.share_of_base is None else str(threshold.share_of_base),
        "total": total,
        "share": None if crossing.value is None else total / crossing.value,
        "exceeded": None if crossing.value is None else total > crossing.value,
        "exceeded_by": dict(crossing.exceeded),
        "depends_on_count": crossing.depends_on_count,
        "source": threshold.source,
        "checked": threshold.checked,
        "status": threshold.status,
        "as_of": threshold.as_of,
    }
