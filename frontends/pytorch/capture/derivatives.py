"""Backward formulas as in a run without a capture.

While any dispatch mode is active, and for meta tensors, PyTorch takes other branches in the backward pass of some
operators (``areAnyTensorSubclassLike`` in ``torch/csrc/autograd/FunctionsManual.cpp``): it scatters into a copy instead
of in place, and does not look at data. These branches allocate more and run other operators.

* On data, the nodes of such operators run without the mode. Their operators reach the capture through a kernel at
  another dispatch key, which PyTorch reserves for its own tests.
* On the meta device, operators run in place as they do on data (:class:`_InPlace`). Formulas that look at data are
  written out here (:data:`_FORMULAS`); PyTorch's own formulas also run, but unrecorded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, wraps
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from ..meta.replacements import has_channels_last
from ..meta.values import without_capture
from ..operators.plan import is_decomposed
from .autocast import PRE_DISPATCH, fallback_of_all, replace
from .dispatch_mode import CaptureMode

# Autograd nodes with such a branch: all of PyTorch's ``op_db`` was run with and without a mode.
_SELECTING = frozenset(
    f"{name}Backward{i}"
    for name, i in (
        *(("Kthvalue", 0), ("Max", 0), ("Min", 0), ("Median", 1), ("Nanmedian", 1)),
        *(("Topk", 0), ("Mode", 0), ("Sort", 0), ("Sort", 1)),
    )
)
_IN_PLACE = frozenset(
    f"{name}Backward0"
    for name in (
        *("Atan2", "Clamp", "Cummax", "Cummin", "MaskedSelect", "Gather", "IndexSelect", "Index", "Take", "Trace"),
        *("BinaryCrossEntropyWithLogits", "BinaryCrossEntropy"),
    )
)
_OTHERS = frozenset(("LinalgMatrixExpBackward0", "OrmqrBackward0"))

APPROXIMATE = "memory: inside a capture PyTorch computes some gradients by other formulas, which allocate more"

NO_ZERO = "the factors of a product were assumed not to be zero"

_include = torch._C._dispatch_tls_set_dispatch_key_included
_is_included = torch._C._dispatch_tls_is_dispatch_key_included


def patch_backward(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Run the nodes of :data:`_NODES` as without a capture, in every backward pass of a thread that captures.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    original: Any = torch.autograd._engine_run_backward
    key = _key(active_mode, original.__code__)

    @wraps(original)
    def engine_run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or torch._C._len_torch_dispatch_stack() != 1 or _OPERATORS.isdisjoint(mode.cache.plans.names):
            return original(outputs, *args, **kwargs)
        nodes = [*_special_nodes(outputs)]
        handles = [handle for node in nodes for handle in _hooks(node, mode, key)]
        try:
            return original(outputs, *args, **kwargs)
        finally:
            if key is not None:
                _leave(mode, key)  # a node that raises has no hook after it
            for handle in handles:
                handle.remove()

    replace(stack, torch.autograd, "_engine_run_backward", engine_run_backward)


def _special_nodes(outputs: Any) -> Iterator[Any]:
    seen: set[Any] = set()
    waiting = [x.grad_fn for x in outputs if isinstance(x, Tensor)]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() in _NODES:
            yield node
        waiting += [following for following, _ in node.next_functions]


def _hooks(node: Any, mode: CaptureMode, key: DispatchKey | None) -> list[Any]:
    # The engine restores the modes of a thread after each node. Gradients of gradients use PyTorch's own formula,
    # because a replacement has no derivative.
    swap = _Replaced(node, mode)

    def before(gradients: Any) -> None:
        name = node.name()
        if torch.is_grad_enabled() or name in _OTHERS:
            mode.ledgers.note(APPROXIMATE, is_approximation=True)
        elif not any(isinstance(x, Tensor) and x.is_meta for x in gradients):
            if key is None:
                mode.ledgers.note(APPROXIMATE, is_approximation=True)
            else:
                _enter(mode, key)
        elif name in _FORMULAS:
            swap.compute(gradients)
        else:
            _push_mode(_InPlace(name))

    def after(computed: Any, _: Any) -> Any:
        if key is not None:
            _leave(mode, key)
        return swap.put(computed)

    return [node.register_prehook(before), node.register_hook(after)]


def _enter(mode: CaptureMode, key: DispatchKey) -> None:
    if torch._C._len_torch_dispatch_stack() == 1:
        _pop_mode()
        _include(PRE_DISPATCH, False)
        _include(key, True)


def _leave(mode: CaptureMode, key: DispatchKey) -> None:
    if _is_included(key):
        _include(key, False)
        _include(PRE_DISPATCH, True)
        _push_mode(mode)


@cache
def _key(active_mode: Callable[[], CaptureMode | None], engine: Any) -> DispatchKey | None:
    # Nothing else uses this key.
    key = torch._C._dispatch_key_parse("TESTING_ONLY_GenericMode")
    after, only = torch._C._dispatch_keyset_full_after(key), DispatchKeySet(key)

    def kernel(keyset: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None:
            return operator.redispatch(keyset & after, *args, **kwargs)
        if sys._getframe(1).f_code is not engine:  # code of the user, such as a recomputation
            _leave(mode, key)
            try:
                return operator(*args, **kwargs)
            finally:
                _enter(mode, key)
        if is_decomposed(operator):
            return operator.redispatch(keyset & after, *args, **kwargs)
        with torch._C._ExcludeDispatchKeyGuard(only):
            known = _assumed_value(mode, operator, args)
            return mode.__torch_dispatch__(operator, (), args, kwargs) if known is None else known

    return key if fallback_of_all(kernel, "TESTING_ONLY_GenericMode") else None


def _assumed_value(mode: CaptureMode, operator: Any, args: Any) -> Any:
    # Data are assumed to have no zero and no NaN.
    name = operator._schema.name
    if name not in ("aten::_local_scalar_dense", "aten::nonzero") or mode.is_known(args[0]):
        return None
    return 0 if name == "aten::_local_scalar_dense" else _empty_nonzero(mode, args[0])


def _empty_nonzero(mode: CaptureMode, mask: Tensor) -> Tensor:
    # It finds nothing, but is recorded.
    mode.assume(NO_ZERO)
    with mode.paused:
        result = mask.new_empty((0, mask.dim()), dtype=torch.int64)
    plan = mode.cache.plans.of(torch.ops.aten.nonzero.default)
    mode.observe(*mode.cache.find_by_result(plan, (mask,), {}, result), (mask,), {}, result)
    return result


def _operator(name: str) -> Any:
    operator: Any = torch.ops.aten
    for part in name.split("."):
        operator = getattr(operator, part)
    return operator


_ALWAYS_IN_PLACE = (
    *("scatter.src", "scatter_add.default", "index_add.default", "index_put.default", "put.default"),
    *("masked_scatter.default", "index_fill.int_Tensor"),
)
_IN_PLACE_BY_PREFIX = {
    "Atan2": ("masked_fill.Scalar",),
    "Binary": ("sub.Tensor", "mul.Tensor"),
    "Clamp": ("logical_and.default", "logical_or.default"),
}
"""Operators that backward formulas run in place on data: for all nodes, and by the prefix of a node's name."""


@cache
def _alternatives(name: str) -> Mapping[Any, Any]:
    own = (each for start, names in _IN_PLACE_BY_PREFIX.items() if name.startswith(start) for each in names)
    pairs = (each.partition(".") for each in (*_ALWAYS_IN_PLACE, *own))
    return {_operator(f"{base}.{overload}"): _operator(f"{base}_.{overload}") for base, _, overload in pairs}


class _InPlace(TorchDispatchMode):
    # On data, a formula writes into the tensors that it has made; inside a mode, PyTorch copies them instead.
    def __init__(self, name: str) -> None:
        super().__init__()
        self._selects = name in _SELECTING
        self._alternatives = _alternatives(name)
        self._made: dict[int, ref[Tensor]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as for :class:`.CaptureMode`

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        if func is torch.ops.aten.new_zeros.default and self._selects:
            result = torch.zeros(args[1], dtype=args[0].dtype, device=args[0].device)
        else:
            made = self._made.get(id(args[0])) if args else None
            is_own = made is not None and made() is args[0]
            result = (self._alternatives.get(func, func) if is_own else func)(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not result._is_view():
            self._made[id(result)] = ref(result)
        return result


class _Replaced:
    # Computes a node by a formula of this module; PyTorch's own formula runs unrecorded.
    def __init__(self, node: Any, mode: CaptureMode) -> None:
        self._node, self._mode = node, mode
        self._result: Sequence[Tensor | None] | None = None

    def compute(self, gradients: Any) -> None:
        """Run the formula, and record nothing until :meth:`put`."""
        node, mode = self._node, self._mode
        formula, saved = _FORMULAS[node.name()]
        if gradients[0] is None or any(_has_hooks(node, name) for name in saved):
            mode.ledgers.note(APPROXIMATE, is_approximation=True)
            return
        tensors = [getattr(node, f"_saved_{name}") for name in saved]
        self._result = formula(mode, node, *gradients, *tensors)
        if self._result is not None:
            for flag in (mode.paused, *(ledger.paused for ledger in mode.ledgers)):
                flag.__enter__()

    def put(self, computed: Any) -> Any:
        """Return the gradients of the formula in place of PyTorch's; None to keep PyTorch's."""
        result, self._result = self._result, None
        if result is None:
            return None
        for flag in (self._mode.paused, *(ledger.paused for ledger in self._mode.ledgers)):
            flag.__exit__()
        return tuple(map(_fitted, result, computed))


def _fitted(ours: Tensor | None, theirs: Tensor | None) -> Tensor | None:
    # The engine has summed its gradient of a broadcast operand.
    if ours is None or theirs is None:
        return None
    return ours if ours.shape == theirs.shape else ours.sum_to_size(theirs.shape)


def _has_hooks(node: Any, name: str) -> bool:
    # Saved-tensor hooks, as in checkpointing, may run only once.
    try:
        getattr(node, f"_raw_saved_{name}").register_hooks(lambda x: x, lambda x: x)
    except RuntimeError as error:  # PyTorch refuses a second pair, and hooks of an operand that is None
        return "value None" not in str(error)
    return False


def _read_zero(mode: CaptureMode, tensor: Tensor) -> None:
    with without_capture():
        zero = torch.zeros((), dtype=tensor.dtype, device="cpu")
    mode.values.give(tensor, zero)
    tensor.item()


def _signed(dim: int) -> int:
    return dim if dim < 2**63 else dim - 2**64  # nodes show axes without a sign


def _prod(mode: CaptureMode, _: Any, gradient: Tensor, x: Tensor, result: Tensor) -> Any:
    if not x.dim():
        return None
    _empty_nonzero(mode, x == 0)
    return (gradient * (result / x).conj(),)


def _prod_of_axis(mode: CaptureMode, node: Any, gradient: Tensor, x: Tensor, result: Tensor) -> Any:
    if not x.dim():
        return None
    dim = _signed(node._saved_dim)
    if not node._saved_keepdim:
        gradient, result = gradient.unsqueeze(dim), result.unsqueeze(dim)
    mode.assume(NO_ZERO)
    # Variables of the C++ formula live until it ends, so their tensors have names here too.
    zeros = x == 0
    counts = zeros.sum(dim, True)
    _read_zero(mode, counts.sum())
    return (gradient * (result / x).conj(),)


def _cumprod(mode: CaptureMode, node: Any, gradient: Tensor, x: Tensor, result: Tensor) -> Any:
    dim = _signed(node._saved_dim)
    if x.numel() <= 1 or x.shape[dim] == 1:
        return None
    weighted = result.conj() * gradient
    mode.assume(NO_ZERO)
    zeros = x == 0
    _read_zero(mode, zeros.any())
    return (_reversed_cumsum(weighted, dim).div(x.conj()),)


def _reversed_cumsum(x: Tensor, dim: int) -> Tensor:
    flipped = x.flip(dim)
    sums = flipped.cumsum(dim)
    return sums.flip(dim)


def _selected(mode: CaptureMode, _: Any, gradient: Tensor, x: Tensor, result: Tensor) -> Any:
    # The gradient of one value is shared by all elements equal to it.
    _read_zero(mode, result.isnan())
    mask = x == result
    return (gradient.new_zeros(x.shape, dtype=x.dtype).masked_fill_(mask, gradient / mask.sum()),)


def _masked_fill(_: CaptureMode, node: Any, gradient: Tensor, mask: Tensor) -> Any:
    needs_x, needs_value = (following is not None for following, _ in node.next_functions)
    if not needs_value:
        return None
    of_x = gradient.masked_fill(mask, 0) if needs_x else None
    return of_x, gradient.masked_select(mask).sum()


def _group_norm(_: CaptureMode, node: Any, gradient: Tensor, *rest: Tensor) -> Any:
    # Except on a CPU, PyTorch copies channels-last images into contiguous ones.
    *of_statistics, x, mean, scale, weight = rest
    if any(each is not None for each in of_statistics) or x.dim() != 4 or not has_channels_last(x):
        return None
    sizes = [getattr(node, f"_saved_{name}") for name in ("N", "C", "HxW", "group")]
    needs = [following is not None for following, _ in node.next_functions]
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    return torch.ops.aten.native_group_norm_backward.default(gradient, x, mean, scale, weight, *sizes, needs)


_FORMULAS: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "ProdBackward0": (_prod, ("self", "result")),
    "ProdBackward1": (_prod_of_axis, ("self", "result")),
    "CumprodBackward0": (_cumprod, ("self", "result")),
    **dict.fromkeys(
        ("MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"), (_selected, ("self", "result"))
    ),
    "MaskedFillBackward1": (_masked_fill, ("mask",)),
    "NativeGroupNormBackward0": (_group_norm, ("input", "result1", "result2", "weight")),
}
"""Formulas that depend on data or on the device, and the tensors that their nodes save."""

_OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        *("atan2", "clamp", "clamp_min", "clamp_max", "cumprod", "cummax", "cummin", "masked_select", "gather"),
        *("index_select", "index", "take", "trace", "binary_cross_entropy_with_logits", "binary_cross_entropy"),
        *("kthvalue", "max", "min", "median", "nanmedian", "topk", "mode", "sort", "msort", "argsort"),
        *("linalg_matrix_exp", "matrix_exp", "ormqr", "linalg_householder_product", "prod", "masked_fill"),
        *("take_along_dim", "quantile", "nanquantile", "repeat_interleave", "embedding_bag", "adaptive_max_pool2d"),
        *("group_norm", "native_group_norm"),
    )
)
"""Operators with such nodes, and composites of them: nodes are searched only if one of these ran."""

_NODES = frozenset((*_SELECTING, *_IN_PLACE, *_OTHERS, *_FORMULAS))
