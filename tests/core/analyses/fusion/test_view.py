"""Reports with the bytes after fusion: tables, files, budgets, comparisons, the command line."""

from __future__ import annotations

import io
import json

import pytest

from costcore import Report, check, compare
from costcore.errors import CostError
from tests.command_line import main
from tests.core.analyses.fusion.runs import Calls

UNFUSED = 4 * (32 + 128 + 64 + 2 * 64 + 3 * 64 + 2 * 64)
"""Bytes of linear, gelu, mul and softmax: x, w, y; x, y; both factors, y; x, y."""

POINTWISE = 4 * (32 + 128 + 64 + 3 * 64)
"""The element-wise calls and the softmax are one loop, which reads both factors."""


@pytest.fixture(scope="module")
def report() -> Report:
    """A linear layer, GELU, a factor and a softmax."""
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(16, 8, role="param")
    hidden = calls("gelu", calls("linear", x, w, shape=(4, 16)))
    return Report(calls.trace(calls("softmax", calls("mul", hidden, calls.given(4, 16)), axis=1)))


def table(show, **options) -> list[list[str]]:
    out = io.StringIO()
    show(out, "csv", None, **options)
    return [line.split(",") for line in out.getvalue().replace('"', "").splitlines()]


def test_the_report_itself_does_not_change(report):
    before = report.to_json()
    report.fused("compiler")
    assert report.to_json() == before
    assert report.total_report["mrw"] == UNFUSED


def test_totals(report):
    fused = report.fused()
    total = fused.total_report
    assert (total["mrw"], total["unfused_mrw"], total["n_groups"]) == (POINTWISE, UNFUSED, 2)
    assert {key: total[key] for key in ("flops", "macs", "n_params", "n_layers")} == {
        key: report.total_report[key] for key in ("flops", "macs", "n_params", "n_layers")
    }
    assert report.fused("none").total_report["mrw"] == UNFUSED
    assert str(fused) == f"2 groups at level pointwise: {POINTWISE} bytes read and written, {UNFUSED} unfused"


def test_the_table_of_groups(report):
    columns = ["group", "names", "mread", "mwrite", "unfused_mrw"]
    head, *rows = table(report.fused().show_report, columns=columns)
    assert [row[0] for row in rows] == ["1", "2", ""]
    assert rows[0][1:] == ["linear-0", str(4 * 160), str(4 * 64), str(4 * 224)]
    assert rows[1][1:] == ["gelu-1", " mul-2", " softmax-3", str(4 * 128), str(4 * 64), str(4 * 448)]
    assert rows[2][1:] == ["total", str(4 * 288), str(4 * 128), str(UNFUSED)]
    assert head[0].startswith("Group")


def test_rows_beyond_the_limit_are_summed(report):
    rows = table(report.fused("none").show_report, columns=["names", "mrw", "unfused_mrw"], sort="mrw", top=1)
    assert rows[1:] == [
        ["linear-0", str(4 * 224), str(4 * 224)],
        ["others", str(4 * 448), str(4 * 448)],
        ["total", str(UNFUSED), str(UNFUSED)],
    ]


def test_other_tables_have_the_bytes_after_fusion(report):
    rows = table(report.fused().show_summary_report, columns=["type", "mrw"])
    assert dict(rows[1:]) == {
        "linear": str(4 * 224),
        "gelu": str(4 * 64),  # the first call of the group that reads the output of linear
        "mul": str(4 * 64),
        "softmax": str(4 * 64),
        "total": str(POINTWISE),
    }
    assert report.fused().tree()["mrw"] == POINTWISE


@pytest.mark.parametrize("show", ["show_report", "show_summary_report", "show_layers"])
def test_the_column_of_a_report_without_fusion(report, show):
    rows = table(getattr(report, show), columns=["type" if show == "show_summary_report" else "name", "fused_mrw"])
    assert [row[1] for row in rows[1:]] == [*map(str, (4 * 224, 4 * 64, 4 * 64, 4 * 64)), str(POINTWISE)]


def test_the_column_of_the_tree_and_of_groups(report):
    assert table(report.show_tree, columns=["module", "fused_mrw"])[1] == ["total", str(POINTWISE)]
    out = io.StringIO()
    report.show_by("op", ost=out, mode="csv", unit=None, columns=["fused_mrw"], sort="fused_mrw", top=1)
    assert out.getvalue().splitlines()[1:] == [f"linear,{4 * 224}", f"others,{4 * 192}", f"total,{POINTWISE}"]


def test_tables_say_that_bytes_are_those_after_fusion(report):
    remark = f"bytes are after fusion at level pointwise; without fusion {UNFUSED} B are read and written"
    assert report.fused().report.remarks == [remark]
    out = io.StringIO()
    report.fused().show_summary_report(out, "md")
    assert remark in out.getvalue()


def test_saved_reports(report):
    fused = report.fused()
    assert Report.from_json(report.to_json()).fused().report == fused.report
    again = Report.from_json(fused.to_json())
    assert again == fused.report
    assert again.trace.run.fusion == fused.report.trace.run.fusion
    with pytest.raises(CostError, match="already fused at level 'pointwise'"):
        again.fused("compiler")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": [[0], [1, 2]]}, "every call in exactly one"),
        ({"groups": [[0], [1, 2, 3], []]}, "every call in exactly one"),
        ({"groups": [[0], [1, 2, 3], [3]]}, "every call in exactly one"),
        ({"groups": [[0], "123"]}, "fusion.groups.1.: wrong type .*expected integers"),
        ({"level": "all"}, "fusion.level"),
        ({"unfused_mrw": -1}, "fusion.unfused_mrw"),
        ({"more": 1}, "unknown 'more'"),
    ],
)
def test_a_malformed_file(report, change, message):
    entries = json.loads(report.fused().to_json())
    entries["fusion"].update(change)
    with pytest.raises(CostError, match=message):
        Report.from_json(json.dumps(entries))


def test_reports_of_different_levels_are_not_compared(report):
    fused = report.fused().report
    assert compare(fused, fused).equal
    with pytest.raises(CostError, match="bytes of old are unfused, bytes of new are pointwise"):
        compare(report, fused)


def test_a_budget_for_the_bytes_after_fusion(report):
    assert check(report, {"fusion": "pointwise", "total": {"mrw": POINTWISE}}) == []
    (violation,) = check(report, {"fusion": "pointwise", "total": {"mrw": POINTWISE - 1, "flops": 10**6}})
    assert (violation.value, violation.reason) == (POINTWISE, "after fusion (pointwise)")
    baseline = {"fusion": "pointwise", "baseline": report.fused().report, "max_increase": "0%"}
    assert check(report, baseline) == check(report, {**baseline, "baseline": report}) == []
    with pytest.raises(CostError, match="unknown level of fusion 'all'"):
        check(report, {"fusion": "all", "total": {"mrw": 1}})


def test_the_command_line(report, tmp_path, capsys):
    saved = tmp_path / "report.json"
    report.to_json(saved)

    def output(*arguments: str) -> str:
        assert main([str(saved), *arguments, "--unit", "none"]) == 0
        return capsys.readouterr().out

    groups = output("--fusion", "pointwise", "--format", "md", "--columns", "names,mrw,unfused_mrw")
    assert f"| total | {POINTWISE} | {UNFUSED} |" in groups
    assert f"total,{POINTWISE}" in output(
        "--fusion", "pointwise", "--summary", "--columns", "type,mrw", "--format", "csv"
    )
    target = tmp_path / "fused.json"
    output("--fusion", "compiler", "--output", str(target))
    assert Report.from_json(target) == report.fused("compiler").report
    assert main(["diff", str(saved), str(saved), "--fusion", "pointwise", "--exit-code"]) == 0


@pytest.mark.parametrize("flag", ["--arena", "--receptive-field"])
def test_views_without_bytes_of_calls_cannot_be_fused(flag, capsys):
    with pytest.raises(SystemExit):
        main(["report.json", "--fusion", "pointwise", flag])
    assert f"--fusion cannot be used with {flag}" in capsys.readouterr().err


def test_a_convention_counts_a_fused_report(report):
    counted = report.fused().under("fvcore").report
    assert counted.total_report["mrw"] == POINTWISE
    assert counted.total_report["flops"] == report.under("fvcore").total


def test_levels_and_names_are_checked(report):
    with pytest.raises(ValueError, match=r"unknown level of fusion 'pointwis' .*Did you mean 'pointwise'\?"):
        report.fused("pointwis")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = report.fused().no_such_name


def test_the_page_has_the_bytes_without_fusion_beside_them(report, tmp_path):
    page = report.fused().to_html()
    data = json.loads(page.split('id="data"')[1].partition(">")[2].partition("</script>")[0])
    position = data["calls"]["columns"].index("unfused_mrw")
    assert data["added"] == [{"key": "unfused_mrw", "title": "Unfused R+W", "kind": "bytes", "adds": True}]
    assert data["totals"]["unfused_mrw"] == str(UNFUSED)
    assert [row[position] for row in data["calls"]["rows"]] == [str(4 * n) for n in (224, 128, 192, 128)]
    assert data["nodes"]["rows"][0][data["nodes"]["columns"].index("unfused_mrw")] == str(UNFUSED)
    assert data["totals"]["mrw"] == str(POINTWISE)
    assert "bytes after fusion at level pointwise" in page
    assert "unfused_mrw" not in json.dumps(json.loads(report.to_json()))
    saved, target = tmp_path / "report.json", tmp_path / "page.html"
    report.to_json(saved)
    assert main([str(saved), "--fusion", "pointwise", "--output", str(target)]) == 0
    assert '"unfused_mrw"' in target.read_text(encoding="utf-8")
    assert '"added":[]' in report.to_html()
