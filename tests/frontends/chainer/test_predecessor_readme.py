"""The calls in the README of chainer-computational-cost, with the numbers it prints.

Two names differ: Chainer 7.8.1 runs ``MaxPoolingND`` instead of ``MaxPooling2D``, and the attributes of a layer have
canonical names.
"""

from __future__ import annotations

import csv
import io

import chainer
import chainer.functions as F  # noqa: N812 - as in the README
import chainer.links as L  # noqa: N812
import numpy as np
import pytest

from costcore import ComputationalCostHook, CostWarning, SummaryColumns
from tests.frontends.chainer.zero_weights import with_zero_weights

LAYERS = """\
Convolution2DFunction-1 0.087 0.001 0.012 0.013
ReLU-1 0.003 0.012 0.012 0.024
Convolution2DFunction-2 1.85 0.012 0.012 0.024
ReLU-2 0.003 0.012 0.012 0.024
MaxPoolingND-1 0.002 0.012 0.003 0.015
Convolution2DFunction-3 0.925 0.003 0.006 0.009
ReLU-3 0.002 0.006 0.006 0.012
Convolution2DFunction-4 1.85 0.007 0.006 0.013
ReLU-4 0.002 0.006 0.006 0.012
MaxPoolingND-2 0.001 0.006 0.001 0.007
Convolution2DFunction-5 0.925 0.003 0.003 0.006
ReLU-5 0.001 0.003 0.003 0.006
Convolution2DFunction-6 1.85 0.005 0.003 0.008
ReLU-6 0.001 0.003 0.003 0.006
Convolution2DFunction-7 1.85 0.005 0.003 0.008
ReLU-7 0.001 0.003 0.003 0.006
MaxPoolingND-3 0.001 0.003 0.001 0.004
Convolution2DFunction-8 0.925 0.005 0.001 0.007
ReLU-8 0.0 0.001 0.001 0.003
Convolution2DFunction-9 1.85 0.01 0.001 0.012
ReLU-9 0.0 0.001 0.001 0.003
Convolution2DFunction-10 1.85 0.01 0.001 0.012
ReLU-10 0.0 0.001 0.001 0.003
MaxPoolingND-4 0.0 0.001 0.0 0.002
Convolution2DFunction-11 0.462 0.009 0.0 0.01
ReLU-11 0.0 0.0 0.0 0.001
Convolution2DFunction-12 0.462 0.009 0.0 0.01
ReLU-12 0.0 0.0 0.0 0.001
Convolution2DFunction-13 0.462 0.009 0.0 0.01
ReLU-13 0.0 0.0 0.0 0.001
MaxPoolingND-5 0.0 0.0 0.0 0.0
Reshape-1 0.0 0.0 0.0 0.0
LinearFunction-1 0.103 0.383 0.0 0.383
ReLU-14 0.0 0.0 0.0 0.0
LinearFunction-2 0.017 0.063 0.0 0.063
ReLU-15 0.0 0.0 0.0 0.0
LinearFunction-3 0.004 0.015 0.0 0.015
Softmax-1 0.0 0.0 0.0 0.0
total 15.488 0.623 0.107 0.729
"""

# type, layers, GFLOPs, GiB read, written, both, and their shares
KINDS = """\
Convolution2DFunction 13 15.347 0.089 0.050 0.139 99.085% 14.237% 47.297% 19.073%
ReLU 15 0.014 0.050 0.050 0.101 0.088% 8.11% 47.325% 13.847%
MaxPoolingND 5 0.005 0.023 0.006 0.029 0.03% 3.662% 5.343% 3.908%
Reshape 1 0 0 0 0 0.0% 0.0% 0.0% 0.0%
LinearFunction 3 0.124 0.461 0 0.461 0.798% 73.991% 0.032% 63.171%
Softmax 1 0 0 0 0 0.0% 0.001% 0.003% 0.001%
total 38 15.488 0.623 0.107 0.729 100.0% 100.0% 100.0% 100.0%
"""


def published(text):
    return [[name, *(float(cell.rstrip("%")) for cell in cells)] for name, *cells in map(str.split, text.splitlines())]


@pytest.fixture(scope="module")
def cch():
    net = with_zero_weights(L.VGG16Layers)
    x = np.random.RandomState(0).random_sample((1, 3, 224, 224)).astype(np.float32)
    with (
        chainer.no_backprop_mode(),
        chainer.using_config("train", False),
        ComputationalCostHook(fma_1flop=True) as cch,
    ):
        net(x)
    return cch


def cells(table):
    """The rows of a table in Markdown or in boxes, without the header."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[0] == "|"]
    first = next(i for i, row in enumerate(rows) if row[0].startswith("Convolution2DFunction"))
    return rows[first:]


def shown(show, n_columns, **options):
    stream = io.StringIO()
    show(ost=stream, **options)
    rows = [row[:n_columns] for row in cells(stream.getvalue())]
    return [[row[0], *(float(cell.rstrip("%")) for cell in row[1:])] for row in rows]


def test_every_layer(cch, capsys):
    cch.show_report(unit="G", mode="md")

    out = capsys.readouterr().out
    assert out.splitlines()[0] == "| Layer name | GFLOPs | MemRead GiB | MemWrite GiB | MemR+W GiB |"
    assert [[row[0], *map(float, row[1:])] for row in cells(out)] == published(LAYERS)


@pytest.mark.parametrize("mode", ["md", "table"])
def test_summary(cch, mode):
    rows = shown(cch.show_summary_report, 6, unit="G", mode=mode)
    assert rows == [row[:6] for row in published(KINDS)]


@pytest.mark.parametrize("mode", ["md", "table"])
def test_summary_with_all_columns(cch, mode):
    assert shown(cch.show_summary_report, 10, unit="G", mode=mode, columns=SummaryColumns.ALL) == published(KINDS)


def test_columns_by_name(cch, capsys):
    columns = ["name", "flops", "mread", "mwrite", "mrw", "output_shapes", "params"]
    cch.show_report(unit="G", mode="table", columns=columns)

    first, second, *_, total = cells(capsys.readouterr().out)
    assert first[:2] == ["Convolution2DFunction-1", "0.087"] and first[5] == "[(1, 64, 224, 224)]"
    assert first[6] == "kernel=3, stride=1, padding=1, dilation=1, groups=1"
    assert second[:2] == ["ReLU-1", "0.003"] and second[6] == ""
    assert total == ["total", "15.488", "0.623", "0.107", "0.729", "", ""]


@pytest.mark.parametrize(
    ("unit", "flops", "read"),
    [(None, 1, 1), ("K", 10**3, 2**10), ("M", 10**6, 2**20), ("G", 10**9, 2**30), ("T", 10**12, 2**40)],
)
@pytest.mark.parametrize("n_digits", [0, 3, 10, None])
def test_units_and_digits(cch, unit, flops, read, n_digits):
    stream = io.StringIO()
    cch.show_summary_report(stream, unit=unit, n_digits=n_digits)

    first = list(csv.reader(io.StringIO(stream.getvalue())))[1]
    digits = 10 if n_digits is None else n_digits
    assert float(first[2]) == round(15_346_630_656 / flops, digits)
    assert float(first[3]) == round(95_186_176 / read, digits)


def test_reports_as_dictionaries(cch):
    first, second = list(cch.layer_report.values())[:2]
    expected = {
        "name": "Convolution2DFunction-1",
        "type": "Convolution2DFunction",
        "flops": 86704128,
        "mread": 609280,
        "mwrite": 12845056,
        "mrw": 13454336,
        "input_shapes": [(1, 3, 224, 224), (64, 3, 3, 3), (64,)],
        "output_shapes": [(1, 64, 224, 224)],
    }
    assert {key: first[key] for key in expected} == expected
    assert first["mread%"] == pytest.approx(0.09112725854650683)
    assert first["flops%"] == pytest.approx(100 * 86704128 / 15_488_414_135)
    assert "traceback" in first
    assert (second["name"], second["flops"], second["params"]) == ("ReLU-1", 3211264, {})

    summary = cch.summary_report
    assert list(summary) == [row[0] for row in published(KINDS)]
    expected = {"flops": 15346630656, "n_layers": 13, "mread": 95186176, "mwrite": 54190080, "mrw": 149376256}
    assert {key: summary["Convolution2DFunction"][key] for key in expected} == expected
    assert summary["ReLU"]["mwrite%"] == pytest.approx(47.32513069498619)
    expected = {"name": "total", "type": "total", "n_layers": 38, "mread": 668603456, "mwrite": 114575168}
    assert {key: cch.total_report[key] for key in expected} == expected
    # the README has 15,488,423,327, which adds the biases of three linear layers a second time: 4096 + 4096 + 1000
    assert cch.total_report["flops"] == 15_488_423_327 - 9_192
    assert cch.ignored_layers == {}


def custom_calculator(func, in_data, **kwargs):
    assert isinstance(func, F.math.basic_math.Add) and kwargs["fma_1flop"] is True
    return (0, 0, 0)


def test_calculator_in_the_form_of_the_readme():
    """The layer is ``Add-1``, not ``Add-0`` as in the README."""
    x = chainer.Variable(np.ones((2, 3), np.float32))
    with (
        chainer.no_backprop_mode(),
        chainer.using_config("train", False),
        pytest.warns(CostWarning, match="replaces the built-in calculator of chainer::Add"),
        ComputationalCostHook(fma_1flop=True) as cch,
    ):
        cch.add_custom_cost_calculator(F.math.basic_math.Add, custom_calculator)
        x + x

    entry = cch.layer_report["Add-1"]
    assert (entry["flops"], entry["mread"], entry["mwrite"]) == (0, 0, 0)
