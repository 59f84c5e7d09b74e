"""The function that a call was spelled with, or the most likely one."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.trace.call import Call
from costcore.trace.trace import Trace

_F = "F."
_PREFIXES = {"torch.nn.functional.": _F}


def is_spelled(trace: Trace) -> bool:
    """Return whether the capture kept the functions by which calls were spelled."""
    return any(call.function for call in trace.calls)


def short_function(qualified: str) -> str:
    """Return the name of a function as rules write it: ``F.relu`` for ``torch.nn.functional.relu``."""
    for prefix, short in _PREFIXES.items():
        if qualified.startswith(prefix):
            return short + qualified.removeprefix(prefix)
    return qualified


_OF_OPERATORS: Mapping[str, str] = {
    **{
        name: f"{_F}{name}"
        for name in (
            *("linear", "conv1d", "conv2d", "conv3d", "batch_norm", "layer_norm", "group_norm", "instance_norm"),
            *("rms_norm", "softmax", "relu", "relu6", "gelu", "silu", "elu", "leaky_relu", "prelu", "hardtanh"),
            *("hardswish", "sigmoid", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d"),
            *("avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "embedding"),
            *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "scaled_dot_product_attention"),
        )
    },
    **{f"conv_transpose{n}d": f"{_F}conv_transpose{n}d" for n in (1, 2, 3)},
    **{
        f"upsample_{mode}": f"{_F}interpolate"
        for mode in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
    },
    "matmul": "torch.matmul",
    "bmm": "torch.bmm",
    "mm": "torch.mm",
    "addmm": "torch.addmm",
    "baddbmm": "torch.baddbmm",
    "einsum": "torch.einsum",
    "add": "operator.add",
    "mul": "operator.mul",
}
"""The usual spelling of operators, by the name of the native operator."""

_ONLY_IN_MODULES = frozenset((f"{_F}relu", f"{_F}sigmoid"))
"""Functions that code of users rather calls as a method or as ``torch.relu``."""


def guessed_function(call: Call, types: tuple[str, ...]) -> str:
    """Return the function that most models call for an operator; ``""`` if none is usual.

    Args:
        call: the call.
        types: the types of its module, see :meth:`ModuleIndex.types`.
    """
    function = _OF_OPERATORS.get(call.operator.partition("::")[2], "")
    in_torch_module = bool(types) and types[0].startswith("nn.")
    return "" if function in _ONLY_IN_MODULES and not in_torch_module else function
