"""Rows of operators that view, order, copy, look up or create elements."""

from __future__ import annotations

from typing import Any

from costcore.graphs.graph import XS, X, given, operand
from costcore.translate import Arguments, Row

from .arguments import JOINED, activation, axis_of, has_activation, numbers, row
from .products import is_learned_table


def _widths(a: Arguments) -> Any:
    """Return the widths of borders, those before all axes first; None if they are not known."""
    found = numbers(a, 1)
    return None if found is None or len(found) % 2 else (*found[::2], *found[1::2])


def _before(a: Arguments) -> Any:
    found = numbers(a, 1)
    return None if found is None or len(found) % 2 else found[::2]


def _item_axis(a: Arguments) -> int:
    """Return the axis of PACK or UNPACK, counted from the front."""
    rank: int = max(a["inputs"][0].ndim, a["outputs"][0].ndim if a["outputs"] else 0)
    return int(a.get("Axis", 0)) % max(rank, 1)


def _joined_axis(a: Arguments) -> int:
    return axis_of(a, int(a.get("Axis", 0)))


def _split_axis(position: int, of: int) -> Any:
    """Return a source for the axis of a split, a constant operand; ``of`` is the position of what is split."""

    def read(a: Arguments) -> Any:
        found = numbers(a, position)
        return axis_of(a, found[0], of) if found and len(found) == 1 else None

    return read


def _permutation(a: Arguments) -> Any:
    found = numbers(a, 1)
    return None if found is None else tuple(axis_of(a, axis) for axis in found)


def _slice(a: Arguments) -> dict[str, Any]:
    """Return starts, stops and steps of every axis of a slice, if they are known and no axis is added."""
    starts, ends, steps = (numbers(a, i) for i in (1, 2, 3))
    if "BeginMask" in a:
        if starts is None or ends is None or steps is None or a.get("EllipsisMask") or a.get("NewAxisMask"):
            return {}
        starts = tuple(0 if a["BeginMask"] >> i & 1 else start for i, start in enumerate(starts))
        stops = tuple(None if a["EndMask"] >> i & 1 else end for i, end in enumerate(ends))
        return {"start": starts, "stop": stops, "axis": tuple(range(len(starts))), "step": steps}
    if starts is None or ends is None:
        return {}
    stops = tuple(None if size == -1 else start + size for start, size in zip(starts, ends, strict=False))
    return {"start": starts, "stop": stops, "axis": tuple(range(len(starts)))}


SLICE = {name: lambda a, name=name: _slice(a).get(name) for name in ("start", "stop", "axis", "step")}

PADDED = {"padding": _widths, "before": _before}

ROWS: tuple[Row, ...] = (
    *(row(native, "reshape", X) for native in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "STABLEHLO_RESHAPE")),
    row("BITCAST", "bitcast", X),
    row("SHAPE", "shape", X),
    row("RANK", "shape", X),
    row("CAST", "cast", X, dtype=lambda a: a["outputs"][0].dtype),
    row("STABLEHLO_CONVERT", "cast", X, dtype=lambda a: a["outputs"][0].dtype),
    row("TRANSPOSE", "transpose", X, axes=_permutation),
    row("STABLEHLO_TRANSPOSE", "transpose", X, axes="Permutation"),
    row("BROADCAST_TO", "broadcast_to", X),
    row("STABLEHLO_BROADCAST_IN_DIM", "broadcast_to", X),
    row("TILE", "tile", X, repeats=lambda a: numbers(a, 1)),
    Row("tflite::PAD", "pad", X, {"mode": lambda a: "constant", **PADDED}),
    Row("tflite::PADV2", "pad", X, {"mode": lambda a: "constant", **PADDED}),
    Row("tflite::MIRROR_PAD", "pad", X, {"mode": lambda a: "reflect", **PADDED}),
    row("STABLEHLO_PAD", "pad", X, mode=lambda a: "constant"),
    row("DILATE", "pad", X, mode=lambda a: "constant"),
    row("BROADCAST_ARGS", "maximum", XS),
    row("STABLEHLO_GATHER", "gather", {"x": operand(0), "indices": operand(1)}),
    Row("tflite::SLICE", "slice", X, SLICE),
    Row("tflite::STRIDED_SLICE", "slice", X, SLICE),
    row("STABLEHLO_SLICE", "slice", X),
    row("STABLEHLO_DYNAMIC_SLICE", "slice", X),
    *(
        row(native, "slice_scatter", {"x": operand(0), "updates": operand(1)})
        for native in ("DYNAMIC_UPDATE_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE")
    ),
    Row(
        "tflite::CONCATENATION",
        "activated_concat",
        XS,
        {"axis": _joined_axis, "activation": activation},
        has_activation,
    ),
    row("CONCATENATION", "concat", XS, axis=_joined_axis),
    row("STABLEHLO_CONCATENATE", "concat", XS, axis="Dimension"),
    row("PACK", "stack", XS, axis=_item_axis),
    row("UNPACK", "unbind", X, axis=_item_axis),
    row("SPLIT", "split", {"x": operand(1)}, axis=_split_axis(0, 1)),
    row("SPLIT_V", "split", X, axis=_split_axis(2, 0)),
    row("REVERSE_V2", "flip", X, axis=lambda a: _permutation(a)),
    row("REVERSE_SEQUENCE", "reverse_sequence", {"x": operand(0), "lengths": operand(1)}),
    row("SPACE_TO_BATCH_ND", "space_to_batch", X),
    row("BATCH_TO_SPACE_ND", "space_to_batch", X),
    Row("tflite::GATHER", "embedding", {"x": operand(1), "w": operand(0)}, when=is_learned_table),
    row(
        "GATHER",
        "gather",
        {"x": operand(0), "indices": operand(1)},
        axis=_joined_axis,
        index=lambda a: (numbers(a, 1) or (None,))[0] if given(a, 1).shape == () else None,
    ),
    row("GATHER_ND", "gather_nd", {"x": operand(0), "indices": operand(1)}),
    row(
        "SCATTER_ND",
        "scatter_nd",
        {"x": lambda a: None, "indices": operand(0), "updates": operand(1)},
        reduction=lambda a: "add",
    ),
    Row(
        "tflite::STABLEHLO_SCATTER",
        "scatter_nd",
        {"x": operand(0), "indices": operand(1), "updates": operand(2)},
        {"reduction": lambda a: JOINED[a["update"]]},
        when=lambda a: a.get("update") in JOINED,
    ),
    row("STABLEHLO_SORT", "sort", {"x": operand(0), "x*": lambda a: a["inputs"][1:]}, axis="Dimension"),
    row("SPARSE_TO_DENSE", "to_dense", {"x": operand(2)}),
    row("MATRIX_DIAG", "diag_embed", X),
    row("MATRIX_SET_DIAG", "diagonal_scatter", {"x": operand(0), "updates": operand(1)}),
    row("ONE_HOT", "one_hot", {"x": operand(0)}),
    row("FILL", "full", {}),
    row("ZEROS_LIKE", "full", {}),
    row("RANGE", "arange", {}),
    row("STABLEHLO_IOTA", "arange", {}),
    row("REAL", "copy", X),
    row("IMAG", "copy", X),
    row("VAR_HANDLE", "empty", {}),
    row("READ_VARIABLE", "copy", X),
    row("ASSIGN_VARIABLE", "copy", {"x": operand(1)}),
)
