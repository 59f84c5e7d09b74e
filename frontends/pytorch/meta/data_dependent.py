"""Results that depend on data, where tensors have none: what is assumed instead (the largest size, True, 1).

And results that only PyTorch cannot make without data, on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

AssumedResult: TypeAlias = "Callable[..., tuple[Any, str] | None]"


def _scalar(x: Tensor, **_: Any) -> tuple[Any, str]:
    if x.dtype is torch.bool:
        return True, "a bool asked of a tensor without data is True"
    number = 1.0 if x.is_floating_point() else complex(1) if x.is_complex() else 1
    return number, "a number asked of a tensor without data is 1"


def _truth(*_: Any, **__: Any) -> tuple[Any, str]:
    return True, "a bool asked of a tensor without data is True"


def _nonzero(x: Tensor, **_: Any) -> tuple[Any, str]:
    return x.new_empty((x.numel(), x.dim()), dtype=torch.int64), "every element of a tensor without data is nonzero"


def _index(x: Tensor, indices: Any, *_: Any, **__: Any) -> tuple[Any, str] | None:
    if not any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return None
    whole: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            whole += [index.new_empty((index.numel(),), dtype=torch.int64)] * index.dim()
        else:
            whole.append(index)
    return torch.ops.aten.index(x, whole), "a mask without data selects every element"


def _masked_select(x: Tensor, mask: Tensor, **_: Any) -> tuple[Any, str]:
    size = prod(torch.broadcast_shapes(x.shape, mask.shape))
    return x.new_empty((size,)), "a mask without data selects every element"


DIFFERENT = "all elements of a tensor without data are different"


def _unique(
    x: Tensor, is_sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Any, str]:
    indices = x.new_empty(x.shape if return_inverse else (0,), dtype=torch.int64)
    counts = x.new_empty((x.numel() if return_counts else 0,), dtype=torch.int64)
    return (x.new_empty((x.numel(),)), indices, counts), DIFFERENT


def _unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Any, str]:
    return _unique(x, True, return_inverse, return_counts) if dim is None else _unique_along(x, dim)


def _unique_along(x: Tensor, dim: int, *_: Any, **__: Any) -> tuple[Any, str]:
    count = x.new_empty((x.shape[dim],), dtype=torch.int64)
    return (torch.empty_like(x), count, torch.empty_like(count)), DIFFERENT


def _pack(x: Tensor, lengths: Tensor, batch_first: bool = False) -> tuple[Any, str]:
    """The lengths need no device: how many sequences still run at each step is known where they are."""
    batch, steps = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    counts = torch.full((batch,), steps) if lengths.is_meta else lengths
    running = counts > torch.arange(int(counts.max()))[:, None]
    packed = x.new_empty((int(counts.sum()), *x.shape[2:]))
    return (packed, running.sum(1)), "every sequence without data is as long as it may be" if lengths.is_meta else ""


def _count(x: Tensor, weights: Tensor | None = None, minlength: int = 0, **_: Any) -> tuple[Any, str]:
    dtype = torch.int64 if weights is None else weights.dtype if weights.is_floating_point() else torch.float64
    return x.new_empty((max(minlength, 2),), dtype=dtype), "every number in a tensor without data is 1"


def _repeat(repeats: Tensor, *others: Any, output_size: int | None = None, **__: Any) -> tuple[Any, str] | None:
    if others or output_size is not None:
        return None
    return repeats.new_empty(repeats.shape, dtype=torch.int64), "every count of a tensor without data is 1"


def _stay(x: Tensor, *, device: Any = None, **kwargs: Any) -> tuple[Any, str] | None:
    if device is None or torch.device(device).type == "meta":
        return None
    kwargs["non_blocking"] = False
    made = torch.ops.aten._to_copy(x, device=x.device, **kwargs)
    return made, f"a tensor without data has none on {torch.device(device).type} either"


def _suppress(boxes: Tensor, *_: Any, **__: Any) -> tuple[Any, str]:
    return boxes.new_empty((boxes.shape[0],), dtype=torch.int64), "no box without data is suppressed"


def _grouped_product(
    x: Tensor, w: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: torch.dtype | None = None
) -> tuple[Any, str]:
    """Ranks tell which of the two is cut into groups: its axis stands for all groups together."""
    groups = () if offs is None else tuple(offs.shape)
    if x.dim() == w.dim() == 3:
        shape: tuple[int, ...] = (*x.shape[:2], w.shape[2])
    elif x.dim() == w.dim() == 2:
        shape = (*groups, x.shape[0], w.shape[1])
    else:
        shape = (x.shape[-2], w.shape[-1])
    return x.new_empty(shape, dtype=out_dtype or x.dtype), ""


def _histogram(x: Tensor, bins: Any, *_: Any, **__: Any) -> tuple[Any, str] | None:
    edges = x.new_empty((bins + 1,)) if isinstance(bins, int) else bins
    return (x.new_empty((edges.shape[0] - 1,)), torch.empty_like(edges)), ""


def _reflections(x: Tensor, **_: Any) -> tuple[Any, str]:
    return (torch.empty_like(x), x.new_empty((*x.shape[:-2], min(x.shape[-2:])))), ""


def _least_squares(x: Tensor, b: Tensor, rcond: Any = None, *, driver: str | None = None, **_: Any) -> tuple[Any, str]:
    *batch, rows, columns = x.shape
    many = b if b.dim() == x.dim() else b.unsqueeze(-1)
    solution = x.new_empty((*batch, columns, *((many.shape[-1],) if many is b else ())))
    residuals = x.new_empty((*batch, many.shape[-1]) if rows > columns and driver != "gelsy" else (0,))
    rank = x.new_empty(batch if driver != "gels" else (0,), dtype=torch.int64)
    values = x.new_empty((*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,))
    return (solution, residuals, rank, values), ""


def _ctc(x: Tensor, targets: Tensor, *_: Any, **__: Any) -> tuple[Any, str] | None:
    if targets.dim() != 2 or x.dim() != 3:
        return None
    steps, batch, _classes = x.shape
    alpha = x.new_empty((batch, steps, 2 * targets.shape[1] + 1))
    return (x.new_empty((batch,)), alpha), "every target without data is as long as it may be"


ASSUMED_RESULTS: Mapping[str, AssumedResult] = {
    "aten::item": _scalar,
    "aten::_local_scalar_dense": _scalar,
    "aten::is_nonzero": _truth,
    "aten::equal": _truth,
    "aten::allclose": _truth,
    "aten::index": _index,
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_unique2": _unique,
    "aten::unique_consecutive": _unique_consecutive,
    "aten::unique_dim": _unique_along,
    "aten::unique_dim_consecutive": _unique_along,
    "aten::bincount": _count,
    "aten::repeat_interleave": _repeat,
    "aten::_pack_padded_sequence": _pack,
    "aten::_to_copy": _stay,
    "aten::_ctc_loss": _ctc,
    "aten::_grouped_mm": _grouped_product,
    "aten::histogram": _histogram,
    "aten::geqrf": _reflections,
    "aten::linalg_lstsq": _least_squares,
    "torchvision::nms": _suppress,
}
"""Result of operators that cannot run without data, and what it assumes, by full name; None where it can this time.

Nothing is assumed, ``""``, where the shapes tell it all, and only PyTorch has no kernel.
"""
