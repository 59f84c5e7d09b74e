"""All rows, and the primitives that have none."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.plugins import modules_with
from costcore.translate import Row

FAMILIES = modules_with("ROWS", __package__)

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""Rows by family; arguments are ``inputs``, ``outputs`` and the parameters of the primitive."""

CUDNN = tuple(f"{kind}{wrapper}" for kind in ("fwd", "bwd", "fp8_fwd", "fp8_bwd") for wrapper in ("", "_wrapper"))

UNKNOWN: Mapping[str, str] = {
    **dict.fromkeys(("pure_callback", "io_callback", "ffi_call", "call_exported"), "code that JAX does not see"),
    **dict.fromkeys(("cudnn_fusion", "pallas_call", "tpu_custom_call", "triton_call"), "a kernel of its own"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "a kernel of its own"),
    **dict.fromkeys((f"dot_product_attention_{part}" for part in CUDNN), "a kernel of its own"),
    **dict.fromkeys(("call_hi_primitive", "call_hi_primitive_linearized"), "a primitive of a library"),
    "custom_lin": "exists inside of derivatives only",
    **dict.fromkeys(("hessenberg", "schur", "tridiagonal"), "a decomposition without a formula"),
}
"""Primitives that cannot be counted, with the reason; they are listed in ``ignored_layers``."""
