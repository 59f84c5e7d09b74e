"""Read a convention from TOML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from costcore.analyses.conventions import module_calls, quantities, whole
from costcore.analyses.conventions.convention import BY, UNITS, Convention, Pass
from costcore.analyses.conventions.expression import ConventionError, Expression
from costcore.messages import short_repr, unknown
from costcore.toml_files import read_toml
from costcore.trace.call import PHASES

TEXTS = ("name", "tool", "version", "unit", "variant", "calls_it", "description", "extends")
LISTS = ("aliases", "sources", "notes", "frameworks")
RELEASE_KEYS = ("since", "version", "count")
PASS_KEYS = tuple(field.name for field in fields(Pass))

_NAMES: Mapping[str, tuple[Iterable[str], Mapping[str, int]]] = {
    **dict.fromkeys(("op", "module", "function"), (quantities.NAMES, quantities.ARITIES)),
    "module call": (module_calls.NAMES, {}),
    "whole": (whole.NAMES, {}),
}
"""The names and functions that rules can use, by the kind of their pass."""


def read_convention(path: str | PathLike[str], base: Callable[[str], Convention]) -> Convention:
    """Return the convention in a file.

    ::

        name = "fvcore"
        tool = "fvcore FlopCountAnalysis"
        version = "0.1.5"
        unit = "MAC"                       # MAC, FLOP, MULT, BOP or OP
        calls_it = "flops"
        year = 2019                        # of the first release that counted so
        [[count]]                          # passes add up
        by = "op"                          # op, module, function, module call or whole
        live = true                        # only what the returned values depend on
        [count.rules]
        conv = "macs"
        "aten:matmul" = "x0 * last(x1)"
        batch_norm = "x * (2 if affine else 1)"

    With ``extends``, the passes are those of another convention, and rules replace or complete its rules. Rules that a
    later release of the tool has instead are in a table of it, ``[[release]]`` with ``since = "2.15"``, as
    ``[[release.count]]``.

    Args:
        path: the file.
        base: returns the convention that ``extends`` names.

    Raises:
        ConventionError: if it is invalid; the message includes the file and the key.
        OSError: if the file cannot be read.
    """
    file = Path(path)
    content, _ = read_toml(file, ConventionError)
    return _Reader(str(file), base).convention(content)


class _Reader:
    def __init__(self, source: str, base: Callable[[str], Convention]) -> None:
        self._source = source
        self._base = base

    def convention(self, content: Mapping[str, Any]) -> Convention:
        expected = (*TEXTS, *LISTS, "is_printed", "year", "count", "release")
        if missing := [key for key in content if key not in expected]:
            raise self._error(unknown("key", missing, expected))
        texts = {key: self._text(content, key) for key in TEXTS}
        lists = {key: self._texts(content.get(key, []), key) for key in LISTS}
        parent = texts.pop("extends")
        for key in ("name", "unit"):
            if not texts[key]:
                raise self._error(f"{key} is missing")
        if texts["unit"] not in UNITS:
            raise self._error(unknown("unit", texts["unit"], UNITS))
        try:
            base = self._base(parent) if parent else None
        except ConventionError:
            raise
        except ValueError as error:
            raise self._error(f"extends: {error}") from error
        counts = self._counts(content.get("count", []), base.counts if base else ())
        is_printed = self._of_type(content.get("is_printed", True), bool, "is_printed")
        year = self._of_type(content.get("year", 0), int, "year")
        made = Convention(counts=counts, is_printed=is_printed, year=year, **texts, **lists)  # type: ignore[arg-type]
        return replace(made, releases=tuple(self._releases(content, made, base)))

    def _releases(self, content: Mapping[str, Any], first: Convention, base: Convention | None) -> Iterator[Convention]:
        """Yield the convention for every later release with other rules, its own or those that it extends."""
        own = {self._text(table, "since"): table for table in self._tables(content.get("release", []), "release")}
        if wrong := [since for since in own if not re.fullmatch(r"\d+(\.\d+)*", since)]:
            raise self._error(f"release: since must be a version, such as 2.15 (got {short_repr(wrong[0])})")
        inherited = {each.since: each for each in base.releases} if base else {}
        for since in sorted({**inherited, **own}, key=lambda version: [*map(int, version.split("."))]):
            table = own.get(since, {})
            if missing := [key for key in table if key not in RELEASE_KEYS]:
                raise self._error(f"release {since}: {unknown('key', missing, RELEASE_KEYS)}")
            counts = self._counts(content.get("count", []), base.of_release(since).counts if base else ())
            counts = self._counts(table.get("count", []), counts)
            version = self._text(table, "version") or inherited.get(since, first).version
            yield replace(first, since=since, version=version, counts=counts)

    def _counts(self, tables: Any, inherited: tuple[Pass, ...]) -> tuple[Pass, ...]:
        own = [self._pass(table, i, inherited[i : i + 1]) for i, table in enumerate(self._tables(tables, "count"))]
        if not own and not inherited:
            raise self._error("there is nothing to count; add a table [[count]]")
        return (*own, *inherited[len(own) :])

    def _tables(self, value: Any, place: str) -> list[Mapping[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(table, Mapping) for table in value):
            raise self._error(f"{place} must be a list of tables, [[{place}]] (got {short_repr(value)})")
        return value

    def _pass(self, table: Mapping[str, Any], number: int, inherited: tuple[Pass, ...]) -> Pass:
        place = f"count {number + 1}"
        if missing := [key for key in table if key not in PASS_KEYS]:
            raise self._error(f"{place}: {unknown('key', missing, PASS_KEYS)}")
        by = table.get("by", inherited[0].by if inherited else "op")
        if by not in BY:
            raise self._error(f"{place}: {unknown('value of by', by, BY)}")
        rules = table.get("rules", {})
        if not isinstance(rules, Mapping):
            raise self._error(f"{place}: rules must be a table (got {short_repr(rules)})")
        values: dict[str, Any] = {
            "rules": {key: self._expression(by, text, f"{place}, {key}") for key, text in rules.items()}
        }
        if "default" in table:
            values["default"] = self._expression(by, table["default"], f"{place}, default")
        for key in ("live", "leaf", "closed", "last_call", "per_item", "skip_self_attention", "skip_frozen_attention"):
            if key in table:
                values[key] = self._of_type(table[key], bool, f"{place}, {key}")
        for key in ("listed", "outside", "phases"):
            if key in table:
                values[key] = self._texts(table[key], f"{place}, {key}")
        if wrong := [phase for phase in values.get("phases", ()) if phase not in PHASES]:
            raise self._error(f"{place}: {unknown('phase', wrong, PHASES)}")
        if "types" in table:
            values["types"] = table["types"]
            if table["types"] not in ("exact", "subclasses"):
                raise self._error(f"{place}: {unknown('value of types', table['types'], ('exact', 'subclasses'))}")
        if "alias" in table:
            values["alias"] = self._of_type(table["alias"], int, f"{place}, alias")
            if values["alias"] not in (0, 1, 2):
                raise self._error(f"{place}: alias must be 0, 1 or 2 (got {values['alias']})")
        if "bound" in table:
            bound = self._of_type(table["bound"], dict, f"{place}, bound")
            values["bound"] = {kind: self._texts(names, f"{place}, bound {kind}") for kind, names in bound.items()}
        if inherited:
            values["rules"] = {**inherited[0].rules, **values["rules"]}
            return replace(inherited[0], **values)
        return Pass(by, **values)

    def _expression(self, by: str, text: Any, place: str) -> Expression:
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str):
            raise self._error(f"{place} must be an expression (got {short_repr(text)})")
        names, functions = _NAMES[by]
        return Expression(text, frozenset(names), functions, f"{self._source}: {place}")

    def _text(self, content: Mapping[str, Any], key: str) -> str:
        return str(self._of_type(content.get(key, ""), str, key))

    def _texts(self, value: Any, place: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(f"{place} must be a list of texts (got {short_repr(value)})")
        return tuple(value)

    def _of_type(self, value: Any, kind: type, place: str) -> Any:
        if type(value) is not kind:
            names = {bool: "true or false", int: "a number", str: "a text", dict: "a table"}
            raise self._error(f"{place} must be {names[kind]} (got {short_repr(value)})")
        return value

    def _error(self, problem: str) -> ConventionError:
        return ConventionError(f"{self._source}: {problem}")
