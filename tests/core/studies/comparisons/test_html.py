"""The HTML page of a comparison as text: no script, self-contained, and safe against hostile names."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

import pytest
from sympy import Symbol

from costcore import compare
from tests.core import html_reports
from tests.core.given_costs import Step, dense, net, relu
from tests.core.reports.html.test_page_text import Page

OLD = net(dense("a"), relu("a"), dense("b"))
PAGES = {
    "changed": lambda: compare(OLD, net(dense("a"), relu("a"), dense("b", 8), relu("c", 8)), names=("v1", "v2")),
    "equal": lambda: compare(OLD, OLD),
    "hostile": lambda: compare(OLD, html_reports.hostile(), names=html_reports.HOSTILE[:2]),
    "symbolic": lambda: compare(OLD, net(Step("linear", "a", macs=Symbol("n")))),
    "empty": lambda: compare(net(), net()),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_has_no_script(name):
    text = PAGES[name]().to_html()
    page = Page(text)
    assert "http:" not in text and "https:" not in text
    assert page.scripts == []
    assert {value for _, attrs in page.elements for key, value in attrs.items() if key in ("src", "href")} == {"data:,"}
    assert not any("style" in attrs or any(key.startswith("on") for key in attrs) for _, attrs in page.elements)
    (stated,) = (attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv"))
    hashed = b64encode(sha256(page.styles[0].encode()).digest()).decode()
    assert f"style-src 'sha256-{hashed}'" in stated
    assert "script-src" not in stated and "default-src 'none'" in stated
    assert text == PAGES[name]().to_html()


def test_changes_are_listed():
    """macs 16 + 16 before, 16 + 64 after."""
    text = Page(PAGES["changed"]().to_html()).text
    for words in (
        "v1 → v2 calls: 1 added, 1 changed",
        "MACs 80 was 32, ×2.5000",
        "Summary MACs: 32 → 80 (+48, ×2.5000)",
        "Calls: 1 added, 0 removed, 1 changed",
        "changed b linear linear-2 FLOPs 16 64 +48 ×4.0000",
        "added c relu relu-2 FLOPs 0 8 +8",
        "calls matched by module and operator",
    ):
        assert words in text


def test_the_page_of_equal_reports_has_no_tables():
    page = Page(PAGES["equal"]().to_html())
    assert "old → new ✓ no call differs" in page.text
    assert "unchanged" in page.text
    assert "table" not in {tag for tag, _ in page.elements}


def test_names_are_text():
    text = PAGES["hostile"]().to_html()
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in Page(PAGES["changed"]().to_html()).elements}
    assert "\u202e" not in text and "\x00" not in text
    assert all(name in page.text for name in html_reports.HOSTILE[:3])


def test_the_title_may_be_chosen_and_the_file_named(tmp_path):
    text = PAGES["changed"]().to_html(tmp_path / "page.html", title="a <b>")
    assert "<title>a &lt;b&gt;</title>" in text
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
