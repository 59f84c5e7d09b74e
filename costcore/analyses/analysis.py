"""The declaration of an analysis, and the registry of all analyses.

A declaration names functions by import path, so that their modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from costcore.errors import CostError, did_you_mean
from costcore.plugins import Command, cached, imported, objects_from_plugins, with_plugin_hint

if TYPE_CHECKING:
    from costcore.ledger.ledger import Ledger
    from costcore.tables.result import Table
    from costcore.trace.trace import Trace

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ReportLike(Protocol):
    """The input of an analysis: a report with its run and ledger.

    ``type(report)(trace)`` is the report of another trace.
    """

    @property
    def trace(self) -> Trace:
        """The run."""

    @property
    def ledger(self) -> Ledger:
        """The costs of its calls, and sums over groups of calls."""


class View(NamedTuple):
    """A table of ``costcore MODEL``, shown by the flag ``--NAME`` of its analysis.

    Attributes:
        help: the text of its flag in ``--help``.
        table: import path of the function that returns it, ``table(report, columns=…, sort=…, top=…)`` with the options
            of :attr:`arguments`. Default: the output of ``print`` for the result, with these columns and rows.
        columns: import path of the mapping from names to its columns.
        column_sets: import path of the class with its sets of columns, ``DEFAULT`` and ``ALL``.
        beside: the default columns if its flag is combined with ``--by``.
        rows: why ``--by`` cannot choose its rows; empty if it can.
        order: why ``--sort`` cannot change the order of its rows; empty if it can.
        top: the number of rows that it shows by default; None for all.
        arguments: arguments of ``ArgumentParser.add_argument`` by flag, for options of this view only.
        without_flops: whether its columns have no FLOPs, so that conventions have no effect.
        is_of_original: whether fusion has no effect, so that ``--fusion`` is refused.
    """

    help: str
    table: str = ""
    columns: str = ""
    column_sets: str = ""
    beside: Sequence[str] = ()
    rows: str = ""
    order: str = ""
    top: int | None = None
    arguments: Mapping[str, Mapping[str, Any]] = NOTHING
    without_flops: bool = False
    is_of_original: bool = False


class Analysis(NamedTuple):
    """A question about one run, ``report.analysis(NAME)``, and its parts of tables, pages and commands.

    Functions are named by import paths, ``package.module:name``, and imported when they are used. Each gets the
    report, a :class:`ReportLike`. The functions are in the folder of the analysis, or below it.

    ::

        Analysis("cycles", "cycles of an array of multipliers", "acme.cycles:cycles_of", section="acme.cycles:section")

    Attributes:
        name: its name, one word.
        doc: the question it answers, in one phrase.
        compute: the function that answers, ``compute(report, **options)``; a :class:`costcore.tables.result.Result`
            prints and has every format.
        needs: options of :func:`costcore.estimate` that must be set in the run.
        quantities: import path of its sequence of ``Quantity``, used in columns, budgets, comparisons and pictures.
        section: its section of the HTML page, a function ``section(report)`` that returns HTML; empty for none. Pass
            names of modules and calls through ``costcore.tables.html.text``, which escapes them.
        style: import path of the text of its style sheet on the page.
        script: import path of the text of its script, which runs after the script of the page.
        pictures: kinds of ``report.plot``, by name: functions ``draw(report, theme, **options)`` that return a
            ``Picture``.
        view: its table of ``costcore MODEL --NAME``.
        command: its command.
        data: its part of the JSON of a report, a function ``data(report)`` that returns plain JSON types.
    """

    name: str
    doc: str
    compute: str
    needs: Mapping[str, Any] = NOTHING
    quantities: str = ""
    section: str = ""
    style: str = ""
    script: str = ""
    pictures: Mapping[str, str] = NOTHING
    view: View | None = None
    command: Command | None = None
    data: str = ""


# Registry: built-in analyses and those of plug-ins.


@cached
def analyses() -> Mapping[str, Analysis]:
    """Return every analysis by name.

    Raises:
        CostError: if a plug-in fails, or if two analyses have the same name.
    """
    found: dict[str, Analysis] = {}
    for of_plugin in objects_from_plugins("costcore_analyses", Analysis):
        for analysis in of_plugin:
            if analysis.name in found:
                raise CostError(f"there are two analyses {analysis.name!r}. Rename the one of the plug-in.")
            found[analysis.name] = analysis
    return found


def analyzed(report: ReportLike, name: str, options: Mapping[str, Any]) -> Any:
    """Return the result of an analysis for a report.

    Raises:
        CostError: if there is no analysis of that name; the message lists the existing ones, by package.
    """
    return imported(_analysis(name).compute)(report, **options)


def table_of_view(report: ReportLike, name: str, options: Mapping[str, Any]) -> Table:
    """Return the table that ``costcore MODEL --NAME`` shows of a report.

    Args:
        report: the report.
        name: the analysis, which has a view.
        options: ``columns``, ``sort`` and ``top``, and the options of the view.

    Raises:
        TypeError, ValueError: if an option is invalid.
        CostError: as :func:`analyzed`.
    """
    view = _analysis(name).view
    table: Table = imported(view.table if view is not None else "")(report, **options)
    return table


def _analysis(name: str) -> Analysis:
    known = analyses()
    if name in known:
        return known[name]
    by_package: dict[str, list[str]] = {}
    for each in known.values():
        by_package.setdefault(each.compute.partition(".")[0], []).append(each.name)
    expected = "; ".join(f"of {package}: {', '.join(names)}" for package, names in by_package.items())
    stated = f"unknown analysis {name!r} ({expected}; plug-ins add others)"
    raise CostError(with_plugin_hint(f"{stated}{did_you_mean([name], known)}"))


@cached
def drawn_by() -> Mapping[str, Analysis]:
    """Return the analyses that draw pictures, by kind of picture.

    Raises:
        CostError: if two analyses draw the same kind.
    """
    found: dict[str, Analysis] = {}
    for analysis in analyses().values():
        if twice := found.keys() & analysis.pictures.keys():
            raise CostError(f"two analyses draw pictures of kind {', '.join(sorted(twice))}")
        found |= dict.fromkeys(analysis.pictures, analysis)
    return found


def sections(report: Any) -> list[str]:
    """Return the page section of every analysis; an empty text if it has nothing to show."""
    return [imported(each.section)(report) for each in analyses().values() if each.section]


def page_texts(field: str) -> list[str]:
    """Return the text of every analysis for the page: its ``style``, or its ``script``."""
    paths = (getattr(each, field) for each in analyses().values())
    return [str(imported(path)) for path in paths if path]


def data(report: Any) -> dict[str, Any]:
    """Return the part of each analysis in the JSON of a report, by name.

    Most have none: the file keeps the run, and they compute their results from it.
    """
    return {each.name: imported(each.data)(report) for each in analyses().values() if each.data}


def quantities() -> Iterable[Any]:
    """Return the quantities of all analyses."""
    return [quantity for each in analyses().values() if each.quantities for quantity in imported(each.quantities)]
