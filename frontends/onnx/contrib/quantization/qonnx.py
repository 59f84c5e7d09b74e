"""Operators of QONNX, which Brevitas exports and FINN and hls4ml read: quantization to any number of bits.

Source: fastmachinelearning/qonnx 1.0, docs/qonnx-custom-ops; all of them execute in real numbers.
"""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments

from ...rows.arguments import number
from ...shapes.rules import like
from ..spec import QONNX, OperatorSpec, row

SCALED = {"x": "X", "scale": "scale", "zero_point": "zeropt"}


def _is_affine(a: Arguments) -> Any:
    """Return whether a number of thresholds is scaled or shifted; None if it is not."""
    return True if a.get("out_scale", 1.0) != 1.0 or a.get("out_bias", 0.0) != 0.0 else None


def _specs(domain: str) -> tuple[OperatorSpec, ...]:
    """Return the operators under one domain."""
    return (
        *(
            OperatorSpec(
                name,
                "X scale zeropt bitwidth",
                required=4,
                attributes="signed narrow",
                infer=like("X"),
                rows=[row("fake_quantize", SCALED, {"bits": number("bitwidth")})],
                domain=domain,
            )
            for name in ("Quant", "IntQuant")
        ),
        OperatorSpec(
            "BipolarQuant",
            "X scale",
            required=2,
            infer=like("X"),
            rows=[row("bipolar_quantize", {"x": "X", "scale": "scale"})],
            domain=domain,
        ),
        OperatorSpec(
            "Trunc",
            "X scale zeropt in_bitwidth out_scale out_bitwidth",  # version 1 has no out_scale
            required=5,
            attributes="signed narrow",
            infer=like("X"),
            rows=[
                row(
                    "truncate_bits",
                    SCALED,
                    {"limited": lambda a: True if a.get("out_bitwidth") is not None else None},
                )
            ],
            domain=domain,
        ),
        OperatorSpec(
            "FloatQuant",
            "X scale exponent_bitwidth mantissa_bitwidth exponent_bias max_val",
            required=2,
            attributes="has_inf has_nan has_subnormal saturation",
            infer=like("X"),
            rows=[
                row(
                    "float_quantize",
                    {"x": "X", "scale": "scale"},
                    {"exponent": number("exponent_bitwidth"), "mantissa": number("mantissa_bitwidth")},
                )
            ],
            domain=domain,
        ),
        OperatorSpec(
            "MultiThreshold",
            "X thresholds",
            required=2,
            infer=like("X"),
            rows=[row("multi_threshold", {"x": "X", "w": "thresholds"}, {"affine": _is_affine})],
            domain=domain,
        ),
    )


SPECS: tuple[OperatorSpec, ...] = tuple(spec for domain in QONNX for spec in _specs(domain))
