"""The values of an inference run and the steps that make and read them, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from costcore.numbers.dims import Dim

KINDS = ("input", "value", "output")
"""What a block holds: an input of the model, a value between two calls, or what the model returns."""


@dataclass(slots=True)
class Block:
    """The memory of a value, and of all values that share it.

    Attributes:
        name: the call that makes it, with the position of the output if that has several; the name of an input.
        nbytes: its size.
        born: index of the step that makes it; 0 for an input.
        dies: index of the last step that needs it.
        kind: one of :data:`KINDS`.
        module: path of the module of that call.
        shape: shape of the first value in it; None if it is not one tensor.
        dtype: dtype of that value.
        is_kept: whether the caller gets it, so that it is needed after the last step too.
        is_planned: whether its shape is known before the run.
        is_unread: whether no step reads it, so that ONNX Runtime does not free it.
    """

    name: str
    nbytes: Dim
    born: int
    dies: int
    kind: str = "value"
    module: str = ""
    shape: tuple[Dim, ...] | None = None
    dtype: str = ""
    is_kept: bool = False
    is_planned: bool = True
    is_unread: bool = False


@dataclass(slots=True)
class Moment:
    """One step of a run by the blocks it needs, as indices.

    Attributes:
        name: the call, or what happens between two calls.
        is_call: whether it is a call.
        reads: blocks that it reads.
        makes: blocks that exist from then on.
        outputs: how many of these are outputs of the layer, the first ones.
        takes: pairs of a block that it makes and one that it may always continue.
        overwrites: pairs of a block that it makes and one that it may write over if that is allowed.
        activates: pairs of a block that it makes and one that ONNX Runtime may write over.
        is_product: whether ONNX Runtime makes another value like its result on the way to it.
        after: indices of earlier steps that must come before it.
    """

    name: str
    is_call: bool
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    outputs: int = 0
    takes: list[tuple[int, int]] = field(default_factory=list)
    overwrites: list[tuple[int, int]] = field(default_factory=list)
    activates: list[tuple[int, int]] = field(default_factory=list)
    is_product: bool = False
    after: set[int] = field(default_factory=set)


class Lives(NamedTuple):
    """The values of a run.

    Attributes:
        moments: the steps of the run in order; of a run without calls, one that does nothing.
        blocks: the memory of every value, in order of birth; weights are not among them.
        spans: first and last step of each loop or branch that data decides, the outermost only.
        weights: bytes of the stored tensors that the run reads, each once.
        notes: what the figures assume.
    """

    moments: list[Moment]
    blocks: list[Block]
    spans: list[tuple[int, int]]
    weights: Dim
    notes: tuple[str, ...]


def in_order(lives: Lives, order: Sequence[int]) -> Lives:
    """Return the same run with its steps in another order.

    Args:
        lives: the values of the run.
        order: the indices of all steps; each comes after those that make what it reads, and loops stay together.
    """
    now = {step: position for position, step in enumerate(order)}
    moments = [replace(lives.moments[step], after={now[each] for each in lives.moments[step].after}) for step in order]
    born, dies = [0] * len(lives.blocks), [0] * len(lives.blocks)
    for position, moment in enumerate(moments):
        for index in moment.makes:
            born[index] = position
        for index in (*moment.makes, *moment.reads):
            dies[index] = position
    blocks = [
        replace(block, born=born[i], dies=len(moments) - 1 if block.is_kept else dies[i])
        for i, block in enumerate(lives.blocks)
    ]
    spans = [(min(places), max(places)) for places in ([now[i] for i in range(a, b + 1)] for a, b in lives.spans)]
    return lives._replace(moments=moments, blocks=blocks, spans=sorted(spans))
