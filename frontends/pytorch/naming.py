"""The full name of an operator in whatever form it is written, ``aten::relu`` for ``F.relu``, ``relu`` or ``relu_``."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

ATEN = "aten::"
HIGHER_ORDER = "higher_order::"

PUBLIC = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "_conj": "conj",
    "_convolution": "convolution",
    "_embedding_bag": "embedding_bag",
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
"""Operators as they reach the device, and the public ones that users know."""

FUNCTIONAL = {
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
"""Names of ``torch.nn.functional`` that are called otherwise below."""

_PREFIXES = ("torch.nn.functional.", "torch.ops.", "torch.Tensor.", "torch.", "F.")


def native_name(func: Any) -> str:
    """The full name of an operator that ran: its packet, in-place forms as the out-of-place ones."""
    if isinstance(func, OpOverload):
        return full_name(func._schema.name)
    return HIGHER_ORDER + str(func.name())


def full_name(name: str) -> str:
    """``namespace::name`` of the public, out-of-place form of an operator."""
    if not name.startswith(ATEN):
        return name
    word = name.removeprefix(ATEN)
    if word.endswith("_") and not word.endswith("__"):
        word = word[:-1]
    return ATEN + PUBLIC.get(word, word)


def type_name(native: str) -> str:
    """What reports print: the bare name of PyTorch's own operators, the full name of everybody else's."""
    return native.removeprefix(ATEN).removeprefix(HIGHER_ORDER)


def native_names(op: object) -> tuple[str, ...]:
    """The full names, as calls have them, of an operator in any form users write it; () for what is none of PyTorch's.

    Taken are operators (``torch.ops.aten.relu``, with or without overload), functions (``torch.relu``,
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
    names = FUNCTIONAL.get(name, (name,))
    known = [full_name(ATEN + n) for n in names if torch._C._jit_get_schemas_for_operator(ATEN + n)]
    return tuple(dict.fromkeys(known))


def arguments_of(native: str) -> frozenset[str] | None:
    """The arguments that the overloads of an operator have, by its full name; None where PyTorch has none so called."""
    namespace, _, name = native.partition("::")
    schemas = torch._C._jit_get_schemas_for_operator(native) if namespace.isidentifier() and name else ()
    return frozenset(argument.name for schema in schemas for argument in schema.arguments) or None
