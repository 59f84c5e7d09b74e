"""The family of a call in a calibration, and its coordinates there.

Calls of one family run the same kind of kernel, so that the efficiency of one says something about the efficiency of
another with a similar shape. Coordinates are base-2 logarithms of sizes: a distance of 1 is a factor of 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2, prod
from typing import NamedTuple

from costcore.errors import CostError
from costcore.ir import Cost, Layer, Operations
from costcore.timing.tiles import Product
from costcore.trace.call import Call

KINDS = ("product", "special", "arithmetic", "move", "free")
"""The efficiency of a family without points is that of families of its kind."""

APART = 2.0
"""Distance between calls that differ by a property that changes the kernel, such as an operand that is strided."""

KERNEL_WEIGHT = 0.75
"""How far apart convolutions are whose kernels differ by a factor of 2 in size, of two axes together."""

GROUPS_WEIGHT = 0.5
"""The same for the number of groups."""

Axes = tuple[float, ...]


class Site(NamedTuple):
    """What a calibration needs of a call.

    Attributes:
        family: the kind of kernel, ``conv 1x1`` or ``gelu``.
        kind: one of :data:`KINDS`.
        axes: the coordinates within the family.
        flops: operations, with two for a fused multiply-add.
        nbytes: bytes read and written.
    """

    family: str
    kind: str
    axes: Axes
    flops: float
    nbytes: float

    @property
    def size(self) -> Axes:
        """Coordinates that all families have: operations and bytes."""
        return _log(self.flops), _log(self.nbytes)


def site_of(call: Call, cost: Cost) -> Site:
    """Return the family and the coordinates of a call.

    Raises:
        CostError: if its sizes are symbolic.
    """
    layer = call.layer
    operations = cost.flops
    flops = operations.flops(fma_1flop=False) if isinstance(operations, Operations) else operations
    try:
        amounts = float(flops), float(cost.mread + cost.mwrite)
        family, axes = _family(layer, *amounts)
    except TypeError as error:  # of sympy: an expression with symbols is not a number
        raise CostError(f"{call.name}: time needs numeric sizes; substitute values first: report.subs(…)") from error
    flags = (APART * bool(call.strided), APART * _is_in_place(call))
    return Site(family, _kind(cost, *amounts), (*axes, *flags), *amounts)


def product_of(site: Site) -> Product | None:
    """Return the matrix product that a call computes; None for other calls, and for those whose product is unknown."""
    sizes = [2**each for each in site.axes]
    if site.family in ("linear", "matmul"):
        rows, columns, depth, count = sizes[:4]
    elif site.family in ("conv 1x1", "conv kxk", "grouped conv"):
        rows, columns, channels, kernel, groups = sizes[:5]
        depth, count = channels * kernel ** (1 / KERNEL_WEIGHT), groups ** (1 / GROUPS_WEIGHT)
    else:
        return None
    return Product(round(rows), round(columns), round(depth), round(count))


def _kind(cost: Cost, flops: float, nbytes: float) -> str:
    if cost.macs != 0:
        return "product"
    if flops == 0:
        return "move" if nbytes else "free"
    operations = cost.flops
    return "special" if isinstance(operations, Operations) and operations.special else "arithmetic"


def _family(layer: Layer, flops: float, nbytes: float) -> tuple[str, Axes]:
    if nbytes == 0 and flops == 0:
        return f"{layer.op} (zero-cost)", ()  # dropout at inference, which has a cost in training
    axes, operands = _AXES.get(layer.op, (None, ()))
    if axes is not None and all(name in layer for name in operands):
        return axes(layer)
    return layer.op if axes is None else f"{layer.op} (other operands)", _logs(flops, nbytes)


def _is_in_place(call: Call) -> bool:
    """Return whether the call writes over one of its operands, so that no memory is allocated for its result."""
    n = len(call.inputs)
    return not {*call.storages[:n]}.isdisjoint(call.storages[n:])


def _log(size: float) -> float:
    """Return the logarithm of a size, 0 for one without elements."""
    return log2(max(1.0, float(size)))


def _logs(*sizes: float) -> Axes:
    return tuple(map(_log, sizes))


def _conv(layer: Layer) -> tuple[str, Axes]:
    w, y = layer["w"].shape, layer.out.shape
    groups, kernel = int(layer.attrs.get("groups", 1)), prod(w[2:])
    stride = prod(layer.attrs.get("stride", (1,)))
    family = "conv 1x1" if kernel == 1 else "conv kxk"
    if groups > 1:
        family = "depthwise" if w[1] == 1 else "grouped conv"
    rows = y[0] * prod(y[2:])
    channels = _logs(rows, w[0] / groups, w[1])
    return family, (*channels, KERNEL_WEIGHT * _log(kernel), GROUPS_WEIGHT * _log(groups), _log(stride))


def _conv_transpose(layer: Layer) -> tuple[str, Axes]:
    x, w = layer["x"].shape, layer["w"].shape
    groups, stride = int(layer.attrs.get("groups", 1)), prod(layer.attrs.get("stride", (1,)))
    channels = _logs(x[0] * prod(x[2:]), w[1], w[0] / groups)
    return layer.op, (*channels, KERNEL_WEIGHT * _log(prod(w[2:])), GROUPS_WEIGHT * _log(groups), _log(stride))


def _matrices(rows: float, columns: float, depth: float, count: float) -> tuple[str, Axes]:
    is_vector = APART * (rows == 1 or columns == 1)  # libraries have other kernels for products with a vector
    return "linear" if count == 1 else "matmul", (*_logs(rows, columns, depth, count), is_vector)


def _linear(layer: Layer) -> tuple[str, Axes]:
    x, w = layer["x"].shape, layer["w"].shape
    return _matrices(prod(x[:-1]), prod(w[:-1]), w[-1], 1)


def _matmul(layer: Layer) -> tuple[str, Axes]:
    a, b = layer["x0"].shape, layer["x1"].shape
    depth, columns = a[-1], b[-1] if len(b) > 1 else 1
    is_shared = len(b) <= 2  # one matrix for all items of a batch, as in a linear layer
    rows = prod(a[:-1]) if is_shared else a[-2] if len(a) > 1 else 1
    return _matrices(rows, columns, depth, 1 if is_shared else prod(layer.out.shape[:-2]))


def _attention(layer: Layer) -> tuple[str, Axes]:
    q, k = layer["q"].shape, layer["k"].shape
    masks = APART / 2 * bool(layer.attrs.get("causal")), APART / 2 * ("mask" in layer)
    return "attention", (*_logs(q[-2], k[-2], q[-1], prod(q[:-2])), *masks)


def _multi_head_attention(layer: Layer) -> tuple[str, Axes]:
    q = layer["q"].shape
    return layer.op, _logs(prod(q[:-2]), q[-2], q[-1])


def _rows(layer: Layer) -> tuple[str, Axes]:
    """Normalization and reductions: the number of elements, and half of the row length."""
    x = layer["x"]
    axis = layer.attrs.get("axis")
    if axis is None:
        return layer.op, (_log(x.size), 0.0)
    axes = axis if isinstance(axis, tuple) else (axis,)
    row = prod(x.shape[each] for each in axes)
    return layer.op, (_log(x.size), _log(row) / 2)


_REDUCTIONS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "reduce_mean", "reduce_sum", "reduce_max", "argmax")

_AXES: Mapping[str, tuple[Callable[[Layer], tuple[str, Axes]], tuple[str, ...]]] = {
    "conv": (_conv, ("x", "w")),
    "conv_transpose": (_conv_transpose, ("x", "w")),
    "linear": (_linear, ("x", "w")),
    "matmul": (_matmul, ("x0", "x1")),
    "attention": (_attention, ("q", "k")),
    "multi_head_attention": (_multi_head_attention, ("q",)),
    **dict.fromkeys(_REDUCTIONS, (_rows, ("x",))),
}
"""Operators whose time depends on more than size: what returns their family and coordinates, and operands it needs."""
