"""The exceptions and the warning category of costcore."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

CHECKPOINT_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth", ".safetensors")
"""Suffixes of files that hold weights without the model that uses them."""

READERS_TO_INSTALL = {
    **dict.fromkeys((".mlir", ".mlirbc", ".stablehlo"), "costcore-stablehlo"),
    **dict.fromkeys((".mlmodel", ".mlpackage"), "costcore-coreml"),
    ".tflite": "costcore-tflite",
    ".xml": "costcore-openvino",
}
"""Packages with the frontends of further files, by suffix."""

EXPORTED_PROGRAM_SUFFIX = ".pt2"
"""The suffix of the files that ``torch.export.save`` writes."""


class CostError(ValueError):
    """A cost that cannot be computed.

    The message includes the file or model, the node or module, and the reason.
    """


class FileError(CostError, OSError):
    """A file that a user named and that cannot be read; the message includes its path and the reason."""


class MissingOperandError(CostError, KeyError, IndexError):
    """An operand that a layer does not have, such as one of a saved report that was edited.

    Args:
        op: the operator of the layer.
        operand: the name of the operand.
        has: the names of those that it has.
    """

    def __init__(self, op: str, operand: str, has: Iterable[str]) -> None:
        super().__init__(f"operator {op!r} has no {operand!r} (it has {', '.join(has) or 'none'})")

    def __str__(self) -> str:  # that of KeyError is a repr
        return str(self.args[0])


class IncompleteReportError(CostError):
    """Raised with ``strict=True`` if the status of the report is not ``complete``.

    Attributes:
        report: the report.
    """

    report: Any = None  # a costcore.Report, whose modules import this one


class PartialReportError(IncompleteReportError):
    """Raised with ``strict=True`` if some operators could not be counted; ``report`` has all others."""


class AssumedReportError(IncompleteReportError):
    """Raised with ``strict=True`` if the report depends on assumptions about data."""


class MissingInputsError(CostError):
    """A model that is run needs inputs, and none were passed.

    Attributes:
        takes: what the model takes, as a sentence.
        example: inputs on which it runs; None if none were found.
    """

    def __init__(self, takes: str, example: Any = None) -> None:
        self.takes = takes
        self.example = example
        call = f"estimate(model, {example!r})".replace("Tensor(", "costcore.Tensor(") if example is not None else ""
        super().__init__(f"the model needs inputs. {takes}" + (f" For example {call}." if call else ""))


class UnknownOptionError(TypeError):
    """An option of :func:`costcore.estimate` that the frontend of the model does not accept.

    Attributes:
        frontend: the name of the frontend.
        options: the names of the options that it does not accept.
    """

    frontend: str = ""
    options: tuple[str, ...] = ()


class CostWarning(UserWarning):
    """Something that affects the numbers: calls that are not counted, an unused or a replaced calculator."""


class ArenaError(CostError):
    """A memory plan that cannot be made of a run; the message states what is missing and how to give it."""


class MissingPartError(CostError, ModuleNotFoundError):
    """A folder of analyses or studies that this installation does not have was asked for.

    Args:
        part: the name of its module.
    """

    def __init__(self, part: str) -> None:
        super().__init__(f"this needs {part}, which this installation of costcore does not have")
        self.name = part
