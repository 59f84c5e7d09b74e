"""Every example in a docstring of the package runs and prints its output.

``pytest --doctest-modules`` would import ``calculators`` and ``frontends`` as top-level packages, so these tests call
doctest directly.
"""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.frameworks import available

ROOT = Path(__file__).parents[1]
FRONTENDS = ROOT / "frontends"


def modules():
    """Return the import names of all modules; of frontends, those whose framework this run tests."""
    folders = [ROOT / "costcore", ROOT / "calculators", *(FRONTENDS / name for name in available())]
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if file.stem != "__main__":
            yield ".".join(("costcore", *parts) if parts[0] != "costcore" else parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules()))
def test_examples_print_their_output(name):
    if name.startswith("costcore.frontends.chainer"):
        import_module("costcore.frontends.chainer")
    assert doctest.testmod(import_module(name)).failed == 0


def test_an_example_that_is_wrong_fails(capsys):
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(example).failed == 1
    assert "Expected:" in capsys.readouterr().out
