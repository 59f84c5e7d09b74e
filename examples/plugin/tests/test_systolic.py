"""The array, by hand: a tile of 16 x 16 outputs takes a cycle per product of a dot product, and 30 cycles to fill."""

import json

import pytest
import torch

from costcore import CostError, estimate
from costcore.cli.main import main
from costcore.studies.budgets import check

FIRST = 3 * 4 * (8 + 30)
"""40 rows are 3 tiles, 50 columns 4 tiles, dot products of length 8."""

SECOND = 3 * 1 * (50 + 30)
"""40 x 10 outputs: 3 tiles, dot products of length 50."""


@pytest.fixture(scope="module")
def report():
    """Two linear layers on 40 rows."""
    net = torch.nn.Sequential(torch.nn.Linear(8, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    return estimate(net, (40, 8))


@pytest.fixture
def energies(tmp_path):
    """A table of energies of the user's own."""
    path = tmp_path / "mine.toml"
    path.write_text("mac = 900\nbyte_read = 20\nbyte_written = 30\n")
    return str(path)


def test_a_column_and_its_sum(report):
    rows = report.table("call", columns=["name", "array_cycles"]).to_dict()["tables"][0]["rows"]
    assert [row["array_cycles"] for row in rows] == [FIRST, 0, SECOND]
    assert report.formula("array_cycles") == 456 + 240


def test_a_convolution_is_a_product_per_group():
    """Each of 2 groups: 36 pixels, 3 tiles; 8 channels, 1 tile; windows of 3 x 9 products."""
    conv = torch.nn.Conv2d(6, 16, 3, groups=2)
    assert estimate(conv, (1, 6, 8, 8)).formula("array_cycles") == 2 * 3 * 1 * (27 + 30)


def test_a_batch_of_products():
    class Product(torch.nn.Module):
        def forward(self, a, b):
            return a @ b

    found = estimate(Product(), ((5, 20, 7), (5, 7, 17))).formula("array_cycles")
    assert found == 5 * 2 * 2 * (7 + 30)  # 20 x 17 outputs are 2 x 2 tiles


def test_what_is_not_mapped_is_unknown():
    report = estimate(torch.nn.LSTM(4, 4), (3, 1, 4))
    assert report.analysis("array").cycles is None
    assert report.analysis("array").remarks == ["the array's cycles of lstm are unknown"]
    assert "id='array'" not in report.to_html()


def test_the_formula_holds_for_all_sizes():
    net = torch.nn.Linear(8, 50)
    assert estimate(net, ("rows", 8)).subs(rows=40).formula("array_cycles") == FIRST


def test_energy_by_a_table_of_the_user(report, energies):
    total = report.total_report
    expected = 36000 * 900 + total["mread"] * 20 + total["mwrite"] * 30  # 40 x 50 x 8 + 40 x 10 x 50 MACs
    assert report.table("run", columns=[f"array_energy@{energies}"]).to_csv().splitlines()[1] == str(expected)
    assert report.analysis("array", energy=energies).energy == expected


def test_a_wrong_table_is_a_sentence(report, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text("mac = 0.9\n")
    with pytest.raises(CostError, match="expected whole femtojoules for mac, byte_read, byte_written"):
        report.analysis("array", energy=str(path))


def test_a_budget_limits_it(report):
    assert check(report, {"total": {"array_cycles": 696}}) == []
    assert [each.value for each in check(report, {"total": {"array_cycles": 695}})] == [696]


def test_the_page_the_picture_and_the_json(report, tmp_path):
    assert "696" in report.to_html().partition("<section id='array'")[2]
    assert report.plot("array") == [("linear-1", 456), ("linear-2", 240)]
    assert json.loads(report.to_json())["analyses"]["array"] == {"cycles": 696, "not_mapped": []}
    report.plot("array", target=tmp_path / "array.svg")
    assert "<svg" in (tmp_path / "array.svg").read_text()


def test_the_command(report, energies, tmp_path, capsys):
    saved = str(tmp_path / "report.json")
    report.to_json(saved)
    assert main(["array", saved, "--format", "json", "--energy", energies]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["cycles"]["value"] == 696
    assert figures["utilization"]["value"] == pytest.approx(100 * 36000 / (256 * 696))
    assert figures["energy"]["value"] == report.analysis("array", energy=energies).energy
