"""The vocabulary of families, the modules of calculators and their tests agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from costcore import calculators
from tests.calculators.layer_costs import CALCULATORS

FOLDER = Path(calculators.__file__).parent
TESTS = Path(__file__).parent
NOT_FAMILIES = {"__init__", "__pycache__", "_shared", "complex_numbers", "index"}


def test_every_module_is_a_family() -> None:
    assert {path.stem for path in FOLDER.iterdir()} - NOT_FAMILIES == calculators.FAMILIES.keys()


def test_every_operator_has_a_family() -> None:
    families = calculators.operator_families()
    assert families.keys() == CALCULATORS.keys()
    assert set(families.values()) == calculators.FAMILIES.keys()


@pytest.mark.parametrize(
    ("op", "family"),
    [
        ("linear", "matmul"),
        ("relu", "activation"),
        ("conv_backward", "conv"),
        ("dropout", "random"),
        ("cast", "layout"),
    ],
)
def test_the_family_is_the_module_of_the_calculator(op: str, family: str) -> None:
    assert calculators.operator_families()[op] == calculators.family_of(CALCULATORS[op]) == family


def test_a_calculator_from_elsewhere_has_no_family() -> None:
    assert calculators.family_of(lambda layer: (0, 0, 0, {})) is None


def test_the_index_of_modules_is_exact() -> None:
    """By it, the module of one operator is imported without the others."""
    places = {op: f"costcore.calculators{module}" for op, module in CALCULATORS._index.items()}
    assert places == {op: calculator.__module__ for op, calculator in CALCULATORS.items()}


def test_every_family_has_tests() -> None:
    tests = {path.stem.removeprefix("test_") for path in TESTS.iterdir()}
    assert tests >= calculators.FAMILIES.keys()


def test_a_family_is_described_in_a_line() -> None:
    assert len({family.title for family in calculators.FAMILIES.values()}) == len(calculators.FAMILIES) == 23
    assert all(family.contents and "\n" not in family.contents for family in calculators.FAMILIES.values())
