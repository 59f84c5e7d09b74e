"""The chapter of DETAILS.md on conventions: the rules of other tools, as their files state them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from costcore.analyses.conventions.convention import Convention, Expression, Pass
from costcore.analyses.conventions.quantities import vocabulary

TITLE = "Conventions of other tools"
WORDS = "Words in rules"
INTRODUCTION = """\
`report.under("fvcore")` counts a report as another tool does. The rules of each convention are a TOML file of their own
in `costcore/analyses/conventions/data`, and these are all of them. A key is a canonical operator (`conv`), one of a
framework (`aten:matmul`), a module with an operator that it runs itself (`nn.Conv2d/conv`), or a function (`F.relu`).
The most specific key of a call decides. Calls without a rule are not counted. Several tables of a convention add up.\
"""
OPTIONS = {
    "live": "only calls on which the returned values depend",
    "leaf": "only modules without children",
    "closed": "nothing inside the children of a module with a rule",
    "last_call": "only the last call of each module",
    "per_item": "divided by the first dimension of the input",
    "skip_self_attention": "no attention that PyTorch runs as one fused operator without gradients",
    "skip_frozen_attention": "no attention that PyTorch runs as one fused operator because nothing needs a gradient",
}
ALIASES = {1: "a module counts once for each parent", 2: "a module counts once for each parent, squared"}
BY = {
    "op": "Operators",
    "module": "Modules",
    "function": "Functions",
    "module call": "Calls of modules, by a part of the class name",
    "whole": "The network as a whole",
}


def conventions_chapter(conventions: Mapping[str, Convention]) -> Iterator[str]:
    """Yield the paragraphs of the chapter."""
    yield f"## {TITLE}"
    yield INTRODUCTION
    yield _table(("name", "tool", "version", "unit", "rules"), map(_summary, conventions.values()))
    yield f"### {WORDS}"
    yield "Operands stand for their number of elements, and are 0 if a call does not have them."
    yield _table(("word", "meaning"), ((f"`{name}`", meaning) for name, meaning in vocabulary().items()))
    for convention in conventions.values():
        yield from _section(convention)


def _summary(convention: Convention) -> tuple[str, ...]:
    name = f"[`{convention.name}`](#{convention.name})"
    tool = ", ".join(filter(None, (convention.tool, convention.variant)))
    return name, tool, convention.version, convention.unit, str(convention.n_rules)


def _section(convention: Convention) -> Iterator[str]:
    yield f"### `{convention.name}`"
    yield f"{convention.label}, which calls its {convention.unit}s {convention.calls_it}. {convention.description}"
    if convention.aliases:
        yield f"Also {', '.join(f'`{alias}`' for alias in convention.aliases)}."
    for each in convention.counts:
        options = "; ".join(_options(each))
        yield f"{BY[each.by]}{': ' + options if options else ''}."
        yield _table(("rule for", "amount"), _rules(each.rules, each.default))
    for release in convention.releases:
        for each, before in zip(release.counts, convention.counts, strict=True):
            changed = {key: rule for key, rule in each.rules.items() if before.rules.get(key) != rule}
            yield f"Since {convention.tool} {release.since}, compared with {release.version}:"
            yield _table(("rule for", "amount"), _rules(changed, None))
    if convention.notes:
        yield "\n".join(f"* {note}" for note in convention.notes)
    if convention.sources:
        yield f"Source: {'; '.join(convention.sources)}."


def _options(each: Pass) -> Iterator[str]:
    if each.by == "module" and each.types == "subclasses":
        yield "of these classes and their subclasses"
    for name, meaning in OPTIONS.items():
        if getattr(each, name):
            yield meaning
    if each.alias:
        yield ALIASES[each.alias]
    if each.listed:
        yield f"also closed: {', '.join(each.listed)}"
    if each.outside:
        yield f"outside of {', '.join(each.outside)}"
    for kind, functions in each.bound.items():
        yield f"not {', '.join(functions)} of {kind}, which keeps its own reference"
    if each.phases != ("forward",):
        yield f"in {', '.join(each.phases)}"


def _rules(rules: Mapping[str, Expression], default: Expression | None) -> Iterator[tuple[str, str]]:
    """Yield the keys of each expression."""
    keys: dict[str, list[str]] = {}
    for key, expression in rules.items():
        keys.setdefault(expression.text, []).append(f"`{key}`")
    for text, found in keys.items():
        yield ", ".join(found), f"`{text}`"
    if default is not None:
        yield "every other call" if keys else "every call", f"`{default.text}`"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = [*head]
    lines = [columns, [":--"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
