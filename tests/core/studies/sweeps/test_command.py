"""``costcore table`` with grids, limits and files of rows."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.command_line import main
from tests.frameworks import optional

from .conftest import NETS, ROOT


def run(*arguments):
    return main(["table", *map(str, arguments), "--input", "2x3", "--format", "csv", "--unit", "none"])


def test_a_grid_with_columns(nets, capsys):
    assert run(f"{nets}:make(depth=[1, 2], width=3)", f"{nets}:small", "--columns", "flops, mrw") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Model,depth,width,FLOPs,MemR+W B,Status",
        f"{nets}:make,1,3,18,144,complete",
        f"{nets}:make,2,3,36,288,complete",
        f"{nets}:small,,,6,48,complete",
    ]


def test_rows_have_names(nets, monkeypatch, capsys):
    """``NAME=`` before a model; a file whose name has an equals sign is a file."""
    nets.with_name("a=b.py").write_text(nets.read_text())
    monkeypatch.chdir(nets.parent)
    models = ["one=nets.py:make", "more=nets.py:make(depth=[2, 3])", "wide=nets.py:make@4x3", "a=b.py:small"]
    assert run(*models, "--columns", "flops") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Model,depth,FLOPs,Status",
        "one,,6,complete",  # 2 x 3 elements
        "more,2,12,complete",
        "more,3,18,complete",
        "wide,,12,complete",
        "a=b.py:small,,6,complete",
    ]


def test_code_that_ends_its_process_has_a_row_without_any_option(nets, capsys):
    assert run(f"{nets}:dies", f"{nets}:small", "--columns", "flops") == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"{nets}:dies,,failed: the process of this model ended: exit code 9",
        f"{nets}:small,6,complete",
    ]


def test_a_file_of_rows_is_continued(nets, calls, tmp_path, capsys):
    output = tmp_path / "rows.jsonl"
    options = ["--input", "2x3", "--columns", "flops", "--output", str(output), "--resume"]
    assert main(["table", f"{nets}:make(depth=[1, 'x'])", *options]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "nets.py:make(depth='x') failed: TypeError" in line and line.count("failed: ") == 1
    calls()
    assert main(["table", f"{nets}:make(depth=[1, 2])", *options]) == 0
    assert calls() == ["2,1"]
    assert [json.loads(line)["flops"] for line in output.read_text().splitlines()] == [6, 12]


def test_an_image(nets, tmp_path):
    optional("matplotlib")
    image = tmp_path / "a.svg"
    drawn = ["--columns", "flops", "--scatter", "depth", "flops", image]
    assert run(f"{nets}:make(depth=[1, 2])", *drawn, "--scatter-color", "depth") == 0
    assert image.read_text().startswith("<?xml")


def test_a_page_has_the_front_and_the_command(nets, tmp_path):
    page = tmp_path / "a.html"
    front = ["--input", "2x3", "--columns", "flops,mrw", "--pareto", "flops,mrw", "--output", str(page)]
    assert main(["table", f"{nets}:make(depth=[1, 2, 3])", *front]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<code>costcore table " in text and text.count("<circle class='best'") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.py:make(w=exit())"], "expected arguments with literals"),
        (["a.py:make(w=[])"], "w has no values"),
        (["a.onnx(w=1)"], "cannot sweep a file: pass module:function"),
        (["a.onnx", "--columns", "flop"], "unknown column 'flop'"),
        (["a.onnx", "--timeout", "0"], "timeout must be a positive number"),
        (["a.onnx", "--memory-limit", "much"], "memory_limit must be"),
        (["a.onnx", "--resume"], "resume"),
        (["a.onnx", "--scatter-color", "flops"], "--scatter-color requires --scatter"),
        (["a.onnx", "--output", "rows.md", "--resume"], "resume"),
    ],
)
def test_usage_errors(arguments, message, capsys):
    with pytest.raises(SystemExit) as left:
        main(["table", *arguments])
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_control_c_ends_with_what_was_done_written(tmp_path, calls):
    nets, output = tmp_path / "nets.py", tmp_path / "rows.jsonl"
    nets.write_text(NETS.format(root=ROOT, calls=str(tmp_path / "calls.txt"), seconds=0.3))
    command = [sys.executable, "-m", "costcore", "table", f"{nets}:make(depth=[1,2,3,4,5,6,7,8])", "--input", "2x3"]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.Popen(
        [*command, "--output", output],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it
    )
    while not output.exists() or output.read_bytes().count(b"\n") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    depths = [json.loads(line)["depth"] for line in output.read_text().splitlines()]
    assert depths == [*range(1, len(depths) + 1)] and 2 <= len(depths) < 8
    assert f"costcore: interrupted after {len(depths)} models; --resume continues {output}" in errors
    assert "Traceback" not in errors


def test_the_pareto_front(nets, capsys):
    """Of widths 3 and 1 with depths 1 and 2: 18, 36, 6 and 12 FLOPs; the least FLOPs, and per depth the least."""
    grid = f"{nets}:make(depth=[1, 2], width=[3, 1])"
    assert run(grid, "--columns", "flops", "--pareto", "flops") == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(rows) == 1
    assert run(grid, "--columns", "flops", "--pareto=-depth,flops") == 0
    title, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("Model,depth,width,FLOPs")
    assert [row.split(",")[1:3] for row in rows] == [["1", "1"], ["2", "1"]]
    with pytest.raises(SystemExit) as left:
        run(grid, "--pareto", "nothing")
    assert left.value.code == 2
    assert "unknown column 'nothing'" in capsys.readouterr().err
