import io

import pytest
import sympy

from costcore import ComputationalCostHook
from tests.core.toy_networks import nested_report


@pytest.fixture
def report(toy):
    return nested_report(toy)


def shown(show, *arguments, **options):
    stream = io.StringIO()
    show(*arguments, ost=stream, **{"mode": "csv", **options})
    return stream.getvalue()


def test_sorting_is_by_any_column_and_stable(report):
    def names(**options):
        return [line.partition(",")[0] for line in shown(report.show_report, **options).splitlines()[1:-1]]

    in_order = ["Dense-1", "Double-1", "Double-2", "Dense-2", "Dense-3", "Double-3"]
    assert names() == in_order
    assert names(sort="flops") == names(sort="mread%") == sorted(in_order)
    assert names(sort="module") == ["Double-3", "Double-2", "Dense-1", "Double-1", "Dense-2", "Dense-3"]
    with pytest.raises(ValueError, match="unknown column 'color'"):
        names(sort="color")
    with pytest.raises(TypeError, match=r"columns must be a list of names \(got \['flops'\] in it\)"):
        names(columns=[["flops"]])
    shows = report.show_report, report.show_summary_report, report.show_tree, report.show_layers
    for show in (
        *shows,
        lambda columns: report.show_by("op", columns=columns),
        lambda columns: report.table("op", columns=columns),
    ):
        with pytest.raises(TypeError, match=r"\(got 'flops, macs'\)\. Did you mean \['flops', 'macs'\]\?"):
            show(columns="flops, macs")
    with pytest.raises(TypeError, match=r"mode must be a name \(got \['csv'\]\)"):
        names(mode=["csv"])


def test_symbolic_costs_are_sorted_as_if_every_symbol_were_64(toy):
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


def test_the_others_share_parameters_with_the_groups_shown(report):
    text = shown(report.show_by, "module", top=2, sort="flops", unit=None, columns=["flops", "n_params", "n_shared"])
    assert text.splitlines()[1:] == [
        "body.0,18,9,0",
        "head,18,9,0",
        "others,36,9,9",  # tied reads the weight of body.0
        "total,72,18,",
    ]


def test_there_are_no_others_if_all_rows_are_shown(report):
    assert "others" not in shown(report.show_report, top=6)


@pytest.mark.parametrize(("top", "error"), [(0, ValueError), (-1, ValueError), ("3", TypeError), (True, TypeError)])
def test_an_invalid_top_is_an_error(report, top, error):
    with pytest.raises(error, match="top must be"):
        report.show_report(io.StringIO(), top=top)
