"""The module tree of a graph: who holds which stored tensor."""

from __future__ import annotations

from dataclasses import dataclass

from costcore.graphs import ModuleTree
from costcore.graphs.graph import DEEPEST_MODULE
from tests.core.traces import Module


@dataclass(eq=False)
class Weight:
    """A stored tensor."""

    name: str
    size: int
    is_parameter: bool = True
    is_state: bool = False


def test_tensors_belong_to_the_modules_that_read_them():
    shared, own, mean = Weight("", 6), Weight("", 2), Weight("", 3, is_parameter=False, is_state=True)
    tree: ModuleTree[Weight] = ModuleTree()
    tree.read("a", [shared, mean])
    tree.enter("b", "Head")
    tree.read("b.c", [shared, own])
    found = tree.tree([shared, own, mean], lambda weight: weight.size)
    assert found == {"": Module(""), "a": Module("", (6,), buffers=3), "b": Module("Head"), "b.c": Module("", (6, 2))}


def test_a_tensor_belongs_to_the_module_in_its_name():
    """``b.w`` is of module b, which no node is in; it comes before the first module that reads the tensor."""
    weight = Weight("b.w", 4)
    tree: ModuleTree[Weight] = ModuleTree(lambda weight: weight.name.rpartition(".")[0])
    tree.read("b.inner", [weight])
    found = tree.tree([weight], lambda weight: 7)
    assert [*found.items()] == [("", Module("")), ("b", Module("", (7,))), ("b.inner", Module(""))]


def test_a_tensor_belongs_to_others_too_if_its_own_module_reads_it():
    """The tied weight ``b.w`` is read in b, in b.inner, which is inside of b, and in a."""
    weight = Weight("b.w", 4)
    tree: ModuleTree[Weight] = ModuleTree(lambda weight: weight.name.rpartition(".")[0])
    for path in ("b", "b.inner", "a"):
        tree.read(path, [weight])
    found = tree.tree([weight], lambda weight: 7)
    assert {path: module.parameters for path, module in found.items()} == {"": (), "b": (7,), "b.inner": (), "a": (7,)}


def test_there_is_no_tree_without_modules():
    tree: ModuleTree[Weight] = ModuleTree()
    tree.read("", [Weight("w", 2)])
    assert tree.tree([Weight("w", 2)], lambda weight: 1) == {}


def test_modules_are_inside_each_other_as_deep_as_is_followed():
    """A name of 30,000 parts would make 30,000 paths, the last of which repeat the whole name."""
    tree: ModuleTree[Weight] = ModuleTree()
    assert tree.enter_within("a.b.c") == "a.b.c"
    assert tree.enter_within("x." * 30_000 + "y") == "x." * (DEEPEST_MODULE - 1) + "x"
    assert len(tree.tree([], lambda weight: 0)) == 1 + 3 + DEEPEST_MODULE
