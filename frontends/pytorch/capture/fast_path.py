"""The fast path of transformer modules: in inference PyTorch runs each of them as one fused operator.

The fused operator computes the result, as in a run without a capture. What is recorded are the operators that the
module runs at any other time, in training or on another device: the module runs once more on meta tensors, which takes
neither memory nor arithmetic. So the recorded calls do not depend on the grad mode. Where that is impossible, the fused
operator is recorded itself, as one call: for nested tensors, under autocast, inside another dispatch mode, if calls are
timed, and if a program calls it without the module. On the meta device, where PyTorch runs the module operator by
operator, it takes the fast path under autocast as it would with data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial, wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import Module, MultiheadAttention, TransformerEncoderLayer

from ..meta.model_copy import meta_copy
from ..meta.operands import PLAIN, have_data, tensors_of
from ..meta.values import Values
from ..module_walk import join
from ..operators.composite_ops import FAST_PATHS
from . import autocast
from .dispatch_keys import AFTER, AFTER_CAPTURE, CAPTURED
from .dispatch_mode import CaptureMode
from .libraries import kernels_of_aten
from .replacement import replace

_functorch_level = torch._C._functorch.maybe_current_level
_without_capture = torch._C._ExcludeDispatchKeyGuard
_mode_count = torch._C._len_torch_dispatch_stack

_ATTENTION_MASK, _PADDING_MASK, _MERGED_MASK = range(3)
"""What the mask of a fused operator is, by its argument ``mask_type``; a merged one is [N, heads, T, T]."""

MODULES = (TransformerEncoderLayer, MultiheadAttention)
"""The modules that have a fast path."""

FUSED = (
    "memory: transformer modules in inference are counted as the fused operators that CPU and CUDA run; with "
    "torch.backends.mha.set_fastpath_enabled(False) they need more"
)

MERGED = "memory: the merged mask of a fused transformer operator is not counted"


CAST_INSIDE = "memory: what autocast casts inside a fused transformer operator, and keeps, is not counted"


@cache
def register_kernels(active_mode: Callable[[], CaptureMode | None]) -> None:
    """Register a kernel at ``PreDispatch`` for every fused operator, for the rest of the process.

    Args:
        active_mode: returns the mode of the running thread.
    """
    with kernels_of_aten() as library:
        for operator in _operators():
            name = operator._schema.name.removeprefix("aten::")
            library.impl(name, _kernel(operator, active_mode), "PreDispatch", with_keyset=True)


def patch_functions(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Replace the functions that are the fused operators, for versions of PyTorch without the key ``PreDispatch``.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    for operator in _operators():
        _patch(stack, operator, active_mode)


def _operators() -> list[OpOverload]:
    packets = (getattr(torch.ops.aten, name, None) for name in FAST_PATHS)
    return [packet.default for packet in packets if packet is not None]


def _kernel(operator: OpOverload, active_mode: Callable[[], CaptureMode | None]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or not _is_seen(mode, args, kwargs):
            return operator.redispatch(keyset & AFTER, *args, **kwargs)
        return _run(mode, operator, args, kwargs, partial(operator.redispatch, keyset & AFTER_CAPTURE, *args, **kwargs))

    return kernel


def _patch(stack: ExitStack, operator: OpOverload, active_mode: Callable[[], CaptureMode | None]) -> None:
    name = operator._schema.name.removeprefix("aten::")
    original = getattr(torch, name)

    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or not _is_seen(mode, args, kwargs):
            return original(*args, **kwargs)
        return _run(mode, operator, args, kwargs, partial(original, *args, **kwargs))

    replace(stack, torch, name, patched)


def _is_seen(mode: CaptureMode, args: Any, kwargs: Any) -> bool:
    """Return whether a call is recorded here, and not by the mode or not at all."""
    if (
        mode.recording.inside.is_set
        or mode.paused.is_set
        or mode.is_over
        or _functorch_level() is not None
        or _mode_count() != 1
    ):
        return False
    return have_data(tensors_of(args, kwargs)) or autocast.is_any_enabled()


def _run(mode: CaptureMode, operator: OpOverload, args: Any, kwargs: Any, fused: Callable[[], Any]) -> Any:
    """Run a fused operator as in a run without a capture, and record it.

    The capture is off meanwhile: a kernel that runs inside a dispatch mode calls its operators without autocast.
    """
    passed, tensors = mode.cache.plans.of(operator).bind(args, kwargs), tensors_of(args, kwargs)

    def run() -> Any:
        with _without_capture(CAPTURED):
            return fused() if have_data(tensors) else _result_without_data(passed)

    for ledger in mode.ledgers:
        for tensor in tensors:
            ledger.watch_operand(tensor)
    if autocast.is_any_enabled():
        mode.ledgers.note(CAST_INSIDE, is_approximation=True)
    module = mode.recording.modules.innermost
    is_nested = any(tensor.is_nested for tensor in tensors)
    is_whole = is_nested or mode.recording.measures_time or autocast.is_any_enabled()
    if module is None or is_whole or not _runs(module, passed):
        return mode.run_as_one_call(operator, args, kwargs, run)
    result = run()
    mode.ledgers.see(operator, tensors, args, kwargs, result)
    with mode.ledgers.paused():
        _record(mode, module, passed, result)
    return result


def _result_without_data(passed: Mapping[str, Any]) -> Any:
    """Return what a fused operator returns on the meta device under autocast, which casts what its products read."""
    if "src" in passed:
        return _product_like(passed["src"], passed["src"].shape)
    query, key = passed["query"], passed["key"]
    heads = () if passed["average_attn_weights"] else (passed["num_head"],)
    weights = (query.shape[0], *heads, query.shape[1], key.shape[1])
    return _product_like(query, query.shape), _product_like(query, weights) if passed["need_weights"] else None


def _product_like(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    return tensor.new_empty(shape, dtype=autocast.lower_dtype() if autocast.is_castable(tensor) else tensor.dtype)


def _record(mode: CaptureMode, module: Module, passed: dict[str, Any], result: Any) -> None:
    """Record the run of a module on meta tensors, which take the place of its arguments, parameters and results."""
    originals = [x for x in passed.values() if isinstance(x, Tensor)]
    with _without_capture(CAPTURED):
        meta_module = _meta_module(module, mode.meta_modules)
        twins = {id(x): _like(x) for x in originals}
        arguments = {name: twins.get(id(value), value) for name, value in passed.items()}
        mask = arguments["mask"]
        if mask is not None and arguments["mask_type"] == _MERGED_MASK:
            mask = mask.flatten(0, 1) if any(mask.stride()[:2]) else mask[0, 0]
    path = mode.recording.modules.path
    for name, child in meta_module.named_modules():
        mode.recording.modules.place(child, join(path, name))
    _register(mode, [(twins[id(x)], x) for x in originals])
    _register(mode, zip(meta_module.parameters(), module.parameters(), strict=True))
    with torch._C.DisableTorchFunction() if mode.spellings is None else mode.spellings.alone():
        returned = _forward(meta_module, arguments, mask)
    _register(mode, zip(_tensors(result), _tensors(returned), strict=True))


def _runs(module: Module, passed: dict[str, Any]) -> bool:
    """Return whether the forward method of a module, unchanged, runs the fused operator with these arguments."""
    forward = type(module).forward
    if isinstance(module, TransformerEncoderLayer):
        return forward is TransformerEncoderLayer.forward and module.self_attn.in_proj_weight is passed["qkv_weight"]
    if isinstance(module, MultiheadAttention):
        return forward is MultiheadAttention.forward and module.in_proj_weight is passed["qkv_weight"]
    return False


def is_fused_with_data(module: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a module that is called on meta tensors would be one fused operator if they had data.

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
    """Run a module that would be one operator with data as that, or only count its memory so.

    Under autocast PyTorch takes its fast path: that operator is recorded, as in a run.
    """
    with ExitStack() as stack:
        is_cast = autocast.is_any_enabled()
        if (mode.ledgers or is_cast) and is_fused_with_data(module, args, kwargs):
            if is_cast:
                replace(stack, torch.utils.backend_registration, "_privateuse1_backend_name", "meta")
            has_mask = len(tensors_of(args, kwargs)) > (3 if isinstance(module, MultiheadAttention) else 1)
            if not is_cast:
                mode.ledgers.note(FUSED)
                if has_mask:
                    mode.ledgers.note(MERGED, is_approximation=True)
                stack.enter_context(mode.ledgers.whole())
        yield


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
    """Return the copy of a module on the meta device, without hooks."""
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


def _register(mode: CaptureMode, stand_ins: Iterable[tuple[Tensor, Tensor]]) -> None:
    for tensor, original in stand_ins:
        for log in mode.recording.logs:
            log.identities.register_stand_in(tensor, original)
