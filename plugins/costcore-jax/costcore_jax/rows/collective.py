"""Rows of communication between devices."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from .arguments import row

COLLECTIVES: Mapping[str, str] = {
    "all_gather": "all_gather",
    "all_gather_invariant": "all_gather",
    "all_gather_reduced": "all_gather",
    "all_to_all": "all_to_all",
    "pbroadcast": "broadcast_from_root",
    "pgather": "all_gather",
    "ppermute": "send",
    "precv": "receive",
    "psend": "send",
    "ragged_all_to_all": "all_to_all",
}
"""Communication that joins no elements."""

JOINING = ("pmax", "pmin", "psum", "psum2", "psum_invariant", "unreduced_psum", "reduce_scatter", "preduced")
JOINING_MORE = ("unreduced_reduce_scatter",)
"""Communication that sums the operands of all devices, or takes the largest."""

STARTED = ("all_gather", "all_gather_reduced", "all_to_all", "pbroadcast", "ppermute", "psum", "psum_invariant")
STARTED_MORE = ("reduce_scatter", "unreduced_psum", "unreduced_reduce_scatter")
"""Communication in two parts: the first starts it, the second waits."""

ROWS: tuple[Row, ...] = (
    *(row(name, op) for name, op in COLLECTIVES.items()),
    *(row(name, "jax::all_reduce", {"x*": "inputs"}) for name in (*JOINING, *JOINING_MORE)),
    *(row(f"{name}_start", "all_gather") for name in (*STARTED, *STARTED_MORE)),
    *(row(f"{name}_done", "identity") for name in (*STARTED, *STARTED_MORE)),
)
