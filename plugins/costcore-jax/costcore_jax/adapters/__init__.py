"""Adapters that turn functions and models of JAX libraries into programs. Each library has a module.

A function may take models as arguments, as training steps do, or close over them. These models are its variables.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from importlib import import_module
from threading import RLock
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from costcore.errors import CostError
from costcore.ir import Role
from costcore.trace.call import global_names

from ..values import MARK, Owner, Program

# The adapter of a model


Adapter = Callable[[Any, list[Any], dict[str, Any], tuple[int, ...]], Program]
"""A function ``adapt(model, args, kwargs, params)``; ``params`` are positions of learned arguments."""

LIBRARIES: Mapping[str, str] = {
    "flax.linen": "linen",
    "flax.nnx": "nnx",
    "haiku": "haiku",
    "equinox": "equinox",
    "keras": "keras",
    "jax": "objects",
}
"""The adapter module of each library; the last accepts objects that no other accepts."""

OBJECTS = ("flax.nnx", "equinox", "jax")
"""Libraries whose models are objects with arrays: functions take them as arguments or close over them."""

FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial, jax.custom_jvp, jax.custom_vjp, jnp.ufunc)

DEEPEST = 8
"""The maximum depth of nested functions and objects searched for models."""

MOST_ITEMS = 1000
"""The maximum length of a list or dict searched for models."""


def adapter_of(model: object) -> Adapter | None:
    """Return the adapter of a model; None if it is neither a function nor a module of a JAX library."""
    for library in _imported(LIBRARIES):
        if library.accepts(model):
            found: Adapter = library.adapt
            return found
    return of_function if is_jitted(model) or isinstance(model, FUNCTIONS) else None


def _imported(libraries: Iterable[str]) -> Iterator[Any]:
    for library in libraries:
        if library in sys.modules:
            yield import_module(f"costcore_jax.adapters.{LIBRARIES[library]}")


def is_jitted(model: object) -> bool:
    """Return whether a model is a jitted function, of JAX or of a library."""
    return callable(model) and hasattr(model, "lower") and hasattr(model, "__wrapped__")


# Functions


def of_function(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of a function.

    Its variables are the arguments at the positions ``params`` and NNX models. Without ``params``, they are the first
    of these that exists: models among the arguments; the arguments of :func:`_learned`; models in the closure; a first
    argument that looks like a tree of parameters, which is an assumption.

    Variables are replaced by None in ``args``, and removed from ``kwargs``, both in place.
    """
    if (args or kwargs) and _takes_nothing(model):
        raise CostError(f"{name_of(model)} takes no arguments. If it makes a model, call it and pass the model")
    for library in _imported(OBJECTS):
        found = {key: value for key, value in _all_arguments(args, kwargs) if library.is_argument(value)}
        if found and (library.has_state or not params):
            return _of_arguments(library, model, found, args, kwargs, params)
    if not params:
        _move_to_positions(model, args, kwargs)
        params = tuple(_learned(model, args))
        closed_over = [] if params else [*_closed_over(model)]
        if closed_over:
            return of_closure(model, closed_over, args, kwargs)
        if not params and _begins_with_parameters(model, args):
            first = (_parameters(model) or ["the first"])[0]
            assumed = f"the argument {first} of {name_of(model)} holds its parameters (params=… gives other positions)"
            return replace(_of_learned(model, args, (0,)), assumed=assumed)
    return _of_learned(model, args, params)


def name_of(function: Any) -> str:
    """Return the name of a function, or the class name of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


def _all_arguments(args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[int | str, Any]]:
    yield from enumerate(args)
    yield from kwargs.items()


def _takes_nothing(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function without a signature
        return False


# Functions: learned arguments


def _is_named_parameters(name: str, value: Any) -> bool:
    return name in ("params", "variables") and any(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(value))


def _move_to_positions(model: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    # Move arguments given by name to their positions.
    for name in _parameters(model)[len(args) :]:
        if name not in kwargs:
            return
        args.append(kwargs.pop(name))


def _learned(model: Any, args: Sequence[Any]) -> Iterator[int]:
    """Yield the positions of arguments that are Flax states or collections, or are named ``params`` or ``variables``.

    These names are the convention of Flax and Haiku, as in ``apply(params, x)``.
    """
    parameters = _parameters(model)
    for i, value in enumerate(args):
        is_named = i < len(parameters) and _is_named_parameters(parameters[i], value)
        if is_named or _is_train_state(value) or has_collections(value) or any(_nnx_roles(value)):
            yield i


_DATA_NAMES = re.compile("batch|cache|carry|data|example|feature|hidden|image|inputs?|obs|observations?|state|xs?")


def _begins_with_parameters(model: Any, args: Sequence[Any]) -> bool:
    # A container of floating-point arrays, beside other arguments with arrays. A name such as ``batch`` means data.
    trees = [jax.tree.leaves(value) for value in args]
    arrays = [[leaf for leaf in leaves if hasattr(leaf, "dtype")] for leaves in trees]
    if len(arrays) < 2 or not arrays[0] or not any(arrays[1:]) or jax.tree_util.all_leaves([args[0]]):
        return False
    name = (_parameters(model) or [""])[0]
    return not _DATA_NAMES.fullmatch(name) and all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in arrays[0])


def _of_learned(model: Any, args: list[Any], params: tuple[int, ...]) -> Program:
    variables = [args[i] for i in params]
    owners = [*map(owners_of, variables)]
    for i in params:
        args[i] = None
    name = name_of(model)

    def function(variables: list[Any], *given: Any, **by_name: Any) -> Any:
        complete = _completed(given, dict(zip(params, variables, strict=True)))
        made = model(*complete, **by_name)
        _check_arrays(name, made)
        return made, ()

    return Program(function, variables, lambda path: owners[path[0].idx](path[1:]), types={"": name})


def _completed(given: Sequence[Any], missing: Mapping[int, Any]) -> list[Any]:
    return [missing.get(i, value) for i, value in enumerate(given)]


def _check_arrays(name: str, made: Any) -> None:
    """Check that a function returned arrays.

    Raises:
        CostError: if it returned a model.
    """
    for leaf in jax.tree.leaves(made):
        if callable(leaf) and not hasattr(leaf, "shape"):
            raise CostError(f"{name} makes a model ({type(made).__name__}). Call it and pass the model")


def _is_train_state(value: Any) -> bool:
    # A Flax train state, or a similar named tuple or dataclass with ``params`` and the state of an optimizer.
    if isinstance(value, (Mapping, jax.Array)) or not hasattr(value, "params") or jax.tree_util.all_leaves([value]):
        return False
    return _is_named_parameters("params", value.params)


def has_collections(value: Any) -> bool:
    """Return whether a value is a dict of collections of Flax, with the parameters as ``params``."""
    return isinstance(value, Mapping) and isinstance(value.get("params"), Mapping)


def _nnx_roles(value: Any) -> Mapping[tuple[Any, ...], Role]:
    """Return a dict from the path of every variable of an NNX state to its role; empty for other values."""
    nnx = import_module("costcore_jax.adapters.nnx") if "flax.nnx" in sys.modules else None
    return {} if nnx is None else nnx.roles_in(value)


def owners_of(value: Any) -> Callable[[Sequence[Any]], Owner]:
    """Return a function that maps the path of a variable in a learned argument to its owner.

    A pytree of arrays has parameters only. Optimizer state in a Flax train state is data.
    """
    if _is_train_state(value):
        of_params = owners_of(value.params)
        return lambda path: of_params(path[1:]) if names(path)[0] == "params" else _owner_outside_params(path)
    if has_collections(value):
        return _owner_in_collections
    roles = _nnx_roles(value)
    return lambda path: owner(roles.get(tuple(names(path)), "param"), names(path)[: -1 if roles else None])


def _owner_in_collections(path: Sequence[Any]) -> Owner:
    collection, *keys = names(path)
    if collection == "opt_state":  # a training state in a dict
        return Owner("data")
    return owner("param" if collection == "params" else "state", keys)


def _owner_outside_params(path: Sequence[Any]) -> Owner:
    first, *keys = names(path)
    return owner("state", keys) if first == "batch_stats" else Owner("data")


# Models among the arguments


def _of_arguments(
    library: Any,
    model: Any,
    found: Mapping[int | str, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    params: tuple[int, ...],
) -> Program:
    parameters = _parameters(model)
    labels = {key: parameters[key] if isinstance(key, int) and key < len(parameters) else str(key) for key in found}
    models = [key for key, value in found.items() if library.is_model(value)]
    if len(models) == 1:  # it is the root of the module tree
        labels[models[0]] = ""
    params = tuple(i for i in params if i not in found)
    learned = [args[i] for i in params]
    for key in (*found, *params):
        if isinstance(key, int):
            args[key] = None
        else:
            del kwargs[key]

    def call(models: Mapping[str, Any], learned: Sequence[Any], *given: Any, **by_name: Any) -> Any:
        values = {key: models[label] for key, label in labels.items()} | dict(zip(params, learned, strict=True))
        positional = {key: value for key, value in values.items() if isinstance(key, int)}
        named = {key: value for key, value in values.items() if isinstance(key, str)}
        return model(*_completed(given, positional), **by_name, **named)

    return of_models(library, {labels[key]: value for key, value in found.items()}, call, learned)


def _parameters(function: Any) -> list[str]:
    """Return the names of the positional-or-keyword parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function without a signature
        return []
    return [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


# Models in the closure of a function, such as ``jax.vmap(model)``


def of_closure(
    model: Any, closed_over: Sequence[tuple[str, Any, Any]], args: list[Any], kwargs: dict[str, Any]
) -> Program:
    """Return the program of a function with models in its closure.

    JAX turns their arrays into constants. So the function is traced here, and these constants become arguments.

    Args:
        model: the function.
        closed_over: the label, library and model of each model.
        args: its arguments by position.
        kwargs: its arguments by name.
    """
    while is_jitted(model):  # the trace would not list constants of a jitted function
        model = model.__wrapped__
    modules: dict[str, Any] = {}
    owners: dict[int, Owner] = {}
    for label, library, each in closed_over:
        found = {label if len(closed_over) > 1 else "": each}
        modules |= modules_in(library, found)
        variables, _ = library.split(found, are_abstract=False)
        for path, array in jax.tree_util.tree_flatten_with_path(variables)[0]:
            owners.setdefault(id(array), library.owner_of(path))
    leaves, tree = jax.tree.flatten((args, kwargs))
    traced = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "dtype")]

    def of_arrays(*arrays: Any) -> Any:
        complete = list(leaves)
        for i, array in zip(traced, arrays, strict=True):
            complete[i] = array
        positional, by_name = jax.tree.unflatten(tree, complete)
        with scoped_calls(modules, parts=closed_over[0][1].modules_of):
            made = model(*positional, **by_name)
        _check_arrays(name_of(model), made)
        return made

    closed = jax.make_jaxpr(of_arrays)(*[leaves[i] for i in traced])
    learned = [i for i, constant in enumerate(closed.consts) if id(constant) in owners]
    inputs = [*closed.jaxpr.constvars, *closed.jaxpr.invars]
    run = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr.replace(constvars=[], invars=inputs), []))

    def function(variables: list[Any], *given: Any, **by_name: Any) -> Any:
        constants = list(closed.consts)
        for i, variable in zip(learned, variables, strict=True):
            constants[i] = variable
        return run(*constants, *[leaf for leaf in jax.tree.leaves((given, by_name)) if hasattr(leaf, "dtype")]), ()

    of_constants = [owners[id(closed.consts[i])] for i in learned]
    return Program(
        function,
        [jax.ShapeDtypeStruct(closed.consts[i].shape, closed.consts[i].dtype) for i in learned],
        lambda path: of_constants[path[0].idx],
        types={"": name_of(model), **{path: type(module).__name__ for path, module in modules.items()}},
    )


def _closed_over(function: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the models in the closure of a function: name of the variable, library and model."""
    libraries = [*_imported(OBJECTS)]
    seen: set[int] = set()

    def visit(label: str, value: Any, depth: int) -> Iterator[tuple[str, Any, Any]]:
        if id(value) in seen or depth > DEEPEST:
            return
        seen.add(id(value))
        library = next((each for each in libraries if each.is_model(value)), None)
        if _is_named_parameters(label, value):
            library = import_module("costcore_jax.adapters.objects")
        if library is not None:
            yield label, library, value
            return
        for name, part in _inside(value):
            yield from visit(str(name), part, depth + 1)

    if libraries:
        yield from visit("", function, 0)


def _inside(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the names and values that a function or an object refers to."""
    if isinstance(value, (type, ModuleType)):
        return
    if (wrapped := getattr(value, "__wrapped__", None)) is not None:
        yield "", wrapped
    if isinstance(value, partial):
        yield from (*enumerate((value.func, *value.args)), *value.keywords.items())
    elif isinstance(value, MethodType):
        yield from (("", value.__self__), ("", value.__func__))
    elif isinstance(value, FunctionType):
        yield from _variables_of(value)
    elif isinstance(value, (dict, list, tuple)):
        if len(value) <= MOST_ITEMS:
            yield from value.items() if isinstance(value, dict) else enumerate(value)
    else:
        yield from getattr(value, "__dict__", {}).items()


def _variables_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of closure and global variables that a function uses."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    if "site-packages" in str(function.__globals__.get("__file__")):
        return  # of a library, such as the function that ``jax.vmap`` returns
    for name in global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


# Models that are objects with arrays: Equinox and Flax NNX


def of_model(library: Any, model: Any) -> Program:
    """Return the program of a callable model; its variables are those of the model."""
    return of_models(library, {"": model}, lambda models, _, *given, **by_name: models[""](*given, **by_name))


def of_models(
    library: Any, models: Mapping[str, Any], call: Callable[..., Any], learned: Sequence[Any] = ()
) -> Program:
    """Return the program of a function that calls models; its variables are those of the models.

    Args:
        library: the adapter module of the library.
        models: the models by label, which prefixes the paths of their modules; ``""`` for a single model.
        call: the function, ``call(models, learned, *args, **kwargs)``.
        learned: further learned arguments, pytrees of abstract values.
    """
    variables, merge = library.split(models)
    owners = [*map(owners_of, learned)]
    types = {path: type(module).__name__ for path, module in modules_in(library, models).items()}

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        before = jax.tree.leaves(variables[0])  # the call may change the state in place
        merged = merge(variables[0])
        with scoped_calls(modules_in(library, merged), parts=library.modules_of):
            made = call(merged, variables[1], *given, **by_name)
        return library.arrays_of(made), library.updated(merged, before)

    def owner_of(path: Sequence[Any]) -> Owner:
        found: Owner = library.owner_of(path[1:]) if path[0].idx == 0 else owners[path[1].idx](path[2:])
        return found

    return Program(function, (variables, learned), owner_of, types=types)


def modules_in(library: Any, models: Mapping[str, Any]) -> dict[str, Any]:
    """Return all modules of models by path; paths begin with the label of the model."""
    found: dict[str, Any] = {}
    for label, model in models.items():
        for path, module in library.modules_of(model).items():
            found[".".join(filter(None, (label, path)))] = module
    return found


# Owners of variables


def names(path: Sequence[Any]) -> list[str]:
    """Return the keys of a pytree path as strings."""
    return [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]


def owner(role: Role, keys: Sequence[str]) -> Owner:
    """Return an owner: the last key is the name of the variable, the others are the module path."""
    return Owner(role, ".".join(keys[:-1]).replace("/", "."), keys[-1] if keys else "")


# Names of modules in a trace


_PATCHING = RLock()


@contextmanager
def scoped_calls(
    modules: Mapping[str, Any], method: str = "__call__", parts: Callable[[Any], Mapping[str, Any]] | None = None
) -> Iterator[None]:
    """Within this context, every call of a module enters a named scope with its path.

    The call method is patched on the classes of the modules, in one context at a time. Calls of other objects of these
    classes do not change.

    Args:
        modules: the modules by path.
        method: the name of the call method.
        parts: returns the submodules of a module by path. If given, copies of a module get its path, unless another
            module has the same class and sizes: ``jit`` and ``grad`` pass copies to functions.
    """
    paths = {id(module): path for path, module in modules.items()}
    copies = None if parts is None else _Copies(modules, paths, parts)
    classes = {owner for module in modules.values() if (owner := _defining(type(module), method)) is not None}
    with _PATCHING:
        originals = [(owner, vars(owner)[method]) for owner in classes]
        try:
            for owner, original in originals:
                type.__setattr__(owner, method, _scoped(original, paths, copies))
            yield
        finally:
            for owner, original in originals:
                type.__setattr__(owner, method, original)


class _Copies:
    """Assigns the paths of modules to their copies."""

    def __init__(
        self, modules: Mapping[str, Any], paths: dict[int, str], parts: Callable[[Any], Mapping[str, Any]]
    ) -> None:
        self._paths, self._parts = paths, parts
        self._by_sizes: dict[Any, str | None] = {}
        for path, module in modules.items():
            sizes = self._sizes(module)
            self._by_sizes[sizes] = None if sizes in self._by_sizes else path
        self._kept: list[Any] = []  # keeps copies alive, so that ids stay unique

    def add(self, module: Any) -> None:
        """Assign paths to a copy and its submodules, if only one module has this class and sizes."""
        path = self._by_sizes.get(self._sizes(module))
        if path is not None:
            self._kept.append(module)
            for inner, part in self._parts(module).items():
                self._paths.setdefault(id(part), ".".join(filter(None, (path, inner))))

    @staticmethod
    def _sizes(module: Any) -> tuple[Any, ...]:
        return type(module), *[getattr(leaf, "shape", None) for leaf in jax.tree.leaves(module)]


def _defining(kind: type, method: str) -> type | None:
    """Return the class in the MRO of ``kind`` that defines a method."""
    return next((owner for owner in kind.__mro__ if method in vars(owner) and owner is not object), None)


def _scoped(original: Any, paths: Mapping[int, str], copies: _Copies | None) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = original.__get__(self, type(self))
        if copies is not None and id(self) not in paths:
            copies.add(self)
        path = paths.get(id(self))
        if path is None:
            return call(*args, **kwargs)
        with jax.named_scope(f"{MARK}{path}"):
            return call(*args, **kwargs)

    return wraps(original)(run) if callable(original) else run


def paths_of(
    attributes: Callable[[Any], Sequence[tuple[str, Any]]], root: Any, objects: type, modules: type
) -> dict[str, Any]:
    """Return the modules of a model by path; a shared module has its first path.

    Args:
        attributes: returns the names and values of the attributes of an object.
        root: the model.
        objects: the base class of objects that may contain modules.
        modules: the base class of modules.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def visit(path: str, value: Any) -> None:
        if isinstance(value, objects):
            if id(value) in seen:
                return
            seen.add(id(value))
            if isinstance(value, modules):
                found[path] = value
            parts: Any = attributes(value)
        elif isinstance(value, (list, tuple)):
            parts = enumerate(value)
        elif isinstance(value, Mapping):
            parts = value.items()
        else:
            return
        for name, part in parts:
            visit(f"{path}.{name}" if path else str(name), part)

    visit("", root)
    return found
