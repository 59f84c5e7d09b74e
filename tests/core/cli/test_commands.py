"""``costcore diff``, ``check`` and ``table`` on toy models."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import main
from tests.core import html_reports
from tests.core.given_costs import dense, net, relu

ROOT = Path(__file__).parents[3]

MODEL = """
from tests.core.toy_framework import Model, register_here
register_here()
small = Model("toy::Double")
large = Model("toy::Double", "toy::Double")
partial = Model("toy::Double", "toy::Wave")
def broken():
    raise KeyError("weights")
"""


@pytest.fixture
def model(tmp_path, toy):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.json"
    path.write_text(net(dense("a"), relu("b")).to_json())
    return path


@pytest.fixture
def budget(tmp_path):
    path = tmp_path / "budget.toml"
    path.write_text("[total]\nflops = 6\n")
    return path


def diff(*arguments):
    return main(["diff", *map(str, arguments)])


def check(*arguments):
    return main(["check", *map(str, arguments)])


def table(*arguments):
    return main(["table", *map(str, arguments)])


def test_a_diff_of_further_quantities(model, capsys):
    """6 products a call; the toy operator reads 2 x 3 and writes 2 x 3 numbers of four bytes, 48 in all."""
    columns = "flops_fma1,fused_mrw", "--columns", "n_groups"
    assert diff(f"{model}:small", f"{model}:large", "--input", "2x3", "--format", "json", "--columns", *columns) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert {key: (totals[key]["old"], totals[key]["new"]) for key in ("flops_fma1", "fused_mrw", "n_groups")} == {
        "flops_fma1": (6, 12),
        "fused_mrw": (48, 96),
        "n_groups": (1, 2),
    }
    with pytest.raises(SystemExit):
        diff(f"{model}:small", f"{model}:large", "--columns", "binds@l4")
    assert "column 'binds@l4' is text" in capsys.readouterr().err


def test_a_diff_of_two_models(model, capsys):
    assert diff(f"{model}:small", f"{model}:large", "--input", "2x3") == 0
    out, err = capsys.readouterr()
    assert "- FLOPs: 6 → 12 (+6, ×2.0000)" in out  # 2 × 3 products a call
    assert err == ""


def test_differences_set_the_exit_code_on_request_only(model, capsys):
    same = [f"{model}:small", f"{model}:small", "--input", "2x3", "--exit-code"]
    assert diff(*same) == 0
    assert diff(*same[:-1], "--input-new", "4x3") == 0
    assert diff(*same, "--input-new", "4x3") == 1
    assert "No call was added, removed or changed." in capsys.readouterr().out


def test_a_diff_as_json_and_markdown(model, capsys):
    both = [f"{model}:small", f"{model}:large", "--input", "2x3"]
    assert diff(*both, "--format", "json", "--by", "order") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["matched_by"] == "order"
    assert content["totals"]["flops"]["difference"] == 6
    assert diff(*both, "--format", "md", "--top", "1") == 0
    assert "… and 4 more rows; JSON has all of them" in capsys.readouterr().out


def test_saved_reports_are_compared(saved, tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text(net(dense("a"), relu("b"), fma_1flop=False).to_json())
    assert diff(saved, saved, "--exit-code") == 0
    assert "- FLOPs: equal, 20" in capsys.readouterr().out  # 16 fma + 4
    assert diff(saved, other) == 1
    assert "counts a fused multiply-add as one FLOP" in capsys.readouterr().err
    assert diff(saved, other, "--no-fma-1flop", "--exit-code") == 0
    assert "- FLOPs: equal, 36" in capsys.readouterr().out


def test_an_invalid_saved_report_is_exit_code_1(tmp_path, saved, capsys):
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    assert diff(saved, broken) == 1
    assert "broken.json is not a costcore.report/1 report" in capsys.readouterr().err
    assert diff(saved, tmp_path / "missing.json") == 1
    assert "missing.json cannot be read" in capsys.readouterr().err


def test_unknown_operators_are_reported_with_their_model(model, capsys):
    assert diff(f"{model}:small", f"{model}:partial", "--input", "2x3", "--format", "table") == 0
    out, err = capsys.readouterr()
    assert "partial is partial: not counted: 1 call of 1 unsupported operator (Wave)" in out
    assert f"costcore: {model}:partial: no calculator for 'toy::Wave'" in err


@pytest.mark.parametrize(
    "arguments",
    [["a.txt", "b.onnx"], ["a.onnx"], ["a.json", "b.json", "--top", "-1"], ["a.onnx", "b.onnx", "--dim", "batch"]],
)
def test_a_diff_with_wrong_arguments_is_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as left:
        diff(*arguments)
    assert left.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["{model}:large", "--input", "2x3"],
        ["{model}:large", "--input", "2x3", "--tree", "--columns", "macs"],
        ["time", "{model}:large", "--input", "2x3", "--device", "h100"],
        ["explain", "{model}:large", "12.0", "--input", "2x3"],
        ["conventions"],
    ],
)
def test_json_on_standard_output_is_that_of_a_file(model, tmp_path, capsys, command):
    arguments = [part.format(model=model) for part in command]
    assert main([*arguments, "--output", str(tmp_path / "written.json")]) == 0
    capsys.readouterr()
    assert main([*arguments, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "written.json").read_text())


def test_json_of_a_table_and_of_several_devices(model, tmp_path, capsys):
    assert main(["table", f"{model}:large", "--input", "2x3", "--columns", "flops", "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["rows"][0]["flops"] == 12
    several = ["time", f"{model}:large", "--input", "2x3", "--device", "h100,l4"]
    assert main([*several, "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert [row["device"] for row in table["rows"]] == ["h100-sxm5-80gb", "l4"]
    assert main([*several, "--output", str(tmp_path / "devices.html")]) == 0
    page = (tmp_path / "devices.html").read_text(encoding="utf-8")
    assert "h100-sxm5-80gb" in page and "lower bound on the device" in page


def test_a_model_within_its_budget(model, budget, capsys):
    assert check(f"{model}:small", "--budget", budget, "--input", "2x3") == 0
    assert capsys.readouterr().out == f"{model}:small: within {budget}\n"


def test_a_violation_is_one_line_and_exit_code_1(model, budget, capsys):
    assert check(f"{model}:large", "--budget", budget, "--input", "2x3") == 1
    assert capsys.readouterr().out == f"{model}:large: total: 12 FLOPs, limit 6, 6 over, 100.00 %\n"


def test_a_violation_in_markdown(model, budget, capsys):
    assert check(f"{model}:large", "--budget", budget, "--input", "2x3", "--format", "md") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"❌ `{model}:large` breaks `{budget}` 1×."
    assert lines[-1] == "| total | FLOPs | 12 | 6 | 6 |  |"
    assert check(f"{model}:small", "--budget", budget, "--input", "2x3", "--format", "md") == 0
    assert capsys.readouterr().out.startswith("✅ ")


def test_a_violation_as_an_annotation_of_github(model, budget, capsys):
    arguments = [f"{model}:large", "--budget", budget, "--input", "2x3", "--format", "github"]
    assert check(*arguments) == 1
    line = MODEL.splitlines().index('large = Model("toy::Double", "toy::Double")') + 1
    place = f"file={model},line={line},title=costcore"
    assert capsys.readouterr().out == f"::error {place}::total: 12 FLOPs, limit 6, 6 over, 100.00 %25\n"
    assert check(f"{model}:small", *arguments[1:]) == 0
    assert capsys.readouterr().out == f"{model}:small: within {budget}\n"
    assert check(f"{model}:partial", *arguments[1:]) == 0
    assert "::warning file=" in capsys.readouterr().out


def test_an_annotation_has_five_lines_and_the_log_the_others(model, tmp_path, capsys):
    budget = tmp_path / "many.toml"
    budget.write_text(
        "[total]\nflops = 1\nmread = 1\nmwrite = 1\nmrw = 1\n[operator.toy_double]\nflops = 1\nmread = 1\nmwrite = 1\n"
    )
    assert check(f"{model}:large", "--budget", budget, "--input", "2x3", "--format", "github") == 1
    annotation, *log = capsys.readouterr().out.splitlines()
    lines = annotation.split("%0A")
    assert lines[0].endswith("total: 12 FLOPs, limit 1, 11 over, 12 times the limit")
    assert (len(lines), lines[-1]) == (6, "and 2 more, which the log lists")
    assert [line.split(", ")[0] for line in log] == [
        f"{model}:large: operator toy_double: 48 bytes {what}" for what in ("read", "written")
    ]


def test_a_verdict_as_json(model, budget, capsys):
    assert check(f"{model}:large", "--budget", budget, "--input", "2x3", "--format", "json") == 1
    violation = {"where": "total", "metric": "flops", "value": 12, "limit": 6, "reason": "", "excess": 6}
    assert json.loads(capsys.readouterr().out) == {
        "schema": "costcore-check-1",
        "model": f"{model}:large",
        "budget": str(budget),
        "within": False,
        "status": "complete",
        "violations": [violation],
    }


def test_update_writes_the_baseline(model, budget, capsys):
    budget.write_text('baseline = "base.json"\nmax_increase = 0\n[total]\nmacs = "1K"\n')
    arguments = ["--budget", budget, "--input", "2x3"]
    assert check(f"{model}:small", *arguments) == 2
    assert "base.json cannot be read" in capsys.readouterr().err
    assert check(f"{model}:small", *arguments, "--update") == 0
    out, err = capsys.readouterr()
    assert err == f"{budget.parent / 'base.json'}: written, the baseline of {budget}\n"
    assert out == f"{model}:small: within {budget}\n"
    assert check(f"{model}:small", *arguments) == 0
    assert check(f"{model}:large", *arguments) == 1
    assert "12 FLOPs, limit 6 (baseline 6 + 0), 6 over" in capsys.readouterr().out
    assert check(f"{model}:large", *arguments, "--update") == 0  # the baseline is that of the larger model now
    assert check(f"{model}:large", *arguments) == 0


def test_update_keeps_limits_that_are_no_increases(model, budget):
    budget.write_text('baseline = "base.json"\nmax_increase = 0\n[total]\nflops = 6\n')
    assert check(f"{model}:large", "--budget", budget, "--input", "2x3", "--update") == 1


def test_update_needs_a_baseline(model, budget, capsys):
    assert check(f"{model}:small", "--budget", budget, "--input", "2x3", "--update") == 2
    assert '--update writes the baseline, but it names none: add baseline = "report.json"' in capsys.readouterr().err


def test_a_diff_as_a_comment(model, capsys):
    assert diff(f"{model}:small", f"{model}:large", "--input", "2x3", "--format", "comment") == 0
    assert capsys.readouterr().out.startswith("<!-- costcore diff -->\n**`")


def test_a_partial_report_is_reported_and_with_strict_a_violation(model, budget, capsys):
    arguments = [f"{model}:partial", "--budget", budget, "--input", "2x3"]
    assert check(*arguments) == 0
    message = "partial: not counted: 1 call of 1 unsupported operator (Wave)\n"
    assert f"{budget}\n{arguments[0]}: {message}" in capsys.readouterr().out
    assert check(*arguments, "--format", "md") == 0
    assert f"⚠️ {message}" in capsys.readouterr().out
    assert check(*arguments, "--strict") == 1
    assert "total: partial: not counted: 1 call of 1 unsupported operator (Wave)" in capsys.readouterr().out


def test_a_saved_report_is_checked(saved, budget, capsys):
    assert check(saved, "--budget", budget) == 1
    assert "20 FLOPs, limit 6" in capsys.readouterr().out


def test_a_malformed_budget_is_exit_code_2_with_its_line(model, budget, capsys):
    budget.write_text("[total]\n\nflop = 6\n")
    assert check(f"{model}:small", "--budget", budget, "--input", "2x3") == 2
    assert capsys.readouterr().err.startswith(
        f"costcore: {budget}, line 3: total: unknown key 'flop'. Did you mean 'flops'? "
    )
    assert check(f"{model}:small", "--budget", budget.parent / "none.toml") == 2


def test_a_model_that_fails_is_exit_code_1(model, budget, capsys):
    assert check(f"{model}:broken", "--budget", budget) == 1
    assert "KeyError: 'weights'" in capsys.readouterr().err


def test_a_table_of_models(model, capsys):
    assert table(f"{model}:small", f"{model}:large@4x3", "--input", "2x3", "--format", "csv", "--unit", "none") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Model,Params,FLOPs,MACs,MemRead B,MemWrite B,Activations B,Status",
        f"{model}:small,0,6,0,24,24,24,complete",
        f"{model}:large@4x3,0,24,0,96,96,96,complete",
    ]


def test_a_model_that_fails_has_a_row_and_does_not_affect_the_others(model, capsys):
    assert table(f"{model}:broken", f"{model}:partial", "--input", "2x3", "--format", "csv", "--unit", "none") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith(f"{model}:broken,,,,,,,")
    assert "KeyError: 'weights'" in out[1]
    assert out[2] == f"{model}:partial,0,6,0,24,24,24,partial: not counted: 1 call of 1 unsupported operator (Wave)"


@pytest.mark.parametrize("arguments", [[], ["a.txt"], ["a.onnx", "--jobs", "0"], ["a.onnx", "--digits", "11"]])
def test_a_table_with_wrong_arguments_is_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as left:
        table(*arguments)
    assert left.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["json", "md", "html"])
def test_a_comparison_is_written_to_a_file(model, capsys, tmp_path, suffix):
    both = [f"{model}:small", f"{model}:large", "--input", "2x3"]
    assert diff(*both, "--format", suffix) == 0
    shown = capsys.readouterr().out
    assert diff(*both, "--output", tmp_path / f"diff.{suffix}") == 0
    assert capsys.readouterr().out == ""
    written = (tmp_path / f"diff.{suffix}").read_text(encoding="utf-8")
    if suffix == "html":  # its heading is short, and it has the command
        assert "<h1><bdi>model.py:small → model.py:large</bdi></h1>" in written and "<code>costcore diff " in written
        written, shown = (text.partition("<main>")[2] for text in (written, shown))
    assert written == shown


def test_a_table_is_written_to_a_file(model, capsys, tmp_path):
    assert table(f"{model}:small", "--input", "2x3", "--format", "md") == 0
    shown = capsys.readouterr().out
    assert table(f"{model}:small", "--input", "2x3", "--output", tmp_path / "table.md") == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == shown


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--output", "x.txt"], "--output 'x.txt' has an unknown suffix (expected one of .html, .json, .md, "),
        (
            ["--output", "x.md", "--format", "md"],
            "--format cannot be combined with --output; the file suffix selects",
        ),
    ],
)
def test_the_suffix_of_the_output_selects_its_format(model, capsys, options, sentence):
    with pytest.raises(SystemExit) as left:
        diff(f"{model}:small", f"{model}:large", "--input", "2x3", *options)
    assert left.value.code == 2
    assert sentence in capsys.readouterr().err


COMPLETIONS = {
    "dev": {"devices"},
    "ch": {"check"},
    "devices cortex-m": {"cortex-m4-168", "cortex-m55-400", "cortex-m7-480"},
    "fit net.py:small rtx4": {"rtx4090"},
    "time net.py:small --device h100-s": {"h100-sxm5-80gb", "h100-sxm5-80gb-traces"},
    "net.py:small --columns flops,n_tr": {"flops,n_trainable"},
    "net.py:small --sort mac": {"macs"},
    "net.py:small --by mod": {"module"},
    "net.py:small --convention fv": {"fvcore"},
    "conventions fv": {"fvcore"},
    "net.py:small --no-fm": {"--no-fma-1flop"},
    "check net.py:small --bud": {"--budget"},
    "net.py:small --format md --unit au": {"auto", "autoaligned"},
    "table net.py:sm": {"small"},
    "ne": {"net.py"},
    "timm:resnet50 --output re": {"report.html"},
}
"""What may follow a command line, in a folder with ``net.py`` and ``report.html``."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_command_lines(tmp_path):
    pytest.importorskip("argcomplete")
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "report.html").touch()
    program = """
        costcore() { "$PYTHON" -m costcore "$@"; }
        eval "$(costcore completion bash)"
        while IFS= read -r line; do
            COMP_LINE="costcore $line" COMP_POINT=$((9 + ${#line})) COMP_TYPE=9 COMPREPLY=()
            _python_argcomplete costcore
            echo "${COMPREPLY[@]}"
        done
    """
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["bash", "-c", program],
        input="".join(f"{line}\n" for line in COMPLETIONS),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    found = dict(zip(COMPLETIONS, (set(line.split()) for line in ran.stdout.splitlines()), strict=True))
    assert found == COMPLETIONS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_the_code_of_each_shell(capsys, shell):
    pytest.importorskip("argcomplete")
    assert main(["completion", shell]) == 0
    assert "_ARGCOMPLETE" in capsys.readouterr().out.upper() or shell == "tcsh"


def test_completion_without_argcomplete_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 1
    assert "costcore completion needs argcomplete" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "code", "end"),
    [
        ("fit step.json 4KiB --context 0", 0, "weights in float32, gradients in float32"),
        ("fit step.json 2KiB --context 0", 1, "weights in float32, gradients in float32"),  # 2.75 KiB at the peak
        ("fit step.json 24GB --train", 2, "step.json: --train cannot be used with a saved report"),
        ("fit step.json 24GB --lora 8", 2, "step.json: --lora cannot be used with a saved report"),
        ("memory step.json", 2, "'step.json' is a saved report, and its batch size is fixed. Pass the model."),
        ("step.json --memory", 0, "kept for the backward pass: 512 B\na note"),
        ("step.json --memory --allocator cuda", 0, "2 MiB reserved in 1 segment; workspace of kernels is not included"),
        ("net.json --memory", 1, "Pass memory=True to estimate (PyTorch) or to ComputationalCostHook."),
        ("net.json --no-fold", 2, "--no-fold requires --tree"),
        ("net.json --mesh dp=2", 2, "net.json: --mesh cannot be used with a saved report"),
        ("train net.json --tokens 1e6 --device h100", 1, "save the report of a training step (backward=True)"),
        ("time net.json --device h100 --links tp=nvlink", 2, "Did you mean 'nvlink2'?"),
        ("profile none.json", 1, "none.json cannot be read: No such file or directory"),
        ("profile notes.txt", 1, "For a profile of ONNX Runtime, pass --model model.onnx"),
        ("profile net.json --top 3", 2, "--top requires --by"),
        ("calibrate --from-trace notes.txt --output c.toml", 1, "notes.txt is not a trace of torch.profiler"),
        ("calibrate --from-trace notes.txt --output c.txt", 2, "--output must end with .toml (got 'c.txt')"),
        ("devices l4 --device h100", 2, "--device cannot be combined with NAME"),
        ("table net.json --scatter-color macs", 2, "--scatter-color requires --scatter"),
        ("conformance model.py:broken", 1, "model.py:broken is not a mapping of names to functions (got function)"),
        (
            "model.py:small --calculator model.py:broken",
            2,
            "has no operator. Decorate it with @costcore.costs(…)",
        ),
        ("model.py:small --mesh dp=2", 2, "the processes, and how the model is distributed over them"),
    ],
)
def test_the_last_words_and_the_exit_code_of_commands(model, tmp_path, monkeypatch, capsys, line, code, end):
    monkeypatch.chdir(tmp_path)
    html_reports.step().to_json("step.json")
    net(dense("a"), framework="torch").to_json("net.json")
    Path("notes.txt").write_text("x")
    try:
        assert main(line.split()) == code
    except SystemExit as left:
        assert left.code == code
    assert "".join(capsys.readouterr()).endswith(f"{end}\n")
