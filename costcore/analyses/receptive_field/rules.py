"""Receptive-field rules by operator. Element-wise operators need none.

First the operators that combine positions: windows, products, attention, norms, reductions and recurrent layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple

from costcore.analyses.receptive_field.dependence import (
    MOST_PHASES,
    CannotFollowError,
    Dependence,
    Path,
    Rule,
    RuleContext,
    Stencil,
    TooManyPhasesError,
    broadcast,
    carries,
    exact_quotient,
    fixed,
    moved,
    number,
    plain_factor,
    reshaped,
)
from costcore.ir import prod
from costcore.numbers import Dim, ceil_div, gcd, is_symbolic


class Windows(NamedTuple):
    """The windows of a convolution or pooling along its last axes. ``before`` is the padding before each axis."""

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    before: tuple[Dim, ...]
    dilation: tuple[Dim, ...]

    def axis_stencil(self, i: int) -> Stencil:
        """Return the stencil along one of the window axes."""
        stride, before = number(self.stride[i], "a stride"), number(self.before[i], "padding")
        size, dilation = number(self.kernel[i], "a kernel"), number(self.dilation[i], "a dilation")
        return Stencil.window(size, stride, before, dilation)

    def stencils(self) -> list[Stencil]:
        """Return the stencils along all window axes."""
        return [self.axis_stencil(i) for i in range(len(self.kernel))]

    def transposed_stencils(self) -> list[Stencil]:
        """Return the stencils of a transposed convolution."""
        return [
            Stencil.transposed(
                number(self.kernel[i], "a kernel"),
                number(self.stride[i], "a stride"),
                number(self.before[i], "padding"),
                number(self.dilation[i], "a dilation"),
            )
            for i in range(len(self.kernel))
        ]


def windows_of(context: RuleContext) -> Windows:
    """Return the windows of a layer.

    Raises:
        CannotFollowError: if an attribute is missing.
    """
    kernel: Any = context.attribute("kernel")
    rank, attrs = len(kernel), context.layer.attrs
    stride: Any = context.attribute("stride")
    padding, dilation = attrs.get("padding", (0,) * rank), attrs.get("dilation", (1,) * rank)
    if not len(stride) == len(padding) == len(dilation) == rank:
        raise CannotFollowError("attributes of different lengths")
    before = tuple(each[0] if isinstance(each, tuple) else each for each in padding)
    return Windows(tuple(kernel), tuple(stride), before, tuple(dilation))


# Convolutions: a window of positions and all channels.


def _convolved(context: RuleContext, stencils: list[Stencil]) -> Dependence | None:
    # A frontend has permuted the operands of this layer, so its axes are not those of the recorded values.
    if context.layer.attrs.get("permuted"):
        raise CannotFollowError("channels that are not the second axis")
    dependence, rank = context.operands.get("x"), len(stencils)
    if dependence is not None:
        x, y = context.layer["x"], context.y
        first = x.ndim - rank
        dependence = context.contract(dependence, [first - 1])
        for axis, each in enumerate(stencils, first):
            dependence = context.slide(dependence, axis, each, x.shape[axis], y.shape[axis])
    others = [name for name in context.operands if name not in ("x", "w")]
    weights = context.operands.get("w")
    computed = None if weights is None else context.contract(weights, range(context.layer["w"].ndim))
    return context.unite([dependence, context.elementwise(context.y.shape, others), computed])


def _conv(context: RuleContext) -> list[Dependence | None]:
    return context.all_outputs(_convolved(context, windows_of(context).stencils()))


def _conv_transpose(context: RuleContext) -> list[Dependence | None]:
    return context.all_outputs(_convolved(context, windows_of(context).transposed_stencils()))


CONV_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv", "fused_conv"), _conv),
    "conv_transpose": _conv_transpose,
}


# Poolings and their inverses.


def _pool(context: RuleContext) -> list[Dependence | None]:
    # Adaptive pooling to one element is global for any image size.
    windows = windows_of(context)
    dependence = context.unite(context.operands.values())
    x, y, rank = context.x, context.y, len(windows.kernel)
    for i, axis in enumerate(range(x.ndim - rank, x.ndim)):
        if dependence is None:
            break
        size = x.shape[axis]
        if context.layer.attrs.get("adaptive") and y.shape[axis] == 1:
            dependence = context.pool(dependence, axis)
        else:
            dependence = context.slide(dependence, axis, windows.axis_stencil(i), size, y.shape[axis])
    return context.all_outputs(dependence)


def _adaptive_pool(context: RuleContext) -> list[Dependence | None]:
    # Window i of n over a length L ranges from floor(i*L/n) to ceil((i+1)*L/n): the period is n / gcd(L, n).
    dependence, x, y = context.of_x, context.x, context.y
    for axis in range(x.ndim):
        size, new = x.shape[axis], y.shape[axis]
        if dependence is None or size == new:
            continue
        if new == 1:
            dependence = context.pool(dependence, axis)
            continue
        if is_symbolic(size) or is_symbolic(new):
            raise CannotFollowError("windows of symbolic size")
        common = gcd(size, new)
        windows = (range(i * size // new, ceil_div((i + 1) * size, new)) for i in range(new // common))
        dependence = context.slide(dependence, axis, Stencil(size // common, tuple(windows)), size, new)
    return context.all_outputs(dependence)


def _unpool(context: RuleContext) -> list[Dependence | None]:
    # Each element is repeated over its window, or moved to an index inside the window.
    windows, dependence = windows_of(context), context.unite(context.operands.values())
    x, y, rank = context.x, context.y, len(windows.kernel)
    for axis, stencil in zip(range(x.ndim - rank, x.ndim), windows.transposed_stencils(), strict=True):
        if dependence is not None:
            dependence = context.slide(dependence, axis, stencil, x.shape[axis], y.shape[axis])
    return context.all_outputs(dependence)


POOLING_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("max_pool", "avg_pool", "lp_pool", "masked_max_pool"), _pool),
    **dict.fromkeys(("adaptive_max_pool", "adaptive_avg_pool"), _adaptive_pool),
    "unpool": _unpool,
}


# Resizing: the elements that each sample reads along an axis.


HALF = Fraction(1, 2)

REACH: Mapping[str, int] = {"linear": 1, "cubic": 2, "lanczos": 3}
"""Half the width of the interpolation kernel by mode."""

SHIFT: Mapping[str, Fraction] = {"half_pixel": HALF, "asymmetric": Fraction(0)}
"""The position of a sample inside an element, by coordinate mode."""


def scale_of(size: Dim, new_size: Dim, what: str = "a resize") -> Fraction:
    """Return ``size / new_size``, the elements of x per output element.

    Raises:
        CannotFollowError: if it depends on symbols.
    """
    if not (is_symbolic(size) or is_symbolic(new_size)):
        if not new_size:
            raise CannotFollowError(f"{what} to nothing")
        return Fraction(size, new_size)
    from sympy import cancel

    found: Any = cancel(size / new_size)
    if not found.is_Rational:
        raise CannotFollowError(f"{what} by a symbolic factor")
    return Fraction(int(found.p), int(found.q))


def _scale_along(context: RuleContext, i: int, size: Dim, new_size: Dim) -> Fraction:
    # A given scale is exact; the output size is rounded.
    scales: Any = context.layer.attrs.get("scale")
    scale = None if scales is None else scales[i]
    if scale is None:
        return scale_of(size, new_size)
    return 1 / Fraction(scale).limit_denominator(1 << 16)


def _elements_of_sample(mode: str, rounding: str, position: Fraction, step: Fraction, antialiased: bool) -> range:
    # ``position`` counts from the center of element 0.
    if mode == "nearest":
        rounded = {
            "floor": lambda: floor(position),
            "ceil": lambda: ceil(position),
            "round_prefer_floor": lambda: ceil(position - HALF),
            "round_prefer_ceil": lambda: floor(position + HALF),
        }
        if rounding not in rounded:
            raise CannotFollowError(f"unknown rounding {rounding!r}")
        found = rounded[rounding]()
        return range(found, found + 1)
    if antialiased:
        center, width = position + HALF, REACH[mode] * max(step, Fraction(1))
        return range(floor(center - width + HALF), floor(center + width + HALF))
    if position.denominator == 1:
        return range(int(position), int(position) + 1)
    return range(floor(position) - REACH[mode] + 1, floor(position) + REACH[mode] + 1)


def _resize_stencil(context: RuleContext, step: Fraction, shift: Fraction, antialiased: bool) -> Stencil:
    mode: Any = context.attribute("mode")
    if mode != "nearest" and mode not in REACH:
        raise CannotFollowError(f"unknown mode {mode!r}")
    rounding = str(context.layer.attrs.get("rounding", "floor"))
    if step.denominator > MOST_PHASES:
        raise TooManyPhasesError
    positions = ((phase + shift) * step - shift for phase in range(step.denominator))
    samples = tuple(_elements_of_sample(mode, rounding, position, step, antialiased) for position in positions)
    return Stencil(step.numerator, samples)


def _aligned_stencil(mode: str, size: Dim, new_size: Dim) -> Stencil:
    # With aligned corners, sample o is at o * (size - 1) / (new_size - 1). The map uses o * size / new_size instead,
    # because other branches have this stride. They differ by 0 to (new_size - size) / new_size. The stencil
    # covers both, so the result is an upper bound.
    step = scale_of(size, new_size)
    if step.denominator > MOST_PHASES:
        raise TooManyPhasesError
    away = 1 - step
    reach = 0 if mode == "nearest" else REACH[mode] - 1
    phases = []
    for phase in range(step.denominator):
        ends = phase * step, phase * step - away
        phases.append(range(floor(min(ends)) - reach, ceil(max(ends)) + reach + 1))
    return Stencil(step.numerator, tuple(phases))


def _resize(context: RuleContext) -> list[Dependence | None]:
    dependence, x, y, attrs = context.of_x, context.x, context.y, context.layer.attrs
    axes: Any = attrs.get("axes") or range(2, x.ndim)
    antialiased = context.layer.op == "antialiased_resize" or bool(attrs.get("antialias"))
    coordinates = "align_corners" if attrs.get("align_corners") else str(attrs.get("coordinates", "half_pixel"))
    for i, axis in enumerate(axes):
        size, new = x.shape[axis], y.shape[axis]
        if dependence is None or not carries(dependence, axis):
            continue
        if size == 1:
            dependence = context.slide(dependence, axis, Stencil.repeated(scale_of(new, 1).numerator), size, new)
        elif coordinates == "align_corners":
            if new == 1:
                raise CannotFollowError("aligned corners of one sample")
            mode: Any = context.attribute("mode")
            dependence = context.slide(dependence, axis, _aligned_stencil(mode, size, new), size, new).with_marks_of(
                Dependence(bounded=context.node)
            )
        elif coordinates in SHIFT:
            step = _scale_along(context, i, size, new)
            dependence = context.slide(
                dependence, axis, _resize_stencil(context, step, SHIFT[coordinates], antialiased), size, new
            )
        else:
            raise CannotFollowError(f"coordinates {coordinates!r}")
    return context.all_outputs(dependence)


RESAMPLING_RULES: Mapping[str, Rule] = dict.fromkeys(("resize", "antialiased_resize"), _resize)


def combined(context: RuleContext) -> list[Dependence | None]:
    """Return the dependence of outputs that combine all elements of all operands."""
    tensors = context.layer.inputs
    parts = [context.contract(dependence, range(tensors[name].ndim)) for name, dependence in context.operands.items()]
    return context.all_outputs(context.unite(parts))


GLOBAL_OPERATORS_RULES: Mapping[str, Rule] = dict.fromkeys(
    ("lstm", "gru", "rnn", "dynamic_quantized_lstm", "attention_lstm", "fft", "real_fft", "inverse_real_fft"), combined
)


# Attention: every query sees all keys and values.


def _attention(context: RuleContext) -> list[Dependence | None]:
    parts = []
    for name, tensor in context.layer.inputs.items():
        dependence = context.operands.get(name)
        if dependence is None:
            continue
        rank, kept = tensor.ndim, 1 if name in ("q", "mask") else 0  # the key axis of a mask is combined, too
        dependence = context.contract(dependence, range(rank - 2 + kept, rank))
        parts.append(broadcast(dependence, tensor.shape, context.y.shape, context.node))
    return context.all_outputs(context.unite(parts))


def _multi_head_attention(context: RuleContext) -> list[Dependence | None]:
    # Tokens are along the second to last axis.
    names = [name for name in context.layer.inputs if name in ("q", "x")]
    parts = []
    for name, dependence in context.operands.items():
        last = context.layer[name].ndim - 1
        parts.append(context.contract(dependence, [last] if name in names[:1] else range(last + 1)))
    united = context.unite(parts)
    return context.all_outputs(None if united is None else context.in_context(united, [context.y.ndim - 2]))


def _rotary_embedding(context: RuleContext) -> list[Dependence | None]:
    # Pairs of features of one token are rotated; the angles are operands.
    found = context.of_x
    if found is None or len(context.operands) > 1:
        raise CannotFollowError("angles that depend on the input")
    return context.all_outputs(context.contract(found, [context.x.ndim - 1]))


ATTENTION_RULES: Mapping[str, Rule] = {
    "attention": _attention,
    "rotary_embedding": _rotary_embedding,
    **dict.fromkeys(("multi_head_attention", "transformer_encoder_layer"), _multi_head_attention),
}


# Matrix products: the contracted axis is combined, other axes keep their positions.


def _linear(context: RuleContext) -> list[Dependence | None]:
    x = context.layer["x"]
    dependence, weights = context.operands.get("x"), context.operands.get("w")
    if dependence is not None:
        dependence = context.contract(dependence, [x.ndim - 1])
    if weights is not None:
        weights = context.contract(weights, range(context.layer["w"].ndim))
    added = context.elementwise(context.y.shape, [name for name in context.operands if name not in ("x", "w")])
    return context.all_outputs(context.unite([dependence, weights, added]))


def _matmul(context: RuleContext) -> list[Dependence | None]:
    x0, x1, y = context.layer["x0"], context.layer["x1"], context.y
    left, right = context.operands.get("x0"), context.operands.get("x1")
    if left is not None:
        left = context.contract(left, [x0.ndim - 1])
        left = broadcast(left, x0.shape[:-1] if x1.ndim == 1 else x0.shape, y.shape, context.node)
    if right is not None:
        right = context.contract(right, [max(x1.ndim - 2, 0)])
        shape = () if x1.ndim == 1 else x1.shape
        if x0.ndim == 1 and x1.ndim > 1:
            right = moved(right, [*range(x1.ndim - 2), None, x1.ndim - 2])
            shape = (*x1.shape[:-2], x1.shape[-1])
        right = broadcast(right, shape, y.shape, context.node)
    added = context.elementwise(y.shape, [name for name in context.operands if name not in ("x0", "x1")])
    return context.all_outputs(context.unite([left, right, added]))


def _einsum(context: RuleContext) -> list[Dependence | None]:
    equation = str(context.attribute("equation")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    names = [name for name in context.layer.inputs if name.startswith("x")]
    if "." in equation or not arrow or len(terms.split(",")) != len(names) or len(context.operands.keys() - set(names)):
        raise CannotFollowError("an equation with implicit axes")
    parts = []
    for name, letters in zip(names, terms.split(","), strict=True):
        dependence = context.operands.get(name)
        if dependence is not None:
            if len(set(letters)) < len(letters):
                raise CannotFollowError("an equation with a diagonal")
            gone = [axis for axis, letter in enumerate(letters) if letter not in result]
            dependence = moved(
                context.contract(dependence, gone), [result.index(each) if each in result else None for each in letters]
            )
        parts.append(dependence)
    return context.all_outputs(context.unite(parts))


MATMUL_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("linear", "packed_linear"), _linear),
    "matmul": _matmul,
    "einsum": _einsum,
}


# Normalizations: every element sees itself and the statistics over some axes.


def over(context: RuleContext, axes: Iterable[int]) -> list[Dependence | None]:
    """Return the dependence of a value computed from its own element and statistics of x over some axes."""
    dependence = context.elementwise(context.y.shape)
    return context.all_outputs(None if dependence is None else context.in_context(dependence, axes))


def over_attribute(context: RuleContext) -> list[Dependence | None]:
    """Normalize over the attribute ``axis``, one axis or several."""
    axes: Any = context.attribute("axis")
    return over(context, axes if isinstance(axes, tuple) else (axes,))


def _batch_norm(context: RuleContext) -> list[Dependence | None]:
    # In training, the statistics are over the batch and all positions.
    if context.layer.op != "batch_norm" or context.layer.attrs.get("training"):
        return _over_all_but_channels(context)
    return context.all_outputs(context.elementwise(context.y.shape, ["x"]))


def _over_all_but_channels(context: RuleContext) -> list[Dependence | None]:
    dependence = context.operands.get("x")
    axes = (axis for axis in range(context.x.ndim) if axis != 1)
    return context.all_outputs(None if dependence is None else context.in_context(dependence, axes))


def _group_norm(context: RuleContext) -> list[Dependence | None]:
    return over(context, range(1, context.x.ndim))


def _instance_norm(context: RuleContext) -> list[Dependence | None]:
    return over(context, range(2, context.x.ndim))


def _over_channels(context: RuleContext) -> list[Dependence | None]:
    return over(context, (1,))


def _mean_variance_norm(context: RuleContext) -> list[Dependence | None]:
    axes: Any = context.layer.attrs.get("axis") or (0, *range(2, context.x.ndim))
    return over(context, axes)


def _normalize_rows(context: RuleContext) -> list[Dependence | None]:
    dependence = context.operands.get("x")
    return context.all_outputs(None if dependence is None else context.in_context(dependence, [context.x.ndim - 1]))


NORMALIZATION_RULES: Mapping[str, Rule] = {
    "batch_norm": _batch_norm,
    **dict.fromkeys(("batch_renorm", "decorrelated_batch_norm"), _batch_norm),
    **dict.fromkeys(("layer_norm", "rms_norm", "l2_normalize", "l1_normalize"), over_attribute),
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "local_response_norm": _over_channels,
    "mean_variance_norm": _mean_variance_norm,
    "normalize_rows": _normalize_rows,
}


# Softmax and gated units; other activation functions are element-wise.


def _along_channels(context: RuleContext) -> list[Dependence | None]:
    # Halves of this axis are multiplied or concatenated, so the axis must not count positions.
    default = 1 if context.layer.op == "crelu" else context.x.ndim - 1
    if carries(context.of_x, context.layer.attrs.get("axis", default)):
        raise CannotFollowError("halves of an axis with positions")
    return context.all_outputs(context.of_x)


ACTIVATION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "masked_softmax", "hardmax"), over_attribute),
    **dict.fromkeys(("glu", "crelu"), _along_channels),
}


# Reductions, cumulative operators and sorting combine all positions along an axis.


REDUCTIONS = (
    *("reduce_sum", "reduce_nansum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_all"),
    *("reduce_any", "reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp", "reduce_sum_square", "reduce_log_sum"),
    *("reduce_log_sum_exp", "min_max", "argmax", "argmin", "count_nonzero", "var", "std", "var_mean", "std_mean"),
    "median",
)


def _reduction(context: RuleContext) -> list[Dependence | None]:
    dependence, x, y = context.of_x, context.x, context.y
    if dependence is None:
        return context.all_outputs(None)
    axes: Any = context.layer.attrs.get("axis")
    if axes is None or axes == ():
        axes = range(x.ndim)
    axes = {axes} if isinstance(axes, int) else {axis % x.ndim for axis in axes}
    dependence = context.contract(dependence, axes)
    if y.ndim != x.ndim:
        numbers = iter(range(x.ndim))
        dependence = moved(dependence, [None if axis in axes else next(numbers) for axis in range(x.ndim)])
    return context.all_outputs(dependence)


def _sort(context: RuleContext) -> list[Dependence | None]:
    axis: Any = context.attribute("axis")
    dependence = context.of_x
    return context.all_outputs(None if dependence is None else context.contract(dependence, [axis]))


REDUCTION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), over_attribute),
    **dict.fromkeys(("sort", "argsort", "topk"), _sort),
}


# Rules of data movement: views, copies, slices, joins, shifts and gathers. No element is combined with another.

Shape = tuple[Dim, ...]


def element_wise(context: RuleContext) -> list[Dependence | None]:
    """Every output element depends on the operand elements at the same index."""
    return context.all_outputs(context.elementwise(context.y.shape))


def _independent(context: RuleContext) -> list[Dependence | None]:
    return context.all_outputs(None)


def _reshape(context: RuleContext) -> list[Dependence | None]:
    dependence, x, y = context.of_x, context.x, context.y
    return context.all_outputs(None if dependence is None else reshaped(dependence, x.shape, y.shape))


def _expand(context: RuleContext) -> list[Dependence | None]:
    return context.all_outputs(broadcast(context.of_x, context.x.shape, context.y.shape, context.node))


def _transpose(context: RuleContext) -> list[Dependence | None]:
    dependence, axes = context.of_x, context.attribute("axes")
    assert isinstance(axes, tuple)
    return context.all_outputs(None if dependence is None else moved(dependence, map(axes.index, range(len(axes)))))


def _range_of_axis(
    dependence: Dependence | None, axis: int, start: int, step: int, size: Dim, new: Dim
) -> Dependence | None:
    # A negative start is padding before the first element.
    path = None if dependence is None else dependence.path
    on_axis = [] if path is None else [factor for factor in path.factors if factor.axis == axis]
    if dependence is None or path is None or not on_axis:
        return dependence
    factor = on_axis[0]
    if len(on_axis) == 1 and factor.unit == 1 and factor.size == size and factor.start == 0:
        stencil = Stencil.every(step, start)
        if len(path.factors) == 1:
            return dependence.with_path(Path(path.map.through(stencil, size), (replace(factor, size=new),)))
        if step < 1:
            raise CannotFollowError("a part of positions reversed")
        shifted = path.map.through(Stencil.every(1, start * factor.weight))
        taken = replace(factor, size=new, weight=factor.weight * step)
        rest = [taken if each == factor else each for each in path.factors]
        return dependence.with_path(Path(shifted, tuple(sorted(rest, key=lambda each: -each.weight))))
    ends = [each.start + each.unit * each.size for each in on_axis]
    if step == 1 and not any(map(is_symbolic, (*ends, new, factor.start))):
        if factor.start >= start and max(ends) <= start + new:
            moved_factors = (replace(d, start=d.start - start) if d.axis == axis else d for d in path.factors)
            return dependence.with_path(Path(path.map, tuple(moved_factors)))
        if factor.start >= start + new:
            return _unreached(dependence)
    raise CannotFollowError("cannot slice an axis that merges spatial and other dimensions")


def _unreached(dependence: Dependence) -> Dependence | None:
    # The path does not reach these elements; its marks stay.
    return dependence.with_path(None) if dependence != Dependence(dependence.path) else None


def _first_index(start: Any, size: Dim, step: int) -> int:
    if start is None:
        start = 0 if step > 0 else -1
    if is_symbolic(start):
        raise CannotFollowError("a slice from a symbolic index")
    if start < 0:
        return max(number(size, "a slice from the end of an axis") + int(start), 0)
    return int(start) if is_symbolic(size) else min(int(start), int(size) - (step < 0))


def _slice(context: RuleContext) -> list[Dependence | None]:
    # An integer index has no step, and removes its axis; axes of size 1 may be added.
    dependence, x, y = context.of_x, context.x, context.y
    if dependence is None or dependence.path is None:
        return context.all_outputs(dependence)
    if any(name != next(iter(context.layer.inputs)) for name in context.operands):
        raise CannotFollowError("a slice at indices that are data")
    starts: Any = context.attribute("start")
    axes: Any = context.layer.attrs.get("axis")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps: Any = context.layer.attrs.get("step") or (1,) * len(starts)
    sizes = list(x.shape)
    for axis, start, given in zip(axes, starts, steps, strict=True):
        step = 1 if given is None else number(given, "a step")
        first = _first_index(start, x.shape[axis], step)
        sizes[axis] = 1 if given is None else _slice_size(context, axis, axes, step)
        dependence = _range_of_axis(dependence, axis, first, step, x.shape[axis], sizes[axis])
    return context.all_outputs(None if dependence is None else reshaped(dependence, tuple(sizes), y.shape))


def _slice_size(context: RuleContext, axis: int, axes: tuple[int, ...], step: int) -> Dim:
    x, y, attrs = context.x, context.y, context.layer.attrs
    if x.ndim == y.ndim and None not in (attrs.get("step") or ()):
        return y.shape[axis]
    i = axes.index(axis)
    bounds: Any = attrs["start"][i], attrs["stop"][i], step
    return len(range(*slice(*bounds).indices(number(x.shape[axis], "a slice of an axis"))))


def _at_index(dependence: Dependence | None, axis: int, index: int, shape: Shape) -> Dependence | None:
    path = None if dependence is None else dependence.path
    if dependence is None or path is None:
        return dependence
    for factor in [each for each in path.factors if each.axis == axis]:
        if is_symbolic(factor.start) or index < factor.start:
            return _unreached(dependence)
        current = next(each for each in path.factors if each.place == factor.place)
        unit, size = number(factor.unit, "a block"), factor.size
        value = (index - factor.start) // unit
        path = fixed(path, current, value if is_symbolic(size) else value % size)
    return moved(dependence.with_path(path), [*range(axis), None, *range(axis, len(shape) - 1)])


def select(context: RuleContext) -> list[Dependence | None]:
    """Return the dependence of one index of an axis; the axis is removed."""
    axis, index = context.attribute("axis"), context.attribute("index")
    assert isinstance(axis, int)
    return context.all_outputs(
        _at_index(context.of_x, axis, _first_index(index, context.x.shape[axis], 1), context.x.shape)
    )


def _split(context: RuleContext) -> list[Dependence | None]:
    axis, x = context.attribute("axis"), context.x
    assert isinstance(axis, int)
    outputs: list[Dependence | None] = []
    start = 0
    for y in context.layer.outputs:
        if y.ndim < x.ndim:
            outputs.append(_at_index(context.of_x, axis, start, x.shape))
            start += 1
            continue
        is_carried = carries(context.of_x, axis)
        outputs.append(
            _range_of_axis(context.of_x, axis, start, 1, x.shape[axis], y.shape[axis]) if is_carried else context.of_x
        )
        start += number(y.shape[axis], "a part") if is_carried else 0
    return outputs


def _view(context: RuleContext) -> list[Dependence | None]:
    # Attributes say what kind of view it is; without attributes, it is a reshape or an expand.
    attrs = context.layer.attrs
    if "rearranged" in attrs:
        raise CannotFollowError("a view with other strides")
    if "axes" in attrs:
        return _transpose(context)
    if "start" in attrs:
        return _slice(context)
    if "index" in attrs:
        return select(context)
    if "axis" in attrs:
        return _split(context)
    return _reshape(context) if exact_quotient(prod(context.x.shape), prod(context.y.shape)) == 1 else _expand(context)


def _concatenated(context: RuleContext, axis: int, shapes: Mapping[str, Shape]) -> Dependence | None:
    # Several operands with positions along the axis are a cyclic shift, as exporters write it, or give only a bound.
    total: Dim = 0
    parts: list[tuple[Dependence, Shape, Dim]] = []
    for name, shape in shapes.items():
        if name in context.operands:
            parts.append((context.operands[name], shape, total))
        total = total + shape[axis]
    if sum(carries(dependence, axis) for dependence, _, _ in parts) > 1:
        return _cyclic_shift(context, axis, parts) or _bound_of_parts(context, axis, parts)
    moved_parts = []
    for dependence, shape, offset in parts:
        path = dependence.path
        if path is not None and carries(dependence, axis) and len(shapes) > 1:
            factors = (replace(d, start=d.start + offset) if d.axis == axis else d for d in path.factors)
            dependence = dependence.with_path(Path(path.map, tuple(factors)))
        own = tuple(shape[axis] if i == axis else size for i, size in enumerate(context.y.shape))
        moved_parts.append(broadcast(dependence, shape, own, context.node))
    return context.unite(moved_parts)


def _cyclic_shift(context: RuleContext, axis: int, parts: Sequence[tuple[Dependence, Shape, Dim]]) -> Dependence | None:
    # A cyclic shift concatenates two slices of one value; the smaller slice would continue the larger one.
    if len(parts) != 2 or len(context.layer.inputs) != 2:
        return None
    (one, first, _), (other, second, cut) = parts
    size = context.y.shape[axis]
    if any(map(is_symbolic, (first[axis], second[axis]))):
        return None
    assert one.path is not None and other.path is not None  # both count positions along the axis
    early, late = (plain_factor(path, axis, shape[axis]) for path, shape in ((one.path, first), (other.path, second)))
    assert early is not None and late is not None
    if early[1].weight != late[1].weight:
        return None
    weight, length = early[1].weight, number(size, "an axis")
    before = early[0].map.through(Stencil.every(1, -weight * length))
    after = late[0].map.through(Stencil.every(1, -weight * number(cut, "a part")))
    rest, other_rest = (tuple(d for d in path.factors if d != factor) for path, factor in (early, late))
    if rest != other_rest or before != after:
        return None
    shifted, factor = (early[0].map, early[1]) if 2 * first[axis] >= length else (after, late[1])
    factors = (replace(factor, size=size), *rest)
    path = Path(shifted, tuple(sorted(factors, key=lambda each: -each.weight)))
    return one.with_path(path).with_marks_of(other).with_marks_of(Dependence(wrapped=context.node))


def _bound_of_parts(
    context: RuleContext, axis: int, parts: Sequence[tuple[Dependence, Shape, Dim]]
) -> Dependence | None:
    # A position sees at most the union of its intervals in all parts.
    moved_parts = []
    for dependence, shape, offset in parts:
        found = None if dependence.path is None else plain_factor(dependence.path, axis, shape[axis])
        if found is not None:
            path, factor = found
            if len(path.factors) > 1:
                raise CannotFollowError("parts of positions joined along an axis")
            shifted = path.map.through(Stencil.every(1, -number(offset, "a part")), shape[axis])
            dependence = dependence.with_path(Path(shifted, (replace(factor, size=context.y.shape[axis]),)))
        moved_parts.append(dependence)
    united = context.unite(moved_parts)
    return None if united is None else united.with_marks_of(Dependence(bounded=context.node))


def _concat(context: RuleContext) -> list[Dependence | None]:
    axis = context.attribute("axis")
    assert isinstance(axis, int)
    axis %= context.y.ndim
    return context.all_outputs(
        _concatenated(context, axis, {name: t.shape for name, t in context.layer.inputs.items()})
    )


def _stack(context: RuleContext) -> list[Dependence | None]:
    axis = context.attribute("axis")
    assert isinstance(axis, int)
    axis %= context.y.ndim
    numbers = tuple(i + (i >= axis) for i in range(context.y.ndim - 1))
    return context.all_outputs(context.unite(moved(dependence, numbers) for dependence in context.operands.values()))


def _pad(context: RuleContext) -> list[Dependence | None]:
    # Any padding mode is treated like zero padding of a convolution: outside of the field.
    before, dependence = context.attribute("before"), context.of_x
    assert isinstance(before, tuple)
    for axis, width in enumerate(before):
        size, new = context.x.shape[axis], context.y.shape[axis]
        if size != new or width != 0:
            dependence = _range_of_axis(dependence, axis, -number(width, "padding"), 1, size, new)
    return context.all_outputs(dependence)


def _flip(context: RuleContext) -> list[Dependence | None]:
    dependence, axes = context.of_x, context.attribute("axis")
    assert isinstance(axes, tuple)
    for axis in axes:
        if dependence is not None and dependence.path is not None:
            size = context.x.shape[axis]
            if carries(dependence, axis):
                dependence = _range_of_axis(dependence, axis, number(size, "a flip") - 1, -1, size, size)
    return context.all_outputs(dependence)


def _roll(context: RuleContext) -> list[Dependence | None]:
    # Treated as a shift; positions that wrap around are treated as padding, and marked.
    dependence, axes, shifts = context.of_x, context.attribute("axis"), context.attribute("shift")
    assert isinstance(axes, tuple) and isinstance(shifts, tuple)
    for axis, shift in zip(axes, shifts, strict=True):
        path = None if dependence is None else dependence.path
        if dependence is not None and path is not None and carries(dependence, axis):
            size = context.x.shape[axis]
            plain_factor(path, axis, size)  # raises if the axis is only a part of the positions
            dependence = _range_of_axis(dependence, axis, -number(shift, "a shift"), 1, size, size)
            assert dependence is not None
            dependence = dependence.with_marks_of(Dependence(wrapped=context.node))
    return context.all_outputs(dependence)


def _blocks(context: RuleContext) -> list[Dependence | None]:
    dependence, x, y = context.of_x, context.x, context.y
    if dependence is not None:
        dependence = context.contract(dependence, [x.ndim - 3])
        for axis in (x.ndim - 2, x.ndim - 1):
            old, new = x.shape[axis], y.shape[axis]
            if context.layer.op == "space_to_depth":
                block = scale_of(old, new).numerator
                stencil = Stencil.window(block, block)
            else:
                stencil = Stencil.repeated(scale_of(new, old).numerator)
            dependence = context.slide(dependence, axis, stencil, old, new)
    return context.all_outputs(dependence)


def _channel_shuffle(context: RuleContext) -> list[Dependence | None]:
    dependence = context.of_x
    return context.all_outputs(None if dependence is None else context.contract(dependence, [1]))


def _one_hot(context: RuleContext) -> list[Dependence | None]:
    return context.all_outputs(context.of_x)


def _broadcast_arrays(context: RuleContext) -> list[Dependence | None]:
    return [
        broadcast(context.operands.get(name), tensor.shape, y.shape, context.node)
        for (name, tensor), y in zip(context.layer.inputs.items(), context.layer.outputs, strict=True)
    ]


LAYOUT_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("identity", "copy", "cast", "triu", "tril"), element_wise),
    **dict.fromkeys(("shape", "size", "constant", "empty", "full", "arange", "eye", "triangle_indices"), _independent),
    "reshape": _reshape,
    "view": _view,
    "transpose": _transpose,
    "slice": _slice,
    "select": select,
    **dict.fromkeys(("split", "unbind"), _split),
    "concat": _concat,
    "stack": _stack,
    "pad": _pad,
    "flip": _flip,
    "roll": _roll,
    **dict.fromkeys(("depth_to_space", "pixel_shuffle", "space_to_depth"), _blocks),
    "channel_shuffle": _channel_shuffle,
    **dict.fromkeys(("broadcast_to", "tile"), _expand),  # only follows positions if repeated axes have size 1
    "one_hot": _one_hot,
    "broadcast_arrays": _broadcast_arrays,
}


# Gathers and embeddings: an index keeps its position, an indexed axis loses it.


def _embedding(context: RuleContext) -> list[Dependence | None]:
    if "w" in context.operands:
        raise CannotFollowError("a table that depends on the input")
    return context.all_outputs(context.operands.get("x"))


def _gather(context: RuleContext) -> list[Dependence | None]:
    # The axes of the indices replace the axis; a constant index selects and removes it.
    if "index" in context.layer.attrs:
        return select(context)
    axis, dependence = context.attribute("axis"), context.operands.get("x")
    if len(context.operands) > (dependence is not None) or not isinstance(axis, int):
        raise CannotFollowError("indices that depend on the input")
    if dependence is None:
        return context.all_outputs(None)
    added, rank = context.y.ndim - context.layer["x"].ndim, context.y.ndim
    return context.all_outputs(moved(dependence, [*range(axis), None, *range(axis + 1 + added, rank)]))


def _reject_data_dependent(context: RuleContext) -> list[Dependence | None]:
    raise CannotFollowError("places that depend on data")


AT_DATA = """
grid_sample deform_conv roi_align ps_roi_align roi_max_pool roi_avg_pool ps_roi_avg_pool crop_and_resize gather_elements
gather_nd masked_select masked_gather compress upsample fractional_max_pool
"""
"""Operators with indices or coordinates that depend on data."""

INDEXING_RULES: Mapping[str, Rule] = {
    "embedding": _embedding,
    "gather": _gather,
    **dict.fromkeys(AT_DATA.split(), _reject_data_dependent),
}


RULES: Mapping[str, Rule] = {
    **CONV_RULES,
    **POOLING_RULES,
    **RESAMPLING_RULES,
    **GLOBAL_OPERATORS_RULES,
    **ATTENTION_RULES,
    **MATMUL_RULES,
    **NORMALIZATION_RULES,
    **ACTIVATION_RULES,
    **REDUCTION_RULES,
    **LAYOUT_RULES,
    **INDEXING_RULES,
}
