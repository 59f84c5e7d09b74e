"""Pooling over windows, and its inverses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Dim, Layer, Operations, Pattern, Tensor, covers, gcd, pattern, prod

from .._shared import operations_of, power_operations


class WindowReduction(NamedTuple):
    """The reduction of one window.

    Attributes:
        combine: operations that join two elements.
        final: operations once per window.
        definition: the expression they are counted from, over the elements x of a window.
    """

    combine: Operations
    final: Operations
    definition: str


MAX = WindowReduction(Operations(cmp=1), Operations(), "max(x)")
AVERAGE = WindowReduction(Operations(add=1), Operations(div=1), "sum(x) / n")

POOLS: Mapping[str, WindowReduction] = {"max_pool": MAX, "avg_pool": AVERAGE, "fractional_max_pool": MAX}


def pool_pattern(layer: Layer) -> Pattern:
    """Return ``reduce`` for global pooling, whose windows are whole axes, else ``window``."""
    x, y = layer["x"].shape, layer.out.shape
    pooled = [size for size, count in zip(x, y, strict=False) if size != count]
    is_one = len(x) == len(y) and all(count in (1, size) for size, count in zip(x, y, strict=False))
    kernel = layer.attrs.get("kernel")
    return "reduce" if is_one and (kernel is None or prod(kernel) == prod(pooled)) else "window"


@pattern(pool_pattern)
@covers(POOLS)
def calc_pool(layer: Layer) -> Cost:
    """Pooling over windows of k elements.

    Per output element k - 1 maxima, or k - 1 additions and a division.

    Windows are counted completely: elements on padding, or beyond the edge with ``ceil_mode``, are computed with but
    not read. Global pooling has a kernel of the size of the input.

    The indices of maxima are written if they are an output, or if the backward pass will read them: then ``indices`` is
    their dtype.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w)
    """
    pool, k = POOLS[layer.op], prod(layer.attrs["kernel"])
    operations = layer.out.size * ((k - 1) * pool.combine + pool.final)
    indices = Tensor(layer.out.shape, layer.attrs["indices"]).nbytes if "indices" in layer.attrs else 0
    return Cost(operations, layer.read, layer.written + indices, layer.attrs)


ADAPTIVE: Mapping[str, WindowReduction] = {"adaptive_max_pool": MAX, "adaptive_avg_pool": AVERAGE}


def adaptive_elements(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> Dim:
    """Return the elements of all windows ``floor(i*L/n) .. ceil((i+1)*L/n)`` together.

    They are L + n - gcd(L, n) along an axis: two neighbors share one element unless their border ``i*L/n`` is an
    integer, which it is at gcd - 1 of n - 1 borders.
    """
    return prod(size + count - gcd(size, count) for size, count in zip(x, y, strict=True))


@pattern(pool_pattern)
@covers(ADAPTIVE)
def calc_adaptive_pool(layer: Layer) -> Cost:
    """Adaptive pooling: a given output size, windows that may differ in size.

    Of n windows over a length L, window i ranges from ``floor(i*L/n)`` to ``ceil((i+1)*L/n)``. All together have L + n
    - gcd(L, n) elements. A window of k elements takes k - 1 maxima, or k - 1 additions and a division.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    """
    pool, n = ADAPTIVE[layer.op], layer.out.size
    elements = adaptive_elements(layer["x"].shape, layer.out.shape)
    operations = (elements - n) * pool.combine + n * pool.final
    return Cost(operations, layer.read, layer.written, layer.attrs)


LP: Mapping[object, tuple[Operations, WindowReduction]] = {
    1: (Operations(add=1), WindowReduction(Operations(add=1), Operations(), "sum(abs(x))")),
    2: (Operations(), WindowReduction(Operations(fma=1), Operations(mul=1, special=1), "sqrt(dot(x, x))")),
    None: (
        Operations(add=1),
        WindowReduction(Operations(add=1), Operations(special=1), "sum(abs(x) ** p) ** (1 / p)"),
    ),
}


@pattern(pool_pattern)
def calc_lp_pool(layer: Layer) -> Cost:
    """The p-norm of every window of k elements.

    * p = 2 (default): 1 mul, k - 1 fma and a root.
    * p = 1: k absolute values and k - 1 additions.
    * Any other p: k absolute values and powers, k - 1 additions, a root. For p = 3 a power is 2 mul, else 1 special.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w), p=2
    """
    k = prod(layer.attrs["kernel"])
    p = layer.attrs.get("p", 2)
    each, pool = LP[p if p in LP else None]
    each += power_operations(p) if p not in LP else Operations()
    operations = layer.out.size * (k * each + (k - 1) * pool.combine + pool.final)
    return Cost(operations, layer.read, layer.written, layer.attrs)


INVERSES: Mapping[str, str] = {
    "unpool": "every element of x repeated over its window, or moved to the index that max_pool returned",
    "upsample": "every element of x moved to the index that max_pool returned, zeros elsewhere",
}


@pattern("opaque")
@covers(INVERSES)
def calc_unpool(layer: Layer) -> Cost:
    """Inverses of pooling by copying: no operations; x is read, and the indices if they are an operand.

    Shapes: x[N, C, P, Q], indices[N, C, P, Q] -> y[N, C, H, W]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_masked_max_pool(layer: Layer) -> Cost:
    """``max_pool`` of the elements that a mask selects: 1 cmp per element of x more; the mask is read.

    Shapes: x[N, C, H, W], mask[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w)
    """
    plain = calc_pool(Layer("max_pool", {"x": layer["x"]}, layer.outputs, layer.attrs))
    operations = operations_of(plain) + Operations(cmp=layer["x"].size)
    return Cost(operations, layer.read, layer.written, layer.attrs)
