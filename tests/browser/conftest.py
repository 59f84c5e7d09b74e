"""A headless Chromium for the tests of pages, which ``make test-browser`` asks for: missing, it is a failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service


def program(name: str) -> str:
    """The path of a program."""
    path = shutil.which(name)
    assert path, f"{name} is not installed; Debian's packages are chromium and chromium-driver"
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = program("chromium")
    # without a sandbox, because containers seldom allow one, and the pages are our own
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1440,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(program("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def shown(browser: Chrome, tmp_path: Path) -> Iterator[Callable[[Any], Chrome]]:
    """Opens the page of a report or a comparison from a file; at the end nothing may stand in the console."""

    def show(report: Any) -> Chrome:
        file = tmp_path / "page.html"
        report.to_html(file)
        browser.get(file.as_uri())
        return browser

    browser.get_log("browser")
    yield show
    assert browser.get_log("browser") == []
