"""Rows of elementwise operators, from arithmetic and activations to quantization, and of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from costcore.translate import Arguments, Row, Source

from ..operators.plan import any_is_differentiated, is_differentiated
from ..tensors import Number, dtype_name
from .arguments import (
    DY_AND_Y,
    PACKED,
    X,
    axis,
    axis_or_last,
    constant,
    first_argument,
    first_output,
    index_count,
    is_number,
    is_sparse,
    is_tensor,
    is_unpacked,
    non_default,
    normalized_axes,
    packed_weight,
    rows_by_name,
    tensor_or_number,
    tensors_in,
)

# Functions of one, two or three tensors, and gradients


_SELF = tensor_or_number("self")

_OTHER = tensor_or_number("other")

_PAIR: dict[str, Source] = {"x0": _SELF, "x1": _OTHER}

UNARY = tuple(
    rows_by_name(
        "neg abs sign sgn=sign ceil floor trunc round frac exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal "
        "square sin cos tan asin acos atan sinh cosh asinh acosh atanh sinc "
        "deg2rad rad2deg signbit logical_not bitwise_not isnan isinf isposinf isneginf isfinite nan_to_num angle "
        "logit frexp _conj_physical=conj _conj_copy=conj",
        X,
    )
)


def _number_exponent(args: Arguments) -> Any:
    value = args["exponent"]
    return value if isinstance(value, (int, float)) else None


def _rounded_div(args: Arguments) -> str:
    return {None: "div", "floor": "floor_div", "trunc": "trunc_div"}[args.get("rounding_mode")]


_ALPHA: dict[str, Source] = {"alpha": non_default("alpha", 1)}


def _adds_sparse_to_dense(args: Arguments) -> bool:
    return is_sparse("other")(args) and isinstance(args["self"], Tensor) and not is_sparse("self")(args)


BINARY = (
    Row(
        "aten::add",
        "scatter",
        {"x": "self", "updates": "other"},
        {"reduction": constant("add"), "alpha": non_default("alpha", 1), "indices": index_count("other")},
        _adds_sparse_to_dense,
    ),
    *rows_by_name("add sub", _PAIR, _ALPHA),
    Row("aten::rsub", "sub", {"x0": _OTHER, "x1": _SELF}, _ALPHA),
    Row("aten::div", _rounded_div, _PAIR, ops=("div", "floor_div", "trunc_div")),
    *rows_by_name(
        "mul maximum minimum fmax=maximum fmin=minimum floor_divide=floor_div remainder=mod fmod atan2 hypot copysign "
        "nextafter logaddexp logaddexp2 xlogy special_xlog1py=xlog1py gcd lcm ldexp "
        "eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal "
        "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor __lshift__=bitwise_left_shift "
        "__rshift__=bitwise_right_shift bitwise_left_shift bitwise_right_shift",
        _PAIR,
    ),
    Row("aten::heaviside", "heaviside", {"x0": "self", "x1": "values"}),
    Row("aten::polar", "polar", {"x0": "abs", "x1": "angle"}),
    Row("aten::pow", "pow", {"x0": _SELF, "x1": tensor_or_number("exponent")}, {"exponent": _number_exponent}),
    Row("aten::max.other", "maximum", _PAIR),
    Row("aten::min.other", "minimum", _PAIR),
)

_BOUNDS: dict[str, Source] = {"lower": "min", "upper": "max"}

TERNARY = (
    Row("aten::where", "where", {"condition": "condition", "x0": _SELF, "x1": _OTHER}),
    Row(
        "aten::masked_fill",
        "where",
        {"condition": "mask", "x0": "self", "x1": tensor_or_number("value")},
    ),
    *(
        Row(f"aten::{name}", name, {"x0": "self", "x1": "tensor1", "x2": "tensor2"}, {"value": non_default("value", 1)})
        for name in ("addcmul", "addcdiv")
    ),
    Row("aten::lerp", "lerp", {"x0": "self", "x1": "end", "x2": tensor_or_number("weight")}),
    *(Row(f"aten::{name}.Tensor", "clip", {"x": "self", **_BOUNDS}) for name in ("clamp", "clip")),
    *(Row(f"aten::{name}", "clip", {"x": "self"}, _BOUNDS) for name in ("clamp", "clip")),
    Row("aten::clamp_min.Tensor", "clip", {"x": "self", "lower": "min"}),
    Row("aten::clamp_max.Tensor", "clip", {"x": "self", "upper": "max"}),
    Row("aten::clamp_min", "clip", {"x": "self"}, {"lower": "min"}),
    Row("aten::clamp_max", "clip", {"x": "self"}, {"upper": "max"}),
)

GRADIENTS = (Row("aten::logit_backward", "logit_backward", {"dy": first_argument, "x": "self"}),)

ARITHMETIC_ROWS = (*UNARY, *BINARY, *TERNARY, *GRADIENTS)


# ``_foreach_*``: functions of lists of tensors, used by optimizers


_FOREACH_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)


def _factor(args: Arguments) -> Any:
    # None: all factors are 1
    factors = args.get("scalars", args.get("value"))
    if isinstance(factors, torch.Tensor):
        return "scalars"
    return factors if any(x != 1 for x in (factors if isinstance(factors, (list, tuple)) else [factors])) else None


def _constant_exponent(args: Arguments) -> Any:
    exponent = args["exponent"]
    numbers = exponent if isinstance(exponent, (list, tuple)) else [exponent]
    return exponent if all(isinstance(number, (int, float)) for number in numbers) else None


FOREACH_ROWS = (
    *(Row(f"aten::_foreach_{name}", f"foreach_{name}", {"x*": "self"}) for name in _FOREACH_UNARY.split()),
    *(
        Row(
            f"aten::_foreach_{name}",
            f"foreach_{op}",
            {"x*": tensors_in("self", "other")},
            {"alpha": non_default("alpha", 1)},
        )
        for name, op in (
            *(("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("maximum", "maximum")),
            *(("minimum", "minimum"), ("clamp_min", "maximum"), ("clamp_max", "minimum")),
        )
    ),
    Row("aten::_foreach_pow", "foreach_pow", {"x*": tensors_in("self", "exponent")}, {"exponent": _constant_exponent}),
    *(
        Row(
            f"aten::_foreach_{name}",
            f"foreach_{name}",
            {"x*": tensors_in("self", "tensor1", "tensor2", "scalars")},
            {"value": _factor},
        )
        for name in ("addcmul", "addcdiv")
    ),
    Row("aten::_foreach_lerp", "foreach_lerp", {"x*": tensors_in("self", "tensors1", "weights", "weight")}),
    Row("aten::_foreach_copy", "foreach_copy", {"x*": "src"}),
    Row("aten::_foreach_clone", "foreach_copy", {"x*": "self"}),
    Row(
        "aten::_amp_foreach_non_finite_check_and_unscale",
        "foreach_unscale",
        {"x*": "self", "scale": "inv_scale"},
        outputs=lambda args, outputs: outputs[:-1],
    ),
)


# Special functions: gamma, error and Bessel functions, orthogonal polynomials


_SPECIAL_FUNCTIONS = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 spherical_bessel_j0 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
"""

_POLYNOMIALS = """
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
"""

SPECIAL_FUNCTIONS_ROWS = (
    *rows_by_name(
        "erf erfc erfinv lgamma digamma i0 special_i0e=i0e special_i1=i1 special_i1e=i1e special_ndtri=ndtri "
        "special_log_ndtr=log_ndtr special_erfcx=erfcx special_entr=entropy",
        X,
    ),
    *(Row(f"aten::special_{name}", name, X) for name in _SPECIAL_FUNCTIONS.split()),
    *(
        Row(
            f"aten::special_{name}",
            name.replace("_polynomial", ""),
            {"x0": tensor_or_number("x"), "x1": tensor_or_number("n")},
        )
        for name in _POLYNOMIALS.split()
    ),
    *rows_by_name("igamma igammac special_zeta=zeta", _PAIR),
    Row("aten::polygamma", "polygamma", {"x0": tensor_or_number("n"), "x1": "self"}),
    Row("aten::mvlgamma", "multivariate_lgamma", X, {"dimension": "p"}),
)


# Activations and softmax, and their gradients


def _hard_tanh_or_relu6(args: Arguments) -> str:
    return "relu6" if (args["min_val"], args["max_val"]) == (0, 6) else "hard_tanh"


def _elu_or_selu(args: Arguments) -> str:
    return "elu" if args["scale"] == 1 else "selu"


def _saved_slopes(args: Arguments) -> str | None:
    # The operator writes the random slopes to ``noise`` for its backward pass.
    return dtype_name(args["noise"].dtype) if args["training"] and any_is_differentiated(*args.values()) else None


ACTIVATIONS = (
    *rows_by_name(
        "relu relu6 sigmoid tanh silu mish selu log_sigmoid hardsigmoid=hard_sigmoid hardswish=hard_swish",
        X,
    ),
    Row("aten::log_sigmoid_forward", "log_sigmoid", X, outputs=first_output),
    Row("quantized::relu6", "relu6", X),
    Row("aten::hardtanh", _hard_tanh_or_relu6, X, {"lower": "min_val", "upper": "max_val"}, ops=("relu6", "hard_tanh")),
    Row("aten::elu", _elu_or_selu, X, {"alpha": "alpha"}, ops=("elu", "selu")),
    Row("aten::celu", "celu", X, {"alpha": "alpha"}),
    Row("aten::leaky_relu", "leaky_relu", X, {"slope": "negative_slope"}),
    Row("aten::gelu", "gelu", X, {"approximate": "approximate"}),
    Row("aten::softplus", "softplus", X, {"beta": "beta", "threshold": "threshold"}),
    Row("aten::threshold", "threshold", X, {"threshold": "threshold", "value": "value"}),
    Row("aten::glu", "glu", X, {"axis": axis()}),
    Row("aten::hardshrink", "hard_shrink", X, {"lambd": "lambd"}),
    Row("aten::softshrink", "soft_shrink", X, {"lambd": "lambd"}),
    *rows_by_name("prelu _prelu_kernel", {"x": "self", "w": "weight"}, op="prelu"),
    Row("aten::rrelu_with_noise", "rrelu", X, {"saved": _saved_slopes}, outputs=first_output),
    Row("aten::rrelu", "rrelu", X, outputs=first_output),
)

SOFTMAX = (
    *rows_by_name("softmax _softmax _safe_softmax", X, {"axis": axis()}, op="softmax"),
    *rows_by_name("log_softmax _log_softmax", X, {"axis": axis()}, op="log_softmax"),
    Row(
        "aten::_masked_softmax",
        "masked_softmax",
        {"x": "self", "mask": "mask"},
        {"axis": axis_or_last},
    ),
)

PYTHON_FUNCTIONS = (
    Row("torch.nn.functional::softmin", "softmin", {"x": "input"}, {"axis": axis()}),
    Row("torch.nn.functional::softsign", "softsign", {"x": "input"}),
    Row("torch.nn.functional::tanhshrink", "tanh_shrink", {"x": "input"}),
)

SOFTMAX_GRADIENTS = (
    Row("aten::_softmax_backward_data", "softmax_backward", DY_AND_Y, {"axis": axis()}),
    Row("aten::_log_softmax_backward_data", "log_softmax_backward", DY_AND_Y, {"axis": axis()}),
    Row(
        "aten::_masked_softmax_backward",
        "softmax_backward",
        {**DY_AND_Y, "mask": "mask"},
        {"axis": axis_or_last},
    ),
)

_DY_AND_X: dict[str, Source] = {"dy": first_argument, "x": "self"}

ACTIVATION_GRADIENTS = (
    *rows_by_name(
        "threshold_backward hardshrink_backward=hard_shrink_backward softshrink_backward=soft_shrink_backward "
        "hardsigmoid_backward=hard_sigmoid_backward hardswish_backward=hard_swish_backward leaky_relu_backward "
        "silu_backward mish_backward log_sigmoid_backward glu_backward",
        _DY_AND_X,
    ),
    *rows_by_name("sigmoid_backward tanh_backward", {"dy": first_argument, "y": "output"}),
    Row("aten::gelu_backward", "gelu_backward", _DY_AND_X, {"approximate": "approximate"}),
    Row("aten::softplus_backward", "softplus_backward", _DY_AND_X, {"beta": non_default("beta", 1)}),
    Row("aten::hardtanh_backward", "hard_tanh_backward", _DY_AND_X, {"lower": "min_val", "upper": "max_val"}),
    Row(
        "aten::elu_backward",
        lambda args: "elu_backward" if args["scale"] == 1 else "selu_backward",
        {"dy": first_argument, "x": "self_or_result"},
        ops=("elu_backward", "selu_backward"),
    ),
    Row(
        "aten::rrelu_with_noise_backward",
        "rrelu_backward",
        {**_DY_AND_X, "slope": lambda args: args["noise"] if args["training"] else None},
    ),
    Row("aten::_prelu_kernel_backward", "prelu_backward", {**_DY_AND_X, "w": "weight"}),
)

ACTIVATION_ROWS = (*ACTIVATIONS, *SOFTMAX, *PYTHON_FUNCTIONS, *SOFTMAX_GRADIENTS, *ACTIVATION_GRADIENTS)


# Dropout, its gradient, and random numbers


def _saved_mask(args: Arguments) -> str | None:
    # The mask has the dtype of x; bool in fused kernels.
    x = first_argument(args)
    if not (args["train"] and 0 < args["p"] < 1 and is_differentiated(x)):
        return None
    return "bool" if x.is_cuda or x.is_xpu else dtype_name(x.dtype)


def _drops(args: Arguments) -> bool:
    # At a rate of 0, ATen returns its operand in training, too.
    return bool(args["train"]) and args["p"] != 0


_DROPOUT: dict[str, Source] = {"rate": "p", "training": _drops, "mask": _saved_mask}

_DY_AND_MASK: dict[str, Source] = {"dy": first_argument, "mask": "mask"}

DROPOUT = (
    *rows_by_name("dropout feature_dropout alpha_dropout feature_alpha_dropout", X, _DROPOUT),
    Row("aten::native_dropout", "dropout", X, {"rate": "p", "training": lambda args: bool(args["train"])}),
    Row("aten::_fused_dropout", "dropout", X, {"rate": "p", "training": constant(True)}),
    *rows_by_name("native_dropout_backward _masked_scale", _DY_AND_MASK, op="dropout_backward"),
)

_FILLS = """
rand randn randint randperm rand_like randn_like randint_like uniform normal random exponential geometric log_normal
cauchy normal_functional
"""

FILLS = tuple(rows_by_name(_FILLS, {}, op="random"))

SAMPLING = (
    Row("aten::bernoulli", "random", when=is_number("p")),
    Row("aten::bernoulli", "bernoulli", {"x": "p"}, when=is_tensor("p")),
    Row("aten::bernoulli", "bernoulli", X),
    *(
        Row(f"aten::normal.{overload}", "normal", {"x0": "mean", "x1": "std"})
        for overload in ("Tensor_Tensor", "Tensor_float", "float_Tensor")
    ),
    Row("aten::multinomial", "multinomial", X, {"logarithmic": constant(False)}),
    *rows_by_name("poisson _standard_gamma _sample_dirichlet", X, op="sample"),
    Row("aten::binomial", "sample", {"x0": "count", "x1": "prob"}),
)

RANDOM_ROWS = (*DROPOUT, *FILLS, *SAMPLING)


# Quantization, fake quantization, and products with packed weights


_PER_TENSOR: dict[str, Source] = {
    "x": first_argument,
    "scale": tensor_or_number("scale"),
    "zero_point": tensor_or_number("zero_point"),
}

_PER_CHANNEL: dict[str, Source] = {"x": first_argument, "scale": "scales", "zero_point": "zero_points"}

_SCALE = constant(Number(1.0))

_ZERO = constant(Number(0))
"""Scale and zero point: PyTorch stores both as numbers in every quantized tensor."""


def _weight_scale(args: Arguments) -> Any:
    scales = packed_weight(args).scales
    return Number(1.0) if scales is None else scales


_WEIGHT: dict[str, Source] = {
    **PACKED,
    "w_scale": _weight_scale,
    "w_zero_point": lambda args: Number(0) if packed_weight(args).has_zero_point else None,
}

_TO_QUANTIZED: dict[str, Source] = {"y_scale": _SCALE, "y_zero_point": _ZERO}

_PRODUCT: dict[str, Source] = {"x": first_argument, "x_zero_point": _ZERO, **_WEIGHT, **_TO_QUANTIZED}

_ADDED: dict[str, Source] = {"z": "qaccum", "z_zero_point": _ZERO}


def _setting(name: str) -> Callable[[Arguments], Any]:
    return lambda args: packed_weight(args).settings.get(name)


_CONVOLUTION: dict[str, Source] = {
    "kernel": lambda args: tuple(packed_weight(args).w.shape[2:]),
    **{name: _setting(name) for name in ("stride", "padding", "dilation", "groups")},
}

_TRANSPOSED: dict[str, Source] = {**_CONVOLUTION, "output_padding": _setting("output_padding")}


def _activation(name: str) -> dict[str, Source]:
    return {"activation": constant(name)} if name else {}


LINEAR = (
    *(
        Row(f"quantized::linear{suffix}", "quantized_linear", _PRODUCT, _activation(name), is_unpacked)
        for suffix, name in (("", ""), ("_relu", "relu"), ("_leaky_relu", "leaky_relu"), ("_tanh", "tanh"))
    ),
    *(
        Row(
            f"quantized::linear{suffix}_dynamic",
            "dynamic_quantized_linear",
            {"x": first_argument, **_WEIGHT},
            _activation(name),
            is_unpacked,
        )
        for suffix, name in (("", ""), ("_relu", "relu"))
    ),
)

CONVOLUTIONS = (
    *(
        Row(
            f"quantized::conv{rank}d{suffix}",
            "quantized_conv",
            _PRODUCT,
            {**_CONVOLUTION, **_activation(name)},
            is_unpacked,
        )
        for rank in (1, 2, 3)
        for suffix, name in (("", ""), ("_relu", "relu"))
    ),
    *(
        Row(
            f"quantized::conv2d_add{suffix}",
            "quantized_conv",
            {**_PRODUCT, **_ADDED},
            {**_CONVOLUTION, **_activation(name)},
            is_unpacked,
        )
        for suffix, name in (("", ""), ("_relu", "relu"))
    ),
    *(
        Row(f"quantized::conv_transpose{rank}d", "quantized_conv_transpose", _PRODUCT, _TRANSPOSED, is_unpacked)
        for rank in (1, 2, 3)
    ),
    *(
        Row(
            f"quantized::{name}{rank}d_dynamic",
            f"dynamic_quantized_{name}",
            {"x": first_argument, **_WEIGHT},
            attributes,
            is_unpacked,
        )
        for name, attributes in (("conv", _CONVOLUTION), ("conv_transpose", _TRANSPOSED))
        for rank in (1, 2, 3)
    ),
)


def _each(args: Arguments, value: Number) -> list[Number]:
    return [value for _ in args["qx"]]


_QUANTIZED_PAIR: dict[str, Source] = {
    "x0": "qa",
    "x1": "qb",
    "x0_scale": _SCALE,
    "x1_scale": _SCALE,
    "x0_zero_point": _ZERO,
    "x1_zero_point": _ZERO,
    **_TO_QUANTIZED,
}

_QUANTIZED_X: dict[str, Source] = {
    "x": first_argument,
    "x_scale": _SCALE,
    "x_zero_point": _ZERO,
    **_TO_QUANTIZED,
}


def _both_are_tensors(args: Arguments) -> bool:
    return isinstance(args.get("qa"), Tensor) and isinstance(args.get("qb"), Tensor)


ELEMENTWISE = (
    *(
        Row(
            f"quantized::{name}{suffix}",
            f"quantized_{name}",
            _QUANTIZED_PAIR,
            _activation(activation),
            _both_are_tensors,
        )
        for name in ("add", "mul")
        for suffix, activation in (("", ""), ("_relu", "relu"))
    ),
    *(
        Row(
            f"quantized::cat{suffix}",
            "quantized_concat",
            {
                "x*": "qx",
                "x*_scale": lambda args: _each(args, Number(1.0)),
                "x*_zero_point": lambda args: _each(args, Number(0)),
                **_TO_QUANTIZED,
            },
            {"axis": axis(), **_activation(activation)},
        )
        for suffix, activation in (("", ""), ("_relu", "relu"))
    ),
    Row("quantized::matmul", "quantized_matmul", _QUANTIZED_PAIR),
    Row("quantized::sigmoid", "quantized_sigmoid", _QUANTIZED_X),
    Row("quantized::leaky_relu", "quantized_leaky_relu", _QUANTIZED_X),
    Row("quantized::hardswish", "quantized_hard_swish", _QUANTIZED_X),
    Row("quantized::softmax", "quantized_softmax", _QUANTIZED_X, {"axis": axis()}),
    Row(
        "quantized::layer_norm",
        "quantized_layer_norm",
        {**_QUANTIZED_X, "w": "weight", "b": "bias"},
        {"axis": normalized_axes},
    ),
)

EMBEDDINGS = tuple(
    Row(f"quantized::embedding_{bits}", "packed_embedding", {"x": "indices", **_WEIGHT}, {}, is_unpacked)
    for bits in ("byte", "4bit")
)


def _with_needed_mask(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    # The mask of the clipped elements is for a backward pass.
    return outputs if is_differentiated(first_argument(args)) else outputs[:1]


CONVERSIONS = (
    Row("aten::quantize_per_tensor", "quantize", _PER_TENSOR),
    Row("aten::quantize_per_channel", "quantize", _PER_CHANNEL, {"axis": "axis"}),
    Row("aten::quantize_per_tensor_dynamic", "dynamic_quantize", X),
    Row("aten::dequantize", "dequantize", {"x": first_argument, "zero_point": _ZERO}),
    *(
        Row(f"quantized_decomposed::{name}_per_{part}", name, operands)
        for name in ("quantize", "dequantize")
        for part, operands in (
            ("tensor", _PER_TENSOR),
            ("channel", _PER_CHANNEL),
            ("channel_group", _PER_CHANNEL),
            ("token", _PER_CHANNEL),
        )
    ),
    Row("quantized_decomposed::fake_quant_per_channel", "fake_quantize", _PER_CHANNEL),
    Row("costcore::dequantize_4bit", "dequantize_blocks", {"x": "weight", "scale": "scale", "outer": "outer"}),
    *(
        Row(f"aten::{name}", "fake_quantize", _PER_TENSOR, outputs=_with_needed_mask)
        for name in (
            "fake_quantize_per_tensor_affine_cachemask",
            "fake_quantize_per_channel_affine_cachemask",
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "_fake_quantize_learnable_per_tensor_affine",
            "_fake_quantize_learnable_per_channel_affine",
        )
    ),
    Row("aten::_weight_int8pack_mm", "packed_matmul", {"x": "self", "w": "mat2", "w_scale": "scales"}),
    Row("quanto::qbytes_mm", "packed_matmul", {"x": "A", "w": "B", "w_scale": "scales"}),
    *(
        Row(
            f"aten::{name}",
            "packed_matmul",
            {"x": "self", "w": "mat2", "w_scale": "qScaleAndZeros"},
            {"zero_points": constant(True), "block": "qGroupSize"},
        )
        for name in ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu")
    ),
)

QUANTIZATION_ROWS = (*CONVERSIONS, *LINEAR, *CONVOLUTIONS, *ELEMENTWISE, *EMBEDDINGS)


ROWS = (*ARITHMETIC_ROWS, *FOREACH_ROWS, *SPECIAL_FUNCTIONS_ROWS, *ACTIVATION_ROWS, *RANDOM_ROWS, *QUANTIZATION_ROWS)
