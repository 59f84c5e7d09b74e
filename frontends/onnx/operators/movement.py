"""Operators that create tensors; rearrange, convert and index elements; split into and join sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from costcore.ir import prod
from costcore.numbers import Dim, as_text, ceil_div, differ, floor_div, is_symbolic, minimum, quotient, unique_solution
from costcore.translate import Arguments, Row

from ..node import Inferred, Node, Rule
from ..values import (
    DTYPES,
    MOST_ITEMS,
    Container,
    Shape,
    StoredTensor,
    Undetermined,
    Value,
    cast,
    each,
    element_of,
    number_of,
    repeated_sequence,
    sequence,
    stored_value,
)
from . import axis_of, broadcast, determined, first_given, node_of, number, numbers, same_shape
from .sequences import sequence_input
from .statistics import nonzero_count

# Creation from shapes, constants and indices: shape rules.


def constant(node: Node) -> Inferred:
    """Infer the value of the one attribute that is given."""
    value = _constant_value(node)
    return Inferred([value], stored=(value,))


def _constant_value(node: Node) -> Value:
    name = next((name for name in node.args if name == "value" or name.startswith(("value_", "sparse_"))), "")
    content: Any = node.args.get(name)
    output = node.proto.output[0] if node.proto.output else ""
    if name == "value":
        return stored_value(content, output, node.label)
    if name == "sparse_value":
        value = stored_value(content.values, output, node.label)
        return Value(tuple(content.dims), value.dtype, None, value.role, stored=value.stored)
    if content is None:
        raise node.error("has no value")
    dtype = "int64" if "int" in name else "float32" if "float" in name else "string"
    shape = (len(content),) if name.endswith("s") else ()
    data = np.array(content, dtype=object) if dtype != "string" and prod(shape) <= 1024 else None
    is_param = dtype == "float32" and prod(shape) != 1
    stored = StoredTensor(output, prod(shape), dtype)
    return Value(shape, dtype, data, "param" if is_param else "const", stored=stored)


def shape_of(node: Node) -> Sequence[Value]:
    """Infer the dimensions of the input, or a range of them."""
    x = node.value("data")
    dims = x.known_shape[slice(node.args.get("start", 0), node.args.get("end"))]
    data: Any = np.empty(len(dims), dtype=object)
    data[:] = dims
    return [Value((len(dims),), "int64", data, "const", follows_shapes=x.role == "data")]


def size_of(node: Node) -> Sequence[Value]:
    """Infer the number of elements of the input."""
    return [number_of(node.value("data").size)]


def filled(node: Node) -> Sequence[Value]:
    """Infer a tensor of one number, zero by default."""
    shape, fill = node.partial_numbers("input") or (), node.args.get("value")
    value = stored_value(fill, "", node.label) if fill is not None else Value((1,), "float32", np.array([0.0], object))
    element = value.data

    def fold(*_: Any) -> Any:
        return np.broadcast_to(element.reshape(()), shape)

    return [node.result(shape, value.dtype, fold if element is not None else None)]


def range_of(node: Node) -> Sequence[Value]:
    """Infer the numbers from start to limit by delta."""
    start, limit, delta = (node.number(name) for name in ("start", "limit", "delta"))
    dtype = node.value("start").dtype
    if is_symbolic(delta) or delta == 0:
        raise Undetermined if delta else node.error("has a delta of 0")
    if all(isinstance(number, int) for number in (start, limit, delta)):
        count: Dim = max(ceil_div(limit - start, delta), 0)
    elif is_symbolic(start) or is_symbolic(limit):
        count = ceil_div(limit - start, delta)
    else:
        count = max(math.ceil((limit - start) / delta), 0)
    return [node.result((count,), dtype, lambda *_: [start + i * delta for i in range(count)])]


def eye(node: Node) -> Sequence[Value]:
    """Infer an identity matrix of the input's shape."""
    x = node.value("input")
    return [node.result(x.known_shape, DTYPES.get(node.args.get("dtype") or 0, x.dtype))]


def one_hot(node: Node) -> Sequence[Value]:
    """Infer a new axis of size depth."""
    indices, depth = node.value("indices").known_shape, node.number("depth")
    axis = node.axis(len(indices) + 1, "axis") or 0
    depth = depth if is_symbolic(depth) else int(depth)
    return [node.result((*indices[:axis], depth, *indices[axis:]), node.value("values").dtype)]


def category_one_hot(node: Node) -> Sequence[Value]:
    """Infer a new last axis, one element for each category."""
    count = len(node.args.get("cats_int64s") or node.args.get("cats_strings") or ())
    return [node.result((*node.value("X").known_shape, count), "float32")]


CREATION_RULES: Mapping[str, Rule] = {
    "ai.onnx::Constant": constant,
    "ai.onnx::Shape": shape_of,
    "ai.onnx::Size": size_of,
    "ai.onnx::ConstantOfShape": filled,
    "ai.onnx::Range": range_of,
    "ai.onnx::EyeLike": eye,
    "ai.onnx::OneHot": one_hot,
    "ai.onnx.ml::OneHotEncoder": category_one_hot,
}
"""Rules by full operator name."""


# Rearranging, cutting, joining and converting: shape rules.


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
        wanted = tuple(-1 if d is None else d for d in wanted)  # the only unknown size takes the remaining elements
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
    # Sizes of 0 are copied from the input.
    if any(d == 0 for d in wanted[len(source) :]):
        raise node.error(f"copies a dimension that its input of shape {source} does not have")
    return tuple(source[i] if d == 0 else d for i, d in enumerate(wanted))


def _with_remaining(node: Node, x: Value, wanted: Sequence[Dim | None]) -> Any:
    # A size of -1 takes the remaining elements: 0 if the other sizes have none, None if one of them is unknown.
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
    # Symbolic sizes are assumed to be equal if all are given.
    size = prod(shape)
    if isinstance(x.size, int) and isinstance(size, int) and x.size != size:
        raise node.error(f"cannot reshape {x.known_shape} ({x.size} elements) to {shape} ({size})")
    if is_given and differ(x.size, size):
        length = unique_solution(x.size, size)
        only = f", which is true only for {as_text(length[0])} = {length[1]}" if length else ""
        sizes = f"its shape has {as_text(size)} elements, its input {as_text(x.size)}"
        node.assumed.append(f"{sizes}: assumed to be equal{only}")


def _reshaped_spread(x: Value, shape: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    # The stored sizes of an expanded input stay known if only axes of size 1 are added or removed.
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
    """Infer the input without some axes; by default, without all axes of size 1."""
    x = node.value("data")
    axes = node.axes(len(x.known_shape), "axes")
    if not axes:
        axes = tuple(i for i, d in enumerate(x.known_shape) if d == 1)
    for axis in axes:
        if isinstance(x.known_shape[axis], int) and x.known_shape[axis] != 1:
            raise node.error(f"cannot squeeze axis {axis} of shape {x.known_shape}")
    return [_viewed(node, x, lambda shape: tuple(d for i, d in enumerate(shape) if i not in axes))]


def _viewed(node: Node, x: Value, change: Callable[[Shape], Shape]) -> Value:
    # An output with the elements of ``x`` in the same order.
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
        lengths = [_part_size(x.known_shape[axis], i, parts) for i in range(count)]
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


def _part_size(length: Dim, i: int, count: int) -> Dim:
    # The last parts may be smaller or empty.
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
        shape[axis] = _slice_length(node, shape[axis], start, end, step) if is_known else None

    def fold(a: Any, *_: Any) -> Any:
        where = [slice(None)] * a.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            where[axis] = slice(start, end if step > 0 or end >= -a.shape[axis] else None, step)
        return a[tuple(where)]

    return [node.result(shape, x.dtype, fold)]


FAR = 1 << 30
"""A position of this size is beyond the end of any axis."""


def _slice_length(node: Node, length: Dim, start: Any, end: Any, step: Any) -> Dim:
    if is_symbolic(step):
        raise Undetermined
    if all(isinstance(d, int) for d in (length, start, end)):
        return len(range(*slice(start, end, step).indices(length)))
    if step < 0:  # a slice of the mirrored axis
        start, end, step = _from_other_end(length, end), _from_other_end(length, start), -step

    def placed(place: Any) -> Dim:
        if isinstance(place, int):
            if place == 0 or place < -FAR:
                return 0
            if place < 0:
                return length + place
            return length if place >= FAR else minimum(length, place)
        return length + place if place.is_negative else place

    begin, until = placed(start), placed(end)
    from_end = [place for place in (start, end) if isinstance(place, int) and -FAR < place < -1]
    if is_symbolic(end) or is_symbolic(start) or (from_end and is_symbolic(length)):  # -1 exists: no axis is empty
        node.assumed.append(f"the slice from {start} to {end} is assumed to lie inside its axis of size {length}")
    return ceil_div(until - begin, step)


def _from_other_end(length: Dim, place: Any) -> Any:
    # The position on the mirrored axis.
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
    # An unknown size is the size of the input if that exceeds 1.
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
    """Infer the input in another dtype, from an attribute or from the second input."""
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


REARRANGE_RULES: Mapping[str, Rule] = {
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


# Splitting into sequences, and joining sequences: shape rules.


def split_to_sequence(node: Node) -> Sequence[Value]:
    """Infer a sequence of parts: of the given sizes, of one size (the last may be smaller), or of single slices."""
    x, wanted = node.value("input"), node.get("split")
    axis = node.axis(len(x.known_shape), "axis") or 0
    total = x.known_shape[axis]
    before, after = x.known_shape[:axis], x.known_shape[axis + 1 :]
    if wanted is None:
        kept = () if not node.args.get("keepdims", 1) else (1,)
        return [repeated_sequence(Value((*before, *kept, *after), x.dtype), total)]
    if wanted.known_shape:
        lengths = node.numbers("split") if wanted.data is not None else None
        if lengths is None:
            return [
                Container(dtype=x.dtype, element=_part_of_unknown_size(before, after, x), length=wanted.known_shape[0])
            ]
        return [sequence([Value((*before, d, *after), x.dtype) for d in lengths], x.dtype)]
    part = node.number("split") if wanted.data is not None else None
    if part is None or is_symbolic(part) or not isinstance(total, int):
        count = None if part is None else ceil_div(total, part)
        return [Container(dtype=x.dtype, element=_part_of_unknown_size(before, after, x), length=count)]
    if part < 1:
        raise node.error(f"splits into parts of size {part}")
    whole, rest = divmod(total, part)
    if not rest:
        return [repeated_sequence(Value((*before, part, *after), x.dtype), whole)]
    if whole > MOST_ITEMS:
        return [Container(dtype=x.dtype, element=_part_of_unknown_size(before, after, x), length=whole + 1)]
    lengths = (part,) * whole + (rest,)
    return [sequence([Value((*before, d, *after), x.dtype) for d in lengths], x.dtype)]


def _part_of_unknown_size(before: tuple[Dim, ...], after: tuple[Dim, ...], x: Value) -> Value:
    shape: Any = (*before, None, *after)  # None: parts differ in this dimension
    return Value(shape, x.dtype)


def concat_from_sequence(node: Node) -> Sequence[Value]:
    """Infer the items of a sequence, joined along an axis, which may be a new one."""
    source, new = sequence_input(node, "input_sequence"), node.args.get("new_axis", 0)
    element = element_of(source)
    if element is None or element.shape is None:
        return [Value(None, source.dtype)]
    shape: list[Dim | None] = list(element.shape)
    rank = len(shape) + (1 if new else 0)
    axis = node.axis(rank, "axis") or 0
    if new:
        shape.insert(axis, source.length)
    elif source.items is not None:
        shape[axis] = sum(item.known_shape[axis] for item in source.items)
    else:
        length = shape[axis]
        shape[axis] = None if length is None or source.length is None else length * source.length
    return [node.result(shape, source.dtype)]


SEQUENCE_RULES: Mapping[str, Rule] = {
    "ai.onnx::SplitToSequence": split_to_sequence,
    "ai.onnx::ConcatFromSequence": concat_from_sequence,
}
"""Rules by full operator name."""


# Rows of all operators above.


def _joined_items(a: Arguments) -> list[Value]:
    # The output counts as one item if the items are not known individually.
    container = a.get("input_sequence")
    if isinstance(container, Container) and container.items is not None:
        return [item for item in container.items if not isinstance(item, Container)]
    return [node_of(a).outputs[0]]  # type: ignore[list-item]  # as many elements as are written


def _split_outputs(a: Arguments, values: Any) -> Any:
    # The tensor itself counts if its parts are not known individually.
    container = values[0]
    if isinstance(container, Container) and container.items is not None:
        return [item for item in container.items if not isinstance(item, Container)]
    return [Value(a["input"].shape, a["input"].dtype)]


def _permutation(a: Arguments) -> Any:
    rank = len(a["data"].known_shape)
    return a.get("perm") or tuple(reversed(range(rank)))


def _slice_ends(a: Arguments) -> Any:
    # None: the end of the axis.
    ends = numbers("ends")(a)
    return ends and tuple(None if isinstance(end, int) and end >= FAR else end for end in ends)


def _padding_before(node: Node) -> tuple[Any, ...]:
    rank = len(node.value("data").known_shape)
    pads = node.numbers("pads", "paddings") or ()
    axes = node.axes(rank, "axes") or tuple(range(rank))
    widths = dict(zip(axes, pads, strict=False))
    return tuple(widths.get(axis, 0) for axis in range(rank))


def _triangle(a: Arguments) -> str:
    return "triu" if a.get("upper", 1) else "tril"


def triangle_diagonal(a: Arguments) -> Any:
    """Return the diagonal at which a triangle ends, "data" if it is not a constant."""
    if a.get("k") is None:
        return 0
    found = number("k")(a)
    return "data" if found is None else found


LAYOUT_ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{op}", "reshape", {"x": "data"}) for op in ("Reshape", "Squeeze", "Unsqueeze")),
    Row("ai.onnx::Cast", "cast", {"x": "input"}, {"dtype": determined(lambda n: n.outputs[0] and n.outputs[0].dtype)}),
    Row(
        "ai.onnx::CastLike",
        "cast",
        {"x": "input"},
        {"dtype": determined(lambda n: n.outputs[0] and n.outputs[0].dtype)},
    ),
    Row("ai.onnx::BitCast", "bitcast", {"x": "input"}),
    Row("ai.onnx::Constant", "constant"),
    Row("ai.onnx::Flatten", "reshape", {"x": "input"}),
    Row("ai.onnx::Identity", "identity", {"x": first_given("input")}),
    Row("ai.onnx::Shape", "shape", {"x": "data"}),
    Row("ai.onnx::Size", "size", {"x": "data"}),
    Row("ai.onnx::Transpose", "transpose", {"x": "data"}, {"axes": _permutation}),
    Row("ai.onnx::Expand", "broadcast_to", {"x": "input"}),
    Row(
        "ai.onnx::Slice",
        "slice",
        {"x": "data"},
        {
            "start": numbers("starts"),
            "stop": _slice_ends,
            "axis": determined(lambda n: n.axes(len(n.value("data").known_shape), "axes")),
            "step": numbers("steps"),
        },
    ),
    Row("ai.onnx::Split", "split", {"x": "input"}, {"axis": axis_of("input")}),
    Row("ai.onnx::DepthToSpace", "depth_to_space", {"x": "input"}, {"block": "blocksize"}),
    Row("ai.onnx::SpaceToDepth", "space_to_depth", {"x": "input"}, {"block": "blocksize"}),
    Row("ai.onnx::ReverseSequence", "reverse_sequence", {"x": "input", "lengths": "sequence_lens"}),
    Row("ai.onnx::Concat", "copy", {"x": lambda a: a["inputs"][0]}, when=lambda a: len(a["inputs"]) == 1),
    Row(
        "ai.onnx::Concat",
        "concat",
        {"x*": "inputs"},
        {"axis": determined(lambda n: n.axis(len(n.values("inputs")[0].known_shape), "axis"))},
    ),
    Row("ai.onnx::Tile", "tile", {"x": "input"}, {"repeats": numbers("repeats")}),
    Row(
        "ai.onnx::Pad",
        "pad",
        {"x": "data"},
        {
            "mode": "mode",
            "padding": determined(lambda n: n.numbers("pads", "paddings")),
            "before": determined(_padding_before),
        },
    ),
    Row("ai.onnx::CenterCropPad", "center_crop_pad", {"x": "input_data"}),
    Row("ai.onnx::Trilu", _triangle, {"x": "input"}, {"diagonal": triangle_diagonal}, ops=("triu", "tril")),
    Row("ai.onnx::OneHot", "one_hot", {"x": "indices"}),
    Row("ai.onnx::ConstantOfShape", "full"),
    Row("ai.onnx::Range", "arange"),
    Row("ai.onnx::EyeLike", "eye"),
    Row("ai.onnx::Col2Im", "col2im", {"x": "input"}),
    Row(
        "ai.onnx::ConcatFromSequence",
        lambda a: "stack" if a.get("new_axis") else "concat",
        {"x*": _joined_items},
        {"axis": "axis"},
        ops=("concat", "stack"),
    ),
    Row("ai.onnx::SplitToSequence", "split", {"x": "input"}, {"axis": axis_of("input")}, outputs=_split_outputs),
    Row("ai.onnx.ml::FeatureVectorizer", "concat", {"x*": "X"}, {"axis": lambda a: 1}),
    Row("ai.onnx.ml::OneHotEncoder", "one_hot", {"x": "X"}),
)


# Reading and writing at indices.


def gather(node: Node) -> Sequence[Value]:
    """Infer slices along an axis, at indices of any shape."""
    x, indices = node.value("data"), node.value("indices")
    axis = node.axis(len(x.known_shape), "axis") or 0
    shape = (*x.known_shape[:axis], *indices.known_shape, *x.known_shape[axis + 1 :])
    return [node.result(shape, x.dtype, lambda a, i: np.take(a, i.astype(np.int64), axis))]


def gather_elements(node: Node) -> Sequence[Value]:
    """Infer one element for each index."""
    return [node.result(node.value("indices").known_shape, node.value("data").dtype)]


def gather_nd(node: Node) -> Sequence[Value]:
    """Infer slices at index tuples; the last axis of the indices holds a tuple."""
    x, indices, batch = node.value("data"), node.value("indices").known_shape, node.args.get("batch_dims", 0)
    if not indices or not isinstance(indices[-1], int):
        raise Undetermined
    return [node.result((*indices[:-1], *x.known_shape[batch + indices[-1] :]), x.dtype)]


def compress(node: Node) -> Sequence[Value]:
    """Infer the slices for which a condition is true; their number depends on data."""
    x = node.value("input")
    axis = node.axis(len(x.known_shape), "axis")
    count = nonzero_count(node.value("condition"), x.size if axis is None else x.known_shape[axis])
    shape = (count,) if axis is None else (*x.known_shape[:axis], count, *x.known_shape[axis + 1 :])
    return [node.result(shape, x.dtype)]


def extract_features(node: Node) -> Sequence[Value]:
    """Infer selected features of the last axis."""
    x, indices = node.value("X"), node.value("Y")
    lead = x.known_shape[:-1] if len(x.known_shape) > 1 else (1,)
    return [node.result((*lead, indices.size), x.dtype)]


INDEXING_RULES: Mapping[str, Rule] = {
    "ai.onnx::Gather": gather,
    "ai.onnx::GatherElements": gather_elements,
    "ai.onnx::GatherND": gather_nd,
    **{f"ai.onnx::{op}": same_shape for op in ("Scatter", "ScatterElements", "ScatterND", "TensorScatter")},
    "ai.onnx::Compress": compress,
    "ai.onnx.ml::ArrayFeatureExtractor": extract_features,
}
"""Rules by full operator name."""


def _is_embedding(a: Arguments) -> bool:
    # A lookup of rows in a learned matrix.
    table, indices = a.get("data"), a.get("indices")
    return (
        isinstance(table, Value)
        and isinstance(indices, Value)
        and table.role == "param"
        and len(table.known_shape) == 2
        and indices.role == "data"
        and axis_of("data")(a) == 0
    )


def _constant_index(a: Arguments) -> int | None:
    # None unless the index is one constant.
    indices = a.get("indices")
    if not isinstance(indices, Value) or indices.shape != () or indices.data is None:
        return None
    found = indices.data.ravel()[0]
    return found if isinstance(found, int) else None


REDUCTION = {"reduction": lambda a: a.get("reduction", "none")}

INDEXING_ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Gather", "embedding", {"x": "indices", "w": "data"}, when=_is_embedding),
    Row(
        "ai.onnx::Gather",
        "gather",
        {"x": "data", "indices": "indices"},
        {"axis": axis_of("data"), "index": _constant_index},
    ),
    Row("ai.onnx::GatherElements", "gather_elements", {"x": "data", "indices": "indices"}, {"axis": axis_of("data")}),
    Row("ai.onnx::GatherND", "gather_nd", {"x": "data", "indices": "indices"}),
    Row(
        "ai.onnx::ScatterND",
        "scatter_nd",
        {"x": "data", "indices": "indices", "updates": "updates"},
        REDUCTION,
    ),
    Row(
        "ai.onnx::TensorScatter",
        "tensor_scatter",
        {"x": "past_cache", "updates": "update", "indices": "write_indices"},
        {"axis": axis_of("past_cache")},
    ),
    Row("ai.onnx::Compress", "compress", {"x": "input", "condition": "condition"}),
    *(
        Row(
            f"ai.onnx::{op}",
            "scatter_elements",
            {"x": "data", "indices": "indices", "updates": "updates"},
            {"axis": axis_of("data"), **REDUCTION},
        )
        for op in ("ScatterElements", "Scatter")
    ),
    Row(
        "ai.onnx.ml::ArrayFeatureExtractor",
        "gather",
        {"x": "X", "indices": "Y"},
        {"axis": lambda a: len(a["X"].known_shape) - 1},
    ),
)


ROWS: tuple[Row, ...] = (*INDEXING_ROWS, *LAYOUT_ROWS)


RULES: Mapping[str, Rule] = {**CREATION_RULES, **REARRANGE_RULES, **SEQUENCE_RULES, **INDEXING_RULES}
