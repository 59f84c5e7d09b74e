"""Resizing with antialiasing, whose windows widen as images shrink."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, ceil_div, maximum, pattern, prod

SUPPORT: Mapping[str, int] = {"linear": 2, "cubic": 4, "lanczos": 6}
"""Elements that a sample needs along an axis that does not shrink, by mode."""


def _axis_passes(mode: str, large: tuple[Dim, ...], small: tuple[Dim, ...]) -> list[tuple[Dim, Dim]]:
    """Return the samples and taps of each pass from shape ``large`` to ``small``, the last axis first.

    A window along an axis from L to n elements has at most ``support * max(L / n, 1)`` taps, rounded up.
    """
    support, shape, passes = SUPPORT[mode], list(large), []
    for axis in reversed(range(2, len(large))):
        shape[axis] = small[axis]
        taps = maximum(ceil_div(support * large[axis], small[axis]), support)
        passes.append((prod(shape), taps))
    return passes


@pattern("window")
def calc_antialiased_resize(layer: Layer) -> Cost:
    """Resizing with antialiasing, one axis after another: every output is a weighted sum of t elements.

    t mul and t - 1 add per sample. t is the support (linear 2, cubic 4, lanczos 6), times the ratio of the sizes if the
    axis shrinks, rounded up, which is the widest window.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: mode="linear"
    """
    passes = _axis_passes(layer.attrs["mode"], layer["x"].shape, layer.out.shape)
    operations = sum((n * Operations(mul=taps, add=taps - 1) for n, taps in passes), Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_antialiased_resize_backward(layer: Layer) -> Cost:
    """Gradient of antialiased_resize: each weighted sample is added to its t elements, t mul and t add.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    Settings: mode="linear"
    """
    passes = _axis_passes(layer.attrs["mode"], layer.out.shape, layer["dy"].shape)
    operations = sum((n * taps * Operations(mul=1, add=1) for n, taps in passes), Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)
