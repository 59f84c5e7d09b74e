"""Models in ``.keras`` files of Keras 3, built from the configuration in the file, without weights.

Keras builds the model, in its safe mode, on the backend of PyTorch or JAX, and the frontend of that backend counts it.
The configuration is checked before: Keras would look up any name in it among its functions, and some of them open
files. The weights are not read, and variables get no memory.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from os import fspath
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

from costcore.errors import CostError, FileError, MissingInputsError, import_problem
from costcore.files import check_values, is_file, open_file
from costcore.graphs.graph import ROWS, accepts, capture, native_names
from costcore.registry import check_options, default_inputs, load, specs
from costcore.trace.trace import with_tensors

if TYPE_CHECKING:
    from costcore.trace.run import Recorder

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

CONFIGURATION = "config.json"

MAX_BYTES = 2**25
"""The maximum bytes of the configuration of a model."""

MAX_OBJECTS = 20_000
"""The maximum number of objects (layers, initializers) in a configuration; Keras needs up to 1 ms for each."""

MAX_DEPTH = 100
"""The maximum nesting of dicts and lists in a configuration."""

MAX_STEPS = 4096
"""The maximum steps of a recurrent layer for default inputs on PyTorch, where each step takes 1 ms."""

BACKENDS = {"torch": "pytorch", "jax": "jax"}
"""The frontends that count models of Keras, by backend."""


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    backward: bool = False,
    dtype: Any = None,
    regroup: Any = False,
    explain_regroup: Any = False,
    memory: bool = False,
    optimizer: Any = None,
    step: str | None = None,
    loss: Any = None,
    trips: int | None = None,
) -> None:
    """Record one pass of a model in a file.

    Args:
        recorder: receives the calls.
        model: the path of a ``.keras`` file.
        inputs: as for the model itself; default: the inputs declared in the file, with a batch of 1.
        backward: as for the model itself on its backend, like all other options.
        dtype: the dtype of inputs given as shapes.
        regroup: patterns of decomposed operators to count as one.
        explain_regroup: patterns for which to note why they do not match (JAX).
        memory: whether to record memory (PyTorch).
        optimizer: the optimizer whose step to count (PyTorch).
        step: the step of the optimizer.
        loss: returns the loss from the outputs (PyTorch).
        trips: iterations of each loop with a data-dependent trip count (JAX).

    Raises:
        FileError: if the file cannot be read.
        CostError: if it has no model, or a model with other classes than those of Keras.
        MissingInputsError: if it leaves input sizes open, and ``inputs`` is not given.
    """
    options = {"backward": backward, "dtype": dtype, "regroup": regroup, "explain_regroup": explain_regroup}
    options |= {"memory": memory, "optimizer": optimizer, "step": step, "loss": loss, "trips": trips}
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    path = fspath(model)
    configuration = read(path)
    keras = import_keras(path)
    made = build(path, configuration, keras)
    backend = keras.backend.backend()
    spec = specs().get(BACKENDS[backend])
    if spec is None:
        raise CostError(f"{path}: models of Keras on JAX are counted by costcore-jax. Run pip install costcore-jax.")
    if trips is not None and backend == "torch":
        raise CostError(
            f"{path}: on PyTorch, layers run as many steps as their inputs have, so trips has no effect. Leave out "
            "trips (--trips), or set KERAS_BACKEND=jax"
        )
    check_options(spec, given, {})
    defaults = default_inputs(made, "") if inputs is None else None
    if inputs is None and defaults is None:
        raise _missing_inputs(made)
    if defaults is not None and backend == "torch":
        _check_steps(path, made, keras)
    load(spec.name).estimate(recorder, made, inputs if defaults is None else with_tensors(defaults.inputs), **given)
    recorder.frameworks["keras"] = keras.__version__
    if defaults is not None:
        recorder.assume(f"the batch is 1: {_shapes(made, 1)}; pass other sizes with inputs (--input)", path)


def _check_steps(path: str, model: Any, keras: ModuleType) -> None:
    # On PyTorch, Keras runs recurrent layers step by step.
    for layer in model._flatten_layers():
        if isinstance(layer, (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.Wrapper)):
            shapes = [x.shape for node in layer._inbound_nodes for x in node.input_tensors]
            steps = max((shape[1] or 0 for shape in shapes if len(shape) > 1), default=0)
            if steps > MAX_STEPS:
                raise CostError(
                    f"{path}: the layer {layer.name!r} has {steps:,} steps, which run one by one (at most "
                    f"{MAX_STEPS:,} unless inputs are given). Set KERAS_BACKEND=jax, or give inputs (--input)"
                )


def _shapes(model: Any, batch: int | None = None) -> str:
    declared = model.inputs if isinstance(getattr(model, "inputs", None), list) else []
    shapes = [tuple(batch if i == 0 and size is None else size for i, size in enumerate(x.shape)) for x in declared]
    return ", ".join(f"{x.name}: {shape}" for x, shape in zip(declared, shapes, strict=True))


def _missing_inputs(model: Any) -> MissingInputsError:
    takes = _shapes(model)
    if not takes:
        return MissingInputsError("The file does not state their sizes.")
    shapes = []
    for x in model.inputs:
        example = 224 if len(x.shape) == 4 else 32  # an image has four axes
        shapes.append(tuple((example if i else 1) if size is None else size for i, size in enumerate(x.shape)))
    return MissingInputsError(f"The file leaves sizes open: {takes}.", shapes[0] if len(shapes) == 1 else shapes)


# The file


def read(path: str) -> dict[str, Any]:
    """Return the configuration in a file.

    Raises:
        FileError: if the file cannot be read.
        CostError: if it has no configuration, or a too large one.
    """
    if not is_file(path):
        raise FileError(f"{path} cannot be read: it is not a file")
    try:
        with open_file(path) as opened, zipfile.ZipFile(opened) as archive, archive.open(CONFIGURATION) as file:
            text = file.read(MAX_BYTES + 1)
            if len(text) > MAX_BYTES:
                raise CostError(f"{path}: {CONFIGURATION} has more than {MAX_BYTES:,} bytes")
            check_values(text, path, MAX_OBJECTS * 100)
            found = json.loads(text)
    except CostError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, KeyError, NotImplementedError, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
        raise CostError(f"{path} is not a .keras file of Keras 3, an archive with {CONFIGURATION}: {error}") from error
    except (ValueError, RecursionError, EOFError, RuntimeError) as error:
        raise CostError(f"{path}: {CONFIGURATION} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise CostError(f"{path}: {CONFIGURATION} has no model")
    return found


def import_keras(path: str) -> ModuleType:
    """Import Keras with the backend that the user chose, or else with an installed backend.

    Raises:
        CostError: if Keras is not installed, or has an unsupported backend.
    """
    chosen = "keras" in sys.modules or "KERAS_BACKEND" in os.environ
    backend = next((name for name in BACKENDS if find_spec(name) is not None), None)
    if not chosen and backend is None:
        raise CostError(f"{path} needs keras and a backend. Run pip install keras torch.")
    if "keras" not in sys.modules and (wanted := os.environ.get("KERAS_BACKEND", backend)) not in BACKENDS:
        raise CostError(_other_backend(path, str(wanted)))
    try:
        if not chosen and backend is not None:  # the default of Keras is TensorFlow
            os.environ["KERAS_BACKEND"] = backend
        import keras
    except ImportError as error:
        raise CostError(import_problem(path, "keras", error)) from error
    finally:
        if not chosen:
            os.environ.pop("KERAS_BACKEND", None)
    if keras.backend.backend() not in BACKENDS:
        raise CostError(_other_backend(path, keras.backend.backend()))
    found: ModuleType = keras
    return found


def _other_backend(path: str, backend: str) -> str:
    return (
        f"{path}: models of Keras are counted on PyTorch and JAX, not on {backend}. Set the environment variable "
        "KERAS_BACKEND=torch or KERAS_BACKEND=jax."
    )


# The check of its configuration


PUBLIC = (
    *("keras", "keras.layers", "keras.models", "keras.ops", "keras.random", "keras.activations", "keras.initializers"),
    *("keras.regularizers", "keras.constraints", "keras.dtype_policies", "keras.quantizers"),
)
"""The public modules with classes that a configuration may name."""

INSIDE = (
    *("keras.src.layers.", "keras.src.models.", "keras.src.ops.", "keras.src.random.", "keras.src.initializers."),
    *("keras.src.regularizers.", "keras.src.constraints.", "keras.src.dtype_policies.", "keras.src.quantizers."),
    "keras.src.applications.",  # layers of ConvNeXt and others
)
"""The modules that define these classes."""

OPENS_FILES = re.compile(r"keras\.src\.layers\.preprocessing\.(\w*lookup|text_vectorization|feature_space)")
"""Layers that read a vocabulary by its path."""

CODE = ("Lambda", "__lambda__")

VALUES = ("__keras_tensor__", "__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__")

DTYPE = re.compile(r"bool|(u?int|b?float|complex)\d+(_e\dm\d(fn)?)?")

FUNCTION_MODULES = ("builtins", "keras.activations", "keras.ops")

HOW_TO_LOAD = "Load the file in Python with keras.saving.load_model, if you trust it, and pass the model to estimate."


def check(path: str, configuration: Mapping[str, Any], keras: ModuleType) -> None:
    """Check that a configuration only names layers of Keras and their parts.

    Raises:
        CostError: if it names anything else; the message has the layer and its class.
    """
    n_objects = 0
    for found in _dicts(path, configuration):
        found.pop("compile_config", None)  # optimizer and loss are not counted
        if "class_name" not in found:
            continue
        n_objects += 1
        if n_objects > MAX_OBJECTS:
            raise CostError(f"{path}: {CONFIGURATION} has more than {MAX_OBJECTS:,} objects")
        _check_object(path, found, keras)


def _dicts(path: str, configuration: Any) -> Iterator[dict[str, Any]]:
    waiting = [(configuration, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise CostError(f"{path}: {CONFIGURATION} is nested more than {MAX_DEPTH} deep")
        if isinstance(item, dict):
            yield item
            waiting += ((value, depth + 1) for value in item.values())
        elif isinstance(item, list):
            waiting += ((value, depth + 1) for value in item)


def _check_object(path: str, found: Mapping[str, Any], keras: ModuleType) -> None:
    kind, module, registered = found["class_name"], found.get("module"), found.get("registered_name")
    inner = found.get("config")
    name = inner.get("name", "") if isinstance(inner, dict) else ""
    label = f"{path}: the layer {str(name)!r:.80}" if name else f"{path}: a part"
    if not all(isinstance(each, (str, type(None))) for each in (kind, module, registered)) or kind is None:
        raise CostError(f"{label} has a class name that is not a text")
    if kind in CODE:
        raise CostError(f"{label} is of class {kind}, which stores code of Python. {HOW_TO_LOAD}")
    if kind in VALUES:
        if isinstance(inner, dict) and "dtype" in inner and not DTYPE.fullmatch(str(inner["dtype"])):
            raise CostError(f"{label} has the unknown dtype {str(inner['dtype'])!r:.80}")
        return
    if keras.saving.get_registered_object(inner if kind == "function" else registered) is not None:
        return  # registered by code that the user ran
    if kind == "function":
        known = [keras.activations] if module == "builtins" else [_public(keras, module)]
        if module not in FUNCTION_MODULES or not any(hasattr(each, str(inner)) for each in known):
            raise CostError(f"{label} calls {module}.{inner!s:.80}, which is not a function of layers. {HOW_TO_LOAD}")
        return
    cls = _class(keras, module, kind)
    where = str(getattr(cls, "__module__", ""))
    if not isinstance(cls, type) or not where.startswith(INSIDE):
        shown = f"{module}.{kind}" if module else kind
        raise CostError(
            f"{label} is of class {shown:.100}, which is not one of Keras {keras.__version__}. {HOW_TO_LOAD}"
        )
    if OPENS_FILES.fullmatch(where):
        raise CostError(f"{label} is of class {kind}, which can read other files. {HOW_TO_LOAD}")


def _class(keras: ModuleType, module: str | None, name: str) -> Any:
    if module is None:  # as Keras 2 wrote it
        return next((each for part in PUBLIC if (each := getattr(_public(keras, part), name, None))), None)
    if module in PUBLIC:
        return getattr(_public(keras, module), name, None)
    # Keras would import a module that is not imported yet.
    return vars(sys.modules[module]).get(name) if module.startswith(INSIDE) and module in sys.modules else None


def _public(keras: ModuleType, module: str | None) -> Any:
    found: Any = keras
    for part in str(module).split(".")[1:]:
        found = getattr(found, part, None)
    return found


# The model


def build(path: str, configuration: dict[str, Any], keras: ModuleType) -> Any:
    """Return the model of a configuration; its variables have shapes, but no values.

    Raises:
        CostError: if the configuration names code, or Keras cannot build it.
    """
    check(path, configuration, keras)
    try:
        with warnings.catch_warnings(), _without_values(keras):
            warnings.simplefilter("ignore")
            made = keras.saving.deserialize_keras_object(configuration, safe_mode=True)
    except Exception as error:  # a damaged file can raise anything
        cause = _cause(error)
        raise CostError(f"{path}: Keras cannot build the model: {type(cause).__name__}: {_reason(cause)}") from error
    if not isinstance(made, keras.layers.Layer):
        raise CostError(f"{path}: {CONFIGURATION} describes a {type(made).__name__}, not a model")
    return made


def _cause(error: BaseException) -> BaseException:
    # Stop before errors of the standard library, which may have been handled.
    while (before := error.__cause__ or error.__context__) is not None and before.__traceback__ is not None:
        *_, (frame, _) = walk_tb(before.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] in sys.stdlib_module_names:
            break
        error = before
    return error


def _reason(error: BaseException) -> str:
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    return f"{next((line for line in text.splitlines() if line.strip()), ''):.300}"


@contextmanager
def _without_values(keras: ModuleType) -> Iterator[None]:
    """Create variables without values, now or later, and let PyTorch infer shapes on the meta device."""
    from keras.src.backend.common import global_state

    state = {name: global_state.get_global_attribute(name) for name in ("uninitialized_variables", "object_name_uids")}
    core: Any = sys.modules.get("keras.src.backend.torch.core")
    device = getattr(core, "DEFAULT_DEVICE", None)
    for name in state:
        global_state.set_global_attribute(name, None)
    if core is not None:  # if the meta device fails, Keras uses real tensors
        core.DEFAULT_DEVICE = "meta"
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        for name, value in state.items():
            global_state.set_global_attribute(name, value)
        if core is not None:
            core.DEFAULT_DEVICE = device
