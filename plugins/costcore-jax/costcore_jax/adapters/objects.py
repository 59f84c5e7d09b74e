"""Adapter of callable objects with arrays that belong to no known library, such as user classes and pytrees.

Their floating-point arrays are learned. In collections of Flax, such as ``{"params": ..., "batch_stats": ...}``, arrays
outside of ``params`` are state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from ..values import Owner, Program
from . import FUNCTIONS, MOST_ITEMS, has_collections, is_jitted, names, of_closure, of_model, owner

has_state = False
"""These objects are not changed in place, so a function may also take them as plain arguments."""

MOST_PARTS, DEEPEST = 100_000, 50
"""The maximum number of objects that are searched in a model, and how deep."""

_NO_MODELS = (type, *FUNCTIONS, jax.Array, jax.ShapeDtypeStruct)


def accepts(model: object) -> bool:
    """Return True for a callable object with floating-point JAX arrays, also inside other objects."""
    is_object = callable(model) and not isinstance(model, _NO_MODELS) and not is_jitted(model)
    return is_object and not hasattr(model, "__func__") and _has_arrays(model)  # Equinox wraps methods in objects


def is_model(value: object) -> bool:
    """Return whether a value is an object that :func:`accepts` accepts, or a dict of Flax collections."""
    return _has_arrays(value) if has_collections(value) else accepts(value)


def is_argument(value: object) -> bool:
    """Return whether an argument is an object that :func:`accepts` accepts, and a pytree, as JAX requires."""
    return accepts(value) and _is_pytree(value)


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of an object."""
    library = sys.modules[__name__]
    if not _is_pytree(model):
        return of_closure(model, [("", library, model)], args, kwargs)
    return of_model(library, model)


def split(models: Mapping[str, Any], are_abstract: bool = True) -> tuple[Any, Callable[[Any], Mapping[str, Any]]]:
    """Return the arrays of models by path, and a function that builds the models from arrays.

    Without ``are_abstract``, models need not be pytrees; the function then returns the given models.
    """
    paths: dict[int, str] = {}
    arrays: dict[str, Any] = {}
    for path, array in _arrays_in("", dict(models)):
        if id(array) not in paths:
            paths[id(array)], arrays[path] = path, array
    if not are_abstract:
        return arrays, lambda _: models
    found, tree = jax.tree_util.tree_flatten_with_path(dict(models))
    labels = [paths.get(id(leaf)) or ".".join(names(path)) for path, leaf in found]
    rest = [None if _is_array(leaf) else leaf for _, leaf in found]
    variables = {
        label: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        for label, (_, leaf) in zip(labels, found, strict=True)
        if _is_array(leaf)
    }
    return variables, lambda given: jax.tree.unflatten(
        tree, [given.get(label, leaf) for label, leaf in zip(labels, rest, strict=True)]
    )


def updated(models: Mapping[str, Any], before: Sequence[Any]) -> tuple[()]:
    """Return nothing: functions of JAX return changed objects."""
    return ()


def arrays_of(made: Any) -> Any:
    """Return the arrays of a result, which may contain an updated model."""
    return [leaf for leaf in jax.tree.leaves(made) if hasattr(leaf, "dtype")]


def modules_of(model: Any) -> dict[str, Any]:
    """Return the callable objects in a model by path; an object with several paths has its first."""
    found: dict[str, Any] = {}
    for path, value in _inside("", model, 0, set()):
        if accepts(value):
            found.setdefault(path, value)
    return found


def owner_of(path: Sequence[Any]) -> Owner:
    """Return the owner of an array by its path in the variables of :func:`split`."""
    keys = path[0].key.split(".")
    for collection in ("params", "batch_stats"):  # module scopes of Flax begin after this key
        if collection in keys:
            start = len(keys) - keys[::-1].index(collection)
            return owner("param" if collection == "params" else "state", keys[start:])
    return owner("param", [key for key in keys if key])


def _is_pytree(model: object) -> bool:
    # Whether all its arrays are leaves. In Penzai they are not: its leaves are variables that hold arrays.
    leaves = set(map(id, jax.tree.leaves(model)))
    return all(id(array) in leaves for _, array in _arrays_in("", model))


def _is_array(value: object) -> bool:
    return isinstance(value, (jax.Array, jax.ShapeDtypeStruct))


def _has_arrays(value: Any) -> bool:
    return any(jax.numpy.issubdtype(array.dtype, jax.numpy.inexact) for _, array in _arrays_in("", value))


def _arrays_in(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield from ((path, each) for path, each in _inside(path, value, 0, set()) if _is_array(each))


def _inside(path: str, value: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield an object and all parts of it by path, depth first."""
    if id(value) in seen or depth > DEEPEST or len(seen) > MOST_PARTS:
        return
    seen.add(id(value))
    yield path, value
    if isinstance(value, (str, bytes, *_NO_MODELS)):
        return
    if isinstance(value, Mapping):
        parts: Any = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        slots = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
        listed = [name for names in slots for name in ((names,) if isinstance(names, str) else names)]
        parts = {**{name: getattr(value, name, None) for name in listed}, **getattr(value, "__dict__", {})}.items()
    if len(parts := [*parts]) <= MOST_ITEMS:
        for name, part in parts:
            yield from _inside(f"{path}.{name}" if path else str(name), part, depth + 1, seen)
