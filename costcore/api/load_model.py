"""Models and inputs as the command line names them."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from costcore.errors import WEIGHTS, CostError
from costcore.ir import BITS, Tensor
from costcore.registry.frontends import frontend_of, reader_of, specs

MOST_NAMES = 10
"""Names of a module that a message lists."""

INPUT_FORMS = "1x3x224x224, NAME=1x3x224x224, NAME=1x128:int64, or NAME:=9 and NAME:=[2,3] for values"


@contextmanager
def looking_in(folders: Sequence[str], target: object) -> Iterator[None]:
    """Look for modules in ``folders`` and then, where ``target`` names code, in the current one as ``python -m`` does.

    A file of a model is only read: nothing beside it is to be imported.
    """
    path = sys.path
    here = [""] if isinstance(target, str) and not target.endswith(".json") and not reader_of(target) else []
    sys.path = [*folders, *here, *path]
    try:
        yield
    finally:
        sys.path = path


def load_model(target: str) -> Any:
    """The model that ``target`` names: a path that a frontend reads as it is, else what ``module:factory`` returns.

    ``module`` is ``package.module`` or ``file.py``; ``factory`` is a function or class called without arguments, or a
    model. This runs the user's code.

    Raises:
        ValueError: where ``target`` has none of these forms.
        CostError: where the code cannot be found or fails, or gives no model; says where, or what it gave.
    """
    check_target(target)
    if reader_of(target):
        return target
    source, _, name = target.rpartition(":")
    module = _run(f"{source} cannot be loaded", lambda: _import(source))
    factory = module
    for part in name.split("."):
        if not hasattr(factory, part):
            raise CostError(f"{source} has no {name!r}; {_offered(module, name)}")
        factory = getattr(factory, part)
    is_called = inspect.isclass(factory) or inspect.isroutine(factory) or isinstance(factory, partial)
    if is_called:
        factory = _run(f"{target} failed", factory)
    if factory is None:
        raise CostError(f"{target} gave None; expected a model, or a function without arguments that returns one")
    try:
        frontend_of(factory)
    except CostError as error:
        if is_called:
            raise CostError(f"what {target} returned: {error}") from error
        raise CostError(f"{target}: {error}, or a function without arguments that returns one of these") from error
    return factory


def _offered(module: ModuleType, name: str) -> str:
    """What a module offers: names alike first, then its own, then what it imported; no modules."""
    things = {word: thing for word, thing in vars(module).items() if not word.startswith("_")}
    words = [word for word, thing in things.items() if not inspect.ismodule(thing)]
    words.sort(key=lambda word: getattr(things[word], "__module__", module.__name__) != module.__name__)
    names = [*dict.fromkeys([*get_close_matches(name, words, MOST_NAMES), *words])]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"it offers {', '.join(names[:MOST_NAMES]) or 'nothing'}{more}"


def check_target(target: str) -> None:
    """Refuse what cannot name a model.

    Raises:
        ValueError: saying what is accepted.
    """
    source, _, name = target.rpartition(":")
    if not reader_of(target) and not (source and name):
        suffixes = " or ".join(suffix for spec in specs().values() for suffix in spec.suffixes)
        known = f"a path ending in {suffixes}, package.module:factory, file.py:factory"
        raise ValueError(f"{target!r} is no model{_lacking(target)}; accepted are {known}")


def _lacking(target: str) -> str:
    """What the path of a source file, of a file of weights or of a directory lacks."""
    if target.endswith(".py"):
        return f": the name of what makes it is missing, {target}:NAME"
    if target.endswith(WEIGHTS):
        return ": weights do not say how they are used; name the code that makes the model"
    return ": it is a directory" if Path(target).is_dir() else ""


def parse_inputs(texts: Sequence[str]) -> Any:
    """Inputs as ``--input`` gives them: None for none, one shape for a single unnamed one, a tuple, or a dict by name.

    Raises:
        ValueError: for a text that is none of :data:`INPUT_FORMS`, or where named and unnamed are mixed.
    """
    named: dict[str, Any] = {}
    unnamed: list[Any] = []
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_value = name.endswith(":")
        name = name.removesuffix(":")
        if separator and not name:
            raise ValueError(f"--input {text!r} has an empty name; accepted are {INPUT_FORMS}")
        if name in named:
            raise ValueError(f"--input {name!r} is given twice")
        if is_value:
            named[name] = _json(text, value)
        elif separator:
            named[name] = _value(text, value)
        else:
            unnamed.append(_value(text, value))
    if named and unnamed:
        raise ValueError("--input is given both with and without names; name all of them or none")
    if named:
        return named
    return None if not unnamed else unnamed[0] if len(unnamed) == 1 else tuple(unnamed)


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Named dimensions as ``--dim batch=8`` gives them.

    Raises:
        ValueError: for a text of another form, or a name that is given twice.
    """
    dims: dict[str, int] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        if not (separator and name and value.isdecimal()):
            raise ValueError(f"--dim {text!r} is not of the form NAME=8")
        if name in dims:
            raise ValueError(f"--dim {name!r} is given twice")
        dims[name] = int(value)
    return dims


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Shapes of values inside the model as ``--shape h=batch,8`` gives them; numbers alone also as ``--shape h=1x8``.

    Raises:
        ValueError: for a text of another form, or a name that is given twice.
    """
    shapes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        sizes = value.split("x" if re.fullmatch(r"\d+(x\d+)*", value) else ",")
        if not (separator and name and all(size.isdecimal() or size.isidentifier() for size in sizes)):
            raise ValueError(f"--shape {text!r} is not of the form NAME=batch,8 or NAME=1x8")
        if name in shapes:
            raise ValueError(f"--shape {name!r} is given twice")
        shapes[name] = tuple(int(size) if size.isdecimal() else size for size in sizes)
    return shapes


def _value(text: str, value: str) -> Any:
    if value.startswith("["):
        return _json(text, value)
    match = re.fullmatch(r"(\d+(?:x\d+)*|scalar)(?::(\w+))?", value)
    if not match:
        raise ValueError(f"--input {text!r} is not understood; accepted are {INPUT_FORMS}")
    shape = () if match[1] == "scalar" else tuple(int(size) for size in match[1].split("x"))
    if match[2] is None:
        return shape
    if match[2] not in BITS:
        raise ValueError(f"--input {text!r}: unknown element type {match[2]!r}; known are {', '.join(BITS)}")
    return Tensor(shape, match[2])


def _json(text: str, value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"--input {text!r}: {error}; accepted are {INPUT_FORMS}") from error


_files: dict[tuple[Path, int, int], ModuleType] = {}
"""Source files that were run, by path, time and size, and what came of them: two models of one file are of one run."""


def _import(source: str) -> ModuleType:
    if not source.endswith(".py"):
        return import_module(source)
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {source}")
    stat = path.stat()
    key = path.resolve(), stat.st_mtime_ns, stat.st_size
    if key in _files:
        return _files[key]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is no Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    _files[key] = module
    return module


def _run(problem: str, action: Any) -> Any:
    """Run the user's code, and say where it failed; it can fail in any way it likes."""
    try:
        return action()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = next((f for f in reversed(frames) if f.filename != __file__ and "importlib" not in f.filename), None)
        place = f" at {last.filename}:{last.lineno}" if last else ""
        if isinstance(error, ModuleNotFoundError):
            place += "; --python-path DIR says where to look for modules, beside the current folder"
        raise CostError(f"{problem}: {type(error).__name__}: {error}{place}") from error
