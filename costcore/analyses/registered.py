"""The analyses that exist: ours, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from costcore.analyses.analysis import Analysis, Analyzed
from costcore.errors import CostError
from costcore.import_paths import imported
from costcore.messages import did_you_mean
from costcore.plugins import cached, objects_from_plugins, with_left_out

if TYPE_CHECKING:
    from costcore.tables.table import Table


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
                raise CostError(f"there are two analyses {analysis.name!r}. Rename that of the plug-in.")
            found[analysis.name] = analysis
    return found


def analyzed(report: Analyzed, name: str, options: Mapping[str, Any]) -> Any:
    """Return what an analysis answers about a report.

    Raises:
        CostError: if there is no analysis of that name; the message names those that exist, by package.
    """
    return imported(_analysis(name).compute)(report, **options)


def table_of_view(report: Analyzed, name: str, options: Mapping[str, Any]) -> Table:
    """Return the table that ``costcore MODEL --NAME`` shows of a report.

    Args:
        report: the report.
        name: the analysis, which has a view.
        options: ``columns``, ``sort`` and ``top``, and those of the view.

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
    stated = f"unknown analysis {name!r} ({expected}; others come with the package that brings them)"
    raise CostError(with_left_out(f"{stated}{did_you_mean([name], known)}"))


@cached
def drawn_by() -> Mapping[str, Analysis]:
    """Return the analysis that draws each kind of picture.

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
    """Return the section of every analysis on the page of a report; empty text where it has nothing to show."""
    return [imported(each.section)(report) for each in analyses().values() if each.section]


def page_texts(what: str) -> list[str]:
    """Return the text of every analysis for the page: its ``style``, or its ``script``."""
    paths = (getattr(each, what) for each in analyses().values())
    return [str(imported(path)) for path in paths if path]


def data(report: Any) -> dict[str, Any]:
    """Return the part of each analysis in the JSON of a report, by name; most have none, as files keep the run."""
    return {each.name: imported(each.data)(report) for each in analyses().values() if each.data}


def quantities() -> Iterable[Any]:
    """Return the quantities of all analyses."""
    return [quantity for each in analyses().values() if each.quantities for quantity in imported(each.quantities)]
