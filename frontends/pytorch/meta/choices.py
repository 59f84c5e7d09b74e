"""Results that are known although the values of the operands are not.

Some follow from shapes alone (``zeros_like``). The others are assumed: a choice over scores (``topk``, ``argmax``,
``sort``, ``multinomial``) returns indices that spread evenly over the axis, so that every expert of a mixture of
experts gets the same number of tokens, as nearly as possible. Such results are flagged, and what follows from them is
flagged too. An assumption is noted if a flagged value decides something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isinf
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

BALANCED, FINITE, UNSHUFFLED = 1, 2, 4
"""Flags of values that rest on an assumption."""

TOO_LARGE, DRAWN = 8, 16
"""Flags of values that are unknown as there are too many of them, or as they are random, and of what follows."""

ASSUMPTIONS: Mapping[int, str] = {
    BALANCED: "a choice over scores without data (topk, argmax, sort) was taken as spread evenly",
    FINITE: "numbers without data were taken as finite",
    UNSHUFFLED: "a random permutation was taken to keep the order",
}
"""What each flag says."""


def assumptions_of(flags: int) -> Iterable[str]:
    """Yield the sentence of each flag that is set."""
    return [text for flag, text in ASSUMPTIONS.items() if flags & flag]


class ShapeResult(NamedTuple):
    """A tensor among the results of a call, whose values follow from shapes.

    Attributes:
        tensor: the meta tensor.
        compute: returns its values on the CPU.
        flag: what they rest on; 0: nothing.
    """

    tensor: Tensor
    compute: Callable[[], Tensor]
    flag: int = 0


ShapeRule: TypeAlias = Callable[[Mapping[str, Any], Any], Iterable[ShapeResult]]
"""Returns the known results of a call from its arguments by name, and from its results on the meta device."""


def spread(shape: torch.Size, dim: int, size: int, step: int = 1) -> Tensor:
    """Return indices below ``size`` for a tensor of ``shape``: in its n-th row, they count up from ``n * step``.

    Rows lie along ``dim``, and count over all other axes. With ``step`` elements in a row, any number of rows chooses
    every index equally often, or once more or less.
    """
    if not shape:
        return torch.zeros((), dtype=torch.int64)
    others = shape[:dim] + shape[dim + 1 :]
    rows = torch.arange(others.numel()).reshape(others).unsqueeze(dim)
    places = torch.arange(shape[dim]).reshape([-1] + [1] * (len(shape) - 1 - dim))
    return (rows * step + places).remainder(max(size, 1))


def _filled(number: complex, flag: int = 0) -> ShapeRule:
    return lambda arguments, result: [ShapeResult(result, partial(_full, result.shape, number, result.dtype), flag)]


def _full(shape: torch.Size, number: complex, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, number, dtype=dtype)


def _filled_with(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return [ShapeResult(result, partial(_full, result.shape, arguments["fill_value"], result.dtype))]


def _if_integers(rule: ShapeRule) -> ShapeRule:
    """Apply a rule to results that are not floats."""
    return lambda arguments, result: () if result.is_floating_point() else rule(arguments, result)


def _axis(arguments: Mapping[str, Any], default: int = -1) -> tuple[int, int]:
    """Return the axis over which a call chooses, and its length."""
    x, dim = arguments["self"], arguments.get("dim", default)
    if not x.dim():
        return 0, 1
    return dim % x.dim(), x.shape[dim]


def _topk(arguments: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    dim, size = _axis(arguments)
    return [ShapeResult(result[1], partial(spread, result[1].shape, dim, size, arguments["k"]), BALANCED)]


def _sort(arguments: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    return [ShapeResult(result[1], partial(spread, result[1].shape, *_axis(arguments)), BALANCED)]


def _argsort(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return [ShapeResult(result, partial(spread, result.shape, *_axis(arguments)), BALANCED)]


def _picked(arguments: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    """Handle operators that return the index of one element of each row."""
    indices = result if isinstance(result, Tensor) else result[1]
    if arguments["dim"] is None:
        return [ShapeResult(indices, partial(_full, indices.shape, 0, torch.int64), BALANCED)]
    dim, size = _axis(arguments)
    shape = list(arguments["self"].shape)
    shape[dim : dim + 1] = [1]
    return [ShapeResult(indices, partial(_one_of_each_row, torch.Size(shape), dim, size, indices.shape), BALANCED)]


def _one_of_each_row(rows: torch.Size, dim: int, size: int, shape: torch.Size) -> Tensor:
    return spread(rows, dim, size).reshape(shape)


def _bincount(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    """Spread the count over all numbers that the caller asked for; of others nothing is known."""
    bins, total = result.numel(), arguments["self"].numel()
    if arguments["minlength"] < bins or arguments["weights"] is not None:
        return []
    return [ShapeResult(result, partial(_even_counts, total, bins), BALANCED)]


def _even_counts(total: int, bins: int) -> Tensor:
    return total // bins + (torch.arange(bins) < total % bins).long()


def _equal_to_itself(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    """Handle the first half of ``isfinite``, which PyTorch computes as ``(x == x) * (abs(x) != inf)``."""
    return _filled(1, FINITE)(arguments, result) if arguments["self"] is arguments["other"] else []


def _unequal_to_itself(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    """Handle ``x != x``, which is how some write ``isnan``."""
    return _filled(0, FINITE)(arguments, result) if arguments["self"] is arguments["other"] else []


def _not_infinite(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    """Handle the second half of ``isfinite``."""
    return _filled(1, FINITE)(arguments, result) if isinf(arguments["other"]) else []


def _multinomial(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    size, count = arguments["self"].shape[-1], arguments["num_samples"]
    return [ShapeResult(result, partial(spread, result.shape, result.dim() - 1, size, count), BALANCED)]


def _randperm(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return [ShapeResult(result, partial(torch.arange, result.numel(), dtype=result.dtype), UNSHUFFLED)]


_PICKS = "argmax argmin max.dim min.dim median.dim nanmedian.dim mode kthvalue"

CONSTANTS: Mapping[str, ShapeRule] = {
    **dict.fromkeys(("aten::zeros_like", "aten::new_zeros"), _filled(0)),
    **dict.fromkeys(("aten::ones_like", "aten::new_ones"), _filled(1)),
    **dict.fromkeys(("aten::full_like", "aten::new_full"), _filled_with),
    **dict.fromkeys(
        (f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")),
        _if_integers(_filled(0)),
    ),
}
"""Results that follow from shapes, whatever the operands hold, by operator. Uninitialized integers are zeros."""

CHOICES: Mapping[str, ShapeRule] = {
    "aten::topk": _topk,
    "aten::sort": _sort,
    "aten::argsort": _argsort,
    **dict.fromkeys((f"aten::{name}" for name in _PICKS.split()), _picked),
    "aten::multinomial": _multinomial,
    "aten::bincount": _bincount,
    "aten::randperm": _randperm,
    **dict.fromkeys(("aten::isnan", "aten::isinf"), _filled(0, FINITE)),
    "aten::isfinite": _filled(1, FINITE),
    "aten::eq.Tensor": _equal_to_itself,
    "aten::ne.Tensor": _unequal_to_itself,
    "aten::ne.Scalar": _not_infinite,
}
"""Results that are assumed if the operands are unknown, by operator, or by overload where the others differ."""
