"""The cost of a pass, from its report."""

from __future__ import annotations

from collections import Counter

from costcore.reports.report import Report
from costcore.studies.meter.passes import Sizes
from costcore.studies.meter.rates import PassCost
from costcore.studies.training.utilization import MODEL_PHASES, hardware_flops, model_flops


def cost_of(report: Report, sizes: Sizes) -> tuple[PassCost, list[str]]:
    """Return the cost of a pass, and notes on what its figures do not have.

    Args:
        report: the report of forward and backward pass.
        sizes: how much data they processed.
    """
    model, hardware = model_flops(report), hardware_flops(report)
    assert isinstance(model, int) and isinstance(hardware, int)  # inputs of a run have integer sizes
    cost = PassCost(model, hardware, sizes.tokens, sizes.samples, dtype_of_products(report))
    notes = []
    if ignored := len(report.ignored_layers):
        notes.append(f"FLOPs are too few: {ignored} calls of a pass could not be counted, which a warning names")
    return cost, notes


def dtype_of_products(report: Report) -> str:
    """Return the dtype in which most products of the model FLOPs are computed; empty without products."""
    macs: Counter[str] = Counter()
    for call, cost, *_ in report.trace:
        if cost is not None and cost.macs and call.phase in MODEL_PHASES and call.layer.inputs:
            macs[next(iter(call.layer.inputs.values())).dtype] += cost.macs * call.times
    return max(macs, key=lambda dtype: macs[dtype], default="")
