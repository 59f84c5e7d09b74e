"""A copy of a module without its weights: tensors become meta tensors, and tied ones stay tied."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import ismethod, signature, unwrap
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.jit import ScriptModule
from torch.nn import Module, Parameter
from torch.nn.modules.lazy import LazyModuleMixin
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from costcore.errors import CostError

from ..module_walk import modules_of, not_compiled
from .operands import META, PLAIN
from .rebinding import Rebinder, closures_of
from .values import INTEGERS, MAX_BYTES, Values, is_small_integer
from .wrappers import stand_in, whole_parameters

_ATOMS = frozenset((type(None), bool, int, float, str))
OF_TENSORS = ("_parameters", "_buffers")
"""The attributes of a module that hold its own tensors by name."""

_OWN_TENSORS_AND_MODULES = frozenset((*OF_TENSORS, "_modules", "_non_persistent_buffers_set"))

_CONTAINERS = frozenset((dict, OrderedDict, list, set))


def check_no_lazy_modules(model: Module) -> None:
    """Check that every parameter has a shape.

    Raises:
        CostError: for a lazy module that never ran; the message includes its type.
    """
    for module in modules_of(model):
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
            raise CostError(
                f"{type(model).__name__}: the parameters of its lazy module {type(module).__name__} have no shape yet; "
                "run the model once on an input, then estimate it"
            )


class _MetaCopier(TorchFunctionMode):
    """Makes ``copy.deepcopy`` return meta tensors, which share memory as the original tensors do.

    Args:
        values: receives the values of buffers and other tensors of integers or bools.

    Attributes:
        holders: the names of the attributes of a module that may hold functions, by its id; None for all.
    """

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.holders: dict[int, Sequence[str] | None] = {}
        self._values = values
        self._storages: dict[int, tuple[Any, torch.UntypedStorage]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle a function of PyTorch that is called while the copy is made."""
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            with torch._C.DisableTorchFunction():
                if id(tensor) not in memo:
                    memo[id(tensor)] = self._like(tensor).requires_grad_(tensor.requires_grad)
                return memo[id(tensor)]
        if func is Tensor.clone:  # how a parameter copies its data
            with torch._C.DisableTorchFunction():
                return self._like(args[0])
        return func(*args, **(kwargs or {}))

    def parameters(self, given: Mapping[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
        """Return the parameters or buffers of a module on the meta device, as ``deepcopy`` would, which is slow.

        Args:
            given: parameters, buffers or None by name.
            memo: the copies that were made, by id of the original.
        """
        copied: dict[str, Any] = {}
        memo[id(given)] = copied
        with torch._C.DisableTorchFunction():
            for name, tensor in given.items():
                if tensor is not None and id(tensor) not in memo:
                    made = self._like(tensor)
                    kept = Parameter if type(tensor) is Parameter else Tensor.requires_grad_
                    memo[id(tensor)] = kept(made, tensor.requires_grad)
                copied[name] = None if tensor is None else memo[id(tensor)]
        return copied

    def is_part(self, tensor: Tensor) -> bool:
        """Return whether a tensor shares memory with one that was copied."""
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return False
        with torch._C.DisableTorchFunction():
            return tensor.untyped_storage()._cdata in self._storages

    def _like(self, tensor: Tensor) -> Tensor:
        if type(tensor) not in PLAIN and is_traceable_wrapper_subclass(tensor):
            made = tensor.detach().to(META)
            return Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            return tensor.detach().to(META)
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = (storage, torch.UntypedStorage(storage.nbytes(), device=META))
        copied = self._storages[storage._cdata][1]
        if tensor.dtype in INTEGERS and storage.nbytes() <= MAX_BYTES:
            if tensor.is_meta:
                self._values.miss(copied, tensor)
            elif is_small_integer(tensor):
                self._values.give_storage(copied, storage)
        made = torch.empty(0, dtype=tensor.dtype, device=META)
        return made.set_(copied, tensor.storage_offset(), tensor.shape, tensor.stride())


def meta_copy(
    model: Module, values: Values, share: Callable[[Iterable[tuple[Any, bool]]], None] | None = None
) -> Module:
    """Return a copy of ``model`` on the meta device; the model is not modified and no weight is copied.

    Args:
        model: the model.
        values: receives the values of its buffers of integers or bools.
        share: receives the lists, dicts and sets outside of the model to which functions of both refer, and whether
            several functions do.

    Hooks, flags, buffers and all other attributes of a module are copied, and functions that refer to the model are
    bound to the copy. What cannot be copied (a lock, an open file) is shared. Wrappers of data-parallel training are
    replaced by stand-ins; see :mod:`.wrappers`. In place of a module that was compiled is the module that it was made
    of.

    Raises:
        CostError: for a model with lazy modules that never ran, or one whose wrapper computes in another dtype.
    """
    check_no_lazy_modules(model)
    memo: dict[int, Any] = {}
    pending: list[tuple[Module, Any]] = []
    compiled: list[tuple[Module, Module]] = []
    sharded = whole_parameters(model)
    with _MetaCopier(values) as copier:
        for module in modules_of(model):
            original = not_compiled(module)
            if original is not module:
                compiled.append((module, original))
                continue
            wrapper = stand_in(module)
            if id(module) not in memo and (wrapper is not None or not hasattr(type(module), "__deepcopy__")):
                make, arguments, state = wrapper or _reduced(module)
                memo[id(module)] = make(*arguments)
                pending.append((module, _with_parameters(state, sharded.get(id(module), {}))))
        for module, original in compiled:
            memo[id(module)] = memo[id(original)]
        for module, state in pending:
            _fill(module, state, memo, copier)
        copied = memo[id(model)] if id(model) in memo else copy.deepcopy(model, memo)
        shared = _bind_functions([module for module, _ in pending], memo, copier)
        if share is not None:
            share(shared)
    for module in modules_of(copied):
        if isinstance(module, ScriptModule):  # deepcopy copies its tensors where Python does not see it
            _drop_data(module)
    return copied


def _bind_functions(modules: Sequence[Module], memo: dict[int, Any], copier: _MetaCopier) -> Iterable[tuple[Any, bool]]:
    """Bind the functions that the copies of modules hold to these copies; return the containers that they share."""
    closures = {kind for kind in set(map(type, modules)) if closures_of(kind)}
    rebinder = None
    holders = copier.holders
    for module in modules if closures or holders else ():
        if id(module) not in holders and type(module) not in closures:
            continue
        copied = memo[id(module)]
        attributes = vars(copied)
        rebinder = rebinder or Rebinder(memo, copier.is_part)
        for name in holders.get(id(module), ()) or [*attributes]:
            value = attributes.get(name)
            if type(value) not in _ATOMS and name not in _OWN_TENSORS_AND_MODULES:
                fixed = rebinder.fix(value)
                if fixed is not value:
                    attributes[name] = fixed
        rebinder.bind_methods(module, copied)
    if rebinder is None:
        return ()
    return [(value, len(rebinder.readers.get(key, ())) > 1) for key, value in rebinder.shared.items()]


def _drop_data(module: ScriptModule) -> None:
    """Move the tensors of a module that TorchScript compiled to the meta device; integers may decide something."""
    for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
        if tensor is not None and tensor.is_floating_point():
            made = torch.empty_like(tensor, device=META)
            is_parameter = name in module._parameters
            module._c.setattr(name, Parameter(made, tensor.requires_grad) if is_parameter else made)


def keep_input_checks(exported: Module, copied: Module, n_positional: int) -> None:
    """Let the copy of an exported module check its inputs as the module does.

    Until PyTorch 2.8 it does so in hooks, which its copies lose; later its graph does.

    Args:
        exported: the module of an exported program.
        copied: its copy.
        n_positional: how many inputs the program was exported with by position; the hooks take no other by position.
    """
    if hasattr(exported, "_guards_fn"):
        return
    names = [*signature(exported.forward).parameters][:n_positional]

    def check(_: Module, args: Any, kwargs: Any) -> None:
        by_name = [kwargs[name] for name in names[len(args) :] if name in kwargs]
        rest = {name: value for name, value in kwargs.items() if name not in names}
        for hook in exported._forward_pre_hooks.values():
            hook(exported, (*args, *by_name), rest)

    copied.register_forward_pre_hook(check, with_kwargs=True)


def _with_parameters(state: Any, parameters: Mapping[str, Parameter | None]) -> Any:
    """Return the state of a module with parameters in place of the attributes of their names."""
    if not parameters:
        return state
    kept = {name: value for name, value in state.items() if name not in parameters}
    return {**kept, "_parameters": {**state["_parameters"], **parameters}}


def _reduced(module: Module) -> tuple[Callable[..., Any], tuple[Any, ...], Any]:
    """Return constructor, arguments and state of a module, as ``copy.copy`` would use them."""
    reduced = module.__reduce_ex__(4)
    if isinstance(reduced, str) or len(reduced) < 3:
        raise CostError(
            f"{type(module).__name__} cannot be copied, so it cannot be estimated; count a real run of it instead"
        )
    return reduced[0], reduced[1], reduced[2]


def _fill(module: Module, state: Any, memo: dict[int, Any], copier: _MetaCopier) -> None:
    if isinstance(state, dict):
        deep: list[str] = []
        copied: Any = {
            name: value
            if type(value) in _ATOMS
            else memo.setdefault(id(value), type(value)())  # every module has a dozen, and deepcopy is slow
            if type(value) in _CONTAINERS and not value
            else copier.parameters(value, memo)
            if name in OF_TENSORS and _is_plain(value)
            else _copied(name, value, memo, deep)
            for name, value in state.items()
        }
        if deep and deep != ["_modules"]:
            copier.holders[id(module)] = deep
    else:
        copied = copy.deepcopy(state, memo)
        copier.holders[id(module)] = None
    memo[id(module)].__setstate__(copied)


def _is_plain(value: Any) -> bool:
    """Return whether all tensors of a mapping have a type of PyTorch's own."""
    return type(value) is dict and all(each is None or type(each) in PLAIN for each in value.values())


def _copied(name: str, value: Any, memo: dict[int, Any], deep: list[str]) -> Any:
    """Return a copy of an attribute; ``deep`` receives its name if it may hold functions of the user."""
    kind = type(value)
    if kind is tuple and all(type(item) in _ATOMS for item in value):
        return value
    if kind is FunctionType and hasattr(value, "_torchdynamo_orig_callable"):  # a compiled function
        method = unwrap(value, stop=ismethod)
        value = method if ismethod(method) else value
    if kind is not FunctionType or not str(value.__module__).startswith("torch."):
        deep.append(name)
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, NotImplementedError):
        return value  # a lock, a file or a process group is shared with the original
