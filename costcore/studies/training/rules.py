"""What published rules say of a training step, beside the count, with the causes of the difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from costcore.analyses.conventions.catalog import named
from costcore.analyses.conventions.counting import count
from costcore.analyses.conventions.whole import Transformer
from costcore.errors import CostError
from costcore.studies.training.products import ATTENTION, KINDS
from costcore.studies.training.stage import Stage
from costcore.studies.training.step import Step

FLOPS_PER_PARAMETER = 6
"""FLOPs of training per token and weight: two in the forward and four in the backward pass."""


class Rule(NamedTuple):
    """A published rule.

    Attributes:
        convention: the convention with its terms.
        label: how people write it.
        parameters: the parameters that it multiplies by six; None if it takes the shape of GPT for granted instead.
        is_hardware: whether it states hardware FLOPs, with recomputation.
        skips_padding: whether it multiplies by tokens without padding.
        is_active: whether it leaves out experts that a token does not meet. Models without such do not have the rule.
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
    "embedding": "tables that are looked up and do not multiply, or weights of the output layer that are left out",
    "experts": "experts that a token does not meet",
    "attention": "scores and values: left out, or other than in the forward and backward pass of this model",
    "frozen": "gradients that are not computed, of frozen parameters and of what nothing trained precedes",
    "recompute": "recomputation that the rule supposes, less what was recomputed",
    "padding": "padding that the devices compute",
    "capacity": "rows by which experts pad to their capacity",
    "shape": "norms, biases, weights that multiply other than once per token, products of other activations, or a "
    "shape other than that of GPT",
}
"""The causes of differences between a rule and the count."""


@dataclass(frozen=True)
class RuleFigure:
    """What a rule says of a run.

    Attributes:
        rule: the rule.
        flops: its FLOPs; None if it cannot be applied.
        counted: what it is compared with: model FLOPs of all pairs, or hardware FLOPs if it states these.
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
        """The FLOPs of the rule less those counted."""
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
    causes["shape"] += total - counted - sum(causes.values())  # what rounding of each part left
    return RuleFigure(rule, total, counted, {cause: causes[cause] for cause in CAUSES if causes[cause]})


def _counted(rule: Rule, step: Step) -> int:
    return step.hardware_flops() if rule.is_hardware else step.model_flops()


def _of_step(rule: Rule, step: Step) -> tuple[int, dict[str, int]]:
    """Return the FLOPs of a rule for a micro-batch, and the causes of the difference, which add up exactly.

    Raises:
        CostError: if the rule cannot be applied.
    """
    counts = count(step.report.trace, named(rule.convention))
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
    causes["shape"] = total - _counted(rule, step) - sum(causes.values())
    return total, causes


def _multiplied(step: Step) -> int:
    """Return all parameters without the tables that are only looked up."""
    trace = step.report.trace
    looked_up = {each for call in trace.calls if call.layer.op == "embedding" for each in call.parameters}
    multiplied = {each for product in step.products for each in product.call.parameters}
    only = looked_up - multiplied
    return step.parameters.total - sum(int(trace.run.parameters[each]) for each in only)
