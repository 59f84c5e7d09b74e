"""The figures of a training ledger: sums over stages, utilization, published rules, thresholds of laws, and JSON.

Every published rule (6ND, PaLM, Megatron, …) is compared with the count, and the difference is split into causes that
add up exactly.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore._version import __version__
from costcore.analyses.conventions.convention import Transformer, find_convention
from costcore.analyses.conventions.counting import count
from costcore.analyses.devices.device import Device, find_device
from costcore.errors import CostError, unknown
from costcore.files import read_toml
from costcore.reports.exports import report_hash
from costcore.studies.batch_size import LargestBatch
from costcore.studies.training.step import ATTENTION, KINDS, PAIRS, Step, check_positive, mfu, peak_flops
from costcore.text.amounts import jsonable

SECONDS_PER_DAY = 86_400

ALL, CAUSAL, PACKED, HARDWARE = "all pairs", "causal", "packed", "hardware"
"""The names of counts."""


class LedgerData:
    """The FLOPs of a training run as data; :class:`costcore.TrainingLedger` adds stages, text and files.

    Args:
        devices: number of devices.
        device: the device; None if none is known.
        dtype: dtype of the products, which selects the peak.
        peak: FLOP/s of one device, instead of that of a known device.
        pairs: how pairs of attention are counted, one of :data:`costcore.studies.training.step.PAIRS`.

    Attributes:
        stages: the stages, which add up.
    """

    devices: int

    def __init__(
        self,
        devices: int,
        device: str | PathLike[str] | Device | None,
        dtype: str,
        peak: float | None,
        pairs: str,
    ) -> None:
        if pairs not in PAIRS:
            raise ValueError(unknown("value of pairs", pairs, PAIRS))
        self.devices = whole(devices, "devices")
        self.device = device
        self.dtype = dtype
        self.pairs = pairs
        self._peak = peak
        if peak is not None:
            check_positive(peak=peak)
        elif device is not None:
            self._peak = peak_flops(device, dtype)
        self.stages: list[Stage] = []

    @property
    def model_flops(self) -> int:
        """Model FLOPs of the run, with the pairs of :attr:`pairs`."""
        return self.model_flops_with(self.pairs)

    def model_flops_with(self, pairs: str) -> int:
        """Return the model FLOPs of the run, with pairs counted as ``all``, ``causal`` or ``packed``."""
        return sum(stage.model_flops(pairs) for stage in self.stages)

    @property
    def hardware_flops(self) -> int:
        """Hardware FLOPs of the run: model FLOPs, recomputation, and the padding of experts."""
        return sum(stage.hardware_flops(self.pairs) for stage in self.stages)

    @property
    def recompute_flops(self) -> int:
        """FLOPs of recomputation in the run, which are part of hardware FLOPs."""
        return sum(stage.of_all_tokens(stage.step.recompute_flops(self.pairs)) for stage in self.stages)

    @property
    def optimizer_flops(self) -> int:
        """Operations of the optimizer in the run, which are part of neither model nor hardware FLOPs."""
        return sum(stage.optimizer_flops for stage in self.stages)

    @property
    def tokens(self) -> int:
        """Tokens (or samples) of the run."""
        return sum(stage.tokens for stage in self.stages)

    @property
    def peak(self) -> float | None:
        """FLOP/s of one device; None if no device is known."""
        return self._peak

    @property
    def device_hours_name(self) -> str:
        """The unit of device hours."""
        is_gpu = self.device is not None and find_device(self.device).kind == "gpu"
        return "GPU-hours" if is_gpu else "device-hours"

    @cached_property
    def rules(self) -> list[RuleFigure]:
        """The figures of published rules, with the causes of the differences."""
        return rule_figures(self.stages)

    @property
    def counts(self) -> dict[str, int]:
        """FLOPs of the run by count, side by side.

        ``all pairs`` and ``causal`` are model FLOPs, as is ``packed``, if documents are packed. ``6ND`` is present if
        the rule applies; for a mixture of experts it is ``6ND, active``. ``hardware`` are hardware FLOPs of all pairs.
        """
        counts = {ALL: self.model_flops_with("all"), CAUSAL: self.model_flops_with("causal")}
        if any(stage.step.packing.documents for stage in self.stages):
            counts[PACKED] = self.model_flops_with("packed")
        rule = next((each for each in self.rules if each.rule.convention == "6nd-all" and each.flops is not None), None)
        if rule is not None and rule.flops is not None:
            counts[rule.rule.label] = rule.flops
        return {**counts, HARDWARE: sum(stage.hardware_flops() for stage in self.stages)}

    def mfu(self, step_seconds: float, stage: str | None = None) -> float:
        """Return the model FLOPs utilization: a share of the peak of all devices.

        Args:
            step_seconds: measured seconds of one step of the optimizer, with all of its micro-batches.
            stage: the stage that was measured; default: the only one.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if no device is known.
        """
        found = self._stage(stage)
        flops = found.step.model_flops(self.pairs) * found.micro_batches
        return mfu(flops, step_seconds, self.devices, self.known_peak())

    def hfu(self, step_seconds: float, stage: str | None = None) -> float:
        """Return the hardware FLOPs utilization; arguments as for :meth:`mfu`."""
        found = self._stage(stage)
        flops = found.step.hardware_flops(self.pairs) * found.micro_batches
        return mfu(flops, step_seconds, self.devices, self.known_peak())

    def seconds_by_stage(self, step_seconds: float | Mapping[str, float] | None) -> dict[str, float]:
        """Return measured seconds per step by name of the stage; a single number is for the only stage.

        Raises:
            TypeError, ValueError: if a stage is unknown or not named, or if a duration is not positive.
        """
        if step_seconds is None:
            return {}
        given = step_seconds if isinstance(step_seconds, Mapping) else {self._stage(None).name: step_seconds}
        for name, seconds in given.items():
            check_positive(step_seconds=seconds)
            self._stage(name)
        return dict(given)

    def days(self, mfu: float, step_seconds: Mapping[str, float] | None = None) -> float:
        """Return how many days the run takes: stages by measured seconds per step, others at this MFU.

        Raises:
            TypeError, ValueError: if ``mfu`` is not between 0 and 1.
            CostError: if no device is known.
        """
        check_positive(mfu=mfu)
        if mfu > 1:
            raise ValueError(f"mfu must be a share of at most 1, 0.4 for 40 % (got {mfu!r})")
        measured = step_seconds or {}
        left = sum(stage.model_flops(self.pairs) for stage in self.stages if stage.name not in measured)
        seconds = sum(stage.steps * measured[stage.name] for stage in self.stages if stage.name in measured)
        return (left / (self.devices * self.known_peak() * mfu) + seconds) / SECONDS_PER_DAY

    def __repr__(self) -> str:
        stages = "1 stage" if len(self.stages) == 1 else f"{len(self.stages)} stages"
        return f"<TrainingLedger: {stages}, {self.model_flops:.3e} model FLOPs ({self.pairs} pairs)>"

    def _stage(self, name: str | None) -> Stage:
        if name is None and len(self.stages) == 1:
            return self.stages[0]
        names = [stage.name for stage in self.stages]
        if name is None:
            raise ValueError(f"stage= is needed (stages: {', '.join(names) or 'none'})")
        if name not in names:
            raise ValueError(unknown("stage", name, names))
        return self.stages[names.index(name)]

    def known_peak(self) -> float:
        """Return the peak of one device in FLOP/s.

        Raises:
            CostError: if no device is known.
        """
        if self._peak is None:
            raise CostError("utilization needs device= or peak= of the ledger (`costcore devices` lists devices)")
        return self._peak


# JSON document: a record of the training compute of a model.
#
# It lists exceeded thresholds; legal consequences are not for a tool to decide.


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
    device = None if ledger.device is None else find_device(ledger.device)
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


# Published rules, compared with the count.


FLOPS_PER_PARAMETER = 6
"""FLOPs of training per token and weight: two in the forward and four in the backward pass."""


class Rule(NamedTuple):
    """A published rule.

    Attributes:
        convention: the name of the convention that has its terms.
        label: its usual name.
        parameters: which parameters it multiplies by six; None if it uses the dimensions of a GPT instead.
        is_hardware: whether it gives hardware FLOPs, with recomputation.
        skips_padding: whether it multiplies by tokens without padding.
        is_active: whether it counts active experts only; a rule for models with experts.
    """

    convention: str
    label: str
    parameters: Callable[[Transformer], int] | None
    is_hardware: bool = False
    skips_padding: bool = False
    is_active: bool = False


RULES = (
    Rule("6nd-all", "6ND, active", lambda sizes: sizes.n_all, is_active=True),
    Rule("6nd-all", "6ND", lambda sizes: sizes.n_all),
    Rule("6nd", "6ND without embeddings", lambda sizes: sizes.n_params),
    Rule("palm-all", "PaLM 6N + 12LHQT", lambda sizes: sizes.n_all),
    Rule("palm", "PaLM without embeddings", lambda sizes: sizes.n_params),
    Rule("nanogpt", "nanoGPT", lambda sizes: sizes.n_all - sizes.n_positions),
    Rule("torchtitan", "torchtitan, since 2025", lambda sizes: sizes.n_all - sizes.n_tables),
    Rule("llm-foundry", "llm-foundry", lambda sizes: sizes.n_all),
    Rule("hf-trainer", "Hugging Face Trainer", lambda sizes: sizes.n_all - sizes.n_tables),
    Rule("aws-flops-meter", "AWS FLOPs meter", lambda sizes: sizes.n_all, skips_padding=True),
    Rule("megatron", "Megatron of 2021 (GPT), model FLOPs", None),
    Rule("megatron-full", "Megatron of 2021 (GPT), full recomputation", None, is_hardware=True),
    Rule("korthikanti", "Korthikanti, selective recomputation", None, is_hardware=True),
)

CAUSES: Mapping[str, str] = {
    "embedding": "lookup tables that the rule counts as products, or output-layer weights that it leaves out",
    "experts": "experts that a token is not routed to",
    "attention": "products of attention that the rule leaves out or counts differently",
    "frozen": "gradients that are not computed: of frozen parameters, and of activations before the first trained one",
    "recompute": "recomputation that the rule assumes, less what was recomputed",
    "padding": "padding tokens, which devices compute but the rule leaves out",
    "capacity": "rows by which experts pad to their capacity",
    "shape": "norms, biases, weights not used exactly once per token, products of other activations, or an "
    "architecture other than GPT",
}
"""The causes of differences between a rule and the count."""


@dataclass(frozen=True)
class RuleFigure:
    """The figure of a rule for a run.

    Attributes:
        rule: the rule.
        flops: its FLOPs; None if it cannot be applied.
        counted: the count to compare with: model FLOPs of all pairs, or hardware FLOPs.
        causes: the parts of the difference ``flops - counted`` by cause, :data:`CAUSES`, without zeros. They add up.
        reason: why it cannot be applied.
    """

    rule: Rule
    flops: int | None
    counted: int
    causes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def difference(self) -> int | None:
        """The FLOPs of the rule minus the counted FLOPs."""
        return None if self.flops is None else self.flops - self.counted

    @property
    def share(self) -> float | None:
        """The difference as a share of the count."""
        return None if self.difference is None or not self.counted else self.difference / self.counted


def rule_figures(stages: Iterable[Stage]) -> list[RuleFigure]:
    """Return the figure of every rule for a run."""
    stages = list(stages)
    has_experts = any(stage.step.idle_expert_parameters for stage in stages)
    return [_figure(rule, stages) for rule in RULES if has_experts or not rule.is_active]


def _figure(rule: Rule, stages: list[Stage]) -> RuleFigure:
    counted = sum(stage.of_all_tokens(_counted(rule, stage.step)) for stage in stages)
    total, causes = 0, Counter[str]()
    try:
        for stage in stages:
            flops, parts = _of_step(rule, stage.step)
            of_stage = stage.of_all_tokens(flops)
            if rule.skips_padding:
                padding = -round(of_stage * stage.padding_share)
                of_stage += padding
                causes["padding"] += padding
            total += of_stage
            causes.update({cause: stage.of_all_tokens(part) for cause, part in parts.items()})
    except CostError as error:
        return RuleFigure(rule, None, counted, {}, str(error))
    causes["shape"] += total - counted - sum(causes.values())  # rounding of the parts
    return RuleFigure(rule, total, counted, {cause: causes[cause] for cause in CAUSES if causes[cause]})


def _counted(rule: Rule, step: Step) -> int:
    return step.hardware_flops() if rule.is_hardware else step.model_flops()


def _of_step(rule: Rule, step: Step) -> tuple[int, dict[str, int]]:
    counts = count(step.report.trace, find_convention(rule.convention))
    terms = {line.rule: int(line.amount) for line in counts.lines}
    total = sum(terms.values())
    forward = {kind: 2 * step.macs("forward", kind) for kind in KINDS}
    full = 3 * sum(forward.values())
    causes = {
        "attention": terms.get("attention", 0) - 3 * forward[ATTENTION],
        "frozen": terms.get("frozen", 0) + full - step.model_flops(),
    }
    if rule.is_hardware:
        causes["recompute"] = terms["recompute"] - step.recompute_flops()
        causes["capacity"] = -step.capacity_flops
    if rule.parameters is not None:
        sizes = Transformer(step.report.trace)
        per_parameter = FLOPS_PER_PARAMETER * int(sizes.tokens)
        of_idle_experts = per_parameter * step.idle_expert_parameters
        if rule.is_active:
            total -= of_idle_experts
        else:
            causes["experts"] = of_idle_experts
        causes["embedding"] = per_parameter * (int(rule.parameters(sizes)) - _multiplied(step))
    # The rest, so that the causes add up exactly.
    causes["shape"] = total - _counted(rule, step) - sum(causes.values())
    return total, causes


def _multiplied(step: Step) -> int:
    # All parameters without embedding tables, which are read but not multiplied.
    trace = step.report.trace
    looked_up = {each for call in trace.calls if call.layer.op == "embedding" for each in call.parameters}
    multiplied = {each for product in step.products for each in product.call.parameters}
    only = looked_up - multiplied
    return step.parameters.total - sum(int(trace.run.parameters[each]) for each in only)


# Thresholds of training compute in laws and guidelines.


FILE = Path(__file__).with_name("thresholds.toml")


@dataclass(frozen=True)
class Threshold:
    """A threshold at a date.

    Attributes:
        name: the law or guideline, and the models it covers.
        basis: the compared amount.
        source: the text of the law.
        checked: ``read`` or ``second source``.
        status: whether it is in force.
        as_of: the date on which it was looked up.
        value: FLOPs; None if it is a share of a base model.
        share_of_base: the share; None if it is a number of FLOPs.
    """

    name: str
    basis: str
    source: str
    checked: str
    status: str
    as_of: str
    value: int | None = None
    share_of_base: Fraction | None = None


@dataclass(frozen=True)
class Crossing:
    """A threshold and the counts of a run that exceed it.

    Attributes:
        threshold: the threshold.
        value: its FLOPs; None if it is a share of a base model that was not given.
        exceeded: whether each count exceeds it, by name of the count; empty if ``value`` is None.
    """

    threshold: Threshold
    value: int | None
    exceeded: Mapping[str, bool]

    @property
    def depends_on_count(self) -> bool:
        """Whether some counts exceed it and others do not."""
        return len(set(self.exceeded.values())) > 1


@cache
def thresholds() -> tuple[Threshold, ...]:
    """Return the thresholds of ``thresholds.toml``, in its order."""
    content, _ = read_toml(FILE, CostError)
    return tuple(
        Threshold(
            **{key: str(entry[key]) for key in ("name", "basis", "source", "checked", "status", "as_of")},
            value=whole(entry["value"], "value") if "value" in entry else None,
            share_of_base=Fraction(entry["share_of_base"]) if "share_of_base" in entry else None,
        )
        for entry in content["thresholds"]
    )


def crossings(counts: Mapping[str, int], base: int | None, known: Sequence[Threshold] | None = None) -> list[Crossing]:
    """Return which counts exceed which thresholds.

    Args:
        counts: FLOPs of the run by name of the count, without the base model.
        base: FLOPs of the training of the base model, which are part of cumulative compute; None if there is none.
        known: the thresholds; default: :func:`thresholds`.
    """
    return [_crossing(threshold, counts, base) for threshold in (thresholds() if known is None else known)]


def _crossing(threshold: Threshold, counts: Mapping[str, int], base: int | None) -> Crossing:
    if threshold.share_of_base is None:
        value, total = threshold.value, base or 0
    else:
        value, total = None if base is None else int(threshold.share_of_base * base), 0
    exceeded = {} if value is None else {name: flops + total > value for name, flops in counts.items()}
    return Crossing(threshold, value, exceeded)


# Arguments: whole numbers written as 15.6e12, and shares.


def whole(value: object, name: str) -> int:
    """Return a positive integer, which may be written as a float without a fraction: ``3.8e25`` is 38 * 10**24.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not positive, or not whole.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a whole number (got {value!r})")
    number = Fraction(repr(value)) if isfinite(value) else Fraction(0)  # as it is written, not as it is stored
    if number <= 0 or number.denominator != 1:
        raise ValueError(f"{name} must be a positive whole number (got {value!r})")
    return int(number)


def check_share(value: object, name: str) -> float:
    """Return a share of at least 0 and less than 1.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a share such as 0.1 (got {value!r})")
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1 (got {value!r})")
    return float(value)


# Stages.


@dataclass(frozen=True)
class Stage:
    """A part of a training run with equal steps.

    A step runs ``accumulation`` micro-batches on each of ``replicas`` copies of the model, then the optimizer.

    Attributes:
        name: its name, ``pre-training``.
        step: the captured micro-batch.
        tokens: tokens (or samples) of the stage, padding included.
        accumulation: micro-batches of one replica per step.
        replicas: copies of the model that each run their own micro-batches.
        padding_share: the share of tokens that are padding; devices compute them too.
        because: why the stage is part of the total.
        largest: the search for the largest micro-batch that fits the device, which ``step`` captured; None unless
            requested.
    """

    name: str
    step: Step
    tokens: int
    accumulation: int = 1
    replicas: int = 1
    padding_share: float = 0.0
    because: str = ""
    largest: LargestBatch | None = None

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step, of all its micro-batches."""
        return self.step.tokens * self.micro_batches

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a step."""
        return self.accumulation * self.replicas

    @property
    def steps(self) -> Fraction:
        """Number of steps; not whole if the tokens do not fill the last one."""
        return Fraction(self.tokens, self.tokens_per_step)

    @property
    def optimizer_flops(self) -> int:
        """Operations of the optimizer in the stage: once per step, however many replicas share it."""
        return round(self.steps * self.step.optimizer_flops)

    def of_all_tokens(self, flops: int) -> int:
        """Scale FLOPs of a micro-batch to the stage, rounded to a whole number."""
        return round(Fraction(flops * self.tokens, self.step.tokens))

    def model_flops(self, pairs: str = "all") -> int:
        """Return the model FLOPs of the stage."""
        return self.of_all_tokens(self.step.model_flops(pairs))

    def hardware_flops(self, pairs: str = "all") -> int:
        """Return the hardware FLOPs of the stage."""
        return self.of_all_tokens(self.step.hardware_flops(pairs))
