"""Copies of objects with meta tensors: attributes of a model, and arguments of a call.

``copy.deepcopy`` does the work. :class:`MetaCopier` makes it return meta tensors, which share memory as the originals
do. :func:`deep_copy` shares parts that cannot be copied with the original.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.optimizer import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..tensors import SPARSE_LAYOUTS, attributes_of
from .values import FLOATS, INTEGERS, MAX_BYTES, META, PLAIN, Values, is_small_integer, sparse_on_meta

MAX_SHARED = 100
"""The maximum number of shared parts of one object; beyond it, the whole object is shared."""

_MAX_BYTES_OF_FLOATS = 8192
"""The maximum size of a floating-point constant with known values, such as the strides or anchors of a detector."""


class Copies(dict[int, Any]):
    """The memo of ``copy.deepcopy``: the copies that were made, by id of the original.

    Attributes:
        parts: the shape of a shard, and the whole parameters that it is a part of, by id of the copy of the shard.
    """

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[int, tuple[torch.Size, list[Parameter]]] = {}


def deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    """Return ``copy.deepcopy(value, memo)``, but share parts that cannot be copied with the original.

    These parts are locks, open files, process groups, ``torch.Generator``, traced functions, pointers of ctypes, and
    objects with a ``__deepcopy__`` that raises. Attributes whose class has one state for all its objects, as in
    accelerate, are shared too.

    Args:
        value: any object.
        memo: the copies that were made, by id of the original; receives the new copies.
    """
    shared = {id(part): part for part in attributes_of(value).values() if is_singleton(part)}
    memo.update(shared)
    try:
        for _ in range(MAX_SHARED):
            size = len(memo)
            try:
                made = copy.deepcopy(value, memo)
                if isinstance(memo, Copies) and memo.parts:
                    _make_whole([*memo.values()][size:], memo.parts)
                return made
            except Exception as error:  # any __deepcopy__ or __reduce__ may raise
                part = _failed_part(error.__traceback__, value)
                while len(memo) > size:  # half-filled copies
                    memo.popitem()
                if isinstance(part, Optimizer) and "param_groups" not in vars(part):
                    _copy_wrapper(part, memo)
                else:
                    memo[id(part)] = shared[id(part)] = part
        return value
    finally:
        for key in shared:
            memo.pop(key, None)


def _copy_wrapper(optimizer: Optimizer, memo: dict[int, Any]) -> None:
    # An optimizer that wraps another one, as in Opacus, lacks the attributes that PyTorch copies. PyTorch has also
    # wrapped the ``step`` of its class, which would fail from now on.
    kind: Any = type(optimizer)
    if getattr(kind.step, "hooked", False):
        kind.step = kind.step.__wrapped__
    made = memo[id(optimizer)] = object.__new__(kind)
    vars(made).update(deep_copy(vars(optimizer), memo))


def _make_whole(copies: Sequence[Any], parts: Mapping[int, tuple[torch.Size, list[Parameter]]]) -> None:
    # Lists and optimizers refer to the shards of a process; their copies refer to the whole parameters.
    for copied in copies:
        if type(copied) is list and any(id(item) in parts for item in copied):
            copied[:] = [x for item in copied for x in (parts[id(item)][1] if id(item) in parts else (item,))]
        elif isinstance(copied, Optimizer):
            for shard in [each for each in copied.state if id(each) in parts]:
                shape, parameters = parts[id(shard)]
                state = copied.state.pop(shard)
                for parameter in parameters:
                    copied.state[parameter] = {
                        name: torch.empty_like(parameter, dtype=x.dtype, requires_grad=False)
                        if isinstance(x, Tensor) and (type(x) not in PLAIN or x.shape == shape)
                        else x
                        for name, x in state.items()
                    }


def _copy_attributes(tensor: Tensor, copied: Tensor, memo: dict[int, Any]) -> None:
    # User code may store attributes on a parameter, such as the gradients of each sample.
    copied.__dict__.update({name: deep_copy(value, memo) for name, value in tensor.__dict__.items()})


def is_singleton(value: object) -> bool:
    """Return whether the class of an object has one state for all its objects."""
    attributes = getattr(value, "__dict__", None)
    return bool(attributes) and any(attributes is each for each in vars(type(value)).values())


def _failed_part(traceback: TracebackType | None, value: Any) -> Any:
    # The innermost call of deepcopy has the object that raised.
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code is copy.deepcopy.__code__:
            value = frame.f_locals["x"]
        traceback = traceback.tb_next
    return value


def _is_random_state(tensor: Tensor) -> bool:
    # ``torch.Generator`` rejects a meta tensor as its state, and leaves an error behind that Python raises later.
    if tensor.dtype is not torch.uint8 or tensor.dim() != 1:
        return False
    frame = sys._getframe(1)
    for _ in range(_MAX_FRAMES):
        if frame.f_code is copy.deepcopy.__code__ and isinstance(frame.f_locals["x"], torch.Generator):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


_MAX_FRAMES = 10
"""The maximum number of frames between the copy of a generator and the copy of its state."""


class MetaCopier(TorchFunctionMode):
    """Makes ``copy.deepcopy`` return meta tensors, which share memory as the original tensors do.

    Args:
        values: receives the values of integer and bool tensors, and of small floating-point tensors except weights.
        memo: the existing copies, by id of the original; receives the copies of parameters that are cloned.

    Attributes:
        holders: the names of the attributes of a module that may hold functions, by its id; None for all.
    """

    def __init__(self, values: Values, memo: dict[int, Any]) -> None:
        super().__init__()
        self._memo = memo
        self.holders: dict[int, Sequence[str] | None] = {}
        self._values = values
        self._storages: dict[int, tuple[Any, torch.UntypedStorage]] = {}
        self._weights: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle a function of PyTorch that is called while the copy is made."""
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            with torch._C.DisableTorchFunction():
                if _is_random_state(tensor):
                    return tensor.clone()
                if id(tensor) in memo:
                    return memo[id(tensor)]
                made = self._like(tensor, is_weight=tensor.requires_grad)
                memo[id(tensor)] = made.requires_grad_(tensor.requires_grad)
            if tensor.__dict__:
                with self:
                    _copy_attributes(tensor, made, memo)
            return made
        if func is Tensor.clone:  # how a parameter copies its data, and a TensorDict its parameters
            with torch._C.DisableTorchFunction():
                made = self._memo.get(id(args[0]))
                if made is None:
                    made = self._like(args[0], is_weight=True)
                    if type(args[0]) is Parameter:
                        made = self._memo[id(args[0])] = Parameter(made, args[0].requires_grad)
                return made
        return func(*args, **(kwargs or {}))

    def parameters(self, given: Mapping[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
        """Return the parameters or buffers of a module on the meta device; faster than ``deepcopy``.

        Args:
            given: parameters, buffers or None by name.
            memo: the copies that were made, by id of the original.
        """
        copied: dict[str, Any] = {}
        attributed: list[Tensor] = []
        memo[id(given)] = copied
        with torch._C.DisableTorchFunction():
            for name, tensor in given.items():
                if tensor is not None and id(tensor) not in memo:
                    made = self._like(tensor, is_weight=type(tensor) is Parameter)
                    kept = Parameter if type(tensor) is Parameter else Tensor.requires_grad_
                    memo[id(tensor)] = kept(made, tensor.requires_grad)
                    if tensor.__dict__:
                        attributed.append(tensor)
                copied[name] = None if tensor is None else memo[id(tensor)]
        for tensor in attributed:
            _copy_attributes(tensor, memo[id(tensor)], memo)
        return copied

    def is_part(self, tensor: Tensor) -> bool:
        """Return whether a tensor shares memory with one that was copied."""
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return False
        with torch._C.DisableTorchFunction():
            return tensor.untyped_storage()._cdata in self._storages

    def _like(self, tensor: Tensor, is_weight: bool = False) -> Tensor:
        if type(tensor) not in PLAIN and is_traceable_wrapper_subclass(tensor):
            made = tensor.detach().to(META)
            return Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made
        if tensor.layout in SPARSE_LAYOUTS:
            return sparse_on_meta(tensor)
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            return tensor.detach().to(META)
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = (storage, torch.UntypedStorage(storage.nbytes(), device=META))
        copied = self._storages[storage._cdata][1]
        if is_weight:
            self._weights.add(storage._cdata)
        if tensor.dtype in INTEGERS and storage.nbytes() <= MAX_BYTES:
            if tensor.is_meta:
                self._values.miss(copied, tensor)
            elif is_small_integer(tensor):
                self._values.give_storage(copied, storage)
        elif (
            tensor.dtype in FLOATS
            and storage.nbytes() <= _MAX_BYTES_OF_FLOATS
            and not tensor.is_meta
            and storage._cdata not in self._weights
        ):
            self._values.give_storage(copied, storage)
        made = torch.empty(0, dtype=tensor.dtype, device=META)
        return made.set_(copied, tensor.storage_offset(), tensor.shape, tensor.stride())
