"""The map of a comparison: areas in proportion to costs, colored by the change."""

from __future__ import annotations

import pytest

from costcore import compare
from costcore.studies.comparisons.comparison import areas_of
from tests.core.given_costs import dense, net, relu


def test_areas_are_in_proportion_and_fill_the_frame():
    """8, 4, 2 and 2 of a frame of 4 by 4: half of it, a quarter, and two eighths."""
    areas = [*areas_of([("a", 8), ("b", 4), ("c", 2), ("d", 2)], (0, 0, 4, 4))]
    assert [(area.path, area.width * area.height) for area in areas] == [("a", 8), ("b", 4), ("c", 2), ("d", 2)]
    assert all(each.left >= 0 and each.left + each.width <= 4 and each.top + each.height <= 4 for each in areas)


def test_many_small_modules_beside_a_large_one():
    areas = [*areas_of([("large", 90), *((f"small.{i}", 1) for i in range(10))], (0, 0, 100, 10))]
    assert [round(area.width * area.height) for area in areas] == [900, *[10] * 10]


@pytest.mark.parametrize(
    ("after", "classes"),
    [
        ((dense("body"), dense("head")), {"same"}),
        ((dense("body", 8), dense("head")), {"more", "same"}),
        ((dense("body"),), {"same", "less"}),
    ],
)
def test_colors_say_what_changed(after, classes):
    old = net(dense("body"), dense("head"), framework="torch")
    page = compare(old, net(*after, framework="torch"), by="module").to_html()
    drawn = {name for name in ("more", "less", "same") if f"<g class='{name}'>" in page}
    assert drawn == classes


def test_a_single_module_has_no_map():
    old, new = (net(dense("body", n), framework="torch") for n in (4, 8))
    assert "<svg id='map'" not in compare(old, new).to_html()


def test_names_are_text():
    parts = dense("<b>&"), relu("x")
    page = compare(net(*parts, framework="torch"), net(*parts, framework="torch")).to_html()
    assert "<title>&lt;b&gt;&amp;: unchanged" in page


def test_a_page_without_a_script_has_a_switch_of_its_theme():
    parts = dense("a"), relu("b")
    page = compare(net(*parts, framework="torch"), net(*parts, framework="torch")).to_html()
    assert "<script" not in page and page.count('name="theme"') == 3
    assert ":root:has(#theme-dark:checked)" in page
