"""Memory at and beside limits, and what options are if nobody states them."""

from __future__ import annotations

import re
from io import StringIO

import pytest
import sympy

from costcore import Report, Trace
from costcore.errors import ArenaError
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.command_line import main
from tests.core import html_reports
from tests.core.analyses.memory.graphs import Node, arena_of, section, trace
from tests.core.results import quantity
from tests.core.traces import Block, Call, CallCost, MemoryLedger, Run


def shown(method, **options):
    stream = StringIO()
    method(stream, **options)
    return stream.getvalue()


def test_what_options_are_if_nobody_states_them():
    """An input and two values of 70 B, of which two are alive at once, in 128 B each."""
    graph = trace([Node("conv", (1,), 10, 70), Node("relu", (10,), 11, 70)], {1: 70}, [11])
    report = Report(graph)
    for arena in (arena_of(graph), report.arena()):
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
    arena = arena_of(Trace((CallCost(call, None),), Run().recording(returned=(2,))))
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
    drawn = section(Report(trace(nodes, {1: 4}, [nodes[-1].makes])), "arena")
    assert drawn.count("<rect class='value'") + drawn.count("<rect class='output'") >= 998
    assert ("values are drawn." in drawn) == bool(text) and text in drawn


def drawing(live):
    """The section of a run of which each call makes and frees these bytes."""
    calls = [html_reports.call("relu", "", 1, 1, 1) for _ in live]
    blocks = [Block(i + 1, n, "temporary", 2 * i + 1, 2 * i + 2, i, (n,), "int8") for i, n in enumerate(live)]
    ledger = MemoryLedger(tuple(blocks), tuple(i // 2 for i in range(2 * len(live))))
    return section(html_reports.report(calls, memory=ledger), "memory")


@pytest.mark.parametrize(("at", "side"), [(59, "start"), (60, "end"), (61, "end")])
def test_the_label_of_the_peak_is_on_the_side_with_more_room(at, side):
    """Of 100 columns, whose middles are at 59.5, 60.5 and 61.5 percent."""
    drawn = drawing([8 + (i == at) for i in range(100)])
    assert re.search(r"text-anchor='(\w+)'>peak", drawn)[1] == side


def test_memory_is_a_quantity_if_it_was_recorded():
    """See the table of :func:`html_reports.step`."""
    ledger = html_reports.step().ledger
    found = {name: quantity(name).total(ledger) for name in ("live", "live_peak", "peak_memory", "saved")}
    assert found == {"live": 2048, "live_peak": 2816, "peak_memory": 2816, "saved": 512}
    assert [*quantity("live_peak").by_call(ledger)] == [1536, 2816, 2176]


def test_a_run_of_more_calls_than_are_drawn_has_no_section(monkeypatch):
    report = Report(trace([Node("conv", (1,), 10, 70), Node("relu", (10,), 11, 70)], {1: 70}, [11]))
    for most, is_drawn in ((2, True), (1, False)):
        monkeypatch.setattr("costcore.analyses.memory.live_memory.MOST_CALLS", most)
        assert bool(section(report, "arena")) == is_drawn


def picture_of(nodes, inputs, returned, free):
    """The picture of an arena in which the calls of these numbers cost nothing."""
    graph = trace(nodes, inputs, returned)
    records = [
        record._replace(cost=Cost(Operations(), 0, 0, {}) if i in free else Cost(Operations(cmp=1), 1, 1, {}))
        for i, record in enumerate(graph.records)
    ]
    drawn = section(Report(Trace(tuple(records), graph.run)), "arena")
    rectangles = re.findall(
        r"<rect class='(\w+)' x='(\S+)' y='(\S+)' width='(\S+)' height='(\S+)'><title>(.*?)<", drawn
    )
    return drawn, [(kind, *map(float, places), label) for kind, *places, label in rectangles]


def test_calls_that_cost_nothing_have_no_place_in_the_picture_of_an_arena():
    """An input of 2 B, a constant of 4 B, a product of 8 B and a result of 2 B, viewed at the end; 1000 by 300 for all.

    Of four calls the second and the third are drawn. Three values of 64 B when rounded are alive at once: 2 B are 3.125
    of a height of 300 for 192 B. The result has the place of the input. The peak, of 14 B, is first in the second call.
    """
    nodes = [
        Node("conv", (), 10, 4),
        Node("conv", (1,), 11, 8),
        Node("conv", (11, 10), 12, 2),
        Node("identity", (12,), 13, 2),
    ]
    drawn, rectangles = picture_of(nodes, {1: 2}, [13], {0, 3})
    assert rectangles == [
        ("value", 0, 300 - 200 - 12.5, 1000, 12.5, "conv-1: 8 B at 128, conv-1 to conv-2"),
        ("value", 0, 300 - 6.25, 1000, 6.25, "conv-0: 4 B at 0, conv-1 to conv-2"),
        ("input", 0, 300 - 100 - 3.125, 500, 3.125, "input 1: 2 B at 64, conv-1 to conv-1"),
        ("output", 500, 300 - 100 - 3.125, 500, 3.125, "conv-2: 2 B at 64, conv-2 to conv-2"),
    ]
    assert "<line class='peak' x1='250' x2='250' y1='0' y2='300'><title>peak: conv-1</title>" in drawn
    assert "Place in memory of 4 values over 2 steps" in drawn
    assert "Across: execution order without 2 calls that cost nothing. Upwards: offset, to 192 B." in drawn


def test_the_peak_may_be_in_a_call_that_is_not_drawn():
    """A product of 4 B, and then a constant of 100 B."""
    nodes = [Node("conv", (1,), 10, 4), Node("conv", (), 11, 100)]
    drawn, rectangles = picture_of(nodes, {1: 2}, [10, 11], {1})
    assert [label for *_, label in rectangles] == [
        "conv-0: 4 B at 128, conv-0 to conv-0",
        "input 1: 2 B at 0, conv-0 to conv-0",
    ]
    assert "x1='500' x2='500' y1='0' y2='300'><title>peak: conv-1</title>" in drawn
    assert "execution order without 1 call that costs nothing. Upwards" in drawn
    drawn, rectangles = picture_of(nodes, {1: 2}, [10, 11], {0, 1})
    assert len(rectangles) == 3 and "Across: execution order. Upwards" in drawn


@pytest.mark.parametrize(
    ("peak", "values"), [(1, [1]), (5, [1, 2, 3, 4, 5]), (6, [2, 4, 6]), (10, [2, 4, 6, 8, 10]), (11, [4, 8])]
)
def test_the_scale_has_up_to_five_lines(peak, values):
    """The areas take 90 % of the height, for 1.08 times the peak: 1, 5, 6, 11 and 12 B."""
    drawn = drawing([peak])
    lines = re.findall(r"<line class='grid' x1='0' x2='100%' y1='(\S+)%' y2='\S+%'/><text [^>]*>(\d+) B", drawn)
    top = {1: 1, 5: 5, 6: 6, 10: 11, 11: 12}[peak]
    assert [(float(y), int(value)) for y, value in lines] == [
        (pytest.approx(90 * (1 - value / top), abs=0.005), value) for value in values
    ]


def test_values_of_a_call_with_several_outputs_are_numbered():
    x = Tensor((8,), "int8")
    for outputs, names in (((2,), ["split"]), ((2, 3), ["split:0", "split:1"])):
        layer = Layer("split", {"x": x}, [x] * len(outputs))
        call = Call(layer, "split", name="split", inputs=(1,), outputs=outputs)
        arena = arena_of(Trace((CallCost(call, None),), Run().recording(returned=outputs)), count_inputs=False)
        assert [*arena.offsets] == names


def test_commands_show_the_twenty_largest_values_of_an_arena(tmp_path, capsys):
    """Of 26 values; what is counted and fused changes nothing."""
    graph = trace([Node("conv", (i if i > 10 else 1,), i + 1, i - 9) for i in range(10, 35)], {1: 30}, [35])
    path = str(tmp_path / "report.json")
    cost = Cost(Operations(cmp=1), 1, 1, {})
    Report(Trace(tuple(record._replace(cost=cost) for record in graph.records), graph.run)).save(path)
    arguments = [path, "--arena", "--format", "csv", "--columns", "name"]
    assert main(arguments) == 0
    names = ["input 1", *(f"conv-{i}" for i in range(24, 5, -1))]
    assert capsys.readouterr().out.split("\n") == ["Value", *names, "others (6)", "arena", ""]
    assert main([*arguments, "--convention", "fvcore"]) == 0
    assert "MACs (fvcore" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, "--fusion", "pointwise"])
    assert "--fusion cannot be used with --arena, which fusion does not change" in capsys.readouterr().err


def test_a_convention_does_not_change_memory(tmp_path, capsys):
    html_reports.step().save(tmp_path / "report.json")
    assert main([str(tmp_path / "report.json"), "--memory", "--format", "csv", "--convention", "fvcore"]) == 0
    assert "MACs (fvcore" in capsys.readouterr().err
    assert quantity("live").needs == {"memory": True}


def test_words_of_quantities_of_the_arena():
    assert quantity("arena").words == "bytes of arena"
    assert quantity("arena_peak").words == quantity("arena_peak").doc
