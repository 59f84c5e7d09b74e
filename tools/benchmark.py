"""Collect reproducible figures of costcore and other counters: python tools/benchmark.py.

Writes one JSON file for this release, ``docs/figures/VERSION.json``, and a page that compares the releases,
``docs/figures.md``. Each figure names the command that computes it. Instructions are counted here; answers of counters
come from ``docs/scoreboard.json`` and ``docs/differential.json``, times from ``docs/speed.json``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "probes")]

import costcore  # noqa: E402 - found by the line above
from benchmarks.instructions import measured, versions  # noqa: E402
from costcore_probes.adapter import adapter  # noqa: E402
from costcore_probes.catalogue import find  # noqa: E402
from costcore_probes.score import judge  # noqa: E402

HEAD = """\
# Figures of the releases

How fast is each release, and how often is it right? `make benchmark` computes these figures, writes
them to a file for each release, such as [{file}](figures/{file}), and writes
this page. Instructions are those of Python's bytecode that costcore executes, on
{machine}. Answers are *good* if they are right or explained by a rule that the tool states, as on the
[scoreboard](scoreboard.md).

"""

SPEED = """
## Speed

How long does costcore take beside the same work without it? `python benchmarks/speed.py --output docs/speed.json`
measured these on
{machine}.
Ratios compare CPU time of one thread in one process. The sweep is timed by the clock; its ratio differed by an eighth
between two runs. A bar is a goal of costcore.
Rows without a bar are lower bounds of the row above: a dispatch mode of PyTorch that does nothing, the fastest hook in
Python, and a compiled observer that records shapes without costs (`benchmarks/observer.cpp`).

"""

Figures = dict[str, dict[str, object]]


def read(file: Path) -> dict:
    """Return the content of a JSON file."""
    return json.loads(file.read_text(encoding="utf-8"))


def instructions() -> Figures:
    """Return the instructions of every case."""
    counts = measured([])
    command = 'python benchmarks/instructions.py --only "{}"'
    return {f"instructions: {name}": {"value": n, "command": command.format(name)} for name, n in counts.items()}


def probes(data: dict) -> Figures:
    """Return the number of good answers of each counter."""
    found: Figures = {}
    for name, result in data["tools"].items():
        tool = adapter(name)
        cells = result.get("answers", {}).items()
        verdicts = Counter(judge(find(key.partition("@")[0]), tool, reply).verdict for key, reply in cells)
        good = verdicts["right"] + verdicts["explained"]
        if cells:
            command = f"probes run --tool {name}"
            found[f"probes: good answers of {name}"] = {"value": f"{good} of {len(cells)}", "command": command}
    return found


def random_networks(data: dict) -> Figures:
    """Return for how many random networks a counter gives the count by hand, or the number that its rules give."""
    found: Figures = {}
    for name, own in data["tools"].items():
        verdicts = own["verdicts"]
        good = verdicts.get("equal", 0) + verdicts.get("explained", 0)
        first, count = own["seeds"][0][0], sum(verdicts.values())
        command = f"python tools/differential.py --tool {name} --seed {first} --count {count}"
        found[f"random networks: good answers of {name}"] = {"value": f"{good} of {count}", "command": command}
    return found


def page(releases: dict[str, dict]) -> str:
    """Return the page that compares releases. Their files are given from oldest to newest."""
    *_, (last, newest) = releases.items()
    machine = ", ".join(f"{name} {number}" for name, number in newest["versions"].items())
    lines = [["figure", *releases, "computed by"], [":--", *["--:"] * len(releases), ":--"]]
    for name, figure in newest["figures"].items():
        values = [release["figures"].get(name, {}).get("value", "") for release in releases.values()]
        shown = [f"{value:,}" if isinstance(value, int) else value for value in values]
        lines.append([name, *shown, f"`{figure['command']}`"])
    return HEAD.format(file=f"{last}.json", machine=machine) + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def speed(data: dict) -> str:
    """Return the section of times."""
    lines = [["work", "found", "bar", ""], [":--", "--:", "--:", ":--"]]
    for figure in data["figures"]:
        bar, unit, found = figure["bar"], figure["unit"], figure["found"]
        sign = "at least " if figure["is_least"] else "at most "
        is_met = bar is None or (found >= bar if figure["is_least"] else found <= bar)
        lines.append(
            [
                figure["work"],
                f"{found:g} {unit}".strip(),
                "" if bar is None else f"{sign}{bar:g} {unit}".strip(),
                "" if bar is None else "met" if is_met else "missed",
            ]
        )
    named = ", ".join([data["machine"], *(f"{name} {number}" for name, number in data["versions"].items())])
    return SPEED.format(machine=named) + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(root: Path = ROOT) -> int:
    """Write the file of this release and the page."""
    docs = root / "docs"
    figures = (
        instructions() | probes(read(docs / "scoreboard.json")) | random_networks(read(docs / "differential.json"))
    )
    folder = docs / "figures"
    folder.mkdir(exist_ok=True)
    own = {"costcore": costcore.__version__, "versions": versions(), "figures": figures}
    (folder / f"{costcore.__version__}.json").write_text(json.dumps(own, indent=1) + "\n", encoding="utf-8")
    files = sorted(folder.glob("*.json"), key=lambda file: [int(part) for part in file.stem.split(".")])
    text = page({file.stem: read(file) for file in files}) + speed(read(docs / "speed.json"))
    (docs / "figures.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
