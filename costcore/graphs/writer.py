"""Writers of graph nodes into a run: :class:`GraphRecording` if all shapes are known, else :class:`GraphWriter`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from costcore.errors import CostError
from costcore.graphs.graph import (
    MOST_NODES,
    Choice,
    GraphNode,
    GraphValue,
    ModuleTree,
    Place,
    Stored,
    most_expensive,
    values_and_settings,
)
from costcore.ir import Layer, Role, Tensor
from costcore.numbers import Dim, symbol_of
from costcore.registry import rows
from costcore.trace.call import Assumption, Call, Uncounted, new_call
from costcore.trace.run import Checkpoint, Dataflow, GraphNodes, Recorder, Step, new_nodes
from costcore.trace.run import Value as Size
from costcore.trace.trace import VIEWS, overwritable
from costcore.translate import Native, Translation, Translator, role_of

V = TypeVar("V")

S = TypeVar("S", bound=Stored)


class Mark(NamedTuple):
    """A position in the records, for rollbacks."""

    recorder: Checkpoint
    steps: int


class Section(NamedTuple):
    """The recorded calls, dataflow steps and assumptions between two points."""

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

    A frontend derives from it and defines the operand ids of its values.

    Args:
        recorder: receives the calls.
        dataflow: receives reads and results of calls beyond the operands of their layers.
        modules: the modules of the model.
        note: receives notes for the report, each once.
    """

    note: Notes

    def __init__(
        self, recorder: Recorder, dataflow: DataflowLog[V], modules: ModuleTree[S], note: Notes | None = None
    ) -> None:
        self.recorder = recorder
        self.dataflow = dataflow
        self.modules = modules
        self.note = note or Notes(recorder.notes)

    @abstractmethod
    def identity(self, value: V) -> int:
        """Return the operand id of a value; for a learned parameter, its parameter id."""

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
            name: its key, see :meth:`nodes_key`.
            translation: its layer, and the values that are operands and outputs of the layer.
            place: the loop context of its graph.
            module: path of the module around it.
            where: its location in the file.
            uncounted: why it cannot be counted; None if it can.
            inputs: all values that it reads.
            outputs: all values that it produces.
            scratch: bytes of each buffer that the runtime takes for it while it runs.
        """
        layer = translation.layer
        # This runs for every node: a tuple of a list is built faster than of a generator.
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
            prefix: the prefix of the names.
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
        """Remove the calls, dataflow steps and assumptions recorded since ``mark``."""
        self.recorder.rollback(mark.recorder)
        del self.dataflow.steps[mark.steps :]

    def since(self, mark: Mark) -> Section:
        """Return the records since ``mark``."""
        calls, steps = self.recorder.calls[mark.recorder.calls :], self.dataflow.steps[mark.steps :]
        return Section(calls, steps, self.recorder.assumptions_since(mark.recorder))

    def take(self, mark: Mark) -> Section:
        """Remove the calls and dataflow steps recorded since ``mark`` from the run; assumptions stay."""
        taken = self.since(mark)
        del self.recorder.calls[mark.recorder.calls :]
        del self.dataflow.steps[mark.steps :]
        return taken

    def add(self, calls: Iterable[Call], steps: Iterable[Step] = (), assumptions: Iterable[Assumption] = ()) -> None:
        """Append calls, dataflow steps and assumptions."""
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
        """Restore the counted branch, and record the memory of the others.

        Args:
            first: the first operand id of the choice.
            label: the name of the choice in tables.
            choice: the counted branch.
            branches: the removed section of each branch.
            returned: the results of each branch.
            reads: outer values that the branches need.
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
        """Write data flow, modules and parameters of the whole graph into the recorder.

        Args:
            inputs: the inputs of the graph.
            held: the stored tensors as values in memory.
            stored: the stored tensors.
            identify: returns the id of a learned parameter.
        """
        self.recorder.dataflow = self.dataflow.dataflow(inputs, held)
        self.recorder.modules.update(self.modules.tree(stored, identify))
        self.recorder.n_params_model = sum(tensor.size for tensor in stored if tensor.is_parameter)


# Data flow beyond the operands of calls: hidden inputs, loops, branches, and stored tensors.


FEW = 16
"""Below this number of ids, searching a tuple is faster than a set."""


class DataflowLog(ABC, Generic[V]):
    """Records reads and results of calls beyond the operands of their layers, for memory plans.

    A frontend derives from it and describes its values: :meth:`identity`, :meth:`ids`, :meth:`nbytes`,
    :meth:`own_memory` and :meth:`made`.

    Args:
        recorder: gives new ids.

    Attributes:
        steps: the steps noted so far, see :class:`costcore.trace.run.Dataflow`.
        views: pairs of values that share their memory.
        spans: first and last ids of loops and branches.
        unknown: why lifetimes are unknown.
        unplanned: ids of values with shapes unknown to a runtime before it runs.
        file: the bytes of the file, if its runtime keeps it whole; 0 if not.
    """

    new_id: Callable[[], int]

    def __init__(self, recorder: Recorder) -> None:
        self.steps: list[Step] = []
        self.views: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int]] = []
        self.unknown: dict[str, None] = {}
        self.unplanned: tuple[int, ...] = ()
        self.file = 0
        self.new_id = recorder.new_id

    @abstractmethod
    def identity(self, value: V) -> int:
        """Return the operand id of a value."""

    @abstractmethod
    def ids(self, values: Iterable[V | None]) -> list[int]:
        """Return the ids of the computed values; stored ones are left out."""

    @abstractmethod
    def nbytes(self, value: V) -> Dim:
        """Return the bytes of a value in memory."""

    @abstractmethod
    def own_memory(self, value: V) -> bool:
        """Return whether a value is computed, and has memory of its own."""

    def can_be_continued(self, value: V) -> bool:
        """Return whether a value inside a loop may take over the memory of this value."""
        return self.own_memory(value)

    def made(self, outputs: Sequence[V | None], results: frozenset[int] | tuple[int, ...]) -> list[V]:
        """Return the values that a node computes, without those whose ids are in ``results``."""
        return [v for v in outputs if v is not None and self.own_memory(v) and self.identity(v) not in results]

    def size(self, value: V, name: str = "") -> Size:
        """Return a value with its bytes."""
        return Size(self.identity(value), self.nbytes(value), name)

    def operands(
        self, call: Call, inputs: Iterable[V | None], outputs: Sequence[V | None], scratch: Sequence[Dim] = ()
    ) -> None:
        """Record reads and results of a call beyond the operands of its layer.

        Args:
            call: the call.
            inputs: all values that its node reads.
            outputs: all values that its node produces.
            scratch: bytes of each buffer that the runtime takes for it while it runs.
        """
        operands = call.inputs if len(call.inputs) < FEW else frozenset(call.inputs)
        results = call.outputs if len(call.outputs) < FEW else frozenset(call.outputs)
        reads = tuple([identity for identity in self.ids(inputs) if identity not in operands])
        made = self.made(outputs, results)
        if reads or made or scratch:
            self.further(call, reads, made, scratch)

    def further(self, call: Call, reads: tuple[int, ...], made: Iterable[V], scratch: Iterable[Dim]) -> None:
        """Record reads and results beyond the operands of a layer, for a call that has some.

        Args:
            call: the call.
            reads: ids of the values that it reads.
            made: the values that it makes.
            scratch: bytes of each buffer that the runtime takes for it while it runs.
        """
        makes = [self.size(value) for value in made]
        makes += [Size(self.new_id(), nbytes, f"scratch of {call.type}") for nbytes in scratch]
        at, name = (call.outputs[0], "") if call.outputs else (self.new_id(), call.type)
        self.steps.append(Step(at, reads, tuple(makes), name=name))

    def skipped(
        self, first: int, calls: Iterable[Call], steps: Iterable[Step], outputs: Sequence[V], label: str
    ) -> None:
        """Record the calls of an uncounted branch: its memory is needed if data selects it.

        Args:
            first: id at which the choice begins.
            calls: the calls of the branch.
            steps: its dataflow steps.
            outputs: its results.
            label: the branch in tables.
        """
        beside: dict[int, list[Step]] = {}
        ordered: list[tuple[int, Step]] = []
        for step in steps:
            if step.name:
                ordered.append((step.at, step))
            else:
                beside.setdefault(step.at, []).append(step)
        last = first
        for call in calls:
            last = call.outputs[0] if call.outputs else last
            further = beside.pop(last, [])
            sizes = zip(call.outputs, call.layer.outputs, strict=True)
            makes = [Size(identity, tensor.nbytes) for identity, tensor in sizes]
            views = [(call.outputs[0], call.inputs[0])] if call.layer.op in VIEWS and call.inputs and makes else []
            pairs = [(call.outputs[0], call.inputs[k]) for k in overwritable(call.layer)]
            ordered.append(
                (
                    last,
                    Step(
                        last,
                        (*call.inputs, *(identity for step in further for identity in step.reads)),
                        (*makes, *(value for step in further for value in step.makes)),
                        overwrites=tuple(pairs),
                        views=tuple(views),
                        name=f"{label}: {call.type}",
                    ),
                )
            )
        self.steps += [step._replace(at=first) for _, step in sorted(ordered, key=lambda item: item[0])]
        self.steps.append(Step(first, tuple(self.ids(outputs)), name=f"{label}: end"))

    def start_of(
        self,
        first: int,
        label: str,
        before: Sequence[V] = (),
        inner: Sequence[V] = (),
        further: Iterable[V] = (),
        reads: Iterable[V | None] = (),
    ) -> None:
        """Record the start of an inner graph: its values take over the memory of outer values, or copy them.

        Args:
            first: id at which it begins.
            label: the graph in tables.
            before: outer values.
            inner: the same values inside the graph.
            further: other values that it creates, such as joined outputs.
            reads: other outer values that it needs.
        """
        makes, takes = self._continued(inner, before)
        makes += tuple(self.size(value) for value in further)
        needed = dict.fromkeys(self.ids([*before, *reads]))
        self.steps.append(Step(first, tuple(needed), makes, takes, name=f"{label}: start"))

    def end_of(self, first: int, label: str, inner: Sequence[V], found: Sequence[V | None]) -> None:
        """Record the end of an inner graph, whose calls are contiguous.

        Args:
            first: id at which it begins.
            label: the graph in tables.
            inner: values of the graph that are needed until its end; the results take over the memory of the first.
            found: the results.
        """
        end = self.new_id()
        makes, takes = self._continued(found, inner)
        self.steps.append(Step(end, tuple(self.ids(inner)), makes, takes, name=f"{label}: end"))
        self.spans.append((first, end))

    def _continued(
        self, after: Sequence[V | None], before: Sequence[V]
    ) -> tuple[tuple[Size, ...], tuple[tuple[int, int], ...]]:
        makes, takes = [], []
        for new, old in zip(after, before, strict=False):
            if new is None or new is old or not self.own_memory(new):
                continue
            makes.append(self.size(new))
            if self.can_be_continued(old):
                takes.append((self.identity(new), self.identity(old)))
        return tuple(makes), tuple(takes)

    def view(self, value: V, of: int) -> None:
        """Record that a value is a view of the value with the id ``of``."""
        self.views.append((self.identity(value), of))

    def dataflow(self, inputs: Iterable[Size], stored: Iterable[Size]) -> Dataflow:
        """Return all records, with the inputs of the graph and its stored tensors."""
        held = tuple(stored)
        return Dataflow(
            inputs=tuple(inputs),
            stored=held,
            steps=tuple(self.steps),
            views=tuple(self.views),
            spans=tuple(self.spans),
            unknown=tuple(self.unknown),
            unplanned=self.unplanned,
            structure=max(self.file - sum(value.nbytes for value in held), 0) if self.file else 0,
        )


# The writer for graphs with known shapes.


class ValueLog(DataflowLog[GraphValue]):
    """The data flow of a graph with known shapes."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._nbytes: dict[tuple[tuple[Dim, ...], str], Dim] = {}

    def identity(self, value: GraphValue) -> int:
        """Return the operand id of a value; a view has the id of its base."""
        value = value.base or value
        if not value.identity:
            value.identity = self.new_id()
        return value.identity

    def ids(self, values: Iterable[GraphValue | None]) -> list[int]:
        """Return the ids of the computed values; stored ones are left out."""
        owners = [value.base or value for value in values if value is not None]
        return [owner.identity or self.identity(owner) for owner in owners if not owner.is_stored]

    def nbytes(self, value: GraphValue) -> Dim:
        """Return the bytes of a value in memory."""
        key = value.shape, value.dtype
        found = self._nbytes.get(key)
        if found is None:
            found = self._nbytes[key] = value.nbytes
        return found

    def own_memory(self, value: GraphValue) -> bool:
        """Return whether a value is computed, not stored."""
        return not (value.base or value).is_stored


class _Recipe(NamedTuple):
    """How to record a node, computed once for equal nodes. Values are positions among the values of the node.

    Attributes:
        layer: its layer.
        inputs, outputs: the operands and results of the layer.
        has_row: whether a row maps it.
        parameters: positions among ``inputs`` of learned parameters.
        states: the states among the operands.
        stored: the stored values that it reads.
        further: the computed values that it reads besides the operands of the layer.
        made: the values that it makes besides the results of the layer.
        is_constant: whether its results are known before the run.
    """

    layer: Layer
    inputs: Sequence[int]
    outputs: Sequence[int]
    has_row: bool
    parameters: Sequence[int]
    states: Sequence[int]
    stored: Sequence[int]
    further: Sequence[int]
    made: Sequence[int]
    is_constant: bool


def _recipe_of(
    translation: Translation, stored: Sequence[int], n_read: int, n_made: int, owners: Sequence[GraphValue]
) -> _Recipe:
    layer, inputs, outputs, has_row = translation
    positions: dict[int, int] = {}
    for i, owner in enumerate(owners):
        positions.setdefault(id(owner), i)
    read, results = ([positions[id(value.base or value)] for value in side] for side in (inputs, outputs))
    roles = [tensor.role for tensor in layer.inputs.values()]
    given, made = range(n_read), range(n_read, n_read + n_made)
    operands, made_by_layer = {*read}, {*results}
    return _Recipe(
        layer,
        read,
        results,
        has_row,
        [i for i, role in enumerate(roles) if role == "param"],
        [i for i, role in zip(read, roles, strict=True) if role == "state"],
        stored,
        [i for i in given if not owners[i].is_stored and positions[id(owners[i])] not in operands],
        [i for i in made if not owners[i].is_stored and positions[id(owners[i])] not in made_by_layer],
        0 < len(stored) == n_read,
    )


_UNSTATED = Call(Layer(""), "")[14:]
"""The default values of the fields of a call after ``where``."""


class GraphRecording(GraphWriter[GraphValue, GraphValue]):
    """Writes the nodes of a graph into a run.

    Args:
        recorder: receives the calls.
        frontend: name of the frontend; its rows, and rows of plug-ins, map the operators.
        trips: the number of runs of data-dependent loops; None for a symbol for each.
        learned_by: types of operators whose stored operands are learned parameters if they have several real numbers.
            For all other operators, the row says which operands are learned.

    Raises:
        ValueError: if ``trips`` is not an integer of 0 or more.
    """

    def __init__(
        self, recorder: Recorder, frontend: str, trips: int | None = None, learned_by: Collection[str] = ()
    ) -> None:
        if trips is not None and (not isinstance(trips, int) or isinstance(trips, bool) or trips < 0):
            raise ValueError(f"trips must be an integer of 0 or more (got {trips!r})")
        super().__init__(recorder, ValueLog(recorder), ModuleTree())
        self._trips, self._learned_by = trips, learned_by
        self._n_nodes = self._n_loops = 0
        self._translator = Translator(rows(frontend), self._tensor, _role)
        self._stored: dict[int, GraphValue] = {}
        self._recipes: dict[Hashable, _Recipe] = {}
        self._options: dict[int, tuple[Mapping[str, Any], Hashable]] = {}
        self._tensors: dict[tuple[tuple[Dim, ...], str, Role], Tensor] = {}

    def record(self, node: GraphNode, place: Place, where: str | Callable[[], str] = "") -> Call:
        """Record the executions of a node.

        Args:
            node: the node.
            place: the loop context of its graph.
            where: its location in the file, for calls that are not counted; or a function that returns the location.

        Raises:
            CostError: if the graphs expand to more nodes than are recorded.
        """
        self._n_nodes += 1
        if self._n_nodes > MOST_NODES:
            raise CostError(f"the graphs expand to more than {MOST_NODES:,} operators")
        read, settings = values_and_settings(node.args)
        if node.type in self._learned_by:
            for value in read:
                if value.is_stored and value.is_real and value.size != 1:
                    (value.base or value).is_parameter = True
        values = [*read, *node.outputs]
        for value in [value for value in values if value.beside]:
            values += [other for other in value.beside if other is not None]
        owners = [value.base or value for value in values]
        recipe = self._recipe(node, len(read), values, owners, settings)
        layer = recipe.layer
        module = self.modules.enter_within(node.module) if node.module else ""
        if recipe.stored:
            self.modules.read(module, [owners[i] for i in recipe.stored])
        for i in recipe.parameters:
            owners[recipe.inputs[i]].is_parameter = True
        for i in recipe.states:
            owners[i].is_state = True
        if recipe.is_constant:
            for value in node.outputs:
                value.is_stored = True
        recorder, identity = self.recorder, self.identity
        inputs = tuple([identity(owners[i]) for i in recipe.inputs])
        outputs = tuple([identity(owners[i]) for i in recipe.outputs])
        produced = tuple([value.name for value in node.outputs if value.name])
        nodes = new_nodes(GraphNodes, ((node.name,) if node.name else (), produced))
        call: Call = tuple.__new__(
            Call,
            (
                layer,
                node.type,
                node.native,
                recorder.nodes_key(nodes),
                module,
                "forward",
                place.times,
                place.region,
                inputs,
                outputs,
                (),
                tuple([inputs[i] for i in recipe.parameters]) if recipe.parameters else (),
                (),
                (where if isinstance(where, str) else where()) if recorder.tracebacks or not recipe.has_row else "",
                *_UNSTATED,
            ),
        )
        recorder.record(call)
        if recipe.further or recipe.made or node.scratch:
            reads = tuple([owners[i].identity or identity(owners[i]) for i in recipe.further])
            self.dataflow.further(call, reads, [values[i] for i in recipe.made], node.scratch)
        return call

    def identity(self, value: GraphValue) -> int:
        """Return the operand id of a value; for a learned parameter, its parameter id."""
        value = value.base or value
        identity = value.identity or self.dataflow.identity(value)
        if value.is_stored:
            self._stored.setdefault(identity, value)
        if value.is_parameter and identity not in self.recorder.parameters:
            self.recorder.parameters[identity] = value.size
        return identity

    def branch(
        self,
        node: str,
        walks: Mapping[str, Callable[[Place], Sequence[GraphValue]]],
        place: Place,
        reads: Iterable[GraphValue],
        results: Callable[[Sequence[GraphValue]], Sequence[GraphValue]],
    ) -> Sequence[GraphValue]:
        """Record the most expensive branch of a node (an assumption).

        Args:
            node: the node that chooses.
            walks: functions that record a branch at a place and return its results, by name.
            place: where the node is.
            reads: the values that the node is given.
            results: returns the results of the node from the results of the counted branch.

        Returns:
            The results.
        """
        first, inside = self.dataflow.new_id(), place.inside("if")
        sections: dict[str, Section] = {}
        returned: dict[str, Sequence[GraphValue]] = {}
        for name, walk in walks.items():
            mark = self.checkpoint()
            returned[name] = walk(inside)
            sections[name] = self.take(mark)
        choice = most_expensive({name: section.calls for name, section in sections.items()}, self.recorder)
        flops = "; ".join(f"{name!r} has {choice.flops[name]} FLOPs" for name in walks)
        self.recorder.assume(
            f"which branch of {node} runs depends on data: the most expensive, {choice.counted!r}, is counted ({flops})"
        )
        found = results(returned[choice.counted])
        self.choose(first, inside.region, choice, sections, returned, reads, found)
        return found

    def loop(self, trips: int | None, node: str, place: Place) -> tuple[Dim, str]:
        """Return how often the body of a loop runs (an assumption if it depends on data), and its region.

        Args:
            trips: how often, if the file says so.
            node: the node that loops.
            place: where the node is.
        """
        self._n_loops += 1
        region = f"loop{self._n_loops}"
        if trips is not None:
            return trips, region
        found: Dim = symbol_of(f"trips_{self._n_loops}") if self._trips is None else self._trips
        hint = f"it is the symbol {found}. Give it with trips=…" if self._trips is None else f"{found} (trips)"
        self.recorder.assume(f"how often {node} runs depends on data: {hint}")
        return found, region

    def finish(self, inputs: Iterable[GraphValue], outputs: Iterable[GraphValue]) -> None:
        """Write inputs, results, data flow, parameters and modules of the whole graph into the recorder."""
        recorder, entering = self.recorder, list(inputs)
        recorder.inputs += map(self.identity, entering)
        recorder.returned += map(self.identity, outputs)
        stored, size = self._stored.values(), self.dataflow.size
        inputs_held, held = ([size(value, value.name) for value in values] for values in (entering, stored))
        self.complete(inputs_held, held, stored, self.identity)

    def _recipe(
        self,
        node: GraphNode,
        n_read: int,
        values: list[GraphValue],
        owners: list[GraphValue],
        settings: Hashable,
    ) -> _Recipe:
        """Return how to record a node; graphs repeat their blocks, and equal nodes have one recipe."""
        if node.options:
            settings = settings, self._options_key(node.options)
        key: Hashable = (
            node.native,
            n_read,
            settings,
            tuple([value.signature for value in values]),
            # equal nodes have the same values in the same positions
            tuple(map(owners.index, owners)) if len({*owners}) < len(owners) else (),
        )
        try:
            recipe = self._recipes.get(key)
        except TypeError:  # an argument without a hash
            key, recipe = None, None
        if recipe is None:
            arguments = {**node.options, **node.args, "outputs": dict(enumerate(node.outputs))}
            stored = [i for i in range(n_read) if owners[i].is_stored]
            translation = self._translate(node, arguments, are_stored=0 < len(stored) == n_read)
            is_known = {*map(id, owners)}.issuperset(id(v.base or v) for v in (*translation[1], *translation[2]))
            if not is_known:  # a row made an operand that is no value of the node
                key = None
                more = [v for v in (*translation.inputs, *translation.outputs) if (v.base or v) not in owners]
                values += more
                owners += [value.base or value for value in more]
            recipe = _recipe_of(translation, stored, n_read, len(node.outputs), owners)
            if key is not None:
                self._recipes[key] = recipe
        return recipe

    def _options_key(self, options: Mapping[str, Any]) -> Hashable:
        known = self._options.get(id(options))
        if known is None:
            key = tuple([(name, tuple(each) if isinstance(each, list) else each) for name, each in options.items()])
            known = self._options[id(options)] = options, key  # keeping the mapping keeps its id valid
        return known[1]

    def _translate(self, node: GraphNode, arguments: Mapping[str, Any], are_stored: bool) -> Translation:
        # Only stored operands: the result was computed before the run.
        if are_stored:
            for value in node.outputs:
                value.is_stored = True
            outputs = [Tensor(value.shape, value.dtype) for value in node.outputs]
            layer = self.recorder.intern(Layer("constant", {}, outputs))
            return Translation(layer, (), tuple(node.outputs), has_row=True)
        layer, inputs, results, has_row = self._translator(Native(node.native, arguments, node.outputs))
        return Translation(self.recorder.intern(layer), inputs, results, has_row)

    def _tensor(self, value: Any, role: Role) -> Tensor | None:
        if not isinstance(value, GraphValue):
            return None
        owner = value.base or value
        # A weight or state by its name is data if the graph computes it.
        if role in ("param", "state") and not owner.is_stored:
            role = "data"
        if role == "data" and owner.is_stored:
            role = "param" if owner.is_parameter else "const"
        self._mark(owner, role)
        key = value.shape, value.dtype, role
        tensor = self._tensors.get(key)
        if tensor is None:
            tensor = self._tensors[key] = Tensor(*key)
        return tensor

    @staticmethod
    def _mark(owner: GraphValue, role: Role) -> None:
        if role == "param":
            owner.is_parameter = True
        elif role == "state":
            owner.is_state = True


@lru_cache
def _role(operand: str) -> Role:
    return "const" if operand.endswith(("_scale", "_zero_point")) else role_of(operand)
