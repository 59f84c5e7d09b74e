"""Reports with symbolic totals: names of dimensions, substitution, and every table and file."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from costcore import CostError, Report, compare, estimate
from tests.command_line import main

pytestmark = pytest.mark.frontend("onnx")


def product(*shape: int | str) -> Any:
    """Return a model that multiplies its input by an initializer with 3 columns and applies an activation."""
    from onnx import TensorProto, helper

    initializer = TensorProto(name="w", dims=(shape[-1], 3), data_type=TensorProto.FLOAT)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], name="/head/MatMul"), helper.make_node("Relu", ["h"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [initializer],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def convolution() -> Any:
    """Return a 3 x 3 convolution of one channel without padding, whose input has a symbolic height."""
    from onnx import TensorProto, helper

    initializer = TensorProto(name="w", dims=(1, 1, 3, 3), data_type=TensorProto.FLOAT)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, "h", 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [initializer],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def table(report: Report, **options: Any) -> str:
    stream = io.StringIO()
    report.show_report(stream, **options)
    return stream.getvalue()


ODD_NAMES = [
    "batch size",
    "2*n",
    "n + 1",
    "a/b",
    "0",
    "-1 * n",
    "it's",
    "<b>",
    "|",
    "`x`",
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "🚀",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_that_are_not_identifiers_are_quoted(name):
    report = estimate(product(name, 4))
    # n x 4 times 4 x 3: 12 products per row
    assert report.total_report["macs"].free_symbols.pop().name == name
    csv = report.to_csv(columns=["macs"])
    assert f"12*{name!r}" in csv.replace('""', '"')
    (shape,) = json.loads(report.to_chrome_trace())["traceEvents"][-1]["args"]["inputs"].splitlines()
    assert shape == f"x: float32[{name!r}, 3]"
    assert report.subs(**{name: 2}).total_report["macs"] == 24


@pytest.mark.parametrize("name", ["batch", *ODD_NAMES])
def test_every_table_and_file_accepts_symbolic_costs(name):
    report = estimate(product(name, "s", 4))
    for mode in ("csv", "md", "table", "color"):
        for unit in (None, "K", "auto", "autoaligned"):
            shown = table(report, mode=mode, unit=unit, columns=["name", "flops", "mrw", "flops%", "input_shapes"])
            assert "MatMul-1" in shown
            report.show_tree(io.StringIO(), mode=mode, unit=unit, sort="flops", top=1)
            report.show_layers(io.StringIO(), mode=mode, unit=unit, sort="madd", top=1)
            report.show_by("module", "op", ost=io.StringIO(), mode=mode, unit=unit, sort="mrw", top=1)
            report.show_summary_report(io.StringIO(), mode=mode, unit=unit, sort="flops", top=1)
    assert Report.from_json(report.to_json()) == report
    assert report.to_html() and report.to_markdown() and report.to_model_card()
    assert compare(report, report).equal
    with pytest.raises(CostError, match="Substitute its dimensions first") as caught:
        report.to_model_explorer()
    shown = str(caught.value).partition("report.subs(")[2]
    assert all(name in shown or repr(name) in shown for name in report.symbols)


def test_the_command_line_substitutes_dimensions(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    path.write_bytes(product("batch size", 4).SerializeToString())
    options = ["--summary", "--format", "csv", "--unit", "none", "--columns", "type,macs"]
    assert main([str(path), *options]) == 0
    assert "MatMul,12*'batch size'" in capsys.readouterr().out
    assert main([str(path), *options, "--dim", "batch size=2"]) == 0
    assert "MatMul,24" in capsys.readouterr().out


@pytest.fixture
def saved(tmp_path):
    """Return the path of a saved report of a product of ``n`` rows: 12 MACs and 3 comparisons per row."""
    path = tmp_path / "net.json"
    estimate(product("n", 4)).to_json(path)
    return str(path)


def test_the_command_line_substitutes_dimensions_of_saved_reports(saved, tmp_path, capsys):
    options = ["--format", "csv", "--unit", "none"]
    assert main([saved, "--dim", "n=2", *options, "--columns", "name,macs"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["MatMul-1,24", "Relu-1,0", "total,24"]
    assert main(["table", saved, "--dim", "n=2", *options]) == 0
    # 2 x 3 outputs: a product, 3 fused multiply-adds and a comparison each
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{saved},12,30,24,")
    assert main(["table", saved, "--dim", "n=2", "--no-fma-1flop", *options]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{saved},12,48,24,")
    budget = tmp_path / "budget.toml"
    budget.write_text("[total]\nmacs = 23\n")
    assert main(["check", saved, "--budget", str(budget), "--dim", "n=2"]) == 1
    assert "24" in capsys.readouterr().out
    numbers = tmp_path / "numbers.json"
    estimate(product(2, 4)).to_json(numbers)
    assert main(["diff", saved, str(numbers), "--dim", "n=2", "--exit-code"]) == 0
    assert "- MACs: equal, 24" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["check"], ["diff"]])
def test_an_unknown_dimension_of_a_saved_report_is_an_error_that_lists_its_dimensions(saved, command, tmp_path, capsys):
    budget = tmp_path / "budget.toml"
    budget.write_text("[total]\nmacs = 23\n")
    more = {"check": ["--budget", str(budget)], "diff": [saved]}.get("".join(command), [])
    assert main([*command, saved, *more, "--dim", "batch=2"]) == 1
    sentence = f"costcore: {saved}: unknown symbolic dimension 'batch' (expected n)\n"
    assert capsys.readouterr().err == sentence


def test_names_that_look_like_sums_are_names_in_every_text_and_come_back():
    from onnx import TensorProto, helper

    name = "past + new"
    values = [
        helper.make_tensor_value_info(v, TensorProto.FLOAT, (n, 4)) for v, n in (("x", name), ("h", name), ("y", None))
    ]
    nodes = [
        helper.make_node("Strange", ["x"], ["h"], domain="acme"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "graph", values[:1], values[2:], value_info=values[1:2])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    with pytest.warns(UserWarning, match="Strange"):
        report = estimate(helper.make_model(graph, opset_imports=opsets))
    # 4 float32 numbers a row are 16 bytes
    assert "reads 16*'past + new' B, writes 16*'past + new' B" in table(report, mode="md").replace("\\", "")
    assert "4*'past + new' FLOPs" in repr(report)
    for text in (table(report, unit=None, columns=["mread"]), report.to_csv(), report.to_markdown()):
        assert "past + new" in text and "past + new" not in text.replace("'past + new'", "")
    again = Report.from_json(report.to_json())
    assert again == report and table(again) == table(report)
    assert again.subs({name: 2}).total_report["mread"] == 32
