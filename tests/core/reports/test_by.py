import io
import itertools

import pytest
import sympy

from costcore import ComputationalCostHook
from costcore.reports.ledger import KEYS
from costcore.symbolic import magnitude, share
from tests.core.toy_networks import nested_report

N, M = sympy.symbols("n m", integer=True, positive=True)
SUMS = ("n_layers", "flops", "macs", "mread", "mwrite", "mrw")


@pytest.fixture
def report(toy):
    return nested_report(toy)


def shown(show, *arguments, **options):
    stream = io.StringIO()
    show(*arguments, ost=stream, **options)
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


def test_a_shared_parameter_is_in_every_group_that_reads_it_and_once_in_the_sum(report):
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


def test_symbols_add_up_too(toy):
    n = sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Dense", (n, 3), weight=1)
        toy.run("toy::Double", (n, 3))
    groups = hook.report.by("type")
    assert groups["Dense"]["flops"] == 9 * n
    assert sum(group["flops"] for group in groups.values()) == hook.total_report["flops"] == 12 * n
    assert groups["Dense"]["flops%"] == 75  # 9 of 12, whatever n is


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 12 * N, 0.0),
        (3, 12 * N, None),
        (9 * N, 12, None),
        (9 * N, 12 * N, 0.75),
        (2 * N * M + 4 * N, 8 * N * M + 16 * N, 0.25),
        (2 * N * M + 4 * N, 8 * N * M + 12 * N, None),
        (N, N * M, None),
        (N * (M + 1), 3 * N * (M + 1), 1 / 3),
        (3, 12, 0.25),
        (0, 0, 0.0),
    ],
)
def test_the_share_of_a_formula_is_told_where_it_is_a_multiple(part, whole, expected):
    assert share(part, whole) == expected


def test_formulas_without_a_number_are_ranked_as_nothing():
    assert [magnitude(dim) for dim in (3 * N + M, N // 3, N / (M - 64), 7)] == [256, 21, 0, 7]


@pytest.mark.parametrize(
    ("keys", "error", "sentence"),
    [
        ((), TypeError, "one or several keys to group by, of type, op, module, phase, dtype, native"),
        ((3,), TypeError, "got"),
        (("color",), ValueError, r"unknown grouping key 'color' \(expected type, op, module, phase, dtype, native\)"),
    ],
)
def test_a_wrong_key_says_which_are_known(report, keys, error, sentence):
    with pytest.raises(error, match=sentence):
        report.by(*keys)


def test_a_table_of_groups(report):
    assert shown(report.show_by, "op", "phase", unit=None, columns=["flops", "n_params", "n_shared"]) == (
        "Operator,Phase,FLOPs,# Params,# Shared params\n"
        "toy_dense,forward,54,18,0\n"
        "toy_double,forward,18,0,0\n"
        "total,,72,18,\n"
    )


def test_sorting_is_by_any_column_and_stable(report):
    def names(**options):
        return [line.partition(",")[0] for line in shown(report.show_report, **options).splitlines()[1:-1]]

    in_order = ["Dense-1", "Double-1", "Double-2", "Dense-2", "Dense-3", "Double-3"]
    assert names() == in_order
    assert names(sort="flops") == names(sort="mread%") == sorted(in_order)
    assert names(sort="module") == ["Double-3", "Double-2", "Dense-1", "Double-1", "Dense-2", "Dense-3"]
    with pytest.raises(ValueError, match="unknown column 'color'"):
        names(sort="color")


def test_formulas_are_sorted_as_if_every_symbol_were_64(toy):
    n = sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", (1, 3))
        toy.run("toy::Double", (9, 3))
        toy.run("toy::Double", (n, 3))
        toy.run("toy::Double", (n, n))
        toy.run("toy::Double", (200, 1))
    # 64^2 = 4096, 200, 3 * 64 = 192, 27, 3
    order = ["Double-4,n**2", "Double-5,200", "Double-3,3*n", "Double-2,27", "Double-1,3"]
    for sort in ("flops", "flops%"):
        lines = shown(hook.show_report, sort=sort, unit=None, columns=["name", "flops"]).splitlines()
        assert lines[1:-1] == order
    lines = shown(hook.show_report, sort="flops", top=2, unit=None, columns=["name", "flops"]).splitlines()
    assert lines[1:] == [*order[:2], "others,3*n + 30", "total,n**2 + 3*n + 230"]


def test_the_top_rows_and_the_others_add_up(report):
    columns = ["name", "flops", "macs", "mread", "n_params"]
    lines = shown(report.show_report, sort="flops", top=2, unit=None, columns=columns).splitlines()
    assert lines[1:] == ["Dense-1,18,18,60,9", "Dense-2,18,18,60,9", "others,36,18,132,9", "total,72,54,252,18"]
    summary = shown(report.show_summary_report, top=1, unit=None, columns=["type", "n_layers", "flops"])
    assert summary.splitlines()[1:] == ["Dense,3,54", "others,3,18", "total,6,72"]


def test_the_others_of_groups_share_what_the_shown_ones_have(report):
    text = shown(report.show_by, "module", top=2, sort="flops", unit=None, columns=["flops", "n_params", "n_shared"])
    assert text.splitlines()[1:] == [
        "body.0,18,9,0",
        "head,18,9,0",
        "others,36,9,9",  # tied reads the weight of body.0
        "total,72,18,",
    ]


def test_top_of_everything_has_no_others(report):
    assert "others" not in shown(report.show_report, top=6)


@pytest.mark.parametrize(("top", "error"), [(0, ValueError), (-1, ValueError), ("3", TypeError), (True, TypeError)])
def test_a_wrong_top_is_refused(report, top, error):
    with pytest.raises(error, match="top must be"):
        report.show_report(io.StringIO(), top=top)
