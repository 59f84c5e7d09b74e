"""The memory of a runtime that uses a buffer again for a value of the same shape, as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from costcore.analyses.memory.lives import Block, Lives


def in_onnx_runtime(lives: Lives) -> Lives:
    """Return the values of a run of ONNX Runtime on a CPU.

    Activations are written over their operand, and nothing else. The caller has the inputs until the run ends.
    """
    moments = [replace(each, overwrites=each.activates) for each in lives.moments]
    last = len(moments) - 1
    blocks = [replace(each, dies=last) if each.kind == "input" else each for each in lives.blocks]
    made = ((i, blocks[each.makes[0]]) for i, each in enumerate(moments) if each.is_product and each.makes)
    parts = [replace(block, name=f"{block.name}: factor", kind="value", is_kept=False, dies=i) for i, block in made]
    return lives._replace(moments=moments, blocks=[*blocks, *parts])


def reused(blocks: Iterable[Block]) -> list[Block]:
    """Return the buffers of a runtime that plans before sizes are known.

    A value takes the buffer of one of its shape and dtype that is no longer needed, the last such; any other value has
    a buffer of its own. A buffer is held until the last of its values is no longer needed: while it waits, too. What
    the model returns has buffers of its own.

    Source: ``FindReusableTensor`` of ``onnxruntime/core/framework/allocation_planner.cc``.

    Args:
        blocks: the values, after those were joined that are written over their operands.
    """
    buffers: list[Block] = []
    held: list[Block] = []
    waiting: list[Block] = []
    for block in sorted(blocks, key=lambda each: each.born):
        ended = [buffer for buffer in held if buffer.dies < block.born]
        waiting = [*reversed(ended), *waiting]
        held = [buffer for buffer in held if buffer.dies >= block.born]
        taken = next((i for i, buffer in enumerate(waiting) if _can_take(block, buffer)), None)
        if taken is None:
            buffers.append(replace(block))
            held.append(buffers[-1])
        else:
            held.append(waiting.pop(taken))
            held[-1].dies = block.dies
    return buffers


def _can_take(block: Block, buffer: Block) -> bool:
    is_known = block.shape is not None and buffer.kind == "value" and not block.is_kept
    return is_known and (block.shape, block.dtype) == (buffer.shape, buffer.dtype)
