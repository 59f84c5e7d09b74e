"""The pairs of PyTorch and Python that ``make test-matrix`` tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.test_matrix import NO_PYTHON, PAIRS, Pair, developer_packages, has_passed, wanted

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_pairs_are_found_by_name():
    assert wanted([]) == list(PAIRS)
    assert wanted(["2.4.1/3.10"]) == [PAIRS[0]]
    assert wanted(["2.9.1/3.12"]) == [PAIRS[2], PAIRS[3]]  # with transformers 5, and 4
    assert wanted(["2.7.1/3.12"]) == [Pair("2.7.1", "3.12")]
    with pytest.raises(ValueError, match=r"'2\.15' is not a pair \(expected PyTorch and Python"):
        wanted(["2.15"])


@pytest.mark.parametrize(
    ("result", "if_named", "if_not"),
    [
        ("10 passed, 3 skipped in 2.00s", True, True),
        ("5 failed, 3 passed in 2.00s", False, False),
        ("3 passed, 1 error in 2.00s", False, False),
        ("error 3: 10 passed", False, False),
        ("", False, False),
        ("not tested: python -m pip install … failed", False, False),
        (f"{NO_PYTHON} 3.14", False, True),
    ],
)
def test_a_pair_has_passed_only_if_every_test_has(result, if_named, if_not):
    assert has_passed(result, is_named=True) is if_named
    assert has_passed(result, is_named=False) is if_not


def test_the_oldest_pair_is_what_the_project_promises():
    oldest = PAIRS[0]
    assert f'requires-python = ">={oldest.python}"' in PROJECT
    assert f'"torch>={oldest.torch.rpartition(".")[0]}"' in PROJECT
    assert f'"onnx>={re.search(r"onnx==([0-9.]+)", oldest.others)[1].rpartition(".")[0]}"' in PROJECT


def test_every_pair_is_in_the_table_of_the_documentation():
    table = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([0-9.]+) \| ([0-9.]+) \|", table, re.MULTILINE)
    assert rows == [(pair.torch, pair.python) for pair in PAIRS]


def test_packages_are_those_of_developers_but_for_the_releases_of_a_pair():
    names = {re.match(r"[\w-]+", each)[0] for each in developer_packages()}
    assert "pytest-xdist" in names
    assert not names & {"torch", "onnx", "numpy", "transformers", "ruff"}
