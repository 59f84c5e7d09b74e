"""Calls, modules and assumptions: the elements of a run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from costcore.ir import Layer
from costcore.numbers.dims import Dim

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
        "a hook sees the thread it was entered in and those that this one starts; enter one in each other thread",
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
    """One execution of a layer: its operator, its location in the model and the ids of its operands.

    A frontend builds it with keywords and passes it to the recorder; it never changes afterwards.

    Attributes:
        layer: the operator with its shapes, dtypes and attributes.
        type: the framework's short name of the operator (``conv2d``, ``Convolution2DFunction``, ``Conv``).
        native: the framework's full name (``aten::conv2d``, ``aten::add_``, ``ai.onnx::Conv``) of what ran.
        name: unique name in a report, ``<type>-<n>``. Until the report is made it is empty, or the key of the graph's
            nodes in :attr:`Recorder.nodes`.
        module: path of the module; ``""`` outside of any module.
        phase: ``forward``, ``backward``, ``recompute`` or ``optimizer``.
        times: how often the call runs, an int or a symbolic expression; in the body of a loop its trip count.
        region: the loop body or branch that the call belongs to; ``""`` if none.
        inputs, outputs: operand ids, in the order of the layer's tensors; equal ids are the same value.
        storages: storage ids of inputs, then outputs; equal ids are views of the same memory.
        parameters: parameter ids of the learned parameters that the call reads.
        saved: operand ids that autograd keeps for the backward pass.
        where: traceback of the user's code as formatted text; empty unless requested.
        uncounted: why the call cannot be counted, if the frontend knows; None lets its calculator count it.
        overload: name of the operator's overload (``padding`` of ``aten::conv2d.padding``); ``""`` for the default.
        strided: positions among the layer's inputs of tensors that are not contiguous.
        function: qualified name of the function that the user's code called (``torch.nn.functional.relu``,
            ``torch.Tensor.matmul``), or of the symbol that it wrote (``operator.add``); ``""`` if unknown. Like the
            next two, it is recorded only with ``spelled=True``.
        given: of a function that takes either of several arguments, the names of those that were passed:
            ``("scale_factor",)``.
        module_call: number of the innermost module call that it ran in, from 1, in :attr:`Run.module_calls`; 0 if
            unknown.
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
    overload: str = ""
    strided: tuple[int, ...] = ()
    function: str = ""
    given: tuple[str, ...] = ()
    module_call: int = 0

    @property
    def operator(self) -> str:
        """``native`` as rules and custom calculators name it: out of place, ``aten::add`` for ``aten::add_``."""
        native = self.native
        is_in_place = native.endswith("_") and native.startswith("aten::") and not native.endswith("__")
        return native[:-1] if is_in_place else native

    def named(self, name: str) -> Call:
        """Return the same call with a name."""
        return tuple.__new__(Call, (*self[:3], name, *self[4:]))  # _make would cost as much again


new_call = Call.__new__
"""Builds a call three times as fast: ``new_call(Call, layer=…)``, as ``Call(…)`` collects keywords in a dict first."""


def with_names(calls: Iterable[Call]) -> list[Call]:
    """Return the calls with their names, ``<type>-<n>``, counted from 1 for each type."""
    counts: dict[str, int] = {}
    named = []
    for call in calls:
        n = counts[call.type] = counts.get(call.type, 0) + 1
        named.append(call.named(f"{call.type}-{n}"))
    return named


class _WhatAndWhere(NamedTuple):
    what: str
    where: str


class Assumption(_WhatAndWhere):
    """An assumption about something that depends on data: the pair of what was assumed, and where.

    Two assumptions are equal if both are; the place in the user's code and the number of times do not matter.

    Attributes:
        what: what was assumed, as a sentence, which may begin with what kind of assumption it is, and a colon.
        where: path of the module, or name of the node.
        line: the line of the user's code that needed the value, ``model.py:12 in forward``; empty if it is unknown.
        times: how often it was assumed there.
        is_branch: whether it decided which code ran. Files do not keep this.
    """

    line: str
    times: int
    is_branch: bool

    def __new__(cls, what: str, where: str = "", line: str = "", times: int = 1, is_branch: bool = False) -> Assumption:
        """Return an assumption; see the attributes of the class."""
        self = super().__new__(cls, what, where)
        self.line, self.times, self.is_branch = line, times, is_branch
        return self

    def __str__(self) -> str:
        if not self.line:
            return self.what + self._in_parentheses(self.where)
        kind, colon, rest = self.what.partition(": ")
        module = f"module `{self.where}`" if self.where else ""
        return f"{kind} at {self.line}{self._in_parentheses(module)}{colon}{rest}"

    def _in_parentheses(self, place: str) -> str:
        inside = ", ".join(filter(None, (place, f"{self.times} times" if self.times > 1 else "")))
        return f" ({inside})" if inside else ""


class Module(NamedTuple):
    """A module in the module hierarchy of a model.

    Attributes:
        type: name of its class, ``Conv2d``.
        parameters: parameter ids of the learned parameters that it owns directly, not through its children.
        frozen: those of its parameters that are not trained.
        buffers: number of elements of the state that it owns directly, such as running statistics.
        same_as: path at which the same module was seen first; empty unless the module is used twice.
        bases: qualified names of its class and the base classes of that, in method resolution order, before the class
            that all modules of the framework have in common:
            ``("torch.nn.modules.conv.Conv2d", "torch.nn.modules.conv._ConvNd")``.
        own: name and number of elements of each learned parameter that it owns directly; like ``parameters``, empty at
            every path but the first.
        kernel_is_int: whether its attribute ``kernel_size`` is an int, not a tuple.
    """

    type: str
    parameters: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    buffers: Dim = 0
    same_as: str = ""
    bases: tuple[str, ...] = ()
    own: tuple[tuple[str, Dim], ...] = ()
    kernel_is_int: bool = False


class ModuleCall(NamedTuple):
    """One call of a module.

    Attributes:
        module: path of the module.
        parent: number of the module call that made it, from 1; 0 if none did.
        inputs: shapes of the tensors among its positional arguments, also of those inside lists, tuples and dicts.
        outputs: shapes of the tensors that it returned, likewise; empty if it raised an exception.
    """

    module: str
    parent: int = 0
    inputs: tuple[tuple[Dim, ...], ...] = ()
    outputs: tuple[tuple[Dim, ...], ...] = ()


def qualified_bases(kind: type, root: type) -> tuple[str, ...]:
    """Return the qualified names of a class and its base classes, in method resolution order, before ``root``."""
    before = takewhile(lambda each: each is not root and each is not object, kind.__mro__)
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in before)
