"""The modules of a run as conventions see them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore.analyses.conventions.quantities import ModuleIndex
from tests.core.traces import Module


def index(**same_as):
    """Return the index of modules by path, with the path at which each was seen first."""
    modules = {path.replace("_", "."): Module("Linear", same_as=first) for path, first in same_as.items()}
    return ModuleIndex(SimpleNamespace(modules={"": Module("Net"), **modules}, frameworks={}))


def test_a_module_of_two_parents_has_two_paths():
    # both a and b hold the same layer, and the model holds each of them once
    found = index(a="", a_layer="", b="", b_layer="a.layer")
    assert (found.n_paths("a"), found.n_paths("a.layer")) == (1, 2)


def test_a_module_inside_itself_ends():
    """As an edited report says: the model holds a, and a holds itself, which is one more way."""
    assert index(a="", a_b="a").n_paths("a") == 2


def test_modules_that_are_not_known_have_one_path():
    assert index(a="").n_paths("b") == index(a="").n_paths("") == 1


@pytest.mark.parametrize("path", ["a", "a.b"])
def test_modules_that_were_first_seen_at_each_other_end(path):
    assert index(a="a.b", a_b="a").n_paths(path) == 1
