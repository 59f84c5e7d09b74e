import pytest
from sympy import Symbol

from costcore import CostError, Report, Trace, check
from tests.core import html_reports
from tests.core.given_costs import Step, dense, net, relu
from tests.core.traces import MemoryLedger

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
def test_one_over_the_limit_is_a_violation(metric, value):
    assert check(MODEL, {"total": {metric: value - 1}}) == [("total", metric, value, value - 1, "")]


def test_limits_of_modules_include_their_submodules():
    budget = {"module": {"body": {"flops": 19}, "head.*": {"macs": 63}, "head": {"n_params": 64}}}
    assert [str(violation) for violation in check(MODEL, budget)] == [
        "module body: 20 FLOPs, limit 19, 1 over, 5.26 %",
        "module head.fc: 64 MACs, limit 63, 1 over, 1.59 %",
    ]


def test_limits_of_operators_are_by_canonical_name_or_that_of_the_framework():
    model = net(dense("a", type="Gemm"), dense("b", type="MatMul"))
    budget = {"operator": {"linear": {"macs": 31}, "Gemm": {"macs": 16}, "MatMul": {"macs": 15}}}
    assert check(model, budget) == [
        ("operator linear", "macs", 32, 31, ""),
        ("operator MatMul", "macs", 16, 15, ""),
    ]


def test_parameters_shared_inside_a_module_count_once():
    tied = Step("linear", "m.a", macs=16, weights={"w": 16})
    model = net(tied, tied._replace(module="m.b"))
    assert check(model, {"module": {"m": {"n_params": 16, "macs": 32}}}) == []


def test_a_forbidden_operator_may_be_absent():
    assert check(MODEL, {"operator": {"conv_transpose": {"macs": 0}}}) == []


@pytest.mark.parametrize("scope", ["module", "operator"])
def test_a_pattern_that_matches_nothing_is_a_violation(scope):
    budget = {scope: {"nothing.*": {"flops": 1, "macs": 1}}}
    (violation,) = check(MODEL, budget)
    names = {"module": "body, body.0, body.1, head, head.fc, head.act", "operator": "linear, relu"}[scope]
    assert str(violation) == f"{scope} 'nothing.*': no {scope} of this model matches ({scope}s are {names})"


def test_a_message_lists_only_a_few_of_many_modules():
    (violation,) = check(net(*(dense(f"m{i}") for i in range(10))), {"module": {"nothing.*": {"flops": 1}}})
    assert str(violation).endswith(" (modules are m0, m1, m2, m3, m4, m5, m6, m7 and 2 more)")


def test_a_limit_may_be_written_as_a_power_of_ten():
    (violation,) = check(net(dense("a")), {"total": {"macs": 1.5e1}})
    assert (violation.value, violation.limit) == (16, 15)
    with pytest.raises(CostError, match="macs must be an int"):
        check(net(dense("a")), {"total": {"macs": 1.5}})


def test_only_reports_are_checked():
    with pytest.raises(TypeError, match=r"check expects a report, such as that of estimate \(got str\)"):
        check("net.onnx", {"strict": True})
    with pytest.raises(TypeError, match=r"a budget must be the path of a TOML file or a mapping \(got 3\)"):
        check(MODEL, 3)


@pytest.mark.parametrize(
    ("scope", "pattern", "near"),
    [
        ("module", "head.f", "'head.fc' or 'head' or 'head.act'"),
        ("operator", "lineer", "'linear'"),
    ],
)
def test_near_matches_of_a_pattern_that_matches_nothing(scope, pattern, near):
    (violation,) = check(MODEL, {scope: {pattern: {"flops": 1}}})
    assert str(violation) == f"{scope} '{pattern}': no {scope} of this model matches. Did you mean {near}?"


def test_a_partial_report_is_a_violation_if_strict():
    model = net(dense("a"), Step("toy::Wave", type="Wave", known=False))
    assert check(model, {"total": {"macs": 16}}) == []
    (violation,) = check(model, {"strict": True})
    assert str(violation) == "total: partial: not counted: 1 call of 1 unsupported operator (Wave)"


def test_increases_are_measured_against_a_baseline():
    old = net(dense("body.0"), relu("body.1"), dense("head.fc", 7), relu("head.act", 7))  # macs 16 + 49 = 65
    assert check(MODEL, {"baseline": old, "max_increase": {"macs": "23.1%"}}) == []  # 65 × 1.231 = 80.015
    (violation,) = check(MODEL, {"baseline": old, "max_increase": {"macs": "23%"}})  # 65 × 1.23 = 79.95
    assert str(violation) == "total: 80 MACs, limit 79 (baseline 65 + 23 %), 1 over, 1.27 %"
    (violation,) = check(MODEL, {"baseline": old, "total": {"max_increase": {"macs": 14}}})
    assert (violation.limit, violation.reason) == (79, "baseline 65 + 14")
    assert check(MODEL, {"baseline": MODEL, "max_increase": "0%"}) == []
    broken = check(MODEL, {"baseline": old, "max_increase": 0})
    assert [b.metric for b in broken] == ["flops", "macs", "mread", "mwrite", "mrw", "n_params"]


def test_a_module_that_the_baseline_lacks_has_the_limit_zero():
    (violation,) = check(
        MODEL, {"baseline": net(dense("body.0")), "module": {"head": {"max_increase": {"macs": "50%"}}}}
    )
    assert str(violation) == "module head: 64 MACs, limit 0 (baseline 0 + 50 %), 64 over"


def test_symbolic_costs_are_refused():
    model = net(Step("linear", macs=Symbol("n")))
    with pytest.raises(
        CostError, match=r"total: macs of the report is the symbolic expression n \(expected a number\)"
    ):
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
    assert check(MODEL, path) == check(MODEL, str(path))
    assert [(b.where, b.metric, b.value, b.limit) for b in check(MODEL, path)] == [
        ("total", "flops", 92, 50),
        ("module head", "mread", 320, 256),
        ("module head.fc", "mread", 288, 256),
    ]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("[total]\nflops = \n", 2, "Invalid value"),
        ("[total]\nflop = 1\n", 2, "total: unknown key 'flop'. Did you mean 'flops'? Expected one of flops, macs"),
        ("flops = 1\n", 1, "time). Limits of the whole model are below a line [total]"),
        ("[totals]\nflops = 1\n", 1, ": unknown key 'totals' (expected strict, convention, baseline"),
        ("strict = 1\n", 1, "strict must be true or false (got 1)"),
        ('[total]\nmacs = 1\n\nmread = "100M"\n', 4, 'total: mread must be an integer or a string such as "100 MiB"'),
        ("[total]\nflops = 1.5\n", 2, "total: flops must be an int"),
        ('[module."a.*"]\nflops = 1\n[module."b.*"]\nflops = -1\n', 4, "module.b.*: flops cannot be negative"),
        ("[module]\nlayer1 = 3\n", 2, 'module: layer1 must be a table of limits, as in [module."pattern"]'),
        ("total = 3\n", 1, "total must be a table of limits, as in [total]"),
        ('max_increase = "1"\nbaseline = "x.json"\n', 1, 'max_increase must be a percentage such as "1%"'),
        (
            '[total]\nmax_increase = { flop = "1%" }\n',
            2,
            "total.max_increase: unknown key 'flop'. Did you mean 'flops'? Expected one of flops",
        ),
        (
            '# none\nbaseline = "no.json"\n[total]\nmax_increase = "1%"\n',
            2,
            "directory. `costcore check … --update` writes it",
        ),
        ("baseline = 3\n[total]\nflops = 1\n", 1, "baseline must be the path of a saved report"),
    ],
)
def test_the_message_for_an_invalid_file_has_the_line_and_key(write, text, line, problem):
    path = write(text)
    with pytest.raises(CostError) as caught:
        check(MODEL, path)
    message = str(caught.value)
    assert message.startswith(str(path)) and problem in message
    assert f"line {line}" in message


def test_a_budget_without_limits_or_without_its_baseline(write):
    with pytest.raises(CostError, match="the budget has no limits"):
        check(MODEL, write(""))
    with pytest.raises(CostError, match="max_increase needs a baseline"):
        check(MODEL, write('max_increase = "1%"'))


def test_the_path_of_a_baseline_is_relative_to_the_budget(write):
    write(net(dense("a")).to_json(), "base.json")
    path = write('baseline = "base.json"\nmax_increase = "1%"\n')
    assert check(net(dense("a")), path) == []
    assert [b.metric for b in check(net(dense("a"), relu("r")), path)] == ["flops", "mread", "mwrite", "mrw"]


def test_a_baseline_that_is_not_a_report(write):
    write("{}", "base.json")
    with pytest.raises(CostError, match=r"line 1: baseline: .*base.json is not a costcore.report/1 report"):
        check(MODEL, write('baseline = "base.json"\nmax_increase = "1%"\n'))


def with_memory():
    """Return a report whose peak is 2816 B: 1536 B alive in a forward call of ``fc``, 2816 B in its backward call."""
    return html_reports.step()


@pytest.mark.parametrize(("most", "n"), [(2816, 0), ("2816 B", 0), ("2.75 KiB", 0), (2815, 1)])
def test_the_peak_of_memory_is_limited(most, n):
    assert len(check(with_memory(), {"total": {"peak_memory": most}})) == n


def test_how_a_size_was_read_is_part_of_a_violation():
    (violation,) = check(MODEL, {"total": {"mread": "0.1 KB"}})
    assert "limit 100 (0.1 KB = 100 B, 0.1 KiB = 102 B), " in str(violation)
    (violation,) = check(MODEL, {"total": {"mread": "0.1 KiB"}})
    assert "limit 102, " in str(violation)


def test_the_peak_while_a_module_runs_is_limited(write):
    """The optimizer belongs to no module."""
    budget = write('[module."f*"]\npeak_memory = "2 KiB"\n')
    assert [str(violation) for violation in check(with_memory(), budget)] == [
        "module fc: 2,816 bytes of memory at the peak, limit 2,048, 768 over, 37.50 %"
    ]


def test_the_increase_of_the_peak_is_limited():
    """The baseline has no backward pass: its peak is 1536 B."""
    step = with_memory()
    run = step.trace.run
    first = run.memory.blocks[0], run.memory.blocks[1]._replace(died=None)
    before = Report(Trace(step.trace.records[:1], run.recording(memory=MemoryLedger(first, (0,)))))
    budget = {"baseline": before, "total": {"max_increase": {"peak_memory": "50%"}}}
    (violation,) = check(step, budget)
    assert str(violation).startswith("total: 2,816 bytes of memory at the peak, limit 2,304 (baseline 1,536 + 50 %)")


@pytest.mark.parametrize("source", ["the report", "the baseline"])
def test_a_limit_of_the_peak_needs_a_report_with_memory(source):
    budget = {"total": {"peak_memory": 1}}
    if source == "the baseline":
        budget = {"baseline": MODEL, "total": {"max_increase": {"peak_memory": 0}}}
    with pytest.raises(CostError, match=f"peak_memory of {source}: memory was not recorded.* Pass memory=True"):
        check(MODEL if source == "the report" else with_memory(), budget)


def test_any_quantity_with_numbers_is_limited():
    """The linear layers read and write 96 and 320 bytes; fused, no activation is written and read between them."""
    budget = {
        "total": {
            "flops@fvcore": "0.079K",
            "fused_mrw": "1 KiB",
            "bound_seconds@l4": 1e-12,
            "arena": 1,
            "n_layers": 3,
        },
        "module": {"head": {"flops@fvcore": 63, "memory": 63}},
        "operator": {"linear": {"bound_seconds@l4": 1e-12, "madd": 159}},
    }
    *total, head, outputs, linear, doubled = check(MODEL, budget)
    assert [(each.metric, each.value) for each in total] == [
        *(("flops@fvcore", 80), ("bound_seconds@l4", 0), ("arena", 128), ("n_layers", 4))
    ]
    assert str(head) == "module head: 64 MACs (fvcore), limit 63, 1 over, 1.59 %"
    assert (outputs.where, outputs.value) == ("module head", 64)
    assert (linear.where, linear.metric) == ("operator linear", "bound_seconds@l4")
    assert (doubled.metric, doubled.value) == ("madd", 160)


def test_an_operator_has_a_peak_while_it_runs():
    report = with_memory()
    names = [call.name for call in report.calls if call.layer.op == "linear"]
    (violation,) = check(report, {"operator": {"linear": {"live_peak": 1}}})
    assert violation.value == max(live for name, _, live in report.memory.live_by_call() if name in names) == 1536


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"module": {"a": {"arena": 1}}}, "module.a: arena is known of the whole run only: limit it in [total]"),
        ({"total": {"receptive_field": 1}}, "total: receptive_field is text, which has no limit"),
        ({"total": {"bound_seconds": 1}}, "total: column 'bound_seconds' needs a parameter: bound_seconds@DEVICE"),
        ({"total": {"flops@fvcor": 1}}, "total: unknown convention 'fvcor'"),
        ({"total": {"bound_seconds@l4": "1 min"}}, "total: bound_seconds@l4 must be a number of seconds or a string"),
        ({"total": {"flop": 1}}, "total: unknown key 'flop'. Did you mean 'flops'? Expected one of flops, macs"),
    ],
)
def test_a_limit_on_what_has_none_says_why(budget, message):
    with pytest.raises(CostError) as raised:
        check(MODEL, budget)
    assert message in str(raised.value)


def test_a_least_time_that_is_unknown_is_a_violation():
    (violation,) = check(MODEL, {"total": {"bound_seconds@ethos-u55-256": 1}})
    assert str(violation).startswith("total: bound_seconds@ethos-u55-256 is unknown: partial: ethos-u55-256 computes")


def test_files_that_limits_name_are_relative_to_the_budget(write):
    device = write('name = "mine"\nkind = "gpu"\n[memory]\ndram_gbs = 1\n', "mine.toml")
    budget = write('[total]\n"bound_seconds@mine.toml:float16" = "1 ns"\n')
    (violation,) = check(MODEL, budget)
    assert (violation.metric, violation.value) == (f"bound_seconds@{device}:float16", 256)  # 512 bytes in float32
