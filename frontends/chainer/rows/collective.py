"""Rows of ChainerMN's communication between processes, and of its gradients.

The gradients of ``allgather`` and ``bcast`` are sums of what was received: their rows are in elementwise.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

FORWARD: Mapping[str, str] = {
    "AllGather": "all_gather",
    "AllToAll": "all_to_all",
    "Bcast": "broadcast",
    "Gather": "gather_to_root",
    "Scatter": "scatter_from_root",
    "Send": "send",
    "Recv": "recv",
}
BACKWARD: Mapping[str, str] = {
    "AllToAllBackward": "all_to_all",
    "GatherBackward": "scatter_from_root",
    "ScatterBackward": "gather_to_root",
    "SendBackward": "recv",
    "RecvBackward": "send",
}


def sent(name: str) -> Source:
    """Read the arrays of an argument, without the empty ones that only connect Chainer's graph."""

    def read(args: Arguments) -> list[Any]:
        return [array for array in args[name] if array is not None and array.size]

    return read


def received(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs without the empty ones that only connect Chainer's graph."""
    return [array for array in outputs if array is not None and array.size]


GROUP: Mapping[str, Source] = {"group_size": lambda args: args["function"].comm.size}


def _rows(operators: Mapping[str, str], arrays: str) -> list[Row]:
    operands = {"x*": sent(arrays)}
    return [Row(f"chainermn::{name}", op, operands, GROUP, outputs=received) for name, op in operators.items()]


ROWS: tuple[Row, ...] = (*_rows(FORWARD, "inputs"), *_rows(BACKWARD, "gradients"))
