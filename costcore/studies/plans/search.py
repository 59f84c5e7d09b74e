"""The search for the best plan of a training step on many devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, fsum
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
from costcore.studies.plans.answer import Plan, Plans
from costcore.studies.plans.rank import Rank, Ranks, peak_of
from costcore.studies.plans.setup import Divisible, Mesh, Setup, divides, meshes, setups
from costcore.studies.plans.tokens import tokens_of
from costcore.studies.serving.capacity import memory_of
from costcore.text.amounts import readable

NBYTES = {"bfloat16": 2, "autocast": 4, None: 4}
"""Bytes of a gradient by precision; without one, of a model in float32."""

CERTAIN = 3
"""Of so many plans all blocks are captured."""


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
    """Return the ways to run a training step of a model on many devices: those that fit, the fastest first.

    Each way is captured: one rank, with three of its blocks and with four, and the figures of all its blocks follow,
    because each block of a kind adds the same. All blocks of the first ``certain`` plans are captured, so that it is
    certain that they fit; :attr:`~costcore.studies.plans.answer.Plans.error` says how far from these the others can be.

    Args:
        model: a ``torch.nn.Module``. Tensor parallelism needs its attribute ``tp_plan``, as models of transformers have
            it: styles such as ``"colwise"`` by names of modules, ``"layers.*.q_proj"``. Expert parallelism needs
            ``ep_plan``: the style ``"ep_dispatch_experts"`` of modules of experts.
        inputs: inputs with a batch, as for :func:`costcore.max_batch`.
        devices: the number of devices.
        device: the device, such as ``"h100"``.
        global_batch: samples of a step of the optimizer.
        optimizer: the optimizer, see :func:`costcore.estimate`.
        per_node: the most devices along ``tp``.
        micro_batches: samples of a pass that are tried.
        certain: of how many plans all blocks are captured.
        checkpoints: whether blocks run under activation checkpointing; both are tried.
        precisions: options ``precision`` of :func:`costcore.estimate` that are tried.
        meshes: the meshes to try, ``{"dp": 8, "tp": 8}``, with any of ``dp``, ``fsdp``, ``tp``, ``pp``, ``cp``, and
            ``ep``, which divides experts over some of ``dp * fsdp * cp`` devices. Default: all divisions of the devices
            into copies, or sharded copies, with ``tp`` inside of a node, and pipelines of copies; experts divided over
            copies; and sequences over devices that keep 8,192 tokens.
        link: the link between devices, see :meth:`costcore.Report.time`: what a device sends takes at least as long as
            all of it over this link. Default: unknown, so that it does not limit a step.
        dtype: the dtype of products.
        memory: the memory of a device; default: what its vendor prints.
        context: what a process takes before its first tensor.
        options: further options of :func:`costcore.estimate`.

    Raises:
        CostError: if the model repeats no blocks, or cannot be captured at all.
        TypeError, ValueError: if an argument is invalid, or no mesh divides the samples.
    """
    _check(devices=devices, global_batch=global_batch, per_node=per_node, certain=certain)
    for size in micro_batches:
        _check(micro_batches=size)
    model, inputs = model_and_inputs(model, inputs, is_step=True)
    chosen = named(device)
    limit = make_limit(memory_of(chosen) if memory is None else memory, context)
    distribution = needed_ability("distribution", model, "a plan")(model)
    if not distribution.kinds:
        raise CostError("a plan needs a model that repeats blocks, such as the layers of a transformer")
    sized = inputs_of_batch(inputs)
    ranks = Ranks(model, sized, distribution, chosen, dtype, optimizer, options)
    search = _Search(ranks, distribution.kinds, limit, None if link is None else link_of(link))
    blocks, tokens = len(distribution.kinds), tokens_of(sized(1))
    divisible = Divisible(blocks, distribution.width, distribution.experts, tokens)
    tried = [
        made
        for mesh in _meshes(meshes, devices, per_node, divisible)
        for ways in setups(mesh, global_batch, micro_batches, checkpoints, precisions)
        for made in search.of(ways)
    ]
    if not tried:
        sizes = ", ".join(map(str, micro_batches))
        raise ValueError(f"no mesh divides {global_batch} samples into equal parts, and these into passes of {sizes}")
    if all(each.fits is None for each in tried):
        raise CostError(f"no plan can be captured: {tried[0].why}")
    fitting, left_out = search.captured(tried, certain)
    left_out += [each for each in tried if not each.fits]
    return Plans(tuple(fitting), tuple(left_out), chosen, limit, global_batch)


def _meshes(given: Iterable[Mapping[str, int]] | None, devices: int, per_node: int, model: Divisible) -> list[Mesh]:
    """Return the meshes to try.

    Raises:
        ValueError: if one has other dimensions, or does not have all devices.
    """
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
    """Tries ways to run a step.

    Args:
        ranks: the captures.
        kinds: the kind of each block of the model.
        limit: the terms of the memory of a device.
        link: the link between devices, if it is known.
    """

    def __init__(self, ranks: Ranks, kinds: Sequence[int], limit: Limit, link: Link | None) -> None:
        self._ranks = ranks
        self._kinds = kinds
        self._limit = limit
        self._link = link

    def of(self, ways: Sequence[Setup]) -> list[Plan]:
        """Return plans; after one that does not fit, larger micro-batches that keep as much are not captured.

        Their memory is bounded by that of the smaller one.
        """
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
        """Return plans that fit, the least time first, and all others; all blocks of the first ones are captured.

        Args:
            tried: plans.
            most: of how many all blocks are captured; those that do not fit after all are not among them.
        """
        fitting = sorted((each for each in tried if each.fits), key=_order)
        left_out: list[Plan] = []
        certain: list[Plan] = []
        while fitting and len(certain) < most:
            made = self._try(fitting[0].setup, fitting.pop(0).memory)
            (certain if made.fits else left_out).append(made)
        return sorted([*certain, *fitting], key=_order), left_out

    def _try(self, setup: Setup, on_lines: int | None = None) -> Plan:
        """Return a plan, whose memory is on lines.

        Args:
            setup: how the step runs.
            on_lines: that memory, if all blocks of the stage that needs the most are to be captured.
        """
        try:
            memory, rank, stage = max(
                (self._stage(setup, *each) for each in self._stages(setup)), key=lambda stage: stage[0]
            )
            if on_lines is not None:
                memory, rank, stage = self._stage(setup, *stage, exactly=True)
            whole = self._ranks.of(setup, self._kinds)
        except (CostError, TypeError, ValueError) as error:
            return Plan(setup, None, why=str(error))
        stages = setup.mesh.pp
        sent = round(setup.passes * rank.sent + self._reduced(setup.mesh, rank) * NBYTES[setup.precision])
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
        """Return the stages of a pipeline that differ: the kinds of their blocks, and how many passes wait in them."""
        size = ceil(len(self._kinds) / setup.mesh.pp)
        found: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
        for stage in range(ceil(len(self._kinds) / size)):
            kinds = tuple(self._kinds[stage * size : (stage + 1) * size])
            found.setdefault(kinds, (kinds, min(setup.mesh.pp - stage, setup.passes) - 1))
        return [*found.values()]

    def _stage(
        self, setup: Setup, kinds: tuple[int, ...], waiting: int, exactly: bool = False
    ) -> tuple[int, Rank, tuple[tuple[int, ...], int]]:
        """Return the memory that a stage of a pipeline needs, its figures, and the stage.

        A stage keeps what autograd saved of its blocks for the passes that wait.
        """
        rank = self._ranks.of(setup, kinds, exactly)
        saved = self._ranks.saved(setup, kinds) if waiting else 0.0
        return self._limit.needed(peak_of(rank, saved, waiting)), rank, (kinds, waiting)

    def _reduced(self, mesh: Mesh, rank: Rank) -> float:
        """Return how many gradients rings of copies send to add them: 2 * (n - 1) / n of them among n copies.

        Copies of experts are fewer if devices share these. What shards share is reduced in the capture.
        """
        if mesh.fsdp > 1:
            parts = [(mesh.dp, rank.parameters)]
        else:
            shared = rank.parameters - rank.expert_parameters
            copies = mesh.dp * mesh.cp
            parts = [(copies, shared), (copies // mesh.ep, rank.expert_parameters)]
        return fsum(2 * (n - 1) / n * number for n, number in parts)


def _kept(setup: Setup) -> tuple[bool, int]:
    """Return whether gradients are kept between passes, and of how many passes activations are."""
    return setup.passes > 1, min(setup.mesh.pp, setup.passes)


def _order(plan: Plan) -> tuple[float, int]:
    return (plan.seconds or 0.0) * (1 + plan.bubble), plan.memory or 0


def _check(**numbers: object) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number (got {short_repr(value)})")
        if value < 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")
