"""Guesses what traces leave out of lists of tensors: their dtype, and the indices of ``aten::index``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from .dtypes import DTYPES, dtype_in
from .records import Constant, Op, TensorArgument, Thread

INTEGERS = ("int", "long int", "long")
"""The dtypes of indices in a trace."""

NEAR = 60
"""How many operators before and after one are looked at."""

_WIDTH = re.compile(r"OpaqueType<(\d)u?>")
_BY_WIDTH = {1: torch.bool, 2: torch.bfloat16, 4: torch.float32, 8: torch.int64}


class Neighbors:
    """The operators around others, whose tensors have dtypes.

    Args:
        threads: the operators of each thread by their start.
    """

    def __init__(self, threads: Mapping[Thread, Sequence[Op]]) -> None:
        self._threads = threads
        self._place = {op: at for ops in threads.values() for at, op in enumerate(ops)}
        floats = ("float", "c10::BFloat16", "c10::Half", "double")
        counted = Counter(
            x.dtype for ops in threads.values() for op in ops for x in tensors_of(op) if x.dtype in floats
        )
        self._common = DTYPES[counted.most_common(1)[0][0]] if counted else torch.float32

    def dtype_of_list(self, op: Op, items: Sequence[TensorArgument]) -> torch.dtype:
        """Return the likeliest dtype of a list of tensors among the arguments of an operator.

        It is the dtype that a kernel below the operator names; that of a tensor of the same shape, or of the shape of
        the result, in an operator inside, around or near it; that of another argument; the commonest of the trace.
        """
        width = None
        for kernel in _kernels(op):
            if (found := _WIDTH.search(kernel)) is not None:
                width = int(found[1])
            elif "multi_tensor_apply" in kernel and (dtype := dtype_in(kernel)) is not None:
                return dtype
        wanted = {*_result_shapes(op, items), *(item.dims for item in items)}
        for other in (*_inside(op), *self._near(op)):
            for tensor in tensors_of(other):
                dtype_here = DTYPES.get(tensor.dtype)
                if dtype_here is not None and tensor.dims in wanted and width in (None, dtype_here.itemsize):
                    return dtype_here
        if width in _BY_WIDTH:
            return _BY_WIDTH[width]
        around: Op | None = op
        while around is not None:
            for tensor in tensors_of(around):
                if tensor.dtype in DTYPES:
                    return DTYPES[tensor.dtype]
            around = around.parent
        return self._common

    def indices_of(self, op: Op) -> list[torch.Size] | None:
        """Return the shapes of the indices of ``aten::index`` and ``aten::index_put_``; None if nothing shows them.

        Operators inside convert and reshape them. Otherwise, an operator that is near reads the result: a tensor of the
        same dtype, whose last axes are those that are not indexed.
        """
        found = [x for x in op.arguments or () if isinstance(x, TensorArgument)]
        if not found:
            return None
        x = found[0]
        if "put" in op.name:
            values = found[-1].dims if len(found) > 1 else ()
            kept = next((n for n in range(len(x.dims) + 1) if _ends_with(values, x.dims[n:])), len(x.dims))
            return [torch.Size(values[: len(values) - len(x.dims) + kept] or (1,))] * max(kept, 1)
        inside = {y.dims for inner in _inside(op) for y in tensors_of(inner) if y.dtype in INTEGERS}
        if len(inside) == 1 and x.dtype not in INTEGERS:
            lead = inside.pop()
            read = {y.dims for other in self._after(op) for y in tensors_of(other) if y.dtype == x.dtype}
            n = next((n for n in range(1, len(x.dims) + 1) if (*lead, *x.dims[n:]) in read), 1)
            return [torch.Size(lead)] * n
        for other in self._after(op):
            for tensor in tensors_of(other):
                if tensor.dtype != x.dtype or tensor.dims == x.dims:
                    continue
                for n in range(1, len(x.dims) + 1):
                    lead = tensor.dims[: len(tensor.dims) - len(x.dims) + n]
                    if lead and _ends_with(tensor.dims, x.dims[n:]):
                        return [torch.Size(lead)] * n
        return None

    def _near(self, op: Op) -> Iterator[Op]:
        yield from self._after(op)
        ops, at = self._threads[op.thread], self._place[op]
        yield from reversed(ops[max(0, at - NEAR) : at])

    def _after(self, op: Op) -> Sequence[Op]:
        ops, at = self._threads[op.thread], self._place[op]
        return ops[at + 1 : at + NEAR]


def _ends_with(dims: Sequence[int], end: Sequence[int]) -> bool:
    return len(dims) >= len(end) and tuple(dims[len(dims) - len(end) :]) == tuple(end)


def tensors_of(op: Op) -> Iterator[TensorArgument]:
    """Yield the tensors among the arguments of an operator, without those in lists."""
    return (x for x in op.arguments or () if isinstance(x, TensorArgument))


def _inside(op: Op) -> Iterator[Op]:
    waiting = [*op.children]
    for _ in range(NEAR):
        if not waiting:
            return
        inner = waiting.pop(0)
        yield inner
        waiting += inner.children


def _kernels(op: Op) -> Iterator[str]:
    for each in (op, *_inside(op)):
        yield from (kernel.name for kernel in each.kernels)


def _result_shapes(op: Op, items: Sequence[TensorArgument]) -> Iterable[tuple[int, ...]]:
    """Yield the shape of what ``cat`` and ``stack`` return."""
    word = op.name.partition("::")[2]
    shapes = [list(item.dims) for item in items]
    dims = [x.value for x in op.arguments or () if isinstance(x, Constant) and type(x.value) is int]
    if word not in ("cat", "stack", "concat") or not shapes or len({len(shape) for shape in shapes}) > 1:
        return
    n, dim = len(shapes[0]), dims[0] if dims else 0
    if word == "stack" and -n - 1 <= dim <= n:
        shape = shapes[0]
        shape.insert(dim % (n + 1), len(shapes))
        yield tuple(shape)
    elif word != "stack" and -n <= dim < n:
        total = sum(each[dim] for each in shapes)
        shapes[0][dim] = total
        yield tuple(shapes[0])
