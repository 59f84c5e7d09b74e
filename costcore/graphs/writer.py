"""Writing the nodes of a graph into a run, and taking what was written out of it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from costcore.graphs.branches import Choice
from costcore.graphs.dataflow import DataflowLog
from costcore.graphs.modules import ModuleTree, Stored
from costcore.graphs.places import Place
from costcore.numbers.dims import Dim
from costcore.trace.call import Assumption, Call, Uncounted, new_call
from costcore.trace.dataflow import Step
from costcore.trace.dataflow import Value as Size
from costcore.trace.recorder import Checkpoint, Recorder
from costcore.trace.run import GraphNodes, new_nodes
from costcore.translate import Translation

V = TypeVar("V")
S = TypeVar("S", bound=Stored)


class Mark(NamedTuple):
    """How much was recorded up to some point."""

    recorder: Checkpoint
    steps: int


class Section(NamedTuple):
    """What was recorded between two points: calls, what was noted of their values, and assumptions."""

    calls: list[Call]
    steps: list[Step]
    assumptions: list[Assumption]


class Notes:
    """The notes of a report, each once.

    Args:
        notes: the list they are appended to.
    """

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._added: set[str] = set()

    def __call__(self, text: str) -> None:
        """Append a note."""
        if text not in self._added:
            self._added.add(text)
            self._notes.append(text)


class GraphWriter(ABC, Generic[V, S]):
    """Writes translated nodes into a run as calls.

    A frontend derives from it and says what the operand id of its values is.

    Args:
        recorder: receives the calls.
        dataflow: receives what calls read and produce beside the operands of their layers.
        modules: the modules of the model.
        note: receives notes for the report, each once.
    """

    def __init__(
        self, recorder: Recorder, dataflow: DataflowLog[V], modules: ModuleTree[S], note: Notes | None = None
    ) -> None:
        self.recorder = recorder
        self.dataflow = dataflow
        self.modules = modules
        self.note = note or Notes(recorder.notes)

    @abstractmethod
    def identity(self, value: V) -> int:
        """Return the operand id of a value; that of a learned parameter is its parameter id."""

    def write(
        self,
        kind: str,
        native: str,
        name: str,
        translation: Translation,
        place: Place,
        *,
        module: str = "",
        where: str = "",
        uncounted: Uncounted | None = None,
        inputs: Iterable[V | None],
        outputs: Sequence[V | None],
        scratch: Sequence[Dim] = (),
    ) -> Call:
        """Write a translated node into the run, and return its call.

        Args:
            kind: its operator as the format names it.
            native: full name of the operator, as rows name it.
            name: what it stands for, see :meth:`nodes_key`.
            translation: its layer, and the values that this reads and produces.
            place: where its graph runs.
            module: path of the module around it.
            where: where it is in the file.
            uncounted: why it cannot be counted, if so.
            inputs: all values that it reads.
            outputs: all values that it produces.
            scratch: bytes of each buffer that the runtime takes for it while it runs.
        """
        layer = translation.layer
        identities = tuple([self.identity(value) for value in translation.inputs])
        call = new_call(
            Call,
            layer=layer,
            type=kind,
            native=native,
            name=name,
            module=module,
            times=place.times,
            region=place.region,
            inputs=identities,
            outputs=tuple([self.identity(value) for value in translation.outputs]),
            parameters=tuple([i for i, t in zip(identities, layer.inputs.values(), strict=True) if t.role == "param"]),
            where=where,
            uncounted=uncounted,
        )
        self.recorder.record(call)
        self.dataflow.operands(call, inputs, outputs, scratch)
        return call

    def nodes_key(self, name: str, produced: tuple[str, ...], prefix: str = "") -> str:
        """Return the name that a call of a node has until the report is made.

        Args:
            name: the name of the node, empty if it has none.
            produced: the names of its outputs.
            prefix: what the names begin with.
        """
        names: tuple[str, ...] = (name,) if name else ()
        if "" in produced:
            produced = tuple(filter(None, produced))
        if prefix:
            names, produced = (tuple([f"{prefix}{name}" for name in each]) for each in (names, produced))
        return self.recorder.nodes_key(new_nodes(GraphNodes, (names, produced)))

    def checkpoint(self) -> Mark:
        """Return the current point of the run."""
        return Mark(self.recorder.checkpoint(), len(self.dataflow.steps))

    def rollback(self, mark: Mark) -> None:
        """Remove the calls and assumptions recorded since ``mark``, and what was noted of their values."""
        self.recorder.rollback(mark.recorder)
        del self.dataflow.steps[mark.steps :]

    def since(self, mark: Mark) -> Section:
        """Return what was recorded since ``mark``."""
        calls, steps = self.recorder.calls[mark.recorder.calls :], self.dataflow.steps[mark.steps :]
        return Section(calls, steps, self.recorder.assumptions_since(mark.recorder))

    def take(self, mark: Mark) -> Section:
        """Remove the calls recorded since ``mark`` from the run, with what was noted of values; assumptions stay."""
        taken = self.since(mark)
        del self.recorder.calls[mark.recorder.calls :]
        del self.dataflow.steps[mark.steps :]
        return taken

    def add(self, calls: Iterable[Call], steps: Iterable[Step] = (), assumptions: Iterable[Assumption] = ()) -> None:
        """Append what was taken from the run, or made of it."""
        self.recorder.calls.extend(calls)
        self.dataflow.steps.extend(steps)
        for assumption in assumptions:
            self.recorder.assume(*assumption)

    def choose(
        self,
        first: int,
        label: str,
        choice: Choice[str],
        branches: Mapping[str, Section],
        returned: Mapping[str, Sequence[V]],
        reads: Iterable[V | None],
        found: Sequence[V | None],
    ) -> None:
        """Put the branch that is counted back into the run, and note the memory of the others.

        Args:
            first: id at which the choice begins.
            label: the choice in tables.
            choice: which branch is counted.
            branches: what was recorded of each, and taken out of the run.
            returned: what each returns.
            reads: values around them that they need.
            found: the results of the choice.
        """
        counted, flow = choice.counted, self.dataflow
        self.add([*branches[counted].calls, *choice.uncounted])
        flow.start_of(first, label, reads=reads)
        for name, section in branches.items():
            if name != counted:
                flow.skipped(first, section.calls, section.steps, returned[name], f"{label}.{name}")
        flow.steps += branches[counted].steps
        flow.end_of(first, label, returned[counted], found)

    def complete(
        self, inputs: Iterable[Size], held: Iterable[Size], stored: Collection[S], identify: Callable[[S], int]
    ) -> None:
        """Write what holds for the whole graph into the recorder: its data flow, modules and parameters.

        Args:
            inputs: the inputs of the graph.
            held: the stored tensors in memory.
            stored: the stored tensors.
            identify: returns the id of a learned one.
        """
        self.recorder.dataflow = self.dataflow.dataflow(inputs, held)
        self.recorder.modules.update(self.modules.tree(stored, identify))
        self.recorder.n_params_model = sum(tensor.size for tensor in stored if tensor.is_parameter)
