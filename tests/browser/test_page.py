"""The HTML page in a real browser: visible rows, sorting, expanding, searching, charts, and hostile names."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import sympy
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from costcore import compare, table
from tests.core import html_reports
from tests.core.analyses.timing.toy_device import TOY
from tests.core.given_costs import Step, dense, net, relu
from tests.core.results import Quantity
from tests.core.traces import Module


def rows(browser):
    """Return the text of each cell of the rows in the page."""
    return browser.execute_script("""
        const rows = [...document.querySelectorAll('#table tbody tr[tabindex]')];
        return rows.map(row => [...row.cells].map(cell => cell.innerText.trim()));
    """)


def names(browser):
    """Return the names in the first column, without the button that expands a module."""
    return browser.execute_script("return [...document.querySelectorAll('#table .name')].map(e => e.textContent)")


def button(browser, text):
    found = browser.find_elements(By.CSS_SELECTOR, "button")
    return next(each for each in found if each.text.startswith(text))


def toggle(browser, name):
    return browser.find_element(By.CSS_SELECTOR, f'#table button[aria-label$=" {name}"]')


def wait_for(browser, condition):
    """Wait until ``condition()`` is true; drawing can take several frames on a busy machine."""
    WebDriverWait(browser, timeout=60, poll_frequency=0.02).until(lambda _: condition())


def dots(browser):
    return browser.execute_script("return document.querySelectorAll('#scatter .dots').length")


def test_of_ten_thousand_calls_few_rows_are_in_the_page(shown):
    browser = shown(html_reports.many(10_000))
    wait_for(browser, lambda: dots(browser))
    button(browser, "Expand all").click()
    table = browser.find_element(By.ID, "table")
    # the model, `blocks`, 200 of them, `layers` in each, 10 of them, the calls, and the head of the table
    assert table.get_attribute("aria-rowcount") == str(1 + 1 + 200 + 200 + 2000 + 10_000 + 1)
    assert 10 < len(rows(browser)) < 100


def test_scrolling_shows_the_last_of_many_rows(shown):
    browser = shown(html_reports.many(10_000))
    button(browser, "All calls").click()
    browser.execute_script("const s = document.getElementById('scroller'); s.scrollTop = s.scrollHeight")
    wait_for(browser, lambda: names(browser)[-1] == "mul_type-9999")


def test_a_click_on_a_column_title_sorts_by_exact_numbers(shown):
    """The FLOPs of the four calls, 2**60 to 2**60 + 3, are equal as floats."""
    order = (2, 0, 3, 1)
    browser = shown(html_reports.report(html_reports.call("mul", "", 2**60 + i, 8, 8, name=f"call{i}") for i in order))
    button(browser, "All calls").click()
    assert names(browser) == ["call2", "call0", "call3", "call1"]
    for expected, direction in (
        (["call3", "call2", "call1", "call0"], "descending"),
        (["call0", "call1", "call2", "call3"], "ascending"),
        (["call2", "call0", "call3", "call1"], None),
    ):
        button(browser, "FLOPs").click()
        assert names(browser) == expected
        sorted_by = browser.find_elements(By.CSS_SELECTOR, "#table th[aria-sort]")
        assert [head.get_attribute("aria-sort") for head in sorted_by] == ([direction] if direction else [])


def test_sorting_keeps_children_with_their_parents(shown):
    browser = shown(html_reports.small())
    button(browser, "Expand all").click()
    in_order = ["Net", "block", "(own calls)", "relu_type-1", "fc", "linear_type-0", "head", "linear_type-2"]
    assert names(browser) == in_order
    button(browser, "FLOPs").click()
    largest_first = ["Net", "head", "linear_type-2", "block", "fc", "linear_type-0", "(own calls)", "relu_type-1"]
    assert names(browser) == largest_first
    button(browser, "Module or call").click()
    by_name = ["Net", "block", "(own calls)", "relu_type-1", "fc", "linear_type-0", "head", "linear_type-2"]
    assert names(browser) == by_name


def test_resizing_keeps_the_elements_of_rows_in_view(shown):
    """A click is lost if its element is replaced while the button is down."""
    browser = shown(html_reports.small())
    kept = "window.kept ??= [...document.querySelectorAll('#table tbody tr')]; return kept.map(row => row.isConnected)"
    resized = """
        const [height, done] = arguments;
        document.body.style.minHeight = height;
        requestAnimationFrame(() => requestAnimationFrame(done));
    """
    browser.execute_script(kept)
    for height in ("3000px", "2000px"):
        browser.execute_async_script(resized, height)
        assert set(browser.execute_script(kept)) == {True}


def test_a_click_collapses_and_expands_a_module(shown):
    browser = shown(html_reports.small())
    assert names(browser) == ["Net", "block", "(own calls)", "fc", "head"]
    toggle(browser, "block").click()
    assert names(browser) == ["Net", "block", "head"]
    row = toggle(browser, "block").find_element(By.XPATH, "./ancestor::tr")
    assert (row.get_attribute("aria-expanded"), row.get_attribute("aria-level")) == ("false", "2")
    toggle(browser, "block").click()
    assert names(browser) == ["Net", "block", "(own calls)", "fc", "head"]
    button(browser, "Collapse all").click()
    assert names(browser) == ["Net"]


def test_keys_navigate_the_tree(shown):
    browser = shown(html_reports.small())
    browser.execute_script("document.querySelector('#table tr[tabindex=\"0\"]').focus()")

    def press(*keys):
        for key in keys:
            ActionChains(browser).send_keys(key).perform()

    def focused():
        return browser.execute_script("return document.activeElement.querySelector('.name')?.textContent")

    press(Keys.ARROW_DOWN)
    assert focused() == "block"
    press(Keys.ARROW_LEFT)
    assert (focused(), names(browser)) == ("block", ["Net", "block", "head"])
    press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert focused() == "(own calls)"
    press(Keys.ARROW_LEFT)
    assert focused() == "block"
    press(Keys.END)
    assert focused() == "head"
    press(Keys.ENTER)
    detail = browser.find_element(By.ID, "detail")
    assert "1.153 E" not in detail.text and "1,152,921,504,606,846,977" in detail.text
    press(Keys.ESCAPE)
    assert not detail.is_displayed()
    assert focused() == "head"


def test_a_column_title_can_be_activated_by_key_and_keeps_the_focus(shown):
    browser = shown(html_reports.small())
    browser.execute_script("document.querySelectorAll('#table thead button')[4].focus()")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.text == "FLOPs ▼"


def test_search_filters_and_sums(shown):
    """``linear`` matches two calls of type linear_type and two modules of type Linear."""
    browser = shown(html_reports.small())
    search = browser.find_element(By.ID, "search")
    search.send_keys("linear")
    wait_for(browser, lambda: "relu_type-1" not in names(browser) and "(own calls)" not in names(browser))
    assert "2 modules, 2 calls" in browser.find_element(By.ID, "found").text
    button(browser, "All calls").click()
    assert names(browser) == ["linear_type-0", "linear_type-2"]
    search.send_keys(" fc")
    wait_for(browser, lambda: names(browser) == ["linear_type-0"])
    assert "1 module, 1 call: 600 FLOPs" in browser.find_element(By.ID, "found").text
    search.send_keys(" nothing-matches")
    wait_for(browser, lambda: names(browser) == [])
    search.clear()
    search.send_keys(" ")
    wait_for(browser, lambda: len(names(browser)) == 3)


def test_numbers_in_three_formats(shown):
    """2**60 + 631 FLOPs; 200 B read, of which ``fc`` reads 100."""
    browser = shown(html_reports.small())
    unit = Select(browser.find_element(By.ID, "unit"))

    def flops():
        return [row[4] for row in rows(browser)]

    assert flops() == ["1,152,922 T", "630", "30", "600", "1,152,922 T"]
    unit.select_by_value("aligned")
    assert flops() == ["1,152,922", "0", "0", "0", "1,152,922"]
    assert button(browser, "FLOPs").text == "FLOPs (T)"
    unit.select_by_value("exact")
    assert flops() == ["1,152,921,504,606,847,607", "630", "30", "600", "1,152,921,504,606,846,977"]
    assert [row[6] for row in rows(browser)] == ["200", "120", "20", "100", "80"]


def test_charts_follow_the_metric(shown):
    browser = shown(html_reports.small())
    metric = Select(browser.find_element(By.ID, "metric"))

    def bars():
        found = browser.find_elements(By.CSS_SELECTOR, "#bars tr")
        return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "button, td.n")] for row in found]

    metric.select_by_visible_text("bytes read and written")
    assert bars() == [["linear", "228 B", "85.1%"], ["relu", "40 B", "14.9%"]]
    metric.select_by_visible_text("parameters")
    assert bars() == [["linear", "1.024 K", "100.0%"], ["0", "0.0%"]]
    assert [row[-1] for row in rows(browser)] == ["100.0%", "97.7%", "0.0%", "97.7%", "2.34%"]


def test_areas_are_proportional_and_a_key_zooms_into_a_module(shown):
    """300 of 400 FLOPs in one module, 100 in the other."""
    calls = [html_reports.call("mul", "large.a", 200, 8, 8), html_reports.call("add", "large.b", 100, 8, 8)]
    browser = shown(html_reports.report([*calls, html_reports.call("add", "small", 100, 8, 8)]))
    area = """
        const boxes = [...document.querySelectorAll('#map > g')];
        return Object.fromEntries(boxes.map(g => {
          const { width, height } = g.querySelector('.box').getBBox();
          return [g.getAttribute('aria-label').split(',')[0], (width + 2) * (height + 2)];
        }));
    """
    areas = browser.execute_script(area)
    assert areas["large"] / areas["small"] == pytest.approx(3, rel=1e-3)
    large = browser.find_element(By.CSS_SELECTOR, '#map g[aria-label^="large,"]')
    large.send_keys(Keys.ENTER)
    areas = browser.execute_script(area)
    assert areas["large.a"] / areas["large.b"] == pytest.approx(2, rel=1e-3)
    assert browser.find_element(By.CSS_SELECTOR, '#crumbs [aria-current="location"]').text == "large"
    browser.find_element(By.CSS_SELECTOR, "#crumbs button").click()
    assert set(browser.execute_script(area)) == {"large", "small"}


def test_a_dot_shows_the_intensity_and_opens_its_call(shown):
    """600 FLOPs over 120 bytes are 5 a byte."""
    browser = shown(
        html_reports.report([html_reports.call("linear", "fc", 600, 100, 20), html_reports.call("view", "", 0, 0, 0)])
    )
    wait_for(browser, lambda: dots(browser))
    assert browser.find_element(By.ID, "scatter-note").text == "1 call; not shown: 1 without memory traffic"
    scatter = browser.find_element(By.ID, "scatter")
    scatter.send_keys(Keys.ARROW_RIGHT)
    assert "5 FLOP/B" in browser.find_element(By.ID, "tip").text
    scatter.send_keys(Keys.ENTER)
    assert browser.find_element(By.ID, "detail-title").text == "linear_type-0"


def test_a_click_on_an_operator_lists_its_calls(shown):
    browser = shown(html_reports.small())
    browser.find_element(By.CSS_SELECTOR, "#bars button").click()
    assert names(browser) == ["linear_type-0", "linear_type-2"]


def test_hostile_names_do_nothing(shown):
    """They create no elements, and appear as they are."""
    browser = shown(html_reports.hostile())
    assert browser.title == html_reports.HOSTILE[0]
    count = "return ['script', 'img', 'iframe', 'object'].map(tag => document.querySelectorAll(tag).length)"
    button(browser, "Expand all").click()
    wait_for(browser, lambda: dots(browser))
    assert set(html_reports.HOSTILE[:3]) <= set(names(browser))
    for row in range(len(rows(browser))):
        browser.execute_script("document.querySelectorAll('#table tbody tr[tabindex]')[arguments[0]].click()", row)
    button(browser, "All calls").click()
    browser.find_element(By.ID, "search").send_keys("<img src=x")
    assert browser.execute_script(count) == [2, 0, 0, 0]
    assert browser.title == html_reports.HOSTILE[0]


def test_unknown_calls_are_marked(shown):
    browser = shown(html_reports.report([html_reports.call("mul", "a", 8, 4, 4), html_reports.unknown("toy::x", "a")]))
    button(browser, "Expand all").click()
    assert rows(browser)[0][0].endswith("1 not counted")
    assert rows(browser)[-1][4:8] == ["–"] * 4
    assert browser.find_element(By.ID, "unknown").is_displayed()


def test_formulas_are_drawn_as_if_every_symbol_were_64(shown):
    """640 and 64 FLOPs are areas and bars of 10 to 1; numbers and shares remain formulas."""
    n = sympy.Symbol("batch", integer=True, positive=True)
    calls = [html_reports.call("linear", "fc", 10 * n, 4 * n, 2 * n), html_reports.call("relu", "act", 64, 4, 4)]
    browser = shown(html_reports.report(calls))
    assert [row[4] for row in rows(browser)] == ["10*batch + 64", "10*batch", "64"]
    assert [row[-1] for row in rows(browser)] == ["–"] * 3
    assert "a formula: areas are drawn as if every name were 64" in browser.find_element(By.ID, "map-note").text
    areas = browser.execute_script("""
        return [...document.querySelectorAll('#map > g')].map(module => {
          const { width, height } = module.querySelector('.box').getBBox();
          return (width + 2) * (height + 2);
        });
    """)
    assert areas[0] / areas[1] == pytest.approx(10, rel=1e-3)
    bars = [bar.rect["width"] for bar in browser.find_elements(By.CSS_SELECTOR, "#bars .fill")]
    assert bars[0] / bars[1] == pytest.approx(10, rel=0.1)
    assert [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#bars td.n")] == ["10*batch", "–", "64", "–"]
    wait_for(browser, lambda: dots(browser) == 2)
    assert browser.find_element(By.ID, "scatter-note").text == "2 calls; drawn as if every name were 64"
    browser.find_element(By.ID, "scatter").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "10*batch FLOPs, 6*batch" in browser.find_element(By.ID, "tip").text
    button(browser, "FLOPs").click()
    assert names(browser) == ["total", "fc", "act"]


def test_symbolic_costs_are_sorted_as_if_every_symbol_were_64(shown):
    n = sympy.Symbol("n", integer=True, positive=True)
    amounts = {"a": 9 * n, "b": 2 * n**2, "c": 700, "d": 10 * n}  # 576, 8192, 700, 640
    calls = [html_reports.call(f"op_{name}", name, flops, 4, 4) for name, flops in amounts.items()]
    browser = shown(html_reports.report(calls))
    bars = browser.find_elements(By.CSS_SELECTOR, "#bars button")
    assert [bar.text for bar in bars] == ["op_b", "op_c", "op_d", "op_a"]
    button(browser, "FLOPs").click()
    assert names(browser) == ["total", "b", "c", "d", "a"]
    button(browser, "Share of FLOPs").click()
    assert names(browser) == ["total", "b", "c", "d", "a"]
    button(browser, "Share of FLOPs").click()
    assert names(browser) == ["total", "a", "d", "c", "b"]


def test_measured_time_has_a_column(shown):
    calls = [html_reports.call("mul", "a", 8, 4, 4)._replace(seconds=0.002), html_reports.call("mul", "b", 8, 4, 4)]
    browser = shown(html_reports.report(calls))
    assert button(browser, "Measured").text == "Measured (ms)"
    assert [row[-1] for row in rows(browser)] == ["2", "2", "–"]


def test_a_call_of_one_flop_and_one_byte_has_a_dot(shown):
    """Every batch norm in training has such a call: it adds one to ``num_batches_tracked``."""
    calls = [html_reports.call("add", "bn", 1, 1, 0), html_reports.call("conv", "c", 10**9, 10**6, 10**6)]
    browser = shown(html_reports.report(calls))
    assert dots(browser) == 2
    labels = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#scatter text")]
    assert {"1", "100", "1 B"} <= set(labels)


def test_a_report_without_calls_is_a_page(shown):
    browser = shown(html_reports.report([]))
    assert names(browser) == ["total"]
    assert browser.find_element(By.ID, "map-note").text == "Nothing to draw: the cost is zero."


def sections(browser):
    """Return the headings of the sections that can be collapsed, and whether each is open."""
    found = browser.find_elements(By.CSS_SELECTOR, "details")
    return [(each.find_element(By.CSS_SELECTOR, "h2").text, each.get_attribute("open") is not None) for each in found]


def test_sections_of_a_comparison_collapse_without_a_script(shown):
    """The FLOPs of the head changed from 2**60 + 1 to 40."""
    new = html_reports.report([html_reports.call("linear", "head", 40, 80, 28, 40)])
    browser = shown(compare(html_reports.small(), new))
    headings = [heading for heading, _ in sections(browser)]
    assert headings == ["By operator", "Calls: 1 replaced"]
    assert "1,152,921.505 T" in browser.find_element(By.CSS_SELECTOR, "details table").text
    browser.find_element(By.CSS_SELECTOR, "summary").click()
    assert sections(browser) == [(headings[0], False), (headings[1], True)]
    assert not browser.find_element(By.CSS_SELECTOR, "details table").is_displayed()


def test_a_comparison_of_hostile_names_does_nothing(shown):
    browser = shown(compare(html_reports.small(), html_reports.hostile(), names=html_reports.HOSTILE[:2]))
    assert browser.title == " → ".join(html_reports.HOSTILE[:2])
    count = "return ['script', 'img', 'iframe', 'object'].map(tag => document.querySelectorAll(tag).length)"
    assert browser.execute_script(count) == [0, 0, 0, 0]
    assert all(name in browser.find_element(By.TAG_NAME, "body").text for name in html_reports.HOSTILE[:3])


TEXTS = """
    const shown = [document.documentElement.innerText];
    for (const element of document.querySelectorAll("*")) {
      if (["SCRIPT", "STYLE"].includes(element.tagName)) continue;
      for (const name of ["aria-label", "title", "placeholder", "label"]) shown.push(element.getAttribute(name) || "");
      if (!element.children.length) shown.push(element.textContent);
    }
    return shown.join("\\n");
"""
"""All that a page says: its text, shown or not, and what screen readers read in its place."""


@pytest.mark.parametrize(
    ("unit", "per_byte"),
    [
        ("MACs (fvcore)", "MAC/B"),
        ("products (mults)", "product/B"),
        ("bit operations (bops)", "bit operation/B"),
        ("operations (mine)", "operation/B"),
    ],
)
def test_a_page_says_what_its_convention_counts(shown, unit, per_byte):
    """600 over 120 bytes are 5 a byte."""
    calls = [html_reports.call("linear", "fc", 600, 100, 20), html_reports.call("relu", "act", 10, 40, 40)]
    browser = shown(html_reports.report(calls, unit=unit, convention="given"))
    wait_for(browser, lambda: dots(browser))
    said = []
    scatter = browser.find_element(By.ID, "scatter")
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT):
        scatter.send_keys(key)
        said.append(browser.find_element(By.ID, "tip").text)
    assert f"600 {unit}, 120 B\n5 {per_byte}" in "\n".join(said)
    browser.find_element(By.ID, "search").send_keys("linear")
    wait_for(browser, lambda: f"600 {unit}, 98.4% of the total" in browser.find_element(By.ID, "found").text)
    for row in range(len(rows(browser))):
        browser.execute_script("document.querySelectorAll('#table tbody tr[tabindex]')[arguments[0]].click()", row)
        assert f"{unit.split(' (')[0]} per byte" in browser.find_element(By.ID, "detail").text
        said.append(browser.execute_script(TEXTS))
    heads = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#table thead button")]
    assert {unit, per_byte, f"Share of {unit}"} <= set(heads)
    metric = Select(browser.find_element(By.ID, "metric"))
    assert [option.text for option in metric.options] == [unit, "MACs", "bytes read and written", "parameters"]
    assert "flop" not in "\n".join(said).lower()


@pytest.fixture
def phone(browser):
    """A screen of 390 x 844 pixels."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


OVERLAPS = """
    const texts = [...document.querySelectorAll('#scatter text:not(.label)')];
    const labels = texts.map(each => each.getBoundingClientRect());
    return labels.some((a, i) => labels.slice(i + 1).some(b =>
      a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
"""


def deep():
    """Return a report of modules in 15 levels, with measured time, which has a column of its own."""
    calls = [html_reports.call("conv", ".".join(["layer"] * n), 10**n, 8 * 4**n, 4) for n in range(1, 16)]
    return html_reports.report(each._replace(seconds=0.01) for each in calls)


def test_names_of_modules_have_room_on_a_phone(phone, shown):
    browser = shown(deep())
    wait_for(browser, lambda: dots(browser))
    button(browser, "Expand all").click()
    cells = browser.find_elements(By.CSS_SELECTOR, "#table tbody tr[tabindex] td:first-child")
    assert len(cells) > 10 and min(cell.rect["width"] for cell in cells) >= 150
    room = """
        return [...document.querySelectorAll('#table .name')].map(name =>
          name.closest('td').getBoundingClientRect().right - name.getBoundingClientRect().left);
    """
    assert min(browser.execute_script(room)) >= 40  # at any depth
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide == 390 and not browser.execute_script(OVERLAPS)
    cards = browser.find_elements(By.CSS_SELECTOR, "section[aria-label='Totals'] .card")
    assert cards[0].rect["y"] == cards[1].rect["y"] < cards[2].rect["y"]  # two in a row


CUT = """
    return [...document.querySelectorAll('#table td, #bars button, #table th')]
      .filter(each => each.scrollWidth > each.clientWidth + 1 && each.textContent).map(each => each.textContent);
"""


def long_names():
    """A module of 31 letters, with four equal blocks, and an operator that has no room beside its bar on a phone."""
    blocks = [html_reports.call("batch_norm_backward", f"layers.{i}", 600, 100, 20) for i in range(4)]
    modules = {f"layers.{i}": Module("WhisperDecoderLayer") for i in range(4)}
    modules |= {"": Module("WhisperForConditionalGeneration"), "layers": Module("ModuleList")}
    return html_reports.report(blocks, modules=modules)


def test_no_name_type_or_operator_is_cut(shown):
    assert shown(long_names()).execute_script(CUT) == []


def test_no_name_or_operator_is_cut_on_a_phone(phone, shown):
    assert shown(long_names()).execute_script(CUT) == []


def test_flops_are_beside_the_names_on_a_phone(phone, shown):
    browser = shown(deep())
    titles = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#table th")]
    assert titles[:2] == ["Module or call", "FLOPs"]
    second = browser.find_elements(By.CSS_SELECTOR, "#table th")[1].rect
    assert second["x"] + second["width"] <= 390


@pytest.mark.parametrize("unit", ["FLOPs", "MACs (fvcore)", "bit operations (bops)"])
def test_titles_of_columns_are_not_cut_off(shown, unit):
    calls = [html_reports.call("linear", "fc", 600, 100, 20)]
    browser = shown(html_reports.report(calls, unit=unit))
    cut = "return [...document.querySelectorAll('#table th button')].map(b => b.scrollWidth > b.parentNode.clientWidth)"
    Select(browser.find_element(By.ID, "metric")).select_by_visible_text("bytes read and written")
    assert not any(browser.execute_script(cut))
    Select(browser.find_element(By.ID, "metric")).select_by_visible_text(unit)
    assert not any(browser.execute_script(cut))


def test_formulas_have_room(shown):
    n = sympy.Symbol("batch", integer=True, positive=True)
    calls = [html_reports.call("linear", "fc", 28311552 * n, 4 * n, 2 * n)]
    browser = shown(html_reports.report(calls))
    cut = "return [...document.querySelectorAll(arguments[0])].filter(e => e.scrollWidth > e.clientWidth).length"
    assert browser.execute_script(cut, "#bars td.n") == browser.execute_script(cut, "#table td.n") == 0
    assert browser.find_element(By.CSS_SELECTOR, "#bars td.n").text == "28311552*batch"


def test_operators_without_cost_are_summed(shown):
    calls = [html_reports.call(f"op{i}", "m", 100 if i < 2 else 0, 8, 4) for i in range(9)]
    browser = shown(html_reports.report(calls))
    found = [row.text.split()[0] for row in browser.find_elements(By.CSS_SELECTOR, "#bars tr")]
    assert found == ["op0", "op1", "7"]
    assert browser.find_elements(By.CSS_SELECTOR, "#bars tr")[-1].text.split() == ["7", "others", "0", "0.0%"]


@pytest.mark.parametrize("columns", ["usual", "fused", "measured"])
def test_all_columns_are_in_view_on_a_large_screen(shown, browser, columns):
    report = html_reports.small()
    if columns == "measured":
        report = html_reports.report([html_reports.call("mul", "a", 8, 4, 4)._replace(seconds=0.002)])
    browser = shown(report.fused("pointwise") if columns == "fused" else report)
    inside = "const s = document.getElementById('scroller'); return [s.scrollWidth, s.clientWidth]"
    scrolled, width = browser.execute_script(inside)
    assert scrolled <= width
    assert browser.find_element(By.CSS_SELECTOR, "#table tr[tabindex] td").rect["width"] >= 220


def test_further_quantities_are_columns_and_metrics(shown):
    """What adds up exactly is in the menu; a maximum, a time or a text is a column alone."""
    report = html_reports.small()
    n = len(report.layer_report)
    further = [
        Quantity("kernels", "Kernels", "count", "three a call", lambda ledger: [3 for _ in ledger.counted]),
        Quantity("longest", "Longest", "bytes", "a maximum", lambda ledger: [2048 for _ in ledger.counted], "max"),
        Quantity("wait", "Wait", "duration", "2 ms a call", lambda ledger: [0.002 for _ in ledger.counted]),
        Quantity("label", "Label", "text", "a text", lambda ledger: ["<b>x" for _ in ledger.counted], "same"),
    ]
    browser = shown(SimpleNamespace(to_html=partial(report.to_html, columns=further)))
    heads = [head.text.split(" (")[0] for head in browser.find_elements(By.CSS_SELECTOR, "#table th")]
    model = dict(zip(heads, rows(browser)[0], strict=True))
    assert (model["Kernels"], model["Label"]) == (str(3 * n), "<b>x")
    assert model["Longest"].split() == ["2.000", "KiB"] and model["Wait"] == str(2 * n)
    options = [option.text for option in browser.find_elements(By.CSS_SELECTOR, "#metric option")]
    assert options[-1] == "Kernels" and "Longest" not in options and "Wait" not in options
    Select(browser.find_element(By.ID, "metric")).select_by_visible_text("Kernels")
    wait_for(browser, lambda: browser.find_element(By.ID, "bars-note").text.startswith("Kernels, share"))
    for title in ("Kernels", "Longest", "Wait", "Label"):
        button(browser, title).click()
    assert [row[0] for row in rows(browser)]


def equal_layers():
    """Four equal modules in ``layers``, each with a product and a call that moves and computes nothing."""
    steps = [step for i in range(4) for step in (dense(f"layers.{i}"), Step("reshape", f"layers.{i}"))]
    return net(*steps, dense("head", 8), framework="torch")


def test_equal_modules_in_a_row_are_one_row(shown):
    """4 products of 4 by 4: 64 MACs."""
    browser = shown(equal_layers())
    fold = next(row for row in rows(browser) if row[0].endswith("4 × 0 … 3"))
    assert [cell for cell in fold if cell.startswith("64")]
    toggle(browser, "4 × 0 … 3").click()
    wait_for(browser, lambda: [name for name in names(browser) if name in "0123"] == ["0", "1", "2", "3"])
    button(browser, "Expand all").click()
    assert sum(name.startswith("linear") for name in names(browser)) == 5


def test_calls_without_cost_are_shown_on_request(shown):
    browser = shown(equal_layers())
    button(browser, "All calls").click()
    assert sum(name.startswith("reshape") for name in names(browser)) == 0
    browser.find_element(By.ID, "with-free").click()
    assert sum(name.startswith("reshape") for name in names(browser)) == 4
    browser.find_element(By.ID, "search").send_keys("reshape")
    wait_for(browser, lambda: len(names(browser)) == 4)


def boxes(browser):
    """Return the names of the boxes of the graph, drawn when it comes into view."""
    browser.execute_script("document.getElementById('graph-section').scrollIntoView()")
    drawn = "return [...document.querySelectorAll('#graph g')].map(g => g.querySelector('.name').textContent)"
    wait_for(browser, lambda: browser.execute_script(drawn))
    return browser.execute_script(drawn)


def test_the_graph_has_modules_that_open_and_shapes_on_its_edges(shown):
    """A module with one call is one box; a view has none. 10 + 11 + 12 + 5 FLOPs, of which the block has 33."""
    browser = shown(html_reports.chain(3))
    assert boxes(browser) == ["▾ total · 100.0%", "input", "▸ block0", "head", "output"]
    block = browser.find_element(By.CSS_SELECTOR, "#graph .module .module")
    assert block.find_element(By.CSS_SELECTOR, ".facts").text == "86.8%"
    shapes = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#graph .shape")]
    assert sorted(shapes) == ["2 × 3", "2 × 4", "2 × 4"]
    block.click()
    assert boxes(browser)[2:6] == ["▾ block0 · 86.8%", "0", "1", "2"]
    browser.find_elements(By.CSS_SELECTOR, "#graph .call")[1].click()
    assert browser.find_element(By.ID, "detail-title").text == "relu_type-1"
    assert "net.py:7 in f" in browser.find_element(By.ID, "detail").text
    Select(browser.find_element(By.ID, "heat")).select_by_visible_text("bytes read and written")
    assert boxes(browser)[2] == "▾ block0 · 75.0%"


def test_the_graph_of_five_thousand_calls_is_drawn_in_two_seconds(shown):
    browser = shown(html_reports.chain(5, 1000))
    script = """
        const done = arguments[0], start = performance.now();
        document.getElementById('graph-section').scrollIntoView();
        const isDrawn = () => document.querySelector('#graph g');
        const look = () => isDrawn() ? done(performance.now() - start) : requestAnimationFrame(look);
        look();
    """
    assert browser.execute_async_script(script) < 2000
    assert len(boxes(browser)) < 100


def test_a_notebook_shows_columns_by_click(browser, tmp_path):
    """The sheet of a notebook's output hides columns; numbers are below each other."""
    file = tmp_path / "notebook.html"
    file.write_text(f"<meta charset='utf-8'>{html_reports.small()._repr_html_()}", encoding="utf-8")
    browser.get(file.as_uri())
    shown = "return [...document.querySelectorAll(arguments[0])].filter(each => each.offsetWidth)"
    assert not browser.execute_script(shown, ".v3")
    browser.find_element(By.CSS_SELECTOR, ".c3").click()
    right = [each.rect["x"] + each.rect["width"] for each in browser.execute_script(shown, ".v3")]
    assert len(right) == 6 and max(right) - min(right) < 1


PAGES = {
    "report": html_reports.small,
    "step": html_reports.step,
    "comparison": lambda: compare(html_reports.small(), equal_layers()),
    "memory": lambda: html_reports.step().memory,
    "arena": lambda: net(*(dense(f"layer{i}", 8) for i in range(12))).arena(),
    "time": lambda: net(dense("a", 1000), relu("b", 10**5)).time(TOY),
    "table": lambda: html_reports.small().table("tree"),
    "models": lambda: table({"a": html_reports.small(), "b": html_reports.step()}, columns=["macs", "mread"]),
}
"""A page of each kind of result."""


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_one_design(shown, browser, name):
    """A heading, a switch of the theme without a script, sections with content, and no wider than a phone."""
    shown(PAGES[name]())
    colors = {}
    for theme in ("system", "light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media if theme == "system" else {"features": []})
        browser.find_element(By.ID, f"theme-{theme}").click()
        colors[theme] = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colors == {"system": "rgb(18, 21, 26)", "light": "rgb(246, 247, 249)", "dark": "rgb(18, 21, 26)"}
    assert browser.find_element(By.TAG_NAME, "h1").text == browser.title
    empty = "return [...document.querySelectorAll('.plain tbody, .cards')].filter(each => !each.children.length).length"
    assert browser.execute_script(empty) == 0
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        shown(PAGES[name]())
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
