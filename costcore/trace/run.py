"""The run: options, parameters, modules and versions that all calls of a trace share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from costcore._version import __version__
from costcore.ir import Pattern
from costcore.numbers.dims import Dim
from costcore.trace.call import Assumption, Module, ModuleCall
from costcore.trace.records import Record

if TYPE_CHECKING:
    from costcore.trace.dataflow import Dataflow
    from costcore.trace.memory_ledger import MemoryLedger
    from costcore.trace.profile import Profile

FLOPS = "FLOPs"
"""The unit of the counting rules of costcore."""

CONVENTION = "costcore-1"
"""Name of the counting rules of this version, which DETAILS.md lists."""


class Regrouping(NamedTuple):
    """What was counted as one operator: nodes of an ONNX graph, which the exporter had decomposed, or a function.

    Attributes:
        op: canonical name of that operator.
        nodes: the nodes, named as in messages; the PyTorch function, with the path of the module that called it.
    """

    op: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"regrouped as {self.op}: {', '.join(self.nodes)}"

    @classmethod
    def parse(cls, note: str) -> Regrouping | None:
        """Return the regrouping whose text is ``note``; None for any other note."""
        found = re.fullmatch(_REGROUPING, note)
        if not found:
            return None
        parsed = cls(found["op"], tuple(re.findall(_NODE, found["nodes"])))
        return parsed if str(parsed) == note else None


_NODE = r"""(?:^|, )((?:[^,'"]|,(?! )|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")+)"""
"""One of several nodes separated by commas; names are quoted as Python quotes strings."""

_REGROUPING = r"(?s)regrouped as (?P<op>\w+): (?P<nodes>.+)"


class GraphNodes(NamedTuple):
    """What a call stands for in the graph that the frontend read: a node, or several that are counted as one operator.

    Names inside a loop body, a branch or a function begin with those around it: ``loop.body/relu``.

    Attributes:
        names: names of the nodes; nodes without a name are left out.
        outputs: names of the values that they produce for others.
    """

    names: tuple[str, ...]
    outputs: tuple[str, ...]


new_nodes = tuple.__new__
"""Builds them three times as fast: ``new_nodes(GraphNodes, (names, outputs))``."""


class Rank(NamedTuple):
    """Which process of a mesh a run is.

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
"""The levels of fusion, each of which merges groups of the one before."""


class Fusion(NamedTuple):
    """How the calls of a run were fused, if the bytes of its costs are those after fusion.

    Attributes:
        level: the level of fusion, see :mod:`costcore.analyses.fusion`.
        groups: positions of the calls of every group.
        unfused: bytes that all calls read and write if each runs by itself.
    """

    level: str
    groups: tuple[tuple[int, ...], ...]
    unfused: Dim

    def of_part(self, new: Mapping[int, int]) -> Fusion:
        """Return how some of the calls are fused, given their new positions by the old ones."""
        groups = (tuple(new[i] for i in group if i in new) for group in self.groups)
        return self._replace(groups=tuple(filter(None, groups)))


def _by_call(values: Mapping[int, Any], new: Mapping[int, int]) -> dict[int, Any]:
    return {new[i]: value for i, value in values.items() if i in new}


class Unfolded(NamedTuple):
    """What it takes to write the calls of folded loops as often as they run.

    Attributes:
        folds: position of the first call of each loop, and the number of calls of its body.
        ids: the ids of every call, those of the calls of a body in each of the first three repetitions.
    """

    folds: tuple[tuple[int, int], ...]
    ids: tuple[tuple[Dim, ...], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """Options, parameters, modules and versions that all calls of a trace share, and records.

    Attributes:
        fma_1flop: whether a fused multiply-add counts as one FLOP (True) or two.
        layout: ``framework`` or ``free``.
        parameters: number of elements of every learned parameter, by parameter id.
        n_params_model: number of elements of all parameters of the model, used or not; None if no model was given.
        modules: the modules of the model by path, in the model's order; the root has the path ``""``. Empty if unknown.
        frameworks: versions of the frameworks, by name.
        assumptions: what was assumed about data, and where.
        notes: remarks on how the run was captured, without the regrouped nodes.
        version: version of costcore.
        convention: name of the counting rules.
        unit: what the amounts are that tables show as FLOPs; another convention may count ``MACs (fvcore)``.
        records: whatever else was recorded, by the name of its :class:`costcore.trace.records.Record`. Those below can
            be read as attributes, ``run.returned``.
        regrouped: nodes that were counted as one operator.
        inputs: operand ids of the values that the model is given, in order of first use; empty if unknown.
        buffers: operand ids of values that the model holds without learning them, if ``inputs`` are known.
        returned: operand ids of the tensors that the outermost module returned, in order, also of those inside lists,
            tuples, dicts and dataclasses; those of all its calls, if several ran. Empty if unknown.
        module_calls: every call of a module in the order in which they began; recorded only with ``spelled=True``.
        dataflow: values that the model states beside those of calls, as an ONNX graph does; None if calls show all.
        memory: every block of memory of the run; None unless requested.
        nodes: the nodes of the graph by the position of their call; empty if no graph was read.
        patterns: the pattern of a call by its position, if a calculator of this run states one.
        fusion: how calls were fused; None if every call reads and writes its operands by itself.
        ranges: for every symbol of a fitted run, the smallest and the largest value at which its formulas were checked.
        rank: which process of a mesh this is; None if no mesh was simulated.
        assumed_above: what a fitted run assumes only where tensors have too many elements to keep their values: each
            with the elements of such a tensor, and the most that are kept. Files do not keep this.
        unfolded: how loops that are written once run; None if there are none. Files do not keep this either.
        opsets: the version of each set of operators that a graph states, by its domain; empty if no graph was read.
        profile: what was measured of the run, if it was read from a trace of a profiler. Files do not keep this.
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

    regrouped = Record[tuple[Regrouping, ...]]("regrouped", ())
    inputs = Record[tuple[int, ...]]("inputs", ())
    buffers = Record[tuple[int, ...]]("buffers", ())
    returned = Record[tuple[int, ...]]("returned", ())
    module_calls = Record[tuple[ModuleCall, ...]]("module_calls", ())
    dataflow: ClassVar[Record[Dataflow | None]] = Record("dataflow", None)
    memory: ClassVar[Record[MemoryLedger | None]] = Record("memory", None)
    nodes = Record[Mapping[int, GraphNodes]]("nodes", {}, of_part=_by_call)
    patterns = Record[Mapping[int, Pattern]]("patterns", {}, of_part=_by_call)
    fusion = Record["Fusion | None"]("fusion", None, of_part=Fusion.of_part)
    ranges = Record[Mapping[str, tuple[int, int]]]("ranges", {})
    rank = Record["Rank | None"]("rank", None)
    assumed_above = Record[tuple[tuple[Assumption, Dim, int], ...]]("assumed_above", (), is_kept=False)
    unfolded = Record["Unfolded | None"]("unfolded", None, is_kept=False)
    opsets = Record[Mapping[str, int]]("opsets", {})
    profile: ClassVar[Record[Profile | None]] = Record("profile", None, is_kept=False)

    def recording(self, **records: Any) -> Run:
        """Return the run with other records; those that are empty or None are left out."""
        kept = {**self.records, **records}
        return replace(self, records={name: value for name, value in kept.items() if value or value == 0})

    def __repr__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.frameworks.items())
        return f"<Run: {versions or 'no framework'}, convention {self.convention}>"
