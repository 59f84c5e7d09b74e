"""The answers as lines of text."""

from __future__ import annotations

from costcore.analyses.memory.report import Memory
from costcore.studies.batch_size.accumulation import Accumulation
from costcore.studies.batch_size.largest import LargestBatch
from costcore.studies.batch_size.recomputation import Recomputation
from costcore.studies.batch_size.rule_of_thumb import RuleOfThumb
from costcore.text.amounts import readable

WORDS = {
    "parameter": "parameters",
    "buffer": "buffers",
    "input": "inputs",
    "gradient": "gradients",
    "optimizer": "state of the optimizer",
    "saved": "saved for the backward pass",
    "output": "outputs",
    "temporary": "temporaries",
}
"""What the kinds of blocks are called."""


FIXED = ("parameter", "buffer", "gradient", "optimizer")
"""The kinds that do not depend on the batch."""


def size(nbytes: int) -> str:
    """Return bytes in units of the largest fitting prefix."""
    return readable(nbytes, "bytes", 2)


def largest_line(found: LargestBatch) -> str:
    """Return the largest batch with its peak, or what one sample needs and what would help."""
    if not found.batch:
        fewest = min(found.table)
        who = "one sample needs" if fewest == 1 else f"{fewest} samples, the fewest that run, need"
        return f"largest batch: 0: {who} {size(found.needed)}, {_what_exceeds(found)}"
    line = f"largest batch: {found.batch}, which needs {size(found.needed)} of {size(found.limit.memory)}"
    if found.next_peak is None:
        return line
    more = found.limit.needed(found.next_peak) - found.limit.memory
    return f"{line}; {found.batch + 1} would need {size(more)} more than that"


def _what_exceeds(found: LargestBatch) -> str:
    """Return what exceeds the limit if no batch fits, and what would help, with the bytes that it can save."""
    limit, kinds = found.limit, found.by_kind
    if limit.room <= 0:
        return "context and workspace alone exceed the limit"
    model = sum(nbytes for kind, nbytes in kinds.items() if kind in FIXED)
    state, saved = kinds.get("optimizer", 0), kinds.get("saved", 0)
    alone = f"{size(model)} of it for parameters{', gradients and state' if state else ''}"
    savings = [("an optimizer with less state", state), ("checkpointing", saved)]
    helps = [f"{what} (up to {size(nbytes)})" for what, nbytes in sorted(savings, key=lambda item: -item[1]) if nbytes]
    helps.append("a smaller dtype, or sharding" if model > limit.room else "a smaller input or dtype")
    return f"{size(found.needed - limit.memory)} too much, {alone}; what helps: {', '.join(helps)}"


def peak_line(found: LargestBatch) -> str:
    """Return what makes up the peak, the largest kinds first, and what a further sample adds."""
    memory, limit = found.memory, found.limit
    line = f"peak {size(memory.peak)} of tensors, {memory.where}: {_kinds(memory)}"
    name = limit.allocator
    if name != "tensors":
        allocator = memory.allocator(name)
        amounts = ("allocated", "least_memory", "reserved")
        allocated, least, reserved = (size(getattr(allocator, name)) for name in amounts)
        line += f"; {name}: {allocated} allocated in at least {least} of segments, {reserved} if there is room"
    slopes = [per_sample for start, _, per_sample in found.of_batch if start <= max(found.batch, 1)]
    return f"{line}; a further sample adds {size(slopes[-1])}" if slopes else line


def _kinds(memory: Memory) -> str:
    """Return the kinds of blocks at the peak, the largest first; those of less than 1 % together."""
    kinds = sorted(memory.by_kind.items(), key=lambda item: -item[1])
    shares = [(WORDS[kind], nbytes) for kind, nbytes in kinds if 100 * nbytes >= memory.peak]
    rest = memory.peak - sum(nbytes for _, nbytes in shares)
    shares += [("others", rest)] if rest else []
    return ", ".join(f"{word} {size(nbytes)} ({100 * nbytes / memory.peak:.0f} %)" for word, nbytes in shares)


def accumulation_line(plan: Accumulation) -> str:
    """Return the micro-batches of a global batch."""
    shared = f" in {plan.replicas} replicas" if plan.replicas > 1 else ""
    start = f"global batch {plan.global_batch}{shared}:"
    if not plan.steps:
        return f"{start} a micro-batch of one sample does not fit"
    if plan.steps == 1:
        return f"{start} fits without accumulation, peak {size(plan.peak)}"
    last = f", the last of {plan.last}" if plan.last != plan.micro_batch else ""
    even = f" (or {plan.steps} of at most {plan.even})" if plan.even != plan.micro_batch else ""
    return (
        f"{start} {plan.steps} micro-batches of {plan.micro_batch}{last}{even}, peak {size(plan.peak)} with the "
        "gradients of earlier ones"
    )


def recomputation_line(found: Recomputation) -> str:
    """Return what checkpointing saves."""
    if not found.module:
        reasons = "; ".join(f"{name} fails {problem}" for name, problem in found.problems.items())
        return f"checkpointing: no repeated module lowers the peak{': ' if reasons else ''}{reasons}"
    saved = 100 * (found.peak_before - found.peak) / found.peak_before
    return (
        f"checkpointing {found.count} {found.module} at batch {found.batch}: peak {size(found.peak)} instead of "
        f"{size(found.peak_before)} (-{saved:.0f} %), {100 * found.more_flops:.0f} % more FLOPs; largest batch "
        f"{found.largest}"
    )


def limit_line(found: LargestBatch, rule: RuleOfThumb | None) -> str:
    """Return the terms of the limit, and the rule of thumb beside what was measured."""
    line = f"limit: {found.limit.describe()}"
    if rule is None:
        return line
    return (
        f"{line}; rule of thumb: {rule.per_parameter} B per parameter, {size(rule.nbytes)} (measured "
        f"{size(rule.measured)}) without activations"
    )
