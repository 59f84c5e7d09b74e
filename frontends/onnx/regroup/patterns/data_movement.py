"""What exporters write for operators that only move or pick elements."""

from __future__ import annotations

from collections.abc import Callable

from costcore.dims import Dim
from costcore.ir import Layer

from ...reading.exporter_metadata import origin
from ...values.value import Value
from ...walk.history import RecordedNode
from ..matcher import Decomposition, Either, Extension, Group, Match, Named, Number, Op, Operand
from .checks import number

X, INDICES = Operand("x"), Operand("indices")


def reads(count: int) -> Callable[[RecordedNode], bool]:
    """The test for nodes that read so many values and no more."""
    return lambda made: len(made.node.inputs) == count


def _stepless(*, to_the_end: bool) -> Callable[[RecordedNode], bool]:
    """The test for slices that state no steps, as the older exporter writes them for no slicing of the user's."""

    def check(made: RecordedNode) -> bool:
        return len(made.node.inputs) == 4 and (made.call.layer.attrs.get("stop") == (None,)) is to_the_end

    return check


def _rolled(late: Op, early: Op) -> Op:
    return Op("Concat", Named("late", late), Named("early", early), check=reads(2))


def _roll(match: Match, _: Extension) -> Group | None:
    """The part from some place on, and then the part before it."""
    root, late, early = (made.call.layer for made in match.nodes)
    axis, x = root.attrs.get("axis"), match.values["x"].shape
    if axis is None or x is None or root.out.shape != x:
        return None
    if any(p.attrs.get("axis") != (axis,) or p.attrs.get("step") not in (None, (1,)) for p in (late, early)):
        return None
    begin, end = _place(late, "start", x[axis]), _place(early, "stop", x[axis])
    if begin is None or begin != end or early.attrs.get("start") != (0,) or _place(late, "stop", x[axis]) != x[axis]:
        return None
    return Group("roll", "Concat", {"x": match.values["x"]}, {"axis": (axis,), "shift": (-begin,)}, match.nodes)


def _place(part: Layer, name: str, length: Dim) -> Dim | None:
    """Where on its axis one end of a slice lies; None where only data tells it."""
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
    """Picked along one axis, which is brought to the front before, and its picks back to its place behind."""
    x, indices = match.values["x"].shape, match.values["indices"].shape
    after, before = (made.call.layer for made in match.nodes if made.node.op == "Transpose")
    picked = next(made.node for made in match.nodes if made.node.op == "GatherND")
    if x is None or indices is None or picked.value("indices").shape != (*indices, 1):
        return None
    axis, n = before.attrs["axes"][0], len(indices)
    if before.attrs["axes"] != (axis, *(i for i in range(len(x)) if i != axis)):
        return None
    back = (*range(n, n + axis), *range(n), *range(n + axis, n + len(x) - 1))
    if after.attrs.get("axes") != back or after.out.shape != (*x[:axis], *indices, *x[axis + 1 :]):
        return None
    operands = {"x": match.values["x"], "indices": match.values["indices"]}
    return Group("gather", "Gather", operands, {"axis": axis}, match.nodes)


def is_gather(made: RecordedNode) -> bool:
    """Whether a ``GatherND`` picks from the whole, and not from each batch apart."""
    return not made.node.args.get("batch_dims")


_SPREAD = Op("Expand", INDICES, Op("Shape", Op("Max", INDICES, check=reads(1))))
_COLUMN = Op("Concat", Op("Unsqueeze", _SPREAD), check=reads(1))
INDEX = Decomposition(
    ("Transpose",), Op("Transpose", Op("GatherND", Op("Transpose", X), _COLUMN, check=is_gather)), _index
)
"""``x[..., indices, ...]``."""


def _select(match: Match, _: Extension) -> Group | None:
    """One place of an axis, which is a slice of it."""
    made = match.nodes[0]
    if match.values["place"].shape != () or made.call.layer.op not in ("gather", "embedding"):
        return None
    axis = made.node.axis(len(match.values["x"].known), "axis") or 0
    attrs = {"axis": (axis,), "start": (number(match.values["place"]),)}
    return Group("slice", "Gather", {"x": match.values["x"]}, attrs, match.nodes)


SLICE = Decomposition(("Gather",), Op("Gather", X, Named("place", Number())), _select)
"""``x[..., 2, ...]``."""

_STEPS = Op("Mul", Op("Range", Number(0), Operand("count"), Number(1)), Number())
_ALONG = Either((Op("Unsqueeze", _STEPS), _STEPS))
_SUM = Either((Op("Add", Operand("rest"), Either((_ALONG, Operand("known")))), _ALONG))


def _as_strided(match: Match, extend: Extension) -> Group | None:
    """Picked from the elements in a row, at places that are known or summed up axis by axis, and said to be that."""
    places: Value | None = match.values["indices"]
    if len(match.values["flat"].shape or ()) != 1 or "aten.as_strided" not in origin(match.nodes[0].node.proto):
        return None
    while places is not None and places.role != "const":
        longer = extend(match._replace(values={"x": match.values["x"]}), places, _SUM)
        if longer is None or ("known" in longer.values and longer.values["known"].role != "const"):
            return None
        match, places = longer, longer.values.get("rest")
    return Group("as_strided", "Gather", {"x": match.values["x"]}, {}, match.nodes)


AS_STRIDED = Decomposition(
    ("Gather",),
    Op("Gather", Named("flat", Op("Reshape", X)), INDICES, check=lambda made: not made.node.args.get("axis")),
    _as_strided,
)
"""Elements at given distances in memory."""
