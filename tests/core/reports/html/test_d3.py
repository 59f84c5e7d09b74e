"""The parts of d3 and dagre inside the page: their versions, their licenses, and their size."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tests.core import html_reports
from tests.core.given_costs import dense, net, relu

ROOT = Path(__file__).parents[4]
FOLDER = files("costcore.reports.html")


def file_text(name):
    return FOLDER.joinpath(name).read_text("utf-8")


LIBRARIES = {"d3": ("d3-", "internmap"), "dagre": ("@dagrejs/",)}
"""The names with which packages of a library begin."""


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_file_states_the_versions_that_are_bundled_and_the_license(name):
    banner, _, _ = file_text(f"{name}.min.js").partition("*/")
    package = json.loads((ROOT / "tools" / "d3" / "package.json").read_text(encoding="utf-8"))
    own = {each: n for each, n in package["dependencies"].items() if each.startswith(LIBRARIES[name])}
    assert banner.startswith(f"/*! {name}: {', '.join(f'{each} {version}' for each, version in own.items())}\n")
    assert file_text(f"{name}.LICENSE") in banner
    assert "permission notice" in file_text(f"{name}.LICENSE")


def test_every_page_is_small_and_has_the_licenses_of_what_it_contains():
    page, graph = html_reports.small().to_html(), net(dense("a", 8), relu("b", 8)).to_html()
    assert file_text("d3.LICENSE") in page and file_text("dagre.LICENSE") not in page
    assert file_text("dagre.LICENSE") in graph
    assert len(page) < 150_000 and len(graph) < 210_000
    assert len(file_text("d3.min.js")) < 50_000 and len(file_text("dagre.min.js")) < 50_000


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_page_uses_every_part_that_is_bundled(name):
    bundled = (ROOT / "tools" / "d3" / f"{name}.js").read_text(encoding="utf-8").replace("}", "{").split("{")[1::2]
    names = [each.strip() for part in bundled for each in part.split(",")]
    script = "".join(f.read_text("utf-8") for f in FOLDER.iterdir() if f.suffix == ".js" and ".min." not in f.name)
    assert names and all(f"{name}.{each}(" in script for each in names)
