"""Shapes of operators that rearrange, cut, join and convert elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from costcore.ir import prod
from costcore.numbers.dims import Dim, ceil_div, floor_div, is_symbolic, minimum
from costcore.numbers.symbolic import as_text, differ, quotient, unique_solution

from ...graph.node import Node, Rule
from ...values.constant_folding import cast, each
from ...values.value import DTYPES, Container, Shape, Undetermined, Value
from ..rules import broadcast, same_shape


def identity(node: Node) -> Sequence[Value]:
    """Infer the input itself."""
    x = node.inputs[0] if node.inputs else None
    if x is None:
        raise node.error("has no input")
    if isinstance(x, Container):
        return [x]
    return [node.reshaped(x, x.known_shape)]


def reshape(node: Node) -> Sequence[Value]:
    """Infer another shape: ``0`` copies a dimension (unless ``allowzero``), ``-1`` takes the remaining elements."""
    x, wanted = node.value("data"), node.partial_numbers("shape")
    if wanted is None:
        raise node.error("lacks the shape")
    if wanted.count(None) == 1 and -1 not in wanted:
        wanted = tuple(-1 if d is None else d for d in wanted)  # what remains, whatever it says
    if not node.args.get("allowzero"):
        wanted = _with_copied(node, x.known_shape, wanted)
    shape = _with_remaining(node, x, wanted)
    result = node.reshaped(x, shape)
    if None in shape:
        return [result]
    _check_elements(node, x, shape, is_given=-1 not in wanted)
    result.spread = _reshaped_spread(x, shape) or result.spread
    return [result]


def _with_copied(node: Node, source: Sequence[Dim], wanted: Sequence[Dim | None]) -> tuple[Dim | None, ...]:
    """Return the shape with the dimension of the input where it is 0."""
    if any(d == 0 for d in wanted[len(source) :]):
        raise node.error(f"copies a dimension that its input of shape {source} does not have")
    return tuple(source[i] if d == 0 else d for i, d in enumerate(wanted))


def _with_remaining(node: Node, x: Value, wanted: Sequence[Dim | None]) -> Any:
    """Return the shape with the number of remaining elements where it is -1; 0 if the other sizes have none.

    If another size is unknown, so is this one: None.
    """
    unknown = [i for i, d in enumerate(wanted) if d == -1]
    if len(unknown) > 1 or any(isinstance(d, int) and d < -1 for d in wanted):
        raise node.error(f"cannot reshape to {wanted}: at most one size may be -1, and no other may be negative")
    if not unknown:
        return tuple(wanted)
    if None in wanted:
        return tuple(None if d == -1 else d for d in wanted)
    rest = prod(d for d in wanted if d is not None and d != -1)
    remaining = quotient(x.size, rest) if rest != 0 else 0
    return tuple(remaining if d == -1 else d for d in wanted)


def _check_elements(node: Node, x: Value, shape: tuple[Dim, ...], *, is_given: bool) -> None:
    """Refuse another number of elements than the input has; assume symbolic ones to be equal if all sizes are given."""
    size = prod(shape)
    if isinstance(x.size, int) and isinstance(size, int) and x.size != size:
        raise node.error(f"cannot reshape {x.known_shape} ({x.size} elements) to {shape} ({size})")
    if is_given and differ(x.size, size):
        length = unique_solution(x.size, size)
        only = f", which is true only for {as_text(length[0])} = {length[1]}" if length else ""
        sizes = f"its shape has {as_text(size)} elements, its input {as_text(x.size)}"
        node.assumed.append(f"{sizes}: assumed to be equal{only}")


def _reshaped_spread(x: Value, shape: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """Return the stored sizes of an expanded input in the new shape, if only axes of size 1 come and go."""
    source = x.known_shape
    if x.spread is None or [d for d in source if d != 1] != [d for d in shape if d != 1]:
        return None
    rest = iter(size for d, size in zip(source, x.spread, strict=True) if d != 1)
    return tuple(1 if d == 1 else next(rest) for d in shape)


def flatten(node: Node) -> Sequence[Value]:
    """Infer two dimensions, divided at an axis, which may equal the rank."""
    x = node.value("input")
    axis, rank = node.args.get("axis", 1), len(x.known_shape)
    if not -rank <= axis <= rank:
        raise node.error(f"has axis {axis}, but its operand has {rank} dimensions")
    cut = axis + rank if axis < 0 else axis
    return [node.reshaped(x, (prod(x.known_shape[:cut]), prod(x.known_shape[cut:])))]


def squeeze(node: Node) -> Sequence[Value]:
    """Infer the input without the given axes, or without all axes of size 1 if none are given."""
    x = node.value("data")
    axes = node.axes(len(x.known_shape), "axes")
    if not axes:
        axes = tuple(i for i, d in enumerate(x.known_shape) if d == 1)
    for axis in axes:
        if isinstance(x.known_shape[axis], int) and x.known_shape[axis] != 1:
            raise node.error(f"cannot squeeze axis {axis} of shape {x.known_shape}")
    return [_viewed(node, x, lambda shape: tuple(d for i, d in enumerate(shape) if i not in axes))]


def _viewed(node: Node, x: Value, change: Callable[[Shape], Shape]) -> Value:
    """Return an output with the elements of ``x`` that only names its axes otherwise."""
    result = node.reshaped(x, change(x.known_shape))
    result.spread = None if x.spread is None else change(x.spread)
    return result


def unsqueeze(node: Node) -> Sequence[Value]:
    """Infer the input with axes of size 1 at the given positions of the output."""
    x, count = node.value("data"), len(node.numbers("axes") or ())
    rank = len(x.known_shape) + count
    axes = node.axes(rank, "axes") or ()
    if len(set(axes)) != count:
        raise node.error(f"names an axis twice: {axes}")

    def change(shape: Shape) -> Shape:
        rest = iter(shape)
        return tuple(1 if i in axes else next(rest) for i in range(rank))

    return [_viewed(node, x, change)]


def transpose(node: Node) -> Sequence[Value]:
    """Infer the axes in another order, the reverse one by default."""
    x = node.value("data")
    rank = len(x.known_shape)
    order = node.axes(rank, "perm") if node.args.get("perm") else tuple(reversed(range(rank)))
    if order is None or sorted(order) != list(range(rank)):
        raise node.error(
            f"cannot transpose {x.known_shape} by {order} (expected a permutation of {tuple(range(rank))})"
        )
    result = node.result(tuple(x.known_shape[i] for i in order), x.dtype, lambda a: a.transpose(order))
    result.spread = None if x.spread is None else tuple(x.spread[i] for i in order)
    return [result]


def concat(node: Node) -> Sequence[Value]:
    """Infer the inputs joined along an axis (1 by default in opset 1)."""
    values = node.values("inputs")
    first = values[0].known_shape
    axis = node.axis(len(first), "axis")
    axis = 1 if axis is None else axis
    for value in values[1:]:
        if len(value.known_shape) != len(first):
            raise node.error(f"cannot join shapes {first} and {value.known_shape}")
    shape = list(first)
    for i in range(len(first)):
        lengths = [value.known_shape[i] for value in values]
        sized = sorted({d for d in lengths if isinstance(d, int)})
        if i == axis:
            shape[i] = sum(lengths)
        elif len(sized) > 1:
            raise node.error(f"cannot join sizes {sized} along axis {i}")
        elif sized:
            shape[i] = sized[0]
    return [node.result(shape, values[0].dtype, lambda *arrays: np.concatenate(arrays, axis))]


def split(node: Node) -> Sequence[Value]:
    """Infer parts of the given sizes, or of equal sizes (the last may be smaller)."""
    x = node.value("input")
    axis = node.axis(len(x.known_shape), "axis") or 0
    lengths: Sequence[Any] | None = node.partial_numbers("split")
    count = len(node.proto.output)
    if lengths is None:
        parts = node.args.get("num_outputs") or count
        if parts < count:
            raise node.error(f"has num_outputs {parts}, but {count} outputs")
        lengths = [_part(x.known_shape[axis], i, parts) for i in range(count)]
    elif len(lengths) != count:
        raise node.error(f"splits into {len(lengths)} sizes, but has {count} outputs")
    elif None in lengths:
        rest = x.known_shape[axis] - sum(d for d in lengths if d is not None)
        lengths = [d if d is not None else rest if lengths.count(None) == 1 else None for d in lengths]
    elif all(isinstance(d, int) for d in (*lengths, x.known_shape[axis])) and sum(lengths) != x.known_shape[axis]:
        raise node.error(
            f"splits an axis of size {x.known_shape[axis]} into {tuple(lengths)}, which add up to {sum(lengths)}"
        )
    ends = [sum(lengths[: i + 1]) for i in range(count)] if count <= 64 and None not in lengths else []
    outputs = []
    for i, length in enumerate(lengths):
        shape = (*x.known_shape[:axis], length, *x.known_shape[axis + 1 :])
        fold = (lambda a, *_, i=i: np.split(a, ends, axis)[i]) if ends else None
        outputs.append(node.result(shape, x.dtype, fold))
    return outputs


def _part(length: Dim, i: int, count: int) -> Dim:
    """Return the size of part ``i`` of ``count`` equal ones; the last parts may be smaller or empty."""
    part = ceil_div(length, count)
    if isinstance(length, int):
        return min(part, max(length - i * part, 0))
    return part if i < count - 1 else length - part * i


def slice_(node: Node) -> Sequence[Value]:
    """Infer ranges of axes, with numpy's rules for positions outside."""
    x = node.value("data")
    starts, ends = node.partial_numbers("starts") or (), node.partial_numbers("ends") or ()
    axes = node.axes(len(x.known_shape), "axes") or tuple(range(len(starts)))
    steps = node.numbers("steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(axes) > len(x.known_shape) or 0 in steps:
        raise node.error(f"cannot slice {x.known_shape} from {starts} to {ends} along {axes} by {steps}")
    shape: list[Dim | None] = list(x.known_shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        is_known = start is not None and end is not None
        shape[axis] = _sliced(node, shape[axis], start, end, step) if is_known else None

    def fold(a: Any, *_: Any) -> Any:
        where = [slice(None)] * a.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            where[axis] = slice(start, end if step > 0 or end >= -a.shape[axis] else None, step)
        return a[tuple(where)]

    return [node.result(shape, x.dtype, fold)]


FAR = 1 << 30
"""Ends from here on mean: to the end."""


def _sliced(node: Node, length: Dim, start: Any, end: Any, step: Any) -> Dim:
    """Return the size of a slice of an axis."""
    if is_symbolic(step):
        raise Undetermined
    if all(isinstance(d, int) for d in (length, start, end)):
        return len(range(*slice(start, end, step).indices(length)))
    if step < 0:  # backwards: from the mirrored ends
        start, end, step = _mirrored(length, end), _mirrored(length, start), -step

    def placed(place: Any) -> Dim:
        if isinstance(place, int):
            if place < -FAR:
                return 0
            return length + place if place < 0 else length if place >= FAR else minimum(length, place) if place else 0
        return length + place if place.is_negative else place

    begin, until = placed(start), placed(end)
    from_end = [place for place in (start, end) if isinstance(place, int) and -FAR < place < -1]
    if is_symbolic(end) or is_symbolic(start) or (from_end and is_symbolic(length)):  # no axis is empty
        node.assumed.append(f"the slice from {start} to {end} is assumed to lie inside its axis of size {length}")
    return ceil_div(until - begin, step)


def _mirrored(length: Dim, place: Any) -> Any:
    """Return a position counted from the other end of an axis."""
    if isinstance(place, int) and (place >= FAR or place <= -FAR):
        return FAR if place > 0 else 0
    return place + 1 if isinstance(place, int) and place >= 0 else length + place + 1


def expand(node: Node) -> Sequence[Value]:
    """Infer the broadcast to a given shape."""
    x, wanted = node.value("input"), node.partial_numbers("shape") or ()
    if None in wanted:
        return [node.result(_partly_expanded(node, x.known_shape, wanted), x.dtype)]
    shape = broadcast(node, x.known_shape, wanted)
    result = node.result(shape, x.dtype, lambda a, *_: np.broadcast_to(a, shape))
    source = x.known_shape if x.spread is None else x.spread
    source = (*[1] * (len(shape) - len(source)), *source)
    spread = tuple(1 if a == 1 else b for a, b in zip(source, shape, strict=True))
    result.spread = spread if spread != shape else None
    return [result]


def _partly_expanded(node: Node, source: Shape, wanted: Sequence[Dim | None]) -> list[Dim | None]:
    """Return the broadcast to a shape of which some sizes are unknown: those of the input decide if they exceed 1."""
    shape: list[Dim | None] = list(broadcast(node, source, tuple(1 if d is None else d for d in wanted)))
    for i, d in enumerate(reversed(wanted), 1):
        if d is None and not (i <= len(source) and isinstance(source[-i], int) and source[-i] > 1):
            shape[-i] = None
    return shape


def tile(node: Node) -> Sequence[Value]:
    """Infer the input repeated along its axes; opset 1 repeats one axis."""
    x = node.value("input")
    repeats = node.partial_numbers("repeats")
    if repeats is None:
        axis, times = node.axis(len(x.known_shape), "axis"), node.number("tiles")
        repeats = tuple(times if i == axis else 1 for i in range(len(x.known_shape)))
    if len(repeats) != len(x.known_shape):
        raise node.error(f"repeats {len(repeats)} axes of an input of shape {x.known_shape}")
    shape = tuple(None if n is None else d * n for d, n in zip(x.known_shape, repeats, strict=True))
    return [node.result(shape, x.dtype, lambda a, *_: np.tile(a, repeats))]


def pad(node: Node) -> Sequence[Value]:
    """Infer the input extended or cropped at both ends of its axes."""
    x, pads = node.value("data"), node.partial_numbers("pads", "paddings") or ()
    axes = node.axes(len(x.known_shape), "axes") or tuple(range(len(x.known_shape)))
    if len(pads) != 2 * len(axes):
        raise node.error(f"has {len(pads)} pads for {len(axes)} axes")
    shape: list[Dim | None] = list(x.known_shape)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        shape[axis] = None if before is None or after is None else x.known_shape[axis] + before + after
    return [node.result(shape, x.dtype)]


def rearrange(node: Node) -> Sequence[Value]:
    """Infer depth to space, or space to depth."""
    x, size = node.value("input"), node.args["blocksize"]
    n, c, *space = x.known_shape
    block = size ** len(space)
    if node.op == "SpaceToDepth":
        return [node.result((n, c * block, *(floor_div(d, size) for d in space)), x.dtype)]
    return [node.result((n, c // block, *(d * size for d in space)), x.dtype)]


def center_crop_pad(node: Node) -> Sequence[Value]:
    """Infer the input cropped or padded to the given sizes."""
    x, lengths = node.value("input_data"), node.partial_numbers("shape") or ()
    axes = node.axes(len(x.known_shape), "axes") or tuple(range(len(x.known_shape)))
    shape: list[Dim | None] = list(x.known_shape)
    for axis, length in zip(axes, lengths, strict=False):
        shape[axis] = length
    return [node.result(shape, x.dtype)]


def col2im(node: Node) -> Sequence[Value]:
    """Infer the image that blocks are added into."""
    x, image = node.value("input"), node.partial_numbers("image_shape") or ()
    channels = x.known_shape[1]
    for length in node.numbers("block_shape") or (1,):
        channels = channels // length
    return [node.result((x.known_shape[0], channels, *image), x.dtype)]


def convert(node: Node) -> Sequence[Value]:
    """Infer the input in another dtype, that of an attribute or of the second input."""
    x, target = node.value("input"), node.args.get("to")
    if target is None:
        dtype = node.value("target_type").dtype
    elif target in DTYPES:
        dtype = DTYPES[target]
    else:
        raise node.error(f"has the unknown dtype {target}")
    return [node.result(x.known_shape, dtype, each(cast(dtype)), count=1)]


def vectors(node: Node) -> Sequence[Value]:
    """Infer the features of all inputs, joined."""
    given = node.values("X")
    total = sum(value.known_shape[-1] for value in given)
    rows = given[0].known_shape[0] if len(given[0].known_shape) > 1 else 1
    return [node.result((rows, total), "float32")]


RULES: Mapping[str, Rule] = {
    "ai.onnx::Identity": identity,
    "ai.onnx::Cast": convert,
    "ai.onnx::CastLike": convert,
    "ai.onnx::Reshape": reshape,
    "ai.onnx::Flatten": flatten,
    "ai.onnx::Squeeze": squeeze,
    "ai.onnx::Unsqueeze": unsqueeze,
    "ai.onnx::Transpose": transpose,
    "ai.onnx::ReverseSequence": same_shape,
    "ai.onnx::Trilu": same_shape,
    "ai.onnx::Concat": concat,
    "ai.onnx::Split": split,
    "ai.onnx::Slice": slice_,
    "ai.onnx::Expand": expand,
    "ai.onnx::Tile": tile,
    "ai.onnx::Pad": pad,
    "ai.onnx::DepthToSpace": rearrange,
    "ai.onnx::SpaceToDepth": rearrange,
    "ai.onnx::CenterCropPad": center_crop_pad,
    "ai.onnx::Col2Im": col2im,
    "ai.onnx.ml::FeatureVectorizer": vectors,
}
"""Rules by full operator name."""
