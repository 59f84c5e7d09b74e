"""Shapes of results that a file leaves open, and the values of small integers from which operations take shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costcore.graphs import GraphValue
from costcore.ir import prod
from costcore.numbers import Dim, ceil_div, floor_div

Arguments = Mapping[str, Any]
Shape = tuple[Dim, ...]


def values(a: Arguments, name: str) -> tuple[Any, ...] | None:
    """Return the elements of a small constant operand; None if they are not known."""
    found = a.get(name)
    return found.data if isinstance(found, GraphValue) else None


def number(a: Arguments, name: str, default: Any = None) -> Any:
    """Return the element of a constant operand; a default if it is absent or unknown."""
    return (values(a, name) or (default,))[0]


def axes_of(a: Arguments, name: str, rank: int) -> tuple[int, ...] | None:
    """Return the axes that a constant operand lists, counted from the front; None if they are not known."""
    found = values(a, name)
    return None if found is None else tuple(sorted({int(axis) % max(rank, 1) for axis in found}))


def sizes_of(a: Arguments, name: str, count: int, default: int = 1) -> tuple[int, ...]:
    """Return an operand that lists one integer for each axis of space."""
    found = values(a, name)
    return tuple(map(int, found)) if found is not None and len(found) == count else (default,) * count


def paddings(a: Arguments, kernel: Sequence[Dim], dilation: Sequence[int]) -> tuple[tuple[Dim, Dim], ...]:
    """Return how many places a window adds before and after each axis."""
    count = len(kernel)
    kind = number(a, "pad_type", "valid")
    if kind in ("same", "same_lower"):
        steps = sizes_of(a, "strides", count)
        found = []
        for size, k, step, d in zip(a["x"].shape[2:], kernel, steps, dilation, strict=False):
            total: Dim = (ceil_div(size, step) - 1) * step + d * (k - 1) + 1 - size
            total = max(total, 0) if isinstance(total, int) else total
            less = floor_div(total, 2)
            found.append((less, total - less) if kind == "same" else (total - less, less))
        return tuple(found)
    pad = sizes_of(a, "pad", 2 * count, 0) if kind == "custom" else (0,) * (2 * count)
    return tuple(zip(pad[::2], pad[1::2], strict=True))


def _windows(a: Arguments, kernel: Sequence[Dim]) -> Shape:
    """Return the axes of space of what windows make of ``x``."""
    count = len(kernel)
    steps, dilation = sizes_of(a, "strides", count), sizes_of(a, "dilations", count)
    divide = ceil_div if number(a, "ceil_mode", False) else floor_div
    sides = paddings(a, kernel, dilation)
    axes = zip(a["x"].shape[2:], kernel, steps, dilation, sides, strict=False)
    return tuple(divide(size + sum(side) - d * (k - 1) - 1, max(step, 1)) + 1 for size, k, step, d, side in axes)


def _conv(a: Arguments) -> Shape:
    w = a["weight"].shape
    return (a["x"].shape[0], w[0], *_windows(a, w[2:]))


def _conv_transpose(a: Arguments) -> Shape | None:
    x, w = a["x"].shape, a["weight"].shape
    stated = values(a, "output_shape")
    if stated is not None:
        return tuple(stated)
    if number(a, "pad_type", "valid") not in ("valid", "custom"):
        return None
    count = len(w) - 2
    steps, dilation = sizes_of(a, "strides", count), sizes_of(a, "dilations", count)
    axes = zip(x[2:], w[2:], steps, dilation, paddings(a, w[2:], dilation), strict=False)
    space = ((size - 1) * step + d * (k - 1) + 1 - sum(side) for size, k, step, d, side in axes)
    return (x[0], w[1] * number(a, "groups", 1), *space)


def _pool(a: Arguments) -> Shape | None:
    kernel = values(a, "kernel_sizes")
    return None if kernel is None else (*a["x"].shape[:2], *_windows(a, kernel))


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape to which shapes are broadcast; of two sizes that are not 1, the first."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((size for size in axis if size != 1), 1) for axis in zip(*padded, strict=True))


def _elementwise(a: Arguments) -> Shape:
    return broadcast(*(a[name].shape for name in ("x", "y", "cond", "a", "b") if isinstance(a.get(name), GraphValue)))


def _matmul(a: Arguments) -> Shape:
    x, y = (a[name].shape for name in "xy")
    rows = x[-1] if number(a, "transpose_x", False) else x[-2] if len(x) > 1 else 1
    columns = y[-2] if number(a, "transpose_y", False) else y[-1]
    return (*broadcast(x[:-2], y[:-2]), rows, columns)


def _reduced(a: Arguments, name: str = "axes") -> Shape:
    x = a["x"].shape
    axes = axes_of(a, name, len(x))
    axes = tuple(range(len(x))) if axes is None else axes
    keeps = number(a, "keep_dims", False)
    return tuple(1 if i in axes else size for i, size in enumerate(x) if keeps or i not in axes)


def _reshaped(a: Arguments) -> Shape | None:
    wanted, x = values(a, "shape"), a["x"].shape
    if wanted is None:
        return None
    sizes = [x[i] if size == 0 and i < len(x) else size for i, size in enumerate(wanted)]
    if -1 in sizes:
        rest = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = floor_div(prod(x), rest) if rest != 0 else 0
    return tuple(sizes)


def _joined(a: Arguments) -> Shape:
    shapes = [value.shape for value in a["values"]]
    axis = int(number(a, "axis", 0)) % max(len(shapes[0]), 1)
    return tuple(sum(shape[i] for shape in shapes) if i == axis else size for i, size in enumerate(shapes[0]))


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
    if found is None:
        return None
    shape, rank = list(a["x"].shape), a["x"].ndim + len(found)
    for axis in sorted(int(axis) % rank for axis in found):
        shape.insert(axis, 1)
    return tuple(shape)


def _squeezed(a: Arguments) -> Shape:
    x = a["x"].shape
    axes = axes_of(a, "axes", len(x))
    return tuple(size for i, size in enumerate(x) if (size != 1 if axes is None else i not in axes))


def _sliced(a: Arguments) -> Shape | None:
    """Return what ``slice_by_index`` keeps: with masks, an end is that of the axis, and an axis may be dropped."""
    x, begins, ends = a["x"].shape, values(a, "begin"), values(a, "end")
    if begins is None or ends is None:
        return None
    rank = len(x)
    masks = {name: values(a, f"{name}_mask") or (False,) * rank for name in ("begin", "end", "squeeze")}
    steps = values(a, "stride") or (1,) * rank
    found: list[Dim] = []
    for i, size in enumerate(x):
        if masks["squeeze"][i]:
            continue
        step = steps[i]
        if step < 0:
            return None
        begin = 0 if masks["begin"][i] else begins[i]
        end = size if masks["end"][i] else ends[i]
        begin, end = (each + size if isinstance(each, int) and each < 0 else each for each in (begin, end))
        if isinstance(end, int) and isinstance(size, int):
            end = min(end, size)
        found.append(ceil_div(end - begin, step or 1))
    return tuple(found)


def _gathered(a: Arguments) -> Shape:
    x, indices = a["x"].shape, a["indices"].shape
    axis = int(number(a, "axis", 0)) % max(len(x), 1)
    return (*x[:axis], *indices[int(number(a, "batch_dims", 0)) :], *x[axis + 1 :])


def _padded(a: Arguments) -> Shape | None:
    pad, x = values(a, "pad"), a["x"].shape
    if pad is None:
        return None
    first = len(x) - len(pad) // 2
    return tuple(
        size + pad[2 * (i - first)] + pad[2 * (i - first) + 1] if i >= first else size for i, size in enumerate(x)
    )


def _scaled(a: Arguments) -> Shape | None:
    factors = [number(a, f"scale_factor_{side}", 1) for side in ("height", "width")]
    *outer, height, width = a["x"].shape
    if all(float(factor).is_integer() for factor in factors):
        return (*outer, height * int(factors[0]), width * int(factors[1]))
    if isinstance(height, int) and isinstance(width, int):
        return (*outer, int(height * factors[0]), int(width * factors[1]))
    return None


def _resized(a: Arguments) -> Shape | None:
    sides = [number(a, f"target_size_{side}") for side in ("height", "width")]
    return None if None in sides else (*a["x"].shape[:-2], *map(int, sides))


def _flattened(a: Arguments) -> Shape:
    x, axis = a["x"].shape, int(number(a, "axis", 1))
    return (prod(x[:axis]), prod(x[axis:]))


def _permuted(a: Arguments) -> Shape | None:
    perm, x = values(a, "perm"), a["x"].shape
    return None if perm is None else tuple(x[axis] for axis in perm)


def _same(a: Arguments) -> Shape:
    return a["x"].shape  # type: ignore[no-any-return]  # a GraphValue


def _tiled(a: Arguments) -> Shape | None:
    reps = values(a, "reps")
    return None if reps is None else tuple(n * size for n, size in zip(reps, a["x"].shape, strict=False))


RULES: Mapping[str, Callable[[Arguments], Shape | None]] = {
    **dict.fromkeys(("conv", "conv_quantized"), _conv),
    "conv_transpose": _conv_transpose,
    **dict.fromkeys(("avg_pool", "max_pool", "l2_pool"), _pool),
    "linear": lambda a: (*a["x"].shape[:-1], a["weight"].shape[0]),
    "matmul": _matmul,
    "scaled_dot_product_attention": lambda a: (*a["query"].shape[:-1], a["value"].shape[-1]),
    "reshape": _reshaped,
    "transpose": _permuted,
    "expand_dims": _expanded,
    "squeeze": _squeezed,
    "concat": _joined,
    "stack": _stacked,
    "slice_by_index": _sliced,
    "gather": _gathered,
    "shape": lambda a: (a["x"].ndim,),
    "pad": _padded,
    "tile": _tiled,
    "fill": lambda a: values(a, "shape"),
    "flatten2d": _flattened,
    **dict.fromkeys(("upsample_bilinear", "upsample_nearest_neighbor"), _scaled),
    **dict.fromkeys(("resize_bilinear", "resize_nearest_neighbor"), _resized),
    "dequantize": lambda a: a["input"].shape,
    "quantize": lambda a: a["input"].shape,
    **dict.fromkeys(("reduce_argmax", "reduce_argmin"), lambda a: _reduced(a, "axis")),
}
"""The rules of operations; reductions, functions of elements and norms have one for all of their kind."""


def shapes_of(kind: str, a: Arguments, count: int) -> Sequence[Shape | None]:
    """Return the shapes of the results of an operation; None for one that no rule gives."""
    if kind == "split":
        found: Sequence[Shape | None] = _split(a, count)
        return found if len(found) == count else [None] * count
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
        *("inverse", "prelu", "relu", "relu6", "reverse", "round", "rsqrt", "scaled_tanh", "sigmoid", "sigmoid_hard"),
        *("sign", "silu", "sin", "sinh", "slice_update", "softmax", "softplus", "softplus_parametric", "softsign"),
        *("sqrt", "square", "tan", "tanh", "threshold", "thresholded_relu", "fill_like", "band_part", "argsort"),
    )
)
"""Operations whose result has the shape of ``x``."""


def data_of(kind: str, a: Arguments) -> tuple[Any, ...] | None:
    """Return the elements of a small result that is computed of shapes; None if they are not known."""
    x = values(a, "x")
    if kind == "shape":
        return tuple(a["x"].shape)
    if kind == "concat":
        parts = [value.data for value in a["values"]]
        return None if None in parts else tuple(item for part in parts for item in part)
    if x is None:
        return None
    if kind in ("cast", "expand_dims", "squeeze", "identity", "reshape"):
        return x
    if kind == "gather" and a["x"].ndim == 1 and (indices := values(a, "indices")) is not None:
        return tuple(x[i] for i in indices if -len(x) <= i < len(x))
    if kind == "slice_by_index" and a["x"].ndim == 1 and (shape := _sliced(a)) is not None:
        begin = 0 if number(a, "begin_mask", False) else number(a, "begin", 0)
        kept = shape[0] if shape else 1
        return x[begin:][:: number(a, "stride", 1)][:kept] if isinstance(kept, int) else None
    y = values(a, "y")
    if y is not None and kind in ARITHMETIC and 1 in (len(x), len(y)):
        count = max(len(x), len(y))
        pairs = zip(x * (count // len(x)), y * (count // len(y)), strict=False)
        return tuple(ARITHMETIC[kind](*pair) for pair in pairs)
    return None


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floor_div": lambda x, y: floor_div(x, y) if y != 0 else 0,
}
