import pytest

from costcore.calculators import costcore_calculators
from costcore.registry import LazyCalculators, MergedCalculators

FILES = {"sums": {"add": abs, "sub": round}, "products": {"mul": divmod}}


class Package:
    """A package of calculators that notes what is imported."""

    def __init__(self):
        self.imported = []

    def load(self, module):
        self.imported.append(module)
        return FILES[module]

    def load_all(self):
        return {op: function for module in FILES for op, function in self.load(module).items()}


@pytest.fixture
def package():
    return Package()


def table(package, index):
    return LazyCalculators(index, package.load, package.load_all)


def test_only_the_module_of_an_operator_is_imported_and_once(package):
    calculators = table(package, {"add": "sums", "sub": "sums", "mul": "products"})
    assert (calculators["add"], calculators.get("sub"), "add" in calculators) == (abs, round, True)
    assert package.imported == ["sums"]


def test_an_operator_that_the_index_lacks_or_places_wrongly_is_found(package):
    calculators = table(package, {"add": "sums", "sub": "products"})
    assert (calculators["mul"], calculators["sub"]) == (divmod, round)
    with pytest.raises(KeyError):
        calculators["div"]
    calculators.get("pow")
    assert package.imported == ["sums", "products"]


def test_a_name_of_a_framework_imports_nothing(package):
    assert "aten::add" not in table(package, {"add": "sums"})
    assert package.imported == []


def test_all_operators_are_listed_whatever_the_index_has(package):
    calculators = table(package, {"add": "sums"})
    assert ([*calculators], len(calculators)) == (["add", "sub", "mul"], 3)


def test_the_first_of_merged_tables_decides():
    merged = MergedCalculators({"add": max}, {"add": min, "mul": pow})
    assert (merged["add"], merged["mul"], [*merged], len(merged)) == (max, pow, ["add", "mul"], 2)
    assert "div" not in merged


def test_the_index_of_this_package_is_exact():
    calculators = costcore_calculators()
    assert calculators["conv"] is costcore_calculators()["conv"]
    places = {op: f"costcore.calculators{module}" for op, module in calculators._index.items()}
    assert places == {op: calculator.__module__ for op, calculator in calculators.items()}
