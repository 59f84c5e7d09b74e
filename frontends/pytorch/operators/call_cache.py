"""The cache of operator calls, which spares repeated calls a second run and a second translation.

A network repeats few distinct calls many times. Calls with equal keys have results of the same kind and become the same
layer, so that they are executed and translated once. No cached call holds a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, strided
from torch.nn import Parameter

from costcore.ir import Layer

from ..meta.values import NUMBERS, PLAIN, all_tensors, has_complex, have_data, tensors_of
from .checks import check_dtypes, check_shapes
from .plan import OperatorPlan, OperatorPlans, Replay, operator_plans, saved_key

MAX_CACHED_CALLS = 10_000
"""The cache is cleared before a capture if it has this many calls; a large network has a few hundred distinct ones."""

MAX_OWN_CALLS = 200_000
"""The calls that one capture keeps beside them: a loop over tokens has a distinct ``select`` per step."""

_SHARED_TYPES = frozenset(
    (
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
        *(tuple, str, type(None), *NUMBERS),
    )
)
"""The types of the items in keys of shared calls; an object of any other type may belong to the user."""

_any_autocast = torch._C._is_any_autocast_enabled


class CallTemplate:
    """How calls are recorded that have equal keys and operands of the same origins (external, learned or computed).

    Args:
        known: positions of the operands whose origin is that of a learned parameter.

    Attributes:
        layer: the layer that is executed.
        inputs: for every input of the layer the position of its tensor among those of the call; -1 for a number.
        outputs: for every output of the layer the position of its tensor; those returned follow those passed.
        learned: positions of the operands that are learned parameters.
        by_use: those of them whose origin does not show it, but their use.
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
        carries: whether they may change what is known of the values of meta tensors.
        frame: the memory that a composite operator allocates and frees inside; None if that was not recorded.
        templates: how they are recorded, by the origins of their operands.
    """

    carries: bool
    has_complex: bool
    have_data: bool
    plan: OperatorPlan
    replay: Callable[[Sequence[Any]], Any] | None

    __slots__ = ("carries", "frame", "has_complex", "have_data", "plan", "replay", "templates")

    def __init__(
        self,
        plan: OperatorPlan,
        replay: Replay | None = None,
        have_data: bool = False,
        has_complex: bool = False,
        carries: bool = False,
    ) -> None:
        self.plan = plan
        self.replay = replay
        self.have_data = have_data
        self.has_complex = has_complex
        self.carries = carries
        self.frame: Any = None
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
        carries = follow is not None and follow.carries(args, kwargs, tensors, result)
        if key is None:
            return CachedCall(plan, carries=carries)
        rule = plan.replay_rule if self._has_replay else None
        replay = None if rule is None else rule(args, tensors, result)
        cached = CachedCall(plan, replay, have_data(tensors), has_complex(tensors), carries)
        if not plan.has_varying_shapes or all(tensor.is_meta for tensor in tensors):
            self._keep(key, cached)
        return cached

    def _keep(self, key: CallKey, cached: CachedCall) -> None:
        # Clearing during a capture would lose all calls of a loop with more distinct ones before they repeat.
        if len(self._shared) < MAX_CACHED_CALLS and _is_sharable(key, cached.plan):
            self._shared[key] = cached
            return
        if len(self._own) >= MAX_OWN_CALLS:
            self._own.clear()
        self._own[key] = cached

    def decided(self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any) -> tuple[CachedCall, list[Tensor]]:
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
