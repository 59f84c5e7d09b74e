"""The registered frontends: which one supports a model, and importing it when it is needed."""

from __future__ import annotations

import inspect
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any, cast

from costcore.errors import (
    CHECKPOINT_SUFFIXES,
    EXPORTED_PROGRAM_SUFFIX,
    READERS_TO_INSTALL,
    CostError,
    UnknownOptionError,
)
from costcore.files import is_file, is_folder
from costcore.frontend import ABILITIES, Frontend, FrontendSpec
from costcore.messages import did_you_mean, short_repr, unknown
from costcore.plugins import cached, objects_from_plugins, with_left_out
from costcore.translate import Row

_HEAD = 2**16
"""How many bytes of a file are read to recognize it."""

HOW_TO_LOAD_A_CHECKPOINT = "Build the nn.Module in Python, load the checkpoint if you like, and pass the module."


@cached
def specs() -> Mapping[str, FrontendSpec]:
    """Return every registered frontend by name.

    Raises:
        CostError: if two frontends have the same name, or a plug-in fails; the message includes its name.
    """
    by_name: dict[str, FrontendSpec] = {}
    for plugin_specs in objects_from_plugins("costcore_frontends", FrontendSpec):
        for spec in plugin_specs:
            if spec.name in by_name:
                raise CostError(f"two frontends are named {spec.name!r}: {by_name[spec.name].path} and {spec.path}")
            if unheard := [name for name in spec.abilities if name not in ABILITIES]:
                raise CostError(f"frontend {spec.name!r}: {unknown('ability', unheard, ABILITIES)}")
            by_name[spec.name] = spec
    return by_name


@cached
def rows(name: str) -> tuple[Row, ...]:
    """Return all mapping rules of a frontend: those of plug-ins, the last registered first, then its own.

    Raises:
        CostError: if a plug-in fails; the message includes its name.
    """
    return (*plugin_rows(name), *load(name).ROWS)


@cached
def plugin_rows(name: str) -> tuple[Row, ...]:
    """Return the mapping rules that plug-ins add to a frontend, those of the last registered plug-in first.

    Raises:
        CostError: if a plug-in fails; the message includes its name.
    """
    by_plugin = [*objects_from_plugins("costcore_rows", Row, frontend=name)]
    return tuple(row for rows in reversed(by_plugin) for row in rows)


def load(name: str) -> Frontend:
    """Import the frontend of that name, and its framework with it, and return it.

    Raises:
        ValueError: for an unknown name.
        CostError: if its framework cannot be imported.
    """
    if name not in specs():
        raise ValueError(with_left_out(unknown("frontend", name, sorted(specs()))))
    return cast(Frontend, _imported(specs()[name], specs()[name].path))


def ability(spec: FrontendSpec, name: str) -> Any:
    """Import the function of an ability, in the form that :data:`costcore.frontend.ABILITIES` states; None without it.

    Raises:
        CostError: if its framework cannot be imported.
    """
    if name not in spec.abilities:
        return None
    module, _, function = spec.abilities[name].partition(":")
    return getattr(_imported(spec, module), function)


def needed_ability(name: str, model: object, what: str) -> Any:
    """Return the function of an ability of the frontend that supports a model.

    Args:
        name: the ability.
        model: the model.
        what: what needs the ability, for the message.

    Raises:
        CostError: if no frontend supports the model, or its frontend does not have the ability.
    """
    spec = frontend_of(model)
    if name not in spec.abilities:
        able = " or ".join(each.models[0] for each in specs().values() if name in each.abilities and each.models)
        raise CostError(with_left_out(f"{what} needs {able} (got a model of the {spec.name} frontend)"))
    return ability(spec, name)


def _imported(spec: FrontendSpec, path: str) -> Any:
    """Import a module of a frontend."""
    try:
        return import_module(path)
    except ImportError as error:
        if spec.framework in sys.modules or find_spec(spec.framework) is not None:
            raise CostError(f"the {spec.name} frontend cannot be imported: {error}") from error
        raise CostError(
            f"the {spec.name} frontend needs {spec.framework}, which cannot be imported ({error}). "
            f"{_how_to_install(spec)}."
        ) from error


def _how_to_install(spec: FrontendSpec) -> str:
    """Return how to install the framework of a frontend: by an extra if costcore has one, which built-in ones have."""
    if not spec.path.startswith("costcore."):
        return "Install it"
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and only an error needs it

    try:
        distribution("costcore")
    except PackageNotFoundError:
        return f'Run pip install ".[{spec.framework}]" in the checkout of costcore'
    return f'Run pip install "costcore[{spec.framework}]"'


def loaded() -> list[str]:
    """Return the names of the frontends whose framework this process has already imported."""
    return [name for name, spec in specs().items() if spec.framework in sys.modules]


def reader_of(path: str | PathLike[Any]) -> str:
    """Return the name of the frontend that reads a file, by its suffix or its first bytes; empty if there is none.

    A folder is read by a frontend that recognizes its suffix or its files.
    """
    name = fsdecode(path).rstrip("/")
    for spec in specs().values():
        if name.endswith(spec.suffixes or ("\0",)):
            return spec.name
    if is_folder(name):
        return next((spec.name for spec in specs().values() if spec.reads_folder and spec.reads_folder(name)), "")
    readers = [spec for spec in specs().values() if spec.reads is not None]
    head = first_bytes(name) if readers else b""
    return next((spec.name for spec in readers if head and spec.reads is not None and spec.reads(head)), "")


def first_bytes(path: str) -> bytes:
    """Return the first bytes of a file, decompressed if gzip compressed it; none if it cannot be read."""
    try:
        if not is_file(path):
            return b""
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
            if not head.startswith(b"\x1f\x8b"):
                return head
            return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except (OSError, ValueError, zlib.error):
        return b""


def applicable_options(target: str, model: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``options`` without those for files that another frontend than that of ``model`` reads.

    Args:
        target: what the model was loaded from.
        model: the model.
        options: options of :func:`costcore.estimate`.
    """
    reader = reader_of(target)
    own = specs()[reader].options if reader else frontend_of(model).model_options
    inapplicable = {name for spec in specs().values() for name in spec.options}.difference(own)
    return {name: value for name, value in options.items() if name not in inapplicable}


def frontend_of(model: object) -> FrontendSpec:
    """Return the frontend that supports ``model``.

    A path is recognized by its suffix or the first bytes of the file. For any other model, the frontends of the
    imported frameworks are tried.

    Raises:
        CostError: if no frontend supports it.
    """
    if isinstance(model, (str, PathLike)) and (reader := reader_of(model)):
        return specs()[reader]
    is_file_content = isinstance(model, (bytes, bytearray, memoryview))
    readers = [spec.name for spec in specs().values() if spec.suffixes and not spec.is_run] if is_file_content else []
    for name in dict.fromkeys([*loaded(), *readers]):
        if load(name).accepts(model):
            return specs()[name]
    raise CostError(with_left_out(_unsupported(model)))


def is_supported(model: object) -> bool:
    """Return whether a frontend of an imported framework supports ``model``."""
    return any(load(name).accepts(model) for name in loaded())


def _unsupported(model: object) -> str:
    """Return the message for an object that no frontend supports, and what to pass instead."""
    shown = short_repr(model)
    if isinstance(model, (str, PathLike)):
        path = fsdecode(model)
        if path.endswith(CHECKPOINT_SUFFIXES):
            return f"{shown} is a checkpoint, not a model. {HOW_TO_LOAD_A_CHECKPOINT}"
        if path.endswith(EXPORTED_PROGRAM_SUFFIX):
            return f"{shown} is an exported program. Load it with torch.export.load, and pass the result."
        if reader := READERS_TO_INSTALL.get(Path(path).suffix):
            return needs_package(shown, reader)
        if path.endswith(".json"):
            return f"{shown} is not a model. If it is a saved report, read it with Report.from_json."
        if is_folder(path):
            return f"{shown} is a directory, not a model (expected {_supported()})"
    elif isinstance(model, Mapping) and model and all(hasattr(value, "shape") for value in model.values()):
        return f"a state dict ({type(model).__name__}) is not a model. {HOW_TO_LOAD_A_CHECKPOINT}"
    elif isinstance(model, type):
        return f"{model.__name__} is a class, not a model. Pass an instance, {model.__name__}(…)."
    return f"{shown} ({type(model).__name__}) is not a supported model (expected {_supported()})"


def needs_package(shown: str, package: str) -> str:
    """Return the message for a file that the frontend in another package reads, and what to do to have it."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and only an error needs it

    try:
        distribution(package)
    except PackageNotFoundError:
        return f"{shown} is read by the package {package}, which is not installed: pip install {package}"
    return f"{shown} is read by the package {package}, whose plug-in is disabled or left out"


def _supported() -> str:
    *others, last = [model for spec in specs().values() for model in spec.models]
    return f"{', '.join(others)}, or {last}; frontends: {', '.join(sorted(specs()))}"


def check_options(spec: FrontendSpec, options: Mapping[str, Any], common: Mapping[str, Any]) -> None:
    """Check that the ``estimate`` function of a frontend accepts ``options``.

    Args:
        spec: the frontend.
        options: the options that the user passed for this frontend.
        common: the options that every model accepts, to suggest a near match among them too.

    Raises:
        UnknownOptionError: if it does not accept one of them; the message suggests near matches.
    """
    _, _, _, *own = inspect.signature(load(spec.name).estimate).parameters.values()
    own_options = [p.name for p in own if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    own_options = [*dict.fromkeys([*own_options, *spec.options])]
    refused = [name for name in options if name not in own_options]
    if not refused:
        return
    names = f"option{'s' * (len(refused) > 1)} {', '.join(map(repr, refused))}"
    expected = f"expected {', '.join(own_options)}" if own_options else "it has no options"
    error = UnknownOptionError(
        f"unknown {names} for the {spec.name} frontend ({expected}){_frontends_with(refused)}"
        f"{did_you_mean(refused, [*own_options, *common])}"
    )
    error.frontend, error.options = spec.name, tuple(refused)
    raise error


def _frontends_with(options: Sequence[str]) -> str:
    """Return which frontends have the options, as the end of a message; empty if there is none."""
    found = []
    for option in options:
        names = [spec.name for spec in specs().values() if option in spec.options or option in spec.model_options]
        if names:
            found.append(f"; {option!r} is an option of {' and '.join(names)}")
    return "".join(found)
