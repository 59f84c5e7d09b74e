"""The memory of a runtime that uses a buffer again for a value of the same shape, as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from costcore.analyses.memory.lives import Block, Lives, in_order


def in_onnx_runtime(lives: Lives) -> Lives:
    """Return the values of a run of ONNX Runtime on a CPU, in its order.

    Some kernels write over their first operand, and no other does. The caller has the inputs until the run ends, and
    what the model returns has memory of its own. An output without a reader stays until the run ends.
    """
    lives = in_order(lives, _depth_first(lives))
    last = len(lives.moments) - 1
    read = {block for moment in lives.moments for block in moment.reads}
    moments = [
        replace(each, overwrites=[(made, over) for made, over in each.activates if not lives.blocks[made].is_kept])
        for each in lives.moments
    ]
    outputs = {block for moment in moments if moment.is_call for block in moment.makes[: moment.outputs]} - read
    blocks = [
        replace(each, dies=last if each.kind == "input" else each.dies, is_unread=i in outputs and not each.is_kept)
        for i, each in enumerate(lives.blocks)
    ]
    made = ((i, blocks[each.makes[0]]) for i, each in enumerate(moments) if each.is_product and each.makes)
    parts = [
        replace(block, name=f"{block.name}: factor", kind="value", is_kept=False, is_unread=False, dies=i)
        for i, block in made
    ]
    return lives._replace(moments=moments, blocks=[*blocks, *parts])


def _depth_first(lives: Lives) -> list[int]:
    """Return the order of the steps in ONNX Runtime: depth first, from the last step without a reader.

    Of the steps that another one waits for, the last in the file runs first, after all that it waits for itself. A loop
    or branch is one node.

    Source: ``ReverseDFSFrom`` of ``onnxruntime/core/graph/graph.cc``, which gives the default order.
    """
    ends, node_of, nodes = dict(lives.spans), [], list[list[int]]()
    end = 0
    for i in range(len(lives.moments)):
        if i >= end:
            end = ends.get(i, i) + 1
            nodes.append([])
        nodes[-1].append(i)
        node_of.append(len(nodes) - 1)
    before = [
        sorted({node_of[step] for i in steps for step in lives.moments[i].after} - {number})
        for number, steps in enumerate(nodes)
    ]
    inner = {number for each in before for number in each}
    stack = [(number, False) for number in range(len(nodes)) if number not in inner]
    visited: set[int] = set()
    order: list[int] = []
    while stack:
        number, is_ready = stack.pop()
        if is_ready:
            order += nodes[number]
        elif number not in visited:
            visited.add(number)
            stack.append((number, True))
            stack += [(other, False) for other in before[number] if other not in visited]
    return order


def reused(blocks: Iterable[Block], last: int) -> list[Block]:
    """Return the buffers of a runtime that plans before sizes are known.

    A value takes the buffer of one of its shape and size that is no longer needed, the last such; any other value has a
    buffer of its own, and so has a scalar, and a value whose shape is not known before the run. A buffer is held until
    the last of its values is no longer needed: while it waits, too. What the model returns has buffers of its own.

    Source: ``FindReusableTensor`` of ``onnxruntime/core/framework/allocation_planner.cc``.

    Args:
        blocks: the values, after those were joined that are written over their operands.
        last: index of the last step.
    """
    buffers: list[Block] = []
    held: list[Block] = []
    waiting: list[Block] = []
    for block in sorted(blocks, key=lambda each: each.born):
        ended = sorted((buffer for buffer in held if buffer.dies < block.born), key=lambda each: each.dies)
        waiting = [*reversed(ended), *waiting]
        held = [buffer for buffer in held if buffer.dies >= block.born]
        taken = next((i for i, buffer in enumerate(waiting) if _can_take(block, buffer)), None)
        if taken is None:
            buffers.append(replace(block))
            held.append(buffers[-1])
        else:
            held.append(waiting.pop(taken))
            held[-1].dies, held[-1].is_unread = block.dies, block.is_unread
    for buffer in buffers:
        if buffer.is_unread:
            buffer.dies = last
    return buffers


def _can_take(block: Block, buffer: Block) -> bool:
    is_known = block.shape and block.is_planned and buffer.is_planned and buffer.kind == "value" and not block.is_kept
    return bool(is_known) and (block.shape, block.nbytes) == (buffer.shape, buffer.nbytes)
