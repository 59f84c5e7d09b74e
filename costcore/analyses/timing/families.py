"""Families of kernels, and the coordinates of a call in its family.

Calls of one family run the same kind of kernel, so that the efficiency of one predicts that of another with a similar
shape. Coordinates are base-2 logarithms of sizes: a distance of 1 is a factor of 2. :func:`site_of` returns both.
A product also has the waves of tiles in which a GPU computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, log2, prod
from typing import NamedTuple

from costcore.analyses.fusion.traffic import pattern_of
from costcore.errors import CostError
from costcore.ir import Cost, Layer, Operations
from costcore.trace.call import Call

KINDS = ("product", "special", "arithmetic", "move", "free", "opaque")
"""The efficiency of a family without points is that of families of its kind; that of an opaque one, such as ``sort``,
says nothing of another."""


APART = 2.0
"""Distance between calls that differ by a property that changes the kernel, such as a strided operand."""

KERNEL_WEIGHT = 0.75
"""Distance between convolutions with kernels that differ by a factor of 2 in size, for two axes together."""

GROUPS_WEIGHT = 0.5
"""The same for the number of groups."""

FEW = 20480
"""The maximum number of elements of a single sample for which PyTorch, on a CPU, does not call the usual library."""

SMALL_KERNEL = 3
"""The maximum length of a kernel for this."""

RECURRENT = ("lstm", "gru", "rnn")
"""Families of recurrent layers and cells."""

N_RECURRENT = 6
"""The number of their coordinates; files of format 1 have fewer."""

Axes = tuple[float, ...]


class Place(NamedTuple):
    """Where a call is in a calibration.

    Attributes:
        family: the kind of kernel.
        axes: the coordinates within the family.
        later: coordinates that files of format 1 do not have.
    """

    family: str
    axes: Axes
    later: Axes = ()


class OpSignature(NamedTuple):
    """The signature of a call in a calibration.

    Attributes:
        family: the kind of kernel, ``conv 1x1`` or ``gelu``.
        kind: one of :data:`KINDS`.
        axes: the coordinates within the family. Points of older files may lack the last ones.
        flops: operations, with two for a fused multiply-add.
        nbytes: bytes read and written.
        dtype: in which it computes; empty if a calibration has points of one dtype only.
    """

    family: str
    kind: str
    axes: Axes
    flops: float
    nbytes: float
    dtype: str = ""

    @property
    def key(self) -> str:
        """The family with the dtype."""
        return f"{self.family} {self.dtype}" if self.dtype else self.family

    @property
    def size(self) -> Axes:
        """Coordinates that all families have: operations and bytes."""
        return _log(self.flops), _log(self.nbytes)


def site_of(call: Call, cost: Cost) -> OpSignature:
    """Return the family and the coordinates of a call.

    Raises:
        CostError: if its sizes are symbolic.
    """
    layer = call.layer
    operations = cost.flops
    flops = operations.flops(fma_1flop=False) if isinstance(operations, Operations) else operations
    try:
        amounts = float(flops), float(cost.mread + cost.mwrite)
        place = _place_of(layer, *amounts)
    except TypeError as error:  # of sympy: an expression with symbols is not a number
        raise CostError(f"{call.name}: time needs numeric sizes; substitute values first: report.subs(…)") from error
    flags = (APART * bool(call.strided), APART * _is_in_place(call))
    return OpSignature(place.family, _kind_of(layer, cost, *amounts), (*place.axes, *flags, *place.later), *amounts)


def product_of(site: OpSignature) -> Product | None:
    """Return the matrix product that a call computes; None for other calls, and for unknown products."""
    sizes = [2**each for each in site.axes]
    family = site.family.removesuffix(" 1d").removesuffix(" 3d")
    if family in ("linear", "matmul"):
        rows, columns, depth, count = sizes[:4]
    elif family in ("conv 1x1", "conv kxk", "grouped conv"):
        rows, columns, channels, kernel, groups = sizes[:5]
        depth, count = channels * kernel ** (1 / KERNEL_WEIGHT), groups ** (1 / GROUPS_WEIGHT)
    else:
        return None
    return Product(round(rows), round(columns), round(depth), round(count))


def steps_of(site: OpSignature) -> float:
    """Return how many steps a call takes that cannot run at the same time, each of them no faster than a call."""
    is_recurrent = site.family in RECURRENT and len(site.axes) == N_RECURRENT
    return 2 ** site.axes[-2] if is_recurrent else 1.0


def _kind_of(layer: Layer, cost: Cost, flops: float, nbytes: float) -> str:
    if cost.macs != 0:
        return "product"
    if nbytes and pattern_of(layer) == "opaque":
        return "opaque"
    if flops == 0:
        return "move" if nbytes else "free"
    operations = cost.flops
    return "special" if isinstance(operations, Operations) and operations.special else "arithmetic"


def _place_of(layer: Layer, flops: float, nbytes: float) -> Place:
    if nbytes == 0 and flops == 0:
        return Place(f"{layer.op} (zero-cost)", ())  # dropout at inference, which has a cost in training
    place, operands = _PLACES.get(layer.op, (None, ()))
    if place is not None and all(name in layer for name in operands):
        return place(layer, flops, nbytes)
    return Place(layer.op if place is None else f"{layer.op} (other operands)", _logs(flops, nbytes))


def _is_in_place(call: Call) -> bool:
    # No memory is allocated for the result.
    n = len(call.inputs)
    return not {*call.storages[:n]}.isdisjoint(call.storages[n:])


def _log(size: float) -> float:
    return log2(max(1.0, float(size)))


def _logs(*sizes: float) -> Axes:
    return tuple(map(_log, sizes))


def _by_rank(name: str, rank: int) -> str:
    # Libraries have other kernels for another number of spatial axes.
    return name if rank == 2 else f"{name} {rank}d"


def _weights(layer: Layer) -> Axes:
    w, groups = layer["w"].shape, int(layer.attrs.get("groups", 1))
    return *_logs(w[0] / groups, w[1]), KERNEL_WEIGHT * _log(prod(w[2:])), GROUPS_WEIGHT * _log(groups)


def _conv(layer: Layer, *_: float) -> Place:
    x, w, y = layer["x"].shape, layer["w"].shape, layer.out.shape
    groups, kernel = int(layer.attrs.get("groups", 1)), prod(w[2:])
    family = "conv 1x1" if kernel == 1 else "conv kxk"
    if groups > 1:
        family = "depthwise" if w[1] == 1 else "grouped conv"
    stride, dilation = (_log(prod(layer.attrs.get(name, (1,)))) for name in ("stride", "dilation"))
    is_small = x[0] == groups == 1 and prod(x[:4]) <= FEW and (len(w) == 3 or min(w[-2:]) <= SMALL_KERNEL)
    axes = _log(y[0] * prod(y[2:])), *_weights(layer), stride
    return Place(_by_rank(family, len(w) - 2), axes, (2 * (APART * is_small), dilation / 2))


def _conv_transpose(layer: Layer, *_: float) -> Place:
    x, w = layer["x"].shape, layer["w"].shape
    groups, stride = int(layer.attrs.get("groups", 1)), prod(layer.attrs.get("stride", (1,)))
    channels = _logs(x[0] * prod(x[2:]), w[1], w[0] / groups)
    axes = *channels, KERNEL_WEIGHT * _log(prod(w[2:])), GROUPS_WEIGHT * _log(groups), _log(stride)
    return Place(_by_rank(layer.op, len(w) - 2), axes)


def _conv_backward(layer: Layer, flops: float, nbytes: float) -> Place:
    return Place(_by_rank(layer.op, len(layer["w"].shape) - 2), _logs(flops, nbytes), _weights(layer))


def _window(layer: Layer, flops: float, nbytes: float) -> Place:
    kernel = layer.attrs.get("kernel", ())
    family = _by_rank(layer.op, len(kernel) or len(layer["x"].shape) - 2)
    return Place(family, _logs(flops, nbytes), (KERNEL_WEIGHT * _log(prod(kernel)),))


def _resize(layer: Layer, flops: float, nbytes: float) -> Place:
    return Place(_by_rank(layer.op, len(layer["x"].shape) - 2), _logs(flops, nbytes))


def _recurrent(layer: Layer, flops: float, nbytes: float) -> Place:
    # Every layer and direction multiplies the rows of one position after another.
    x, rows = layer["x"], layer["h0"].shape[-2]
    stacked = layer.attrs.get("layers", 1) * (1 + layer.attrs.get("bidirectional", False))
    return Place(layer.op, _logs(flops, nbytes), _logs(x.size / x.shape[-1] / rows * stacked, rows))


def _matrices(rows: float, columns: float, depth: float, count: float) -> Place:
    is_vector = APART * (rows == 1 or columns == 1)  # libraries have other kernels for products with a vector
    return Place("linear" if count == 1 else "matmul", (*_logs(rows, columns, depth, count), is_vector))


def _linear(layer: Layer, *_: float) -> Place:
    x, w = layer["x"].shape, layer["w"].shape
    return _matrices(prod(x[:-1]), prod(w[:-1]), w[-1], 1)


def _matmul(layer: Layer, *_: float) -> Place:
    a, b = layer["x0"].shape, layer["x1"].shape
    depth, columns = a[-1], b[-1] if len(b) > 1 else 1
    is_shared = len(b) <= 2  # one matrix for all items of a batch, as in a linear layer
    rows = prod(a[:-1]) if is_shared else a[-2] if len(a) > 1 else 1
    return _matrices(rows, columns, depth, 1 if is_shared else prod(layer.out.shape[:-2]))


def _attention(layer: Layer, *_: float) -> Place:
    q, k = layer["q"].shape, layer["k"].shape
    masks = APART / 2 * bool(layer.attrs.get("causal")), APART / 2 * ("mask" in layer)
    return Place("attention", (*_logs(q[-2], k[-2], q[-1], prod(q[:-2])), *masks))


def _multi_head_attention(layer: Layer, *_: float) -> Place:
    q = layer["q"].shape
    return Place(layer.op, _logs(prod(q[:-2]), q[-2], q[-1]))


def _rows(layer: Layer, *_: float) -> Place:
    # Half of the row length: it matters less than the number of elements.
    x = layer["x"]
    axis = layer.attrs.get("axis")
    if axis is None:
        return Place(layer.op, (_log(x.size), 0.0))
    axes = axis if isinstance(axis, tuple) else (axis,)
    row = prod(x.shape[each] for each in axes)
    return Place(layer.op, (_log(x.size), _log(row) / 2))


_REDUCTIONS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "reduce_mean", "reduce_sum", "reduce_max", "argmax")

_PLACES: Mapping[str, tuple[Callable[[Layer, float, float], Place], tuple[str, ...]]] = {
    "conv": (_conv, ("x", "w")),
    "conv_transpose": (_conv_transpose, ("x", "w")),
    "conv_backward": (_conv_backward, ("w",)),
    "max_pool": (_window, ("x",)),
    "avg_pool": (_window, ("x",)),
    "resize": (_resize, ("x",)),
    **dict.fromkeys(RECURRENT, (_recurrent, ("x", "h0"))),
    "linear": (_linear, ("x", "w")),
    "matmul": (_matmul, ("x0", "x1")),
    "attention": (_attention, ("q", "k")),
    "multi_head_attention": (_multi_head_attention, ("q",)),
    **dict.fromkeys(_REDUCTIONS, (_rows, ("x",))),
}
"""Operators with a time that depends on more than size: a function for their place, and the operands it needs."""


# Waves: products divided among the units of a GPU.
#
# A kernel computes the result in tiles, one tile per unit at a time. The last wave of tiles may leave most units idle,
# and tiles at the edge compute what is not needed.


TILE = 64
"""Rows and columns of the smallest tile that libraries use: the waves of larger ones, of several such, last as long or
longer."""


DEPTH = 32
"""The depth of a product is padded to a multiple of this."""


class Product(NamedTuple):
    """Products of ``batch`` matrices of ``rows x depth`` with as many of ``depth x columns``."""

    rows: int
    columns: int
    depth: int
    batch: int = 1


def wave_seconds(product: Product, units: int, peak: float) -> float:
    """Return the time of a product.

    Args:
        product: the product.
        units: number of units, such as the multiprocessors of an NVIDIA GPU.
        peak: FLOP/s of all units together, with two for a multiply-add.
    """
    tiles = ceil(product.rows / TILE) * ceil(product.columns / TILE) * product.batch
    waves = ceil(tiles / units)
    return waves * 2 * TILE * TILE * ceil(product.depth / DEPTH) * DEPTH / (peak / units)
