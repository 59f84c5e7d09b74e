"""Search for the fastest way to distribute a training step over many devices.

Every mesh and micro-batch is a :class:`Setup`. One rank is captured with three and with four blocks; memory, bytes sent
and time of all blocks follow linearly. All blocks of the best plans are captured to confirm that they fit.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum
from os import PathLike
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device, Link, find_device, link_of
from costcore.api.estimate import estimate, model_and_inputs
from costcore.errors import CostError, short_repr, unknown
from costcore.ir import Tensor
from costcore.registry import needed_ability
from costcore.reports.report import Report
from costcore.studies.batch_inputs import CONTEXT, Limit, inputs_of_batch, make_limit
from costcore.studies.serving.report import memory_of
from costcore.studies.sweeps.table import LARGE, front
from costcore.studies.training.published import (
    AXES,
    DTYPES,
    INSIDE,
    NEAREST,
    Expected,
    RunSetup,
    expected,
    family_of,
    nearest_runs,
    setup_of,
)
from costcore.studies.training.step import Packing, Step, peak_flops
from costcore.tables.answer import Content, Figure
from costcore.tables.html import section
from costcore.tables.html.charts import Axis, Point, scatter
from costcore.tables.pictures import Axis as PictureAxis
from costcore.tables.pictures import Picture, Theme, draw
from costcore.tables.renderers import progress
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, duration, readable
from costcore.text.output import Column
from costcore.trace.trace import with_tensors

# The search.


NBYTES = {"bfloat16": 2, "autocast": 4, None: 4}
"""Bytes of a gradient by precision; None is a model in float32."""

CERTAIN = 3
"""The number of plans with all blocks captured."""


def plan(
    model: Any,
    inputs: Any,
    *,
    devices: int,
    device: str | PathLike[str] | Device,
    global_batch: int,
    optimizer: Any = "adamw",
    per_node: int = 8,
    micro_batches: Sequence[int] = (1, 2),
    certain: int = CERTAIN,
    checkpoints: Sequence[bool] = (False, True),
    precisions: Sequence[str | None] = ("bfloat16",),
    meshes: Iterable[Mapping[str, int]] | None = None,
    link: object = None,
    dtype: str = "bfloat16",
    memory: int | str | None = None,
    context: int | str = CONTEXT,
    **options: Any,
) -> Plans:
    """Find the fastest ways to distribute a training step of a model over many devices.

    One rank of each plan is captured with three of its blocks and with four. The figures of all its blocks follow,
    because each block of a kind adds the same. All blocks of the first ``certain`` plans are captured to confirm that
    they fit; :attr:`~costcore.studies.plans.Plans.error` is the error of the others.

    Args:
        model: a ``torch.nn.Module``. Tensor parallelism needs its attribute ``tp_plan``, as models of transformers have
            it: styles such as ``"colwise"`` by names of modules, ``"layers.*.q_proj"``. Expert parallelism needs
            ``ep_plan``: the style ``"ep_dispatch_experts"`` of modules of experts.
        inputs: inputs with a batch, as for :func:`costcore.max_batch`.
        devices: the number of devices.
        device: the device, such as ``"h100"``.
        global_batch: samples of a step of the optimizer.
        optimizer: the optimizer, see :func:`costcore.estimate`.
        per_node: the maximum number of devices along ``tp``.
        micro_batches: samples per pass to try.
        certain: the number of plans with all blocks captured.
        checkpoints: whether blocks run under activation checkpointing; both are tried.
        precisions: options ``precision`` of :func:`costcore.estimate` to try.
        meshes: the meshes to try, ``{"dp": 8, "tp": 8}``, with any of ``dp``, ``fsdp``, ``tp``, ``pp``, ``cp``, and
            ``ep``, which divides experts over some of ``dp * fsdp * cp`` devices. Default: all divisions of the devices
            into copies, or sharded copies, with ``tp`` inside of a node, and pipelines of copies; experts divided over
            copies; and sequences over devices that keep 8,192 tokens.
        link: the link between devices, see :meth:`costcore.Report.time`: a step takes at least as long as sending all
            bytes of a device over it. Default: unknown, so that it does not limit a step.
        dtype: the dtype of products.
        memory: the memory of a device; default: the vendor's figure.
        context: memory that a process takes before its first tensor.
        options: further options of :func:`costcore.estimate`.

    Raises:
        CostError: if the model repeats no blocks, or cannot be captured at all.
        TypeError, ValueError: if an argument is invalid, or no mesh divides the samples.
    """
    _check(devices=devices, global_batch=global_batch, per_node=per_node, certain=certain)
    for size in micro_batches:
        _check(micro_batches=size)
    model, inputs = model_and_inputs(model, inputs, is_step=True)
    chosen = find_device(device)
    limit = make_limit(memory_of(chosen) if memory is None else memory, context)
    distribution = needed_ability("distribution", model, "a plan")(model)
    if not distribution.kinds:
        raise CostError("a plan needs a model that repeats blocks, such as the layers of a transformer")
    sized = inputs_of_batch(inputs)
    captures = RankCaptures(model, sized, distribution, chosen, dtype, optimizer, options)
    search = _Search(captures, distribution.kinds, limit, None if link is None else link_of(link))
    blocks, tokens = len(distribution.kinds), tokens_of(sized(1))
    divisible = Divisible(blocks, distribution.width, distribution.experts, tokens)
    alternatives = [
        ways
        for mesh in _meshes(meshes, devices, per_node, divisible)
        for ways in setups(mesh, global_batch, micro_batches, checkpoints, precisions)
    ]
    tried = [made for ways in progress(alternatives, "plans") for made in search.of(ways)]
    if not tried:
        sizes = ", ".join(map(str, micro_batches))
        raise ValueError(f"no mesh divides {global_batch} samples into equal parts, and these into passes of {sizes}")
    if all(each.fits is None for each in tried):
        raise CostError(f"no plan can be captured: {tried[0].why}")
    fitting, left_out = search.captured(tried, certain)
    left_out += [each for each in tried if not each.fits]
    run = _published_run(model, sized, chosen, devices, dtype, {**options, "precision": precisions[0]})
    return Plans(tuple(fitting), tuple(left_out), chosen, limit, global_batch, run)


def _published_run(
    model: Any, sized: Callable[[int], Any], device: Device, devices: int, dtype: str, options: Mapping[str, Any]
) -> WholeRun | None:
    # Only published runs of such devices need the FLOPs of the model.
    if family_of(device.name) is None or dtype not in DTYPES:
        return None
    try:
        step = Step(estimate(model, sized(1), backward=True, **options), Packing())
    except CostError:  # ranks could be captured: a range of published runs is not worth an error
        return None
    setup = setup_of(step, device.name, devices, dtype)
    return None if setup is None else WholeRun(setup, step.model_flops(), peak_flops(device, dtype))


def _meshes(given: Iterable[Mapping[str, int]] | None, devices: int, per_node: int, model: Divisible) -> list[Mesh]:
    if given is None:
        return [*meshes(devices, per_node, model)]
    found = []
    for sizes in given:
        if wrong := [name for name in sizes if name not in Mesh._fields]:
            raise ValueError(unknown("dimension of a mesh", wrong, Mesh._fields))
        _check(**sizes)
        found.append(Mesh(**sizes))
        if found[-1].devices != devices:
            raise ValueError(f"the mesh {found[-1]} has {found[-1].devices} devices, not {devices}")
        own = found[-1].replicas * found[-1].cp
        if own % found[-1].ep or not divides(found[-1].cp, found[-1].ep):
            raise ValueError(f"the mesh {found[-1]} cannot divide experts over {found[-1].ep} of {own} devices")
    return found


class _Search:
    def __init__(self, captures: RankCaptures, kinds: Sequence[int], limit: Limit, link: Link | None) -> None:
        self._captures = captures
        self._kinds = kinds
        self._limit = limit
        self._link = link

    def of(self, ways: Sequence[Setup]) -> list[Plan]:
        """Return plans; larger micro-batches of a plan that does not fit are not captured."""
        # Sound, because memory grows with the micro-batch if the same gradients and passes are kept.
        found: list[Plan] = []
        last: Plan | None = None
        for setup in ways:
            if last is None or last.fits or (last.fits is False and _kept(last.setup) != _kept(setup)):
                last = self._try(setup)
                found.append(last)
            elif last.memory is None:
                found.append(Plan(setup, None, why=last.why))
            else:
                why = (
                    f"needs at least {self._excess(last.memory)} too much, as a micro-batch of {last.setup.micro_batch}"
                )
                found.append(Plan(setup, False, why=why, memory_at_least=last.memory))
        return found

    def captured(self, tried: Iterable[Plan], most: int) -> tuple[list[Plan], list[Plan]]:
        """Capture all blocks of the fastest plans; return the plans that fit, the fastest first, and all others.

        Args:
            tried: plans.
            most: the number of plans to capture; plans that do not fit after all do not count.
        """
        fitting = sorted((each for each in tried if each.fits), key=_order)
        left_out: list[Plan] = []
        certain: list[Plan] = []
        while fitting and len(certain) < most:
            made = self._try(fitting[0].setup, fitting.pop(0).memory)
            (certain if made.fits else left_out).append(made)
        return sorted([*certain, *fitting], key=_order), left_out

    def _try(self, setup: Setup, on_lines: int | None = None) -> Plan:
        try:
            memory, rank, stage = max(
                (self._stage(setup, *each) for each in self._stages(setup)), key=lambda stage: stage[0]
            )
            if on_lines is not None:
                memory, rank, stage = self._stage(setup, *stage, exactly=True)
            whole = self._captures.of(setup, self._kinds)
        except (CostError, TypeError, ValueError) as error:
            return Plan(setup, None, why=str(error))
        stages = setup.mesh.pp
        sent = round(setup.passes * rank.sent + self._reduced(setup.mesh, rank) * NBYTES[setup.precision])
        # Stages with equal work: a device takes its share of the time of all blocks.
        seconds = (setup.passes * whole.seconds + whole.step_seconds) / stages
        binds = max(whole.binds, key=whole.binds.__getitem__, default="")
        over = self._link.seconds(0, sent) if self._link is not None else 0.0
        if over > seconds:
            seconds, binds = over, "communication"
        fits = memory <= self._limit.memory
        why = "" if fits else f"needs {self._excess(memory)} too much"
        return Plan(setup, fits, memory, sent, seconds, (stages - 1) / setup.passes, binds, on_lines, why)

    def _excess(self, memory: int) -> str:
        return readable(memory - self._limit.memory, "bytes", 2)

    def _stages(self, setup: Setup) -> list[tuple[tuple[int, ...], int]]:
        # With 1F1B, stage i holds the activations of min(pp - i, passes) passes.
        size = ceil(len(self._kinds) / setup.mesh.pp)
        found: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
        for stage in range(ceil(len(self._kinds) / size)):
            kinds = tuple(self._kinds[stage * size : (stage + 1) * size])
            found.setdefault(kinds, (kinds, min(setup.mesh.pp - stage, setup.passes) - 1))
        return [*found.values()]

    def _stage(
        self, setup: Setup, kinds: tuple[int, ...], waiting: int, exactly: bool = False
    ) -> tuple[int, RankCosts, tuple[tuple[int, ...], int]]:
        rank = self._captures.of(setup, kinds, exactly)
        # A stage keeps what autograd saved for the passes that wait.
        saved = self._captures.saved(setup, kinds) if waiting else 0.0
        return self._limit.needed(peak_of(rank, saved, waiting)), rank, (kinds, waiting)

    def _reduced(self, mesh: Mesh, rank: RankCosts) -> float:
        # A ring all-reduce among n copies sends 2 (n - 1) / n of the gradients. Experts have fewer copies if devices
        # share them. What shards send is part of the capture.
        if mesh.fsdp > 1:
            parts = [(mesh.dp, rank.parameters)]
        else:
            shared = rank.parameters - rank.expert_parameters
            copies = mesh.dp * mesh.cp
            parts = [(copies, shared), (copies // mesh.ep, rank.expert_parameters)]
        return fsum(2 * (n - 1) / n * number for n, number in parts)


def _kept(setup: Setup) -> tuple[bool, int]:
    # Whether gradients are kept between passes, and of how many passes activations are.
    return setup.passes > 1, min(setup.mesh.pp, setup.passes)


def _order(plan: Plan) -> tuple[float, int]:
    return (plan.seconds or 0.0) * (1 + plan.bubble), plan.memory or 0


def _check(**numbers: object) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number (got {short_repr(value)})")
        if value < 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")


# Meshes and setups.


LEAST_TOKENS = 8192
"""Sequences are divided only if each device keeps this many tokens, unless the user gives a mesh."""


class Mesh(NamedTuple):
    """The number of devices along each dimension.

    Attributes:
        dp: copies of the model, which share the batch.
        fsdp: copies that share the batch and each hold a part of the parameters, gradients and state.
        tp: devices that share every block.
        pp: stages of a pipeline, with equal numbers of blocks, or fewer in the last one.
        cp: devices that share every sequence.
        ep: how many of the ``dp * fsdp * cp`` devices divide the experts among them. It adds no devices.
    """

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1

    @property
    def devices(self) -> int:
        """The number of all devices."""
        return self.dp * self.fsdp * self.tp * self.pp * self.cp

    @property
    def replicas(self) -> int:
        """How many copies share a batch."""
        return self.dp * self.fsdp

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self._asdict().items() if size > 1) or "one device"


class Setup(NamedTuple):
    """One way to run a step.

    Attributes:
        mesh: the devices.
        micro_batch: samples of one pass of one replica.
        passes: passes of each replica per step.
        checkpoints: whether the blocks run under activation checkpointing.
        precision: an option of :func:`costcore.estimate`; None for the dtypes of the model.
    """

    mesh: Mesh
    micro_batch: int
    passes: int
    checkpoints: bool
    precision: str | None


class Divisible(NamedTuple):
    """The divisible parts of a model and its inputs.

    Attributes:
        blocks: the number of blocks that the model repeats.
        width: whether every block can be divided along ``tp``.
        experts: the number of experts; 0 without any.
        tokens: the tokens of a sequence; 0 if inputs have none.
    """

    blocks: int
    width: bool = False
    experts: int = 0
    tokens: int = 0


def meshes(devices: int, per_node: int, model: Divisible) -> Iterator[Mesh]:
    """Yield the meshes to try: tensor parallelism inside of a node, and a pipeline of copies, or sharded copies.

    Experts are divided over copies. Sequences are divided only if each device keeps :data:`LEAST_TOKENS` of them.

    Args:
        devices: the number of devices.
        per_node: the maximum number of devices along ``tp``.
        model: the divisible parts.
    """
    for tp in _divisors(devices) if model.width else [1]:
        if tp > per_node:
            continue
        for pp in _divisors(devices // tp):
            if pp > max(model.blocks, 1) or _idle_stages(model.blocks, pp):
                continue
            for cp in _divisors(devices // tp // pp):
                if cp > 1 and (cp * LEAST_TOKENS > model.tokens or model.tokens % cp):
                    continue
                yield from _copies(devices // tp // pp // cp, Mesh(tp=tp, pp=pp, cp=cp), model.experts)


def _idle_stages(blocks: int, pp: int) -> int:
    # Stages hold ceil(blocks / pp) blocks each: 9 blocks on 8 stages fill 5, and 3 wait for nothing.
    return pp - ceil(blocks / ceil(blocks / pp)) if blocks else 0


def _copies(replicas: int, mesh: Mesh, experts: int) -> Iterator[Mesh]:
    for ep in _divisors(replicas * mesh.cp) if experts else [1]:
        if experts % ep == 0 and divides(mesh.cp, ep):
            yield mesh._replace(dp=replicas, ep=ep)
            if replicas > 1 and mesh.pp == 1:
                yield mesh._replace(fsdp=replicas, ep=ep)


def divides(a: int, b: int) -> bool:
    """Return whether one of two numbers divides the other."""
    return max(a, b) % min(a, b) == 0


def setups(
    mesh: Mesh,
    global_batch: int,
    micro_batches: Sequence[int],
    checkpoints: Sequence[bool],
    precisions: Sequence[str | None],
) -> Iterator[list[Setup]]:
    """Yield lists of setups of a step on a mesh, each list in order of the micro-batch.

    Args:
        mesh: the devices.
        global_batch: samples of a step.
        micro_batches: sizes of micro-batches; sizes that do not divide the batch of a replica are left out.
        checkpoints: whether blocks are checkpointed.
        precisions: the precisions.
    """
    share, rest = divmod(global_batch, mesh.replicas)
    sizes = [size for size in sorted(micro_batches) if not rest and share and share % size == 0]
    for precision in precisions:
        for checkpoint in checkpoints:
            yield [Setup(mesh, size, share // size, checkpoint, precision) for size in sizes]


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


# Plans as a result.


MOST_ROWS = 10
"""The number of plans that ``print`` and notebooks show."""

ASSUMED = {
    "cp": "devices that share a sequence compute equally many pairs, and masks have the same columns for each",
    "ep": "every expert receives the same number of rows",
}
"""Assumptions by dimension of a mesh: the truth depends on data."""


@dataclass(frozen=True)
class Plan:
    """A setup with its memory and time.

    Attributes:
        setup: the way.
        fits: whether it fits; None if it could not be captured.
        memory: the bytes that a device needs, with the context; None if it was not captured.
        memory_at_least: a lower bound of ``memory``, if it was not captured, from a smaller micro-batch; otherwise
            None.
        sent: bytes that a device sends per step, except between pipeline stages.
        seconds: the minimum time of a step.
        bubble: the additional share of it that pipeline stages wait in the 1F1B schedule: ``(pp - 1) / passes``. Other
            schedules wait less.
        binds: the bottleneck: an engine or memory of the device (``matrix``, ``vector``, ``dram``), or
            ``communication``.
        on_lines: the memory extrapolated from captures of few blocks, if :attr:`memory` is from a capture of
            all blocks of the rank; None if :attr:`memory` is extrapolated itself.
        why: why it is left out; empty if it fits.
    """

    setup: Setup
    fits: bool | None
    memory: int | None = None
    sent: int | None = None
    seconds: float | None = None
    bubble: float = 0.0
    binds: str = ""
    on_lines: int | None = None
    why: str = ""
    memory_at_least: int | None = None

    @property
    def is_captured(self) -> bool:
        """Whether all blocks of the rank were captured."""
        return self.on_lines is not None

    @property
    def assumed(self) -> list[str]:
        """The assumptions behind its figures, as sentences; none without ``cp`` and ``ep``."""
        return [text for axis, text in ASSUMED.items() if getattr(self.setup.mesh, axis) > 1]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        setup = self.setup
        return {
            **setup.mesh._asdict(),
            "micro_batch": setup.micro_batch,
            "passes": setup.passes,
            "checkpoint": setup.checkpoints,
            "precision": setup.precision,
            **{name: value for name, value in vars(self).items() if name != "setup"},
            "is_captured": self.is_captured,
            "assumed": self.assumed,
        }


COLUMNS = (
    *(Column("mesh", "Mesh"), Column("memory", "Memory", "bytes"), Column("seconds", "Bound", "duration", "bound")),
    Column("expected", "Published runs", "ratio", "calibrated"),
    *(Column("micro_batch", "Micro-batch", "count"), Column("checkpoint", "Checkpointing")),
    *(Column("bubble", "Bubble", "percent"), Column("passes", "Passes", "count"), Column("sent", "Sent", "bytes")),
    *(Column("binds", "Bound by"), Column("status", "Memory is"), Column("precision", "Precision")),
)

DROPPED_FIRST = ("precision", "status", "binds", "passes", "sent", "bubble")
"""The columns that a narrow terminal drops, in this order."""

LEFT_OUT = (
    *(each for each in COLUMNS if each.key in ("mesh", "micro_batch", "checkpoint", "memory")),
    Column("why", "Left out because"),
)

TIMES = "times are bounds, without latencies and what stages send each other; the order has bubbles of pipelines"

FIGURES = ("seconds", "memory", "sent", "bubble", "micro_batch", "passes")
"""The figures of a plan that :meth:`Plans.pareto` compares."""


class WholeRun(NamedTuple):
    """The model of plans, to compare them with published runs.

    Attributes:
        setup: its sizes, without a mesh.
        flops: model FLOPs of one sample.
        peak: FLOP/s of a device, as its vendor prints them.
    """

    setup: RunSetup
    flops: int
    peak: float

    def expected(self, mesh: Mesh, samples: int) -> tuple[float, float, Expected]:
        """Return the minimum and the maximum seconds of a step with this mesh, from the published runs near it."""
        found = expected(self.setup._replace(**{axis: getattr(mesh, axis) for axis in AXES}))
        busy = samples * self.flops / (self.setup.devices * self.peak)
        return busy / found.high, busy / found.low, found


@dataclass(frozen=True, repr=False)
class Plans(Result):
    """The plans that were tried.

    Attributes:
        plans: the plans that fit, by minimum time of a step including the bubble.
        left_out: all others, each with the reason.
        device: the device.
        limit: the terms of its memory.
        global_batch: samples of a step.
        run: the model, to compare plans with published runs; None if there are none of such models and devices.
    """

    plans: tuple[Plan, ...]
    left_out: tuple[Plan, ...]
    device: Device
    limit: Limit
    global_batch: int
    run: WholeRun | None = None

    def __repr__(self) -> str:
        return f"<Plans: {len(self.plans)} of {len(self.plans) + len(self.left_out)} fit {self.device.name}>"

    @property
    def best(self) -> Plan | None:
        """The plan with the minimum time of a step; None if none fits."""
        return self.plans[0] if self.plans else None

    @property
    def error(self) -> float | None:
        """The largest relative error of extrapolated memory among captured plans; None without one."""
        both = [(each.on_lines, each.memory) for each in (*self.plans, *self.left_out)]
        return max((abs(line - memory) / memory for line, memory in both if line and memory), default=None)

    def pareto(self, *names: str) -> Plans:
        """Return the Pareto-optimal plans that fit, by some figures.

        Args:
            names: figures to minimize: ``"seconds", "memory"``; with a minus sign before its name, a figure to
                maximize.

        Raises:
            ValueError: if there is no such figure.
        """
        check_figures(names)
        best = front([each.to_dict() for each in self.plans], names)
        return replace(self, plans=tuple(self.plans[i] for i in best))

    def _content(self) -> Content:
        tried = len(self.plans) + len(self.left_out)
        figures = [Figure("n_fits", "Plans that fit", len(self.plans), "count", f"of {tried} tried")]
        if self.best is not None:
            seconds = self.best.seconds
            figures.append(Figure("seconds", "Step at least", seconds, "duration", str(self.best.setup.mesh), "bound"))
        remarks = [f"limit: {self.limit.describe()}"]
        columns: Sequence[Column] = COLUMNS
        shown, title = self.plans, "Plans that fit, least time with bubbles first"
        if self.plans:
            remarks += [self._certainty(), TIMES]
        else:
            columns, title = LEFT_OUT, "Plans that need the least"
            shown = tuple(sorted(self.left_out, key=lambda each: (each.memory is None, each.memory or 0)))
        rows = [_row(plan) | self._expected(plan) for plan in shown]
        if self.run is None:
            columns = [column for column in columns if column.key != "expected"]
        tables = [Table(title, columns, rows, n_digits=2, most=MOST_ROWS, dropped_first=DROPPED_FIRST)]
        remarks += [f"assumed: {text}" for text in dict.fromkeys(text for each in self.plans for text in each.assumed)]
        if self.run is not None and self.best is not None:
            low, high, found = self.run.expected(self.best.setup.mesh, self.global_batch)
            text, because = _range(low, high), f"by the {NEAREST} nearest published runs, {INSIDE:.0%} within"
            middle = low * found.high / found.middle
            figures.append(
                Figure("expected", "Step in practice", Formatted(middle, text), "ratio", because, "calibrated")
            )
            tables.append(nearest_runs(found))
        return Content(f"Plans on {self.device.name}", figures, tables, remarks)

    def _range_of(self, plan: Plan) -> dict[str, Any]:
        return {} if self.run is None else {"expected": self.run.expected(plan.setup.mesh, self.global_batch)[:2]}

    def _expected(self, plan: Plan) -> dict[str, Any]:
        if self.run is None:
            return {}
        low, high, found = self.run.expected(plan.setup.mesh, self.global_batch)
        return {"expected": Formatted(low * found.high / found.middle, _range(low, high))}

    def _pictures(self) -> str:
        known = [each for each in self.plans if each.seconds and each.memory]
        best = front([each.to_dict() for each in known], ("seconds", "memory"))
        points = [
            Point(each.seconds or 0.0, each.memory or 0, f"{each.setup.mesh}, {each.setup.micro_batch} each", i in best)
            for i, each in enumerate(known)
        ]
        axes = Axis("bound of a step", "duration"), Axis("memory of a device", "bytes")
        return section("Time and memory of the plans that fit", scatter(points, *axes)) if len(points) > 1 else ""

    def _picture(self, theme: Theme) -> Picture:
        known = [each for each in self.plans if each.seconds and each.memory]
        rows = [(f"{each.setup.mesh}, {each.setup.micro_batch} each", each.seconds, each.memory) for each in known]
        names, seconds, memory = zip(*rows, strict=True) if rows else ((), (), ())
        x = PictureAxis(Column("seconds", "Bound of a step", "duration"), seconds)
        y = PictureAxis(Column("memory", "Memory of a device", "bytes"), memory)
        return Picture(("name", "seconds", "memory"), rows, lambda: draw(x, y, theme=theme, names=names))

    def _certainty(self) -> str:
        captured = sum(each.is_captured for each in self.plans)
        off = "" if self.error is None else f", which differ from captures of all by up to {100 * self.error:.2g} %"
        return (
            f"memory: all blocks of the first {captured} plans were captured; that of others is on lines through "
            f"captures of {DEPTHS[0]} and {DEPTHS[1]} blocks{off}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every plan in plain JSON types: fitting plans in order, then the others."""
        return {
            **super().to_dict(),
            "device": self.device.name,
            "limit": self.limit.to_dict(),
            "global_batch": self.global_batch,
            "error": self.error,
            "plans": [each.to_dict() | self._range_of(each) for each in (*self.plans, *self.left_out)],
        }


def _range(low: float, high: float) -> str:
    return f"{duration(low, 2)} to {duration(high, 2)}"


def check_figures(names: Iterable[str]) -> None:
    """Check the names of figures that :meth:`Plans.pareto` compares.

    Raises:
        ValueError: if there is no such figure.
    """
    if missing := [name for name in names if name.removeprefix(LARGE) not in FIGURES]:
        raise ValueError(unknown("figure of a plan", missing, FIGURES))


def _row(plan: Plan) -> dict[str, Any]:
    return {
        **{name: value for name, value in plan.to_dict().items() if value is not None},
        "mesh": str(plan.setup.mesh),
        "checkpoint": "yes" if plan.setup.checkpoints else "no",
        "precision": plan.setup.precision or "as the model",
        "bubble": 100 * plan.bubble,
        "status": "captured" if plan.is_captured else "on lines",
    }


# The figures of one rank, extrapolated from captures with few blocks.


DEPTHS = (3, 4)
"""The numbers of blocks of two captures; figures of more blocks follow linearly.

With three, one block has neighbors on both sides: sharded copies prefetch the parameters of the next one.
"""


class RankCosts(NamedTuple):
    """The figures of one pass of one rank, or of a pass and a step of the optimizer.

    Attributes:
        peaks: the maximum bytes alive in each phase, and in each phase in each scope of :func:`scopes_of`.
        base: bytes alive before the pass.
        end: bytes alive after it.
        saved: bytes that autograd keeps for the backward pass.
        seconds: the minimum time of the pass.
        step_seconds: the minimum time of the optimizer.
        sent: bytes that the pass sends.
        binds: the minimum time of the pass by bottleneck.
        parameters: the number of parameters of the rank.
        expert_parameters: the number of them in experts, before sharding.
        state: bytes of optimizer state.
    """

    peaks: Mapping[tuple[str, str], float]
    base: float
    end: float
    saved: float
    seconds: float
    step_seconds: float
    sent: float
    binds: Mapping[str, float]
    parameters: float
    expert_parameters: float
    state: float

    def with_step(self, step: RankCosts) -> RankCosts:
        """Return the figures of this pass with a step of the optimizer, captured with another micro-batch.

        Optimizer state is alive throughout. The additional memory of the step does not depend on the pass.

        Args:
            step: any pass with a step of the optimizer.
        """
        state, needed = step.state, step.peaks["optimizer", ""] - step.end
        peaks = {scope: peak + state for scope, peak in self.peaks.items()}
        return self._replace(
            peaks={**peaks, ("optimizer", ""): self.end + state + needed},
            base=self.base + state,
            end=self.end + state,
            step_seconds=step.step_seconds,
            state=state,
        )

    @staticmethod
    def sum_of(ranks: Sequence[tuple[float, RankCosts]]) -> RankCosts:
        """Return the sum of figures, each times a factor."""

        def added(values: Sequence[Any]) -> Any:
            if isinstance(values[0], Mapping):
                keys = dict.fromkeys(key for value in values for key in value)
                return {key: added([value.get(key, 0.0) for value in values]) for key in keys}
            return fsum(factor * value for (factor, _), value in zip(ranks, values, strict=True))

        return RankCosts(*map(added, zip(*(rank for _, rank in ranks), strict=True)))


class RankCaptures:
    """Captures of one rank by setup, each made once.

    Args:
        model: the model.
        inputs: returns the inputs of a batch.
        distribution: how the model can be distributed, see :class:`costcore.frontend.DistributionOf`.
        device: the device.
        dtype: the dtype of products.
        optimizer: the optimizer.
        options: further options of :func:`costcore.estimate`.
    """

    def __init__(
        self,
        model: Any,
        inputs: Callable[[int], Any],
        distribution: Any,
        device: Device,
        dtype: str,
        optimizer: Any,
        options: Mapping[str, Any],
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._distribution = distribution
        self._device = device
        self._dtype = dtype
        self._optimizer = optimizer
        self._options = options
        self._captured: dict[Any, RankCosts] = {}

    def of(self, setup: Setup, kinds: Sequence[int], exactly: bool = False) -> RankCosts:
        """Return the figures of a rank that has blocks of these kinds.

        Without ``exactly`` they are extrapolated: captures of :data:`DEPTHS` blocks give the increment per kind.

        Args:
            setup: how the step runs.
            kinds: the kind of each block.
            exactly: whether to capture all blocks. Times are extrapolated even then.

        Raises:
            CostError, TypeError, ValueError: if the model cannot be captured in this way.
        """
        few, more = DEPTHS
        counts = Counter(kinds)
        ((most, _),) = counts.most_common(1)
        # A model of few blocks, plus what every further block of each kind adds.
        terms = [(1.0, self._capture(setup, (most,) * few))]
        for kind, number in counts.items():
            share = (number - (few if kind == most else 0)) / (more - few)
            terms += [(share, self._capture(setup, (kind,) * more)), (-share, self._capture(setup, (kind,) * few))]
        lines = RankCosts.sum_of(terms)
        if not exactly:
            return lines
        whole = self._run(setup, tuple(kinds), with_step=True, with_times=False)
        return whole._replace(seconds=lines.seconds, step_seconds=lines.step_seconds, binds=lines.binds)

    def saved(self, setup: Setup, kinds: Sequence[int]) -> float:
        """Return the bytes that autograd keeps of blocks of these kinds, without the rest of the model."""
        few, more = DEPTHS
        depths = [(self._capture(setup, (kind,) * few), self._capture(setup, (kind,) * more)) for kind in kinds]
        return fsum((deeper.saved - fewer.saved) / (more - few) for fewer, deeper in depths)

    def _capture(self, setup: Setup, kinds: tuple[int, ...]) -> RankCosts:
        # The optimizer does not depend on the pass: it is captured once, with the cheapest pass.
        step = self._run(setup._replace(micro_batch=1, passes=1, checkpoints=False), kinds, with_step=True)
        return self._run(setup, kinds, with_step=False).with_step(step)

    def _run(self, setup: Setup, kinds: tuple[int, ...], with_step: bool, with_times: bool = True) -> RankCosts:
        mesh = setup.mesh
        sizes = {name: getattr(mesh, name) for name in ("fsdp", "tp", "cp", "ep")}
        accumulates = setup.passes > 1
        key = (*sizes.values(), setup.micro_batch, setup.checkpoints, setup.precision, accumulates, kinds, with_step)
        if key not in self._captured:
            layout = self._distribution.plan(kinds, **sizes)
            options = {
                **self._options,
                "backward": True,
                "memory": True,
                "mesh": layout.mesh,
                "plan": layout,
                "step": "accumulated" if accumulates else "steady",
                "precision": setup.precision,
                "checkpoint": self._distribution.kind if setup.checkpoints else None,
                "optimizer": self._optimizer if with_step else None,
            }
            inputs = with_part_of_tokens(self._inputs(setup.micro_batch), mesh.cp)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about missing formulas, and about code that is not in a stage
                report = estimate(self._model, inputs, **options)
            self._captured[key] = self._figures(report, layout, with_times)
        return self._captured[key]

    def _figures(self, report: Report, layout: Any, with_times: bool) -> RankCosts:
        memory, rank = report.memory, report.trace.run.rank
        assert memory is not None and rank is not None
        groups = report.time(self._device, dtype=self._dtype, fusion="compiler").groups if with_times else ()
        passes = [group for group in groups if group.calls[0].phase != "optimizer"]
        steps = [group for group in groups if group.calls[0].phase == "optimizer"]
        binds: dict[str, float] = {}
        for group in passes:
            binds[group.bound.binds] = binds.get(group.bound.binds, 0.0) + group.bound_seconds
        return RankCosts(
            peaks=_peaks(report, layout.blocks),
            base=memory.base,
            end=memory.end,
            saved=memory.saved,
            seconds=fsum(group.bound_seconds for group in passes),
            step_seconds=fsum(group.bound_seconds for group in steps),
            sent=report.total_report.get("mcomm", 0),
            binds=binds,
            parameters=rank.n_params,
            expert_parameters=layout.expert_parameters,
            state=memory.ledger.live("optimizer")[0],
        )


def scopes_of(module: str, blocks: Sequence[str]) -> list[str]:
    """Return the scopes of a module: anywhere (``""``), and outside of the blocks, or in the first or the last one.

    The bytes alive in one scope grow linearly with the number of blocks; the scope of the overall peak can change.

    Args:
        module: its path.
        blocks: the paths of the blocks.

    >>> scopes_of("layers.2.mlp", ["layers.0", "layers.1", "layers.2"])
    ['', 'last']
    """
    inside = next((i for i, block in enumerate(blocks) if f"{module}.".startswith(f"{block}.")), None)
    if inside is None:
        return ["", "outside"]
    return ["", *(["first"] if inside == 0 else []), *(["last"] if inside == len(blocks) - 1 else [])]


def _peaks(report: Report, blocks: Sequence[str]) -> dict[tuple[str, str], float]:
    assert report.memory is not None
    scopes: dict[str, list[str]] = {}
    found: dict[tuple[str, str], float] = {}
    for call, (_, _, most) in zip(report.trace.calls, report.memory.live_by_call(), strict=True):
        if call.module not in scopes:
            scopes[call.module] = scopes_of(call.module, blocks)
        for scope in scopes[call.module]:
            found[call.phase, scope] = max(found.get((call.phase, scope), 0.0), most)
    return found


def peak_of(rank: RankCosts, block: float, waiting: int) -> int:
    """Return the peak memory of a rank.

    Args:
        rank: the figures of the rank.
        block: bytes that autograd saves in its blocks in one pass.
        waiting: the number of further passes that are kept.
    """
    peaks = (peak + (0 if phase == "optimizer" else waiting * block) for (phase, _), peak in rank.peaks.items())
    return ceil(max(peaks))


# The tokens of the inputs, and a part of them.


AXIS = 1
"""The dimension of an input that is assumed to be tokens: the one after the batch."""


def tokens_of(inputs: Any) -> int:
    """Return how many tokens the inputs have: the largest second dimension of one; 0 if none has two."""
    return max((shape[AXIS] for shape in _shapes(with_tensors(inputs)) if len(shape) > AXIS), default=0)


def with_part_of_tokens(inputs: Any, parts: int) -> Any:
    """Return inputs with one of several equal parts of their tokens.

    Args:
        inputs: inputs as :func:`costcore.estimate` takes them.
        parts: the number of parts.

    Raises:
        CostError: if there are no tokens, or their number is not a multiple of the parts.
    """
    if parts == 1:
        return inputs
    tokens = tokens_of(inputs)
    if not tokens or tokens % parts:
        raise CostError(f"a sequence of {tokens} tokens, the second dimension of an input, has no {parts} equal parts")
    return _divided(with_tensors(inputs), tokens, parts)


def _shapes(value: Any) -> list[tuple[int, ...]]:
    if hasattr(value, "shape"):
        return [tuple(value.shape)]
    if _is_shape(value):
        return [tuple(value)]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [shape for item in items for shape in _shapes(item)]


def _divided(value: Any, tokens: int, parts: int) -> Any:
    if hasattr(value, "shape"):
        shape = _part(tuple(value.shape), tokens, parts)
        return value if shape == tuple(value.shape) else Tensor(shape, str(value.dtype).rpartition(".")[2])
    if _is_shape(value):
        return type(value)(_part(tuple(value), tokens, parts))
    if isinstance(value, Mapping):
        return {key: _divided(item, tokens, parts) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_divided(item, tokens, parts) for item in value)
    return value


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(type(size) is int for size in value)


def _part(shape: tuple[int, ...], tokens: int, parts: int) -> tuple[int, ...]:
    if len(shape) <= AXIS or shape[AXIS] != tokens:
        return shape
    return (*shape[:AXIS], tokens // parts, *shape[AXIS + 1 :])
