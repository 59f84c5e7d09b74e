import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from sympy import Symbol

from costcore import Report, hookimpl, plugins
from costcore.ir import Tensor
from costcore.plugins import Command
from tests.command_line import OWN, main
from tests.core import html_reports
from tests.core.given_costs import Step, dense, net

MODEL = """
from tests.core import toy_framework as _toy, toy_networks as _networks
from tests.core.toy_framework import Model
def make():
    return Model("toy::Double", "toy::Wave")
made = Model("toy::Double")
def broken():
    raise KeyError("weights")
def leaves():
    raise SystemExit(3)
nested = _networks.nested(_toy)
"""


@pytest.fixture
def model(tmp_path, toy):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_a_report(model, capsys):
    assert main([f"{model}:made", "--input", "2x3", "--format", "csv", "--unit", "none"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == ["Double-1,6,24,24,48", "total,6,24,24,48"]
    assert err == ""


def test_the_overview_is_the_default_and_calls_with_options_of_a_table(model, capsys, monkeypatch):
    """6 elements of float32 are doubled: 6 FLOPs, 24 bytes read and 24 written."""
    command = [f"{model}:made", "--input", "2x3"]
    assert main([*command, "--overview"]) == 0
    overview = capsys.readouterr().out
    assert [line.split(maxsplit=2) for line in overview.splitlines()[:3]] == [
        ["1", "call,", "complete"],
        ["FLOPs", "6", "a fused multiply-add is one FLOP"],
        ["MACs", "0"],
    ]
    assert main([*command, "--overview", "--format", "md"]) == 0
    assert "| Double | 1 | 6 |" in capsys.readouterr().out
    assert main(command) == 0  # the same in a pipe
    assert capsys.readouterr().out == overview
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(command) == 0
    assert capsys.readouterr().out == overview
    for options in (["--calls"], ["--top", "9"], ["--format", "table"], ["--columns", "name,flops"]):
        assert main([*command, *options]) == 0
        assert "Double-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "flops", "--top", "3"], "--columns, --top cannot be used with --overview"),
        (["--output", "net.csv"], "--output cannot be used with --overview"),
        (["--format", "csv"], "--overview: unknown format 'csv' (expected color, md, table)"),
        (["--calls"], "argument --calls: not allowed with argument --overview"),
    ],
)
def test_an_overview_has_no_options_of_tables(model, capsys, options, message):
    with pytest.raises(SystemExit) as left:
        main([f"{model}:made", "--input", "2x3", "--overview", *options])
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


def test_the_options_of_the_report(model, capsys):
    options = ["--summary", "--format", "md", "--unit", "K", "--columns", "type,flops,mread", "--digits", "1"]
    assert main([f"{model}:made", "--input", "1000x3", *options]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| Double | 3.0 | 11.7 |", "| total | 3.0 | 11.7 |"]
    assert main([f"{model}:made", "--input", "1x3", "--columns", "all", "--no-fma-1flop", "--layout", "free"]) == 0


def test_a_receptive_field_needs_an_input(model, capsys):
    """The toy framework has no operand ids, so that no call reads an input."""
    assert main([f"{model}:made", "--input", "2x3", "--receptive-field"]) == 1
    assert "no call reads an input of the model" in capsys.readouterr().err


def test_unknown_operators_are_reported_on_standard_error(model, capsys):
    assert main([f"{model}:make", "--input", "2x3"]) == 0
    assert "no calculator for 'toy::Wave'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("{}:broken", "KeyError: 'weights' at "),
        ("{}:leaves", "SystemExit: 3"),
        ("{}:nothing", "has no attribute 'nothing'; names in it are make, "),
        ("no_such_file.py:make", "no_such_file.py cannot be read: No such file or directory"),
        ("no.such.module:make", "--python-path"),
        ("{}:made.natives", "is not a supported model"),
    ],
)
def test_a_problem_with_the_model_is_a_sentence_and_exit_code_1(model, capsys, target, sentence):
    assert main([target.format(model), "--input", "2x3"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("costcore: ") and sentence in err and "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["model.txt"],
        ["x.py:make", "--unit", "Q"],
        ["x.py:make", "--columns", "colour"],
        ["x.py:make", "--digits", "11"],
        ["x.py:make", "--input", "1x-3"],
        ["x.py:make", "--input", "a=1x3:float31"],
        ["x.py:make", "--input", "a=[1,"],
        ["x.py:make", "--input", "a:=nine"],
        ["x.py:make", "--input", ":=9"],
        ["x.py:make", "--input", "a=1x3", "--input", "1x3"],
        ["x.py:make", "--input", "a=1x3", "--input", "a=1x3"],
        ["x.py:make", "--dim", "batch"],
        ["x.onnx", "--shape", "h"],
        ["x.onnx", "--shape", "h=1x"],
        ["x.onnx", "--shape", "h=a b"],
        ["x.onnx", "--shape", "h=8", "--shape", "h=8"],
        ["x.py:make", "--sort", "colour"],
        ["x.py:make", "--memory", "--sort", "name"],
        ["x.py:make", "--top", "0"],
        ["x.py:make", "--depth", "1"],
        ["x.py:make", "--tree", "--depth", "-1"],
        ["x.py:make", "--by", "op,colour"],
        ["x.py:make", "--by", ""],
        ["x.py:make", "--tree", "--summary"],
        ["x.py:make", "--output", "a.txt"],
        ["x.py:make", "--output", "a.csv", "--format", "csv"],
    ],
)
def test_a_problem_with_the_arguments_is_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_an_option_that_the_frontend_does_not_accept_is_exit_code_2(model, capsys):
    with pytest.raises(SystemExit) as left:
        main([f"{model}:made", "--input", "2x3", "--dim", "batch=8"])
    assert left.value.code == 2
    message = f"{model}:made: --dim cannot be used with the toy frontend; expected a file of type .onnx\n"
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(
    ("inputs", "read"),
    [
        ([], None),
        (["1x3x8x8"], (1, 3, 8, 8)),
        (["2x3", "4"], ((2, 3), (4,))),
        (["1x8k:int64", "batch,2K"], (Tensor((1, 8192), "int64"), ("batch", 2048))),
        (
            ["ids=1x128:int64", "n=[2,3]", "s=scalar", "m:=9", "c:=false", "x:0:=[1]"],
            {"ids": Tensor((1, 128), "int64"), "n": [2, 3], "s": (), "m": 9, "c": False, "x:0": [1]},
        ),
    ],
)
def test_inputs_are_shapes_typed_shapes_or_values(boxes, inputs, read):
    assert main(["a.box", *(word for text in inputs for word in ("--input", text))]) == 0
    assert boxes == [(read, {})]


def test_shapes_of_values_have_names_and_numbers(boxes):
    assert main(["a.box", *(w for text in ("h=batch,8", "/a/b=1x8", "s=8", "n=1x2k") for w in ("--shape", text))]) == 0
    assert boxes == [(None, {"shapes": {"h": ("batch", 8), "/a/b": (1, 8), "s": (8,), "n": (1, 2048)}})]


def test_the_python_path_is_extended_and_restored(model, monkeypatch):
    monkeypatch.delitem(sys.modules, "model", raising=False)  # a file of that name may have been run
    before = list(sys.path)
    assert main(["model:made", "--input", "2x3", "--python-path", str(model.parent)]) == 0
    assert sys.path == before
    sys.modules.pop("model", None)


def lines(capsys, *arguments):
    """The lines that a successful run prints."""
    assert main(list(arguments)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_the_views(model, capsys):
    arguments = [f"{model}:nested", "--input", "2x3", "--format", "csv", "--unit", "none"]
    assert lines(capsys, *arguments, "--tree", "--depth", "1", "--columns", "module,flops")[1:4] == [
        "total,72",
        "(own calls),6",
        "body,30",
    ]
    assert lines(capsys, *arguments, "--tree", "--depth", "1", "--columns", "flops")[1:3] == [
        "total,72",
        "(own calls),6",
    ]
    assert lines(capsys, *arguments, "--by", "op, phase", "--columns", "flops")[1:] == [
        "toy_dense,forward,54",
        "toy_double,forward,18",
        "total,,72",
    ]
    assert lines(capsys, *arguments, "--layers")[1].startswith('body.0,Dense-1,"(2, 3)","(2, 3)",9,24,36,18,')
    largest = ["Dense-1,18", "others,54", "total,72"]
    assert lines(capsys, *arguments, "--sort", "flops", "--top", "1", "--columns", "name,flops")[1:] == largest
    assert lines(capsys, *arguments, "--top", "1", "--columns", "name,flops")[1:] == largest


def test_the_first_rows_are_the_largest_by_what_is_shown(model, capsys):
    arguments = [f"{model}:nested", "--input", "2x3", "--format", "csv", "--unit", "none", "--top", "1"]
    by_flops = lines(capsys, *arguments, "--by", "op")
    assert by_flops[1].startswith("toy_dense,") and by_flops[2].startswith("others,")
    by_writes = lines(capsys, *arguments, "--by", "op", "--columns", "mwrite")
    assert by_writes == lines(capsys, *arguments, "--by", "op", "--columns", "mwrite", "--sort", "mwrite")
    by_name = lines(capsys, *arguments, "--by", "op", "--columns", "mwrite", "--sort", "op")
    assert by_name[1].startswith("toy_dense,")


def test_columns_given_more_than_once_are_joined(model, capsys):
    arguments = [f"{model}:made", "--input", "2x3", "--format", "csv", "--unit", "none"]
    assert lines(capsys, *arguments, "--columns", "name", "--columns", "macs, flops")[0] == "Layer name,MACs,FLOPs"
    assert lines(capsys, *arguments, "--columns", "default", "--columns", "flops,macs") == [
        "Layer name,FLOPs,MemRead B,MemWrite B,MemR+W B,MACs",
        "Double-1,6,24,24,48,0",
        "total,6,24,24,48,0",
    ]


def test_the_page_of_a_model_without_a_class_has_the_name_of_its_file(tmp_path, capsys):
    saved, page = tmp_path / "a.json", tmp_path / "page.html"
    html_reports.report([html_reports.call("gelu", "m", 5, 4, 4)]).to_json(saved)
    assert main([str(saved), "--output", str(page)]) == 0
    assert "<title>a.json</title>" in page.read_text(encoding="utf-8")
    html_reports.small().to_json(saved)
    assert main([str(saved), "--output", str(page)]) == 0
    assert "<title>Net</title>" in page.read_text(encoding="utf-8")
    assert capsys.readouterr().out == ""


def test_notes_on_regrouping_are_summarized(tmp_path, capsys):
    notes = ("regrouped as gelu: a, b", "something else", "regrouped as softmax: c", "regrouped as gelu: d, e: f")
    saved = tmp_path / "a.json"
    html_reports.report([html_reports.call("gelu", "m", 5, 4, 4)], notes=notes).to_json(saved)
    assert main([str(saved)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "note: something else",
        "note: regrouped 3 groups of nodes: gelu 2, softmax 1. To list the nodes, use --output report.json.",
    ]
    report = Report.from_json(saved)
    assert report.notes == ["something else", *(note for note in notes if note != "something else")]
    assert report.regrouped == [("gelu", ("a", "b")), ("softmax", ("c",)), ("gelu", ("d", "e: f"))]
    html_reports.report([html_reports.call("gelu", "m", 5, 4, 4)], notes=notes[:1]).to_json(saved)
    assert main([str(saved)]) == 0
    assert capsys.readouterr().err == "note: regrouped as gelu: a, b\n"


@pytest.mark.parametrize("view", [[], ["--summary"], ["--layers"], ["--tree"], ["--by", "op"]])
@pytest.mark.parametrize("columns", ["default", "percent", "all"])
def test_every_view_has_the_named_column_sets(model, capsys, view, columns):
    assert lines(capsys, f"{model}:nested", "--input", "2x3", *view, "--columns", columns)


def test_the_suffix_of_the_output_selects_the_format(model, capsys, tmp_path):
    arguments = [f"{model}:nested", "--input", "2x3", "--unit", "none"]
    for name in ("a.json", "a.csv", "a.md"):
        assert lines(capsys, *arguments, "--summary", "--output", str(tmp_path / name)) == []
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == "Dense,3,54,180,72,252"
    assert (tmp_path / "a.md").read_text().splitlines()[2] == "| Dense | 3 | 54 | 180 | 72 | 252 |"
    assert Report.from_json(tmp_path / "a.json").total_report["flops"] == 72


def test_a_saved_report_is_shown_as_its_model_would_be(model, capsys, tmp_path):
    saved = str(tmp_path / "a.json")
    arguments = [f"{model}:nested", "--input", "2x3"]
    assert main([*arguments, "--output", saved]) == 0
    assert lines(capsys, saved, "--tree") == lines(capsys, *arguments, "--tree")
    two = ["--no-fma-1flop", "--summary"]
    assert lines(capsys, saved, *two) == lines(capsys, *arguments, *two)
    with pytest.raises(SystemExit) as left:
        main([saved, "--input", "2x3"])
    assert left.value.code == 2
    assert f"{saved}: --input cannot be used with a saved report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "end"),
    [
        ("", 0, "total,n + 16,n + 16\n"),
        ("--no-fma-1flop", 0, "total,2*n + 32,n + 16\n"),
        ("--dim n=5", 0, "total,21,21\n"),
        ("--dim n=1k --unit none", 0, "total,1040,1040\n"),
        ("--dim n=past+5", 0, "total,past + 21,past + 21\n"),
        ("--dim m=5", 1, "saved.json: unknown symbolic dimension 'm' (expected n)\n"),
        ("--dim n=5 --dim n=6", 2, "error: --dim 'n' is given twice\n"),
        ("--dim n", 2, "error: --dim 'n' is invalid (expected NAME=N, such as batch=8, or NAME=past+new)\n"),
    ],
)
def test_sizes_of_a_saved_report_get_values(tmp_path, capsys, options, code, end):
    """16 multiply-adds, and n."""
    n, path = Symbol("n", integer=True, positive=True), str(tmp_path / "saved.json")
    net(dense("a"), Step("linear", "b", macs=n, fma=n)).to_json(path)
    try:
        assert main([path, "--columns", "name,flops,macs", "--format", "csv", *options.split()]) == code
    except SystemExit as left:
        assert left.code == code
    assert "".join(capsys.readouterr()).endswith(end)


def test_strict_is_exit_code_1_with_the_report(model, capsys):
    assert main([f"{model}:make", "--input", "2x3", "--strict"]) == 1
    out, err = capsys.readouterr()
    assert "1 call, partial" in out
    assert "unsupported: toy::Wave: 1 call, reads 24 B, writes 24 B" in out
    assert err.endswith("costcore: the report is partial, which is an error with --strict\n")
    assert main([f"{model}:made", "--input", "2x3", "--strict"]) == 0


def test_remarks_that_csv_cannot_hold_go_to_standard_error(model, capsys, tmp_path):
    for options in (["--format", "csv"], ["--output", str(tmp_path / "a.csv")]):
        assert main([f"{model}:make", "--input", "2x3", *options]) == 0
        out, err = capsys.readouterr()
        assert "partial" not in out
        assert (
            "partial: the totals do not include 1 call of 1 unsupported operator (Wave)\nunsupported: toy::Wave" in err
        )


def test_a_file_that_cannot_be_written_is_exit_code_1(model, capsys, tmp_path):
    assert main([f"{model}:made", "--input", "2x3", "--output", str(tmp_path / "missing" / "a.json")]) == 1
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize("name", OWN)
def test_every_command_exists_and_is_in_the_help(name, capsys):
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert f"costcore {name}" in capsys.readouterr().out


def test_a_command_receives_the_remaining_arguments_and_returns_its_exit_code(monkeypatch, capsys):
    received = []

    def run(argv):
        received.extend(argv)
        return 7

    monkeypatch.setitem(sys.modules, "toy_command", SimpleNamespace(main=run))
    toy = Command("toy", "CITY", "count the toys of a city", "toy_command:main")
    plugin = type("Toys", (), {"costcore_commands": hookimpl(lambda self: [toy])})()
    plugins.register(plugin)
    try:
        assert main(["toy", "a", "--b"]) == 7
        assert received == ["a", "--b"]
        main(["--help"])
        assert "of plug-ins:\n  costcore toy CITY              count the toys of a city\n" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main(["toys", "a.onnx"])
        assert capsys.readouterr().err.endswith("Did you mean 'toy'?\n")
    finally:
        plugins.unregister(plugin)
    with pytest.raises(SystemExit):
        main(["toy", "a.onnx"])


def run_module(*arguments, **environment):
    root = Path(__file__).parents[3]
    return subprocess.run(
        [sys.executable, "-m", "costcore", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_is_written_in_every_encoding(model, tmp_path, encoding):
    saved = str(tmp_path / "report.json")
    assert main([f"{model}:made", "--input", "2x3", "--output", saved]) == 0
    done = run_module(saved, "--tree", "--columns", "module,flops", "--format", "table", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| `- (outside of any module) |     6 |" in done.stdout
    chosen = run_module(saved, "--tree", "--format", "md", PYTHONIOENCODING=f"{encoding}:backslashreplace")
    assert "\\u251" in chosen.stdout


def test_python_m_costcore():
    done = run_module("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("costcore ")
    assert run_module("nonsense").returncode == 2
    assert run_module("missing.onnx").returncode == 1


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "xlsx", "tex"])
@pytest.mark.parametrize(
    "view",
    [
        [],
        ["--tree"],
        ["--summary"],
        ["--layers"],
        ["--by", "phase"],
        ["--by", "module", "--columns", "mrw"],
    ],
    ids=" ".join,
)
def test_every_view_is_written_as_a_picture_a_workbook_and_latex(model, tmp_path, capsys, view, suffix):
    pytest.importorskip({"xlsx": "openpyxl", "tex": "costcore"}.get(suffix, "matplotlib"))
    target = tmp_path / f"view.{suffix}"
    assert main([f"{model}:made", "--input", "2x3", *view, "--output", str(target)]) == 0
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "xlsx": b"PK", "tex": b"% \\usepackage{booktabs"}
    assert target.read_bytes().startswith(begins[suffix]) and capsys.readouterr().out == ""


BADGES = {
    "[total]\nflops = 6\n": ("#2b7a3f", "6 FLOPs"),
    "[total]\nflops = 5\n": ("#b3261e", "6 FLOPs, over budget"),
    "[total]\nmread = '1 KiB'\nmwrite = '1 KiB'\nflops = 9\n": ("#2b7a3f", "24 B read · 24 B written"),
    "[operator.toy_double]\nflops = 6\n": ("#2b7a3f", "0 MACs · 0 parameters"),
}


@pytest.mark.parametrize("budget", BADGES)
def test_a_badge_has_the_limited_totals_and_the_color_of_the_result(model, tmp_path, capsys, budget):
    (tmp_path / "budget.toml").write_text(budget)
    color, text = BADGES[budget]
    command = ["check", f"{model}:made", "--input", "2x3", "--budget", str(tmp_path / "budget.toml")]
    main([*command, "--badge", str(tmp_path / "badge.svg")])
    badge = (tmp_path / "badge.svg").read_text()
    assert color in badge and f"<title>cost: {text}</title>" in badge
    ElementTree.fromstring(badge)
    with pytest.raises(SystemExit):
        main([*command, "--badge", "badge.png"])
    assert "'badge.png' has an unknown suffix (expected one of .svg)" in capsys.readouterr().err
