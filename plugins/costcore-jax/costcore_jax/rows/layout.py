"""Rows of primitives that create, move, cast or mark values."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import XS, X, axes, operand, row, sizes

SAME = (
    *("copy_p", "device_put", "layout_constraint", "name", "optimization_barrier", "pvary", "reshard", "tie"),
    *("sharding_constraint", "stop_gradient", "to_edtype", "from_edtype", "reduced_vary_cast_p"),
    *("vary_unreduced_cast_p", "with_memory_space_constraint", "pin", "unpin", "dce_sink", "empty_ref", "new_ref"),
    *("freeze", "free_ref", "create_linear", "stage"),
)
"""Primitives that return their operands."""

NOTHING = (
    *("after_all", "axis_index", "create_token", "debug_callback", "debug_print", "dim_as_value", "dimension_size"),
    *("box_get", "box_set", "log_extend", "log_read", "new_box", "new_log"),
    *("inspect_sharding", "iota_2x32_shape", "platform_index", "shape_assertion", "check", "unreachable"),
)
"""Primitives that compute no elements of tensors."""


def _keeps_elements(a: Arguments) -> bool:
    """Return whether a broadcast only adds axes of size 1."""
    return bool(a["inputs"]) and a["inputs"][0].size == a["outputs"][0].size


def _is_number(a: Arguments) -> bool:
    """Return whether a broadcast repeats one literal."""
    return bool(a["inputs"][0].number is not None)


def _is_same_dtype(a: Arguments) -> bool:
    return bool(a["inputs"][0].dtype == a["outputs"][0].dtype)


def _pads(a: Arguments) -> Any:
    return tuple((int(low), int(high), int(between)) for low, high, between in a["padding_config"])


def _dtype(a: Arguments) -> str:
    found: str = a["outputs"][0].dtype
    return found


ROWS: tuple[Row, ...] = (
    *(Row(f"jax::{name}", "identity", X if name != "empty_ref" else {}) for name in SAME),
    *(Row(f"jax::{name}", "shape") for name in NOTHING),
    *(row(name, "reshape") for name in ("reshape", "squeeze", "expand_dims")),
    Row("jax::broadcast_in_dim", "reshape", X, when=_keeps_elements),
    Row("jax::broadcast_in_dim", "full", when=_is_number),
    Row("jax::broadcast_in_dim", "broadcast_to", X),
    row("broadcast_to", "broadcast_to"),
    Row("jax::convert_element_type", "identity", X, when=_is_same_dtype),
    row("convert_element_type", "cast", dtype=_dtype),
    row("bitcast_convert_type", "bitcast"),
    row("reduce_precision", "cast"),
    row("real", "copy"),
    row("imag", "copy"),
    row("copy", "copy"),
    row("transpose", "transpose", axes=axes("permutation")),
    row("rev", "flip", axis=axes("dimensions")),
    row("concatenate", "concat", XS, axis=axes("dimension")),
    row("stack", "stack", XS, axis=lambda a: int(a.get("axis", 0))),
    row("unstack", "unbind", X, axis=lambda a: int(a.get("axis", 0))),
    row("tile", "tile", repeats=sizes("reps")),
    row("pad", "pad", X, padding=_pads),
    row("slice", "slice", X, start=sizes("start_indices"), stop=sizes("limit_indices"), step=sizes("strides")),
    row("split", "split", X, axis=axes("axis")),
    row("dynamic_slice", "slice", X),
    row("dynamic_update_slice", "slice_scatter", {"x": operand(0), "updates": operand(1)}),
    row("iota", "arange", {}),
    *(row(name, "empty", {}) for name in ("empty", "empty2", "zeros_like")),
)
