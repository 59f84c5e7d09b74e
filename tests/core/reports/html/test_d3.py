"""The part of d3 inside the page: its versions, its license, and its size."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from tests.core import html_reports

ROOT = Path(__file__).parents[4]
FOLDER = files("costcore.reports.html")


def file_text(name):
    return FOLDER.joinpath(name).read_text("utf-8")


def test_the_file_states_the_versions_that_are_bundled_and_the_license():
    banner, _, _ = file_text("d3.min.js").partition("*/")
    package = json.loads((ROOT / "tools" / "d3" / "package.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in package["dependencies"].items())
    assert banner.startswith(f"/*! d3: {versions}\n")
    assert file_text("d3.LICENSE") in banner
    assert "this permission notice appear in all copies" in file_text("d3.LICENSE")


def test_every_page_is_small_and_has_the_license():
    page = html_reports.small().to_html()
    assert file_text("d3.LICENSE") in page
    assert len(page) < 150_000 and len(file_text("d3.min.js")) < 50_000


def test_the_page_uses_every_part_that_is_bundled():
    bundled = (ROOT / "tools" / "d3" / "index.js").read_text(encoding="utf-8").replace("}", "{").split("{")[1::2]
    names = [name.strip() for part in bundled for name in part.split(",")]
    script = "".join(f.read_text("utf-8") for f in FOLDER.iterdir() if f.suffix == ".js" and f.name != "d3.min.js")
    assert names and all(f"d3.{name}(" in script for name in names)
