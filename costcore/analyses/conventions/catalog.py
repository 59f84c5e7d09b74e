"""The known conventions: built in, of plug-ins, and those of users by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

from costcore.analyses.conventions.convention import Convention
from costcore.analyses.conventions.expression import ConventionError
from costcore.analyses.conventions.toml import read_convention
from costcore.messages import unknown
from costcore.plugins import cached, objects_from_plugins, with_left_out

DATA = Path(__file__).parent / "data"


def conventions() -> dict[str, Convention]:
    """Return all known conventions by name: those built in, then those of plug-ins.

    Each has ``name``, ``tool``, ``version``, ``unit``, ``calls_it``, ``aliases``, ``description`` and ``notes``.

    Raises:
        CostError: if a convention of a plug-in is invalid.
    """
    return dict(_known())


def named(convention: str | PathLike[str]) -> Convention:
    """Return a convention by its name, an alias, or the path of a TOML file.

    With a release of the tool, ``torch-cpu==2.15``, its rules are those of this release, whichever made a run.

    Raises:
        TypeError: if ``convention`` is not a name or path.
        ValueError: if there is none of that name; the message lists the known ones.
        CostError: if the file is not a convention.
        OSError: if the file cannot be read.
    """
    if not isinstance(convention, (str, PathLike)):
        raise TypeError(f"a convention must be a name or the path of a TOML file (got {convention!r})")
    if str(convention).endswith(".toml"):
        return _read(convention)
    name, is_stated, release = str(convention).partition("==")
    found = _by_any_name().get(name)
    if found is None:
        raise ValueError(with_left_out(unknown("convention", name, [*_known(), "the path of a .toml file"])))
    if not is_stated:
        return found
    if not release[:1].isdigit():
        example = found.version or "1.0"
        raise ValueError(f"a release of {found.tool} must be a version, such as {example} (got {release!r})")
    return replace(found.of_release(release), releases=())


def _read(path: str | PathLike[str], extended_by: tuple[str, ...] = ()) -> Convention:
    """Return the convention in a file, which may extend that in another one."""

    def base(name: str) -> Convention:
        return _read(name, (*extended_by, str(path))) if name.endswith(".toml") else named(name)

    if str(path) in extended_by:
        raise ConventionError(f"{path}: it extends itself, by {' and '.join(extended_by)}")
    return read_convention(path, base)


def needs_functions(convention: str | PathLike[str] | None) -> bool:
    """Return whether a convention, if one is given, needs the functions by which calls were spelled."""
    return convention not in (None, "") and named(convention).needs_functions


@cached
def _known() -> Mapping[str, Convention]:
    known: dict[str, Convention] = {}

    def base(name: str) -> Convention:
        if name not in known:
            known[name] = read_convention(DATA / f"{name}.toml", base)
        return known[name]

    for file in sorted(DATA.glob("*.toml")):
        base(file.stem)
    for paths in objects_from_plugins("costcore_conventions", Path):
        for path in paths:
            convention = read_convention(path, base)
            known[convention.name] = convention
    return known


@cached
def _by_any_name() -> Mapping[str, Convention]:
    known = _known()
    aliases = {alias: convention for convention in known.values() for alias in convention.aliases}
    return {**aliases, **known}
