"""Every key of every rule names something that exists in the installed frameworks, so that a typo is noticed."""

from __future__ import annotations

import importlib
import operator
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional

import costcore
from costcore.analyses.conventions.counting import short_function
from costcore.frontends.pytorch.naming import api_name_of
from costcore.registry import calculators

CONVENTIONS = costcore.conventions()
OTHER_PACKAGES = ("timm.", "transformers.", "torchvision.")
"""Packages whose classes are resolved only if they are installed."""


def keys(*kinds):
    return [
        (name, key)
        for name, convention in CONVENTIONS.items()
        for each in convention.counts
        if each.by in kinds
        for key in each.rules
    ]


def type_exists(name):
    if name.startswith("nn."):
        short = name.removeprefix("nn.")
        return any(hasattr(namespace, short) for namespace in (nn, *vars(nn.modules).values()))
    if name.startswith(OTHER_PACKAGES):
        module, _, short = name.rpartition(".")
        try:
            return hasattr(importlib.import_module(module), short)
        except ModuleNotFoundError:
            return True
    return False


def function_exists(name):
    function = name.partition("(")[0]
    for prefix, namespace in (("F.", functional), ("torch.Tensor.", torch.Tensor), ("torch.", torch)):
        if function.startswith(prefix):
            return callable(getattr(namespace, function.removeprefix(prefix), None))
    return function.startswith("operator.") and hasattr(operator, function.removeprefix("operator."))


@cache
def onnx_operators():
    onnx = pytest.importorskip("onnx")
    return {schema.name for schema in onnx.defs.get_all_schemas_with_history()}


def operator_exists(key):
    if key.startswith("aten:"):
        name, _, overload = key.removeprefix("aten:").partition(".")
        packet = getattr(torch.ops.aten, name, None)
        return packet is not None and (not overload or overload in packet.overloads())
    if key.startswith("onnx:"):
        return key.removeprefix("onnx:") in onnx_operators()
    return key in calculators()


@pytest.mark.parametrize(("convention", "key"), keys("op"))
def test_operators_exist(convention, key):
    assert operator_exists(key)


@pytest.mark.parametrize(("convention", "key"), keys("module"))
def test_modules_and_their_operators_exist(convention, key):
    module, _, op = key.partition("/")
    assert type_exists(module)
    assert operator_exists(op)


@pytest.mark.parametrize(("convention", "key"), keys("function"))
def test_functions_exist(convention, key):
    assert function_exists(key)


def function_named(name):
    for prefix, namespace in (("F.", functional), ("torch.Tensor.", torch.Tensor), ("torch.", torch)):
        if name.startswith(prefix):
            return getattr(namespace, name.removeprefix(prefix))
    return getattr(torch.Tensor, f"__{name.removeprefix('operator.')}__")


def functions():
    """Return every function that a rule or an option of a convention names."""
    rules = {key.partition("(")[0] for _, key in keys("function")}
    passes = [each for convention in CONVENTIONS.values() for each in convention.counts]
    return sorted(rules.union(*[functions for each in passes for functions in each.bound.values()]))


@pytest.mark.parametrize("name", functions())
def test_functions_are_what_the_capture_spells(name):
    assert short_function(api_name_of(function_named(name)).name) == name


def old_names():
    """Return the functions of torch that are the same as one that rules name, under another name."""
    named = {function_named(name): name for name in functions() if name.startswith("torch.") and "Tensor" not in name}
    found = {name: getattr(torch, name) for name in dir(torch)}
    return [(name, named[each]) for name, each in found.items() if is_function(each) and each in named]


def is_function(value):
    return callable(value) and getattr(value, "__hash__", None) is not None


@pytest.mark.parametrize(("alias", "name"), old_names())
def test_an_old_name_is_spelled_as_the_documented_one(alias, name):
    assert api_name_of(getattr(torch, alias)).name == name


def test_old_names_are_known():
    assert ("dsmm", "torch.mm") in old_names()


@pytest.mark.parametrize("name", CONVENTIONS)
def test_types_and_functions_of_options_exist(name):
    for each in CONVENTIONS[name].counts:
        assert all(map(type_exists, (*each.listed, *each.outside, *each.bound)))
        assert all(function_exists(function) for functions in each.bound.values() for function in functions)


def test_a_typo_is_noticed():
    assert not operator_exists("convolution2d")
    assert not operator_exists("aten:conv2")
    assert not operator_exists("aten:conv2d.pad")
    assert not type_exists("nn.Conv2D")
    assert not function_exists("F.reluu")
    assert not function_exists("operator.times")
