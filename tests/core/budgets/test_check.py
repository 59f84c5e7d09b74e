import pytest
from sympy import Symbol

from costcore import CostError
from costcore.budgets.budget import Breach
from costcore.budgets.check import check
from costcore.budgets.toml import BudgetError, read_budget
from tests.core.given_costs import Step, dense, net, relu

# macs 16 + 64; FLOPs 16 + 4 + 64 + 8; read 80 + 16 + 288 + 32; written 16 + 16 + 32 + 32; parameters 16 + 64
MODEL = net(dense("body.0"), relu("body.1"), dense("head.fc", 8), relu("head.act", 8))
TOTALS = {"flops": 92, "macs": 80, "mread": 416, "mwrite": 96, "mrw": 512, "n_params": 80}


@pytest.fixture
def write(tmp_path):
    def write(text, name="budget.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_model_within_its_budget():
    assert check(MODEL, {"total": TOTALS}) == []


@pytest.mark.parametrize(("metric", "value"), TOTALS.items())
def test_one_over_is_a_breach(metric, value):
    assert check(MODEL, {"total": {metric: value - 1}}) == [Breach("total", metric, value, value - 1)]


def test_limits_of_modules_hold_for_what_is_inside():
    budget = {"module": {"body": {"flops": 19}, "head.*": {"macs": 63}, "head": {"n_params": 64}}}
    assert [str(breach) for breach in check(MODEL, budget)] == [
        "module body: 20 FLOPs, limit 19, 1 over, 5.26 %",
        "module head.fc: 64 MACs, limit 63, 1 over, 1.59 %",
    ]


def test_limits_of_operators_go_by_neutral_name_or_the_frameworks():
    model = net(dense("a", type="Gemm"), dense("b", type="MatMul"))
    budget = {"operator": {"linear": {"macs": 31}, "Gemm": {"macs": 16}, "MatMul": {"macs": 15}}}
    assert check(model, budget) == [
        Breach("operator linear", "macs", 32, 31),
        Breach("operator MatMul", "macs", 16, 15),
    ]


def test_parameters_shared_inside_a_module_count_once():
    tied = Step("linear", "m.a", macs=16, weights={"w": 16})
    model = net(tied, tied._replace(module="m.b"))
    assert check(model, {"module": {"m": {"n_params": 16, "macs": 32}}}) == []


def test_an_operator_may_be_forbidden_and_be_absent():
    assert check(MODEL, {"operator": {"conv_transpose": {"macs": 0}}}) == []


@pytest.mark.parametrize("scope", ["module", "operator"])
def test_a_pattern_that_matches_nothing_is_a_breach(scope):
    budget = {scope: {"nothing.*": {"flops": 1, "macs": 1}}}
    (breach,) = check(MODEL, budget)
    there = {"module": "body, body.0, body.1, head, head.fc, head.act", "operator": "linear, relu"}[scope]
    assert str(breach) == f"{scope} 'nothing.*': no {scope} of this model matches; there are {there}"


def test_of_many_modules_a_few_are_named_where_none_matches():
    (breach,) = check(net(*(dense(f"m{i}") for i in range(10))), {"module": {"nothing.*": {"flops": 1}}})
    assert str(breach).endswith("; there are m0, m1, m2, m3, m4, m5, m6, m7 and 2 more")


def test_a_limit_may_be_written_as_a_power_of_ten():
    (breach,) = check(net(dense("a")), {"total": {"macs": 1.5e1}})
    assert (breach.value, breach.limit) == (16, 15)
    with pytest.raises(BudgetError, match="macs must be an int"):
        check(net(dense("a")), {"total": {"macs": 1.5}})


def test_only_reports_are_checked():
    with pytest.raises(TypeError, match="check takes a report, as estimate makes them, got str"):
        check("net.onnx", {"strict": True})
    with pytest.raises(TypeError, match="a budget is the path of a TOML file or a mapping, got 3"):
        check(MODEL, 3)


@pytest.mark.parametrize(
    ("scope", "pattern", "near"),
    [
        ("module", "head.f", "'head.fc' or 'head' or 'head.act'"),
        ("operator", "lineer", "'linear'"),
    ],
)
def test_a_pattern_that_matches_nothing_is_told_the_nearest(scope, pattern, near):
    (breach,) = check(MODEL, {scope: {pattern: {"flops": 1}}})
    assert str(breach) == f"{scope} '{pattern}': no {scope} of this model matches; did you mean {near}?"


def test_a_partial_report_is_a_breach_where_strict():
    model = net(dense("a"), Step("toy::Wave", type="Wave", known=False))
    assert check(model, {"total": {"macs": 16}}) == []
    (breach,) = check(model, {"strict": True})
    assert str(breach) == "total: partial: not counted: 1 call of 1 unsupported operator (Wave)"


def test_increases_are_measured_against_a_baseline():
    old = net(dense("body.0"), relu("body.1"), dense("head.fc", 7), relu("head.act", 7))  # macs 16 + 49 = 65
    assert check(MODEL, {"baseline": old, "max_increase": {"macs": "23.1%"}}) == []  # 65 × 1.231 = 80.015
    (breach,) = check(MODEL, {"baseline": old, "max_increase": {"macs": "23%"}})  # 65 × 1.23 = 79.95
    assert str(breach) == "total: 80 MACs, limit 79 (baseline 65 + 23 %), 1 over, 1.27 %"
    (breach,) = check(MODEL, {"baseline": old, "total": {"max_increase": {"macs": 14}}})
    assert (breach.limit, breach.reason) == (79, "baseline 65 + 14")
    assert check(MODEL, {"baseline": MODEL, "max_increase": "0%"}) == []
    broken = check(MODEL, {"baseline": old, "max_increase": 0})
    assert [b.metric for b in broken] == ["flops", "macs", "mread", "mwrite", "mrw", "n_params"]


def test_a_module_that_the_baseline_lacks_may_cost_nothing():
    (breach,) = check(MODEL, {"baseline": net(dense("body.0")), "module": {"head": {"max_increase": {"macs": "50%"}}}})
    assert str(breach) == "module head: 64 MACs, limit 0 (baseline 0 + 50 %), 64 over"


def test_symbolic_costs_are_refused():
    model = net(Step("linear", macs=Symbol("n")))
    with pytest.raises(CostError, match=r"total: macs of the report is n; give its dimensions values"):
        check(model, {"total": {"macs": 1}})


def test_a_file(write):
    path = write(
        """
        strict = true
        [total]
        flops = "0.05K"
        n_params = 80
        [module."head*"]
        mread = "0.25 KiB"
        [operator.linear]
        mwrite = "48 B"
        """
    )
    budget = read_budget(path)
    assert budget.strict and budget.source == str(path)
    assert check(MODEL, path) == check(MODEL, str(path)) == check(MODEL, budget)
    assert [(b.where, b.metric, b.value, b.limit) for b in check(MODEL, path)] == [
        ("total", "flops", 92, 50),
        ("module head", "mread", 320, 256),
        ("module head.fc", "mread", 288, 256),
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[total]\nflops = \n", 2, "Invalid value"),
        ("[total]\nflop = 1\n", 2, "total.flop is not known; known are flops, macs"),
        ("[totals]\nflops = 1\n", 1, "totals is not known; known are strict, baseline"),
        ("strict = 1\n", 1, "strict must be true or false, got 1"),
        ('[total]\nmacs = 1\n\nmread = "100M"\n', 4, 'total.mread must be an integer or a string such as "100 MiB"'),
        ("[total]\nflops = 1.5\n", 2, "total.flops must be an int"),
        ('[module."a.*"]\nflops = 1\n[module."b.*"]\nflops = -1\n', 4, "module.b.*.flops cannot be negative"),
        ("[module]\nlayer1 = 3\n", 2, 'module.layer1 must be a table of limits, as in [module."pattern"]'),
        ("total = 3\n", 1, "total must be a table of limits, as in [total]"),
        ('max_increase = "1"\nbaseline = "x.json"\n', 1, 'max_increase must be a percentage like "1%"'),
        ('[total]\nmax_increase = { flop = "1%" }\n', 2, "total.max_increase.flop is not known"),
        ('# none\nbaseline = "no.json"\n[total]\nmax_increase = "1%"\n', 2, "no.json cannot be read"),
        ("baseline = 3\n[total]\nflops = 1\n", 1, "baseline must be the path of a saved report"),
    ],
)
def test_a_malformed_file_names_line_and_key(write, text, line, says):
    path = write(text)
    with pytest.raises(BudgetError) as caught:
        read_budget(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and says in message
    assert f"line {line}" in message


def test_a_budget_without_limits_or_without_its_baseline(write):
    with pytest.raises(BudgetError, match="sets no limit"):
        read_budget(write(""))
    with pytest.raises(BudgetError, match="max_increase needs a baseline"):
        read_budget(write('max_increase = "1%"'))


def test_a_baseline_file_lies_beside_the_budget(write):
    write(net(dense("a")).to_json(), "base.json")
    path = write('baseline = "base.json"\nmax_increase = "1%"\n')
    assert check(net(dense("a")), path) == []
    assert [b.metric for b in check(net(dense("a"), relu("r")), path)] == ["flops", "mread", "mwrite", "mrw"]


def test_a_baseline_that_is_no_report(write):
    write("{}", "base.json")
    with pytest.raises(BudgetError, match=r"line 1: baseline .*base.json is not a costcore.report/1 report"):
        read_budget(write('baseline = "base.json"\nmax_increase = "1%"\n'))
