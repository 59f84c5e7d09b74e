"""The registries of frontends and calculators: built in, from plug-ins, or added for a single run.

Finds the frontend that supports a model or reads a file, imports it on demand, makes library models by name, and
resolves operators for custom calculators.
"""

from __future__ import annotations

import inspect
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from math import prod
from os import PathLike, fsdecode
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, cast

from costcore.errors import (
    CHECKPOINT_SUFFIXES,
    OTHER_FILES,
    READERS_TO_INSTALL,
    CostError,
    CostWarning,
    UnknownOptionError,
    did_you_mean,
    qualified_name,
    short_repr,
    unknown,
)
from costcore.files import exists, is_file, is_folder
from costcore.frontend import ABILITIES, Frontend, FrontendSpec
from costcore.ir import Calculator, Cost, Layer
from costcore.plugins import cached, functions_from_plugins, objects_from_plugins, with_plugin_hint
from costcore.trace.call import Call
from costcore.translate import Row

# Frontends: selection and import on demand.


_HEAD = 2**16
"""The number of bytes read to recognize a file."""

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
            if invalid := [name for name in spec.abilities if name not in ABILITIES]:
                raise CostError(f"frontend {spec.name!r}: {unknown('ability', invalid, ABILITIES)}")
            by_name[spec.name] = spec
    return by_name


@cached
def rows(name: str) -> tuple[Row, ...]:
    """Return all mapping rules of a frontend: rules of plug-ins, the last registered first, then its own.

    Raises:
        CostError: if a plug-in fails; the message includes its name.
    """
    return (*plugin_rows(name), *load(name).ROWS)


@cached
def plugin_rows(name: str) -> tuple[Row, ...]:
    """Return the mapping rules of plug-ins for a frontend, the last registered plug-in first.

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
        raise ValueError(with_plugin_hint(unknown("frontend", name, sorted(specs()))))
    return cast(Frontend, _imported(specs()[name], specs()[name].path))


def ability(spec: FrontendSpec, name: str) -> Any:
    """Import an optional function of a frontend, by its name in :data:`costcore.frontend.ABILITIES`.

    Returns:
        The function; None if the frontend does not have it.

    Raises:
        CostError: if its framework cannot be imported.
    """
    if name not in spec.abilities:
        return None
    module, _, function = spec.abilities[name].partition(":")
    return getattr(_imported(spec, module), function)


def needed_ability(name: str, model: object, what: str) -> Any:
    """Import an optional function of the frontend that supports a model.

    Args:
        name: a name in :data:`costcore.frontend.ABILITIES`.
        model: the model.
        what: the feature that needs the function, for the message.

    Raises:
        CostError: if no frontend supports the model, or its frontend does not have the function.
    """
    spec = frontend_of(model)
    if name not in spec.abilities:
        able = " or ".join(each.models[0] for each in specs().values() if name in each.abilities and each.models)
        raise CostError(with_plugin_hint(f"{what} needs {able} (got a model of the {spec.name} frontend)"))
    return ability(spec, name)


def _imported(spec: FrontendSpec, path: str) -> Any:
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
    # Built-in frontends have an extra.
    if not spec.path.startswith("costcore."):
        return "Install it"
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and only an error needs it

    try:
        distribution("costcore")
    except PackageNotFoundError:
        return f'Run pip install ".[{spec.framework}]" in the checkout of costcore'
    return f'Run pip install "costcore[{spec.framework}]"'


def loaded() -> list[str]:
    """Return the names of the frontends with an already imported framework."""
    return [name for name, spec in specs().items() if spec.framework in sys.modules]


def frontend_for_file(path: str | PathLike[Any]) -> str:
    """Return the name of the frontend that reads a file, by its suffix or its first bytes; empty if there is none.

    A folder is read by a frontend that recognizes its suffix or its files.
    """
    name = fsdecode(path).rstrip("/")
    for spec in specs().values():
        if name.endswith(spec.suffixes):
            return spec.name
    if is_folder(name):
        return next((spec.name for spec in specs().values() if spec.reads_folder and spec.reads_folder(name)), "")
    readers = {spec.name: spec.reads for spec in specs().values() if spec.reads is not None}
    head = first_bytes(name) if readers else b""
    return next((reader for reader, reads in readers.items() if head and reads(head)), "")


def first_bytes(path: str) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzipped; empty if it cannot be read."""
    try:
        if not is_file(path):
            return b""
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
            if not head.startswith(b"\x1f\x8b"):
                return head
            # wbits=31 is the gzip format; a cut stream is decompressed as far as it goes.
            return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except (OSError, ValueError, zlib.error):
        return b""


def applicable_options(target: str, model: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``options`` without the options that apply only to files of other frontends.

    Args:
        target: the path or name of the model, ``timm:resnet50``.
        model: the model.
        options: options of :func:`costcore.estimate`.
    """
    reader = frontend_for_file(target)
    spec = specs()[reader] if reader else frontend_of(model)
    own = {*spec.options, *spec.model_options} if reader else spec.model_options
    inapplicable = {name for spec in specs().values() for name in spec.options}.difference(own)
    return {name: value for name, value in options.items() if name not in inapplicable}


def frontend_of(model: object) -> FrontendSpec:
    """Return the frontend that supports ``model``.

    A path is recognized by its suffix or the first bytes of the file. For any other model, the frontends of the
    imported frameworks are tried.

    Raises:
        CostError: if no frontend supports it.
    """
    if isinstance(model, (str, PathLike)) and (reader := frontend_for_file(model)):
        return specs()[reader]
    is_file_content = isinstance(model, (bytes, bytearray, memoryview))
    readers = [spec.name for spec in specs().values() if spec.suffixes and not spec.is_run] if is_file_content else []
    for name in dict.fromkeys([*loaded(), *readers]):
        if load(name).accepts(model):
            return specs()[name]
    # No frontend recognizes a function that only calls methods of its arguments, as ``lambda x: x.sum()``.
    if isinstance(model, (FunctionType, MethodType, partial)):
        for name in loaded():
            if specs()[name].runs_functions:
                return specs()[name]
    raise CostError(with_plugin_hint(_unsupported(model)))


def is_supported(model: object) -> bool:
    """Return whether a frontend of an imported framework supports ``model``."""
    return any(load(name).accepts(model) for name in loaded())


def _unsupported(model: object) -> str:
    shown = short_repr(model)
    if isinstance(model, (str, PathLike)):
        path = fsdecode(model)
        if path.endswith(CHECKPOINT_SUFFIXES):
            return f"{shown} is a checkpoint, not a model. {HOW_TO_LOAD_A_CHECKPOINT}"
        if reader := READERS_TO_INSTALL.get(Path(path).suffix):
            return needs_package(shown, reader)
        if other := other_file(path):
            return f"{shown} {other}"
        if path.endswith(".json"):
            return f"{shown} is not a model. If it is a saved report, read it with Report.from_json."
    elif isinstance(model, Mapping) and (state := state_in(model)):
        return f"{state} is not a model. {HOW_TO_LOAD_A_CHECKPOINT}"
    elif isinstance(model, type):
        return f"{model.__name__} is a class, not a model. Pass an instance, {model.__name__}(…)."
    return f"{shown} ({type(model).__name__}) is not a supported model (expected {_supported()})"


MOST_ENTRIES = 1000
"""The maximum number of folder entries to search for a model file."""

IN_FOLDERS = ".safetensors files and their config.json"
"""The files of a model folder, for messages."""


def other_file(path: str) -> str:
    """Return the kind of a file or folder that is no model, and the fix; empty if unknown.

    >>> other_file("Train.ipynb").partition(".")[0]
    'is a notebook'
    """
    if is_folder(path):
        if is_file(f"{path}/saved_model.pb"):
            return f"is {OTHER_FILES['.pb']}"
        names = sorted(each.name for each in islice(Path(path).iterdir(), MOST_ENTRIES))
        files = [f"{path.rstrip('/')}/{name}" for name in names if frontend_for_file(name)]
        hint = f"Pass a file in it, such as {files[0]!r}" if files else f"Pass a file, or a folder with {IN_FOLDERS}"
        return f"is a directory, not a model. {hint}."
    found = OTHER_FILES.get(Path(path).suffix.lower())
    return f"is {found}" if found else ""


def state_in(stored: Mapping[Any, Any]) -> str:
    """Describe a dict of tensors, ``"a state dict (2 tensors, 36 elements)"``; empty for any other dict."""
    if stored and all(hasattr(value, "shape") for value in stored.values()):
        n = sum(prod(value.shape) for value in stored.values())
        return f"a state dict ({len(stored)} tensors, {n:,} elements: {next(iter(stored))}, …)"
    if {"state", "param_groups"} <= stored.keys():
        return "the state of an optimizer"
    parts = {key: state_in(value) for key, value in stored.items() if isinstance(value, Mapping)}
    inside = ", ".join(f"{key!r} is {part}" for key, part in parts.items() if part)
    return f"a checkpoint ({inside})" if inside else ""


def needs_package(shown: str, package: str) -> str:
    """Return the message for a file whose frontend is in another package, with the install command."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and only an error needs it

    try:
        distribution(package)
    except PackageNotFoundError:
        return f"{shown} is read by the package {package}, which is not installed: pip install {package}"
    return f"{shown} is read by the package {package}, which is installed, but its plug-in is disabled or was left out"


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
    found = []
    for option in options:
        names = [spec.name for spec in specs().values() if option in spec.options or option in spec.model_options]
        if names:
            found.append(f"; {option!r} is an option of {' and '.join(names)}")
    return "".join(found)


# Library models by name, ``timm:resnet50``, and default inputs.


class LibraryTarget(NamedTuple):
    """A library model by name.

    Attributes:
        frontend: the name of the frontend that makes the model.
        prefix: the library, ``timm``.
        name: the name of the model there.
    """

    frontend: str
    prefix: str
    name: str


def library_target(target: object) -> LibraryTarget | None:
    """Return the library and the model named by a target; None for any other target."""
    if not isinstance(target, str):
        return None
    prefix, _, name = target.partition(":")
    found = (spec.name for spec in specs().values() if name and prefix in spec.libraries)
    return next((LibraryTarget(frontend, prefix, name) for frontend in found), None)


def is_saved_report(target: str) -> bool:
    """Return whether a target is the path of a saved report: a ``.json`` file, or a file that starts with a brace."""
    path = Path(target)
    if library_target(target) or frontend_for_file(target) or is_folder(target):
        return False
    if target.endswith(".json"):
        return exists(target) or not _is_code(target)
    return is_file(target) and path.suffix.lower() not in OTHER_FILES and _starts_with_brace(path)


def _starts_with_brace(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:  # no command can read it
        return False


def _is_code(target: str) -> bool:
    path = target.partition("(")[0] if target.endswith(")") else target  # without arguments
    source, _, name = path.rpartition(":")
    return bool(source) and all(part.isidentifier() for part in name.split("."))


def names_code(target: object) -> bool:
    """Return whether a target is a library model or Python code, ``module:factory``, perhaps with arguments."""
    if not isinstance(target, str) or frontend_for_file(target):
        return False
    return library_target(target) is not None or (_is_code(target) and not exists(target))


def library_model(target: LibraryTarget) -> Any:
    """Return a library model without weights, in evaluation mode; a remark on it becomes a ``CostWarning``.

    Raises:
        CostError: if the library is not installed, has no model of that name, or cannot make it.
    """
    make = ability(specs()[target.frontend], "library_model")
    try:
        model, remark = make(target.prefix, target.name)
    except CostError:
        raise
    except Exception as error:  # code of a library can raise anything
        reason = str(error).partition("\n")[0]  # without C++ frames and lists of all classes
        raise CostError(f"{target.prefix}:{target.name} failed: {type(error).__name__}: {reason:.300}") from error
    if remark:
        warnings.warn(remark, CostWarning, stacklevel=2)
    return model


def default_inputs(model: object, target: str) -> Any:
    """Return the default ``inputs`` of a library model and their ``source``; None if unknown.

    Args:
        model: the model.
        target: the target of the model; its last word may be a name in the library.
    """
    find = None if isinstance(model, str) else ability(frontend_of(model), "default_inputs")
    return None if find is None else find(model, target.rpartition(":")[2])


# Calculators by operator.


PREFIX = "calc_"


def discover(module: ModuleType) -> dict[str, Calculator]:
    """Return the calculators in ``module``: the functions named ``calc_…``.

    ``calc_conv`` is the calculator of ``conv``, unless ``@covers`` lists other operators.

    Raises:
        CostError: if an operator has two calculators.
    """
    table: dict[str, Calculator] = {}
    for name, function in vars(module).items():
        if name.startswith(PREFIX) and function.__module__ == module.__name__:
            add(table, dict.fromkeys(getattr(function, "ops", (name.removeprefix(PREFIX),)), function))
    return table


def add(table: dict[str, Calculator], new: Mapping[str, Calculator]) -> None:
    """Add the calculators in ``new`` to ``table``.

    Raises:
        CostError: if an operator already has a calculator; the message includes both.
    """
    for op, function in new.items():
        if op in table:
            raise _two_calculators(op, table[op], function)
        table[op] = function


def _two_calculators(op: str, first: Calculator, second: Calculator) -> CostError:
    return CostError(
        f"operator {op!r} has two calculators, {qualified_name(first)} and {qualified_name(second)}. "
        "Remove one, or replace a built-in one for one run with add_custom_cost_calculator."
    )


class LazyCalculators(Mapping[str, Calculator]):
    """Calculators by operator; modules are imported on demand.

    Args:
        index: the module of each operator. It only saves time: missing operators are found too.
        load: imports a module of the index and returns its calculators.
        load_all: imports all modules and returns their calculators.
    """

    def __init__(
        self,
        index: Mapping[str, str],
        load: Callable[[str], Mapping[str, Calculator]],
        load_all: Callable[[], Mapping[str, Calculator]],
    ) -> None:
        self._index = index
        self._load = load
        self._load_all = load_all
        self._loaded: dict[str, Calculator] = {}
        self._is_complete = False

    def __getitem__(self, op: str) -> Calculator:
        if op not in self._loaded and op in self._index:
            self._loaded.update(self._load(self._index[op]))
        if op not in self._loaded and "::" not in op:  # native names, with ``::``, have no built-in one
            self._complete()
        return self._loaded[op]

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._loaded)

    def __len__(self) -> int:
        self._complete()
        return len(self._loaded)

    def _complete(self) -> None:
        if not self._is_complete:
            self._loaded = {**self._load_all(), **self._loaded}  # returned calculators stay the same objects
            self._is_complete = True


class MergedCalculators(Mapping[str, Calculator]):
    """Several tables of calculators as one; the first table with an operator decides."""

    def __init__(self, *tables: Mapping[str, Calculator]) -> None:
        self._tables = tables

    def __getitem__(self, op: str) -> Calculator:
        for table in self._tables:
            if (calculator := table.get(op)) is not None:
                return calculator
        raise KeyError(op)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(op for table in self._tables for op in table))

    def __len__(self) -> int:
        return len(set().union(*self._tables))


@cached
def calculators() -> Mapping[str, Calculator]:
    """Return every registered calculator by operator, of costcore and of plug-ins.

    Raises:
        CostError: if an operator has two calculators, or a plug-in fails; the message includes its name.
    """
    first, *others = functions_from_plugins("costcore_calculators", LazyCalculators)
    of_plugins: dict[str, Calculator] = {}
    for table in others:
        for op in table:
            if op in first:
                raise _two_calculators(op, first[op], table[op])
        add(of_plugins, table)
    return MergedCalculators(of_plugins, first) if of_plugins else first


def check_calculator(calculator: object) -> None:
    """Check that a calculator can be called with a layer as its only argument.

    Raises:
        TypeError: if it cannot.
    """
    if not callable(calculator):
        raise TypeError(f"a calculator must be callable as calculator(layer) (got {calculator!r})")
    try:
        inspect.signature(calculator).bind("layer")
    except TypeError as error:
        raise TypeError(
            f"{qualified_name(calculator)} cannot be called as calculator(layer): {error} (expected one "
            "argument, the layer, or for Chainer functions calculator(function, inputs, **options))"
        ) from error
    except ValueError:
        return  # a built-in without a signature, which cannot be checked before its first call


# Calculators of a module, function or ``autograd.Function``, whose execution is recorded as one call.


GRADIENT = "grad_output"
"""The prefix of operands of a backward call that are gradients of outputs."""

BACKWARD = "_backward"
"""The suffix of the name of a backward call."""


class Costs(NamedTuple):
    """The shape rule and the backward formula of a calculator of a module, function or ``autograd.Function``.

    Attributes:
        shapes: computes the outputs of a call that cannot run on meta tensors: ``shapes(module, *inputs)`` or
            ``shapes(*inputs)`` returns tensors or shapes. A returned input stands for a new tensor of the same shape
            and dtype.
        backward: computes the backward cost from the layer of the forward pass.
        inside: whether inner calls are counted, too.
    """

    shapes: Callable[..., Any] | None = None
    backward: Calculator | None = None
    inside: bool = False


class costs:  # noqa: N801 - a decorator
    """Decorator that gives a calculator its operator, and optionally a shape rule and a backward formula.

    Pass the function in ``estimate(..., calculators=[calc_mamba])``. To give only a shape rule, pass
    ``costs(op, shapes=…)`` without decorating a function: the call is then listed as not counted, with its bytes.

    Args:
        op: a class of modules, a function, a ``torch.autograd.Function``, or the name of any operator.
        shapes: see :attr:`Costs.shapes`.
        backward: see :attr:`Costs.backward`; default: twice the FLOPs and MACs of the forward pass, an assumption.
        inside: see :attr:`Costs.inside`.

    Example:
        >>> from costcore import Operations, costs
        >>> @costs("mamba_ssm.Mamba", shapes=lambda module, x: x)
        ... def calc_mamba(layer):
        ...     x, state = layer["hidden_states"], layer.attrs["d_state"]
        ...     return Operations(fma=9 * x.size * state), layer.read, layer.written, {}
    """

    costs: Costs

    def __init__(
        self,
        op: Any,
        *,
        shapes: Callable[..., Any] | None = None,
        backward: Calculator | None = None,
        inside: bool = False,
    ) -> None:
        if shapes is not None and not callable(shapes):
            raise TypeError(f"shapes must be a function that returns tensors or shapes (got {shapes!r})")
        if backward is not None:
            check_calculator(backward)
        self.op = op
        self.costs = Costs(shapes, backward, inside)

    def __call__(self, calculator: Any) -> Any:
        """Return the calculator, which now knows its operator."""
        check_calculator(calculator)
        calculator.costs_of = self
        return calculator


def backward_calculator(op: str, calculator: Calculator, backward: Calculator | None) -> Calculator:
    """Return the calculator of a backward call. Its operands are those of the forward call, and gradients of outputs.

    Args:
        op: the name of the forward call.
        calculator: its calculator.
        backward: computes the backward cost from the layer of the forward pass; None: twice the FLOPs and MACs.
    """

    def calc_backward(layer: Layer) -> Cost:
        given = {name: x for name, x in layer.inputs.items() if not name.startswith(GRADIENT)}
        outputs = [x for name, x in layer.inputs.items() if name.startswith(GRADIENT)]
        forward = Layer(op, given, outputs, layer.attrs)
        if backward is not None:
            return Cost(*backward(forward))
        cost = Cost(*calculator(forward))
        return Cost(cost.flops * 2, layer.read, layer.written, {}, cost.macs * 2)

    return calc_backward


@cached
def costs_of_plugins() -> Mapping[str, Costs]:
    """Return the shape rules and backward formulas of calculators of plug-ins, by name."""
    _, *tables = functions_from_plugins("costcore_calculators", LazyCalculators)
    return {op: _costs_of(calculator) for table in tables for op, calculator in table.items()}


def _costs_of(calculator: Any) -> Costs:
    return getattr(calculator, "costs_of", _NO_COSTS).costs


_NO_COSTS = costs("")


# Custom calculators of a run.


NEAR = 0.45
"""Minimum similarity of a suggested name (``difflib``): convolution and conv2d have 0.47."""


class CustomCalculators:
    """Calculators that the user adds for one run.

    Args:
        fma_1flop: an option for native calculators.

    Attributes:
        by_layer: calculators ``calculator(layer)``, by canonical or native name.
        by_native: native calculators ``calculator(function, inputs, **options)``, which return elements instead of
            bytes, by native name. Their options are bound.
        costs_of: the shape rule and the backward formula that belong to a calculator, by native name.
    """

    def __init__(self, fma_1flop: bool = True) -> None:
        self.by_layer: dict[str, Calculator] = {}
        self.by_native: dict[str, partial[Any]] = {}
        self.costs_of: dict[str, Costs] = {}
        self._fma_1flop = fma_1flop
        self._added: dict[tuple[str, ...], Any] = {}  # by all names of an operator

    def add_all(self, given: Mapping[Any, Any] | Iterable[Any]) -> None:
        """Add calculators: a mapping by operator, or a list of functions decorated by :class:`costs`.

        Raises:
            TypeError, ValueError: as :meth:`add`, or for an undecorated calculator in a list.
        """
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"calculators must be a mapping of operators to calculators (got {given!r})")
        if isinstance(given, Mapping):
            for op, calculator in given.items():
                self.add(op, calculator)
            return
        for calculator in given:
            of = calculator if isinstance(calculator, costs) else getattr(calculator, "costs_of", None)
            if of is None:
                raise TypeError(
                    f"{qualified_name(calculator)} has no operator. Pass a dict by operator, or decorate it with "
                    "@costcore.costs(…)"
                )
            self.add(of.op, calculator)

    def add(self, op: object, calculator: Any) -> None:
        """Use ``calculator`` for ``op``; warn if it replaces a built-in calculator.

        Args:
            op: a canonical name (``"conv"``), a framework's own operator (a Chainer function class, an aten operator, a
                function of ``torch.nn.functional``), or its full name (``"ai.onnx::Conv"``, ``"mylib::foo"``).
            calculator: a function ``calculator(layer)`` that returns a :class:`Cost`, or a tuple
                ``(flops, mread, mwrite, params[, macs])`` in bytes. For Chainer functions, also
                ``calculator(function, inputs, **options)`` that returns ``(flops, read, written, params)`` in elements.

        Raises:
            TypeError: if the calculator does not take these arguments, or ``op`` is not an operator.
            ValueError: if no operator has that name; suggests the nearest names.
        """
        names = resolve(op)
        if isinstance(calculator, costs):  # a shape rule alone
            self.costs_of.update(dict.fromkeys(names, calculator.costs))
            return
        is_native = _is_native(calculator)
        if is_native:
            names = _native_names(op)
            if not names:
                offered = ", ".join(name for name, spec in specs().items() if spec.native_calculators) or "none"
                raise TypeError(
                    f"{qualified_name(calculator)} takes (function, inputs), the form for operators of some frontends "
                    f"({offered}), but {_named(op)} is not one of them. Write it as calculator(layer)."
                )
        else:
            check_calculator(calculator)
        added: Mapping[str, Any] = self.by_native if is_native else self.by_layer
        replaced = [name for name in names if _is_built_in(name)]
        if replaced and not any(name in added for name in names):
            warnings.warn(
                f"{qualified_name(calculator)} replaces the built-in calculator of {', '.join(replaced)} for this run",
                CostWarning,
                stacklevel=3,
            )
        if is_native:
            self.by_native.update(dict.fromkeys(names, partial(calculator, fma_1flop=self._fma_1flop)))
        else:
            self.by_layer.update(dict.fromkeys(names, calculator))
            self._add_backward(names, calculator)
        self._added[names] = calculator

    def _add_backward(self, names: Iterable[str], calculator: Calculator) -> None:
        found = _costs_of(calculator)
        for name in names:
            if "::" in name:
                self.costs_of[name] = found
                self.by_layer.setdefault(name + BACKWARD, backward_calculator(name, calculator, found.backward))

    def table(self) -> Mapping[str, Calculator]:
        """Return all calculators of the run: the registered ones, overridden by these."""
        return MergedCalculators(self.by_layer, calculators())

    def unused(self, calls: Iterable[Call], without_built_in: bool = False) -> list[str]:
        """Return a sentence for every calculator unused by ``calls``, with similar names among the calls.

        The list is empty if nothing ran. ``without_built_in`` skips calculators of operators that have a built-in one.
        """
        if not self._added:
            return []
        called = {(call.operator, call.layer.op) for call in calls}
        if not called:
            return []
        natives: dict[str, list[str]] = {}
        for native in sorted({native for native, _ in called}):
            natives.setdefault(_op_type(native), []).append(native)
        from difflib import get_close_matches

        table = self.table()
        used = {native if native in table or native in self.by_native else op for native, op in called}
        sentences = []
        for names, calculator in self._added.items():
            if not used.isdisjoint(names) or (without_built_in and any(map(_is_built_in, names))):
                continue
            matches = (get_close_matches(_op_type(name), natives, n=3, cutoff=NEAR) for name in names)
            near = dict.fromkeys(native for close in matches for op_type in close for native in natives[op_type])
            hint = f". Similar operators that were called: {', '.join(near)}" if near else ""
            sentences.append(
                f"{qualified_name(calculator)}, the calculator for {', '.join(names)}, was never used: "
                f"no such operator was called{hint}"
            )
        return sentences


def resolve(op: object) -> tuple[str, ...]:
    """Return the names of ``op`` in tables of calculators.

    Raises:
        TypeError, ValueError: as :meth:`CustomCalculators.add`.
    """
    if isinstance(op, str) and op in calculators():
        return (op,)
    for name in loaded():
        if natives := load(name).native_names(op):
            return natives
    if not isinstance(op, str):
        frontends = ", ".join(loaded()) or "none"
        raise TypeError(
            f"{_named(op)} is not an operator of an imported framework ({frontends}). Expected a canonical name such "
            "as 'conv', a full name such as 'ai.onnx::Conv', or a function or class of a framework."
        )
    domain, separator, op_type = op.partition("::")
    if separator and domain and op_type:
        return (op,)
    from difflib import get_close_matches

    near = get_close_matches(op, calculators(), n=3)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "DETAILS.md lists the canonical names."
    raise ValueError(f"unknown operator {op!r} (expected a canonical name, or the form 'domain::Type'). {hint}")


def _op_type(name: str) -> str:
    # Without the domain, which many names share.
    return name.rpartition("::")[2].lower()


def _named(op: object) -> str:
    text = repr(op)
    return text if len(text) <= 80 and "\n" not in text else f"an object of {type(op).__name__}"


def _native_names(op: object) -> tuple[str, ...]:
    offering = (load(name) for name in loaded() if specs()[name].native_calculators)
    return next((names for frontend in offering if (names := frontend.native_names(op))), ())


def _is_native(calculator: object) -> bool:
    if not callable(calculator):
        return False
    try:
        inspect.signature(calculator).bind("function", "inputs", fma_1flop=True)
    except (TypeError, ValueError):
        return False
    return True


def _is_built_in(name: str) -> bool:
    if name in calculators():
        return True
    return any(row.native == name for frontend in loaded() for row in rows(frontend))
