"""The minimum time of a group of calls on a device, whatever kernel computes it.

::

    bound = max(seconds of each engine,
                max over places from which bytes come:
                    (max(0, read - C) + max(0, written - C)) / bandwidth of the place)

``C`` is the capacity nearer to the engines: up to ``C`` bytes of the reads can already be there, and up to ``C`` bytes
of the writes can stay there. Operations run at the highest clock on all units; engines and memory work in parallel.

The observed bound is larger, and less certain: of 36,983 calls on six devices, in 22 public traces, none ran faster::

    max(bound, 0.9 * shortest kernel that was seen on the device, max(0, read + written - C) / bandwidth of main memory)

A kernel whose reads and writes all stay in the cache may be faster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import fsum, prod
from typing import Any, NamedTuple

from costcore.analyses.devices.device import REAL_PART, Device
from costcore.analyses.fusion.groups import Group, groups_of
from costcore.ir import BITS, Cost, Layer, Operations
from costcore.ledger.ledger import flops_of
from costcore.numbers import Dim
from costcore.registry import calculators
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace


class Bound(NamedTuple):
    """The minimum time of a group of calls.

    Attributes:
        seconds: the bound.
        binds: the binding resource: ``matrix``, ``vector``, ``special``, ``dram`` or ``cache``, for the observed bound
            also ``kernel``; empty if the bound is 0.
        by: the minimum seconds of each resource.
    """

    seconds: float
    binds: str
    by: Mapping[str, float]


LEAST = "least"

OBSERVED = "observed"

BOUNDS = (LEAST, OBSERVED)
"""The kinds of bounds: by the limits of the device, or also by the shortest kernel seen on it."""

KERNEL = "kernel"
"""The binding resource if the shortest kernel gives the bound."""

MARGIN = 0.9
"""The minimum time of a kernel, as a share of the shortest kernel seen: clocks differ."""


def bound_of(work: Work, read: float, written: float, device: Device, is_observed: bool = False) -> Bound:
    """Return the minimum time of one execution of a group.

    Args:
        work: the sum of the work of its calls.
        read: bytes that the group reads from outside.
        written: bytes that it writes for others.
        device: the device.
        is_observed: whether the bound is the observed one.
    """
    by = {**work.by_engine(), "dram": 0.0, "cache": 0.0}
    for name, nearer, rate in device.levels():
        moved = max(0.0, read - nearer) + max(0.0, written - nearer)
        if is_observed and name == "dram":
            moved = max(0.0, read + written - nearer)
        by[name] = max(by[name], moved / rate)
    if is_observed and (read or written or any(by.values())):
        by[KERNEL] = MARGIN * 1e-6 * (device.least_kernel_us or 0.0)
    binds = max(by, key=by.__getitem__)
    return Bound(by[binds], binds if by[binds] > 0 else "", by)


# Work: seconds of each engine at the maximum rates.


POLYNOMIAL_SLOTS = 4
"""The minimum operations of a special function on a vector engine: a polynomial, as in fast kernels."""

INDEX_DTYPES = ("bool", "int32", "int64", "uint32", "uint64", "string")
"""The dtypes of masks, indices and lengths. A call with tensors of other dtypes computes in those."""

NOT_MULTIPLIED = ("_scale", "_zero_point")
"""Suffixes of the names of operands that scale a quantized product."""


class Work(NamedTuple):
    """Minimum busy seconds of each pipe, a part of an engine for one kind of operation. Pipes work at the same time.

    Attributes:
        matrix: the matrix engine.
        multiply: multiplications, multiply-adds and divisions of the vector engine.
        add: its additions, which may run beside multiplications or fuse with them.
        compare: its comparisons and selections.
        special: special functions.
    """

    matrix: float = 0.0
    multiply: float = 0.0
    add: float = 0.0
    compare: float = 0.0
    special: float = 0.0

    @classmethod
    def sum(cls, works: Iterable[Work]) -> Work:
        """Return the work of several calls."""
        return cls(*map(sum, zip(cls(), *works, strict=True)))

    def scaled(self, times: float) -> Work:
        """Return the work of this number of executions."""
        return Work(*(seconds * times for seconds in self))

    def by_engine(self) -> dict[str, float]:
        """Return the seconds of the matrix engine, the vector engine and the special functions."""
        return {
            "matrix": self.matrix,
            "vector": max(self.multiply, self.add, self.compare),
            "special": self.special,
        }


def _amounts(layer: Layer, cost: Cost, device: Device) -> Work:
    # Operations, not seconds; ``matrix`` has the multiply-adds.
    needed = fewest_products(layer, device.fast_convolution)
    # For a masked pair, a kernel skips not only the products but all operations, such as the softmax.
    part = 1.0 if layer.op in CONVOLUTIONS else needed
    least = needed_part(layer, cost)
    needed, part = needed * least, part * least
    operations, macs = _operations(cost), _number(cost.macs)
    multiply = max(0.0, _number(operations.fma) + _number(operations.mul) - macs) + _number(operations.div)
    others = (multiply, _number(operations.add), _number(operations.cmp), _number(operations.special))
    return Work(macs * needed, *(part * amount for amount in others))


def needs_of(layer: Layer, cost: Cost, device: Device, tf32: Collection[str] = ()) -> tuple[Work, list[str]]:
    """Return the minimum work of one execution of a layer, and the dtypes that it needs and the device file lacks.

    Args:
        layer: the layer.
        cost: its cost, with numbers.
        device: the device.
        tf32: the operators whose float32 products may be rounded to TF32: ``conv``, ``matmul`` (all others).
    """
    amounts, product, dtype = _amounts(layer, cost, device), product_dtype(layer), arithmetic_dtype(layer)
    vector, special_unit = device.vector_rate(dtype), device.special_rate(dtype)
    engine, product_rate = engine_of_products(layer, device, tf32)
    missing = [product] if amounts.matrix and not (device.matrix_rate(product) or device.vector_rate(product)) else []
    is_arithmetic = amounts.multiply or amounts.add or amounts.compare
    if (is_arithmetic or (amounts.special and not special_unit)) and not device.computes(dtype):
        missing.append(dtype)
    on_matrix = engine == "matrix"
    slots = (vector or 0.0) / 2
    products = _seconds(2 * amounts.matrix, product_rate)
    work = Work(
        matrix=products if on_matrix else 0.0,
        multiply=_seconds(amounts.multiply, slots) + (0.0 if on_matrix else products),
        add=_seconds(amounts.add, slots),
        compare=_seconds(amounts.compare, slots),
        special=_seconds(amounts.special, special_unit + slots / POLYNOMIAL_SLOTS),
    )
    return work, missing


def engine_of_products(layer: Layer, device: Device, tf32: Collection[str] = ()) -> tuple[str, float | None]:
    """Return the faster engine for the products of a layer, ``matrix`` or ``vector``, and its FLOP/s."""
    dtype = product_dtype(layer)
    matrix, vector = device.matrix_rate(dtype, may_round(layer, tf32)), device.vector_rate(dtype)
    return ("vector", vector) if matrix is None or (vector is not None and matrix <= vector) else ("matrix", matrix)


def highest_rate(engine: str, layer: Layer, device: Device, tf32: Collection[str] = ()) -> float:
    """Return the FLOP/s at which an engine can work for a layer; 0 if it is unknown."""
    dtype = arithmetic_dtype(layer)
    vector = device.vector_rate(dtype) or 0.0
    if engine == "special":
        return device.special_rate(dtype) + vector / 2 / POLYNOMIAL_SLOTS
    name, rate = engine_of_products(layer, device, tf32)
    rates = {"matrix": 0.0, "vector": vector}
    return max(rates[engine], rate or 0.0) if name == engine else rates[engine]


def _seconds(amount: float, rate: float | None) -> float:
    # An unknown rate does not bind.
    return amount / rate if rate else 0.0


def _operations(cost: Cost) -> Operations:
    flops = cost.flops
    if isinstance(flops, Operations):
        return flops
    # A calculator that returned a number may have counted a multiply-add as two FLOPs. So at least half of the FLOPs
    # besides MACs are operations.
    return Operations(fma=max(0, flops - cost.macs) // 2 + cost.macs)


def _number(value: Dim) -> float:
    return float(value)


def may_round(layer: Layer, tf32: Collection[str]) -> bool:
    """Return whether the float32 products of a layer may be rounded to TF32."""
    return ("conv" if layer.op in CONVOLUTIONS else "matmul") in tf32


def product_dtype(layer: Layer) -> str:
    """Return the narrowest dtype among the operands that a layer multiplies, without masks, indices and scales."""
    named = (name for name in layer.inputs if not name.endswith(NOT_MULTIPLIED) and not name.startswith(("b", "mask")))
    return _narrowest(layer.inputs[name].dtype for name in named)


def arithmetic_dtype(layer: Layer) -> str:
    """Return the narrowest dtype of the tensors of a layer, without masks and indices unless there are no others."""
    tensors = (*layer.inputs.values(), *layer.outputs)
    return _narrowest(tensor.dtype for tensor in tensors if not tensor.is_scalar)


def _narrowest(dtypes: Iterable[str]) -> str:
    found = [REAL_PART.get(dtype, dtype) for dtype in dtypes]
    computed = [dtype for dtype in found if dtype not in INDEX_DTYPES] or [dtype for dtype in found if BITS[dtype]]
    return min(computed, key=BITS.__getitem__, default="float32")


# Groups of calls with their bounds.


Needs = tuple[Work, frozenset[str]]
"""The work of a call, and the figures that it needs but the device file lacks."""

MEMORY = "memory"
"""The missing figure of a group if the bandwidth of main memory is unknown."""


class GroupTime:
    """A group of calls on a device.

    Args:
        group: positions of its calls, and the bytes of one execution.
        records: its calls, each with its cost.
        work: the work of each call, and the figures for it that the device file lacks.
        least_read: bytes that one execution must read, see :func:`costcore.analyses.timing.bound.least_reads`.
        device: the device.
        is_observed: whether the bound is the observed one.

    Attributes:
        calls: its calls.
        read, written: bytes of all executions.
        times: how often it runs.
        bound: the minimum time of one execution, the binding resource, and the minimum time of each resource.
        missing: the figures that it needs and the device file lacks, which the bound does not include: dtypes in which
            it computes, and :data:`MEMORY`.
        seconds: the calibrated time of all executions; None if the device was never calibrated.
    """

    records: tuple[CallCost, ...]
    times: int
    read: int
    written: int
    work: tuple[Work, ...]
    missing: frozenset[str]

    def __init__(
        self,
        group: Group,
        records: Sequence[CallCost],
        work: Sequence[Needs],
        least_read: int,
        device: Device,
        is_observed: bool = False,
    ) -> None:
        self.records = tuple(records)
        self.calls: tuple[Call, ...] = tuple(record.call for record in records)
        self.times = int(group.times)
        self.read, self.written = int(group.read) * self.times, int(group.written) * self.times
        self.work = tuple(pipes for pipes, _ in work)
        self.missing = frozenset().union(*(missing for _, missing in work))
        written = float(group.written - group.copied)
        self.bound: Bound = bound_of(Work.sum(self.work), least_read, written, device, is_observed)
        self.seconds: float | None = None

    @property
    def bound_seconds(self) -> float:
        """The minimum time of all executions, in seconds."""
        return self.bound.seconds * self.times

    @property
    def is_bounded(self) -> bool:
        """Whether the bound is meaningful: it is 0 if the device file lacks every figure that the group needs."""
        return self.bound.seconds > 0 or not self.missing

    @property
    def binds(self) -> str:
        """The binding resource: ``matrix``, ``vector``, ``special``, ``dram``, ``cache``; empty if the bound is 0."""
        return self.bound.binds

    @cached_property
    def main(self) -> Call:
        """The call with the most work, by which a group is listed in tables by type; without work, the first."""
        busiest = max(range(len(self.calls)), key=lambda i: max(self.work[i].by_engine().values()))
        return self.calls[busiest]

    @property
    def name(self) -> str:
        """The name of its main call."""
        return self.main.name

    def costs(self) -> Iterator[Cost]:
        """Yield the cost of one execution of each call."""
        for record in self.records:
            if record.cost is not None:
                yield record.cost


def timed(
    trace: Trace, fusion: str, device: Device, tf32: Collection[str], is_observed: bool = False
) -> list[GroupTime]:
    """Return the time of every group of calls, except groups with an uncounted call.

    Args:
        trace: the captured run, with numbers for all sizes.
        fusion: the level of fusion.
        device: the device.
        tf32: the operators whose float32 products may be rounded to TF32.
        is_observed: whether bounds are the observed ones.
    """
    known: dict[tuple[int, int], Needs] = {}
    has_memory = device.memory.dram_gbs is not None or "dram" in device.unbounded

    def work(layer: Layer, cost: Cost) -> Needs:
        key = id(layer), id(cost)
        if key not in known:
            memory = [] if has_memory or not cost.mread + cost.mwrite else [MEMORY]
            made, missing = needs_of(layer, cost, device, tf32)
            known[key] = made, frozenset((*missing, *memory))
        return known[key]

    timed_groups = []
    groups = groups_of(trace, fusion)
    for group, least_read in zip(groups, least_reads(trace, groups, fusion), strict=True):
        records = [trace.records[i] for i in group.calls]
        works = [work(record.call.layer, record.cost) for record in records if record.cost is not None]
        if len(works) == len(records):
            timed_groups.append(GroupTime(group, records, works, least_read, device, is_observed))
    return timed_groups


# Fast algorithms: the minimum number of products.
#
# A formula counts the straightforward algorithm. A kernel may skip the taps of a convolution that fall on padding, and
# the pairs that a causal mask or a window excludes. It may also compute a convolution by Winograd's minimal filtering
# or by a Fourier transform. A bound for every kernel allows for all of these.


WINOGRAD_TILE = 8
"""The largest tile of Winograd's algorithm in libraries: F(6, 3) computes 6 outputs of a kernel of 3 from a tile of 8
(Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv:1509.09308, has F(4, 3); NNPACK and ncnn use
F(6, 3))."""

FOURIER_TILE = 256
"""The largest tile of Fourier transforms (cuDNN's is 32); smaller ones need more products. Every point costs two real
products: half of the points of a real signal are independent, and a complex product has four."""

CONVOLUTIONS = frozenset(
    {"conv", "conv_transpose", "fused_conv", "causal_conv", "conv_backward", "conv_transpose_backward"}
    | {f"{kind}_{op}" for kind in ("quantized", "dynamic_quantized") for op in ("conv", "conv_transpose")}
)
"""Operators that slide one kernel over the positions of an axis."""


class Axis(NamedTuple):
    """One axis of a convolution: ``size`` belongs to its input, ``positions`` to its output.

    In a transposed convolution, input and output are swapped.
    """

    size: int
    kernel: int
    positions: int
    stride: int
    padding: int
    dilation: int


MOST_TAPS = 1 << 18
"""The maximum length of a kernel to examine tap by tap; of a longer one, all products count."""


def fewest_products(layer: Layer, fast_convolution: bool) -> float:
    """Return the share of the products of a layer that every algorithm needs, at most 1.

    Args:
        layer: the layer.
        fast_convolution: whether a convolution may run by Winograd's algorithm or a Fourier transform.
    """
    if layer.op in CONVOLUTIONS:
        axes = _axes(layer)
        part = prod(map(_inside, axes))
        return part / _reduction(axes) if fast_convolution else part
    if layer.attrs.get("causal") or layer.attrs.get("window"):
        return _allowed_pairs(layer)
    return 1.0


def _axes(layer: Layer) -> list[Axis]:
    x, w, y = (layer.get(name) for name in ("x", "w", "dy"))
    w = w or layer.outputs[-1]
    x, y = x or layer.out, y or layer.out
    kernel = _attribute(layer.attrs, "kernel", w.shape[2:])
    rank = len(kernel)
    # A transposed convolution, or a gradient, has the products of the convolution with sides swapped.
    long, short = (y, x) if "transpose" in layer.op else (x, y)
    stride, dilation = (_attribute(layer.attrs, name, (1,) * rank) for name in ("stride", "dilation"))
    padding = _attribute(layer.attrs, "padding", (0,) * rank)
    if not x.ndim == y.ndim >= rank == len(stride) == len(dilation) == len(padding):
        return []
    before = [each[0] if isinstance(each, tuple) and each else each for each in padding]
    if not all(isinstance(each, int) for each in (*kernel, *stride, *dilation, *before)):
        return []  # the report was edited after it was saved
    if any(each < 1 for each in stride) or any(each > MOST_TAPS for each in kernel):
        return []
    sizes, positions = long.shape[x.ndim - rank :], short.shape[x.ndim - rank :]
    return [Axis(*axis) for axis in zip(sizes, kernel, positions, stride, before, dilation, strict=True)]


def _attribute(attrs: Mapping[str, Any], name: str, default: tuple[Any, ...]) -> tuple[Any, ...]:
    value = attrs.get(name, default)
    return value if isinstance(value, tuple) else default


def _inside(axis: Axis) -> float:
    taps = 0
    for tap in range(axis.kernel):
        offset = tap * axis.dilation - axis.padding  # tap reads position * stride + offset
        first = max(0, -(offset // axis.stride))
        last = min(axis.positions - 1, (axis.size - 1 - offset) // axis.stride)
        taps += max(0, last - first + 1)
    return taps / (axis.kernel * axis.positions) if taps else 1.0


def _reduction(axes: list[Axis]) -> float:
    # Winograd and Fourier tiles need a stride of 1.
    if any(axis.stride != 1 for axis in axes):
        return 1.0
    winograd = prod(_outputs_per_point(axis.kernel, WINOGRAD_TILE) for axis in axes)
    fourier = prod(_outputs_per_point(axis.kernel, FOURIER_TILE) for axis in axes) / 2
    return max(1.0, winograd, fourier)


def _outputs_per_point(kernel: int, tile: int) -> float:
    # The definition has k products per output, and a tile of n points has n - k + 1 outputs.
    return kernel * max(tile - kernel + 1, 0) / tile


def _allowed_pairs(layer: Layer) -> float:
    # The mask may be aligned at either end, so the smaller count is taken. Only the axes of ``attention`` and its
    # gradient are known; a causal mask of another operator allows half at least.
    window = layer.attrs.get("window")
    if not layer.op.startswith("attention") or "q" not in layer or "k" not in layer:
        return 0.0 if isinstance(window, tuple) else 0.5
    queries, keys = layer["q"].shape[-2], layer["k"].shape[-2]
    far = keys + queries
    left, right = window if isinstance(window, tuple) and len(window) == 2 else (far, far)
    left = far if left < 0 else left
    right = 0 if layer.attrs.get("causal") else far if right < 0 else right
    pairs = min(_pairs(queries, keys, left, right, shift) for shift in (0, keys - queries))
    return pairs / (queries * keys) if queries and keys else 1.0


def _pairs(queries: int, keys: int, left: int, right: int, shift: int) -> int:
    # The key lies at most ``left`` before and ``right`` after its query.
    ends = _sum_of_clipped(queries, shift + right + 1, keys)
    starts = _sum_of_clipped(queries, shift - left, keys)
    return ends - starts


def _sum_of_clipped(n: int, first: int, most: int) -> int:
    # min(max(x, 0), most) is max(x, 0) - max(x - most, 0); the sum is over x = first + i, i below n.
    def positive(start: int) -> int:
        return _sum_to(start + n - 1) - _sum_to(start - 1)

    return positive(first) - positive(first - most)


def _sum_to(last: int) -> int:
    last = max(last, 0)
    return last * (last + 1) // 2


# Data-dependent operators: formulas that count more than some algorithm needs.
#
# The work of a sort, a decomposition or a search depends on the data or on the algorithm. Its formula is an
# upper bound, or it counts one algorithm among several. A lower bound of time can only count the bytes of such an
# operator.


OTHER_ALGORITHMS = frozenset(("classical_ml", "linalg", "random", "resampling", "signal", "text"))
"""Families whose operators may need fewer operations than their formulas count: a resize can go axis by axis."""

UPPER_BOUNDS = frozenset(
    {
        *("ctc_loss", "ctc_loss_backward", "ctc_loss_with_logits", "ctc_loss_with_logits_backward"),
        *("hierarchical_softmax_loss", "hierarchical_softmax_loss_backward"),
        *("bin_count", "bin_edges", "binned_histogram", "histogram"),
        *("masked_gather", "masked_scatter", "masked_scatter_add", "masked_scatter_backward", "masked_select"),
        *("crop_and_resize", "ps_roi_align", "ps_roi_avg_pool", "roi_align", "roi_avg_pool", "roi_max_pool"),
        *("renorm", "renorm_rows"),
        *("segment_reduce", "segment_reduce_backward"),
        *(
            "argsort",
            "is_in",
            "kth_value",
            "median",
            "mode",
            "non_max_suppression",
            "nonzero",
            "quantile",
            "search_sorted",
            "sort",
            "topk",
            "unique",
        ),
    }
)
"""Operators of other families that may need fewer operations than counted: a radix sort compares nothing, a suppressed
box is not compared again."""

POOLING = "pooling"
"""The family of poolings: overlapping windows may share partial results, and every element takes part at least once."""


def needed_part(layer: Layer, cost: Cost) -> float:
    """Return the share of the operations of a layer that every algorithm needs, judged by its family.

    Args:
        layer: the layer.
        cost: its cost, with numbers.
    """
    family = getattr(calculators().get(layer.op), "__module__", "").removeprefix("costcore.calculators.")
    if family in OTHER_ALGORITHMS or layer.op in UPPER_BOUNDS:
        return 0.0
    if family == POOLING:
        operations = flops_of(cost, True)
        elements = max((tensor.size for tensor in (*layer.inputs.values(), *layer.outputs)), default=0)
        return min(1.0, elements / operations) if operations else 1.0
    return 1.0


# Bytes that groups must read.


def least_reads(trace: Trace, groups: Sequence[Group], fusion: str) -> list[int]:
    """Return the bytes that one execution of each group must read from outside.

    A lookup counts every row that it reads, but needs no more than its table. A single call counts every operand, but a
    value that is several operands (``x * x``) comes from memory once. Fused groups already count it once, except for
    the repeated reads of a compiler.

    Args:
        trace: the run, with numbers for all sizes.
        groups: its groups.
        fusion: the level of fusion.
    """
    excess = [*_beyond_operands(trace)]
    if fusion == "none":
        for position, nbytes in _repeated(trace):
            excess[position] += nbytes
    return [max(0, int(group.read - group.read_again) - sum(excess[i] for i in group.calls)) for group in groups]


def _beyond_operands(trace: Trace) -> Iterator[int]:
    # A lookup counts every row that it reads, maybe more than its table.
    sizes: dict[int, int] = {}
    for call, cost, *_ in trace.records:
        key = id(call.layer)
        if key not in sizes:
            sizes[key] = sum(int(tensor.nbytes) for tensor in call.layer.inputs.values())
        yield 0 if cost is None else max(0, int(cost.mread) - sizes[key])


def _repeated(trace: Trace) -> Iterator[tuple[int, int]]:
    source: dict[int, int] = {}  # the value that a view is a part of
    sizes: dict[int, int] = {}  # bytes of the values that have views
    for position, (call, cost, *_) in enumerate(trace.records):
        if cost is not None and call.inputs and cost.mread == cost.mwrite == 0:
            value = source.get(call.inputs[0], call.inputs[0])
            sizes.setdefault(value, int(next(iter(call.layer.inputs.values())).nbytes))
            source.update(dict.fromkeys(call.outputs, value))
            continue
        values = [source.get(each, each) for each in call.inputs if each]
        if len(set(values)) < len(values):
            operands = zip(call.inputs, call.layer.inputs.values(), strict=False)
            counted = [(each, int(tensor.nbytes)) for each, tensor in operands if each]
            yield position, sum(nbytes for _, nbytes in counted) - _distinct(counted, source, sizes)


def _distinct(operands: Iterable[tuple[int, int]], source: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    # Different views add up, at most to the whole value.
    views = dict(operands)
    parts: dict[int, int] = {}
    for view, nbytes in views.items():
        value = source.get(view, view)
        parts[value] = parts.get(value, 0) + nbytes
    return sum(min(nbytes, sizes.get(value, nbytes)) for value, nbytes in parts.items())


# Bytes of a whole run that no cache can hold.
#
# A single call may find all that it reads in a cache of ``C`` bytes, but not every call of a run can: when a stretch of
# calls begins, the cache holds at most ``C`` bytes, whatever its policy. Of the distinct bytes
# that the stretch reads and did not write before, all but ``C`` come from memory::
#
#     stretch >= max(sum of the bounds of its calls, (distinct bytes - C) / bandwidth)
#
# Stretches do not overlap, so their times add up, and every division of the run is a lower bound. The run is halved by
# the bytes read, again and again, down to stretches that fit the cache. So first reads count, and so do repeated reads
# with more than ``C`` other bytes between them. Bytes written do not: they may be dead before they leave the cache.


MOST_HALVINGS = 8
"""The maximum number of halvings; each visits all calls once more."""

ROUNDING = 1e-9
"""An upper bound of the relative rounding error of sums of floats."""


class Step(NamedTuple):
    """A call, or a group of fused calls.

    Attributes:
        seconds: the minimum time by itself.
        reads: bytes read of every value, by the identity of the value.
        writes: the identities of the values that it produces.
    """

    seconds: float
    reads: Sequence[tuple[int, int]]
    writes: Sequence[int]


Values = Sequence[tuple[Sequence[tuple[int, int]], Sequence[int]]]
"""For every call the bytes read of every value, and the values produced."""


def least_seconds(trace: Trace, values: Values, groups: Sequence[GroupTime], fusion: str, device: Device) -> float:
    """Return the minimum time of a run by its reads from main memory, at least the sum of its groups.

    Args:
        trace: the run.
        values: its values, as :func:`values_of` returns them.
        groups: its groups, in order of execution.
        fusion: the level of fusion. With fusion, only values that the run does not produce count, because fused calls
            may recompute a value instead of reading it.
        device: the device.
    """
    found = [(nearer, rate) for name, nearer, rate in device.levels() if name == "dram"]
    in_groups = fsum(group.bound_seconds for group in groups)
    if not found:
        return in_groups
    (capacity, rate), *_ = found
    if sum(n for reads, _ in values for _, n in reads) <= capacity:
        return in_groups
    steps = [*(_calls if fusion == "none" else _groups)(trace, values, groups)]
    seconds = [0.0, *accumulate(step.seconds for step in steps)]
    nbytes = [0, *accumulate(sum(n for _, n in step.reads) for step in steps)]

    def least(first: int, last: int, halvings: int) -> float:
        alone = seconds[last] - seconds[first]
        if nbytes[last] - nbytes[first] <= capacity:
            return alone
        whole = max(alone, (bytes_from_outside([step[1:] for step in steps[first:last]]) - capacity) / rate)
        middle = _half(nbytes, first, last)
        if not halvings or not first < middle < last:
            return whole
        return max(whole, least(first, middle, halvings - 1) + least(middle, last, halvings - 1))

    in_halves = least(0, len(steps), MOST_HALVINGS)
    return in_halves if in_halves > in_groups * (1 + ROUNDING) else in_groups


def values_of(trace: Trace) -> Iterator[tuple[Sequence[tuple[int, int]], Sequence[int]]]:
    """Yield, for each call, the bytes that it reads of every value, and the values that it produces.

    A view counts as its source. Operands without an identity do not count, nor do the reads of a call without a cost.
    """
    same_as: dict[int, int] = {}
    parts: dict[tuple[int, int], list[int]] = {}
    for call, cost, *_ in trace.records:
        if cost is None:
            yield (), call.outputs
            continue
        key = id(call.layer), id(cost)
        if key not in parts:
            parts[key] = parts_read(call.layer, cost)
        pairs = zip(call.inputs, parts[key], strict=False)
        reads = [(same_as.get(identity, identity), nbytes) for identity, nbytes in pairs if identity]
        if call.inputs and cost.mread == cost.mwrite == 0:
            source = same_as.get(call.inputs[0], call.inputs[0])
            same_as.update(dict.fromkeys(call.outputs, source))
            yield reads, ()
        else:
            yield reads, call.outputs


def bytes_from_outside(values: Values) -> int:
    """Return the bytes of the values that calls read and no call produced, each once: weights, inputs, states.

    If calls read only parts of a value, such as an embedding table, the largest part that one call reads counts.
    """
    produced: set[int] = set()
    needed: dict[int, int] = {}
    for reads, writes in values:
        for value, nbytes in reads:
            if value not in produced:
                needed[value] = max(nbytes, needed.get(value, 0))
        produced.update(writes)
    return sum(needed.values())


def parts_read(layer: Layer, cost: Cost) -> list[int]:
    """Return the bytes that one execution needs of every operand; unread bytes are subtracted from the largest ones."""
    parts = [int(tensor.nbytes) for tensor in layer.inputs.values()]
    unread = max(0, sum(parts) - int(cost.mread))
    for i in sorted(range(len(parts)), key=parts.__getitem__, reverse=True):
        taken = min(unread, parts[i])
        parts[i] -= taken
        unread -= taken
    return parts


def _calls(trace: Trace, values: Values, groups: Sequence[GroupTime]) -> Iterator[Step]:
    seconds = {group.name: group.bound_seconds for group in groups}
    for record, (reads, writes) in zip(trace.records, values, strict=True):
        yield Step(seconds.get(record.call.name, 0.0), reads, writes)


def _groups(trace: Trace, values: Values, groups: Sequence[GroupTime]) -> Iterator[Step]:
    produced = {value for _, writes in values for value in writes}
    of_call = {
        record.call.name: [(value, n) for value, n in reads if value not in produced]
        for record, (reads, _) in zip(trace.records, values, strict=True)
    }
    for group in groups:
        yield Step(group.bound_seconds, [read for call in group.calls for read in of_call[call.name]], ())


def _half(nbytes: Sequence[int], first: int, last: int) -> int:
    return min(max(bisect_left(nbytes, (nbytes[first] + nbytes[last]) / 2, first, last), first + 1), last - 1)
