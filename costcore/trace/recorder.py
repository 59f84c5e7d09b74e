"""The recorder: a frontend writes the calls of one run into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from costcore.ir import Calculator, Cost, Layer
from costcore.numbers.dims import Dim
from costcore.trace.call import Assumption, Call, Module, ModuleCall
from costcore.trace.dataflow import Dataflow
from costcore.trace.run import GraphNodes, Rank, Regrouping

if TYPE_CHECKING:
    from costcore.trace.memory_ledger import RawLedger
    from costcore.trace.profile import Profile

CPU_TIME = "cpu_time"
"""The value of ``measure_time`` that measures CPU time of the thread."""


class Checkpoint(NamedTuple):
    """How many calls and assumptions were recorded up to some point, repeated assumptions included."""

    calls: int
    assumptions: int


class Recorder:
    """Takes the calls of one run from the frontends that capture or read it.

    Args:
        tracebacks: whether every call gets the traceback of the user's code that made it.
        native_calculators: by native name, calculators of this run that the frontend calls itself, as
            ``calculator(function, inputs)``. They return elements, and the frontend passes their cost to ``record``.
            Empty unless the frontend declares them (``FrontendSpec.native_calculators``).
        progress: wraps the iterable of a long loop, ``progress(items, description)``.
        measure_time: whether a frontend that runs the model measures the duration of every call: on the device that
            runs it (True), or as CPU time of the thread (:data:`CPU_TIME`).
        calculators: calculators of this run only, by canonical or native name.
        spelled: whether the function that the user's code called is recorded with every call, and every module call.
            Frontends that do not support it ignore it.
        memory: whether a frontend that runs the model records the memory of the run.
    """

    def __init__(
        self,
        tracebacks: bool = False,
        native_calculators: Mapping[str, partial[Any]] | None = None,
        progress: Callable[[Iterable[Any], str], Iterable[Any]] | None = None,
        measure_time: bool | str = False,
        calculators: Mapping[str, Calculator] | None = None,
        spelled: bool = False,
        memory: bool = False,
    ) -> None:
        self.tracebacks = tracebacks
        self.native_calculators = {} if native_calculators is None else native_calculators
        self.progress = progress or (lambda items, description: items)
        self.measure_time = measure_time
        self.calculators = {} if calculators is None else calculators
        self.spelled = spelled
        self.memory = memory
        self.memory_ledger: Callable[[], RawLedger] | None = None
        """Returns the memory of the run so far; None if no frontend records it."""
        self.watch_memory: Callable[[Iterable[Any]], None] | None = None
        """Registers models, optimizers and tensors that live before the run; None if no frontend records memory."""
        self.calls: list[Call] = []
        """All recorded calls in order, except those that frontends still hold back (:attr:`pending`)."""
        self.pending: list[Callable[[], None]] = []
        """Functions of frontends that hold calls back while they record: each appends its calls to ``calls``."""
        self.costs: dict[int, Cost] = {}
        """Costs that the frontend computed itself, by position in ``calls``; calculators compute all others."""
        self.failures: dict[int, str] = {}
        """Errors of calculators that the frontend ran itself, by position in ``calls``."""
        self.seconds: dict[int, float] = {}
        """Measured duration of a call, by position in ``calls``."""
        self.profile: Profile | None = None
        """What was measured beside that, if the frontend reads a trace of a run."""
        self.parameters: dict[int, Dim] = {}
        """Number of elements of every learned parameter seen, by parameter id."""
        self.n_params_model: Dim | None = None
        """Number of elements of all parameters of the model, used or not; None if no model was given."""
        self.modules: dict[str, Module] = {}
        """The modules of the model by path, in the model's order; the root has the path ``""``."""
        self.rank: Rank | None = None
        """Which process of a mesh runs; None if no mesh is simulated."""
        self.returned: list[int] = []
        """Operand ids of the tensors that the outermost module returned."""
        self.module_calls: list[ModuleCall] = []
        """The module calls in the order in which they began, if ``spelled``."""
        self.dataflow: Dataflow | None = None
        """Values beside those of calls, if the frontend reads a graph."""
        self.frameworks: dict[str, str] = {}
        """Versions of the frameworks, by name."""
        self._assumed: list[tuple[str, str, str, bool]] = []
        self.notes: list[str] = []
        """Remarks for the reader of the report on how the run was captured."""
        self.inputs: list[int] = []
        """Operand ids of the values that the model is given, in order of first use."""
        self.buffers: list[int] = []
        """Operand ids of values that the model holds without learning them."""
        self.regrouped: list[Regrouping] = []
        """Nodes that were counted as one operator."""
        self.nodes: dict[str, GraphNodes] = {}
        """What calls stand for in the graph that the frontend reads, by the name that such a call has until then."""
        self.records: dict[str, Any] = {}
        """Whatever else is recorded, by the name of its :class:`costcore.trace.records.Record`."""
        self.new_id = count(1).__next__
        """Return a new id for an operand, a storage or a parameter."""
        self._layers: dict[Layer, Layer] = {}

    def flush(self) -> None:
        """Append the calls that frontends hold back."""
        for append in self.pending:
            append()

    def of_another_run(self) -> Recorder:
        """Return a recorder with the same settings, for another run of the same model."""
        return Recorder(
            self.tracebacks,
            self.native_calculators,
            self.progress,
            self.measure_time,
            self.calculators,
            self.spelled,
            self.memory,
        )

    def adopt(self, other: Recorder) -> None:
        """Replace everything that was recorded by what another recorder has."""
        vars(self).update(vars(other))

    def intern(self, layer: Layer) -> Layer:
        """Return the one object that represents all layers equal to ``layer``."""
        return self._layers.setdefault(layer, layer)

    def record(self, call: Call, cost: Cost | None = None, failure: str = "", seconds: float | None = None) -> None:
        """Append a call, after those that frontends held back.

        Args:
            call: the call; it is not changed after this.
            cost: its cost, if the frontend computed it; otherwise the calculator of the operator does.
            failure: the error of the calculator that the frontend ran.
            seconds: how long the call took.
        """
        self.flush()
        position = len(self.calls)
        if cost is not None:
            self.costs[position] = cost
        if failure:
            self.failures[position] = failure
        if seconds is not None:
            self.seconds[position] = seconds
        self.calls.append(call)

    def parameter(self, size: Dim) -> int:
        """Return a new id for a learned parameter of ``size`` elements."""
        identity = self.new_id()
        self.parameters[identity] = size
        return identity

    def nodes_key(self, nodes: GraphNodes) -> str:
        """Keep what a call stands for in a graph; return its name until the report is made."""
        key = str(len(self.nodes))
        self.nodes[key] = nodes
        return key

    def assume(self, what: str, where: str = "", line: str = "", is_branch: bool = False) -> None:
        """Add an assumption; the same one at the same place is reported once, with how often it was made.

        Args:
            what: what is assumed, as a sentence.
            where: path of the module, or name of the node.
            line: the line of the user's code that needs the value, ``model.py:12 in forward``.
            is_branch: whether it decides which code runs, so that a warning states it.
        """
        self._assumed.append((what, where, line, is_branch))

    def checkpoint(self) -> Checkpoint:
        """Return a mark of what is recorded so far, for :meth:`rollback`."""
        return Checkpoint(len(self.calls), len(self._assumed))

    def rollback(self, mark: Checkpoint) -> None:
        """Forget every call and assumption that was recorded after ``mark``."""
        del self.calls[mark.calls :]
        self.forget_assumptions(mark)

    def forget_assumptions(self, mark: Checkpoint) -> None:
        """Forget every assumption that was made after ``mark``."""
        del self._assumed[mark.assumptions :]

    @property
    def assumptions(self) -> list[Assumption]:
        """The assumptions with their places, each once, in order."""
        return self.assumptions_since(Checkpoint(0, 0))

    def assumptions_since(self, mark: Checkpoint) -> list[Assumption]:
        """The assumptions made after ``mark`` with their places, each once, in order."""
        counted = Counter(self._assumed[mark.assumptions :]).items()
        return [Assumption(what, where, line, times, branch) for (what, where, line, branch), times in counted]
