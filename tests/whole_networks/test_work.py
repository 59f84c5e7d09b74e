"""Every view of a report takes work in proportion to the number of calls, and at most ten times that of the capture."""

from __future__ import annotations

import re
from functools import cache
from io import StringIO
from math import log
from typing import NamedTuple

import pytest

from costcore import Report, Trace, check, compare, estimate, explain, reconcile
from tests import frameworks
from tests.work import counted_lines

pytestmark = pytest.mark.frontend("pytorch")

if "pytorch" in frameworks.available():
    import torch
    from torch import nn

FEW, MANY = 20, 80
"""Numbers of blocks: 4 times as many calls."""

MOST_EXPONENT, MOST_CAPTURES = 1.1, 10

if "pytorch" in frameworks.available():

    class Block(nn.Module):
        """Four calls, one of which reads the input of the network."""

        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

        def forward(self, x, first):
            return self.norm(self.conv(x)).relu() + first

    class Dense(nn.Module):
        """Every block reads the results of all blocks before it, as those of a DenseNet, at half the size."""

        def __init__(self, n):
            super().__init__()
            self.first = nn.Conv2d(4, 4, 7, stride=2, padding=3)
            self.blocks = nn.ModuleList(nn.Conv2d(4 * (i + 1), 4, 3, padding=1) for i in range(n))

        def forward(self, x):
            found = [self.first(x)]
            for block in self.blocks:
                found.append(block(torch.cat(found, 1)))
            return found[-1]

    class Network(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(n))
            self.head = nn.Linear(8, 8)

        def forward(self, x):
            first = x
            for block in self.blocks:
                x = block(x, first)
            return self.head(x)


class Captured(NamedTuple):
    """Two captures of a network and the work of the first. Every property is a new report, which has computed nothing.

    Attributes:
        traces: the run, and one with a larger batch.
        work: the lines of the first capture.
    """

    traces: tuple[Trace, Trace]
    work: int

    @property
    def report(self) -> Report:
        return Report(self.traces[0])

    @property
    def other(self) -> Report:
        return Report(self.traces[1])

    @property
    def measured(self) -> Report:
        records = (record._replace(seconds=1e-3) for record in self.traces[0])
        return Report(Trace(tuple(records), self.traces[0].run))


@cache
def captured(n_blocks: int) -> Captured:
    net = Network(n_blocks).eval()
    options = {"memory": True, "record_api_calls": True}
    estimate(net, (1, 4, 8, 8), **options)
    with counted_lines() as lines:
        first = estimate(net, (2, 4, 8, 8), **options)
    return Captured((first.trace, estimate(net, (3, 4, 8, 8), **options).trace), lines.count)


def shown(show, **options):
    show(StringIO(), **options)


TRAINING = {"total": {"flops": 10**12, "peak_memory": 10**12}, "module": {"*": {"macs": 10**12}}}

VIEWS = {
    "summary_report": lambda of: of.report.summary_report,
    "layer_report": lambda of: of.report.layer_report,
    "print": lambda of: str(of.report),
    "notebook": lambda of: of.report._repr_html_(),
    "by": lambda of: of.report.by("module", "op"),
    "tree": lambda of: of.report.tree(),
    "to_pandas": lambda of: of.report.to_pandas(),
    "table": lambda of: str(of.report.table("module", "op")),
    "show_report": lambda of: shown(of.report.show_report, mode="md"),
    "show_report, sorted": lambda of: shown(of.report.show_report, sort="flops", top=10),
    "show_summary_report": lambda of: shown(of.report.show_summary_report, mode="table"),
    "show_by": lambda of: of.report.show_by("module", ost=StringIO()),
    "show_tree": lambda of: shown(of.report.show_tree),
    "show_layers": lambda of: shown(of.report.show_layers),
    "show_memory": lambda of: shown(of.report.show_memory),
    "show_arena": lambda of: shown(of.report.show_arena),
    "show_receptive_field": lambda of: shown(of.report.show_receptive_field),
    "memory": lambda of: (of.report.memory.peak, of.report.memory.by_kind, of.report.memory.timeline),
    "memory by module": lambda of: (of.report.memory.by_module(), of.report.memory.live_by_call()),
    "arena": lambda of: of.report.arena().size,
    "receptive_field": lambda of: of.report.receptive_field(),
    "fused": lambda of: of.report.fused("pointwise").total_report,
    "fused, tables": lambda of: shown(of.report.fused("compiler").show_report),
    "fused, page": lambda of: of.report.fused("compiler").to_html(),
    "time": lambda of: of.report.time("l4").by_type(),
    "time, print": lambda of: str(of.report.time("l4")),
    "time, tables": lambda of: shown(of.report.time("l4", dtype="bfloat16").show_report),
    "time, json": lambda of: of.report.time("l4", fusion="compiler").to_json(),
    "time, svg": lambda of: of.report.time("l4").to_svg(),
    "time, page": lambda of: of.report.time("l4").to_html(),
    "time, measured": lambda of: str(of.report.time("l4").compare(of.measured)),
    "under": lambda of: of.report.under("fvcore").by("module"),
    "under, of modules": lambda of: of.report.under("ptflops-modules").describe(),
    "explain": lambda of: explain(of.report, "1.234G"),
    "reconcile": lambda of: str(reconcile(of.report, "fvcore", "torch")),
    "reconcile, two reports": lambda of: str(reconcile(of.report, "macs", "macs", of.other)),
    "compare": lambda of: str(compare(of.report, of.other)),
    "compare, page": lambda of: compare(of.report, of.other).to_html(),
    "check": lambda of: check(of.report, TRAINING),
    "plot, operators": lambda of: of.report.plot("operators"),
    "plot, modules": lambda of: of.report.plot("modules"),
    "plot, intensity": lambda of: of.report.plot("intensity"),
    "plot, memory": lambda of: of.report.plot("memory"),
    "plot, roofline": lambda of: of.report.plot("roofline", device="l4"),
    "to_html": lambda of: of.report.to_html(),
    "to_json": lambda of: of.report.to_json(),
    "from_json": lambda of: Report.from_json(saved(len(of.traces[0]), of)),
    "to_csv": lambda of: of.report.to_csv(),
    "to_markdown": lambda of: of.report.to_markdown(),
    "to_memory_svg": lambda of: of.report.to_memory_svg(),
    "to_chrome_trace": lambda of: of.report.to_chrome_trace(),
    "to_model_card": lambda of: of.report.to_model_card(),
    "to_model_explorer": lambda of: of.report.to_model_explorer(),
}

OF_OTHERS = {
    *(
        "to_dict",
        "to_latex",
        "to_dataframe",
        "to_tensorboard",
        "to_excel",
    ),  # of to_json; of a formula; of other packages
}
"""Methods of reports without a view of their own here."""

_saved: dict[int, str] = {}


def saved(n: int, of: Captured) -> str:
    if n not in _saved:
        _saved[n] = of.report.to_json()
    return _saved[n]


def work(view, of):
    with counted_lines() as lines:
        view(of)
    return lines.count


@pytest.mark.parametrize("name", VIEWS)
def test_work_grows_as_the_number_of_calls(name):
    view = VIEWS[name]
    few, many = captured(FEW), captured(MANY)
    view(few)  # imports modules and reads files
    saved(len(many.traces[0]), many)
    less, more = work(view, few), work(view, many)
    assert log(more / less) / log(len(many.traces[0]) / len(few.traces[0])) <= MOST_EXPONENT
    assert more <= MOST_CAPTURES * many.work


def test_formulas_take_little_work_beside_the_captures_they_are_made_of():
    net = Dense(FEW).eval()
    estimate(net, ("batch", 4, "height", "width"))
    with counted_lines() as one:  # of new sizes, as those of the formulas are: no call is replayed
        estimate(net, (3, 4, 76, 92))
    with counted_lines() as lines:
        report = estimate(net, ("batch", 4, "height", "width"))
    numbers = re.findall(r"from (\d+) captures, checked at (\d+)", " ".join(report.notes))
    assert lines.count <= 1.5 * one.count * sum(map(int, numbers[0]))


def test_every_method_that_shows_or_writes_has_a_view_here():
    methods = {name for name in dir(Report) if name.startswith(("show_", "to_"))}
    assert methods - {name.partition(",")[0] for name in VIEWS} == OF_OTHERS
