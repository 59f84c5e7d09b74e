"""Operators that compute each element of their output from the elements of their operands at the same position."""

from __future__ import annotations

from costcore.ir import Layer, Tensor

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

ACTIVATIONS = frozenset(
    (
        *("cast", "celu", "clip", "elu", "hard_shrink", "hard_sigmoid", "leaky_relu", "log_softmax", "relu"),
        *("scatter_elements", "selu", "sigmoid", "soft_shrink", "softmax", "softplus", "softsign", "tanh", "threshold"),
        *("tril", "triu"),
    )
)
"""Operators that ONNX Runtime writes over their first operand on a CPU: those whose kernels state ``MayInplace``.

A cast is among them if the elements keep their size. Those of two tensors, of normalization, and other functions of one
element have a result of their own.
"""

PRODUCTS = frozenset(("group_norm", "hard_swish", "mish", "silu"))
"""Operators without a kernel of ONNX Runtime on a CPU, which runs them as a product with a factor of the same size."""


def overwritable(layer: Layer) -> list[int]:
    """Return the positions of the operands that the output of a layer may be written over, in order."""
    if layer.op not in ELEMENTWISE:
        return []
    return [i for i, x in enumerate(layer.inputs.values()) if _is_alike(layer, x) and x.dtype == layer.out.dtype]


def overwritten(layer: Layer) -> list[int]:
    """Return the position of the operand that ONNX Runtime may write the output of a layer over."""
    return [0] if layer.op in ACTIVATIONS and _is_alike(layer, next(iter(layer.inputs.values()), None)) else []


def _is_alike(layer: Layer, x: Tensor | None) -> bool:
    """Return whether an operand is a value of the shape and size of the only output."""
    if x is None or len(layer.outputs) != 1 or x.role != "data" or x.stored is not None:
        return False
    return x.shape == layer.out.shape and x.nbytes == layer.out.nbytes
