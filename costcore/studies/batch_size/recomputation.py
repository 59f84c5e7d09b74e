"""What activation checkpointing of the heaviest repeated modules would save, measured by captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costcore.errors import CostError
from costcore.reports.report import Report
from costcore.studies.batch_size.captures import Captures
from costcore.studies.batch_size.largest import LargestBatch, find_largest
from costcore.studies.batch_size.limit import Limit
from costcore.trace.call import Module

MAX_CLASSES = 3
"""So many classes are tried, those with the most saved bytes."""


@dataclass(frozen=True)
class Recomputation:
    """The memory of a run in which the modules of one class are checkpointed.

    Attributes:
        module: name of the class; empty if no class is worth it.
        count: the number of modules, without those inside another one of the class.
        batch: the batch of both peaks.
        peak: the peak with checkpointing, in bytes.
        peak_before: the peak without it.
        largest: the largest batch with it.
        more_flops: FLOPs of what is computed again, as a share of the FLOPs of a step.
        problems: classes that cannot be checkpointed, and why.
    """

    module: str
    count: int
    batch: int
    peak: int
    peak_before: int
    largest: int
    more_flops: float
    problems: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        return {**vars(self), "problems": dict(self.problems)}


def recompute(captures: Captures, limit: Limit, before: LargestBatch) -> Recomputation:
    """Return what checkpointing saves: of the classes with the most saved bytes, that with the lowest peak.

    Args:
        captures: captures of training steps.
        limit: the terms of the limit.
        before: the largest batch without checkpointing.

    Raises:
        CostError: if the model fails on the batches that are tried.
    """
    batch = min(each for each in captures.memories if each >= before.batch)
    peak_before = limit.peak_of(captures.memory(batch))
    best, problems = (peak_before, "", captures), {}
    counts = repeated_classes(captures.report(batch))
    for name in [*counts][:MAX_CLASSES]:
        attempt = captures.with_options(checkpoint=name)
        try:
            peak = limit.peak_of(attempt.memory(batch))
        except CostError as error:
            problems[name] = str(error)
        else:
            best = min(best, (peak, name, attempt), key=lambda each: each[0])
    peak, name, attempt = best
    if not name:
        return Recomputation("", 0, batch, peak, peak_before, before.batch, 0.0, problems)
    largest = find_largest(attempt, limit).batch
    share = _recomputed(attempt.report(batch))
    return Recomputation(name, counts[name], batch, peak, peak_before, largest, share, problems)


def repeated_classes(report: Report) -> dict[str, int]:
    """Return how many modules of each class are in a model, of classes with several; that with most saved bytes first.

    Modules inside another one of their class do not count, nor do classes of the framework itself without children: to
    checkpoint one operator saves nothing. Of classes with
    equal sums the outer one comes first.
    """
    modules = report.trace.run.modules
    memory = report.memory
    assert memory is not None
    saved: dict[str, int] = {}
    for call, nbytes in zip(report.calls, memory.saved_by_call(), strict=True):
        if nbytes:
            for kind in _classes_around(call.module, modules):
                saved[kind] = saved.get(kind, 0) + nbytes
    counts = _counts(modules, tuple(f"{name}." for name in report.trace.run.frameworks))
    ordered = sorted((kind for kind in saved if counts.get(kind, 0) > 1), key=lambda kind: -saved[kind])
    return {kind: counts[kind] for kind in ordered}


def _classes_around(path: str, modules: Mapping[str, Module]) -> list[str]:
    """Return the classes of a module and of those that it is in, each once, the outermost first."""
    names = path.split(".") if path else []
    paths = [".".join(names[: i + 1]) for i in range(len(names))]
    return [*dict.fromkeys(modules[each].type for each in paths if each in modules)]


def _counts(modules: Mapping[str, Module], own: tuple[str, ...]) -> dict[str, int]:
    """Return the number of outermost modules by class, without single operators of a framework.

    Args:
        modules: the modules of a run by path.
        own: how the names of the classes of its frameworks begin.
    """
    parents = {path.rpartition(".")[0] for path in modules if path}
    counts: dict[str, int] = {}
    for path, module in modules.items():
        is_operator = path not in parents and module.bases[:1] and module.bases[0].startswith(own)
        is_inner = module.type in _classes_around(path.rpartition(".")[0], modules)
        if path and not (is_operator or is_inner or module.same_as):
            counts[module.type] = counts.get(module.type, 0) + 1
    return counts


def _recomputed(report: Report) -> float:
    """Return the share of the FLOPs of a run that compute something again, over those of the run without them."""
    flops = {phase: sums["flops"] for phase, sums in report.by("phase").items()}
    again = flops.get("recompute", 0)
    return float(again / max(sum(flops.values()) - again, 1))
