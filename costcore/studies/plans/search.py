"""The search for the best plan of a training step on many devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from os import PathLike
from typing import Any

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.analyses.topology.link import Link, link_of
from costcore.api.target import model_and_inputs
from costcore.errors import CostError
from costcore.messages import short_repr, unknown
from costcore.registry.frontends import needed_ability
from costcore.studies.batch_size.inputs import inputs_of_batch
from costcore.studies.batch_size.limit import CONTEXT, Limit, make_limit
from costcore.studies.plans.rank import DEPTHS, Rank, Ranks, peak_of
from costcore.studies.plans.setup import Mesh, Setup, meshes, setups
from costcore.studies.serving.capacity import memory_of
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.amounts import readable
from costcore.text.table import Column

MOST_ROWS = 10
"""The number of plans that ``print`` and notebooks show."""

NBYTES = {"bfloat16": 2, "autocast": 4, None: 4}
"""Bytes of a gradient by precision; without one, of a model in float32."""


@dataclass(frozen=True)
class Plan:
    """One way to run a step, and what it takes.

    Attributes:
        setup: the way.
        fits: whether it fits; None if it could not be captured.
        memory: the bytes that a device needs, with the context; None if it was not captured.
        sent: bytes that a device sends per step, without what stages of a pipeline send each other.
        seconds: the least time of a step.
        bubble: the share of it that stages of a pipeline wait in addition if each runs a forward pass and a backward
            pass in turn: ``(pp - 1) / passes``. Other schedules wait less.
        binds: what limits it: an engine or memory of the device (``matrix``, ``vector``, ``dram``), or
            ``communication``.
        is_captured: whether memory is that of a capture of all blocks of a rank, instead of a line through two.
        why: why it is left out; empty if it fits.
    """

    setup: Setup
    fits: bool | None
    memory: int | None = None
    sent: int | None = None
    seconds: float | None = None
    bubble: float = 0.0
    binds: str = ""
    is_captured: bool = False
    why: str = ""

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
        }


COLUMNS = (
    *(Column("mesh", "Mesh"), Column("micro_batch", "Micro-batch", "count"), Column("passes", "Passes", "count")),
    *(Column("checkpoint", "Checkpointing"), Column("precision", "Precision"), Column("memory", "Memory", "bytes")),
    *(Column("sent", "Sent", "bytes"), Column("seconds", "Bound", "duration", "bound")),
    *(Column("bubble", "Bubble", "percent"), Column("binds", "Bound by")),
)


@dataclass(frozen=True, repr=False)
class Plans(Result):
    """The plans that were tried.

    Attributes:
        plans: those that fit, the least time of a step first, with the bubble of a pipeline.
        left_out: all others, each with the reason.
        device: the device.
        limit: the terms of its memory.
        global_batch: samples of a step.
    """

    plans: tuple[Plan, ...]
    left_out: tuple[Plan, ...]
    device: Device
    limit: Limit
    global_batch: int

    def __repr__(self) -> str:
        return f"<Plans: {len(self.plans)} of {len(self.plans) + len(self.left_out)} fit {self.device.name}>"

    @property
    def best(self) -> Plan | None:
        """The plan with the least time of a step; None if none fits."""
        return self.plans[0] if self.plans else None

    def _answer(self) -> Answer:
        tried = len(self.plans) + len(self.left_out)
        figures = [Figure("n_fits", "Plans that fit", len(self.plans), "count", f"of {tried} tried")]
        if self.best is not None:
            seconds = self.best.seconds
            figures.append(Figure("seconds", "Step at least", seconds, "duration", str(self.best.setup.mesh), "bound"))
        rows = [_row(each) for each in self.plans]
        table = Table("Plans that fit, least time with bubbles first", COLUMNS, rows, n_digits=2, most=MOST_ROWS)
        remarks = [
            f"limit: {self.limit.describe()}",
            f"memory of more than {DEPTHS[1]} blocks is on the line through captures of {DEPTHS[0]} and {DEPTHS[1]}; "
            "all blocks of the best plan were captured",
            "times are bounds, without latencies and what stages send each other; the order has bubbles of pipelines",
        ]
        return Answer(f"Plans on {self.device.name}", figures, [table], remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return every plan that was tried in plain JSON types: those that fit in order, then those left out."""
        return {
            **super().to_dict(),
            "device": self.device.name,
            "limit": self.limit.to_dict(),
            "global_batch": self.global_batch,
            "plans": [each.to_dict() for each in (*self.plans, *self.left_out)],
        }


def _row(plan: Plan) -> dict[str, Any]:
    return {
        **plan.to_dict(),
        "mesh": str(plan.setup.mesh),
        "checkpoint": "yes" if plan.setup.checkpoints else "no",
        "precision": plan.setup.precision or "as the model",
        "bubble": 100 * plan.bubble,
    }


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
    checkpoints: Sequence[bool] = (False, True),
    precisions: Sequence[str | None] = ("bfloat16",),
    meshes: Iterable[Mapping[str, int]] | None = None,
    link: object = None,
    dtype: str = "bfloat16",
    memory: int | str | None = None,
    context: int | str = CONTEXT,
    **options: Any,
) -> Plans:
    """Return the ways to run a training step of a model on many devices: those that fit, the fastest first.

    Each way is captured: one rank, with two of its blocks and with four, and the figures of all its blocks follow,
    because each adds the same. All blocks of the best plan are captured, so that it is certain that it fits.

    Args:
        model: a ``torch.nn.Module``. Tensor parallelism needs its attribute ``tp_plan``, as models of transformers have
            it: styles such as ``"colwise"`` by names of modules, ``"layers.*.q_proj"``.
        inputs: inputs with a batch, as for :func:`costcore.max_batch`.
        devices: the number of devices.
        device: the device, such as ``"h100"``.
        global_batch: samples of a step of the optimizer.
        optimizer: the optimizer, see :func:`costcore.estimate`.
        per_node: the most devices along ``tp``.
        micro_batches: samples of a pass that are tried.
        checkpoints: whether blocks run under activation checkpointing; both are tried.
        precisions: options ``precision`` of :func:`costcore.estimate` that are tried.
        meshes: the meshes to try, ``{"dp": 8, "tp": 8}``, with any of ``dp``, ``fsdp``, ``tp``, ``pp``. Default: all
            divisions of the devices into copies, or sharded copies, with ``tp`` inside of a node, and pipelines of
            copies.
        link: the link between devices, see :meth:`costcore.Report.time`: what a device sends takes at least as long as
            all of it over this link. Default: unknown, so that it does not limit a step.
        dtype: the dtype of products.
        memory: the memory of a device; default: what its vendor prints.
        context: what a process takes before its first tensor.
        options: further options of :func:`costcore.estimate`.

    Raises:
        CostError: if the model repeats no blocks, or cannot be captured at all.
        TypeError, ValueError: if an argument is invalid.
    """
    _check(devices=devices, global_batch=global_batch, per_node=per_node)
    for size in micro_batches:
        _check(micro_batches=size)
    model, inputs = model_and_inputs(model, inputs, is_step=True)
    chosen = named(device)
    limit = make_limit(memory_of(chosen) if memory is None else memory, context)
    distribution = needed_ability("distribution", model, "a plan")(model)
    if not distribution.blocks:
        raise CostError("a plan needs a model that repeats blocks, such as the layers of a transformer")
    ranks = Ranks(model, inputs_of_batch(inputs), distribution, chosen, dtype, optimizer, options)
    search = _Search(ranks, distribution.blocks, limit, None if link is None else link_of(link))
    tried = [
        made
        for mesh in _meshes(meshes, devices, per_node, distribution)
        for ways in setups(mesh, global_batch, micro_batches, checkpoints, precisions)
        for made in search.of(ways)
    ]
    if tried and all(each.fits is None for each in tried):
        raise CostError(f"no plan can be captured: {tried[0].why}")
    return Plans(*search.sorted(tried), chosen, limit, global_batch)


def _meshes(given: Iterable[Mapping[str, int]] | None, devices: int, per_node: int, distribution: Any) -> list[Mesh]:
    """Return the meshes to try.

    Raises:
        ValueError: if one has other dimensions, or does not have all devices.
    """
    if given is None:
        return [*meshes(devices, per_node, distribution.blocks, distribution.width)]
    found = []
    for sizes in given:
        if wrong := [name for name in sizes if name not in Mesh._fields]:
            raise ValueError(unknown("dimension of a mesh", wrong, Mesh._fields))
        _check(**sizes)
        found.append(Mesh(**sizes))
        if found[-1].devices != devices:
            raise ValueError(f"the mesh {found[-1]} has {found[-1].devices} devices, not {devices}")
    return found


class _Search:
    """Tries ways to run a step."""

    def __init__(self, ranks: Ranks, blocks: int, limit: Limit, link: Link | None) -> None:
        self._ranks = ranks
        self._blocks = blocks
        self._limit = limit
        self._link = link

    def of(self, ways: Sequence[Setup]) -> list[Plan]:
        """Return plans; after one that does not fit, those with larger micro-batches are not captured."""
        found: list[Plan] = []
        for setup in ways:
            if found and not found[-1].fits:
                why = f"a micro-batch of {ways[0].micro_batch} does not fit, or cannot run, already"
                found.append(Plan(setup, found[-1].fits, why=why))
            else:
                found.append(self._try(setup))
        return found

    def sorted(self, tried: Sequence[Plan]) -> tuple[tuple[Plan, ...], tuple[Plan, ...]]:
        """Return plans that fit, the least time first, and all others; the first is captured with all of its blocks."""
        fitting = sorted((each for each in tried if each.fits), key=_order)
        left_out = [each for each in tried if not each.fits]
        while fitting and not fitting[0].is_captured:
            best = self._try(fitting.pop(0).setup, exactly=True)
            if best.fits:
                fitting = sorted([best, *fitting], key=_order)
                break
            left_out.append(best)
        return tuple(fitting), tuple(left_out)

    def _try(self, setup: Setup, exactly: bool = False) -> Plan:
        mesh = setup.mesh
        blocks = ceil(self._blocks / mesh.pp)
        try:
            rank = self._ranks.of(setup, blocks, exactly)
            whole = rank if mesh.pp == 1 else self._ranks.of(setup, self._blocks)
            fewer, deeper = (self._ranks.of(setup, depth).saved for depth in DEPTHS) if mesh.pp > 1 else (0.0, 0.0)
        except (CostError, TypeError, ValueError) as error:
            return Plan(setup, None, why=str(error))
        saved = (deeper - fewer) / (DEPTHS[1] - DEPTHS[0]) * blocks
        needed = self._limit.needed(peak_of(setup, rank, saved))
        sent = round(setup.passes * rank.sent + self._reduced(setup, rank))
        seconds = (setup.passes * whole.seconds + whole.step_seconds) / mesh.pp
        binds = max(whole.binds, key=whole.binds.__getitem__, default="")
        over = self._link.seconds(0, sent) if self._link is not None else 0.0
        if over > seconds:
            seconds, binds = over, "communication"
        fits = needed <= self._limit.memory
        more = readable(needed - self._limit.memory, "bytes", 2)
        why = "" if fits else f"needs {more} too much"
        bubble = (mesh.pp - 1) / setup.passes
        return Plan(setup, fits, needed, sent, seconds, bubble, binds, exactly, why)

    def _reduced(self, setup: Setup, rank: Rank) -> float:
        """Return the bytes that a ring sends to add the gradients of all copies: 2 * (n - 1) / n of them."""
        n = setup.mesh.dp
        return 2 * (n - 1) / n * rank.parameters * NBYTES[setup.precision]


def _order(plan: Plan) -> tuple[float, int]:
    return (plan.seconds or 0.0) * (1 + plan.bubble), plan.memory or 0


def _check(**numbers: object) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number (got {short_repr(value)})")
        if value < 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")
