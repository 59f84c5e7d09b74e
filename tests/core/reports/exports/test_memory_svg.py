"""The picture of live memory as an SVG file."""

from __future__ import annotations

import re
from importlib.resources import files
from xml.etree import ElementTree

import pytest

from costcore import CostError
from tests.core import html_reports
from tests.core.traces import Block, MemoryLedger

KINDS = ("parameter", "buffer", "input", "optimizer", "gradient", "cached", "output", "saved", "temporary")

SVG = "{http://www.w3.org/2000/svg}"


def test_the_file_has_the_areas_and_names_of_the_kinds(tmp_path):
    path = tmp_path / "memory.svg"
    text = html_reports.step().to_memory_svg(path)
    assert path.read_text(encoding="utf-8") == text
    root = ElementTree.fromstring(text)
    names = [each.text for each in root.findall(f"{SVG}text")]
    areas = [each.get("class") for each in root.iter(f"{SVG}path")]
    assert names == areas == ["temporary", "saved", "gradient", "parameter"]
    assert root.find(f"{SVG}title").text == "Live bytes over 3 calls; peak 2.75 KiB"


def test_the_colors_are_those_of_the_page():
    """Every kind has another color."""
    style = files("costcore.tables.html").joinpath("charts.css").read_text("utf-8")
    colors = {
        kind: color
        for names, color in re.findall(r"((?:\.[\w-]+,?\s+)+)\{\s*fill: var\(--(c\d)\)", style)
        for kind in re.findall(r"\.(\w+)", names)
    }
    on_the_page = {kind: colors[kind] for kind in KINDS}
    assert len(set(on_the_page.values())) == len(KINDS)
    light, dark = html_reports.step().to_memory_svg().split("prefers-color-scheme:dark")
    assert ".parameter{fill:#0072b2}" in light and ".parameter{fill:#3a9bd9}" in dark


def test_names_of_phases_are_text():
    names = html_reports.HOSTILE
    calls = [html_reports.call("relu", "", 1, 1, 1, phase=name, name=name) for name in names[:3]]
    memory = MemoryLedger((Block(1, 8, "temporary", 1, None, 0, (2,), "float32"),), (0,))
    text = html_reports.report(calls, memory=memory).to_memory_svg()
    assert [*names[:3]] == [each.text for each in ElementTree.fromstring(text).iter(f"{SVG}text")][-4:-1]
    assert "<script" not in text and "<img" not in text


def test_phases_are_as_wide_as_their_calls():
    """Two of four calls, then one and one: lines at 50 % and 75 %, names in the middle, the peak in the first call."""
    phases = ("forward", "forward", "backward", "optimizer")
    calls = [html_reports.call("relu", "", 1, 1, 1, phase=phase, name=f"{i}") for i, phase in enumerate(phases)]
    memory = MemoryLedger((Block(1, 8, "temporary", 1, None, 0, (2,), "float32"),), (0,))
    root = ElementTree.fromstring(html_reports.report(calls, memory=memory).to_memory_svg())
    lines = [(each.get("class"), each.get("x1")) for each in root.iter(f"{SVG}line") if each.get("class") != "grid"]
    assert lines == [("phase", "50%"), ("phase", "75%"), ("peak", "12.5%")]
    names = {each.text: each.get("x") for each in root.iter(f"{SVG}text")}
    assert [names[name] for name in ("forward", "backward", "optimizer")] == ["25%", "62.5%", "87.5%"]


@pytest.mark.parametrize(
    ("memory", "message"), [(None, "was not recorded. Pass memory=True"), (MemoryLedger(), "alive")]
)
def test_without_memory_there_is_nothing_to_draw(memory, message):
    with pytest.raises(CostError, match=f"nothing to draw: .*{message}"):
        html_reports.report([html_reports.call("relu", "", 1, 1, 1)], memory=memory).to_memory_svg()
