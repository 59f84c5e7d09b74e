"""Errors of models: the module, the line of the user's code, and a fix.

The error of an estimate without inputs names the arguments, with an example on which the model runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from traceback import walk_tb
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Module

from costcore.errors import CostError, MissingInputsError
from costcore.ir import Tensor as IrTensor

from .callables import CallableModule, Model, how_to_call, name_of
from .capture.context import failed_module
from .meta.values import all_tensors
from .operators.call_cache import DtypeMismatchError, OperandShapeError
from .recording.recording import REAL_RUN, Recording
from .tensors import dtype_name, modules_of

INTEGERS = (
    '; integer inputs need a dtype: costcore.Tensor((1, 128), "int64"), or dtype="int64" for all inputs; '
    "on the command line --input 1x128:int64"
)

_NO_DATA = r"(?i)\bmeta\b|data is not allocated|Meta\w*Type|fake impl|unallocated storage|only available on CPU"
"""Matches the messages of PyTorch when it needs data, or an operator has no kernel for meta tensors."""

_ADVICE = r"(?s)\W*(You may have run into|This could be because|Use Tensor\.cpu|The operator specified|\n).*"
"""Matches the rest of such a message: advice for other situations."""

_NEEDS_INTEGERS = r"Long, Int|must be long, int"

_ONE_SAMPLE = r"Expected more than 1 (value per channel|spatial element) when training"

_NEEDS_BATCH = r"expected (\d)D (?:or \dD )?input \(got (\d)D input\)"
"""Matches messages of layers that need a batch, with the numbers of dimensions."""

_NO_DEVICE = r"not compiled with|NVIDIA driver|GPUs are available"

_DTYPES_DIFFER = r"same d?type|same scalar type|expected scalar type|type .* should be the same"

_NO_GRADIENTS = "does not require grad and does not have a grad_fn"

_TWO_PASSES = "backward through the graph a second time"

_CASTS = {torch.float16: "half", torch.bfloat16: "bfloat16", torch.float32: "float", torch.float64: "double"}
"""The method of a tensor that casts it to a dtype."""


def check_gradients(recording: Recording) -> None:
    """Raise if an optimizer made a step: code that checks ``loss.requires_grad`` skips its backward pass silently.

    Raises:
        RuntimeError: one that :func:`lacks_gradients` accepts.
    """
    if recording.locator.has_stepped:
        raise RuntimeError(f"the loss {_NO_GRADIENTS}")


def lacks_gradients(error: BaseException | None) -> bool:
    """Return whether code computes gradients itself, such as a training step, and failed because they were disabled."""
    text = str(error)
    return isinstance(error, Exception) and (_NO_GRADIENTS in text or bool(_CHECKS_GRADIENTS.search(text)))


_CHECKS_GRADIENTS = re.compile(r"(?i)\b(no_grad|enable_grad|is_grad_enabled)\b|\bgradients? .{0,40}\b(en|dis)abled\b")
"""Matches errors of code that checks whether gradients are enabled, such as schedules of pipelines."""


_TORCHSCRIPT_ERROR = "The following operation failed in the TorchScript interpreter."
"""The first line of an error of scripted code, which ends with the message of the operator."""


class ModelErrorContext(AbstractContextManager["ModelErrorContext"]):
    """Turns an exception of the model into an error with its module, its line and a fix.

    Args:
        model: the model.
        recording: the recording of its run.
        phase: ``forward`` or ``backward``.
        inputs: the arguments the model was called with.
        missed: tensors of the model on the meta device whose values were needed.
    """

    def __init__(
        self,
        model: Module,
        recording: Recording,
        phase: str,
        inputs: Sequence[object],
        missed: Sequence[Tensor] = (),
    ) -> None:
        self._model = model
        self._recording = recording
        self._phase = phase
        self._inputs = inputs
        self._missed = missed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, CostError):
            raised, refused = error, self._recording.refused.error
            if isinstance(refused, Exception) and str(error).startswith(_TORCHSCRIPT_ERROR) and not _text_of(error):
                error = refused  # scripted code drops the messages of Python
            name = type(self._model).__name__
            failed = failed_module(traceback)
            failed_in = "" if failed is None else self._recording.modules.described(failed)
            place = name if failed_in in ("", name) else f"{name}, module {failed_in}"
            problem = _text_of(error)
            if not isinstance(error, (DtypeMismatchError, OperandShapeError)):
                problem = re.sub(_ADVICE, "", problem) if _needs_data(error) else problem.removesuffix(".")
                problem = f"the {self._phase} pass on the meta device raised {type(error).__name__}: {problem}"
                operands = "" if _needs_data(error) else self._recording.refused.described(error)
                problem += f"; {operands}" if operands else ""
            raise CostError(f"{place}: {problem}{_user_line(traceback)}{self._remedy(error)}") from raised

    def _remedy(self, error: Exception) -> str:
        text = _text_of(error)
        if self._missed:
            return f"; {missed_values(self._model, self._missed)}"
        if isinstance(error, TypeError) and text.startswith(f"{type(self._model).__name__}.forward() "):
            return f"; {takes(Model(self._model))}{self._inputs_by_name(text)}"
        missing = re.search(r"(\w+)\(\) missing \d+ required positional arguments?: '(\w+)'", text)
        if isinstance(error, TypeError) and missing and missing[1] == type(self._model).__name__:
            name, argument = missing.groups()
            if self._inputs and self._model._modules:  # it calls models, such as a training step
                return f"; {takes(self._called)}{self._inputs_by_name(text)}"
            return f"; if {name} builds the model, pass its arguments: {name}(…, {argument}=…)"
        if re.search(_NEEDS_INTEGERS, text):
            return INTEGERS
        if _TWO_PASSES in text and self._phase == "backward":
            return "; the code runs a backward pass itself, which is counted: leave out backward, loss and optimizer"
        if re.search(_ONE_SAMPLE, text):
            return "; batch normalization in train mode needs more: pass a larger batch, or call model.eval()"
        if (dims := re.search(_NEEDS_BATCH, text)) and (remedy := self._batched(*map(int, dims.groups()))):
            return remedy
        if re.search(_NO_DEVICE, text):
            return f"; {REAL_RUN} on a machine with that device, or make the model use the device of its input"
        if isinstance(error, DtypeMismatchError) or re.search(_DTYPES_DIFFER, text):
            return self._cast(getattr(error, "dtypes", ()))
        is_own = isinstance(self._model, CallableModule) and not self._model._modules
        if is_own and isinstance(error, (TypeError, ValueError)):  # a factory computes with numbers, not tensors
            return f"; if {name_of(self._model.function)} builds the model, {how_to_call(self._model.function)}"
        model = Model(self._model)
        if not self._inputs and any(p.default is None for p in _signature(model).parameters.values()):
            return f"; no input was passed. {takes(model)}"
        if not _needs_data(error) and self._is_default():
            return f"; the default input may not fit: pass another. {takes(model)}"
        assumed = [assumption for log in self._recording.logs for assumption in log.recorder.assumptions]
        if assumed and not isinstance(error, (NameError, RuntimeError)):  # raised by a check of the model itself
            return f"; assumed before: {assumed[-1].what}; {REAL_RUN} instead"
        return (
            f"; {REAL_RUN} instead, or give the module or operator a cost with costcore.costs"
            if _needs_data(error)
            else ""
        )

    @property
    def _called(self) -> Model:
        return Model(self._model, self._model.function if isinstance(self._model, CallableModule) else None)

    def _inputs_by_name(self, text: str) -> str:
        # The inputs that were passed, and the missing ones, as arguments of the command line.
        missing = re.findall(r"'(\w+)'", text) if " missing " in text else []
        required = _required(self._called)
        passed = [name for name in required if name not in missing]
        if not missing or len(passed) != len(self._inputs):
            return ""
        shapes = dict.fromkeys(required, "SHAPE")
        for name, x in zip(passed, self._inputs, strict=True):
            if isinstance(x, Tensor):
                dtype = f":{dtype_name(x.dtype)}" if x.dtype is not torch.float32 else ""
                shapes[name] = ("x".join(map(str, x.shape)) or "scalar") + dtype
        named = " ".join(f"--input {name}={shape}" for name, shape in shapes.items())
        return f". Pass all by name, as on the command line: {named}"

    def _batched(self, wanted: int, got: int) -> str:
        # A convolution takes an image without a batch, and a later layer does not.
        shapes = [tuple(x.shape) for x in all_tensors(self._inputs)]
        if len(shapes) != 1 or len(shapes[0]) != got or wanted != got + 1:
            return ""
        shape = (1, *shapes[0])
        return f"; is the dimension of the batch missing? Pass {shape}, on the command line {'x'.join(map(str, shape))}"

    def _is_default(self) -> bool:
        from .libraries import hugging_face_inputs

        try:
            default = hugging_face_inputs(self._model, "")
        except CostError:  # there is no default: the inputs are the user's
            return False
        shapes = {tuple(getattr(each, "shape", each)) for each in (default or {}).values()}
        return default is not None and {tuple(x.shape) for x in all_tensors(self._inputs)} == shapes

    def _cast(self, dtypes: Sequence[torch.dtype]) -> str:
        wanted = next((p.dtype for p in self._model.parameters() if p.is_floating_point()), None)
        passed = {x.dtype for x in all_tensors(self._inputs) if x.is_floating_point() or x.dtype in dtypes}
        if wanted not in _CASTS or passed <= {wanted}:
            return "; cast one of them" if dtypes else ""
        name = dtype_name(wanted)
        arrays = f", arrays by .astype({name!r})" if wanted is not torch.bfloat16 else ""
        return (
            f"; the parameters are {name}: pass inputs of that dtype (shapes with dtype={name!r}, tensors by "
            f".{_CASTS[wanted]}(){arrays}), or cast them in the model"
        )


def missed_values(model: Module, missed: Sequence[Tensor]) -> str:
    """Return the names of tensors on the meta device whose values are needed, and a fix."""
    ids = {id(tensor) for tensor in missed}
    names = [repr(name) for name, buffer in model.named_buffers() if id(buffer) in ids]
    what = f"buffer{'s' * (len(names) > 1)} {', '.join(names[:3])}{', …' * (len(names) > 3)}" if names else "a tensor"
    return (
        f"it needs the values of {what}, but meta tensors of a model have none: make the model on the CPU (no weight "
        f"is copied), or {REAL_RUN}"
    )


def _needs_data(error: Exception) -> bool:
    first_line = _text_of(error).partition("\n")[0]  # values of the user's may follow
    return isinstance(error, (RuntimeError, TypeError)) and bool(re.search(_NO_DATA, first_line))


def _text_of(error: Exception) -> str:
    text = str(error)
    return text.rpartition(f"\n{type(error).__name__}: ")[2].strip() if text.startswith(_TORCHSCRIPT_ERROR) else text


def _user_line(traceback: TracebackType | None) -> str:
    for frame, line in reversed([*walk_tb(traceback)]):
        module = frame.f_globals.get("__name__", "torch")  # code that PyTorch generated has no name
        if module.partition(".")[0] not in ("torch", "costcore"):
            return f" at {frame.f_code.co_filename}:{line}"
    return ""


# Missing inputs: the arguments of a module, and an example on which it runs


MAX_ATTEMPTS = 8
"""The maximum number of inputs on which a module is tried."""

_INTEGERS = re.compile(r"(^|_)(ids?|idx|index|indices|tokens?|labels?|positions?)$")
"""Matches the names of arguments that are integers."""

_IMAGE, _TOKENS = (1, 3, 224, 224), IrTensor((1, 128), "int64")


def needs_arguments(model: Model) -> bool:
    """Return whether a model cannot be called without arguments, and no hook adds them."""
    if model.module._forward_pre_hooks:
        return False
    try:
        _signature(model).bind()
    except TypeError:
        return True
    except ValueError:  # a function without a signature
        pass
    return False


def _signature(model: Model) -> inspect.Signature:
    schema = getattr(model.forward, "schema", None)  # of TorchScript, whose Python signature takes anything
    if schema is None:
        return inspect.signature(model.forward)
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [
        inspect.Parameter(
            each.name, place, default=each.default_value if each.has_default_value() else inspect.Parameter.empty
        )
        for each in schema.arguments[1:]
    ]
    return inspect.Signature(arguments)


def missing_inputs(model: Model, runs: Callable[[Any], bool]) -> MissingInputsError:
    """Return the error for a module without inputs, with an example.

    Args:
        model: the module.
        runs: returns whether the module runs on inputs.
    """
    from .libraries import default_inputs

    default = default_inputs(model.module) if model.function is None else None
    candidates = (default.inputs,) if default is not None else islice(_example_inputs(model), MAX_ATTEMPTS)
    example = next((inputs for inputs in candidates if runs(inputs)), None)
    function = model.function
    is_own = example is None and isinstance(model.module, CallableModule) and not model.module._modules
    factory = f" If {model.name} builds the model, {how_to_call(function)}." if is_own else ""
    return MissingInputsError(f"{takes(model)}.{factory}", example, _required(model))


def takes(model: Model) -> str:
    """Return the arguments of a model, in words."""
    parameters = _signature(model).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [p.name + (" (optional)" if p.default is not p.empty else "") for p in parameters if p.kind not in kinds]
    return f"{model.name} takes {', '.join(names)}"


def _required(model: Model) -> list[str]:
    parameters = _signature(model).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _example_inputs(model: Model) -> Iterator[Any]:
    # The likeliest inputs come first.
    required = _required(model)
    is_keyword = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in _signature(model).parameters.values())
    for first in dict.fromkeys(_first_inputs(model.module)):
        if len(required) == 1 and not is_keyword:
            yield first
            continue
        integers = _TOKENS if not isinstance(first, IrTensor) else first
        yield {name: integers if _INTEGERS.search(name) else first for name in required}


def _first_inputs(model: Module) -> Iterator[Any]:
    # Inputs that fit the first modules with parameters; then an image, tokens and features.
    leaves = (module for module in modules_of(model) if not module._modules and module._parameters)
    for module in islice(leaves, 3):
        yield from _inputs_of(module)
    yield from (_IMAGE, _TOKENS, (1, 16))


def _inputs_of(module: Module) -> Iterator[Any]:
    convolutions = {nn.Conv1d: (1000,), nn.Conv2d: (224, 224), nn.Conv3d: (16, 112, 112)}
    for kind, sizes in convolutions.items():
        if isinstance(module, kind):
            yield (1, module.in_channels, *sizes)
            yield (1, module.in_channels, *[32] * len(sizes))
    if isinstance(module, nn.Embedding):
        yield _TOKENS
        yield IrTensor((1, 16), "int64")
    elif isinstance(module, nn.RNNBase):
        yield (1, 16, module.input_size) if module.batch_first else (16, 1, module.input_size)
    elif isinstance(module, nn.Linear):
        yield (1, module.in_features)
        yield (1, 16, module.in_features)
