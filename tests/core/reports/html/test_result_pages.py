"""The pages of memory and arena: no table without rows, all values, and the picture."""

from __future__ import annotations

import re

import pytest

from costcore import explain
from tests.core import html_reports
from tests.core.given_costs import dense, net

LAYERS = [dense(f"layer{i}", 8) for i in range(12)]
RESULTS = {
    "memory": lambda: html_reports.step().memory,
    "arena": lambda: net(*LAYERS).arena(),
    "explanation": lambda: explain(net(*LAYERS), 768),
}


@pytest.mark.parametrize("name", RESULTS)
def test_no_table_of_a_page_is_empty(name):
    tables = re.findall(r"<tbody>(.*?)</tbody>", RESULTS[name]().to_html())
    assert tables and all("<tr>" in body for body in tables)


def test_the_page_of_an_arena_has_all_values_and_their_places():
    arena = RESULTS["arena"]()
    page = arena.to_html()
    *_, values = re.findall(r"<tbody>(.*?)</tbody>", page)
    assert all(f"<td>{slot.name}</td>" in values for slot in arena.slots) and len(arena.slots) > 5
    drawing = re.search(r"<svg id='arena-map'.*?</svg>", page).group()
    assert drawing.count("<rect") == len([slot for slot in arena.slots if slot.nbytes])
    assert "#arena-map" in page  # its style


def test_the_page_of_memory_has_its_course():
    page = RESULTS["memory"]().to_html()
    assert "<svg id='memory-map'" in page and "#memory-map" in page
    assert "Live bytes by call" in page
