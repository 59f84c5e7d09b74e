"""Arguments and files with too many brackets, digits or control characters."""

from __future__ import annotations

import csv
import io
import json
import stat

import pytest

from costcore import CostError, Report
from costcore.api.input_notation import parse_dims, parse_inputs, parse_shapes
from costcore.tables.renderers import to_csv
from costcore.text.amounts import parse_amount
from costcore.text.table import Table
from costcore.text.targets import save


def test_brackets_inside_one_another_are_a_short_message():
    with pytest.raises(ValueError, match=r"^--input 'x:=\[+… is nested too deeply \(expected") as error:
        parse_inputs(["x:=" + "[" * 100_000])
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "parse",
    [
        lambda digits: parse_inputs([f"x:=[{digits}]"]),
        lambda digits: parse_inputs([f"x=1x{digits}"]),
        lambda digits: parse_dims([f"n={digits}"]),
        lambda digits: parse_shapes([f"h=n,{digits}"]),
        lambda digits: parse_amount(f"{digits}G", "flops"),
    ],
)
def test_numbers_of_thousands_of_digits_are_refused_in_our_words(parse):
    with pytest.raises(ValueError, match=r"a number of 5000 digits is too large \(expected at most 4000\)") as error:
        parse("7" * 5000)
    assert "sys." not in str(error.value)
    assert len(str(error.value)) < 300
    parse("7" * 40)


def test_a_report_with_such_a_number_is_refused_in_our_words():
    with pytest.raises(CostError, match="a number of 5000 digits is too large") as error:
        Report.from_json('{"schema": ' + "7" * 5000 + "}")
    assert "sys." not in str(error.value)
    with pytest.raises(CostError, match="is not JSON: NaN is not a JSON number"):
        Report.from_json(json.dumps({"schema": float("nan")}))


def test_a_table_in_a_file_has_no_control_characters():
    """A terminal that prints the file obeys ESC and BEL; a bidirectional mark makes a name look like another."""
    names = ["a\x1b[2Jb", "bell\x07", "user\u202egnp.exe", "two\nlines", "tab\there", "=1+1", "\r=1"]
    text = to_csv(Table([("name", "")], [[name] for name in names], [False], [None] * len(names), -1))
    assert not set("\x1b\x07\u202e\r") & set(text)
    rows = [row[0] for row in csv.reader(io.StringIO(text))][1:]
    assert rows == ["a\\x1b[2Jb", "bell\\x07", "user\\u202egnp.exe", "two\nlines", "tab\there", "'=1+1", "'\n=1"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "report.json"
    save("new", path)
    usual = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    save("newer", path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("newer", mode)
    save("another", tmp_path / "other.json")
    assert stat.S_IMODE((tmp_path / "other.json").stat().st_mode) == usual
