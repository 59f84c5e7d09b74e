"""The ways to distribute a training step over devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Mesh(NamedTuple):
    """The number of devices along each dimension.

    Attributes:
        dp: copies of the model, which share the batch.
        fsdp: copies that share the batch and each hold a part of the parameters, gradients and state.
        tp: devices that share every block.
        pp: stages of a pipeline, with equal numbers of blocks, or one less.
    """

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1

    @property
    def devices(self) -> int:
        """The number of all devices."""
        return self.dp * self.fsdp * self.tp * self.pp

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


def meshes(devices: int, per_node: int, most_stages: int, width: bool) -> Iterator[Mesh]:
    """Yield the meshes to try: tensor parallelism inside of a node, and a pipeline of copies, or sharded copies.

    Args:
        devices: the number of devices.
        per_node: the most devices along ``tp``.
        most_stages: the number of blocks of the model.
        width: whether the model can be divided along ``tp``.
    """
    for tp in _divisors(devices):
        if tp > per_node or (tp > 1 and not width):
            continue
        for pp in _divisors(devices // tp):
            if pp > max(most_stages, 1):
                continue
            replicas = devices // tp // pp
            yield Mesh(dp=replicas, tp=tp, pp=pp)
            if replicas > 1 and pp == 1:
                yield Mesh(fsdp=replicas, tp=tp)


def setups(
    mesh: Mesh,
    global_batch: int,
    micro_batches: Sequence[int],
    checkpoints: Sequence[bool],
    precisions: Sequence[str | None],
) -> Iterator[list[Setup]]:
    """Yield the ways to run a step on a mesh: lists in which each setup needs more memory than the one before.

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
