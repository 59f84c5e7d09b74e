"""Check whether a model fits a device, and what would make it fit.

The memory of a PyTorch run is recorded; the values of an inference file are placed in an arena. If the model does not
fit, it is captured again with each suggestion (smaller batch, checkpointing, bfloat16, sharding, int8, …).
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from os import PathLike
from shlex import quote
from typing import Any

from costcore.analyses.devices.device import Device, device_names, find_device
from costcore.analyses.memory.arena import Arena
from costcore.analyses.timing.bound import NOT_MULTIPLIED
from costcore.analyses.timing.times import layer_at, replace_tensors
from costcore.api.estimate import estimate, model_and_inputs
from costcore.errors import ArenaError, CostError, CostWarning, short_repr, unknown
from costcore.ir import Layer, Tensor
from costcore.numbers import Dim
from costcore.registry import frontend_of
from costcore.reports.report import Report
from costcore.studies.batch_inputs import Limit, batch_of, inputs_of_batch, make_limit, runs_cuda
from costcore.studies.batch_size import (
    MAX_CLASSES,
    WORDS,
    Captures,
    find_largest,
    memory_bar,
    repeated_classes,
    step_options,
)
from costcore.tables.answer import Content, Figure
from costcore.tables.html import section
from costcore.tables.html import text as html_text
from costcore.tables.pictures import Picture, Theme, filled_bars
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, in_thousands, parse_bytes, refuse_few_bytes, short
from costcore.text.output import Column
from costcore.trace.call import Call
from costcore.trace.run import Dataflow, Value
from costcore.trace.trace import Trace, has_names, with_tensors

# The verdict.


STATES = {"parameter": "weights", "gradient": "gradients", "optimizer": "optimizer states"}
"""The names of the memory blocks that persist between training steps, by kind."""

MIXED = {"precision": "bfloat16"}
"""Mixed precision: 16-bit weights, and float32 copies in the optimizer (Micikevicius et al., arXiv:1710.03740)."""

NO_TRAINING = (
    "the memory of a training step is known only for PyTorch models on a target with a single memory: files and "
    "other frameworks do not show which tensors a backward pass keeps"
)


@dataclass(frozen=True, repr=False)
class FitResult(Result):
    """Whether a model fits a device.

    Attributes:
        fits: whether it does; None if unknown, with the reason in :attr:`because`.
        target: the memories of the device.
        needs: bytes by memory of the target; empty if unknown.
        because: the reason, as a sentence.
        suggestions: changes that make it fit or need less memory; the model was traced again with each.
        batch: the largest batch that fits, if the inputs name their batch; otherwise None.
        peak: the maximum bytes of values alive at once; None if unknown.
        where: the call at the peak, with its module.
        notes: assumptions.
        parts: bytes by kind, of each memory of the target; empty if unknown.
        model: the class of the model; empty if unknown.
    """

    fits: bool | None
    target: Target
    needs: Mapping[str, int]
    because: str
    suggestions: tuple[Suggestion, ...] = ()
    batch: int | None = None
    peak: int | None = None
    where: str = ""
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    model: str = ""

    def __repr__(self) -> str:
        return f"<FitResult: {self._word}, {self.because}>"

    @property
    def _word(self) -> str:
        return {True: "fits", False: "does not fit", None: "cannot say"}[self.fits]

    @property
    def limit(self) -> Mapping[str, int]:
        """The bytes of each memory of the target."""
        return self.target.memories

    def _content(self) -> Content:
        figures = [Figure("verdict", f"On {self.target.name}", self._word)]
        if self.batch is not None:
            figures.append(Figure("batch", "Largest batch", self.batch, "count"))
        for memory, nbytes in self.needs.items():
            title = f"Needed {memory}"
            figures.append(Figure(f"needs_{memory}", title, _shown(nbytes), "bytes", f"of {_text(self.limit[memory])}"))
        if self.peak is not None:
            figures.append(Figure("peak", "Peak of values", _shown(self.peak), "bytes", self.where))
        problems = [f"{each.what} cannot be tried: {each.problem}" for each in self.suggestions if each.problem]
        tables = [self._table()] if len(problems) < len(self.suggestions) else []
        remarks = [self.because, *problems, *self.notes]
        return Content("Does it fit?", figures, tables, remarks, n_digits=2, model=self.model)

    def _pictures(self) -> str:
        bars = [
            (f"<h3>{html_text(memory)}</h3>" if len(self.parts) > 1 else "")
            + memory_bar(kinds, self.limit[memory], memory)
            for memory, kinds in self.parts.items()
        ]
        return section(f"What fills {self.target.name}", "".join(bars))

    def _picture(self, theme: Theme) -> Picture:
        memories = {memory: (kinds, self.limit[memory]) for memory, kinds in self.parts.items()}
        return filled_bars(memories, f"{self.model or 'Memory'} on {self.target.name}: {self._word}", theme)

    def _table(self) -> Table:
        columns = [Column("what", "What helps"), Column("fits", "Fits")]
        columns += [Column(memory, f"Needed {memory}", "bytes") for memory in self.limit]
        rows = [
            {"what": each.what, "fits": "yes" if each.fits else "no", **each.needs}
            for each in self.suggestions
            if not each.problem
        ]
        is_enough = any(each.fits for each in self.suggestions)
        title = "What would make it fit" if is_enough else "What lowers the needs, but not enough"
        return Table(title, columns, rows, n_digits=2)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types; ``needs`` and ``limit`` are bytes by memory."""
        names = ("fits", "because", "batch", "peak", "where")
        return {
            **super().to_dict(),
            **{name: getattr(self, name) for name in names},
            "target": self.target.name,
            "needs": dict(self.needs),
            "limit": dict(self.limit),
            "parts": {memory: dict(kinds) for memory, kinds in self.parts.items()},
            "suggestions": [each.to_dict() for each in self.suggestions],
            "notes": list(self.notes),
        }


def fit(
    model: Any,
    inputs: Any = None,
    target: object = None,
    *,
    train: bool = False,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    context: int | str | None = None,
    workspace: int | str = 0,
    fragmentation: float = 0.0,
    align: int = 64,
    suggestions: bool = True,
    **options: Any,
) -> FitResult:
    """Return whether a model fits a device, and what would make it fit if it does not.

    ::

        fit(net, (8, 3, 224, 224), "24 GB", train=True, optimizer="adamw")
        fit("model.onnx", None, "256 KB sram, 1 MB flash").fits

    The memory of a PyTorch model is recorded (:attr:`costcore.Report.memory`): it fits if ``peak * (1 + fragmentation)
    + workspace + context`` is at most the memory. On an NVIDIA device the peak is the minimum memory with which
    PyTorch's caching allocator runs. For files, and for targets with SRAM and flash, the values of an inference are
    placed in an arena (:meth:`costcore.Report.arena`). SRAM holds the arena. Flash holds the weights, or the whole file
    if its runtime keeps the file (TensorFlow Lite). A target with one memory holds both.

    Args:
        model: a model as :func:`costcore.estimate` takes it, or a report.
        inputs: its inputs. If a dimension has a name, ``("batch", 3, 224, 224)``, the largest batch that fits is found;
            the model fits if a batch of one does (PyTorch).
        target: ``"24 GB"``, ``"256 KB sram, 1 MB flash"``, ``"sram=256KB,flash=1MB"``, a device, its name or an alias
            such as ``"h100"``.
        train: whether to run a training step instead of inference; an optimizer or a loss implies it (PyTorch).
        optimizer: the optimizer of the step, and ``loss`` its loss; see :func:`costcore.estimate`.
        loss: as above.
        context: memory that a process takes before its first tensor. Default: the measured value in the file of the
            device. Without such a value: 500 MiB (assumed) for a GPU, and for an amount such as ``"24 GB"`` if the
            model is code; otherwise 0.
        workspace: memory that kernels take besides tensors.
        fragmentation: the memory that an allocator loses to fragmentation on top of the peak, as a share of the peak.
        align: the alignment of values that are placed, in bytes.
        suggestions: whether to trace the model with suggested changes too, if it does not fit.
        options: further options of :func:`costcore.estimate`.

    Raises:
        CostError: if the model is not supported, or fails.
        TypeError, ValueError: if an argument is invalid.
    """
    aim = target_of(target)
    if not aim.memories:
        example = "256 KB sram, 1 MB flash" if aim.device and aim.device.kind == "mcu" else "24 GB"
        why = f'the size of the memory of {aim.name} is unknown: state it instead of the name, as in "{example}"'
        return FitResult(None, aim, {}, why)
    is_step = train is True or optimizer is not None or loss is not None
    model, inputs = model_and_inputs(model, inputs, is_step=is_step)
    given = step_options(train, optimizer, loss, options, "cuda" if runs_cuda(aim.device) else "tensors")
    is_code = _records_memory(model) and not aim.is_divided
    if given["backward"] and not is_code and not isinstance(model, Report):
        return FitResult(None, aim, {}, NO_TRAINING)
    given = {key: value for key, value in given.items() if value or key in options}  # not every frontend accepts all
    limit = None
    if not aim.is_divided:
        size = aim.name if in_thousands(aim.name) else aim.memories["memory"]
        taken = 0 if context is None and aim.device is None and not is_code else context
        limit = make_limit(aim.device or size, taken, workspace, fragmentation, None if is_code else "tensors")
    attempts = Attempts(model, inputs, aim, limit, given, is_code, align)
    if is_code and not isinstance(model, Report) and has_names(with_tensors(inputs)):
        return _largest(attempts, suggestions)
    report = attempts.report()
    if "precision" not in options and _has_half_moments(report) and attempts.takes(("precision",)):
        attempts.options = {**attempts.options, **MIXED}
        report = attempts.report()
    if not is_code and report.symbols:
        return FitResult(None, aim, {}, _open_sizes(model, report))
    try:
        needs = attempts.needs(report)
    except ArenaError as error:
        return FitResult(None, aim, {}, str(error))
    return _verdict(attempts, report, needs, suggestions)


def _open_sizes(model: Any, report: Report) -> str:
    numbers = ", ".join(f'"{name}": 1' for name in report.symbols)
    options = " ".join(f"--dim {quote(f'{name}=1')}" for name in report.symbols)
    how = "state numbers in the shapes of inputs"
    if isinstance(model, Report) or "dims" in frontend_of(model).options:
        how = f"state numbers, as with {options}, or dims={{{numbers}}} in Python"
    first = next((each["type"] for each in report.ignored_layers.values()), "")
    unknown = f"; the sizes of {first} are unknown" if first else ""
    return f"sizes depend on {', '.join(report.symbols)}: {how}{unknown}"


def _unknown_notes(report: Report) -> list[str]:
    names = dict.fromkeys(each["type"] for each in report.ignored_layers.values())
    return [f"{', '.join(names)}: only the sizes of the results are known"] if names else []


def _records_memory(model: Any) -> bool:
    if isinstance(model, Report):
        return model.memory is not None
    return "memory" in frontend_of(model).model_options


def _largest(attempts: Attempts, tries: bool) -> FitResult:
    assert attempts.limit is not None
    inputs = attempts.inputs
    sized = inputs_of_batch(inputs)
    captures = Captures(attempts.model, sized, attempts.options)
    found = find_largest(captures, attempts.limit)
    batch = found.batch or min(captures.memories)
    attempts.inputs = sized(batch)
    report = captures.report(batch)
    if "precision" not in attempts.options and _has_half_moments(report) and attempts.takes(("precision",)):
        attempts.inputs, attempts.options = inputs, {**attempts.options, **MIXED}
        return _largest(attempts, tries)
    verdict = _verdict(attempts, report, attempts.needs(report), tries)
    return FitResult(**{**vars(verdict), "batch": found.batch})


def _verdict(attempts: Attempts, report: Report, needs: Needs, tries: bool) -> FitResult:
    target, over = attempts.target, needs.excess(attempts.target)
    notes = [f"limit: {attempts.limit.describe()}"] if attempts.limit else []
    if not attempts.records:
        arena = attempts.arena(report)
        notes += [*arena.notes, *_unknown_notes(report), *_planner_notes(arena, target)]
    elif report.memory is not None:
        notes += report.memory.notes
        notes += _dtype_notes(report, attempts.options.get("precision") == MIXED["precision"])
    notes += dict.fromkeys(f"assumed: {assumption.what}" for assumption in report.assumptions)
    notes += [f"limit: {target.read}"] * bool(target.read and not attempts.limit)
    notes += _binary_notes(needs, target)
    return FitResult(
        fits=not over,
        target=target,
        needs=needs.amounts,
        because=_reason(needs, target, over),
        suggestions=tuple(suggestions(attempts, report)) if over and tries else (),
        peak=needs.peak,
        where=needs.where,
        notes=tuple(notes),
        parts=needs.parts,
        model=report.trace.run.model,
    )


def _main_dtypes(report: Report) -> dict[str, str]:
    # The dtype with most bytes: a few float32 norms do not make a bfloat16 model float32.
    sizes: dict[str, Counter[str]] = {}
    records = report.trace.records
    for block in report.memory.ledger.blocks if report.memory is not None else ():
        in_step = 0 <= block.call < len(records) and records[block.call].call.phase == "optimizer"
        # The optimizer step frees the gradients of float32 copies at its end.
        if block.kind in STATES and not (in_step and block.kind == "gradient"):
            sizes.setdefault(block.kind, Counter())[block.dtype] += block.nbytes
    return {kind: sizes[kind].most_common(1)[0][0] for kind in STATES if kind in sizes}


def _has_half_moments(report: Report) -> bool:
    # Nobody trains with moments in 16 bits: weights in bfloat16 mean mixed precision.
    return _main_dtypes(report).get("optimizer") in ("float16", "bfloat16")


def _dtype_notes(report: Report, is_mixed: bool) -> Iterator[str]:
    found = _main_dtypes(report)
    if "gradient" in found:
        each = ", ".join(f"{STATES[kind]} in {dtype}" for kind, dtype in found.items())
        yield f"{each}{': mixed precision, with float32 copies of the weights' if is_mixed else ''}"


def _binary_notes(needs: Needs, target: Target) -> Iterator[str]:
    # Vendors of boards write KB for 1024 bytes, those of GPUs GB for 1024**3.
    if target.binary and bool(needs.excess(target)) != bool(needs.excess(replace(target, memories=target.binary))):
        again = re.sub(r"([KMGTkmgt])[Bb]\b", r"\1iB", target.name)
        yield f"it fits if KB are 1,024 B, as vendors mean them: type {again!r}"


def _planner_notes(arena: Arena, target: Target) -> Iterator[str]:
    limit = target.memories.get("sram")
    # LiteRT Micro's own greedy planner can need more than the layout that was found.
    if limit is not None and (nbytes := arena.sizes["micro"]) > arena.size:
        verdict = "does not fit" if nbytes > limit else "fits too"
        yield (
            f"the planner of LiteRT Micro takes {nbytes:,} B of SRAM, which {verdict}; the layout of {arena.size:,} B "
            "needs an offline plan"
        )


def _reason(needs: Needs, target: Target, over: Mapping[str, int]) -> str:
    if not over:
        left = [f"{_text(limit - needs.amounts[name])} of {name}" for name, limit in target.memories.items()]
        return f"{' and '.join(left)} {'is' if len(left) == 1 else 'are'} left"
    parts = [f"{name} by {_text(nbytes)}" for name, nbytes in over.items()]
    largest = max(needs.by_kind.items(), key=lambda item: item[1], default=None)
    most = f", {_text(largest[1])} of it {WORDS[largest[0]]}" if largest else ""
    at = f"; the peak is {needs.where}{most}" if "flash" not in over or len(over) > 1 else ""
    return f"exceeds {' and '.join(parts)}{at}"


def _text(nbytes: int) -> str:
    return short(nbytes, "bytes")


def _shown(nbytes: int) -> Formatted:
    return Formatted(nbytes, _text(nbytes))


# Suggestions: the model is traced with each, which gives its needs.


LEAST_SAVING = 0.01
"""A suggestion that saves less is dropped unless it is enough: int8 on a quantized model saves only a few scales."""

STEP = 8
"""The step between the heights of images that are tried, in pixels."""

MOST_DOUBLINGS = 6
"""Parameters are sharded over at most 2**6 devices."""


@dataclass(frozen=True)
class Suggestion:
    """A change that lowers the memory needs.

    Attributes:
        name: ``batch``, ``image``, ``checkpoint``, ``bfloat16``, ``autocast``, ``fully_sharded``, several of these
            joined by ``+``, ``inplace``, ``order`` or ``int8``.
        what: the change, as a phrase.
        needs: bytes by memory, of a capture with the change; empty if it fails.
        fits: whether the needs fit the target.
        options: the options of :func:`costcore.estimate` or :meth:`costcore.Report.arena` that make the change.
        problem: why the capture fails; empty if it does not.
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


def suggestions(attempts: Attempts, report: Report) -> list[Suggestion]:
    """Return the suggestions for a run, failed ones included: fitting ones first, then by needs.

    Args:
        attempts: captures of the model.
        report: the run that does not fit.
    """
    tried = _Suggestions(attempts, report)
    found = [*(tried.of_code() if attempts.records else tried.of_arena())]
    return sorted(found, key=lambda each: (not each.fits, bool(each.problem), *each.needs.values()))


class _Suggestions:
    def __init__(self, attempts: Attempts, report: Report) -> None:
        self._attempts = attempts
        self._report = report
        self._needs = attempts.needs(report)

    def of_code(self) -> Iterator[Suggestion]:
        """Yield the suggestions for a model in code: its memory is recorded."""
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
        halves = min((each for each in helping if each.name != "checkpoint"), key=_needed_memory, default=None)
        saved = min((each for each in helping if each.name == "checkpoint"), key=_needed_memory, default=None)
        joined = [each for each in (saved, halves) if each is not None]
        enough = next((each for each in sharded if each.fits), None)
        if enough is not None:
            # Together with another change, fewer devices may suffice.
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

    def of_arena(self) -> Iterator[Suggestion]:
        """Yield the suggestions for an inference with values in an arena."""
        if self._attempts.can_capture:
            yield from self._smaller_batch(self._largest_of_file)
            yield from self._smaller_image()
        arena = self._attempts.arena(self._report)
        align = self._attempts.align
        yield from self._placed(
            *("inplace", "element-wise results written in place", {"inplace": True}),
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
            *(f"inplace+order{name}", f"results written in place, calls in the best order{what}"),
            *({"inplace": True}, lambda: Arena(small, align, inplace=True).in_best_order()),
        )

    def _if_it_helps(self, name: str, what: str, options: Mapping[str, Any], needs: Needs) -> Iterator[Suggestion]:
        before, over = self._needs.amounts, self._needs.excess(self._attempts.target)
        is_enough = not needs.excess(self._attempts.target)
        # A saving below LEAST_SAVING is not worth a suggestion.
        if is_enough or any(needs.amounts[memory] < (1 - LEAST_SAVING) * before[memory] for memory in over):
            yield Suggestion(name, what, needs.amounts, is_enough, options)

    def _captured(self, name: str, what: str, **options: Any) -> Iterator[Suggestion]:
        if not self._attempts.takes(options):
            return
        try:
            needs = self._attempts.needs(self._attempts.report(**options))
        except (CostError, TypeError, ValueError) as error:
            yield Suggestion(name, what, {}, False, options, str(error))
        else:
            yield from self._if_it_helps(name, what, options, needs)

    def _placed(
        self, name: str, what: str, options: Mapping[str, Any], make: Callable[[], Arena]
    ) -> Iterator[Suggestion]:
        yield from self._if_it_helps(name, what, options, self._attempts.needs(self._report, make()))

    def _checkpointing(self) -> Iterator[Suggestion]:
        counts = repeated_classes(self._report)
        tried: list[Suggestion] = []
        for name in [*counts][:MAX_CLASSES]:
            what = f"checkpointing of {counts[name]} {name}"
            tried += self._captured("checkpoint", what, checkpoint=name)
        able = [each for each in tried if each.needs]
        # If no class can be checkpointed, one failure explains why.
        yield from [min(able, key=_needed_memory)] if able else tried[:1]

    def _sharded(self, options: Mapping[str, Any], name: str, what: str) -> Iterator[Suggestion]:
        best: list[Suggestion] = []
        # Bisection: needs per device fall with the number of devices.
        low, high = 0, MOST_DOUBLINGS + 1
        while high - low > 1:
            power = (low + high) // 2
            mesh = {"mesh": {"fsdp": 2**power}, "plan": "fully_sharded"}
            words = f"{what}fully sharded over {2**power} devices, each with inputs of this size"
            tried = [*self._captured(f"{name}fully_sharded", words, **options, **mesh)]
            if not tried or tried[0].problem:
                yield from tried
                return
            best = tried if tried[0].fits or not best or not best[0].fits else best
            low, high = (low, power) if tried[0].fits else (power, high)
        yield from best

    def _smaller_batch(self, largest: Callable[[int], tuple[int, Needs] | None]) -> Iterator[Suggestion]:
        batch = batch_of(self._attempts.inputs)
        if batch < 2:
            return
        try:
            found = largest(batch)
        except CostError:  # the inputs have no batch dimension after all, or the model needs this one
            return
        if found is not None:
            yield from self._if_it_helps("batch", f"a batch of {found[0]}", {"batch": found[0]}, found[1])

    def _largest_of_code(self, batch: int) -> tuple[int, Needs] | None:
        attempts = self._attempts
        assert attempts.limit is not None
        captures = Captures(attempts.model, inputs_of_batch(attempts.inputs), attempts.options)
        found = find_largest(captures, attempts.limit).batch
        return (found, attempts.needs(captures.report(found))) if 0 < found < batch else None

    def _largest_of_file(self, batch: int) -> tuple[int, Needs] | None:
        attempts, inputs = self._attempts, inputs_of_batch(self._attempts.inputs)
        if "flash" in self._needs.excess(attempts.target):
            return None
        # Bisection instead of interpolation: with alignment, sizes grow in steps.
        low, high, best = 0, batch, self._needs
        while high - low > 1:
            size = (low + high) // 2
            needs = attempts.needs(attempts.report(inputs(size)))
            if needs.excess(attempts.target):
                high = size
            else:
                low, best = size, needs
        return (low, best) if low else None

    def _smaller_image(self) -> Iterator[Suggestion]:
        # Values shrink with the image, weights do not.
        attempts = self._attempts
        shape = attempts.inputs
        if not (isinstance(shape, tuple) and len(shape) == 4 and all(isinstance(size, int) for size in shape)):
            return
        batch, channels, height, width = shape
        if min(height, width) <= STEP or "flash" in self._needs.excess(attempts.target):
            return
        low, high, best = 0, -(-height // STEP), self._needs
        try:
            while high - low > 1:
                step = (low + high) // 2
                image = (batch, channels, STEP * step, round(STEP * step * width / height))
                needs = attempts.needs(attempts.report(image))
                if needs.excess(attempts.target):
                    high = step
                else:
                    low, best, shape = step, needs, image
        except CostError:  # the model needs this size
            return
        if low:
            what = f"an image of {shape[2]} x {shape[3]}, which the model must be trained for"
            yield from self._if_it_helps("image", what, {"inputs": shape}, best)


def _devices(suggestion: Suggestion) -> int:
    return prod(suggestion.options["mesh"].values())


def _needed_memory(suggestion: Suggestion) -> int:
    return suggestion.needs["memory"]


# Captures of one model with different options.


class Attempts:
    """Captures of one model.

    Args:
        model: the model; or a report, which is not captured again.
        inputs: its inputs.
        target: the memories of the device.
        limit: the single memory and its terms besides tensors; None for SRAM and flash.
        options: the options of :func:`costcore.estimate`.
        records: whether the memory of a run is recorded; otherwise its values are placed in an arena.
        align: the alignment of an arena.
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        target: Target,
        limit: Limit | None,
        options: Mapping[str, Any],
        records: bool,
        align: int,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.target = target
        self.limit = limit
        self.options = options
        self.records = records
        self.align = align

    @property
    def trains(self) -> bool:
        """Whether the runs are training steps."""
        return bool(self.options.get("backward"))

    @property
    def can_capture(self) -> bool:
        """Whether the model can be captured with other inputs or options; a report cannot."""
        return not isinstance(self.model, Report)

    def takes(self, options: Iterable[str]) -> bool:
        """Return whether the frontend of the model has these options; frontends of files lack most."""
        return set(options) <= set(frontend_of(self.model).model_options)

    def report(self, inputs: Any = None, **changes: Any) -> Report:
        """Return a report of the model.

        Args:
            inputs: other inputs; default: the given ones.
            changes: other options of :func:`costcore.estimate`.

        Raises:
            CostError, TypeError, ValueError: as :func:`costcore.estimate`.
        """
        if isinstance(self.model, Report):
            return self.model
        recorded = {"memory": True} if self.records else {}
        with warnings.catch_warnings():
            # Ignore warnings of operators without a formula, because the memory of their results is known. Ignore all
            # warnings of an attempt with changed options, because the user did not ask for these options.
            warnings.simplefilter("ignore", Warning if changes else CostWarning)
            given = self.inputs if inputs is None else inputs
            return estimate(self.model, given, **{**self.options, **recorded, **changes})

    def arena(self, report: Report) -> Arena:
        """Return the arena of an inference.

        Raises:
            ArenaError: if the run has a backward pass, or if lifetimes of values are unknown.
        """
        return report.arena(self.align)

    def needs(self, report: Report, arena: Arena | None = None) -> Needs:
        """Return the memory needs of a run.

        Args:
            report: the report of the run.
            arena: another placement of its values; default: in the order of the run.

        Raises:
            ArenaError: if sizes are symbolic, or lifetimes of values are unknown.
        """
        if arena is None and not self.records:
            arena = self.arena(report)
        return needs_of(report, self.target, self.limit, arena)


# Targets: the memory of a device, or the SRAM and flash of a microcontroller.


MEMORIES = ("memory", "sram", "flash")
"""The memories of a target: one for everything, or SRAM for values and flash for weights."""

FORMS = '"24 GB", "256 KB sram, 1 MB flash", "sram=256KB,flash=1MB", the name of a device, or the path of a .toml file'

_PARTS = (re.compile(r"(?P<name>\w+)\s*=\s*(?P<amount>.+)"), re.compile(r"(?P<amount>.+?)\s+(?P<name>sram|flash)"))
"""The forms of one memory: ``sram=256KB`` and ``256 KB sram``."""


@dataclass(frozen=True)
class Target:
    """The memories of a device.

    Attributes:
        name: its name.
        memories: bytes by memory, names of :data:`MEMORIES`; empty if the memory of a device is unknown.
        device: the device, if it is known.
        binary: as ``memories``, with KB, MB and GB as powers of 1024; empty if no such unit was given.
        read: how sizes with such units were read, ``sram 256 KB = 256,000 B, 256 KiB = 262,144 B``.
    """

    name: str
    memories: Mapping[str, int]
    device: Device | None = None
    binary: Mapping[str, int] = field(default_factory=dict)
    read: str = ""

    @property
    def is_divided(self) -> bool:
        """Whether values (SRAM) and weights (flash) have separate memories."""
        return "memory" not in self.memories and bool(self.memories)


def target_of(target: object) -> Target:
    """Return the memories of a device.

    Args:
        target: an amount of memory in bytes or as ``"24 GB"``; amounts by memory as ``"256 KB sram, 1 MB flash"``,
            ``"sram=256KB,flash=1MB"`` or a mapping; a device, its name, an alias, or the path of a TOML file.

    Raises:
        TypeError, ValueError: if it is anything else; the message lists the forms.
        CostError, OSError: if the file of a device cannot be read.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, Mapping):
        return _divided(short_repr(dict(target)), target.items())
    if isinstance(target, int) and not isinstance(target, bool):
        return Target(f"{target} bytes", {"memory": parse_bytes(target, "target")})
    if isinstance(target, (Device, PathLike)):
        return _of_device(find_device(target))
    if not isinstance(target, str):
        raise TypeError(f"target must be {FORMS} (got {short_repr(target)})")
    # RAM in GB is the memory of a device. RAM in smaller units is the SRAM of a microcontroller, which has flash too.
    target = re.sub(r"([0-9] ?Gi?B?) +(v?ram|memory)\b", r"\1", target, flags=re.IGNORECASE)
    text = target.lower()
    if re.search(r"\b(s?ram|flash|rom)\b", text):
        text = re.sub(r"\bram\b", "sram", re.sub(r"\brom\b", "flash", text))
        return _divided(target, _named_amounts(text, target))
    refuse_few_bytes(target, "target", device_names())
    if re.match(r"\s*[0-9]", target):
        memory = {"memory": parse_bytes(target, "target")}
        return Target(
            target.strip(), memory, binary={"memory": _in_powers_of_1024(target)} if in_thousands(target) else {}
        )
    try:
        return _of_device(find_device(target))
    except CostError:  # of a damaged file of a device; the message is complete
        raise
    except ValueError as error:
        raise ValueError(f"{error}. A target is {FORMS}") from None


def _of_device(device: Device) -> Target:
    size = device.memory.dram_gb
    return Target(device.name, {} if size is None else {"memory": int(1e9 * size)}, device)


def _divided(name: str, amounts: object) -> Target:
    found: dict[str, int] = {}
    binary: dict[str, int] = {}
    read: list[str] = []
    for memory, amount in amounts:  # type: ignore[attr-defined]
        if memory not in MEMORIES:
            raise ValueError(unknown("memory", memory, MEMORIES))
        if memory in found:
            raise ValueError(f"target {name!r} states {memory} twice")
        found[memory] = parse_bytes(amount, memory)
        binary[memory] = _in_powers_of_1024(amount)
        if how := in_thousands(amount):
            read.append(f"{memory} {how}")
    if not found or (len(found) > 1 and "memory" in found):
        raise ValueError(f"target {name!r} must state either memory, or sram and flash")
    return Target(name, found, binary=binary if binary != found else {}, read="; ".join(read))


def _in_powers_of_1024(amount: object) -> int:
    typed = amount.upper().replace("IB", "iB").strip() if isinstance(amount, str) else amount
    return parse_bytes(re.sub(r"([KMGT])B$", r"\1iB", typed) if isinstance(typed, str) else typed, "size")


def _named_amounts(text: str, whole: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r",|\s+(?=(?:sram|flash|memory)\s*=)", text):
        match = next(filter(None, (form.fullmatch(part.strip()) for form in _PARTS)), None)
        if match is None:
            raise ValueError(f"target {whole!r}: {part.strip()!r} is not the size of a memory (expected {FORMS})")
        # Units may be in any case.
        yield match["name"], match["amount"].upper().replace("IB", "iB")


# Memory needs of a captured run.


@dataclass(frozen=True)
class Needs:
    """The memory needs of a run.

    Attributes:
        amounts: bytes by memory of the target.
        peak: the maximum bytes of values alive at once, in the order of the run.
        where: the call at the peak, with its module.
        by_kind: the bytes at the peak by kind, if the memory of the run was recorded.
        parts: the amounts by kind, of each memory.
    """

    amounts: Mapping[str, int]
    peak: int
    where: str
    by_kind: Mapping[str, int]
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def excess(self, target: Target) -> dict[str, int]:
        """Return the excess bytes of each exceeded memory."""
        over = {name: self.amounts[name] - limit for name, limit in target.memories.items()}
        return {name: nbytes for name, nbytes in over.items() if nbytes > 0}


def needs_of(report: Report, target: Target, limit: Limit | None, arena: Arena | None) -> Needs:
    """Return the memory needs of a run.

    Args:
        report: the report of the run.
        target: the memories of the device.
        limit: the single memory and its terms besides tensors; None for SRAM and flash.
        arena: the values of the run, placed; None for a run with recorded memory.

    Raises:
        ArenaError: if sizes are symbolic, or lifetimes of values are unknown.
    """
    if arena is None:
        memory = report.memory
        assert memory is not None and limit is not None
        peak = limit.peak_of(memory)
        parts = {"memory": limit.filled_by(memory.by_kind, peak)}
        return Needs({"memory": limit.needed(peak)}, memory.peak, memory.where, memory.by_kind, parts)
    size = arena.size  # first, because it raises the error for symbolic sizes
    weights, peak, whole = int(arena.weights), int(arena.peak), int(arena.file)
    amounts = {"sram": size, "flash": whole or weights}
    stored = {"parameter": weights, **({"file": whole - weights} if whole else {})}
    parts = {"sram": {"value": size}, "flash": stored}
    if limit is not None:  # not a microcontroller: a runtime may allocate buffers as it runs
        values = max(size, int(arena.peak_with_reuse))
        amounts = {"memory": limit.needed(values + weights)}
        parts = {"memory": limit.filled_by({"parameter": weights, "value": values}, values + weights)}
    own = {name: amounts[name] for name in target.memories}
    return Needs(own, peak, _where(report, arena), {}, {name: parts[name] for name in own})


def _where(report: Report, arena: Arena) -> str:
    module = next((call.module for call in report.calls if call.name == arena.at), "")
    return f"at {arena.at}{f' ({module})' if module else ''}" if arena.at else "before the first call"


# An inference with 8-bit integers in place of floating-point numbers.


BIAS = "b"
"""The operand name of biases. They are int32, as the accumulators of int8 products."""


def quantized(trace: Trace) -> Trace:
    """Return a trace with int8 weights and values, and int32 biases, as in TensorFlow Lite.

    Scales and zero points are not counted. No quantization operators are added, because a runtime fuses them. Only
    sizes of tensors change, not costs.

    Source: Jacob et al. 2018, arXiv:1712.05877, section 2.4.
    """
    layers: dict[int, Layer] = {}
    sizes: dict[int, Dim] = {}
    records = []
    for record in trace:
        old = record.call.layer
        new = layers[id(old)] if id(old) in layers else layers.setdefault(id(old), _at_int8(old))
        sizes |= _sizes(record.call, new)
        records.append(record._replace(call=record.call._replace(layer=new)))
    flow = trace.run.dataflow
    run = trace.run if flow is None else trace.run.recording(dataflow=_resized(flow, sizes))
    return Trace(tuple(records), run)


def is_quantized(trace: Trace) -> bool:
    """Return whether products run on integers already, as in a quantized graph."""
    return any(call.layer.op.startswith("quantized_") for call in trace.calls)


def _at_int8(layer: Layer) -> Layer:
    made = layer_at(layer, "int8")
    scales = {name: tensor for name, tensor in layer.inputs.items() if name.endswith(NOT_MULTIPLIED)}
    if scales:
        made = replace_tensors(made, {**made.inputs, **scales}, made.outputs)
    bias = layer.inputs.get(BIAS)
    if made is layer or bias is None or bias.role != "param":
        return made
    integers = Tensor(bias.shape, "int32", bias.role)
    return replace_tensors(made, {**made.inputs, BIAS: integers}, made.outputs)


def _sizes(call: Call, layer: Layer) -> dict[int, Dim]:
    ids = (*call.inputs, *call.outputs)
    return {i: tensor.nbytes for i, tensor in zip(ids, (*layer.inputs.values(), *layer.outputs), strict=True) if i}


def _resized(flow: Dataflow, sizes: dict[int, Dim]) -> Dataflow:
    def changed(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(value._replace(nbytes=sizes.get(value.id, value.nbytes)) for value in values)

    steps = tuple(step._replace(makes=changed(step.makes)) for step in flow.steps)
    return flow._replace(inputs=changed(flow.inputs), stored=changed(flow.stored), steps=steps)
