"""What ``print`` and notebooks show of results: compact, without scripts, and one line as repr."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

import costcore
from costcore import ComputationalCostHook, Tensor, TrainingLedger, estimate
from tests.core.analyses.measured.runs import linear, profiled, trace_of
from tests.core.analyses.timing.toy_device import calibrated_device
from tests.core.tables.overview.test_overview import Elements
from tests.core.tables.overview.test_public_results import reachable
from tests.frontends.pytorch.differences import HAS_MESH

DATA = (4, 3, 8, 8)


def net() -> torch.nn.Module:
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 10)]
    return torch.nn.Sequential(*layers)


@functools.cache
def step():
    return estimate(net(), DATA, backward=True, memory=True, optimizer="adamw")


@functools.cache
def inference():
    return estimate(net().eval(), DATA, record_api_calls=True)


@functools.cache
def hook():
    torch.manual_seed(0)
    with warnings.catch_warnings(), ComputationalCostHook(measure_time=True) as measured:
        net()(torch.ones(DATA))
    return measured


@functools.cache
def serving():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return costcore.ServingReport(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=50)))


def ranks():
    if not HAS_MESH:
        pytest.skip("a mesh needs PyTorch 2.5")
    from torch.distributed.tensor.parallel import ColwiseParallel

    plan = {"3": ColwiseParallel()}
    return costcore.estimate_ranks(net(), DATA, mesh={"tp": 2}, plan=plan, memory=True)


def plans():
    if not HAS_MESH:
        pytest.skip("a mesh needs PyTorch 2.5")
    options = {"devices": 2, "device": "h100-sxm5-80gb", "global_batch": 2, "meshes": [{"dp": 2}]}
    nn = torch.nn
    deep = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
    return costcore.plan(deep, ("batch", 4), **options)


def measured():
    calls = (linear(64, "a"), linear(8, "b"))
    return profiled(trace_of(*calls, classes={"": "Net", "a": "Block", "b": "Head"}), [20_000, 5_000]).measured()


DOCS = Path(__file__).parents[3] / "docs"

RESULT: Any = next(each for each in type(costcore.quantities()).__mro__ if each.__name__ == "Result")
"""The class of all results."""

RESULTS = {
    "Report": step,
    "ComputationalCostHook": hook,
    "FusedView": lambda: inference().fused(),
    "View": lambda: inference().under("fvcore"),
    "Memory": lambda: step().memory,
    "Allocator": lambda: step().memory.allocator(),
    "Arena": lambda: inference().arena(),
    "ReceptiveFields": lambda: inference().receptive_field(),
    "Comparison": lambda: costcore.compare(inference(), step()),
    "MemoryComparison": lambda: costcore.compare(step(), estimate(net(), (8, *DATA[1:]), memory=True)).memory,
    "TimeReport": lambda: inference().time(calibrated_device()),
    "TimeComparison": lambda: inference().time(calibrated_device()).compare(hook().report),
    "Plans": plans,
    "FitResult": lambda: costcore.fit(net(), DATA, "501 MiB", optimizer="sgd"),
    "LargestBatch": lambda: costcore.max_batch(net(), ("batch", *DATA[1:]), "501 MiB", optimizer="sgd"),
    "Accumulation": lambda: costcore.accumulation(net(), ("n", *DATA[1:]), global_batch=4096, memory="501 MiB"),
    "Explanation": lambda: costcore.explain(inference(), str(inference().total_report["macs"])),
    "Reconciliation": lambda: costcore.reconcile(inference(), "fvcore", "torch"),
    "TrainingLedger": lambda: TrainingLedger(step(), tokens=1e6, device="h100-sxm5-80gb"),
    "ModelTable": lambda: costcore.table({"a": net, "b": net}, DATA),
    "RankReports": ranks,
    "ServingReport": serving,
    "Phase": lambda: serving().decode(batch=2, context=64),
    "PhaseTime": lambda: serving().decode(batch=2, context=64).time("h100-sxm5-80gb"),
    "Speculation": lambda: serving().speculative(serving(), drafts=2, acceptance=0.5),
    "RequestRates": lambda: serving().requests("l4", prompt=8, output=4, tpot="1 ms"),
    "Table": lambda: inference().table("op"),
    "Kernels": lambda: inference().kernels(net().eval(), DATA),
    "Violations": lambda: costcore.check(inference(), {"total": {"macs": 1}}),
    "Measured": measured,
    "MeasuredChange": lambda: measured().against(measured()),
    "RankProfiles": lambda: costcore.profile_ranks(
        [Path(__file__).parents[3] / "docs" / f"rank{i}.trace.json.gz" for i in range(4)]
    ),
    "MFUMeter": lambda: costcore.MFUMeter(net(), device="h100-sxm5-80gb"),
}
"""A result of every class."""


def test_every_class_is_here():
    assert {each.__name__ for each in reachable() if issubclass(each, RESULT)} == RESULTS.keys()


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_shown(name):
    result = RESULTS[name]()
    assert type(result).__name__ == name
    assert "\n" not in repr(result) and len(repr(result)) < 200 and " object at 0x" not in repr(result)
    assert 0 < len(str(result)) < 20_000 and str(result) != repr(result)
    html = Elements(result._repr_html_())
    assert html.open == [] and not html.counts.keys() & {"script", "img", "link"}
    assert html.text and len(result._repr_html_()) < 100_000
    markdown = result._repr_markdown_()
    assert markdown.startswith("**") and not re.search("<(script|style|img)", markdown)


def shown(result) -> list[list[str]]:
    """Return the words of every line that ``print`` shows."""
    return [line.split() for line in str(result).splitlines()]


def test_memory_shows_its_peak_and_the_largest_blocks():
    """The weights of both layers: 4 (8 27 + 10 288) = 12,384 bytes and biases, 4 (8 + 10) = 72."""
    memory = step().memory
    assert ["Peak", *f"{memory.peak / 1024:.3f} KiB {memory.peak:,} B; {memory.where}".split()] in shown(memory)
    assert sum("all parameter" in line and "12.2 KiB" in line for line in str(memory).splitlines()) == 1


def test_ranks_show_what_each_holds():
    """10 outputs of the last layer are divided among two: 5 (288 + 1) and the 224 of the convolution are 1,669.

    At the peak are these, the input of 768 elements, and the 4 x 8 x 6 x 6 before and after the activation.
    """
    (table,) = ranks().to_dict()["tables"]
    assert [row["peak"] for row in table["rows"]] == [4 * (1669 + 768 + 2 * 1152)] * 2
    text = str(ranks())
    assert text.splitlines()[0] == "2 ranks of the mesh tp=2"
    assert text.count(" 1,669 |") >= 2


OWN_SCHEMAS = {
    **dict.fromkeys(("Report", "ComputationalCostHook", "FusedView", "View"), ("costcore.reports", "report")),
    "TrainingLedger": ("costcore.studies.training", "ledger"),
}
"""The package and the name of the schema of results with a documented format."""

ONE_TEXT = ("FusedView", "View", "Explanation", "MFUMeter")
"""Results whose text is a sentence, without their tables."""

OWN_CSV = ("Report", "ComputationalCostHook", "FusedView", "View")


@pytest.mark.parametrize("name", RESULTS)
def test_json_has_a_schema_and_reads_back(name):
    jsonschema = pytest.importorskip("jsonschema")
    result = RESULTS[name]()
    data = result.to_dict()
    package, schema = OWN_SCHEMAS.get(name, ("costcore.tables", "result"))
    text = files(package).joinpath(f"{schema}.schema.json").read_text("utf-8")
    jsonschema.validate(data, json.loads(text))
    assert json.loads(result.to_json()) == data


@pytest.mark.parametrize("name", [name for name in RESULTS if name not in OWN_SCHEMAS])
def test_data_has_the_exact_figures_and_every_row(name):
    result = RESULTS[name]()
    answer, data = result._content(), result.to_dict()
    assert [*data["figures"]] == [each.name for each in answer.figures]
    for figure in answer.figures:
        exact = getattr(figure.value, "value", figure.value)
        assert data["figures"][figure.name]["value"] == (list(exact) if isinstance(exact, tuple) else exact)
    for table, written in zip(answer.tables, data["tables"], strict=True):
        assert len(written["rows"]) == len(table.whole.rows)
        assert {column["key"] for column in written["columns"]} == {column.key for column in table.columns}
    for table in answer.tables:
        numbers = [c.key for c in table.columns if c.kind in ("flops", "bytes")]
        assert not any(isinstance(row.get(key), float) for row in table.whole.rows for key in numbers)


@pytest.mark.parametrize("name", [name for name in RESULTS if name not in OWN_CSV])
def test_csv_and_data_frames_have_the_rows(name):
    result = RESULTS[name]()
    data = result.to_dict() if name not in OWN_SCHEMAS else RESULT.to_dict(result)
    for index, table in enumerate(data["tables"]):
        rows = [*csv.DictReader(io.StringIO(result.to_csv(table=index)))]
        assert len(rows) == len(table["rows"])
        for row, exact in zip(rows, table["rows"], strict=True):
            for key, value in exact.items():
                if isinstance(value, (int, float)):
                    assert type(value)(row[key]) == value
        frame = result.to_pandas(index)
        assert [*frame.columns] == [column["key"] for column in table["columns"]] and len(frame) == len(rows)
        for key in frame.columns:
            exact = [row[key] for row in table["rows"]]
            if exact and all(isinstance(value, int) for value in exact):
                assert frame[key].tolist() == exact
    if not data["tables"]:
        rows = {row["name"]: row["value"] for row in csv.DictReader(io.StringIO(result.to_csv()))}
        assert rows.keys() == data["figures"].keys()


@pytest.mark.parametrize("name", RESULTS)
def test_every_file_has_its_suffix(name, tmp_path):
    result = RESULTS[name]()
    for suffix in (".txt", ".md", ".csv", ".json", ".html"):
        path = tmp_path / f"result{suffix}"
        result.save(path)
        assert path.read_text("utf-8").strip()
    assert (tmp_path / "result.txt").read_text("utf-8").rstrip("\n") == written(result)
    assert (tmp_path / "result.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def written(result) -> str:
    out = io.StringIO()
    result.show(out)
    return out.getvalue().rstrip("\n")


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_leaves_as_latex_a_workbook_and_a_picture(name, tmp_path):
    result = RESULTS[name]()
    result.save(tmp_path / "a.tex")
    text = (tmp_path / "a.tex").read_text("utf-8")
    assert text.count("\\begin{tabular}") == text.count("\\bottomrule") >= 1
    openpyxl = pytest.importorskip("openpyxl")
    result.save(tmp_path / "a.xlsx")
    assert openpyxl.load_workbook(tmp_path / "a.xlsx").sheetnames
    if name in WITHOUT_A_PICTURE:
        with pytest.raises(costcore.CostError, match="there is nothing to draw"):
            result.plot()
        return
    assert result.plot(theme="dark")
    pytest.importorskip("matplotlib")
    result.save(tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text("utf-8")


WITHOUT_A_PICTURE = ("Explanation", "ModelTable", "ReceptiveFields", "Violations")
"""Results of text alone, and a table whose models fail."""


@pytest.mark.parametrize("name", RESULTS)
def test_show_writes_what_print_shows_with_all_rows(name, monkeypatch):
    result = RESULTS[name]()
    tables = [table for table in result._content().tables if table.most is None]
    assert written(result) == str(result) or max(map(len, tables)) > 40
    tables = [table for table in tables if table.is_open or name == "Comparison"]
    monkeypatch.setattr("costcore.tables.answer.MOST_ROWS", 1)
    monkeypatch.setattr("costcore.studies.comparisons.comparison.MOST_ROWS", 1)
    long = name not in ONE_TEXT and any(len(table) > 1 for table in tables)
    assert (len(written(result)) > len(str(result))) == long
    if long and name != "Comparison":
        assert "(the first 1 of " in str(result) and "(the first 1 of " in result._repr_markdown_()
        assert "(the first 1 of " in result._repr_html_()
    assert "(the first " not in written(result) + result.to_markdown() + result.to_html()


def test_a_hook_without_a_run_can_be_shown():
    hook = ComputationalCostHook()
    assert str(hook).startswith("0 calls, complete")
    assert repr(hook).startswith("<ComputationalCostHook: <Report: 0 calls")


def test_tensors_can_be_given_to_a_ledger_without_a_report():
    model = torch.nn.Sequential(torch.nn.Embedding(20, 4), torch.nn.Linear(4, 20))
    ledger = TrainingLedger(model, Tensor((2, 8), "int64"), tokens=160)
    # 16 tokens x 80 multiply-adds forward, as many for the gradient of the input and of the weight: 6 x 80 a token
    assert ledger.model_flops == 76_800 and "Model FLOPs per token" in str(ledger)
