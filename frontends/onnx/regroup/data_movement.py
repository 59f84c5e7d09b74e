"""Patterns of data movement: roll, gather, select, ``as_strided``, unfold, padding, and adaptive average pooling."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from costcore.ir import Layer
from costcore.numbers import Dim
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

from ..reading import origin
from ..values import Value
from ..walk.walker import RecordedNode
from .elementwise import scalar
from .matcher import Decomposition, DependsOnSizes, Extension, Group, Match, X

# Roll, gather, select, ``as_strided``, unfold and padding


INDICES = Operand("indices")


def reads(count: int) -> Callable[[RecordedNode], bool]:
    """Return a check that a node has exactly ``count`` inputs."""
    return lambda recorded: len(recorded.node.inputs) == count


def is_whole(recorded: RecordedNode) -> bool:
    """Return True for a slice of all elements in order, which older exporters write for ``x[:]``."""
    layer = recorded.call.layer
    steps = layer.attrs.get("step") or (1,)
    return layer.out.shape == layer["x"].shape and all(step == 1 for step in steps)


def order_of(recorded: RecordedNode) -> tuple[int, ...]:
    """Return the permutation of a transposition, also of a constant."""
    return tuple(recorded.node.args.get("perm") or reversed(range(len(recorded.node.value("data").known_shape))))


def _stepless(*, to_the_end: bool) -> Callable[[RecordedNode], bool]:
    # The TorchScript exporter omits the steps of slices only in decompositions.
    def check(recorded: RecordedNode) -> bool:
        return len(recorded.node.inputs) == 4 and (recorded.call.layer.attrs.get("stop") == (None,)) is to_the_end

    return check


def _rolled(late: Op, early: Op) -> Op:
    return Op("Concat", Named("late", late), Named("early", early), check=reads(2))


def _roll(match: Match, _: Extension) -> Group | None:
    # A roll is the end of a tensor from some index on, followed by its beginning.
    root, late, early = (recorded.call.layer for recorded in match.nodes)
    axis, x = root.attrs.get("axis"), match.values["x"].shape
    if axis is None or x is None or root.out.shape != x:
        return None
    if any(p.attrs.get("axis") != (axis,) or p.attrs.get("step") not in (None, (1,)) for p in (late, early)):
        return None
    begin, end = _end_index(late, "start", x[axis]), _end_index(early, "stop", x[axis])
    if (
        begin is None
        or begin != end
        or early.attrs.get("start") != (0,)
        or _end_index(late, "stop", x[axis]) != x[axis]
    ):
        return None
    return Group("roll", "Concat", {"x": match.values["x"]}, {"axis": (axis,), "shift": (-begin,)}, match.nodes)


def _end_index(part: Layer, name: str, length: Dim) -> Dim | None:
    # Returns None if it depends on data.
    ends: tuple[Dim | None, ...] | None = part.attrs.get(name)
    if ends is None or ends[0] is None:
        return None if ends is None else length
    if isinstance(ends[0], int) and ends[0] < 0:
        place = length + ends[0]
        return max(place, 0) if isinstance(place, int) else place
    return min(ends[0], length) if isinstance(ends[0], int) and isinstance(length, int) else ends[0]


ROLL = Decomposition(("Concat",), _rolled(Op("Slice", X), Op("Slice", X)), _roll)
"""``concat(x[k:], x[:k])``."""

TORCHSCRIPT_ROLL = _rolled(
    Op("Slice", X, check=_stepless(to_the_end=True)), Op("Slice", X, check=_stepless(to_the_end=False))
)


def _index(match: Match, _: Extension) -> Group | None:
    # The axis is transposed to the front, and back afterwards.
    x, indices = match.values["x"].shape, match.values["indices"].shape
    after, before = (recorded for recorded in match.nodes if recorded.node.op == "Transpose")
    picked = next(recorded.node for recorded in match.nodes if recorded.node.op == "GatherND")
    if not x or indices is None or picked.value("indices").shape != (*indices, 1):
        return None
    axis, n = order_of(before)[0], len(indices)
    if order_of(before) != (axis, *(i for i in range(len(x)) if i != axis)):
        return None
    back = (*range(n, n + axis), *range(n), *range(n + axis, n + len(x) - 1))
    if order_of(after) != back or after.call.layer.out.shape != (*x[:axis], *indices, *x[axis + 1 :]):
        return None
    operands = {"x": match.values["x"], "indices": match.values["indices"]}
    return Group("gather", "Gather", operands, {"axis": axis}, match.nodes)


def is_gather(recorded: RecordedNode) -> bool:
    """Return True for a ``GatherND`` without batch dimensions."""
    return not recorded.node.args.get("batch_dims")


_SPREAD = Op("Expand", INDICES, Op("Shape", Op("Max", INDICES, check=reads(1))))

_COLUMN = Op("Concat", Op("Unsqueeze", _SPREAD), check=reads(1))

GATHER = Decomposition(
    ("Transpose",), Op("Transpose", Op("GatherND", Op("Transpose", X), _COLUMN, check=is_gather)), _index
)
"""``x[..., indices, ...]``."""

MOST_INDICES = 4
"""The maximum number of index tensors of one operation."""


def _at_once(count: int) -> Pattern:
    indices = [Operand(f"indices{i}") for i in range(count)]
    shape = Op("Shape", Op("Max", *indices, check=reads(count)))
    rows = Op("Concat", *(Op("Unsqueeze", Op("Expand", each, shape)) for each in indices), check=reads(count))
    return Op("GatherND", Either((Op("Transpose", X), X)), rows, check=is_gather)


def _gather_at_once(match: Match, _: Extension) -> Group | None:
    operands = {name: value for name, value in match.values.items() if name.startswith(("x", "indices"))}
    return Group("gather", "Gather", operands, {}, match.nodes)


_INDEXED = Either(tuple(map(_at_once, range(2, MOST_INDICES + 1))))

INDEX = Decomposition(
    ("Transpose", "GatherND"), Either((Op("Transpose", _INDEXED), _INDEXED)), _gather_at_once, needs_origin=True
)
"""``x[indices, others]``."""


def _select(match: Match, _: Extension) -> Group | None:
    recorded = match.nodes[0]
    if match.values["place"].shape != () or recorded.call.layer.op not in ("gather", "embedding"):
        return None
    axis = recorded.node.axis(len(match.values["x"].known_shape), "axis") or 0
    attrs = {"axis": (axis,), "start": (scalar(match.values["place"]),)}
    return Group("slice", "Gather", {"x": match.values["x"]}, attrs, match.nodes)


SLICE = Decomposition(("Gather",), Op("Gather", X, Named("place", Number())), _select)
"""``x[..., 2, ...]``."""

_STEPS = Op("Mul", Op("Range", Number(0), Operand("count"), Number(1)), Number())

_ALONG = Either((Op("Unsqueeze", _STEPS), _STEPS))

_SUM_ALONG = Either((Op("Add", Operand("rest"), Either((_ALONG, Operand("known")))), _ALONG))


def _as_strided(match: Match, extend: Extension) -> Group | None:
    # Flat indices are constant, or summed axis by axis.
    places: Value | None = match.values["indices"]
    if len(match.values["flat"].shape or ()) != 1 or "aten.as_strided" not in origin(match.nodes[0].node.proto):
        return None
    while places is not None and places.role != "const":
        longer = extend(Match({"x": match.values["x"]}, match.nodes), places, _SUM_ALONG)
        if longer is None or ("known" in longer.values and longer.values["known"].role != "const"):
            return None
        match, places = longer, longer.values.get("rest")
    return Group("as_strided", "Gather", {"x": match.values["x"]}, {}, match.nodes)


AS_STRIDED = Decomposition(
    ("Gather",),
    Op("Gather", Named("flat", Op("Reshape", X)), INDICES, check=lambda recorded: not recorded.node.args.get("axis")),
    _as_strided,
)
"""``x.as_strided(size, stride)``."""

_COUNTED = Op("Unsqueeze", Op("Range"))

_WINDOW_PLACES = Op("Add", _COUNTED, Either((_COUNTED, Op("Reshape"), Operand("offsets"))))


def _is_im2col(recorded: RecordedNode) -> bool:
    # Positions inside windows precede positions of windows: ``[N, C, kh, kw, h, w]``.
    return order_of(recorded) == (0, 1, 2, 4, 3, 5)


IM2COL = Decomposition(
    ("Reshape",),
    Op(
        "Reshape",
        Op(
            "Transpose",
            Op(
                "Gather",
                Op("Gather", Op("Pad", X), Named("rows", _WINDOW_PLACES)),
                Named("columns", _WINDOW_PLACES),
            ),
            check=_is_im2col,
        ),
    ),
    lambda match, _: Group("im2col", "Im2col", {"x": match.values["x"]}, {}, match.nodes),
)
"""``unfold(x)``: windows of an image as columns."""


def _wraps(recorded: RecordedNode) -> bool:
    return recorded.node.args.get("mode") == "wrap"


def _circular(match: Match, _: Extension) -> Group | str | None:
    # The last elements are repeated before the tensor, and the first elements after it.
    root, x = match.nodes[0].call.layer, match.values["x"]
    if len(match.nodes) > 1:
        axis, parts = root.attrs.get("axis"), [recorded.call.layer for recorded in match.nodes[1:]]
        if axis is None or any(part.attrs.get("axis") != (axis,) for part in parts):
            return "the parts are not joined along the axis of the slices"
        length = x.known_shape[axis]
        if _end_index(parts[0], "stop", length) != length or parts[1].attrs.get("start") != (0,):
            return "the parts are not the ends of the tensor"
    return Group("copy", "Pad", {"x": x}, {}, match.nodes)


CIRCULAR_PAD = Decomposition(
    ("Pad", "Concat"),
    Either(
        (
            Op("Pad", X, check=_wraps),
            Op(
                "Concat",
                Op("Slice", X, check=_stepless(to_the_end=True)),
                X,
                Op("Slice", X, check=_stepless(to_the_end=False)),
                check=reads(3),
            ),
        )
    ),
    _circular,
)
"""``pad(x, mode="circular")``, which PyTorch writes as copies."""


# Adaptive average pooling, which PyTorch decomposes before export
#
# Rows and columns of all windows are gathered at constant indices. Every window is gathered in the size of the largest
# one; the excess elements of smaller windows are set to zero. The gathered elements are averaged, or added one by one
# and divided by their number.


MOST_TERMS = 256
"""The maximum number of elements of a window that the exporter adds one by one."""

ROWS, COLUMNS = Operand("rows"), Operand("columns")


def _is_average(recorded: RecordedNode) -> bool:
    # The last four axes alternate between windows and their elements.
    layer = recorded.call.layer
    rank = layer.out.ndim + 2
    return layer.attrs.get("axis") == (rank - 3, rank - 1) and not layer.attrs.get("keepdims")


def _gathers_along(axis: int) -> Any:
    # ``axis`` counts from the end.
    def check(recorded: RecordedNode) -> bool:
        rank = recorded.call.layer.out.ndim + 1
        return recorded.node.args.get("axis", 0) in (axis, rank + axis)

    return check


def _masked(pattern: Op, *masks: str) -> Either:
    # Masks set excess elements of small windows to zero.
    found = [pattern]
    for mask in masks:
        found.append(Op("Where", Operand(mask), Number(0.0), found[-1]))
    return Either(tuple(reversed(found)))


_SHAPE = Op("Shape", Op("Max", ROWS, COLUMNS))

_POOL_PLACES = Op(
    "Concat", *(Op("Unsqueeze", Op("Expand", places, _SHAPE)) for places in (ROWS, COLUMNS)), check=reads(2)
)

_GATHERED = Op("GatherND", Op("Transpose", X), Either((_POOL_PLACES, Operand("places"))), check=is_gather)

_MOVED_BACK = Op("Transpose", _GATHERED)

_MASKED = _masked(_MOVED_BACK, "first", "second")

_ROW = Op("Gather", Operand("masked"), Number(), check=_gathers_along(-3))

_TERM = Op("Gather", Either((_ROW, Op("Slice", _ROW, check=is_whole))), Number(), check=_gathers_along(-1))

_SUM_OF_TERMS = Either((Op("Add", Operand("rest"), _TERM), _TERM))

_AVERAGE = Either(
    (Op("ReduceMean", Named("masked", _MOVED_BACK), check=_is_average), Op("Div", Operand("sum"), Operand("lengths")))
)


def _adaptive_avg_pool(match: Match, extend: Extension) -> Group | None:
    y, divided = match.nodes[0].call.layer.out.shape, match.values.get("lengths")
    if divided is not None:
        if divided.data is None:
            return None
        longer = _with_all_terms(match, extend)
        if longer is None:
            return None
        match = longer
    x, indices = match.values["x"].shape, _pool_indices(match)
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
    # Each element of a window is added once.
    rest: Value | None = match.values["sum"]
    masked: Value | None = None
    indices: list[tuple[Any, Any]] = []
    while rest is not None and len(indices) < MOST_TERMS:
        longer = extend(Match({"masked": masked} if masked else {}, match.nodes), rest, _SUM_OF_TERMS, shared=True)
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
    # The axes of windows and elements are moved to the end.
    after, before = (
        recorded.call.layer.attrs.get("axes") for recorded in match.nodes if recorded.node.op == "Transpose"
    )
    others = range(rank - 2)
    return before == (rank - 2, rank - 1, *others) and after == (*range(4, rank + 2), *range(4))


def _pool_indices(match: Match) -> tuple[Any, Any] | None:
    # Returns ``[window, element]`` for rows and for columns.
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
    try:
        return bool(np.all(np.broadcast_to(numbers, expected.shape) == expected))
    except ValueError:  # shapes that do not broadcast
        return False


ADAPTIVE_AVG_POOL = Decomposition(
    ("ReduceMean", "Div"), _AVERAGE, _adaptive_avg_pool, r"\b(F|functional|torch)\.adaptive_avg_pool[12]d\("
)
"""``adaptive_avg_pool(x)``, with one axis or two."""
