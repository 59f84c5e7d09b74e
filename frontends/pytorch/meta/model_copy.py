"""A copy of a module on the meta device, without its weights; tied tensors stay tied.

Functions that refer to the model are bound to the copy, and wrappers of data-parallel training are replaced by modules
that call the wrapped one. The last sections make optimizers and kernels treat the meta device as a real one.
"""

from __future__ import annotations

import copy
import copyreg
import dis
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from inspect import ismethod, signature, unwrap
from threading import RLock
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, TypeAlias
from weakref import ReferenceType, WeakKeyDictionary, WeakMethod, ref

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.jit import ScriptModule
from torch.nn import DataParallel as TorchDataParallel
from torch.nn import Module, Parameter
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedTensorMixin, is_lazy  # type: ignore[attr-defined]
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer

from costcore.errors import CostError
from costcore.trace.call import global_names

from ..tensors import attributes_of, dtype_name, modules_of, not_compiled
from .object_copy import Copies, MetaCopier, deep_copy, is_singleton
from .values import META, PLAIN, Values

_ATOMS = frozenset((type(None), bool, int, float, str))

OF_TENSORS = ("_parameters", "_buffers")
"""The attributes of a module that hold its own tensors by name."""

_OWN_TENSORS_AND_MODULES = frozenset((*OF_TENSORS, "_modules", "_non_persistent_buffers_set"))

_CONTAINERS = frozenset((dict, OrderedDict, list, set))


def meta_copy(
    model: Module,
    values: Values,
    share: Callable[[Iterable[tuple[Any, bool]]], None] | None = None,
    memo: dict[int, Any] | None = None,
) -> Module:
    """Return a copy of ``model`` on the meta device; the model is not modified and no weight is copied.

    Args:
        model: the model.
        values: receives the values of integer and bool buffers.
        share: receives the containers outside the model that functions of the model and of the copy share: lists,
            dicts, sets and attributes of objects, each with whether several functions may refer to it.
        memo: the existing copies, by id of the original, as in ``copy.deepcopy``; receives the new copies.

    Hooks, flags, buffers and all other attributes of a module are copied, and functions that refer to the model are
    bound to the copy. What cannot be copied (a lock, an open file) is shared. Wrappers of data-parallel training are
    replaced; see :func:`replacement_of`. A compiled module is replaced by the module that it was made of.

    Raises:
        CostError: for a model whose wrapper computes in another dtype.
    """
    memo = Copies() if memo is None else memo
    pending: list[tuple[Module, Any]] = []
    compiled: list[tuple[Module, Module]] = []
    sharded = whole_parameters(model, memo)
    with MetaCopier(values, memo) as copier:
        for module in modules_of(model):
            original = not_compiled(module)
            if original is not module:
                compiled.append((module, original))
                continue
            wrapper = replacement_of(module)
            if id(module) not in memo and (wrapper is not None or not hasattr(type(module), "__deepcopy__")):
                make, arguments, state = wrapper or _reduced(module)
                memo[id(module)] = _made(make, arguments)
                pending.append((module, _with_parameters(state, sharded.get(id(module), {}))))
        for module, original in compiled:
            memo[id(module)] = memo[id(original)]
        for module, state in pending:
            _fill(module, state, memo, copier)
        copied = memo[id(model)] if id(model) in memo else copy.deepcopy(model, memo)
        _note_parameters([*modules_of(model)], memo)
        shared = _bind_functions([module for module, _ in pending], memo, copier)
        if share is not None:
            share(shared)
    has_lazy = False
    for module in modules_of(copied):
        if isinstance(module, ScriptModule):  # deepcopy copies its tensors in C++
            _drop_data(module)
        elif isinstance(module, LazyModuleMixin) or _has_lazy(module):
            has_lazy = True
    if has_lazy and has_lazy_parameters(copied):
        _move_lazy_parameters(copied)
    return copied


def _note_parameters(modules: Sequence[Module], memo: dict[int, Any]) -> None:
    # A ``__deepcopy__`` that ignores the memo, as in tensordict, makes parameters that no optimizer would know.
    others: dict[int, Parameter] = {}
    own_copies = [x for x in modules if isinstance(x, ScriptModule) or hasattr(type(x), "__deepcopy__")]
    for module in own_copies:
        made = memo.get(id(module))
        if isinstance(made, ScriptModule):
            for each in modules_of(made):
                _drop_data(each)
            copies = dict(made.named_parameters())
            memo.update((id(x), copies[name]) for name, x in module.named_parameters() if name in copies)
        elif isinstance(made, Module):
            copies = dict(made.named_parameters())
            for name, parameter in module.named_parameters():
                copied = memo.get(id(parameter))
                if copied is not None and name in copies and copied is not copies[name]:
                    others[id(copied)] = copies[name]
                memo[id(parameter)] = copies.get(name, copied)
    for module in modules if others else ():
        if module not in own_copies and id(module) in memo:
            held = memo[id(module)]._parameters
            held.update({name: others[id(value)] for name, value in held.items() if id(value) in others})


_LAZY_HOOKS = {"_initialize_hook": "_forward_pre_hooks", "_load_hook": "_load_state_dict_pre_hooks"}


def has_lazy_parameters(model: Module) -> bool:
    """Return whether a parameter gets its shape from the first input."""
    return any(map(_has_lazy, modules_of(model)))


def _has_lazy(module: Module) -> bool:
    # Libraries have lazy modules of their own, such as the linear layer of PyTorch Geometric.
    for tensors in (module._parameters, module._buffers):
        for x in tensors.values():
            if isinstance(x, UninitializedTensorMixin):
                return True
    return False


def _move_lazy_parameters(model: Module) -> None:
    # Copies of lazy parameters are on the device of the originals: replace them by lazy parameters on the meta device.
    moved: dict[int, Any] = {}
    for module in modules_of(model):
        if isinstance(module, LazyModuleMixin):  # a copied handle refers to hooks that no module has
            for name, hooks in _LAZY_HOOKS.items():
                if name in vars(module):
                    vars(module)[name].hooks_dict_ref = ref(getattr(module, hooks))
        if isinstance(module, ScriptModule):
            continue
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and is_lazy(tensor):
                    made: Any = type(tensor)
                    tensors[name] = moved.setdefault(id(tensor), made(tensor.requires_grad, META, tensor.dtype))


def _bind_functions(modules: Sequence[Module], memo: dict[int, Any], copier: MetaCopier) -> Iterable[tuple[Any, bool]]:
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
    for parameter in (x for module in modules for x in module._parameters.values() if x is not None):
        for register, hooks in _hooks_of(parameter):
            rebinder = rebinder or Rebinder(memo, copier.is_part)
            for hook in hooks:
                getattr(memo[id(parameter)], register)(rebinder.fix(hook))
    if rebinder is None:
        return ()
    shared = [(value, len(rebinder.readers.get(key, ())) > 1) for key, value in rebinder.shared.items()]
    return [*shared, *((vars(value), True) for value in rebinder.objects.values())]


def _hooks_of(parameter: Tensor) -> Iterator[tuple[str, Iterable[Any]]]:
    # Yields the method that registers hooks, and the hooks. Such a hook may run the step of an optimizer.
    if parameter._backward_hooks:
        yield "register_hook", _without_communication(parameter._backward_hooks).values()
    if parameter._post_accumulate_grad_hooks:
        hooks = _without_communication(parameter._post_accumulate_grad_hooks)
        yield "register_post_accumulate_grad_hook", hooks.values()


def _drop_data(module: ScriptModule) -> None:
    # Integers keep their data, because branches may depend on it.
    for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
        if tensor is not None and tensor.is_floating_point() and not tensor.is_meta:
            made = torch.empty_like(tensor, device=META)
            is_parameter = name in module._parameters
            module._c.setattr(name, Parameter(made, tensor.requires_grad) if is_parameter else made)


def keep_input_checks(exported: Module, copied: Module, n_positional: int) -> None:
    """Make the copy of an exported module check its inputs, too.

    Until PyTorch 2.8, hooks of the exported module check its inputs, and the copy has no such hooks. In later releases
    the graph checks the inputs, also in the copy.

    Args:
        exported: the module of an exported program.
        copied: its copy.
        n_positional: the number of positional inputs of the export; the hooks accept no other positional inputs.
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
    if not parameters:
        return state
    kept = {name: value for name, value in state.items() if name not in parameters}
    return {**kept, "_parameters": {**state["_parameters"], **parameters}}


def _reduced(module: Module) -> tuple[Callable[..., Any], tuple[Any, ...], Any]:
    # The protocol of ``copy.copy``
    reduced = module.__reduce_ex__(4)
    if isinstance(reduced, tuple) and len(reduced) > 2 and reduced[2] is not None:
        return reduced[0], reduced[1], reduced[2]
    # A ``__reduce__`` for files, such as one that stores the source code, does not matter here.
    get_state = getattr(module, "__getstate__", None)  # of every object since Python 3.11
    state = dict(vars(module)) if get_state is None else get_state()
    return copyreg.__newobj__, (type(module),), state  # type: ignore[attr-defined]


def _made(make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return make(*arguments)
    except TypeError:
        if make is not copyreg.__newobj__ or len(arguments) != 1:  # type: ignore[attr-defined]
            raise
        return object.__new__(arguments[0])  # its ``__new__`` takes the arguments of ``__init__``


def _fill(module: Module, state: Any, memo: dict[int, Any], copier: MetaCopier) -> None:
    if not isinstance(state, dict):
        copier.holders[id(module)] = None
        memo[id(module)].__setstate__(deep_copy(state, memo))
        return
    deep: list[str] = []
    copied: dict[str, Any] = {}
    for name, value in state.items():
        kind = type(value)
        if kind in _ATOMS:
            copied[name] = value
        elif kind in _CONTAINERS and not value:  # every module has a dozen, and deepcopy is slow
            copied[name] = memo.setdefault(id(value), kind())
        elif name in OF_TENSORS and _is_plain(value):
            copied[name] = copier.parameters(value, memo)
        else:
            copied[name] = _copied(name, value, memo, deep)
    if deep and deep != ["_modules"]:
        copier.holders[id(module)] = deep
    memo[id(module)].__setstate__(copied)


def _is_plain(value: Any) -> bool:
    return type(value) is dict and all(each is None or type(each) in PLAIN for each in value.values())


def _copied(name: str, value: Any, memo: dict[int, Any], deep: list[str]) -> Any:
    # ``deep`` collects the names of attributes that may hold functions of the user.
    kind = type(value)
    if kind is tuple and all(type(item) in _ATOMS for item in value):
        return value
    if kind is FunctionType and hasattr(value, "_torchdynamo_orig_callable"):  # a compiled function
        method = unwrap(value, stop=ismethod)
        value = method if ismethod(method) else value
    if kind is not FunctionType or not str(value.__module__).startswith("torch."):
        deep.append(name)
    return deep_copy(value, memo)


# Functions that refer to a model, bound to its copy
#
# ``copy.deepcopy`` shares functions. A lambda made in ``__init__`` that calls ``self.linear``, a hook that stores
# results in a dict, or a patched ``forward`` would run parts of the original from the copy. Such functions get new
# cells, defaults and globals, with the copies in place of the originals.


MAX_DEPTH = 9
"""The maximum number of objects between a function and the part of the model to which it refers."""

MAX_PARTS = 100_000
"""The maximum number of objects that are searched for a part of a model."""

_Cache: Any = type(lru_cache(len))

_MUTABLE = (list, dict, set, OrderedDict, defaultdict, deque)

_LIBRARIES = ("builtins", "torch", "numpy", "threading", "logging", "_thread")

OBJECTS_OF_TORCH = ("torch.distributions.", "torch.distributed.pipelining.")
"""Prefixes of the modules of PyTorch whose objects may hold parts of a model."""

_TRAINING = (Optimizer, LRScheduler, GradScaler)
"""Objects of training loops, which a run of the copy must not change."""

MAX_ITEMS = 1000
"""The maximum number of items of a list or dict that is searched for models."""

_CLASS = "__class__"
"""The cell that holds the class, in a method that calls ``super()``."""

_closures: WeakKeyDictionary[type, tuple[tuple[str, FunctionType], ...]] = WeakKeyDictionary()
"""The methods of a class that are closures, by class."""


class Rebinder:
    """Binds functions that refer to parts of a model to the copies of the parts.

    Args:
        copies: the copies that were made, by id of the original; the memo of ``copy.deepcopy``.
        is_part: returns whether a tensor shares memory with the model.

    Attributes:
        shared: the lists, dicts and sets that functions of both models refer to, by id; none holds a part of a model.
        objects: objects of the user that functions of both models refer to, by id; none holds a part of a model.
        readers: the ids of the functions that refer to each of ``shared``.
    """

    def __init__(self, copies: dict[int, Any], is_part: Callable[[Tensor], bool]) -> None:
        self.shared: dict[int, Any] = {}
        self.objects: dict[int, Any] = {}
        self.readers: dict[int, set[int]] = {}
        self._copies = copies
        self._is_part = is_part
        self._made = set(map(id, copies.values()))
        self._functions: dict[int, FunctionType] = {}
        self._cells: dict[int, CellType] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        self._fixed: set[int] = set()

    def bind_methods(self, original: Module, copied: Module) -> None:
        """Rebind methods of the class that are closures over parts of the model, on the copy of a module."""
        for name, function in closures_of(type(original)):
            bound = self._rebound(function)
            if bound is not function and name not in vars(copied):
                vars(copied)[name] = MethodType(bound, copied)

    def fix(self, value: Any) -> Any:
        """Bind the functions inside a value of the copied model; containers and objects change in place."""
        kind: Any = type(value)
        if kind is FunctionType or kind is _Cache or isinstance(value, ReferenceType):
            return self._translated(value)
        if kind is MethodType:
            function = self._translated(value.__func__)
            return value if function is value.__func__ else MethodType(function, value.__self__)
        if kind is partial:
            return self._with_parts(value, self.fix)
        if isinstance(value, (Module, Tensor, type)) or id(value) in self._fixed:
            return value
        if isinstance(value, tuple):
            items = [self.fix(item) for item in value]
            is_same = all(new is old for new, old in zip(items, value, strict=True))
            return value if is_same else tuple(items) if kind is tuple else kind(*items)
        self._fixed.add(id(value))
        if id(value) in self._made:
            self._fix_inside(value)
        return value

    def _fix_inside(self, value: Any) -> None:
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            items = [*value.items()]
            if isinstance(value, defaultdict):
                value.default_factory = self.fix(value.default_factory)
        elif isinstance(value, (list, deque)):
            items = [*enumerate(value)]
        else:
            self._fix_object(value)
        for key, item in items:
            new = self.fix(item)
            if new is not item:
                value[key] = new

    def _fix_object(self, value: Any) -> None:
        kind = type(value)
        # Not by ``getattr``: configurations of transformers raise for attributes that differ by layer.
        inside = dict(attributes_of(value))
        for name in [name for base in kind.__mro__ for name in _slots_of(base)]:
            with suppress(AttributeError):  # a slot without value
                inside.setdefault(name, object.__getattribute__(value, name))
        for name, item in inside.items():
            new = self.fix(item)
            if new is not item:
                object.__setattr__(value, name, new)
        methods = {name: function for name, function in closures_of(kind) if name != "__init__"}  # it has run
        changed = {
            name: made for name, function in methods.items() if (made := self._rebound(function)) is not function
        }
        if changed:  # Python looks up special methods such as ``__call__`` in the class
            with_copies = type(kind.__name__, (kind,), {**changed, "__module__": kind.__module__})
            object.__setattr__(value, "__class__", with_copies)  # also of a frozen dataclass

    def _translated(self, value: Any) -> Any:
        if id(value) in self._copies:
            return self._copies[id(value)]
        if not self._must_change(value, {}, MAX_DEPTH):
            return value
        kind = type(value)
        if kind is FunctionType:
            return self._rebound(value)
        if kind is MethodType:
            return MethodType(self._translated(value.__func__), self._translated(value.__self__))
        if kind is partial:
            return self._with_parts(value, self._translated)
        if kind is _Cache:
            return lru_cache(**value.cache_parameters())(self._translated(value.__wrapped__))
        if isinstance(value, ReferenceType):
            if id(value()) in self._made:  # a handle of hooks of the copy
                return value
            referent = self._translated(value())
            return WeakMethod(referent) if kind is WeakMethod else ref(referent)
        if isinstance(value, Tensor) and value._is_view() and id(value._base) in self._copies:
            return self._view_of_copy(value)
        if kind is tuple:
            return tuple([self._translated(item) for item in value])
        if isinstance(value, LRScheduler):
            self._translated(value.optimizer)
        if _saves_models(value):
            made = self._copies[id(value)] = object.__new__(kind)
            vars(made).update(deep_copy(vars(value), self._copies))
        else:
            made = deep_copy(value, self._copies)
        if made is value and _is_object(value):  # its ``__deepcopy__`` returns itself, as in accelerate
            parts = (each for each in attributes_of(value).values() if is_singleton(each))
            self.objects.update((id(each), each) for each in (value, *parts))
        self._made.update(map(id, self._copies.values()))
        if isinstance(value, Optimizer):  # it copies only its defaults, state and parameter groups
            added = {name: self._translated(part) for name, part in vars(value).items() if name not in vars(made)}
            vars(made).update(added)
        return self.fix(made)

    def _view_of_copy(self, view: Tensor) -> Tensor:
        base: Tensor = self._copies[id(view._base)]
        with torch._C.DisableTorchFunction(), torch.set_grad_enabled(view.requires_grad):
            return base.as_strided(view.shape, view.stride(), view.storage_offset())

    def _with_parts(self, value: Any, change: Callable[[Any], Any]) -> Any:
        parts = [value.func, *value.args, *value.keywords.values()]
        function, *changed = [change(part) for part in parts]
        if all(new is old for new, old in zip((function, *changed), parts, strict=True)):
            return value
        n = len(value.args)
        made = partial(function, *changed[:n], **dict(zip(value.keywords, changed[n:], strict=True)))
        vars(made).update({name: change(item) for name, item in vars(value).items()})
        return made

    def _rebound(self, function: FunctionType) -> FunctionType:
        if id(function) in self._functions:
            return self._functions[id(function)]
        if not self._must_change(function, {}, MAX_DEPTH):
            return function
        cells = tuple([self._cells.setdefault(id(cell), CellType()) for cell in function.__closure__ or ()])
        names = self._globals_of(function)
        made = FunctionType(function.__code__, names, function.__name__, None, cells)
        self._functions[id(function)] = self._copies[id(function)] = made
        made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
        made.__annotations__ = function.__annotations__
        for old, new in zip(function.__closure__ or (), cells, strict=True):
            if not _is_empty(old) and _is_empty(new):
                new.cell_contents = self._translated(old.cell_contents)
        if function.__defaults__ is not None:
            made.__defaults__ = tuple([self._translated(value) for value in function.__defaults__])
        if function.__kwdefaults__ is not None:
            made.__kwdefaults__ = {name: self._translated(value) for name, value in function.__kwdefaults__.items()}
        vars(made).update({name: self._translated(value) for name, value in vars(function).items()})
        for name in _globals_read(function):
            value = function.__globals__[name]
            if self._is_referring(value):
                names[name] = self._translated(value)
        return made

    def _globals_of(self, function: FunctionType) -> dict[str, Any]:
        # A function that refers to parts of the model by global names gets a copy of its globals.
        names = function.__globals__
        if id(names) in self._globals:
            return self._globals[id(names)]
        if not any(self._is_referring(names[name]) for name in _globals_read(function)):
            return names
        made = self._globals[id(names)] = dict(names)
        return made

    def _is_referring(self, value: Any) -> bool:
        if isinstance(value, Module):
            return id(value) in self._copies
        return self._must_change(value, {}, MAX_DEPTH)

    def _must_change(self, value: Any, seen: dict[int, Any], depth: int) -> bool:
        # Whether the copy needs a value of its own; also collects the values that both models share.
        if id(value) in self._copies:
            return self._copies[id(value)] is not value
        if id(value) in seen or not depth or isinstance(value, type) or len(seen) > MAX_PARTS:
            return False
        seen[id(value)] = value
        if isinstance(value, Module):
            return True
        if isinstance(value, _TRAINING):
            return id(value) not in self._made
        if isinstance(value, Tensor):
            return bool(value.requires_grad) or self._is_part(value)
        if type(value) is FunctionType:
            for content in _cell_contents(value):
                if isinstance(content, _MUTABLE):
                    self.readers.setdefault(id(content), set()).add(id(value))
        changes = [self._must_change(part, seen, depth - 1) for part in self._parts(value)]
        if isinstance(value, _MUTABLE) and not any(changes):
            self.shared[id(value)] = value
        elif not any(changes) and _is_object(value):
            self.objects[id(value)] = value
        return any(changes) or _writes_to_cells(value)

    def _parts(self, value: Any) -> Iterator[Any]:
        kind = type(value)
        if kind is FunctionType:
            yield from _cell_contents(value)
            yield from value.__defaults__ or ()
            yield from (value.__kwdefaults__ or {}).values()
            yield from vars(value).values()
            yield from (
                found
                for name in _globals_read(value)
                if not isinstance(found := value.__globals__[name], Module) or id(found) in self._copies
            )
        elif kind is MethodType:
            yield from (value.__func__, value.__self__)
        elif kind is partial:
            yield from (value.func, *value.args, *value.keywords.values())
        elif kind is _Cache:
            yield value.__wrapped__
        elif kind is ReferenceType or kind is WeakMethod:
            yield value()
        elif isinstance(value, dict):
            yield from [*value.values()]
        elif isinstance(value, (tuple, *_MUTABLE)):
            yield from [*value]
        elif _is_object(value):
            yield from (x for x in [*attributes_of(value).values()] if _may_hold_models(x))


def closures_of(kind: type) -> tuple[tuple[str, FunctionType], ...]:
    """Return the names and functions of the methods of a class and its bases that are closures."""
    found = _closures.get(kind)
    if found is None:
        methods: dict[str, FunctionType] = {}
        for base in reversed(kind.__mro__):
            if base.__module__.partition(".")[0] not in ("torch", "builtins"):
                methods.update((name, value) for name, value in vars(base).items() if type(value) is FunctionType)
        found = _closures[kind] = tuple(
            (name, function)
            for name, function in methods.items()
            if any(each != _CLASS for each in function.__code__.co_freevars)
        )
    return found


def _slots_of(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    return tuple(name for name in ((names,) if isinstance(names, str) else names) if not name.startswith("__"))


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises
    except ValueError:
        return True
    return False


def _cell_contents(function: FunctionType) -> Iterator[Any]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != _CLASS and not _is_empty(cell):
            yield cell.cell_contents


def _writes_to_cells(value: Any) -> bool:
    # If a function assigns variables of the enclosing function, such as a counter, runs of the copy must not change the
    # variables of the original.
    if type(value) is not FunctionType or not value.__closure__:
        return False
    return _stores_of(value.__code__)


@lru_cache(maxsize=4096)
def _stores_of(code: CodeType) -> bool:
    free = code.co_freevars
    return any(each.opname == "STORE_DEREF" and each.argval in free for each in dis.get_instructions(code))


def _globals_read(function: FunctionType) -> Iterator[str]:
    """Yield the names of global variables that a function reads and that may refer to a model."""
    names: Mapping[str, Any] = function.__globals__
    if str(names.get("__name__")).partition(".")[0] == "torch":
        return
    # Globals of installed packages hold no model of the user.
    is_of_user = "site-packages" not in str(names.get("__file__"))
    for name in global_names(function.__code__):
        value = names.get(name)
        is_function = isinstance(value, (*_CALLED, Module))
        if is_function or (is_of_user and _may_hold_models(value)):
            yield name


def _is_object(value: object) -> bool:
    # an object of the user
    kind = type(value)
    return (
        isinstance(getattr(value, "__dict__", None), dict)  # of any type in a C extension
        and not isinstance(value, (*_CALLED, ModuleType, type))
        and (kind.__module__.partition(".")[0] not in _LIBRARIES or kind.__module__.startswith(OBJECTS_OF_TORCH))
    )


_CALLED = (FunctionType, MethodType, partial)


def _saves_models(value: object) -> bool:
    # A skorch net pickles its modules into a file in memory, so that a deep copy would have another model.
    kind: Any = type(value)
    if isinstance(value, Module) or kind.__new__ is not object.__new__:
        return False
    has_models = any(isinstance(each, Module) for each in attributes_of(value).values())
    return has_models and any("__getstate__" in vars(base) for base in kind.__mro__[:-1])


def _may_hold_models(value: object) -> bool:
    if isinstance(value, (type, ModuleType, NoneType)):
        return False
    return not isinstance(value, _MUTABLE) or len(value) <= MAX_ITEMS


# Replacements of data-parallel wrappers, which need devices and process groups and cannot be copied
#
# One process computes the wrapped module, on its own samples and with whole parameters. So does the replacement,
# without communication.


_DISTRIBUTED = ("torch.distributed.fsdp", "torch.distributed._composable")
"""The modules in which ``fully_shard`` and ``replicate`` define their classes and hooks."""

_API_STATE = "__composable_api_state_key"
"""The prefix of the attributes in which ``fully_shard`` and ``replicate`` keep their communication state."""

_OWN_ATTRIBUTES = frozenset(vars(Module()))
"""The attributes of every module; all others of a wrapper serve its communication."""


class DataParallel(Module):
    """Replaces the wrapper of this name, and calls the wrapped module."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module."""
        return self.module(*args, **kwargs)


class DistributedDataParallel(DataParallel):
    """Replaces the wrapper of this name, and calls the wrapped module."""


class FullyShardedDataParallel(Module):
    """Replaces the wrapper of this name; calls the wrapped module, and forwards attributes to it."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            return super().__getattr__("_fsdp_wrapped_module")
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]


def replacement_of(module: Module) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None:
    """Return constructor, arguments and state of the replacement of a wrapper; None for any other module."""
    original = _original_class(module)
    if original is not None:
        state = {name: value for name, value in vars(module).items() if not name.startswith(_API_STATE)}
        hooks = {name: _without_communication(value) for name, value in state.items() if name.endswith("_hooks")}
        return copyreg.__newobj__, (original,), {**state, **hooks}  # type: ignore[attr-defined]
    replacement = _replacement(module)
    if replacement is None:
        return None
    state = {name: value for name, value in vars(module).items() if name in _OWN_ATTRIBUTES}
    return copyreg.__newobj__, (replacement,), {**state, "_parameters": {}}  # type: ignore[attr-defined]


def _replacement(module: Module) -> type[Module] | None:
    if isinstance(module, TorchDataParallel):
        return DataParallel
    if "torch.nn.parallel.distributed" in sys.modules and isinstance(module, torch.nn.parallel.DistributedDataParallel):
        return DistributedDataParallel
    return FullyShardedDataParallel if _is_fully_sharded(module) else None


def _is_fully_sharded(module: Module) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FullyShardedDataParallel)


def _original_class(module: Module) -> type[Module] | None:
    # ``fully_shard`` and ``replicate`` give a module a class with two bases: their own, and the original class.
    bases = type(module).__bases__
    is_changed = len(bases) == 2 and bases[0].__module__.startswith(_DISTRIBUTED)
    return bases[1] if is_changed else None


def _without_communication(hooks: Any) -> Any:
    # The hooks of ``fully_shard`` and ``replicate`` communicate.
    def is_own(hook: Any) -> bool:
        owner = getattr(hook, "__self__", None)
        return str((type(owner) if owner is not None else hook).__module__).startswith(_DISTRIBUTED)

    return type(hooks)((key, hook) for key, hook in hooks.items() if not is_own(hook))


def wrapper_names(model: Module) -> list[str]:
    """Return the names of the wrappers in a model that communicate, each once."""
    found: dict[str, None] = {}
    for module in modules_of(model):
        replacement = _replacement(module)
        if _original_class(module) is not None:
            found["fully_shard" if hasattr(module, "_get_fsdp_state") else "replicate"] = None
        elif replacement not in (None, DataParallel):
            found[type(module).__name__] = None
    return list(found)


def whole_parameters(model: Module, memo: dict[int, Any] | None = None) -> dict[int, dict[str, Parameter | None]]:
    """Return a whole meta parameter for each parameter that a wrapper has sharded, by module and name.

    Args:
        model: the model.
        memo: receives the whole parameters as the copies of the shards, to which an optimizer refers.

    Raises:
        CostError: for mixed precision, or sharding on top of tensor parallelism; the message says what to pass instead.
    """
    parameters: dict[int, dict[str, Parameter | None]] = {}
    parts: dict[int, tuple[Parameter, list[Parameter]]] = {}
    for module in modules_of(model):
        for owner, name, parameter, shard in _sharded(module):
            parameters.setdefault(id(owner), {})[name] = parameter
            if parameter is not None and shard is not None:
                _, of_shard = parts.setdefault(id(shard), (shard, []))
                if not any(parameter is each for each in of_shard):
                    of_shard.append(parameter)
    if isinstance(memo, Copies):
        for key, (shard, of_shard) in parts.items():
            only = of_shard[0] if len(of_shard) == 1 else _whole(shard.shape, shard.dtype, shard.requires_grad)
            memo[key] = only
            memo.parts[id(only)] = shard.shape, of_shard
            memo.update((id(each), each) for each in of_shard)
    return parameters


def _sharded(module: Module) -> Iterator[tuple[Module, str, Parameter | None, Any]]:
    # Yields a module, the name of a parameter, the whole parameter, and the shard of this process.
    if _is_fully_sharded(module):
        _check_precision("FullyShardedDataParallel", getattr(module, "mixed_precision", None))
        yield from _in_flat_parameter(module)
    elif _original_class(module) is not None and hasattr(module, "_get_fsdp_state"):
        yield from _in_groups(module)
    elif _replacement(module) is DistributedDataParallel:
        _check_precision("DistributedDataParallel", getattr(module, "mixed_precision", None))


def _in_flat_parameter(module: Module) -> Iterator[tuple[Module, str, Parameter | None, Any]]:
    # ``FullyShardedDataParallel`` concatenates parameters into one flat parameter.
    flat: Any = getattr(module._handle, "flat_param", None)
    if flat is None:
        return
    wrapped: Any = module._fsdp_wrapped_module
    for name, parameter in wrapped._parameters.items():
        if parameter is flat:
            yield wrapped, name, None, None
    originals = flat._params or [flat] * len(flat._param_infos)
    made: dict[tuple[int, str], Parameter] = {}
    for info, shape, original in zip(flat._param_infos, flat._shapes, originals, strict=True):
        parameter = made[id(info.module), info.param_name] = _whole(shape, flat.dtype, original.requires_grad)
        yield info.module, info.param_name, parameter, original
    for info in flat._shared_param_infos:
        yield info.module, info.param_name, made[id(info.prim_module), info.prim_param_name], None


def _in_groups(module: Any) -> Iterator[tuple[Module, str, Parameter | None, Any]]:
    # ``fully_shard`` shards each parameter by itself.
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)  # one group at most before PyTorch 2.13
    for group in groups if groups is not None else filter(None, [state._fsdp_param_group]):
        for sharded in group.fsdp_params:
            _check_precision("fully_shard", (sharded if hasattr(sharded, "mp_policy") else group).mp_policy)
            if sharded.is_dtensor:
                raise CostError(
                    f"{type(module).__name__}: its parameters are sharded by fully_shard on top of tensor parallelism; "
                    "estimate the model before fully_shard"
                )
            original = sharded.sharded_param
            parameter = _whole(sharded._orig_size, original.dtype, original.requires_grad)
            place = sharded._module_info
            yield place.module, place.param_name, parameter, original
            for owner, name in zip(place.shared_modules, place.shared_param_names, strict=True):
                yield owner, name, parameter, None


def _whole(shape: Any, dtype: torch.dtype, requires_grad: bool) -> Parameter:
    return Parameter(torch.empty(shape, dtype=dtype, device=META), requires_grad)


def _check_precision(wrapper: str, policy: Any) -> None:
    dtype = getattr(policy, "param_dtype", None)
    if dtype is not None:
        raise CostError(
            f"{wrapper} computes in {dtype_name(dtype)} by its mixed precision; estimate the model before it is "
            f"wrapped, cast by .to({dtype})"
        )


# Optimizers and ``clip_grad_norm_`` on the meta device


_OPTIMIZERS = "torch.optim."

_CHECKS = {
    "_get_fused_kernels_supported_devices": _OPTIMIZERS,
    "_get_capturable_supported_devices": _OPTIMIZERS,
    "_get_foreach_kernels_supported_devices": "torch.utils._foreach_utils",  # a CPU clips lists of gradients
}
"""Functions of PyTorch that return the supported devices, with the prefix of the modules that call them."""

_LOCK = RLock()


@contextmanager
def supported_on_meta() -> Iterator[None]:
    """Make optimizers with ``fused=True`` or ``capturable=True`` run as on a GPU, and clipping as on a CPU."""
    with _LOCK:
        found = [
            (module, name, getattr(module, name))
            for path, module in [*sys.modules.items()]
            for name, start in _CHECKS.items()
            if path.startswith(start) and hasattr(module, name)
        ]
        for module, name, check in found:
            setattr(module, name, _with_meta(check))
        try:
            yield
        finally:
            for module, name, check in found:
                setattr(module, name, check)


def _with_meta(check: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def devices(*args: Any, **kwargs: Any) -> list[str]:
        return [*check(*args, **kwargs), "meta"]

    return devices


# Storages larger or smaller than the tensors in them
#
# Some kernels of the CPU compute in the memory of their result and then resize it, which keeps the memory. On the meta
# device a result is as large as its elements.


Sizes: TypeAlias = "Iterator[tuple[Tensor, int]]"

_aten = torch.ops.aten

_FAST_SUMS = (torch.float32, torch.float16, torch.bfloat16)
"""Dtypes of embedding weights for which a CPU sums bags without storing the bag of every index."""


def _elementwise(results: Sequence[Tensor], x: Tensor, target: Tensor, *_: Any) -> Sizes:
    # A CPU computes a value for every element, and reduces them in the same memory.
    n = torch.broadcast_shapes(x.shape, target.shape).numel()
    yield results[0], max(n, results[0].numel())


def _as_operand(results: Sequence[Tensor], x: Tensor, *_: Any) -> Sizes:
    # The result is made like the operand, and then resized.
    yield results[0], max(x.numel(), results[0].numel())


def _bags(
    results: Sequence[Tensor],
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Tensor | None = None,
    has_last: bool = False,
    padding: int = -1,
    *,
    forward_only: bool = False,
) -> Sizes:
    # Results besides sums: the bag of every index, the sizes of bags, the index of every maximum.
    is_sum, is_max = mode == 0, mode == 2
    is_fast = is_sum and weight.dtype in _FAST_SUMS and weight.stride(1) == 1 and padding < 0
    is_fast = is_fast and (factors is None or factors.stride(0) == 1)
    n_bags = offsets.numel() - has_last
    yield results[1], 0 if is_fast else indices.numel() + 1
    yield results[2], offsets.numel()
    yield results[3], n_bags * weight.shape[1] if is_max else offsets.numel() if is_sum and forward_only else n_bags


def _by_id(rules: dict[Any, Callable[..., Sizes]]) -> dict[int, Callable[..., Sizes]]:
    return {id(operator): rule for operator, rule in rules.items()}  # hashing an operator runs Python code


_RULES = _by_id(
    {
        _aten.mse_loss.default: _elementwise,
        _aten.smooth_l1_loss.default: _elementwise,
        _aten.soft_margin_loss.default: _elementwise,
        _aten.binary_cross_entropy.default: _elementwise,
        _aten.im2col.default: _as_operand,
        _aten.col2im.default: _as_operand,
        _aten._embedding_bag.default: _bags,
        _aten._embedding_bag_forward_only.default: partial(_bags, forward_only=True),
    }
)


def keep_storages(operator: Any, args: Sequence[Any], results: Any) -> None:
    """Resize the storages of a result on the meta device to their size on a CPU."""
    rule = _RULES.get(id(operator))
    if rule is None:
        return
    tensors = (results,) if isinstance(results, Tensor) else results
    if tensors[0].is_meta:
        for tensor, n in rule(tensors, *args):
            tensor.untyped_storage().resize_(n * tensor.element_size())
