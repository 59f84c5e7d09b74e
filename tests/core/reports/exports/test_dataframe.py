import sys

import pytest

from costcore import Cost, CostError, Layer, Report, Trace
from tests.core.given_costs import dense, net, relu
from tests.core.toy_networks import nested_report
from tests.core.traces import Call, CallCost, Run


def test_a_dataframe(toy):
    frame = nested_report(toy).to_dataframe()
    assert list(frame.index) == ["Dense-1", "Double-1", "Double-2", "Dense-2", "Dense-3", "Double-3"]
    assert frame["flops"].sum() == 72
    assert frame.loc["Dense-2", "module"] == "head"
    call = CallCost(Call(Layer("op", {}), "Op", name="Op-1"), Cost(2**70, 8, 8, {}))
    assert Report(Trace((call,), Run())).to_dataframe()["flops"].iloc[0] == 2**70
    assert len(Report(Trace((), Run())).to_dataframe()) == 0


@pytest.mark.parametrize(
    ("parts", "options", "columns", "rows"),
    [
        ((), {"columns": ["macs"]}, ["type", "macs"], [["linear", 80], ["relu", 0]]),
        (("module",), {"columns": ["macs", "flops@fvcore"], "depth": 1}, None, [["a", 16, 16], ["b", 64, 64]]),
        (("module",), {"columns": ["macs"], "sort": "macs", "top": 1}, None, [["b", 64], ["others", 16]]),
        (
            ("module", "op"),
            {"columns": ["mrw"]},
            None,
            [["a.x", "linear", 96], ["a.y", "relu", 32], ["b", "linear", 320]],
        ),
    ],
)
def test_a_dataframe_has_the_rows_of_a_table(parts, options, columns, rows):
    pytest.importorskip("pandas")
    frame = net(dense("a.x"), relu("a.y"), dense("b", 8), framework="torch").to_pandas(*parts, **options)
    assert [*frame.columns] == (columns or [*parts, *options["columns"]]) and frame.to_numpy().tolist() == rows


def test_without_pandas_the_error_states_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CostError, match="pip install pandas"):
        nested_report(toy).to_dataframe()
