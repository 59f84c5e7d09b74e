"""The analyses that exist: ours, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.analyses.analysis import Analysis
from costcore.errors import CostError
from costcore.import_paths import imported
from costcore.messages import unknown
from costcore.plugins import cached, objects_from_plugins, with_left_out


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


def analyzed(report: Any, name: str, options: Mapping[str, Any]) -> Any:
    """Return what an analysis answers about a report.

    Raises:
        ValueError: if there is no analysis of that name.
    """
    if name not in analyses():
        raise ValueError(with_left_out(unknown("analysis", name, analyses())))
    return imported(analyses()[name].compute)(report, **options)


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


def data(report: Any) -> dict[str, Any]:
    """Return the part of each analysis in the JSON of a report, by name; most have none, as files keep the run."""
    return {each.name: imported(each.data)(report) for each in analyses().values() if each.data}


def quantities() -> Iterable[Any]:
    """Return the quantities of all analyses."""
    return [quantity for each in analyses().values() if each.quantities for quantity in imported(each.quantities)]
