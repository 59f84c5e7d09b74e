"""What a run cost, as data: by call, by kind, by module, in total, and what could not be told."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

from costcore.counting.substitution import put_values
from costcore.reports import caveats
from costcore.reports.ledger import Ledger, ignored
from costcore.reports.module_tree import build
from costcore.reports.tables.arrange import Line
from costcore.trace.call import Assumption, Call
from costcore.trace.run import Regrouping
from costcore.trace.trace import Trace

_Self = TypeVar("_Self", bound="ReportData")


class ReportData:
    """The costs of one run, as data; :class:`costcore.Report` adds tables and files.

    Every property returns a copy; changing it changes nothing here. FLOPs and MACs are exact ints (or expressions
    over the model's symbolic dimensions), memory traffic is in bytes.

    Args:
        trace: the captured run with the cost of every call, the calls named.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReportData):
            return NotImplemented
        return self._trace == other._trace

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        total, unknown = self.ledger.total, len(self.ignored_layers)
        state = f", {unknown} unknown calls not counted" if unknown else ""
        return f"<Report: {total['n_layers']} calls, {total['flops']} FLOPs, {total['macs']} MACs{state}>"

    @property
    def trace(self) -> Trace:
        """The captured run with the cost of every call: what analyses read, yours too."""
        return self._trace

    @property
    def calls(self) -> list[Call]:
        """Every call with its layer, ids and place, in call order; unknown operators too."""
        return list(self._trace.calls)

    @property
    def layer_report(self) -> dict[str, dict[str, Any]]:
        """Every counted call in call order, by name: costs, place, shapes, settings and shares of the total.

        ``seconds`` and ``seconds%`` are there only for a call whose time was measured.
        """
        return {name: _copied(entry) for name, entry in self.ledger.entries.items()}

    @property
    def summary_report(self) -> dict[str, dict[str, Any]]:
        """Sums by type, in order of first call, and an entry ``total``."""
        return {**{line.entry["name"]: dict(line.entry) for line in self._kinds()}, "total": self.total_report}

    @property
    def total_report(self) -> dict[str, Any]:
        """Sums of everything counted; ``n_params_model`` where a model was given."""
        return dict(self.ledger.total)

    @property
    def ignored_layers(self) -> dict[str, dict[str, Any]]:
        """Calls of operators without a calculator, by name; none of it is in the totals."""
        return {record.call.name: ignored(record) for record in self._trace if record.cost is None}

    @property
    def status(self) -> str:
        """``complete``, or ``partial`` where there are operators without a cost (:attr:`ignored_layers`)."""
        return "complete" if self._trace.is_complete else "partial"

    @property
    def versions(self) -> dict[str, str]:
        """Versions of this tool and of the frameworks at the time of the run, and the counting ``convention``."""
        run = self._trace.run
        return {"costcore": run.version, "convention": run.convention, **run.frameworks}

    @property
    def assumptions(self) -> list[Assumption]:
        """What depends on data and was assumed: pairs of what and where."""
        return list(self._trace.run.assumptions)

    @property
    def notes(self) -> list[str]:
        """What a reader should know about how the run was captured, regrouped nodes included."""
        return [*self._trace.run.notes, *map(str, self._trace.run.regrouped)]

    @property
    def regrouped(self) -> list[Regrouping]:
        """ONNX nodes that were counted as one operator (``regroup=``): pairs of the operator and its nodes."""
        return list(self._trace.run.regrouped)

    @property
    def remarks(self) -> list[str]:
        """The lines under a table: unknown operators with their bytes and call sites, and assumptions."""
        return caveats.remarks(self._trace)

    def subs(self: _Self, values: Mapping[str, int] | None = None, /, **named: int) -> _Self:
        """This report with values put in for its symbolic dimensions, ``report.subs(batch=8)``.

        Args:
            values: the same as a mapping, for names that are no Python identifiers, ``report.subs({"past+1": 8})``.
            named: values by name; they go before those of the mapping.

        Raises:
            TypeError: for a value that is no integer, or values that are no mapping.
            CostError: for a name that is no symbol of this report; lists those that are.
        """
        if not isinstance(values, Mapping | None):
            raise TypeError(f"expected a mapping of names to integers, {{'batch': 8}}, got {values!r}")
        return type(self)(put_values(self._trace, {**(values or {}), **named}))

    def by(self, *keys: str) -> dict[Any, dict[str, Any]]:
        """Sums of the calls grouped by what they have in common, in order of first call.

        Args:
            keys: of ``type``, ``op``, ``module``, ``phase``, ``dtype`` and ``native``.

        Returns:
            For each value of the key (tuple of values of several keys) a dict with these, ``n_layers``, ``flops``,
            ``macs``, ``mread``, ``mwrite``, ``mrw`` and shares, which add up to :attr:`total_report`. ``n_params``
            is the distinct parameters that the group reads; ``n_shared`` is those of them that an earlier group
            reads as well, so ``n_params - n_shared`` adds up to the total.

        Raises:
            TypeError, ValueError: for no key, or an unknown one; says which are known.
        """
        return self.ledger.by(*keys)

    def tree(self) -> dict[str, Any]:
        """The modules of the model, nested, from the model itself or else from the paths of the calls.

        A node has ``name``, ``path``, ``type``, ``same_as`` (path of the same module seen before), ``output_shape``
        (of the last forward call in it), the costs, ``n_layers``, ``n_unknown`` (calls that could not be counted),
        ``activations`` (bytes of the outputs of forward calls, views apart), ``children``, and parameters in elements:
        ``n_params`` it holds, ``n_shared`` of which an earlier node holds too, and the rest, ``n_trainable`` and
        ``n_frozen``, and its ``n_buffers``; these three are None where the model was not seen. But for ``n_params``
        and ``n_shared`` the children of a node add up to it: what a module with children does itself is a child of
        its own (``is_own``). The tree can be deeper than Python recurses: :func:`costcore.reports.module_tree.walk`.
        """
        return build(self._trace, self.ledger)

    @cached_property
    def ledger(self) -> Ledger:
        """The entries of all counted calls, and sums over any of them; not a copy."""
        return Ledger(self._trace)

    def _kinds(self) -> list[Line]:
        """A line for every type, in order of first call."""
        groups = self.ledger.groups("type").items()
        return [Line({"name": kind, "type": kind, **self.ledger.sum(calls)}, calls) for kind, calls in groups]


def _copied(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry that shares nothing that can be changed; a calculator's settings can be anything."""
    lists = {key: list(entry[key]) for key in ("input_shapes", "output_shapes")}
    return {**entry, **lists, "operations": dict(entry["operations"]), "params": copy.deepcopy(entry["params"])}
