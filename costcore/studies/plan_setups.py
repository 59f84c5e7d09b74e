"""Setups of a distributed training step, and the figures of one rank of each.

A setup is a mesh, a stage of ZeRO and a pipeline schedule, with their arithmetic. One rank is captured with three and
with four blocks; memory, bytes sent and time of all blocks follow linearly.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil, fsum, prod
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.bound import GroupTime
from costcore.api.estimate import estimate
from costcore.errors import CostError, unknown
from costcore.ir import Layer, Tensor
from costcore.reports.report import Report
from costcore.trace.run import MemoryLedger
from costcore.trace.trace import with_tensors

LEAST_TOKENS = 8192
"""The minimum number of tokens of a sequence on each device, unless the user gives a mesh."""


class Mesh(NamedTuple):
    """The number of devices along each dimension.

    Attributes:
        dp: replicas of the model, which share the batch.
        fsdp: FSDP ranks, which share the batch and shard parameters, gradients and optimizer state.
        tp: devices that share every block.
        pp: stages of a pipeline, with equal numbers of blocks, or fewer in the last one.
        cp: devices that share every sequence.
        ep: the number of devices that divide the experts, a part of ``dp * fsdp * cp``. It adds no devices.
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
        """How many data-parallel ranks share a batch."""
        return self.dp * self.fsdp

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self._asdict().items() if size > 1) or "one device"


SCHEDULES = ("1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2")
"""The schedules of pipelines."""


class Schedule(NamedTuple):
    """A schedule of a pipeline: the order in which its stages run passes.

    Sources: GPipe (Huang et al. 2019, arXiv:1811.06965), 1F1B and interleaved 1F1B (Narayanan et al. 2021,
    arXiv:2104.04473, section 2.2; memory of interleaved 1F1B: Korthikanti et al. 2022, arXiv:2205.05198, section
    4.2.3), zero bubble (Qi et al. 2023, arXiv:2401.10241, table 1).

    Attributes:
        name: one of :data:`SCHEDULES`.
        chunks: model chunks of every stage (virtual stages); more than one in ``interleaved`` only.
    """

    name: str = "1f1b"
    chunks: int = 1

    def __str__(self) -> str:
        return self.name if self.chunks == 1 else f"{self.name}={self.chunks}"

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return the schedule of a text, ``interleaved=4`` for four chunks.

        Raises:
            ValueError: if there is no such schedule.
        """
        name, equals, chunks = text.partition("=")
        if name not in SCHEDULES:
            raise ValueError(unknown("schedule", name, SCHEDULES))
        if not equals:
            return cls(name, 2 if name == "interleaved" else 1)
        if name != "interleaved" or not chunks.isdecimal() or int(chunks) < 2:
            raise ValueError(f"schedule {text!r}: only interleaved has chunks, at least 2 (interleaved=4)")
        return cls(name, int(chunks))

    def is_possible(self, blocks: int, stages: int, n_micro_batches: int) -> bool:
        """Return whether it can run: chunks of equal numbers of blocks, micro-batches a multiple of stages."""
        return self.chunks == 1 or (blocks % (stages * self.chunks) == 0 and n_micro_batches % stages == 0)

    def bubble(self, stages: int, n_micro_batches: int, recomputes: bool = False) -> float:
        """Return the bubble: idle time of stages over the time of all passes.

        The forward pass, the gradients of inputs and the gradients of weights are assumed to take equal time;
        recomputation takes as long as a forward pass and precedes the gradients of inputs.

        Args:
            stages: the number of stages.
            n_micro_batches: micro-batches of a step.
            recomputes: whether blocks run again in the backward pass.
        """
        whole = 4 if recomputes else 3
        delayed = {"zb-h1": 2, "zb-h2": 3}.get(self.name, 0)
        return (stages - 1) / n_micro_batches * (whole - delayed) / whole / self.chunks

    def in_flight(self, stage: int, stages: int, n_micro_batches: int) -> float:
        """Return the maximum number of micro-batches in flight on a stage.

        Args:
            stage: its number, from 0.
            stages: the number of stages.
            n_micro_batches: micro-batches of a step.
        """
        if self.name == "gpipe":
            return n_micro_batches
        if self.chunks > 1:
            warm_up = 2 * (stages - stage - 1) + (self.chunks - 1) * stages
            return min(warm_up + 1, n_micro_batches * self.chunks) / self.chunks
        held = {"zb-h1": stages, "zb-h2": 2 * stages - 1}.get(self.name, stages - stage)
        return min(held, n_micro_batches)


ZERO = (0, 1, 2, 3, "hybrid")
"""Stages of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054): what data-parallel ranks shard.

1: the state of the optimizer; 2: gradients, too; 3: parameters, too, by ``fully_shard``. ``"hybrid"`` is 3
within a node, with replication among nodes.
"""

SYNCS = ("last", "each")
"""The micro-batches of a step after which gradients are reduced."""

OFFLOADS = ("activations", "optimizer")
"""What host memory can hold: saved activations of blocks, or optimizer state, with ``step()`` on the CPU."""

FP8 = "fp8"
"""Linear layers of blocks in float8, as in Transformer Engine, everything else in bfloat16."""

DTYPE_OF_FP8 = "float8_e4m3fn"
"""The dtype of matmuls in :data:`FP8`."""


class Setup(NamedTuple):
    """One way to run a step.

    Attributes:
        mesh: the devices.
        micro_batch: samples of one pass of one replica.
        n_micro_batches: micro-batches of each replica per step.
        checkpoints: whether the blocks run under activation checkpointing, or the option ``checkpoint`` of
            :func:`costcore.estimate` for other modules.
        precision: an option of :func:`costcore.estimate`, or :data:`FP8`; None for the dtypes of the model.
        zero: the stage of ZeRO: 0 to 3.
        schedule: the schedule of the pipeline.
        sync: in which passes gradients are reduced, one of :data:`SYNCS`.
        sequence_parallel: whether ``tp`` ranks shard norms and residuals along the sequence, as Megatron-LM does.
        offload: what host memory holds, of :data:`OFFLOADS`.
        gradients: dtype in which gradients are kept and reduced; None for that of the weights.
    """

    mesh: Mesh
    micro_batch: int
    n_micro_batches: int
    checkpoints: bool | str
    precision: str | None
    zero: int = 0
    schedule: Schedule = Schedule()
    sync: str = "last"
    sequence_parallel: bool = False
    offload: tuple[str, ...] = ()
    gradients: str | None = None

    def __str__(self) -> str:
        options = [f"zero={self.zero}"] if self.zero in (1, 2) else []
        options += [str(self.schedule)] if self.schedule != Schedule() else []
        options += ["sp"] if self.sequence_parallel else []
        options += [f"offload={each}" for each in self.offload]
        return " ".join([str(self.mesh), *options])

    @property
    def accumulates(self) -> bool:
        """Whether gradients exist before the last pass."""
        return self.n_micro_batches > 1 or self.zero == 2 or self.gradients is not None

    @property
    def step(self) -> str:
        """The option ``step`` of :func:`costcore.estimate` for the last pass."""
        if self.mesh.fsdp > 1 and self.n_micro_batches > 1 and self.sync == "last":
            return "unsynchronized"
        return "accumulated" if self.accumulates else "steady"

    @property
    def reductions(self) -> int:
        """How often gradients are reduced in a step."""
        return self.n_micro_batches if self.sync == "each" else 1

    @property
    def bubble(self) -> float:
        """The bubble: idle time of stages over compute time."""
        # Only recomputation of whole blocks delays the backward pass noticeably; selective recomputation is short.
        return self.schedule.bubble(self.mesh.pp, self.n_micro_batches, self.checkpoints is True)


class Choices(NamedTuple):
    """The options to combine on each mesh.

    Attributes:
        micro_batches: sizes of micro-batches; sizes that do not divide the batch of a replica are left out.
        checkpoints: whether blocks are checkpointed, or which modules.
        precisions: the precisions.
        zero: stages of ZeRO; meshes with ``fsdp`` have 3 in any case.
        schedules: schedules of pipelines.
        sync: in which passes gradients are reduced; None for ``"each"`` with ZeRO-3, else ``"last"``. ZeRO-2 always
            uses ``"each"``, because it keeps only shards of gradients.
        sequence_parallel: whether sequence parallelism is used; meshes without ``tp`` have none in any case.
        offloads: subsets of :data:`OFFLOADS`.
        gradients: dtype of gradients; None for that of the weights.
    """

    micro_batches: Sequence[int] = (1, 2)
    checkpoints: Sequence[bool | str] = (False, True)
    precisions: Sequence[str | None] = ("bfloat16",)
    zero: Sequence[int | str] = (0, 3)
    schedules: Sequence[Schedule] = (Schedule(),)
    sync: str | None = None
    sequence_parallel: Sequence[bool] = (False,)
    offloads: Sequence[tuple[str, ...]] = ((),)
    gradients: str | None = None

    def setups(self, mesh: Mesh, global_batch: int, blocks: int) -> Iterator[list[Setup]]:
        """Yield a list of setups per combination of options; a list has one per micro-batch size, ascending.

        Args:
            mesh: the devices.
            global_batch: samples of a step.
            blocks: the number of blocks of the model.
        """
        share, rest = divmod(global_batch, mesh.replicas)
        sizes = [size for size in sorted(self.micro_batches) if not rest and share and share % size == 0]
        schedules = self.schedules if mesh.pp > 1 else (Schedule(),)
        splits = self.sequence_parallel if mesh.tp > 1 else (False,)
        alternatives = product(self.precisions, self.checkpoints, self._stages(mesh), schedules, splits, self.offloads)
        for precision, checkpoint, zero, schedule, split, offload in alternatives:
            sync = "each" if zero == 2 or (zero == 3 and self.sync is None) else self.sync or "last"
            how = zero, schedule, sync, split, offload, self.gradients
            made = [Setup(mesh, size, share // size, checkpoint, precision, *how) for size in sizes]
            yield [each for each in made if schedule.is_possible(blocks, mesh.pp, each.n_micro_batches)]

    def _stages(self, mesh: Mesh) -> list[int]:
        if mesh.fsdp > 1:
            return [3]
        lower = [int(stage) for stage in self.zero if stage in (0, 1, 2)]
        return lower if lower and mesh.dp * mesh.cp > 1 else [0]


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


def meshes(devices: int, per_node: int, model: Divisible, zero: Sequence[int | str] = (0, 3)) -> Iterator[Mesh]:
    """Yield the meshes to try: tensor parallelism within a node, with a pipeline and replicas, or with FSDP.

    Experts are divided over data-parallel ranks. Sequences are divided only if each device keeps :data:`LEAST_TOKENS`
    tokens.

    Args:
        devices: the number of devices.
        per_node: devices of a node, the maximum of ``tp``.
        model: the divisible parts.
        zero: stages of ZeRO; only 3 and ``"hybrid"`` give meshes with ``fsdp``.
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
                mesh, replicas = Mesh(tp=tp, pp=pp, cp=cp), devices // tp // pp // cp
                for dp, fsdp in _data_parallel(replicas, max(per_node // tp, 1), pp, zero):
                    yield from _with_experts(mesh._replace(dp=dp, fsdp=fsdp), model.experts)


def _idle_stages(blocks: int, pp: int) -> int:
    # Stages hold ceil(blocks / pp) blocks each: 9 blocks on 8 stages fill 5, and 3 are idle.
    return pp - ceil(blocks / ceil(blocks / pp)) if blocks else 0


def _data_parallel(replicas: int, per_node: int, pp: int, zero: Sequence[int | str]) -> Iterator[tuple[int, int]]:
    # Pairs of dp and fsdp; per_node replicas share a node.
    if replicas == 1 or {0, 1, 2} & {*zero}:
        yield replicas, 1
    if replicas > 1 and pp == 1 and 3 in zero:
        yield 1, replicas
    if pp == 1 and "hybrid" in zero and 1 < per_node < replicas and replicas % per_node == 0:
        yield replicas // per_node, per_node


def _with_experts(mesh: Mesh, experts: int) -> Iterator[Mesh]:
    # Experts are divided over FSDP ranks, or over replicas if there is no FSDP, times cp.
    for ep in _divisors((mesh.fsdp if mesh.fsdp > 1 else mesh.dp) * mesh.cp) if experts else [1]:
        if experts % ep == 0 and divides(mesh.cp, ep):
            yield mesh._replace(ep=ep)


def divides(a: int, b: int) -> bool:
    """Return whether one of two numbers divides the other."""
    return max(a, b) % min(a, b) == 0


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


# Figures of one rank of a training step, extrapolated from captures with few blocks.


DEPTHS = (3, 4)
"""The numbers of blocks of two captures; figures of more blocks follow linearly.

Three is the minimum: FSDP prefetches the parameters of the next block, so a middle block needs other memory than the
first and the last.
"""


ENDS = ("embedding", "head")
"""The parts of a model before its blocks and after them, which the first and the last stage of a pipeline hold."""

LINEAR = ("linear", "matmul", "grouped_matmul", "grouped_matmul_backward")
"""The operators that Transformer Engine runs in float8, of layers and of experts."""


class Cut(NamedTuple):
    """The shares of a captured rank's memory that a device does not hold.

    Attributes:
        gradients: the share of gradients on other devices; negative if gradients are wider than captured.
        saved: the share of the activations saved in blocks that is on other devices or on the host.
    """

    gradients: float = 0.0
    saved: float = 0.0


class Live(NamedTuple):
    """The bytes alive while a call runs: all, gradients, and activations saved in blocks."""

    total: float
    gradients: float
    saved: float

    def after(self, cut: Cut) -> float:
        """Return the bytes that remain on the device."""
        return self.total - cut.gradients * self.gradients - cut.saved * self.saved


class RankCosts(NamedTuple):
    """The figures of one pass of one rank, with a step of the optimizer.

    Attributes:
        peaks: the maximum bytes alive without optimizer state, by phase of the pass and scope (:func:`scopes_of`).
        end: bytes alive after the pass, without optimizer state.
        saved: bytes that autograd keeps for the backward pass.
        seconds: the minimum time of the pass.
        step_seconds: the minimum time of the optimizer.
        sent: bytes that the pass sends.
        binds: the minimum time of the pass by bottleneck.
        parameters: the number of parameters of the rank.
        expert_parameters: the number of parameters in experts, before sharding.
        state: bytes of optimizer state.
        step_bytes: bytes that a step of the optimizer needs in addition.
        linear: the number of weights of linear layers in blocks, after gathering.
        ends: the parameters of embedding and head (:data:`ENDS`), which other stages of a pipeline lack: their
            ``number``, and the bytes of ``weights``, ``gradients`` and ``state``, by end and figure. Tied weights are
            left out.
    """

    peaks: Mapping[tuple[str, str], float]
    end: float
    saved: float
    seconds: float
    step_seconds: float
    sent: float
    binds: Mapping[str, float]
    parameters: float
    expert_parameters: float
    state: float
    step_bytes: float
    linear: float
    ends: Mapping[tuple[str, str], float]

    def with_step(self, step: RankCosts) -> RankCosts:
        """Return the figures of this pass with a step of the optimizer, captured with another micro-batch.

        Optimizer state is alive throughout. The additional memory of the step does not depend on the pass.

        Args:
            step: any pass with a step of the optimizer.
        """
        ends = {**self.ends, **{key: nbytes for key, nbytes in step.ends.items() if key[1] == "state"}}
        return self._replace(step_seconds=step.step_seconds, state=step.state, step_bytes=step.step_bytes, ends=ends)

    def of_ends(self, ends: Sequence[str], what: str) -> float:
        """Return the sum of a figure of :attr:`ends` over these ends."""
        return fsum(self.ends.get((end, what), 0.0) for end in ends)

    def peak(self, block: float, waiting: float, share: float = 1.0) -> int:
        """Return the peak memory of the rank.

        Args:
            block: bytes that autograd saves in the blocks of the rank in one pass.
            waiting: the number of further micro-batches in flight, whose activations it keeps.
            share: the share of the optimizer state that it holds.
        """
        in_pass = max(self.peaks.values()) + waiting * block
        return ceil(max(in_pass, self.end + share * self.step_bytes) + share * self.state)

    @staticmethod
    def sum_of(ranks: Sequence[tuple[float, RankCosts]]) -> RankCosts:
        """Return the weighted sum of figures, from pairs of a factor and a rank."""

        def added(values: Sequence[Any]) -> Any:
            if isinstance(values[0], Mapping):
                keys = dict.fromkeys(key for value in values for key in value)
                return {key: added([value.get(key, 0.0) for value in values]) for key in keys}
            return fsum(factor * value for (factor, _), value in zip(ranks, values, strict=True))

        return RankCosts(*map(added, zip(*(rank for _, rank in ranks), strict=True)))


class BlockCosts(NamedTuple):
    """Some blocks of a rank, without the rest of the model.

    Attributes:
        saved: bytes that autograd saves in them.
        largest: the maximum bytes that it saves in one block.
        seconds: the minimum time of a pass.
    """

    saved: float
    largest: float
    seconds: float


class Captured(NamedTuple):
    """A captured rank.

    Attributes:
        rank: its figures; :attr:`RankCosts.peaks` and ``end`` are not set.
        points: the candidates for its peaks, by phase and scope.
        end: the bytes alive after the pass.
    """

    rank: RankCosts
    points: Mapping[tuple[str, str], Sequence[Live]]
    end: Live

    def after(self, cut: Cut) -> RankCosts:
        """Return the figures with peaks, without the bytes that other devices hold."""
        peaks = {scope: max(point.after(cut) for point in points) for scope, points in self.points.items()}
        return self.rank._replace(peaks=peaks, end=self.end.after(cut))


class Sizes(NamedTuple):
    """The sizes of a mesh that change what a rank runs."""

    fsdp: int
    tp: int
    cp: int
    ep: int


def _sizes(setup: Setup) -> Sizes:
    return Sizes(*(getattr(setup.mesh, name) for name in Sizes._fields))


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
        is_whole_model: whether to capture the whole model, because its blocks cannot replace each other.
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
        is_whole_model: bool = False,
    ) -> None:
        self.is_whole_model = is_whole_model
        self._model = model
        self._inputs = inputs
        self._distribution = distribution
        self._device = device
        self._dtype = dtype
        self._optimizer = optimizer
        self._options = options
        self._captured: dict[Any, Captured] = {}
        self._steps: dict[Any, Captured] = {}
        self._gradients: dict[Any, Any] = {}

    def of(self, setup: Setup, kinds: Sequence[int], cut: Cut = Cut(), exactly: bool = False) -> RankCosts:  # noqa: B008
        """Return the figures of a rank that has blocks of these kinds.

        Without ``exactly`` they are extrapolated: captures of :data:`DEPTHS` blocks give the increment per kind.

        Args:
            setup: how the step runs.
            kinds: the kind of each block.
            cut: the shares of memory that the rank does not hold.
            exactly: whether to capture all blocks. Times are extrapolated even then.

        Raises:
            CostError, TypeError, ValueError: if the model cannot be captured in this way.
        """
        if self.is_whole_model:
            self._check_whole(setup)
            return self._run(setup, None, with_step=True).after(cut)
        extrapolated = self._extrapolated(kinds, lambda kinds: self._capture(setup, kinds, cut))
        if not exactly:
            return extrapolated
        whole = self._run(setup, tuple(kinds), with_step=True, with_times=False).after(cut)
        return whole._replace(
            seconds=extrapolated.seconds, step_seconds=extrapolated.step_seconds, binds=extrapolated.binds
        )

    def blocks(self, setup: Setup, kinds: Sequence[int]) -> BlockCosts:
        """Return the figures of blocks of these kinds, without the rest of the model."""
        if self.is_whole_model:
            return BlockCosts(0.0, 0.0, 0.0)
        few, more = DEPTHS
        saved, seconds = {}, {}
        for kind in {*kinds}:
            fewer, deeper = (self._run(setup, (kind,) * number, with_step=False).rank for number in DEPTHS)
            saved[kind] = (deeper.saved - fewer.saved) / (more - few)
            seconds[kind] = (deeper.seconds - fewer.seconds) / (more - few)
        return BlockCosts(
            saved=fsum(saved[kind] for kind in kinds),
            largest=max(saved.values()),
            seconds=fsum(seconds[kind] for kind in kinds),
        )

    def step_of(self, setup: Setup, kinds: Sequence[int]) -> RankCosts:
        """Return the figures of a cheap pass; only its parameters and its optimizer step are those of every pass."""
        if self.is_whole_model:
            self._check_whole(setup)
            return self._step(setup, None).rank
        return self._extrapolated(kinds, lambda kinds: self._step(setup, kinds).rank)

    def _check_whole(self, setup: Setup) -> None:
        # Options that divide blocks or apply to each block.
        sizes = setup.mesh._asdict().items()
        needs = [f"{axis}={size}" for axis, size in sizes if axis not in ("dp", "fsdp") and size > 1]
        needs += setup.offload if "activations" in setup.offload else ()
        needs += ["sequence_parallel"] * setup.sequence_parallel + [FP8] * (setup.precision == FP8)
        needs += ["checkpointing of blocks"] * (setup.checkpoints is True and not self._distribution.kind)
        if needs:
            raise CostError(
                f"{', '.join(needs)}: the model repeats no blocks that can replace each other, such as the layers of a "
                "transformer, and is planned whole, over dp and fsdp"
            )

    @staticmethod
    def _extrapolated(kinds: Sequence[int], capture: Callable[[tuple[int, ...]], RankCosts]) -> RankCosts:
        few, more = DEPTHS
        counts = Counter(kinds)
        ((most, _),) = counts.most_common(1)
        # A model with few blocks, plus the increment of every further block.
        terms = [(1.0, capture((most,) * few))]
        for kind, number in counts.items():
            share = (number - (few if kind == most else 0)) / (more - few)
            terms += [(share, capture((kind,) * more)), (-share, capture((kind,) * few))]
        return RankCosts.sum_of(terms)

    def _capture(self, setup: Setup, kinds: tuple[int, ...], cut: Cut) -> RankCosts:
        step = self._step(setup, kinds)
        return self._run(setup, kinds, with_step=False).after(cut).with_step(step.rank)

    def _step(self, setup: Setup, kinds: tuple[int, ...] | None) -> Captured:
        # The optimizer does not depend on the pass: it is captured once, with a cheap pass that plans need anyway.
        key = _sizes(setup), setup.precision, kinds
        if key not in self._steps:
            self._steps[key] = self._run(setup._replace(micro_batch=1, checkpoints=False), kinds, with_step=True)
        return self._steps[key]

    def _run(self, setup: Setup, kinds: tuple[int, ...] | None, with_step: bool, with_times: bool = True) -> Captured:
        how = _sizes(setup), setup.micro_batch, setup.checkpoints, setup.precision, setup.step, kinds
        if not with_step and (*how, True, True) in self._captured:
            return self._captured[(*how, True, True)]
        key = (*how, with_step, with_times)
        if key not in self._captured:
            sizes, precision = _sizes(setup), "bfloat16" if setup.precision == FP8 else setup.precision
            # Setups of equal sizes share accumulated gradients: the first of them makes these in an extra pass.
            equal = (sizes, precision) if setup.step == "accumulated" else None
            layout = self._distribution.plan(kinds, gradients=self._gradients.get(equal), **sizes._asdict())
            options = {
                **self._options,
                "backward": True,
                "memory": True,
                "mesh": layout.mesh,
                "plan": layout,
                "step": setup.step,
                "precision": precision,
                "checkpoint": self._distribution.kind if setup.checkpoints is True else setup.checkpoints or None,
                "optimizer": self._optimizer if with_step else None,
            }
            inputs = with_part_of_tokens(self._inputs(setup.micro_batch), setup.mesh.cp)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about missing formulas, and about code that is not in a stage
                report = estimate(self._model, inputs, **options)
            self._captured[key] = self._figures(report, layout, with_times, setup.precision == FP8)
            if equal is not None:
                self._gradients[equal] = layout.gradients
        return self._captured[key]

    def _figures(self, report: Report, layout: Any, with_times: bool, in_fp8: bool) -> Captured:
        memory, rank = report.memory, report.trace.run.rank
        assert memory is not None and rank is not None
        groups = report.time(self._device, dtype=self._dtype, fusion="compiler").groups if with_times else ()
        seconds_of = self._seconds_in_fp8(layout.blocks) if in_fp8 else _bound_seconds
        passes = [(group, seconds_of(group)) for group in groups if group.calls[0].phase != "optimizer"]
        steps = [group for group in groups if group.calls[0].phase == "optimizer"]
        binds: dict[str, float] = {}
        for group, seconds in passes:
            binds[group.bound.binds] = binds.get(group.bound.binds, 0.0) + seconds
        state = memory.ledger.live("optimizer")[0]
        points, end, in_step = _live(report, layout.blocks, state)
        costs = RankCosts(
            peaks={},
            end=0.0,
            saved=max(_saved(memory.ledger).live()),
            seconds=fsum(seconds for _, seconds in passes),
            step_seconds=fsum(group.bound_seconds for group in steps),
            sent=sum(record.cost.mcomm * record.call.times for record in report.trace if record.cost is not None),
            binds=binds,
            parameters=rank.n_params,
            expert_parameters=layout.expert_parameters,
            state=state,
            step_bytes=max(in_step - end.total, 0.0),
            linear=_linear_parameters(report, layout.blocks),
            ends=_ends(report, layout.blocks),
        )
        return Captured(costs, points, end)

    def _seconds_in_fp8(self, blocks: Sequence[str]) -> Callable[[GroupTime], float]:
        if DTYPE_OF_FP8 not in self._device.peak.get("matrix", {}):
            raise CostError(f"{self._device.name} has no products in float8, which precision fp8 needs")
        narrow, wide = (self._device.matrix_rate(dtype) or 1.0 for dtype in (DTYPE_OF_FP8, "bfloat16"))
        ratio = wide / narrow

        def seconds(group: GroupTime) -> float:
            # Operands of one byte instead of two: at best, a kernel reads and writes half the bytes.
            if not any(_is_linear(call.layer) and _is_inside(call.module, blocks) for call in group.calls):
                return group.bound_seconds
            scales = {"matrix": ratio, "dram": 0.5, "cache": 0.5}
            return max(each * scales.get(name, 1.0) for name, each in group.bound.by.items()) * group.times

        return seconds


def _bound_seconds(group: GroupTime) -> float:
    return group.bound_seconds


def _is_linear(layer: Layer) -> bool:
    # Products with weights, and their gradients. Products of attention have a fourth axis, for heads.
    return layer.op in LINEAR and all(len(tensor.shape) <= 3 for tensor in layer.inputs.values())


def _linear_parameters(report: Report, blocks: Sequence[str]) -> float:
    weights = {}
    for call in report.trace.calls:
        if call.phase == "forward" and _is_linear(call.layer) and _is_inside(call.module, blocks):
            for name, tensor in call.layer.inputs.items():
                if tensor.role == "param" and len(tensor.shape) > 1:
                    weights[call.module, call.name, name] = prod(map(int, tensor.shape))
    return float(sum(weights.values()))


def _ends(report: Report, blocks: Sequence[str]) -> dict[tuple[str, str], float]:
    # Parameters of modules that run before the blocks, or after them; tied weights belong to neither end.
    assert report.memory is not None
    calls = [call for call in report.trace.calls if call.phase == "forward"]
    inside = [i for i, call in enumerate(calls) if _is_inside(call.module, blocks)]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)
    modules: dict[str, set[str]] = {end: set() for end in ENDS}
    used: dict[str, set[int]] = {end: set() for end in ENDS}
    for i, call in enumerate(calls):
        if call.parameters and not first <= i <= last:
            end = ENDS[i > last]
            modules[end].add(call.module)
            used[end].update(call.parameters)
    if used[ENDS[0]] & used[ENDS[1]]:
        return {}
    found: dict[tuple[str, str], float] = {}
    kinds = {"parameter": "weights", "gradient": "gradients", "optimizer": "state"}
    for block in report.memory.ledger.blocks:
        owner = block.name.partition(" ")[0].rpartition(".")[0]
        if block.name and block.died is None and block.kind in kinds:
            for end in ENDS:
                if owner in modules[end] and owner not in modules[ENDS[end == ENDS[0]]]:
                    key = end, kinds[block.kind]
                    found[key] = found.get(key, 0.0) + block.nbytes
                    if block.kind == "parameter":
                        found[end, "number"] = found.get((end, "number"), 0.0) + prod(block.shape)
    return found


def _is_inside(module: str, blocks: Sequence[str]) -> bool:
    return scopes_of(module, blocks) != ["", "outside"]


def scopes_of(module: str, blocks: Sequence[str]) -> list[str]:
    """Return the scopes of a module: ``""`` for the whole model, and its part: outside of blocks, first or last block.

    The peak in one scope grows linearly with the number of blocks. The overall peak may not: its scope can change.

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


def _live(
    report: Report, blocks: Sequence[str], state: float
) -> tuple[dict[tuple[str, str], Sequence[Live]], Live, float]:
    # Bytes alive in each scope of the pass, at its end, and the maximum during the step of the optimizer.
    assert report.memory is not None
    calls, memory = report.trace.calls, report.memory
    inside = [_is_inside(call.module, blocks) for call in calls]
    ledger = memory.ledger
    saved = _saved(ledger)
    inner = saved._replace(blocks=tuple(block for block in saved.blocks if inside[block.call]))
    kinds = zip(ledger.live(), ledger.live("gradient"), inner.live(), strict=True)
    live = [Live(total - state, gradients, saved) for total, gradients, saved in kinds]
    scopes: dict[str, list[str]] = {}
    found: dict[tuple[str, str], set[Live]] = {}
    in_step = 0.0
    for call, event in zip(calls, memory.highest_events, strict=True):
        if call.phase == "optimizer":
            in_step = max(in_step, live[event].total)
            continue
        for scope in scopes.setdefault(call.module, scopes_of(call.module, blocks)):
            found.setdefault((call.phase, scope), set()).add(live[event])
    return {scope: highest(points) for scope, points in found.items()}, live[-1], in_step


def _saved(ledger: MemoryLedger) -> MemoryLedger:
    # Saved by autograd. Keys and values that a model also returns in a cache have the kind "cached".
    blocks = (each for each in ledger.blocks if each.kind in ("saved", "cached") and each.call >= 0)
    return ledger._replace(blocks=tuple(blocks))


_CORNERS = [*product((Cut().gradients, 1.0), (Cut().saved, 1.0))]


def highest(points: Iterable[Live]) -> list[Live]:
    """Return the points that can be the peak for some cut of gradients and saved bytes (the Pareto-maximal points)."""
    best: dict[tuple[float, ...], Live] = {}
    for point in points:
        best.setdefault(tuple(point.after(Cut(*corner)) for corner in _CORNERS), point)
    kept: list[tuple[float, ...]] = []
    for heights in sorted(best, reverse=True):
        if not any(all(a <= b for a, b in zip(heights, other, strict=True)) for other in kept):
            kept.append(heights)
    return [best[heights] for heights in kept]


# The tokens of the inputs, and a part of them.


AXIS = 1
"""The dimension of an input that is assumed to be tokens: the one after the batch."""


def tokens_of(inputs: Any) -> int:
    """Return the number of tokens of inputs: the largest second dimension; 0 if no input has two dimensions."""
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
