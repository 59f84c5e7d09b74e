"""A total over the values of a name among the sizes."""

from __future__ import annotations

import re

import pytest
import torch

from costcore import estimate
from tests.command_line import main

MODEL = """
import torch

def linear():
    return torch.nn.Linear(4, 8)
"""


@pytest.fixture(scope="module")
def report():
    return estimate(torch.nn.Linear(4, 8), ("batch", "seq", 4), ranges={"seq": (2, 64)})


def test_a_curve(report, tmp_path):
    # 4 x 8 products for each of 2 x seq rows
    found = report.plot("macs", over="seq", at={"batch": 2}, sizes=[2, 10, 64], target=tmp_path / "macs.csv")
    assert found == [(2, 128), (10, 640), (64, 4096)]
    assert (tmp_path / "macs.csv").read_text() == "seq,macs\n2,128\n10,640\n64,4096\n"
    report.plot("mread", over="seq", at={"batch": 2}, target=tmp_path / "read.svg")
    drawn = (tmp_path / "read.svg").read_text()
    assert "MemRead" in drawn and "<path" in drawn


def test_the_values_of_a_name_without_sizes(report):
    sizes = [size for size, _ in report.plot("macs", over="seq", at={"batch": 1})]
    assert (sizes[0], sizes[-1]) == (2, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over": "length"}, "unknown symbol 'length'"),
        ({"over": "seq"}, "no value for batch (at={'batch': …}, --at batch=…)"),
        ({"over": "seq", "at": {"batch": 1}, "target": "a.gif"}, "'a.gif' has an unknown suffix"),
        ({"over": "seq", "at": {"batch": 1}, "column": "mac"}, "unknown column 'mac'"),
    ],
)
def test_mistakes(report, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        report.plot(**options)


def test_the_command(tmp_path, capsys):
    path = tmp_path / "model_to_plot.py"
    path.write_text(MODEL)
    target = f"{path}:linear"
    assert main(["plot", target, "--input", "batch,4", "--over", "batch=1:4:log2", "--column", "macs"]) == 0
    assert capsys.readouterr().out == "batch,macs\n1,32\n2,64\n4,128\n"
    image = str(tmp_path / "a.svg")
    assert main(["plot", target, "--input", "batch,4", "--over", "batch=1:64:8", "--output", image]) == 0
    for text in ("", "=8:4:1", "=1:2", "=1:9:0", "=0:9:log2", "=a"):
        with pytest.raises(SystemExit):
            main(["plot", target, "--input", "batch,4", "--over", f"batch{text}"])
        assert "is invalid (expected 128:4096:128" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plot", target, "--input", "batch,4", "--over", "batch=1:1000000000000:1"])
    assert "is more than 1,000,000 sizes" in capsys.readouterr().err
    assert main(["plot", target, "--input", "batch,4", "--over", "batch=1,8,64", "--column", "macs"]) == 0
    assert capsys.readouterr().out == "batch,macs\n1,32\n8,256\n64,2048\n"
