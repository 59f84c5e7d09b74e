"""Products of quantized operands, and their quantization.

Source of the signatures: ``csrc/torch_bindings.cpp`` of vLLM, ``sgl-kernel/csrc/common_extension.cc`` of SGLang,
``aiter/ops/gemm_op_a8w8.py`` of aiter.
"""

from __future__ import annotations

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

from .kernel import kernel, tensor


def _transposed(args: Arguments) -> Tensor:
    """Return w[N, K] as w[K, N]."""
    w = tensor(args, 1)
    return Tensor(w.shape[::-1], w.dtype)


def _product(args: Arguments) -> list[Tensor]:
    return [Tensor((tensor(args, 0).shape[0], tensor(args, 1).shape[0]), "bfloat16")]


def _is_matrices(args: Arguments) -> bool:
    return all(tensor(args, i).ndim == 2 for i in (0, 1))


def _fit(args: Arguments) -> bool:
    """Return whether y[M, N] is the product of x[M, K] and w[K, N]."""
    y, x, w = (tensor(args, i).shape for i in range(3))
    return len(x) == len(w) == 2 and x[1] == w[0] and y == (x[0], w[1])


ROWS: tuple[Row, ...] = (
    kernel("_C::cutlass_scaled_mm", "scaled_matmul", {"x0": 1, "x1": 2, "x0_scale": 3, "x1_scale": 4}, (0,), when=_fit),
    kernel(
        "aiter::gemm_a8w8_CK",
        "scaled_matmul",
        {"x0": 0, "x1": _transposed, "x0_scale": 2, "x1_scale": 3},
        _product,
        needs=(1,),
        when=_is_matrices,
    ),
    *(
        kernel(f"{library}::{name}", "scaled_quantize", {"x": 1, "scale": 2}, (0,))
        for library in ("_C", "sgl_kernel")
        for name in ("static_scaled_fp8_quant", "static_scaled_int8_quant")
    ),
    *(
        kernel(f"_C::{name}", "scaled_quantize", {"x": 1}, (0, 2), {"dynamic": lambda _: True})
        for name in ("dynamic_scaled_fp8_quant", "dynamic_per_token_scaled_fp8_quant", "dynamic_scaled_int8_quant")
    ),
    kernel("sgl_kernel::sgl_per_token_quant_fp8", "scaled_quantize", {"x": 0}, (1, 2), {"dynamic": lambda _: True}),
)
