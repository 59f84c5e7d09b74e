"""Full names of operators: ``aten::relu`` for ``F.relu``, ``relu`` or ``relu_``."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

ATEN = "aten::"
HIGHER_ORDER = "higher_order::"
FUNCTIONAL = "torch.nn.functional::"

PUBLIC_NAMES = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "_conj": "conj",
    "_convolution": "convolution",
    "_embedding_bag": "embedding_bag",
    "_index_put_impl": "index_put",
    "_local_scalar_dense": "item",
    "_log_softmax": "log_softmax",
    "_prelu_kernel": "prelu",
    "_reshape_alias": "view",
    "_softmax": "softmax",
    "_to_copy": "to",
    "_unsafe_index": "index",
    "_unsafe_index_put": "index_put",
    "_unsafe_view": "view",
    "is_nonzero": "item",
}
"""The public operator for an operator as it reaches the device."""

FUNCTIONAL_NAMES = {
    "cross_entropy": ("cross_entropy_loss",),
    "ctc_loss": ("ctc_loss",),
    "hardtanh": ("hardtanh",),
    "interpolate": (
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d"),
        *("upsample_trilinear3d", "upsample_bicubic2d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d"),
        *("_upsample_nearest_exact3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    ),
    "logsigmoid": ("log_sigmoid",),
    "nll_loss": ("nll_loss", "nll_loss_nd"),
    "relu6": ("relu6", "hardtanh"),
}
"""The operators of functions in ``torch.nn.functional`` with another name."""

_PREFIXES = ("torch.nn.functional.", "torch.ops.", "torch.Tensor.", "torch.", "F.")


def native_name(func: Any) -> str:
    """Return the full name of an operator that ran, without overload, and out of place."""
    if isinstance(func, OpOverload):
        return full_name(func._schema.name)
    if isinstance(func, FunctionType):
        return f"{func.__module__}::{func.__name__}"
    return HIGHER_ORDER + str(func.name())


def is_in_place(name: str) -> bool:
    """Return whether a full name is that of an operator of PyTorch that writes into its first operand."""
    return name.startswith(ATEN) and name.endswith("_") and not name.endswith("__")


def full_name(name: str) -> str:
    """Return ``namespace::name`` of the public, out-of-place form of an operator."""
    if not name.startswith(ATEN):
        return name
    word = name[len(ATEN) : -1 if is_in_place(name) else None]
    return ATEN + PUBLIC_NAMES.get(word, word)


def type_name(native: str) -> str:
    """Return the name in reports: the full name, without the namespace of PyTorch's own operators."""
    return native.removeprefix(ATEN).removeprefix(HIGHER_ORDER).removeprefix(FUNCTIONAL)


def native_names(op: object) -> tuple[str, ...]:
    """Return the full names of an operator in any form users write it; () if it is not one of PyTorch's.

    These forms are operators (``torch.ops.aten.relu``, with or without overload), functions (``torch.relu``,
    ``torch.nn.functional.relu``, ``torch.Tensor.relu``), custom operators, and all of these as strings.
    """
    if isinstance(op, OpOverload):
        return (native_name(op),)
    if isinstance(op, OpOverloadPacket):
        return (full_name(op._qualified_op_name),)
    if isinstance(op, str):
        return _names_of_word(op)
    if isinstance(qualified := getattr(op, "_qualname", None), str) and "::" in qualified:
        return (qualified,)
    module = getattr(op, "__module__", None) or getattr(getattr(op, "__objclass__", None), "__module__", None) or ""
    owner = getattr(op, "__self__", None)
    if not callable(op) or isinstance(op, type) or not (module.startswith("torch") or _is_torch(owner)):
        return ()
    return _names_of_word(getattr(op, "__name__", ""))


def _is_torch(owner: object) -> bool:
    return owner is torch or getattr(owner, "__module__", "").startswith("torch")


def _names_of_word(word: str) -> tuple[str, ...]:
    if "::" in word:
        namespace, _, rest = word.partition("::")
        packet = f"{namespace}::{rest.partition('.')[0]}"
        is_one = namespace.isidentifier() and torch._C._jit_get_schemas_for_operator(packet)
        return (full_name(packet),) if is_one else ()
    for prefix in _PREFIXES:
        if word.startswith(prefix):
            word = word.removeprefix(prefix)
            break
    namespace, _, rest = word.partition(".")
    if rest and namespace != "aten":
        return _names_of_word(f"{namespace}::{rest}")
    name = (rest or namespace).partition(".")[0]
    names = FUNCTIONAL_NAMES.get(name, (name,))
    found = [full_name(ATEN + n) for n in names if torch._C._jit_get_schemas_for_operator(ATEN + n)]
    return tuple(dict.fromkeys(found))


def arguments_of(native: str) -> frozenset[str] | None:
    """Return the argument names of all overloads of an operator; None if there is no such operator."""
    namespace, _, name = native.partition("::")
    schemas = torch._C._jit_get_schemas_for_operator(native) if namespace.isidentifier() and name else ()
    return frozenset(argument.name for schema in schemas for argument in schema.arguments) or None
