"""Calculators ``calculator(function, in_data, **kwargs)``, which return elements instead of bytes."""

from __future__ import annotations

import re

import numpy
import pytest
from chainer import functions

from costcore import CostError, hookimpl, plugins
from costcore.translate import Row
from tests.frontends.chainer.capture.user_functions import Breaks, Twice, calls, counting, nothing_is_left, x


def test_calculator_in_elements():
    def calculator(function, in_data, **kwargs):
        assert type(function) is functions.math.basic_math.Add
        return numpy.int64(7), in_data[0].size, 3, {"one": kwargs["fma_1flop"]}

    hook = counting(fma_1flop=False)
    with pytest.warns(UserWarning, match="replaces the built-in"):
        hook.add_custom_cost_calculator(functions.math.basic_math.Add, calculator)
    with hook:
        functions.add(x(5).astype("float16"), x(5).astype("float16"))

    entry = hook.layer_report["Add-1"]
    assert (entry["flops"], entry["mread"], entry["mwrite"]) == (7, 2 * 5, 2 * 3)
    assert entry["params"] == {"one": False}


def test_calculator_in_elements_is_for_chainer_functions_only():
    with pytest.raises(TypeError, match=r"takes \(function, inputs\).* some frontends \(chainer\), but 'relu' is not"):
        counting().add_custom_cost_calculator("relu", lambda function, in_data, **kwargs: (0, 0, 0))


def raises(function, in_data, **kwargs):
    raise NotImplementedError("not yet")


@pytest.mark.parametrize(
    ("calculator", "reason"),
    [
        (raises, "raised NotImplementedError: not yet"),
        (lambda function, in_data, **kwargs: in_data[7].size, "raised IndexError"),
        (lambda function, in_data, **kwargs: (1, 2), r"returned \(1, 2\); expected \(flops, read, written"),
        (lambda function, in_data, **kwargs: None, "returned None"),
        (lambda function, in_data, **kwargs: (0.5, 2, 3, {}), "0.5"),
        (lambda function, in_data, **kwargs: (1, 2, 3, 4), "returned"),
    ],
)
def test_calculator_in_elements_that_fails_does_not_break_the_run(calculator, reason):
    hook = counting()
    hook.add_custom_cost_calculator(Twice, calculator)
    seen = []

    with pytest.raises(CostError, match=rf"calculator .* for Twice .*{reason}.*ignored_layers"), hook:
        seen.append(functions.relu(Twice()(x(2))))

    assert seen[0].array.tolist() == [2, 2]
    assert calls(hook) == ["ReLU"]
    (entry,) = hook.ignored_layers.values()
    assert entry["type"] == "Twice" and re.search(reason, entry["reason"])
    assert hook.total_report["flops"] == 2
    assert nothing_is_left()


def test_error_of_the_user_precedes_that_of_a_calculator():
    hook = counting()
    hook.add_custom_cost_calculator(Twice, raises)

    with pytest.raises(RuntimeError, match="on purpose"), hook:
        Breaks().apply((Twice()(x(2)).array,))

    assert [entry["type"] for entry in hook.ignored_layers.values()] == ["Twice"]


def test_a_row_that_reads_an_unknown_argument_is_rejected():
    native = "tests::Twice"

    class Rows:
        @hookimpl
        def costcore_rows(self, frontend):
            return [Row(native, "mul", {"x": "x"})] if frontend == "chainer" else []

    plugin = Rows()
    plugins.register(plugin)
    try:
        message = f"row of {native}: operand x reads the unknown argument 'x'"
        with pytest.raises(CostError, match=re.escape(message)), counting():
            Twice()(x(2))
    finally:
        plugins.unregister(plugin)
    assert nothing_is_left()
