"""Search for the fastest way to distribute a training step over many devices.

A :class:`Setup` is a mesh with a micro-batch and options. Its figures are extrapolated from captures with few blocks;
the best setups are captured again with all blocks, to confirm that they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from os import PathLike
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device, Link, find_device, host_link_of, link_of
from costcore.api.estimate import estimate, model_and_inputs
from costcore.errors import CostError, short_repr, unknown
from costcore.registry import needed_ability
from costcore.studies.batch_inputs import CONTEXT, Limit, inputs_of_batch, make_limit
from costcore.studies.plan_setups import (
    DEPTHS,
    DTYPE_OF_FP8,
    ENDS,
    FP8,
    OFFLOADS,
    SYNCS,
    ZERO,
    Choices,
    Cut,
    Divisible,
    Mesh,
    RankCaptures,
    RankCosts,
    Schedule,
    Setup,
    divides,
    meshes,
    tokens_of,
)
from costcore.studies.serving.report import memory_of
from costcore.studies.sweeps.table import LARGE, front
from costcore.studies.training.step import (
    AXES,
    DTYPES,
    INSIDE,
    NEAREST,
    Expected,
    Packing,
    RunSetup,
    Step,
    expected,
    family_of,
    nearest_runs,
    peak_flops,
    setup_of,
)
from costcore.tables.answer import Content, Figure
from costcore.tables.html import Axis, Point, scatter, section
from costcore.tables.pictures import Axis as PictureAxis
from costcore.tables.pictures import Picture, Theme, draw
from costcore.tables.renderers import progress
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, duration, short
from costcore.text.output import Column

# The search.


NBYTES = {"bfloat16": 2, "pure_bfloat16": 2, FP8: 2, "autocast": 4, None: 4}
"""Bytes of a weight and of its gradient by precision; None is a model in float32."""

VERIFIED = 3
"""The default number of plans that are captured with all blocks."""


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
    verified: int = VERIFIED,
    checkpoints: Sequence[bool | str] = (False, True),
    precisions: Sequence[str | None] = ("bfloat16",),
    meshes: Iterable[Mapping[str, int]] | None = None,
    zero: Sequence[int | str] = (0, 3),
    schedules: Sequence[str] = ("1f1b",),
    sync: str | None = None,
    gradients: str | None = None,
    sequence_parallel: Sequence[bool] = (False,),
    offload: Sequence[str] = ("none",),
    link: object = None,
    host_link: object = None,
    dtype: str = "bfloat16",
    memory: int | str | None = None,
    context: int | str = CONTEXT,
    **options: Any,
) -> Plans:
    """Find the fastest ways to distribute a training step of a model over many devices.

    One rank of each plan is captured with three and with four blocks, and extrapolated to all of its blocks: equal
    blocks add equal amounts. The first ``verified`` plans are captured again with all blocks, to confirm that they fit;
    :attr:`~costcore.studies.plans.Plans.error` is the largest error of the extrapolation. A model without
    interchangeable blocks, such as a CNN or an MLP, is captured whole for every plan, and only over ``dp`` and
    ``fsdp``.

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
        micro_batches: numbers of samples per pass to try.
        verified: the number of plans to capture with all blocks; 0 skips these captures.
        checkpoints: kinds of activation checkpointing to try; default: none, and all blocks. Other kinds are values
             of ``checkpoint`` of :func:`costcore.estimate`: modules, or ``"Block(save=mm,attention)"``.
        precisions: values of ``precision`` of :func:`costcore.estimate` to try, or ``"fp8"``: linear layers of blocks
            in float8, as in Transformer Engine, everything else as in ``"bfloat16"``.
        meshes: the meshes to try, ``{"dp": 8, "tp": 8}``, with any of ``dp``, ``fsdp``, ``tp``, ``pp``, ``cp``, and
            ``ep``, which divides experts over some of ``dp * fsdp * cp`` devices. Default: every mesh with ``tp``
            within a node and either a pipeline (``pp``) or ``fsdp``; ``cp`` only if each device keeps 8,192 tokens.
        zero: stages of ZeRO to try: 0 replicates (``dp``), 1 shards optimizer state, 2 gradients too, 3 parameters too
            (``fsdp``); ``"hybrid"`` is 3 within a node and 0 among nodes. Meshes with ``fsdp`` always use 3.
        schedules: schedules of pipelines to try: ``"1f1b"``, ``"interleaved"`` (with 2 chunks of each stage, or
            ``"interleaved=4"``), ``"gpipe"``, ``"zb-h1"`` and ``"zb-h2"``. Interleaved schedules need blocks for all
            chunks and a multiple of ``pp`` micro-batches.
        sync: whether gradients are reduced at the ``"last"`` micro-batch of a step, or at ``"each"``. Default: the last
            for ``dp``, each for ``fsdp``. ZeRO-2 always reduces at each.
        gradients: ``"float32"`` keeps and reduces gradients in float32, as Megatron-LM does. Default: as the weights.
        sequence_parallel: whether ``tp`` ranks shard norms and residuals along the sequence (Korthikanti et al. 2022,
            arXiv:2205.05198).
        offload: what host memory may hold: ``"none"``, ``"activations"`` (saved activations of blocks), ``"optimizer"``
            (its state, which the host then updates), ``"activations+optimizer"``.
        link: the link between devices, see :meth:`costcore.Report.time`: a step takes at least as long as sending all
            bytes of a device over it. Default: unknown, so that it does not limit a step.
        host_link: the link of a device to its host, for ``offload``: ``"pcie5-x16"``. Default: that of the device.
        dtype: the dtype whose peak FLOP/s bounds matrix products; linear layers in ``"fp8"`` use the float8 peak.
        memory: the memory of a device; default: the vendor's figure.
        context: memory that a process takes before its first tensor.
        options: further options of :func:`costcore.estimate`.

    Raises:
        CostError: if the model cannot be captured at all.
        TypeError, ValueError: if an argument is invalid, or ``global_batch`` is not divisible by replicas × micro-batch
            on any mesh.
    """
    _check_positive(devices=devices, global_batch=global_batch, per_node=per_node)
    if verified != 0:
        _check_positive(verified=verified)
    for size in micro_batches:
        _check_positive(micro_batches=size)
    if wrong := [stage for stage in zero if stage not in ZERO]:
        raise ValueError(unknown("stage of ZeRO", [str(stage) for stage in wrong], [str(stage) for stage in ZERO]))
    if sync not in (None, *SYNCS):
        raise ValueError(unknown("pass that reduces gradients", str(sync), SYNCS))
    if strange := [str(name) for name in precisions if name not in NBYTES]:
        raise ValueError(unknown("precision", strange, [*filter(None, NBYTES)]))
    if gradients not in (None, "float32"):
        raise ValueError(unknown("dtype of gradients", str(gradients), ["float32"]))
    offloads = [*map(_offloaded, offload)]
    parsed = [*map(Schedule.parse, schedules)]
    choices = Choices(
        *(micro_batches, checkpoints, precisions, zero, parsed, sync, sequence_parallel, offloads, gradients)
    )
    model, inputs = model_and_inputs(model, inputs, is_step=True)
    chosen = find_device(device)
    to_host = None if host_link is None else link_of(host_link)
    if any(offloads):
        to_host = to_host or host_link_of(chosen)
        if to_host is None:
            raise ValueError(f'the link of {chosen.name} to its host is unknown. Pass host_link="pcie4-x16"')
    limit = make_limit(memory_of(chosen) if memory is None else memory, context)
    # How the model can be divided, see :class:`costcore.frontend.DistributionOf`.
    distribution = needed_ability("distribution", model, "a plan")(model)
    inputs_of_size = inputs_of_batch(inputs)
    run = _published_run(model, inputs_of_size, chosen, devices, dtype, options)
    order = _Order(run, global_batch)
    links = None if link is None else link_of(link), to_host

    def attempt(is_whole_model: bool) -> tuple[_Search, list[Plan]]:
        captures = RankCaptures(model, inputs_of_size, distribution, chosen, dtype, optimizer, options, is_whole_model)
        search = _Search(captures, (0,) if is_whole_model else distribution.kinds, limit, *links, order)
        blocks, tokens = len(distribution.kinds), tokens_of(inputs_of_size(1))  # ``kinds`` has an entry per block
        divisible = Divisible(blocks, distribution.width, distribution.experts, tokens)
        alternatives = [
            setups
            for mesh in _meshes(meshes, devices, per_node, Divisible(1) if is_whole_model else divisible, zero)
            for setups in choices.setups(mesh, global_batch, 1 if is_whole_model else blocks)
        ]
        return search, [plan for setups in progress(alternatives, "plans") for plan in search.plans(setups)]

    search, tried = attempt(is_whole_model=not distribution.kinds)
    if distribution.kinds and tried and all(each.fits is None for each in tried):
        of_whole_model = attempt(is_whole_model=True)
        search, tried = of_whole_model if any(each.fits is not None for each in of_whole_model[1]) else (search, tried)
    if not tried:
        sizes = ", ".join(map(str, micro_batches))
        running = "" if {*schedules} == {"1f1b"} else f"; schedules {', '.join(schedules)}"
        raise ValueError(
            f"global_batch={global_batch} is not divisible by replicas × micro-batch for any mesh "
            f"(micro-batches {sizes}{running})"
        )
    if all(each.fits is None for each in tried):
        hint = _hint_at_replicas(model, inputs_of_size, distribution, options) if distribution.kinds else ""
        raise CostError(f"no plan can be captured: {tried[0].reason}{hint}")
    fitting, left_out = search.verified(tried, 0 if search.is_whole_model else verified)
    if not fitting:
        tried = search.with_known_memory(tried)
    left_out += [each for each in tried if not each.fits]
    name = type(model).__name__
    return Plans(tuple(fitting), tuple(left_out), chosen, limit, global_batch, run, dtype, name)


def _hint_at_replicas(
    model: Any, inputs_of_size: Callable[[int], Any], distribution: Any, options: Mapping[str, Any]
) -> str:
    # A plan captures the model with a few equal blocks. The layers of a CNN or an MLP cannot replace each other.
    try:
        estimate(model, inputs_of_size(1), backward=True, **options)
    except (CostError, TypeError, ValueError):
        return ""
    return (
        f". The whole model runs, but not with {DEPTHS[0]} equal blocks in place of its {len(distribution.kinds)} "
        f"{distribution.kind}: a plan needs blocks that can replace each other, such as the layers of a transformer. "
        "For copies of the whole model, type: costcore memory MODEL --memory 80GB --train --replicas 8"
    )


def _published_run(
    model: Any,
    inputs_of_size: Callable[[int], Any],
    device: Device,
    devices: int,
    dtype: str,
    options: Mapping[str, Any],
) -> ComparedRun | None:
    # Without published runs of this kind of device, the FLOPs of the model are not needed.
    if family_of(device.name) is None or dtype not in DTYPES:
        return None
    try:
        step = Step(estimate(model, inputs_of_size(1), backward=True, precision="bfloat16", **options), Packing())
    except CostError:  # plans are still possible, without a range of published runs
        return None
    setup = setup_of(step, device.name, devices, dtype)
    if setup is None:
        return None
    peaks = {setup.precision: peak_flops(device, dtype)}
    if DTYPE_OF_FP8 in device.peak.get("matrix", {}):
        peaks[FP8] = peak_flops(device, DTYPE_OF_FP8)
    return ComparedRun(setup, step.model_flops(), peaks)


def _offloaded(text: str) -> tuple[str, ...]:
    names = () if text == "none" else tuple(text.split("+"))
    if wrong := [name for name in names if name not in OFFLOADS]:
        raise ValueError(unknown("part to offload", wrong, ["none", *OFFLOADS]))
    return names


def _meshes(
    given: Iterable[Mapping[str, int]] | None,
    devices: int,
    per_node: int,
    model: Divisible,
    zero: Sequence[int | str],
) -> list[Mesh]:
    if given is None:
        return [*meshes(devices, per_node, model, zero)]
    found = []
    for sizes in given:
        if wrong := [name for name in sizes if name not in Mesh._fields]:
            raise ValueError(unknown("dimension of a mesh", wrong, Mesh._fields))
        _check_positive(**sizes)
        found.append(Mesh(**sizes))
        if found[-1].devices != devices:
            raise ValueError(f"the mesh {found[-1]} has {found[-1].devices} devices, not {devices}")
        own = found[-1].replicas * found[-1].cp
        if own % found[-1].ep or not divides(found[-1].cp, found[-1].ep):
            raise ValueError(f"the mesh {found[-1]} cannot divide experts over {found[-1].ep} of {own} devices")
    return found


class Stage(NamedTuple):
    """A stage of a pipeline.

    Attributes:
        kinds: the kind of each of its blocks.
        waiting: the number of further micro-batches in flight, whose activations it keeps.
        lacks: ``embedding`` or ``head``, if other stages hold them.
    """

    kinds: tuple[int, ...]
    waiting: float
    lacks: tuple[str, ...]


class _Search:
    def __init__(
        self,
        captures: RankCaptures,
        kinds: Sequence[int],
        limit: Limit,
        link: Link | None,
        host_link: Link | None,
        order: _Order,
    ) -> None:
        self._captures = captures
        self.is_whole_model = captures.is_whole_model
        self._kinds = kinds  # one per block
        self._limit = limit
        self._link = link
        self._host_link = host_link
        self._order = order

    def plans(self, setups: Sequence[Setup]) -> list[Plan]:
        """Return a plan per setup. Once a micro-batch does not fit, larger micro-batches are not captured.

        Args:
            setups: setups that differ in the micro-batch, in ascending order.
        """
        # With larger micro-batches there are fewer of them. Gradients may then not accumulate, and fewer passes may be
        # in flight: only in these cases can a larger micro-batch fit although a smaller one does not.
        found: list[Plan] = []
        last: Plan | None = None
        for setup in setups:
            if (
                last is None
                or last.fits
                or (last.fits is False and _step_and_in_flight(last.setup) != _step_and_in_flight(setup))
            ):
                last = self._try(setup)
                found.append(last)
            elif last.memory is None:
                found.append(replace(last, setup=setup))
            else:
                smaller = f"a micro-batch of {last.setup.micro_batch}"
                reason = f"exceeds memory by at least {self._excess(last.memory)}, as {smaller} does"
                found.append(Plan(setup, False, reason=reason, memory_at_least=last.memory))
        return found

    def verified(self, tried: Iterable[Plan], count: int) -> tuple[list[Plan], list[Plan]]:
        """Capture all blocks of the fastest plans.

        Args:
            tried: plans.
            count: the number of plans to confirm; plans that turn out not to fit do not count.

        Returns:
            The plans that fit, fastest first, and those that turned out not to fit.
        """
        fitting = sorted((each for each in tried if each.fits), key=self._order)
        left_out: list[Plan] = []
        verified: list[Plan] = []

        def fastest() -> Iterator[Plan]:
            while fitting and len(verified) < count:
                yield fitting.pop(0)

        for plan in progress(fastest(), "plans captured whole"):
            made = self._try(plan.setup, plan.memory)
            (verified if made.fits else left_out).append(made)
        return sorted([*verified, *fitting], key=self._order), left_out

    def _try(self, setup: Setup, extrapolated: int | None = None, checks_floor: bool = True) -> Plan:
        try:
            floor = self._floor(setup) if extrapolated is None and checks_floor else 0
            if floor > self._limit.memory:
                reason = f"weights, gradients and optimizer state alone exceed memory by {self._excess(floor)}"
                return Plan(setup, False, reason=reason, memory_at_least=floor)
            memory, rank, stage = max(
                (self._costs_of_stage(setup, each) for each in self._stages(setup)), key=lambda stage: stage[0]
            )
            if extrapolated is not None:
                memory, rank, stage = self._costs_of_stage(setup, stage, exactly=True)
            all_stages = self._captures.of(setup, self._kinds)
        except (CostError, TypeError, ValueError) as error:
            return Plan(setup, None, reason=str(error))
        stages, blocks = setup.mesh.pp, self._captures.blocks(setup, self._kinds)
        sent, host = round(sent_bytes(setup, rank)), self._host_bytes(setup, rank, stage.kinds)
        # Stages are assumed to have equal work: a device takes 1 / pp of the time of the whole model.
        pass_seconds = all_stages.seconds
        if setup.sequence_parallel:
            pass_seconds -= (
                blocks.seconds - self._captures.blocks(without_tp(setup), self._kinds).seconds / setup.mesh.tp
            )
        step_seconds = (
            0.0 if "optimizer" in setup.offload else all_stages.step_seconds * _share_of_state(setup, all_stages)
        )
        seconds = (setup.n_micro_batches * pass_seconds + step_seconds) / stages
        binds = max(all_stages.binds, key=all_stages.binds.__getitem__, default="")
        for link, nbytes, name in ((self._link, sent, "communication"), (self._host_link, host, "host")):
            over = link.seconds(0, nbytes) if link is not None else 0.0
            if over > seconds:
                seconds, binds = over, name
        fits = memory <= self._limit.memory
        reason = "" if fits else f"exceeds memory by {self._excess(memory)}"
        extrapolated = memory if self.is_whole_model else extrapolated
        return Plan(setup, fits, memory, sent, seconds, setup.bubble, binds, extrapolated, reason, None, host)

    def _host_bytes(self, setup: Setup, rank: RankCosts, kinds: Sequence[int]) -> int:
        # Per direction, as a link is full duplex: activations out and back, gradients out, weights back.
        nbytes = 0.0
        if "activations" in setup.offload:
            nbytes += (
                setup.n_micro_batches * self._captures.blocks(setup, kinds).saved * self._saved_share(setup, kinds)
            )
        if "optimizer" in setup.offload:
            nbytes += rank.parameters * _share_of_state(setup, rank) * NBYTES[setup.precision]
        return round(nbytes)

    def _saved_share(self, setup: Setup, kinds: Sequence[int]) -> float:
        # A capture with tp does not shard norms and residuals, so divide the activations of a capture without tp.
        if not setup.sequence_parallel:
            return 1.0
        own, unsharded = (self._captures.blocks(each, kinds).saved for each in (setup, without_tp(setup)))
        return min(unsharded / setup.mesh.tp / own, 1.0) if own else 1.0

    def _floor(self, setup: Setup) -> int:
        """Return a lower bound of the memory of a device: weights, gradients and optimizer state."""
        kinds, _, lacks = max(self._stages(setup), key=lambda stage: len(stage.kinds))
        rank = self._captures.step_of(setup, kinds)
        state = rank.state - rank.of_ends(lacks, "state")
        rank = rank._replace(parameters=rank.parameters - rank.of_ends(lacks, "number"), state=state)
        share, nbytes = _share_of_state(setup, rank), NBYTES[setup.precision]
        gradient_bytes = nbytes if setup.gradients is None else 4
        held = rank.parameters * (nbytes + gradient_bytes * (share if setup.zero == 2 else 1))
        return self._limit.needed(ceil(held + (0.0 if "optimizer" in setup.offload else share * state)))

    def with_known_memory(self, tried: Sequence[Plan]) -> list[Plan]:
        """Return plans that do not fit; if only bounds of their memory are known, capture the plan with the lowest."""
        bounds = [each for each in tried if each.memory is None and each.memory_at_least is not None]
        if not bounds or any(each.memory for each in tried):
            return [*tried]
        lowest = min(bounds, key=lambda each: each.memory_at_least or 0)
        return [self._try(each.setup, checks_floor=False) if each is lowest else each for each in tried]

    def _excess(self, memory: int) -> str:
        return short(memory - self._limit.memory, "bytes")

    def _stages(self, setup: Setup) -> list[Stage]:
        size = ceil(len(self._kinds) / setup.mesh.pp)
        last = ceil(len(self._kinds) / size) - 1
        found: dict[Any, Stage] = {}
        for stage in range(last + 1):
            kinds = tuple(self._kinds[stage * size : (stage + 1) * size])
            waiting = setup.schedule.in_flight(stage, setup.mesh.pp, setup.n_micro_batches) - 1
            lacks = tuple(end for end, holder in zip(ENDS, (0, last), strict=True) if stage != holder)
            if (kinds, lacks) not in found or found[kinds, lacks].waiting < waiting:
                found[kinds, lacks] = Stage(kinds, waiting, lacks)
        return [*found.values()]

    def _costs_of_stage(self, setup: Setup, stage: Stage, exactly: bool = False) -> tuple[int, RankCosts, Stage]:
        # ``exactly``: memory is from a capture of all blocks, not extrapolated.
        kinds, waiting, lacks = stage
        rank = self._captures.of(setup, kinds)
        share = _share_of_state(setup, rank)
        gradient_ratio = 1 if setup.gradients is None else 4 / NBYTES[setup.precision]
        kept, extra, blocks = self._saved_share(setup, kinds), 0.0, None
        if waiting or "activations" in setup.offload:
            blocks = self._captures.blocks(setup, kinds)
        if blocks is not None and "activations" in setup.offload:
            # The device holds the activations of the running block, and of the block in transfer.
            extra, kept = 2 * blocks.largest * kept, 0.0
        cut = Cut(gradients=1 - gradient_ratio * (share if setup.zero == 2 else 1), saved=1 - kept)
        if exactly or cut != Cut():
            rank = self._captures.of(setup, kinds, cut, exactly)
        # A stage keeps the saved activations of waiting passes.
        saved = 0.0 if blocks is None else blocks.saved * kept
        if setup.precision == FP8 and setup.zero != 3:
            extra += 2 * rank.linear
        on_device = 0.0 if "optimizer" in setup.offload else share
        # The capture has embedding and head; this stage may lack them. Their gradients persist only if they accumulate.
        extra -= rank.of_ends(lacks, "weights") + on_device * rank.of_ends(lacks, "state")
        if setup.accumulates:
            extra -= (1 - cut.gradients) * rank.of_ends(lacks, "gradients")
        needed = self._limit.needed(ceil(rank.peak(saved, waiting, on_device) + extra))
        return needed, rank._replace(parameters=rank.parameters - rank.of_ends(lacks, "number")), stage


def without_tp(setup: Setup) -> Setup:
    """Return the setup without tensor parallelism: a device has the whole width and all tokens."""
    return setup._replace(mesh=setup.mesh._replace(tp=1), sequence_parallel=False)


def _copies(setup: Setup) -> tuple[int, int]:
    # How many devices hold the same parameters; experts have fewer copies under expert parallelism.
    copies = setup.mesh.dp * setup.mesh.cp
    return copies, copies // setup.mesh.ep


def _share_of_state(setup: Setup, rank: RankCosts) -> float:
    """Return the share of the captured optimizer state that a data-parallel rank keeps under ZeRO."""
    if setup.zero not in (1, 2):
        return 1.0
    copies, of_experts = _copies(setup)
    experts = rank.expert_parameters
    return ((rank.parameters - experts) / copies + experts / of_experts) / rank.parameters


def sent_bytes(setup: Setup, rank: RankCosts) -> float:
    """Return the bytes that a rank sends in a step, except between stages of a pipeline.

    In a ring of n ranks, a reduce-scatter sends (n - 1) / n of a tensor, and so does an all-gather; an all-reduce is
    both. ZeRO-1 and ZeRO-2 reduce-scatter gradients and all-gather parameters.

    Args:
        setup: how the step runs.
        rank: the figures of the rank, which include the bytes that ``fully_shard`` sends in a pass.
    """
    nbytes, mesh, times = NBYTES[setup.precision], setup.mesh, setup.reductions
    gradient_bytes = nbytes if setup.gradients is None else 4
    sent = setup.n_micro_batches * rank.sent
    experts = rank.expert_parameters
    if setup.zero == 3:
        # A captured pass reduces gradients once. Hybrid shards also reduce across replicas.
        shards, of_experts = mesh.fsdp * mesh.cp, mesh.fsdp * mesh.cp // mesh.ep
        owned = experts / of_experts
        scattered = (rank.parameters - owned) * (shards - 1) + owned * (of_experts - 1)
        sent += scattered * (times * gradient_bytes - setup.n_micro_batches * nbytes)
        return sent + times * 2 * (mesh.dp - 1) / mesh.dp * rank.parameters * gradient_bytes
    copies, of_experts = _copies(setup)
    among = (copies - 1) / copies * (rank.parameters - experts) + (of_experts - 1) / of_experts * experts
    return sent + among * (2 * times * gradient_bytes if setup.zero == 0 else times * gradient_bytes + nbytes)


def _step_and_in_flight(setup: Setup) -> tuple[str, float]:
    return setup.step, setup.schedule.in_flight(0, setup.mesh.pp, setup.n_micro_batches)


NEAR = 2.0
"""Published runs decide the order of plans only if the nearest has at most this :attr:`ComparedRun.distance`."""

ALIKE = 1.05
"""Expected times are rounded to powers of this factor; plans with equal rounded times are ordered by the bound.

Published runs scatter by more than this.
"""


class _Order:
    """The order of plans: by expected time, rounded to a power of :data:`ALIKE`, then by the bound with the bubble.

    Plans with equal bounds are ordered by the bytes that they send: without a link, the bound ignores communication.
    """

    def __init__(self, run: ComparedRun | None, global_batch: int) -> None:
        self._run = run
        self._global_batch = global_batch

    def __call__(self, plan: Plan) -> tuple[int, float, int, int]:
        expected, bound = 0, (plan.seconds or 0.0) * (1 + plan.bubble)
        if self._run is not None and self._run.is_near:
            expected = round(log(max(bound, self._run.middle(plan.setup, self._global_batch)), ALIKE))
        return expected, bound, plan.sent or 0, plan.memory or 0


def _check_positive(**numbers: object) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number (got {short_repr(value)})")
        if value < 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")


# Plans as a result.


MOST_ROWS = 10
"""The number of plans that ``print`` and notebooks show."""

ASSUMED = {
    "cp": "devices that share a sequence compute equal numbers of query-key pairs; masks allow the same share of "
    "remote keys as of local keys",
    "ep": "every expert receives the same number of rows",
    "sp": "sequence parallelism divides all saved activations of a block by tp, and sends as many bytes as the "
    "all-reduces that it replaces; recomputed activations of a block are not divided",
    FP8: "linear layers of blocks keep two float8 copies of their weights, unless FSDP shards them; saved activations "
    "count in bfloat16",
    "activations": "transfers of activations overlap with compute; the device holds the activations of two blocks",
    "optimizer": "compute time of the host for the optimizer step is not counted",
    "zb": "zero-bubble schedules: a forward pass and both halves of a backward pass take equal time",
}
"""Assumptions by the mesh dimension or setup option that makes them."""


@dataclass(frozen=True)
class Plan:
    """A setup with its memory and time.

    Attributes:
        setup: how the step runs.
        fits: whether it fits; None if it could not be captured.
        memory: the bytes that a device needs, with the context; None if it was not captured.
        memory_at_least: a lower bound if ``memory`` is None: weights, gradients and optimizer state, or the memory of
            a smaller micro-batch.
        sent: bytes that a device sends per step, except between pipeline stages.
        seconds: the minimum time of a step.
        bubble: idle time of pipeline stages over ``seconds``: ``(pp - 1) / n_micro_batches`` in the 1F1B schedule; see
            :meth:`costcore.studies.plan_setups.Schedule.bubble`.
        binds: the bottleneck: an engine or memory of the device (``matrix``, ``vector``, ``dram``), ``communication``,
            or ``host``, the link to it.
        extrapolated: the extrapolated memory, to compare with :attr:`memory` if that is from a capture of all blocks;
            None if :attr:`memory` itself is extrapolated.
        reason: why it is left out; empty if it fits.
        host: bytes per step and direction between a device and its host.
    """

    setup: Setup
    fits: bool | None
    memory: int | None = None
    sent: int | None = None
    seconds: float | None = None
    bubble: float = 0.0
    binds: str = ""
    extrapolated: int | None = None
    reason: str = ""
    memory_at_least: int | None = None
    host: int | None = None

    @property
    def is_captured(self) -> bool:
        """Whether all blocks of the rank were captured."""
        return self.extrapolated is not None

    @property
    def assumed(self) -> list[str]:
        """The assumptions behind its figures, as sentences."""
        setup = self.setup
        axes = [axis for axis in ("cp", "ep") if getattr(setup.mesh, axis) > 1]
        ways = {"sp": setup.sequence_parallel, FP8: setup.precision == FP8, **dict.fromkeys(setup.offload, True)}
        ways["zb"] = setup.schedule.name.startswith("zb")
        return [ASSUMED[name] for name in (*axes, *(way for way, is_used in ways.items() if is_used))]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        setup = self.setup
        return {
            **setup.mesh._asdict(),
            "zero": setup.zero,
            "schedule": str(setup.schedule) if setup.mesh.pp > 1 else None,
            "sync": setup.sync,
            "sequence_parallel": setup.sequence_parallel,
            "offload": [*setup.offload],
            "gradients": setup.gradients,
            "micro_batch": setup.micro_batch,
            "n_micro_batches": setup.n_micro_batches,
            "checkpoint": setup.checkpoints,
            "precision": setup.precision,
            **{name: value for name, value in vars(self).items() if name != "setup"},
            "is_captured": self.is_captured,
            "assumed": self.assumed,
        }


COLUMNS = (
    *(Column("mesh", "Mesh"), Column("memory", "Memory", "bytes")),
    Column("expected", "Expected", "ratio", "calibrated"),
    Column("seconds", "Bound", "duration", "bound"),
    *(Column("micro_batch", "Micro-batch", "count"), Column("checkpoint", "Checkpointing")),
    *(
        Column("bubble", "Bubble", "percent"),
        Column("n_micro_batches", "Micro-batches", "count"),
        Column("sent", "Sent", "bytes"),
    ),
    *(Column("binds", "Bound by"), Column("status", "Memory figure"), Column("precision", "Precision")),
)

DROPPED_FIRST = ("precision", "status", "binds", "n_micro_batches", "sent", "bubble")
"""The columns that a narrow terminal drops, in this order."""

LEFT_OUT = (
    *(each for each in COLUMNS if each.key in ("mesh", "micro_batch", "checkpoint", "memory")),
    Column("reason", "Left out because"),
)

TIMES = "bounds leave out latencies and transfers between pipeline stages; the order includes bubbles"

FIGURES = ("seconds", "memory", "sent", "bubble", "micro_batch", "n_micro_batches")
"""The figures of a plan that :meth:`Plans.pareto` compares."""


class ComparedRun(NamedTuple):
    """The run that is compared with published runs, before a mesh is chosen.

    Attributes:
        sizes: parameters, devices and further sizes, without a mesh.
        flops: model FLOPs of one sample.
        peaks: the vendor's peak FLOP/s of a device, by precision of products.
    """

    sizes: RunSetup
    flops: int
    peaks: Mapping[str, float]

    def nearest(self, setup: Setup) -> Expected:
        """Return the expected MFU of a setup, from the published runs nearest to it."""
        axes = {axis: getattr(setup.mesh, axis) for axis in AXES}
        return expected(self.sizes._replace(**axes, precision=self._precision(setup)))

    @property
    def distance(self) -> float:
        """The distance from this run to the nearest published one, in any precision and on any mesh."""
        return min(expected(self.sizes._replace(precision=name)).nearest[0][1] for name in self.peaks)

    @property
    def is_near(self) -> bool:
        """Whether the nearest published run is near enough to order plans by published runs."""
        return self.distance <= NEAR

    def middle(self, setup: Setup, samples: int) -> float:
        """Return the expected seconds of a step: the middle of the range."""
        low, _, found = self.expected(setup, samples)
        return low * found.high / found.middle

    def expected(self, setup: Setup, samples: int) -> tuple[float, float, Expected]:
        """Return the minimum and the maximum seconds of a step, from the published runs near it."""
        found = self.nearest(setup)
        busy = samples * self.flops / (self.sizes.devices * self.peaks[self._precision(setup)])
        return busy / found.high, busy / found.low, found

    def _precision(self, setup: Setup) -> str:
        return FP8 if setup.precision == FP8 and FP8 in self.peaks else self.sizes.precision


@dataclass(frozen=True, repr=False)
class Plans(Result):
    """The plans that were tried.

    Attributes:
        plans: the plans that fit, by expected step time, rounded to a power of 1.05. Plans with equal rounded times,
            and all plans if no published run is near, are ordered by the bound with the bubble.
        left_out: all others, each with the reason.
        device: the device.
        limit: the memory of the device and what is subtracted from it.
        global_batch: samples of a step.
        run: the run that is compared with published runs; None without published runs of its kind.
        dtype: the dtype whose peak FLOP/s bounds matrix products.
        model: the class of the model; empty if it is unknown.
    """

    plans: tuple[Plan, ...]
    left_out: tuple[Plan, ...]
    device: Device
    limit: Limit
    global_batch: int
    run: ComparedRun | None = None
    dtype: str = "bfloat16"
    model: str = ""

    def __repr__(self) -> str:
        return f"<Plans: {len(self.plans)} of {len(self.plans) + len(self.left_out)} fit {self.device.name}>"

    @property
    def best(self) -> Plan | None:
        """The first plan; None if none fits."""
        return self.plans[0] if self.plans else None

    @property
    def error(self) -> float | None:
        """The largest relative error of extrapolated memory among captured plans; None without one."""
        both = [(each.extrapolated, each.memory) for each in (*self.plans, *self.left_out)]
        return max((abs(line - memory) / memory for line, memory in both if line and memory), default=None)

    def pareto(self, *names: str) -> Plans:
        """Return the Pareto-optimal plans that fit, by some figures.

        Args:
            names: figures to minimize, ``"seconds", "memory"``, or to maximize, ``"-micro_batch"``.

        Raises:
            ValueError: if there is no such figure.
        """
        check_figures(names)
        best = front([each.to_dict() for each in self.plans], names)
        return replace(self, plans=tuple(self.plans[i] for i in best))

    @property
    def is_ordered_by_runs(self) -> bool:
        """Whether published runs are near enough to order the plans that fit by them."""
        return self.run is not None and self.run.is_near

    def _content(self) -> Content:
        tried = len(self.plans) + len(self.left_out)
        figures = [Figure("n_fits", "Plans that fit", len(self.plans), "count", f"of {tried} tried")]
        remarks = [f"limit: {self.limit.describe()}"]
        columns: Sequence[Column] = COLUMNS
        shown, title = self.plans, "Plans that fit, lowest bound with bubbles first"
        if self.is_ordered_by_runs:
            title = "Plans that fit, lowest expected time first"
        if self.plans:
            remarks += [self._certainty(), TIMES, *self.device.describe_peak(self.dtype), self._reason_of_order()]
        else:
            columns, title = LEFT_OUT, "Plans with the lowest memory"
            shown = tuple(sorted(self.left_out, key=lambda each: (each.memory is None, each.memory or 0)))
        rows = [_row(plan) | self._expected(plan) for plan in shown]
        if self.run is None:
            columns = [column for column in columns if column.key != "expected"]
        tables = [Table(title, columns, rows, n_digits=2, most=MOST_ROWS, dropped_first=DROPPED_FIRST)]
        remarks += [f"assumed: {text}" for text in dict.fromkeys(text for each in self.plans for text in each.assumed)]
        if self.best is not None:
            setup = self.best.setup
            if self.run is not None and (expected := self._expected(self.best)):
                because = (
                    f"{setup}, from the {NEAREST} nearest published runs; such a range contains {INSIDE:.0%} of runs"
                )
                figures.append(
                    Figure("expected", "Step expected", expected["expected"], "ratio", because, "calibrated")
                )
                tables.append(nearest_runs(self.run.nearest(setup)))
            figures.append(Figure("seconds", "Step at least", self.best.seconds, "duration", str(setup), "bound"))
        return Content(f"Plans on {self.device.name}", figures, tables, remarks, model=self.model)

    def _reason_of_order(self) -> str:
        if self.is_ordered_by_runs:
            return (
                f"order: expected time by published runs, rounded to a power of {ALIKE}; where it is equal, the bound"
            )
        if self.run is None:
            return "order: the bound, because no published run has such a model and device"
        far = f"the nearest has distance {self.run.distance:.1f}, at most {NEAR:g} is near"
        return f"order: the bound, because no published run is near: {far}"

    def expected(self, plan: Plan) -> tuple[float, float, float] | None:
        """Return the expected seconds of a step by published runs: the minimum, the middle and the maximum.

        None if no published run has such a model and device, or if the bound exceeds the maximum: the runs are then not
        comparable with the plan.

        Args:
            plan: one of the plans.
        """
        if self.run is None or plan.seconds is None:
            return None
        low, high, _ = self.run.expected(plan.setup, self.global_batch)
        if plan.seconds > high:
            return None
        middle = self.run.middle(plan.setup, self.global_batch)
        return max(low, plan.seconds), max(middle, plan.seconds), high

    def _expected_range(self, plan: Plan) -> tuple[float, float] | None:
        found = self.expected(plan)
        return None if found is None else (found[0], found[2])

    def _expected(self, plan: Plan) -> dict[str, Any]:
        found = self.expected(plan)
        return {} if found is None else {"expected": Formatted(found[1], _range(found[0], found[2]))}

    def _pictures(self) -> str:
        known = [each for each in self.plans if each.seconds and each.memory]
        best = front([each.to_dict() for each in known], ("seconds", "memory"))
        points = [
            Point(each.seconds or 0.0, each.memory or 0, f"{each.setup}, {each.setup.micro_batch} each", i in best)
            for i, each in enumerate(known)
        ]
        axes = Axis("bound of a step", "duration"), Axis("memory of a device", "bytes")
        return section("Time and memory of the plans that fit", scatter(points, *axes)) if len(points) > 1 else ""

    def _picture(self, theme: Theme) -> Picture:
        known = [each for each in self.plans if each.seconds and each.memory]
        rows = [(f"{each.setup}, {each.setup.micro_batch} each", each.seconds, each.memory) for each in known]
        names, seconds, memory = zip(*rows, strict=True) if rows else ((), (), ())
        x = PictureAxis(Column("seconds", "Bound of a step", "duration"), seconds)
        y = PictureAxis(Column("memory", "Memory of a device", "bytes"), memory)
        return Picture(("name", "seconds", "memory"), rows, lambda: draw(x, y, theme=theme, names=names))

    def _certainty(self) -> str:
        captured = sum(each.is_captured for each in self.plans)
        if not captured:
            return f"memory: extrapolated from captures of {DEPTHS[0]} and {DEPTHS[1]} blocks"
        if captured == len(self.plans) and not self.error:
            return "memory: every plan was captured whole"
        off = "" if self.error is None else f", within {100 * self.error:.2g} % where both are known"
        return (
            f"memory: the first {captured} plans were captured with all blocks; the others are extrapolated from "
            f"captures of {DEPTHS[0]} and {DEPTHS[1]} blocks{off}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every plan in plain JSON types: fitting plans in order, then the others."""
        return {
            **super().to_dict(),
            "device": self.device.name,
            "limit": self.limit.to_dict(),
            "global_batch": self.global_batch,
            "order": "expected" if self.is_ordered_by_runs else "bound",
            "error": self.error,
            "plans": [
                each.to_dict() | {"expected": self._expected_range(each)} for each in (*self.plans, *self.left_out)
            ],
        }


def _range(low: float, high: float) -> str:
    return f"{duration(low, 2, True)} to {duration(high, 2, True)}"


def check_figures(names: Iterable[str]) -> None:
    """Check the names of figures that :meth:`Plans.pareto` compares.

    Raises:
        ValueError: if there is no such figure.
    """
    if missing := [name for name in names if name.removeprefix(LARGE) not in FIGURES]:
        raise ValueError(unknown("figure of a plan", missing, FIGURES))


def _row(plan: Plan) -> dict[str, Any]:
    checkpoints = plan.setup.checkpoints
    return {
        **{name: value for name, value in plan.to_dict().items() if value is not None},
        "mesh": str(plan.setup),
        "checkpoint": checkpoints if isinstance(checkpoints, str) else "yes" if checkpoints else "no",
        "precision": plan.setup.precision or "as the model",
        "bubble": 100 * plan.bubble,
        "status": "captured" if plan.is_captured else "extrapolated",
    }
