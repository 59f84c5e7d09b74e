"""What would make a model fit: each way is captured, and states what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from costcore.analyses.memory.arena_report import Arena
from costcore.errors import CostError
from costcore.reports.report import Report
from costcore.studies.batch_size.captures import Captures
from costcore.studies.batch_size.inputs import batch_of, inputs_of_batch
from costcore.studies.batch_size.largest import find_largest
from costcore.studies.batch_size.recomputation import MAX_CLASSES, repeated_classes
from costcore.studies.fit.attempts import Attempts
from costcore.studies.fit.needs import Needs
from costcore.studies.fit.quantized import is_quantized, quantized

LEAST_SAVING = 0.01
"""What saves less, such as a few scales of a model that is quantized already, is no help unless it is enough."""

MOST_DOUBLINGS = 6
"""Parameters are sharded over at most 2**6 devices."""


@dataclass(frozen=True)
class Remedy:
    """One way to need less memory.

    Attributes:
        name: ``batch``, ``checkpoint``, ``bfloat16``, ``autocast``, ``fully_sharded``, several of these joined by
            ``+``, ``inplace``, ``order`` or ``int8``.
        what: what is done, as a phrase.
        needs: bytes by memory, of a capture of the model run in this way; empty if it cannot run so.
        fits: whether that fits the target.
        options: the options of :func:`costcore.estimate` or :meth:`costcore.Report.arena` that do it.
        problem: why the model cannot run in this way; empty if it can.
    """

    name: str
    what: str
    needs: Mapping[str, int]
    fits: bool
    options: Mapping[str, Any]
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        return {**vars(self), "needs": dict(self.needs), "options": dict(self.options)}


def remedies(attempts: Attempts, report: Report) -> list[Remedy]:
    """Return what lowers the needs of a run, or cannot be tried: what fits first, then what needs the least.

    Args:
        attempts: captures of the model.
        report: the run that does not fit.
    """
    tried = _Remedies(attempts, report)
    found = [*(tried.of_code() if attempts.records else tried.of_arena())]
    return sorted(found, key=lambda each: (not each.fits, bool(each.problem), *each.needs.values()))


class _Remedies:
    """Tries the remedies of one run."""

    def __init__(self, attempts: Attempts, report: Report) -> None:
        self._attempts = attempts
        self._report = report
        self._needs = attempts.needs(report)

    def of_code(self) -> Iterator[Remedy]:
        """Yield the remedies of a model that is run, whose memory is recorded."""
        if not self._attempts.can_capture:
            return
        yield from self._smaller_batch(self._largest_of_code)
        trains, singles = self._attempts.trains, []
        if trains:
            singles += [*self._checkpointing()]
        masters = ", with float32 master weights" if trains and "optimizer" in self._attempts.options else ""
        singles += [*self._captured("bfloat16", f"weights and activations in bfloat16{masters}", precision="bfloat16")]
        if trains:
            singles += [*self._captured("autocast", "autocast to bfloat16", precision="autocast")]
        yield from singles
        sharded = [*self._sharded({}, "", "")]
        yield from sharded
        if any(each.fits for each in singles):
            return
        helping = [each for each in singles if each.needs and each.needs["memory"] < self._needs.amounts["memory"]]
        halves = min((each for each in helping if each.name != "checkpoint"), key=_least, default=None)
        saved = min((each for each in helping if each.name == "checkpoint"), key=_least, default=None)
        joined = [each for each in (saved, halves) if each is not None]
        enough = next((each for each in sharded if each.fits), None)
        if enough is not None:
            for each in joined:
                tried = self._sharded(each.options, f"{each.name}+", f"{each.what}, ")
                yield from (other for other in tried if other.fits and _devices(other) < _devices(enough))
        elif joined:
            options = {key: value for each in joined for key, value in each.options.items()}
            name, what = "+".join(each.name for each in joined), ", ".join(each.what for each in joined)
            both = [*self._captured(name, what, **options)] if len(joined) > 1 else []
            yield from both
            if not any(each.fits for each in both):
                yield from self._sharded(options, f"{name}+", f"{what}, ")

    def of_arena(self) -> Iterator[Remedy]:
        """Yield the remedies of an inference whose values are placed before it starts."""
        if self._attempts.can_capture:
            yield from self._smaller_batch(self._largest_of_file)
        arena = self._attempts.arena(self._report)
        align = self._attempts.align
        yield from self._placed(
            *("inplace", "element-wise results written over operands", {"inplace": True}),
            lambda: self._report.arena(align, inplace=True),
        )
        yield from self._placed("order", "calls in the best order", {}, arena.in_best_order)
        small = self._report.trace if is_quantized(self._report.trace) else quantized(self._report.trace)
        if any(new.call.layer is not old.call.layer for new, old in zip(small, self._report.trace, strict=True)):
            name, what = "+int8", ", weights and values as int8, biases as int32"
            yield from self._placed(name[1:], what[2:], {}, lambda: Arena(small, align))
        else:
            name = what = ""
        yield from self._placed(
            *(f"inplace+order{name}", f"results written over operands, calls in the best order{what}"),
            *({"inplace": True}, lambda: Arena(small, align, inplace=True).in_best_order()),
        )

    def _made(self, name: str, what: str, options: Mapping[str, Any], needs: Needs) -> Iterator[Remedy]:
        """Yield a remedy if it lowers what is exceeded by more than a rounding of its figures."""
        before, over = self._needs.amounts, self._needs.excess(self._attempts.target)
        is_enough = not needs.excess(self._attempts.target)
        if is_enough or any(needs.amounts[memory] < (1 - LEAST_SAVING) * before[memory] for memory in over):
            yield Remedy(name, what, needs.amounts, is_enough, options)

    def _captured(self, name: str, what: str, **options: Any) -> Iterator[Remedy]:
        if not self._attempts.takes(options):
            return
        try:
            needs = self._attempts.needs(self._attempts.report(**options))
        except (CostError, TypeError, ValueError) as error:
            yield Remedy(name, what, {}, False, options, str(error))
        else:
            yield from self._made(name, what, options, needs)

    def _placed(self, name: str, what: str, options: Mapping[str, Any], make: Callable[[], Arena]) -> Iterator[Remedy]:
        yield from self._made(name, what, options, self._attempts.needs(self._report, make()))

    def _checkpointing(self) -> Iterator[Remedy]:
        """Yield what checkpointing the best class of repeated modules needs, or why none can be checkpointed."""
        counts = repeated_classes(self._report)
        tried: list[Remedy] = []
        for name in [*counts][:MAX_CLASSES]:
            what = f"checkpointing of {counts[name]} {name}"
            tried += self._captured("checkpoint", what, checkpoint=name)
        able = [each for each in tried if each.needs]
        yield from [min(able, key=_least)] if able else tried[:1]

    def _sharded(self, options: Mapping[str, Any], name: str, what: str) -> Iterator[Remedy]:
        """Yield the fewest devices over which sharded parameters fit, or what the most of them need."""
        best: list[Remedy] = []
        low, high = 0, MOST_DOUBLINGS + 1
        while high - low > 1:
            power = (low + high) // 2
            mesh = {"mesh": {"fsdp": 2**power}, "plan": "fully_sharded"}
            words = f"{what}fully sharded over {2**power} devices, each with these inputs"
            tried = [*self._captured(f"{name}fully_sharded", words, **options, **mesh)]
            if not tried or tried[0].problem:
                yield from tried
                return
            best = tried if tried[0].fits or not best or not best[0].fits else best
            low, high = (low, power) if tried[0].fits else (power, high)
        yield from best

    def _smaller_batch(self, largest: Callable[[int], tuple[int, Needs] | None]) -> Iterator[Remedy]:
        batch = batch_of(self._attempts.inputs)
        if batch < 2:
            return
        try:
            found = largest(batch)
        except CostError:  # the inputs have no batch dimension after all, or the model needs this one
            return
        if found is not None:
            yield from self._made("batch", f"a batch of {found[0]}", {"batch": found[0]}, found[1])

    def _largest_of_code(self, batch: int) -> tuple[int, Needs] | None:
        """Return the largest batch that fits, and what it needs; None if no batch fits."""
        attempts = self._attempts
        assert attempts.limit is not None
        captures = Captures(attempts.model, inputs_of_batch(attempts.inputs), attempts.options)
        found = find_largest(captures, attempts.limit).batch
        return (found, attempts.needs(captures.report(found))) if 0 < found < batch else None

    def _largest_of_file(self, batch: int) -> tuple[int, Needs] | None:
        """Return the largest batch that fits, and what it needs: by halving, as alignment makes sizes grow in steps."""
        attempts, inputs = self._attempts, inputs_of_batch(self._attempts.inputs)
        if "flash" in self._needs.excess(attempts.target):
            return None
        low, high, best = 0, batch, self._needs
        while high - low > 1:
            size = (low + high) // 2
            needs = attempts.needs(attempts.report(inputs(size)))
            if needs.excess(attempts.target):
                high = size
            else:
                low, best = size, needs
        return (low, best) if low else None


def _devices(remedy: Remedy) -> int:
    return prod(remedy.options["mesh"].values())


def _least(remedy: Remedy) -> int:
    return remedy.needs["memory"]
