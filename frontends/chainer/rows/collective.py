"""Rows of ChainerMN's communication between processes, and of its gradients.

The gradients of ``allgather`` and ``bcast`` are sums of what was received: their rows are in elementwise.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

FORWARD: Mapping[str, str] = {
    "AllGather": "all_gather",
    "AllToAll": "all_to_all",
    "Bcast": "broadcast_from_root",
    "Gather": "gather_to_root",
    "Scatter": "scatter_from_root",
    "Send": "send",
    "Recv": "receive",
}
BACKWARD: Mapping[str, str] = {
    "AllToAllBackward": "all_to_all",
    "GatherBackward": "scatter_from_root",
    "ScatterBackward": "gather_to_root",
    "SendBackward": "receive",
    "RecvBackward": "send",
}


def sent(name: str) -> Source:
    """Read the arrays of an argument, without the empty ones that only connect Chainer's graph."""

    def read(args: Arguments) -> list[Any]:
        return [array for array in args[name] if array is not None and array.size]

    return read


ROWS: tuple[Row, ...] = (
    *(Row(f"chainermn::{name}", op, {"x*": sent("inputs")}) for name, op in FORWARD.items()),
    *(Row(f"chainermn::{name}", op, {"x*": sent("gradients")}) for name, op in BACKWARD.items()),
)
