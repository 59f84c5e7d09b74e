"""Functions that refer to a model, bound to its copy.

``copy.deepcopy`` shares functions. A lambda made in ``__init__`` that calls ``self.linear``, a hook that stores what it
sees in a dict, or a patched ``forward`` would run parts of the original from the copy. Such functions get new cells,
defaults and globals, with the copies in place of the originals.
"""

from __future__ import annotations

import copy
import dis
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, WeakMethod, ref

import torch
from torch import Tensor
from torch.nn import Module

MAX_DEPTH = 6
"""How many objects may lie between a function and the part of the model that it refers to."""

_Cache: Any = type(lru_cache(len))
_MUTABLE = (list, dict, set, OrderedDict, defaultdict, deque)
_NO_OBJECTS_OF_USERS = ("builtins", "torch", "numpy", "threading", "logging", "_thread")
_CLASS = "__class__"
"""The cell in which a method that calls ``super()`` has its class."""

_closures: WeakKeyDictionary[type, tuple[tuple[str, FunctionType], ...]] = WeakKeyDictionary()
"""The methods of a class that are closures, by class."""


class Rebinder:
    """Binds functions to copies.

    Args:
        copies: the copies that were made, by id of the original; the memo of ``copy.deepcopy``.
        is_part: returns whether a tensor shares memory with the model.

    Attributes:
        shared: the lists, dicts and sets that functions of both models refer to, by id; none holds a part of a model.
        readers: the ids of the functions that refer to each.
    """

    def __init__(self, copies: dict[int, Any], is_part: Callable[[Tensor], bool]) -> None:
        self.shared: dict[int, Any] = {}
        self.readers: dict[int, set[int]] = {}
        self._copies = copies
        self._is_part = is_part
        self._made = set(map(id, copies.values()))
        self._functions: dict[int, FunctionType] = {}
        self._cells: dict[int, CellType] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        self._fixed: set[int] = set()

    def bind_methods(self, original: Module, copied: Module) -> None:
        """Give the copy of a module its own methods, where those of its class are closures over parts of the model."""
        for name, function in closures_of(type(original)):
            bound = self._rebound(function)
            if bound is not function and name not in vars(copied):
                vars(copied)[name] = MethodType(bound, copied)

    def fix(self, value: Any) -> Any:
        """Return what a copy holds, with its functions bound to copies; containers and objects change in place."""
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
        names = [name for base in kind.__mro__ for name in _slots_of(base)] + [*getattr(value, "__dict__", ())]
        for name in names:
            item = getattr(value, name, None)
            new = self.fix(item)
            if new is not item:
                object.__setattr__(value, name, new)
        methods = {name: self._rebound(function) for name, function in closures_of(kind)}
        changed = {name: method for name, method in methods.items() if method is not dict(closures_of(kind))[name]}
        if changed:  # Python looks up operators such as a call in the class
            value.__class__ = type(kind.__name__, (kind,), {**changed, "__module__": kind.__module__})

    def _translated(self, value: Any) -> Any:
        """Return what takes the place of an object that a function of the original refers to."""
        if id(value) in self._copies:
            return self._copies[id(value)]
        if not self._changes(value, {}, MAX_DEPTH):
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
            referent = self._translated(value())
            return WeakMethod(referent) if kind is WeakMethod else ref(referent)
        if isinstance(value, Tensor) and value._is_view() and id(value._base) in self._copies:
            return self._view_of_copy(value)
        if kind is tuple:
            return tuple([self._translated(item) for item in value])
        made = _copied(value, self._copies)
        self._made.update(map(id, self._copies.values()))
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
        if not self._changes(function, {}, MAX_DEPTH):
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
        """Return the globals of a function: a copy of them if it refers to parts of the model by global names."""
        names = function.__globals__
        if id(names) in self._globals:
            return self._globals[id(names)]
        if not any(self._is_referring(names[name]) for name in _globals_read(function)):
            return names
        made = self._globals[id(names)] = dict(names)
        return made

    def _is_referring(self, value: Any) -> bool:
        """Return whether a global is a part of the model or a function that refers to one; other globals stay."""
        if isinstance(value, Module):
            return id(value) in self._copies
        return type(value) in (FunctionType, MethodType, partial) and self._changes(value, {}, MAX_DEPTH)

    def _changes(self, value: Any, seen: dict[int, Any], depth: int) -> bool:
        """Return whether an object that a function refers to has to be another one for the copy."""
        if id(value) in self._copies:
            return self._copies[id(value)] is not value
        if id(value) in seen or not depth or isinstance(value, type):
            return False
        seen[id(value)] = value
        if isinstance(value, Module):
            return True
        if isinstance(value, Tensor):
            return bool(value.requires_grad) or self._is_part(value)
        if type(value) is FunctionType:
            for content in filter(_is_container, _cell_contents(value)):
                self.readers.setdefault(id(content), set()).add(id(value))
        changes = [self._changes(part, seen, depth - 1) for part in self._parts(value)]
        if isinstance(value, _MUTABLE) and not any(changes):
            self.shared[id(value)] = value
        return any(changes) or _writes_to_cells(value)

    def _parts(self, value: Any) -> Iterator[Any]:
        """Yield the objects that another one refers to."""
        kind = type(value)
        if kind is FunctionType:
            yield from _cell_contents(value)
            yield from value.__defaults__ or ()
            yield from (value.__kwdefaults__ or {}).values()
            yield from vars(value).values()
            for name in _globals_read(value):
                found = value.__globals__[name]
                if id(found) in self._copies or type(found) in (FunctionType, MethodType, partial):
                    yield found
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
        elif kind.__module__.partition(".")[0] not in _NO_OBJECTS_OF_USERS:
            yield from (x for x in [*getattr(value, "__dict__", {}).values()] if not isinstance(x, _MUTABLE))


def closures_of(kind: type) -> tuple[tuple[str, FunctionType], ...]:
    """Return names and functions of the methods of a class that are closures, of its bases too."""
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


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, copies)
    except (TypeError, NotImplementedError):
        return value  # it holds a lock, a file or a process group


def _is_container(value: Any) -> bool:
    return isinstance(value, _MUTABLE)


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
    """Return whether a function assigns variables of the function around it, as a counter does."""
    if type(value) is not FunctionType or not value.__closure__:
        return False
    free = value.__code__.co_freevars
    return any(each.opname == "STORE_DEREF" and each.argval in free for each in dis.get_instructions(value))


def _globals_read(function: FunctionType) -> Iterator[str]:
    """Yield the names of globals that a function and those inside of it read."""
    names: Mapping[str, Any] = function.__globals__
    is_of_torch = str(names.get("__name__")).partition(".")[0] == "torch"
    waiting: list[CodeType] = [] if is_of_torch else [function.__code__]
    while waiting:
        code = waiting.pop()
        yield from (name for name in code.co_names if name in names)
        waiting += (constant for constant in code.co_consts if type(constant) is CodeType)
