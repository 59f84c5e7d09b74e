"""A report under a convention: totals, groups, what is ignored, tables, and what cannot be counted."""

from __future__ import annotations

import io
import pickle

import pytest

import costcore
from costcore import CostError, Report, Trace, hookimpl, plugins
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.given_costs import Step, dense, net, relu
from tests.core.studies.training.toy_transformer import toy_step
from tests.core.traces import Call, CallCost, Run

# Multiply-adds by hand: 4 x 4 = 16 and 6 x 6 = 36; a relu of 4 and one of 6 elements.
NETWORK = (dense("body.0", 4), relu("body.1", 4), dense("head", 6), relu("", 6))


@pytest.fixture
def report():
    return net(*NETWORK)


def written(show, **options):
    out = io.StringIO()
    show(out, **options)
    return out.getvalue()


def said(answer) -> str:
    figures = [f"{figure.title} {figure.value} ({figure.note})" for figure in answer.figures]
    rows = [str(row) for table in answer.tables for row in table.rows]
    return "\n".join([answer.title, *figures, *rows, *answer.remarks])


def test_the_total_is_exact_and_has_a_unit(report):
    view = report.under("fvcore")
    assert (view.total, view.unit, view.name, view.status) == (52, "MAC", "fvcore", "complete")
    assert type(view.total) is int
    assert repr(view) == "<52 MACs as fvcore 0.1.5 counts>"
    doubled = report.under("torch")
    assert (doubled.total, doubled.unit) == (104, "FLOP")


def test_a_view_can_be_pickled(report):
    view = report.under("fvcore")
    assert pickle.loads(pickle.dumps(view)).by_call == view.by_call


def test_amounts_by_call_group_and_rule(report):
    view = report.under("fvcore")
    assert view.by_call == {"linear-1": 16, "relu-1": 0, "linear-2": 36, "relu-2": 0}
    assert view.by("op") == {"linear": 52, "relu": 0}
    assert view.by("module") == {"body.0": 16, "body.1": 0, "head": 36, "": 0}
    assert view.by("phase", "op") == {("forward", "linear"): 52, ("forward", "relu"): 0}
    assert view.by_term == {"linear": 52}
    (first, *_) = view.lines
    assert (first[0].name, first[1].rule, first[1].expression, first[1].amount) == ("linear-1", "linear", "macs", 16)
    with pytest.raises(ValueError, match="unknown"):
        view.by("colour")
    with pytest.raises(TypeError):
        view.by()


def test_what_is_ignored_is_listed_by_operator(report):
    assert report.under("fvcore").ignored == {"relu": ["relu-1", "relu-2"]}
    assert report.under("costcore").ignored == {}
    moving = net(dense("a", 4), Step("reshape"))
    assert moving.under("fvcore").ignored == {}


def test_weights_of_kinds(report):
    # 52 fused multiply-adds and 10 additions
    assert report.under("costcore").total == 62 == report.total_report["flops"]
    assert report.under("costcore-fma2").total == 2 * 52 + 10
    assert report.under("macs").total == report.under("mults").total == 52


def test_tables_have_its_amounts_and_unit(report):
    view = report.under("fvcore")
    table = written(view.show_report, mode="csv", columns=["name", "flops"], unit=None)
    assert table.splitlines()[0].startswith("Layer name,") or "MACs" in table.splitlines()[0]
    assert "MACs" in table and "FLOPs" not in table
    assert "linear-2,36" in table and "relu-1,0" in table
    assert "52" in written(view.show_summary_report, mode="md", unit=None)

    assert view.tree()
    assert "MACs" in view.to_markdown() and "MACs" in view.to_csv()
    assert "<html" in view.to_html()
    with pytest.raises(AttributeError):
        view.no_such_method()


def test_the_report_is_as_before(report):
    before = report.to_dict()
    report.under("fvcore").to_csv()
    assert report.to_dict() == before
    assert report.under("fvcore").report.total_report["flops"] == 52
    assert report.total_report["flops"] == 62


def test_a_call_that_costcore_cannot_count_stays_unknown():
    view = net(dense("a"), Step("mystery", "b", known=False)).under("fvcore")
    assert view.status == "partial"
    assert view.total == 16
    assert view.by_call == {"linear-1": 16}


def test_an_unknown_name_lists_the_known_ones(report):
    with pytest.raises(
        ValueError, match=r"unknown convention 'fvcor'. Did you mean 'fvcore'. Expected one of .*torchprofile"
    ):
        report.under("fvcor")
    with pytest.raises(TypeError, match=r"a convention must be a name or the path of a TOML file .got 3."):
        report.under(3)
    with pytest.raises(OSError, match=r"lost\.toml cannot be read"):
        report.under("lost.toml")


def test_aliases(report):
    assert report.under("FlopCounterMode").name == "torch"
    assert report.under("flop_counter").total == 104


def test_conventions_by_modules_need_a_capture_of_modules():
    onnx = net(*NETWORK, framework="onnx")
    for name in ("thop", "ptflops", "ptflops-modules", "deepspeed", "calflops", "torchinfo", "torch-scan", "torchstat"):
        with pytest.raises(CostError, match=f"convention '{name}' counts by the modules .*a capture of onnx lacks"):
            onnx.under(name)
    for name in ("fvcore", "torch", "torchprofile", "timm", "torchvision", "ptflops-aten", "macs", "costcore"):
        assert onnx.under(name).total > 0


def test_conventions_by_nodes_need_nodes(report):
    with pytest.raises(CostError, match="convention 'onnx-tool' counts operators of onnx"):
        report.under("onnx-tool")


def test_a_file_of_ones_own(report, tmp_path):
    file = tmp_path / "ours.toml"
    file.write_text(
        'name = "ours"\ntool = "our counter"\nunit = "OP"\ncalls_it = "ops"\n'
        '[[count]]\n[count.rules]\nlinear = "2 * macs"\nrelu = "x"\n',
        encoding="utf-8",
    )
    view = report.under(file)
    assert (view.total, view.unit, view.name) == (2 * 52 + 10, "OP", "ours")
    assert report.under(str(file)).total == view.total


def test_conventions_of_a_plugin(report, tmp_path):
    file = tmp_path / "theirs.toml"
    file.write_text(
        'name = "theirs"\naliases = ["others"]\nunit = "MAC"\nextends = "macs"\n[[count]]\n[count.rules]\nrelu = "100"',
        encoding="utf-8",
    )

    class Theirs:
        @hookimpl
        def costcore_conventions(self):
            return [file]

    plugin = Theirs()
    plugins.register(plugin)
    try:
        assert costcore.conventions()["theirs"].n_rules == 2
        assert report.under("others").total == 52 + 200
    finally:
        plugins.unregister(plugin)
    assert "theirs" not in costcore.conventions()
    with pytest.raises(ValueError, match="unknown convention 'theirs'"):
        report.under("theirs")


def test_closed_forms_need_a_transformer(report):
    with pytest.raises(CostError, match="need a model with attention"):
        report.under("palm")


def test_saved_reports_count_alike(report, tmp_path):
    saved = type(report).from_json(report.to_json())
    assert saved.under("fvcore").total == 52


def test_a_convention_that_extends_itself_says_so(tmp_path, report, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, parent in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\nunit = "MAC"\nextends = "{parent}.toml"')
    with pytest.raises(CostError, match=r"a\.toml: it extends itself, by a\.toml and b\.toml"):
        report.under("a.toml")


def test_all_that_a_view_says(report, golden):
    """4 x 4 + 6 x 6 multiply-adds of linear layers, and none of both relus; 62 with their 10 comparisons."""
    looped = net(Step("conv", macs=1_234_567), Step("linear", macs=1), Step("odd", known=False))
    views = [report.under("fvcore"), report.under("costcore"), looped.under("fvcore"), toy_step().under("palm")]
    texts = [text for view in views for text in (repr(view), written(view.show), said(view._content()))]
    texts += [views[2].describe(unit, digits) for unit, digits in (("auto", 3), (None, 0), ("K", 1))]
    golden("conventions_views.txt", "\n".join([*texts, ""]))


def test_words_of_a_description_are_checked(report):
    with pytest.raises(ValueError, match="unit"):
        report.under("fvcore").describe("X")
    with pytest.raises(ValueError, match="n_digits"):
        report.under("fvcore").describe(n_digits=-1)


def test_executions_in_loops_are_one_call():
    """Three executions of 16 multiply-adds that read 5, write 7 and send 2 bytes."""
    layer = Layer("linear", {"x": Tensor((4,))}, [Tensor((4,))])
    costs = Cost(Operations(fma=16), 5, 7, {}, 16, 2)
    calls = [Call(layer, "linear", name=f"l{n}", times=n) for n in (3, 1)]
    report = Report(Trace(tuple(CallCost(call, costs) for call in calls), Run()))
    thrice, once = report.under("macs").report.trace
    assert thrice.call.times == once.call.times == 1
    assert [*thrice.cost] == [48, 15, 21, {}, 48, 6]
    assert [*once.cost] == [16, 5, 7, {}, 16, 2]
