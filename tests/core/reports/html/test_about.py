"""The heading of the page: command, inputs, mode, phases and date."""

from __future__ import annotations

from datetime import date

from costcore import __version__
from tests.command_line import main
from tests.core.given_costs import dense, net, relu


def test_equal_reports_have_equal_pages():
    first, second = (net(dense("a"), relu("b"), framework="torch") for _ in range(2))
    assert first.to_html() == second.to_html()


def test_a_page_of_the_command_line_states_its_command(tmp_path):
    saved, page = tmp_path / "report.json", tmp_path / "page.html"
    net(dense("a"), framework="torch").to_json(saved)
    assert main([str(saved), "--output", str(page)]) == 0
    assert f"<code>costcore {saved} --output {page} · {date.today().isoformat()}</code>" in page.read_text()


def test_phases_have_cards():
    report = net(dense("a"), dense("b", phase="backward"), framework="torch")
    page = report.to_html()
    assert "<dt>Forward</dt>" in page and "<dt>Backward</dt>" in page and "forward, backward" in page
    assert "<dt>Forward</dt>" not in net(dense("a"), framework="torch").to_html()


def test_the_versions_are_in_the_heading():
    page = net(dense("a"), framework="torch").to_html()
    heading = page[page.index("<header>") : page.index("<details")]
    assert f"forward · costcore {__version__}" in heading
