import pytest
import sympy

from costcore import ComputationalCostHook, CostError, CostWarning, Operations, estimate
from costcore.ir import Cost

N = sympy.Symbol("N", integer=True, positive=True)


def five(layer):
    return 5, 10, 20, {"mine": True}


def test_a_custom_calculator_counts_an_unsupported_operator(toy):
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
        (lambda func, in_data, **kwargs: None, r"the form for operators of some frontends \(chainer\)"),
    ],
)
def test_a_wrong_calculator_is_refused_with_a_sentence(toy, calculator, message):
    with pytest.raises(TypeError, match=message):
        ComputationalCostHook().add_custom_cost_calculator("toy::Wave", calculator)


def test_a_name_that_no_operator_has_is_refused_with_the_nearest(toy):
    with pytest.raises(ValueError, match="Did you mean 'toy_double'"):
        ComputationalCostHook().add_custom_cost_calculator("toy_duble", five)
    with pytest.raises(ValueError, match="unknown operator"):
        ComputationalCostHook().add_custom_cost_calculator("", five)
    with pytest.raises(TypeError, match="is not an operator of an imported framework"):
        ComputationalCostHook().add_custom_cost_calculator(42, five)


def test_a_model_passed_as_an_operator_is_reported_by_its_class(toy):
    class Net:
        def __repr__(self):
            return "Net(\n  (0): Linear()\n)"

    for calculator in (five, lambda func, in_data, **kwargs: None):
        with pytest.raises(TypeError, match=r"^an object of Net is not an operator of an imported framework"):
            ComputationalCostHook().add_custom_cost_calculator(Net(), calculator)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, r"returned None \(expected"),
        ((1, 2, 3), "expected .flops, mread, mwrite, params"),
        ((1.5, 2, 3, {}), "expected an integer"),
        ((1, 2, "3", {}), "expected an integer"),
        ((Operations(fma=0.5), 2, 3, {}), "expected an integer"),
        ((1, 2, 3, None), "returned"),
        ((-1, 2, 3, {}), r"a cost cannot be negative \(got -1\)"),
        ((Operations(fma=3, add=-1), 2, 3, {}), r"a cost cannot be negative \(got -1\)"),
        ((0, -4 * N, 3, {}), r"a cost cannot be negative \(got -4\*N\)"),
        ((Operations(mul=-8 * N - 1), 2, 3, {}), r"a cost cannot be negative \(got -8\*N - 1\)"),
        ((10**6000, 2, 3, {}), r"returned a tuple that is too large to print: a cost cannot have more than 960 bits"),
        ((-(10**6000), 2, 3, {}), "a cost cannot have more than 960 bits"),
        pytest.param(10**6000, r"returned a int that is too large to print \(expected", id="an int of 6001 digits"),
        ((1, 2**960, 3, {}), r"a cost cannot have more than 960 bits \(got 961 bits\)"),
        ((1, 2, N / 0, {}), "a cost must be an integer|is not an integer"),
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
    with (
        pytest.raises(
            CostError,
            match=r"broken for 'toy::Wave' raised MissingOperandError: operator 'toy::Wave' has no 'no such operand' "
            r"\(it has x\) \(test_custom\.py, line \d+\)",
        ),
        hook,
    ):
        toy.run("toy::Wave")


TYPO = (
    "five, the calculator for toy::Duble, was never used: no such operator was called. "
    "Similar operators that were called: toy::Double"
)


def test_an_unused_calculator_is_reported_with_similar_operators(toy):
    hook = ComputationalCostHook()
    hook.add_custom_cost_calculator("toy::Duble", five)
    with pytest.warns(CostWarning, match=TYPO) as caught, hook:
        toy.run("toy::Double")
        toy.run("toy::Double")
    assert len(caught) == 1
    assert [note.partition(", ")[2] for note in hook.report.notes] == [TYPO.partition(", ")[2]]
    assert hook.total_report["flops"] == 12  # 2 x 6, by the built-in one
    with pytest.warns(CostWarning, match=TYPO):
        report = estimate(toy.Model("toy::Double"), (2, 3), calculators={"toy::Duble": five})
    assert len(report.notes) == 1
    with pytest.warns(
        CostWarning, match=r"five, the calculator for toy::Xyz, was never used: no such operator was called$"
    ):
        estimate(toy.Model("toy::Double"), (2, 3), calculators={"toy::Xyz": five})


def test_an_unused_replacement_of_a_built_in_calculator_is_reported(toy):
    with pytest.warns(CostWarning, match="five replaces the built-in calculator of toy::Dense for this run") as caught:
        report = estimate(toy.Model("toy::Double"), (2, 3), calculators={"toy::Dense": five})
    assert len(caught) == 1
    assert [note.partition("five")[2] for note in report.notes] == [
        ", the calculator for toy::Dense, was never used: no such operator was called"
    ]


@pytest.mark.parametrize("op", ["toy_double", "toy::Double"])
def test_a_calculator_that_was_used_is_not_reported(toy, op):
    with pytest.warns(CostWarning, match="replaces the built-in") as caught:
        report = estimate(toy.Model("toy::Double", "toy::Dense"), (3, 3), calculators={op: five})
    assert len(caught) == 1
    assert report.notes == []


def test_of_two_calculators_for_one_call_the_unused_one_is_reported(toy):
    given = {"toy_double": five, "toy::Double": lambda layer: (7, 0, 0, {})}
    with pytest.warns(CostWarning):
        report = estimate(toy.Model("toy::Double"), (2, 3), calculators=given)
    assert report.total_report["flops"] == 7
    assert [note.split(", ")[1] for note in report.notes] == ["the calculator for toy_double"]


def test_no_calculator_is_reported_as_unused_if_nothing_ran():
    with ComputationalCostHook() as hook:
        hook.add_custom_cost_calculator("toy::Wave", five)
    assert hook.report.notes == []


def test_integers_of_other_types_are_taken_as_ints(toy):
    class Integer:
        def __index__(self):
            return 7

    with ComputationalCostHook() as hook:
        hook.add_custom_cost_calculator("toy::Wave", lambda layer: (Integer(), Integer(), Integer(), {}))
        toy.run("toy::Wave")
    assert type(hook.total_report["flops"]) is int
    assert hook.total_report["mrw"] == 14
