"""Every convention gives the number that the tool itself printed for the same network.

tests/data/conventions.csv has one row per network and one column per convention. The numbers were printed by the tools:
calflops 0.3.2, DeepSpeed 0.19.8, fvcore 0.1.5, mmengine 0.10.7, ptflops 0.7.5, thop 0.1.1, torch 2.13.0, torch-scan
0.2.0, torchinfo 1.8.0, torchprofile 0.1.0, ultralytics-thop 2.2.3. A cell is empty where a tool fails.
``python benchmarks/conventions.py`` compares larger networks.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.frontends.pytorch.conventions.networks import NETWORKS
from tests.frontends.pytorch.differences import FUSES_GROUPED_QUERIES, NEEDS_GROUPED_QUERIES

TABLE = Path(__file__).parents[3] / "data" / "conventions.csv"
ROWS = {row.pop("network"): row for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())}


RELEASES = {name: f"{name}==2.13.0" for name in ("torch", "torch-cpu", "torch-cpu-no-grad")}
"""Conventions of PyTorch, whose numbers are those of this release, whichever runs the test."""


def test_the_table_is_large_enough():
    numbers = [number for row in ROWS.values() for number in row.values() if number]
    assert ROWS.keys() == NETWORKS.keys()
    assert len(ROWS) >= 90 and len(numbers) >= 1500


GROUPED = (
    NEEDS_GROUPED_QUERIES,
    pytest.mark.skipif(not FUSES_GROUPED_QUERIES, reason="a CPU of this PyTorch repeats keys for their heads"),
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=GROUPED if name == "op_sdpa_gqa" else ()) for name in NETWORKS]
)
def test_the_numbers_are_those_of_the_tools(name):
    report = NETWORKS[name].estimated()
    expected = {convention: int(number) for convention, number in ROWS[name].items() if number}
    found = {convention: report.under(RELEASES.get(convention, convention)).total for convention in expected}
    assert found == expected
