"""Infer the shapes that a file leaves open, and the elements of small tensors that determine shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from costcore.graphs import GraphValue
from costcore.graphs.graph import (
    Shape,
    as_integer,
    broadcast,
    einsum,
    expanded,
    gathered,
    joined,
    matmul,
    over_elements,
    padded,
    quotient,
    reduced,
    reshaped,
    same_padding,
    sliced,
    squeezed,
    times,
    window,
)
from costcore.ir import prod
from costcore.numbers import Dim, ceil_div, floor_div, is_symbolic, maximum, minimum

Arguments = Mapping[str, Any]

Found = Sequence["Dim | None"]
"""A shape; None for a size that depends on data."""


def values(a: Arguments, name: str) -> tuple[Any, ...] | None:
    """Return the elements of a small constant operand; None if they are unknown."""
    found = a.get(name)
    return found.data if isinstance(found, GraphValue) else None


def number(a: Arguments, name: str, default: Any = None) -> Any:
    """Return the first element of a constant operand; ``default`` if it is absent or unknown."""
    return (values(a, name) or (default,))[0]


def axes_of(a: Arguments, name: str, rank: int) -> tuple[int, ...] | None:
    """Return the axes in a constant operand, non-negative and sorted; None if they are unknown."""
    found = values(a, name)
    return None if found is None else tuple(sorted({int(axis) % max(rank, 1) for axis in found}))


def sizes_of(a: Arguments, name: str, count: int, default: int = 1) -> tuple[int, ...]:
    """Return an operand with one integer per spatial axis."""
    found = values(a, name)
    return tuple(map(int, found)) if found is not None and len(found) == count else (default,) * count


def paddings(a: Arguments, kernel: Sequence[Dim], dilation: Sequence[int]) -> tuple[tuple[Dim, Dim], ...]:
    """Return the padding before and after each spatial axis."""
    count = len(kernel)
    kind = number(a, "pad_type", "valid")
    if kind in ("same", "same_lower"):
        steps = sizes_of(a, "strides", count)
        found = []
        for size, k, step, d in zip(a["x"].shape[-count:], kernel, steps, dilation, strict=False):
            total = same_padding(size, k, step, d)
            less = floor_div(total, 2)
            found.append((less, total - less) if kind == "same" else (total - less, less))
        return tuple(found)
    pad = sizes_of(a, "pad", 2 * count, 0) if kind == "custom" else (0,) * (2 * count)
    return tuple(zip(pad[::2], pad[1::2], strict=True))


def _windows(a: Arguments, kernel: Sequence[Dim]) -> Shape:
    """Return the spatial sizes of the result of a convolution or pooling."""
    count = len(kernel)
    x, steps, dilation = a["x"].shape[-count:], sizes_of(a, "strides", count), sizes_of(a, "dilations", count)
    if number(a, "pad_type", "valid") in ("same", "same_lower"):
        return tuple(ceil_div(size, max(step, 1)) for size, step in zip(x, steps, strict=False))
    rounds_up = number(a, "ceil_mode", False)
    found = []
    for size, k, step, d, side in zip(x, kernel, steps, dilation, paddings(a, kernel, dilation), strict=False):
        places = window(size, k, step, d, sum(side), ceil_div if rounds_up else floor_div)
        if rounds_up and sum(side) > 0:  # every window begins within the axis or the padding before it
            places = minimum(places, ceil_div(size + side[0], max(step, 1)))
        found.append(places)
    return tuple(found)


def _conv(a: Arguments) -> Shape:
    w = a["weight"].shape
    return (*a["x"].shape[: 1 - len(w)], w[0], *_windows(a, w[2:]))


def _conv_transpose(a: Arguments) -> Shape | None:
    x, w = a["x"].shape, a["weight"].shape
    stated = values(a, "output_shape")
    if stated is not None:
        return tuple(stated)
    count = len(w) - 2
    channels = w[1] * number(a, "groups", 1)
    steps, dilation = sizes_of(a, "strides", count), sizes_of(a, "dilations", count)
    before, x = (*x[: -1 - count], channels), x[-count:]
    if (space := values(a, "space")) is not None:
        return (*before, *space)
    if number(a, "pad_type", "valid") in ("same", "same_lower"):
        return (*before, *(size * step for size, step in zip(x, steps, strict=False)))
    axes = zip(x, w[2:], steps, dilation, paddings(a, w[2:], dilation), strict=False)
    return (*before, *((size - 1) * step + d * (k - 1) + 1 - sum(side) for size, k, step, d, side in axes))


def _pool(a: Arguments) -> Shape | None:
    kernel = values(a, "kernel_sizes")
    return None if kernel is None else (*a["x"].shape[: -len(kernel)], *_windows(a, kernel))


def _elementwise(a: Arguments) -> Shape:
    return broadcast(*(a[name].shape for name in ("x", "y", "cond", "a", "b") if isinstance(a.get(name), GraphValue)))


def _matmul(a: Arguments) -> Shape:
    return matmul(a["x"].shape, a["y"].shape, number(a, "transpose_x", False), number(a, "transpose_y", False))


def _reduced(a: Arguments) -> Shape:
    return reduced(a["x"].shape, axes_of(a, "axes", a["x"].ndim), bool(number(a, "keep_dims", False)))


def _reshaped(a: Arguments) -> Shape | None:
    wanted = values(a, "shape")
    return None if wanted is None else reshaped(a["x"].shape, wanted)


def _reshaped_like(a: Arguments) -> Shape:
    """Return the shape of ``y``, or the joined parts of the shapes of several values."""
    if "y" in a:
        return a["y"].shape  # type: ignore[no-any-return]  # a GraphValue
    lists = [a[name] for name in ("ref_tensors", "begins", "ends", "end_masks")]
    found: list[Dim] = []
    for value, begin, end, mask in zip(*(each if isinstance(each, list) else [each] for each in lists), strict=True):
        found += value.shape[begin.data[0] : None if mask.data[0] else end.data[0]]
    return tuple(found)


def _joined(a: Arguments) -> Shape:
    shapes = [value.shape for value in a["values"]]
    return joined(shapes, int(number(a, "axis", 0))) if any(shapes) else (len(shapes),)  # scalars make a vector


def _stacked(a: Arguments) -> Shape:
    first = a["values"][0].shape
    axis = int(number(a, "axis", 0)) % (len(first) + 1)
    return (*first[:axis], len(a["values"]), *first[axis:])


def _split(a: Arguments, count: int) -> list[Shape]:
    x = a["x"].shape
    axis = int(number(a, "axis", 0)) % max(len(x), 1)
    parts = values(a, "split_sizes") or (floor_div(x[axis], count),) * count
    return [(*x[:axis], part, *x[axis + 1 :]) for part in parts]


def _expanded(a: Arguments) -> Shape | None:
    found = values(a, "axes")
    return None if found is None else expanded(a["x"].shape, [int(axis) for axis in found])


def _sliced(a: Arguments) -> Sequence[Dim | None] | None:
    """Return the shape of ``slice_by_index``. Masks ignore a bound or drop an axis."""
    x, begins, ends = a["x"].shape, values(a, "begin"), values(a, "end")
    rank = len(x)
    masks = {name: values(a, f"{name}_mask") or (False,) * rank for name in ("begin", "end", "squeeze")}
    steps = values(a, "stride") or (1,) * rank
    found: list[Dim | None] = []
    for i, size in enumerate(x):
        if masks["squeeze"][i]:
            continue
        is_whole = masks["begin"][i], masks["end"][i]
        if (begins is None and not is_whole[0]) or (ends is None and not is_whole[1]):
            found.append(None)
            continue
        begin = None if begins is None or is_whole[0] else begins[i]
        end = None if ends is None or is_whole[1] else ends[i]
        found.append(sliced(size, begin, end, steps[i]))
    return tuple(found)


def _slice_axis(a: Arguments) -> Shape:
    """Return the shape of a slice of one axis, given by its bounds or by its size."""
    x, axis = a["x"].shape, int(number(a, "axis", 0)) % max(a["x"].ndim, 1)
    size = number(a, "size")
    kept = sliced(x[axis], *(number(a, name) for name in ("begin", "end", "stride"))) if size is None else size
    return (*x[:axis], kept, *x[axis + 1 :])


def _slice_by_size(a: Arguments) -> Sequence[Dim | None] | None:
    sizes, begins, x = values(a, "size"), values(a, "begin"), a["x"].shape
    if sizes is None:
        return None
    pairs = zip(sizes, x, begins or (None,) * len(x), strict=True)
    return tuple(size if size != -1 else None if begin is None else whole - begin for size, whole, begin in pairs)


def _cropped(a: Arguments) -> Shape:
    *outer, height, width = a["x"].shape
    rows, columns = (values(a, f"crop_{side}") or (0, 0) for side in ("height", "width"))
    return (*outer, height - sum(rows), width - sum(columns))


def _gathered(a: Arguments) -> Shape:
    indices = a["indices"].shape
    if number(a, "last", False):  # the index is the last axis, of one element
        return (*indices[:-1], a["x"].shape[1])
    return gathered(a["x"].shape, indices, int(number(a, "axis", 0)), int(number(a, "batch_dims", 0)))


def _gathered_nd(a: Arguments) -> Shape:
    x, indices, batch = a["x"].shape, a["indices"].shape, int(number(a, "batch_dims", 0))
    return (*indices[:-1], *x[batch + int(indices[-1]) :])


def _old_embedding(a: Arguments) -> Shape:
    """Return the shape of an older embedding: indices ``[T, …, 1, 1, 1]`` give rows as channels."""
    indices = a["indices"].shape
    return (*indices[:-3], a["x"].shape[1], 1, 1) if len(indices) > 3 else (*indices[:1], a["x"].shape[1])


def _blocks(a: Arguments) -> Shape:
    """Return the shape of space to depth, or of depth to space (``outward``)."""
    *outer, c, height, width = a["x"].shape
    block = int(next(number(a, name) for name in ("block_size", "upscale_factor", "downscale_factor") if name in a))
    if a["outward"]:
        return (*outer, floor_div(c, block * block), height * block, width * block)
    return (*outer, c * block * block, floor_div(height, block), floor_div(width, block))


def _batches(a: Arguments) -> Shape | None:
    """Return the shape of space to batch, or of batch to space (``outward``)."""
    (n, c), block = a["x"].shape[:2], values(a, "block_shape")
    sides = values(a, "crops" if a["outward"] else "paddings")
    if block is None or sides is None:
        return None
    pairs = list(zip(a["x"].shape[2:], block, zip(sides[::2], sides[1::2], strict=True), strict=False))
    if a["outward"]:
        return (floor_div(n, prod(block)), c, *(size * b - sum(side) for size, b, side in pairs))
    return (n * prod(block), c, *(floor_div(size + sum(side), b) for size, b, side in pairs))


def _recurrent(a: Arguments, with_c: bool = False) -> Sequence[Shape]:
    """Return the shapes of all steps and of the last state; two directions have ``2 H`` features."""
    steps, batch = a["x"].shape[:2]
    hidden = a["weight_hh"].shape[1] * (2 if number(a, "direction") == "bidirectional" else 1)
    made = (steps if number(a, "output_sequence", False) else 1, batch, hidden)
    return [made, (batch, hidden), *([(batch, hidden)] if with_c else [])]


def _old_recurrent(a: Arguments) -> Sequence[Shape]:
    """Return the shapes of the steps (all or the last) and of the states, with the rank of ``x``; axis 0 is time."""
    x = a["x"].shape
    hidden = a["weight_hh"].shape[1]
    made = hidden * (2 if number(a, "direction") == "bidirectional" else 1)
    channel = 1 if len(x) in (2, 4) else 2
    steps = x[0] if number(a, "output_sequence", False) else 1

    def of(first: Dim, width: Dim) -> Shape:
        return tuple(width if i == channel else first if i == 0 else size for i, size in enumerate(x))

    return [of(steps, made), *[of(1, hidden)] * 4]


def _topk(a: Arguments) -> Sequence[Shape]:
    x, axis = a["x"].shape, int(number(a, "axis", -1)) % max(a["x"].ndim, 1)
    k = number(a, "k", None if "k" in a else 1)
    shape = (*x[:axis], x[axis] if k == -1 else k, *x[axis + 1 :])
    return [shape, shape]


def _suppressed(a: Arguments) -> Sequence[Shape]:
    n, kept, classes = a["boxes"].shape[0], number(a, "max_boxes"), a["scores"].shape[-1]
    return [(n, kept, 4), (n, kept, classes), (n, kept), (n,)]


def _hot(a: Arguments) -> Shape:
    x, axis = a["indices"].shape, int(number(a, "axis", -1)) % (a["indices"].ndim + 1)
    return (*x[:axis], number(a, "one_hot_vector_size"), *x[axis:])


def _ranged(a: Arguments) -> Shape:
    start, end, step = (number(a, name) for name in ("start", "end", "step"))
    if any(isinstance(each, float) for each in (start, end, step)):
        return (max(-int(-(end - start) // step), 0),)
    return (ceil_div(end - start, step),)


def _slid(a: Arguments) -> Shape:
    x, axis = a["x"].shape, int(number(a, "axis", 0)) % max(a["x"].ndim, 1)
    size = int(number(a, "size"))
    return (*x[:axis], window(x[axis], size, int(number(a, "stride", 1))), size, *x[axis + 1 :])


def _box_resized(a: Arguments) -> Shape:
    boxes = a["roi" if "roi" in a else "boxes"].shape
    sides = number(a, "target_height", 1), number(a, "target_width", 1)
    # boxes ``[N, 1, 5, 1, 1]`` begin with the index of their image, ``[N, 1, 4, 1, 1]`` apply to every image
    count = boxes[:1] if len(boxes) == 2 else (boxes[0], a["x"].shape[-4] if boxes[2] == 4 else 1)
    return (*count, a["x"].shape[-3], *sides)


def _empty_list(a: Arguments) -> Shape:
    """Return the shape of a new list. Open sizes of its elements are set to 1 until a value is written."""
    elements = a.get("elem_shape", ())
    sizes = [each.data[0] if each.data else 1 for each in (elements if isinstance(elements, list) else [elements])]
    return (number(a, "init_length", 1), *(size if isinstance(size, int) and size >= 0 else 1 for size in sizes))


def _resized_to(a: Arguments) -> Shape | None:
    found, x = values(a, "shape"), a["x"].shape
    if found is None:
        return None
    pairs = zip(x[-len(found) :], found, strict=True)  # 0 keeps a size
    return (*x[: -len(found)], *(size if wanted == 0 else wanted for size, wanted in pairs))


def _padded(a: Arguments) -> Shape | None:
    pad, x = values(a, "pad"), a["x"].shape
    if (least := values(a, "least")) is not None:
        return tuple(map(maximum, x, least))
    if pad is None:
        return None
    pads = (0,) * (2 * len(x) - len(pad)) + tuple(pad)
    return padded(x, pads[::2], pads[1::2])


def _scaled(a: Arguments) -> Shape | None:
    factors = [number(a, f"scale_factor_{side}", 1) for side in ("height", "width")]
    *outer, height, width = a["x"].shape
    if all(float(factor).is_integer() for factor in factors):
        return (*outer, height * int(factors[0]), width * int(factors[1]))
    # undo the rounding to float32: 11 / 10 is stored as 1.10000002
    exact = [Fraction(float(factor)).limit_denominator(1 << 14) for factor in factors]
    return (*outer, as_integer(times(height, exact[0])), as_integer(times(width, exact[1])))


def _resized(a: Arguments) -> Shape | None:
    sides = [number(a, f"target_size_{side}") for side in ("height", "width")]
    return None if None in sides else (*a["x"].shape[:-2], *map(int, sides))


def _flattened(a: Arguments) -> Shape:
    x, axis = a["x"].shape, int(number(a, "axis", 1))
    return (prod(x[:axis]), prod(x[axis:]))


def _permuted(a: Arguments) -> Shape | None:
    perm, x = values(a, "perm"), a["x"].shape
    if perm is None:
        return None
    if len(perm) == 4 and len(x) == 5:  # layers of the older format keep the second axis in place
        first, *others = (axis + (axis > 0) for axis in perm)
        perm = (first, 1, *others)
    return tuple(x[axis] for axis in perm) if perm else x


def flat_vectors(x: Shape) -> Shape:
    """Return the shape of the vectors that a linear layer of the older format multiplies."""
    return (*x[:-3], prod(x[-3:])) if len(x) > 3 else x


def _old_linear(a: Arguments) -> Shape:
    x, features = a["x"].shape, a["weight"].shape[0]
    return (*x[:-3], features, 1, 1) if len(x) > 3 else (*x[:-1], features)


def _old_flattened(a: Arguments) -> Shape:
    """Return channels, rows and columns as channels; ``[N, C]`` stands for ``[N, C, 1, 1]``."""
    x = a["x"].shape
    return (*x[:-3], prod(x[-3:]), 1, 1) if len(x) > 2 else x


def _old_reshaped(a: Arguments) -> Shape:
    """Return the shape ``[C, H, W]`` of each sample, or ``[Seq, C, H, W]``."""
    x, shape = a["x"].shape, needed(a, "shape")
    if len(shape) == 3:
        return (*x[: {1: 0, 2: 1}.get(len(x), len(x) - 3)], *shape)
    return (*shape[:1], *x[1:2], *shape[1:]) if len(x) == 5 else shape


def _same(a: Arguments) -> Shape:
    return a["x"].shape  # type: ignore[no-any-return]  # a GraphValue


def _tiled(a: Arguments) -> Shape | None:
    reps = values(a, "reps")
    if reps is None:
        return None
    # reps are sizes of ``expand`` divided by sizes of ``x``, and -1 / size for an unchanged axis
    known = (1 if not is_symbolic(n) and n < 0 else n for n in reps)
    return tuple(n * size for n, size in zip(known, a["x"].shape, strict=False))


RULES: Mapping[str, Callable[[Arguments], Found | None]] = {
    **dict.fromkeys(("conv", "conv_quantized"), _conv),
    "conv_transpose": _conv_transpose,
    **dict.fromkeys(("avg_pool", "max_pool", "l2_pool"), _pool),
    "linear": lambda a: (*a["x"].shape[:-1], a["weight"].shape[0]),
    "old_linear": _old_linear,
    "old_flatten": _old_flattened,
    "old_reshape": _old_reshaped,
    **dict.fromkeys(("cosine_similarity", "dot"), lambda a: (*a["x"].shape[:-3], 1, 1, 1)),
    "matmul": _matmul,
    "scaled_dot_product_attention": lambda a: (*a["query"].shape[:-1], a["value"].shape[-1]),
    "reshape": _reshaped,
    "transpose": _permuted,
    "expand_dims": _expanded,
    "squeeze": lambda a: squeezed(a["x"].shape, axes_of(a, "axes", a["x"].ndim)),
    "concat": _joined,
    "stack": _stacked,
    "slice_by_index": _sliced,
    "gather": _gathered,
    "shape": lambda a: (a["x"].ndim,),
    "pad": _padded,
    "tile": _tiled,
    "fill": lambda a: values(a, "shape"),
    "fill_like": lambda a: (a["ref_tensor"] if "ref_tensor" in a else a["x"]).shape,
    "flatten2d": _flattened,
    **dict.fromkeys(("upsample_bilinear", "upsample_nearest_neighbor"), _scaled),
    **dict.fromkeys(("resize_bilinear", "resize_nearest_neighbor"), _resized),
    "dequantize": lambda a: a["input"].shape,
    "quantize": lambda a: a["input"].shape,
    **dict.fromkeys(
        ("reduce_argmax", "reduce_argmin"),
        lambda a: reduced(a["x"].shape, (number(a, "axis", -1),), bool(number(a, "keep_dims", False))),
    ),
    "affine": lambda a: (*a["x"].shape[:2], number(a, "output_height"), number(a, "output_width")),
    **dict.fromkeys(("batch_to_space", "space_to_batch"), _batches),
    **dict.fromkeys(("depth_to_space", "pixel_shuffle", "pixel_unshuffle", "space_to_depth"), _blocks),
    "broadcast_like": lambda a: broadcast(a["x"].shape, a["y"].shape),
    "broadcast_to": lambda a: values(a, "shape"),
    "classify": lambda a: (),
    "crop": _cropped,
    "crop_like": lambda a: (*a["x"].shape[:-2], *a["reference"].shape[-2:]),
    "crop_resize": _box_resized,
    "einsum": lambda a: einsum(number(a, "equation", ""), [value.shape for value in a["values"]]),
    "gather_along_axis": lambda a: a["indices"].shape,
    "gather_nd": _gathered_nd,
    "list_gather": lambda a: (*a["indices"].shape, *a["ls"].shape[1:]),
    "list_length": lambda a: (),
    "list_read": lambda a: a["ls"].shape[1:],
    "list_scatter": lambda a: (a["ls"].shape[0], *a["value"].shape[1:]),
    "list_write": lambda a: (a["ls"].shape[0], *a["value"].shape),
    "make_list": _empty_list,
    "non_zero": lambda a: (None, a["x"].ndim),
    "old_embedding": _old_embedding,
    "one_hot": _hot,
    "range_1d": _ranged,
    "random_categorical": lambda a: (*a["x"].shape[:-1], int(number(a, "size", 1))),
    **dict.fromkeys(("random_bernoulli", "random_normal", "random_uniform"), lambda a: values(a, "shape")),
    "resample": lambda a: (*a["x"].shape[:2], *a["coordinates"].shape[1:-1]),
    "reshape_like": _reshaped_like,
    "resize": _resized_to,
    **dict.fromkeys(("scatter", "scatter_along_axis", "scatter_nd"), lambda a: a["data"].shape),
    "slice_axis": _slice_axis,
    "slice_by_size": _slice_by_size,
    "sliding_windows": _slid,
}
"""Rules by operation. :func:`shapes_of` has the common rules of reductions and elementwise functions."""


OUTWARD = frozenset(("batch_to_space", "depth_to_space", "pixel_shuffle"))
"""Operations that move channels or samples to space; others do the reverse."""

SEVERAL: Mapping[str, Callable[[Arguments], Sequence[Found]]] = {
    "gru": _recurrent,
    "lstm": lambda a: _recurrent(a, True),
    "non_maximum_suppression": _suppressed,
    **dict.fromkeys(("old_gru", "old_lstm", "old_rnn"), _old_recurrent),
    "rnn": _recurrent,
    "topk": _topk,
}
"""Rules of operations with several results."""


def shapes_of(kind: str, a: Arguments, count: int) -> Sequence[Found | None]:
    """Return the shapes of the results of an operation; None for a shape that no rule infers."""
    if kind == "split":
        found: Sequence[Found | None] = _split(a, count)
        return found if len(found) == count else [None] * count
    if kind in SEVERAL:
        return (*SEVERAL[kind](a), *([None] * count))[:count]
    a = {**a, "outward": kind in OUTWARD}
    if kind in RULES:
        return [RULES[kind](a)] + [None] * (count - 1)
    if kind.startswith("reduce_"):
        return [_reduced(a)]
    if isinstance(a.get("y"), GraphValue) or kind == "select":
        return [_elementwise(a)]
    return [_same(a) if kind in SAME else None] + [None] * (count - 1)


SAME = frozenset(
    (
        *("abs", "acos", "asin", "atan", "atanh", "batch_norm", "cast", "ceil", "clamped_relu", "clip", "cos", "cosh"),
        *("cumsum", "elu", "erf", "exp", "exp2", "floor", "gelu", "identity", "instance_norm"),
        *("l2_norm", "layer_norm", "leaky_relu", "linear_activation", "local_response_norm", "log", "logical_not"),
        *("acosh", "asinh", "mvn", "random_bernoulli_like", "random_normal_like", "random_uniform_like"),
        *("subtract_mean",),
        *("inverse", "prelu", "relu", "relu6", "reverse", "round", "rsqrt", "scaled_tanh", "sigmoid", "sigmoid_hard"),
        *("sign", "silu", "sin", "sinh", "slice_update", "softmax", "softplus", "softplus_parametric", "softsign"),
        *("sqrt", "square", "tan", "tanh", "threshold", "thresholded_relu", "band_part", "argsort"),
        *("reverse_sequence", "write_state"),
    )
)
"""Operations whose result has the shape of ``x``."""


def data_of(kind: str, a: Arguments) -> tuple[Any, ...] | None:
    """Return the elements of a small result computed from shapes; None if they are unknown."""
    x = values(a, "x")
    if kind == "shape":
        return tuple(a["x"].shape)
    if kind == "concat":
        parts = [value.data for value in a["values"]]
        is_known = None not in parts and not number(a, "interleave")
        return tuple(item for part in parts for item in part) if is_known else None
    if kind == "select":
        return over_elements(lambda c, p, q: p if c else q, *(needed(a, name) for name in ("cond", "a", "b")))
    if kind == "range_1d":
        (count,) = _ranged(a)
        start, step = number(a, "start"), number(a, "step")
        is_small = not is_symbolic(count) and count <= MOST_ELEMENTS
        return tuple(start + i * step for i in range(count)) if is_small else None
    if x is None:
        return None
    if kind == "cast":
        return tuple(map(as_integer, x)) if "int" in number(a, "dtype", "") else x
    if kind in ("expand_dims", "squeeze", "identity", "reshape"):
        return x
    if kind == "gather" and a["x"].ndim == 1 and (indices := values(a, "indices")) is not None:
        return tuple(x[i] for i in indices if -len(x) <= i < len(x))
    if kind == "slice_by_index" and a["x"].ndim == 1:
        begin, end = (None if number(a, f"{side}_mask", False) else needed(a, side)[0] for side in ("begin", "end"))
        if number(a, "squeeze_mask", False):
            return (x[begin or 0],)
        return x[slice(begin, end, number(a, "stride", 1))]
    if kind in ("reduce_prod", "reduce_sum", "reduce_max", "reduce_min"):
        first, *rest = x
        for each in rest:
            first = JOINS[kind](first, each)
        return (first,)
    if kind in ("floor", "ceil"):
        return tuple(_floor(each) if kind == "floor" else -_floor(-each) for each in x)
    y = values(a, "y")
    return over_elements(ARITHMETIC[kind], x, y) if y is not None and kind in ARITHMETIC else None


def _floor(x: Any) -> Any:
    return as_integer(x) if is_symbolic(x) else x // 1


def needed(a: Arguments, name: str) -> tuple[Any, ...]:
    """Return the elements of a small constant operand.

    Raises:
        LookupError: if they are unknown.
    """
    found = values(a, name)
    if found is None:
        raise LookupError(name)
    return found


MOST_ELEMENTS = 64

JOINS: Mapping[str, Callable[[Any, Any], Any]] = {
    "reduce_prod": operator.mul,
    "reduce_sum": operator.add,
    "reduce_max": maximum,
    "reduce_min": minimum,
}


def _mod(x: Any, y: Any) -> Any:
    return x - y * floor_div(x, y)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "equal": lambda x, y: bool(x == y),
    "floor_div": lambda x, y: quotient(x, y, are_integers=True),
    "maximum": maximum,
    "minimum": minimum,
    "mod": _mod,
    "mul": times,
    "real_div": lambda x, y: quotient(x, y, are_integers=False),
    "sub": operator.sub,
}
