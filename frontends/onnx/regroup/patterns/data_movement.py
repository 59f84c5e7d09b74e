"""Roll, gather, select and ``as_strided`` as exporters decompose them."""

from __future__ import annotations

from collections.abc import Callable

from costcore.ir import Layer
from costcore.numbers.dims import Dim
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

from ...reading.exporter_metadata import origin
from ...values.value import Value
from ...walk.history import RecordedNode
from ..matcher import Decomposition, Extension, Group, Match, X
from .checks import scalar

INDICES = Operand("indices")


def reads(count: int) -> Callable[[RecordedNode], bool]:
    """Return the check for nodes with exactly ``count`` inputs."""
    return lambda recorded: len(recorded.node.inputs) == count


def is_whole(recorded: RecordedNode) -> bool:
    """Return True for a slice of all elements in their order, which older exporters write for ``x[:]``."""
    layer = recorded.call.layer
    steps = layer.attrs.get("step") or (1,)
    return layer.out.shape == layer["x"].shape and all(step == 1 for step in steps)


def order_of(recorded: RecordedNode) -> tuple[int, ...]:
    """Return the order into which a transposition brings the axes, of a constant too."""
    return tuple(recorded.node.args.get("perm") or reversed(range(len(recorded.node.value("data").known_shape))))


def _stepless(*, to_the_end: bool) -> Callable[[RecordedNode], bool]:
    """Return the check for slices without steps, which the TorchScript exporter writes only if it decomposes."""

    def check(recorded: RecordedNode) -> bool:
        return len(recorded.node.inputs) == 4 and (recorded.call.layer.attrs.get("stop") == (None,)) is to_the_end

    return check


def _rolled(late: Op, early: Op) -> Op:
    return Op("Concat", Named("late", late), Named("early", early), check=reads(2))


def _roll(match: Match, _: Extension) -> Group | None:
    """Build the part of a tensor from some index on, followed by the part before it."""
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
    """Return the index of one end of a slice; None if it depends on data."""
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
    """Build a gather along one axis, which is transposed to the front before and back behind."""
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
"""How many tensors of indices of one operation are matched."""


def _at_once(count: int) -> Pattern:
    """Return the elements at the places that several broadcast tensors of indices name."""
    indices = [Operand(f"indices{i}") for i in range(count)]
    shape = Op("Shape", Op("Max", *indices, check=reads(count)))
    rows = Op("Concat", *(Op("Unsqueeze", Op("Expand", each, shape)) for each in indices), check=reads(count))
    return Op("GatherND", Either((Op("Transpose", X), X)), rows, check=is_gather)


def _indices(match: Match, _: Extension) -> Group | None:
    operands = {name: value for name, value in match.values.items() if name.startswith(("x", "indices"))}
    return Group("gather", "Gather", operands, {}, match.nodes)


_INDEXED = Either(tuple(map(_at_once, range(2, MOST_INDICES + 1))))
INDEX = Decomposition(
    ("Transpose", "GatherND"), Either((Op("Transpose", _INDEXED), _INDEXED)), _indices, needs_origin=True
)
"""``x[indices, others]``."""


def _select(match: Match, _: Extension) -> Group | None:
    """Build a slice for one index along an axis."""
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
_SUM = Either((Op("Add", Operand("rest"), Either((_ALONG, Operand("known")))), _ALONG))


def _as_strided(match: Match, extend: Extension) -> Group | None:
    """Build ``as_strided``: flat elements at indices that are constant or summed axis by axis."""
    places: Value | None = match.values["indices"]
    if len(match.values["flat"].shape or ()) != 1 or "aten.as_strided" not in origin(match.nodes[0].node.proto):
        return None
    while places is not None and places.role != "const":
        longer = extend(Match({"x": match.values["x"]}, match.nodes), places, _SUM)
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
_PLACES = Op("Add", _COUNTED, Either((_COUNTED, Op("Reshape"), Operand("offsets"))))


def _is_im2col(recorded: RecordedNode) -> bool:
    """Return True if positions in windows go before positions of windows: ``[N, C, kh, kw, h, w]``."""
    return order_of(recorded) == (0, 1, 2, 4, 3, 5)


IM2COL = Decomposition(
    ("Reshape",),
    Op(
        "Reshape",
        Op(
            "Transpose",
            Op("Gather", Op("Gather", Op("Pad", X), Named("rows", _PLACES)), Named("columns", _PLACES)),
            check=_is_im2col,
        ),
    ),
    lambda match, _: Group("im2col", "Im2col", {"x": match.values["x"]}, {}, match.nodes),
)
"""``unfold(x)``: windows of an image as columns."""


def _wraps(recorded: RecordedNode) -> bool:
    return recorded.node.args.get("mode") == "wrap"


def _circular(match: Match, _: Extension) -> Group | str | None:
    """Build the copies of a circular border: the last elements first, and the first ones last."""
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
