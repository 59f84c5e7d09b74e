"""The pages of results: one design, no table without rows, and pictures whose places follow by hand."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from costcore import explain, table
from costcore.analyses.devices.device import find_device
from costcore.studies.batch_inputs import make_limit
from costcore.studies.fit import fit
from costcore.studies.plan_setups import Mesh, Setup
from costcore.studies.plans import Plan, Plans
from costcore.tables.html import Axis, Part, Point, Span, filled, scatter, timeline
from costcore.text.amounts import short, significant
from tests.core import html_reports
from tests.core.analyses.measured.runs import linear, profiled, trace_of
from tests.core.given_costs import Step, dense, net
from tests.core.results import Axis as PictureAxis
from tests.core.results import Column, draw
from tests.frameworks import optional

LAYERS = [dense(f"layer{i}", 8) for i in range(12)]
GIB = 2**30


def plans():
    """Return three plans, one of which is slower and larger than another."""
    figures = {"dp": (1.0, 4 * GIB), "tp": (2.0, GIB), "pp": (3.0, 2 * GIB)}
    tried = [Plan(Setup(Mesh(**{axis: 8}), 1, 1, False, None), True, n, 0, s) for axis, (s, n) in figures.items()]
    return Plans(tuple(tried), (), find_device("h100"), make_limit("80 GB"), 64)


RESULTS = {
    "memory": lambda: html_reports.step().memory,
    "arena": lambda: net(*LAYERS).arena(),
    "explanation": lambda: explain(net(*LAYERS), 768),
    "measured": lambda: profiled(trace_of(linear(1, "a"), linear(2, "b")), [10, 20]).measured(),
    "fit": lambda: fit(html_reports.step(), None, "4 KiB"),
    "plans": plans,
    "models": lambda: table({"a": net(*LAYERS), "b": net(*LAYERS[:2])}, columns=["macs", "mread"]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_no_table_of_a_page_is_empty_and_its_command_is_shown(name):
    page = RESULTS[name]().to_html(made="costcore fit net.py · 2026-01-01")
    tables = re.findall(r"<tbody>(.*?)</tbody>", page)
    assert tables or name == "fit"
    assert all("<tr" in body for body in tables)
    assert "<code>costcore fit net.py · 2026-01-01</code>" in page and "theme-dark" in page
    assert not re.search("<script", page)


def test_the_page_of_an_arena_has_all_values_and_their_places():
    arena = RESULTS["arena"]()
    page = arena.to_html()
    *_, values = re.findall(r"<tbody>(.*?)</tbody>", page)
    assert all(f"<td>{slot.name}</td>" in values for slot in arena.slots) and len(arena.slots) > 5
    drawing = re.search(r"<svg id='arena-map'.*?</svg>", page).group()
    assert drawing.count("<rect") == len([slot for slot in arena.slots if slot.nbytes])


def test_the_page_of_memory_has_its_course():
    page = RESULTS["memory"]().to_html()
    assert "<svg id='memory-map'" in page and "Live bytes by call" in page


def rectangles(picture):
    """Return class, left edge and width of each rectangle."""
    return re.findall(r"<rect class='([\w-]+)' x='([\d.]+)%' y='[\d.]+%' width='([\d.]+)%'", picture)


@pytest.mark.parametrize(
    ("sizes", "shown", "limit", "words"),
    [
        ((30, 20), [("parameter", "0", "30"), ("kv", "30", "20"), ("free", "50", "50")], "100%", "limit 100 B"),
        ((90, 60), [("parameter", "0", "60"), ("kv", "60", "40")], "66.67%", "limit 100 B, exceeded by 50 B"),
    ],
)
def test_a_bar_shows_what_fills_a_memory(sizes, shown, limit, words):
    picture = filled([Part("parameter", "weights", sizes[0]), Part("kv", "cache", sizes[1]), Part("x", "", 0)], 100)
    assert rectangles(picture) == shown
    assert f"<line class='limit' x1='{limit}'" in picture and f">{words}<" in picture


def test_the_parts_of_a_fit_are_its_needs():
    """2,816 B at the peak: weight, gradient, what is saved, temporary; of 4 KiB, without a context."""
    found = fit(html_reports.step(), None, "4 KiB", context=0)
    assert found.parts == {"memory": {"parameter": 1024, "gradient": 1024, "saved": 512, "temporary": 256} | ZEROS}
    assert sum(found.parts["memory"].values()) == found.needs["memory"] == 2816
    (bar,) = re.findall(r"<svg class='stack'.*?</figure>", found.to_html())
    assert rectangles(bar)[-1] == ("free", "68.75", "31.25")


ZEROS = {"others": 0, "workspace": 0, "context": 0}


@pytest.mark.parametrize(
    ("lowest", "highest", "of_macs", "of_bytes"),
    [
        (100, 200, "100, 120, 140, 160, 180, 200", "100 B, 120 B, 140 B, 160 B, 180 B, 200 B"),
        (0, 50, "0, 10, 20, 30, 40, 50", "0 B, 10 B, 20 B, 30 B, 40 B, 50 B"),
        (7, 7, "0, 5, 10", "0 B, 5 B, 10 B"),  # 0 to 14
        (2**30, 2**31, "1.5 G, 2 G", "1 GiB, 1.2 GiB, 1.4 GiB, 1.6 GiB, 1.8 GiB, 2 GiB"),
        (1, 10, "1, 2, 5, 10", "1 B, 2 B, 4 B, 8 B"),
        (1, 1000, "1, 10, 100, 1 K", "1 B, 4 B, 16 B, 64 B, 256 B, 1 KiB"),  # 10 and 11 are too many
        (1, 10**9, "1, 100, 10 K, 1 M, 100 M", "1 B, 16 B, 256 B, 4 KiB, 64 KiB, 1 MiB, 16 MiB, 256 MiB"),  # 10 and 32
    ],
)
def test_an_axis_has_few_round_ticks(lowest, highest, of_macs, of_bytes):
    """Within the points, and 6 % of their range on both sides, if they are not below zero."""
    points = [(str(n), net(Step("linear", macs=n, mread=n))) for n in (lowest, highest)]
    page = table(points, columns=["macs", "mread"]).pareto("macs", "mread").to_html()
    assert ", ".join(re.findall(r"dy='16' text-anchor='middle'>([^<]*)<", page)) == of_macs
    assert ", ".join(re.findall(r"dy='4' text-anchor='end'>([^<]*)<", page)) == of_bytes
    assert (" cx='0%' " in page) == (lowest == 0)


@pytest.mark.parametrize(
    ("points", "on_page", "in_picture"),
    [
        ({"o": (0, 0), "n": (10, 9)}, "o above right, n above right", "o above right, n above right"),
        # The second name meets the first, and none fits beyond the right edge.
        (
            {"o": (0, 0), "b" * 20: (10, 5), "d" * 20: (10, 5.3), "t" * 20: (10, 10)},
            "o above right, b above left, d below left, t above left",
            "o above right, b above left, t above left",
        ),
        # The right of the first point is taken by the second.
        (
            {"a" * 10: (0, 5), "c" * 10: (0.5, 5), "b" * 20: (10, 5)},
            "c above right, b above left",
            "a above right, c below right, b above left",
        ),
        (
            {"l" * 5: (5, 5), "u" * 5: (5, 5.4), "o": (0, 0), "p": (10, 10)},
            *["l above right, u above left, o above right, p above right"] * 2,
        ),
        ({f"{n:c}": (n, n * n) for n in range(65, 86)}, *["A above right, U above right"] * 2),  # the front of 21
    ],
    ids=["free", "edge", "row", "stack", "many"],
)
def test_names_are_beside_their_points_where_nothing_is(points, on_page, in_picture):
    best = [0, len(points) - 1] if len(points) > 20 else []
    drawn = [Point(*place, name, i in best) for i, (name, place) in enumerate(points.items())]
    page = scatter(drawn, Axis("X", "count"), Axis("Y", "ratio"))
    dots = re.findall(r"<circle class='[\w-]+' cx='[\d.]+%' cy='([\d.]+)%' r='\d'><title>(\w+)", page)
    ys = {name: float(y) for y, name in dots}
    found = re.findall(r"<text class='label' x='[\d.]+%' y='([\d.]+)%' dy='4' text-anchor='(\w+)'>(\w+)", page)
    sides = {"start": "right", "end": "left"}
    places = [f"{n[0]} {'above' if float(y) < ys[n] else 'below'} {sides[anchor]}" for y, anchor, n in found]
    assert ", ".join(places) == on_page
    optional("matplotlib")
    x, y = (PictureAxis(Column(*"xy"), [place[i] for place in points.values()]) for i in range(2))
    texts = draw(x, y, names=[*points], best=best).axes[0].texts
    places = [(each.get_text()[0], *("above" if each.xyann[1] > 0 else "below", each.xyann[0] > 0)) for each in texts]
    assert ", ".join(f"{name} {high} {'right' if right else 'left'}" for name, high, right in places) == in_picture
    assert all(each.get_ha() == ("left" if each.xyann[0] > 0 else "right") for each in texts)


def test_a_scatter_has_logarithmic_axes_and_its_front():
    """x from 1 to 100 with 6 % of two decades around: 10 is in the middle. The front is a line of one piece."""
    points = [Point(1, 9, "a", True), Point(10, 4, "b", True), Point(100, 6, "c")]
    picture = scatter(points, Axis("MACs", "flops"), Axis("time", "ratio"))
    places = dict(re.findall(r"<circle class='[\w-]+' cx='([\d.]+)%' cy='[\d.]+%' r='\d'><title>(\w)", picture))
    assert {name: float(x) for x, name in places.items()} == pytest.approx({"a": 5.25, "b": 49, "c": 92.75}, abs=0.01)
    assert picture.count("<line class='line'") == 1 and picture.count("class='best' cx") == 2
    assert "Logarithmic: MACs." in picture and all(f">{name}</text>" in picture for name in "abc")


@pytest.mark.parametrize(("name", "best"), [("plans", 2), ("models", 0)])
def test_plans_and_models_are_points(name, best):
    page = RESULTS[name]().to_html()
    (drawn,) = re.findall(r"<svg class='front'.*?</svg>", page)
    assert (drawn.count("<circle"), drawn.count("<circle class='best'")) == ({"plans": 3, "models": 2}[name], best)


def test_the_front_of_models_is_shown_beside_the_others():
    """``b`` has fewer MACs and reads fewer bytes: it is the front."""
    front = RESULTS["models"]().pareto("macs", "mread")
    assert [row.name for row in front.rows] == ["b"] and [row.name for row in front.dominated] == ["a"]
    page = front.to_html()
    assert "1 of 2 models are Pareto-optimal" in page and page.count("<circle class='best'") == 1


def test_a_timeline_has_a_lane_per_group_and_spans_in_proportion():
    picture = timeline([("a", [Span(0, 2, "value", "x")]), ("b", [Span(2, 6, "saved", "y")])], 8)
    assert rectangles(picture) == [("value", "0", "25"), ("saved", "25", "75")]
    page = RESULTS["measured"]().to_html()
    assert "Timeline by operator" in page and page.count("<rect class='value'") == 2 + 1  # and one of the keys
    assert re.findall(r"<svg class='share'.*?([\d.]+%)</span>", page) == ["100.0%"] * 2  # of the time, not of the bound


def test_amounts_other_than_zero_have_exact_tooltips_in_tables_of_at_most_100_rows():
    for n, tooltips in ((100, [f"{1000 + i:,}" for i in range(1, 100)]), (101, [])):
        models = [(f"m{i}", net(Step("linear", macs=i and 1000 + i))) for i in range(n)]
        page = table(models, columns=["macs"]).to_html()
        assert re.findall(r"<td class='n' title='([^']*)'", page) == tooltips


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (10_293_000_000, "flops", "10.29 G"),
        (324_300_000, "bytes", "309.3 MiB"),
        (999_960, "flops", "1,000 K"),
        (4096, "bytes", "4 KiB"),
        (1536, "bytes", "1.5 KiB"),
        (0, "bytes", "0 B"),
        (2**60, "flops", "1,152,922 T"),
        (0.0012345, "duration", "1.234 ms"),
        (32.7571, "ratio", "32.76"),
    ],
)
def test_amounts_have_four_significant_digits(value, kind, text):
    assert short(value, kind) == text


def test_trailing_zeros_align_columns():
    assert significant(Fraction(3, 2), fixed=True) == "1.500" and significant(Fraction(-12345)) == "-12,345"
