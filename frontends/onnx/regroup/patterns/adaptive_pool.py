"""Adaptive average pooling with windows of different sizes, which PyTorch decomposes before the exporter sees it.

Rows and columns of all windows are gathered at constant indices, as many for each window as the largest has; the excess
of smaller windows is set to zero. The gathered elements are averaged, or added one by one and divided by their number.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from costcore.numbers.dims import Dim
from costcore.trace.patterns import Either, Named, Number, Op, Operand

from ...values.value import Value
from ...walk.history import RecordedNode
from ..matcher import Decomposition, DependsOnSizes, Extension, Group, Match, X
from .data_movement import is_gather, is_whole, reads

MOST_TERMS = 256
"""Windows with more elements stay sums: the exporter does not write them out one by one."""

ROWS, COLUMNS = Operand("rows"), Operand("columns")


def _is_average(recorded: RecordedNode) -> bool:
    """Return True if the mean is over each window: of the last four axes, windows and their elements alternate."""
    layer = recorded.call.layer
    rank = layer.out.ndim + 2
    return layer.attrs.get("axis") == (rank - 3, rank - 1) and not layer.attrs.get("keepdims")


def _gathers_along(axis: int) -> Any:
    """Return the check for nodes that gather one index along an axis, counted from the end."""

    def check(recorded: RecordedNode) -> bool:
        rank = recorded.call.layer.out.ndim + 1
        return recorded.node.args.get("axis", 0) in (axis, rank + axis)

    return check


def _masked(pattern: Op, *masks: str) -> Either:
    """Return a pattern that also matches if masks set some of its elements to zero."""
    found = [pattern]
    for mask in masks:
        found.append(Op("Where", Operand(mask), Number(0.0), found[-1]))
    return Either(tuple(reversed(found)))


_SHAPE = Op("Shape", Op("Max", ROWS, COLUMNS))
_PLACES = Op("Concat", *(Op("Unsqueeze", Op("Expand", places, _SHAPE)) for places in (ROWS, COLUMNS)), check=reads(2))
_GATHERED = Op("GatherND", Op("Transpose", X), Either((_PLACES, Operand("places"))), check=is_gather)
_MOVED_BACK = Op("Transpose", _GATHERED)
_MASKED = _masked(_MOVED_BACK, "first", "second")
_ROW = Op("Gather", Operand("masked"), Number(), check=_gathers_along(-3))
_TERM = Op("Gather", Either((_ROW, Op("Slice", _ROW, check=is_whole))), Number(), check=_gathers_along(-1))
_SUM = Either((Op("Add", Operand("rest"), _TERM), _TERM))
_AVERAGE = Either(
    (Op("ReduceMean", Named("masked", _MOVED_BACK), check=_is_average), Op("Div", Operand("sum"), Operand("lengths")))
)


def _build(match: Match, extend: Extension) -> Group | None:
    y, divided = match.nodes[0].call.layer.out.shape, match.values.get("lengths")
    if divided is not None:
        if divided.data is None:
            return None
        longer = _with_all_terms(match, extend)
        if longer is None:
            return None
        match = longer
    x, indices = match.values["x"].shape, _indices(match)
    if x is None or len(x) < 3 or indices is None or not _is_along_last(match, len(x)):
        return None
    masks = [match.values[name] for name in ("first", "second") if name in match.values]
    rows = _window_sizes(indices[0], [mask for mask in masks if len(mask.shape or ()) == 4], x[-2])
    columns = _window_sizes(indices[1], [mask for mask in masks if len(mask.shape or ()) != 4], x[-1])
    if rows is None or columns is None or (*x[:-2], len(rows), len(columns)) != y:
        return None
    if divided is not None and not _equal(divided.data, np.outer(rows, columns)):
        return None
    return Group("adaptive_avg_pool", "AveragePool", {"x": match.values["x"]}, {}, match.nodes)


def _with_all_terms(match: Match, extend: Extension) -> Match | None:
    """Return the match with all elements of each window, if each is added once."""
    rest: Value | None = match.values["sum"]
    masked: Value | None = None
    indices: list[tuple[Any, Any]] = []
    while rest is not None and len(indices) < MOST_TERMS:
        longer = extend(Match({"masked": masked} if masked else {}, match.nodes), rest, _SUM, shared=True)
        if longer is None:
            return None
        gathers = [recorded.node for recorded in longer.nodes if recorded.node.op == "Gather"]
        outer, inner = (node.value("indices") for node in gathers[-2:])
        indices.append((inner.data.item(), outer.data.item()))
        match, rest, masked = longer, longer.values.get("rest"), longer.values["masked"]
    if masked is None or len(masked.shape or ()) < 5:
        return None
    largest = masked.known_shape[-3], masked.known_shape[-1]
    if len(indices) != largest[0] * largest[1] or set(indices) != set(product(*map(range, largest))):
        return None
    return extend(Match({}, match.nodes), masked, _MASKED)


def _is_along_last(match: Match, rank: int) -> bool:
    """Return True if the last two axes are gathered along, and windows and elements are moved back behind the rest."""
    after, before = (
        recorded.call.layer.attrs.get("axes") for recorded in match.nodes if recorded.node.op == "Transpose"
    )
    others = range(rank - 2)
    return before == (rank - 2, rank - 1, *others) and after == (*range(4, rank + 2), *range(4))


def _indices(match: Match) -> tuple[Any, Any] | None:
    """Return the gathered indices, ``[window, element]`` for rows and for columns; None if they have another form."""
    gathered = next(recorded.node.value("indices") for recorded in match.nodes if recorded.node.op == "GatherND")
    if "rows" in match.values:
        rows, columns = match.values["rows"].data, match.values["columns"].data
        if rows is None or rows.shape[2:] != (1, 1) or columns is None or columns.ndim != 2:
            return None
        return (rows[..., 0, 0], columns) if gathered.shape == (*rows.shape[:2], *columns.shape, 2) else None
    places = gathered.data
    if places is None or places.ndim != 5 or places.shape[-1] != 2 or not places.size:
        return None
    rows, columns = places[:, :, :1, :1, 0], places[0, 0, :, :, 1]
    return (rows[..., 0, 0], columns) if _equal(rows, places[..., 0]) and _equal(columns, places[..., 1]) else None


def _window_sizes(places: Any, masks: list[Value], length: Dim) -> list[int] | None:
    """Return the sizes of the windows along an axis; None if they are not those of an adaptive pooling."""
    dropped = np.zeros(places.shape, bool)
    for mask in masks:
        if mask.data is None or mask.data.size != places.size or mask.data.shape[:2] != places.shape:
            return None
        if any(element not in (False, True) for element in mask.data.flat):
            return None  # depends on data
        dropped |= mask.data.reshape(places.shape).astype(bool)
    remaining = [row[~drop].tolist() for row, drop in zip(places, dropped, strict=True)]
    if not isinstance(length, int):
        last = max((place for window in remaining for place in window), default=None)
        if isinstance(last, int):
            raise DependsOnSizes(((length, last + 1),))
        return None
    count = len(remaining)
    windows = [range(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
    return [len(window) for window in windows] if remaining == [list(window) for window in windows] else None


def _equal(numbers: Any, expected: Any) -> bool:
    """Return True if ``numbers``, broadcast, equal ``expected``."""
    try:
        return bool(np.all(np.broadcast_to(numbers, expected.shape) == expected))
    except ValueError:  # shapes that do not broadcast
        return False


ADAPTIVE_AVG_POOL = Decomposition(
    ("ReduceMean", "Div"), _AVERAGE, _build, r"\b(F|functional|torch)\.adaptive_avg_pool[12]d\("
)
"""``adaptive_avg_pool(x)``, with one axis or two."""
