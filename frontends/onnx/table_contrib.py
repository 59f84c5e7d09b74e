"""Rows of the other operators that ONNX Runtime adds: products, quantised operators, norms, fused activations."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .contrib import with_own_inputs
from .rows.arguments import first, node, window
from .rows.conv import CONVOLUTION
from .rows.pooling import POOL
from .shapes.contrib import channels_first
from .shapes.contrib_products import transposed, width
from .values.value import Value

FUSED = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSigmoid": "hard_sigmoid",
    "Clip": "clip",
    "Gelu": "gelu",
    "FastGelu": "fast_gelu",
    "QuickGelu": "quick_gelu",
    "Elu": "elu",
    "Softplus": "softplus",
    "HardSwish": "hard_swish",
    "SiLU": "silu",
    "Swish": "silu",
    "Selu": "selu",
}
"""Activations that products are fused with, by neutral name."""


def fused_with(a: Arguments) -> Any:
    """The neutral name of the fused activation, None for none."""
    name = a.get("activation")
    return FUSED.get(name, name) if name else None


def _is_known(a: Arguments) -> bool:
    return not a.get("activation") or a["activation"] in FUSED


def _is_plain(a: Arguments) -> bool:
    return not fused_with(a) and not isinstance(a.get("Z"), Value) and not isinstance(a.get("Sum"), Value)


def _moved(name: str) -> Any:
    """A matrix operand whose batch axes are in place; the last two may still be swapped."""

    def read(a: Arguments) -> Value:
        shape = transposed(node(a), name)
        view: Value = a[name].viewed((*shape[:-2], shape[-1], shape[-2]) if a.get(f"trans{name}") else shape)
        return view

    return read


def _flag(name: str) -> Any:
    return lambda a: True if a.get(name) else None


def _factor(name: str) -> Any:
    return lambda a: None if a.get(name, 1.0) == 1 else a[name]


MATRICES = {"x0": _moved("A"), "x1": _moved("B")}
SWAPPED = {"transpose_x0": _flag("transA"), "transpose_x1": _flag("transB"), "alpha": _factor("alpha")}


def channel_view(name: str) -> Any:
    """The input with its channels as the second axis."""

    def read(a: Arguments) -> Value:
        view: Value = a[name].viewed(channels_first(node(a), a[name].known))
        return view

    return read


def weight_view(name: str) -> Any:
    """The weight of a convolution as ``[Cout, Cin/G, ...]``."""

    def read(a: Arguments) -> Value:
        w: Value = a[name]
        kernel = window("kernel")(a)
        return w if w.known[2:] == kernel else w.viewed((w.known[0], w.known[-1], *w.known[1:-1]))

    return read


def _held(name: str) -> Any:
    """A weight as the rule of shapes understood it."""
    return lambda a: node(a).cache[name]


def _row_weight(a: Arguments) -> Value:
    """The weight ``[Fout, Fin]`` of a product of rows by a stored matrix."""
    w: Value = a.get("W") or a["B"]
    return w.viewed(w.known[::-1])


def zero_point(a: Arguments) -> Any:
    """The zero point that packed weights have where none is given, in the middle of their numbers.

    Tables of a type of their own, be it of four bits, have none then.
    """
    if a.get("zero_points") is not None or ("data" in a and a["data"].dtype != "uint8"):
        return None
    return 1 << (width(node(a), "bits") - 1)


CONVS = ("FusedConv", "NhwcConv", "NhwcFusedConv")
MATMULS = ("FusedMatMul", "TransposeMatMul")
TO_RESIDUAL = {"activation": fused_with}

PRODUCTS: tuple[Row, ...] = (
    *(Row(f"com.microsoft::{op}", "matmul", MATRICES, SWAPPED) for op in MATMULS),
    Row(
        "com.microsoft::FusedMatMulActivation",
        "fused_matmul",
        MATRICES,
        {**SWAPPED, "activation": fused_with},
        when=_is_known,
    ),
    Row(
        "com.microsoft::FusedGemm",
        "fused_matmul",
        {**MATRICES, "b": "C"},
        {**SWAPPED, "beta": _factor("beta"), "activation": fused_with},
        when=_is_known,
    ),
    Row(
        "com.microsoft::GemmFastGelu",
        "fused_linear",
        {"x": "X", "w": _row_weight, "b": "bias"},
        {"activation": lambda a: "fast_gelu"},
    ),
    Row(
        "com.microsoft::GemmFloat8",
        "fused_matmul",
        {**MATRICES, "b": "C"},
        {**SWAPPED, "beta": _factor("beta"), "activation": fused_with},
        when=_is_known,
    ),
    *(
        Row(
            f"com.microsoft::{op}",
            "conv",
            {"x": channel_view("X"), "w": weight_view("W"), "b": "B"},
            CONVOLUTION,
            when=_is_plain,
        )
        for op in CONVS
    ),
    *(
        Row(
            f"com.microsoft::{op}",
            "fused_conv",
            {"x": channel_view("X"), "w": weight_view("W"), "b": "B", "z": "Z"},
            {**CONVOLUTION, **TO_RESIDUAL},
            when=_is_known,
        )
        for op in CONVS
    ),
    Row("com.microsoft.nchwc::Conv", "conv", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION, when=_is_plain),
    Row(
        "com.microsoft.nchwc::Conv",
        "fused_conv",
        {"x": "X", "w": "W", "b": "B", "z": "Sum"},
        {**CONVOLUTION, **TO_RESIDUAL},
        when=_is_known,
    ),
    *(
        Row(f"com.microsoft.nchwc::{prefix}{kind}Pool", f"{op}_pool", {"x": "X"}, POOL)
        for kind, op in (("Max", "max"), ("Average", "avg"))
        for prefix in ("", "Global")
    ),
    *(Row(f"com.microsoft.nchwc::Reorder{way}", "transpose", {"x": "X"}) for way in ("Input", "Output")),
    Row("com.microsoft.nchwc::Upsample", "resize", {"x": "X"}, {"mode": lambda a: a.get("mode", "nearest")}),
    Row("com.microsoft::NhwcMaxPool", "max_pool", {"x": channel_view("x")}, POOL),
    *(
        Row(
            f"com.microsoft::{op}",
            "packed_linear",
            {
                "x": "A",
                "w": _held("B"),
                "b": "bias",
                "w_scale": first(*scales),
                "w_zero_point": "zero_points",
                "order": "g_idx",
            },
            {} if zero is None else {"zero_point": zero},
        )
        for op, scales, zero in (
            ("MatMulNBits", ("scales",), zero_point),
            ("MatMulBnb4", ("absmax",), None),
            ("MatMulFpQ4", ("absmax",), lambda a: "stored" if a.get("blk_quant_type", 1) == 1 else None),
            ("MatMulBlockQuantizedFp4Weight", ("weight_scale",), None),
            ("MatMulBlockQuantizedFp8Weight", ("b_scale",), None),
        )
    ),
    Row(
        "com.microsoft::GatherBlockQuantized",
        "packed_embedding",
        {"x": "indices", "w": _held("data"), "w_scale": "scales", "w_zero_point": "zero_points"},
        {"zero_point": zero_point},
    ),
)

ROWS: tuple[Row, ...] = tuple(map(with_own_inputs, PRODUCTS))
"""The rows of this family."""
