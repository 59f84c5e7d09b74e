"""The search of the documentation site, over HTTP: natural questions find their page, names their reference."""

from __future__ import annotations

import csv
import functools
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from costcore import __version__

ROOT = Path(__file__).parents[2]
QUESTIONS = Path(__file__).with_name("search_questions.csv")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the site of this version, built and served."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "tools" / "make_site.py"), "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/{__version__}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def search(browser, site):
    """Return a function that returns the first links that a question finds, relative to the site."""

    def found(question, n=3):
        browser.get(f"{site}/search.html?q={quote(question)}")
        done = lambda page: page.find_elements(By.CSS_SELECTOR, ".search-summary:not(:empty)")  # noqa: E731
        WebDriverWait(browser, 20).until(done)
        links = browser.find_elements(By.CSS_SELECTOR, "#search-results li a")[:n]
        return [link.get_attribute("href").removeprefix(f"{site}/") for link in links]

    browser.get_log("browser")
    yield found
    assert browser.get_log("browser") == []


def questions():
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    return [(row["question"], row["page"]) for row in csv.DictReader(line for line in lines if line[0] != "#")]


def test_natural_questions_find_their_page(search):
    asked = questions()
    assert len(asked) == 27
    found = {question: [link.partition("#")[0] for link in search(question)] for question, _ in asked}
    missed = [(question, page, found[question]) for question, page in asked if f"{page}.html" not in found[question]]
    assert len(missed) <= 2, missed


def test_a_name_finds_its_reference(search):
    assert any(link.startswith("api/estimate.html") for link in search("estimate"))
    assert any("show_tree" in link for link in search("show_tree"))


def test_a_result_leads_to_the_heading_with_the_words(search):
    assert "pytorch.html#a-training-step" in search("training step", 5)


def test_what_nobody_wrote_finds_nothing(search):
    assert search("xylophone") == []
