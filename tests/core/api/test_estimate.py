import pytest
import sympy

from costcore import ComputationalCostHook, CostError, CostWarning, estimate


def test_a_model_is_given_to_the_frontend_that_takes_it(toy):
    report = estimate(toy.Model("toy::Double", "toy::Double"), (2, 3))
    assert report.total_report["flops"] == 12
    assert report.assumptions == report.notes == []
    assert repr(report) == "<Report: 2 calls, 12 FLOPs, 0 MACs>"


def test_a_calculator_for_one_estimate(toy):
    report = estimate(toy.Model("toy::Wave"), (2, 3), calculators={"toy::Wave": lambda layer: (1, 2, 3, {})})
    assert report.total_report["flops"] == 1


def test_an_unknown_operator_warns(toy):
    with pytest.warns(CostWarning, match="toy::Wave"):
        report = estimate(toy.Model("toy::Wave"), (2, 3))
    assert "1 call not counted" in repr(report)


def test_progress_sees_the_long_loops(toy):
    seen = []

    def progress(items, what):
        seen.append(what)
        return items

    estimate(toy.Model("toy::Double"), (2, 3), progress=progress)
    assert seen == ["running", "pricing"]


@pytest.mark.parametrize("model", [3, None, object(), "model.txt", {"a": 1}])
def test_a_model_nobody_takes_is_refused_with_what_is(toy, model):
    with pytest.raises(CostError, match=r"no frontend takes .*torch.nn.Module"):
        estimate(model, (1,))


def test_an_unknown_option_is_refused(toy):
    with pytest.raises(TypeError, match="no option colour"):
        estimate(toy.Model(), (1,), colour=1)
    with pytest.raises(ValueError, match="layout"):
        estimate(toy.Model(), (1,), layout="x")


def test_values_are_put_in_by_any_name_as_a_mapping(toy):
    past, n = sympy.Symbol("past+1", integer=True, positive=True), sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", (past, n))
    report = hook.report
    assert report.subs({"past+1": 5, "n": 3}).total_report["flops"] == 15
    assert report.subs({"past+1": 5}, n=4).total_report["flops"] == 20
    assert report.subs({past: 5, n: 4}, n=2).total_report["flops"] == 10
    assert report.subs({}) == report.subs() == report
    with pytest.raises(CostError, match=r"batch: no such symbolic dimension; those of this report are: n, past\+1"):
        report.subs({"batch": 1})
    with pytest.raises(TypeError, match=r"expects a mapping of names to integers such as \{'batch': 8\} \(got 8\)$"):
        report.subs(8)
