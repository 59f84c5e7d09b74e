"""Process groups among the arguments of operators, and the arguments that operators of a group write to."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments

WRITTEN = {
    **dict.fromkeys(("allreduce_", "allreduce_coalesced_", "reduce_", "broadcast_"), "tensors"),
    **dict.fromkeys(("recv_", "recv_any_source_"), "tensors"),
    **dict.fromkeys(("allgather_", "reduce_scatter_", "alltoall_", "gather_", "scatter_"), "output_tensors"),
    **dict.fromkeys(("_allgather_base_", "_reduce_scatter_base_"), "output_tensor"),
    **dict.fromkeys(("allgather_into_tensor_coalesced_", "reduce_scatter_tensor_coalesced_"), "outputs"),
    "allgather_coalesced_": "output_lists",
    "alltoall_base_": "output",
    "send": "",
    "barrier": "",
    "monitored_barrier_": "",
}
"""The argument that an operator of a process group writes to; their schemas do not say so."""

_MESH = "mesh_"
"""The beginning of the descriptions of groups along a dimension of a mesh; the name of the dimension follows."""


def written_argument(name: str) -> str | None:
    """Return the argument that ``c10d::…`` writes to, ``""`` if it writes to none; None for any other operator."""
    namespace, _, operator = name.partition("::")
    return WRITTEN.get(operator) if namespace == "c10d" else None


def _group(args: Arguments) -> Any:
    """Return the process group of a call, which is passed itself or by its name."""
    found = args.get("process_group", args.get("group_name"))
    if isinstance(found, str):
        from torch.distributed.distributed_c10d import _resolve_process_group

        return _resolve_process_group(found)
    if found is not None and not hasattr(found, "size"):  # operators take it as a script object
        from torch.distributed import ProcessGroup

        return ProcessGroup.unbox(found)
    return found


def group_size(args: Arguments) -> int:
    """Return the number of processes of the group of a call."""
    return int(_group(args).size())


def group_name(args: Arguments) -> str | None:
    """Return the name of the mesh dimension along which the group of a call communicates; None if it has none."""
    description = str(getattr(_group(args), "group_desc", ""))
    return description.removeprefix(_MESH) if description.startswith(_MESH) else None


def reduction(args: Arguments) -> str | None:
    """Return the name of a reduction, such as ``sum``; None if this version of PyTorch does not show it."""
    operator = args["reduce_op"]
    if isinstance(operator, str):
        return operator.lower()
    from torch.distributed import ReduceOp

    try:
        number = operator.op()
    except (AttributeError, RuntimeError):  # an object of C++ without that method
        return None
    return str(ReduceOp.RedOpType(number).name).lower()


def is_root(args: Arguments, root: str) -> bool:
    """Return whether this process is the one whose rank in the group is the argument ``root``."""
    return bool(_group(args).rank() == args[root])
