"""What PyTorch's newer exporter writes for averages over windows of different lengths: its framework takes them apart.

Rows and columns of all windows are picked at places that are known, as many for each as the longest has; what is too
much for the shorter ones is set to zero. The picks are averaged, or added one by one and divided by how many they are.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from costcore.dims import Dim

from ...values.value import Value
from ...walk.history import RecordedNode
from ..matcher import NOTHING, Decomposition, Either, Extension, Group, Match, Named, Number, Op, Operand
from .data_movement import is_gather, reads

MOST_PICKS = 256
"""Windows with more picks stay sums: nobody writes them out one by one."""

X, ROWS, COLUMNS = Operand("x"), Operand("rows"), Operand("columns")


def _is_average(made: RecordedNode) -> bool:
    """Whether the picks of each window are reduced: of the last four axes, windows and their picks in turn."""
    layer = made.call.layer
    rank = layer.out.ndim + 2
    return layer.attrs.get("axis") == (rank - 3, rank - 1) and not layer.attrs.get("keepdims")


def _picks_from(axis: int) -> Any:
    """The test for nodes that pick one place of an axis, the last ones having negative numbers."""

    def check(made: RecordedNode) -> bool:
        rank = made.call.layer.out.ndim + 1
        return made.node.args.get("axis", 0) in (axis, rank + axis)

    return check


def _without(pattern: Op, *masks: str) -> Either:
    """A pattern, and whatever is set to zero in it afterwards."""
    found = [pattern]
    for mask in masks:
        found.append(Op("Where", Operand(mask), Number(0.0), found[-1]))
    return Either(tuple(reversed(found)))


_SHAPE = Op("Shape", Op("Max", ROWS, COLUMNS))
_PLACES = Op("Concat", *(Op("Unsqueeze", Op("Expand", places, _SHAPE)) for places in (ROWS, COLUMNS)), check=reads(2))
_PICKS = Op("GatherND", Op("Transpose", X), Either((_PLACES, Operand("places"))), check=is_gather)
_PICKED = Op("Transpose", _PICKS)
_KEPT = _without(_PICKED, "first", "second")
_TERM = Op("Gather", Op("Gather", Operand("kept"), Number(), check=_picks_from(-3)), Number(), check=_picks_from(-1))
_SUM = Either((Op("Add", Operand("rest"), _TERM), _TERM))
_AVERAGE = Either(
    (Op("ReduceMean", Named("kept", _PICKED), check=_is_average), Op("Div", Operand("sum"), Operand("lengths")))
)


def _build(match: Match, extend: Extension) -> Group | None:
    y, divided = match.nodes[0].call.layer.out.shape, match.values.get("lengths")
    if divided is not None:
        if divided.data is None:
            return None
        longer = _added(match, extend)
        if longer is None:
            return None
        match = longer
    x, picks = match.values["x"].shape, _picks(match)
    if x is None or len(x) < 3 or picks is None or not _is_along_last(match, len(x)):
        return None
    masks = [match.values[name] for name in ("first", "second") if name in match.values]
    rows = _lengths(picks[0], [mask for mask in masks if len(mask.shape or ()) == 4], x[-2])
    columns = _lengths(picks[1], [mask for mask in masks if len(mask.shape or ()) != 4], x[-1])
    if rows is None or columns is None or (*x[:-2], len(rows), len(columns)) != y:
        return None
    if divided is not None and not _are(divided.data, np.outer(rows, columns)):
        return None
    return Group("adaptive_avg_pool", "AveragePool", {"x": match.values["x"]}, {}, match.nodes)


def _added(match: Match, extend: Extension) -> Match | None:
    """The match with all picks of each window, where each is added once."""
    rest: Value | None = match.values["sum"]
    kept: Value | None = None
    places: list[tuple[Any, Any]] = []
    while rest is not None and len(places) < MOST_PICKS:
        given = NOTHING.values if kept is None else {"kept": kept}
        longer = extend(Match(given, match.nodes), rest, _SUM, shared=True)
        if longer is None:
            return None
        outer, inner = (made.node.value("indices") for made in longer.nodes[-2:])
        places.append((inner.data.item(), outer.data.item()))
        match, rest, kept = longer, longer.values.get("rest"), longer.values["kept"]
    if kept is None or len(kept.shape or ()) < 5:
        return None
    longest = kept.known[-3], kept.known[-1]
    if len(places) != longest[0] * longest[1] or set(places) != set(product(*map(range, longest))):
        return None
    return extend(NOTHING._replace(nodes=match.nodes), kept, _KEPT)


def _is_along_last(match: Match, rank: int) -> bool:
    """Whether the last two axes are picked along: windows and their picks in turn, which go back behind the rest."""
    after, before = (made.call.layer.attrs.get("axes") for made in match.nodes if made.node.op == "Transpose")
    others = range(rank - 2)
    return before == (rank - 2, rank - 1, *others) and after == (*range(4, rank + 2), *range(4))


def _picks(match: Match) -> tuple[Any, Any] | None:
    """The places that are picked, ``[window, pick]`` for rows and for columns; None where they are not of this kind."""
    picked = next(made.node.value("indices") for made in match.nodes if made.node.op == "GatherND")
    if "rows" in match.values:
        rows, columns = match.values["rows"].data, match.values["columns"].data
        if rows is None or rows.shape[2:] != (1, 1) or columns is None or columns.ndim != 2:
            return None
        return (rows[..., 0, 0], columns) if picked.shape == (*rows.shape[:2], *columns.shape, 2) else None
    places = picked.data
    if places is None or places.ndim != 5 or places.shape[-1] != 2 or not places.size:
        return None
    rows, columns = places[:, :, :1, :1, 0], places[0, 0, :, :, 1]
    return (rows[..., 0, 0], columns) if _are(rows, places[..., 0]) and _are(columns, places[..., 1]) else None


def _lengths(places: Any, masks: list[Value], length: Dim) -> list[int] | None:
    """The lengths of the windows along an axis, where these are the windows of an adaptive pooling."""
    dropped = np.zeros(places.shape, bool)
    for mask in masks:
        if mask.data is None or mask.data.size != places.size or mask.data.shape[:2] != places.shape:
            return None
        if any(element not in (False, True) for element in mask.data.flat):
            return None  # only the run tells
        dropped |= mask.data.reshape(places.shape).astype(bool)
    if not isinstance(length, int):
        return None
    kept = [row[~drop].tolist() for row, drop in zip(places, dropped, strict=True)]
    windows = [range(i * length // len(kept), -(-(i + 1) * length // len(kept))) for i in range(len(kept))]
    return [len(window) for window in windows] if kept == [list(window) for window in windows] else None


def _are(numbers: Any, expected: Any) -> bool:
    """Whether these are the numbers that are expected, each of them for all that it is spread over."""
    try:
        return bool(np.all(np.broadcast_to(numbers, expected.shape) == expected))
    except ValueError:  # it is not spread over them
        return False


ADAPTIVE = Decomposition(("ReduceMean", "Div"), _AVERAGE, _build, r"\b(F|functional|torch)\.adaptive_avg_pool[12]d\(")
"""``adaptive_avg_pool(x)``, with one axis or two."""
