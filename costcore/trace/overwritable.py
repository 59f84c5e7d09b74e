"""Operators that compute each element of their output from the elements of their operands at the same position."""

from __future__ import annotations

from costcore.ir import Layer

VIEWS = frozenset(("identity", "reshape"))
"""Operators whose result is their operand in other words, in frameworks that do not report what shares memory."""

ELEMENTWISE = frozenset(
    (
        *("abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "batch_norm", "binarize"),
        *("bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"),
        *("cbrt", "ceil", "celu", "clip", "conj", "copysign", "cos", "cosh", "deg2rad", "digamma", "div", "dropout"),
        *("elu", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp2", "expm1", "floor", "floor_div", "fmod"),
        *("frac", "gelu", "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh", "heaviside", "hypot", "i0"),
        *("leaky_relu", "lerp", "lgamma", "log", "log10", "log1p", "log2", "log_sigmoid", "logaddexp", "logaddexp2"),
        *("logical_and", "logical_not", "logical_or", "logical_xor", "logit", "maximum", "minimum", "mish", "mod"),
        *("mul", "nan_to_num", "neg", "pow", "prelu", "quick_gelu", "rad2deg", "reciprocal", "relu", "relu6", "round"),
        *("rsqrt", "scaled_tanh", "selu", "sigmoid", "sign", "silu", "sin", "sinc", "sinh", "soft_shrink"),
        *("softplus", "softsign", "sqrt", "square", "squared_difference", "standardize", "sub", "tan", "tanh"),
        *("tanh_shrink", "threshold", "trunc", "where", "xlog1py", "xlogy"),
    )
)
"""Operators that may write their output over an operand of the same shape and dtype."""


def overwritable(layer: Layer) -> list[int]:
    """Return the positions of the operands that the output of a layer may be written over, in order."""
    if layer.op not in ELEMENTWISE or len(layer.outputs) != 1:
        return []
    y = layer.out
    return [
        i
        for i, x in enumerate(layer.inputs.values())
        if x.role == "data" and x.stored is None and x.dtype == y.dtype and x.shape == y.shape
    ]
