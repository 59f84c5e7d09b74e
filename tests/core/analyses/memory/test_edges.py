"""Memory at and beside limits, and what options are if nobody states them."""

from __future__ import annotations

import re
from io import StringIO

import pytest
import sympy

from costcore.analyses.memory.arena_report import Arena, arena_of
from costcore.analyses.memory.arena_rows import ArenaColumns
from costcore.analyses.memory.arena_section import arena_section
from costcore.analyses.memory.picture import Moment, picture
from costcore.analyses.memory.tables import alive_at_peak, values_in_arena
from costcore.analyses.memory.timeline import highest
from costcore.errors import ArenaError
from costcore.ir import Layer, Tensor
from costcore.reports.report import Report
from costcore.tables.columns import MemoryColumns
from costcore.tables.quantities import quantity
from costcore.trace.call import Call
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace
from tests.core import html_reports
from tests.core.analyses.memory.graphs import Node, trace


def shown(method, **options):
    stream = StringIO()
    method(stream, **options)
    return stream.getvalue()


def test_what_options_are_if_nobody_states_them():
    """An input and two values of 70 B, of which two are alive at once, in 128 B each."""
    graph = trace([Node("conv", (1,), 10, 70), Node("relu", (10,), 11, 70)], {1: 70}, [11])
    report = Report(graph)
    for arena in (Arena(graph), arena_of(report), report.arena()):
        assert (arena.align, arena.inplace, arena.count_inputs) == (64, False, True)
        assert (arena.peak, arena.size) == (140, 256)
    stated = shown(report.show_arena, mode="csv", align=64, inplace=False, count_inputs=True)
    assert shown(report.show_arena, mode="csv") == stated
    for change in ({"align": 8}, {"inplace": True}, {"count_inputs": False}):
        assert shown(report.show_arena, mode="csv", **change) != stated


@pytest.mark.parametrize(("n", "more"), [(1, ""), (8, ""), (9, " and 1 more"), (11, " and 3 more")])
def test_a_layout_names_eight_of_the_sizes_that_it_needs(n, more):
    """Two of them are in the example."""
    names = [f"n{i:02}" for i in range(n)]
    size = sum(sympy.Symbol(name, integer=True, positive=True) for name in names)
    x = Tensor((size,), "int8")
    call = Call(Layer("relu", {"x": x}, [x]), "relu", name="relu", inputs=(1,), outputs=(2,))
    arena = Arena(Trace((CallCost(call, None),), Run().recording(returned=(2,))))
    example = ", ".join(f"'{name}': 1" for name in names[:2])
    options = " ".join(f"--dim {name}=1" for name in names[:2])
    with pytest.raises(ArenaError) as found:
        _ = arena.size
    assert str(found.value) == (
        f"a layout needs numbers, but sizes depend on {', '.join(names[:8])}{more}. Substitute them, as in "
        f"report.subs({{{example}}}).arena(), or {options} on the command line"
    )


@pytest.mark.parametrize(("n", "text"), [(999, ""), (1000, "The 1000 largest of 1001 values are drawn.")])
def test_a_thousand_values_are_drawn(n, text):
    nodes = [Node("conv", (max(i, 10) if i > 10 else 1,), i + 1, 1 + i % 7) for i in range(10, 10 + n)]
    section = arena_section(Report(trace(nodes, {1: 4}, [nodes[-1].makes])))
    assert section.count("<rect class='value'") + section.count("<rect class='output'") >= 998
    assert ("values are drawn." in section) == bool(text) and text in section


@pytest.mark.parametrize(("at", "side"), [(59, "start"), (60, "end"), (61, "end")])
def test_the_label_of_the_peak_is_on_the_side_with_more_room(at, side):
    """Of 100 columns, whose middles are at 59.5, 60.5 and 61.5 percent."""
    columns = [Moment(i, 8 + (i == at), {"input": 8 + (i == at)}) for i in range(100)]
    drawn = picture(columns, [html_reports.call("relu", "", 1, 1, 1).call], 9)
    assert re.search(r"text-anchor='(\w+)'>peak", drawn)[1] == side


@pytest.mark.parametrize(
    ("table", "report", "columns"),
    [
        (alive_at_peak, html_reports.step(), MemoryColumns),
        (values_in_arena, Report(trace([Node("conv", (1,), 10, 70)], {1: 70}, [10])), ArenaColumns),
    ],
)
def test_columns_that_were_chosen_one_by_one_are_all_shown(table, report, columns):
    """Of a set of columns a narrow terminal does without some, without the module last."""
    for chosen in (columns.DEFAULT, columns.ALL):
        dropped = table(report, chosen).dropped_first
        assert [name for name in dropped if name in columns.ALL][-1] == "module"
    assert table(report, ["dtype", "name"]).dropped_first is None


def test_memory_is_a_quantity_if_it_was_recorded():
    """See the table of :func:`html_reports.step`."""
    ledger = html_reports.step().ledger
    found = {name: quantity(name).total(ledger) for name in ("live", "live_peak", "peak_memory", "saved")}
    assert found == {"live": 2048, "live_peak": 2816, "peak_memory": 2816, "saved": 512}
    assert [*quantity("live_peak").by_call(ledger)] == [1536, 2816, 2176]


def test_a_run_of_more_calls_than_are_drawn_has_no_section(monkeypatch):
    report = Report(trace([Node("conv", (1,), 10, 70), Node("relu", (10,), 11, 70)], {1: 70}, [11]))
    for most, is_drawn in ((2, True), (1, False)):
        monkeypatch.setattr("costcore.analyses.memory.arena_section.MOST_CALLS", most)
        assert bool(arena_section(report)) == is_drawn


def test_values_of_a_call_with_several_outputs_are_numbered():
    x = Tensor((8,), "int8")
    for outputs, names in (((2,), ["split"]), ((2, 3), ["split:0", "split:1"])):
        layer = Layer("split", {"x": x}, [x] * len(outputs))
        call = Call(layer, "split", name="split", inputs=(1,), outputs=outputs)
        arena = Arena(Trace((CallCost(call, None),), Run().recording(returned=outputs)), count_inputs=False)
        assert [*arena.offsets] == names


def test_two_forms_of_the_largest_amount_are_one():
    n = sympy.Symbol("n", integer=True, positive=True)
    assert highest([n * (n + 1), n**2 + n]) in (n * (n + 1), n**2 + n)
    assert highest([n + 1, n]) == n + 1
    assert highest([n + 1, 2 * n]) == 2 * n  # for a size of at least 1
    assert highest([n + 2, 2 * n]) == sympy.Max(n + 2, 2 * n, evaluate=False)


def test_words_of_quantities_of_the_arena():
    assert quantity("arena").words == "bytes of arena"
    assert quantity("arena_peak").words == quantity("arena_peak").doc
