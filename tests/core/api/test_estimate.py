import pytest
import sympy

from costcore import ComputationalCostHook, Cost, CostError, CostWarning, Layer, Report, Tensor, Trace, estimate
from costcore.errors import UnknownOptionError
from tests.core.traces import Call, CallCost, Run


def test_a_model_is_passed_to_the_frontend_that_supports_it(toy):
    report = estimate(toy.Model("toy::Double", "toy::Double"), (2, 3))
    assert report.total_report["flops"] == 12
    assert report.assumptions == report.notes == []
    assert repr(report) == "<Report: 2 calls, 12 FLOPs, 0 MACs>"


def test_a_calculator_for_one_estimate(toy):
    report = estimate(toy.Model("toy::Wave"), (2, 3), calculators={"toy::Wave": lambda layer: (1, 2, 3, {})})
    assert report.total_report["flops"] == 1


def test_an_unknown_operator_warns(toy):
    with pytest.warns(CostWarning, match="toy::Wave") as caught:
        report = estimate(toy.Model("toy::Wave"), (2, 3))
    assert caught[0].filename == __file__
    assert "1 call not counted" in repr(report)


def test_progress_wraps_the_long_loops(toy):
    seen = []

    def progress(items, description):
        seen.append(description)
        return items

    estimate(toy.Model("toy::Double"), (2, 3), progress=progress)
    assert seen == ["running", "computing costs"]


@pytest.mark.parametrize("model", [3, None, object(), "model.txt", {"a": 1}])
def test_the_message_for_an_unsupported_model_lists_the_supported_ones(toy, model):
    with pytest.raises(CostError, match=r"is not a supported model \(expected a torch.nn.Module, "):
        estimate(model, (1,))


def test_an_unknown_option_is_refused(toy):
    with pytest.raises(UnknownOptionError) as caught:
        estimate(toy.Model(), (1,), colour=1)
    assert str(caught.value) == "unknown option 'colour' for the toy frontend (it has no options)"
    assert (caught.value.frontend, caught.value.options) == ("toy", ("colour",))
    with pytest.raises(TypeError, match=r"^unknown options 'traceback', 'x' .*. Did you mean 'tracebacks'\?$"):
        estimate(toy.Model(), (1,), traceback=True, x=1)
    with pytest.raises(ValueError, match=r"^unknown layout 'fre' \(expected framework, free\). Did you mean 'free'\?$"):
        estimate(toy.Model(), (1,), layout="fre")
    with pytest.raises(TypeError, match=r"^record_api_calls must be True or False \(got 'yes'\)$"):
        estimate(toy.Model(), (1,), record_api_calls="yes")


def test_options_of_a_frontend_are_its_keyword_parameters_and_those_of_its_files(toy, monkeypatch):
    received = []

    def estimate_toy(recorder, model, inputs, extra=0, *, backward=False, **others):
        received.append((extra, backward, others))

    monkeypatch.setattr(toy, "estimate", estimate_toy)
    estimate(toy.Model(), (1,), extra=2, backward=True)
    assert received == [(2, True, {})]
    with pytest.raises(TypeError) as caught:
        estimate(toy.Model(), (1,), backwards=True)
    message = "unknown option 'backwards' for the toy frontend (expected extra, backward)"
    assert str(caught.value) == f"{message}. Did you mean 'backward'?"


N, M = (sympy.Symbol(name, integer=True) for name in "nm")


@pytest.mark.parametrize(
    ("op", "of", "to", "values", "found"),
    [
        ("reshape", (N, 6), (3 * M, 2), {"n": 2, "m": 2}, (6, 2)),
        ("reshape", (N, 6), (3 * M, 2), {"n": 2, "m": 1}, r"to \(3, 2\), which has another number of elements"),
        ("reshape", (N, 6), (3 * M, 2), {"n": 2}, (3 * M, 2)),
        ("slice", (N, 4), (3, M), {"n": 3, "m": 4}, (3, 4)),
        ("slice", (N, 4), (3, M), {"n": 2, "m": 4}, r"slice \(2, 4\) to \(3, 4\), which is larger"),
        ("slice", (N, 4), (3, M), {"m": 5}, r"slice \(n, 4\) to \(3, 5\), which is larger"),
        ("relu", (N - 2,), (N - 2,), {"n": 2}, (0,)),
        ("relu", (N - 2,), (N - 2,), {"n": 1}, r"these values give the invalid shape \(-1,\)"),
        ("relu", (12 / N,), (12 / N,), {"n": 3}, (4,)),
        ("relu", (12 / N,), (12 / N,), {"n": 0}, "has no value for these sizes"),
        ("relu", (12 / N,), (12 / N,), {"n": 5}, "has no value for these sizes"),
        ("relu", (N, M), (N, M), {"n": "m*2", "m": 5}, (10, 5)),
        ("relu", (N, M), (N, M), {"n": "m/2"}, "A text must be a sum or product of names"),
    ],
)
def test_sizes_must_fit_what_was_assumed_of_them(op, of, to, values, found):
    call = Call(Layer(op, {"x": Tensor(of)}, [Tensor(to)]), op, name="a")
    report = Report(Trace((CallCost(call, Cost(0, 4, 4, {})),), Run()))
    if isinstance(found, str):
        with pytest.raises((CostError, TypeError), match=found):
            report.subs(values)
    else:
        assert report.subs(values).trace.calls[0].layer.out.shape == found


def test_symbols_of_any_name_are_substituted_by_a_mapping(toy):
    past, n = sympy.Symbol("past+1", integer=True, positive=True), sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", (past, n))
    report = hook.report
    assert report.subs({"past+1": 5, "n": 3}).total_report["flops"] == 15
    assert report.subs({"past+1": 5}, n=4).total_report["flops"] == 20
    assert report.subs({past: 5, n: 4}, n=2).total_report["flops"] == 10
    assert report.subs({}) == report.subs() == report
    with pytest.raises(CostError, match=r"^unknown symbolic dimension 'batch' \(expected n, past\+1\)$"):
        report.subs({"batch": 1})
    with pytest.raises(CostError, match=r"'pst\+1' \(expected n, past\+1\)\. Did you mean 'past\+1'\?$"):
        report.subs({"pst+1": 1})
    with pytest.raises(CostError, match=r"^cannot substitute batch: this report has no symbolic dimensions$"):
        report.subs({"past+1": 5, "n": 3}).subs(batch=1)
    with pytest.raises(TypeError, match=r"expects a mapping of names to integers such as \{'batch': 8\} \(got 8\)$"):
        report.subs(8)
