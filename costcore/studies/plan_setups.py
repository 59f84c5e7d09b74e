"""Ways to run a distributed training step: meshes, stages of ZeRO, schedules of pipelines, and their arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil
from typing import NamedTuple

from costcore.errors import unknown

LEAST_TOKENS = 8192
"""Minimum tokens that each device keeps of a sequence, unless the user gives a mesh."""


class Mesh(NamedTuple):
    """The number of devices along each dimension.

    Attributes:
        dp: replicas of the model, which share the batch.
        fsdp: FSDP ranks, which share the batch and shard parameters, gradients and optimizer state.
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
        """How many data-parallel ranks share a batch."""
        return self.dp * self.fsdp

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self._asdict().items() if size > 1) or "one device"


SCHEDULES = ("1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2")
"""The schedules of pipelines."""


class Schedule(NamedTuple):
    """A schedule of a pipeline: which passes its stages run when.

    Sources: GPipe (Huang et al. 2019, arXiv:1811.06965), 1F1B and interleaved 1F1B (Narayanan et al. 2021,
    arXiv:2104.04473, section 2.2; memory of the latter: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3), zero
    bubble (Qi et al. 2023, arXiv:2401.10241, table 1).

    Attributes:
        name: one of :data:`SCHEDULES`.
        chunks: the parts of every stage, which take turns; more than one in ``interleaved`` only.
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

        A forward pass, the gradients of inputs and the gradients of weights are taken to need equal time; the
        recomputation counts toward the gradients of inputs.

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
"""At which micro-batches of a step gradients are reduced."""

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
        ways = [f"zero={self.zero}"] if self.zero in (1, 2) else []
        ways += [str(self.schedule)] if self.schedule != Schedule() else []
        ways += ["sp"] if self.sequence_parallel else []
        ways += [f"offload={each}" for each in self.offload]
        return " ".join([str(self.mesh), *ways])

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
        # Selective recomputation is short: only that of whole blocks delays the backward pass noticeably.
        return self.schedule.bubble(self.mesh.pp, self.n_micro_batches, self.checkpoints is True)


class Choices(NamedTuple):
    """The options to combine on each mesh.

    Attributes:
        micro_batches: sizes of micro-batches; sizes that do not divide the batch of a replica are left out.
        checkpoints: whether blocks are checkpointed, or which modules.
        precisions: the precisions.
        zero: stages of ZeRO; meshes with ``fsdp`` have 3 in any case.
        schedules: schedules of pipelines.
        sync: in which passes gradients are reduced; None for ``"last"``, but ``"each"`` of ZeRO-3, as is usual. ZeRO-2
            holds parts of gradients only, and reduces them in each.
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

    Experts are divided over data-parallel ranks, sequences only if each device keeps :data:`LEAST_TOKENS` of them.

    Args:
        devices: the number of devices.
        per_node: devices of a node, the maximum of ``tp``.
        model: the divisible parts.
        zero: stages of ZeRO, of which 3 and ``"hybrid"`` give ``fsdp``.
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
                for dp, fsdp in _copies(replicas, max(per_node // tp, 1), pp, zero):
                    yield from _with_experts(mesh._replace(dp=dp, fsdp=fsdp), model.experts)


def _idle_stages(blocks: int, pp: int) -> int:
    # Stages hold ceil(blocks / pp) blocks each: 9 blocks on 8 stages fill 5, and 3 are idle.
    return pp - ceil(blocks / ceil(blocks / pp)) if blocks else 0


def _copies(replicas: int, near: int, pp: int, zero: Sequence[int | str]) -> Iterator[tuple[int, int]]:
    # Pairs of dp and fsdp.
    if replicas == 1 or {0, 1, 2} & {*zero}:
        yield replicas, 1
    if replicas > 1 and pp == 1 and 3 in zero:
        yield 1, replicas
    if pp == 1 and "hybrid" in zero and 1 < near < replicas and replicas % near == 0:
        yield replicas // near, near


def _with_experts(mesh: Mesh, experts: int) -> Iterator[Mesh]:
    # Experts are divided over devices that shard together, if any do.
    for ep in _divisors((mesh.fsdp if mesh.fsdp > 1 else mesh.dp) * mesh.cp) if experts else [1]:
        if experts % ep == 0 and divides(mesh.cp, ep):
            yield mesh._replace(ep=ep)


def divides(a: int, b: int) -> bool:
    """Return whether one of two numbers divides the other."""
    return max(a, b) % min(a, b) == 0


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
