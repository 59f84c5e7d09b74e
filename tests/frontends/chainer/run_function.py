"""Runs one of the calls of ``function_calls``, forward and backward, and returns the results."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import chainer
import numpy

from costcore import ComputationalCostHook
from tests.frontends.chainer.function_calls import CALLS, x


def variables(value: Any) -> Iterator[Any]:
    if isinstance(value, chainer.Variable):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from variables(each)


def outcome(name: str, twice: bool = False) -> tuple[list[Any], Any]:
    """Return what a call computes, forward and backward, and the state of the random number generators after it."""
    random.seed(0)
    numpy.random.seed(0)
    leaves = []

    def v(*shape: int, **options: float) -> Any:
        leaves.append(chainer.Variable(x(*shape, **options)))
        return leaves[-1]

    outputs = list(variables(CALLS[name](v)))
    computed = [y for y in outputs if y.creator is not None and y.dtype.kind == "f"]
    for y in computed:
        y.grad = numpy.ones_like(y.array)
    if computed:
        chainer.backward(computed, enable_double_backprop=twice)
    gradients = [leaf.grad_var for leaf in leaves if leaf.grad_var is not None]
    again = [g for g in gradients if g.creator is not None]
    if again:
        for g in again:
            g.grad = numpy.ones_like(g.array)
        chainer.backward(again)
    results = [value.array for value in (*outputs, *gradients)] + [
        leaf.grad for leaf in leaves if leaf.grad is not None
    ]
    return results, (random.getstate(), numpy.random.get_state()[1].tolist())


def counted(name: str, twice: bool = False) -> tuple[ComputationalCostHook, list[Any], Any]:
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        results, state = outcome(name, twice)
    return hook, results, state
