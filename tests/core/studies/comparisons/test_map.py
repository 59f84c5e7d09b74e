"""The map of a comparison, colored by the change."""

from __future__ import annotations

import pytest

from costcore import compare
from tests.core.given_costs import dense, net, relu


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
