"""Norms, gated activations, rotary embeddings and stores into a cache.

Sources of the signatures: ``csrc/torch_bindings.cpp`` of vLLM (https://github.com/vllm-project/vllm),
``sgl-kernel/csrc/common_extension.cc`` and ``python/sglang/jit_kernel/kvcache.py`` of SGLang
(https://github.com/sgl-project/sglang), ``aiter/ops/rmsnorm.py``, ``aiter/ops/groupnorm.py`` and
``aiter/ops/activation.py`` of aiter (https://github.com/ROCm/aiter).
"""

from __future__ import annotations

from collections.abc import Callable

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

from .kernel import Made, kernel, like, tensor, whole


def _last_axis(position: int) -> Callable[[Arguments], tuple[int, ...]]:
    return lambda args: (tensor(args, position).ndim - 1,)


def _norm(native: str, x: int, w: int, out: int | None) -> Row:
    """A root mean square norm over the last axis, into an argument or a new tensor."""
    outputs = like(x) if out is None else (out,)
    return kernel(native, "rms_norm", {"x": x, "w": w}, outputs, {"axis": _last_axis(x)})


def _norm_of_sum(native: str, x: int, skip: int, w: int, outputs: tuple[int, int]) -> Row:
    """The same of a sum, which is written too."""
    return kernel(native, "fused_rms_norm", {"x": x, "skip": skip, "w": w}, outputs, {"axis": _last_axis(x)})


NORMS = (
    _norm("_C::rms_norm", 1, 2, 0),
    _norm_of_sum("_C::fused_add_rms_norm", 0, 1, 2, (0, 1)),
    _norm("sgl_kernel::rmsnorm", 1, 2, 0),
    _norm_of_sum("sgl_kernel::fused_add_rmsnorm", 0, 1, 2, (0, 1)),
    _norm("aiter::rmsnorm", 1, 2, 0),
    _norm_of_sum("aiter::add_rmsnorm", 1, 2, 4, (0, 3)),
    _norm("aiter::rms_norm", 0, 1, None),
    *(
        row
        for kind in ("", "_ck")
        for row in (
            _norm(f"aiter::rmsnorm2d_fwd{kind}", 0, 1, None),
            _norm_of_sum(f"aiter::rmsnorm2d_fwd_with_add{kind}", 1, 2, 4, (0, 3)),
        )
    ),
    kernel(
        "aiter::_groupnorm_run",
        "group_norm",
        {"x": 0, "w": 2, "b": 3},
        like(0),
        {"groups": lambda args: whole(args, 1)},
        when=lambda args: (whole(args, 1) or 0) > 0 and tensor(args, 0).ndim > 1,
    ),
)


def _half(args: Arguments) -> Tensor:
    """Return one half of the input, which is twice as wide as the output."""
    x = tensor(args, 1)
    return Tensor((*x.shape[:-1], x.shape[-1] // 2), x.dtype)


def _gated(native: str, op: str, approximate: str = "") -> Row:
    attrs = {"approximate": lambda _: approximate} if approximate else {}
    return kernel(
        native,
        op,
        {"x0": _half, "x1": _half},
        (0,),
        attrs,
        needs=(1,),
        when=lambda args: tensor(args, 1).ndim > 0 and tensor(args, 1).shape[-1] % 2 == 0,
    )


GATES = tuple(
    _gated(f"{library}::{name}", op, approximate)
    for library in ("_C", "sgl_kernel", "aiter")
    for name, op, approximate in (
        ("silu_and_mul", "swiglu", ""),
        ("gelu_and_mul", "gated_gelu", "none"),
        ("gelu_tanh_and_mul", "gated_gelu", "tanh"),
    )
)


def _heads(args: Arguments) -> Tensor:
    """Return queries and keys together: they are rotated by the same angles."""
    size, q, k = whole(args, 3) or 1, tensor(args, 1), tensor(args, 2)
    tokens = tensor(args, 0).size
    return Tensor((tokens, (q.size + k.size) // max(tokens * size, 1), size), q.dtype)


def _angles(args: Arguments) -> Tensor:
    """Return the table of cosines or of sines: half of a row each."""
    table = tensor(args, 4)
    return Tensor((table.shape[0], table.shape[-1] // 2), table.dtype)


def _rotation(native: str) -> Row:
    inputs: dict[str, int | Made] = {"x": _heads, "cos": _angles, "sin": _angles, "position": 0}
    return kernel(
        native,
        "rotary_embedding",
        inputs,
        (1, 2),
        {"rotary_dim": lambda args: tensor(args, 4).shape[-1]},
        needs=(4,),
        when=lambda args: (whole(args, 3) or 0) > 0 and tensor(args, 4).ndim == 2 and tensor(args, 4).shape[-1] > 1,
    )


ROTATIONS = tuple(_rotation(f"{library}::rotary_embedding") for library in ("_C", "sgl_kernel"))


def _store(native: str, places: int) -> Row:
    """Keys and values of new tokens, written into a cache; the cache itself is not read."""
    inputs = {"x0": 0, "x1": 1, "indices": places}
    return kernel(native, "store_cache", inputs, lambda args: [tensor(args, 0), tensor(args, 1)], needs=(2, 3))


STORES = (
    _store("_C_cache_ops::reshape_and_cache", 4),
    _store("_C_cache_ops::reshape_and_cache_flash", 4),
    _store("sglang::store_cache", 4),
)

ROWS: tuple[Row, ...] = (*NORMS, *GATES, *ROTATIONS, *STORES)
