"""Rows of communication between devices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from costcore.translate import Arguments, Row

from .arguments import XS, X, constant

COLLECTIVES: Mapping[str, str] = {
    "all_gather": "all_gather",
    "all_gather_invariant": "all_gather",
    "all_gather_reduced": "all_gather",
    "all_to_all": "all_to_all",
    "pbroadcast": "broadcast",
    "pgather": "all_gather",
    "ppermute": "send",
    "precv": "recv",
    "psend": "send",
    "ragged_all_to_all": "all_to_all",
}
"""Communication that joins no elements."""

JOINING: Mapping[str, tuple[str, str]] = {
    "pmax": ("all_reduce", "max"),
    "pmin": ("all_reduce", "min"),
    "psum": ("all_reduce", "sum"),
    "psum2": ("all_reduce", "sum"),
    "psum_invariant": ("all_reduce", "sum"),
    "unreduced_psum": ("all_reduce", "sum"),
    "preduced": ("all_reduce", "sum"),
    "reduce_scatter": ("reduce_scatter", "sum"),
    "unreduced_reduce_scatter": ("reduce_scatter", "sum"),
}
"""Communication that sums the operands of all devices, or takes the largest."""

OPERATORS: Mapping[str, str] = {**COLLECTIVES, **{name: op for name, (op, _) in JOINING.items()}}

STARTED = ("all_gather", "all_gather_reduced", "all_to_all", "pbroadcast", "ppermute", "psum", "psum_invariant")
STARTED_MORE = ("reduce_scatter", "unreduced_psum", "unreduced_reduce_scatter")
"""Communication in two parts: the first starts it, the second waits."""


def axis_names(a: Arguments) -> tuple[str, ...]:
    """Return the names of the axes of devices along which an equation communicates."""
    names = a.get("axes", a.get("axis_name", ()))
    return tuple(name for name in (names if isinstance(names, (tuple, list)) else (names,)) if isinstance(name, str))


def group_size(a: Arguments) -> int:
    """Return the number of devices that communicate: those along its axes, or of a group of them."""
    groups = a.get("axis_index_groups")
    return len(groups[0]) if groups else prod(a["device_axes"][name] for name in axis_names(a))


def is_known(a: Arguments) -> bool:
    """Return whether the number of devices is known: whether ``shard_map`` states the axes."""
    return all(name in a["device_axes"] for name in axis_names(a))


ROWS: tuple[Row, ...] = (
    *(Row(f"jax::{name}", op, X, {"group_size": group_size}, is_known) for name, op in COLLECTIVES.items()),
    *(
        Row(f"jax::{name}", op, XS, {"group_size": group_size, "reduce": constant(how)}, is_known)
        for name, (op, how) in JOINING.items()
    ),
    *(
        Row(f"jax::{name}_start", OPERATORS[name], XS, {"group_size": group_size}, is_known)
        for name in (*STARTED, *STARTED_MORE)
    ),
    *(Row(f"jax::{name}_done", "identity", X) for name in (*STARTED, *STARTED_MORE)),
)
