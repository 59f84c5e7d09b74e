"""The command ``probes``: list, show, questions, ask, run, score, page."""

from __future__ import annotations

import argparse
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .adapter import adapter, adapter_names
from .catalogue import all_probes, find
from .probe import QUANTITIES, Probe
from .runner import ask
from .score import VERDICTS, judge
from .scoreboard import scoreboard

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="probes", description="Test counters of FLOPs, MACs and parameters.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="list the probes")
    listing.add_argument("kind", nargs="?", help="those of one kind")
    show = commands.add_parser("show", help="show a probe: the network, the question, the derivation")
    show.add_argument("id")
    questions = commands.add_parser("questions", help="print questions without answers, to derive them independently")
    questions.add_argument("--seed", type=int, default=0, help="decides which (default: 0)")
    questions.add_argument("--count", type=int, default=30, help="how many (default: 30)")
    questions.add_argument("--without", nargs="*", default=[], metavar="ID", help="probes that you know already")
    one = commands.add_parser("ask", help="ask a tool probes or kinds, and print what it says and the verdict")
    one.add_argument("tool", choices=adapter_names())
    one.add_argument("ids", nargs="+", help="probes or kinds")
    run = commands.add_parser("run", help="ask tools and write their answers as JSON")
    run.add_argument("ids", nargs="*", help="probes or kinds; default: all")
    run.add_argument("--tool", action="append", choices=adapter_names(), help="may be repeated; default: all")
    for command in (one, run):
        command.add_argument(
            "--python",
            action="append",
            default=[],
            metavar="[TOOL=]PATH",
            help="the interpreter that has the tools, or one of them",
        )
        command.add_argument("--timeout", type=float, default=60, help="seconds for each probe (default: 60)")
    run.add_argument("--jobs", type=int, default=1, help="how many tools are asked at the same time (default: 1)")
    run.add_argument("--output", type=Path, help="the JSON file; default: stdout")
    score = commands.add_parser("score", help="score a JSON file of answers")
    score.add_argument("answers", type=Path)
    score.add_argument("--verdict", choices=VERDICTS, help="list the cells with this verdict")
    page = commands.add_parser("page", help="write the scoreboard of a JSON file of answers, as Markdown")
    page.add_argument("answers", type=Path)
    page.add_argument("--output", type=Path, help="the Markdown file; default: stdout")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        _COMMANDS[options.command](options)
    except ValueError as error:
        print(f"probes: {error}", file=sys.stderr)
        return 2
    return 0


def _list(options: Any) -> None:
    for probe in all_probes().values():
        if options.kind in (None, probe.kind):
            print(f"{probe.id:34} {probe.quantity:18} {probe.answer:>16,}  {probe.network}")


def _show(options: Any) -> None:
    probe = find(options.id)
    print(f"{probe.id}: {probe.network}")
    print(f"  asked      {probe.quantity}: {QUANTITIES[probe.quantity]}")
    print(f"  answer     {probe.answer:,} = {probe.derivation}")
    print(
        f"  loops      {probe.counted():,}"
        + (f" on a smaller network, as derived: {probe.small:,}" if probe.small else "")
    )
    print(f"  built as   {', '.join(probe.formats)}")
    if probe.source:
        print(f"  published  {probe.source}")


def _questions(options: Any) -> None:
    unknown = [probe for id, probe in all_probes().items() if id not in options.without]
    for probe in random.Random(options.seed).sample(unknown, options.count):
        print(f"{probe.id}\n  {probe.network}\n  {probe.quantity}: {QUANTITIES[probe.quantity]}")


def _chosen(ids: list[str]) -> list[Probe]:
    probes = all_probes()
    if not ids:
        return [*probes.values()]
    kinds = {probe.kind for probe in probes.values()}
    return [p for id in ids for p in (probes.values() if id in kinds else [find(id)]) if id in (p.id, p.kind)]


def _pythons(options: Any) -> dict[str, str]:
    return {name: path for name, _, path in (item.rpartition("=") for item in options.python)}


def _ask(options: Any) -> None:
    pythons, tool = _pythons(options), adapter(options.tool)
    python = pythons.get(tool.name, pythons.get("", sys.executable))
    result = ask(tool.name, _chosen(options.ids), python, options.timeout)
    if "error" in result:
        raise ValueError(f"{tool.name} cannot be asked with {python}: {result['error']}")
    for key, reply in result["answers"].items():
        cell = judge(find(key.partition("@")[0]), tool, reply)
        print(f"{key} {cell.verdict}: {cell.sentence}")


def _run(options: Any) -> None:
    pythons, chosen = _pythons(options), _chosen(options.ids)
    names = options.tool or adapter_names()
    data: dict[str, Any] = {"schema": 1, "date": datetime.now(timezone.utc).date().isoformat(), "tools": {}}

    def asked(name: str) -> dict[str, Any]:
        answers = ask(name, chosen, pythons.get(name, pythons.get("", sys.executable)), options.timeout)
        print(f"{name}: {len(answers.get('answers', ()))} answers", file=sys.stderr)
        return answers

    with ThreadPoolExecutor(options.jobs) as pool:
        for name, answers in zip(names, pool.map(asked, names), strict=True):
            data["tools"][name] = answers
            if options.output:  # after every tool, as the next may be interrupted
                options.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if not options.output:
        print(json.dumps(data, indent=1))


def _score(options: Any) -> None:
    data = json.loads(options.answers.read_text(encoding="utf-8"))
    print(f"{'':20}" + "".join(f"{verdict:>10}" for verdict in VERDICTS))
    for name, result in data["tools"].items():
        if "error" in result:
            print(f"{name:20} {result['error']}")
            continue
        tool = adapter(name)
        cells = {key: judge(find(key.partition("@")[0]), tool, reply) for key, reply in result["answers"].items()}
        counts = [sum(cell.verdict == verdict for cell in cells.values()) for verdict in VERDICTS]
        print(f"{name:20}" + "".join(f"{count:>10}" for count in counts))
        for key, cell in cells.items():
            if cell.verdict == options.verdict:
                print(f"  {key}: {cell.sentence}")


def _page(options: Any) -> None:
    text = scoreboard(json.loads(options.answers.read_text(encoding="utf-8")))
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


_COMMANDS = {
    "list": _list,
    "show": _show,
    "questions": _questions,
    "ask": _ask,
    "run": _run,
    "score": _score,
    "page": _page,
}


if __name__ == "__main__":
    sys.exit(main())
