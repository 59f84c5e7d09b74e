"""What is told of a model that fails without data: which module, where in the user's code, and what helps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from traceback import walk_tb
from types import TracebackType

import torch
from torch.nn import Module

from costcore.errors import CostError

from .meta.operands import all_tensors
from .operators.dtype_checks import DtypeMismatchError
from .recording.assumptions import REAL_RUN
from .recording.recording import Recording
from .tensors import dtype_name

INTEGERS = "; give inputs of whole numbers as a shape with a type, ((1, 128), torch.int64), or dtype='int64' for all"

_NO_DATA = re.compile(r"\bmeta\b|Meta\w*Type|fake impl|unallocated storage|only available on CPU", re.IGNORECASE)
"""What PyTorch says where it needs data, or an operator has no kernel for tensors without."""

_USELESS = re.compile(r"\W*(You may have run into|Use Tensor\.cpu|The operator specified|\n).*", re.DOTALL)
"""What it goes on with: advice for other situations."""

_NO_DEVICE = re.compile(r"not compiled with|NVIDIA driver|GPUs are available")
_TYPES_DIFFER = re.compile(r"same d?type|same scalar type|expected scalar type|type .* should be the same")

_CASTS = {torch.float16: "half", torch.bfloat16: "bfloat16", torch.float32: "float", torch.float64: "double"}


class ModelErrorContext(AbstractContextManager["ModelErrorContext"]):
    """Says where in the model, and in the user's code, an exception of the model came from, and what to do.

    Args:
        model: the model.
        recording: the recording of its run.
        phase: ``forward`` or ``backward``.
        inputs: what it was given.
    """

    def __init__(self, model: Module, recording: Recording, phase: str, inputs: Sequence[object]) -> None:
        self._model = model
        self._recording = recording
        self._phase = phase
        self._inputs = inputs

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        modules = self._recording.modules
        where = modules.failed_in if modules.failed is error else ""
        modules.failed = None
        if isinstance(error, Exception) and not isinstance(error, CostError):
            name = type(self._model).__name__
            place = name if where in ("", name) else f"{name}, module {where}"
            what = str(error)
            if not isinstance(error, DtypeMismatchError):
                what = _USELESS.sub("", what) if _is_without_data(error) else what.removesuffix(".")
                what = f"the {self._phase} pass on the meta device raised {type(error).__name__}: {what}"
            raise CostError(f"{place}: {what}{_line(traceback)}{self._hint(error)}") from error

    def _hint(self, error: Exception) -> str:
        text = str(error)
        if "Long, Int" in text:
            return INTEGERS
        if _NO_DEVICE.search(text):
            return f"; {REAL_RUN} where that device is, or let the model go by the device of its input"
        if isinstance(error, DtypeMismatchError) or _TYPES_DIFFER.search(text):
            return self._cast(getattr(error, "types", ()))
        assumed = [assumption for log in self._recording.logs for assumption in log.recorder.assumptions]
        if assumed and not isinstance(error, (NameError, RuntimeError)):  # a check of the model's own
            return f"; it was assumed before that {assumed[-1].what}; {REAL_RUN} instead"
        return f"; {REAL_RUN} instead" if _is_without_data(error) else ""

    def _cast(self, types: Sequence[torch.dtype]) -> str:
        """How the inputs come to the type of the parameters, where they are of another one."""
        wanted = next((p.dtype for p in self._model.parameters() if p.is_floating_point()), None)
        given = {x.dtype for x in all_tensors(self._inputs) if x.is_floating_point() or x.dtype in types}
        if wanted not in _CASTS or given <= {wanted}:
            return "; cast one of them" if types else ""
        name = dtype_name(wanted)
        arrays = f", arrays by .astype({name!r})" if wanted is not torch.bfloat16 else ""
        return (
            f"; the parameters are {name}: give inputs of that type (shapes with dtype={name!r}, tensors by "
            f".{_CASTS[wanted]}(){arrays}), or cast them in the model"
        )


def _is_without_data(error: Exception) -> bool:
    first = str(error).partition("\n")[0]  # values of the user's may follow
    return isinstance(error, (RuntimeError, TypeError)) and bool(_NO_DATA.search(first))


def _line(traceback: TracebackType | None) -> str:
    """The innermost place outside of PyTorch and this package; empty for a model that is all PyTorch's."""
    for frame, line in reversed([*walk_tb(traceback)]):
        module = frame.f_globals.get("__name__", "torch")  # code that PyTorch made has none
        if module.partition(".")[0] not in ("torch", "costcore"):
            return f" at {frame.f_code.co_filename}:{line}"
    return ""
