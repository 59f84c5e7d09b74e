"""Models by their targets on the command line: files, models of libraries, and code of the user."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from costcore.api.target_arguments import arguments_of
from costcore.api.user_code import import_source, run_user_code
from costcore.errors import CHECKPOINT_SUFFIXES, EXPORTED_PROGRAM_SUFFIX, READERS_TO_INSTALL, CostError, FileError
from costcore.files import exists, is_file, is_folder, read_file
from costcore.messages import did_you_mean
from costcore.plugins import with_left_out
from costcore.registry.frontends import frontend_of, is_supported, needs_package, reader_of, specs
from costcore.registry.libraries import library_model, library_target

MAX_NAMES = 10
"""The maximum number of names of a module in a message."""


def load_model(target: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return the model that ``target`` names: the path of a model file, or the result of ``module:factory``.

    A model of a library, ``timm:resnet50``, is made without weights. Otherwise ``module`` is ``package.module`` or
    ``file.py``. ``factory`` is a function or class, or a model. The code of the module and of the factory is run. A
    function that needs arguments is the model itself if a frontend counts functions, as that of JAX does.

    Args:
        target: the path, or module and factory, perhaps with arguments, ``net.py:make(width=0.5)``.
        arguments: what to call the factory with; default: what the target states, and a model is not called.

    Raises:
        ValueError: if ``target`` has another form.
        CostError: if the code cannot be found or fails, or its result is not a model.
    """
    if arguments is None:
        target, arguments = arguments_of(target)
    check_target(target)
    if reader_of(target):
        if arguments:
            raise CostError(f"{target} is a file, which has no arguments")
        return target
    library = library_target(target)
    if library is not None:
        if arguments:
            raise CostError(f"{target} is a model of a library, which has no arguments")
        return library_model(library)
    factory = load_object(target)
    is_factory = inspect.isclass(factory) or inspect.isroutine(factory) or isinstance(factory, partial)
    is_called = bool(arguments) or (is_factory and not _is_model_itself(factory))
    if is_called and not arguments and (required := _required(factory)):
        raise CostError(
            f"{target} needs arguments ({', '.join(required)}). "
            f"Pass them, '{target}({required[0]}=…)', or write a function without arguments that returns the model."
        )
    model = run_user_code(f"{target} failed", partial(factory, **(arguments or {}))) if is_called else factory
    if model is None:
        verb = "returned" if is_called else "is"
        raise CostError(
            f"{target} {verb} None (expected a model, or a function without arguments that returns a model)"
        )
    try:
        frontend_of(model)
    except CostError as error:
        if is_called:
            raise CostError(f"result of {target}: {error}") from error
        raise CostError(
            f"{target}: {str(error).rstrip('.')}. A function without arguments that returns a model works too."
        ) from error
    return model


def load_object(target: str) -> Any:
    """Return what ``package.module:name`` or ``file.py:name`` names; the code of the module is run.

    Raises:
        CostError: if the code cannot be found or fails, or has no such name.
    """
    source, _, name = target.rpartition(":")
    _check_readable(source)
    libraries = [prefix for spec in specs().values() for prefix in spec.libraries]
    near = did_you_mean([source], libraries)
    module = run_user_code(f"{source} cannot be loaded", partial(import_source, source), near)
    found = module
    for attribute in name.split("."):
        if not hasattr(found, attribute):
            near = did_you_mean([attribute], [key for key in dir(found) if not key.startswith("_")])
            raise CostError(f"{source} has no attribute {name!r}; {_names_in(module, name)}{near}")
        found = getattr(found, attribute)
    return found


def _is_model_itself(function: Any) -> bool:
    """Return whether a function that cannot be called without arguments is a model of a frontend (JAX)."""
    try:
        inspect.signature(function).bind()
    except TypeError:  # it needs arguments
        return not inspect.isclass(function) and is_supported(function)
    except ValueError:  # a function without a signature
        pass
    return False


def _check_readable(source: str) -> None:
    if source.endswith(".py"):
        if exists(source) and not is_file(source):  # Python would wait for a pipe
            raise FileError(f"{source} cannot be read: it is not a file")
        read_file(source)


def _required(factory: Any) -> list[str]:
    """Return the names of the arguments without which a factory cannot be called; empty if it does not state them."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _names_in(module: ModuleType, name: str) -> str:
    """Return a list of the names of a module: near matches of ``name``, then its definitions, then its imports."""
    values = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    names = [key for key, value in values.items() if not inspect.ismodule(value)]
    names.sort(key=lambda key: getattr(values[key], "__module__", module.__name__) != module.__name__)
    names = [*dict.fromkeys([*get_close_matches(name, names, MAX_NAMES), *names])]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"names in it are {', '.join(names[:MAX_NAMES])}{more}" if names else "it has no public names"


def check_target(target: str) -> None:
    """Check that ``target`` has a form that :func:`load_model` supports.

    Raises:
        ValueError: if it has another form; the message lists the forms.
    """
    source, _, name = target.rpartition(":")
    if library_target(target) or reader_of(target) or (source and name):
        return
    if target.endswith(".py"):
        raise ValueError(
            f"{target!r} does not name a model in the file. Append a factory or model, {_targets_in(target)}."
        )
    if target.endswith(CHECKPOINT_SUFFIXES):
        raise ValueError(
            f"{target!r} is a checkpoint, not a model. Pass the code that builds the model, as file.py:factory."
        )
    if target.endswith(EXPORTED_PROGRAM_SUFFIX):
        raise ValueError(
            f"{target!r} is an exported program. Pass the code that loads it, as file.py:factory, where factory "
            f"returns torch.export.load({target!r})."
        )
    if reader := READERS_TO_INSTALL.get(Path(target).suffix):
        raise ValueError(with_left_out(needs_package(repr(target), reader)))
    suffixes = " or ".join(suffix for spec in specs().values() for suffix in spec.suffixes)
    libraries = "".join(f"{prefix}:NAME, " for spec in specs().values() for prefix in spec.libraries)
    problem = "a directory, not a model" if target and is_folder(target) else "not a model"
    module, _, factory = target.rpartition(".")
    is_dotted = not is_folder(target) and all(part.isidentifier() for part in target.split(".")) and module
    hint = f". Did you mean {f'{module}:{factory}'!r}?" if is_dotted else ""
    message = (
        f"{target!r} is {problem} (expected a path ending in {suffixes}, package.module:factory, file.py:factory, "
        f"{libraries}or a report saved as .json){hint}"
    )
    raise ValueError(with_left_out(message))


def _targets_in(path: str) -> str:
    """Return targets in a file of Python code, which is read and not run: its classes, functions and made objects."""
    try:
        tree = ast.parse(read_file(path))
    except (OSError, SyntaxError, ValueError):
        return f"{path}:NAME"
    defined = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assigned = [
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Lambda))
        for name in node.targets
        if isinstance(name, ast.Name)
    ]
    names = [name for name in [*defined, *assigned] if not name.startswith("_")]
    listed = " or ".join(f"{path}:{name}" for name in names[:MAX_NAMES])
    return listed or f"{path}:NAME"
