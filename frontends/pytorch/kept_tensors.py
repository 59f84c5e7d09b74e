"""What an estimate would leave outside of the model, where other runs find it: in caches, in globals and on classes.

The copy of a model on the meta device dies with its estimate. Code of the model that remembers results by their sizes
alone would give tensors without data to the next run of the model, and to the next estimate, which would not count what
made them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.nn import Module

from .meta.operands import META, PLAIN
from .module_walk import modules_of
from .recording.identity import Identities

_Cache: Any = type(lru_cache(len))
_NO_CODE_OF_USERS = ("torch", "builtins")

_NO_CONTAINERS = (Tensor, Module, type, ModuleType, FunctionType)
"""What is not searched: it holds far more than what was put into a cache."""

_MAX_DEPTH = 4
"""How many containers may be around a tensor in a cache."""

_MOST_SEARCHED = 16
"""Of how many tensors the holders are looked for, among all objects of the process."""

_caches: WeakKeyDictionary[type, set[ref[Any]]] = WeakKeyDictionary()
"""The caches that the code of a class may use, by class."""


class KeptTensors:
    """Removes the tensors of an estimate from wherever code keeps them outside of the model.

    An earlier run may have left its own: they are removed from caches of functions before the estimate, which would
    otherwise not count what made them.

    Args:
        model: the model, whose classes are those whose code runs.
    """

    def __init__(self, model: Module) -> None:
        self._kinds = set(filter(_is_of_user, set(map(type, modules_of(model)))))
        _clear_caches_of(self._kinds)
        modules = {id(module): module for module in map(_module_of, self._kinds) if module is not None}
        owners: list[Any] = [*self._kinds, *modules.values()]
        self._namespaces = [(owner, dict(vars(owner))) for owner in owners]
        self._watched: list[Identities] = []
        self._shared: list[tuple[Any, Any, bool]] = []

    def share(self, containers: Iterable[tuple[Any, bool]]) -> None:
        """Watch lists, dicts and sets to which functions of the model and of its copy refer.

        Args:
            containers: each with whether several functions refer to it, so that the model may read what it stores.
        """
        self._shared = [(container, copy(container), is_read) for container, is_read in containers]

    def restore_shared(self) -> None:
        """Restore the containers whose items were replaced, or that keep tensors of the run for the model to read.

        What code collects for others is left there.
        """
        made = set(map(id, self._tensors())) if self._shared else set()
        for container, before, is_read in self._shared:
            keeps = is_read and not made.isdisjoint(map(id, _within([container])))
            if keeps or not _has_all(container, before):
                container.clear()
                (container.update if isinstance(container, (dict, set)) else container.extend)(before)
        self._shared.clear()

    def watch(self, identities: Identities) -> None:
        """Watch the tensors of one run."""
        self._watched.append(identities)

    def clear_caches(self) -> None:
        """Remove tensors from caches of functions alone: after an error, which itself holds most tensors."""
        _clear_caches_of(self._kinds)

    def remove(self) -> Iterator[str]:
        """Remove what is still there, once nothing else holds it; yield notes on what stays, or was there before."""
        for name in self._used_from_before():
            yield f"{name} holds tensors from before this estimate, which the model reads: their making is not counted"
        self.restore_shared()
        if not self._tensors():
            return
        self.clear_caches()
        self._restore_namespaces()
        if self._tensors():
            gc.collect(0)  # cycles: the collector was off, so that all new objects are in the youngest generation
        _remove_from_holders(self._tensors())
        if not self._tensors():
            return
        gc.collect(0)
        kept = [tensor for tensor in self._tensors() if tensor.is_meta]
        if kept:
            stay = "stay" if len(kept) > 1 else "stays"
            yield f"{_described(kept)} of this estimate {stay} where the code of the model keeps them, without data"

    def _used_from_before(self) -> Iterator[str]:
        """Yield the names of globals and attributes of classes with data that the run used."""
        used = {storage._cdata for each in self._watched for storage in each.from_outside() if storage.device != META}
        for owner, before in self._namespaces if used else ():
            for name, value in before.items():
                tensors = (x for x in _within([value]) if type(x) in PLAIN and x.layout is torch.strided)
                if any(x.untyped_storage()._cdata in used for x in tensors):
                    yield f"{owner.__name__}.{name}"

    def _tensors(self) -> list[Tensor]:
        """Return the tensors that operators made and that still exist."""
        return [tensor for each in self._watched for tensor in each.made()]

    def _restore_namespaces(self) -> None:
        """Restore the globals and attributes of classes that hold such tensors now."""
        kept = set(map(id, self._tensors()))
        for owner, before in self._namespaces if kept else ():
            for name, value in [*vars(owner).items()]:
                if value is before.get(name) or kept.isdisjoint(map(id, _within([value]))):
                    continue
                if name in before:
                    setattr(owner, name, before[name])
                else:
                    delattr(owner, name)


def clear_caches(model: Module) -> None:
    """Clear the caches of functions in the code of a model that hold tensors."""
    _clear_caches_of(set(map(type, modules_of(model))))


def _clear_caches_of(kinds: Iterable[type]) -> None:
    for found in set().union(*map(_caches_of, kinds)):
        cache = found()
        if cache is not None and cache.cache_info().currsize and any(isinstance(x, Tensor) for x in _within([cache])):
            cache.cache_clear()


def _is_of_user(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in _NO_CODE_OF_USERS


def _module_of(kind: type) -> ModuleType | None:
    return sys.modules.get(kind.__module__)


def _caches_of(kind: type) -> set[ref[Any]]:
    """Return the caches of functions in the namespaces of a class, its bases and the modules with their code."""
    found = _caches.get(kind)
    if found is None:
        classes = [base for base in kind.__mro__ if _is_of_user(base)]
        owners: list[Any] = [*classes, *(module for module in map(_module_of, classes) if module is not None)]
        values = (value for owner in owners for value in [*vars(owner).values()])
        found = _caches[kind] = {ref(cache) for value in values for cache in _caches_in(value)}
    return found


def _caches_in(value: Any) -> Iterator[Any]:
    """Yield the cache that a function, method or decorator is or calls."""
    value = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
    if type(value) is _Cache:
        yield value
    elif type(value) is FunctionType:
        for cell in value.__closure__ or ():
            held = [*gc.get_referents(cell)]  # none while the variable has no value
            yield from (each for each in held if type(each) is _Cache)


def _within(containers: Iterable[Any]) -> Iterator[Any]:
    """Yield objects, and those inside of caches, containers and other plain objects among them."""
    level: Sequence[Any] = [*containers]
    for _ in range(_MAX_DEPTH):
        yield from level
        searched = [x for x in level if gc.is_tracked(x) and not isinstance(x, _NO_CONTAINERS)]
        if not searched:
            return
        level = gc.get_referents(*searched)


def _remove_from_holders(held: Sequence[Any]) -> None:
    """Remove objects from all caches and dicts that hold them, or a tuple or list with them; attributes stay."""
    for _ in range(_MAX_DEPTH):
        held = held[:_MOST_SEARCHED]
        ids = set(map(id, held))
        holders = gc.get_referrers(*held) if held else []
        ids.add(id(held))
        held = [x for x in holders if isinstance(x, (tuple, list)) and id(x) not in ids]
        for holder in holders:
            if type(holder) is _Cache:
                holder.cache_clear()
            elif isinstance(holder, dict) and not _is_namespace(holder):
                for key in [key for key, value in holder.items() if id(value) in ids]:
                    del holder[key]


def _has_all(container: Any, before: Any) -> bool:
    """Return whether a container still has all of its former items, each at its place."""
    if isinstance(container, dict):
        return all(name in container and container[name] is value for name, value in before.items())
    if isinstance(container, set):
        return bool(container >= before)
    return len(container) >= len(before) and all(new is old for new, old in zip(container, before, strict=False))


def _is_namespace(names: dict[Any, Any]) -> bool:
    """Return whether a dict holds the attributes of an object or the globals of a module."""
    owners = (x for x in gc.get_referrers(names) if not isinstance(x, FunctionType))
    return any(getattr(x, "__dict__", None) is names for x in owners)


def _described(tensors: Sequence[Tensor]) -> str:
    shapes = [str(tuple(tensor.shape)) for tensor in tensors]
    return f"{len(shapes)} tensor{'s' * (len(shapes) > 1)} ({', '.join(shapes[:3])}{', …' * (len(shapes) > 3)})"
