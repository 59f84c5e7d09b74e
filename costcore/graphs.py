"""Static graphs, as the files of runtimes store them: what a frontend that reads such files writes a run with.

A frontend of a static format is a reader, which makes a :class:`GraphNode` of each operator and a :class:`GraphValue`
of each tensor, and a table of rows. :class:`GraphRecording` makes calls of them, with module paths, data flow and
parameters, so that every analysis works: the arena too. ``plugins/costcore-tflite`` is an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.ir import Layer, Role, Tensor, prod
from costcore.numbers.dims import Dim
from costcore.numbers.expressions import symbol_of
from costcore.registry.frontends import rows
from costcore.trace.call import Call, Module
from costcore.trace.dataflow import Dataflow, Step
from costcore.trace.dataflow import Value as Size
from costcore.trace.recorder import Recorder
from costcore.trace.run import GraphNodes
from costcore.translate import Native, Translation, Translator, role_of

DEEPEST = 32
"""The most graphs inside each other that are followed."""

MOST_NODES = 200_000
"""The most nodes that are recorded, those of graphs that run at several places included."""


@dataclass(slots=True, eq=False)
class GraphValue:
    """A value of a graph.

    Attributes:
        shape: the size of each axis.
        dtype: a key of :data:`costcore.ir.BITS`.
        name: its name in the file.
        is_stored: whether the file stores it: a weight or a constant.
        data: its elements in order, if it is a small constant; None for any other.
        identity: its operand id; 0 until it is recorded.
        is_parameter: whether a call reads it as a learned parameter: as a weight or bias, or as anything if the reader
            says so beforehand.
        base: the value whose memory it shows in another order or shape; None for a value of its own.
    """

    shape: tuple[Dim, ...]
    dtype: str
    name: str = ""
    is_stored: bool = False
    data: tuple[Any, ...] | None = None
    identity: int = 0
    is_parameter: bool = False
    base: GraphValue | None = None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> Dim:
        """The bytes in memory, or in the file."""
        return Tensor(self.shape, self.dtype).nbytes

    def viewed(self, *shape: Dim) -> GraphValue:
        """Return the same value with other axes, as a formula names them: ``[N, H, W, C]`` as ``[N, C, H, W]``."""
        return GraphValue(shape, self.dtype, self.name, self.is_stored, self.data, base=self.base or self)

    def permuted(self, *axes: int) -> GraphValue:
        """Return the same value with its axes in another order."""
        return self.viewed(*(self.shape[axis] for axis in axes))


class GraphNode(NamedTuple):
    """An operator of a graph.

    Attributes:
        native: full name of the operator, ``tflite::CONV_2D``, as rows name it.
        type: its short name, ``CONV_2D``.
        args: operands (:class:`GraphValue`, lists of these, or None) and attributes, by name.
        outputs: the values that it produces.
        name: its name; empty if it has none.
        module: path of the module around it; empty if unknown.
        scratch: bytes of each buffer that the runtime takes for it while it runs.
    """

    native: str
    type: str
    args: Mapping[str, Any]
    outputs: Sequence[GraphValue]
    name: str = ""
    module: str = ""
    scratch: Sequence[Dim] = ()


class Place(NamedTuple):
    """Where a graph runs: how often, in which loop or branch, and how deep inside others."""

    times: Dim = 1
    region: str = ""
    depth: int = 0

    def inside(self, region: str, times: Dim = 1) -> Place:
        """Return the place of a graph that a node here runs.

        Raises:
            CostError: if graphs run each other deeper than is followed.
        """
        if self.depth >= DEEPEST:
            raise CostError(f"graphs run each other more than {DEEPEST} deep")
        return Place(self.times * times, f"{self.region}/{region}" if self.region else region, self.depth + 1)


class GraphRecording:
    """Writes the nodes of a graph into a run.

    Args:
        recorder: receives the calls.
        frontend: name of the frontend, whose rows (with those of plug-ins) map its operators.
        trips: how often loops run whose number of runs depends on data; None for a symbol for each.

    Attributes:
        recorder: the recorder.

    Raises:
        ValueError: if ``trips`` is not an integer of 0 or more.
    """

    def __init__(self, recorder: Recorder, frontend: str, trips: int | None = None) -> None:
        if trips is not None and (not isinstance(trips, int) or isinstance(trips, bool) or trips < 0):
            raise ValueError(f"trips must be an integer of 0 or more (got {trips!r})")
        self.recorder = recorder
        self._trips = trips
        self._n_nodes = self._n_loops = 0
        self._translator = Translator(rows(frontend), self._tensor, self._role)
        self._stored: dict[int, GraphValue] = {}
        self._steps: list[Step] = []
        self._modules: dict[str, None] = {"": None}

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
        translation = self._translate(node)
        layer = self.recorder.intern(translation.layer)
        inputs = tuple(map(self.identity, translation.inputs))
        call = Call(
            layer=layer,
            type=node.type,
            native=node.native,
            name=self.recorder.nodes_key(
                GraphNodes((node.name,) if node.name else (), tuple(v.name for v in node.outputs))
            ),
            module=node.module,
            times=place.times,
            region=place.region,
            inputs=inputs,
            outputs=tuple(map(self.identity, translation.outputs)),
            parameters=tuple(
                dict.fromkeys(i for i, t in zip(inputs, layer.inputs.values(), strict=True) if t.role == "param")
            ),
            where=where if self.recorder.tracebacks or not translation.has_row else "",
        )
        self.recorder.record(call)
        self._enter(node.module)
        self._note_others(node, call)
        return call

    def identity(self, value: GraphValue) -> int:
        """Return the operand id of a value; that of a learned parameter is its parameter id."""
        value = value.base or value
        if not value.identity:
            value.identity = self.recorder.new_id()
        if value.is_stored:
            self._stored.setdefault(value.identity, value)
        if value.is_parameter:
            self.recorder.parameters.setdefault(value.identity, value.size)
        return value.identity

    def note(self, text: str) -> None:
        """Add a remark to the report, once."""
        if text not in self.recorder.notes:
            self.recorder.notes.append(text)

    def branch(self, sizes: Mapping[str, int], node: str, place: Place) -> tuple[str, Place]:
        """Return which branch is counted, the one with most nodes, and its place; the choice is an assumption.

        Args:
            sizes: the number of nodes of each branch, by its name.
            node: the node that chooses.
            place: where the node is.
        """
        chosen = max(sizes, key=lambda name: sizes[name])
        self.recorder.assume(
            f"which branch of {node} runs depends on data: the {chosen} branch is counted, which has most operators"
        )
        return chosen, place.inside("if")

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

    def join(self, before: Sequence[GraphValue], after: Sequence[GraphValue], name: str) -> None:
        """Note that values continue others: arguments of a graph that is called, and the results of such a call."""
        pairs = [(new, old) for new, old in zip(after, before, strict=False) if new is not old and not new.is_stored]
        takes = tuple((self.identity(new), self.identity(old)) for new, old in pairs if not old.is_stored)
        makes = tuple(self._sized(new) for new, _ in pairs)
        reads = tuple(self.identity(value) for value in before if not value.is_stored)
        self._steps.append(Step(self.recorder.new_id(), reads, makes, takes, name=name))

    def finish(self, inputs: Iterable[GraphValue], outputs: Iterable[GraphValue]) -> None:
        """Write what holds for the whole graph into the recorder: its ends, data flow, parameters and modules."""
        recorder, entering = self.recorder, list(inputs)
        recorder.inputs += map(self.identity, entering)
        recorder.returned += map(self.identity, outputs)
        stored = self._stored.values()
        recorder.n_params_model = sum(value.size for value in stored if value.is_parameter)
        recorder.dataflow = Dataflow(
            inputs=tuple(map(self._sized, entering)),
            stored=tuple(map(self._sized, stored)),
            steps=tuple(self._steps),
        )
        if len(self._modules) > 1:
            recorder.modules.update({path: Module("") for path in self._modules})

    def _sized(self, value: GraphValue) -> Size:
        return Size(self.identity(value), value.nbytes, value.name)

    def _translate(self, node: GraphNode) -> Translation:
        """Return the layer of a node; one whose operands are all constants was computed before the run."""
        values = list(_values(node.args.values()))
        if values and all(value.is_stored for value in values):
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
        return Tensor(value.shape, value.dtype, role)

    def _role(self, operand: str) -> Role:
        return "const" if operand.endswith(("_scale", "_zero_point")) else role_of(operand)

    def _note_others(self, node: GraphNode, call: Call) -> None:
        """Note what a node reads and produces beside the operands of its layer."""
        known = {*call.inputs, *call.outputs}
        reads = tuple(
            identity
            for value in _values(node.args.values())
            if not (value.base or value).is_stored and (identity := self.identity(value)) not in known
        )
        makes = [self._sized(value) for value in node.outputs if self.identity(value) not in known]
        makes += [Size(self.recorder.new_id(), nbytes, f"scratch of {node.type}") for nbytes in node.scratch]
        if reads or makes:
            at = call.outputs[0] if call.outputs else self.recorder.new_id()
            self._steps.append(Step(at, reads, tuple(makes), name="" if call.outputs else node.type))

    def _enter(self, module: str) -> None:
        """Add a module and those around it."""
        parts = module.split(".") if module else []
        for end in range(1, len(parts) + 1):
            self._modules.setdefault(".".join(parts[:end]))


def _values(items: Iterable[Any]) -> Iterable[GraphValue]:
    """Yield the values among arguments, those in lists too."""
    for item in items:
        if isinstance(item, GraphValue):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from (part for part in item if isinstance(part, GraphValue))
