"""Calls of operators on the meta device: a cache of equal calls, and the checks of operands that PyTorch leaves out.

A network repeats few distinct calls many times. Calls with equal keys have results of the same kind and become the same
layer, so that they are executed and translated once. No cached call holds a tensor. Operands are checked by shape,
then dtype, then device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, strided
from torch.nn import Parameter

from costcore.ir import Layer
from costcore.translate import Arguments

from ..meta.values import NUMBERS, PLAIN, all_tensors, broadcasts, has_complex, have_data, tensors_of
from ..tensors import dtype_name
from .plan import OperatorPlan, OperatorPlans, Replay, operator_plans, saved_key

MAX_CACHED_CALLS = 10_000
"""The cache is cleared before a capture if it has this many calls; a large network has a few hundred distinct ones."""

MAX_OWN_CALLS = 200_000
"""The maximum number of other calls that one capture keeps: a loop over tokens has a distinct ``select`` per step."""

_SHARED_TYPES = frozenset(
    (
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
        *(tuple, str, type(None), *NUMBERS),
    )
)
"""The types of the items in keys of shared calls; an object of any other type may belong to the user."""

_any_autocast = torch._C._is_any_autocast_enabled


class CallTemplate:
    """The record of calls with equal keys and operands of the same origins (external, learned or computed).

    Positions count the tensors that are passed, then the tensors that are returned.

    Args:
        known: positions of the operands that are learned parameters by their origin.

    Attributes:
        layer: the layer that is executed.
        inputs: the position of each input of the layer; -1 for a number.
        outputs: the position of each output of the layer.
        learned: positions of the operands that are learned parameters.
        by_use: positions of learned operands that are parameters only by their use, such as a tensor used as weight.
        strided: positions among the inputs of the layer of tensors that are not contiguous.
        is_supported: whether the operator has a mapping rule (row) and a calculator.
    """

    by_use: tuple[int, ...]
    inputs: tuple[int, ...]
    is_supported: bool
    layer: Layer
    learned: tuple[int, ...]
    outputs: tuple[int, ...]
    strided: tuple[int, ...]

    __slots__ = ("by_use", "inputs", "is_supported", "layer", "learned", "outputs", "strided")

    def __init__(
        self,
        layer: Layer,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        is_supported: bool,
        strided: tuple[int, ...] = (),
        known: Collection[int] = (),
    ) -> None:
        self.layer = layer
        self.inputs = inputs
        self.outputs = outputs
        self.is_supported = is_supported
        self.strided = strided
        roles = [tensor.role for tensor in layer.inputs.values()]
        self.learned = tuple(i for i, role in zip(inputs, roles, strict=True) if i >= 0 and role == "param")
        self.by_use = tuple(i for i in self.learned if i not in known)


class CachedCall:
    """The common part of calls with equal keys.

    Attributes:
        plan: the plan of their operator.
        replay: returns their result without running anything; None if that is impossible.
        have_data: whether all their operands are ordinary tensors with data.
        has_complex: whether any of their operands is complex.
        may_change_values: whether they may change the known values of meta tensors.
        composite_events: allocations and frees inside a composite operator; None if they were not recorded.
        templates: how they are recorded, by the origins of their operands.
    """

    may_change_values: bool
    has_complex: bool
    have_data: bool
    plan: OperatorPlan
    replay: Callable[[Sequence[Any]], Any] | None

    __slots__ = ("composite_events", "has_complex", "have_data", "may_change_values", "plan", "replay", "templates")

    def __init__(
        self,
        plan: OperatorPlan,
        replay: Replay | None = None,
        have_data: bool = False,
        has_complex: bool = False,
        may_change_values: bool = False,
    ) -> None:
        self.plan = plan
        self.replay = replay
        self.have_data = have_data
        self.has_complex = has_complex
        self.may_change_values = may_change_values
        self.composite_events: Any = None
        self.templates: dict[int, CallTemplate] = {}


class CallCache:
    """The calls that a capture has seen before.

    Calls of PyTorch's own operators are shared with later captures under the same settings. Calls whose key may hold an
    object of the user are kept for this capture only.

    Args:
        has_replay: whether results may be replayed.
        checks_operands: whether calls are rejected whose operands a real run would reject.

    Attributes:
        plans: the plans of operators.
        has_assumed: returns whether anything was assumed about data in this capture.
    """

    plans: OperatorPlans

    def __init__(self, has_replay: bool, checks_operands: bool) -> None:
        self.plans = operator_plans()
        self._has_replay = has_replay
        self._checks_operands = checks_operands
        self._shared = _shared_calls(self.plans, has_replay, checks_operands)
        self._own: dict[CallKey, CachedCall] = {}
        self.has_assumed: Callable[[], bool] = lambda: False

    def find(
        self, plan: OperatorPlan, args: Any, kwargs: Any
    ) -> tuple[CallKey | None, CachedCall | None, list[Tensor]]:
        """Return the key of a call, the cached call, and the tensors among the arguments.

        The key is None for a call that cannot be cached: sparse tensors have no strides, ragged ones unhashable shapes.
        """
        tensors: list[Tensor] = []
        try:
            key = call_key(plan, args, kwargs, tensors)
            if plan.saves_for_backward:
                key += saved_key(plan.native, tensors)
            cached = self._shared.get(key)
        except (RuntimeError, TypeError):
            return None, None, tensors_of(args, kwargs)
        return key, cached or self._own.get(key), tensors

    def add(
        self, plan: OperatorPlan, key: CallKey | None, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
    ) -> CachedCall:
        """Store a call that ran, unless it has no key or varying shapes, and return it as a cached call.

        Raises:
            DtypeMismatchError, OperandShapeError: for operands that a real run would reject.
        """
        if self._checks_operands:
            check_shapes(plan, tensors, args, kwargs or {}, self.has_assumed)
            if not _any_autocast():
                check_dtypes(plan, tensors, args, kwargs or {})
        follow = plan.follow_rule
        changes = follow is not None and follow.may_change_values(args, kwargs, tensors, result)
        if key is None:
            return CachedCall(plan, may_change_values=changes)
        rule = plan.replay_rule if self._has_replay else None
        replay = None if rule is None else rule(args, tensors, result)
        cached = CachedCall(plan, replay, have_data(tensors), has_complex(tensors), changes)
        if not plan.has_varying_shapes or all(tensor.is_meta for tensor in tensors):
            self._keep(key, cached)
        return cached

    def _keep(self, key: CallKey, cached: CachedCall) -> None:
        # The shared cache is not cleared during a capture: a loop with more distinct calls would then never find one.
        if len(self._shared) < MAX_CACHED_CALLS and _is_sharable(key, cached.plan):
            self._shared[key] = cached
            return
        if len(self._own) >= MAX_OWN_CALLS:
            self._own.clear()
        self._own[key] = cached

    def find_by_result(
        self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any
    ) -> tuple[CachedCall, list[Tensor]]:
        """Return the cached call of an operator with a data-dependent result, and the tensors among the arguments.

        Its key includes the shapes of the result. The call is kept for this capture only.
        """
        tensors: list[Tensor] = []
        try:
            key = call_key(plan, args, kwargs, tensors)
            shapes = tuple([x.shape for x in all_tensors((result,))])
            return self._own.setdefault((*key, shapes), CachedCall(plan)), tensors
        except (RuntimeError, TypeError):
            return CachedCall(plan), tensors_of(args, kwargs)


def _is_sharable(key: CallKey, plan: OperatorPlan) -> bool:
    # A key must not keep an object of the user alive after the capture.
    if not plan.native.startswith("aten::"):
        return False
    return all(type(item) in _SHARED_TYPES or item in NUMBERS for item in key[1:])


_shared: dict[tuple[Any, ...], dict[CallKey, CachedCall]] = {}
"""The shared calls, by the settings under which they ran."""

_shared_plans: OperatorPlans | None = None
"""The plans that the keys of the shared calls hold."""


def _shared_calls(plans: OperatorPlans, *settings: bool) -> dict[CallKey, CachedCall]:
    # Results and later calls may depend on these settings.
    global _shared_plans
    if plans is not _shared_plans:
        _shared_plans = plans
        _shared.clear()
    modes = torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    calls = _shared.setdefault((*settings, *modes), {})
    if len(calls) >= MAX_CACHED_CALLS:
        calls.clear()
    return calls


def clear_cached_calls() -> None:
    """Clear all plans and shared calls: the next capture is like the first."""
    _shared.clear()
    operator_plans().by_id.clear()


# Keys: calls with equal keys have results of the same kind


CallKey: TypeAlias = "tuple[Any, ...]"

_ONLY_INT = {int}

_NO_STRIDES = "a sparse tensor has strides of 0 or none, whatever the number of its elements"


def call_key(plan: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None, tensors: list[Tensor]) -> CallKey:
    """Return the key of a call, and append every tensor among the arguments to ``tensors``.

    The key may not be hashable. It never holds a tensor, which it would keep alive.

    Raises:
        RuntimeError: for tensors without strides (sparse ones).
    """
    key: list[Any] = [plan]
    for value in args:
        kind = type(value)
        if (kind is Tensor or kind is Parameter) and not value.is_sparse:
            key += (value.shape, value.stride(), value.dtype, value.is_meta)
            tensors.append(value)
        elif kind is int or kind is float or kind is bool:
            key += (kind, value)  # 1, 1.0 and True have equal hashes
        elif value is None:
            key.append(None)
        else:
            _extend(key, value, kind, tensors)
    if kwargs:
        for name, value in kwargs.items():
            key.append(name)
            _extend(key, value, type(value), tensors)
    return tuple(key)


def _extend(key: list[Any], value: Any, kind: type, tensors: list[Tensor]) -> None:
    if kind is list or kind is tuple:
        if {*map(type, value)} == _ONLY_INT:
            key.append(tuple(value))
            return
        key.append(len(value))
        for item in value:
            _extend(key, item, type(item), tensors)
    elif kind in PLAIN:
        if value.is_sparse:
            raise RuntimeError(_NO_STRIDES)
        key += (value.shape, value.stride(), value.dtype, value.is_meta)
        tensors.append(value)
    elif kind in NUMBERS:
        key += (kind, value)
    elif isinstance(value, Tensor):
        key += (kind, value.shape, value.stride() if value.layout is strided else None, value.dtype)
        tensors.append(value)
    else:
        key.append(value)


# Checks of operands that PyTorch leaves out on the meta device: shapes, then dtypes, then moves between devices.

Check: TypeAlias = "Callable[[Arguments], str | None]"
"""Returns the problem for which a run would reject the arguments of a call; None if it would accept them."""

MAX_CATEGORIES = 2**24
"""The maximum number of categories that PyTorch draws samples from."""


class OperandShapeError(RuntimeError):
    """The error that a run would have raised.

    Args:
        operator: the name of the operator in reports.
        problem: the reason for which a run would reject the call.
    """

    def __init__(self, operator: str, problem: str) -> None:
        super().__init__(f"PyTorch refuses {operator}: {problem}")


def check_shapes(
    plan: OperatorPlan,
    tensors: Sequence[Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    has_assumed: Callable[[], bool],
) -> None:
    """Check that a run would accept the shapes and sizes of a call.

    After an assumption about data, operators with data-dependent numbers of rows are not checked: an assumed number may
    not fit the others.

    Args:
        plan: the plan of the operator.
        tensors: all tensors among the arguments.
        args: the positional arguments.
        kwargs: the keyword arguments.
        has_assumed: returns whether anything was assumed about data before.

    Raises:
        OperandShapeError: if it would not; the message includes the operator and the sizes.
    """
    check = SHAPE_CHECKS.get(plan.native)
    if check is None or any(type(x) not in PLAIN for x in tensors):
        return
    problem = check(plan.bind(args, kwargs))
    if problem is not None and not (plan.native in DEPEND_ON_ASSUMPTIONS and has_assumed()):
        raise OperandShapeError(plan.type, problem)


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _convolution(a: Arguments) -> str | None:
    # Source: ``check_shape_forward`` in ``aten/src/ATen/native/Convolution.cpp``, which the meta device leaves out.
    x, w, groups, transposed = a["input"], a["weight"], a["groups"], a["transposed"]
    if x.dim() != w.dim():
        return f"the weight has {w.dim()} axes and the input {x.dim()} (got {_shape(w)} and {_shape(x)})"
    if groups < 1 or w.shape[0] < groups or w.shape[0] % groups:
        return f"the weight {_shape(w)} cannot be divided into {groups} groups along its first axis"
    if 0 in w.shape[2:] or 0 in x.shape[2:]:
        return f"input or kernel are empty (got {_shape(x)} and a weight of {_shape(w)})"
    for name, minimum in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)):
        if any(size < minimum for size in a[name]):
            return f"invalid {name} {tuple(a[name])} (expected at least {minimum})"
    needed, made = (w.shape[0], w.shape[1] * groups) if transposed else (w.shape[1] * groups, w.shape[0])
    if x.shape[1] != needed:
        return f"the input {_shape(x)} has {x.shape[1]} channels (expected {needed} for a weight of {_shape(w)})"
    if a["bias"] is not None and tuple(a["bias"].shape) != (made,):
        return f"the bias is {_shape(a['bias'])} (expected ({made},) for a weight of {_shape(w)})"
    return _transposed_output(a) if transposed else _kernel_extent(a)


def _per_axis(a: Arguments, *names: str) -> list[tuple[int, ...]]:
    # One number may stand for all axes.
    rank = a["weight"].dim() - 2
    return [tuple(a[name]) * (rank if len(a[name]) == 1 else 1) for name in names]


def _kernel_extent(a: Arguments) -> str | None:
    padding, dilation = _per_axis(a, "padding", "dilation")
    extents = tuple(d * (k - 1) + 1 for k, d in zip(a["weight"].shape[2:], dilation, strict=True))
    padded = tuple(x + 2 * p for x, p in zip(a["input"].shape[2:], padding, strict=True))
    if all(size >= extent for size, extent in zip(padded, extents, strict=True)):
        return None
    return f"the kernel extends over {extents} and the padded input has {padded}"


def _transposed_output(a: Arguments) -> str | None:
    stride, padding, dilation, added = _per_axis(a, "stride", "padding", "dilation", "output_padding")
    if any(size >= max(steps) for size, *steps in zip(added, stride, dilation, strict=True)):
        return f"invalid output_padding {added} (expected less than the stride {stride} or the dilation {dilation})"
    sizes = zip(a["input"].shape[2:], a["weight"].shape[2:], stride, padding, dilation, added, strict=True)
    made = tuple((x - 1) * s - 2 * p + d * (k - 1) + 1 + more for x, k, s, p, d, more in sizes)
    return f"the output would be {made} (expected at least 1 along every axis)" if min(made, default=1) < 1 else None


def _expands(name: str, result: Callable[[Arguments], Sequence[int]]) -> Check:
    def check(a: Arguments) -> str | None:
        operand, shape = a.get(name), tuple(result(a))
        if not isinstance(operand, Tensor) or broadcasts(operand.shape, shape):
            return None
        return f"{name} of shape {_shape(operand)} does not broadcast to the result {shape}"

    return check


def _product(x0: str, x1: str) -> Callable[[Arguments], Sequence[int]]:
    return lambda a: (*a[x0].shape[:-1], *a[x1].shape[-1:])


def _axis(a: Arguments) -> str | None:
    x, dim = next(iter(a.values())), a.get("dim")
    rank = max(x.dim(), 1)
    if type(dim) is not int or -rank <= dim < rank:
        return None
    return f"there is no axis {dim} in a tensor of shape {_shape(x)}"


def _nonempty_axis(a: Arguments) -> str | None:
    x, dim = a["self"], a.get("dim")
    if type(dim) is not int or x.dim() == 0 or x.shape[dim]:
        return None
    return f"axis {dim} of a tensor of shape {_shape(x)} is empty"


def _nonempty(a: Arguments) -> str | None:
    x = a["self"]
    return None if len(a) > 1 or x.numel() else f"a tensor of shape {_shape(x)} has no elements"


def _nonempty_map(rank: int) -> Check:
    def check(a: Arguments) -> str | None:
        x = next(iter(a.values()))
        return f"an input of shape {_shape(x)} has empty axes" if 0 in x.shape[-rank:] else None

    return check


def _select(a: Arguments) -> Sequence[int]:
    shape = list(a["self"].shape)
    del shape[a["dim"]]
    return shape


def _slice(a: Arguments) -> Sequence[int]:
    shape = list(a["self"].shape)
    shape[a["dim"]] = len(range(*slice(a["start"], a["end"], a["step"]).indices(shape[a["dim"]])))
    return shape


def _diagonal(a: Arguments) -> Sequence[int]:
    shape, offset = list(a["self"].shape), a["offset"]
    rows, columns = (a[name] % len(shape) for name in ("dim1", "dim2"))
    length = min(shape[rows], shape[columns] - offset) if offset >= 0 else min(shape[rows] + offset, shape[columns])
    return [*(size for i, size in enumerate(shape) if i not in (rows, columns)), max(length, 0)]


def _matches_src(place: Callable[[Arguments], Sequence[int]]) -> Check:
    def check(a: Arguments) -> str | None:
        if (problem := _axis(a)) is not None:
            return problem
        shape = tuple(place(a))
        return None if tuple(a["src"].shape) == shape else f"src is {_shape(a['src'])} (expected {shape})"

    return check


def _index_put(a: Arguments) -> str | None:
    indices = [index for index in a["indices"] if isinstance(index, Tensor)]
    if not indices or any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        return None
    places = [i for i, index in enumerate(a["indices"]) if isinstance(index, Tensor)]
    kept = [size for i, size in enumerate(a["self"].shape) if i not in places]
    first = places[0] if places[-1] - places[0] < len(places) else 0
    chosen = torch.broadcast_shapes(*(index.shape for index in indices))
    return _expands("values", lambda _: (*kept[:first], *chosen, *kept[first:]))(a)


def _index_add(a: Arguments) -> str | None:
    x, dim, source = a["self"], a["dim"], a["source"]
    if (problem := _axis(a)) is not None or 0 in (x.dim(), source.dim()):
        return problem
    shape = [*x.shape]
    shape[dim] = a["index"].numel()
    return None if [*source.shape] == shape else f"source is {_shape(source)} (expected {tuple(shape)})"


def _nll_loss2d(a: Arguments) -> str | None:
    x, target = a["self"], a["target"]
    if target.dim() == 3 and x.dim() == 4 and target.shape == (x.shape[0], *x.shape[2:]):
        return None
    return f"the target is {_shape(target)} (expected {(x.shape[0], *x.shape[2:])} for an input of {_shape(x)})"


def _resize(rank: int) -> Check:
    check_input = _nonempty_map(rank)
    return lambda a: "the output would be empty" if 0 in (a["output_size"] or ()) else check_input(a)


def _im2col(a: Arguments) -> str | None:
    return f"invalid padding {tuple(a['padding'])} (expected at least 0)" if min(a["padding"]) < 0 else None


def _cross_entropy_with_logits(a: Arguments) -> str | None:
    problems = (_expands(name, lambda a: a["self"].shape)(a) for name in ("weight", "pos_weight"))
    return next((problem for problem in problems if problem is not None), None)


def _multinomial(a: Arguments) -> str | None:
    x, count = a["self"], a["num_samples"]
    if not x.is_floating_point():
        return f"probabilities of {dtype_name(x.dtype)} (expected floating-point numbers)"
    if x.shape[-1] > MAX_CATEGORIES:
        return f"{x.shape[-1]} categories (expected at most {MAX_CATEGORIES})"
    if count >= 1 and (a["replacement"] or count <= x.shape[-1]):
        return None
    return f"{count} samples cannot be drawn from {x.shape[-1]} categories"


def _gelu(a: Arguments) -> str | None:
    kind = a["approximate"]
    return None if kind in ("none", "tanh") else f"unknown approximation {kind!r} (expected 'none' or 'tanh')"


def _layer_norm(a: Arguments) -> str | None:
    return None if len(a["normalized_shape"]) else "normalized_shape is empty"


def _put(a: Arguments) -> str | None:
    index, source = a["index"].numel(), a["source"].numel()
    return None if index == source else f"{source} elements are put at {index} positions"


def _bucketize(a: Arguments) -> str | None:
    boundaries = a["boundaries"]
    return None if boundaries.dim() == 1 else f"boundaries of shape {_shape(boundaries)} have more than one axis"


SHAPE_CHECKS: Mapping[str, Check] = {
    "aten::convolution": _convolution,
    "aten::linear": _expands("bias", lambda a: (*a["input"].shape[:-1], *a["weight"].shape[:-1])),
    "aten::addmm": _expands("self", _product("mat1", "mat2")),
    "aten::addmv": _expands("self", lambda a: a["mat"].shape[:1]),
    "aten::baddbmm": _expands("self", _product("batch1", "batch2")),
    "aten::addbmm": _expands("self", lambda a: (a["batch1"].shape[1], a["batch2"].shape[2])),
    "aten::addr": _expands("self", lambda a: (*a["vec1"].shape, *a["vec2"].shape)),
    **dict.fromkeys(
        (f"aten::{name}" for name in ("softmax", "log_softmax", "cummax", "cummin", "sort", "argsort", "topk")), _axis
    ),
    **dict.fromkeys((f"aten::index_{name}" for name in ("select", "reduce", "fill")), _axis),
    **dict.fromkeys(("aten::index_add", "aten::index_copy"), _index_add),
    **dict.fromkeys((f"aten::{name}" for name in ("median", "nanmedian", "mode")), _nonempty_axis),
    **dict.fromkeys(("aten::max", "aten::min"), _nonempty),
    **{f"aten::adaptive_avg_pool{rank}d": _nonempty_map(rank) for rank in (2, 3)},
    **{f"aten::grid_sampler_{rank}d": _nonempty_map(rank) for rank in (2, 3)},
    "aten::upsample_linear1d": _resize(1),
    "aten::upsample_bilinear2d": _resize(2),
    "aten::im2col": _im2col,
    "aten::select_scatter": _matches_src(_select),
    "aten::slice_scatter": _matches_src(_slice),
    "aten::diagonal_scatter": _matches_src(_diagonal),
    "aten::index_put": _index_put,
    "aten::put": _put,
    "aten::gelu": _gelu,
    "aten::native_layer_norm": _layer_norm,
    "aten::binary_cross_entropy": _expands("weight", lambda a: a["self"].shape),
    "aten::binary_cross_entropy_with_logits": _cross_entropy_with_logits,
    "aten::soft_margin_loss": _expands("target", lambda a: a["self"].shape),
    "aten::nll_loss2d_forward": _nll_loss2d,
    "aten::multinomial": _multinomial,
    "aten::bucketize": _bucketize,
}
"""Checks by operator, which PyTorch lacks on the meta device."""

DEPEND_ON_ASSUMPTIONS = frozenset(
    f"aten::{name}"
    for name in (
        *("addmm", "addmv", "baddbmm", "addbmm", "addr", "multinomial"),
        *("index_put", "index_add", "index_copy", "put", "select_scatter", "slice_scatter", "diagonal_scatter"),
    )
)
"""Operators whose operands often have a data-dependent number of rows."""


# Operands that must share a dtype


_NORMS = dict.fromkeys(
    ("aten::native_batch_norm", "aten::native_group_norm", "aten::native_layer_norm"),
    ("input", "weight", "bias", "running_mean", "running_var"),
)

SAME_DTYPE: Mapping[str, tuple[str, ...]] = {
    "aten::addmm": ("mat1", "mat2", "self"),
    "aten::baddbmm": ("self", "batch1", "batch2"),
    "aten::binary_cross_entropy": ("self", "target"),
    "aten::bmm": ("self", "mat2"),
    "aten::convolution": ("input", "weight", "bias"),
    "aten::dot": ("self", "tensor"),
    "aten::embedding_bag": ("weight", "per_sample_weights"),
    "aten::grid_sampler_2d": ("input", "grid"),
    "aten::grid_sampler_3d": ("input", "grid"),
    "aten::index_add": ("self", "source"),
    "aten::index_copy": ("self", "source"),
    "aten::index_put": ("self", "values"),
    "aten::linalg_cross": ("self", "other"),
    "aten::mm": ("self", "mat2"),
    "aten::mv": ("self", "vec"),
    **_NORMS,
}
"""Arguments that must share a dtype in a run, by operator, unless all releases check this on meta, too."""

_HALVES = (torch.float16, torch.bfloat16)
"""Dtypes that a normalization accepts together with parameters in float32, at least on a CPU."""

INTEGERS_ONLY: Mapping[str, str] = {"aten::embedding": "indices"}
"""Arguments that must be int32 or int64 in a run, by operator; PyTorch calls these dtypes ``Long, Int``."""


class DtypeMismatchError(RuntimeError):
    """The error that a run would have raised.

    Args:
        operator: the name of the operator in reports.
        dtypes: the dtypes of its operands, two or more.
    """

    dtypes: tuple[Any, ...]

    def __init__(self, operator: str, dtypes: Sequence[torch.dtype]) -> None:
        super().__init__(f"PyTorch refuses {operator} of {' and '.join(map(dtype_name, dtypes))}")
        self.dtypes = tuple(dtypes)


class IndexDtypeError(RuntimeError):
    """The error that a run would have raised about indices, in the words of PyTorch.

    Args:
        operator: the name of the operator in reports.
        argument: the name of its argument.
        dtype: its dtype.
    """

    def __init__(self, operator: str, argument: str, dtype: torch.dtype) -> None:
        accepted = "expected one of: Long, Int"
        super().__init__(f"PyTorch refuses {argument} of {operator} with dtype {dtype_name(dtype)} ({accepted})")


def check_dtypes(plan: OperatorPlan, tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check that a run would accept the dtypes of a call.

    Raises:
        DtypeMismatchError: if it would not; the message includes the operator and the dtypes.
    """
    if plan.native in INTEGERS_ONLY:
        _check_integers(plan, args, kwargs)
    names = SAME_DTYPE.get(plan.native)
    if names is None or len({tensor.dtype for tensor in tensors}) == 1 or any(type(x) not in PLAIN for x in tensors):
        return
    bound = plan.bind(args, kwargs)
    if "out_dtype" in bound:  # the addend may have that dtype
        return
    operands = [bound[name] for name in names if isinstance(bound.get(name), Tensor)]
    dtypes = dict.fromkeys(x.dtype for x in operands)
    if plan.native in _NORMS and (operands[0].dtype in _HALVES or not operands[0].numel()):
        dtypes.pop(torch.float32, None)
    if len(dtypes) > 1:
        raise DtypeMismatchError(plan.type, list(dtypes))


def _check_integers(plan: OperatorPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    name = INTEGERS_ONLY[plan.native]
    found = plan.bind(args, kwargs)[name]
    if type(found) in PLAIN and found.dtype not in (torch.int32, torch.int64):
        raise IndexDtypeError(plan.type, name, found.dtype)


# Moves between devices
#
# A model names devices, ``x.to(device)``. In a run, all tensors are on one device, and nothing moves. In an estimate,
# most tensors are on the meta device, but some that the model makes are not.


MOVE = torch.ops.aten._to_copy.default
"""The operator that moves, casts or copies a tensor."""


def is_move(
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: Any = None,
    memory_format: torch.memory_format | None = None,
    **_: Any,
) -> bool:
    """Return whether ``_to_copy`` with these arguments only moves a tensor to or from the meta device."""
    if device is None or (torch.device(device).type == "meta") == x.is_meta:
        return False
    if dtype not in (None, x.dtype) or layout not in (None, x.layout):
        return False
    is_preserved = memory_format in (None, torch.preserve_format)
    return is_preserved or x.is_contiguous(memory_format=memory_format or torch.contiguous_format)
