"""The roofline in a real browser."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.core.analyses.timing.toy_device import TOY
from tests.core.given_costs import dense, net, relu


@pytest.mark.parametrize("width", [1280, 390])
def test_every_dot_and_label_lies_inside_the_picture(browser, shown, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        shown(net(*(dense(f"a{n}", n) for n in (200, 500, 1000)), relu("b", 10**6), framework="torch").time(TOY))
        assert len(browser.find_elements(By.CSS_SELECTOR, "#roofline circle")) in (2, 3, 4)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        outside = browser.execute_script("""
            const frame = document.getElementById('roofline').getBoundingClientRect();
            return [...document.querySelectorAll('#roofline circle, #roofline text')].filter(each => {
                const box = each.getBoundingClientRect();
                const isInside = box.left >= frame.left && box.right <= frame.right;
                return !isInside || box.top < frame.top || box.bottom > frame.bottom;
            }).length""")
        assert outside == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_colors_tell_what_binds(shown):
    browser = shown(net(dense("a", 1000), relu("b", 10**5), framework="torch").time(TOY))
    fills = browser.execute_script("""
        const circles = [...document.querySelectorAll('#roofline circle')];
        return circles.map(each => [each.classList[0], getComputedStyle(each).fill]);""")
    keys = browser.execute_script("""
        const circles = [...document.querySelectorAll('#time .key rect')];
        return circles.map(each => [each.classList[0], getComputedStyle(each).fill]);""")
    assert dict(fills).keys() == {"dram", "vector"}
    assert all(dict(keys)[name] == fill for name, fill in fills)
    assert len({fill for _, fill in keys}) == len(keys)


def test_keys_select_dots_and_roofs_from_left_to_right(shown):
    browser = shown(net(*(dense(f"a{n}", n) for n in (200, 500, 1000)), framework="torch").time(TOY))
    picture = browser.find_element(By.ID, "roofline")
    tip = browser.find_element(By.ID, "tip")
    n = len(browser.find_elements(By.CSS_SELECTOR, "#roofline title"))
    shown_titles, places = [], []
    for _ in range(n):
        picture.send_keys(Keys.ARROW_RIGHT)
        shown_titles.append(tip.text)
        places.append(browser.find_element(By.CSS_SELECTOR, "#roofline .selected").rect["x"])
    assert len(set(shown_titles)) == n and places == sorted(places)
    assert any("linear-2: at least" in title for title in shown_titles)
    picture.send_keys(Keys.ARROW_RIGHT)
    assert tip.text == shown_titles[0]
    picture.send_keys(Keys.ARROW_LEFT)
    assert tip.text == shown_titles[-1]
    browser.find_element(By.ID, "search").click()
    assert not tip.is_displayed() and not browser.find_elements(By.CSS_SELECTOR, "#roofline .selected")
