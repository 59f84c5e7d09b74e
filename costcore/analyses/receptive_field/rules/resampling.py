"""Resizing: which elements of x each sample needs along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence, carries
from costcore.analyses.receptive_field.periodic_map import MOST_PHASES, Taps, TooManyPhasesError
from costcore.analyses.receptive_field.site import Rule, Site
from costcore.numbers.dims import Dim, is_symbolic

HALF = Fraction(1, 2)

REACH: Mapping[str, int] = {"linear": 1, "cubic": 2, "lanczos": 3}
"""Half the width of the interpolation kernel, by mode."""

SHIFT: Mapping[str, Fraction] = {"half_pixel": HALF, "asymmetric": Fraction(0)}
"""The position inside an element at which a sample is taken, by coordinates."""


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


def _given_scale(site: Site, i: int, size: Dim, new_size: Dim) -> Fraction:
    """Return the elements of x per element of the result: by the sizes, or by a scale that the sizes only round."""
    scales: Any = site.layer.attrs.get("scale")
    scale = None if scales is None else scales[i]
    if scale is None:
        return scale_of(size, new_size)
    return 1 / Fraction(scale).limit_denominator(1 << 16)


def _samples(mode: str, rounding: str, position: Fraction, step: Fraction, antialiased: bool) -> range:
    """Return the elements that a sample at ``position`` needs, which counts from the center of element 0."""
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


def _taps(site: Site, step: Fraction, shift: Fraction, antialiased: bool) -> Taps:
    """Return the taps along an axis on which samples are ``step`` elements apart."""
    mode: Any = site.attribute("mode")
    if mode != "nearest" and mode not in REACH:
        raise CannotFollowError(f"unknown mode {mode!r}")
    rounding = str(site.layer.attrs.get("rounding", "floor"))
    if step.denominator > MOST_PHASES:
        raise TooManyPhasesError
    positions = ((phase + shift) * step - shift for phase in range(step.denominator))
    samples = tuple(_samples(mode, rounding, position, step, antialiased) for position in positions)
    return Taps(step.numerator, samples)


def _aligned_taps(mode: str, size: Dim, new_size: Dim) -> Taps:
    """Return bounds of the taps if the corners are aligned: sample o is at o * (size - 1) / (new_size - 1).

    This is at most one element away from o * size / new_size, whose stride other branches share. The difference is
    between 0 and (new_size - size) / new_size.
    """
    step = scale_of(size, new_size)
    if step.denominator > MOST_PHASES:
        raise TooManyPhasesError
    away = 1 - step
    reach = 0 if mode == "nearest" else REACH[mode] - 1
    phases = []
    for phase in range(step.denominator):
        ends = phase * step, phase * step - away
        phases.append(range(floor(min(ends)) - reach, ceil(max(ends)) + reach + 1))
    return Taps(step.numerator, tuple(phases))


def _resize(site: Site) -> list[Dependence | None]:
    dependence, x, y, attrs = site.of_x, site.x, site.y, site.layer.attrs
    axes: Any = attrs.get("axes") or range(2, x.ndim)
    antialiased = site.layer.op == "antialiased_resize" or bool(attrs.get("antialias"))
    coordinates = "align_corners" if attrs.get("align_corners") else str(attrs.get("coordinates", "half_pixel"))
    for i, axis in enumerate(axes):
        size, new = x.shape[axis], y.shape[axis]
        if dependence is None or not carries(dependence, axis):
            continue
        if size == 1:
            dependence = site.slide(dependence, axis, Taps.repeated(scale_of(new, 1).numerator), size, new)
        elif coordinates == "align_corners":
            if new == 1:
                raise CannotFollowError("aligned corners of one sample")
            mode: Any = site.attribute("mode")
            dependence = site.slide(dependence, axis, _aligned_taps(mode, size, new), size, new).marks(
                Dependence(bounded=site.node)
            )
        elif coordinates in SHIFT:
            step = _given_scale(site, i, size, new)
            dependence = site.slide(dependence, axis, _taps(site, step, SHIFT[coordinates], antialiased), size, new)
        else:
            raise CannotFollowError(f"coordinates {coordinates!r}")
    return site.all_outputs(dependence)


RULES: Mapping[str, Rule] = dict.fromkeys(("resize", "antialiased_resize"), _resize)
