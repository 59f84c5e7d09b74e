"""Rows of communication: functional collectives, those of process groups (``c10d``), and of distributed tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..meta.operands import all_tensors
from ..operators.process_groups import group_name, group_size, is_root, reduction

_GROUP: dict[str, Source] = {"group_size": group_size, "group": group_name}


def _list(name: str) -> Source:
    """Read a tensor or nested lists of tensors as one list."""
    return lambda args: list(all_tensors([args[name]]))


_REDUCED: dict[str, Source] = {**_GROUP, "reduce": reduction}


def _functional() -> Iterator[Row]:
    """Yield the rows of operators that return their result."""
    reduced = {
        "all_reduce": ("all_reduce", "all_reduce_"),
        "reduce_scatter": ("reduce_scatter_tensor", "reduce_scatter_tensor_out"),
    }
    for op, natives in reduced.items():
        for native in natives:
            yield Row(f"_c10d_functional::{native}", op, {"x": "input"}, _REDUCED)
    for native in ("all_gather_into_tensor", "all_gather_into_tensor_out"):
        yield Row(f"_c10d_functional::{native}", "all_gather", {"x": "input"}, _GROUP)
    for native in ("all_reduce_coalesced", "all_reduce_coalesced_"):
        yield Row(f"_c10d_functional::{native}", "all_reduce", {"x*": "inputs"}, _REDUCED)
    yield Row("_c10d_functional::reduce_scatter_tensor_coalesced", "reduce_scatter", {"x*": "inputs"}, _REDUCED)
    yield Row("_c10d_functional::all_gather_into_tensor_coalesced", "all_gather", {"x*": "inputs"}, _GROUP)
    yield Row("_c10d_functional::all_to_all_single", "all_to_all", {"x": "input"}, _GROUP)
    yield Row("_dtensor::shard_dim_alltoall", "all_to_all", {"x": "input"}, _GROUP)
    for end in ("", "_"):
        yield Row(f"_c10d_functional::broadcast{end}", "broadcast", {"x": _at_root("input", "src")}, _GROUP)


def _at_root(tensor: str, root: str) -> Source:
    return lambda args: args[tensor] if is_root(args, root) else None


def _of_groups() -> Iterator[Row]:
    """Yield the rows of operators that write their result to an argument, which they do not read."""
    reduced: Mapping[str, tuple[str, str]] = {
        "allreduce_": ("all_reduce", "tensors"),
        "allreduce_coalesced_": ("all_reduce", "tensors"),
        "reduce_": ("reduce_to_root", "tensors"),
        "reduce_scatter_": ("reduce_scatter", "input_tensors"),
        "_reduce_scatter_base_": ("reduce_scatter", "input_tensor"),
        "reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs"),
    }
    moved: Mapping[str, tuple[str, str]] = {
        "allgather_": ("all_gather", "input_tensors"),
        "_allgather_base_": ("all_gather", "input_tensor"),
        "allgather_coalesced_": ("all_gather", "input_list"),
        "allgather_into_tensor_coalesced_": ("all_gather", "inputs"),
        "alltoall_": ("all_to_all", "input_tensors"),
        "alltoall_base_": ("all_to_all", "input"),
        "gather_": ("gather_to_root", "input_tensors"),
        "scatter_": ("scatter_from_root", "input_tensors"),
    }
    for name, (op, operands) in reduced.items():
        yield Row(f"c10d::{name}", op, {"x*": _list(operands)}, _REDUCED)
    for name, (op, operands) in moved.items():
        yield Row(f"c10d::{name}", op, {"x*": _list(operands)}, _GROUP)
    yield Row("c10d::send", "send", {"x*": _list("tensors")}, _GROUP, outputs=_nothing)
    for name in ("recv_", "recv_any_source_"):
        yield Row(f"c10d::{name}", "recv", {}, _GROUP)
    yield Row("c10d::broadcast_", "broadcast", {"x*": _list_at_root}, _GROUP, outputs=_unless_root)
    for name in ("barrier", "monitored_barrier_"):
        yield Row(f"c10d::{name}", "barrier", {}, _GROUP, outputs=_nothing)


def _list_at_root(args: Arguments) -> list[Any]:
    return list(all_tensors([args["tensors"]])) if is_root(args, "root_rank") else []


def _unless_root(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    return [] if is_root(args, "root_rank") else outputs


def _nothing(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    return []


ROWS: tuple[Row, ...] = (*_functional(), *_of_groups())
