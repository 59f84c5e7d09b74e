"""Models and inputs in the notation of the command line."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from costcore.errors import CHECKPOINT_SUFFIXES, EXPORTED_PROGRAM_SUFFIX, READERS_TO_INSTALL, CostError, FileError
from costcore.files import exists, is_file, is_folder, read_file
from costcore.ir import BITS, Tensor
from costcore.ledger.caveats import EVALUATION, TRAIN, mode_of
from costcore.messages import did_you_mean, short_repr, unknown
from costcore.numbers.dims import whole_number
from costcore.plugins import with_left_out
from costcore.registry.frontends import frontend_of, is_supported, needs_package, reader_of, specs
from costcore.registry.libraries import is_saved_report, library_model, library_target
from costcore.reports.data.report_data import ReportData

MAX_NAMES = 10
"""The maximum number of names of a module in a message."""

INPUT_FORMS = (
    "1x3x224x224, 1x128:int64, batch,3,16*h,16*w for formulas in sizes, scalar, NAME=1x3x224x224, or [2,3], NAME:=9 "
    "and NAME:=[2,3] for values"
)


@contextmanager
def module_search_path(folders: Sequence[str], target: object) -> Iterator[None]:
    """Add ``folders`` to the module search path, and the current folder too if ``target`` names Python code.

    If ``target`` is a model file, the current folder is not added, because a model file must not import code.
    """
    path = sys.path
    is_code = isinstance(target, str) and not is_saved_report(target) and not reader_of(target)
    sys.path = [*folders, *([""] if is_code else []), *path]
    try:
        yield
    finally:
        sys.path = path


MODES = (TRAIN, EVALUATION)
"""The modes into which a model can be put."""


def in_mode(model: Any, target: str, mode: str | None, is_step: bool) -> str:
    """Put a model into the mode in which it is counted, and return that mode if it was put into one.

    A model is counted in the mode in which it comes, by every command and function. A model of a library comes in
    evaluation mode, for a training step in train mode.

    Args:
        model: the model; one without modes stays as it is.
        target: the target that it was loaded from.
        mode: one of :data:`MODES`, which replaces the mode in which it comes; None for that one.
        is_step: whether a training step is counted.

    Raises:
        CostError: if the model cannot be put into this mode.
    """
    if mode is None and is_step and library_target(target):
        mode = TRAIN
    if mode is None or not has_modes(model):
        return ""
    _run_user_code(f"{target} cannot be put into {mode} mode", partial(model.train, mode == TRAIN))
    return mode


def has_modes(model: Any) -> bool:
    """Return whether a model can be put into train mode and evaluation mode."""
    return hasattr(model, "training") and callable(getattr(model, "train", None))


def check_report(report: ReportData, model: Any, target: str, mode: str | None, is_step: bool) -> None:
    """Check that a report is what was asked for, although its model could not be changed or captured for that.

    Args:
        report: the report.
        model: the model, such as the path of a file; None for a report that was there.
        target: its name.
        mode: as for :func:`in_mode`.
        is_step: as for :func:`in_mode`.

    Raises:
        CostError: if it is of another mode, or has no backward pass.
    """
    if model is None and is_step and not report.trace.has_backward:
        raise CostError(f"{target} has no backward pass: save the report of a training step (backward=True)")
    ran = mode_of(report.trace)
    if mode is not None and ran not in ("", mode) and not has_modes(model):
        raise CostError(f"{target} runs in {ran} mode: only a PyTorch module of a target can be put into {mode} mode")


def load_model(target: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return the model that ``target`` names: the path of a model file, or the result of ``module:factory``.

    A model of a library, ``timm:resnet50``, is made without weights. Otherwise ``module`` is ``package.module`` or
    ``file.py``. ``factory`` is a function or class, or a model. The code of the module and of the factory is run. A
    function that needs arguments is the model itself if a frontend counts functions, as that of JAX does.

    Args:
        target: the path, or module and factory.
        arguments: what to call the factory with; default: nothing, and a model is not called.

    Raises:
        ValueError: if ``target`` has another form.
        CostError: if the code cannot be found or fails, or its result is not a model.
    """
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
            "Write a function without arguments that returns the model."
        )
    model = _run_user_code(f"{target} failed", partial(factory, **(arguments or {}))) if is_called else factory
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
    module = _run_user_code(f"{source} cannot be loaded", lambda: _import(source), near)
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


def parse_inputs(texts: Sequence[str]) -> Any:
    """Return the inputs in the arguments of ``--input``.

    The result is None for no argument, one shape for a single unnamed input, a tuple for several, and a dict for named
    inputs.

    Raises:
        ValueError: if an argument does not have one of :data:`INPUT_FORMS`, or only some inputs have names.
    """
    named: dict[str, Any] = {}
    unnamed: list[Any] = []
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_value = name.endswith(":")
        name = name.removesuffix(":")
        if separator and not name:
            raise ValueError(f"--input {short_repr(text)} has an empty name (expected {INPUT_FORMS})")
        if name in named:
            raise ValueError(f"--input {name!r} is given twice")
        if is_value:
            named[name] = _parse_json(text, value)
        elif separator:
            named[name] = _parse_input(text, value)
        else:
            unnamed.append(_parse_input(text, value))
    if named and unnamed:
        raise ValueError("--input is given both with and without names. Name all inputs or none.")
    if named:
        return named
    return None if not unnamed else unnamed[0] if len(unnamed) == 1 else tuple(unnamed)


_EXPRESSION = re.compile(r"[\s\w+*/()-]*[^\W\d][\s\w+*/()-]*")
"""A size with names in it, such as ``past + new``."""


def parse_dims(texts: Sequence[str]) -> dict[str, int | str]:
    """Return the named dimensions in the arguments of ``--dim``, such as ``batch=8`` or ``total=past+new``.

    Raises:
        ValueError: if an argument has another form, or a name is given twice.
    """
    dims: dict[str, int | str] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_size = value.isdecimal() or _EXPRESSION.fullmatch(value)
        if not (separator and name and is_size):
            raise ValueError(
                f"--dim {short_repr(text)} is invalid (expected NAME=N, such as batch=8, or NAME=past+new)"
            )
        if name in dims:
            raise ValueError(f"--dim {name!r} is given twice")
        dims[name] = _number("--dim", text, value) if value.isdecimal() else value
    return dims


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the shapes in the arguments of ``--shape``, such as ``h=batch,8``, or ``h=1x8`` for numbers only.

    Raises:
        ValueError: if an argument has another form, or a name is given twice.
    """
    shapes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        sizes = value.split("x" if re.fullmatch(r"\d+(x\d+)*", value) else ",")
        if not (separator and name and all(size.isdecimal() or size.isidentifier() for size in sizes)):
            raise ValueError(f"--shape {short_repr(text)} is invalid (expected NAME=batch,8 or NAME=1x8)")
        if name in shapes:
            raise ValueError(f"--shape {name!r} is given twice")
        shapes[name] = tuple(_number("--shape", text, size) if size.isdecimal() else size for size in sizes)
    return shapes


def _parse_input(text: str, value: str) -> Any:
    shape: tuple[Any, ...]
    if value.startswith("["):
        return _parse_json(text, value)
    match = re.fullmatch(r"(\d+(?:x\d+)*|scalar|[^:]+,[^:]*)(?::(\w+))?", value)
    if not match:
        raise ValueError(f"--input {short_repr(text)} is invalid (expected {INPUT_FORMS})")
    if "," in match[1]:
        shape = _named_shape(text, match[1])
    else:
        shape = () if match[1] == "scalar" else tuple(_number("--input", text, size) for size in match[1].split("x"))
    if match[2] is None:
        return shape
    if match[2] not in BITS:
        raise ValueError(f"--input {short_repr(text)}: {unknown('dtype', match[2], BITS)}")
    return Tensor(shape, match[2])


def _named_shape(text: str, value: str) -> tuple[Any, ...]:
    """Return a shape with names: ``batch,3,16*h,16*w``, or ``seq,`` for one axis."""
    sizes = [size.strip() for size in value.removesuffix(",").split(",")]
    if not all(size.isdecimal() or _EXPRESSION.fullmatch(size) for size in sizes):
        raise ValueError(f"--input {short_repr(text)} is invalid (expected {INPUT_FORMS})")
    return tuple(_number("--input", text, size) if size.isdecimal() else size for size in sizes)


def _parse_json(text: str, value: str) -> Any:
    try:
        return json.loads(value, parse_int=lambda digits: _number("--input", text, digits))
    except json.JSONDecodeError as error:
        raise ValueError(f"--input {short_repr(text)}: {error} (expected {INPUT_FORMS})") from error
    except RecursionError as error:
        raise ValueError(f"--input {short_repr(text)} is nested too deeply (expected {INPUT_FORMS})") from error


def _number(option: str, text: str, digits: str) -> int:
    try:
        return whole_number(digits)
    except ValueError as error:
        raise ValueError(f"{option} {short_repr(text)}: {error}") from error


_imported_files: dict[tuple[Path, int, int], ModuleType] = {}
"""Imported source files by path, time of modification and size, so that a file with several models is run once."""


def _import(source: str) -> ModuleType:
    if not source.endswith(".py"):
        return import_module(source)
    path = Path(source)
    stat = path.stat()
    key = path.resolve(), stat.st_mtime_ns, stat.st_size
    if key in _imported_files:
        return _imported_files[key]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    _imported_files[key] = module
    return module


def _run_user_code(problem: str, action: Any, near: str = "") -> Any:
    """Run code of the user, and turn any exception into a ``CostError`` with the location of the failure.

    ``near`` ends the message if a module is not found.
    """
    try:
        return action()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = next((f for f in reversed(frames) if f.filename != __file__ and "importlib" not in f.filename), None)
        message = f"{problem}: {type(error).__name__}: {error}"
        if last:
            message += f" at {last.filename}:{last.lineno}"
        if isinstance(error, ModuleNotFoundError):
            message += ". Use --python-path DIR to search for modules in DIR as well as in the current folder" + (
                near or "."
            )
        raise CostError(message) from error
