"""Quantities: values of calls, groups and the run, combined as each is; and those of plug-ins."""

import csv
import io
from math import fsum, isclose

import pytest
from sympy import Symbol

from costcore import Cost, CostError, Layer, Report, Tensor, Trace, check, compare, hookimpl, plugins, quantities, table
from tests.command_line import main
from tests.core.given_costs import Step, dense, net, relu
from tests.core.results import Column, Quantity, column_of, needed_options, quantity, registered
from tests.core.traces import Call, CallCost, Run

# macs 16 + 64; FLOPs 16 + 4 + 64 + 8; read 80 + 16 + 288 + 32; written 16 + 16 + 32 + 32; parameters 16 + 64
MODEL = net(dense("body.0"), relu("body.1"), dense("head.fc", 8), relu("head.act", 8), framework="torch")


def shown(show, *keys, **options):
    out = io.StringIO()
    show(*keys, ost=out, mode="csv", unit=None, **options)
    return [*csv.reader(out.getvalue().splitlines())]


@pytest.mark.parametrize("name", ["flops", "macs", "mread", "mwrite", "mrw", "fused_mrw", "n_layers", "memory", "madd"])
@pytest.mark.parametrize("key", ["type", "module", "phase", "native"])
def test_values_of_groups_add_up_to_the_total(name, key):
    asked, ledger = quantity(name), MODEL.ledger
    parts = [asked.of(ledger, calls) for calls in ledger.groups(key).values()]
    assert sum(parts) == sum(asked.by_call(ledger)) == asked.total(ledger) > 0


def test_a_shared_parameter_counts_once_in_every_group():
    tied = Step("linear", "m.a", macs=16, weights={"w": 16})
    ledger = net(tied, tied._replace(module="m.b"), dense("m.c")).ledger
    n_params, n_shared = quantity("n_params"), quantity("n_shared")
    assert (n_params.total(ledger), n_params.of(ledger, ledger.calls[:2])) == (32, 16)
    assert [*n_shared.by_call(ledger)] == [0, 16, 0]
    assert n_shared.total(ledger) == 0  # no earlier call has any of them


def test_the_bound_of_a_run_is_at_least_that_of_its_parts():
    large = net(
        *(dense(f"a{i}", 1500) for i in range(8)), framework="torch"
    )  # each fits in the cache of an L4, not all
    asked, ledger = quantity("bound_seconds@l4"), large.ledger
    assert isclose(asked.of(ledger, ledger.calls), fsum(asked.by_call(ledger)))
    assert asked.total(ledger) > 2 * asked.of(ledger, ledger.calls)
    assert asked.total(ledger) == large.time("l4").bound_seconds
    assert any(line.startswith("whole run: ") for line in asked.remarks(ledger))
    assert quantity("bound_seconds@l4:float16").total(ledger) < asked.total(ledger)


def test_a_convention_is_a_parameter_of_flops():
    asked = quantity("flops@fvcore")
    assert (asked.title, asked.total(MODEL.ledger)) == ("MACs (fvcore)", MODEL.under("fvcore").total)
    assert quantity("flops@torch").title == "FLOPs (torch)"


def test_a_closed_form_has_a_total_only():
    with pytest.raises(CostError, match=r"flops@6nd is known of the whole run only, not of calls"):
        quantity("flops@6nd").by_call(MODEL.ledger)


def test_values_that_a_run_does_not_have_say_what_is_needed():
    for name, needs in {"live_peak": "Pass memory=True", "seconds": "Pass measure_time=True"}.items():
        with pytest.raises(CostError, match=needs):
            quantity(name).total(MODEL.ledger)
    assert needed_options(["macs", "live_peak%", "flops@calflops"]) == {"memory": True, "record_api_calls": True}


def test_text_of_a_group_is_that_of_its_calls():
    """The first and the last shape, of a number too; what all calls have in common."""
    number = Step("exp", "a", shape=())
    report = net(number, dense("a"), dense("a", 8), relu("b", 8), number._replace(module="c"))
    columns = ["input_shape", "output_shape", "op", "phase"]
    assert shown(report.show_by, "module", columns=columns)[1:] == [
        ["a", "()", "(1, 8)", "", "forward"],
        ["b", "(1, 8)", "(1, 8)", "relu", "forward"],
        ["c", "()", "()", "exp", "forward"],
        ["total", "", "", "", ""],
    ]


@pytest.mark.parametrize("storages", [False, True])
def test_weights_count_once_and_those_in_packed_elements_too(storages):
    """A weight of int8 for two layers, one of float16, and 16 x 16 of four bits in 32 elements of int32."""
    wide, x = Tensor((1, 16)), Tensor((1, 4))
    calls = [
        weighted("linear", "a", {"x": x, "w": Tensor((8, 4), "int8", "param")}, Tensor((1, 8)), (11, 1), (1,)),
        weighted("linear", "b", {"x": x, "w": Tensor((8, 4), "int8", "param")}, Tensor((1, 8)), (12, 1), (1,)),
        weighted("linear", "c", {"x": x, "w": Tensor((2, 4), "float16", "param")}, Tensor((1, 2)), (12, 2), (2,)),
        weighted("packed_linear", "d", {"x": wide, "w": Tensor((16, 2), "int32", "param")}, wide, (13, 3), ()),
    ]
    if storages:
        calls = [each._replace(call=each.call._replace(storages=(*each.call.inputs, 99))) for each in calls]
    report = Report(Trace(tuple(calls), Run(parameters={1: 32, 2: 8})))
    rows = shown(report.show_by, "module", columns=["n_params", "n_weights", "weight_bytes"])[1:]
    assert [[row[0], *map(int, row[1:])] for row in rows] == [
        ["a", 32, 32, 32],
        ["b", 32, 32, 32],
        ["c", 8, 8, 16],
        ["d", 0, 256, 128],
        ["total", 40, 296, 176],
    ]


def weighted(op, module, inputs, output, values, parameters):
    call = Call(Layer(op, inputs, [output]), op, module=module, inputs=values, parameters=parameters, name=module)
    return CallCost(call, Cost(0, 4, 4, {}))


def test_measured_time_and_operations_of_groups():
    """A multiply-add is two FLOPs of a rate: 36 / 0.75 s, 4 / 0.125 s, 40 / 0.875 s. What has no cost is left out."""
    unknown = Step("nobody_knows", "b", known=False, seconds=0.0625)
    report = net(dense("a", seconds=0.25), relu("a", seconds=0.5), relu("b", seconds=0.125), unknown)
    rows = shown(report.show_by, "module", columns=["seconds", "seconds%", "operations", "achieved_flops"])
    assert rows[1:4] == [
        ["a", "750.0", "85.714%", "fma=16, add=4", "48"],
        ["b", "125.0", "14.286%", "add=4", "32"],
        ["total", "875.0", "100.0%", "fma=16, add=8", "46"],
    ]
    report.show_report(columns=["name", "achieved_flops"], ost=(out := io.StringIO()), mode="md")
    assert "measured time: 62.5 ms of calls without a cost are left out" in out.getvalue()
    (violation,) = check(report, {"total": {"seconds": "800 ms"}})
    assert (violation.value, violation.limit) == (875_000_000, 800_000_000)  # nanoseconds


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flop", r"unknown column 'flop'\. Did you mean 'flops'\? Expected one of name, type"),
        ("bound_seconds", r"column 'bound_seconds' needs a parameter: bound_seconds@DEVICE\[:DTYPE\]"),
        ("bound_seconds@l5", r"unknown device 'l5'"),
        ("flops@fvcor", r"unknown convention 'fvcor'.*Did you mean 'fvcore'\?"),
        ("macs@fvcore", r"unknown column 'macs@fvcore'"),
        ("fused_mrw@x", r"unknown level of fusion 'x' \(expected none, pointwise, compiler\)"),
    ],
)
def test_an_unknown_name_or_parameter_is_an_error(name, message):
    with pytest.raises(ValueError, match=message):
        quantity(name)


def test_only_what_adds_up_has_a_share():
    assert column_of("fused_mrw%") == Column("fused_mrw%", "Fused R+W", "percent")
    with pytest.raises(ValueError, match="live_peak has no share of a total: its values do not add up"):
        column_of("live_peak%")


def test_every_quantity_is_documented():
    for name, each in registered().items():
        assert name == each.name
        assert each.title
        assert each.doc
        assert not each.doc.endswith(".")


def test_any_quantity_is_a_column_of_every_table():
    columns = ["macs", "flops@fvcore", "flops@fvcore%", "fused_mrw", "bound_seconds@l4", "arena"]
    by_call = shown(MODEL.show_report, columns=["name", *columns], sort="bound_seconds@l4", top=1)
    assert by_call[0][1:5] == ["MACs", "MACs (fvcore)", "MACs (fvcore) (%)", "Fused R+W B"]
    assert [row[0] for row in by_call[1:]] == ["linear-2", "others", "total"]
    assert [row[2] for row in by_call[1:]] == ["64", "16", "80"]
    assert [row[3] for row in by_call[1:]] == ["80.0%", "20.0%", "100.0%"]
    by_module = shown(MODEL.show_by, "module", columns=columns, sort="flops@fvcore", top=1)
    assert [row[2] for row in by_module[1:]] == ["64", "16", "80"]
    tree = shown(MODEL.show_tree, columns=["module", *columns], sort="flops@fvcore", depth=1)
    assert [row[:3] for row in tree[1:]] == [["total", "80", "80"], ["head", "64", "64"], ["body", "16", "16"]]
    top = shown(MODEL.show_tree, columns=["module", *columns], sort="flops@fvcore", depth=1, top=1)
    assert [row[2] for row in top[1:]] == ["80", "64", "16"]
    assert [row[-1] for row in tree[1:]] == [str(MODEL.arena().size), "", ""]
    assert shown(MODEL.show_summary_report, columns=["type", *columns])[-1][:3] == ["total", "80", "80"]
    assert shown(MODEL.show_layers, columns=["module", *columns])[-1][:3] == ["total", "80", "80"]


def test_any_quantity_has_a_formula_and_a_picture():
    n = Symbol("n", integer=True, positive=True)
    report = net(dense("a"), Step("linear", "b", macs=n, fma=n, mread=4 * n, shape=(1, n)))
    assert report.formula("madd") == 2 * n + 32
    assert report.formula("madd", by="module") == {"a": 32, "b": 2 * n}
    assert report.lambdify("madd")(n=3) == 38
    assert MODEL.plot(column="madd") == [("linear", 160), ("relu", 12)]
    assert MODEL.plot("modules", column="flops@fvcore")[:3] == [("", 0, 80), ("head", 1, 64), ("head.fc", 2, 64)]
    with pytest.raises(ValueError, match="shows parts of a total, but values of live_peak do not add up"):
        MODEL.plot("modules", column="live_peak")
    with pytest.raises(ValueError, match=r"column 'binds@l4' is text \(expected a number, such as macs\)"):
        report.formula("binds@l4")


def test_any_quantity_is_compared():
    other = net(dense("body.0", 8), relu("body.1"), dense("head.fc", 8), relu("head.act", 8), framework="torch")
    found = compare(MODEL, other, columns=["flops@fvcore", "arena", "bound_seconds@l4"])
    assert (found.totals["flops@fvcore"].old, found.totals["flops@fvcore"].new) == (80, 128)
    assert "MACs (fvcore): 80 → 128 (+48, ×1.6000)" in found.summary
    assert found.operators["linear"]["flops@fvcore"].difference == 48
    assert found.differences[0].costs["flops@fvcore"].difference == 48
    assert any(line.startswith("at least on l4: 0.006 ns → ") for line in found.summary)
    assert "MACs (fvcore)" in found.to_markdown() and "MACs (fvcore)" in found.to_html()
    assert compare(MODEL, MODEL, columns=["fused_mrw"]).equal


def test_large_numbers_in_formulas_are_rounded_in_comparisons():
    n = Symbol("n", integer=True, positive=True)
    old = Step("linear", "a", macs=313_300_000 * n, fma=n, mread=2**20 * n)
    new = old._replace(macs=12_345_678 * n + 9999, mread=2**21 * n + 99_999)
    lines = str(compare(net(old), net(new))).splitlines()
    cells = {
        line.split("|")[1].strip(): [part.strip() for part in line.split("|")[2:5]] for line in lines if "|" in line
    }
    assert cells["MACs"] == ["313.3 M*n", "12.35 M*n + 9999", "+9999 - 301 M*n"]
    assert cells["bytes read"] == ["1 MiB*n", "2 MiB*n + 97.66 KiB", "+1 MiB*n + 97.66 KiB"]


def test_symbolic_values_are_combined_or_refused():
    n = Symbol("n", integer=True, positive=True)
    ledger = net(dense("a"), Step("linear", "a", macs=n, fma=n, mread=4 * n)).ledger
    assert quantity("macs").total(ledger) == n + 16
    assert quantity("mread").of(ledger, ledger.calls) == 4 * n + 80
    largest = Quantity("most", "Most", "flops", "the most", lambda each: [cost.macs for _, cost in each.counted], "max")
    assert largest.total(ledger).subs(n, 5) == 16
    assert largest.total(ledger).subs(n, 50) == 50


class Cycles:
    """A plug-in: cycles of an array of 16 x 16 multipliers."""

    @hookimpl
    def costcore_quantities(self):
        return [Quantity("cycles", "Cycles", "count", "cycles of an array of 16 x 16 multipliers", cycles)]


def cycles(ledger):
    return [-(-cost.macs // 256) * call.times for call, cost in ledger.counted]


@pytest.fixture
def plugin():
    plugins.register(added := Cycles())
    yield
    plugins.unregister(added)


@pytest.mark.usefixtures("plugin")
def test_a_quantity_of_a_plug_in_is_a_column_of_every_table():
    assert shown(MODEL.show_report, columns=["name", "cycles"])[1:] == [
        *(["linear-1", "1"], ["relu-1", "0"], ["linear-2", "1"], ["relu-2", "0"]),
        ["total", "2"],
    ]
    assert shown(MODEL.show_tree, columns=["module", "cycles%"], depth=1)[1:] == [
        *(["total", "100.0%"], ["body", "50.0%"], ["head", "50.0%"]),
    ]


@pytest.mark.usefixtures("plugin")
def test_a_quantity_of_a_plug_in_is_in_every_use(tmp_path, capsys):
    assert "cycles" in [row["name"] for row in quantities().rows]
    assert MODEL.table("module", columns=["cycles"], sort="cycles", top=1).total["cycles"] == 2
    assert [each.value for each in check(MODEL, {"operator": {"linear": {"cycles": 1}}})] == [2]
    assert compare(MODEL, MODEL, columns=["cycles"]).totals["cycles"].new == 2
    assert table([("net", MODEL)], columns=["cycles"]).rows[0].costs == {"cycles": 2}
    assert (MODEL.formula("cycles"), MODEL.plot(column="cycles")) == (2, [("linear", 2)])
    assert '"value":1' in MODEL.to_model_explorer(column="cycles")
    MODEL.to_json(tmp_path / "net.json")
    assert main([str(tmp_path / "net.json"), "--by", "op", "--columns", "cycles%", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "linear,100.0%"


def test_a_quantity_of_your_own_is_a_column():
    mine = Quantity("cycles", "Cycles", "count", "cycles of an array of 16 x 16 multipliers", cycles)
    found = MODEL.table("op", columns=[mine, "macs"])
    assert [(row["op"], row["cycles"]) for row in found.rows] == [("linear", 2), ("relu", 0)]
    with pytest.raises(ValueError, match="unknown kind 'joule'"):
        MODEL.table("op", columns=[mine._replace(kind="joule")])


def test_a_table_holds_exact_values_of_any_part():
    by_module = MODEL.table("module", columns=["macs"], depth=1)
    assert [(row["module"], row["macs"]) for row in by_module.rows] == [("body", 16), ("head", 64)]
    assert [row["macs"] for row in MODEL.table("module", "op", columns=["macs"], sort="macs", top=1).rows] == [64, 16]
    (run,) = MODEL.table("run", columns=["macs", "n_params"]).rows
    assert (run["macs"], run["n_params"]) == (80, 80)
    tree = MODEL.table("tree", columns=["module", "macs"], depth=1)
    assert tree.to_csv().splitlines() == ["module,macs", "total,80", "body,16", "head,64"]
    assert "├─ body" in str(tree)
    for parts, message in {("op", "call"): "'call' cannot be joined", ("oops",): "unknown part 'oops'"}.items():
        with pytest.raises(ValueError, match=message):
            MODEL.table(*parts)
    with pytest.raises(ValueError, match="got rows by op"):
        MODEL.table("op", depth=1)
    with pytest.raises(TypeError, match="expected one or several kinds of rows"):
        MODEL.table()


def test_an_invalid_quantity_of_a_plug_in_is_an_error_that_says_why():
    good = Quantity("a", "A", "count", "a", cycles)
    for bad, why in (
        (good._replace(name="flops"), "there are two quantities 'flops'"),
        (good._replace(kind="joule"), "quantity 'a': unknown kind 'joule'"),
        (good._replace(combine="mean"), "quantity 'a': unknown combination 'mean'"),
        (good._replace(name="a b"), "'a b' is not the name of a quantity"),
        (good._replace(name="a@B"), "'a@B' is not the name of a quantity"),
    ):

        class Bad:
            @hookimpl
            def costcore_quantities(self, bad=bad):
                return [bad]

        plugins.register(added := Bad())
        try:
            with pytest.raises(CostError, match=why):
                quantity("cycles")
        finally:
            plugins.unregister(added)
    wrong = good._replace(of_calls=lambda _: [1])
    with pytest.raises(CostError, match=r"of_calls must return a value for each of the 4 counted calls \(got 1\)"):
        wrong.total(MODEL.ledger)
