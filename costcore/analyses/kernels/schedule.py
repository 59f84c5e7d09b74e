"""What a compiler decided to run: the form in which a frontend states it."""

from __future__ import annotations

from typing import NamedTuple


class Origin(NamedTuple):
    """An operator of the model that a kernel computes.

    Attributes:
        module: path of the module that calls it; empty for the model.
        operator: its name without a namespace, ``layer_norm``.
        number: how many operators of this name the module called before.
        is_whole: whether it stands for all calls of the module and of those inside.
    """

    module: str
    operator: str
    number: int
    is_whole: bool = False


class ScheduledKernel(NamedTuple):
    """A kernel of a schedule.

    Attributes:
        n_bytes: the bytes that it reads and writes, as the compiler counts them.
        origins: what it computes.
        rewrites: what it stores in another layout and does nothing else: ``weight``, ``activation``; empty for others.
    """

    n_bytes: int
    origins: tuple[Origin, ...]
    rewrites: str = ""


class Schedule(NamedTuple):
    """The kernels of a model.

    Attributes:
        compiler: the name and release of the compiler, ``TorchInductor 2.13.0``.
        device: the type of the device that it compiles for.
        kernels: the kernels, in their order.
        n_graphs: how many graphs the model was divided into.
        reason: why the first graph ended, or why there is none, if the compiler says so.
    """

    compiler: str
    device: str
    kernels: tuple[ScheduledKernel, ...]
    n_graphs: int
    reason: str = ""
