"""The largest batch that fits a device, and plans for more samples: gradient accumulation and checkpointing.

Two captures with memory give the peak of every batch in closed form; the resulting batch and the next are captured to
verify it. Without a closed form, further captures search for the batch. The last section words the results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.memory.allocator import Envelope, Line, difference, envelope_of
from costcore.analyses.memory.live_memory import Memory
from costcore.api.estimate import estimate, model_and_inputs
from costcore.errors import CostError, CostWarning, short_repr
from costcore.ledger.ledger import remarks_on_mode
from costcore.registry import frontend_of
from costcore.reports.report import Report
from costcore.studies.batch_inputs import (
    InputsOfBatch,
    Limit,
    couplings,
    inputs_of_batch,
    largest_batch,
    make_limit,
)
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import BLOCKS
from costcore.tables.html import Part, filled, section
from costcore.tables.pictures import Picture, Theme, filled_bars
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, short
from costcore.text.output import Column
from costcore.trace.call import Module


@dataclass(frozen=True, repr=False)
class Fit(Result):
    """The largest batch, and plans for more samples.

    Attributes:
        largest: the largest batch.
        accumulation: the plan for a global batch; None for inference.
        recomputation: the savings by checkpointing; None for inference.
        rule: the rule of thumb for parameters and state; None if there is none.
    """

    largest: LargestBatch
    accumulation: Accumulation | None
    recomputation: Recomputation | None
    rule: RuleOfThumb | None

    @property
    def lines(self) -> list[str]:
        """The answer: five lines for training, three for inference."""
        lines = [largest_line(self.largest), peak_line(self.largest)]
        if self.accumulation is not None:
            lines.append(accumulation_line(self.accumulation))
        if self.recomputation is not None:
            lines.append(recomputation_line(self.recomputation))
        return [*lines, limit_line(self.largest, self.rule)]

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return "\n".join(self.lines)

    def _content(self) -> Content:
        largest = self.largest._content()
        for table in largest.tables:
            table.is_open = False  # the lines are the answer in text
        return largest._replace(title="Largest batch that fits", remarks=[*self.lines, *self.notes])

    def _pictures(self) -> str:
        return self.largest._pictures()

    def _picture(self, theme: Theme) -> Picture:
        return self.largest._picture(theme)

    @property
    def notes(self) -> list[str]:
        """The assumptions, without repetition."""
        notes = self.largest.notes
        plan = () if self.accumulation is None else self.accumulation.notes
        return [*notes, *(note for note in plan if note.removeprefix("micro-batch: ") not in notes)]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        rule = self.rule
        return {
            **super().to_dict(),
            "largest": self.largest.to_dict(),
            "accumulation": None if self.accumulation is None else self.accumulation.to_dict(),
            "recomputation": None if self.recomputation is None else self.recomputation.to_dict(),
            "rule_of_thumb": None if rule is None else {**rule._asdict(), "nbytes": rule.nbytes},
            "lines": self.lines,
        }


def max_batch(
    model: Any,
    inputs: Any,
    memory: int | str | PathLike[str] | Device,
    *,
    train: bool = False,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    allocator: str | None = None,
    context: int | str | None = None,
    workspace: int | str = 0,
    fragmentation: float = 0.0,
    **options: Any,
) -> LargestBatch:
    """Return the largest batch that fits into the memory of a device.

    Two captures give the peak of every batch in closed form. The resulting batch and the next one are captured
    too, to verify that the first fits and the second does not. If the peak has no closed form, captures of further
    batches find the largest one, and the notes of the result say so.

    A batch fits if ``peak * (1 + fragmentation) + workspace + context <= memory``.

    Args:
        model: a ``torch.nn.Module``. It is neither changed nor run; each module is in its present train or eval mode.
        inputs: inputs as :func:`costcore.estimate` takes them, with a name for the batch dimension, ``("batch", 3, 224,
            224)`` or ``{"input_ids": (("batch", 128), "int64")}``. Without a name it is the first dimension of every
            input, whatever its size. Or a function that returns the inputs of a batch.
        memory: the memory of the device in bytes, or as ``"24 GiB"``; or a device, its name or an alias such as
            ``"h100"``.
        train: whether to run a training step instead of inference; an optimizer or a loss implies it.
        optimizer: the optimizer of the step, and ``loss`` its loss; see :func:`costcore.estimate`.
        loss: as above. If it needs targets, it must create them for the batch size of its argument.
        allocator: ``"cuda"``: the peak is the minimum memory with which PyTorch's caching allocator runs on a GPU;
            optimizers work on lists there (``foreach``). ``"tensors"``: the peak of tensors. None: ``"cuda"`` if the
            memory is that of an NVIDIA GPU by name, as in :func:`costcore.fit`; else ``"tensors"``.
        context: memory that a process takes before its first tensor. None: the measured value in the file of the
            device; without one, 500 MiB is assumed (0 for a device other than a GPU).
        workspace: memory that kernels take besides tensors.
        fragmentation: the share of the peak that an allocator loses on top of it.
        options: further options of :func:`costcore.estimate`, such as ``dtype`` or ``checkpoint``.

    Raises:
        CostError: if the model is not supported, fails on a batch, or its peak does not grow with the batch.
        TypeError, ValueError: if an argument is invalid.
    """
    limit = make_limit(memory, context, workspace, fragmentation, allocator)
    captures = _captures(model, inputs, limit.allocator, train, optimizer, loss, options)
    return find_largest(captures, limit)


def accumulation(
    model: Any,
    inputs: Any,
    *,
    global_batch: int,
    memory: int | str | PathLike[str] | Device,
    replicas: int = 1,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    allocator: str | None = None,
    context: int | str | None = None,
    workspace: int | str = 0,
    fragmentation: float = 0.0,
    **options: Any,
) -> Accumulation:
    """Return the micro-batches into which gradient accumulation divides a batch that does not fit.

    From the second micro-batch on, the gradients of the earlier ones are alive through the forward pass. The
    micro-batch is the largest one that fits with them.

    Args:
        model: the model, and ``inputs``, ``memory``, ``optimizer``, ``loss``, ``allocator``, ``context``,
            ``workspace``, ``fragmentation`` and ``options`` as in :func:`max_batch`.
        inputs: as above.
        global_batch: samples per step of the optimizer.
        memory: as above.
        replicas: how many devices share the samples, each with a copy of the model.
        optimizer: as above.
        loss: as above.
        allocator: as above.
        context: as above.
        workspace: as above.
        fragmentation: as above.
        options: as above.

    Raises:
        CostError, TypeError, ValueError: as :func:`max_batch`; for a ``global_batch`` or ``replicas`` below 1 too.
    """
    check_global_batch(global_batch, replicas)
    limit = make_limit(memory, context, workspace, fragmentation, allocator)
    captures = _captures(model, inputs, limit.allocator, True, optimizer, loss, options)
    return accumulate(captures, limit, global_batch, replicas, find_largest(captures, limit))


def fit(
    model: Any,
    inputs: Any,
    limit: Limit,
    *,
    train: bool,
    optimizer: Any = None,
    global_batch: int,
    replicas: int = 1,
    options: Mapping[str, Any],
) -> Fit:
    """Return the largest batch and, for training, the plans for more samples; arguments as for :func:`accumulation`."""
    captures = _captures(model, inputs, limit.allocator, train, optimizer, None, options)
    is_training = captures.options["backward"]
    largest = find_largest(captures, limit)
    n_parameters = captures.report(FIRST).trace.run.n_params_model or 0
    return Fit(
        largest,
        accumulate(captures, limit, global_batch, replicas, largest) if is_training else None,
        recompute(captures, limit, largest) if is_training else None,
        rule_of_thumb(largest.memory, n_parameters, is_training, optimizer),
    )


def _captures(
    model: Any, inputs: Any, allocator: str, train: bool, optimizer: Any, loss: Any, options: Mapping[str, Any]
) -> Captures:
    is_step = train is True or optimizer is not None or loss is not None
    model, inputs = model_and_inputs(model, inputs, is_step=is_step)
    check_model(model)
    return Captures(model, inputs_of_batch(inputs), step_options(train, optimizer, loss, options, allocator))


def step_options(train: bool, optimizer: Any, loss: Any, options: Mapping[str, Any], allocator: str) -> dict[str, Any]:
    """Return the options of :func:`costcore.estimate` for an inference or a training step.

    Args:
        train: whether it is a step; an optimizer or a loss implies it.
        optimizer: the optimizer.
        loss: the loss.
        options: further options.
        allocator: one of :data:`costcore.studies.batch_inputs.ALLOCATORS`; on CUDA, optimizers work on lists.

    Raises:
        TypeError: if ``train`` is not a bool.
    """
    if not isinstance(train, bool):
        raise TypeError(f"train must be True or False (got {train!r})")
    backward = train or optimizer is not None or loss is not None or options.get("backward") is True
    chosen: dict[str, Any] = {**options, "backward": backward}
    if optimizer is not None:
        is_named = allocator == "cuda" and isinstance(optimizer, str) and optimizer in MOMENTS
        chosen["optimizer"] = f"{optimizer}_foreach" if is_named else optimizer
    if loss is not None:
        chosen["loss"] = loss
    return chosen


# Gradient accumulation.


@dataclass(frozen=True, repr=False)
class Accumulation(Result):
    """The micro-batches that make up a global batch.

    Attributes:
        global_batch: samples per step of the optimizer, in all replicas.
        replicas: how many devices share a global batch, each with a copy of the model.
        micro_batch: samples per forward and backward pass; 0 if one sample does not fit.
        steps: passes per step of the optimizer in each replica; 0 if one sample does not fit.
        last: samples of the last pass, at most ``micro_batch``.
        even: the smallest micro-batch with the same number of passes, which makes them as equal as possible.
        peak: the peak of a micro-batch in bytes. From the second pass on, the gradients of the earlier ones are alive.
        limit: the terms of the limit.
        notes: assumptions, and layers that couple the samples of a batch.
    """

    global_batch: int
    replicas: int
    micro_batch: int
    steps: int
    last: int
    even: int
    peak: int
    limit: Limit
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        passes = f"{self.steps} x {self.micro_batch}" if self.steps else "one sample does not fit"
        return f"<Accumulation of {self.global_batch}: {passes}, peak {self.peak} bytes>"

    def _content(self) -> Content:
        shared = f"in {self.replicas} replicas" if self.replicas > 1 else ""
        last = f"the last of {self.last:,}" if self.last != self.micro_batch else ""
        even = (
            f"{self.steps:,} of at most {self.even:,} are as equal as possible" if self.even != self.micro_batch else ""
        )
        none = "" if self.steps else "one sample does not fit"
        figures = [
            Figure("global_batch", "Global batch", self.global_batch, "count", shared),
            Figure("micro_batch", "Micro-batch", self.micro_batch, "count", none),
            Figure("steps", "Passes per step", self.steps, "count", "; ".join(filter(None, [last, even]))),
            Figure("peak", "Peak", self.peak, "bytes"),
        ]
        remarks = [f"limit: {self.limit.describe()}", *self.notes]
        return Content("Gradient accumulation", figures, (), remarks, n_digits=2)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        names = ("global_batch", "replicas", "micro_batch", "steps", "last", "even", "peak")
        return {**super().to_dict(), **{name: getattr(self, name) for name in names}, "notes": list(self.notes)}


def accumulate(
    captures: Captures, limit: Limit, global_batch: int, replicas: int, largest: LargestBatch
) -> Accumulation:
    """Return the plan for a global batch.

    Args:
        captures: captures of training steps.
        limit: the terms of the limit.
        global_batch: samples per step of the optimizer.
        replicas: how many devices share them.
        largest: the largest batch without accumulation.

    Raises:
        CostError: if the model fails on the batches that are tried.
    """
    share = -(-global_batch // replicas)
    if largest.batch >= share:
        peak = limit.peak_of(captures.memory(share))
        return Accumulation(global_batch, replicas, share, 1, share, share, peak, limit, ())
    if not largest.batch:
        return Accumulation(global_batch, replicas, 0, 0, 0, 0, largest.peak, limit, ())
    found = find_largest(captures.with_options(step="accumulated"), limit)
    notes = (
        *couplings(captures.report(FIRST), captures.report(FIRST + 1)),
        *(f"micro-batch: {note}" for note in found.notes),
    )
    micro = found.batch
    if not micro:
        return Accumulation(global_batch, replicas, 0, 0, 0, 0, found.peak, limit, notes)
    steps = -(-share // micro)
    last, even = share - (steps - 1) * micro, -(-share // steps)
    return Accumulation(global_batch, replicas, micro, steps, last, even, found.peak, limit, notes)


def check_global_batch(global_batch: object, replicas: object) -> None:
    """Check the arguments of a plan.

    Raises:
        TypeError, ValueError: if one is not a positive integer, or there are more replicas than samples.
    """
    for name, value in (("global_batch", global_batch), ("replicas", replicas)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer (got {short_repr(value)})")
        if value < 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")
    if replicas > global_batch:  # type: ignore[operator]
        raise ValueError(f"{replicas} replicas cannot share a global batch of {global_batch}")


# The largest batch, and the parts of its peak.


FIRST = 2
"""The closed form comes from this batch and the next: with a single sample some operators run differently."""

_BATCH = Column("batch", "Batch", "count")


def _shown(nbytes: int) -> Formatted:
    return Formatted(nbytes, short(nbytes, "bytes"))


@dataclass(frozen=True, repr=False)
class LargestBatch(Result):
    """The largest batch that fits; 0 if one sample does not.

    Attributes:
        batch: the number of samples.
        peak: the captured peak of a run with this batch in bytes; if no batch fits, of the smallest batch that runs.
        next_peak: the captured peak with one more sample, which does not fit; None if it cannot run.
        limit: the terms of the limit.
        memory: the memory of the run with this peak.
        table: the peak by batch: powers of two, the largest batch, the next one, and all other captured ones.
        of_batch: the peak as a piecewise linear function of the batch, from two samples on, if ``is_closed_form``: for
            each line its first batch, the bytes there, and the bytes per further sample.
        is_closed_form: whether all captured peaks equal ``of_batch``. If not, every peak in the table was captured.
        notes: assumptions, and how the batch was found without a closed form.
    """

    batch: int
    peak: int
    next_peak: int | None
    limit: Limit
    memory: Memory
    table: Mapping[int, int]
    of_batch: Sequence[Line]
    is_closed_form: bool
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<LargestBatch {self.batch}: peak {self.peak} bytes, limit {self.limit.room} bytes>"

    def _content(self) -> Content:
        runs = f"batch {self.batch:,}" if self.batch else "the smallest batch that runs"
        none = "" if self.batch else "not even the smallest batch that runs fits"
        room = f"of {short(self.limit.memory, 'bytes')}"
        figures = [
            Figure("batch", "Largest batch", self.batch, "count", none),
            Figure("needed", f"Needed by {runs}", _shown(self.needed), "bytes", room),
            Figure("peak", "Peak", self.peak, "bytes", self.memory.where),
        ]
        if self.next_peak is not None:
            needed = self.limit.needed(self.next_peak)
            excess = f"{short(needed - self.limit.memory, 'bytes')} over the limit"
            figures.append(Figure("next", f"Needed by batch {self.batch + 1:,}", _shown(needed), "bytes", excess))
        kinds = [{"kind": kind, "nbytes": nbytes} for kind, nbytes in self.by_kind.items()]
        batches = [{"batch": batch, "nbytes": nbytes} for batch, nbytes in self.table.items()]
        tables = [
            Table("Alive at the peak", [BLOCKS["kind"], BLOCKS["nbytes"]], kinds, n_digits=2),
            Table("Peak by batch", [_BATCH, BLOCKS["nbytes"]], batches, n_digits=2),
        ]
        remarks = [f"limit: {self.limit.describe()}", *self.notes]
        return Content("Largest batch", figures, tables, remarks, n_digits=2, model=self.memory.model)

    def _pictures(self) -> str:
        parts = self.limit.filled_by(self.by_kind, self.peak)
        return section(f"What fills {short(self.limit.memory, 'bytes')}", memory_bar(parts, self.limit.memory))

    def _picture(self, theme: Theme) -> Picture:
        parts = self.limit.filled_by(self.by_kind, self.peak)
        title = f"{self.memory.model or 'Memory'}: batch {self.batch:,}"
        return filled_bars({"memory": (parts, self.limit.memory)}, title, theme)

    @property
    def needed(self) -> int:
        """The memory that this peak needs in total, with context, workspace and fragmentation."""
        return self.limit.needed(self.peak)

    @property
    def by_kind(self) -> dict[str, int]:
        """The bytes of tensors alive at the peak, by kind."""
        return self.memory.by_kind

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        return {
            **super().to_dict(),
            "batch": self.batch,
            "peak": self.peak,
            "next_peak": self.next_peak,
            "needed": self.needed,
            "limit": self.limit.to_dict(),
            "at": self.memory.at,
            "by_kind": self.by_kind,
            "saved": self.memory.saved,
            "table": {str(batch): peak for batch, peak in self.table.items()},
            "of_batch": [list(line) for line in self.of_batch],
            "is_closed_form": self.is_closed_form,
            "notes": list(self.notes),
        }


def find_largest(captures: Captures, limit: Limit) -> LargestBatch:
    """Return the largest batch of a model that fits.

    Raises:
        CostError: if the model fails on the batches that are tried, or its peak does not grow with the batch.
    """
    first, second = (captures.memory(batch) for batch in (FIRST, FIRST + 1))
    envelope, why_not = _envelope(first, second)
    notes = remarks_on_mode(captures.report(FIRST).trace)
    if why_not:
        notes.append(f"the peak has no closed form: of the runs with {FIRST} and {FIRST + 1} samples, {why_not}")

    def peak_of(batch: int) -> int:
        try:
            return limit.peak_of(captures.memory(batch))
        except CostError as error:
            if batch > 1:
                raise
            notes.append(str(error))
            return limit.room + 1

    batch = largest_batch(peak_of, envelope, limit.room)
    captured = dict(sorted(captures.memories.items()))
    is_closed_form = not why_not and all(
        memory.peak == envelope.peak(each) for each, memory in captured.items() if each >= FIRST
    )
    if not why_not and not is_closed_form:
        notes.append("the peak has no closed form: captured peaks differ from the lines through two runs")
    if not is_closed_form:
        notes.append(f"the batch was found by captures ({', '.join(map(str, captured))})")
    # If no batch fits, the smallest one that runs.
    shown = captured.get(batch) or captured[min(captured)]
    assumptions = captures.report(max(batch, FIRST)).assumptions
    notes += dict.fromkeys(f"assumed: {assumption.what}" for assumption in assumptions)
    lines = envelope.lines_from(FIRST) if is_closed_form else []
    table = {each: limit.peak_of(memory) for each, memory in captured.items()}
    if is_closed_form and limit.allocator == "tensors":
        table |= {2**power: envelope.peak(2**power) for power in range(1, batch.bit_length())}
    next_peak = limit.peak_of(captured[batch + 1]) if batch + 1 in captured else None
    return LargestBatch(
        batch=batch,
        peak=limit.peak_of(shown),
        next_peak=next_peak,
        limit=limit,
        memory=shown,
        table=dict(sorted(table.items())),
        of_batch=lines,
        is_closed_form=is_closed_form,
        notes=(*notes, *shown.notes),
    )


def _envelope(first: Memory, second: Memory) -> tuple[Envelope, str]:
    # The peak by batch, extrapolated from the memory of two batches, and why it is not exact.
    why = difference(first.ledger, second.ledger)
    if not why:
        return envelope_of(first.ledger, second.ledger, FIRST), ""
    # The two runs differ in more than sizes: a line through both peaks only guides the search.
    per_sample = max(second.peak - first.peak, 0)
    return Envelope([(first.peak - FIRST * per_sample, per_sample)]), why


# Captures of one model by batch, each made once.


class Captures:
    """Reports of one model by batch, with memory.

    Args:
        model: the model.
        inputs: returns the inputs of a batch.
        options: the options of :func:`costcore.estimate`.

    Attributes:
        reports, memories: the reports so far and their memory, by batch.
    """

    def __init__(self, model: Any, inputs: InputsOfBatch, options: Mapping[str, Any]) -> None:
        self.model = model
        self.inputs = inputs
        self.options = options
        self.reports: dict[int, Report] = {}
        self.memories: dict[int, Memory] = {}

    def with_options(self, **options: Any) -> Captures:
        """Return captures of the same model with further options."""
        return Captures(self.model, self.inputs, {**self.options, **options})

    def report(self, batch: int) -> Report:
        """Return the report of a batch.

        Raises:
            CostError: if the model fails; the message includes the batch.
        """
        if batch not in self.reports:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CostWarning)  # about missing formulas: memory is known without
                try:
                    report = estimate(self.model, self.inputs(batch), memory=True, **self.options)
                except CostError as error:
                    raise CostError(f"with a batch of {batch}: {error}") from error
            assert report.memory is not None
            self.reports[batch], self.memories[batch] = report, report.memory
        return self.reports[batch]

    def memory(self, batch: int) -> Memory:
        """Return the memory of a batch.

        Raises:
            CostError: if the model fails; the message includes the batch.
        """
        self.report(batch)
        return self.memories[batch]


def check_model(model: Any) -> None:
    """Check that the memory of a model can be recorded.

    Raises:
        CostError: if it cannot; the message says which models can.
    """
    spec = frontend_of(model)
    if "memory" not in spec.model_options:
        raise CostError(
            f"cannot find the largest batch: the {spec.name} frontend does not record the memory of a run (expected a "
            "torch.nn.Module). For an ONNX model, report.arena() has the peak of one batch"
        )


# Activation checkpointing of repeated modules, measured by captures.


MAX_CLASSES = 3
"""The number of classes tried, by saved bytes."""


@dataclass(frozen=True)
class Recomputation:
    """The memory of a run in which the modules of one class are checkpointed.

    Attributes:
        module: name of the class; empty if no class is worth it.
        count: the number of modules, without modules inside another module of the class.
        batch: the batch of both peaks.
        peak: the peak with checkpointing, in bytes.
        peak_before: the peak without it.
        largest: the largest batch with it.
        more_flops: recomputed FLOPs as a share of the FLOPs of a step.
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
    """Return the savings by checkpointing the class with the lowest peak, among those with the most saved bytes.

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
    """Return the number of modules of each repeated class, by saved bytes in descending order.

    Modules inside another module of their class do not count, nor do classes of the framework without children:
    checkpointing one operator saves nothing. Of classes with equal sums the outer one comes first.
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
    # Outermost first.
    names = path.split(".") if path else []
    paths = [".".join(names[: i + 1]) for i in range(len(names))]
    return [*dict.fromkeys(modules[each].type for each in paths if each in modules)]


def _counts(modules: Mapping[str, Module], own: tuple[str, ...]) -> dict[str, int]:
    parents = {path.rpartition(".")[0] for path in modules if path}
    counts: dict[str, int] = {}
    for path, module in modules.items():
        # Checkpointing one operator of the framework saves nothing; a module inside its class is recomputed with it.
        is_operator = path not in parents and module.bases[:1] and module.bases[0].startswith(own)
        is_inner = module.type in _classes_around(path.rpartition(".")[0], modules)
        if path and not (is_operator or is_inner or module.same_as):
            counts[module.type] = counts.get(module.type, 0) + 1
    return counts


def _recomputed(report: Report) -> float:
    # Over the FLOPs without recomputation.
    flops = {phase: sums["flops"] for phase, sums in report.by("phase").items()}
    again = flops.get("recompute", 0)
    return float(again / max(sum(flops.values()) - again, 1))


# Rule of thumb for the memory of parameters, gradients and optimizer state.
#
# AdamW keeps a parameter of 4 bytes, its gradient and two moments: 16 bytes (Rajbhandari et al. 2020,
# arXiv:1910.02054, section 3.1, without its copies for mixed precision). Activations and temporaries are excluded.


MOMENTS = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
"""The number of values that an optimizer keeps per parameter."""

STATE = ("parameter", "gradient", "optimizer")
"""The kinds of blocks in the rule."""


class RuleOfThumb(NamedTuple):
    """The rule and the measured bytes.

    Attributes:
        per_parameter: bytes per parameter.
        parameters: number of parameters.
        measured: parameters, gradients and the state of the optimizer at the end of a step.
    """

    per_parameter: int
    parameters: int
    measured: int

    @property
    def nbytes(self) -> int:
        """The bytes by the rule."""
        return self.per_parameter * self.parameters


def rule_of_thumb(memory: Memory, n_parameters: int, train: bool, optimizer: object) -> RuleOfThumb | None:
    """Return the rule for a run; None if it has none.

    The rule needs parameters of one item size, and an optimizer given by name or none.

    Args:
        memory: the memory of the run.
        n_parameters: number of parameters of the model.
        train: whether it is a training step.
        optimizer: the optimizer, as :func:`costcore.estimate` takes it.
    """
    alive = [block for block in memory.ledger.blocks if block.died is None]
    parameters = sum(block.nbytes for block in alive if block.kind == "parameter")
    name = optimizer.removesuffix("_foreach") if isinstance(optimizer, str) else optimizer
    if not n_parameters or parameters % n_parameters or name not in (None, *MOMENTS):
        return None
    copies = 1 + train + (MOMENTS[name] if isinstance(name, str) else 0)
    measured = sum(block.nbytes for block in alive if block.kind in STATE)
    return RuleOfThumb(copies * (parameters // n_parameters), n_parameters, measured)


# The results as lines of text.


WORDS = {
    "parameter": "parameters",
    "buffer": "buffers",
    "input": "inputs",
    "gradient": "gradients",
    "optimizer": "state of the optimizer",
    "cached": "KV cache",
    "saved": "saved for the backward pass",
    "output": "outputs",
    "temporary": "temporaries",
    "value": "activations",
    "file": "rest of the file",
    "others": "allocator",
    "workspace": "workspace",
    "context": "context of the process",
}
"""The kinds of blocks in words."""


def memory_bar(parts: Mapping[str, int], limit: int, name: str = "memory") -> str:
    """Return a bar of bytes by kind, below a limit, as HTML."""
    return filled([Part(kind, WORDS[kind], nbytes) for kind, nbytes in parts.items()], limit, name)


FIXED = ("parameter", "buffer", "gradient", "optimizer")
"""The kinds that do not depend on the batch."""


def size(nbytes: int) -> str:
    """Return bytes with the largest fitting prefix: ``324.3 MiB``."""
    return short(nbytes, "bytes")


def largest_line(found: LargestBatch) -> str:
    """Return the largest batch with its peak, or the needs of one sample and suggestions."""
    if not found.batch:
        fewest = min(found.table)
        who = "one sample needs" if fewest == 1 else f"{fewest} samples, the fewest that run, need"
        return f"largest batch: 0: {who} {size(found.needed)}, {_what_exceeds(found)}"
    line = f"largest batch: {found.batch:,}, which needs {size(found.needed)} of {size(found.limit.memory)}"
    if found.next_peak is None:
        return line
    more = found.limit.needed(found.next_peak) - found.limit.memory
    return f"{line}; {found.batch + 1:,} would exceed it by {size(more)}"


def _what_exceeds(found: LargestBatch) -> str:
    limit, kinds = found.limit, found.by_kind
    if limit.room <= 0:
        return "context and workspace alone exceed the limit"
    model = sum(nbytes for kind, nbytes in kinds.items() if kind in FIXED)
    state, saved = kinds.get("optimizer", 0), kinds.get("saved", 0)
    alone = f"{size(model)} of it for parameters{', gradients and state' if state else ''}"
    savings = [("an optimizer with less state", state), ("checkpointing", saved)]
    helps = [f"{what} (up to {size(nbytes)})" for what, nbytes in sorted(savings, key=lambda item: -item[1]) if nbytes]
    helps.append("a smaller dtype, or sharding" if model > limit.room else "a smaller input or dtype")
    return f"{size(found.needed - limit.memory)} over the limit, {alone}; what helps: {', '.join(helps)}"


def peak_line(found: LargestBatch) -> str:
    """Return the parts of the peak by kind, the largest first, and the bytes of a further sample."""
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
    # Kinds below 1 % are shown together.
    kinds = sorted(memory.by_kind.items(), key=lambda item: -item[1])
    shares = [(WORDS[kind], nbytes) for kind, nbytes in kinds if 100 * nbytes >= memory.peak]
    rest = memory.peak - sum(nbytes for _, nbytes in shares)
    shares += [("others", rest)] if rest else []
    return ", ".join(f"{word} {size(nbytes)} ({100 * nbytes / memory.peak:.0f} %)" for word, nbytes in shares)


def accumulation_line(plan: Accumulation) -> str:
    """Return the micro-batches of a global batch."""
    shared = f" in {plan.replicas} replicas" if plan.replicas > 1 else ""
    start = f"global batch {plan.global_batch:,}{shared}:"
    if not plan.steps:
        return f"{start} a micro-batch of one sample does not fit"
    if plan.steps == 1:
        return f"{start} fits without accumulation, peak {size(plan.peak)}"
    steps = f"{plan.steps:,} micro-batches of {plan.micro_batch:,}"
    if plan.last != plan.micro_batch:
        steps = f"{plan.steps - 1:,} micro-batches of {plan.micro_batch:,} and one of {plan.last:,}"
    even = f" (or {plan.steps:,} of at most {plan.even:,})" if plan.even != plan.micro_batch else ""
    return f"{start} {steps}{even}, peak {size(plan.peak)} with accumulated gradients"


def recomputation_line(found: Recomputation) -> str:
    """Return the savings by checkpointing."""
    if not found.module:
        reasons = "; ".join(f"{name} fails {problem}" for name, problem in found.problems.items())
        return f"checkpointing: no repeated module lowers the peak{': ' if reasons else ''}{reasons}"
    saved = 100 * (found.peak_before - found.peak) / found.peak_before
    return (
        f"checkpointing {found.count} {found.module} at batch {found.batch:,}: peak {size(found.peak)} instead of "
        f"{size(found.peak_before)} (-{saved:.0f} %), {100 * found.more_flops:.0f} % more FLOPs; largest batch "
        f"{found.largest:,}"
    )


def limit_line(found: LargestBatch, rule: RuleOfThumb | None) -> str:
    """Return the terms of the limit, and the rule of thumb with the measured bytes."""
    line = f"limit: {found.limit.describe()}"
    if rule is None:
        return line
    return (
        f"{line}; rule of thumb: {rule.per_parameter} B per parameter, {size(rule.nbytes)} (captured "
        f"{size(rule.measured)}), without activations"
    )
