"""The calls of one run, and what a frontend writes them into."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, dropwhile
from pathlib import Path
from typing import Any, NamedTuple

from costcore import __version__
from costcore.dims import Dim
from costcore.ir import Calculator, Cost, Layer

_OWN = tuple(str(Path(__file__).parents[1] / room) + os.sep for room in ("costcore", "calculators", "frontends"))

PHASES = ("forward", "backward", "recompute", "optimizer")

CONVENTION = "costcore-1"
"""The counting rules of this version, as DETAILS.md has them."""


@dataclass(slots=True)
class Call:
    """One execution of a layer at a place in the model.

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


@dataclass(frozen=True, slots=True)
class Run:
    """What holds for a whole run.

    Attributes:
        fma_1flop: whether a fused multiply-add counts as one FLOP (True) or two.
        layout: ``framework`` or ``free``.
        parameters: elements of every learned parameter, by id.
        n_params_model: elements of all parameters of the model, used or not; None where no model was given.
        modules: the modules of the model by path, in the model's order, the root as ``""``; empty where not known.
        frameworks: versions, by framework.
        assumptions: what was assumed, and where.
        notes: what a reader should know about how the run was captured.
        version: the version of this tool that counted.
        convention: the named set of counting rules, the meaning of every number.
    """

    fma_1flop: bool = True
    layout: str = "framework"
    parameters: Mapping[int, Dim] = field(default_factory=dict)
    n_params_model: Dim | None = None
    modules: Mapping[str, Module] = field(default_factory=dict)
    frameworks: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()
    version: str = __version__
    convention: str = CONVENTION


class Recorder:
    """What a frontend writes a run into.

    Args:
        tracebacks: whether every call shall say where in the user's code it was made.
        elementwise: calculators in the older form ``(function, in_data, **kwargs)`` by native name.
        fma_1flop: what such a calculator is told.
        progress: wraps long loops, ``progress(items, what)``.
        measure_time: whether a frontend that really runs the model shall measure every call.
        calculators: calculators of this run only, by neutral or native name.
    """

    def __init__(
        self,
        tracebacks: bool = False,
        elementwise: Mapping[str, Any] | None = None,
        fma_1flop: bool = True,
        progress: Callable[[Iterable[Any], str], Iterable[Any]] | None = None,
        measure_time: bool = False,
        calculators: Mapping[str, Calculator] | None = None,
    ) -> None:
        self.tracebacks = tracebacks
        self.elementwise = {} if elementwise is None else elementwise
        self.fma_1flop = fma_1flop
        self.progress = progress or (lambda items, what: items)
        self.measure_time = measure_time
        self.calculators = {} if calculators is None else calculators
        self._calls: list[Call] = []
        self.pending: list[Callable[[], None]] = []
        """What frontends that are still recording do before anybody looks at the calls: append those they hold back."""
        self.costs: dict[int, Cost] = {}
        """Costs told by the frontend itself, by position in ``calls``; all other calls are priced by calculators."""
        self.failures: dict[int, str] = {}
        """Why a calculator that the frontend asked itself failed, by position in ``calls``."""
        self.seconds: dict[int, float] = {}
        """Measured duration of a call, by position in ``calls``."""
        self.parameters: dict[int, Dim] = {}
        """Elements of every learned parameter seen, by parameter id."""
        self.n_params_model: Dim | None = None
        """Elements of all parameters of the model, used or not, where a model was given."""
        self.modules: dict[str, Module] = {}
        """The modules of the model by path, in the model's order, the root as ``""``."""
        self.frameworks: dict[str, str] = {}
        """Versions of the frameworks at work, by name."""
        self._assumptions: dict[Assumption, None] = {}
        self.notes: list[str] = []
        """What a reader should know about how the run was captured."""
        self.new_id = count(1).__next__
        """A fresh id for an operand, a storage or a parameter."""
        self._layers: dict[Layer, Layer] = {}

    @property
    def calls(self) -> list[Call]:
        """All calls until now, in order; the list itself, to which frontends append."""
        for write in self.pending:
            write()
        return self._calls

    def intern(self, layer: Layer) -> Layer:
        """The one object that stands for all layers equal to ``layer``."""
        return self._layers.setdefault(layer, layer)

    def record(self, call: Call, cost: Cost | None = None, failure: str = "") -> None:
        """Append a call; ``cost``, or the ``failure`` to tell it, only where no calculator is to be asked."""
        if cost is not None:
            self.costs[len(self.calls)] = cost
        if failure:
            self.failures[len(self.calls)] = failure
        self.calls.append(call)

    def parameter(self, size: Dim) -> int:
        """A new id for a learned parameter of ``size`` elements."""
        identity = self.new_id()
        self.parameters[identity] = size
        return identity

    def assume(self, what: str, where: str = "") -> None:
        """Note something that was assumed, once for every place."""
        self._assumptions[Assumption(what, where)] = None

    @property
    def assumed(self) -> int:
        """How many assumptions were noted."""
        return len(self._assumptions)

    def keep(self, calls: int, assumptions: int) -> None:
        """Forget all but the first so many calls and assumptions: what was read after them is read anew."""
        del self.calls[calls:]
        while len(self._assumptions) > assumptions:
            self._assumptions.popitem()

    @property
    def assumptions(self) -> list[Assumption]:
        """What was assumed and where, in order."""
        return list(self._assumptions)


UNSHAPED = " of unknown rank"
"""What follows the name of an operator (:attr:`Layer.op`) that a frontend knows, but not the shapes it works on."""

OTHER_THREADS = "modules also ran in other threads"
"""Why a call that stands for what no frontend saw could not be counted."""


class Priced(NamedTuple):
    """A call with its cost; ``cost`` is None where it could not be counted, and ``reason`` then says why."""

    call: Call
    cost: Cost | None
    reason: str = ""
    seconds: float | None = None
    """How long it took, where that was measured."""


def user_traceback() -> str:
    """Where in the user's code we are: the stack as formatted text, the place last.

    It is without this package's own frames, and without those of the framework that the user's code called.
    """
    from costcore.frontend import specs

    frameworks = {spec.framework for spec in specs().values()}
    stack = [
        (
            frame.f_globals.get("__name__", "").partition(".")[0],
            traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name),
        )
        for frame, line in traceback.walk_stack(None)
        if not frame.f_code.co_filename.startswith(_OWN)
    ]
    outside = [*dropwhile(lambda pair: pair[0] in frameworks, stack)] or stack
    return "".join(traceback.format_list([summary for _, summary in reversed(outside)]))
