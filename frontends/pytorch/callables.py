"""Wrap functions, methods, pipelines and Keras models in modules, which are copied and named like any other.

``estimate(model.generate, …)``: a method of a module runs on a copy of that module. Any other callable is wrapped in a
new module. The modules that it reaches through attributes, closures, defaults and globals become submodules of the
wrapper. A model of Keras 3 on the PyTorch backend is wrapped in a :class:`Twin`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import prod
from pathlib import Path
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from costcore.errors import CostError
from costcore.trace.call import global_names

from .capture.dispatch_mode import THREAD
from .meta.model_copy import MAX_ITEMS, MAX_PARTS, OBJECTS_OF_TORCH
from .tensors import META, attributes_of, join

MAX_DEPTH = 8
"""The maximum length of a chain of references from a callable to a module."""

_LIBRARIES = ("torch", "builtins", "numpy", "collections", "functools", "logging", "threading")
"""Packages whose globals and objects are not searched."""


class Model(NamedTuple):
    """A model and its call.

    Attributes:
        module: the module that is copied and run.
        function: the callable that replaces ``module.forward``; None for ``forward``.
    """

    module: Module
    function: Callable[..., Any] | None = None

    @property
    def forward(self) -> Callable[..., Any]:
        """The callable whose signature defines the inputs."""
        return self.function or self.module.forward

    def run(self, copied: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the copy of the module, through ``function`` if there is one."""
        if self.function is not None and not isinstance(copied, CallableModule):
            _patch_forward_once(copied, self.function)
        return copied(*args, **kwargs)

    @property
    def name(self) -> str:
        """The name in messages: ``Net.forward``, ``Net.encode`` or ``step``."""
        return f"{type(self.module).__name__}.forward" if self.function is None else name_of(self.function)


class CallableModule(Module):
    """A callable wrapped in a module; the modules that it reaches are its submodules.

    Tensors that it reaches are its parameters if they require a gradient.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        tensors = []
        for name, value in _reached(function):
            if isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
                tensors.append((name, value))
            elif isinstance(value, Module) and not any(value is part for part in self.modules()):
                self.add_module(_free_name(name, self._modules), value)
        of_modules = set(map(id, self.parameters()))
        for name, tensor in tensors:
            if id(tensor) not in of_modules:
                # ``register_parameter`` refuses plain tensors
                self._parameters[_free_name(name, self._parameters)] = tensor

    def adopt(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Add the modules among the arguments of a call as submodules, named after the parameters of the function."""
        try:
            given = inspect.signature(self.function).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # without a signature, or a call that fails
            return
        for name, value in given.items():
            if isinstance(value, Module) and not any(value is part for part in self.modules()):
                self.add_module(_free_name(name, self._modules), value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        result = self.function(*args, **kwargs)
        # A training step may return the model that it trains.
        is_own = any(result is module for module in self.modules())
        if isinstance(result, Module) and not is_own:
            raise CostError(
                f"{name_of(self.function)} returned a model, {type(result).__name__}: {how_to_call(self.function)}"
            )
        return result


def as_model(model: Any) -> Model:
    """Return the module to copy and the function to call; for a module, ``forward`` runs.

    Raises:
        CostError: for a layer of Keras that is not built.
    """
    if is_layer(model):
        return Model(twin_of(model))
    if isinstance(model, Module):
        return Model(model)
    owner = _module_of_method(model)
    if owner is not None:
        return Model(owner, model)
    kind = type(name_of(model), (CallableModule,), {"__module__": __name__})
    module = kind(model)
    return Model(module, model)


def bound(called: Model, copied: Module) -> Callable[..., Any]:
    """Return the callable of a loss, bound to the copy of its module; a wrapper, which would add a row, is dropped."""
    if isinstance(copied, CallableModule):
        return copied.function
    return copied if called.function is None else _rebound(called.function, copied)


def uses_torch(model: Any) -> bool:
    """Return whether a callable uses PyTorch: it reaches a module or tensor, or refers to something from ``torch``."""
    if isinstance(model, (type, ModuleType)) or not callable(model):
        return False
    if _module_of_method(model) is not None or any(isinstance(each, (Module, Tensor)) for _, each in _reached(model)):
        return True
    function = _without_partials(model)
    if isinstance(function, (BuiltinFunctionType, BuiltinMethodType)):
        return str(function.__module__ or type(function.__self__).__module__).startswith("torch")
    if not isinstance(function, FunctionType):
        return False
    return any(map(_is_of_torch, (function, *_globals_of(function).values(), *_nonlocals_of(function).values())))


def _patch_forward_once(module: Module, function: Callable[..., Any]) -> None:
    # For one call: ``generate`` calls the module itself, and this inner call must run the original ``forward``.
    method = _rebound(function, module)
    before = vars(module).get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        if before is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = before
        return method(*args, **kwargs)

    vars(module)["forward"] = forward


def name_of(function: Any) -> str:
    """Return the name of a callable, or of its class if it has no name of its own."""
    function = _without_partials(function)
    name = getattr(function, "__qualname__", type(function).__name__)
    return str(name).rpartition("<locals>.")[2].replace("<lambda>", "lambda")


def how_to_call(function: Any) -> str:
    """Return how to pass the result of a factory with arguments, in Python and on the command line."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
        needed = [f"{p.name}=…" for p in parameters if p.default is p.empty and p.kind not in kinds]
    except ValueError:  # a function without a signature
        needed = ["…"]
    call = f"{name_of(function)}({', '.join(needed)})"
    module = str(getattr(function, "__module__", ""))
    code = getattr(_without_partials(function), "__code__", None)
    source = module if "." in module or code is None else Path(code.co_filename).name
    return f"pass its result, {call}; on the command line '{source}:{call}'"


def _without_partials(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _module_of_method(function: Any) -> Module | None:
    function = _without_partials(function)
    owner = getattr(function, "__self__", None) if isinstance(function, MethodType) else None
    return owner if isinstance(owner, Module) else None


def _rebound(function: Any, module: Module) -> Callable[..., Any]:
    if isinstance(function, partial):
        return partial(_rebound(function.func, module), *function.args, **function.keywords)
    method: Callable[..., Any] = MethodType(function.__func__, module)
    return method


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    # Breadth first, so that names are short.
    level: list[tuple[str, Any]] = [("", function)]
    seen: set[int] = set()
    for _ in range(MAX_DEPTH + 1):
        inner: list[tuple[str, Any]] = []
        for name, value in level:
            if id(value) in seen or len(seen) > MAX_PARTS:
                continue
            seen.add(id(value))
            yield name, value
            if not isinstance(value, Module):
                inner += ((f"{name}_{key}" if name else str(key), item) for key, item in _reachable(value))
        level = inner


def _reachable(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, (str, bytes, int, float, type(None), Tensor, type, ModuleType)):
        return
    if isinstance(value, partial):
        yield from (("", value.func), *enumerate(value.args), *value.keywords.items())
    elif isinstance(value, MethodType):
        yield from (("", value.__self__), ("", value.__func__))
    elif isinstance(value, FunctionType):
        yield from _globals_of(value).items()
        yield from _nonlocals_of(value).items()
        code, defaults = value.__code__, value.__defaults__ or ()
        yield from zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=False)
        yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, Mapping):
        yield from [*value.items()] if len(value) <= MAX_ITEMS else ()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value) if len(value) <= MAX_ITEMS else ()
    elif (home := type(value).__module__).partition(".")[0] not in _LIBRARIES or home.startswith(OBJECTS_OF_TORCH):
        yield from [*attributes_of(value).items()]


def _globals_of(function: FunctionType) -> Mapping[str, Any]:
    names = function.__globals__
    if str(names.get("__name__")).partition(".")[0] in _LIBRARIES:
        return {}
    return {name: names[name] for name in global_names(function.__code__) if name in names}


def _nonlocals_of(function: FunctionType) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals


def _is_of_torch(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return str(name).partition(".")[0] == "torch"


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    name = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "model"
    return name if name not in taken and not hasattr(Module, name) and name != "function" else f"{name}_{len(taken)}"


# Models and layers of Keras 3 on the PyTorch backend, as modules that are copied and named like any other.
#
# Keras keeps its layers and variables in lists of its own, where ``torch.nn.Module`` does not look, and copies a model
# by saving it. A twin of the model has a module for every layer, with the name of the layer and its variables on the
# meta device. It runs the layers of Keras, which read these tensors in place of their variables: no weight is touched.

MAX_ELEMENTS = 2**59
"""The maximum number of elements of a tensor: PyTorch stores its number of bytes in a signed 64-bit integer."""


def is_layer(model: object) -> bool:
    """Return whether a model is a layer or a model of Keras."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(model, keras.layers.Layer)


class _Layer:
    """The layer of a twin and its variables; copies of the twin share both.

    Attributes:
        layer: the layer of Keras.
        variables: its own variables by the names of their tensors.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.variables: dict[str, Any] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Layer:
        return self


class Twin(Module):
    """A module for a Keras layer: its variables are parameters and buffers, its sublayers are submodules.

    Args:
        layer: the layer.
        twins: the existing twins by the id of their layer; this twin is added.
    """

    def __init__(self, layer: Any, twins: dict[int, Module]) -> None:
        super().__init__()
        twins[id(layer)] = self
        self.of_keras = _Layer(layer)
        for variable in layer._trainable_variables:
            self._parameters[self._added_variable(variable)] = Parameter(_on_meta(variable), bool(variable.trainable))
        for variable in layer._non_trainable_variables:
            self._buffers[self._added_variable(variable)] = _on_meta(variable)
        for child in layer._layers:
            name = _name_in(child.name, self._modules)
            self._modules[name] = twins.get(id(child)) or _twin(child, twins)

    def _added_variable(self, variable: Any) -> str:
        name = _name_in(variable.name, self.of_keras.variables)
        self.of_keras.variables[name] = variable
        return name

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the layer of Keras; its variables are replaced by the tensors of this module and its children."""
        import keras

        layer = self.of_keras.layer
        args, by_name = _keras_arguments(layer, args, kwargs)
        with _meta_device(), keras.StatelessScope(initialize_variables=False) as scope:
            for path, twin in self.named_modules():
                for name, variable in twin.of_keras.variables.items():
                    tensor = twin._parameters[name] if name in twin._parameters else twin._buffers[name]
                    scope.add_update((variable, tensor))
                if THREAD.mode is not None:
                    modules = THREAD.mode.recording.modules
                    modules.place(twin.of_keras.layer, join(modules.path, path))
            return layer(*args, **by_name)


def twin_of(model: Any) -> Module:
    """Return a module for a model or layer of Keras, which is not changed.

    Raises:
        CostError: if the model is not built: it has no variables yet.
    """
    if not model.built:
        raise CostError("the model has no variables yet. Build it first: model.build(shape)")
    return _twin(model, {})


def _twin(layer: Any, twins: dict[int, Module]) -> Twin:
    kind: Any = type(layer)
    return _class_of(kind)(layer, twins)


@cache
def _class_of(kind: Any) -> type[Twin]:
    # Reports and calculators name a module by its class, so every twin has the class name and signature of its layer.
    def forward(self: Twin, *args: Any, **kwargs: Any) -> Any:
        return self.run(args, kwargs)

    forward.__signature__ = inspect.signature(kind.call)  # type: ignore[attr-defined]
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "forward": forward}
    return type(kind.__name__, (Twin,), names)


def _on_meta(variable: Any) -> torch.Tensor:
    from keras.src.backend.torch.core import to_torch_dtype

    if prod(variable.shape) > MAX_ELEMENTS:
        raise CostError(f"{variable.path} has the shape {variable.shape}, more elements than PyTorch supports")
    return torch.empty(tuple(variable.shape), dtype=to_torch_dtype(variable.dtype), device=META)


def _name_in(name: str, taken: Mapping[str, Any]) -> str:
    name = name.replace(".", "_")
    return name if name not in taken else f"{name}_{len(taken)}"


@contextmanager
def _meta_device() -> Iterator[None]:
    # ``keras.device("meta")`` stores a string, which never equals ``tensor.device``, and Keras copies tensors on other
    # devices than this. It is therefore set to the device that meta tensors report to captured code.
    from keras.src.backend.common import global_state

    reported = None if THREAD.mode is None else THREAD.mode.device
    before = global_state.get_global_attribute("torch_device")
    global_state.set_global_attribute("torch_device", META if reported is None else reported)
    try:
        yield
    finally:
        global_state.set_global_attribute("torch_device", before)


def _keras_arguments(
    layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    # Keras takes several inputs of a model as one argument, a dict.
    names = [x.name for x in declared_inputs(layer)]
    if len(names) > 1 and len(args) == len(names):
        return (dict(zip(names, args, strict=True)),), dict(kwargs)
    if len(names) > 1 and not args and kwargs.keys() >= {*names}:
        rest = {name: value for name, value in kwargs.items() if name not in names}
        return ({name: kwargs[name] for name in names},), rest
    return args, dict(kwargs)


def declared_inputs(model: Any) -> list[Any]:
    """Return the symbolic inputs that a Keras model was made with; an empty list for a subclassed model."""
    keras = sys.modules["keras"]
    declared = getattr(model, "inputs", None) if isinstance(model, keras.Model) and model.built else None
    return declared if isinstance(declared, list) else []


def keras_inputs(model: object, name: str = "") -> Any:
    """Return inputs with a batch of 1 for a Keras model that declares all other sizes; None for any other model."""
    layer = model.of_keras.layer if isinstance(model, Twin) else model
    declared = declared_inputs(layer) if is_layer(layer) else []
    shapes = [(1 if x.shape[0] is None else x.shape[0], *x.shape[1:]) for x in declared]
    if not declared or any(size is None for shape in shapes for size in shape):
        return None
    tensors = [shape if x.dtype == "float32" else (shape, x.dtype) for shape, x in zip(shapes, declared, strict=True)]
    return tensors[0] if len(tensors) == 1 else tensors
