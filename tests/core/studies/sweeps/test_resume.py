"""Files of rows: written as rows come, continued after a kill, and equal to those of an unbroken run."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from costcore import CostError, CostWarning, estimate, sweep, table
from tests.frameworks import optional

from .conftest import NETS, ROOT

GRID = {"depth": [1, 2, 3]}
FIGURES = ["flops", "macs"]


def run(nets, output, grid=GRID, **options):
    return sweep(f"{nets}:make", grid, (2, 3), columns=FIGURES, output=output, **options)


def read(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open() as file:
        return [*csv.DictReader(file)]


def test_json_lines_have_arguments_figures_and_a_key(nets, tmp_path):
    """A model of n doublings of 2 x 3 elements."""
    output = tmp_path / "rows.jsonl"
    run(nets, output)
    rows = read(output)
    keys = [row.pop("key") for row in rows]
    assert len({*keys}) == 3 and all(len(key) == 32 for key in keys)
    common = {"name": f"{nets}:make", "macs": 0, "status": "complete", "failed": False}
    assert rows == [{**common, "depth": depth, "flops": 6 * depth} for depth in (1, 2, 3)]


def test_csv_has_exact_numbers(nets, tmp_path):
    output = tmp_path / "rows.csv"
    sweep(f"{nets}:make", {"depth": [1, "x"]}, (10**8, 10**10), columns=FIGURES, output=output)
    good, bad = read(output)
    assert [*good] == ["name", "depth", "flops", "macs", "status", "failed", "key"]
    assert (good["flops"], good["failed"]) == (str(10**18), "False")
    assert (bad["depth"], bad["flops"], bad["failed"]) == ("x", "", "True")


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_only_what_is_missing_is_counted_again(nets, tmp_path, calls, suffix):
    output = tmp_path / f"rows.{suffix}"
    first = run(nets, output)
    content = output.read_bytes()
    assert calls() == ["1,1", "2,1", "3,1"]
    assert run(nets, output, resume=True) == first
    assert calls() == []
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # killed while the last row was written
    assert run(nets, output, resume=True) == first
    assert calls() == ["3,1"]
    assert output.read_bytes() == content


def test_a_longer_grid_keeps_the_rows_that_are_there(nets, tmp_path, calls):
    output = tmp_path / "rows.jsonl"
    run(nets, output, {"depth": [3, 1]})
    calls()
    result = run(nets, output, resume=True)
    assert calls() == ["2,1"]
    assert [row["depth"] for row in read(output)] == [1, 2, 3]
    assert [row.costs["flops"] for row in result.rows] == [6, 12, 18]


def test_without_resume_the_file_is_replaced(nets, tmp_path, calls):
    output = tmp_path / "rows.jsonl"
    run(nets, output)
    with pytest.warns(CostWarning, match="up to date and computed again: 1 row. .* renamed to rows.jsonl.bak"):
        run(nets, output, {"depth": [2]})
    assert [row["depth"] for row in read(output)] == [2]
    before = output.with_name("rows.jsonl.bak").read_text().splitlines()
    assert [json.loads(line)["depth"] for line in before] == [1, 2, 3]
    nets.write_text(nets.read_text() + "\n# changed\n")
    run(nets, output)  # nothing is up to date


@pytest.mark.parametrize(
    ("what", "n"), [("source", 3), ("import", 3), ("input", 3), ("option", 3), ("columns", 3), ("nothing", 0)]
)
def test_what_changes_a_row_counts_it_again(nets, tmp_path, calls, what, n):
    (tmp_path / "blocks.py").write_text("width = 1\n")
    nets.write_text("def make(depth):\n    import blocks\n    return made(depth)\n" + nets.read_text())
    nets.write_text(nets.read_text().replace("def make(depth=1", "def made(depth=1"))
    output = tmp_path / "rows.jsonl"
    options = {"columns": FIGURES, "output": output, "python_path": [str(tmp_path)]}
    sweep(f"{nets}:make", GRID, (2, 3), **options)
    calls()
    if what == "source":
        nets.write_text(nets.read_text() + "\n# changed\n")
    if what == "import":
        (tmp_path / "blocks.py").write_text("width = 2\n")
    options |= {"fma_1flop": False} if what == "option" else {}
    options |= {"columns": ["flops"]} if what == "columns" else {}
    sweep(f"{nets}:make", GRID, (2, 4) if what == "input" else (2, 3), resume=True, **options)
    assert len(calls()) == n


def test_another_version_counts_again(nets, tmp_path, calls, monkeypatch):
    run(nets, tmp_path / "rows.jsonl")
    calls()
    monkeypatch.setattr("costcore.studies.sweeps.table.__version__", "9.9")
    run(nets, tmp_path / "rows.jsonl", resume=True)
    assert len(calls()) == 3


def test_failed_rows_are_counted_again(nets, tmp_path, calls):
    output = tmp_path / "rows.jsonl"
    run(nets, output, {"depth": [1, "x"]})
    calls()
    run(nets, output, {"depth": [1, "x"]}, resume=True)
    assert calls() == ["x,1"]


def test_files_count_by_their_content(toy, tmp_path):
    report = tmp_path / "a.json"
    estimate(toy.Model("toy::Double"), (2, 3)).to_json(report)
    output = tmp_path / "rows.jsonl"
    assert table([str(report)], output=output).rows[0].costs["flops"] == 6
    assert table([str(report)], output=output, resume=True).rows[0].costs["flops"] == 6
    estimate(toy.Model("toy::Double"), (5, 3)).to_json(report)
    assert table([str(report)], output=output, resume=True).rows[0].costs["flops"] == 15


def test_objects_are_always_counted_again(toy, tmp_path):
    output = tmp_path / "rows.jsonl"
    table({"a": toy.Model("toy::Double")}, (2, 3), output=output)
    assert read(output)[0]["key"] == ""
    result = table({"a": toy.Model("toy::Double", "toy::Double")}, (2, 3), output=output, resume=True)
    assert result.rows[0].costs["flops"] == 12
    assert len(read(output)) == 1


@pytest.mark.frontend("onnx")
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_expressions_are_read_back(tmp_path, suffix):
    from onnx import TensorProto, helper, save

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "xy")
    relu = helper.make_node("Relu", ["x"], ["y"])
    save(helper.make_model(helper.make_graph([relu], "g", [x], [y])), tmp_path / "a.onnx")
    output = tmp_path / f"rows.{suffix}"
    first = table([str(tmp_path / "a.onnx")], columns=["flops"], output=output)
    again = table([str(tmp_path / "a.onnx")], columns=["flops"], output=output, resume=True)
    assert str(first.rows[0].costs["flops"]) == "8*batch"
    assert first == again


FOREIGN = [
    *(
        '{"a": 1}\n',
        "no json\n",
        "[1]\n",
        '{"a": 1}',
        "no json",
        "[1]",
        " ",
        "my only note",
        "[" * 5000,
        "[" * 5000 + "\n",
    ),
    *('{"name": "package", "version": "1.0"}', '{"name":"package"', '{"name": "package"}', '{"name": nothing', "name"),
    "\ufeffname,status",
]


@pytest.mark.parametrize("content", FOREIGN)
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_file_of_something_else_is_not_replaced_by_resume(nets, tmp_path, suffix, content):
    if suffix == "csv" and content == "name":
        content = "a,b"
    output = tmp_path / f"rows.{suffix}"
    output.write_text(content, encoding="utf-8")
    with pytest.raises(CostError, match="does not contain rows that costcore wrote"):
        run(nets, output, resume=True)
    assert output.read_text() == content


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_run_that_ended_in_its_first_line_goes_on(nets, tmp_path, suffix):
    output = tmp_path / f"rows.{suffix}"
    run(nets, output)
    first = output.read_text(encoding="utf-8").splitlines()[0]
    for end in (0, 1, len(first) // 2, len(first) - 1, len(first)):
        output.write_text(first[:end], encoding="utf-8")
        assert len(run(nets, output, {"depth": [1]}, resume=True).rows) == 1


def test_a_csv_file_of_something_else_is_not_replaced_by_resume(nets, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(CostError, match="does not have the columns name, status"):
        run(nets, tmp_path / "rows.csv", resume=True)


@pytest.mark.parametrize(
    ("output", "grid", "message"),
    [("rows.txt", GRID, "unknown suffix"), ("rows.csv", {"flops": [1]}, "argument 'flops' has the name of a column")],
)
def test_wrong_files(nets, tmp_path, output, grid, message):
    with pytest.raises(ValueError, match=message):
        run(nets, tmp_path / output, grid)


def test_a_folder_that_is_missing_is_an_error_before_anything_is_counted(nets, tmp_path, calls):
    with pytest.raises(OSError, match=r"absent.rows\.jsonl cannot be written"):
        run(nets, tmp_path / "absent" / "rows.jsonl")
    assert calls() == []


def test_an_interrupted_table_has_its_rows_in_the_file(nets, tmp_path, monkeypatch):
    output, formats = tmp_path / "rows.jsonl", sys.modules["costcore.studies.sweeps.rows"].FORMATS
    seen, add = [], formats[".jsonl"].line

    def interrupted(record):
        seen.append(record)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return add(record)

    monkeypatch.setitem(formats, ".jsonl", formats[".jsonl"]._replace(line=interrupted))
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 models") as error:
        run(nets, output)
    assert len(error.value.table.rows) == 3
    assert [row["depth"] for row in read(output)] == [1, 2]


SLOW = {"depth": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_killed_run_loses_at_most_the_rows_in_flight(toy, tmp_path, calls, jobs):
    """SIGKILL after at least two rows; the resumed run counts the others, and the file is that of an unbroken run."""
    nets, output, whole = tmp_path / "nets.py", tmp_path / "rows.jsonl", tmp_path / "whole.jsonl"
    nets.write_text(NETS.format(root=ROOT, calls=str(tmp_path / "calls.txt"), seconds=0.3))
    code = f"from costcore import sweep; sweep({f'{nets}:make'!r}, {SLOW}, (2, 3), columns={FIGURES}, "
    code += f"output={str(output)!r}, jobs={jobs})"
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": ROOT})
    while not output.exists() or output.read_bytes().count(b"\n") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    there = output.read_bytes().count(b"\n")
    started = len(calls())
    assert 2 <= there < 6 and started - there <= (jobs or 1) * 2
    nets_before = run(nets, output, SLOW, resume=True, jobs=jobs)
    assert len(calls()) == 6 - there
    assert run(nets, whole, SLOW) == nets_before
    assert output.read_bytes() == whole.read_bytes()


def test_parquet(nets, tmp_path, calls):
    read_table = optional("pyarrow.parquet").read_table

    output = tmp_path / "rows.parquet"
    first = run(nets, output)
    assert read_table(output).to_pydict()["flops"] == [6, 12, 18]
    assert [path.name for path in tmp_path.iterdir() if "rows" in path.name] == ["rows.parquet"]
    calls()
    assert run(nets, output, resume=True) == first
    assert calls() == []


def test_parquet_goes_on_with_the_rows_of_a_killed_run(nets, tmp_path, calls):
    optional("pyarrow")
    run(nets, tmp_path / "rows.jsonl")
    (tmp_path / "rows.jsonl").rename(tmp_path / "rows.parquet.jsonl")
    calls()
    run(nets, tmp_path / "rows.parquet", {"depth": [1, 2, 3, 4]}, resume=True)
    assert calls() == ["4,1"]


def test_parquet_needs_pyarrow(nets, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CostError, match=r"needs pyarrow.*pip install pyarrow"):
        run(nets, tmp_path / "rows.parquet")


def test_the_folder_of_a_test_is_not_left_with_temporary_files(nets, tmp_path):
    run(nets, tmp_path / "rows.jsonl")
    assert not [path for path in Path(tmp_path).iterdir() if path.suffix == ".tmp"]


TAMPERED = [
    [],
    {},
    [[]],
    True,
    "9" * 5000,
    "-" + "9" * 5000,
    10**4000,
    1e999,
    "1e999",
    "2**2**2**99",
    "(" * 5000,
    "x" * 200_000,
]


@pytest.mark.parametrize("value", TAMPERED, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("name", ["flops", "key", "name", "status"])
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_value_that_costcore_does_not_write_is_refused_or_not_used(nets, tmp_path, suffix, name, value):
    """What is used can be shown; nothing is run, and nothing takes longer than a second."""
    output = tmp_path / f"rows.{suffix}"
    run(nets, output)
    rows = read(output)
    rows[0][name] = value
    if suffix == "jsonl":
        with no_limit_of_digits():
            output.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with output.open("w", newline="", encoding="utf-8") as file, no_limit_of_digits():
            writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    start = time.monotonic()
    try:
        found = run(nets, output, resume=True)
        assert str(found) and found.to_markdown()
    except CostError as error:
        assert str(output) in str(error) and len(str(error)) < 500 + len(str(output))
    assert time.monotonic() - start < 2


@contextmanager
def no_limit_of_digits():
    before = sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else 0
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)
