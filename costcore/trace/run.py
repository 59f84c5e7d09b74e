"""The options, parameters, modules and records of a run: its recorder, memory ledger, dataflow and profile."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, count, pairwise
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from costcore._version import __version__
from costcore.ir import Calculator, Cost, Layer, Pattern
from costcore.numbers import Dim
from costcore.trace.call import Assumption, Call, Module, ModuleCall, Record

FLOPS = "FLOPs"
"""The unit of the counting rules of costcore."""

CONVENTION = "costcore-1"
"""Name of the counting rules of this version, as listed in DETAILS.md."""


class Regrouping(NamedTuple):
    """A group that counts as one operator: ONNX nodes into which an exporter decomposed it, or a PyTorch function.

    Attributes:
        op: canonical name of that operator.
        nodes: the nodes, by the names that messages use; or the PyTorch function, with the path of its module.
    """

    op: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"regrouped as {self.op}: {', '.join(self.nodes)}"

    @classmethod
    def parse(cls, note: str) -> Regrouping | None:
        """Return the regrouping of a note; None for any other note."""
        found = re.fullmatch(_REGROUPING, note)
        if not found:
            return None
        parsed = cls(found["op"], tuple(re.findall(_NODE, found["nodes"])))
        return parsed if str(parsed) == note else None


_NODE = r"""(?:^|, )((?:[^,'"]|,(?! )|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")+)"""
"""One of several nodes separated by commas; names are quoted as Python quotes strings."""

_REGROUPING = r"(?s)regrouped as (?P<op>\w+): (?P<nodes>.+)"


class GraphNodes(NamedTuple):
    """The nodes of the graph that a call stands for: one, or several counted as one operator.

    Names inside a loop body, a branch or a function begin with the enclosing names: ``loop.body/relu``.

    Attributes:
        names: names of the nodes; nodes without a name are left out.
        outputs: names of the values that nodes outside the group read.
    """

    names: tuple[str, ...]
    outputs: tuple[str, ...]


new_nodes: Callable[..., Any] = tuple.__new__
"""Builds a :class:`GraphNodes` three times as fast as its constructor: ``new_nodes(GraphNodes, (names, outputs))``."""


class Rank(NamedTuple):
    """The rank of a run in a mesh of processes.

    Attributes:
        mesh: name and number of processes of each dimension, the outermost first.
        rank: number of the process, from 0.
        n_params: elements of the parameters that this process holds.
    """

    mesh: tuple[tuple[str, int], ...]
    rank: int
    n_params: int

    @property
    def mesh_text(self) -> str:
        """The mesh as text, ``dp=2, tp=4``."""
        return ", ".join(f"{name}={size}" for name, size in self.mesh)

    def __str__(self) -> str:
        return f"rank {self.rank} of the mesh {self.mesh_text}, which holds {self.n_params:,} parameters"


LEVELS = ("none", "pointwise", "compiler")
"""The levels of fusion; each merges groups of the one before."""


class Fusion(NamedTuple):
    """How the calls of a run were fused: the bytes in its costs are bytes after fusion.

    Attributes:
        level: the level of fusion, see :mod:`costcore.analyses.fusion`.
        groups: positions of the calls of every group.
        unfused: bytes that all calls read and write if each runs by itself.
    """

    level: str
    groups: tuple[tuple[int, ...], ...]
    unfused: Dim

    def of_part(self, new: Mapping[int, int]) -> Fusion:
        """Return the fusion of a part of the calls, given their new positions by old position."""
        groups = (tuple(new[i] for i in group if i in new) for group in self.groups)
        return self._replace(groups=tuple(filter(None, groups)))


def _by_call(values: Mapping[int, Any], new: Mapping[int, int]) -> dict[int, Any]:
    return {new[i]: value for i, value in values.items() if i in new}


class Unfolded(NamedTuple):
    """The data to unroll folded loops: loops whose body was recorded once, with the number of repetitions.

    Attributes:
        folds: position of the first call of each loop, and the number of calls of its body.
        ids: the ids of every call. A call inside a loop body has one id for each of the first three repetitions.
    """

    folds: tuple[tuple[int, int], ...]
    ids: tuple[tuple[Dim, ...], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """The options, parameters, modules, versions and records that all calls of a trace share.

    Attributes:
        fma_1flop: whether a fused multiply-add counts as one FLOP (True) or two.
        layout: ``framework`` counts data movement as the framework does it, ``free`` counts none.
        parameters: number of elements of every learned parameter, by parameter id.
        n_params_model: number of elements of all parameters of the model, used or not; None if no model was given.
        modules: the modules of the model by path, in the model's order; the root has the path ``""``. Empty if unknown.
        frameworks: versions of the frameworks, by name.
        assumptions: what was assumed about data, and where.
        notes: remarks on how the run was captured. Regrouped nodes are not among them.
        version: version of costcore.
        convention: name of the counting rules.
        unit: the unit of FLOPs in tables; another convention may count ``MACs (fvcore)``.
        records: all other recorded values, by the name of their :class:`costcore.trace.call.Record`. The values below
            can be read as attributes, ``run.returned``.
        regrouped: nodes that were counted as one operator.
        inputs: operand ids of the values that the model is given, in order of first use; empty if unknown.
        buffers: operand ids of values of the model that are not learned, such as running statistics; empty if
            ``inputs`` are unknown.
        returned: operand ids of the tensors that the outermost module returned in any of its calls, in order, including
            tensors in lists, tuples, dicts and dataclasses. Empty if unknown.
        module_calls: every call of a module, in the order in which they began; only with ``record_api_calls=True``.
        dataflow: values of a graph that no call produces or reads; None if calls produce or read all values.
        memory: every block of memory of the run; None unless requested.
        nodes: the nodes of the graph by the position of their call; empty if no graph was read.
        patterns: the patterns (``map``, ``reduce``, ...) that custom calculators state, by position of the call.
        fusion: how calls were fused; None if each call reads and writes its operands.
        ranges: the range of every named size in which the formulas were checked; empty without named sizes.
        rank: which process of a mesh this is; None if no mesh was simulated.
        assumed_above: assumptions of a run with named sizes that apply only above some size, because the values of
            larger tensors are not kept. Each has the number of elements as a formula, and the maximum number of
            elements that is kept. Files do not keep this.
        unfolded: the data to unroll folded loops; None without loops. Files do not keep this either.
        opsets: the version of each set of operators that a graph states, by its domain; empty if no graph was read.
        profile: the measurements of the run, if it was read from a trace of a profiler. Files do not keep this.
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
    unit: str = FLOPS
    records: Mapping[str, Any] = field(default_factory=dict)

    regrouped: ClassVar[Record[tuple[Regrouping, ...]]] = Record("regrouped", ())
    inputs: ClassVar[Record[tuple[int, ...]]] = Record("inputs", ())
    buffers: ClassVar[Record[tuple[int, ...]]] = Record("buffers", ())
    returned: ClassVar[Record[tuple[int, ...]]] = Record("returned", ())
    module_calls: ClassVar[Record[tuple[ModuleCall, ...]]] = Record("module_calls", ())
    dataflow: ClassVar[Record[Dataflow | None]] = Record("dataflow", None)
    memory: ClassVar[Record[MemoryLedger | None]] = Record("memory", None)
    nodes: ClassVar[Record[Mapping[int, GraphNodes]]] = Record("nodes", {}, of_part=_by_call)
    patterns: ClassVar[Record[Mapping[int, Pattern]]] = Record("patterns", {}, of_part=_by_call)
    fusion: ClassVar[Record[Fusion | None]] = Record("fusion", None, of_part=Fusion.of_part)
    ranges: ClassVar[Record[Mapping[str, tuple[int, int]]]] = Record("ranges", {})
    rank: ClassVar[Record[Rank | None]] = Record("rank", None)
    assumed_above: ClassVar[Record[tuple[tuple[Assumption, Dim, int], ...]]] = Record(
        "assumed_above", (), is_kept=False
    )
    unfolded: ClassVar[Record[Unfolded | None]] = Record("unfolded", None, is_kept=False)
    opsets: ClassVar[Record[Mapping[str, int]]] = Record("opsets", {})
    profile: ClassVar[Record[Profile | None]] = Record("profile", None, is_kept=False)

    @property
    def model(self) -> str:
        """The class of the model; empty if it is unknown."""
        root = self.modules.get("")
        return root.type if root else ""

    def recording(self, **records: Any) -> Run:
        """Return the run with further records; empty values and None are left out."""
        kept = {**self.records, **records}
        return replace(self, records={name: value for name, value in kept.items() if value or value == 0})

    def __repr__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.frameworks.items())
        return f"<Run: {versions or 'no framework'}, convention {self.convention}>"


# Recorder: frontends write the calls of one run into it.


CPU_TIME = "cpu_time"
"""The value of ``measure_time`` for the CPU time of the thread."""


class Checkpoint(NamedTuple):
    """The numbers of calls and assumptions recorded so far, repeated assumptions included."""

    calls: int
    assumptions: int


class Recorder:
    """The recorder of one run: frontends that capture or read the run write calls into it.

    Args:
        tracebacks: whether every call gets the traceback of the user's code that made it.
        native_calculators: custom calculators ``calculator(function, inputs)`` by native name. The frontend calls them
            itself, and converts the elements that they return to bytes. Only for frontends that declare
            ``FrontendSpec.native_calculators``, such as Chainer's.
        progress: wraps the iterable of a long loop, ``progress(items, description)``.
        measure_time: whether a frontend that runs the model measures the duration of every call: on the device that
            runs it (True), or as CPU time of the thread (:data:`CPU_TIME`).
        calculators: calculators of this run only, by canonical or native name.
        record_api_calls: whether the frontend records module calls, and for each call the function that the user's code
            called. Frontends that do not support it ignore it.
        memory: whether a frontend that runs the model records the memory of the run.
        costs_of: by native name, the shape rule and the backward formula (:class:`costcore.registry.Costs`) of
            calculators of this run.
        counts_pairs: whether the pairs that masks of attention allow are recorded, in :attr:`attention_pairs`
            and :attr:`masked_scores`.
    """

    native_calculators: Mapping[str, partial[Any]]
    progress: Callable[[Iterable[Any], str], Iterable[Any]]
    calculators: dict[str, Callable[[Layer], Cost | tuple[Any, Any, Any, Mapping[str, Any]]]]
    costs_of: Mapping[str, Any]
    new_id: Callable[[], int]

    def __init__(
        self,
        tracebacks: bool = False,
        native_calculators: Mapping[str, partial[Any]] | None = None,
        progress: Callable[[Iterable[Any], str], Iterable[Any]] | None = None,
        measure_time: bool | str = False,
        calculators: dict[str, Calculator] | None = None,
        record_api_calls: bool = False,
        memory: bool = False,
        costs_of: Mapping[str, Any] | None = None,
        counts_pairs: bool = False,
    ) -> None:
        self.tracebacks = tracebacks
        self.native_calculators = {} if native_calculators is None else native_calculators
        self.progress = progress or (lambda items, description: items)
        self.measure_time = measure_time
        self.calculators = {} if calculators is None else calculators
        self.record_api_calls = record_api_calls
        self.memory = memory
        self.costs_of = {} if costs_of is None else costs_of
        self.counts_pairs = counts_pairs
        self.attention_pairs: dict[int, int] = {}
        """Pairs of queries and keys that the masks of a call of attention allow, by position in ``calls``."""
        self.masked_scores: dict[int, int] = {}
        """Scores excluded by a mask, which is added to them or selects among them, by position in ``calls``."""
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
        """Further measurements, if the frontend reads a trace of a run."""
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
        """The module calls in the order in which they began, if ``record_api_calls``."""
        self.dataflow: Dataflow | None = None
        """Values besides the results of calls, if the frontend reads a graph."""
        self.frameworks: dict[str, str] = {}
        """Versions of the frameworks, by name."""
        self._assumed: list[tuple[str, str, str, bool]] = []
        self.notes: list[str] = []
        """Remarks for the reader of the report on how the run was captured."""
        self.inputs: list[int] = []
        """Operand ids of the values that the model is given, in order of first use."""
        self.buffers: list[int] = []
        """Operand ids of values of the model that are not learned."""
        self.regrouped: list[Regrouping] = []
        """Nodes that were counted as one operator."""
        self.nodes: dict[str, GraphNodes] = {}
        """The graph nodes of calls, by the temporary name of the call, if the frontend reads a graph."""
        self.records: dict[str, Any] = {}
        """Other recorded values, by the name of their :class:`costcore.trace.call.Record`."""
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
            self.record_api_calls,
            self.memory,
            self.costs_of,
            self.counts_pairs,
        )

    def adopt(self, other: Recorder) -> None:
        """Replace everything recorded by the content of another recorder."""
        vars(self).update(vars(other))

    @property
    def layers(self) -> Collection[Layer]:
        """The layers of all calls, each once."""
        return self._layers

    def intern(self, layer: Layer) -> Layer:
        """Return the one object that represents all layers equal to ``layer``."""
        return self._layers.setdefault(layer, layer)

    def record(self, call: Call, cost: Cost | None = None, failure: str = "", seconds: float | None = None) -> None:
        """Append a call. Calls that frontends hold back come before it.

        Args:
            call: the call; it is not changed after this.
            cost: its cost, if the frontend computed it; otherwise the calculator of the operator does.
            failure: the error of the calculator that the frontend ran.
            seconds: how long the call took.
        """
        if self.pending:
            self.flush()
        if cost is not None:
            self.costs[len(self.calls)] = cost
        if failure:
            self.failures[len(self.calls)] = failure
        if seconds is not None:
            self.seconds[len(self.calls)] = seconds
        self.calls.append(call)

    def parameter(self, size: Dim) -> int:
        """Return a new id for a learned parameter of ``size`` elements."""
        identity = self.new_id()
        self.parameters[identity] = size
        return identity

    def nodes_key(self, nodes: GraphNodes) -> str:
        """Store the graph nodes of a call; return the name of the call, which :func:`with_names` replaces later."""
        key = str(len(self.nodes))
        self.nodes[key] = nodes
        return key

    def assume(self, what: str, where: str = "", line: str = "", is_branch: bool = False) -> None:
        """Add an assumption. Equal assumptions at the same place are reported once, with their number.

        Args:
            what: what is assumed, as a sentence.
            where: path of the module, or name of the node.
            line: the line of the user's code that needs the value, ``model.py:12 in forward``.
            is_branch: whether it decides which code runs, so that a warning reports it.
        """
        self._assumed.append((what, where, line, is_branch))

    def checkpoint(self) -> Checkpoint:
        """Return a mark of the records so far, for :meth:`rollback`."""
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


# Memory ledger: every block of a run, with its lifetime, its origin and its kind.


KINDS = ("parameter", "buffer", "input", "gradient", "optimizer", "saved", "output", "temporary", "cached")
"""What a block is for; every block has one kind.

``parameter``, ``buffer``, ``input`` and ``optimizer`` (state of an optimizer) mostly live before the run. ``gradient``
is the gradient of a parameter, ``cached`` is in a cache of keys and values (or of states) that a language model takes
or returns, ``saved`` is kept by autograd for a backward pass, ``output`` is held by the caller, and ``temporary`` is
everything else.
"""


class Block(NamedTuple):
    """The memory behind one storage, which views and results of in-place operators share.

    Attributes:
        id: the id of its storage. A storage that changes its size becomes another block with the same id.
        nbytes: its size.
        kind: one of :data:`KINDS`.
        born: number of the event that allocated it, from 1; 0 if it was allocated before the run.
        died: number of the event that freed it; None if it is alive at the end of the run.
        call: index of the call that made it; -1 if it was allocated before the run.
        shape: the shape of the first tensor in it.
        dtype: the dtype of that tensor.
        name: the name of a parameter, buffer or input; for a gradient or optimizer state, the name of its parameter, as
            in ``fc.weight (exp_avg)``; empty for all other blocks.
        device: its device, ``"cuda:0"``; empty if unknown.
    """

    id: int
    nbytes: int
    kind: str
    born: int
    died: int | None
    call: int
    shape: tuple[int, ...]
    dtype: str
    name: str = ""
    device: str = ""


class MemoryLedger(NamedTuple):
    """The blocks of a run, and the sequence of events (a block is allocated, freed or resized).

    Attributes:
        blocks: every block, in order of allocation.
        calls: for each event, the index of the call that ran; the number of calls for events after the last call.
        notes: remarks on the figures.
        approximations: descriptions of the figures that are estimated instead of observed.
    """

    blocks: tuple[Block, ...] = ()
    calls: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    approximations: tuple[str, ...] = ()

    def live(self, kind: str | None = None) -> list[int]:
        """Return the live bytes before the run and after each event, of one kind or of all blocks."""
        changes = [0] * (len(self.calls) + 1)
        for block in self.blocks:
            if kind is None or block.kind == kind:
                changes[block.born] += block.nbytes
                if block.died is not None:
                    changes[block.died] -= block.nbytes
        return list(accumulate(changes))

    @property
    def devices(self) -> list[str]:
        """The devices of the blocks, the device with the most blocks first."""
        return [device for device, _ in Counter(block.device for block in self.blocks).most_common()]

    def on(self, *devices: str) -> MemoryLedger:
        """Return the ledger of these devices alone; its events keep their numbers."""
        return self._replace(blocks=tuple(block for block in self.blocks if block.device in devices))

    def alive(self, event: int) -> list[Block]:
        """Return the blocks that are alive after an event; event 0 is the start of the run."""
        return [b for b in self.blocks if b.born <= event and (b.died is None or b.died > event)]

    def is_exact(self) -> bool:
        """Return whether every figure was observed."""
        return not self.approximations


class RawBlock(NamedTuple):
    """A block as a frontend records it.

    Attributes:
        block: the block. :func:`decide_kinds` sets its kind by its lifetime if the kind is empty, or if the run made
            and freed a block of kind ``output`` or ``cached``.
        with_gradient: whether grad mode was on when it was made.
    """

    block: Block
    with_gradient: bool


class RawLedger(NamedTuple):
    """The memory of a run as a frontend records it.

    Attributes:
        blocks: every block, in order of allocation.
        calls: as in :class:`MemoryLedger`.
        storages: ids of blocks by the storage ids of calls.
        returns: whether the blocks of the model's outputs are known. Otherwise, all blocks alive at the end and made
            without gradients count as outputs.
        notes, approximations: as in :class:`MemoryLedger`.
    """

    blocks: Sequence[RawBlock]
    calls: Sequence[int]
    storages: Mapping[int, int]
    returns: bool
    notes: tuple[str, ...] = ()
    approximations: tuple[str, ...] = ()


def decide_kinds(raw: RawLedger, phases: Sequence[str]) -> MemoryLedger:
    """Return the ledger with a kind for every block.

    Args:
        raw: the ledger of the frontend.
        phases: the phase of every call.
    """
    n_calls = len(phases)
    calls = tuple(accumulate((min(call, n_calls) for call in raw.calls), max))
    births = {block.born for block, _ in raw.blocks}
    starts = [_last_event_before(calls, call, births) for call in _starts_of_backward(phases)]
    blocks = []
    for block, with_gradient in raw.blocks:
        identity, nbytes, kind, born, died, call, *what = block
        if not kind or (kind in ("output", "cached") and born and died is not None):
            phase = phases[call] if 0 <= call < n_calls else "forward"
            kind = _kind_of_lifetime(block, phase, starts, with_gradient and raw.returns)
        made = identity, nbytes, kind, born, died, min(call, n_calls), *what
        blocks.append(tuple.__new__(Block, made))  # keywords would take three times as long
    return MemoryLedger(tuple(blocks), calls, raw.notes, raw.approximations)


def _kind_of_lifetime(block: Block, phase: str, starts: Sequence[int], is_saved_at_end: bool) -> str:
    """Return the kind of a block from its lifetime.

    A block of the forward pass is saved if it is alive when a backward pass begins. Without a backward pass, it is
    saved if it is alive at the end, gradients were recorded, and the model did not return it.

    Args:
        block: the block.
        phase: the phase of the call that made it.
        starts: for every backward pass the number of the last event before it.
        is_saved_at_end: whether a block of the forward pass that is alive at the end is saved, not an output.
    """
    if phase == "forward":
        start = next((event for event in starts if event >= block.born), None)
        if start is not None:
            return "saved" if block.died is None or block.died > start else "temporary"
        if block.died is None and is_saved_at_end:
            return "saved"
    return "output" if block.died is None else "temporary"


def _last_event_before(calls: Sequence[int], call: int, births: Collection[int]) -> int:
    # Blocks freed before the first allocation of the call are not alive in it.
    event = bisect_left(calls, call)
    while event < len(calls) and calls[event] == call and event + 1 not in births:
        event += 1
    return event


def _starts_of_backward(phases: Sequence[str]) -> list[int]:
    is_backward = [phase in ("backward", "recompute") for phase in phases]
    return [i for i, now in enumerate(is_backward) if now and (i == 0 or not is_backward[i - 1])]


# Dataflow: values of a graph beyond the operands of its calls, to compute their lifetimes.


class Value(NamedTuple):
    """A value that no call produces as an output of its layer.

    Attributes:
        id: its operand id.
        nbytes: its size.
        name: its name in the model; empty if it has none.
    """

    id: int
    nbytes: Dim
    name: str = ""


class Step(NamedTuple):
    """Reads and new values that the operands of calls do not show: of a call, or between two calls.

    Attributes:
        at: the id of the first output of the call to which this step belongs. If no call has this output, the step
            takes place before the first call whose outputs have larger ids.
        reads: ids of values with a use at this step.
        makes: values that this step creates.
        takes: pairs of a value that it makes and a value that it reads. The new value reuses the memory of the read
            value if that is not used later, as values carried through a loop do.
        overwrites: pairs of a value that it makes and a value that it may overwrite, element by element.
        views: pairs of a view that it makes and the viewed value.
        name: its name in tables.
    """

    at: int
    reads: tuple[int, ...] = ()
    makes: tuple[Value, ...] = ()
    takes: tuple[tuple[int, int], ...] = ()
    overwrites: tuple[tuple[int, int], ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    name: str = ""


class Dataflow(NamedTuple):
    """Values of a graph beyond the operands of its calls.

    Attributes:
        inputs: the inputs of the model, which its caller provides.
        stored: the stored tensors that the run reads: weights and constants.
        steps: further reads and values, in order.
        views: pairs of values that share their memory.
        spans: first and last ids of the values inside a loop or branch; its calls run contiguously.
        unknown: why lifetimes of values are unknown; empty if all are known.
        unplanned: ids of values that a runtime cannot plan before the run, because the graph computes their shapes.
        structure: the bytes of the file besides stored tensors, if the runtime keeps the whole file in memory; else 0.
    """

    inputs: tuple[Value, ...] = ()
    stored: tuple[Value, ...] = ()
    steps: tuple[Step, ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    unknown: tuple[str, ...] = ()
    unplanned: tuple[int, ...] = ()
    structure: int = 0

    def values(self) -> list[Value]:
        """Return all values, with their sizes."""
        return [*self.inputs, *self.stored, *(value for step in self.steps for value in step.makes)]


# Measured times.


class CallTime(NamedTuple):
    """The measured time of one call, in nanoseconds.

    Attributes:
        device: device time.
        host: host time, without nested calls.
        alone: its share of the measured time (:attr:`Profile.span`), without overlap: the shares of all calls, other
            work and idle time add up. While kernels overlap, the time belongs to the compute kernel that began first.
        n_kernels: the number of kernels, copies and fills.
        aside: the part of ``device`` spent on fills, and on copies from or to the host.
        start: when it began, from the beginning of the span.
    """

    device: int
    host: int
    alone: int
    n_kernels: int
    aside: int = 0
    start: int = 0


class Elsewhere(NamedTuple):
    """Work that belongs to no call, in nanoseconds.

    Attributes:
        what: the kind of work, ``launched before the window``.
        name: its name.
        time: its duration.
        alone: its part of the span; see :attr:`CallTime.alone`.
        n: the number of kernels, copies and fills.
    """

    what: str
    name: str
    time: int
    alone: int
    n: int


class Stream(NamedTuple):
    """A stream of the device, in nanoseconds.

    Attributes:
        name: its device and number.
        busy: its busy time.
        idle: its idle time within the span.
        longest: its longest gap.
        n_gaps: the number of gaps.
    """

    name: str
    busy: int
    idle: int
    longest: int
    n_gaps: int


class Profile(NamedTuple):
    """The measurements of a run.

    ``span`` is exactly the sum of ``alone`` over ``calls`` and ``elsewhere``, plus ``idle``.

    Attributes:
        device: the name of the device that ran it; empty if unknown.
        clock: ``device`` if device times were recorded, else ``host``.
        span: nanoseconds from the start of the step, or of its first work, to the end.
        idle: nanoseconds of the span in which nothing ran.
        calls: the time of every call by its position.
        elsewhere: work outside of calls.
        streams: the streams of the device.
        tf32: whether kernel names show that float32 products ran in TF32.
        inside: fused calls without a kernel of their own: the position of the call whose kernel computes them.
        no_bound: why the times do not show the speed of the device, as a sentence; empty if they do.
        remarks: problems of the file, as sentences.
        kernels: names and times of kernels, in order, by position of their call, for calls that are a CUDA graph or a
            kernel without an operator.
    """

    device: str
    clock: str
    span: int
    idle: int
    calls: Mapping[int, CallTime]
    elsewhere: tuple[Elsewhere, ...] = ()
    streams: tuple[Stream, ...] = ()
    tf32: bool = False
    inside: Mapping[int, int] = MappingProxyType({})
    no_bound: str = ""
    remarks: tuple[str, ...] = ()
    kernels: Mapping[int, Sequence[tuple[str, CallTime]]] = MappingProxyType({})


class Interval(NamedTuple):
    """A span of time with its owner; where intervals overlap, the lowest rank gets the time."""

    start: int
    end: int
    rank: tuple[int, int]
    owner: Any


def starts(intervals: Iterable[Interval], start: int) -> dict[Any, int]:
    """Return when the first interval of each owner begins, from the start of a span."""
    found: dict[Any, int] = {}
    for each in intervals:
        found[each.owner] = min(found.get(each.owner, each.start), each.start)
    return {owner: max(first - start, 0) for owner, first in found.items()}


def divide(intervals: Iterable[Interval], start: int, end: int) -> tuple[dict[Any, int], int]:
    """Return the time of each owner within a span, and the idle time; they add up to the span."""
    found = sorted((max(x.start, start), min(x.end, end), x.rank, i, x.owner) for i, x in enumerate(intervals))
    times = sorted({start, end, *(x[0] for x in found if x[0] < x[1]), *(x[1] for x in found if x[0] < x[1])})
    owned: dict[Any, int] = defaultdict(int)
    idle, at = 0, 0
    active: list[tuple[tuple[int, int], int, int, Any]] = []
    for begin, stop in pairwise(times):
        while at < len(found) and found[at][0] <= begin:
            first, last, rank, i, owner = found[at]
            if first < last:
                heapq.heappush(active, (rank, i, last, owner))
            at += 1
        while active and active[0][2] <= begin:
            heapq.heappop(active)
        if active:
            owned[active[0][3]] += stop - begin
        else:
            idle += stop - begin
    return dict(owned), idle
