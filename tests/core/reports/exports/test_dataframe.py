import sys

import pytest

from costcore import Cost, CostError, Layer, Report, Trace
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


def test_without_pandas_the_error_states_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CostError, match="pip install pandas"):
        nested_report(toy).to_dataframe()
