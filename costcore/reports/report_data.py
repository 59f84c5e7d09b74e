"""What a run cost, as data: by call, by kind, by module, in total, and what could not be told."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from costcore.counting.substitution import put_values
from costcore.reports import caveats
from costcore.reports.ledger import Ledger, ignored
from costcore.reports.module_tree import build
from costcore.reports.tables.arrange import Line
from costcore.trace.call import Assumption, Call, Priced
from costcore.trace.run import Run

_Self = TypeVar("_Self", bound="Figures")


class Figures:
    """The costs of one run, as data; :class:`costcore.Report` adds tables and files.

    Every property returns a copy; changing it changes nothing here. FLOPs and MACs are exact ints (or expressions
    over the model's symbolic dimensions), memory traffic is in bytes.

    Args:
        priced: every call with its cost, in call order, the calls named.
        run: what holds for the whole run.
    """

    def __init__(self, priced: Iterable[Priced], run: Run) -> None:
        self._priced = tuple(priced)
        self._run = run

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Figures):
            return NotImplemented
        return self._priced == other._priced and self._run == other._run

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        total, unknown = self._ledger.total, len(self.ignored_layers)
        state = f", {unknown} unknown calls not counted" if unknown else ""
        return f"<Report: {total['n_layers']} calls, {total['flops']} FLOPs, {total['macs']} MACs{state}>"

    @property
    def calls(self) -> list[Call]:
        """Every call with its layer, ids and place, in call order; unknown operators too."""
        return [copy.copy(item.call) for item in self._priced]

    @property
    def layer_report(self) -> dict[str, dict[str, Any]]:
        """Every counted call in call order, by name: costs, place, shapes, settings and shares of the total.

        ``seconds`` and ``seconds%`` are there only for a call whose time was measured.
        """
        return {name: _copied(entry) for name, entry in self._ledger.entries.items()}

    @property
    def summary_report(self) -> dict[str, dict[str, Any]]:
        """Sums by type, in order of first call, and an entry ``total``."""
        return {**{line.entry["name"]: dict(line.entry) for line in self._kinds()}, "total": self.total_report}

    @property
    def total_report(self) -> dict[str, Any]:
        """Sums of everything counted; ``n_params_model`` where a model was given."""
        return dict(self._ledger.total)

    @property
    def ignored_layers(self) -> dict[str, dict[str, Any]]:
        """Calls of operators without a calculator, by name; none of it is in the totals."""
        return {item.call.name: ignored(item) for item in self._priced if item.cost is None}

    @property
    def status(self) -> str:
        """``complete``, or ``partial`` where there are operators without a cost (:attr:`ignored_layers`)."""
        return "complete" if all(item.cost is not None for item in self._priced) else "partial"

    @property
    def versions(self) -> dict[str, str]:
        """Versions of this tool and of the frameworks at the time of the run, and the counting ``convention``."""
        return {"costcore": self._run.version, "convention": self._run.convention, **self._run.frameworks}

    @property
    def assumptions(self) -> list[Assumption]:
        """What depends on data and was assumed: pairs of what and where."""
        return list(self._run.assumptions)

    @property
    def notes(self) -> list[str]:
        """What a reader should know about how the run was captured."""
        return list(self._run.notes)

    @property
    def remarks(self) -> list[str]:
        """The lines under a table: unknown operators with their bytes and call sites, and assumptions."""
        return caveats.remarks(self._priced, self._run)

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
        return type(self)(*put_values(self._priced, self._run, {**(values or {}), **named}))

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
        return self._ledger.by(*keys)

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
        return build(self._priced, self._run, self._ledger)

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self._priced, self._run)

    def _kinds(self) -> list[Line]:
        """A line for every type, in order of first call."""
        groups = self._ledger.groups("type").items()
        return [Line({"name": kind, "type": kind, **self._ledger.sum(calls)}, calls) for kind, calls in groups]


def _copied(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry that shares nothing that can be changed; a calculator's settings can be anything."""
    lists = {key: list(entry[key]) for key in ("input_shapes", "output_shapes")}
    return {**entry, **lists, "operations": dict(entry["operations"]), "params": copy.deepcopy(entry["params"])}
