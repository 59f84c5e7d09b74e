"""Calls, modules and assumptions: what a run consists of."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from costcore.dims import Dim
from costcore.ir import Layer

PHASES = ("forward", "backward", "recompute", "optimizer")


class Uncounted(Enum):
    """Why a call has no cost.

    Attributes:
        template: the reason as a sentence; ``{op}`` stands for the name of the operator.
        hint: what the user can do about it; empty if the reason says it all.
    """

    NO_CALCULATOR = (
        "no calculator for {op!r}",
        "see ignored_layers, or add one (calculators=… of estimate, add_custom_cost_calculator of a hook)",
    )
    NO_SHAPES = "no shapes for {op!r}", "the report's notes list the values whose shape is unknown"
    OTHER_THREADS = (
        "modules also ran in other threads",
        "a hook sees the thread it was entered in; enter one in each of them",
    )
    CALCULATOR_FAILED = "", ""

    def __init__(self, template: str, hint: str) -> None:
        self.template = template
        self.hint = hint

    def reason(self, op: str) -> str:
        """Return the reason for an operator of that name; empty for a failed calculator, whose error is the reason."""
        return self.template.format(op=op)

    @classmethod
    def of(cls, reason: str, op: str) -> Uncounted:
        """Return the member that gives this reason for ``op``; any other reason is the error of a calculator."""
        return next((member for member in cls if member.reason(op) == reason), cls.CALCULATOR_FAILED)


class Call(NamedTuple):
    """One execution of a layer: which operator, where in the model, on which values.

    A frontend builds it with keywords and passes it to the recorder; it never changes afterwards.

    Attributes:
        layer: what was executed.
        type: the framework's own word for it, as in reports (``conv2d``, ``Convolution2DFunction``, ``Conv``).
        native: the framework's full name (``aten::conv2d``, ``ai.onnx::Conv``), which custom calculators go by.
        name: unique in a report, ``<type>-<n>``; given by the report.
        module: path of the module in the model, ``""`` outside any.
        phase: ``forward``, ``backward``, ``recompute`` or ``optimizer``.
        times: how often it ran, an int or a symbol; more than 1 inside the body of a loop.
        region: the loop body or branch it belongs to, ``""`` for none.
        inputs, outputs: operand ids in the order of the layer's tensors; equal ids are the same value.
        storages: ids of the memory behind inputs, then outputs; equal ids are aliases of each other.
        parameters: ids of the learned parameters read.
        saved: operand ids that automatic differentiation keeps for the backward pass.
        where: place in the user's code, as a formatted traceback; empty unless asked for.
        uncounted: why it cannot be counted, if the frontend found that out; None: its calculator is asked.
    """

    layer: Layer
    type: str
    native: str = ""
    name: str = ""
    module: str = ""
    phase: str = "forward"
    times: Dim = 1
    region: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    storages: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()
    where: str = ""
    uncounted: Uncounted | None = None

    def named(self, name: str) -> Call:
        """Return the same call with a name."""
        return Call._make((*self[:3], name, *self[4:]))


class Assumption(NamedTuple):
    """Something that depends on data and was assumed: what, and where."""

    what: str
    where: str


class Module(NamedTuple):
    """A module of the model, as the model's own tree has it.

    Attributes:
        type: the framework's word for it, ``Conv2d``.
        parameters: ids of the learned parameters it holds itself, not through its children.
        frozen: those of them that are not trained.
        buffers: elements of the state it holds itself (running statistics and the like).
        same_as: path under which the same module was seen first; empty for most.
    """

    type: str
    parameters: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    buffers: Dim = 0
    same_as: str = ""
