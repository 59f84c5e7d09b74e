"""The picture of live memory in a real browser: pointer, keys, and long runs."""

from __future__ import annotations

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.core import html_reports
from tests.core.traces import Block, MemoryLedger


def picture(browser):
    return browser.find_element(By.ID, "memory-map")


def tip(browser):
    return browser.find_element(By.ID, "tip").text.split("\n")


def test_keys_move_between_calls_from_the_peak(shown):
    browser = shown(html_reports.step())
    picture(browser).send_keys(Keys.ARROW_RIGHT)
    amounts = ["parameter 1 KiB", "gradient 1 KiB", "saved 512 B", "temporary 256 B"]
    assert tip(browser) == ["mm_type-1, backward", "fc", "2.75 KiB (2,816 B) alive", *amounts]
    picture(browser).send_keys(Keys.ARROW_RIGHT)
    assert tip(browser)[:2] == ["sgd_step_type-2, optimizer", "2.125 KiB (2,176 B) alive"]
    picture(browser).send_keys(Keys.HOME)
    assert tip(browser)[0] == "linear_type-0, forward"
    picture(browser).send_keys(Keys.ARROW_LEFT)
    assert tip(browser)[0] == "linear_type-0, forward"
    picture(browser).send_keys(Keys.ENTER)
    assert browser.find_element(By.ID, "detail-title").text == "linear_type-0"


def test_the_pointer_shows_the_call_below_it(shown):
    browser = shown(html_reports.step())
    element = picture(browser)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    width = element.rect["width"]
    for share, name in ((-0.4, "linear_type-0"), (0, "mm_type-1"), (0.4, "sgd_step_type-2")):
        ActionChains(browser).move_to_element_with_offset(element, int(width * share), 0).perform()
        assert tip(browser)[0].startswith(name)
    assert element.find_element(By.CSS_SELECTOR, ".cursor").get_attribute("visibility") == "visible"
    element.click()
    assert browser.find_element(By.ID, "detail-title").text == "mm_type-1"


def test_ten_thousand_calls_are_drawn_as_few_shapes_with_the_peak(shown):
    report = html_reports.many(10_000)
    blocks = tuple(
        Block(i, 4096 if i == 7001 else 8, "temporary", 2 * i + 1, 2 * i + 2, i, (2,), "float32") for i in range(10_000)
    )
    ledger = MemoryLedger(blocks, tuple(i // 2 for i in range(20_000)))
    browser = shown(html_reports.report(report.trace.records, parameters=report.trace.run.parameters, memory=ledger))
    picture(browser).send_keys(Keys.ARROW_LEFT)
    assert tip(browser)[0].startswith(report.trace.calls[7001].name)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#memory-map *")) < 60


def test_the_page_is_as_wide_as_a_phone(shown, browser):
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        shown(html_reports.step())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert picture(browser).rect["width"] > 300
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
