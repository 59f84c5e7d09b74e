import pytest

from costcore import ComputationalCostHook, CostError, CostWarning, Operations
from costcore.ir import Cost


def five(layer):
    return 5, 10, 20, {"mine": True}


def test_a_custom_calculator_prices_an_unknown_operator(toy):
    with ComputationalCostHook() as hook:
        hook.add_custom_cost_calculator("toy::Wave", five)
        toy.run("toy::Wave")
    entry = hook.layer_report["Wave-1"]
    assert (entry["flops"], entry["mread"], entry["mwrite"], entry["params"]) == (5, 10, 20, {"mine": True})
    assert entry["operations"] == {}
    assert hook.ignored_layers == {}


@pytest.mark.parametrize("op", ["toy_double", "toy::Double"])
def test_replacing_a_built_in_warns_once_and_holds_for_one_hook(toy, op):
    first, second = ComputationalCostHook(), ComputationalCostHook()
    with pytest.warns(CostWarning, match=f"five replaces the built-in calculator of {op}") as caught:
        first.add_custom_cost_calculator(op, five)
        first.add_custom_cost_calculator(op, five)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with first, second:
        toy.run("toy::Double")
    assert first.total_report["flops"] == 5
    assert second.total_report["flops"] == 6


def test_the_fifth_value_is_macs_and_kinds_follow_the_switch(toy):
    with ComputationalCostHook(fma_1flop=False) as hook:
        hook.add_custom_cost_calculator("toy::Wave", lambda layer: Cost(Operations(fma=3, cmp=1), 0, 0, {}, 3))
        toy.run("toy::Wave")
    assert hook.total_report["flops"] == 7
    assert hook.total_report["macs"] == 3


@pytest.mark.parametrize(
    ("calculator", "message"),
    [
        (3, "must be callable"),
        (lambda: None, "cannot be called as calculator"),
        (lambda a, b, c: None, "cannot be called as calculator"),
        (lambda func, in_data, **kwargs: None, "the form for Chainer functions"),
    ],
)
def test_a_wrong_calculator_is_refused_with_a_sentence(toy, calculator, message):
    with pytest.raises(TypeError, match=message):
        ComputationalCostHook().add_custom_cost_calculator("toy::Wave", calculator)


def test_a_name_that_no_operator_has_is_refused_with_the_nearest(toy):
    with pytest.raises(ValueError, match="did you mean 'toy_double'"):
        ComputationalCostHook().add_custom_cost_calculator("toy_duble", five)
    with pytest.raises(ValueError, match="is no operator"):
        ComputationalCostHook().add_custom_cost_calculator("", five)
    with pytest.raises(TypeError, match="is no operator of a framework"):
        ComputationalCostHook().add_custom_cost_calculator(42, five)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "returned None; expected"),
        ((1, 2, 3), "expected .flops, mread, mwrite, params"),
        ((1.5, 2, 3, {}), "expected an integer"),
        ((1, 2, "3", {}), "expected an integer"),
        ((Operations(fma=0.5), 2, 3, {}), "expected an integer"),
        ((1, 2, 3, None), "returned"),
        ((-1, 2, 3, {}), "a cost cannot be negative, got -1"),
        ((Operations(fma=3, add=-1), 2, 3, {}), "a cost cannot be negative, got -1"),
    ],
)
def test_a_wrong_result_is_an_error_that_loses_nothing_else(toy, result, message):
    hook = ComputationalCostHook()
    hook.add_custom_cost_calculator("toy::Wave", lambda layer: result)
    with pytest.raises(CostError, match=message), hook:
        toy.run("toy::Wave")
        toy.run("toy::Double")
    assert hook.total_report["flops"] == 6
    assert "lambda" in hook.ignored_layers["Wave-1"]["reason"]


def test_a_calculator_that_raises_is_named(toy):
    def broken(layer):
        return layer["no such operand"]

    hook = ComputationalCostHook()
    hook.add_custom_cost_calculator("toy::Wave", broken)
    with pytest.raises(CostError, match=r"broken for 'toy::Wave' raised KeyError: 'no such operand'"), hook:
        toy.run("toy::Wave")


def test_integers_of_other_types_are_taken_as_ints(toy):
    class Integer:
        def __index__(self):
            return 7

    with ComputationalCostHook() as hook:
        hook.add_custom_cost_calculator("toy::Wave", lambda layer: (Integer(), Integer(), Integer(), {}))
        toy.run("toy::Wave")
    assert type(hook.total_report["flops"]) is int
    assert hook.total_report["mrw"] == 14
