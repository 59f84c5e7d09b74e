"""Calibrations: measured points of a device, and the interpolated time of other calls.

Points come from a sweep, which times chains of operators of many sizes on the device, or from profiler traces.
The time is ``t = (t0 + t_sol) / e``. ``t0`` is the minimum time of a call; ``t_sol = max(flops / peak, bytes /
bandwidth)`` uses the best rates of the sweep; ``e`` is the efficiency, interpolated from the nearest points of the same
family. The error of an estimate comes from cross-validation and grows with the distance to the nearest point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import islice, pairwise
from math import ceil, dist, exp, fsum, log, log2, prod
from statistics import fmean, median
from typing import NamedTuple, Protocol

from costcore.analyses.devices.device import Device
from costcore.analyses.fusion.traffic import pattern_of
from costcore.errors import CostError
from costcore.ir import Cost, Layer, Operations
from costcore.trace.call import Call

# Families of kernels, and the coordinates of a call in its family.
#
# Calls of one family run the same kind of kernel, so the efficiency of one predicts the efficiency of another with a
# similar shape. Coordinates are base-2 logarithms of sizes: a distance of 1 is a factor of 2. :func:`signature_of`
# returns both. For products on a GPU, the waves of tiles count, too.

KINDS = ("product", "special", "arithmetic", "move", "free", "opaque")
"""Kinds of families. A family without points gets the efficiency of its kind. If that kind is ``opaque``, the error is
unknown: the time of ``sort`` says nothing about other operators."""


APART = 2.0
"""The distance between calls that differ in a property that selects another kernel, such as a strided operand."""

KERNEL_WEIGHT = 0.75
"""The distance between convolutions if the number of kernel elements differs by a factor of 2."""

GROUPS_WEIGHT = 0.5
"""The distance between convolutions if the number of groups differs by a factor of 2."""

FEW = 20480
"""The maximum elements of a single sample for which PyTorch uses its own convolution kernel on a CPU."""

SMALL_KERNEL = 3
"""The maximum kernel size of such a convolution."""

RECURRENT = ("lstm", "gru", "rnn")
"""Families of recurrent layers and cells."""

N_RECURRENT = 6
"""The number of coordinates of recurrent families; files of format 1 have fewer."""

Axes = tuple[float, ...]


class Place(NamedTuple):
    """The family and coordinates of a call.

    Attributes:
        family: the name of the family.
        axes: the coordinates within the family.
        later: coordinates that files of format 1 do not have.
    """

    family: str
    axes: Axes
    later: Axes = ()


class OpSignature(NamedTuple):
    """The signature of a call in a calibration.

    Attributes:
        family: the name of the family, ``conv 1x1`` or ``gelu``.
        kind: one of :data:`KINDS`.
        axes: the coordinates within the family. Points of older files may lack the last ones.
        flops: operations; a fused multiply-add is two.
        nbytes: bytes read and written.
        dtype: the compute dtype; empty if all points of the calibration have one dtype.
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
        """The coordinates common to all families: operations and bytes."""
        return _log(self.flops), _log(self.nbytes)


def signature_of(call: Call, cost: Cost) -> OpSignature:
    """Return the signature of a call.

    Raises:
        CostError: if its sizes are symbolic.
    """
    layer = call.layer
    operations = cost.flops
    flops = operations.flops(fma_1flop=False) if isinstance(operations, Operations) else operations
    try:
        amounts = float(flops), float(cost.mread + cost.mwrite)
        place = _place_of(layer, *amounts)
    except TypeError as error:  # sympy cannot convert an expression with symbols
        raise CostError(f"{call.name}: time needs numeric sizes; substitute values first: report.subs(…)") from error
    flags = (APART * bool(call.strided), APART * _is_in_place(call))
    return OpSignature(place.family, _kind_of(layer, cost, *amounts), (*place.axes, *flags, *place.later), *amounts)


def product_of(signature: OpSignature) -> Product | None:
    """Return the matrix product of a call; None for other calls, and for unknown products."""
    sizes = [2**each for each in signature.axes]
    family = signature.family.removesuffix(" 1d").removesuffix(" 3d")
    if family in ("linear", "matmul"):
        rows, columns, depth, count = sizes[:4]
    elif family in ("conv 1x1", "conv kxk", "grouped conv"):
        rows, columns, channels, kernel, groups = sizes[:5]
        depth, count = channels * kernel ** (1 / KERNEL_WEIGHT), groups ** (1 / GROUPS_WEIGHT)
    else:
        return None
    return Product(round(rows), round(columns), round(depth), round(count))


def steps_of(signature: OpSignature) -> float:
    """Return the number of sequential steps of a call; each takes at least the minimum time of a call."""
    is_recurrent = signature.family in RECURRENT and len(signature.axes) == N_RECURRENT
    return 2 ** signature.axes[-2] if is_recurrent else 1.0


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
    # An in-place call allocates no memory for its result.
    n = len(call.inputs)
    return not {*call.storages[:n]}.isdisjoint(call.storages[n:])


def _log(size: float) -> float:
    return log2(max(1.0, float(size)))


def _logs(*sizes: float) -> Axes:
    return tuple(map(_log, sizes))


def _by_rank(name: str, rank: int) -> str:
    # Libraries have different kernels for each number of spatial axes.
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
    # Each layer and direction multiplies the rows of one time step after another.
    x, rows = layer["x"], layer["h0"].shape[-2]
    stacked = layer.attrs.get("layers", 1) * (1 + layer.attrs.get("bidirectional", False))
    return Place(layer.op, _logs(flops, nbytes), _logs(x.size / x.shape[-1] / rows * stacked, rows))


def _matrices(rows: float, columns: float, depth: float, count: float) -> Place:
    is_vector = APART * (rows == 1 or columns == 1)  # libraries have different kernels for products with a vector
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
    # The row length has half weight, because it matters less than the number of elements.
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
"""The place functions of operators whose time also depends on shapes, each with the operands that it needs."""


# Waves: tiles of a product on the multiprocessors (units) of a GPU.
#
# A kernel computes the result in tiles, one tile per unit at a time. The last wave of tiles may leave most units idle,
# and tiles at the edge compute elements that are not needed.


TILE = 64
"""Rows and columns of the smallest tile of libraries. Larger tiles are multiples of it, so their waves take at least as
long."""


DEPTH = 32
"""The depth of a product is padded to a multiple of this."""


class Product(NamedTuple):
    """A batch of matrix products, ``[batch, rows, depth] @ [batch, depth, columns]``."""

    rows: int
    columns: int
    depth: int
    batch: int = 1


def wave_seconds(product: Product, units: int, peak: float) -> float:
    """Return the time of a product.

    Args:
        product: the product.
        units: the number of units, such as multiprocessors of an NVIDIA GPU.
        peak: FLOP/s of all units together; a multiply-add is two FLOPs.
    """
    tiles = ceil(product.rows / TILE) * ceil(product.columns / TILE) * product.batch
    waves = ceil(tiles / units)
    return waves * 2 * TILE * TILE * ceil(product.depth / DEPTH) * DEPTH / (peak / units)


# Interpolation of efficiencies between measured points.


NEIGHBORS = 4
"""The number of points from which an efficiency is interpolated."""

FAR = 4.0
"""The distance to the nearest point above which a call is far from the sweep: a factor of 16 in one size."""

SOFTENING = 0.05
"""The constant added to squared distances, so that a point at distance 0 does not outweigh all other points."""

PULL = 0.25
"""The weight of the curve of a family in the interpolation, equal to that of a point at distance 2."""


class Error(NamedTuple):
    """The relative error of estimates, 0.1 for ± 10 %.

    Attributes:
        mean: the mean error of a call.
        most: the 90th percentile of the errors.
    """

    mean: float
    most: float

    def towards(self, other: Error, part: float) -> Error:
        """Linearly interpolate between two errors."""
        return Error(*(a + part * (b - a) for a, b in zip(self, other, strict=True)))


Growth = tuple[tuple[float, Error], ...]
"""Pairs of a distance and the error of estimates without a point nearer than this distance; errors never decrease."""


class Errors(NamedTuple):
    """The errors of a calibration.

    Attributes:
        families: the errors of a family by its key, which includes the dtype if points have several dtypes.
        kinds: the error of a family without points by its kind; all its calls err with the same sign. Some kinds may be
            missing.
    """

    families: Mapping[str, Growth]
    kinds: Mapping[str, float]

    def of(self, signature: OpSignature, distance: float | None) -> Error | None:
        """Return the error of an estimate; None if it is unknown.

        Args:
            signature: the call.
            distance: the distance of the nearest point of its family; None if the family has no points.
        """
        if distance is None:
            whole = self.kinds.get(signature.kind)
            return None if whole is None else Error(whole, whole)
        growth = self.families[signature.key]
        for (near, error), (far, larger) in pairwise(growth):
            if distance < far:
                return error.towards(larger, (distance - near) / (far - near))
        return growth[-1][1] if growth and distance <= growth[-1][0] else None


class Point(NamedTuple):
    """A measured call.

    Attributes:
        signature: its family and coordinates.
        seconds: its time.
    """

    signature: OpSignature
    seconds: float


class Rates(NamedTuple):
    """The best rates of a sweep.

    Attributes:
        overhead: the minimum time of a call in seconds.
        peak: FLOPs per second.
        bandwidth: bytes per second.
        units: multiprocessors of a GPU, which divide a product into tiles; 0 for other devices.
    """

    overhead: float
    peak: float
    bandwidth: float
    units: int = 0

    @classmethod
    def of(cls, points: Iterable[Point], units: int = 0) -> Rates:
        """Return the best rates of all points."""
        used = [point for point in points if point.signature.kind != "free"]
        return cls(
            min(point.seconds for point in used),
            max(point.signature.flops / point.seconds for point in used),
            max(point.signature.nbytes / point.seconds for point in used),
            units,
        )

    def ideal(self, signature: OpSignature) -> float:
        """Return the seconds of a call at the best rates: ``t_sol`` plus ``t0`` for each of its steps."""
        product = product_of(signature) if self.units else None
        work = signature.flops / self.peak if product is None else wave_seconds(product, self.units, self.peak)
        return self.overhead * steps_of(signature) + max(work, signature.nbytes / self.bandwidth)


class Estimate(NamedTuple):
    """The estimated time of a call.

    Attributes:
        seconds: the time.
        error: the relative error of such estimates in this calibration; None if unknown.
        distance: the distance of the nearest point of its family; None if the family has no points, so points of its
            kind are used.
    """

    seconds: float
    error: Error | None
    distance: float | None


class Ideal(Protocol):
    """The reference of efficiencies: the best rates of a sweep, or kernel curves."""

    def ideal(self, signature: OpSignature) -> float:
        """Return the seconds of a call at an efficiency of 1."""


Efficiencies = dict[str, list[tuple[Axes, float]]]
"""Coordinates and log efficiency of points, by family or kind."""

Neighbors = Sequence[tuple[float, float]]
"""Distance and log efficiency of points, nearest first."""


class Interpolation:
    """Interpolates efficiencies within a family, or within a kind for families without points.

    Args:
        points: the measured calls.
        rates: their best rates, or kernel curves.
    """

    def __init__(self, points: Iterable[Point], rates: Ideal) -> None:
        self._is_of_rates = isinstance(rates, Rates)
        self._rates = rates
        self._families: dict[str, dict[str, list[tuple[Axes, float]]]] = {}
        self._kinds: Efficiencies = {}
        for signature, seconds in points:
            log_efficiency = log(rates.ideal(signature) / seconds)
            self._families.setdefault(signature.family, {}).setdefault(signature.dtype, []).append(
                (signature.axes, log_efficiency)
            )
            self._kinds.setdefault(_pool_of(signature), []).append((signature.size, log_efficiency))

    def dtype_of(self, signature: OpSignature) -> str | None:
        """Return the dtype of the points for a call: its own dtype or, except for a product, another dtype."""
        dtypes = self._families.get(signature.family, {})
        if signature.dtype in dtypes:
            return signature.dtype
        return next(iter(dtypes), None) if signature.kind != "product" else None

    def seconds(self, signature: OpSignature) -> tuple[float, float | None]:
        """Return the time of a call, and the distance of the nearest point of its family (None without points)."""
        dtype = self.dtype_of(signature)
        if dtype is None and not self._is_of_rates:
            return self._rates.ideal(signature), None
        if dtype is None:
            kinds = self._kinds
            points = kinds.get(_pool_of(signature)) or [each for some in kinds.values() for each in some]
            return self._rates.ideal(signature) / exp(mean_of(nearest_of(points, signature.size))), None
        points = self._families[signature.family][dtype]
        known = len(points[0][0])
        if known > len(signature.axes):
            raise CostError(
                f"the points of {signature.family!r} in the calibration have {known} coordinates, "
                f"not {len(signature.axes)}. Calibrate the device again."
            )
        comparable = signature._replace(axes=signature.axes[:known])
        nearest = nearest_of(points, comparable.axes)
        apart = 0.0 if dtype == signature.dtype else APART
        log_efficiency = mean_of(nearest, 0.0 if self._is_of_rates else PULL)
        return self._rates.ideal(comparable) / exp(log_efficiency), nearest[0][0] + apart


def _pool_of(signature: OpSignature) -> str:
    # Products are estimated from products of the same dtype, other calls from any dtype.
    return f"{signature.kind} {signature.dtype}".strip() if signature.kind == "product" else signature.kind


def nearest_of(points: Sequence[tuple[Axes, float]], axes: Axes) -> Neighbors:
    """Return the points nearest to ``axes``; a point is a pair of coordinates and log efficiency."""
    return nsmallest(NEIGHBORS, ((dist(each, axes), log_efficiency) for each, log_efficiency in points))


def mean_of(nearest: Neighbors, pull: float = 0.0) -> float:
    """Return the mean log efficiency of the nearest points, weighted by their distance.

    Args:
        nearest: the points.
        pull: the weight of an additional point with efficiency 1.
    """
    weights = [1 / (distance * distance + SOFTENING) for distance, _ in nearest]
    return sum(w * each for w, (_, each) in zip(weights, nearest, strict=True)) / (sum(weights) + pull)


class Calibration:
    """The measured sweep of a device, which estimates other calls.

    Args:
        points: the measured calls. Points of several dtypes have a dtype in their signature.
        errors: the relative errors by family and kind.
        units: multiprocessors of a GPU; 0 for other devices.
        dtype: the dtype of points without a dtype.
        curves: kernel curves, for a calibration from traces. Then a call without a kernel takes no time.
    """

    points: tuple[Point, ...]
    dtype: str
    rates: Rates

    def __init__(
        self,
        points: Sequence[Point],
        errors: Errors,
        units: int = 0,
        dtype: str = "",
        curves: Ideal | None = None,
    ) -> None:
        self.points = tuple(points)
        self.dtype, self._curves = dtype, curves
        self.errors = errors
        self.rates = Rates.of(points, units)
        self._seen: dict[OpSignature, Estimate] = {}

    @cached_property
    def _interpolation(self) -> Interpolation:
        return Interpolation(self.points, self._curves or self.rates)

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The dtypes of measured products; if there are none, of all measured calls."""
        of_products = {
            point.signature.dtype or self.dtype for point in self.points if point.signature.kind == "product"
        }
        return frozenset(of_products or {point.signature.dtype or self.dtype for point in self.points})

    def estimate(self, signature: OpSignature) -> Estimate:
        """Return the estimated time of a call."""
        found = self._seen.get(signature)
        if found is None:
            found = self._seen[signature] = self._estimate(signature)
        return found

    def _estimate(self, signature: OpSignature) -> Estimate:
        if self._curves is not None and signature.kind == "free":
            return Estimate(0.0, Error(0.0, 0.0), 0.0)
        if signature.dtype == self.dtype:
            signature = signature._replace(dtype="")
        seconds, distance = self._interpolation.seconds(signature)
        known = signature._replace(dtype=self._interpolation.dtype_of(signature) or "")
        return Estimate(seconds, self.errors.of(known, distance), distance)


# Errors by cross-validation.
#
# Each point is estimated from the points of its family that have at least some distance, for every distance in
# :data:`DISTANCES`. Distance 0 allows all points except those measured right before or after it. This gives the error
# as a function of the distance from the sweep. To find the error of a family without points, each family is estimated
# from the other families of its kind.


DISTANCES = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
"""The minimum distances of the nearest point at which errors are measured."""

MOST_LEFT_OUT = 100
"""The maximum number of points per family that are left out, one at a time."""

BESIDE = 3
"""The number of points before and after a point that are left out with it: they may be of the same chain."""

MOST_OF_FAMILY = 20
"""The number of points that represent a family that is left out as a whole."""

FEWEST = 8
"""The minimum number of points for an error; with fewer, the error is at least the error of all families."""

FEWEST_FAMILIES = 5
"""The minimum number of families for the error of a kind; with fewer, families of all kinds are used."""


def left_out_errors(points: Sequence[Point], rates: Rates) -> Errors:
    """Return the relative errors by family and kind.

    Args:
        points: the measured calls.
        rates: their best rates.
    """
    families: dict[str, list[Point]] = {}
    for point in points:
        families.setdefault(point.signature.key, []).append(point)
    misses = {family: _errors_by_distance(each, rates) for family, each in families.items()}
    common = [[miss for each in misses.values() for miss in each[i]] for i in range(len(DISTANCES))]
    of_all = growth_of(common, ())
    growths = {family: growth_of(each, of_all) for family, each in sorted(misses.items())}
    return Errors(growths, _left_out_errors_of_kinds(families, rates))


def _errors_by_distance(family: Sequence[Point], rates: Rates) -> list[list[float]]:
    efficiencies = [(point.signature.axes, log(rates.ideal(point.signature) / point.seconds)) for point in family]
    found: list[list[float]] = [[] for _ in DISTANCES]
    for i in range(0, len(family), -(-len(family) // MOST_LEFT_OUT)):
        axes, log_efficiency = efficiencies[i]
        for misses, estimated in zip(found, _estimates_by_distance(axes, efficiencies, i), strict=False):
            misses.append(abs(exp(estimated - log_efficiency) - 1))  # relative to the estimated time
    return found


def _estimates_by_distance(axes: Axes, efficiencies: Sequence[tuple[Axes, float]], i: int) -> Iterator[float]:
    # A call far outside the sweep has all points on one side, so only points beyond the nearest one are used.
    others = (each for j, each in enumerate(efficiencies) if abs(i - j) > BESIDE)
    ordered = sorted((dist(other, axes), log_efficiency, other) for other, log_efficiency in others)
    start = 0
    for distance in DISTANCES:
        while start < len(ordered) and ordered[start][0] < distance:
            start += 1
        if start == len(ordered):
            return
        nearest = ordered[start][2]
        beyond = (each for each in ordered[start:] if distance == 0 or dist(each[2], nearest) <= each[0])
        yield mean_of([(away, log_efficiency) for away, log_efficiency, _ in islice(beyond, NEIGHBORS)])


def growth_of(misses: Iterable[Sequence[float]], of_all: Growth) -> Growth:
    """Return the errors by distance, up to the largest distance with a known error.

    Errors from few points, or none, are at least the errors of all families.
    """
    found: list[tuple[float, Error]] = []
    least = Error(0.0, 0.0)
    for i, (distance, each) in enumerate(zip(DISTANCES, misses, strict=True)):
        if len(each) < FEWEST:
            if i >= len(of_all):
                break
            least = _larger(least, of_all[i][1])
        if each:
            least = _larger(least, Error(fmean(each), sorted(each)[int(0.9 * len(each))]))
        found.append((distance, least))
    return tuple(found)


def _larger(a: Error, b: Error) -> Error:
    return Error(max(a.mean, b.mean), max(a.most, b.most))


def _left_out_errors_of_kinds(families: Mapping[str, Sequence[Point]], rates: Rates) -> dict[str, float]:
    # Opaque families have nothing in common; see :data:`KINDS`.
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS if kind != "opaque"}
    efficiencies = {
        family: [(point.signature.size, log(rates.ideal(point.signature) / point.seconds)) for point in members]
        for family, members in families.items()
    }
    for family, members in families.items():
        kind = members[0].signature.kind
        others = [
            each
            for other, found in efficiencies.items()
            if other != family
            and families[other][0].signature.kind == kind
            and (kind != "product" or families[other][0].signature.dtype == members[0].signature.dtype)
            for each in found
        ]
        if others and kind in errors:
            some = members[:: -(-len(members) // MOST_OF_FAMILY)]
            ideal = (
                (rates.ideal(point.signature), mean_of(nearest_of(others, point.signature.size))) for point in some
            )
            estimated = fsum(seconds / exp(log_efficiency) for seconds, log_efficiency in ideal)
            errors[kind].append(abs(fsum(point.seconds for point in some) / estimated - 1))
    return _largest_by_kind(errors)


def _largest_by_kind(errors: Mapping[str, Sequence[float]]) -> dict[str, float]:
    of_all = [error for each in errors.values() for error in each]
    return {kind: max(each if len(each) >= FEWEST_FAMILIES else of_all) for kind, each in errors.items() if of_all}


# Kernel curves: extrapolation from a few traces.
#
# A few traces measure a family at a few sizes. Small kernels determine the start-up time; large kernels determine the
# reached share of peak or bandwidth. So each family has a curve ``t = start + work / part``, with a prior for both
# parameters. Near measured points, their deviation from the curve is interpolated.


class Curve(NamedTuple):
    """The time of the kernels of a family.

    Attributes:
        start: the seconds of a kernel without work.
        part: the share of the published rates that large kernels reach.
    """

    start: float
    part: float

    def seconds(self, work: float) -> float:
        """Return the seconds of a kernel; ``work`` is its time at the published rates."""
        return self.start + work / self.part


USUAL: Mapping[str, Curve] = {
    "product": Curve(5e-6, 0.5),
    **dict.fromkeys(("special", "arithmetic", "move", "free"), Curve(2.5e-6, 0.6)),
    "opaque": Curve(2.5e-6, 0.3),
}
"""The prior of curves, by kind."""


SPREAD_OF_START, SPREAD_OF_PART, SPREAD = 1.0, 0.5, 0.4
"""Standard deviations of natural logarithms: of start and part in the prior, and of points from their curve."""


STEPS = (0.8, 0.4, 0.2, 0.1, 0.05)
"""The step sizes of the curve search, in natural logarithms."""

MOST_POINTS = 60
"""The maximum number of points of a family to which its curve is fitted."""


class Curves:
    """The curves of the families of a device.

    Args:
        points: the measured calls.
        device: the device with its published rates.
    """

    def __init__(self, points: Iterable[Point], device: Device) -> None:
        self._device = device
        self._families: dict[str, list[Point]] = {}
        for point in points:
            self._families.setdefault(point.signature.family, []).append(point)
        self._curves: dict[str, Curve] = {}

    def ideal(self, signature: OpSignature) -> float:
        """Return the seconds of a call on the curve of its family, or on the median curve of its kind."""
        curve = self._of(signature.family) if signature.family in self._families else self.of_kind(signature.kind)
        return curve.seconds(self.work(signature))

    def of_kind(self, kind: str, without: str = "") -> Curve:
        """Return the median curve of a kind, leaving one family out; a default if there is none."""
        of_kind = (
            name for name, points in self._families.items() if points[0].signature.kind == kind and name != without
        )
        found = [self._of(name) for name in of_kind]
        if not found:
            return USUAL[kind]
        return Curve(median(each.start for each in found), median(each.part for each in found))

    def work(self, signature: OpSignature) -> float:
        """Return the seconds that the operations or the bytes of a call take at the published rates."""
        rate_of = self._device.matrix_rate if signature.kind == "product" else self._device.vector_rate
        rate = rate_of(signature.dtype) if signature.dtype else None
        bandwidth = self._device.memory.dram_gbs
        return max(signature.flops / rate if rate else 0.0, signature.nbytes / (1e9 * bandwidth) if bandwidth else 0.0)

    def _of(self, family: str) -> Curve:
        if family not in self._curves:
            points = self._families[family]
            some = points[:: -(-len(points) // MOST_POINTS)]
            known = [(self.work(point.signature), log(point.seconds)) for point in some]
            self._curves[family] = _likeliest_curve(known, USUAL[points[0].signature.kind])
        return self._curves[family]


def _likeliest_curve(points: Sequence[tuple[float, float]], usual: Curve) -> Curve:
    # ``usual`` is the prior.
    def misfit(start: float, part: float) -> float:
        curve = Curve(usual.start * exp(start), usual.part * exp(part))
        misses = (abs(seconds - log(curve.seconds(work))) / SPREAD for work, seconds in points)
        squares = (miss * miss if miss < 2 else 4 * miss - 4 for miss in misses)  # Huber loss: robust to outliers
        return (start / SPREAD_OF_START) ** 2 + (part / SPREAD_OF_PART) ** 2 + fsum(squares)

    start, part = 0.0, 0.0
    least = misfit(start, part)
    for step in STEPS:
        is_better = True
        while is_better:
            beside = ((start + a * step, part + b * step) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
            lower, *best = min((misfit(*each), *each) for each in beside)
            is_better = lower < least
            if is_better:
                least, (start, part) = lower, best
    return Curve(usual.start * exp(start), usual.part * exp(part))


def errors_of_runs(points: Sequence[Point], sources: Sequence[int], device: Device) -> Errors:
    """Return the relative errors by family and kind, with each run estimated from the other runs.

    The error of a point counts for all distances up to its nearest point, because nearer points give smaller errors.

    Args:
        points: the measured calls.
        sources: the run in which each point was measured.
        device: the device, with its published rates.
    """
    misses: dict[str, list[list[float]]] = {point.signature.key: [[] for _ in DISTANCES] for point in points}
    for run in sorted({*sources}):
        others = [point for point, source in zip(points, sources, strict=True) if source != run]
        known = Interpolation(others, Curves(others, device))
        for point, source in zip(points, sources, strict=True):
            seconds, nearest = known.seconds(point.signature) if source == run and others else (0.0, None)
            if nearest is not None:
                for distance, each in zip(DISTANCES, misses[point.signature.key], strict=True):
                    if distance <= nearest:
                        each.append(abs(point.seconds / seconds - 1))
    of_all = growth_of([[miss for each in misses.values() for miss in each[i]] for i in range(len(DISTANCES))], ())
    growths: dict[str, Growth] = {family: growth_of(each, of_all) for family, each in sorted(misses.items())}
    return Errors(growths, _curve_errors_of_kinds(points, Curves(points, device)))


def _curve_errors_of_kinds(points: Iterable[Point], curves: Curves) -> dict[str, float]:
    families: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        families.setdefault((point.signature.kind, point.signature.family), []).append(point)
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS if kind != "opaque"}
    for (kind, family), members in families.items():
        if kind in errors:
            curve = curves.of_kind(kind, without=family)
            estimated = fsum(curve.seconds(curves.work(point.signature)) for point in members)
            errors[kind].append(abs(fsum(point.seconds for point in members) / estimated - 1))
    return _largest_by_kind(errors)
