"""Rules of windows: convolutions, poolings and resizing, with the taps along each axis."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple

from costcore.analyses.receptive_field.dependence import (
    MOST_PHASES,
    CannotFollowError,
    Dependence,
    Rule,
    RuleContext,
    Stencil,
    TooManyPhasesError,
    carries,
    number,
)
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


RULES: Mapping[str, Rule] = {**CONV_RULES, **POOLING_RULES, **RESAMPLING_RULES}
