"""Composite operators, recorded as one call.

PyTorch decomposes a composite operator (``linear``, ``layer_norm``, ``lstm`` …) before a dispatch mode can see it. At
the dispatch key ``PreDispatch``, which comes before all others and is unused in an ordinary run, it is still whole: a
kernel registered there records it and redispatches it. The last sections handle the fused transformer operators, values
passed to Python, and resized storages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache, partial, wraps
from math import prod
from numbers import Number
from operator import is_
from types import ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, UntypedStorage
from torch._ops import OpOverload
from torch.autograd import forward_ad
from torch.jit._builtins import _get_builtin_table
from torch.nn import Module, MultiheadAttention, TransformerEncoderLayer
from torch.overrides import get_ignored_functions
from torch.utils._device import _device_constructors

from ..meta.branches import NUMBERS_ARE_ONE
from ..meta.model_copy import meta_copy
from ..meta.propagate_values import assumptions_of
from ..meta.values import (
    NUMBERS,
    PLAIN,
    Contents,
    Values,
    are_distributed,
    have_data,
    is_mixed,
    is_small,
    tensors_of,
    without_capture,
    without_data,
)
from ..operators.call_cache import CachedCall
from ..operators.plan import (
    ADDS_IN_PLACE,
    COMPOSITES,
    FAST_PATHS,
    KERNELS_OF_CPU,
    ON_ONE_DEVICE,
    WITHOUT_GRADIENT,
    OperatorPlan,
    exists,
    overload,
)
from ..tensors import join
from . import autocast
from .autocast import AFTER, AFTER_CAPTURE, CAPTURED, kernels_of_aten, replace
from .dispatch_mode import CaptureMode, run_cpu_replacement

_NO_CONTEXT = nullcontext()

_grad_enabled = torch.is_grad_enabled

_functorch_level = torch._C._functorch.maybe_current_level

_mode_count = torch._C._len_torch_dispatch_stack

_current_node = torch._C._current_autograd_node


@cache
def register_composite_kernels(active_mode: Callable[[], CaptureMode | None]) -> None:
    """Register a kernel for every composite operator, for the rest of the process.

    Args:
        active_mode: returns the mode of the running thread.
    """
    # The kernels stay registered, but only capturing threads have the dispatch key in their local state.
    with kernels_of_aten() as library:
        for name in sorted(COMPOSITES):
            if exists(name):
                kernel = _composite_kernel(name, active_mode)
                if name in WITHOUT_GRADIENT:
                    kernel = _unless_a_gradient_is_needed(name, kernel)
                library.impl(name, kernel, "PreDispatch", with_keyset=True)
        for name in ON_ONE_DEVICE:
            library.impl(name, _kernel_on_one_device(overload(name), active_mode), "PreDispatch", with_keyset=True)


def _kernel_on_one_device(operator: OpOverload, active_mode: Callable[[], CaptureMode | None]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        tensors = tensors_of(args, kwargs)
        if mode is not None and autocast.is_any_enabled() and autocast.has_rule(operator, tensors):
            return mode.casts.run(operator, args, kwargs)
        if is_mixed(tensors):
            with without_capture():
                args, kwargs = without_data(args), without_data(kwargs)
        return operator.redispatch(keyset & AFTER, *args, **kwargs)

    return kernel


def _composite_kernel(name: str, active_mode: Callable[[], CaptureMode | None]) -> Callable[..., Any]:
    operator: OpOverload | None = None
    redispatch: Any = None

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal operator, redispatch
        if operator is None:  # on the first call, because making the objects of all operators takes long
            operator = overload(name)
            redispatch = operator._handle.redispatch_boxed  # operator.redispatch without its Python frame
        mode = active_mode()
        if mode is None or mode.recording.inside_call.is_set or mode.paused.is_set or _functorch_level() is not None:
            if mode is not None and autocast.is_any_enabled() and autocast.has_rule(operator, tensors_of(args, kwargs)):
                return mode.casts.run(operator, args, kwargs)
            return redispatch(keyset & AFTER, *args, **kwargs)
        if forward_ad._current_level >= 0 and _have_tangents(args, kwargs):
            return redispatch(keyset & AFTER, *args, **kwargs)
        if mode.is_over and mode.end_in_thread is not None:
            mode.end_in_thread()
            return operator(*args, **kwargs)
        if mode.api_calls is not None and mode.api_calls.enabled:
            with mode.api_calls.disabled():
                return _call(mode, operator, redispatch, keyset, args, kwargs)
        return _call(mode, operator, redispatch, keyset, args, kwargs)

    return kernel


def _have_tangents(args: Any, kwargs: Any) -> bool:
    # In forward-mode differentiation, an operator on a dual tensor also runs operators on its tangent.
    with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
        duals = (torch._VF._unpack_dual(x, level=forward_ad._current_level) for x in tensors_of(args, kwargs))
        return any(tangent is not None for _, tangent in duals)


def _unless_a_gradient_is_needed(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def kernel_without_gradient(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(args, kwargs)):
            return overload(name).redispatch(keyset & AFTER, *args, **kwargs)
        return kernel(keyset, *args, **kwargs)

    return kernel_without_gradient


def _call(
    mode: CaptureMode, operator: OpOverload, redispatch: Callable[..., Any], keyset: Any, args: Any, kwargs: Any
) -> Any:
    # The three steps of :mod:`.dispatch_mode`, for composite operators
    plan = mode.cache.plans.by_id.get(id(operator)) or mode.cache.plans.of(operator)
    key, cached, tensors = mode.find_call(plan, args, kwargs)
    if cached is None and not all(type(tensor) in PLAIN for tensor in tensors) and are_distributed(tensors):
        return redispatch(keyset & AFTER, *args, **kwargs)
    if autocast.is_any_enabled():
        if autocast.casts_first(operator, keyset & AFTER):
            return redispatch(keyset & AFTER, *args, **kwargs)  # it comes again after its inputs were cast
        if autocast.has_rule(operator, tensors):
            return mode.casts.run(operator, args, kwargs)
        if plan.native in autocast.CASTS_INSIDE:
            key = cached = None  # its result depends on more than its operands
    call = CompositeCall(mode, plan, cached, tensors, redispatch, keyset, args, kwargs)
    run = _choose_run(call)
    ledger = mode.ledgers[0] if mode.ledgers and run is not _replay and run is not _run_outside else None
    mark = 0 if ledger is None else ledger.begin_composite()
    timed = mode.recording.measures_time and run is not _replay
    result = mode.recording.timed(tensors, kwargs, run, call) if timed else run(call)
    if cached is None or type(result) is _Partial:  # a single test for cached calls
        if type(result) is _Partial:
            return result.value
        cached = mode.add_call(plan, key, args, kwargs, tensors, result)
    mode.observe(cached, tensors, args, kwargs, result)
    if ledger is not None and cached.replay is not None and cached.composite_events is None:
        cached.composite_events = ledger.composite_events(mark, result)
    return result


class CompositeCall(NamedTuple):
    """A call of a composite operator.

    Attributes:
        mode: the capture.
        plan: the plan of the operator.
        cached: an equal earlier call; None without one.
        tensors: all tensors among the arguments.
        redispatch: runs the operator at the dispatch keys that are passed first.
        keyset: the dispatch keys of the call.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """

    mode: CaptureMode
    plan: OperatorPlan
    cached: CachedCall | None
    tensors: Sequence[Tensor]
    redispatch: Callable[..., Any]
    keyset: Any
    args: Any
    kwargs: Any


class _Partial(NamedTuple):
    # The result of an operator that another mode ran only in part; its inner operators were recorded instead.
    value: Any


def _run_among_modes(call: CompositeCall) -> Any:
    """Run an operator while other dispatch modes are active, which may skip inner operators.

    The mode of selective checkpointing returns saved results instead of recomputing them. So the number of inner
    operators is counted; in a backward pass, they are also recorded. If fewer of them arrive than in the forward pass,
    the log keeps them in place of the composite operator.
    """
    mode, recording = call.mode, call.mode.recording
    key = (id(call.plan), *(x.shape for x in call.tensors))
    known = mode.inner_operators.get(key) if _current_node() is not None else None
    mode.n_arrived, is_partial = 0, False
    ends = [] if known is None else [log.begin_inner() for log in recording.logs]
    recording.records_inside = known is not None
    try:
        result = _run_inside(call)
        if known is None:
            mode.inner_operators[key] = mode.n_arrived
        else:
            is_partial = mode.n_arrived < known
    finally:  # PyTorch ends a recomputation by an exception, once all saved tensors are back
        mode.n_arrived, recording.records_inside = -1, False
        for end in ends:
            end(is_partial)
    return _Partial(result) if is_partial else result


def _choose_run(call: CompositeCall) -> Callable[[CompositeCall], Any]:
    """Return the function that runs a call.

    With a memory ledger, the inner operators run inside the mode, which sees their allocations but does not record
    them. Exceptions are operators for which PyTorch chooses another algorithm inside a dispatch mode.
    """
    cached, ledgers = call.cached, call.mode.ledgers
    if _mode_count() != 1:
        return _run_among_modes
    if cached and cached.replay and not _grad_enabled() and (not ledgers or cached.composite_events is not None):
        return _replay
    if ledgers and _name(call.plan) not in WITHOUT_GRADIENT:
        return _run_inside
    # If all tensors have data, inner operators need no replay and no assumption: run outside the mode, to save time.
    return _run_outside if (have_data(call.tensors) if cached is None else cached.have_data) else _run_inside


def _replay(call: CompositeCall) -> Any:
    # Calls with the same cache key have the same result; the inner memory is that of the first call.
    cached: Any = call.cached
    with call.mode.without_capture:
        result = cached.replay(call.args)
    for ledger in call.mode.ledgers:
        ledger.replay_composite(cached.composite_events, call.tensors, result)
    return result


def _run_outside(call: CompositeCall) -> Any:
    with call.mode.without_capture:
        return call.redispatch(call.keyset & AFTER_CAPTURE, *call.args, **call.kwargs)


def _run_inside(call: CompositeCall) -> Any:
    # The inner operators arrive in the mode, which does not record them.
    mode, plan, args, kwargs = call.mode, call.plan, call.args, call.kwargs
    if mode.is_estimate and is_mixed(call.tensors):
        with mode.without_capture:
            args, kwargs = without_data((args, kwargs), keeps_integers=True)
    # Operators in ``CASTS_INSIDE`` need autocast for their inner products. With the usual keys, in inference, the mode
    # would get the whole operator and run its inner operators without autocast.
    casts_inside = plan.native in autocast.CASTS_INSIDE and autocast.is_any_enabled()
    memory = _memory_inside(mode, plan) if mode.ledgers else _NO_CONTEXT
    with memory, mode.recording.inside_call:
        try:
            result = run_cpu_replacement(mode, plan.native, args, kwargs)
            if result is None:
                keyset = call.keyset & (AFTER_CAPTURE if casts_inside else AFTER)
                result = call.redispatch(keyset, *args, **kwargs)
            return result
        except (RuntimeError, IndexError, ValueError) as error:
            mode.recording.refused.note(error, plan, args, kwargs)
            raise


def _memory_inside(mode: CaptureMode, plan: OperatorPlan) -> AbstractContextManager[None]:
    if _name(plan) in KERNELS_OF_CPU:
        return mode.ledgers.as_one_kernel()
    return mode.ledgers.adding_in_place() if plan.native in ADDS_IN_PLACE else _NO_CONTEXT


def _name(plan: OperatorPlan) -> str:
    return plan.native.removeprefix("aten::")


# The fast path of transformer modules: one fused operator each, in inference
#
# The fused operator computes the result, as in a run without a capture. The recorded operators are those of the slow
# path, as in training: the module runs once more on meta tensors, without memory or arithmetic. So the recorded calls
# do not depend on the grad mode. Where that is impossible, the fused operator is recorded as one call: for nested
# tensors, under autocast, inside another dispatch mode, if calls are timed, and if a program calls it without the
# module. On the meta device PyTorch runs the slow path; under autocast, the capture runs the fast path as with data.


_ATTENTION_MASK, _PADDING_MASK, _MERGED_MASK = range(3)
"""The kinds of masks of a fused operator (its argument ``mask_type``); a merged mask is [N, heads, T, T]."""

MODULES = (TransformerEncoderLayer, MultiheadAttention)
"""The modules that have a fast path."""

FUSED = (
    "memory: transformer modules in inference are counted as the fused operators that CPU and CUDA run; with "
    "torch.backends.mha.set_fastpath_enabled(False) they need more"
)

MERGED = "memory: the merged mask of a fused transformer operator is not counted"

CAST_INSIDE = "memory: casts that autocast makes and keeps inside a fused transformer operator are not counted"


@cache
def register_fast_path_kernels(active_mode: Callable[[], CaptureMode | None]) -> None:
    """Register a kernel at ``PreDispatch`` for every fused operator, for the rest of the process.

    Args:
        active_mode: returns the mode of the running thread.
    """
    with kernels_of_aten() as library:
        for operator in _fused_operators():
            name = operator._schema.name.removeprefix("aten::")
            library.impl(name, _fused_kernel(operator, active_mode), "PreDispatch", with_keyset=True)


def patch_fast_path(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Replace the Python functions of the fused operators, for versions of PyTorch without the key ``PreDispatch``.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    for operator in _fused_operators():
        _patch_fused(stack, operator, active_mode)


def _fused_operators() -> list[OpOverload]:
    packets = (getattr(torch.ops.aten, name, None) for name in FAST_PATHS)
    return [packet.default for packet in packets if packet is not None]


def _fused_kernel(operator: OpOverload, active_mode: Callable[[], CaptureMode | None]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or not _is_captured(mode, args, kwargs):
            return operator.redispatch(keyset & AFTER, *args, **kwargs)
        return _run_fused(
            mode, operator, args, kwargs, partial(operator.redispatch, keyset & AFTER_CAPTURE, *args, **kwargs)
        )

    return kernel


def _patch_fused(stack: ExitStack, operator: OpOverload, active_mode: Callable[[], CaptureMode | None]) -> None:
    name = operator._schema.name.removeprefix("aten::")
    original = getattr(torch, name)

    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or not _is_captured(mode, args, kwargs):
            return original(*args, **kwargs)
        return _run_fused(mode, operator, args, kwargs, partial(original, *args, **kwargs))

    replace(stack, torch, name, patched)


def _is_captured(mode: CaptureMode, args: Any, kwargs: Any) -> bool:
    if (
        mode.recording.inside_call.is_set
        or mode.paused.is_set
        or mode.is_over
        or _functorch_level() is not None
        or _mode_count() != 1
    ):
        return False
    return have_data(tensors_of(args, kwargs)) or autocast.is_any_enabled()


def _run_fused(mode: CaptureMode, operator: OpOverload, args: Any, kwargs: Any, fused: Callable[[], Any]) -> Any:
    passed, tensors = mode.cache.plans.of(operator).bind(args, kwargs), tensors_of(args, kwargs)

    def run() -> Any:  # outside of the mode, in which inner operators would run without autocast
        with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
            return fused() if have_data(tensors) else _result_without_data(passed)

    for ledger in mode.ledgers:
        for tensor in tensors:
            ledger.watch_operand(tensor)
    if autocast.is_any_enabled():
        mode.ledgers.note(CAST_INSIDE, is_approximation=True)
    module = mode.recording.modules.innermost
    is_nested = any(tensor.is_nested for tensor in tensors)
    is_whole = is_nested or mode.recording.measures_time or autocast.is_any_enabled()
    if module is None or is_whole or not _may_run_again(module, passed):
        return mode.run_as_one_call(operator, args, kwargs, run)
    result = run()
    mode.ledgers.see(operator, tensors, args, kwargs, result)
    with mode.ledgers.paused():
        _record_slow_path(mode, module, passed, result)
    return result


def _result_without_data(passed: Mapping[str, Any]) -> Any:
    # Under autocast the products read, and therefore return, the lower precision.
    if "src" in passed:
        return _product_like(passed["src"], passed["src"].shape)
    query, key = passed["query"], passed["key"]
    heads = () if passed["average_attn_weights"] else (passed["num_head"],)
    weights = (query.shape[0], *heads, query.shape[1], key.shape[1])
    return _product_like(query, query.shape), _product_like(query, weights) if passed["need_weights"] else None


def _product_like(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    return tensor.new_empty(shape, dtype=autocast.lower_dtype() if autocast.is_castable(tensor) else tensor.dtype)


def _record_slow_path(mode: CaptureMode, module: Module, passed: dict[str, Any], result: Any) -> None:
    # In the logs, meta tensors replace the arguments, parameters and results of the module.
    originals = [x for x in passed.values() if isinstance(x, Tensor)]
    with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
        meta_module = _meta_module(module, mode.meta_modules)
        twins = {id(x): _like(x) for x in originals}
        arguments = {name: twins.get(id(value), value) for name, value in passed.items()}
        mask = arguments["mask"]
        if mask is not None and arguments["mask_type"] == _MERGED_MASK:
            mask = mask.flatten(0, 1) if any(mask.stride()[:2]) else mask[0, 0]
    path = mode.recording.modules.path
    for name, child in meta_module.named_modules():
        mode.recording.modules.place(child, join(path, name))
    _register_replacements(mode, [(twins[id(x)], x) for x in originals])
    _register_replacements(mode, zip(meta_module.parameters(), module.parameters(), strict=True))
    with torch._C.DisableTorchFunction() if mode.api_calls is None else mode.api_calls.alone():
        returned = _forward(meta_module, arguments, mask)
    _register_replacements(mode, zip(_tensors(result), _tensors(returned), strict=True))


def _may_run_again(module: Module, passed: dict[str, Any]) -> bool:
    # A subclass with a ``forward`` of its own, or a call with other weights, may compute something else.
    forward = type(module).forward
    if isinstance(module, TransformerEncoderLayer):
        return forward is TransformerEncoderLayer.forward and module.self_attn.in_proj_weight is passed["qkv_weight"]
    if isinstance(module, MultiheadAttention):
        return forward is MultiheadAttention.forward and module.in_proj_weight is passed["qkv_weight"]
    return False


def is_fused_with_data(module: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a module called on meta tensors would run as one fused operator if they had data.

    PyTorch never takes the fast path on the meta device. The conditions are those of the ``forward`` methods.
    """
    if isinstance(module, TransformerEncoderLayer):
        attention, is_own = module.self_attn, type(module).forward is TransformerEncoderLayer.forward
        hooks = (len(child._forward_hooks) + len(child._forward_pre_hooks) for child in module.modules())
        is_possible = module.activation_relu_or_gelu and module.norm1.eps == module.norm2.eps and not any(hooks)
        if attention.in_proj_bias is None:
            return False
    elif isinstance(module, MultiheadAttention):
        attention, is_own = module, type(module).forward is MultiheadAttention.forward
        operands = [*args, *(kwargs[name] for name in ("query", "key", "value") if name in kwargs)][:3]
        is_possible = all(x is operands[0] for x in operands) and attention.bias_k is None and attention.bias_v is None
        masks = (x for x in tensors_of(args, kwargs) if x is not operands[0])
        is_possible = is_possible and not attention.add_zero_attn and not any(x.is_floating_point() for x in masks)
    else:
        return False
    if not (is_own and is_possible) or module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    if not (attention.batch_first and attention._qkv_same_embed_dim) or attention.num_heads % 2:
        return False
    passed = tensors_of(args, kwargs)
    tensors = [*passed, *module.parameters()]
    if not passed or passed[0].dim() != 3 or not all(type(x) in PLAIN and x.is_meta for x in tensors):
        return False
    return not (torch.is_autocast_enabled() or (torch.is_grad_enabled() and any(x.requires_grad for x in tensors)))


@contextmanager
def as_one_operator(
    mode: CaptureMode, module: Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Context manager for a call that would run as one fused operator if its tensors had data.

    Under autocast PyTorch takes the fast path here, and the fused operator is recorded. Otherwise the module runs as
    usual, and only its memory is that of the fused operator.
    """
    with ExitStack() as stack:
        is_cast = autocast.is_any_enabled()
        if (mode.ledgers or is_cast) and is_fused_with_data(module, args, kwargs):
            if is_cast:  # PyTorch takes the fast path on the device of this name
                replace(stack, torch.utils.backend_registration, "_privateuse1_backend_name", "meta")
            else:
                mode.ledgers.note(FUSED)
                n_without_masks = 3 if isinstance(module, MultiheadAttention) else 1
                if len(tensors_of(args, kwargs)) > n_without_masks:
                    mode.ledgers.note(MERGED, is_approximation=True)
                stack.enter_context(mode.ledgers.as_one_kernel())
        yield


def lay_out_as_fused(mode: CaptureMode, module: Module, args: Sequence[Any], kwargs: Mapping[str, Any], y: Any) -> None:
    """Give the results of a module the strides of the fused operator that would run if its tensors had data.

    The slow path returns transposed attention, which later operators would copy.
    """
    if not mode.is_estimate:
        return
    with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
        transposed = [x for x in _tensors(y) if x.is_meta and not x.is_contiguous()]
        if transposed and is_fused_with_data(module, args, kwargs):
            for x in transposed:
                if x.untyped_storage().nbytes() == x.numel() * x.element_size():
                    x.as_strided_(x.shape, [prod(x.shape[i + 1 :]) for i in range(x.dim())])


def _forward(module: Module, arguments: dict[str, Any], mask: Tensor | None) -> Any:
    is_padding = arguments["mask_type"] == _PADDING_MASK
    masks = (None, mask) if is_padding else (mask, None)
    if isinstance(module, TransformerEncoderLayer):
        return module.forward(arguments["src"], *masks)
    return module.forward(
        *(arguments[name] for name in ("query", "key", "value")),
        attn_mask=masks[0],
        key_padding_mask=masks[1],
        need_weights=arguments["need_weights"],
        average_attn_weights=arguments["average_attn_weights"],
    )


def _meta_module(module: Module, made_before: WeakKeyDictionary[Module, Module]) -> Module:
    made = made_before.get(module)
    if made is None or _layout(made) != _layout(module):
        made = made_before[module] = meta_copy(module, Values()).eval()
        for child in made.modules():
            child._call_impl = child.forward  # global hooks belong to the original
    return made


def _layout(module: Module) -> list[tuple[Any, ...]]:
    return [(x.shape, x.stride(), x.dtype, x.requires_grad) for x in module.parameters()]


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _tensors(result: Any) -> Sequence[Tensor]:
    values = (result,) if isinstance(result, Tensor) else result
    return [value for value in values if isinstance(value, Tensor) and value.numel()]


def _register_replacements(mode: CaptureMode, replacements: Iterable[tuple[Tensor, Tensor]]) -> None:
    for tensor, original in replacements:
        for log in mode.recording.logs:
            log.identities.register_replacement(tensor, original)


# Values that cross between PyTorch and Python without an operator
#
# On the meta device ``tolist`` and ``numpy`` fail, an f-string prints the tensor, and ``torch.tensor`` drops the
# numbers that it is given. While a thread captures, these functions use the known values of meta tensors.


ActiveMode = Callable[[], "CaptureMode | None"]
"""Returns the mode of the running thread."""

FUNCTIONS: tuple[tuple[Any, str], ...] = (
    *((Tensor, name) for name in ("tolist", "numpy", "__format__", "new", "new_tensor", "type", "requires_grad_")),
    *((torch, name) for name in ("tensor", "as_tensor", "asarray", "from_numpy", "arange", "linspace")),
)
"""The functions to replace, and their owners."""

_NAMES = {id(getattr(owner, name)): name for owner, name in FUNCTIONS if owner is torch}

_NO_MODELS = frozenset(("torch", "costcore", "numpy", "scipy", "sympy", "pandas", *sys.stdlib_module_names)) - {
    "__main__"
}
"""Packages that contain no models."""

_searched: set[str] = set()
"""The names of the modules that were searched for :data:`_imports`."""

_imports: list[tuple[ModuleType, str, str]] = []
"""Modules that import a function by name, with its name in the module and its own name."""


def patch_imports(stack: ExitStack, active_mode: ActiveMode) -> None:
    """Replace :data:`FUNCTIONS` also in modules that import them by name, ``from torch import tensor``.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    if len(sys.modules) != len(_searched):
        for path in sys.modules.keys() - _searched:
            _searched.add(path)
            if path.partition(".")[0] not in _NO_MODELS:
                _imports.extend(_imported_by(sys.modules.get(path)))
    patched = _patched_values(active_mode)
    for module, name, function in (*_imports, *_imported_by(sys.modules["__main__"])):
        if id(vars(module).get(name)) in _NAMES:
            replace(stack, module, name, patched[function])


def _imported_by(module: Any) -> Iterator[tuple[ModuleType, str, str]]:
    if isinstance(module, ModuleType):
        for name, value in [*vars(module).items()]:
            if id(value) in _NAMES:
                yield module, name, _NAMES[id(value)]


def patch_python_values(stack: ExitStack, active_mode: ActiveMode) -> None:
    """Replace :data:`FUNCTIONS` by functions that use the known values of meta tensors.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    patched = _patched_values(active_mode)
    for owner, name in FUNCTIONS:
        replace(stack, owner, name, patched[name])
    replace(stack, Tensor, "requires_grad", _requires_grad(active_mode))


@cache
def _patched_values(active_mode: ActiveMode) -> dict[str, Callable[..., Any]]:
    # First fill PyTorch's caches of functions, so that they never contain the replacements.
    _device_constructors()
    _get_builtin_table()
    get_ignored_functions()
    replacements: dict[str, Callable[..., Any]] = {
        "tolist": _tolist,
        "numpy": _numpy,
        "__format__": _format,
        "new": _new,
        "new_tensor": _make_like,
        "type": _type,
        "tensor": _make,
        "as_tensor": _make,
        "asarray": _make,
        "from_numpy": _from_numpy,
        "arange": _made_with_gradient,
        "linspace": _made_with_gradient,
        "requires_grad_": _require_gradient,
    }
    return {name: _patched(getattr(owner, name), replacements[name], active_mode) for owner, name in FUNCTIONS}


def _patched(
    original: Callable[..., Any], replacement: Callable[..., Any], active_mode: ActiveMode
) -> Callable[..., Any]:
    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or (mode.paused.is_set and replacement is not _new):  # ``_new`` replaces an error
            return original(*args, **kwargs)
        return replacement(mode, original, *args, **kwargs)

    return patched


def _is_without_data(tensor: Any) -> bool:
    return type(tensor) in PLAIN and tensor.is_meta


def _tolist(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor) -> Any:
    return _data(mode, tensor).tolist() if _is_without_data(tensor) else original(tensor)


ZEROS = "a NumPy array of a tensor without data was assumed to be all zeros"


@cache
def _unknown_array() -> Any:
    # A module may compute with this array or read indices from it, but it must not become a tensor: it has only zeros.
    import numpy

    return type("UnknownArray", (numpy.ndarray,), {})


def _from_numpy(mode: CaptureMode, original: Callable[..., Any], array: Any) -> Any:
    if type(array).__name__ == "UnknownArray" and type(array) is _unknown_array():
        raise TypeError("can't convert meta device type tensor to numpy, and back to a tensor")
    return original(array)


def _numpy(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, *, force: bool = False) -> Any:
    is_known = _is_without_data(tensor) and mode.is_known(tensor)
    if not is_known and mode.is_estimate and tensor.is_meta:
        mode.assume(ZEROS)
        with mode.paused:
            zeros = original(torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu"))
        is_outside = mode.makes_arrays and len(mode.recording.modules.running) <= 1
        return zeros if is_outside else zeros.view(_unknown_array())
    return original(_data(mode, tensor) if is_known else tensor, force=force)


def _format(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, spec: str) -> Any:
    return tensor.item().__format__(spec) if _is_without_data(tensor) and not tensor.dim() else original(tensor, spec)


def _type(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    # ``x.type()`` is "torch.FloatTensor", and ``x.type("torch.DoubleTensor")`` moves no tensor, as in a run on a CPU.
    if not mode.is_estimate or not _is_without_data(tensor):
        return original(tensor, *args, **kwargs)
    if not args and not kwargs:
        return original(tensor).replace("torch.meta.", "torch.")
    kind, *rest = args or (kwargs.pop("dtype"),)
    if isinstance(kind, str) and kind.startswith("torch.") and kind.count(".") == 1:
        kind = getattr(torch, kind.partition(".")[2], kind)
    # ``type(x.data)`` is ``torch.Tensor``, the type of the default dtype.
    kind = torch.get_default_dtype() if kind is Tensor else getattr(kind, "dtype", kind)
    return original(tensor, kind, *rest, **kwargs)


def _make(mode: CaptureMode, original: Callable[..., Any], data: Any, *args: Any, **kwargs: Any) -> Any:
    return _make_from(mode, lambda given: original(given, *args, **kwargs), data)


def _make_like(
    mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, data: Any, *args: Any, **kwargs: Any
) -> Any:
    return _make_from(mode, lambda given: original(tensor, given, *args, **kwargs), data)


def _new(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    # PyTorch has no legacy constructor of sparse meta tensors, which ``SparseAdam`` calls.
    if not (_is_without_data(tensor) and tensor.layout is torch.sparse_coo and len(args) == 3):
        return original(tensor, *args, **kwargs)
    return torch.sparse_coo_tensor(*args, check_invariants=False)


def _make_from(mode: CaptureMode, make: Callable[[Any], Any], data: Any) -> Any:
    # ``data`` may be a list of tensors, which PyTorch reads. If one has no data, the result has none either.
    if _is_array(data):
        _from_numpy(mode, lambda array: array, data)
    readable = _with_data(data) if mode.is_estimate and isinstance(data, (list, tuple)) else data
    made = make(readable)
    if readable is not data and not _is_without_data(made):
        with without_capture():
            made = torch.empty_like(made, device="meta", requires_grad=made.requires_grad)
    if _is_without_data(made):
        _keep_values(mode, made, data)
    elif made is not data and made.requires_grad:
        _move_to_meta(mode, made)
    return made


def _with_data(data: Any) -> Any:
    # Replaces tensors without data by tensors of 1 with the same dtype, which decides the dtype of the result.
    if _is_without_data(data):
        with without_capture():
            return torch.ones(data.shape, dtype=data.dtype, device="cpu")
    if not isinstance(data, (list, tuple)):
        return data
    items = [_with_data(item) for item in data]
    return data if all(map(is_, items, data)) else items


# Gradients of tensors with data
#
# Autograd requires a gradient on the device of its tensor. In an estimate, a tensor that the model makes of data, such
# as ``torch.tensor([1.0])``, stays on the CPU until the model asks for its gradient; then it moves to the meta device.


@cache
def _requires_grad(active_mode: ActiveMode) -> property:
    own: Any = vars(torch._C.TensorBase)["requires_grad"]

    def set_flag(tensor: Tensor, flag: bool) -> None:
        mode = active_mode()
        own.__set__(tensor, flag)
        if flag and mode is not None and not mode.paused.is_set:
            _move_to_meta(mode, tensor)

    return property(own.__get__, set_flag)


def _require_gradient(mode: CaptureMode, original: Callable[..., Any], tensor: Tensor, *args: Any, **flag: Any) -> Any:
    result = original(tensor, *args, **flag)
    _move_to_meta(mode, tensor)
    return result


def _made_with_gradient(mode: CaptureMode, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    _move_to_meta(mode, made)
    return made


def _move_to_meta(mode: CaptureMode, tensor: Tensor) -> None:
    if not mode.is_estimate or type(tensor) not in PLAIN or tensor.is_meta or not tensor.requires_grad:
        return
    if tensor.grad_fn is not None or tensor.layout is not torch.strided:
        return
    with without_capture(), torch.no_grad():
        data = tensor.detach().clone(memory_format=torch.preserve_format)
        made = torch.empty_like(tensor, device="meta", requires_grad=True)
    if is_small(made):
        mode.values.give(made, data)
    mode.ledgers.allocated(made)
    _register_replacements(mode, [(made, tensor)])
    torch._C._swap_tensor_impl(tensor, made)
    mode.moved.append((ref(tensor), data))


def known_index(mode: CaptureMode, tensor: Tensor, index: Any) -> Any:
    """Return an index with tensors of known values in place of lists.

    On the meta device PyTorch converts the lists without an operator, and drops the values.
    """
    if not _is_without_data(tensor):
        return index
    if type(index) is tuple:
        return tuple(_as_tensor(mode, each) for each in index)
    if isinstance(index, list) and any(isinstance(each, (list, Tensor)) for each in index):
        return index  # a nested list: PyTorch treats it as a tuple, and warns
    return _as_tensor(mode, index)


def _as_tensor(mode: CaptureMode, index: Any) -> Any:
    is_sequence = isinstance(index, (list, tuple, range)) or _is_array(index)
    if not is_sequence or not _is_known(mode, index):
        return index
    numbers = _numbers(mode, index)
    with without_capture():
        data = torch.tensor(numbers, device="cpu")
        if data.dtype not in (torch.bool, torch.uint8):  # any other dtype is converted, also that of an empty list
            data = data.long()
        made = torch.empty_like(data, device="meta")
    mode.values.give(made, data)
    return made


def _data(mode: CaptureMode, tensor: Tensor) -> Tensor:
    # Unknown values are read as ones.
    known = mode.values.of(tensor)
    if known is not None:
        for assumption in assumptions_of(mode.values.assumptions((tensor,))):
            mode.assume(assumption)
    else:
        mode.recording.assumptions.count_assumed_value()
        mode.assume(NUMBERS_ARE_ONE)
    with without_capture():
        return torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu") if known is None else known.clone()


def _keep_values(mode: CaptureMode, made: Tensor, data: Any) -> None:
    if isinstance(data, Tensor):
        return
    mode.ledgers.allocated(made)
    if is_small(made) and _is_known(mode, data):
        mode.values.put(made, Contents(partial(_storage_of, _numbers(mode, data), made.dtype)))


def _is_known(mode: CaptureMode, data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return all(_is_known(mode, item) for item in data)
    if isinstance(data, Tensor):
        return mode.values.of(data) is not None
    return type(data) in NUMBERS or isinstance(data, (Number, range)) or _is_array(data)


def _is_array(data: Any) -> bool:
    # By its interface: numpy need not be installed
    return hasattr(data, "__array_interface__")


def _numbers(mode: CaptureMode, data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_numbers(mode, item) for item in data]
    if isinstance(data, Tensor):
        return _data(mode, data).tolist()
    return data.tolist() if _is_array(data) else data


def _storage_of(numbers: Any, dtype: torch.dtype) -> UntypedStorage:
    with without_capture():
        return torch.tensor(numbers, dtype=dtype, device="cpu").untyped_storage()


# Storages resized without an operator: sharded training frees parameters this way


def patch_resizing(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Notify the memory ledgers of the running thread when a storage is resized.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    original = torch.UntypedStorage.resize_

    @wraps(original)
    def resize(storage: torch.UntypedStorage, *args: Any) -> Any:
        was_empty = not storage.nbytes()
        result = original(storage, *args)
        mode = active_mode()
        if mode is not None:
            for ledger in mode.ledgers:
                ledger.see_size(storage, was_empty)
        return result

    replace(stack, torch.UntypedStorage, "resize_", resize)
