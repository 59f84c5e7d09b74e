"""Errors of a model on the meta device: the module, the line of the user's code, and a remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from traceback import walk_tb
from types import TracebackType

import torch
from torch import Tensor
from torch.nn import Module

from costcore.errors import CostError

from .capture.patches import failed_module
from .meta.operands import all_tensors
from .missing_inputs import takes
from .operators.dtype_checks import DtypeMismatchError
from .operators.shape_checks import OperandShapeError
from .recording.assumptions import REAL_RUN
from .recording.recording import Recording
from .tensors import dtype_name

INTEGERS = (
    '; integer inputs need a dtype: costcore.Tensor((1, 128), "int64"), or dtype="int64" for all inputs; '
    "on the command line --input 1x128:int64"
)

_NO_DATA = r"(?i)\bmeta\b|Meta\w*Type|fake impl|unallocated storage|only available on CPU"
"""Matches the messages of PyTorch when it needs data, or an operator has no kernel for meta tensors."""

_ADVICE = r"(?s)\W*(You may have run into|This could be because|Use Tensor\.cpu|The operator specified|\n).*"
"""Matches the rest of such a message: advice for other situations."""

_NO_INTEGERS = r"Long, Int|must be long, int"
_NO_DEVICE = r"not compiled with|NVIDIA driver|GPUs are available"
_DTYPES_DIFFER = r"same d?type|same scalar type|expected scalar type|type .* should be the same"

_CASTS = {torch.float16: "half", torch.bfloat16: "bfloat16", torch.float32: "float", torch.float64: "double"}
"""The method of a tensor that casts it to a dtype."""


class ModelErrorContext(AbstractContextManager["ModelErrorContext"]):
    """Turns an exception of the model into an error with its module, its line and a remedy.

    Args:
        model: the model.
        recording: the recording of its run.
        phase: ``forward`` or ``backward``.
        inputs: the arguments the model was called with.
        missed: tensors of the model whose values were needed, but which it has on the meta device.
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
            name = type(self._model).__name__
            failed = failed_module(traceback)
            failed_in = "" if failed is None else self._recording.modules.described(failed)
            place = name if failed_in in ("", name) else f"{name}, module {failed_in}"
            problem = str(error)
            if not isinstance(error, (DtypeMismatchError, OperandShapeError)):
                problem = re.sub(_ADVICE, "", problem) if _needs_data(error) else problem.removesuffix(".")
                problem = f"the {self._phase} pass on the meta device raised {type(error).__name__}: {problem}"
                operands = "" if _needs_data(error) else self._recording.refused.described(error)
                problem += f"; {operands}" if operands else ""
            raise CostError(f"{place}: {problem}{_user_line(traceback)}{self._remedy(error)}") from error

    def _remedy(self, error: Exception) -> str:
        text = str(error)
        if self._missed:
            return f"; {missed_values(self._model, self._missed)}"
        if isinstance(error, TypeError) and text.startswith(f"{type(self._model).__name__}.forward() "):
            return f"; {takes(self._model)}"
        if re.search(_NO_INTEGERS, text):
            return INTEGERS
        if re.search(_NO_DEVICE, text):
            return f"; {REAL_RUN} on a machine with that device, or make the model use the device of its input"
        if isinstance(error, DtypeMismatchError) or re.search(_DTYPES_DIFFER, text):
            return self._cast(getattr(error, "dtypes", ()))
        assumed = [assumption for log in self._recording.logs for assumption in log.recorder.assumptions]
        if assumed and not isinstance(error, (NameError, RuntimeError)):  # a check of the model's own
            return f"; assumed before: {assumed[-1].what}; {REAL_RUN} instead"
        return f"; {REAL_RUN} instead" if _needs_data(error) else ""

    def _cast(self, dtypes: Sequence[torch.dtype]) -> str:
        """Return how to give the inputs the dtype of the parameters, if theirs is another."""
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
    """Return which tensors of a model that was made on the meta device have values that were needed, and a remedy."""
    ids = {id(tensor) for tensor in missed}
    names = [repr(name) for name, buffer in model.named_buffers() if id(buffer) in ids]
    what = f"buffer{'s' * (len(names) > 1)} {', '.join(names[:3])}{', …' * (len(names) > 3)}" if names else "a tensor"
    return (
        f"it needs the values of {what}, which the model has on the meta device, without values: make the model on the "
        f"CPU (no weight is copied), or {REAL_RUN}"
    )


def _needs_data(error: Exception) -> bool:
    """Return whether an exception was raised because a meta tensor holds no data."""
    first_line = str(error).partition("\n")[0]  # values of the user's may follow
    return isinstance(error, (RuntimeError, TypeError)) and bool(re.search(_NO_DATA, first_line))


def _user_line(traceback: TracebackType | None) -> str:
    """Return the innermost line outside PyTorch and this package; empty for a model that is all PyTorch's."""
    for frame, line in reversed([*walk_tb(traceback)]):
        module = frame.f_globals.get("__name__", "torch")  # code that PyTorch generated has no name
        if module.partition(".")[0] not in ("torch", "costcore"):
            return f" at {frame.f_code.co_filename}:{line}"
    return ""
