"""The registered frontends: which one takes a model, and importing it when it is needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any, cast

from costcore.errors import WEIGHTS, WEIGHTS_ONLY, CostError
from costcore.frontend import Frontend, FrontendSpec
from costcore.messages import shortly
from costcore.plugins import cached, lists
from costcore.translate import Row


@cached
def specs() -> Mapping[str, FrontendSpec]:
    """Every registered frontend by name.

    Raises:
        CostError: where two plug-ins offer a frontend of the same name, or one fails; names it.
    """
    found: dict[str, FrontendSpec] = {}
    for part in lists("costcore_frontends", FrontendSpec):
        for spec in part:
            if spec.name in found:
                raise CostError(f"two frontends are named {spec.name!r}: {found[spec.name].path} and {spec.path}")
            found[spec.name] = spec
    return found


@cached
def rows(name: str) -> tuple[Row, ...]:
    """The whole table of a frontend: rows of plug-ins, the last registered first, then its own.

    Raises:
        CostError: where a plug-in fails; names it.
    """
    parts = [*lists("costcore_rows", Row, frontend=name)]
    extra = [row for part in reversed(parts) for row in part]
    return (*extra, *load(name).ROWS)


def load(name: str) -> Frontend:
    """The frontend of that name, imported, and its framework with it.

    Raises:
        ValueError: for an unknown name.
        CostError: where its framework cannot be imported.
    """
    if name not in specs():
        raise ValueError(f"unknown frontend {name!r}; known are {', '.join(sorted(specs()))}")
    spec = specs()[name]
    try:
        return cast(Frontend, import_module(spec.path))
    except ImportError as error:
        if not _is_missing(spec.framework):
            raise CostError(f"the {name} frontend cannot be imported: {error}") from error
        is_ours = spec.path.startswith("costcore.")  # which has an extra for the framework of each
        how = f'install it with: pip install "costcore[{spec.framework}]"' if is_ours else f"install {spec.framework}"
        raise CostError(
            f"the {name} frontend needs {spec.framework}, which cannot be imported ({error}); {how}"
        ) from error


def _is_missing(framework: str) -> bool:
    return framework not in sys.modules and find_spec(framework) is None


def loaded() -> list[str]:
    """The frontends whose framework this process has imported already."""
    return [name for name, spec in specs().items() if spec.framework in sys.modules]


def _hint(model: object) -> str:
    """What to do with something that is nearly a model."""
    if isinstance(model, type):
        return f": a class, not an object of it, {model.__name__}(…)"
    if isinstance(model, (str, PathLike)):
        path = fsdecode(model)
        if Path(path).is_dir():
            return ": it is a directory"
        if path.endswith(".json"):
            return ": a saved report is read by Report.from_json"
        return f": {WEIGHTS_ONLY}" if path.endswith(WEIGHTS) else ""
    if isinstance(model, Mapping) and model and all(hasattr(value, "shape") for value in model.values()):
        return f": {WEIGHTS_ONLY}"
    return ""


def reader_of(path: str | PathLike[Any]) -> str:
    """The name of the frontend that reads files of that name; ``""`` where none does."""
    return next((spec.name for spec in specs().values() if fsdecode(path).endswith(spec.suffixes or ("\0",))), "")


def fitting(target: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of ``options`` those that a model may be given: without the ones that only files of other frontends take."""
    reader = reader_of(target)
    own = specs()[reader].options if reader else {}
    foreign = {name for spec in specs().values() for name in spec.options} - own.keys()
    return {name: value for name, value in options.items() if name not in foreign}


def frontend_of(model: object) -> Frontend:
    """The frontend that takes ``model``: by file name for a path, else by asking those whose framework is imported.

    Raises:
        CostError: where none does.
    """
    if isinstance(model, (str, PathLike)) and (reader := reader_of(model)):
        return load(reader)
    is_file = isinstance(model, (bytes, bytearray, memoryview))
    readers = [spec.name for spec in specs().values() if spec.suffixes] if is_file else []
    for name in dict.fromkeys([*loaded(), *readers]):
        frontend = load(name)
        if frontend.accepts(model):
            return frontend
    known = ", ".join(sorted(specs()))
    raise CostError(
        f"no frontend takes {shortly(model)} ({type(model).__name__}){_hint(model)}; accepted are a torch.nn.Module, a "
        f"chainer.Link, an ONNX ModelProto, its bytes, or the path of an .onnx file (frontends: {known})"
    )
