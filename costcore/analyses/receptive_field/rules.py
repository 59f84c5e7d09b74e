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
    plain_digit,
    reshaped,
)
from costcore.ir import prod
from costcore.numbers import Dim, ceil_div, gcd, is_symbolic


class Windows(NamedTuple):
    """Windows along the last axes. ``before`` is the padding at the start of each axis."""

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    before: tuple[Dim, ...]
    dilation: tuple[Dim, ...]

    def axis_taps(self, i: int) -> Stencil:
        """Return the taps along one of these axes."""
        stride, before = number(self.stride[i], "a stride"), number(self.before[i], "padding")
        size, dilation = number(self.kernel[i], "a kernel"), number(self.dilation[i], "a dilation")
        return Stencil.window(size, stride, before, dilation)

    def taps(self) -> list[Stencil]:
        """Return the taps along each axis."""
        return [self.axis_taps(i) for i in range(len(self.kernel))]

    def transposed_taps(self) -> list[Stencil]:
        """Return the taps along each axis of a transposed convolution."""
        return [
            Stencil.transposed(
                number(self.kernel[i], "a kernel"),
                number(self.stride[i], "a stride"),
                number(self.before[i], "padding"),
                number(self.dilation[i], "a dilation"),
            )
            for i in range(len(self.kernel))
        ]


def windows_of(site: RuleContext) -> Windows:
    """Return the windows of a layer.

    Raises:
        CannotFollowError: if an attribute is missing.
    """
    kernel: Any = site.attribute("kernel")
    rank, attrs = len(kernel), site.layer.attrs
    stride: Any = site.attribute("stride")
    padding, dilation = attrs.get("padding", (0,) * rank), attrs.get("dilation", (1,) * rank)
    if not len(stride) == len(padding) == len(dilation) == rank:
        raise CannotFollowError("attributes of different lengths")
    before = tuple(each[0] if isinstance(each, tuple) else each for each in padding)
    return Windows(tuple(kernel), tuple(stride), before, tuple(dilation))


# Convolutions: a window of positions and all channels.


def _convolved(site: RuleContext, taps: list[Stencil]) -> Dependence | None:
    # Some frontends permute the operands of a layer: its axes are not those of the values.
    if site.layer.attrs.get("permuted"):
        raise CannotFollowError("channels that are not the second axis")
    dependence, rank = site.operands.get("x"), len(taps)
    if dependence is not None:
        x, y = site.layer["x"], site.y
        first = x.ndim - rank
        dependence = site.contract(dependence, [first - 1])
        for axis, each in enumerate(taps, first):
            dependence = site.slide(dependence, axis, each, x.shape[axis], y.shape[axis])
    others = [name for name in site.operands if name not in ("x", "w")]
    weights = site.operands.get("w")
    computed = None if weights is None else site.contract(weights, range(site.layer["w"].ndim))
    return site.unite([dependence, site.elementwise(site.y.shape, others), computed])


def _conv(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(_convolved(site, windows_of(site).taps()))


def _conv_transpose(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(_convolved(site, windows_of(site).transposed_taps()))


CONV_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv", "fused_conv"), _conv),
    "conv_transpose": _conv_transpose,
}


# Poolings and their inverses.


def _pool(site: RuleContext) -> list[Dependence | None]:
    # An adaptive pooling to one element is global, whatever the size of the image.
    windows = windows_of(site)
    dependence = site.unite(site.operands.values())
    x, y, rank = site.x, site.y, len(windows.kernel)
    for i, axis in enumerate(range(x.ndim - rank, x.ndim)):
        if dependence is None:
            break
        size = x.shape[axis]
        if site.layer.attrs.get("adaptive") and y.shape[axis] == 1:
            dependence = site.pool(dependence, axis)
        else:
            dependence = site.slide(dependence, axis, windows.axis_taps(i), size, y.shape[axis])
    return site.all_outputs(dependence)


def _adaptive_pool(site: RuleContext) -> list[Dependence | None]:
    # Window i of n over a length L ranges from floor(i*L/n) to ceil((i+1)*L/n): the period is n / gcd(L, n).
    dependence, x, y = site.of_x, site.x, site.y
    for axis in range(x.ndim):
        size, new = x.shape[axis], y.shape[axis]
        if dependence is None or size == new:
            continue
        if new == 1:
            dependence = site.pool(dependence, axis)
            continue
        if is_symbolic(size) or is_symbolic(new):
            raise CannotFollowError("windows of symbolic size")
        common = gcd(size, new)
        windows = (range(i * size // new, ceil_div((i + 1) * size, new)) for i in range(new // common))
        dependence = site.slide(dependence, axis, Stencil(size // common, tuple(windows)), size, new)
    return site.all_outputs(dependence)


def _unpool(site: RuleContext) -> list[Dependence | None]:
    # Every element is repeated over its window, or moved to an index inside it.
    windows, dependence = windows_of(site), site.unite(site.operands.values())
    x, y, rank = site.x, site.y, len(windows.kernel)
    for axis, taps in zip(range(x.ndim - rank, x.ndim), windows.transposed_taps(), strict=True):
        if dependence is not None:
            dependence = site.slide(dependence, axis, taps, x.shape[axis], y.shape[axis])
    return site.all_outputs(dependence)


POOLING_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("max_pool", "avg_pool", "lp_pool", "masked_max_pool"), _pool),
    **dict.fromkeys(("adaptive_max_pool", "adaptive_avg_pool"), _adaptive_pool),
    "unpool": _unpool,
}


# Resizing: the elements that each sample needs along an axis.


HALF = Fraction(1, 2)

REACH: Mapping[str, int] = {"linear": 1, "cubic": 2, "lanczos": 3}
"""Half the width of the interpolation kernel, by mode."""

SHIFT: Mapping[str, Fraction] = {"half_pixel": HALF, "asymmetric": Fraction(0)}
"""The position of a sample inside an element, by coordinates."""


def scale_of(size: Dim, new_size: Dim, what: str = "a resize") -> Fraction:
    """Return ``size / new_size``, the elements of x per element of the result.

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


def _scale_along(site: RuleContext, i: int, size: Dim, new_size: Dim) -> Fraction:
    # Sizes round the product with a given scale, so the scale decides.
    scales: Any = site.layer.attrs.get("scale")
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


def _resize_taps(site: RuleContext, step: Fraction, shift: Fraction, antialiased: bool) -> Stencil:
    mode: Any = site.attribute("mode")
    if mode != "nearest" and mode not in REACH:
        raise CannotFollowError(f"unknown mode {mode!r}")
    rounding = str(site.layer.attrs.get("rounding", "floor"))
    if step.denominator > MOST_PHASES:
        raise TooManyPhasesError
    positions = ((phase + shift) * step - shift for phase in range(step.denominator))
    samples = tuple(_elements_of_sample(mode, rounding, position, step, antialiased) for position in positions)
    return Stencil(step.numerator, samples)


def _aligned_taps(mode: str, size: Dim, new_size: Dim) -> Stencil:
    # With aligned corners, sample o is at o * (size - 1) / (new_size - 1): at most one element away from o * size /
    # new_size, whose stride other branches share. The difference is between 0 and (new_size - size) / new_size, so this
    # is a bound.
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


def _resize(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y, attrs = site.of_x, site.x, site.y, site.layer.attrs
    axes: Any = attrs.get("axes") or range(2, x.ndim)
    antialiased = site.layer.op == "antialiased_resize" or bool(attrs.get("antialias"))
    coordinates = "align_corners" if attrs.get("align_corners") else str(attrs.get("coordinates", "half_pixel"))
    for i, axis in enumerate(axes):
        size, new = x.shape[axis], y.shape[axis]
        if dependence is None or not carries(dependence, axis):
            continue
        if size == 1:
            dependence = site.slide(dependence, axis, Stencil.repeated(scale_of(new, 1).numerator), size, new)
        elif coordinates == "align_corners":
            if new == 1:
                raise CannotFollowError("aligned corners of one sample")
            mode: Any = site.attribute("mode")
            dependence = site.slide(dependence, axis, _aligned_taps(mode, size, new), size, new).marks(
                Dependence(bounded=site.node)
            )
        elif coordinates in SHIFT:
            step = _scale_along(site, i, size, new)
            dependence = site.slide(
                dependence, axis, _resize_taps(site, step, SHIFT[coordinates], antialiased), size, new
            )
        else:
            raise CannotFollowError(f"coordinates {coordinates!r}")
    return site.all_outputs(dependence)


RESAMPLING_RULES: Mapping[str, Rule] = dict.fromkeys(("resize", "antialiased_resize"), _resize)


def combined(site: RuleContext) -> list[Dependence | None]:
    """Return the dependence of outputs that combine all elements of all operands."""
    tensors = site.layer.inputs
    parts = [site.contract(dependence, range(tensors[name].ndim)) for name, dependence in site.operands.items()]
    return site.all_outputs(site.unite(parts))


GLOBAL_OPERATORS_RULES: Mapping[str, Rule] = dict.fromkeys(
    ("lstm", "gru", "rnn", "dynamic_quantized_lstm", "attention_lstm", "fft", "real_fft", "inverse_real_fft"), combined
)


# Attention: every query sees all keys and values.


def _attention(site: RuleContext) -> list[Dependence | None]:
    parts = []
    for name, tensor in site.layer.inputs.items():
        dependence = site.operands.get(name)
        if dependence is None:
            continue
        rank, kept = tensor.ndim, 1 if name in ("q", "mask") else 0  # of a mask too, the axis of the keys is combined
        dependence = site.contract(dependence, range(rank - 2 + kept, rank))
        parts.append(broadcast(dependence, tensor.shape, site.y.shape, site.node))
    return site.all_outputs(site.unite(parts))


def _multi_head_attention(site: RuleContext) -> list[Dependence | None]:
    # Tokens are along the last axis but one.
    names = [name for name in site.layer.inputs if name in ("q", "x")]
    parts = []
    for name, dependence in site.operands.items():
        last = site.layer[name].ndim - 1
        parts.append(site.contract(dependence, [last] if name in names[:1] else range(last + 1)))
    united = site.unite(parts)
    return site.all_outputs(None if united is None else site.in_context(united, [site.y.ndim - 2]))


def _rotary_embedding(site: RuleContext) -> list[Dependence | None]:
    # Pairs of features of one token are rotated; the angles are operands.
    found = site.of_x
    if found is None or len(site.operands) > 1:
        raise CannotFollowError("angles that depend on the input")
    return site.all_outputs(site.contract(found, [site.x.ndim - 1]))


ATTENTION_RULES: Mapping[str, Rule] = {
    "attention": _attention,
    "rotary_embedding": _rotary_embedding,
    **dict.fromkeys(("multi_head_attention", "transformer_encoder_layer"), _multi_head_attention),
}


# Matrix products: the contracted axis is combined, other axes keep their positions.


def _linear(site: RuleContext) -> list[Dependence | None]:
    x = site.layer["x"]
    dependence, weights = site.operands.get("x"), site.operands.get("w")
    if dependence is not None:
        dependence = site.contract(dependence, [x.ndim - 1])
    if weights is not None:
        weights = site.contract(weights, range(site.layer["w"].ndim))
    added = site.elementwise(site.y.shape, [name for name in site.operands if name not in ("x", "w")])
    return site.all_outputs(site.unite([dependence, weights, added]))


def _matmul(site: RuleContext) -> list[Dependence | None]:
    x0, x1, y = site.layer["x0"], site.layer["x1"], site.y
    left, right = site.operands.get("x0"), site.operands.get("x1")
    if left is not None:
        left = site.contract(left, [x0.ndim - 1])
        left = broadcast(left, x0.shape[:-1] if x1.ndim == 1 else x0.shape, y.shape, site.node)
    if right is not None:
        right = site.contract(right, [max(x1.ndim - 2, 0)])
        shape = () if x1.ndim == 1 else x1.shape
        if x0.ndim == 1 and x1.ndim > 1:
            right = moved(right, [*range(x1.ndim - 2), None, x1.ndim - 2])
            shape = (*x1.shape[:-2], x1.shape[-1])
        right = broadcast(right, shape, y.shape, site.node)
    added = site.elementwise(y.shape, [name for name in site.operands if name not in ("x0", "x1")])
    return site.all_outputs(site.unite([left, right, added]))


def _einsum(site: RuleContext) -> list[Dependence | None]:
    equation = str(site.attribute("equation")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    names = [name for name in site.layer.inputs if name.startswith("x")]
    if "." in equation or not arrow or len(terms.split(",")) != len(names) or len(site.operands.keys() - set(names)):
        raise CannotFollowError("an equation with implicit axes")
    parts = []
    for name, letters in zip(names, terms.split(","), strict=True):
        dependence = site.operands.get(name)
        if dependence is not None:
            if len(set(letters)) < len(letters):
                raise CannotFollowError("an equation with a diagonal")
            gone = [axis for axis, letter in enumerate(letters) if letter not in result]
            dependence = moved(
                site.contract(dependence, gone), [result.index(each) if each in result else None for each in letters]
            )
        parts.append(dependence)
    return site.all_outputs(site.unite(parts))


MATMUL_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("linear", "packed_linear"), _linear),
    "matmul": _matmul,
    "einsum": _einsum,
}


# Normalizations: every element sees itself and the statistics over some axes.


def over(site: RuleContext, axes: Iterable[int]) -> list[Dependence | None]:
    """Return the dependence of a value computed from its own element and statistics of x along some axes."""
    dependence = site.elementwise(site.y.shape)
    return site.all_outputs(None if dependence is None else site.in_context(dependence, axes))


def over_attribute(site: RuleContext) -> list[Dependence | None]:
    """Normalize over the attribute ``axis``, one axis or several."""
    axes: Any = site.attribute("axis")
    return over(site, axes if isinstance(axes, tuple) else (axes,))


def _batch_norm(site: RuleContext) -> list[Dependence | None]:
    # In training, the statistics are over the batch and all positions.
    if site.layer.op != "batch_norm" or site.layer.attrs.get("training"):
        return _over_all_but_channels(site)
    return site.all_outputs(site.elementwise(site.y.shape, ["x"]))


def _over_all_but_channels(site: RuleContext) -> list[Dependence | None]:
    dependence = site.operands.get("x")
    axes = (axis for axis in range(site.x.ndim) if axis != 1)
    return site.all_outputs(None if dependence is None else site.in_context(dependence, axes))


def _group_norm(site: RuleContext) -> list[Dependence | None]:
    return over(site, range(1, site.x.ndim))


def _instance_norm(site: RuleContext) -> list[Dependence | None]:
    return over(site, range(2, site.x.ndim))


def _over_channels(site: RuleContext) -> list[Dependence | None]:
    return over(site, (1,))


def _mean_variance_norm(site: RuleContext) -> list[Dependence | None]:
    axes: Any = site.layer.attrs.get("axis") or (0, *range(2, site.x.ndim))
    return over(site, axes)


def _normalize_rows(site: RuleContext) -> list[Dependence | None]:
    dependence = site.operands.get("x")
    return site.all_outputs(None if dependence is None else site.in_context(dependence, [site.x.ndim - 1]))


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


def _along_channels(site: RuleContext) -> list[Dependence | None]:
    # Halves of this axis are multiplied or joined, which breaks its positions.
    axis, dependence = site.layer.attrs.get("axis", 1 if site.layer.op == "crelu" else site.x.ndim - 1), site.of_x
    if carries(dependence, axis):
        raise CannotFollowError("halves of an axis with positions")
    return site.all_outputs(dependence)


ACTIVATION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "masked_softmax", "hardmax"), over_attribute),
    **dict.fromkeys(("glu", "crelu"), _along_channels),
}


# Reductions, cumulative operators and sorting: combine all positions along an axis.


REDUCTIONS = (
    *("reduce_sum", "reduce_nansum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_all"),
    *("reduce_any", "reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp", "reduce_sum_square", "reduce_log_sum"),
    *("reduce_log_sum_exp", "min_max", "argmax", "argmin", "count_nonzero", "var", "std", "var_mean", "std_mean"),
    "median",
)


def _reduction(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y = site.of_x, site.x, site.y
    if dependence is None:
        return site.all_outputs(None)
    axes: Any = site.layer.attrs.get("axis")
    if axes is None or axes == ():
        axes = range(x.ndim)
    axes = {axes} if isinstance(axes, int) else {axis % x.ndim for axis in axes}
    dependence = site.contract(dependence, axes)
    if y.ndim != x.ndim:
        numbers = iter(range(x.ndim))
        dependence = moved(dependence, [None if axis in axes else next(numbers) for axis in range(x.ndim)])
    return site.all_outputs(dependence)


def _sort(site: RuleContext) -> list[Dependence | None]:
    axis: Any = site.attribute("axis")
    dependence = site.of_x
    return site.all_outputs(None if dependence is None else site.contract(dependence, [axis]))


REDUCTION_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), over_attribute),
    **dict.fromkeys(("sort", "argsort", "topk"), _sort),
}


# Rules of data movement: views, copies, slices, joins, shifts and gathers. No element is combined with another.

Shape = tuple[Dim, ...]


def element_wise(site: RuleContext) -> list[Dependence | None]:
    """Every element depends on that at its place."""
    return site.all_outputs(site.elementwise(site.y.shape))


def _independent(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(None)


def _reshape(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y = site.of_x, site.x, site.y
    return site.all_outputs(None if dependence is None else reshaped(dependence, x.shape, y.shape))


def _expand(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(broadcast(site.of_x, site.x.shape, site.y.shape, site.node))


def _transpose(site: RuleContext) -> list[Dependence | None]:
    dependence, axes = site.of_x, site.attribute("axes")
    assert isinstance(axes, tuple)
    return site.all_outputs(None if dependence is None else moved(dependence, map(axes.index, range(len(axes)))))


def _range_of_axis(
    dependence: Dependence | None, axis: int, start: int, step: int, size: Dim, new: Dim
) -> Dependence | None:
    # A negative start counts elements before the first: padding.
    path = None if dependence is None else dependence.path
    on_axis = [] if path is None else [digit for digit in path.digits if digit.axis == axis]
    if dependence is None or path is None or not on_axis:
        return dependence
    digit = on_axis[0]
    if len(on_axis) == 1 and digit.unit == 1 and digit.size == size and digit.start == 0:
        taps = Stencil.every(step, start)
        if len(path.digits) == 1:
            return dependence.with_path(Path(path.map.through(taps, size), (replace(digit, size=new),)))
        if step < 1:
            raise CannotFollowError("a part of positions reversed")
        shifted = path.map.through(Stencil.every(1, start * digit.weight))
        taken = replace(digit, size=new, weight=digit.weight * step)
        rest = [taken if each == digit else each for each in path.digits]
        return dependence.with_path(Path(shifted, tuple(sorted(rest, key=lambda each: -each.weight))))
    ends = [each.start + each.unit * each.size for each in on_axis]
    if step == 1 and not any(map(is_symbolic, (*ends, new, digit.start))):
        if digit.start >= start and max(ends) <= start + new:
            moved_digits = (replace(d, start=d.start - start) if d.axis == axis else d for d in path.digits)
            return dependence.with_path(Path(path.map, tuple(moved_digits)))
        if digit.start >= start + new:
            return _unreached(dependence)
    raise CannotFollowError("cannot slice an axis that merges spatial and other dimensions")


def _unreached(dependence: Dependence) -> Dependence | None:
    # The path does not reach these elements; other marks stay.
    return dependence.with_path(None) if dependence != Dependence(dependence.path) else None


def _first_index(start: Any, size: Dim, step: int) -> int:
    if start is None:
        start = 0 if step > 0 else -1
    if is_symbolic(start):
        raise CannotFollowError("a slice from a symbolic index")
    if start < 0:
        return max(number(size, "a slice from the end of an axis") + int(start), 0)
    return int(start) if is_symbolic(size) else min(int(start), int(size) - (step < 0))


def _slice(site: RuleContext) -> list[Dependence | None]:
    # An integer index has no step, and removes its axis; axes of size 1 may be added.
    dependence, x, y = site.of_x, site.x, site.y
    if dependence is None or dependence.path is None:
        return site.all_outputs(dependence)
    if any(name != next(iter(site.layer.inputs)) for name in site.operands):
        raise CannotFollowError("a slice at indices that are data")
    starts: Any = site.attribute("start")
    axes: Any = site.layer.attrs.get("axis")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps: Any = site.layer.attrs.get("step") or (1,) * len(starts)
    sizes = list(x.shape)
    for axis, start, given in zip(axes, starts, steps, strict=True):
        step = 1 if given is None else number(given, "a step")
        first = _first_index(start, x.shape[axis], step)
        sizes[axis] = 1 if given is None else _slice_size(site, axis, axes, step)
        dependence = _range_of_axis(dependence, axis, first, step, x.shape[axis], sizes[axis])
    return site.all_outputs(None if dependence is None else reshaped(dependence, tuple(sizes), y.shape))


def _slice_size(site: RuleContext, axis: int, axes: tuple[int, ...], step: int) -> Dim:
    x, y, attrs = site.x, site.y, site.layer.attrs
    if x.ndim == y.ndim and None not in (attrs.get("step") or ()):
        return y.shape[axis]
    i = axes.index(axis)
    bounds: Any = attrs["start"][i], attrs["stop"][i], step
    return len(range(*slice(*bounds).indices(number(x.shape[axis], "a slice of an axis"))))


def _at_index(dependence: Dependence | None, axis: int, index: int, shape: Shape) -> Dependence | None:
    path = None if dependence is None else dependence.path
    if dependence is None or path is None:
        return dependence
    for digit in [each for each in path.digits if each.axis == axis]:
        if is_symbolic(digit.start) or index < digit.start:
            return _unreached(dependence)
        current = next(each for each in path.digits if each.place == digit.place)
        unit, size = number(digit.unit, "a block"), digit.size
        value = (index - digit.start) // unit
        path = fixed(path, current, value if is_symbolic(size) else value % size)
    return moved(dependence.with_path(path), [*range(axis), None, *range(axis, len(shape) - 1)])


def select(site: RuleContext) -> list[Dependence | None]:
    """Return the dependence of one index of an axis, which is removed."""
    axis, index = site.attribute("axis"), site.attribute("index")
    assert isinstance(axis, int)
    return site.all_outputs(_at_index(site.of_x, axis, _first_index(index, site.x.shape[axis], 1), site.x.shape))


def _split(site: RuleContext) -> list[Dependence | None]:
    axis, x = site.attribute("axis"), site.x
    assert isinstance(axis, int)
    outputs: list[Dependence | None] = []
    start = 0
    for y in site.layer.outputs:
        if y.ndim < x.ndim:
            outputs.append(_at_index(site.of_x, axis, start, x.shape))
            start += 1
            continue
        is_carried = carries(site.of_x, axis)
        outputs.append(
            _range_of_axis(site.of_x, axis, start, 1, x.shape[axis], y.shape[axis]) if is_carried else site.of_x
        )
        start += number(y.shape[axis], "a part") if is_carried else 0
    return outputs


def _view(site: RuleContext) -> list[Dependence | None]:
    # Frontends state what kind of view it is by attributes; without, it is a reshape or an expansion.
    attrs = site.layer.attrs
    if "rearranged" in attrs:
        raise CannotFollowError("a view with other strides")
    if "axes" in attrs:
        return _transpose(site)
    if "start" in attrs:
        return _slice(site)
    if "index" in attrs:
        return select(site)
    if "axis" in attrs:
        return _split(site)
    return _reshape(site) if exact_quotient(prod(site.x.shape), prod(site.y.shape)) == 1 else _expand(site)


def _concatenated(site: RuleContext, axis: int, shapes: Mapping[str, Shape]) -> Dependence | None:
    # Several operands with positions along the axis give a bound, or a cyclic shift as exporters write it.
    total: Dim = 0
    parts: list[tuple[Dependence, Shape, Dim]] = []
    for name, shape in shapes.items():
        if name in site.operands:
            parts.append((site.operands[name], shape, total))
        total = total + shape[axis]
    if sum(carries(dependence, axis) for dependence, _, _ in parts) > 1:
        return _cyclic_shift(site, axis, parts) or _bound_of_parts(site, axis, parts)
    moved_parts = []
    for dependence, shape, offset in parts:
        path = dependence.path
        if path is not None and carries(dependence, axis) and len(shapes) > 1:
            digits = (replace(d, start=d.start + offset) if d.axis == axis else d for d in path.digits)
            dependence = dependence.with_path(Path(path.map, tuple(digits)))
        own = tuple(shape[axis] if i == axis else size for i, size in enumerate(site.y.shape))
        moved_parts.append(broadcast(dependence, shape, own, site.node))
    return site.unite(moved_parts)


def _cyclic_shift(site: RuleContext, axis: int, parts: Sequence[tuple[Dependence, Shape, Dim]]) -> Dependence | None:
    # A cyclic shift joins two slices of one value: the other part continues the larger one at its other end.
    if len(parts) != 2 or len(site.layer.inputs) != 2:
        return None
    (one, first, _), (other, second, cut) = parts
    size = site.y.shape[axis]
    if any(map(is_symbolic, (first[axis], second[axis]))):
        return None
    assert one.path is not None and other.path is not None  # both count positions along the axis
    early, late = (plain_digit(path, axis, shape[axis]) for path, shape in ((one.path, first), (other.path, second)))
    assert early is not None and late is not None
    if early[1].weight != late[1].weight:
        return None
    weight, length = early[1].weight, number(size, "an axis")
    before = early[0].map.through(Stencil.every(1, -weight * length))
    after = late[0].map.through(Stencil.every(1, -weight * number(cut, "a part")))
    rest, other_rest = (tuple(d for d in path.digits if d != digit) for path, digit in (early, late))
    if rest != other_rest or before != after:
        return None
    shifted, digit = (early[0].map, early[1]) if 2 * first[axis] >= length else (after, late[1])
    digits = (replace(digit, size=size), *rest)
    path = Path(shifted, tuple(sorted(digits, key=lambda each: -each.weight)))
    return one.with_path(path).marks(other).marks(Dependence(wrapped=site.node))


def _bound_of_parts(site: RuleContext, axis: int, parts: Sequence[tuple[Dependence, Shape, Dim]]) -> Dependence | None:
    # Every position sees what it would see in any of the parts.
    moved_parts = []
    for dependence, shape, offset in parts:
        found = None if dependence.path is None else plain_digit(dependence.path, axis, shape[axis])
        if found is not None:
            path, digit = found
            if len(path.digits) > 1:
                raise CannotFollowError("parts of positions joined along an axis")
            shifted = path.map.through(Stencil.every(1, -number(offset, "a part")), shape[axis])
            dependence = dependence.with_path(Path(shifted, (replace(digit, size=site.y.shape[axis]),)))
        moved_parts.append(dependence)
    united = site.unite(moved_parts)
    return None if united is None else united.marks(Dependence(bounded=site.node))


def _concat(site: RuleContext) -> list[Dependence | None]:
    axis = site.attribute("axis")
    assert isinstance(axis, int)
    axis %= site.y.ndim
    return site.all_outputs(_concatenated(site, axis, {name: t.shape for name, t in site.layer.inputs.items()}))


def _stack(site: RuleContext) -> list[Dependence | None]:
    axis = site.attribute("axis")
    assert isinstance(axis, int)
    axis %= site.y.ndim
    numbers = tuple(i + (i >= axis) for i in range(site.y.ndim - 1))
    return site.all_outputs(site.unite(moved(dependence, numbers) for dependence in site.operands.values()))


def _pad(site: RuleContext) -> list[Dependence | None]:
    # A border of any kind is outside of the field, like the padding of a convolution.
    before, dependence = site.attribute("before"), site.of_x
    assert isinstance(before, tuple)
    for axis, width in enumerate(before):
        size, new = site.x.shape[axis], site.y.shape[axis]
        if size != new or width != 0:
            dependence = _range_of_axis(dependence, axis, -number(width, "padding"), 1, size, new)
    return site.all_outputs(dependence)


def _flip(site: RuleContext) -> list[Dependence | None]:
    dependence, axes = site.of_x, site.attribute("axis")
    assert isinstance(axes, tuple)
    for axis in axes:
        if dependence is not None and dependence.path is not None:
            size = site.x.shape[axis]
            if carries(dependence, axis):
                dependence = _range_of_axis(dependence, axis, number(size, "a flip") - 1, -1, size, size)
    return site.all_outputs(dependence)


def _roll(site: RuleContext) -> list[Dependence | None]:
    # Counted as a shift: what wraps around is like a border, and marked.
    dependence, axes, shifts = site.of_x, site.attribute("axis"), site.attribute("shift")
    assert isinstance(axes, tuple) and isinstance(shifts, tuple)
    for axis, shift in zip(axes, shifts, strict=True):
        path = None if dependence is None else dependence.path
        if dependence is not None and path is not None and carries(dependence, axis):
            size = site.x.shape[axis]
            plain_digit(path, axis, size)
            dependence = _range_of_axis(dependence, axis, -number(shift, "a shift"), 1, size, size)
            assert dependence is not None
            dependence = dependence.marks(Dependence(wrapped=site.node))
    return site.all_outputs(dependence)


def _blocks(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y = site.of_x, site.x, site.y
    if dependence is not None:
        dependence = site.contract(dependence, [x.ndim - 3])
        for axis in (x.ndim - 2, x.ndim - 1):
            old, new = x.shape[axis], y.shape[axis]
            if site.layer.op == "space_to_depth":
                block = scale_of(old, new).numerator
                taps = Stencil.window(block, block)
            else:
                taps = Stencil.repeated(scale_of(new, old).numerator)
            dependence = site.slide(dependence, axis, taps, old, new)
    return site.all_outputs(dependence)


def _channel_shuffle(site: RuleContext) -> list[Dependence | None]:
    dependence = site.of_x
    return site.all_outputs(None if dependence is None else site.contract(dependence, [1]))


def _one_hot(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(site.of_x)


def _broadcast_arrays(site: RuleContext) -> list[Dependence | None]:
    return [
        broadcast(site.operands.get(name), tensor.shape, y.shape, site.node)
        for (name, tensor), y in zip(site.layer.inputs.items(), site.layer.outputs, strict=True)
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
    **dict.fromkeys(("broadcast_to", "tile"), _expand),  # of an axis of size 1 alone is a position followed
    "one_hot": _one_hot,
    "broadcast_arrays": _broadcast_arrays,
}


# Gathers and embeddings: an index keeps its position, an indexed axis loses it.


def _embedding(site: RuleContext) -> list[Dependence | None]:
    if "w" in site.operands:
        raise CannotFollowError("a table that depends on the input")
    return site.all_outputs(site.operands.get("x"))


def _gather(site: RuleContext) -> list[Dependence | None]:
    # The axes of the indices replace the axis; a constant index is a selection.
    if "index" in site.layer.attrs:
        return select(site)
    axis, dependence = site.attribute("axis"), site.operands.get("x")
    if len(site.operands) > (dependence is not None) or not isinstance(axis, int):
        raise CannotFollowError("indices that depend on the input")
    if dependence is None:
        return site.all_outputs(None)
    added, rank = site.y.ndim - site.layer["x"].ndim, site.y.ndim
    return site.all_outputs(moved(dependence, [*range(axis), None, *range(axis + 1 + added, rank)]))


def _reject_data_dependent(site: RuleContext) -> list[Dependence | None]:
    raise CannotFollowError("places that depend on data")


AT_DATA = """
grid_sample deform_conv roi_align ps_roi_align roi_max_pool roi_avg_pool ps_roi_avg_pool crop_and_resize gather_elements
gather_nd masked_select masked_gather compress upsample fractional_max_pool
"""
"""Operators that read or write places known only in a run."""

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
