"""Exports: a report as text for other programs. Each is a file of this folder, or an :class:`Export` of a plug-in.

The first line of the file states it: its name, which is that of the file, and its suffix, if it has one of its own.
Its function ``to_NAME`` returns the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import scandir
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.import_paths import imported
from costcore.messages import unknown
from costcore.plugins import cached, objects_from_plugins, with_left_out

HERE = Path(__file__).parent


class Export(NamedTuple):
    """An export, ``report.export(NAME)``.

    Attributes:
        name: its name, one word.
        suffix: the suffix of its files, ``.json``, by which ``costcore MODEL --output`` and ``report.save`` choose it;
            empty if they do not.
        path: the import path of the function that returns the text, ``package.module:to_name``. It takes the report
            and its options by name; one with a suffix also ``columns``, further quantities that the user asks for.
    """

    name: str
    suffix: str
    path: str


@cached
def exports() -> Mapping[str, Export]:
    """Return every export by name, those of plug-ins last.

    Raises:
        CostError: if a plug-in fails, or if two exports have the same name or suffix.
    """
    with scandir(HERE) as entries:
        files = sorted(entry.name for entry in entries)
    found = {each.name: each for each in map(_stated_by, files) if each is not None}
    for of_plugin in objects_from_plugins("costcore_exports", Export):
        for export in of_plugin:
            suffixes = {each.suffix for each in found.values() if each.suffix}
            if export.name in found or export.suffix in suffixes:
                raise CostError(
                    f"two exports are {export.name!r} or write {export.suffix!r}. Rename that of the plug-in."
                )
            found[export.name] = export
    return found


def _stated_by(file: str) -> Export | None:
    """Return the export that the first line of a file states, without importing it; None if it states none."""
    name, is_module, _ = file.partition(".py")
    if not is_module:
        return None
    with (HERE / file).open(encoding="utf-8") as lines:
        stated = lines.readline().partition("``: ")[0]
    if stated != f'"""``{name}' and not stated.startswith(f'"""``{name} .'):
        return None
    return Export(name, stated.partition(" ")[2], f"{__name__}.{name}:to_{name}")


def by_suffix() -> Mapping[str, Export]:
    """Return the exports that have a suffix, by suffix."""
    return {each.suffix: each for each in exports().values() if each.suffix}


def exported(report: Any, name: str, options: Mapping[str, Any]) -> str:
    """Return the text of an export of a report.

    Raises:
        ValueError: if there is no export of that name.
    """
    if name not in exports():
        raise ValueError(with_left_out(unknown("export", name, exports())))
    return str(imported(exports()[name].path)(report, **options))
