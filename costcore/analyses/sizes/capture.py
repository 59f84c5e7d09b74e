"""Capture one network at several sizes, and match the calls of the runs.

Each call is split into an outline, which is equal at all sizes, and its integers. Unrolled loops are folded first, so
that runs with different numbers of steps match. A *free* call costs nothing; it may be missing at some sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.frontend import MOST_VALUES
from costcore.ir import BITS, Cost, Layer, Operations, Tensor
from costcore.numbers import Dim, Evaluation, as_dim, as_text, is_symbolic, size_from, symbol_of
from costcore.trace.call import Assumption, Call
from costcore.trace.run import Run, Unfolded
from costcore.trace.trace import KEPT_REPETITIONS, CallCost, Trace, ids_of, is_named, is_named_shape
from costcore.trace.trace import Dim as NamedDim

Point = tuple[int, ...]
"""A value for every symbol, in the order of the symbols."""

MOST_CAPTURES = 62
"""The maximum number of captures of one network."""


class Samples:
    """The runs of a network at all points captured so far.

    Args:
        inputs: the inputs with names in their shapes.
        capture: returns the run of the network on integer inputs.

    Attributes:
        points: the integers of the run at each point: one row per call of the first run, None for a free call that is
            missing in this run. The last row has the integers of the run as a whole.
    """

    symbols: tuple[str, ...]

    def __init__(self, inputs: NamedInputs, capture: Callable[[Any], Trace]) -> None:
        self.symbols = inputs.symbols
        self._inputs = inputs
        self._capture = capture
        self.base: Sample | None = None
        self._base_at: Point = ()
        self.points: dict[Point, list[tuple[int, ...] | None]] = {}
        self._amounts: dict[Point, list[tuple[Any, ...] | None]] = {}
        self._further: set[Point] = set()
        self._common: dict[tuple[Point, ...], list[Columns | None]] = {}
        """The cache of :meth:`columns`."""
        self.failed: dict[Point, CostError] = {}
        self.assumed: dict[Assumption, set[Point]] = {}
        """The assumptions about data, with the points at which they were made."""

    @property
    def count(self) -> int:
        """The number of captures."""
        return len(self.points) + len(self.failed)

    def named(self, point: Point) -> dict[str, int]:
        """Return the values of a point by symbol."""
        return dict(zip(self.symbols, point, strict=True))

    def at(self, point: Point) -> list[tuple[int, ...] | None]:
        """Return the integers of the run at a point; capture it if necessary.

        Raises:
            CostError: if the network fails at this point, runs other operators than at the first point, or needs more
                than :data:`MOST_CAPTURES` captures.
        """
        if point in self.failed:
            raise self.failed[point]
        if point not in self.points:
            if self.count >= MOST_CAPTURES:
                raise CostError(f"no formula was found with {MOST_CAPTURES} captures; use fewer symbols, or integers")
            try:
                self.points[point] = self._sample(point)
            except CostError as error:
                self.failed[point] = error
                raise
        return self.points[point]

    def forget(self, point: Point) -> None:
        """Exclude the run at a point, where the formulas do not hold."""
        self.points.pop(point, None)
        self._further.discard(point)
        self.failed.setdefault(point, CostError(f"the network runs other operators at {self.text(point)}"))

    def text(self, point: Point) -> str:
        """Return a point as text: ``batch=2, seq=16``."""
        return text_of(self.named(point))

    def restart(self, point: Point) -> None:
        """Start again, with the run at a point as the base for all comparisons.

        Raises:
            CostError: if the network fails at this point.
        """
        self.base, self._base_at, self.points, self._amounts = None, point, {}, {}
        self._further.clear()
        self._common.clear()
        self.at(point)

    def _sample(self, point: Point) -> list[tuple[int, ...] | None]:
        trace = self._capture(self._inputs.at(self.named(point)))
        sample = sample_of(trace)
        if self.base is None:
            self.base = sample
        matches = matched(self.base, sample, self.named(point), self.named(self._base_at))
        for assumption in trace.run.assumptions:
            self.assumed.setdefault(assumption, set()).add(point)
        if len(trace) > len(matches) - matches.count(None):
            self._further.add(point)
        self._amounts[point] = [None if i is None else _amounts(trace.records[i]) for i in matches]
        rows: list[tuple[int, ...] | None] = [None if i is None else sample.integers[i] for i in matches]
        of_run = integers_of(trace.run)
        if len(of_run) != len(integers_of(self.base.trace.run)):
            where, base_at = self.text(point), self.text(self._base_at)
            raise OtherOperatorsError(
                f"the network calls other modules, or returns another number of tensors, at {where} than at {base_at}"
            )
        return [*rows, of_run]

    @property
    def trace(self) -> Trace:
        """The first run."""
        assert self.base is not None
        return self.base.trace

    @property
    def has_further_calls(self) -> bool:
        """Whether some run has free calls that the first run lacks."""
        return bool(self._further)

    def name(self, row: int) -> str:
        """Return the name and module of a call of the first run."""
        if row == len(self.trace):
            return "the inputs or outputs of a module"
        call = self.trace.records[row].call
        return f"{call.name} in module {call.module!r}" if call.module else call.name

    def columns(self, points: Sequence[Point]) -> list[Columns | None]:
        """Return the columns of every row at some points; None for a row that is missing at any captured point."""
        everywhere = [None not in rows for rows in zip(*self.points.values(), strict=True)]
        if not points:
            return [[] for _ in everywhere]
        common = self._common.get(tuple(points))
        if common is None:
            common = self._common[tuple(points)] = common_columns([self.at(point) for point in points])
        return [columns if kept else None for columns, kept in zip(common, everywhere, strict=True)]

    def amounts_at(self, point: Point) -> list[tuple[Any, ...] | None]:
        """Return the amounts of the run at a point, for every call of the first run; None for a missing call."""
        return self._amounts[point]

    def absence(self, row: int) -> tuple[int, int] | None:
        """Return a symbol (by position) and its value if a row is missing exactly at this value; else None.

        PyTorch omits a slice of a whole axis, such as one of all rows of a position table.
        """
        lacking = {point for point, rows in self.points.items() if rows[row] is None}
        for where in enumerate(next(iter(lacking))):
            if lacking == {point for point in self.points if point[where[0]] == where[1]}:
                return where
        return None


Columns = list[tuple[int, ...]]
"""One column for each integer of a call: its values in the order of points."""


def common_columns(rows_by_point: Sequence[Sequence[tuple[int, ...] | None]]) -> list[Columns | None]:
    """Return the columns of every row; None for a row that is missing at any point."""
    return [None if None in rows else list(zip(*rows, strict=True)) for rows in zip(*rows_by_point, strict=True)]


def _amounts(record: CallCost) -> tuple[Any, ...]:
    return () if record.cost is None else amounts_of(record.cost)


# Initial sizes of the search.


DOUBLINGS = 3
"""The maximum number of doublings of the first sizes if the network fails."""

STEPS = (2, 3, 4, 7, 8, 14, 16, 32, 64, 128, 224, 256)
"""Steps of a symbol to try, for the advice of an error to write a size as a multiple."""


def start(samples: Samples, limits: Sequence[Limits]) -> tuple[Point, list[Limits]]:
    """Capture the network at its first sizes; return this point, and the limits of every symbol from there.

    Sizes without a range from the user are doubled while the network fails.

    Raises:
        CostError: if the network fails at all of these points.
    """
    errors: list[CostError] = []
    for doublings in range(DOUBLINGS + 1):
        tried = [each if _is_fixed(each) else each._replace(low=each.low << doublings) for each in limits]
        point = tuple(each.low for each in tried)
        try:
            samples.restart(point)
        except CostError as error:
            errors.append(error)
            if all(map(_is_fixed, limits)):
                break
        else:
            return point, tried
    if free := [name for name, each in zip(samples.symbols, limits, strict=True) if not _is_fixed(each)]:
        where = f"It was tried at {'; '.join(map(samples.text, samples.failed))}"
        message = f"{str(errors[0]).rstrip('.')}. {where}; if it needs others, state a range: {how_to_state(free)}."
        raise CostError(message) from errors[0]
    raise errors[0]


def _is_fixed(limits: Limits) -> bool:
    return limits.is_stated or limits.low == SMALLEST


def multiple_that_works(samples: Samples, base: Point, position: int) -> int | None:
    """Return the smallest step by which a symbol can grow from ``base``, twice; None if there is none.

    Args:
        samples: the runs.
        base: the first point.
        position: the position of the symbol.
    """
    for step in STEPS:
        if all(_is_captured(samples, base, position, step * k) for k in (1, 2)):
            return step
    return None


def _is_captured(samples: Samples, base: Point, position: int, distance: int) -> bool:
    try:
        samples.at((*base[:position], base[position] + distance, *base[position + 1 :]))
    except CostError:
        return False
    return True


# Limits of each symbol.


SMALLEST = 2
"""The smallest first size. Sizes 0 and 1 are special: size-1 axes are broadcast, and contiguous in any order."""

FIRST = {"batch": SMALLEST, "image": 64, "sequence": 16}
"""The first size to try, for first axes ("batch"), other axes of shapes with four or more ("image"), and others."""

LAST = {"batch": 512, "image": 2048, "sequence": 4096}
"""The largest size at which formulas are checked, without a range from the user."""

LAST_COMPUTED = {"batch": 8, "image": 256, "sequence": 256}
"""The same for a model that computes real values in each capture."""

LEAST = 4
"""The minimum distance between the first and the last size if the user states no range."""


class Limits(NamedTuple):
    """The range of a symbol from which sizes are chosen.

    Attributes:
        low: the first size to capture.
        high: the last size to capture.
        smallest: the smallest size at which formulas should hold.
        is_stated: whether the user gave the range. Otherwise it is adapted if the model fails on small or large sizes.
    """

    low: int
    high: int
    smallest: int
    is_stated: bool

    def nearer(self, times: int) -> Limits:
        """Return the limits with ``high`` divided by a factor."""
        return self._replace(high=max(self.low + LEAST, self.high // times))

    def from_at_least(self, low: int) -> Limits:
        """Return the limits with a higher ``low``, because short loops are special; limits from the user stay."""
        low = self.low if self.is_stated else max(self.low, low)
        return self._replace(low=low, high=max(self.high, low + LEAST))


def limits_of(
    inputs: NamedInputs, ranges: Mapping[str, tuple[int, int]], last: Mapping[str, int] = LAST
) -> list[Limits]:
    """Return the limits of every symbol.

    Args:
        inputs: the inputs.
        ranges: the ranges from the user by symbol.
        last: the last sizes of other symbols, :data:`LAST` or :data:`LAST_COMPUTED`.
    """
    return [
        _stated_limits(*ranges[symbol]) if symbol in ranges else _default_limits(inputs, symbol, last)
        for symbol in inputs.symbols
    ]


def _stated_limits(low: int, high: int) -> Limits:
    return Limits(low if high <= SMALLEST else max(low, SMALLEST), high, low, True)


def _default_limits(inputs: NamedInputs, symbol: str, last: Mapping[str, int]) -> Limits:
    uses = [axis for axis in inputs.axes if symbol in inputs.symbols_of(axis.size)]
    if any(use.axis == 0 for use in uses):
        use = "batch"
    else:
        use = "image" if any(each.rank >= 4 for each in uses) else "sequence"
    ones = dict.fromkeys(inputs.symbols, 1)
    rises = [inputs.value(each.size, {**ones, symbol: 2}) - inputs.value(each.size, ones) for each in uses]
    step = max(1, *rises)
    low = max(SMALLEST, FIRST[use] // step)
    return Limits(low, max(low + LEAST, last[use] // step), 1, False)


def how_to_state(symbols: Iterable[str]) -> str:
    """Return how to give ranges of symbols, for an error."""
    ranges = ", ".join(f'"{symbol}": (smallest, largest)' for symbol in symbols)
    return f"ranges={{{ranges}}} in estimate, or Dim(name, smallest, largest) in place of a name"


# Inputs with names in their shapes.


class Axis(NamedTuple):
    """A named axis of an input.

    Attributes:
        size: the size as given.
        axis: the position in the shape.
        rank: the number of axes of the shape.
    """

    size: Any
    axis: int
    rank: int


class NamedInputs:
    """The inputs of a model with names for some sizes.

    Args:
        inputs: the inputs in any form that :func:`costcore.estimate` takes; pairs of shape and dtype must be replaced
            by :func:`~costcore.trace.trace.with_tensors` before. A size can be a string such as ``"seq"`` or
            ``"16*h"``, a :class:`Dim`, or an integer expression of sympy.

    Attributes:
        axes: all named axes.
        symbols: the names of all symbols, in order of first use.
        ranges: the ranges given with :class:`Dim`.

    Raises:
        TypeError: if a name is not a sum or product of symbols and integers.
        ValueError: if a name is that of a dtype, if a symbol has two ranges, or a range is for several symbols.
    """

    symbols: tuple[str, ...]

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs
        self.axes: list[Axis] = []
        self.ranges: dict[str, tuple[int | None, int | None]] = {}
        names: dict[str, None] = {}
        self._with_shapes(inputs, self._note)
        for axis in self.axes:
            found = _symbols(axis.size)
            names.update(dict.fromkeys(found))
            if isinstance(axis.size, NamedDim) and (axis.size.low, axis.size.high) != (None, None):
                if len(found) != 1:
                    raise ValueError(f"{axis.size}: a range needs one symbol (got {', '.join(found) or 'none'})")
                limits = axis.size.low, axis.size.high
                if self.ranges.setdefault(found[0], limits) != limits:
                    raise ValueError(f"{found[0]!r} has two ranges, {self.ranges[found[0]]} and {limits}")
        self.symbols = tuple(names)

    def at(self, values: Mapping[str, int]) -> Any:
        """Return the inputs with a value for every symbol.

        Raises:
            CostError: if a size becomes negative.
        """
        return self._with_shapes(self._inputs, lambda shape: tuple(_size_at(size, values) for size in shape))

    def symbols_of(self, size: Any) -> list[str]:
        """Return the names of the symbols in a size."""
        return _symbols(size)

    def value(self, size: Any, values: Mapping[str, int]) -> int:
        """Return a size with a value for every symbol.

        Raises:
            CostError: if it is negative.
        """
        return _size_at(size, values)

    def _note(self, shape: Any) -> Any:
        self.axes += (Axis(size, i, len(shape)) for i, size in enumerate(shape) if is_named(size))
        return shape

    def _with_shapes(self, value: Any, change: Callable[[Any], Any]) -> Any:
        if isinstance(value, Tensor):
            return Tensor(change(value.shape), value.dtype, value.role) if any(map(is_named, value.shape)) else value
        if isinstance(value, Mapping):
            return {key: self._with_shapes(item, change) for key, item in value.items()}
        if is_named_shape(value):
            return change(value)
        if not isinstance(value, (list, tuple)):
            return value
        items = [self._with_shapes(item, change) for item in value]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)


def _symbols(size: Any) -> list[str]:
    names: list[str] = []

    def noted(name: str) -> int:
        names.append(name)
        return 1

    size_from(size.name if isinstance(size, NamedDim) else size, noted)
    for name in names:
        if name in BITS:
            raise ValueError(
                f"{name!r} in a shape is the name of a dtype. A shape with a dtype is a pair, such as "
                f'(("batch", "seq"), "{name}").'
            )
    return list(dict.fromkeys(names))


def _size_at(size: Any, values: Mapping[str, int]) -> int:
    if not is_named(size):
        return int(size)
    number = size_from(size.name if isinstance(size, NamedDim) else size, values.__getitem__)
    if not isinstance(number, int) or number < 0:
        at = ", ".join(f"{name}={value}" for name, value in values.items())
        raise CostError(
            f"the size {size} is {number} at {at}; state a range, ranges={{…}}, in which it is not negative"
        )
    return as_dim(number)


# Assumptions that apply only if a tensor is too large to keep its values.


Above = tuple[Assumption, Dim, int]
"""An assumption, the size of the tensor that causes it, and the maximum size without the assumption."""


def assumed_above(samples: Samples, trace: Trace) -> list[Above]:
    """Return the assumptions made at exactly those points where some tensor is too large to keep its values.

    If there are several such tensors, integers and bools are preferred, then the shortest formula.
    """
    tensors = {tensor for call in trace.calls for tensor in (*call.layer.inputs.values(), *call.layer.outputs)}
    exact = {tensor for tensor in tensors if tensor.dtype.startswith(("bool", "int", "uint"))}
    found = []
    for assumption, made in samples.assumed.items():
        for group in (exact, tensors):
            sizes = {tensor.size for tensor in group if is_symbolic(tensor.size)}
            fitting = [
                size
                for size in sizes
                if all(
                    (_size_at_point(samples, size, point) > MOST_VALUES) == (point in made) for point in samples.points
                )
            ]
            if fitting:
                found.append((assumption, min(fitting, key=lambda size: (len(str(size)), str(size))), MOST_VALUES))
                break
    return found


def note_of(above: Above) -> str:
    """Return the assumption and its condition as a sentence."""
    assumption, elements, most = above
    return f"assumed where {as_text(elements)} exceeds {most:,}, because larger tensors have no values: {assumption}"


def _size_at_point(samples: Samples, size: Dim, point: tuple[int, ...]) -> int:
    values = {symbol_of(name): value for name, value in zip(samples.symbols, point, strict=True)}
    return int(Evaluation(values)(size))


# Outlines: calls without their integers.


class Outline(NamedTuple):
    """A call without its integers.

    Attributes:
        layer: its operator, operands and attributes, with an ellipsis for every integer.
        call: its native operator, module, phase and region, and its number of ids.
        is_free: whether it costs nothing.
    """

    layer: tuple[Any, ...]
    call: tuple[Any, ...]
    is_free: bool


class Sample(NamedTuple):
    """A run at integer sizes.

    Attributes:
        trace: the run.
        outlines: the outline of every call.
        integers: the integers of every call: dimensions, integer attributes, and executions.
    """

    trace: Trace
    outlines: tuple[Outline, ...]
    integers: tuple[tuple[int, ...], ...]


def sample_of(trace: Trace) -> Sample:
    """Split a run into outlines and integers."""
    layers: dict[int, tuple[tuple[Any, ...], tuple[int, ...]]] = {}
    are_free: dict[int, bool] = {}
    outlines, integers = [], []
    ids = trace.run.unfolded.ids if trace.run.unfolded else ((),) * len(trace)
    for record, of_call in zip(trace, ids, strict=True):
        call = record.call
        if id(call.layer) not in layers:
            layers[id(call.layer)] = without_integers(call.layer)
        layer, found = layers[id(call.layer)]
        if id(record.cost) not in are_free:
            are_free[id(record.cost)] = is_free(record)
        named = (call.native, call.type, call.module, call.phase, call.region, record.uncounted, len(of_call))
        outlines.append(Outline(layer, named, are_free[id(record.cost)]))
        integers.append((*found, *((call.times,) if type(call.times) is int else ()), *of_call))
    return Sample(trace, tuple(outlines), tuple(integers))


def without_integers(layer: Layer) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Split a layer into its structure and its integers, in the order of :meth:`.Layer.map_dims`."""
    found: list[int] = []

    def take(value: Any) -> Any:
        if type(value) is not int:
            return tuple(map(take, value)) if isinstance(value, tuple) else value
        found.append(value)
        return ...

    def tensor(x: Tensor) -> tuple[Any, ...]:
        stored = None if x.stored is None else take(x.stored)
        if {*map(type, x.shape)} != {int}:
            return stored, take(x.shape), x.dtype, x.role
        found.extend(x.shape)
        return stored, len(x.shape), x.dtype, x.role

    tensors = [*map(tensor, layer.inputs.values()), *map(tensor, layer.outputs)]
    attributes = [(name, take(value)) for name, value in layer.attrs.items()]
    return (layer.op, *layer.inputs, *tensors, *attributes), tuple(found)


def with_integers(call: Call, values: Sequence[Dim]) -> tuple[Call, tuple[Dim, ...]]:
    """Return a call with other integers or expressions, and the unused values: ids of a folded run."""
    left: Iterator[Dim] = iter(values)
    layer = call.layer.map_dims(lambda value: next(left) if type(value) is int else value)
    return call._replace(layer=layer, times=next(left, call.times)), tuple(left)


def integers_of(run: Run) -> tuple[int, ...]:
    """Return the dimensions of inputs and outputs of module calls, and for a folded run the ids of its outputs.

    Other runs have no ids here, because free calls that are missing at some sizes shift them.
    """
    sizes = (size for call in run.module_calls for shapes in call[2:] for shape in shapes for size in shape)
    return (*sizes, *(run.returned if run.unfolded else ()))


def is_free(record: CallCost) -> bool:
    """Return whether a call costs nothing."""
    return record.cost is not None and not any(amounts_of(record.cost))


def amounts_of(cost: Cost) -> tuple[Dim, ...]:
    """Return operations by kind, bytes read and written, MACs, and bytes sent."""
    operations = cost.flops
    if isinstance(operations, Operations):
        kinds = operations.fma, operations.mul, operations.add, operations.div, operations.cmp, operations.special
        return (*kinds, cost.mread, cost.mwrite, cost.macs, cost.mcomm)
    return operations, cost.mread, cost.mwrite, cost.macs, cost.mcomm


# Matching of runs at different sizes.


class OtherOperatorsError(CostError):
    """A network runs other operators at other sizes."""


def matched(base: Sample, other: Sample, where: Mapping[str, int], base_at: Mapping[str, int]) -> list[int | None]:
    """Return the index in ``other`` of every call of ``base``; None for a free call that ``other`` lacks.

    For example, PyTorch omits a slice if it takes the whole axis.

    Raises:
        OtherOperatorsError: if calls with a cost differ; names the first difference and both points.
    """
    if base.outlines == other.outlines:
        return list(range(len(base.outlines)))
    found: list[int | None] = [None] * len(base.outlines)
    for (priced, free), (other_priced, other_free) in _paired_groups(base.outlines, other.outlines):
        outline = None if priced is None else base.outlines[priced]
        other_outline = None if other_priced is None else other.outlines[other_priced]
        if priced is not None and outline == other_outline:
            found[priced] = other_priced
        elif outline != other_outline:
            raise OtherOperatorsError(_difference(base, priced, base_at, other, other_priced, where))
        matcher = SequenceMatcher(None, *_matching_keys(base, free, other, other_free), autojunk=False)
        for at, other_at, length in matcher.get_matching_blocks():
            for k in range(length):
                found[free[at + k]] = other_free[other_at + k]
    return found


def _matching_keys(
    base: Sample, free: Sequence[int], other: Sample, other_free: Sequence[int]
) -> tuple[list[Any], list[Any]]:
    # Equal outlines in a row, such as two slices, are told apart by their integers.
    of_base, of_other = (
        [(run.outlines[i], run.integers[i]) for i in calls] for run, calls in ((base, free), (other, other_free))
    )
    if [outline for outline, _ in of_base] == [outline for outline, _ in of_other]:
        return [*range(len(free))], [*range(len(free))]
    both = set(of_base) & set(of_other)
    base_keys, other_keys = ([each if each in both else each[:1] for each in found] for found in (of_base, of_other))
    return base_keys, other_keys


Group = tuple[int | None, list[int]]
"""A call with a cost, None at the end, and the free calls before it."""


def _paired_groups(base: Sequence[Outline], other: Sequence[Outline]) -> Iterator[tuple[Group, Group]]:
    groups, others = _groups(base), _groups(other)
    for i in range(max(len(groups), len(others))):
        yield (groups[i] if i < len(groups) else (None, [])), (others[i] if i < len(others) else (None, []))


def _groups(outlines: Sequence[Outline]) -> list[Group]:
    groups: list[Group] = []
    free: list[int] = []
    for i, outline in enumerate(outlines):
        if outline.is_free:
            free.append(i)
        else:
            groups.append((i, free))
            free = []
    return [*groups, (None, free)]


def _difference(
    base: Sample,
    i: int | None,
    base_at: Mapping[str, int],
    other: Sample,
    j: int | None,
    other_at: Mapping[str, int],
) -> str:
    varied = [name for name, size in other_at.items() if size != base_at[name]]
    return (
        f"the network runs other operators at other sizes: at {text_of(base_at)} {_name(base, i)}, "
        f"at {text_of(other_at)} {_name(other, j)}. State a range in which it runs the same: {how_to_state(varied)}. "
        f"If it pads to a multiple, write the size as one, such as '16*{varied[0]}'."
    )


def _name(sample: Sample, i: int | None) -> str:
    if i is None:
        return "it ends there"
    call = sample.trace.records[i].call
    where = f" in module {call.module!r}" if call.module else ""
    return f"call {i + 1} of {len(sample.trace)} is {call.type}{where}"


def text_of(values: Mapping[str, int]) -> str:
    """Return the values of symbols as text: ``batch=2, seq=16``."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


# Folding of unrolled loops.


LONGEST_BODY = 256
"""The maximum number of calls with a cost in the body of a loop."""

JOINING = ("concat", "stack")
"""Operators on a list of operands that cost the same if all operands are one tensor."""

NOT_UNROLLED = (
    "loops are stored once: for exact numbers after fusion, or of single calls, give integers in place of names"
)
"""The note if folded loops cannot be unrolled again."""


def folded(trace: Trace, keeps_ids: bool) -> Trace:
    """Replace consecutive equal blocks of calls by one block with its number of executions.

    A list of equal operands, such as the stacked outputs of all steps, becomes one operand with one more axis.

    Args:
        trace: the run.
        keeps_ids: whether to keep the ids that :func:`~costcore.trace.trace.unrolled` needs. Then only blocks that run
            three times or more, with the same free calls each time, are folded. Otherwise free calls inside blocks are
            dropped.
    """
    outlines = sample_of(trace).outlines if keeps_ids else ()
    ids: dict[int, tuple[int, ...]] = {}
    folds: list[tuple[int, int]] = []
    priced = [i for i, record in enumerate(trace) if not is_free(record)]
    records = {i: _with_joined_operands(trace.records[i], KEPT_REPETITIONS if keeps_ids else 1) for i in priced}
    numbers: dict[object, int] = {}
    keys = [numbers.setdefault(_repetition_key(records[i]), len(numbers)) for i in priced]
    times: dict[int, int] = {}
    dropped: set[int] = set()
    at = 0
    while at < len(keys):
        length, count = _repeats(keys, at)
        if keeps_ids:
            blocks = _whole_blocks(outlines, priced, at, length, count) if count >= KEPT_REPETITIONS else []
            for same in zip(*blocks, strict=True):
                times[same[0]] = count
                dropped.update(same[1:])
                ids[same[0]] = tuple(i for j in same[:KEPT_REPETITIONS] for i in ids_of(trace.records[j].call))
            folds += [(block[0], len(block)) for block in blocks[:1]]
        elif count > 1:
            block = priced[at : at + length * count]
            times.update(dict.fromkeys(block[:length], count))
            dropped.update(block[length:], (i for i in range(block[0], block[-1]) if i not in records))
        at += length * count
    kept = [i for i in range(len(trace)) if i not in dropped]
    new = tuple(_repeated(records.get(i, trace.records[i]), times.get(i, 1)) for i in kept)
    if not keeps_ids:
        return Trace(new, replace(trace.run, notes=(*trace.run.notes, NOT_UNROLLED)))
    unfolded = tuple(ids.get(i) or ids_of(record.call) for i, record in zip(kept, new, strict=True))
    return Trace(new, trace.run.recording(unfolded=Unfolded(tuple((kept.index(i), n) for i, n in folds), unfolded)))


def _repeats(keys: Sequence[int], at: int) -> tuple[int, int]:
    # Prefer the block that folds the most calls.
    best = 1, 1
    for length in range(1, min(LONGEST_BODY, (len(keys) - at) // 2) + 1):
        if keys[at + length] != keys[at]:
            continue
        block = keys[at : at + length]
        count = 1
        while keys[at + count * length : at + (count + 1) * length] == block:
            count += 1
        if count > 1 and length * count > best[0] * best[1]:
            best = length, count
    return best


def _whole_blocks(outlines: Sequence[Outline], priced: Sequence[int], at: int, length: int, count: int) -> list[range]:
    firsts = [priced[at + length * k] for k in range(count)]
    lasts = [priced[at + length * (k + 1) - 1] for k in range(count)]
    # Free calls between two blocks may belong to either: try every division.
    behind = len(outlines) - lasts[-1] - 1
    between = firsts[1] - lasts[0] - 1
    for leading in range(max(between - behind, 0), min(between, firsts[0]) + 1):
        blocks = [range(f - leading, last + between - leading + 1) for f, last in zip(firsts, lasts, strict=True)]
        if len({tuple(outlines[i] for i in block) for block in blocks}) == 1:
            return blocks
    return []


def _repetition_key(record: CallCost) -> object:
    call = record.call
    return call.layer, call.native, call.module, call.phase, call.region, call.times, call.parameters, record.uncounted


def _repeated(record: CallCost, count: int) -> CallCost:
    return record if count == 1 else record._replace(call=record.call._replace(times=record.call.times * count))


def _with_joined_operands(record: CallCost, kept: int) -> CallCost:
    call, layer = record.call, record.call.layer
    tensors, n = set(layer.inputs.values()), len(layer.inputs)
    if layer.op not in JOINING or len(tensors) != 1 or n < kept:
        return record
    (tensor,) = tensors
    joined = Tensor((n, *tensor.shape), tensor.dtype, tensor.role)
    layer = Layer(layer.op, {next(iter(layer.inputs)): joined}, layer.outputs, layer.attrs)
    storages = call.storages[:kept] + call.storages[n:]
    return record._replace(call=call._replace(layer=layer, inputs=call.inputs[:kept], storages=storages))
