"""The ways to distribute a training step over devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

LEAST_TOKENS = 8192
"""So many tokens of a sequence each device keeps, if nobody asks for another mesh: shorter ones are not divided."""


class Mesh(NamedTuple):
    """The number of devices along each dimension.

    Attributes:
        dp: copies of the model, which share the batch.
        fsdp: copies that share the batch and each hold a part of the parameters, gradients and state.
        tp: devices that share every block.
        pp: stages of a pipeline, with equal numbers of blocks, or fewer in the last one.
        cp: devices that share every sequence.
        ep: of the devices with tokens of their own, ``dp * fsdp * cp``, how many divide the experts among them. It adds
            no devices.
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
    """What of a model and its inputs can be divided over devices.

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
        per_node: the most devices along ``tp``.
        model: what can be divided.
    """
    for tp in _divisors(devices) if model.width else [1]:
        if tp > per_node:
            continue
        for pp in _divisors(devices // tp):
            if pp > max(model.blocks, 1):
                continue
            for cp in _divisors(devices // tp // pp):
                if cp > 1 and (cp * LEAST_TOKENS > model.tokens or model.tokens % cp):
                    continue
                yield from _copies(devices // tp // pp // cp, Mesh(tp=tp, pp=pp, cp=cp), model.experts)


def _copies(replicas: int, mesh: Mesh, experts: int) -> Iterator[Mesh]:
    """Yield a mesh of copies, and one of sharded copies, with every division of experts over them."""
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
    """Yield the ways to run a step on a mesh: lists in which each setup has a larger micro-batch than the one before.

    Args:
        mesh: the devices.
        global_batch: samples of a step.
        micro_batches: samples of a pass; those that do not divide the share of a replica are left out.
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
