"""The commands about conventions: --convention, conventions, explain, reconcile."""

from __future__ import annotations

import json

import pytest

from costcore import Report
from tests.command_line import main

torch = pytest.importorskip("torch")

MODEL = """
import torch
def make():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
def larger():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()).eval()
"""

MACS = 8 * 10 * 10 * 3 * 9
"""Of the convolution: 800 outputs of 27 products each."""

OUT = 8 * 10 * 10


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return f"{path}:make"


def test_a_convention_and_fusion_go_with_memory(net, capsys):
    """Neither changes the blocks; what they count is printed below them."""
    arguments = [net, "--input", "1x3x10x10", "--memory", "--unit", "none", "--format", "csv"]
    assert main(arguments) == 0
    alone = capsys.readouterr().out
    assert main([*arguments, "--convention", "fvcore", "--fusion", "pointwise"]) == 0
    both = capsys.readouterr()
    assert both.out == alone
    assert f"{MACS + 2 * OUT} MACs (fvcore 0.1.5 calls them flops)" in both.err
    assert "bytes are after fusion at level pointwise" in both.err
    assert "memory is for a run without fusion" in both.err


def test_the_answer_of_a_convention(net, capsys):
    assert main([net, "--input", "1x3x10x10", "--convention", "fvcore", "--unit", "none"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{MACS + 2 * OUT} MACs (fvcore 0.1.5 calls them flops): conv {MACS}, batch_norm {2 * OUT}"
    assert out[1] == "calls that fvcore ignores: relu 1"


def test_functions_are_recorded_where_a_convention_needs_them(net, capsys):
    assert main([net, "--input", "1x3x10x10", "--convention", "ptflops", "--unit", "none"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{MACS + OUT + 2 * OUT + 2 * OUT} MACs (ptflops 0.7.5, backend=pytorch calls them MACs)")
    assert "record_api_calls" not in err


def test_a_table_of_a_convention(net, capsys):
    options = ["--convention", "fvcore", "--format", "csv", "--unit", "none", "--columns", "name,flops"]
    assert main([net, "--input", "1x3x10x10", *options]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "Layer name,MACs (fvcore)",
        f"conv2d-1,{MACS}",
        f"batch_norm-1,{2 * OUT}",
        "relu-1,0",
        f"total,{MACS + 2 * OUT}",
    ]


def test_a_saved_report_keeps_the_unit_of_its_convention(net, tmp_path, capsys):
    file = tmp_path / "report.json"
    assert main([net, "--input", "1x3x10x10", "--convention", "fvcore", "--output", str(file)]) == 0
    report = Report.from_json(file)
    assert (report.trace.run.convention, report.trace.run.unit) == ("fvcore", "MACs (fvcore)")
    assert report.total_report["flops"] == MACS + 2 * OUT


def test_several_models_under_a_convention(net, capsys):
    command = ["table", net, "--input", "1x3x10x10", "--convention", "thop", "--format", "csv", "--unit", "none"]
    assert main(command) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split(",")[2] == "MACs (thop)"
    assert row.split(",")[2] == str(MACS + 4 * OUT)


def test_a_budget_under_a_convention(net, tmp_path, capsys):
    budget = tmp_path / "budget.toml"
    budget.write_text(f'convention = "fvcore"\n[total]\nflops = {MACS + 2 * OUT}\n')
    assert main(["check", net, "--input", "1x3x10x10", "--budget", str(budget)]) == 0
    budget.write_text(f'convention = "fvcore"\n[total]\nflops = {MACS + 2 * OUT - 1}\n')
    assert main(["check", net, "--input", "1x3x10x10", "--budget", str(budget)]) == 1
    assert "(as fvcore counts), 1 over" in capsys.readouterr().out
    budget.write_text('convention = "fvcor"\n[total]\nflops = 1\n')
    assert main(["check", net, "--input", "1x3x10x10", "--budget", str(budget)]) == 2
    assert "budget.toml, line 1: unknown convention 'fvcor'" in capsys.readouterr().err


def test_an_unknown_convention(net, capsys):
    with pytest.raises(SystemExit) as error:
        main([net, "--input", "1x3x10x10", "--convention", "fvcor"])
    assert error.value.code == 2
    assert "unknown convention 'fvcor'. Did you mean 'fvcore'? Expected one of " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "cannot be read: No such file or directory"), ("name = 3", "name must be a text (got 3)"), ("[[", "TOML")],
)
def test_a_file_that_is_no_convention(net, tmp_path, capsys, text, sentence):
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_text(text)
    given = str(file)
    for command in ([net, "--convention", given], ["conventions", given], ["reconcile", net, given, "macs"]):
        assert main([*command, *(["--input", "1x3x10x10"] if net in command else [])]) == 1
        assert sentence in capsys.readouterr().err


def test_all_conventions_are_listed(capsys):
    assert main(["conventions", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Name,Tool,Unit,It says,# Rules,What it counts"
    assert any(line.startswith("fvcore,fvcore 0.1.5,MAC,flops,") for line in lines)


def test_the_rules_of_one(capsys):
    assert main(["conventions", "timm", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "By,Rule for,MAC"
    assert "op,attention,macs" in lines


def test_explain(net, capsys):
    assert main(["explain", net, f"{(MACS + 4 * OUT) / 1000:g}K", "--input", "1x3x10x10", "--format", "table"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "24.8K may be what thop 0.1.1 counts (also ptflops-modules, torchstat, ultralytics-thop): 24,800."


def test_explain_as_data(net, capsys):
    assert main(["explain", net, str(MACS), "--input", "1x3x10x10", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["macs"] == MACS
    assert answer["answers"][0][0] == {
        "convention": "macs",
        "unit": "MAC",
        "value": MACS,
        "price": 0,
        "changes": [],
        "size": "",
    }


def test_nothing_explains_it(net, capsys):
    assert main(["explain", net, "77.7T", "--input", "1x3x10x10", "--format", "table"]) == 1
    assert "another network" in capsys.readouterr().out


def test_a_number_that_is_none(net, capsys):
    with pytest.raises(SystemExit) as error:
        main(["explain", net, "many", "--input", "1x3x10x10"])
    assert error.value.code == 2
    assert "'many' is not a number" in capsys.readouterr().err


def test_reconcile(net, tmp_path, capsys):
    command = ["reconcile", net, "thop", "macs", "--input", "1x3x10x10"]
    assert main([*command, "--format", "md"]) == 0
    assert f"| thop | {MACS + 4 * OUT:,} |  |  |" in (out := capsys.readouterr().out)
    assert f"batch_norm | \N{MINUS SIGN}{4 * OUT:,} | 1 call | 4 per input element → not counted |" in out
    for suffix in ("html", "json", "md", "csv"):
        assert main([*command, "--output", str(tmp_path / f"why.{suffix}")]) == 0
    summary = f"macs differs from thop by \N{MINUS SIGN}{4 * OUT:,}; batch_norm has the largest part"
    assert summary in (tmp_path / "why.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "why.json").read_text())["difference"] == -4 * OUT


def test_reconcile_two_models(net, capsys):
    other = net.replace(":make", ":larger")
    command = ["reconcile", net, "macs", "macs", "--other", other, "--input", "1x3x10x10", "--format", "json"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["difference"] == sum(line["amount"] for line in result["lines"]) == MACS
