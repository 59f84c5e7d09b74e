"""The collectives of a trace, as layers of the canonical collectives."""

from __future__ import annotations

from costcore.ir import Layer, Tensor

from .records import Op

PARAMETERS = "record_param_comms"
"""The name of the span in which PyTorch states what a collective sends."""

OPERATORS = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced", "all_reduce", "all_reduce_barrier"), "all_reduce"),
    **dict.fromkeys(("broadcast", "broadcast_oop", "_broadcast_oop"), "broadcast"),
    **dict.fromkeys(("allgather", "all_gather", "_allgather_base", "allgather_into_tensor_coalesced"), "all_gather"),
    **dict.fromkeys(("allgather_coalesced", "all_gather_into_tensor"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor"), "reduce_scatter"),
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    **dict.fromkeys(("all_to_all", "all_to_allv", "alltoall", "alltoall_base"), "all_to_all"),
    **dict.fromkeys(("reduce", "_reduce_oop"), "reduce_to_root"),
    "gather": "gather_to_root",
    "scatter": "scatter_from_root",
    "send": "send",
    "recv": "recv",
    "barrier": "barrier",
}
"""Canonical operators by the names of collectives in a trace."""

BOOKKEEPING = frozenset(("wait", "init"))
"""What a trace names like a collective, and that sends nothing."""

_REDUCED = ("all_reduce", "reduce_scatter", "reduce_to_root")

_DTYPES = {
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Double": "float64",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Byte": "uint8",
    "Char": "int8",
    "Bool": "bool",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2": "float8_e5m2",
}


def collective_of(op: Op) -> Layer | None:
    """Return the collective that a span states as a layer; None if the file does not say enough."""
    details = op.details or {}
    name = OPERATORS.get(str(details.get("Collective name")))
    if name is None:
        return None
    n = _whole(details.get("Group size"))
    if name == "barrier":
        return Layer(name, {}, (), {"group_size": n}) if n else None
    sent, received = _whole(details.get("In msg nelems")), _whole(details.get("Out msg nelems"))
    dtype = _DTYPES.get(str(details.get("dtype")))
    if n is None or sent is None or received is None or dtype is None:
        return None
    attributes: dict[str, object] = {"group_size": n} | ({"reduce": "sum"} if name in _REDUCED else {})
    inputs = {} if name == "recv" else {"x0": Tensor((sent,), dtype)}
    outputs = () if name == "send" else (Tensor((received,), dtype),)
    return Layer(name, inputs, outputs, attributes)


def is_bookkeeping(op: Op) -> bool:
    """Return whether a span names a collective that sends nothing."""
    return str((op.details or {}).get("Collective name")) in BOOKKEEPING


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**63 else None
