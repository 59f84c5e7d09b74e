"""Control flow operators and others whose arguments are functions or operators.

PyTorch would compile them. Here the functions are run as written, and the operators inside them are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor


class Data(Protocol):
    """What is known about the data of meta tensors."""

    def is_known(self, tensor: Tensor) -> bool:
        """Return whether the values of a tensor are known."""
        ...

    def assume(self, assumption: str) -> None:
        """Note an assumption."""
        ...


def _cond(
    data: Data, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


def _while_loop(
    data: Data,
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
    *_: Any,
    **__: Any,
) -> Any:
    carried = tuple(carried_inputs)
    while True:
        condition = cond_fn(*carried, *additional_inputs)
        is_unknown = isinstance(condition, Tensor) and not data.is_known(condition)
        if is_unknown:
            data.assume("a loop whose condition has no data was taken to run once")
        elif not condition:
            return carried
        carried = tuple(body_fn(*carried, *additional_inputs))
        if is_unknown:
            return carried


def _scan(
    data: Data,
    combine_fn: Callable[..., Any],
    init: Sequence[Any],
    xs: Sequence[Tensor],
    *rest: Any,
    additional_inputs: Sequence[Any] = (),
    **_: Any,
) -> Any:
    dim = next((value for value in rest if type(value) is int), 0)  # the axis, and the direction, before PyTorch 2.7
    additional_inputs = next((value for value in rest if isinstance(value, (list, tuple))), additional_inputs)
    carried, steps = list(init), []
    for i in range(xs[0].shape[dim]):
        returned = combine_fn(*carried, *(x.select(dim, i) for x in xs), *additional_inputs)
        carried = list(returned[: len(carried)])
        steps.append(returned[len(carried) :])
    return (*carried, *_stacked(steps, dim))


def _map(data: Data, function: Callable[..., Any], xs: Sequence[Tensor], constants: Sequence[Any], **_: Any) -> Any:
    return _stacked([function(*(x.select(0, i) for x in xs), *constants) for i in range(xs[0].shape[0])])


def _stacked(steps: Sequence[Sequence[Any]], dim: int = 0) -> tuple[Any, ...]:
    return tuple(
        [
            torch.stack(outputs, dim) if isinstance(outputs[0], Tensor) else outputs[0]
            for outputs in zip(*steps, strict=True)
        ]
    )


def _wrap(data: Data, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _out_dtype(data: Data, operator: Any, dtype: torch.dtype, *args: Any) -> Any:
    """Run an operator whose result has another dtype: a GPU has a kernel for products of int8, others convert first."""
    if operator is torch.ops.aten.mm.default and dtype is torch.int32 and all(x.dtype is torch.int8 for x in args):
        return torch._int_mm(*args)
    tensors = [x.dtype for x in args if isinstance(x, Tensor)]
    wide = reduce(torch.promote_types, tensors, dtype)
    return operator(*(x.to(wide) if isinstance(x, Tensor) else x for x in args)).to(dtype)


CONTROL_FLOW: Mapping[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "wrap": _wrap,
    "out_dtype": _out_dtype,
}
"""Functions that run a control flow operator, by its name; their first argument is what is known about data.

Later versions of PyTorch pass more, about how to compile the functions, which changes nothing of what they run.
"""
