"""An analysis, all in this file: what a run costs on Acme's array of 16 x 16 multipliers. Only costcore imports it."""

import argparse
from typing import NamedTuple

from costcore import hookimpl
from costcore.analyses.analysis import Analysis
from costcore.errors import CostError
from costcore.files import read_toml
from costcore.ir import ceil_div, prod
from costcore.plugins import Command
from costcore.tables.answer import Content, Figure
from costcore.tables.quantity import Quantity
from costcore.tables.result import Result, Table
from costcore.text.output import Column

SIDE = 16
FILL = 2 * (SIDE - 1)
"""The cycles until the last operands have reached the last multiplier, 15 steps down and 15 to the right."""


def products_of(layer):
    """Return the matrix products of a layer, as (how many, rows, columns, length); None if it is no such operator."""
    y = layer.out.shape
    if layer.op == "linear":
        return 1, prod(y[:-1]), y[-1], layer["w"].shape[1]
    if layer.op == "matmul":
        rows = y[-2] if len(y) > 1 else 1
        length = layer["x0"].shape[-2 if layer.attrs.get("transpose_x0") else -1]
        return prod(y[:-2]), rows, y[-1] if y else 1, length
    if layer.op == "conv":  # one product per group: pixels x output channels, over the window
        groups = layer.attrs.get("groups", 1)
        return groups, y[0] * prod(y[2:]), y[1] // groups, prod(layer["w"].shape[1:])
    return None


def cycles_of_calls(ledger):
    """Every 16 x 16 tile of outputs takes a cycle per product of its dot products, and the time to fill the array."""
    cycles = []
    for call, cost in ledger.counted:
        found = products_of(call.layer)
        if cost.macs == 0:
            cycles.append(0)  # not a matrix product: another unit computes it
        elif found is None:
            cycles.append(None)  # unknown, which is not zero
        else:
            n, rows, columns, length = found
            cycles.append(call.times * n * ceil_div(rows, SIDE) * ceil_div(columns, SIDE) * (length + FILL))
    return cycles


def not_mapped(ledger):
    """Which operators are not in the cycles."""
    macs = [call.layer.op for call, cost in ledger.counted if cost.macs != 0 and products_of(call.layer) is None]
    return [f"the array's cycles of {op} are unknown" for op in dict.fromkeys(macs)]


def cycles_of_run(ledger):
    """All cycles; None if some are unknown."""
    return None if not_mapped(ledger) else sum(CYCLES.by_call(ledger))


class Energy(NamedTuple):
    """What a user measured, in femtojoules."""

    mac: int
    byte_read: int
    byte_written: int


def read_energy(path):
    """Read a table of energies, a TOML file with ``mac``, ``byte_read`` and ``byte_written`` in femtojoules."""
    content, _ = read_toml(path, CostError)
    if content.keys() != {*Energy._fields} or not all(type(value) is int for value in content.values()):
        raise CostError(f"{path}: expected whole femtojoules for {', '.join(Energy._fields)} (got {content})")
    return Energy(**content)


def energy_at(path):
    """The quantity ``array_energy@my.toml``."""
    energy = read_energy(path)

    def of_calls(ledger):
        return [
            call.times * (cost.macs * energy.mac + cost.mread * energy.byte_read + cost.mwrite * energy.byte_written)
            for call, cost in ledger.counted
        ]

    return Quantity(f"array_energy@{path}", "Energy fJ", "count", f"femtojoules by {path}", of_calls)


CYCLES = Quantity(
    *("array_cycles", "Cycles", "count", "cycles of Acme's array of 16 x 16 multipliers"),
    of_calls=cycles_of_calls,
    of_run=cycles_of_run,
    missing=not_mapped,
)
QUANTITIES = [
    CYCLES,
    Quantity("array_energy@TABLE", "Energy fJ", "count", "femtojoules by a table of energies", at=energy_at),
]


class ArrayRun(Result):
    """What a run costs on the array: ``report.analysis("array", energy="my.toml")``."""

    def __init__(self, report, energy=None):
        ledger = report.ledger
        self.macs, self.cycles = ledger.total["macs"], CYCLES.total(ledger)
        self.energy = None if energy is None else energy_at(energy).total(ledger)
        self.remarks = not_mapped(ledger)
        groups = ledger.groups("type").items()
        self.rows = [{"type": kind, "cycles": CYCLES.of(ledger, calls)} for kind, calls in groups]

    @property
    def utilization(self):
        """The share of the multipliers that work, in percent; None without a product, or if cycles are unknown."""
        return 100 * self.macs / (SIDE * SIDE * self.cycles) if self.cycles else None

    def _content(self):
        figures = [Figure("cycles", "Cycles", self.cycles, "count", f"array of {SIDE} x {SIDE} multipliers")]
        if self.utilization is not None:
            figures.append(Figure("utilization", "Utilization", self.utilization, "percent", "multipliers that work"))
        if self.energy is not None:
            figures.append(Figure("energy", "Energy", self.energy, "count", "femtojoules"))
        columns = [Column("type", "Layer type"), Column("cycles", "Cycles", "count")]
        return Content("On Acme's array", figures, [Table("By type", columns, self.rows)], self.remarks)


def section(report):
    """Its section of the page."""
    from costcore.tables.html import card, text

    run = ArrayRun(report)
    if run.cycles is None:
        return ""
    used = [] if run.utilization is None else [card("Utilization", f"{run.utilization:.1f}%", "multipliers that work")]
    cards = "".join([card("Cycles", f"{run.cycles:,}", f"array of {SIDE} x {SIDE} multipliers"), *used])
    notes = "".join(f"<p class='note'>{text(line)}</p>" for line in run.remarks)
    title = "<h2 id='array-title'>On Acme's array</h2>"
    return f"<section id='array' aria-labelledby='array-title'>{title}<dl class='cards'>{cards}</dl>{notes}</section>"


def picture(report, theme):
    """``report.plot("array")``: a bar per call that runs on the array."""
    from costcore.tables.pictures import Picture, axes_of

    values = zip(report.ledger.calls, CYCLES.by_call(report.ledger), strict=True)
    rows = [(call.name, cycles) for call, cycles in values if cycles]

    def draw():
        axes = axes_of(theme)
        axes.barh([name for name, _ in rows][::-1], [cycles for _, cycles in rows][::-1], color=theme.colors[0])
        axes.set_xlabel("Cycles of an array of 16 x 16 multipliers")
        return axes.figure

    return Picture(("name", "cycles"), rows, draw)


def data(report):
    """Its part of ``report.to_json()``."""
    run = ArrayRun(report)
    return {"cycles": None if run.cycles is None else int(run.cycles), "not_mapped": run.remarks}


def main(argv):
    """``costcore array MODEL``."""
    from costcore.cli.models import report_of
    from costcore.cli.options import add_frontend_switches, add_model_options, command_parser, model_forms
    from costcore.cli.running import run_command

    def run(args: argparse.Namespace) -> int:
        ArrayRun(report_of(args.model, args, is_alone=True), args.energy).show(mode=args.format)
        return 0

    parser = command_parser("costcore array", "MODEL", "State what a run costs on Acme's array.", "")
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("--energy", metavar="TABLE", help="a TOML file with femtojoules")
    parser.add_argument("--format", choices=["table", "md", "csv", "json", "html"], default="table")
    add_model_options(parser)
    add_frontend_switches(parser)
    return run_command(parser, argv, run)


@hookimpl
def costcore_analyses():
    """The analysis: import paths say where everything is."""
    here = __name__
    return [
        Analysis(
            "array",
            "cycles and energy on Acme's array of 16 x 16 multipliers",
            f"{here}:ArrayRun",
            quantities=f"{here}:QUANTITIES",
            section=f"{here}:section",
            pictures={"array": f"{here}:picture"},
            command=Command("array", "MODEL", "state cycles and energy on Acme's array", f"{here}:main"),
            data=f"{here}:data",
        )
    ]
