"""The adapter of a model. Functions as programs: learned arguments, models among the arguments or closed over."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from costcore.errors import CostError

from ..values import Owner, Program
from . import is_jitted, modules_in, names, of_models, owner, owner_by_path, scoped_calls

Adapter = Callable[[Any, list[Any], dict[str, Any], tuple[int, ...]], Program]
"""A function of a model, its arguments by position and by name, and the positions of learned arguments."""

LIBRARIES: Mapping[str, str] = {
    "flax.linen": "linen",
    "flax.nnx": "nnx",
    "haiku": "haiku",
    "equinox": "equinox",
    "keras": "keras",
}
"""The module of this package that adapts models of a library."""

OBJECTS = ("flax.nnx", "equinox")
"""Libraries whose models are objects with arrays in them, which functions take as arguments or close over."""

FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial, jax.custom_jvp, jax.custom_vjp, jnp.ufunc)

DEEPEST = 8
"""The most functions inside each other that are searched for models."""


def adapter_of(model: object) -> Adapter | None:
    """Return the adapter of a model, None if it is neither a function nor a module of a library on JAX."""
    for library in _imported(LIBRARIES):
        if library.accepts(model):
            found: Adapter = library.adapt
            return found
    return adapt if is_jitted(model) or isinstance(model, FUNCTIONS) else None


def _imported(libraries: Iterable[str]) -> Iterator[Any]:
    for library in libraries:
        if library in sys.modules:
            yield import_module(f"costcore_jax.adapters.{LIBRARIES[library]}")


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return a function as a program.

    Its variables are the models among its arguments or, if there are none, in its closure; of Flax also the ``params``
    of a train state. Arguments at positions ``params`` are variables in place of these models.

    Arguments that became variables stay in ``args`` and ``kwargs`` as None.
    """
    if (args or kwargs) and _takes_nothing(model):
        raise CostError(f"{name_of(model)} takes no arguments. If it makes a model, call it and pass the model")
    for library in _imported(OBJECTS):
        found = {key: value for key, value in _all(args, kwargs) if library.is_argument(value)}
        if found and (library.has_state or not params):
            return _of_arguments(library, model, found, args, kwargs, params)
    if not params:
        params = tuple(i for i, value in enumerate(args) if _is_train_state(value))
        closed_over = [*_closed_over(model)]
        if not params and closed_over:
            return _of_closure(model, closed_over, args, kwargs)
    return _of_learned(model, args, params)


def name_of(function: Any) -> str:
    """Return the name of a function, or of the class of an object that can be called."""
    return getattr(function, "__name__", type(function).__name__)


def _all(args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[int | str, Any]]:
    yield from enumerate(args)
    yield from kwargs.items()


def _takes_nothing(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function without a signature
        return False


# Learned arguments


def _of_learned(model: Any, args: list[Any], params: tuple[int, ...]) -> Program:
    variables = [args[i] for i in params]
    states = {number for number, i in enumerate(params) if _is_train_state(args[i])}
    for i in params:
        args[i] = None
    name = name_of(model)

    def function(variables: list[Any], *given: Any, **by_name: Any) -> Any:
        complete = _completed(given, dict(zip(params, variables, strict=True)))
        made = model(*complete, **by_name)
        _check_arrays(name, made)
        return made, ()

    def owner_of(path: Sequence[Any]) -> Owner:
        return _owner_in_state(path[1:]) if path[0].idx in states else owner_by_path(path[1:])

    return Program(function, variables, owner_of, types={"": name})


def _completed(given: Sequence[Any], missing: Mapping[int, Any]) -> list[Any]:
    return [missing.get(i, value) for i, value in enumerate(given)]


def _check_arrays(name: str, made: Any) -> None:
    """Check that a function computed something, and did not make a model.

    Raises:
        CostError: if it made a model.
    """
    for leaf in jax.tree.leaves(made):
        if callable(leaf) and not hasattr(leaf, "shape"):
            raise CostError(f"{name} makes a model ({type(made).__name__}). Call it and pass the model")


def _is_train_state(value: Any) -> bool:
    module = sys.modules.get("flax.training.train_state")
    return module is not None and isinstance(value, module.TrainState)


def _owner_in_state(path: Sequence[Any]) -> Owner:
    """Return the owner of a variable in a train state of Flax; what its optimizer keeps is data."""
    first, *keys = names(path)
    if first == "params":
        return owner_by_path(path[1:])
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
    try:
        return [*inspect.signature(function).parameters]
    except (TypeError, ValueError):  # a function without a signature
        return []


# Models that a function closes over, such as ``jax.vmap(model)``


def _of_closure(
    model: Any, closed_over: Sequence[tuple[str, Any, Any]], args: list[Any], kwargs: dict[str, Any]
) -> Program:
    """Return a function whose variables are the arrays of models that it closes over.

    JAX makes constants of these arrays, so the function is traced once, and its constants become arguments.

    Args:
        model: the function.
        closed_over: the models: label, library and model.
        args: its arguments by position.
        kwargs: its arguments by name.
    """
    while is_jitted(model):  # constants inside of jitted functions are not among those of the trace
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
        types={path: type(module).__name__ for path, module in modules.items()},
    )


def _closed_over(function: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the models that a function closes over: name of the variable, library and model."""
    libraries = [*_imported(OBJECTS)]
    seen: set[int] = set()

    def visit(label: str, value: Any, depth: int) -> Iterator[tuple[str, Any, Any]]:
        if id(value) in seen or depth > DEEPEST or not callable(value):
            return
        seen.add(id(value))
        library = next((each for each in libraries if each.is_model(value)), None)
        if library is not None:
            yield label, library, value
            return
        if isinstance(value, partial):
            inside = [*enumerate((value.func, *value.args)), *value.keywords.items()]
        elif isinstance(value, MethodType):
            inside = [("", value.__self__), ("", value.__func__)]
        elif isinstance(value, FunctionType):
            inside = [*_variables_of(value)]
        else:
            inside = []
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            inside = [("", wrapped), *inside]
        for name, part in inside:
            yield from visit(str(name), part, depth + 1)

    if libraries:
        yield from visit("", function, 0)


def _variables_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables around a function that its code names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: CodeType) -> Iterator[str]:
    yield from (each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
