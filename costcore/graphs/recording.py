"""The writer of a run whose graph states the shapes of all values: calls, module paths, data flow and parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from costcore.errors import CostError
from costcore.graphs.branches import dearest
from costcore.graphs.dataflow import DataflowLog
from costcore.graphs.modules import ModuleTree
from costcore.graphs.places import MOST_NODES, Place
from costcore.graphs.values import GraphNode, GraphValue, values_in
from costcore.graphs.writer import GraphWriter, Section
from costcore.ir import Layer, Role, Tensor
from costcore.numbers.dims import Dim
from costcore.numbers.expressions import symbol_of
from costcore.registry.frontends import rows
from costcore.trace.call import Call
from costcore.trace.recorder import Recorder
from costcore.translate import Native, Translation, Translator, role_of


class ValueLog(DataflowLog[GraphValue]):
    """The log of values whose shapes the graph states."""

    def identity(self, value: GraphValue) -> int:
        """Return the operand id of a value; a view has that of the value that it shows."""
        value = value.base or value
        if not value.identity:
            value.identity = self.new_id()
        return value.identity

    def ids(self, values: Iterable[GraphValue | None]) -> list[int]:
        """Return the ids of those values that are computed, not stored."""
        owners = [value.base or value for value in values if value is not None]
        return [owner.identity or self.identity(owner) for owner in owners if not owner.is_stored]

    def nbytes(self, value: GraphValue) -> Dim:
        """Return the bytes of a value in memory."""
        return value.nbytes

    def own_memory(self, value: GraphValue) -> bool:
        """Return whether a value is computed, not stored."""
        return not (value.base or value).is_stored


class GraphRecording(GraphWriter[GraphValue, GraphValue]):
    """Writes the nodes of a graph into a run.

    Args:
        recorder: receives the calls.
        frontend: name of the frontend, whose rows (with those of plug-ins) map its operators.
        trips: how often loops run whose number of runs depends on data; None for a symbol for each.
        learned_by: types of operators whose stored operands of several real numbers are learned parameters, as those of
            layers are by their place.

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
        self._tensors: dict[tuple[tuple[Dim, ...], str, Role], Tensor] = {}

    def record(self, node: GraphNode, place: Place, where: str = "") -> Call:
        """Record the executions of a node.

        Args:
            node: the node.
            place: where its graph runs.
            where: where it is in the file, for calls that are not counted.

        Raises:
            CostError: if the graphs expand to more nodes than are recorded.
        """
        self._n_nodes += 1
        if self._n_nodes > MOST_NODES:
            raise CostError(f"the graphs expand to more than {MOST_NODES:,} operators")
        read = values_in(node.args.values())
        stored = [value for value in [value.base or value for value in read] if value.is_stored]
        if node.type in self._learned_by:
            for value in read:
                if value.is_stored and value.is_real and value.size != 1:
                    (value.base or value).is_parameter = True
        layer, inputs, outputs, has_row = self._translate(node, are_stored=0 < len(stored) == len(read))
        module = self.modules.enter_within(node.module)
        self.modules.read(module, stored)
        return self.write(
            node.type,
            node.native,
            self.nodes_key(node.name, tuple([value.name for value in node.outputs])),
            Translation(self.recorder.intern(layer), inputs, outputs, has_row),
            place,
            module=module,
            where=where if self.recorder.tracebacks or not has_row else "",
            inputs=read,
            outputs=node.outputs,
            scratch=node.scratch,
        )

    def identity(self, value: GraphValue) -> int:
        """Return the operand id of a value; that of a learned parameter is its parameter id."""
        value = value.base or value
        identity = value.identity or self.dataflow.identity(value)
        if value.is_stored:
            self._stored.setdefault(identity, value)
        if value.is_parameter:
            self.recorder.parameters.setdefault(identity, value.size)
        return identity

    def branch(
        self,
        node: str,
        walks: Mapping[str, Callable[[Place], Sequence[GraphValue]]],
        place: Place,
        reads: Iterable[GraphValue],
        results: Callable[[Sequence[GraphValue]], Sequence[GraphValue]],
    ) -> Sequence[GraphValue]:
        """Record the dearest of the branches between which a node chooses; the choice is an assumption.

        Args:
            node: the node that chooses.
            walks: by name, what records a branch at a place and returns its results.
            place: where the node is.
            reads: the values that the node is given.
            results: returns the results of the node for those of the branch that is counted.

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
        choice = dearest({name: section.calls for name, section in sections.items()}, self.recorder)
        flops = "; ".join(f"{name!r} has {choice.flops[name]} FLOPs" for name in walks)
        self.recorder.assume(
            f"which branch of {node} runs depends on data: the most expensive, {choice.counted!r}, is counted ({flops})"
        )
        found = results(returned[choice.counted])
        self.choose(first, inside.region, choice, sections, returned, reads, found)
        return found

    def loop(self, trips: int | None, node: str, place: Place) -> tuple[Dim, str]:
        """Return how often the body of a loop runs, and its region; what depends on data is an assumption.

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
        """Write what holds for the whole graph into the recorder: its ends, data flow, parameters and modules."""
        recorder, entering = self.recorder, list(inputs)
        recorder.inputs += map(self.identity, entering)
        recorder.returned += map(self.identity, outputs)
        stored, size = self._stored.values(), self.dataflow.size
        inputs_held, held = ([size(value, value.name) for value in values] for values in (entering, stored))
        self.complete(inputs_held, held, stored, self.identity)

    def _translate(self, node: GraphNode, are_stored: bool) -> Translation:
        """Return the layer of a node; one whose operands are all stored was computed before the run."""
        if are_stored:
            for value in node.outputs:
                value.is_stored = True
            outputs = [Tensor(value.shape, value.dtype) for value in node.outputs]
            return Translation(Layer("constant", {}, outputs), (), tuple(node.outputs), has_row=True)
        return self._translator(Native(node.native, node.args, node.outputs))

    def _tensor(self, value: Any, role: Role) -> Tensor | None:
        """Return the operand for a value in the role that its name gives it; None for a plain argument."""
        if not isinstance(value, GraphValue):
            return None
        owner = value.base or value
        if role in ("param", "state") and not owner.is_stored:
            role = "data"
        if role == "data" and owner.is_stored:
            role = "param" if owner.is_parameter else "const"
        owner.is_parameter |= role == "param"
        owner.is_state |= role == "state"
        key = value.shape, value.dtype, role
        tensor = self._tensors.get(key)
        if tensor is None:
            tensor = self._tensors[key] = Tensor(*key)
        return tensor


@lru_cache
def _role(operand: str) -> Role:
    return "const" if operand.endswith(("_scale", "_zero_point")) else role_of(operand)
