"""Arguments and files with too many brackets, digits or control characters."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import stat
from pathlib import Path

import pytest

from costcore import CostError, Report, check
from tests.command_line import main
from tests.core.given_costs import dense, net, relu


def refused(capsys, *arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    *_, message = capsys.readouterr().err.splitlines()
    assert "sys." not in message and len(message) < 1000
    return message


def test_brackets_inside_one_another_are_a_short_message(boxes, capsys):
    message = refused(capsys, "a.box", "--input", "x:=" + "[" * 100_000)
    assert re.search(r"--input 'x:=\[+… is nested too deeply \(expected", message)


@pytest.mark.parametrize("words", ["--input x:=[{}]", "--input x=1x{}", "--dim n={}", "--shape h=n,{}"])
def test_numbers_of_thousands_of_digits_are_refused_in_our_words(words, boxes, capsys):
    message = refused(capsys, "a.box", *words.format("7" * 5000).split())
    assert "a number of 5000 digits is too large (expected at most 4000)" in message
    assert main(["a.box", *words.format("7" * 40).split()]) == 0


def test_a_limit_of_thousands_of_digits_is_refused_in_our_words():
    with pytest.raises(CostError, match=r"a number of 5000 digits is too large \(expected at most 4000\)"):
        check(net(dense("a")), {"total": {"flops": "7" * 5000 + "G"}})


def test_a_report_with_such_a_number_is_refused_in_our_words():
    with pytest.raises(CostError, match="a number of 5000 digits is too large") as error:
        Report.from_json('{"schema": ' + "7" * 5000 + "}")
    assert "sys." not in str(error.value)
    with pytest.raises(CostError, match="is not JSON: NaN is not a JSON number"):
        Report.from_json(json.dumps({"schema": float("nan")}))


def test_a_table_in_a_file_has_no_control_characters():
    """A terminal that prints the file obeys ESC and BEL; a bidirectional mark makes a name look like another."""
    names = ["a\x1b[2Jb", "bell\x07", "user\u202egnp.exe", "two\nlines", "tab\there", "=1+1", "\r=1"]
    out = io.StringIO()
    net(*(relu(name) for name in names)).show_by("module", ost=out, mode="csv", columns=["n_layers"])
    assert not set("\x1b\x07\u202e\r") & set(out.getvalue())
    rows = [row[0] for row in csv.reader(io.StringIO(out.getvalue()))][1:-1]
    assert rows == ["a\\x1b[2Jb", "bell\\x07", "user\\u202egnp.exe", "two\\nlines", "tab\there", "'=1+1", "'\\n=1"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "report.json"
    net(dense("a")).to_json(path)
    usual = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    text = net(dense("b")).to_json(path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (text, mode)
    net(dense("a")).to_json(tmp_path / "other.json")
    assert stat.S_IMODE((tmp_path / "other.json").stat().st_mode) == usual


HOSTILE_NAMES = [
    "x\n::error::pwned",
    "x\r::error::pwned",
    "\u2028::error::pwned",
    "::error file=net.py::pwned",
    " \t::stop-commands::pwned",
    "x ##[add-mask]pwned",
    "x##vso[task.setvariable variable=PATH]pwned",
    "x\ud800",
]
"""Names of modules that a runner of GitHub Actions or Azure Pipelines would read as commands, and one of no text."""

IN_FORMATS = [
    *(
        ["REPORT", *view, "--format", each]
        for view in ([], ["--by", "module"], ["--tree"])
        for each in ("csv", "md", "table")
    ),
    ["REPORT", "--by", "module"],
    *(["check", "REPORT", "--budget", "budget.toml", "--format", each] for each in ("text", "md", "json", "github")),
    *(["diff", "base.json", "REPORT", "--format", each] for each in ("comment", "json", "md", "table")),
    ["diff", "REPORT", "base.json"],
    ["table", "REPORT", "--format", "csv"],
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_no_name_is_a_command_of_a_runner(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net(dense("a.b"), relu("c")).to_json("base.json")
    Path("budget.toml").write_text('[total]\nflops = "1"\n[module."*"]\nflops = "1"\n', encoding="utf-8")
    in_json = json.dumps(name)[1:-1]
    text = Path("base.json").read_text(encoding="utf-8")
    assert "a.b" in text
    Path("report.json").write_text(text.replace("a.b", in_json).replace('"c"', f'"{in_json}"'), encoding="utf-8")
    for arguments in IN_FORMATS:
        words = ["report.json" if each == "REPORT" else each for each in arguments]
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict", newline="\n")
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(words) == (1 if words[0] == "check" else 0), (words, err.getvalue())
        out.flush()
        said = out.buffer.getvalue().decode("utf-8")
        ours = "github" in words
        for line in re.split("[\r\n]", said + "\n" + err.getvalue()):
            command = re.match(r"\s*::(\S+)", line)
            assert command is None or (ours and line.startswith("::error file=report.json,title=costcore::")), line
            assert not re.search(r"##(vso)?\[", line), line
        if words[-1] == "json":
            json.loads(said)
