"""Whether a model fits a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from costcore.analyses.memory.arena_report import Arena
from costcore.api.target import model_and_inputs
from costcore.errors import ArenaError
from costcore.registry.frontends import frontend_of
from costcore.reports.report import Report
from costcore.studies.batch_size.captures import Captures
from costcore.studies.batch_size.fit import step_options
from costcore.studies.batch_size.inputs import inputs_of_batch
from costcore.studies.batch_size.largest import find_largest
from costcore.studies.batch_size.limit import CONTEXT, make_limit
from costcore.studies.batch_size.sentences import WORDS
from costcore.studies.fit.attempts import Attempts
from costcore.studies.fit.needs import Needs
from costcore.studies.fit.remedies import Remedy, remedies
from costcore.studies.fit.target import Target, target_of
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.amounts import readable
from costcore.text.table import Column
from costcore.text.values import Shown
from costcore.trace.input_shapes import has_names, with_tensors

STATES = {"parameter": "weights", "gradient": "gradients", "optimizer": "states of the optimizer"}
"""What a training step keeps, by the kind of its memory."""

MIXED = {"precision": "bfloat16"}
"""The usual recipe for weights of 16 bits: float32 copies in the optimizer (Micikevicius et al., arXiv:1710.03740)."""

NO_TRAINING = (
    "the memory of a training step is known for PyTorch models and a target with one memory alone: no file and no "
    "other framework shows what a backward pass keeps"
)


@dataclass(frozen=True, repr=False)
class Verdict(Result):
    """Whether a model fits a device.

    Attributes:
        fits: whether it does; None if that cannot be said, :attr:`because` has the reason.
        target: what it is to fit.
        needs: bytes by memory of the target; empty if unknown.
        because: the reason, as a sentence.
        remedies: what would make it fit, or need less; each was captured.
        batch: the largest batch that fits, if the inputs name their batch; otherwise None.
        peak: the most bytes of values alive at once; None if unknown.
        where: where that is: the call with its module.
        notes: what was assumed.
    """

    fits: bool | None
    target: Target
    needs: Mapping[str, int]
    because: str
    remedies: tuple[Remedy, ...] = ()
    batch: int | None = None
    peak: int | None = None
    where: str = ""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Verdict: {self._word}, {self.because}>"

    @property
    def _word(self) -> str:
        return {True: "fits", False: "does not fit", None: "cannot say"}[self.fits]

    @property
    def limit(self) -> Mapping[str, int]:
        """The bytes of each memory of the target."""
        return self.target.memories

    def _answer(self) -> Answer:
        figures = [Figure("verdict", f"On {self.target.name}", self._word)]
        if self.batch is not None:
            figures.append(Figure("batch", "Largest batch", self.batch, "count"))
        for memory, nbytes in self.needs.items():
            title = "Needs" if memory == "memory" else f"Needs of {memory}"
            figures.append(Figure(f"needs_{memory}", title, _shown(nbytes), "bytes", f"of {_text(self.limit[memory])}"))
        if self.peak is not None:
            figures.append(Figure("peak", "Peak of values", _shown(self.peak), "bytes", self.where))
        problems = [f"{each.what} cannot be tried: {each.problem}" for each in self.remedies if each.problem]
        tables = [self._table()] if len(problems) < len(self.remedies) else []
        return Answer("Does it fit?", figures, tables, [self.because, *problems, *self.notes], n_digits=2)

    def _table(self) -> Table:
        columns = [Column("what", "What helps"), Column("fits", "Fits")]
        columns += [Column(memory, f"Needs of {memory}", "bytes") for memory in self.limit]
        rows = [
            {"what": each.what, "fits": "yes" if each.fits else "no", **each.needs}
            for each in self.remedies
            if not each.problem
        ]
        is_enough = any(each.fits for each in self.remedies)
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
            "remedies": [each.to_dict() for each in self.remedies],
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
    remedies: bool = True,
    **options: Any,
) -> Verdict:
    """Return whether a model fits a device, and what would make it fit if it does not.

    ::

        fit(net, (8, 3, 224, 224), "24 GB", train=True, optimizer="adamw")
        fit("model.onnx", None, "256 KB sram, 1 MB flash").fits

    The memory of a PyTorch model is recorded (:attr:`costcore.Report.memory`): it fits if ``peak * (1 + fragmentation)
    + workspace + context`` is not more than the memory. On a device of NVIDIA the peak is the least memory with which
    the caching allocator of PyTorch runs. Of files, and for targets with SRAM and flash, the values of an inference are
    placed (:meth:`costcore.Report.arena`): SRAM is the layout that was found, flash the weights, and a target with one
    memory takes both.

    Args:
        model: a model as :func:`costcore.estimate` takes it, or a report.
        inputs: its inputs. If a dimension has a name, ``("batch", 3, 224, 224)``, the largest batch that fits is found,
            and a model fits if one sample does (PyTorch).
        target: ``"24 GB"``, ``"256 KB sram, 1 MB flash"``, ``"sram=256KB,flash=1MB"``, a device, its name or an alias
            such as ``"h100"``.
        train: whether a training step is run, instead of inference; an optimizer or a loss implies it (PyTorch).
        optimizer: the optimizer of the step, and ``loss`` its loss; see :func:`costcore.estimate`.
        loss: as above.
        context: what a process takes before its first tensor. Default: 500 MiB, assumed, for GPUs, and for amounts of
            memory if the model is code; otherwise nothing.
        workspace: what kernels take beside tensors.
        fragmentation: the share of the peak that an allocator loses on top of it.
        align: the alignment of values that are placed, in bytes.
        remedies: whether what would help is captured too, if the model does not fit.
        options: further options of :func:`costcore.estimate`.

    Raises:
        CostError: if the model is not supported, or fails.
        TypeError, ValueError: if an argument is invalid.
    """
    aim = target_of(target)
    if not aim.memories:
        example = "256 KB sram, 1 MB flash" if aim.device and aim.device.kind == "mcu" else "24 GB"
        why = f'the size of the memory of {aim.name} is unknown: state it instead of the name, as in "{example}"'
        return Verdict(None, aim, {}, why)
    is_step = train is True or optimizer is not None or loss is not None
    model, inputs = model_and_inputs(model, inputs, is_step=is_step)
    given = step_options(train, optimizer, loss, options, "cuda" if _is_cuda(aim) else "tensors")
    is_code = _records(model) and not aim.is_divided
    if given["backward"] and not is_code and not isinstance(model, Report):
        return Verdict(None, aim, {}, NO_TRAINING)
    given = {key: value for key, value in given.items() if value or key in options}  # few frontends have all of them
    assumed = CONTEXT if (aim.device.kind == "gpu" if aim.device else is_code) else 0
    limit = None
    if not aim.is_divided:
        least = "cuda" if _is_cuda(aim) and is_code else None
        taken = assumed if context is None else context
        limit = make_limit(aim.memories["memory"], taken, workspace, fragmentation, least)
    attempts = Attempts(model, inputs, aim, limit, given, is_code, align)
    if is_code and not isinstance(model, Report) and has_names(with_tensors(inputs)):
        return _largest(attempts, remedies)
    report = attempts.report()
    if "precision" not in options and _has_half_moments(report) and attempts.takes(("precision",)):
        attempts.options = {**attempts.options, **MIXED}
        report = attempts.report()
    if not is_code and report.symbols:
        return Verdict(None, aim, {}, _open_sizes(model, report))
    try:
        needs = attempts.needs(report)
    except ArenaError as error:
        return Verdict(None, aim, {}, str(error))
    return _verdict(attempts, report, needs, remedies)


def _open_sizes(model: Any, report: Report) -> str:
    """Return which sizes are open, and how to state them."""
    numbers = ", ".join(f'"{name}": 1' for name in report.symbols)
    options = " ".join(f"--dim {quote(f'{name}=1')}" for name in report.symbols)
    how = "state numbers in the shapes of inputs"
    if isinstance(model, Report) or "dims" in frontend_of(model).options:
        how = f"state numbers, as with {options}, or dims={{{numbers}}} in Python"
    first = next((each["type"] for each in report.ignored_layers.values()), "")
    unknown = f"; of {first} nothing is known" if first else ""
    return f"sizes depend on {', '.join(report.symbols)}: {how}{unknown}"


def _unknown(report: Report) -> list[str]:
    """Return a remark on operators without a formula."""
    names = dict.fromkeys(each["type"] for each in report.ignored_layers.values())
    return [f"of {', '.join(names)} nothing is known but the results"] if names else []


def _records(model: Any) -> bool:
    """Return whether the memory of a run of a model is recorded."""
    if isinstance(model, Report):
        return model.memory is not None
    return "memory" in frontend_of(model).model_options


def _is_cuda(target: Target) -> bool:
    return target.device is not None and target.device.kind == "gpu" and target.device.vendor == "NVIDIA"


def _largest(attempts: Attempts, tries: bool) -> Verdict:
    """Return the verdict on the largest batch, or on one sample if that does not fit."""
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
    return Verdict(**{**vars(verdict), "batch": found.batch})


def _verdict(attempts: Attempts, report: Report, needs: Needs, tries: bool) -> Verdict:
    target, over = attempts.target, needs.excess(attempts.target)
    notes = [f"limit: {attempts.limit.describe()}"] if attempts.limit else []
    if not attempts.records:
        arena = attempts.arena(report)
        notes += [*arena.notes, *_unknown(report), *_planned(arena, target)]
    elif report.memory is not None:
        notes += report.memory.notes
        notes += _dtypes(report, attempts.options.get("precision") == MIXED["precision"])
    notes += dict.fromkeys(f"assumed: {assumption.what}" for assumption in report.assumptions)
    notes += _in_powers_of_two(needs, target)
    return Verdict(
        fits=not over,
        target=target,
        needs=needs.amounts,
        because=_reason(needs, target, over),
        remedies=tuple(remedies(attempts, report)) if over and tries else (),
        peak=needs.peak,
        where=needs.where,
        notes=tuple(notes),
    )


def _main_dtypes(report: Report) -> dict[str, str]:
    """Return the dtype of most bytes of weights, gradients and states of optimizers before or in a step."""
    sizes: dict[str, Counter[str]] = {}
    records = report.trace.records
    for block in report.memory.ledger.blocks if report.memory is not None else ():
        in_step = 0 <= block.call < len(records) and records[block.call].call.phase == "optimizer"
        if block.kind in STATES and not (in_step and block.kind == "gradient"):  # those of copies are gone at its end
            sizes.setdefault(block.kind, Counter())[block.dtype] += block.nbytes
    return {kind: sizes[kind].most_common(1)[0][0] for kind in STATES if kind in sizes}


def _has_half_moments(report: Report) -> bool:
    """Return whether an optimizer keeps its state in 16 bits, as it does of weights that are: nobody trains so."""
    return _main_dtypes(report).get("optimizer") in ("float16", "bfloat16")


def _dtypes(report: Report, is_mixed: bool) -> Iterator[str]:
    """Yield the dtypes of what a training step keeps."""
    found = _main_dtypes(report)
    if "gradient" in found:
        each = ", ".join(f"{STATES[kind]} in {dtype}" for kind, dtype in found.items())
        yield f"{each}{': mixed precision, with float32 copies of the weights' if is_mixed else ''}"


def _in_powers_of_two(needs: Needs, target: Target) -> Iterator[str]:
    """Yield the sizes of a microcontroller in powers of 1024, as vendors of boards mean KB, if that decides."""
    over = needs.excess(target)
    if target.binary and bool(over) != bool(needs.excess(replace(target, memories=target.binary))):
        sizes = [name for name, nbytes in target.binary.items() if nbytes != target.memories[name] and name in over]
        meant = " and ".join(f"{target.memories[name]:,} B of {name}, not {target.binary[name]:,} B" for name in sizes)
        yield f"it fits if KB are 1,024 B, as vendors of boards mean them: {target.name} is read as {meant} (KiB)"


def _planned(arena: Arena, target: Target) -> Iterator[str]:
    """Yield what LiteRT Micro plans by itself, if that is more SRAM than the layout that was found."""
    limit = target.memories.get("sram")
    if limit is not None and (nbytes := arena.sizes["micro"]) > arena.size:
        verdict = "is too much" if nbytes > limit else "fits too"
        yield (
            f"the planner of LiteRT Micro takes {nbytes:,} B of SRAM, which {verdict}; the layout of {arena.size:,} B "
            "needs an offline plan"
        )


def _reason(needs: Needs, target: Target, over: Mapping[str, int]) -> str:
    """Return by how much each memory is exceeded, and by what; or how much is left."""
    if not over:
        left = (f"{_text(limit - needs.amounts[name])} of {name}" for name, limit in target.memories.items())
        return f"{' and '.join(left)} are left"
    parts = [f"{_text(nbytes)} of {name} too much" for name, nbytes in over.items()]
    largest = max(needs.by_kind.items(), key=lambda item: item[1], default=None)
    most = f", {_text(largest[1])} of it {WORDS[largest[0]]}" if largest else ""
    at = f"; the peak is {needs.where}{most}" if "flash" not in over or len(over) > 1 else ""
    return f"{' and '.join(parts)}{at}"


def _text(nbytes: int) -> str:
    return readable(nbytes, "bytes", 2)


def _shown(nbytes: int) -> Shown:
    return Shown(nbytes, _text(nbytes))
