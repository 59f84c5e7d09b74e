import io
import sys
from pathlib import Path

import joblib
import pytest

from costcore import estimate, table

ROOT = str(Path(__file__).parents[3])

MODEL = """
import os, sys
if {root!r} not in sys.path:
    sys.path.append({root!r})
from tests.core import toy_framework as toy
toy.register_here()
small = toy.Model("toy::Double")
large = toy.Model("toy::Double", "toy::Double")
def broken():
    raise KeyError("weights")
def dies():
    os._exit(9)
def where():
    return toy.Model(*["toy::Double"] * (1 + (os.getpid() != {pid})))
"""


@pytest.fixture
def model(tmp_path, toy):
    import os

    path = tmp_path / "model.py"
    path.write_text(MODEL.format(root=ROOT, pid=os.getpid()))
    return path


def flops(result):
    return [row.costs.get("flops") for row in result.rows]


def test_one_row_per_model_in_the_given_order(toy):
    models = [toy.Model("toy::Double"), ("two", toy.Model("toy::Double", "toy::Double")), ("wide", toy.Model(), (9, 9))]
    result = table(models, (2, 3))
    assert [row.name for row in result.rows] == ["Model", "two", "wide"]
    assert flops(result) == [6, 12, 0]
    assert result.failed == []
    assert result.rows[1].costs == {"n_params": 0, "flops": 12, "macs": 0, "mread": 48, "mwrite": 48, "activations": 48}


def test_a_mapping_gives_names_and_options_are_for_all(toy):
    result = table({"a": toy.Model("toy::Double")}, (2, 3), layout="free", fma_1flop=False)
    assert [(row.name, row.status) for row in result.rows] == [("a", "complete")]


def test_reports_and_saved_reports_are_models_too(toy, tmp_path):
    report = estimate(toy.Model("toy::Double"), (2, 3))
    report.to_json(tmp_path / "saved.json")
    result = table({"counted": report, "saved": str(tmp_path / "saved.json")})
    assert [(row.name, row.costs["flops"], row.status) for row in result.rows] == [
        ("counted", 6, "complete"),  # 2 x 3 products
        ("saved", 6, "complete"),
    ]


def test_partial_and_failed_rows_have_the_reason(toy):
    result = table([toy.Model("toy::Wave", "toy::Wave"), object(), toy.Model("toy::Double")], (2, 3))
    assert result.rows[0].status == "partial: not counted: 2 calls of 1 unsupported operator (Wave)"
    assert result.rows[1].failed and "is not a supported model" in result.rows[1].status
    assert flops(result) == [0, None, 6]


def test_any_figure_and_any_convention_is_a_column(toy):
    """6 elements of 4 bytes are read and 6 written, 48 bytes; fvcore counts no operator that it does not list."""
    columns = ["mrw", "fvcore", "n_layers"]
    result = table([("a", toy.Model("toy::Double"))], (2, 3), columns=columns)
    assert result.rows == (("a", {"mrw": 48, "fvcore": 0, "n_layers": 1}, "complete", False, None),)
    out = io.StringIO()
    result.show(out, "csv", None)
    assert out.getvalue() == "Model,MemR+W B,MACs (fvcore),# Calls,Status\na,48,0,1,complete\n"


def test_a_figure_that_a_report_does_not_have_is_unknown_with_the_reason(toy):
    result = table([("a", toy.Model("toy::Double"))], (2, 3), columns=["flops", "peak_memory"])
    assert result.rows[0].costs == {"flops": 6, "peak_memory": None}
    reason = "complete; peak_memory is unknown: memory was not recorded. Pass memory=True"
    assert result.rows[0].status.startswith(reason)
    out = io.StringIO()
    result.show(out, "csv", None)
    assert out.getvalue().splitlines()[1].startswith('a,6,,"complete; peak_memory is unknown')


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("flops", TypeError, "columns must be a list of names"),
        ([1], TypeError, "columns must be a list of names"),
        ([], ValueError, "columns is empty"),
        (["flops", "flops"], ValueError, "column 'flops' is given twice"),
        (["flop"], ValueError, r"unknown column .flop.\. Did you mean .flops.\? Expected one of flops, "),
    ],
)
def test_columns_are_names_of_figures(columns, error, message):
    with pytest.raises(error, match=message):
        table([], columns=columns)


@pytest.mark.frontend("pytorch")
def test_a_column_of_peak_memory_records_memory():
    """At the peak are the input, the weights (4 x 3 and 4) and the output; ptflops counts the bias as 4 more."""
    import torch

    linear = torch.nn.Linear(3, 4)
    (row,) = table([("linear", linear)], (1, 3), columns=["peak_memory", "ptflops"]).rows
    assert row.costs == {"peak_memory": 4 * (3 + 16 + 4), "ptflops": 4 * 3 + 4}


def test_a_table_is_shown_with_its_failures(toy):
    out = io.StringIO()
    result = table([object(), ("ok", toy.Model("toy::Double"), (1000, 3))])
    result.show(out, "md")
    lines = out.getvalue().splitlines()
    assert lines[0] == "| Model | Params | KFLOPs | MACs | MemRead KiB | MemWrite KiB | Activations KiB | Status |"
    assert lines[2].startswith("| object |  |  |  |  |  |  | failed: &lt;object object at ")
    assert lines[3] == "| ok | 0 | 3.0 | 0 | 11.72 | 11.72 | 11.72 | complete |"  # 3000 elements of 4 bytes


def test_a_table_of_nothing_is_its_header():
    out = io.StringIO()
    table([]).show(out, "csv", None)
    assert out.getvalue() == "Model,Params,FLOPs,MACs,MemRead B,MemWrite B,Activations B,Status\n"


def test_models_are_counted_in_other_processes(model):
    result = table([f"{model}:{name}" for name in ("small", "broken", "where", "large")], (2, 3), jobs=2)
    assert flops(result) == [6, None, 12, 12]
    assert "KeyError: 'weights'" in result.rows[1].status


def test_a_process_that_ends_does_not_affect_other_rows(model):
    result = table([f"{model}:{name}" for name in ("small", "dies", "large", "small")], (2, 3), jobs=2)
    assert flops(result) == [6, None, 12, 6]
    assert result.rows[1].status.startswith("the process of this model ended")


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_joblib_configuration_selects_another_backend(model, backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert flops(table([f"{model}:small", f"{model}:large"], (2, 3))) == [6, 12]


def test_joblib_is_needed_for_clusters_only(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    models = [f"{model}:small", f"{model}:where"]
    assert flops(table(models, (2, 3))) == [6, 6]
    assert flops(table(models, (2, 3), jobs=2)) == [6, 12]


def test_a_terminal_shows_a_progress_bar(toy, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    table([toy.Model("toy::Double")] * 3, (2, 3))
    assert "models:   0%" in sys.stderr.getvalue() and "0/3" in sys.stderr.getvalue()


@pytest.mark.parametrize("jobs", [0, True, 1.5, "2"])
def test_jobs_are_a_number(jobs):
    with pytest.raises(ValueError, match="jobs must be"):
        table([], jobs=jobs)


@pytest.mark.parametrize("models", ["a.onnx", [(1, "a.onnx")], [("a",)]])
def test_models_are_a_list(models):
    with pytest.raises(TypeError, match="model"):
        table(models)
