"""The scoreboard: a Markdown page generated from a JSON file of answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .adapter import Adapter, adapter
from .catalogue import file_of, find
from .score import VERDICTS, Cell, judge

__all__ = ["scoreboard"]

HEAD = """\
# Scoreboard of counters

Which counter is right, on which kind of network? {probes} networks with answers derived by hand, asked on {date}.
`make probes` asks every tool in one run and writes this page from the answers, `docs/scoreboard.json`.
[Probes](../probes/README.md) says how answers are derived and judged: a tool is held to what it declares itself, and is
not asked what it does not offer. `probes show ID` has the network and the derivation. The commands below ask for one
answer again; `--python PATH` names the interpreter that has the tool: `make probes` leaves one in
`probes/environments/`.

| verdict | means |
|:--|:--|
{verdicts}

"""

KINDS = "../probes/costcore_probes/kinds"

Scored = dict[str, Cell]


def scoreboard(data: dict[str, Any]) -> str:
    """Return the page."""
    tools = {name: result for name, result in data["tools"].items() if "answers" in result}
    scored = {
        name: {
            key: judge(find(key.partition("@")[0]), adapter(name), reply) for key, reply in result["answers"].items()
        }
        for name, result in tools.items()
    }
    ids = {key.partition("@")[0] for cells in scored.values() for key in cells}
    verdicts = "\n".join(f"| {name} | {text} |" for name, text in VERDICTS.items())
    page = HEAD.format(probes=len(ids), date=data["date"], verdicts=verdicts)
    page += "## By tool\n\n" + _table(["tool", *VERDICTS, "declares"], _by_tool(tools, scored))
    page += "\n## By kind\n\nRight or explained, of the answers asked. Empty: the tool is not asked.\n\n"
    names = list(scored)
    page += _table(["kind", *names], _by_kind(scored, sorted({id.partition(".")[0] for id in ids})))
    for name, cells in scored.items():
        page += _misses(name, cells)
    absent = [f"* {name}: {result['error']}\n" for name, result in data["tools"].items() if "answers" not in result]
    return page + (f"\n## Not asked\n\n{''.join(absent)}" if absent else "")


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, [":--", *["--:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def _by_tool(tools: dict[str, Any], scored: dict[str, Scored]) -> Iterable[list[str]]:
    for name, cells in scored.items():
        tool: Adapter = adapter(name)
        versions = tools[name]["versions"]
        counts = [str(sum(cell.verdict == verdict for cell in cells.values())) for verdict in VERDICTS]
        framework = "" if tool.framework == tool.package else f", {tool.framework} {versions[tool.framework]}"
        yield [f"{name} ({versions[tool.package]}{framework})", *counts, f"“{tool.declares}”, {tool.cites}"]


def _by_kind(scored: dict[str, Scored], kinds: list[str]) -> Iterable[list[str]]:
    for kind in kinds:
        row = [kind]
        for cells in scored.values():
            own = [cell.verdict for key, cell in cells.items() if key.startswith(f"{kind}.")]
            good = sum(verdict in ("right", "explained") for verdict in own)
            row.append(f"{good}/{len(own)}" if own else "")
        yield row


def _misses(name: str, cells: Scored) -> str:
    """Return the section of a tool: its wrong answers and silent zeros, with commands to run them again."""
    missed = {key: cell for key, cell in cells.items() if cell.verdict in ("wrong", "zero")}
    text = f"\n## {name}\n\n"
    if not missed:
        return text + "No wrong answer, and no silent zero.\n"
    rows = []
    for key, cell in missed.items():
        id = key.partition("@")[0]
        rows.append([f"[{id}]({KINDS}/{file_of(id)})", cell.verdict, cell.sentence, f"`probes ask {name} {id}`"])
    return text + _table(["probe", "verdict", "what it says", "asked again by"], rows)
