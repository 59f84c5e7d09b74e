import io
import itertools

import pytest
import sympy

from costcore import ComputationalCostHook
from tests.core.toy_networks import nested_report

N, M = sympy.symbols("n m", integer=True, positive=True)
KEYS = ("type", "op", "module", "phase", "dtype", "native")
SUMS = ("n_layers", "flops", "macs", "mread", "mwrite", "mrw")


@pytest.fixture
def report(toy):
    return nested_report(toy)


def shown(show, *arguments, **options):
    stream = io.StringIO()
    show(*arguments, ost=stream, **{"mode": "csv", **options})
    return stream.getvalue()


def test_groups_by_one_key(report):
    groups = report.by("op")
    assert list(groups) == ["toy_dense", "toy_double"]
    dense = groups["toy_dense"]
    assert (dense["op"], dense["n_layers"], dense["flops"], dense["macs"]) == ("toy_dense", 3, 54, 54)
    assert (dense["mread"], dense["mwrite"], dense["mrw"]) == (180, 72, 252)
    assert dense["flops%"] == pytest.approx(75)  # 54 of 54 + 18
    assert dense["n_params"] == 18  # two weights, one of them read twice


def test_groups_by_several_keys_are_tuples_in_order_of_first_call(report):
    groups = report.by("module", "op")
    assert list(groups) == [
        ("body.0", "toy_dense"),
        ("body.1", "toy_double"),
        ("body", "toy_double"),
        ("head", "toy_dense"),
        ("tied", "toy_dense"),
        ("", "toy_double"),
    ]
    assert groups["tied", "toy_dense"]["module"] == "tied"


def test_a_shared_parameter_is_in_every_group_that_reads_it_and_counts_once_in_the_sum(report):
    groups = report.by("module")
    assert (groups["body.0"]["n_params"], groups["body.0"]["n_shared"]) == (9, 0)
    assert (groups["tied"]["n_params"], groups["tied"]["n_shared"]) == (9, 9)


@pytest.mark.parametrize(
    "keys", [k for n in range(1, len(KEYS) + 1) for k in itertools.combinations(KEYS, n)], ids=",".join
)
def test_every_grouping_adds_up_to_the_total(report, keys):
    groups, total = report.by(*keys).values(), report.total_report
    assert {key: sum(group[key] for group in groups) for key in SUMS} == {key: total[key] for key in SUMS}
    assert sum(group["n_params"] - group["n_shared"] for group in groups) == total["n_params"] == 18


def test_symbolic_costs_add_up_too(toy):
    n = sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Dense", (n, 3), weight=1)
        toy.run("toy::Double", (n, 3))
    groups = hook.report.by("type")
    assert groups["Dense"]["flops"] == 9 * n
    assert sum(group["flops"] for group in groups.values()) == hook.total_report["flops"] == 12 * n
    assert groups["Dense"]["flops%"] == 75  # 9 of 12, whatever n is


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ((), TypeError, "one or several keys to group by, of type, op, module, phase, dtype, native"),
        ((3,), TypeError, "got"),
        (("color",), ValueError, r"unknown grouping key 'color' \(expected type, op, module, phase, dtype, native\)"),
    ],
)
def test_an_unknown_key_lists_the_expected_ones(report, keys, error, message):
    with pytest.raises(error, match=message):
        report.by(*keys)


def test_a_table_of_groups(report):
    assert shown(report.show_by, "op", "phase", unit=None, columns=["flops", "n_params", "n_shared"]) == (
        "Operator,Phase,FLOPs,# Params,# Shared params\n"
        "toy_dense,forward,54,18,0\n"
        "toy_double,forward,18,0,0\n"
        "total,,72,18,\n"
    )
    with pytest.raises(ValueError, match=r"depth needs rows of modules, tree or module \(got rows by op"):
        report.show_by("op", depth=1)
